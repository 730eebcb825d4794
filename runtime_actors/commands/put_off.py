"""An app that a person put off does not push itself forward again at once (docs/people.md, 2.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules.lifecycle import KEPT_BACK_S

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction


def put_off_row(tx: Transaction, instance_id: str) -> None:
    """For a while from now on."""
    until_s = tx.moment.wall.timestamp() + KEPT_BACK_S
    tx.sql.execute("update instances set put_off_until_s = ? where instance_id = ?", (until_s, instance_id))


def call_back_row(tx: Transaction, instance_id: str) -> None:
    """No longer."""
    tx.sql.execute("update instances set put_off_until_s = null where instance_id = ?", (instance_id,))


def put_off_until(tx: Transaction, instance_id: str) -> str | None:
    """Until when the instance is put off, as records spell it; None if it is not."""
    row = tx.row("select put_off_until_s from instances where instance_id = ?", instance_id)
    if row is None or row[0] is None:
        return None
    now_s = tx.moment.wall.timestamp()
    # A clock that was set back must not put it off for longer.
    if not now_s < row[0] <= now_s + KEPT_BACK_S:
        return None
    return rfc3339(datetime.fromtimestamp(row[0], UTC))
