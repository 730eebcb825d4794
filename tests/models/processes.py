"""Model workers: what the SDK and an app do at the other end of a worker's channel, one frame at a time."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.contract import envelope
from runtime_actors.contract import session as wire
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.session import CORE_CAPABILITIES
from runtime_actors.supervisor.messages import Exited
from runtime_actors.supervisor.process import ExitStatus
from tests.actor_fakes import SENT_AT
from tests.models.wire import read

if TYPE_CHECKING:
    from tests.models.life import Life
    from tests.models.wire import Connection

KILLED: Final = ExitStatus(signal=signal.SIGKILL)
_DIGEST: Final = wire.snapshot_digest(wire.effective(CORE_CAPABILITIES, CORE_CAPABILITIES))
_LONG: Final = "lineup.v1."


@dataclass(slots=True, eq=False)
class Process:
    """One worker."""

    life: Life
    pid: int
    attempt_id: str
    scope: str
    token: str = ""
    alive: bool = True
    hangs: bool = False
    """It reads nothing and answers nothing."""
    ready: bool = False
    """Its app is imported."""
    session: int = 0
    connection: Connection | None = None
    held: dict[int, str | None] = field(default_factory=dict)
    """Messages that it was given and has not acknowledged, each with its call."""
    calls: dict[str, None] = field(default_factory=dict)
    """Calls that it was given and has not ended."""
    questions: dict[str, None] = field(default_factory=dict)
    """That it asked."""
    unanswered: dict[str, bytes] = field(default_factory=dict)
    said: list[bytes] = field(default_factory=list)
    """Every request, as often as it was said."""
    _requests: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    # --- what the supervisor does with it ---

    def release(self, token: str, *, held: bool = False) -> None:
        self.token = token
        if not held:
            self.connect()

    def admit(self) -> None:
        self.connect()

    def kill_group(self) -> None:
        self.die()

    def signal(self, _number: int) -> bool:
        self.die()
        return True

    # --- what happens to it ---

    def connect(self) -> None:
        """Over a new connection; the old one, if any, is seen to end before or not at all."""
        found = self.life.wire.connect(f"w-{self.attempt_id}", self.pid)
        if found is not None:
            self.connection = found
            self.put(
                "session.hello",
                wire.Hello(
                    attempt_id=self.attempt_id,
                    token=self.token,
                    sdk_version="1.0.0",
                    sdkCapabilities=CORE_CAPABILITIES,
                    ready=self.ready,
                ),
            )

    def hang_up(self, *, read: bool = True) -> None:
        if self.connection is not None:
            self.life.wire.hang_up(self.connection, read=read)

    def die(self, *, read: bool = True, exit_first: bool = False) -> None:
        """Its last words are heard, unless they get lost; its end is told before them or behind them."""
        if not self.alive:
            return
        self.alive = False
        told = self.life.boxes["supervisor"]
        if exit_first:
            told.tell(Exited(self.attempt_id, KILLED))
        self.hang_up(read=read)
        if not exit_first:
            told.tell(Exited(self.attempt_id, KILLED))

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and self.connection.is_open

    # --- what it says ---

    def put(self, kind: str, body: WireModel | Mapping[str, Any], *, id: str | None = None) -> None:  # noqa: A002
        said_as = id or f"{self.attempt_id}/{next(self._requests)}"
        self.put_frame(envelope.encode(f"{_LONG}{kind}", body, id=said_as, sent_at=SENT_AT))

    def put_frame(self, frame: bytes) -> None:
        if self.connection is not None and self.connection.is_open:
            self.connection.up.append(frame)

    def frame(self, kind: str, body: Mapping[str, Any]) -> tuple[str, bytes]:
        """A new request, and its id."""
        said_as = f"{self.attempt_id}/{next(self._requests)}"
        return said_as, envelope.encode(f"{_LONG}{kind}", body, id=said_as, sent_at=SENT_AT)

    def request(self, kind: str, body: Mapping[str, Any]) -> None:
        """Say something that is answered; it is repeated until it is."""
        said_as, frame = self.frame(kind, body)
        self.unanswered[said_as] = frame
        self.said.append(frame)
        self.put_frame(frame)

    def say_word(self, call_id: str, word: str) -> None:
        """About a call; `word` is one of WORDS."""
        kind, body = WORDS[word]
        self.request(f"tools.{kind}", {"call_id": call_id, **body})

    def ask(self, request: Mapping[str, Any], **how: Any) -> None:  # noqa: ANN401 - fields of `ui.request`
        """Ask a person."""
        self.request("ui.request", {"request": request, **how})

    def acknowledge(self, number: int) -> None:
        self.request("inbox.acknowledge", {"message_id": f"m{number}"})

    # --- what it reads ---

    def read(self) -> None:
        """All that was sent to it."""
        while self.connection is not None and self.connection.down and self.alive and not self.hangs:
            self.read_one(self.connection)

    def read_one(self, connection: Connection) -> None:
        said = read(connection.down.pop(0))
        body = said.body
        match said.kind:
            case "session.welcome":
                self._welcomed(int(body["session"]))
            case "session.go" if not self.ready:
                self.ready = True
                self.put("session.ready", {})
            case "session.ping":
                self.put("session.pong", {"beat": body["beat"]})
            case "session.reset":
                self.resume(int(body["session"]))
            case "session.stop":
                self.put("session.bye", {"reason": "told to"})
                self.die()
            case "inbox.message":
                self._take(body)
            case _ if "request_id" in body:
                self._answered(body)

    def _answered(self, body: Mapping[str, Any]) -> None:
        self.unanswered.pop(body["request_id"], None)
        if body.get("interaction") is not None:
            self.questions[body["interaction"]["interaction_id"]] = None
        for message in body.get("messages", ()):
            self._take(message)

    def _welcomed(self, number: int) -> None:
        self.session = number
        if not self.ready:
            self.put("session.confined", wire.Confined(namespaces=(), landlock_abi=0, canaries={}))
        for frame in self.unanswered.values():
            self.put_frame(frame)

    def resume(self, number: int) -> None:
        """Of its session `number`."""
        self.put(
            "session.resume",
            wire.Resume(
                attempt_id=self.attempt_id,
                session=number,
                snapshot_digest=_DIGEST,
                sdkCapabilities=CORE_CAPABILITIES,
                last_number=max(self.held, default=0),
                ready=True,
            ),
        )

    def _take(self, message: Mapping[str, Any]) -> None:
        call = message.get("call")
        self.held[message["number"]] = call["call_id"] if call is not None else None
        if call is not None:
            self.calls[call["call_id"]] = None


WORDS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "yes": ("complete", {"result": {"ok": True}}),
    "no": ("complete", {"result": {"ok": False}}),
    "invalid": ("complete", {"result": {"ok": "?"}}),
    "fail": ("fail", {"failure": {"code": "app.broken", "message": "it broke"}}),
    "cancel": ("cancel", {}),
    "progress": ("report_progress", {"progress": {"percent": 50}}),
}


class Machine:
    """Where processes run. Stands for the zygote, the watcher and the logs of whichever daemon lives."""

    def __init__(self) -> None:
        self.life: Life | None = None
        self.processes: list[Process] = []
        self._pids = itertools.count(5000)

    def fork(self, attempt_id: str, spec: Mapping[str, object], **_: object) -> Process:
        assert self.life is not None
        process = Process(self.life, next(self._pids), attempt_id, str(spec["app_scope"]))
        if self.life.alive:
            self.processes.append(process)
        return process

    def open(self, _instance_id: str, _attempt_id: str) -> int:
        return os.open(os.devnull, os.O_WRONLY)

    def watch(self, _key: str, _process: object) -> None:
        """A model process tells of its end itself."""

    def living(self) -> list[Process]:
        self.processes = [one for one in self.processes if one.alive]
        return self.processes

    def kill_all(self) -> None:
        """No worker outlives its daemon."""
        for process in self.processes:
            process.alive = False
        self.processes.clear()
