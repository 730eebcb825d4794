"""The tools of an app under trial: what they are called with, and how one call is judged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from runtime_actors.authoring import promises as p
from runtime_actors.authoring.calls import Call, NotAsWanted, is_final
from runtime_actors.authoring.promises import Promise
from runtime_actors.authoring.runtime import PrivateRuntime, TooLong
from runtime_actors.authoring.values import NoValue, maximal, minimal
from runtime_actors.client import Refused
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import CallState, CallStatus

_TAKEN_OVER_S: Final = 10.0
_LINGER_S: Final = 1.0
"""A call that was taken over and has not ended within this stays open."""
_AGAIN_S: Final = 15.0
_RAISED: Final = "app.unhandled_exception"
_BAD_RESULT: Final = "ResultRefused"
_BAD_OUTPUT: Final = "tool_output_invalid"
_NO_ANSWER: Final = "cancel_grace_passed"
_CRASHED: Final = "app_crashed"
_UNKNOWN: Final = "outcome_unknown"
_SHOWN: Final = 120
_MOST_OPEN: Final = 12
_SILENT: Final = "not_responding"
_OPENS: Final = frozenset({"launch", "foreground", "direct", "interactive"})
_STAYS: Final = frozenset({"direct", "interactive"})
"""An instance that was opened so stays when the call ends."""


@dataclass(slots=True)
class Case:
    """A tool and one input for it."""

    tool_id: str
    given: JsonObject
    by_author: bool
    """Given by the author and not generated: then the call must not fail."""
    stays_open: bool = False
    """Its call was taken over, and did not end by itself."""
    tame: bool = False
    """Nothing was wrong with its call, so it is good for further trials."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What was seen of a tool, and the promise that this breaks, if it does."""

    tool_id: str
    promise: Promise | None
    detail: str


