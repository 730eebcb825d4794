"""The runtime's end of a worker channel, played by a test over a real socket, and a real worker at the other end."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

import zmq

from miniapp_worker import layers, main
from runtime_actors.contract import envelope

LIMIT_S: Final = 5.0
ATTEMPT: Final = "att-1"
TOKEN: Final = "0123456789abcdef0123456789abcdef"
SENT_AT: Final = "2026-01-01T00:00:00Z"

CAPABILITIES: Final = [
    {"name": "input.receive", "surface": "core", "supportLevel": "native"},
    {"name": "output.publish", "surface": "core", "supportLevel": "native"},
]


class RuntimeEnd:
    """A bound socket that says what a test tells it to, and reads with a limit."""

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / "w"
        self.session = 0
        self._numbers = count(1)
        self._context, self._socket = self._bind()

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()

    def drop_connection(self) -> None:
        """Close the connection, and listen for the next one."""
        self.close()  # to the end of the context: a socket removes its path when it is reaped, some time after close()
        self._context, self._socket = self._bind()

    def hang_up(self) -> None:
        """Close the connection after what was said has left, and listen no more."""
        self._socket.close(linger=int(LIMIT_S * 1000))
        self._context.term()

    def say(self, kind: str, /, **body: object) -> None:
        frame = envelope.encode(f"lineup.v1.{kind}", body, id=f"rt-{next(self._numbers)}", sent_at=SENT_AT)
        self._socket.send(frame)

    def say_raw(self, frame: bytes) -> None:
        self._socket.send(frame)

    def hear_frame(self) -> bytes:
        return self._socket.recv()

    def hear_any(self) -> envelope.Envelope:
        """The next thing the worker says."""
        return envelope.decode(self.hear_frame())

    def hear(self, kind: str) -> envelope.Envelope:
        """The next thing the worker says, which must be of `kind`."""
        said = self.hear_any()
        assert said.type == f"lineup.v1.{kind}", said
        return said

    def stays_quiet(self) -> bool:
        """Whether the worker says nothing but pongs: so many that its tasks had several turns between them."""
        for beat in range(64):
            self.say("session.ping", beat=beat)
            if envelope.decode(self.hear_frame()).type != "lineup.v1.session.pong":
                return False
        return True

    def welcome(self, *, window: int = 32) -> envelope.Envelope:
        """Hear a hello and answer it."""
        hello = self.hear("session.hello")
        self.say_welcome(window=window)
        if self.session == 1:
            self.hear("session.confined")
            self.say("session.go", level="process")
        return hello

    def say_welcome(self, *, window: int = 32) -> None:
        self.session += 1
        self.say(
            "session.welcome",
            context={
                "app_scope": "echo",
                "instance_id": "ins-1",
                "conversation_id": "c-1",
                "app_version": "1.0.0",
                "state": "foreground",
            },
            session=self.session,
            window=window,
            ping_ms=1000,
            effectiveSdkCapabilities=CAPABILITIES,
            snapshot_digest="digest",
        )

    def start_app(self, *, window: int = 32) -> None:
        """Up to the point where the app's `main` runs."""
        self.welcome(window=window)
        self.hear("session.ready")

    def call(self, number: int, tool_id: str = "echo.say", /, *, repeated: bool = False, **call: object) -> None:
        """Give the app a call named after its number: message `m1` brings call `call-1`."""
        self.say(
            "inbox.message",
            message_id=f"m{number}",
            number=number,
            kind="tool.call",
            repeated=repeated,
            created_at=SENT_AT,
            call={
                "call_id": f"call-{number}",
                "tool_id": tool_id,
                "input": {},
                "status": "waiting_for_app",
                "created_at": SENT_AT,
                **call,
            },
        )

    def text(self, number: int, text: str) -> None:
        self.say(
            "inbox.message",
            message_id=f"m{number}",
            number=number,
            kind="message",
            created_at=SENT_AT,
            message={"text": text},
        )

    def accept(self, request: envelope.Envelope, *, call_status: str | None = None) -> None:
        status = {} if call_status is None else {"call_status": call_status}
        self.say("receipt", request_id=request.id, accepted=True, **status)

    def refuse(self, request: envelope.Envelope, code: str) -> None:
        self.say("receipt", request_id=request.id, accepted=False, code=code, detail="refused by the test")

    def _bind(self) -> tuple[zmq.Context[zmq.Socket[bytes]], zmq.Socket[bytes]]:
        context = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.RCVHWM, 1)  # what a test does not read fills the worker's end soon
        socket.setsockopt(zmq.RCVTIMEO, int(LIMIT_S * 1000))
        socket.setsockopt(zmq.SNDTIMEO, int(LIMIT_S * 1000))
        socket.bind(f"ipc://{self.path}")
        return context, socket


class Worker:
    """`miniapp_worker.main.run` on a thread of its own."""

    def __init__(self, spec: Mapping[str, object], confinement: layers.Confinement = layers.NOTHING) -> None:
        self._codes: list[int] = []
        self._thread = threading.Thread(
            target=lambda: self._codes.append(main.run(dict(spec), confinement)), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(LIMIT_S)

    def wait_exit_code(self) -> int:
        self._thread.join(2 * LIMIT_S)
        assert self._codes, "the worker has not ended"
        return self._codes[0]


def spec_of(runtime: RuntimeEnd, folder: Path, app_scope: str = "echo") -> dict[str, Any]:
    return {
        "attempt_id": ATTEMPT,
        "token": TOKEN,
        "socket_path": str(runtime.path),
        "app_folder": str(folder),
        "app_scope": app_scope,
    }


@contextmanager
def runtime_end() -> Iterator[RuntimeEnd]:
    folder = Path(tempfile.mkdtemp(prefix="lw-"))  # not pytest's: its paths are too long for a Unix socket
    runtime = RuntimeEnd(folder)
    try:
        yield runtime
    finally:
        runtime.close()
        shutil.rmtree(folder)


@contextmanager
def served(runtime: RuntimeEnd, folder: Path, app_scope: str = "echo") -> Iterator[Worker]:
    """A worker of the app in `folder`. When the test is done with it, it is asked to stop."""
    with Worker(spec_of(runtime, folder, app_scope)) as worker:
        yield worker
        runtime.say("session.stop", reason="test", grace_ms=500)
        assert worker.wait_exit_code() == main.ExitCode.DONE
