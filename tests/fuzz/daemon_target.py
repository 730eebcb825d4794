"""A real daemon behind its real doors: frames of any kind, streams that are no ZMTP, and whatever comes over TCP."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from pathlib import Path
from typing import Any, Final

from runtime_actors.client import door_of, read_token
from runtime_actors.contract import codec, envelope, zmtp
from runtime_actors.contract.protocol import KINDS
from runtime_actors.contract.rejection import RejectionCode
from tests.e2e.daemon import QUICK, Daemon, short_folder
from tests.fuzz.shapes import Shape, spoil
from tests.fuzz.source import Source, packed
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect
from tests.fuzz.zmtp_stream import GREETING, READY, a_stream, frame

SHUT_OUT: Final = "shut out"
"""The daemon hung up: too much of what came from this process made no sense."""
_AT: Final = "2026-01-01T12:00:00Z"
_DOORS: Final = ("agent", "host", "control")
_LIMIT_S: Final = 10.0
_PACE_S: Final = 0.012
"""Between two connections: 100 a second of one process are accepted."""
_GROWTH_BYTES: Final = 96 * 1024 * 1024
_NEVER: Final = frozenset({RejectionCode.INTERNAL_ERROR, RejectionCode.STORE_UNAVAILABLE})
_WRITES: Final = frozenset({"lineup.v1.control.backup", "lineup.v1.control.export_audit"})
_ENDS: Final = frozenset({"lineup.v1.control.shutdown"})


class DaemonTarget(Stateless):
    """`to` is a door (`data` is a frame), `stream DOOR` (what a connection sends), or `tcp`."""

    name = "daemon"

    def __init__(self) -> None:
        super().__init__()
        self._open = contextlib.ExitStack()
        self._folder = self._open.enter_context(short_folder())
        self._port = _free_port()
        options = (*QUICK, f"--listen=tcp://127.0.0.1:{self._port}")
        self._daemon = self._open.enter_context(Daemon(self._folder / "s", options=options))
        self._daemon.start()
        self._state = self._daemon.state
        self._numbers = itertools.count(1)
        self._talks: dict[str, _Talk] = {}
        self._shapes = {name: Shape(kind.body) for name, kind in KINDS.items() if kind.direction == "in"}
        self._begun = self._daemon.control("query", {"what": "status"})["rows"][0]
        [inventory] = self._daemon.control("query", {"what": "inventory"})["rows"]
        self._pools: dict[str, Any] = {
            "agent": ("local", "nobody"),
            "token": (read_token(self._state, "local"), "wrong", "\u00e9" * 40),
            "inventory_revision": (inventory["revision"], inventory["revision"], "r-old"),
            "tool_id": ("probe.echo", "probe.none"),
            "input": ({"text": "x"}, {}, {"text": 1}),
            "app_scope": ("probe", "chat"),
            "call_id": tuple(f"c{number}" for number in range(20)),
            "secret": ("\u00e9" * 20, "wrong"),
            "after": ("0", "1", "\u00b2", "9" * 40, None),
            "path": (str(self._folder / "copy"), str(self._folder), str(self._folder / "none" / "x")),
            "name": ("probe", "other"),
            "instance_id": ("ins-1", ".."),
        }

    def make(self, source: Source) -> Input:
        kind = source.random.random()
        if kind < 0.1:
            return Input(source.pick((source.noise(200), a_stream(source, 1000), b"GET / HTTP/1.1\r\n\r\n")), "tcp")
        door = source.pick(_DOORS)
        if kind < 0.35:
            return Input(a_stream(source, codec.MAX_FRAME_BYTES), f"stream {door}")
        name = source.pick([one for one in sorted(self._shapes) if door in KINDS[one].doors or source.chance(0.1)])
        tree: dict[str, Any] = {"v": 1, "id": f"q{source.random.getrandbits(40)}", "type": name, "sent_at": _AT}
        tree["body"] = self._shapes[name].body(source, self._pools)
        tree["conversation_id"] = source.pick(("talk", "other"))
        for _ in range(source.below(3)):
            spoil(source, tree["body"] if tree.get("body") and isinstance(tree["body"], dict) else tree, self._pools)
        return Input(packed(tree), door)

    def feed(self, one: Input) -> str:
        if one.to == "tcp":
            self._stream(socket.create_connection(("127.0.0.1", self._port), _LIMIT_S), one.data)
            return "tcp"
        if one.to.startswith("stream "):
            self._stream(self._dial(one.to.removeprefix("stream ")), one.data)
            self._serves()
            return "stream"
        return self._say(one.to, one.data) if self._may_be_said(one.data) else ACCEPTED

    def _may_be_said(self, data: bytes) -> bool:
        """Neither the end of the daemon nor a file outside its folder is ordered."""
        try:
            said = envelope.decode(data)
        except codec.IntakeError:
            return True
        path = Path(str(said.body.get("path"))).resolve()
        return said.type not in _ENDS and (said.type not in _WRITES or path.is_relative_to(self._folder.resolve()))

    def _say(self, door: str, data: bytes) -> str:
        talk = self._talks.pop(door, None) or self._attached(door)
        if talk is None:
            return SHUT_OUT
        ping = f"after {next(self._numbers)}".replace(" ", "-")
        said = talk.say(data, _frame("ping", {}, ping), ping)
        if said is None:
            talk.close()
            self._serves()
            return SHUT_OUT
        self._talks[door] = talk
        refused = [str(each.body["code"]) for each in said if each.type == "lineup.v1.rejected"]
        for code in refused:
            expect(code in set(RejectionCode) and code not in _NEVER, f"an input was answered {code}")
        return refused[0] if refused else ACCEPTED

    def _attached(self, door: str) -> _Talk | None:
        talk = _Talk(self._dial(door))
        first = {
            "agent": ("agent.attach", {"agent": "local", "token": read_token(self._state, "local")}),
            "host": ("host.attach", {"host": "screen"}),
        }.get(door, ("ping", {}))
        if talk.say(_frame(*first, "first"), b"", "first") is None:
            talk.close()
            return None
        return talk

    def _serves(self) -> None:
        """The operator's door answers."""
        answer = self._daemon.control("query", {"what": "apps", "limit": 1}, timeout_s=_LIMIT_S)
        expect(answer["rows"], "the daemon answers nothing")

    def _dial(self, door: str) -> socket.socket:
        threading.Event().wait(_PACE_S)
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(_LIMIT_S)
        made.connect(door_of(self._state, door).removeprefix("ipc://"))
        return made

    def _stream(self, sock: socket.socket, data: bytes) -> None:
        with sock, contextlib.suppress(OSError):  # it may have been hung up on already
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65_536):
                pass

    def close(self) -> None:
        with self._open:
            for talk in self._talks.values():
                talk.close()
            expect(self._daemon.running, f"the daemon ended with {self._daemon.exit_code}")
            now = self._daemon.control("query", {"what": "status"})["rows"][0]
            expect(
                not any(now["restarts"].values()), f"an exception escaped, and an actor was rebuilt: {now['restarts']}"
            )
            expect(not now["set_aside"], "a message was set aside")
            expect(now["endpoint"], "nobody listens on TCP any more")
            grown = now["memory"]["rss_bytes"] - self._begun["memory"]["rss_bytes"]
            expect(grown < _GROWTH_BYTES, f"the daemon grew by {grown} bytes")
            self._daemon.control("verify_audit", {}, timeout_s=_LIMIT_S)
            expect(self._daemon.terminate() == 0, "the daemon did not end well")


