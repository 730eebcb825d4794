"""A call that was made in a private runtime, and what can be done to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.tools import CallState, CallStatus, ToolProgressReport
from runtime_actors.simulator.agent import FINAL

if TYPE_CHECKING:
    from runtime_actors.authoring.runtime import PrivateRuntime

_WAIT_S: Final = 15.0
_LOOK_S: Final = 0.02


class NotAsWanted(AssertionError):
    """A call did not get where it was wanted: says where it is."""

    def __init__(self, wanted: str, state: CallState) -> None:
        said = f"call {state.call_id} of {state.tool_id} is {state.status}, and not {wanted}"
        if state.failure is not None:
            said += f": {state.failure.code}: {state.failure.message}"
        super().__init__(said)
        self.state = state


class Call:
    """Everything is read from the runtime when it is asked for; kills may come in between."""

    def __init__(self, runtime: PrivateRuntime, conversation: str, call_id: str) -> None:
        self._runtime = runtime
        self.conversation = conversation
        self.call_id = call_id

    def state(self) -> CallState:
        """As it is now."""
        return self._runtime.agent.get(self.conversation, self.call_id, timeout_s=30.0).call

    def progress(self) -> ToolProgressReport | None:
        """The newest report of the app: `percent`, `note` and `data`."""
        return self.state().progress

    def results(self) -> int:
        """How many final results the agent was given: one, once it has ended."""
        known = self._runtime.agent.calls[self.conversation, self.call_id]
        self._runtime.agent.settle(known, timeout_s=5.0)
        return len(known.results)

    def wait(self, wanted: Callable[[CallState], bool], what: str, timeout_s: float = _WAIT_S) -> CallState:
        """Wait until its state is as wanted; `what` says so in words.

        Raises:
            NotAsWanted: It is not in time.

        """
        deadline = time.monotonic() + timeout_s
        while not wanted(state := self.state()):
            if time.monotonic() > deadline:
                raise NotAsWanted(what, state)
            self._runtime.agent.pump(_LOOK_S)
        return state

    def running(self, timeout_s: float = _WAIT_S) -> CallState:
        """Wait until the app has taken it over.

        Raises:
            NotAsWanted: It ended instead, or nothing happens.

        """
        state = self.wait(lambda one: one.status is CallStatus.RUNNING or is_final(one), "running", timeout_s)
        if is_final(state):
            raise NotAsWanted("running", state)
        return state

    def ended(self, timeout_s: float = _WAIT_S) -> CallState:
        """Wait until it has ended, however it did.

        Raises:
            NotAsWanted: It has not.

        """
        return self.wait(is_final, "over", timeout_s)

    def result(self, timeout_s: float = _WAIT_S) -> JsonObject:
        """Wait for its result.

        Raises:
            NotAsWanted: It did not complete.

        """
        state = self.ended(timeout_s)
        if state.status is not CallStatus.COMPLETED or state.result is None:
            raise NotAsWanted("completed", state)
        return state.result

    def cancel(self, reason: str | None = None) -> CallState:
        """Say that its result is wanted no longer; the app has the last word for a while."""
        return self._runtime.agent.cancel(self.conversation, self.call_id, reason=reason, timeout_s=30.0).call

    def kill_worker(self) -> None:
        """SIGKILL to the app's process in this conversation; the runtime starts the next one."""
        self._runtime.kill_worker(self.conversation)

    def kill_daemon(self) -> None:
        """SIGKILL to the daemon, with which all workers end; returns once the next one serves."""
        self._runtime.kill_daemon()

    def survives(self) -> None:
        """Kill the app's process, then the daemon; after each the call must be in the app's hands again, or over.

        Raises:
            NotAsWanted: It is not.
            TooLong: Nobody serves it again.

        """
        for kill in (self.kill_worker, self.kill_daemon):
            before = self.state()
            kill()
            self._runtime.wait_for("the call to be served again", lambda: is_final(self.state()) or self._is_served())
            if before.status is CallStatus.RUNNING and not is_final(self.state()):
                self.running()

    def _is_served(self) -> bool:
        return self._runtime.process(self.conversation) is not None


def is_final(state: CallState) -> bool:
    return state.status in FINAL
