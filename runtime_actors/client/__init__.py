"""The other side of the doors: how an agent, a host or an operator speaks with a running daemon."""

from runtime_actors.client.connection import Connection, door_of
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
from runtime_actors.client.events import Answered, Attached, Delivered, InventoryChanged, Lost, SessionEvent
from runtime_actors.client.session import AgentSession, read_token

__all__ = [
    "AddressTooLong",
    "AgentSession",
    "Answered",
    "Attached",
    "ClientError",
    "Connection",
    "ConnectionLost",
    "DaemonNotRunning",
    "Delivered",
    "DoorClient",
    "InventoryChanged",
    "Lost",
    "NoAnswer",
    "NoToken",
    "Refused",
    "SessionEvent",
    "UnreadableAnswer",
    "door_of",
    "parsed",
    "read_token",
]
