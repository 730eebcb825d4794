"""The bound end of a ZMTP connection: with libzmq at the other end, and with peers that mean harm."""

from __future__ import annotations

import queue
import socket
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.contract.zmtp import (
    IGNORED,
    MAX_COMMAND_BYTES,
    MAX_SKIPPED_BYTES,
    NEED_DATA,
    Connection,
    Event,
    LocalProtocolError,
    Oversized,
    PeerProtocolError,
    Ready,
    Reply,
    Violation,
    pack,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMIT_S = 5
LIMIT_MS = LIMIT_S * 1000
READ_BYTES = 65_536
MAX_FRAME = 262_144

NULL = b"NULL".ljust(20, b"\0")
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + NULL + b"\0" + bytes(31)


def a_property(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + len(value).to_bytes(4, "big") + value


def a_command(name: bytes, operand: bytes = b"") -> bytes:
    body = bytes((len(name),)) + name + operand
    if len(body) > 255:
        return b"\x06" + len(body).to_bytes(8, "big") + body
    return bytes((4, len(body))) + body


def ready(*properties: bytes) -> bytes:
    return a_command(b"READY", b"".join(properties or (a_property(b"Socket-Type", b"DEALER"),)))


HANDSHAKE = GREETING + ready()


def events_of(connection: Connection, data: bytes, *, piece: int = READ_BYTES) -> list[Event | Violation]:
    """Everything that comes out of `data`, fed in pieces; the violation last, if there is one."""
    seen: list[Event | Violation] = []
    for start in range(0, len(data), piece):
        connection.receive_data(data[start : start + piece])
        try:
            seen.extend(iter(connection.next_event, NEED_DATA))
        except PeerProtocolError as error:
            return [*seen, error.reason]
    return seen


# --- with libzmq at the other end


def serve_echo(peer: socket.socket) -> Violation | None:
    """Answer each message with itself until the peer goes away."""
    connection = Connection()
    peer.sendall(connection.greeting())
    with suppress(BrokenPipeError, ConnectionResetError):  # it went away while a PONG was on its way
        while data := peer.recv(READ_BYTES):
            connection.receive_data(data)
            while not connection.needs_data:
                try:
                    event = connection.next_event()
                except PeerProtocolError as error:
                    return error.reason
                if isinstance(event, bytes):
                    peer.sendall(pack(event))
                elif isinstance(event, Reply):
                    peer.sendall(event.data)
    return None


@contextmanager
def echo_door(path: Path) -> Iterator[queue.SimpleQueue[Violation | None]]:
    """One peer is served in a thread; how its connection ended is put into the queue."""
    endings: queue.SimpleQueue[Violation | None] = queue.SimpleQueue()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(LIMIT_S)

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(LIMIT_S)
                endings.put(serve_echo(peer))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield endings
        finally:
            thread.join(LIMIT_S)
            assert not thread.is_alive()


@contextmanager
def a_dealer(path: Path, **options: int) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.RCVTIMEO, LIMIT_MS)
        dealer.setsockopt(zmq.SNDTIMEO, LIMIT_MS)
        for name, value in options.items():
            dealer.setsockopt(getattr(zmq, name), value)
        dealer.connect(f"ipc://{path}")
        yield dealer


def test_a_thousand_messages_come_back_from_the_door_in_order(tmp_path: Path) -> None:
    with echo_door(tmp_path / "door") as endings, a_dealer(tmp_path / "door", HEARTBEAT_IVL=5) as dealer:
        for number in range(1000):
            dealer.send(b"%d" % number)
            assert dealer.recv() == b"%d" % number

    assert endings.get(timeout=LIMIT_S) is None


@pytest.mark.parametrize("size", [0, 1, 255, 256, 60_000, MAX_FRAME])
def test_frames_of_every_size_form_come_back_whole(tmp_path: Path, size: int) -> None:
    with echo_door(tmp_path / "door") as endings, a_dealer(tmp_path / "door") as dealer:
        for _ in range(3):
            dealer.send(b"\xab" * size)
        echoes = [dealer.recv() for _ in range(3)]

    assert echoes == [b"\xab" * size] * 3
    assert endings.get(timeout=LIMIT_S) is None


def test_libzmq_finds_its_heartbeats_answered_and_keeps_the_connection(tmp_path: Path) -> None:
    with (
        echo_door(tmp_path / "door") as endings,
        a_dealer(tmp_path / "door", HEARTBEAT_IVL=20, HEARTBEAT_TIMEOUT=60, HEARTBEAT_TTL=500) as dealer,
    ):
        monitor = dealer.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        dealer.send(b"before")
        before = dealer.recv()
        lost = monitor.poll(timeout=400)  # more than six time-outs in which only heartbeats travel
        dealer.send(b"after")
        after = dealer.recv()
        dealer.disable_monitor()
        monitor.close()

    assert (before, lost, after) == (b"before", 0, b"after")
    assert endings.get(timeout=LIMIT_S) is None


def test_multipart_messages_of_a_libzmq_peer_are_refused(tmp_path: Path) -> None:
    with echo_door(tmp_path / "door") as endings, a_dealer(tmp_path / "door") as dealer:
        dealer.send_multipart([b"one", b"two"])

        assert endings.get(timeout=LIMIT_S) is Violation.MULTIPART


def test_a_libzmq_peer_of_another_socket_type_is_refused(tmp_path: Path) -> None:
    with echo_door(tmp_path / "door") as endings, zmq.Context() as context, context.socket(zmq.REQ) as requester:
        requester.setsockopt(zmq.LINGER, 0)
        requester.connect(f"ipc://{tmp_path / 'door'}")

        assert endings.get(timeout=LIMIT_S) is Violation.SOCKET_TYPE


# --- what comes out


def test_a_handshake_messages_and_commands_come_out_one_at_a_time_in_order() -> None:
    data = (
        HANDSHAKE
        + pack(b"one")
        + a_command(b"PING", b"\0\x0acontext")
        + a_command(b"PONG")
        + a_command(b"SUBSCRIBE", b"topic")
        + pack(b"\xff" * 256)
        + pack(b"")
    )

    seen = events_of(Connection(), data)

    assert seen == [
        Ready("DEALER"),
        b"one",
        Reply(a_command(b"PONG", b"context")),
        IGNORED,
        IGNORED,
        b"\xff" * 256,
        b"",
    ]


def test_the_greeting_is_one_that_another_of_us_would_accept() -> None:
    router = Connection("ROUTER", peer_types=frozenset({"DEALER", "ROUTER"}))

    assert events_of(router, Connection("ROUTER").greeting()) == [Ready("ROUTER")]


def test_property_names_have_no_case_and_unknown_ones_are_passed_over() -> None:
    metadata = (a_property(b"X-Custom", b"\xff\0"), a_property(b"sOCKET-tYPE", b"DEALER"), a_property(b"Identity", b""))

    assert events_of(Connection(), GREETING + ready(*metadata)) == [Ready("DEALER")]


def test_a_newer_version_and_any_padding_are_accepted() -> None:
    greeting = b"\xff" + b"\x01" * 8 + b"\x7f\x04\x07" + NULL + b"\0" + bytes(31)

    assert events_of(Connection(), greeting + ready()) == [Ready("DEALER")]


FRAMES = st.one_of(
    st.binary(max_size=300).map(pack),
    st.binary(max_size=18).map(lambda operand: a_command(b"PING", operand)),
    st.binary(max_size=20).map(lambda operand: a_command(b"CANCEL", operand)),
    st.binary(max_size=12),
)
STREAMS = st.one_of(
    st.lists(FRAMES, max_size=6).map(lambda frames: HANDSHAKE + b"".join(frames)),
    st.binary(max_size=120).map(lambda noise: HANDSHAKE[: len(noise)] + noise),
    st.binary(max_size=120),
)


@given(STREAMS, st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_no_way_of_cutting_the_stream_changes_what_comes_out(data: bytes, cuts: list[int]) -> None:
    whole = events_of(Connection(), data)
    connection = Connection()
    pieces: list[Event | Violation] = []
    at = turn = 0
    while at < len(data) and not (pieces and isinstance(pieces[-1], Violation)):
        cut = cuts[turn % len(cuts)]
        pieces += events_of(connection, data[at : at + cut])
        at, turn = at + cut, turn + 1

    assert events_of(Connection(), data, piece=1) == whole
    assert pieces == whole


# --- what is refused

V = Violation
ABOVE_COMMAND = (MAX_COMMAND_BYTES + 1).to_bytes(8, "big")
ABOVE_FRAME = (MAX_SKIPPED_BYTES + 1).to_bytes(8, "big")

HOSTILE: dict[str, tuple[bytes, Violation]] = {
    "an old peer's first byte": (b"\x01", V.SIGNATURE),
    "a wrong end of the signature": (b"\xff" + bytes(8) + b"\x7e", V.SIGNATURE),
    "ZMTP 2.0": (b"\xff" + bytes(8) + b"\x7f\x01", V.VERSION),
    "another mechanism": (GREETING[:12] + b"P", V.MECHANISM),
    "a mechanism with something behind it": (GREETING[:12] + b"NULL".ljust(19, b"\0") + b"X", V.MECHANISM),
    "a server under NULL": (GREETING[:32] + b"\x01", V.AS_SERVER),
    "a message before READY": (GREETING + b"\x00", V.READY_EXPECTED),
    "a heartbeat before READY": (GREETING + a_command(b"PING", b"\0\0"), V.READY_EXPECTED),
    "an ERROR instead of READY": (GREETING + a_command(b"ERROR", b"\x03no!"), V.PEER_ERROR),
    "a READY above the limit": (
        GREETING + b"\x06" + ABOVE_COMMAND,
        Violation.COMMAND_TOO_LARGE,
    ),
    "a READY with nothing in it": (GREETING + a_command(b"READY"), V.SOCKET_TYPE),
    "a READY of another type": (GREETING + ready(a_property(b"Socket-Type", b"PUSH")), V.SOCKET_TYPE),
    "a type that is not ASCII": (GREETING + ready(a_property(b"Socket-Type", b"\xff")), V.SOCKET_TYPE),
    "a property given twice": (
        GREETING + ready(*[a_property(b"Socket-Type", b"DEALER")] * 2),
        Violation.COMMAND_MALFORMED,
    ),
    "a property without a name": (GREETING + ready(a_property(b"", b"DEALER")), V.COMMAND_MALFORMED),
    "a property name with a space": (
        GREETING + ready(a_property(b"Socket Type", b"DEALER")),
        Violation.COMMAND_MALFORMED,
    ),
    "a name cut short": (GREETING + ready(b"\x0bSocket"), V.COMMAND_MALFORMED),
    "a length cut short": (GREETING + ready(b"\x0bSocket-Type\0\0\0"), V.COMMAND_MALFORMED),
    "a value cut short": (GREETING + ready(b"\x0bSocket-Type\0\0\0\x07DEALER"), V.COMMAND_MALFORMED),
    "a value of 4 GiB": (GREETING + ready(b"\x0bSocket-Type\xff\xff\xff\xffDEALER"), V.COMMAND_MALFORMED),
    "a second READY": (HANDSHAKE + ready(), V.READY_REPEATED),
    "an ERROR later": (HANDSHAKE + a_command(b"ERROR", b"\x00"), V.PEER_ERROR),
    "the first of many frames": (HANDSHAKE + b"\x01", V.MULTIPART),
    "the first of many long frames": (HANDSHAKE + b"\x03", V.MULTIPART),
    "a command with more to follow": (HANDSHAKE + b"\x05", V.FLAGS),
    **{f"reserved flag {bit:#x}": (HANDSHAKE + bytes((bit,)), V.FLAGS) for bit in (8, 16, 32, 64, 128)},
    "a frame above the limit": (HANDSHAKE + b"\x02" + ABOVE_FRAME, V.FRAME_TOO_LARGE),
    "a frame of 2**63 bytes": (HANDSHAKE + b"\x02" + (2**63).to_bytes(8, "big"), V.FRAME_TOO_LARGE),
    "a frame of 2**64-1 bytes": (HANDSHAKE + b"\x02" + b"\xff" * 8, V.FRAME_TOO_LARGE),
    "a command above the limit": (
        HANDSHAKE + b"\x06" + ABOVE_COMMAND,
        Violation.COMMAND_TOO_LARGE,
    ),
    "an empty command": (HANDSHAKE + b"\x04\x00", V.COMMAND_MALFORMED),
    "a command without a name": (HANDSHAKE + a_command(b""), V.COMMAND_MALFORMED),
    "a command name cut short": (HANDSHAKE + b"\x04\x03\x04PI", V.COMMAND_MALFORMED),
    "a command name with digits": (HANDSHAKE + a_command(b"PING2"), V.COMMAND_MALFORMED),
    "a heartbeat without its time": (HANDSHAKE + a_command(b"PING", b"\0"), V.COMMAND_MALFORMED),
    "a heartbeat with a long context": (
        HANDSHAKE + a_command(b"PING", b"\0\0" + b"c" * 17),
        Violation.COMMAND_MALFORMED,
    ),
}


@pytest.mark.parametrize(("data", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_violation_is_refused_at_its_last_byte_and_for_good(data: bytes, reason: Violation) -> None:
    connection = Connection()

    assert not any(isinstance(event, Violation) for event in events_of(Connection(), data[:-1]))
    assert events_of(connection, data)[-1] is reason
    with pytest.raises(PeerProtocolError) as again:
        connection.next_event()
    assert again.value.reason is reason
    with pytest.raises(LocalProtocolError):
        connection.receive_data(b"more")
    assert connection.buffered == 0


def test_every_kind_of_violation_is_in_the_table() -> None:
    assert {reason for _, reason in HOSTILE.values()} == set(Violation)


def test_limits_themselves_are_accepted() -> None:
    filler = a_property(b"X-Fill", b"f" * (MAX_COMMAND_BYTES - len(b"\x05READY") - 22 - 11))
    hello = ready(a_property(b"Socket-Type", b"DEALER"), filler)
    assert len(hello) == MAX_COMMAND_BYTES + 9
    longest = b"m" * MAX_FRAME

    seen = events_of(Connection(), GREETING + hello + pack(longest) + a_command(b"PING", b"\0\0" + b"c" * 16))

    assert seen == [Ready("DEALER"), longest, Reply(a_command(b"PONG", b"c" * 16))]


@given(st.binary(max_size=200))
def test_whatever_arrives_only_a_protocol_error_is_raised(noise: bytes) -> None:
    for start in (b"", GREETING, HANDSHAKE):
        events_of(Connection(), start + noise)


# --- what is read past


@pytest.mark.parametrize("piece", [1000, READ_BYTES])
@pytest.mark.parametrize("length", [MAX_FRAME + 1, 3 * MAX_FRAME])
def test_a_frame_above_the_limit_is_told_of_once_and_what_follows_is_read(length: int, piece: int) -> None:
    data = HANDSHAKE + pack(b"before") + pack(b"\x01" * length) + pack(b"") + a_command(b"PING", b"\0\0")

    seen = events_of(Connection(), data, piece=piece)

    assert seen == [Ready("DEALER"), b"before", Oversized(length), b"", Reply(a_command(b"PONG"))]


def test_the_largest_frame_that_is_read_past_costs_no_memory() -> None:
    connection = Connection()
    events_of(connection, HANDSHAKE)
    header, piece = b"\x02" + MAX_SKIPPED_BYTES.to_bytes(8, "big"), bytes(READ_BYTES)
    most_held = 0
    tracemalloc.start()
    try:
        seen = events_of(connection, header)
        for _ in range(MAX_SKIPPED_BYTES // READ_BYTES):
            seen += events_of(connection, piece)
            most_held = max(most_held, connection.buffered)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert seen == [Oversized(MAX_SKIPPED_BYTES)]
    assert most_held == 0
    assert peak < 4 * READ_BYTES


@given(st.integers(0, 50), st.lists(st.integers(1, 30), min_size=1, max_size=6))
def test_no_way_of_cutting_the_stream_changes_what_is_read_past(length: int, cuts: list[int]) -> None:
    data = HANDSHAKE + pack(b"m" * length) + pack(b"after")
    connection = Connection(max_frame=10)
    seen: list[Event | Violation] = []
    at = turn = 0
    while at < len(data):
        cut = cuts[turn % len(cuts)]
        seen += events_of(connection, data[at : at + cut])
        at, turn = at + cut, turn + 1

    assert seen == [Ready("DEALER"), b"m" * length if length <= 10 else Oversized(length), b"after"]


# --- what is held


def test_data_is_not_taken_while_something_whole_is_left() -> None:
    connection = Connection()
    connection.receive_data(HANDSHAKE + pack(b"one"))

    with pytest.raises(LocalProtocolError):
        connection.receive_data(b"more")

    assert connection.next_event() == Ready("DEALER")
    assert not connection.needs_data
    assert connection.next_event() == b"one"
    assert connection.next_event() is NEED_DATA
    assert (connection.needs_data, connection.buffered) == (True, 0)


def test_an_unfinished_frame_never_holds_more_than_its_limit_and_one_read() -> None:
    connection = Connection()
    events_of(connection, HANDSHAKE)
    unfinished = pack(b"m" * MAX_FRAME)[:-1]
    tracemalloc.start()
    try:
        for start in range(0, len(unfinished), 1000):
            events_of(connection, unfinished[start : start + 1000])
        held = connection.buffered
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held == len(unfinished)
    assert peak < 2 * MAX_FRAME


@pytest.mark.parametrize(
    "flood",
    [b"\x01\x00", b"\x02" + (2**63 - 1).to_bytes(8, "big"), a_command(b"PING", b"\0\0"), a_command(b"X"), b"\x00\x00"],
    ids=["endless MORE", "2**63-1 bytes", "heartbeats", "unknown commands", "empty messages"],
)
def test_a_flood_is_refused_or_read_frame_by_frame_in_flat_memory(flood: bytes) -> None:
    connection = Connection()
    events_of(connection, HANDSHAKE)
    read = (flood * 8192)[:8192]
    tracemalloc.start()
    try:
        for _ in range(30):
            try:
                connection.receive_data(read)
                while connection.next_event() is not NEED_DATA:
                    pass
            except (PeerProtocolError, LocalProtocolError):
                break
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * len(read)
    assert connection.buffered < len(flood)


def test_a_hundred_thousand_small_messages_are_read_in_a_second() -> None:
    connection = Connection()
    events_of(connection, HANDSHAKE)
    read = pack(b"m" * 30) * 2000

    started = time.perf_counter()
    for _ in range(50):
        connection.receive_data(read)
        while connection.next_event() is not NEED_DATA:
            pass
    took_s = time.perf_counter() - started

    assert took_s < 1
