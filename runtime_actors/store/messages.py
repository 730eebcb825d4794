"""What the store is told, and what it needs of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.policy_changes import PolicyInForce
    from runtime_actors.contract.base import JsonObject
    from runtime_actors.contract.rejection import Rejection
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey
    from runtime_actors.rules.policy import Policy

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an outcome


@dataclass(frozen=True, slots=True)
class Run(Generic[A, O]):
    """Run a rule in the next transaction; `then` gets its outcome after the COMMIT.

    `then` runs on the store's thread: it leaves a message somewhere and returns. The outcome is a `Rejection` with
    `store_unavailable` when the disk is full or the store broke, with `internal_error` when the rule raised.
    """

    rule: Callable[[Transaction, A], O]
    argument: A
    then: Callable[[O | Rejection], None] | None = None
    call_key: CallKey | None = None
    """The call that ends with `internal_error` if the rule raises."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy the store to a file that does not exist, and verify the copy; calls go on meanwhile.

    `done` runs on a thread of the store's: it leaves a message somewhere and returns.
    """

    path: str
    done: Callable[[JsonObject | Rejection], None]


@dataclass(frozen=True, slots=True)
class ExportAudit:
    """Move all audit entries but the newest `keep` to a file that does not exist; calls go on meanwhile.

    `done` runs on the store's thread.
    """

    path: str
    keep: int
    done: Callable[[JsonObject | Rejection], None]


@dataclass(frozen=True, slots=True)
class UsePolicy:
    """Another policy from the next command on. `done` runs on the store's thread, as does `Run.then`."""

    policy: Policy
    done: Callable[[PolicyInForce | Rejection], None]


@dataclass(frozen=True, slots=True)
class ExportOn:
    """Go on with the export: the store tells itself, so that others get their turn."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Time to look after the store itself."""
