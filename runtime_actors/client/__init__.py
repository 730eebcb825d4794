"""The other side of the doors: how an agent, a host or an operator speaks with a running daemon."""

from runtime_actors.client.connection import Connect, Connection, door_of
from runtime_actors.client.door import DoorClient, parsed
from runtime_actors.client.errors import (
    AddressTooLong,
    ClientError,
    ConnectionLost,
    DaemonNotRunning,
    NoAnswer,
    NoToken,
    Refused,
    UnreadableAnswer,
)
from runtime_actors.client.events import Answered, Attached, Delivered, InventoryChanged, Lost, PersonSaid, SessionEvent
from runtime_actors.client.host import Happened, HostNews, HostReady, HostSession
from runtime_actors.client.session import AgentSession, read_token

__all__ = [
    "AddressTooLong",
    "AgentSession",
    "Answered",
    "Attached",
    "ClientError",
    "Connect",
    "Connection",
    "ConnectionLost",
    "DaemonNotRunning",
    "Delivered",
    "DoorClient",
    "Happened",
    "HostNews",
    "HostReady",
    "HostSession",
    "InventoryChanged",
    "Lost",
    "NoAnswer",
    "NoToken",
    "PersonSaid",
    "Refused",
    "SessionEvent",
    "UnreadableAnswer",
    "door_of",
    "parsed",
    "read_token",
]
