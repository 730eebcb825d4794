"""How actors reach the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from runtime_actors.store.messages import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.contract.rejection import Rejection
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an outcome


class Store:
    """Leaves commands and queries for the store. Never waits."""

    def __init__(self, mailbox: Mailbox[object]) -> None:
        self._mailbox = mailbox

    def run(
        self,
        rule: Callable[[Transaction, A], O],
        argument: A,
        then: Callable[[O | Rejection], None] | None = None,
        *,
        call_key: CallKey | None = None,
    ) -> None:
        """Run `rule` in the next transaction; see `Run`."""
        self._mailbox.tell(Run(rule, argument, then, call_key))
