"""Plays scenarios: each step in turn, until one does not end as it should."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, TypeVar

from pydantic import ValidationError

from runtime_actors.client import (
    AgentSession,
    ClientError,
    Connect,
    Connection,
    DaemonNotRunning,
    DoorClient,
    HostSession,
    NoAnswer,
    Refused,
    SessionEvent,
    door_of,
    parsed,
    read_token,
)
from runtime_actors.contract.agent import Done, Kill, Query, Rows, Switch, VerifyAudit
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.envelope import describe
from runtime_actors.contract.tools import CallState, ToolState
from runtime_actors.simulator.agent import KnownCall, SimulatedAgent
from runtime_actors.simulator.person import NAME as PERSON
from runtime_actors.simulator.person import Nobody, Person
from runtime_actors.simulator.processes import ENDS_AT_ONCE, end_process, signal_number
from runtime_actors.simulator.steps import (
    AuditStep,
    CallStep,
    CancelStep,
    ExpectStep,
    FinishStep,
    KillStep,
    LeaveStep,
    PersonStep,
    RepeatStep,
    SayStep,
    Step,
    SwitchStep,
    WaitStep,
)

_ACCEPTED: Final = "accepted"
_REPEATED: Final = "repeated"
_LOOK_S: Final = 0.05
_SERVED_S: Final = 20.0
"""How long a patient player waits for a daemon to attach to."""
_CANCEL_S: Final = 5.0
_AS_GOOD_AS_ACCEPTED: Final = frozenset({"repeated", "call_already_final"})
"""Answers to a request that was accepted before, when its first answer was lost."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of a step."""

    number: int
    """From 1, in the order played."""
    step: Step
    ok: bool
    detail: str
    """One line for a person; it may hold text of apps, so it is neutralised before it is shown."""
    took_s: float
    data: JsonObject = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return {
            "step": self.number,
            "do": self.step.do,
            "ok": self.ok,
            "detail": self.detail,
            "took_s": round(self.took_s, 3),
            "data": self.data,
        }


class _Unmet(Exception):
    """A step did not end as it should."""


_Said = tuple[str, JsonObject]


