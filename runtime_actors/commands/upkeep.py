"""What the runtime records about its own faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from runtime_actors.commands.calls import give_up_call
from runtime_actors.commands.command import command
from runtime_actors.records import calls

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.calls import CallKey


class Aside(Protocol):
    """A message that failed twice (`actor.SetAside`)."""

    @property
    def actor(self) -> str:
        """Who failed on it."""

    @property
    def message(self) -> str:
        """Its class."""

    @property
    def error(self) -> str:
        """The exception."""

    @property
    def call(self) -> CallKey | None:
        """The call it was about, by an agent's name for it."""

    @property
    def reported(self) -> tuple[str, str] | None:
        """The call it was about, by a MiniApp's: (instance_id, call_id)."""


@command()
def set_aside(tx: Transaction, aside: Aside) -> None:
    """Keep a note of a poison message, and end its call with `internal_error`."""
    tx.sql.execute(
        "insert into set_aside (actor, message, error, at) values (?, ?, ?, ?)",
        (aside.actor, aside.message, aside.error, tx.at),
    )
    tx.note("message.set_aside", detail={"actor": aside.actor, "message": aside.message})
    call = calls.of_instance(tx, *aside.reported) if aside.reported is not None else None
    key = call.key if call is not None else aside.call
    if key is not None:
        give_up_call(tx, key)
