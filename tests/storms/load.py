"""What an agent of a storm asks for: a bit of everything, drawn from a seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.e2e.agent import Agent

_IN_FLIGHT: Final = 10
_CONVERSATIONS: Final = 3
_AGAIN_S: Final = 1.0
Key = tuple[str, str]
Given = dict[str, Any]

_STEPS: Final = {
    "echo": 30,
    "exact": 8,
    "slow": 14,
    "once": 10,
    "hold": 6,
    "operate": 4,
    "brief": 2,
    "late": 2,
    "fail": 4,
    "bad": 2,
    "die": 2,
    "unknown": 2,
    "wrong_input": 2,
    "stale": 1,
    "repeat": 5,
    "conflict": 2,
    "text": 8,
    "release": 3,
    "cancel": 8,
    "look_up": 4,
    "reconnect": 1,
    "deaf": 2,
}
"""How often each step is taken, of 122."""


class Load:
    """Keeps a few calls of one agent open."""

    def __init__(self, agent: Agent, seed: str) -> None:
        self._agent = agent
        self._chance = random.Random(seed)  # noqa: S311 - to be drawn again
        self._open: dict[Key, tuple[str, Given]] = {}
        """Tool and input of each."""
        self._number = 0
        self._asked_s = 0.0

    def begin(
        self,
        tool: str,
        given: Given,
        *,
        conversation: str | None = None,
        call_id: str | None = None,
        revision: str | None = None,
    ) -> None:
        """Invoke; with the id of a call that an earlier life began, go on with that one."""
        here = conversation or self._conversation()
        key = self._agent.invoke_with(tool, given, conversation=here, call_id=call_id, revision=revision)
        self._open[key] = tool, given

    def step(self) -> None:
        """The next of it, if not too much is open."""
        self._look()
        if len(self._open) + len(self._agent._unanswered) >= 2 * _IN_FLIGHT or len(self._open) >= _IN_FLIGHT:
            if self._chance.random() < 0.05:
                self._cancel()  # what holds would hold for ever
            return
        [step] = self._chance.choices(tuple(_STEPS), tuple(_STEPS.values()))
        self._number += 1
        take: Callable[[], None] = getattr(self, f"_{step}", partial(self._invoke, step))
        take()

    def finish(self) -> bool:
        """Bring everything to its end; whether it is."""
        self._look()
        if not self._agent.acknowledges:
            self._deaf()
        if time.monotonic() - self._asked_s > _AGAIN_S:
            self._asked_s = time.monotonic()
            for key in self._open:
                if self._agent.calls[key] not in self._agent._unanswered:
                    self._agent.cancel(key)
        return not self._open and not self._agent._unanswered

    def _look(self) -> None:
        agent = self._agent
        for key in tuple(self._open):
            answer = agent.answers.get(agent.calls[key])
            if key in agent.finals or (answer is not None and answer[0] == "rejected"):
                del self._open[key]

    # --- steps ---

    def _conversation(self) -> str:
        return f"{self._agent.name}{self._chance.randrange(_CONVERSATIONS)}"

    def _some(self) -> Key | None:
        """A call that is open and was accepted."""
        known = [key for key in self._open if self._agent.calls[key] in self._agent.answers]
        return self._chance.choice(known) if known else None

    def _invoke(self, tool: str) -> None:
        given: Given = {"text": f"{tool} {self._number}" + "." * self._chance.choice((0, 0, 10, 3000))}
        if tool in {"slow", "once"}:
            given |= {"steps": self._chance.randint(1, 4), "step_ms": self._chance.choice((1, 10, 40))}
        self.begin(f"probe.{tool}", given)

    def _unknown(self) -> None:
        self.begin("probe.nothing", {"text": "x"})

    def _wrong_input(self) -> None:
        self.begin("probe.echo", {"text": 1})

    def _stale(self) -> None:
        self.begin("probe.echo", {"text": "x"}, revision="r-old")

    def _repeat(self) -> None:
        """The same id with the same body."""
        self._invoke_again(self._some(), None)

    def _conflict(self) -> None:
        """The same id with another body."""
        self._invoke_again(self._some(), {"text": "another"})

    def _invoke_again(self, key: Key | None, other: Given | None) -> None:
        if key is None:
            return
        agent = self._agent
        tool, given = self._open[key]
        body = {"call_id": key[1], "tool_id": tool, "inventory_revision": agent.revision, "input": other or given}
        agent.send("tool.invoke", body, conversation=key[0])

    def _text(self) -> None:
        self._say("hello")

    def _release(self) -> None:
        self._say("release")

    def _say(self, text: str) -> None:
        body = {"message_id": f"{self._agent._prefix}-t{self._number}", "app_scope": "probe", "text": text}
        self._agent.send("message", body, conversation=self._conversation())

    def _cancel(self) -> None:
        key = self._some()
        if key is not None:
            self._agent.cancel(key)

    def _look_up(self) -> None:
        key = self._some()
        if key is not None:
            self._agent.send("tool.get", {"call_id": key[1]}, conversation=key[0])

    def _reconnect(self) -> None:
        self._agent.disconnect()

    def _deaf(self) -> None:
        """Acknowledge nothing for a while: what is not acknowledged comes again after the next attach."""
        self._agent.acknowledges = not self._agent.acknowledges
        if self._agent.acknowledges:
            self._agent.disconnect()