class _Talk:
    """One connection after the handshake."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._connection = zmtp.Connection("DEALER", peer_types=frozenset({"ROUTER"}))
        with contextlib.suppress(ConnectionError):
            sock.sendall(GREETING + frame(READY, 4))

    def say(self, data: bytes, then: bytes, until: str) -> list[envelope.Envelope] | None:
        """Say something, and hear until the answer to a request; None if the other end hung up."""
        heard: list[envelope.Envelope] = []
        try:
            self._sock.sendall(zmtp.pack(data) + (zmtp.pack(then) if then else b""))
            while (message := self._message()) is not None:
                said = envelope.decode(message)
                KINDS[said.type].body.model_validate(said.body)
                if said.body.get("request_id") == until:
                    return heard
                heard.append(said)
        except ConnectionError:
            pass
        return None

    def _message(self) -> bytes | None:
        while True:
            event = zmtp.NEED_DATA if self._connection.needs_data else self._connection.next_event()
            if isinstance(event, bytes):
                return event
            if event is zmtp.NEED_DATA:
                data = self._sock.recv(65_536)
                if not data:
                    return None
                self._connection.receive_data(data)

    def close(self) -> None:
        self._sock.close()


def _frame(kind: str, body: dict[str, Any], request_id: str) -> bytes:
    return envelope.encode(f"lineup.v1.{kind}", body, id=request_id, sent_at=_AT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
