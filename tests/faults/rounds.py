"""What a run consists of: everything that makes commands happen."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.e2e.agent import Agent
from tests.e2e.daemon import wait_until
from tests.faults.peers import FORCED, LEAVES
from tests.faults.world import SPOILED, World

_PROGRESS_S: Final = 60.0
"""Six daemons may have to die on the way there."""


class Round:
    """Everything that makes commands happen, once, with fresh names; ends drained."""

    def __init__(self, world: World, agent: Agent, number: int, choose: random.Random) -> None:
        self.world, self.agent, self.number, self.choose = world, agent, number, choose
        self.here = f"c{number}"

    def play(self) -> None:
        agent, here = self.agent, self.here
        agent.attached()
        self.world.want_more()
        self._operate()
        held = self._taken("probe.hold", {"text": "held"}, here)
        killed = self._taken("probe.slow", {"text": "killed", "steps": 8, "step_ms": 40}, f"{here}-launch")
        agent.invoke("probe.once", "once", conversation=here, steps=2, step_ms=20)
        for tool in ("brief", "fail", "bad", "exact"):
            agent.invoke(f"probe.{tool}", tool, conversation=here)
        self._meet_people()
        for number in range(self.choose.choice((3, 3, 10, 40))):
            agent.invoke("probe.echo", f"echo {number}", conversation=here)
        agent.invoke("probe.nothing", "unknown", conversation=here)
        agent.say("hello", conversation=here)
        agent.say("hello", conversation=here, to="chat")
        for tool in ("move", "leave"):
            agent.invoke(f"probe.{tool}", tool, conversation=f"{here}-{tool}")
        self._cancel(held)
        self.world.cut_host()
        self._kill_worker(killed)
        if self.number == 1:
            self._end_kept()
        self._revoke()
        self.world.drain(_PROGRESS_S)

    def rest(self) -> None:
        """Until one more instance sleeps: whatever became of those that were used just now."""
        quiet = f"{self.here}-rest"

        def asleep() -> bool:
            rows = self.world.ask(lambda: self.world.daemon.listed("ps")) or []
            return any(row["conversation_id"] == quiet and row["state"] == "suspended" for row in rows)

        self._taken("probe.echo", {"text": "rest"}, quiet)
        self.world.drain(_PROGRESS_S)
        wait_until("it sleeps", asleep, _PROGRESS_S)
        self.world.drain()

    def _meet_people(self) -> None:
        """Questions of both forms and with every end, surfaces, permissions, and an app that comes and goes."""
        agent, here = self.agent, self.here
        for text in ("answer", "dismiss", "choose", "draft", "cancel", "expire", "notice"):
            agent.invoke("social.ask", f"{text} {self.number}", conversation=here)
        for tool, text in (("draw", "shut"), ("move", "move"), ("wish", "wish"), ("guarded", "guarded")):
            agent.invoke(f"social.{tool}", f"{text} {self.number}", conversation=here)
        agent.invoke("social.draw", f"left {self.number}", conversation=f"{here}-draw")
        agent.invoke("social.show", f"answer {self.number}", conversation=f"{here}-show")
        agent.invoke("social.guarded", "again", conversation=f"{LEAVES}{self.number}")
        agent.invoke("social.ask", "answer or not", conversation=f"{FORCED}{self.number}")
        question = {"title": "Sure?", "prompt": here}
        agent.invoke_with("chat.confirm", question, conversation=here)
        old = {"call_id": f"old{self.number}", "tool": "confirm", "input": question}
        agent.send("tool.call", old, conversation=here)

    def _revoke(self) -> None:
        """What a person permitted, as far as somebody can be told of it."""
        for row in self.world.ask(lambda: self.world.daemon.listed("grants")) or ():
            if row["status"] == "granted":
                self.world.order("revoke_grant", {"grant_id": row["grant_id"]})
        self.world.order("reload_policy", {})

    def _taken(self, tool: str, given: dict[str, Any], conversation: str) -> tuple[str, str]:
        """A call that is taken: the switches of a moment ago may be news to the agent just now."""
        while True:
            key = self.agent.invoke_with(tool, given, conversation=conversation)
            if self.agent.accepted(key, _PROGRESS_S).get("code") != "inventory_revision_mismatch":
                return key

    def _operate(self) -> None:
        world, number = self.world, self.number
        world.order("add_agent", {"name": f"other{number}", "token_hash": f"{number:064x}"})
        for enabled in (False, True):
            world.order("switch", {"kind": "tool", "name": "probe.operate", "enabled": enabled})
        self.agent.send("no.such.type", {})  # refused, and noted

    def _cancel(self, key: tuple[str, str]) -> None:
        self.agent.accepted(key)
        self.agent.cancel(key)

    def _kill_worker(self, key: tuple[str, str]) -> None:
        """In the middle of its work, as far as can be seen."""
        agent = self.agent
        agent.wait("progress", lambda: agent.progress.get(key[1]) or key in agent.finals, _PROGRESS_S)
        found = self.world.ask(lambda: self.world.daemon.instance(key[0]))
        if found is not None and found["pid"]:
            self.world.ask(
                lambda: self.world.daemon.control("kill", {"instance_id": found["instance_id"]}, timeout_s=1.0)
            )

    def _end_kept(self) -> None:
        """The calls that the template left open."""
        agent = self.agent
        for conversation, call_id in agent.open_calls():
            if conversation == "kept":
                # Again and again: a word can come before the call that it would release.
                self._release((conversation, call_id))
            elif conversation == SPOILED:
                wait_until("the poison was set aside", self._set_aside, 20.0)
                agent.cancel((conversation, call_id))

    def _release(self, key: tuple[str, str]) -> None:
        def released() -> bool:
            self.agent.say("release", conversation=key[0])
            self.agent.pump(0.05)
            return key in self.agent.finals

        self.agent.wait("the kept call ends", released)

    def _set_aside(self) -> bool:
        self.agent.pump(0.01)
        return bool(self.world.ask(lambda: self.world.daemon.listed("status")[0]["set_aside"]))
