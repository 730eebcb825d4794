"""What the runtime raises. What it merely refuses is a `Rejection`.

RuntimeActorsError
├── IllegalTransition        we moved a record as its table forbids: a bug here
├── AppRefused               a MiniApp's folder cannot be registered (with --all-apps exit code 2); says what and where
├── PolicyRefused            the policy file cannot be used (exit code 2); says what and where
├── DaemonRunning            another daemon holds the state folder (exit code 3)
├── IsolationTooWeak         the demanded isolation cannot be had here (exit code 4)
├── StoreUnusable            the store cannot be trusted or opened (exit code 5)
├── ZygoteLost               the process that forks workers is gone
└── GaveUp                   an actor failed too often, or is stuck (exit code 6)

`contract.codec.IntakeError` and `contract.zmtp.PeerProtocolError` are what a peer got wrong.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How the daemon ends."""

    STOPPED = 0
    USAGE = 2
    DAEMON_RUNNING = 3
    ISOLATION = 4
    STORE = 5
    GAVE_UP = 6


class RuntimeActorsError(Exception):
    """Base of all that the runtime raises by itself."""

    exit_code = ExitCode.GAVE_UP
    """What the daemon ends with if nobody handles it."""


class IllegalTransition(RuntimeActorsError):
    """A record was moved as its table forbids."""


class AppRefused(RuntimeActorsError):
    """A MiniApp's folder cannot be registered.

    `faults` are (JSON pointer into the manifest, reason).
    """

    exit_code = ExitCode.USAGE

    def __init__(self, folder: str, faults: list[tuple[str, str]]) -> None:
        super().__init__(f"{folder}: " + "; ".join(f"{path or '/'}: {reason}" for path, reason in faults))
        self.folder = folder
        self.faults = faults


class PolicyRefused(RuntimeActorsError):
    """The policy file cannot be used; `faults` are sentences."""

    exit_code = ExitCode.USAGE

    def __init__(self, path: str, faults: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {fault}" for fault in faults))
        self.faults = faults


class DaemonRunning(RuntimeActorsError):
    """Another daemon holds the state folder."""

    exit_code = ExitCode.DAEMON_RUNNING


class IsolationTooWeak(RuntimeActorsError):
    """The demanded isolation cannot be had here."""

    exit_code = ExitCode.ISOLATION


class StoreUnusable(RuntimeActorsError):
    """The store cannot be opened, or what it holds cannot be trusted."""

    exit_code = ExitCode.STORE


class ZygoteLost(RuntimeActorsError):
    """The process that forks workers is gone."""


class GaveUp(RuntimeActorsError):
    """An actor failed too often, or is stuck."""
