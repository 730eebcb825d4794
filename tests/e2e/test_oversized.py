"""Frames that are too large, at the door of a real daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import zmq

from runtime_actors.client import Connection, ConnectionLost, door_of
from runtime_actors.contract import envelope
from tests.e2e.daemon import Daemon, short_folder, wait_until

LIMIT_S = 5.0
LARGEST_FRAME = 262_144
LARGEST_SKIPPED = 16 * 1024 * 1024


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with short_folder() as folder, Daemon(folder / "s", apps=()) as daemon:
        daemon.start()
        yield daemon


@pytest.fixture
def connection(daemon: Daemon) -> Iterator[Connection]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = Connection(context, door_of(daemon.state, "agent"))
    made.wait_open(LIMIT_S)
    yield made
    made.close()
    context.term()


def answer(connection: Connection) -> envelope.Envelope:
    frame = connection.receive(LIMIT_S)
    assert frame is not None
    return envelope.decode(frame)


def a_ping(request_id: str) -> bytes:
    return envelope.encode("lineup.v1.ping", {}, id=request_id, sent_at="2026-01-01T00:00:00Z")


@pytest.mark.parametrize("size", [LARGEST_FRAME + 1, LARGEST_SKIPPED])
def test_an_oversized_frame_is_refused_and_the_next_one_is_answered(
    daemon: Daemon, connection: Connection, size: int
) -> None:
    connection.send(bytes(size))
    connection.send(a_ping("after"))

    refused, pong = answer(connection), answer(connection)

    assert (refused.type, refused.body["code"]) == ("lineup.v1.rejected", "message_too_large")
    assert "request_id" not in refused.body
    assert (pong.type, pong.body) == ("lineup.v1.pong", {"request_id": "after"})
    noted = wait_until("the audit entry", lambda: daemon.audit("request.refused"))
    assert [entry["detail"] for entry in noted] == [{"code": "message_too_large"}]


def test_what_is_larger_than_is_read_past_ends_the_connection_alone(daemon: Daemon, connection: Connection) -> None:
    connection.send(bytes(LARGEST_SKIPPED + 1))

    with pytest.raises(ConnectionLost):
        connection.receive(LIMIT_S)

    assert daemon.listed("status")[0]["pid"] == daemon.pid
