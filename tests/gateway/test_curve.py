"""The relay as a process, between real CURVE clients and a door of the socket thread."""

from __future__ import annotations

import queue
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from runtime_actors.actor import Beat
from runtime_actors.channel.door import Door
from runtime_actors.channel.events import PeerClosed, PeerMessage, PeerOpened, SocketEvent
from runtime_actors.channel.socket import SocketThread
from runtime_actors.contract import envelope
from runtime_actors.gateway.curve import Relay, RelayConfig, RelayNotStarted, start_relay

WAIT_S = 5.0
SECRET = "s3cret"
Keys = tuple[str, str]
"""Public and secret, Z85."""


class EchoDoor:
    """An agent door that answers every frame but the relay's first with itself, and keeps what it saw."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run" / "agent.sock"
        self.seen: queue.SimpleQueue[SocketEvent] = queue.SimpleQueue()
        self.sockets = SocketThread(on_crash=lambda: None)
        self.sockets.start()
        self.sockets.listen(Door("agent", self.path, self, lambda: 0, 300))

    def tell(self, message: SocketEvent | Beat) -> None:
        if isinstance(message, Beat):
            message.answer("door")
            return
        self.seen.put(message)
        if isinstance(message, PeerMessage) and b"agent.relay" not in message.message:
            self.sockets.send(message.peer, message.message)

    def next_opened(self) -> tuple[int, str]:
        """The next connection of the relay, and the agent it was opened for."""
        while not isinstance(opened := self.seen.get(timeout=WAIT_S), PeerOpened):
            pass
        first = self.seen.get(timeout=WAIT_S)
        assert isinstance(first, PeerMessage)
        said = envelope.decode(first.message)
        assert said.type == "lineup.v1.agent.relay"
        assert said.body["secret"] == SECRET
        return opened.peer, str(said.body["agent"])

    def wait_closed(self) -> None:
        while not isinstance(self.seen.get(timeout=WAIT_S), PeerClosed):
            pass


@pytest.fixture
def door(tmp_path: Path) -> Iterator[EchoDoor]:
    made = EchoDoor(tmp_path)
    yield made
    made.sockets.stop()
    made.sockets.join(WAIT_S)


def new_keys() -> Keys:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


@pytest.fixture
def server_keys() -> Keys:
    return new_keys()


def a_config(door: EchoDoor, server: Keys, allowed: dict[str, str], listen: str = "tcp://127.0.0.1:*") -> RelayConfig:
    return RelayConfig(listen, door.path, server[1], allowed, SECRET)


@pytest.fixture
def start(door: EchoDoor, server_keys: Keys) -> Iterator[Callable[[dict[str, str]], Relay]]:
    started = list[Relay]()

    def start(allowed: dict[str, str]) -> Relay:
        relay = start_relay(a_config(door, server_keys, allowed))
        started.append(relay)
        return relay

    yield start
    for relay in started:
        relay.stop()


class Client:
    """An agent over TCP."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], server: Keys, own: Keys, relay: Relay) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.curve_serverkey = server[0].encode()
        self.socket.curve_publickey, self.socket.curve_secretkey = (key.encode() for key in own)
        self._endpoint = relay.endpoint

    def connect(self) -> None:
        self.socket.connect(self._endpoint)

    def ask(self, message: bytes) -> bytes:
        self.socket.send(message)
        return self.receive()

    def ask_until_answered(self, message: bytes) -> bytes:
        """As an agent has to: a frame that meets the end of a connection is lost, and is sent again."""
        for _ in range(int(WAIT_S / 0.5)):
            self.socket.send(message)
            if self.socket.poll(500):
                return self.socket.recv()
        raise AssertionError("no answer")

    def receive(self) -> bytes:
        assert self.socket.poll(int(WAIT_S * 1000))
        return self.socket.recv()


NewClient = Callable[[Keys, Relay], Client]


@pytest.fixture
def new_client(server_keys: Keys) -> Iterator[NewClient]:
    context, made = zmq.Context(), list[Client]()

    def new_client(own: Keys, relay: Relay) -> Client:
        client = Client(context, server_keys, own, relay)
        made.append(client)
        client.connect()
        return client

    yield new_client
    for client in made:
        client.socket.close(linger=0)
    context.term()


Start = Callable[[dict[str, str]], Relay]


def test_frames_of_two_agents_go_through_connections_of_their_own(
    door: EchoDoor, start: Start, new_client: NewClient
) -> None:
    one, two = new_keys(), new_keys()
    relay = start({one[0]: "alice", two[0]: "bob"})

    assert new_client(one, relay).ask(b"from alice") == b"from alice"
    first, first_agent = door.next_opened()
    assert new_client(two, relay).ask(b"from bob") == b"from bob"
    second, second_agent = door.next_opened()

    assert (first_agent, second_agent) == ("alice", "bob")
    assert first != second


def test_two_connections_of_one_agent_get_their_own_answers(start: Start, new_client: NewClient) -> None:
    keys = new_keys()
    relay = start({keys[0]: "alice"})
    clients = [new_client(keys, relay) for _ in range(2)]

    answers = [client.ask(b"%d" % number) for number, client in enumerate(clients)]

    assert answers == [b"0", b"1"]


