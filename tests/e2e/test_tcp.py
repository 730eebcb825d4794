"""An agent over TCP: its key proves who it is, through a real daemon and its relay."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from runtime_actors.contract import envelope
from tests.e2e.daemon import Daemon, short_folder

WAIT_MS = 10_000


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def daemon(port: int) -> Iterator[Daemon]:
    with short_folder() as folder, Daemon(folder / "s", options=(f"--listen=tcp://127.0.0.1:{port}",)) as made:
        made.start()
        yield made


class TcpAgent:
    """A CURVE client as docs/protocol.md describes it."""

    def __init__(self, state: Path, port: int, public: bytes, secret: bytes) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.curve_serverkey = (state / "curve.pub").read_bytes().strip()
        self._socket.curve_publickey, self._socket.curve_secretkey = public, secret
        self._socket.connect(f"tcp://127.0.0.1:{port}")

    def ask(self, kind: str, body: dict[str, Any], conversation: str | None = None) -> envelope.Envelope:
        frame = envelope.encode(kind, body, id="q", sent_at="2026-01-01T00:00:00Z", conversation_id=conversation)
        self._socket.send(frame)
        return self.hear()

    def hear(self) -> envelope.Envelope:
        assert self._socket.poll(WAIT_MS), "nothing was said"
        return envelope.decode(self._socket.recv())

    def close(self) -> None:
        self._socket.close()
        self._context.term()


def test_an_agent_is_known_by_its_key_and_by_no_other_name(daemon: Daemon, port: int) -> None:
    public, secret = zmq.curve_keypair()
    new = {"name": "remote", "token_hash": hashlib.sha256(b"unused").hexdigest(), "public_key": public.decode()}
    daemon.control("add_agent", new)
    agent = TcpAgent(daemon.state, port, public, secret)
    try:
        attached = agent.ask("lineup.v1.agent.attach", {"agent": "remote"})
        inventory = agent.hear()
        revision = inventory.body["revision"]
        call = {"call_id": "c1", "tool_id": "probe.echo", "inventory_revision": revision, "input": {"text": "hi"}}
        first, second = agent.ask("lineup.v1.tool.invoke", call, "over-tcp"), agent.hear()
        other = agent.ask("lineup.v1.agent.attach", {"agent": "local"})
    finally:
        agent.close()

    assert (attached.type, attached.body["agent"]) == ("lineup.v1.agent.attached", "remote")
    assert {first.type, second.type} == {"lineup.v1.tool.state", "lineup.v1.tool.result"}
    assert (other.type, other.body["code"]) == ("lineup.v1.rejected", "attach_denied")
