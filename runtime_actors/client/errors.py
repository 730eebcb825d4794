"""What can go wrong on the way to a daemon. Every message says what to do next.

ClientError
├── DaemonNotRunning    nobody accepts on the door: nothing was sent
├── ConnectionLost      the connection ended; what was asked may have been done
├── NoAnswer            the wait ended; what was asked may have been done
├── Refused             the daemon answered `lineup.v1.rejected`
├── UnreadableAnswer    the daemon speaks another version
├── NoToken             the agent is not known in this state folder
└── AddressTooLong      the state folder's path does not fit a Unix socket
"""

from __future__ import annotations

from pathlib import Path

from runtime_actors.contract.agent import AgentAttach
from runtime_actors.contract.rejection import Rejected


class ClientError(Exception):
    """The root of the tree."""


class DaemonNotRunning(ClientError):
    """Nobody accepts on the door, so nothing was sent."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"no daemon answers at {endpoint}; start it with: lineup start")
        self.endpoint = endpoint


class ConnectionLost(ClientError):
    """The connection ended. No answer never means not done: connect again and repeat with the same id."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the connection to {endpoint} ended; look with: lineup status")
        self.endpoint = endpoint


class NoAnswer(ClientError):
    """The wait ended. What was asked may have been done."""

    def __init__(self, what: str, waited_s: float) -> None:
        super().__init__(f"no answer to {what} within {waited_s:g} s; it may have been done: look with: lineup status")
        self.what = what


class Refused(ClientError):
    """The daemon understood and refused. `rejected` holds the whole answer."""

    def __init__(self, rejected: Rejected) -> None:
        super().__init__(f"{rejected.code}: {rejected.detail}")
        self.code = rejected.code
        self.detail = rejected.detail
        self.rejected = rejected


class UnreadableAnswer(ClientError):
    """The daemon sent what its contract does not allow."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"the daemon's answer cannot be read ({detail}); it may be of another version: restart it")


class NoToken(ClientError):
    """The token of this agent is not in the state folder."""

    def __init__(self, agent: str, path: Path) -> None:
        known = _known_as(agent)
        super().__init__(f"there is no readable token at {path}; {known}")
        self.agent = agent


class AddressTooLong(ClientError):
    """A Unix socket's path holds 107 bytes (unix(7), `sun_path`)."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(
            f"the socket path {path} has {len(bytes(path))} bytes and may have {limit}; choose a shorter --state folder"
        )


def _known_as(agent: str) -> str:
    try:
        AgentAttach(agent=agent)
    except ValueError:
        return "agent names are a-z, 0-9, _ and -, and start with a letter"
    if agent == "local":
        return "the daemon makes it when it first starts: lineup start"
    return f"make it with: lineup agent add {agent}"