class Tools:
    """Makes calls, each in a conversation of its own, and judges what becomes of them."""

    def __init__(self, runtime: PrivateRuntime, given: Mapping[str, list[JsonObject]]) -> None:
        self._runtime = runtime
        self.without_input: Final[list[str]] = []
        self.cases: Final[list[Case]] = []
        for descriptor in runtime.app.manifest.tools:
            inputs = given.get(descriptor.id) or self._generated(descriptor.id, descriptor.input_schema)
            self.cases.extend(Case(descriptor.id, one, by_author=descriptor.id in given) for one in inputs)
        handling = {tool.id: tool.handling for tool in runtime.app.manifest.tools}
        self.launches: Final = {name for name, how in handling.items() if how in {"launch", "interactive"}}
        self.opening: Final = [case for case in self.cases if handling[case.tool_id] in _OPENS]
        self._handling = handling
        self._left_open = 0

    def _generated(self, tool_id: str, schema: JsonObject) -> list[JsonObject]:
        try:
            least, most = minimal(schema), maximal(schema)
        except NoValue:
            self.without_input.append(tool_id)
            return []
        return [least] if least == most else [least, most]

    def each_once(self) -> Iterator[Case]:
        """One tame case of each tool that has one, and of those one whose call stays open, if any does."""
        best: dict[str, Case] = {}
        for case in self.cases:
            known = best.get(case.tool_id)
            if case.tame and (known is None or (case.stays_open and not known.stays_open)):
                best[case.tool_id] = case
        for case in best.values():
            self.tidy()
            yield case

    def tidy(self) -> None:
        """Close what earlier trials left open, before it is so much that new processes have to wait."""
        if self._left_open >= _MOST_OPEN:
            self._runtime.close_all()
            self._left_open = 0

    # --- making calls ---

    def make(self, case: Case) -> Call | None:
        """A call in a new conversation; None for an operation if no other call leaves an instance open.

        Raises:
            Refused: The runtime let it not in.

        """
        self._left_open += 1
        if self._handling[case.tool_id] in _OPENS:
            return self._runtime.call(case.tool_id, case.given, self._runtime.new_conversation())
        opened = self.open_instance()
        return self._runtime.call(case.tool_id, case.given, opened.conversation) if opened else None

    def open_instance(self) -> Call | None:
        """A call in a new conversation in which a process of the app waits then; None if no call leaves one."""
        for case in sorted(self.opening, key=lambda one: (not one.stays_open, not one.tame)):
            self._left_open += 1
            try:
                call = self._runtime.call(case.tool_id, case.given, self._runtime.new_conversation())
            except Refused:
                continue
            state = self.settle(case, call)
            stays = not is_final(state) or self._handling[case.tool_id] in _STAYS
            if stays and self._runtime.process(call.conversation) is not None:
                return call
        return None

    def settle(self, case: Case, call: Call) -> CallState:
        """Its state once it has ended, or was taken over and stays open, or nothing happened in time."""
        try:
            state = call.wait(lambda one: one.status is CallStatus.RUNNING or is_final(one), "served", _TAKEN_OVER_S)
            return state if is_final(state) or case.stays_open else call.ended(_LINGER_S)
        except NotAsWanted as not_yet:
            return not_yet.state

    def end(self, call: Call) -> None:
        """See that nothing of it is left open."""
        if not is_final(call.state()):
            cancel(call, "the trial is over")
            call.ended(_AGAIN_S)

    # --- judging ---

    def judge(self, case: Case, cancelled_within_s: float) -> list[Judged]:
        """One call from its beginning to its end; one that stays open is cancelled."""
        self.tidy()
        try:
            call = self.make(case)
        except Refused as refused:
            if refused.code == RejectionCode.TOOL_INPUT_INVALID and not case.by_author:
                if case.tool_id not in self.without_input:
                    self.without_input.append(case.tool_id)  # it wants more than a schema can say
                return []
            return [Judged(case.tool_id, p.SERVES, f"not let in: {refused}")]
        if call is None:
            return [Judged(case.tool_id, None, "not tried (no call leaves an instance open)")]
        state = self.settle(case, call)
        if is_final(state):
            judged = self._judge_end(case, state)
            case.tame = judged.promise is None
            return [judged]
        if state.status is not CallStatus.RUNNING:
            blocked = any(row["detail"].get("reason") == _SILENT for row in self._runtime.rows("audit"))
            self.end(call)
            told = f"nobody took it over within {_TAKEN_OVER_S:g} s: report progress, acknowledge it, or end it"
            return [Judged(case.tool_id, p.BEATS if blocked else p.SERVES, told)]
        case.stays_open = case.tame = True
        cancel(call, "is it heard?")
        late = self.judge_cancelled(case, call, cancelled_within_s, "")
        return [Judged(case.tool_id, None, "stays open"), *late]

    def _judge_end(self, case: Case, state: CallState) -> Judged:
        broken: Promise | None = None
        code = state.error_code or ""
        said = str(state.status) + (f" ({code})" if code else "")
        if code == _BAD_OUTPUT or (code == _RAISED and state.failure and _BAD_RESULT in state.failure.message):
            broken = p.OUTPUTS
        elif code == _RAISED:
            broken, said = p.INPUTS, f"{state.failure.message if state.failure else code} for {_shown(case.given)}"
        elif code == _CRASHED:
            broken = p.ALIVE
        elif state.status is CallStatus.EXPIRED or (case.by_author and state.status is CallStatus.FAILED):
            broken = p.SERVES
        return Judged(case.tool_id, broken, said)

    def judge_cancelled(self, case: Case, call: Call, within_s: float, when: str) -> list[Judged]:
        """A call that was cancelled must be ended by the app's word."""
        try:
            state = call.ended(within_s)
        except NotAsWanted as not_yet:
            state = not_yet.state
        if state.error_code == _NO_ANSWER or not is_final(state):
            told = f"it was cancelled {when}".rstrip() + ", and the app did not end it in time"
            return [Judged(case.tool_id, p.CANCELS, told)]
        return []

    def judge_kill(self, case: Case) -> list[Judged]:
        """Kill the process while it has a call: at work if the call stays open, else with the call in its hands."""
        call = self._killed(case)
        if call is None:
            return [Judged(case.tool_id, None, "ended before it could be killed")]
        try:
            state = self._taken_up_again(call)
        except (NotAsWanted, TooLong):
            self.end(call)
            told = f"after a kill nobody took the call up again within {_AGAIN_S:g} s"
            return [Judged(case.tool_id, p.KILLS, told)]
        code = state.error_code or ""
        wanted = self._runtime.app.manifest.extensions.on_interruption.get(case.tool_id) == "fail"
        self.end(call)
        if code in {_CRASHED, _RAISED, _BAD_OUTPUT} or (code == _UNKNOWN and not wanted):
            why = f": {state.failure.message}" if state.failure else ""
            return [Judged(case.tool_id, p.KILLS, f"after a kill the call ended {state.status} ({code}){why}")]
        if call.results() != 1:
            return [Judged(case.tool_id, p.KILLS, f"{call.results()} results were delivered after a kill")]
        return [Judged(case.tool_id, None, f"{'ended' if is_final(state) else 'goes on'} after a kill")]

    def _killed(self, case: Case) -> Call | None:
        """A call whose process was killed with it; None if it ended first."""
        if case.stays_open:
            call = self.make(case)
            if call is None or is_final(self.settle(case, call)):
                return None
            call.kill_worker()
            return call
        if case.tool_id in self.launches:
            return None  # its process comes and goes with it
        opened = self.open_instance()
        if opened is None:
            return None
        self._runtime.kill_worker(opened.conversation, "SIGSTOP")
        call = self._runtime.call(case.tool_id, case.given, opened.conversation)
        call.kill_worker()
        return call

    def _taken_up_again(self, call: Call) -> CallState:
        deadline = time.monotonic() + _AGAIN_S
        self._runtime.wait_for(
            "the next process", lambda: is_final(call.state()) or self._runtime.process(call.conversation), _AGAIN_S
        )
        left_s = max(1.0, deadline - time.monotonic())
        return call.wait(lambda one: one.status is CallStatus.RUNNING or is_final(one), "taken up again", left_s)


def cancel(call: Call, why: str) -> None:
    """Wish for its end, which may have come meanwhile."""
    try:
        call.cancel(why)
    except Refused as refused:
        if refused.code != RejectionCode.CALL_ALREADY_FINAL:
            raise


def _shown(given: JsonObject) -> str:
    text = str(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
