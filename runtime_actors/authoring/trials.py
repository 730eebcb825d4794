"""`lineup conformance`: an app in a real runtime, its tools called, its processes killed, and what became of it.

Each trial uses conversations, and so processes, of its own. What can be judged only by everything that happened (beats,
ends, output) is read from the audit log and the app's log at the end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

from runtime_actors.authoring import promises as p
from runtime_actors.authoring.calls import Call, NotAsWanted, is_final
from runtime_actors.authoring.daemon import NotServed
from runtime_actors.authoring.promises import PROMISES, Finding, Promise
from runtime_actors.authoring.runtime import PrivateRuntime, TooLong, read_app
from runtime_actors.authoring.tools import Case, Judged, Tools, cancel
from runtime_actors.client import Refused
from runtime_actors.contract.base import JsonObject
from runtime_actors.rules.text import neutral

OPTIONS: Final = ("--cancel-grace=2", "--stop-grace=4")
_GRACE_S: Final = 2.0
_SLACK_S: Final = 6.0
"""For a busy machine, on top of a grace."""
_TAKEN_OVER_S: Final = 10.0
"""After which hosts show an app as hanging (docs/people.md, section 4)."""
_TAKEN_OVER: Final = {"action.acknowledged": "it took it over", "action.withdrawn": "it was closed"}
_STOP_S: Final = 4.0
_STOPS_WITHIN_S: Final = 2.0
"""Of its grace: whoever takes longer did not return, and was cancelled by the SDK or ended by the runtime."""
_READY_S: Final = 20.0
_MOST_PRINTED: Final = 2**20
_DROPPED: Final = "[lineup: "
_NOT_STARTED: Final = frozenset({"import_failed", "start_timeout"})
_SILENT: Final = "not_responding"
_LINES: Final = 4
_MOST_LATE: Final = 3
"""Tools for which a stopped process is waited for until a grace is over."""


class Conformance:
    """One run over one app. The daemon lives while `findings` is consumed."""

    def __init__(self, folder: Path, given: Mapping[str, list[JsonObject]]) -> None:
        """`given` are inputs by tool, in place of generated ones."""
        self._folder = folder
        self._given = given

    def findings(self) -> Iterator[Finding]:
        """One for each promise, in their order.

        Raises:
            NotServed: The daemon does not start; it is not the app's fault.
            ValueError: An input is given for a tool that the app has not, or one that its schema does not let in.

        """
        try:
            app = read_app(self._folder)
        except NotServed as fault:
            yield Finding(p.MANIFEST, holds=False, detail=str(fault))
            yield from _untried(PROMISES[1:], "its manifest is not valid")
            return
        unknown = sorted(set(self._given) - set(app.tools))
        if unknown:
            raise ValueError(
                f"{app.manifest.app_scope} has no tool {unknown[0]}; it has {', '.join(sorted(app.tools))}"
            )
        for tool_id, inputs in self._given.items():
            for given in inputs:
                broken = app.tools[tool_id].input_schema.find_fault(given)
                if broken is not None:
                    raise ValueError(f"the input for {tool_id} breaks '{broken.keyword}' at {broken.path or '/'}")
        yield Finding(p.MANIFEST, holds=True, detail=f"{app.manifest.app_scope} {app.manifest.version}")
        with PrivateRuntime(self._folder, options=OPTIONS) as runtime:
            self._runtime = runtime
            self._tools = Tools(runtime, self._given)
            started = self._start()
            yield started
            if not started.holds:
                yield from _untried(PROMISES[2:], "it was not started")
                return
            yield from self._judge_calls()
            for promise, trial in (
                (p.KILLS, self._kill),
                (p.CONVERSATIONS, self._two_conversations),
                (p.LATE, self._late_news),
                (p.CLOSES, self._close),
                (p.STOPS, self._stop),
            ):
                yield self._tried(promise, trial)
            memory = self._memory()
            yield from self._judge_ends()
            yield self._judge_output()
            yield Finding(p.MEMORY, holds=True, detail=memory)

    def _tried(self, promise: Promise, trial: Callable[[], Finding]) -> Finding:
        try:
            found = trial()
        except (TooLong, NotAsWanted, Refused) as why:
            found = Finding(promise, holds=False, detail=str(why))
        if found.broken and self._dead():  # a trial whose process goes away by itself says nothing
            return Finding(promise, holds=None, detail="not tried: its processes end by themselves")
        return found

    # --- starting and serving ---

    def _start(self) -> Finding:
        call = self._first_call()
        if call is None:
            told = (
                "no tool of it could be called to open it (launch, foreground or direct): give an input by --tool-input"
            )
            return Finding(p.STARTS, holds=None, detail=told)

        def look() -> str | None:
            ready = [row for row in self._runtime.rows("audit") if row["event"] == "attempt.ready"]
            state = call.state()
            return "ready" if ready else state.error_code if is_final(state) else None

        try:
            said = self._runtime.wait_for("the process to be ready", look, _READY_S)
        except TooLong as late:
            return Finding(p.STARTS, holds=False, detail=str(late))
        if said != "ready":
            return Finding(p.STARTS, holds=False, detail=self._with_log(str(said), call.conversation))
        self._tools.end(call)
        return Finding(p.STARTS, holds=True, detail=f"confined: {self._runtime.daemon.isolation} or better")

    def _first_call(self) -> Call | None:
        for case in self._tools.opening:
            with contextlib.suppress(Refused):  # what is wrong with that input is found out later
                return self._runtime.call(case.tool_id, case.given, self._runtime.new_conversation())
        return None

    def _judge_calls(self) -> Iterator[Finding]:
        judged = [judged for case in self._tools.cases for judged in self._tools.judge(case, _GRACE_S + _SLACK_S)]
        yield _found(p.SERVES, judged, self._served(judged))
        yield _found(p.INPUTS, judged, f"{len(self._tools.cases)} inputs")
        refused = [row for row in self._runtime.rows("audit") if row["detail"].get("code") == "tool_output_invalid"]
        judged += [Judged("", p.OUTPUTS, "a result was refused (tool_output_invalid)") for _ in refused[:1]]
        yield _found(p.OUTPUTS, judged, "every result was accepted")
        stay_open = [case for case in self._tools.each_once() if case.stays_open]
        for case in stay_open:
            judged += self._cancel_while_down(case)
        told = f"calls of {len(stay_open)} tools were cancelled while the process was up and while it was down"
        yield _found(p.CANCELS, judged, told if stay_open else "no call stays open for long enough")

    def _served(self, judged: list[Judged]) -> str:
        counts: dict[str, int] = {}
        for one in judged:
            if one.promise is None:
                counts[one.detail] = counts.get(one.detail, 0) + 1
        said = ", ".join(f"{count} {what}" for what, count in counts.items())
        without = self._tools.without_input
        return said + (f"; no input was found for {', '.join(without)}: give one by --tool-input" if without else "")

    def _cancel_while_down(self, case: Case) -> list[Judged]:
        """The wish comes while the process is stopped, which is then killed: the next one finds it in the call."""
        call = self._tools.make(case)
        if call is None or is_final(call.running()):
            return []
        self._runtime.kill_worker(call.conversation, "SIGSTOP")
        cancel(call, "the process was down")
        self._runtime.kill_worker(call.conversation)
        return self._tools.judge_cancelled(case, call, _GRACE_S + _SLACK_S, "while its process was down")

    # --- trials ---

    def _kill(self) -> Finding:
        judged: list[Judged] = []
        for case in self._tools.each_once():
            judged += self._tools.judge_kill(case)
        return _found(p.KILLS, judged, _told(judged))

    def _two_conversations(self) -> Finding:
        judged: list[Judged] = []
        for case in self._tools.each_once():
            calls = [call for call in (self._tools.make(case), self._tools.make(case)) if call is not None]
            states = [self._tools.settle(case, call) for call in calls]
            for call in calls:
                self._tools.end(call)
            kinds = {(state.status, state.error_code) for state in states}
            if len(kinds) > 1:
                told = " and ".join(sorted(f"{status} {code or ''}".strip() for status, code in kinds))
                judged.append(Judged(case.tool_id, p.CONVERSATIONS, f"the same input in two conversations: {told}"))
            else:
                judged.append(Judged(case.tool_id, None, "the same in both"))
        return _found(p.CONVERSATIONS, judged, _told(judged))

    def _late_news(self) -> Finding:
        wanted = [case for case in self._tools.each_once() if case.tool_id not in self._tools.launches][:_MOST_LATE]
        opened = self._tools.open_instance()
        if opened is None:
            return Finding(p.LATE, holds=None, detail="no call of it leaves an instance open")
        if self._dead():
            return Finding(p.LATE, holds=None, detail="not tried: its processes end by themselves")
        conversation = opened.conversation
        before = self._runtime.wait_for("a process of the app", lambda: self._runtime.process(conversation))
        for case in wanted:
            self._news_of_what_is_over(case, conversation)
        if self._runtime.app.manifest.subscriptions:
            agent, scope = self._runtime.agent, self._runtime.scope
            agent.say("a text", conversation_id=conversation, app_scope=scope, data={"of": "conformance"})
        after = self._runtime.process(conversation)
        same = after is not None and after["attempt_id"] == before["attempt_id"]
        if not same:
            self._runtime.explained |= self._dead().keys()
            return Finding(p.LATE, holds=False, detail=self._with_log("its process ended over it", conversation))
        return Finding(p.LATE, holds=True, detail=f"calls of {len(wanted)} tools came when they were over")

    def _news_of_what_is_over(self, case: Case, conversation: str) -> None:
        """The process is stopped while a call comes, is cancelled and ends without it; then it hears of all that."""
        self._runtime.kill_worker(conversation, "SIGSTOP")
        call = self._runtime.call(case.tool_id, case.given, conversation)
        cancel(call, "nobody heard of it")
        call.ended(_GRACE_S + _SLACK_S)
        self._runtime.kill_worker(conversation, "SIGCONT")
        self._runtime.agent.repeat(conversation, call.call_id)
        cancel(call, "again")
        for _ in range(2):  # when the second one has ended, whatever the news did to the process is done
            self._tools.settle(case, self._runtime.call(case.tool_id, case.given, conversation))

    def _close(self) -> Finding:
        opened = self._tools.open_instance()
        if opened is None:
            return Finding(p.CLOSES, holds=None, detail="no call of it leaves an instance open")
        action_id = self._runtime.wish_close(opened.conversation)
        try:
            became = self._runtime.wait_for(
                "an acknowledgement", lambda: self._became_of_action(action_id), _TAKEN_OVER_S
            )
        except TooLong:
            told = f"nobody took it over within {_TAKEN_OVER_S:g} s: sdk.actions.subscribe(..., kinds=['close'])"
            return Finding(p.CLOSES, holds=False, detail=told)
        finally:
            self._tools.end(opened)
        return Finding(p.CLOSES, holds=True, detail=became)

    def _became_of_action(self, action_id: str) -> str | None:
        for row in self._runtime.rows("audit"):
            if row["subject"].get("action_id") == action_id and row["event"] in _TAKEN_OVER:
                return _TAKEN_OVER[row["event"]]
        return None

    def _stop(self) -> Finding:
        opened = self._tools.open_instance()
        if opened is None:
            return Finding(p.STOPS, holds=None, detail="no call of it leaves an instance open")
        attempt = self._runtime.wait_for("a process of the app", lambda: self._runtime.process(opened.conversation))
        self._tools.end(opened)  # whoever is at work may use up the grace; this one is not
        told_at = time.monotonic()
        self._runtime.switch(enabled=False)
        try:
            reason = self._runtime.wait_for(
                "the end of the process", lambda: self._reason_of(attempt["attempt_id"]), _STOP_S + _SLACK_S
            )
        finally:
            self._runtime.switch(enabled=True)
        if reason.startswith("signal") or time.monotonic() - told_at > _STOPS_WITHIN_S:
            told = f"it did not within {_STOPS_WITHIN_S:g} s ({reason}): main returns when sdk.run_until_stopped() does"
            return Finding(p.STOPS, holds=False, detail=told)
        return Finding(p.STOPS, holds=True, detail=f"it ended: {reason}")

    def _reason_of(self, attempt_id: str) -> str | None:
        for row in self._runtime.rows("audit"):
            if row["event"] == "attempt.ended" and row["subject"].get("attempt_id") == attempt_id:
                return str(row["detail"]["reason"])
        return None

    # --- judged in the end ---

    def _memory(self) -> str:
        opened = self._tools.open_instance()
        row = self._runtime.process(opened.conversation) if opened else None
        if row is None:
            return "no call of it leaves an instance open"
        try:
            private = psutil.Process(int(row["pid"])).memory_full_info().uss
        except psutil.Error:  # a confined process shows its maps to root only
            return "it cannot be read without being root"
        return f"{private / 2**20:.1f} MiB"

    def _dead(self) -> dict[str, str]:
        """Attempts that ended though nobody told them to, and why."""
        return {
            str(row["subject"]["attempt_id"]): str(row["detail"]["reason"])
            for row in self._runtime.rows("audit")
            if row["event"] == "attempt.ended"
            and row["detail"].get("unexpected")
            and row["subject"]["attempt_id"] not in self._runtime.explained
        }

    def _judge_ends(self) -> Iterator[Finding]:
        reasons = [reason for reason in self._dead().values() if reason not in _NOT_STARTED]
        silent, dead = reasons.count(_SILENT), sorted(set(reasons) - {_SILENT})
        told = f"{silent} processes were silent for six beats: long work belongs into asyncio.to_thread"
        yield Finding(p.BEATS, holds=not silent, detail=told if silent else "no beat was missed for long")
        told = self._with_log(f"processes ended by themselves: {', '.join(dead)}")
        yield Finding(p.ALIVE, holds=not dead, detail=told if dead else "no process ended by itself")

    def _judge_output(self) -> Finding:
        most, dropped = 0, False
        for path in (self._runtime.state / "logs").glob("*/*.log"):
            text = path.read_text(encoding="utf-8", errors="replace")
            older = path.with_name(f"{path.name}.1")
            most = max(most, len(text) + (older.stat().st_size if older.exists() else 0))
            dropped = dropped or any(line.startswith(_DROPPED) for line in text.splitlines())
        if dropped or most >= _MOST_PRINTED:
            return Finding(p.QUIET, holds=False, detail="it printed so much that some of it was dropped")
        return Finding(p.QUIET, holds=True, detail=f"at most {most} bytes a process")

    def _with_log(self, said: str, conversation: str | None = None) -> str:
        lines = [f"  {neutral(line)}" for line in self._runtime.lines(conversation)[-_LINES:]]
        return "\n".join([said, *lines])


def _found(promise: Promise, judged: list[Judged], good: str) -> Finding:
    broken = [f"{one.tool_id}: {one.detail}".removeprefix(": ") for one in judged if one.promise is promise]
    return Finding(promise, holds=not broken, detail="\n".join(dict.fromkeys(broken)) if broken else good)


def _told(judged: list[Judged]) -> str:
    return ", ".join(f"{one.tool_id} {one.detail}" for one in judged)


def _untried(promises: tuple[Promise, ...], why: str) -> Iterator[Finding]:
    for promise in promises:
        yield Finding(promise, holds=None, detail=f"not tried: {why}")
