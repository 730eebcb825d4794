"""Agents over TCP: a process of its own that lets registered keys in and passes their frames on to the agent door.

libzmq cannot be bounded by its options alone (frames with MORE grow it without end), so it serves TCP only here, under
RLIMIT_DATA: a peer that overdoes it ends this process, not the daemon. Nothing is decided here and no frame is read;
the daemon sees one connection of the agent door for each TCP peer.

Standard input and output, one JSON object or word a line:

- in, first: `{listen, agent_sock, server_secret, allowed, relay_secret}`, keys in Z85, `allowed` from a client's public
  key to the name of its agent. Secrets come this way because arguments and environment can be read in /proc.
- in, later: `{allowed}` replaces that map. Who is no longer in it is cut off at its next frame, in either direction.
- in, its end: this process ends too.
- out, once: `ready tcp://127.0.0.1:PORT`, or `failed REASON`.

The key is proved by CURVE (RFC 26) and named by ZAP (RFC 27): libzmq then puts it on every message as `User-Id`, so no
peer can speak for another. The first frame of each connection to the door is `lineup.v1.agent.relay` `{agent, secret}`;
with the right secret it lets each `lineup.v1.agent.attach` that follows go without a token, for exactly that agent. It
has no answer. When the door closes a connection, or it was idle for ten minutes, the next frame opens a new one and is
answered `not_attached`, upon which clients attach again (protocol, section 1).

TCP clients must not set a routing id: a name that one peer can choose could be left over from another.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import zmq
from zmq.utils import z85

import runtime_actors
from runtime_actors.contract import envelope
from runtime_actors.gateway.link import Link, LinkClosed

RELAY_TYPE: Final = "lineup.v1.agent.relay"
MAX_PEERS: Final = 256

_MEMORY_BYTES: Final = 256 * 1024 * 1024
_MAX_FRAME: Final = 262_144 + 64  # the protocol's, and what CURVE adds; the door answers what is over its own
_QUEUED_FRAMES: Final = 32  # of one peer in libzmq, each way
_HANDSHAKE_MS: Final = 3000
_IDLE_S: Final = 600.0
_BURST: Final = 16  # frames taken from TCP between two looks at the links
_TICK_MS, _RETRY_MS = 1000, 10
_AUTO_ID_BYTES: Final = 5  # libzmq's own routing ids: a zero byte and a counter
_MAX_LINE: Final = 1_048_576
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_LOOPBACK: Final = "tcp://127.0.0.1:"

# -I hears neither the environment nor the working folder, so a tree that is not installed must be named.
_BOOT: Final = """\
import sys
if sys.argv[1] not in sys.path:
    sys.path.insert(0, sys.argv[1])
from runtime_actors.gateway.curve import main
main()
"""


class RelayNotStarted(Exception):
    """The relay ended, or said nothing, instead of serving."""


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """What the relay needs to know."""

    listen: str
    """`tcp://127.0.0.1:PORT`; `*` for the port lets the system choose."""
    agent_sock: Path
    server_secret: str
    """Z85."""
    allowed: Mapping[str, str]
    """A client's public key (Z85) to the name of its agent."""
    relay_secret: str
    """What the agent door knows this relay by."""

    def __post_init__(self) -> None:
        if not self.listen.startswith(_LOOPBACK):
            raise ValueError(f"only the loopback interface is served, not {self.listen}")


class Relay:
    """A relay that serves. It ends with `stop`, with the daemon, and by itself when a peer makes it too large."""

    def __init__(self, process: subprocess.Popen[bytes], endpoint: str) -> None:
        self.process = process
        self.endpoint = endpoint
        """Where it listens, with the port it was given."""

    def allow(self, allowed: Mapping[str, str]) -> None:
        """Replace the map of keys to agents. Of no effect when the relay has ended."""
        _tell(self.process, {"allowed": dict(allowed)})

    def stop(self, *, within_s: float = 2.0) -> None:
        """End it: by the end of its input, or else by SIGKILL."""
        _end(self.process, within_s)


