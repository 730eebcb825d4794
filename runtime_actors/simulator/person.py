"""A person who is scripted: a host that shows what comes, and answers and acts as the steps of a scenario say.

It reads on a thread of its own from its first step to the end: questions are on its screen while an agent waits.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLate
from functools import partial
from typing import Any, Final, Literal, cast

from runtime_actors.client import ClientError, Happened, HostSession, NoAnswer, Refused
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.host import HostDone
from runtime_actors.simulator.agent import NOT_NOW, NOT_NOW_WAITS_S
from runtime_actors.simulator.steps import (
    AnswerStep,
    AttendStep,
    CloseStep,
    DismissStep,
    DrawStep,
    FrontStep,
    PersonStep,
    SeeStep,
    WriteStep,
)

NAME: Final = "person"
_TURN_S: Final = 0.02
_LOOK_S: Final = 0.05
_CLOSE_S: Final = 5.0

Asked = Callable[[HostSession], Any]


class Nobody(Exception):
    """What a step is about is not there."""


class Person:
    """Steps are played on the caller's thread; the session belongs to this one's own."""

    def __init__(self, open_session: Callable[[], HostSession]) -> None:
        """`open_session` is called on the thread that the session then belongs to."""
        self._open_session = open_session
        self._asked: queue.SimpleQueue[tuple[Asked, Future[Any]]] = queue.SimpleQueue()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="person", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join(_CLOSE_S)

    def play(self, step: PersonStep) -> tuple[str, JsonObject]:
        """What was done, for a person to read, and what the daemon answered.

        Raises:
            Nobody: There is no such question, instance or surface in time.
            Refused, NoAnswer: As `HostSession.request`.

        """
        match step:
            case AttendStep():
                self._do(lambda session: session.attach(step.timeout_s), step.timeout_s)
                return "the person attends", {}
            case AnswerStep() | DismissStep():
                return self._question(step)
            case FrontStep() | CloseStep():
                return self._act(step)
            case SeeStep():
                return self._see(step)
            case WriteStep():
                text = partial(
                    HostSession.text, conversation_id=step.conversation, text=step.text, request_id=_new_id()
                )
                done = self._write(text, step.timeout_s)
                return f"the person wrote {len(step.text)} characters", done.to_wire()
            case DrawStep():
                return self._draw(step)

    # --- steps ---

    def _question(self, step: AnswerStep | DismissStep) -> tuple[str, JsonObject]:
        wanted = {"conversation_id": step.conversation}
        row = self._find("such question is open", "interactions", wanted, partial(_is_asked, step), step.timeout_s)
        asked = row["interaction"]
        name, request_id = asked["interaction_id"], _new_id()
        if isinstance(step, AnswerStep):
            done = self._write(lambda session: session.answer(name, step.give, request_id=request_id), step.timeout_s)
        else:
            done = self._write(lambda session: session.dismiss(name, request_id=request_id), step.timeout_s)
        verb = "answered" if isinstance(step, AnswerStep) else "dismissed"
        return f"the person {verb} {asked['kind']} {name} of {asked['owner']['app_scope']}", done.to_wire()

    def _act(self, step: FrontStep | CloseStep) -> tuple[str, JsonObject]:
        row = self._find("such instance is there", "ps", {}, partial(_is_instance, step), step.timeout_s)
        name, request_id = str(row["instance_id"]), _new_id()
        action: Literal["focus", "close", "force_close"] = "focus"
        if isinstance(step, CloseStep):
            action = "force_close" if step.force else "close"
        done = self._write(lambda session: session.act(name, action, request_id=request_id), step.timeout_s)
        return f"the person wants {action} of {name}", done.to_wire()

    def _see(self, step: SeeStep) -> tuple[str, JsonObject]:
        def is_so(row: Mapping[str, Any]) -> bool:
            return _is_instance(step, row) and row["state"] == step.state

        row = self._find(f"such instance is {step.state}", "ps", {}, is_so, step.timeout_s)
        return f"{row['instance_id']} is {step.state}", {}

    def _draw(self, step: DrawStep) -> tuple[str, JsonObject]:
        wanted = {"conversation_id": step.conversation, "app_scope": step.scope}
        row = self._find("surface of it is open", "surfaces", wanted, lambda _: True, step.timeout_s)
        name = str(row["surface_id"])
        draw = partial(
            HostSession.surface, surface_id=name, op=step.op, patch=step.patch, data=step.data, request_id=_new_id()
        )
        return f"the surface {name} says {step.op}", self._write(draw, step.timeout_s).to_wire()

    def _find(
        self,
        what: str,
        listing: Any,  # noqa: ANN401 - a name of a listing
        wanted: JsonObject,
        is_it: Callable[[Mapping[str, Any]], bool],
        timeout_s: float,
    ) -> JsonObject:
        deadline = time.monotonic() + timeout_s
        while True:
            rows: list[JsonObject] = self._do(
                lambda session: session.rows(listing, wanted, timeout_s=timeout_s), timeout_s
            )
            for row in rows:
                if is_it(row):
                    return row
            if time.monotonic() > deadline:
                raise Nobody(f"after {timeout_s:g} s no {what}")
            threading.Event().wait(_LOOK_S)

    def _write(self, ask: Asked, timeout_s: float) -> HostDone:
        """Have it asked, with the same request id once more while there is no answer, or the daemon cannot just now."""
        deadline = time.monotonic() + timeout_s
        for wait_s in NOT_NOW_WAITS_S:
            try:
                return cast("HostDone", self._do(ask, timeout_s))
            except NoAnswer:
                if time.monotonic() > deadline:
                    raise
            except Refused as refused:
                if refused.code not in NOT_NOW or time.monotonic() > deadline:
                    raise
            threading.Event().wait(wait_s)
        return cast("HostDone", self._do(ask, timeout_s))

    def _do(self, ask: Asked, timeout_s: float) -> Any:  # noqa: ANN401 - whatever `ask` returns
        """Have the other thread ask, and wait for what comes of it."""
        answer: Future[Any] = Future()
        self._asked.put((ask, answer))
        try:
            return answer.result(timeout_s)
        except TooLate:
            raise NoAnswer("what the person does", timeout_s) from None

    # --- the other thread ---

    def _live(self) -> None:
        with self._open_session() as session:
            while not self._over.is_set():
                with contextlib.suppress(ClientError):  # the daemon is away; it is looked for again
                    self._hear(session)
                self._take_asked(session)

    def _hear(self, session: HostSession) -> None:
        news = session.next_news(_TURN_S)
        if isinstance(news, Happened):
            if news.event.kind == "interaction.opened":
                _show(session, news.event.data)
            session.acknowledge(news.number)

    def _take_asked(self, session: HostSession) -> None:
        while not self._asked.empty():
            ask, answer = self._asked.get()
            try:
                answer.set_result(ask(session))
            except Exception as error:  # noqa: BLE001 - for whoever waits
                answer.set_exception(error)


def _show(session: HostSession, data: Mapping[str, Any]) -> None:
    """Say that it is on the screen, also one that a real host would only list; nobody waits for the answer."""
    session.send("lineup.v1.host.presented", {"interaction_id": data["interaction"]["interaction_id"]})


def _is_asked(step: AnswerStep | DismissStep, row: Mapping[str, Any]) -> bool:
    asked = row["interaction"]
    return all(
        wanted is None or wanted == got
        for wanted, got in (
            (step.scope, asked.get("owner", {}).get("app_scope")),
            (step.kind, asked.get("kind")),
            (step.title, asked.get("request", {}).get("title")),
        )
    )


def _is_instance(step: FrontStep | CloseStep | SeeStep, row: Mapping[str, Any]) -> bool:
    if step.instance is not None:
        return bool(row["instance_id"] == step.instance)
    return bool(row["app_scope"] == step.scope and row["conversation_id"] == step.conversation)


def _new_id() -> str:
    return str(uuid.uuid4())