class Player:
    """Plays steps as any number of agents, each with a session of its own."""

    def __init__(
        self,
        state: Path,
        *,
        on_event: Callable[[str, SessionEvent], None] | None = None,
        connect: Connect = Connection,
        patient: bool = False,
    ) -> None:
        """Play against the daemon of `state`; `on_event` hears what arrives for which agent.

        With `patient`, processes may come and go by themselves: a daemon or a worker that is not there is waited for,
        and an answer that says that something was done before is as good as the lost one that said it is done.
        """
        self._state = state
        self._on_event = on_event
        self._connect = connect
        self._patient = patient
        self._agents: dict[str, SimulatedAgent] = {}
        self._left: dict[str, dict[tuple[str, str], KnownCall]] = {}
        self._person: Person | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._person is not None:
            self._person.close()
        for agent in self._agents.values():
            agent.session.close()

    @property
    def calls(self) -> dict[tuple[str, str, str], KnownCall]:
        """Every call of the scenario, by agent, conversation and call id."""
        of_agents = {name: agent.calls for name, agent in self._agents.items()} | self._left
        return {(name, *key): known for name, calls in of_agents.items() for key, known in calls.items()}

    def play(self, steps: Iterable[Step]) -> Iterator[StepResult]:
        """Play until the end or the first step that fails, which is the last that is yielded."""
        for number, step in enumerate(steps, start=1):
            began = time.monotonic()
            ok, data = True, JsonObject()
            try:
                detail, data = self._play(step)
            except _Unmet as unmet:
                ok, detail = False, str(unmet)
            except ValidationError as error:
                ok, detail = False, describe(error)
            except (ClientError, ValueError) as error:
                ok, detail = False, str(error)
            yield StepResult(number, step, ok, detail, time.monotonic() - began, data)
            if not ok:
                return

    def wind_up(self, timeout_s: float) -> bool:
        """Cancel what is open; whether each call came to its end and its result was delivered in time."""
        deadline = time.monotonic() + timeout_s
        for name in tuple(self._left):
            self._agent(name)
        for agent in self._agents.values():
            for key, known in tuple(agent.calls.items()):
                if not known.is_final:
                    _cancel(agent, key)
        while time.monotonic() < deadline:
            waiting = [agent for agent in self._agents.values() if not all(map(_is_told, agent.calls.values()))]
            if not waiting:
                return True
            for agent in waiting:
                agent.pump(_LOOK_S)
        return False

    def pump(self, timeout_s: float) -> None:
        """Let the agents hear what has come for them."""
        for agent in self._agents.values():
            agent.pump(timeout_s)

    def _play(self, step: Step) -> _Said:  # noqa: C901, PLR0912 - one case a step
        match step:
            case CallStep():
                return self._call(step)
            case RepeatStep():
                agent = self._agent(step.as_)
                if (step.conversation, step.call_id) not in agent.calls:
                    raise _Unmet(f"no earlier step made call {step.call_id}")
                return self._answered(step, lambda: agent.repeat(step.conversation, step.call_id, step.timeout_s))
            case CancelStep():
                agent = self._agent(step.as_)
                return self._answered(
                    step,
                    lambda: agent.cancel(step.conversation, step.call_id, reason=step.reason, timeout_s=step.timeout_s),
                )
            case SayStep():
                return self._say(step)
            case WaitStep():
                return self._wait(step)
            case ExpectStep():
                return self._expect(step)
            case FinishStep():
                return self._finish(step)
            case KillStep():
                return self._kill(step)
            case LeaveStep():
                return self._leave(step)
            case SwitchStep():
                body = Switch(kind=step.kind, name=step.name, enabled=step.enabled)
                self._control("lineup.v1.control.switch", body, step.timeout_s)
                return f"{step.kind} {step.name} is switched {'on' if step.enabled else 'off'}", {}
            case _ if isinstance(step, PersonStep):
                return self._person_does(step)
            case AuditStep():
                data = self._control("lineup.v1.control.verify_audit", VerifyAudit(), step.timeout_s).data
                return f"the chain of {data.get('entries')} entries holds", data

    # --- steps ---

    def _call(self, step: CallStep) -> _Said:
        agent = self._agent(step.as_)

        def invoke() -> ToolState:
            return agent.invoke(
                step.tool,
                step.input,
                conversation_id=step.conversation,
                call_id=step.call_id,
                revision=step.revision,
                timeout_s=step.timeout_s,
            )

        return self._answered(step, lambda: self._served(step.timeout_s, invoke))

    def _say(self, step: SayStep) -> _Said:
        try:
            receipt = self._agent(step.as_).say(
                step.text,
                conversation_id=step.conversation,
                app_scope=step.to,
                data=step.data,
                message_id=step.message_id,
                timeout_s=step.timeout_s,
            )
        except Refused as refused:
            return self._compare(step.answer, refused.code, refused.detail, refused.rejected.to_wire())
        came = _REPEATED if receipt.repeated else _ACCEPTED
        return self._compare(step.answer, came, f"message {receipt.message_id}", receipt.to_wire())

    def _wait(self, step: WaitStep) -> _Said:
        wanted = step.status if isinstance(step.status, tuple) else (step.status,) if step.status else None

        def is_wanted(known: KnownCall) -> bool:
            if step.progress is not None and not _holds(known.state.progress, step.progress):
                return False
            return known.state.status in wanted if wanted else step.progress is not None or known.is_final

        agent = self._agent(step.as_)
        try:
            # What was heard last may be from before a crash.
            agent.get(step.conversation, step.call_id, step.timeout_s)
            known = agent.wait(step.conversation, step.call_id, is_wanted, step.timeout_s)
        except NoAnswer:
            now = agent.calls.get((step.conversation, step.call_id))
            raise _Unmet(f"after {step.timeout_s:g} s the call is {now.state.status if now else 'unknown'}") from None
        return _told(known.state)

    def _expect(self, step: ExpectStep) -> _Said:
        state = self._agent(step.as_).get(step.conversation, step.call_id, step.timeout_s).call
        named = {"status", "result", "error_code", "cancel_requested"} & step.model_fields_set
        for name in sorted(named):
            wanted, got = getattr(step, name), getattr(state, name)
            if not _matches(wanted, got):
                raise _Unmet(f"{name} is {got!r}, expected {wanted!r}")
        return _told(state)

    def _finish(self, step: FinishStep) -> _Said:
        deadline = time.monotonic() + step.timeout_s
        for name in self._left:
            self._agent(name)
        for agent in self._agents.values():
            for conversation, call_id in tuple(agent.calls):
                left_s = max(0.0, deadline - time.monotonic())
                agent.wait(conversation, call_id, lambda known: known.is_final and len(known.results) > 0, left_s)
        twice = [key for key, known in self.calls.items() if len(known.results) != 1]
        if twice:
            raise _Unmet(f"more than one result was delivered for {', '.join(call_id for *_, call_id in twice)}")
        counts: dict[str, int] = {}
        for known in self.calls.values():
            counts[known.state.status] = counts.get(known.state.status, 0) + 1
        told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        return f"each call ended exactly once: {told}", JsonObject(counts)

    def _leave(self, step: LeaveStep) -> _Said:
        agent = self._agents.pop(step.as_, None)
        if agent is None:
            return "was not attached", {}
        agent.session.close()
        self._left[step.as_] = agent.calls
        return "left; what comes now waits in the outbox", {}

    def _kill(self, step: KillStep) -> _Said:
        if step.daemon:
            return self._kill_daemon(step)
        row = self._instance(step)
        instance_id = str(row["instance_id"])
        # With its attempt, so that the order may be repeated and never meets the next process.
        body = Kill(instance_id=instance_id, attempt_id=row.get("attempt_id"), signal=signal_number(step.signal).name)
        self._control("lineup.v1.control.kill", body, step.timeout_s)
        self._wait_ended(body, step.timeout_s)
        data: JsonObject = {"instance_id": instance_id, "pid": row.get("pid")}
        return f"{step.signal} sent to {instance_id}, process {row.get('pid')}", data

    def _person_does(self, step: PersonStep) -> _Said:
        if self._person is None:
            self._person = Person(self._host)
        person = self._person
        try:
            said, data = self._served(step.timeout_s, lambda: person.play(step))
        except Refused as refused:
            return self._compare(step.answer, refused.code, refused.detail, refused.rejected.to_wire())
        except Nobody as nobody:
            raise _Unmet(str(nobody)) from None
        return self._compare(step.answer, _ACCEPTED, said, data)

    def _host(self) -> HostSession:
        return HostSession(door_of(self._state, "host"), PERSON, surfaces=True, connect=self._connect)

    def _instance(self, step: KillStep) -> JsonObject:
        deadline = time.monotonic() + step.timeout_s
        while True:
            for row in self._rows("ps", step.timeout_s):
                of_scope = row.get("app_scope") == step.scope and row.get("conversation_id") == step.conversation
                if row.get("pid") and (row.get("instance_id") == step.instance or (step.instance is None and of_scope)):
                    return row
            if not self._patient or time.monotonic() > deadline:
                raise _Unmet("no such instance has a process; look with: lineup ps")
            time.sleep(_LOOK_S)

    def _wait_ended(self, killed: Kill, timeout_s: float) -> None:
        """A signal that ends no process (SIGSTOP, say) is not waited for."""
        if signal_number(killed.signal) not in ENDS_AT_ONCE:
            return
        deadline = time.monotonic() + timeout_s
        while any(row.get("attempt_id") == killed.attempt_id for row in self._rows("ps", timeout_s)):
            if time.monotonic() > deadline:
                raise _Unmet(f"the process of {killed.instance_id} has not ended within {timeout_s:g} s")
            time.sleep(_LOOK_S)

    def _kill_daemon(self, step: KillStep) -> _Said:
        before = self._daemon_pid(step.timeout_s)
        end_process(before, step.signal)
        deadline = time.monotonic() + step.timeout_s
        while time.monotonic() < deadline:
            try:
                after = self._daemon_pid(1.0)
            except ClientError:
                time.sleep(_LOOK_S)
                continue
            if after != before:
                return f"daemon {before} ended; daemon {after} serves again", {"before": before, "after": after}
            time.sleep(_LOOK_S)
        raise _Unmet(f"the daemon did not come back within {step.timeout_s:g} s; was it started with: lineup start?")

    def _daemon_pid(self, timeout_s: float) -> int:
        for row in self._rows("status", timeout_s):
            if isinstance(row.get("pid"), int):
                return int(row["pid"])
        raise _Unmet("the daemon does not say its process id")

    # --- the doors ---

    def _agent(self, name: str) -> SimulatedAgent:
        if name not in self._agents:
            token = self._served(_SERVED_S, lambda: read_token(self._state, name))
            session = AgentSession(door_of(self._state, "agent"), name, token, connect=self._connect)
            hear = self._on_event
            agent = SimulatedAgent(session, on_event=None if hear is None else lambda event: hear(name, event))
            agent.calls = self._left.pop(name, {})
            self._agents[name] = agent
            self._served(_SERVED_S, session.attach)
        return self._agents[name]

    def _served(self, timeout_s: float, ask: Callable[[], _T]) -> _T:
        """Ask; a patient player asks again while nobody is there to hear it."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return ask()
            except DaemonNotRunning:
                if not self._patient or time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_S)

    def _control(self, kind: str, body: Kill | Switch | VerifyAudit, timeout_s: float) -> Done:
        with DoorClient(door_of(self._state, "control")) as client:
            _, answer = self._served(timeout_s, lambda: client.request(kind, body, timeout_s=timeout_s))
        return parsed(Done, answer)

    def _rows(self, what: str, timeout_s: float) -> tuple[JsonObject, ...]:
        with DoorClient(door_of(self._state, "control")) as client:
            query = Query.model_validate({"what": what})
            _, answer = self._served(
                timeout_s, lambda: client.request("lineup.v1.control.query", query, timeout_s=timeout_s)
            )
        return parsed(Rows, answer).rows

    # --- answers ---

    def _answered(self, step: CallStep | RepeatStep | CancelStep, ask: Callable[[], ToolState]) -> _Said:
        try:
            answer = ask()
        except Refused as refused:
            return self._compare(step.answer, refused.code, refused.detail, refused.rejected.to_wire())
        came = _REPEATED if answer.repeated else _ACCEPTED
        told, data = _told(answer.call)
        return self._compare(step.answer, came, told, data)

    def _compare(self, expected: str, came: str, detail: str, data: JsonObject) -> _Said:
        lost = self._patient and expected == _ACCEPTED and came in _AS_GOOD_AS_ACCEPTED
        if came != expected and not lost:
            raise _Unmet(f"expected {expected}, got {came}: {detail}")
        return f"{came}: {detail}", data


def _matches(wanted: object, got: object) -> bool:
    """Whether it is what was wanted; of an object, in the members that are named."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        return all(name in got and _matches(one, got[name]) for name, one in wanted.items())
    return wanted == got


def _told(state: CallState) -> _Said:
    said = f"call {state.call_id} is {state.status}"
    if state.error_code:
        said += f" ({state.error_code})"
    elif state.progress and state.progress.percent is not None and state.result is None:
        said += f", {state.progress.percent:g} %"
    return said, state.to_wire()


def _holds(progress: object, wanted: JsonObject) -> bool:
    have = progress.to_wire() if hasattr(progress, "to_wire") else {}
    return all(have.get(name) == value for name, value in wanted.items())


def _cancel(agent: SimulatedAgent, key: tuple[str, str]) -> None:
    """Wish for the end of a call; one that has ended meanwhile needs no wish."""
    with contextlib.suppress(Refused, NoAnswer):
        agent.cancel(*key, reason="the scenario is over", timeout_s=_CANCEL_S)


def _is_told(known: KnownCall) -> bool:
    return bool(known.results)