def new_keys() -> tuple[bytes, bytes]:
    """A public and a secret key, Z85."""
    return zmq.curve_keypair()


def start_relay(config: RelayConfig, *, within_s: float = 10.0) -> Relay:
    """Start the relay and wait until it serves. On Linux it dies with the calling thread, so call it from the main one.

    Raises:
        RelayNotStarted: for the address in use, for one; the message has the reason.

    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, str(Path(runtime_actors.__file__).resolve().parent.parent)],
        env={"LANG": "C.UTF-8"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C at the daemon's terminal is for the daemon
    )
    _tell(
        process,
        {
            "listen": config.listen,
            "agent_sock": str(config.agent_sock.absolute()),
            "server_secret": config.server_secret,
            "allowed": dict(config.allowed),
            "relay_secret": config.relay_secret,
        },
    )
    word, _, rest = _first_line(process, within_s).partition(" ")
    if word != "ready":
        _end(process, 0)
        raise RelayNotStarted(rest or "it ended, or took too long")
    return Relay(process, rest)


def _tell(process: subprocess.Popen[bytes], order: Mapping[str, object]) -> None:
    assert process.stdin is not None  # noqa: S101 - for the type checker: it is a pipe
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()


def _first_line(process: subprocess.Popen[bytes], within_s: float) -> str:
    assert process.stdout is not None  # noqa: S101 - as above
    with process.stdout as out:
        readable, _, _ = select.select([out], [], [], within_s)
        return out.readline().decode().strip() if readable else ""


def _end(process: subprocess.Popen[bytes], within_s: float) -> None:
    assert process.stdin is not None  # noqa: S101 - as above
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# The process itself.


class _Serving:
    """One thread, one poller: TCP on one side, a link for each peer on the other."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._agent_sock = Path(config["agent_sock"])
        self._relay_secret: str = config["relay_secret"]
        self._allowed: dict[str, str] = config["allowed"]
        self._orders = b""
        self._links: dict[bytes, Link] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._zap = self._context.socket(zmq.REP)
        self._zap.bind("inproc://zeromq.zap.01")  # before the first peer can ask to be let in
        self._router = self._context.socket(zmq.ROUTER)
        for option, value in (
            (zmq.CURVE_SERVER, 1),
            (zmq.CURVE_SECRETKEY, config["server_secret"].encode()),
            (zmq.ZAP_DOMAIN, b"lineup"),
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.MAXMSGSIZE, _MAX_FRAME),
            (zmq.RCVHWM, _QUEUED_FRAMES),
            (zmq.SNDHWM, _QUEUED_FRAMES),
            (zmq.HANDSHAKE_IVL, _HANDSHAKE_MS),
            (zmq.LINGER, 0),
        ):
            self._router.setsockopt(option, value)
        self._router.bind(config["listen"])
        self.endpoint = str(self._router.getsockopt_string(zmq.LAST_ENDPOINT))
        self._poller = zmq.Poller()
        self._poller.register(self._zap, zmq.POLLIN)
        self._poller.register(0, zmq.POLLIN)
        self._stdin_open = True

    def run(self) -> None:
        while self._stdin_open:
            self._watch()
            events = dict(self._poller.poll(self._timeout_ms()))
            if self._zap in events:
                self._answer_zap()
            if 0 in events:
                self._read_order()
            if self._router in events:
                self._from_tcp()
            now = time.monotonic()
            for link in list(self._links.values()):
                self._serve(link, events.get(link.fileno(), 0), now)

    def _watch(self) -> None:
        full = any(link.full for link in self._links.values())
        self._poller.register(self._router, 0 if full else zmq.POLLIN)
        for link in self._links.values():
            flags = (zmq.POLLIN if link.wants_to_read else 0) | (zmq.POLLOUT if link.wants_to_write else 0)
            self._poller.register(link.fileno(), flags)

    def _timeout_ms(self) -> int:
        return _RETRY_MS if any(link.unsent is not None for link in self._links.values()) else _TICK_MS

    def _answer_zap(self) -> None:
        version, request, *_, mechanism, key = self._zap.recv_multipart()
        name = z85.encode(key).decode() if mechanism == b"CURVE" else ""
        verdict = [b"200", b"OK", name.encode()] if name in self._allowed else [b"400", b"unknown key", b""]
        self._zap.send_multipart([version, request, *verdict, b""])

    def _read_order(self) -> None:
        data = os.read(0, 65_536)
        self._orders += data
        self._stdin_open = bool(data) and len(self._orders) < _MAX_LINE
        *whole, self._orders = self._orders.split(b"\n")
        for line in whole:
            self._allowed = json.loads(line)["allowed"]

    def _from_tcp(self) -> None:
        for _ in range(_BURST):
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            client = frames[0].bytes
            key = str(frames[-1].get("User-Id"))
            agent = self._allowed.get(key)
            link = self._links.get(client)
            fits = len(frames) == 2 and agent is not None and _is_automatic(client)  # noqa: PLR2004 - id and frame
            if link is not None and not (fits and link.key == key and link.agent == agent):
                self._close(link)
                link = None
            if not fits or (link is None and (link := self._connect(client, key)) is None):
                continue
            link.active_at = time.monotonic()
            link.put(frames[1].bytes)
            if link.full:
                return

    def _connect(self, client: bytes, key: str) -> Link | None:
        if len(self._links) >= MAX_PEERS:
            self._close(min(self._links.values(), key=lambda link: link.active_at))
        try:
            link = Link(self._agent_sock, client=client, key=key, agent=self._allowed[key])
        except LinkClosed:
            return None
        body = {"agent": link.agent, "secret": self._relay_secret}
        link.put(envelope.encode(RELAY_TYPE, body, id="relay", sent_at=datetime.now(UTC).isoformat()))
        self._links[client] = link
        return link

    def _serve(self, link: Link, events: int, now: float) -> None:
        try:
            if link.wants_to_write:
                link.write()
            if events & ~zmq.POLLOUT:
                link.read()
            while (message := link.take()) is not None:
                if not self._to_tcp(link, message):
                    break
                link.active_at = now
        except LinkClosed:
            self._close(link)
            return
        if now - link.active_at > _IDLE_S:
            self._close(link)

    def _to_tcp(self, link: Link, message: bytes) -> bool:
        """Pass one message on; False when there is no room for it now."""
        if self._allowed.get(link.key) != link.agent:
            raise LinkClosed("its key is no longer allowed")
        try:
            self._router.send_multipart([link.client, message], zmq.NOBLOCK)
        except zmq.Again:
            link.unsent = message
            return False
        except zmq.ZMQError as error:  # EHOSTUNREACH: it is gone
            raise LinkClosed(str(error)) from error
        link.unsent = None
        return True

    def _close(self, link: Link) -> None:
        self._poller.register(link.fileno(), 0)
        self._links.pop(link.client, None)
        link.close()


def _is_automatic(client: bytes) -> bool:
    return len(client) == _AUTO_ID_BYTES and client[0] == 0


def _confine() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold the secrets
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    if sys.platform == "linux":  # a parent that is gone already has closed our input
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        libc.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)  # its memory holds the secrets


def main() -> None:
    """Serve until standard input ends. Called in the relay's own process."""
    _confine()
    line = b""
    while not line.endswith(b"\n"):  # unbuffered: what follows the line is for the poller
        if not (byte := os.read(0, 1)):
            return
        line += byte
    try:
        serving = _Serving(json.loads(line))
    except (zmq.ZMQError, ValueError) as error:
        os.write(1, f"failed {error}\n".encode())
        sys.exit(1)
    os.write(1, f"ready {serving.endpoint}\n".encode())
    serving.run()


if __name__ == "__main__":
    main()
