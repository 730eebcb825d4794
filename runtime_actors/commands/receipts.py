"""What a MiniApp's requests were answered: one that is repeated is answered again, and nothing is done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgpack

from runtime_actors.contract import codec
from runtime_actors.contract.base import WireModel
from runtime_actors.contract.rejection import Rejection, RejectionCode

if TYPE_CHECKING:
    from runtime_actors.commands.asker import Asker
    from runtime_actors.records.transaction import Transaction

R = TypeVar("R", bound=WireModel)

KEPT: Final = 128
"""Newest ones of an attempt: twice as many as a worker may have unanswered."""


def known(tx: Transaction, by: Asker, shape: type[R]) -> R | Rejection | None:
    """The answer that this very request had; refused with `message_id_conflict` if its id was another request's."""
    row = tx.row(
        "select kind, body from receipts where attempt_id = ? and request_id = ?", by.attempt_id, by.request_id
    )
    if row is None:
        return None
    kind, body = row
    if kind != shape.__name__:
        detail = "this id was used for another request"
        return tx.refuse(
            "request.refused", RejectionCode.MESSAGE_ID_CONFLICT, detail, who=by.instance_id, attempt_id=by.attempt_id
        )
    return shape.model_validate(msgpack.unpackb(body))


def keep(tx: Transaction, by: Asker, receipt: R) -> R:
    """Remember an answer, in the transaction that did what it says."""
    row = tx.row("select coalesce(max(number), 0) from receipts where attempt_id = ?", by.attempt_id)
    number = (row[0] if row else 0) + 1
    tx.sql.execute(
        "insert into receipts values (?, ?, ?, ?, ?)",
        (by.attempt_id, by.request_id, number, type(receipt).__name__, codec.encode(receipt.to_wire())),
    )
    tx.sql.execute("delete from receipts where attempt_id = ? and number <= ?", (by.attempt_id, number - KEPT))
    return receipt


def forget(tx: Transaction, attempt_id: str) -> None:
    """The attempt has ended: nobody repeats anything."""
    tx.sql.execute("delete from receipts where attempt_id = ?", (attempt_id,))