def test_large_frames_and_a_burst_come_back_complete_and_in_order(start: Start, new_client: NewClient) -> None:
    keys = new_keys()
    client = new_client(keys, start({keys[0]: "alice"}))
    messages = [b"%d" % number for number in range(3000)] + [b"x" * 262_144] * 20

    received = []
    for message in messages:
        client.socket.send(message)
        while client.socket.poll(0):
            received.append(client.receive())
    while len(received) < len(messages):
        received.append(client.receive())

    assert received == messages


def test_an_unknown_key_and_a_client_without_one_reach_nobody(
    door: EchoDoor, start: Start, new_client: NewClient
) -> None:
    known = new_keys()
    relay = start({known[0]: "alice"})

    stranger = new_client(new_keys(), relay)
    stranger.socket.send(b"let me in")
    bare: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    bare.connect(relay.endpoint)
    bare.send(b"let me in")
    assert new_client(known, relay).ask(b"hello") == b"hello"  # the relay is alive and has looked around

    assert door.next_opened()[1] == "alice"
    assert not stranger.socket.poll(100)
    assert not bare.poll(0)
    bare.close(linger=0)


def test_a_client_that_chooses_its_routing_id_is_not_served(
    door: EchoDoor, start: Start, new_client: NewClient, server_keys: Keys
) -> None:
    keys = new_keys()
    relay = start({keys[0]: "alice"})
    named: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    named.routing_id = b"alice"
    named.curve_serverkey = server_keys[0].encode()
    named.curve_publickey, named.curve_secretkey = (key.encode() for key in keys)
    named.connect(relay.endpoint)
    named.send(b"hello")

    assert new_client(keys, relay).ask(b"hello") == b"hello"

    door.next_opened()
    assert not named.poll(100)
    named.close(linger=0)


def test_a_multipart_message_ends_the_connection_to_the_door(
    door: EchoDoor, start: Start, new_client: NewClient
) -> None:
    keys = new_keys()
    client = new_client(keys, start({keys[0]: "alice"}))
    client.ask(b"hello")
    door.next_opened()

    client.socket.send_multipart([b"two", b"parts"])

    door.wait_closed()
    assert client.ask(b"one part") == b"one part"
    assert door.next_opened()[1] == "alice"


def test_a_key_can_be_added_and_withdrawn_while_it_serves(door: EchoDoor, start: Start, new_client: NewClient) -> None:
    old, new = new_keys(), new_keys()
    relay = start({old[0]: "alice"})
    withdrawn = new_client(old, relay)
    withdrawn.ask(b"hello")
    door.next_opened()

    relay.allow({new[0]: "bob"})
    added = new_client(new, relay)

    assert added.ask(b"hello") == b"hello"
    assert door.next_opened()[1] == "bob"
    withdrawn.socket.send(b"once more")
    door.wait_closed()
    assert not withdrawn.socket.poll(100)


def test_when_the_door_closes_a_connection_the_next_frame_opens_another(
    door: EchoDoor, start: Start, new_client: NewClient
) -> None:
    keys = new_keys()
    client = new_client(keys, start({keys[0]: "alice"}))
    client.ask(b"hello")
    peer, _ = door.next_opened()

    door.sockets.close(peer)
    door.wait_closed()

    assert client.ask_until_answered(b"again") == b"again"
    assert door.next_opened()[1] == "alice"


def test_what_the_door_sends_to_a_client_that_left_ends_the_connection(
    door: EchoDoor, start: Start, new_client: NewClient
) -> None:
    keys = new_keys()
    client = new_client(keys, start({keys[0]: "alice"}))
    client.ask(b"hello")
    peer, _ = door.next_opened()
    client.socket.close(linger=0)

    for _ in range(1000):
        door.sockets.send(peer, b"anybody there?")

    door.wait_closed()


def test_secrets_are_in_neither_arguments_nor_environment_and_memory_is_limited(
    start: Start, server_keys: Keys
) -> None:
    relay = start({})
    process = psutil.Process(relay.process.pid)

    shown = " ".join([*process.cmdline(), *process.environ().values()])

    assert server_keys[1] not in shown
    assert SECRET not in shown
    assert resource.prlimit(relay.process.pid, resource.RLIMIT_DATA) == (256 * 1024 * 1024,) * 2


def test_the_relay_ends_with_its_input(start: Start) -> None:
    relay = start({})

    relay.stop(within_s=WAIT_S)

    assert relay.process.returncode == 0


def test_a_relay_that_was_killed_can_still_be_told_and_stopped(start: Start) -> None:
    relay = start({})
    relay.process.send_signal(signal.SIGKILL)
    relay.process.wait(WAIT_S)

    relay.allow({})
    relay.stop()

    assert relay.process.returncode == -signal.SIGKILL


def test_an_address_in_use_is_reported(door: EchoDoor, start: Start, server_keys: Keys) -> None:
    taken = start({}).endpoint

    with pytest.raises(RelayNotStarted, match="in use"):
        start_relay(a_config(door, server_keys, {}, listen=taken))


def test_only_the_loopback_interface_is_served(door: EchoDoor, server_keys: Keys) -> None:
    with pytest.raises(ValueError, match="loopback"):
        a_config(door, server_keys, {}, listen="tcp://0.0.0.0:5555")
