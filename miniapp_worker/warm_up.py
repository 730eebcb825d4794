"""A worker's whole life, lived in the zygote: before a kernel that accepts everything, and a runtime that is made up.

What Python builds at first use, and how its interpreter adapts to what runs often (PEP 659), is written into memory.
Done here once, it lies on pages that all workers share; done in each of them, it would be theirs alone, and cost time
at each start. No MiniApp takes part, nothing is given up, and nothing stays open.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from miniapp_worker import layers, main, spawned
from miniapp_worker.link import Link
from miniapp_worker.pretended import pretended
from miniapp_worker.session import Identity, Session
from runtime_actors.contract import envelope, zmtp
from runtime_actors.contract import session as wire
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.inbox import MiniAppMessage
from runtime_actors.contract.tools import CallStatus, CommandReceipt
from runtime_actors.contract.tools import MiniAppToolCall as WireCall

LIVES: Final = 12
"""The interpreter adapts to a function from its eighth call on, a little at each."""
_CALLS: Final = 3
"""In each life."""
_APP: Final = str(Path(__file__).with_name("warm_app"))
_SCOPE: Final = "warm-up"
_AT: Final = "2026-01-01T00:00:00Z"
_STANDARD_ERROR: Final = 2
_READ_BYTES: Final = 65536


def warm_up(plan: layers.Plan | None, lives: int = LIVES) -> None:
    """Live so many lives, some 10 ms each. For a process with one thread, which is afterwards what it was before.

    Raises:
        RuntimeError: one of them did not end as it should.
    """
    if plan is not None and plan.way is not None:
        # A user namespace is asked for by writing files, and that would be done.
        plan = replace(plan, way=replace(plan.way, by_user=False))
    for _ in range(lives):
        code = _live(plan)
        _forget_app()
        if code != main.ExitCode.DONE:
            raise RuntimeError(f"a rehearsed worker ended with {code}")


def serve(spec: dict[str, object], confinement: layers.Confinement) -> int:
    """A rehearsed worker's entry."""
    return main.run(spec, confinement, _session_with_nobody)


def _live(plan: layers.Plan | None) -> int:
    gate, daemon = os.pipe()
    try:
        os.write(daemon, b"0" * 64 + b"\n\n")
        order = spawned.Order.read(_ORDER | {"daemon_pid": os.getppid()})
        with pretended(gate):
            return spawned.live(order, _STANDARD_ERROR, [gate], plan)
    finally:
        os.close(daemon)


def _session_with_nobody(identity: Identity, path: str) -> Session:
    return Session(identity, path, make_link=_Nowhere)


def _forget_app() -> None:
    for name in [name for name in sys.modules if name.startswith("miniapp_warm_up")]:
        del sys.modules[name]
    sys.path_importer_cache.pop(_APP, None)


class _Nowhere(Link):
    """A link whose other end is in this process."""

    def _connected(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        theirs.settimeout(0)
        self._runtime = _Runtime(theirs)
        self._loop.add_reader(theirs, self._runtime.hear)
        return ours

    def close(self, *, linger_ms: int) -> None:
        super().close(linger_ms=linger_ms)
        self._loop.remove_reader(self._runtime.connected)
        self._runtime.connected.close()


class _Runtime:
    """Says at once what a runtime says to a worker that does all it should."""

    def __init__(self, connected: socket.socket) -> None:
        self.connected = connected
        self._zmtp = zmtp.Connection("ROUTER")
        self._given = 0
        self.connected.send(self._zmtp.greeting())

    def hear(self) -> None:
        self._zmtp.receive_data(self.connected.recv(_READ_BYTES))
        while (event := self._zmtp.next_event()) is not zmtp.NEED_DATA:
            if isinstance(event, bytes):
                self._answer(envelope.decode(event))

    def _answer(self, said: envelope.Envelope) -> None:
        match said.type.removeprefix("lineup.v1."):
            case "session.hello":
                self._say("session.welcome", _WELCOME)
            case "session.confined":
                self._say("session.go", wire.Go(level="sealed"))
            case "session.ready":
                self._say("context.changed", wire.ContextChanged(state="foreground"))
                self._say("session.ping", wire.Ping(beat=1))
                self._give()
            case "tools.report_progress" | "inbox.acknowledge":
                self._receipt(said.id, CallStatus.RUNNING)
            case "tools.complete":
                self._receipt(said.id, CallStatus.COMPLETED)
                self._give()

    def _receipt(self, request_id: str, status: CallStatus) -> None:
        self._say("receipt", CommandReceipt(request_id=request_id, accepted=True, call_status=status))

    def _give(self) -> None:
        self._given += 1
        if self._given > _CALLS:
            self._say("session.stop", wire.Stop(reason="warm", grace_ms=1000))
            return
        call = WireCall(
            call_id=f"c{self._given}",
            tool_id="warm.up",
            input={"text": "x"},
            status=CallStatus.WAITING_FOR_APP,
            created_at=_AT,
        )
        message = MiniAppMessage(
            message_id=f"m{self._given}",
            number=self._given,
            kind="tool.call",
            repeated=False,
            created_at=_AT,
            call=call,
        )
        self._say("inbox.message", message)

    def _say(self, kind: str, body: WireModel) -> None:
        frame = envelope.encode(f"lineup.v1.{kind}", body, id="r1", sent_at=_AT)
        self.connected.send(zmtp.pack(frame))


_WELCOME: Final = wire.Welcome(
    context=wire.MiniAppContextModel(
        app_scope=_SCOPE, instance_id="ins-0", conversation_id="main", app_version="1.0.0", state="starting"
    ),
    session=1,
    window=64,
    ping_ms=1000,
    effectiveSdkCapabilities=wire.CORE_CAPABILITIES,
    snapshot_digest="0",
)
_ORDER: Final = {
    "attempt_id": "att-0",
    "by_kernel": True,
    "entry": f"{__name__}:serve",
    "limits": {"memory_bytes": 1, "address_space_bytes": 1, "cpu_s": 1, "open_files": 1, "threads": 1},
    "keeps": {"app_folder": _APP, "socket_path": "/", "uid": 1},
    "spec": {"attempt_id": "att-0", "socket_path": "", "app_folder": _APP, "app_scope": _SCOPE},
}
"""Nothing of it is put into force."""
