"""An action on its way to its app: given, acknowledged or withdrawn, and whether the app hangs over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgpack

from runtime_actors.commands import inbox, screens, states
from runtime_actors.commands.command import command
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import boxes
from runtime_actors.records import instances as rows
from runtime_actors.rules.instances import LIVE, AttemptState, InstanceRecord

if TYPE_CHECKING:
    from runtime_actors.contract.lifecycle import RuntimeAction
    from runtime_actors.records.boxes import InboxRow
    from runtime_actors.records.transaction import Transaction

HANGS_AFTER_S: Final = 10.0
"""Of a process that was told to close and neither did nor said a word."""
REFUSED: Final = "action.refused"
PERSON: Final = "person"
"""Who is refused."""


def no_room(tx: Transaction, conversation_id: str, app_scope: str) -> Rejection | None:
    """A refusal if a scope's inbox is full, for what a person does can wait no better than what an agent says."""
    if boxes.count(tx, conversation_id, app_scope) < tx.settings.bounds.inbox_messages:
        return None
    detail = f"the inbox of {app_scope} is full"
    return tx.refuse(REFUSED, RejectionCode.BUSY, detail, who=PERSON, conversation_id=conversation_id)


def give(tx: Transaction, instance: InstanceRecord, action: RuntimeAction, *, host: str | None = None) -> None:
    """Record an action and put it into the inbox of a live instance. Whether there is room is the caller's to ask."""
    message = inbox.put_news(tx, instance.conversation_id, instance.app_scope, "action", action)
    record(tx, instance, action, message, host=host)


def record(
    tx: Transaction, instance: InstanceRecord, action: RuntimeAction, message: int | None, *, host: str | None = None
) -> None:
    """Record an action and the number of its message; None if there is none, for the app is not asked."""
    attempt = rows.running_attempt(tx, instance.instance_id)
    has_it = action.kind == "close" and attempt is not None and attempt.state is AttemptState.READY
    tx.sql.execute(
        "insert into actions (action_id, instance_id, conversation_id, app_scope, kind, message, status, due_boot_s, "
        "created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            action.action_id,
            instance.instance_id,
            instance.conversation_id,
            instance.app_scope,
            action.kind,
            message,
            "acknowledged" if message is None else "waiting",
            tx.moment.boot_s + HANGS_AFTER_S if has_it else None,
            tx.at,
        ),
    )
    tx.note(
        "action.taken",
        digest=codec.digest(action.to_wire()),
        conversation_id=instance.conversation_id,
        instance_id=instance.instance_id,
        app_scope=instance.app_scope,
        action_id=action.action_id,
        detail={"kind": action.kind} | ({"host": host} if host else {}),
    )


def note_acknowledged(tx: Transaction, row: InboxRow, instance_id: str) -> None:
    """The app has taken over the message of an action."""
    action_id = msgpack.unpackb(row.body)["action_id"]
    tx.sql.execute("update actions set status = 'acknowledged' where action_id = ?", (action_id,))
    tx.note("action.acknowledged", instance_id=instance_id, action_id=action_id)
    _hang_no_longer(tx, "action_id = ?", action_id)


def withdraw_all(tx: Transaction, instance: InstanceRecord) -> None:
    """An instance ends: what was done to it concerns no other. What a person wrote stays for the next one of `chat`."""
    for row in inbox.news(tx, instance.conversation_id, instance.app_scope, "action"):
        if msgpack.unpackb(row.body)["kind"] != "text":
            withdraw(tx, instance, row)


def withdraw(tx: Transaction, instance: InstanceRecord, row: InboxRow) -> None:
    """Take the message of an action back, before the app acknowledged it."""
    action_id = msgpack.unpackb(row.body)["action_id"]
    inbox.withdraw(tx, instance.instance_id, row)
    tx.sql.execute(
        "update actions set status = 'withdrawn', hanging = 0, due_boot_s = null where action_id = ?", (action_id,)
    )
    tx.note("action.withdrawn", instance_id=instance.instance_id, action_id=action_id)


# --- does it hang? ---


def note_handed_over(tx: Transaction, instance: InstanceRecord) -> None:
    """A process is ready and is given what waits."""
    tx.sql.execute(
        "update actions set due_boot_s = ? where conversation_id = ? and app_scope = ? and status = 'waiting' "
        "and kind = 'close'",
        (tx.moment.boot_s + HANGS_AFTER_S, instance.conversation_id, instance.app_scope),
    )


def note_process_gone(tx: Transaction, instance: InstanceRecord) -> None:
    """Whatever hung, it is gone."""
    where = "conversation_id = ? and app_scope = ? and status = 'waiting'"
    of = (instance.conversation_id, instance.app_scope)
    _hang_no_longer(tx, where, *of)
    tx.sql.execute(f"update actions set due_boot_s = null where {where}", of)  # noqa: S608 - our own words


def _hang_no_longer(tx: Transaction, where: str, *values: str) -> None:
    hung = tx.rows(f"select distinct instance_id from actions where hanging and {where}", *values)  # noqa: S608
    if not hung:
        return
    tx.sql.execute(f"update actions set hanging = 0, due_boot_s = null where hanging and {where}", values)  # noqa: S608
    for (instance_id,) in hung:
        _tell_hanging(tx, instance_id, hanging=False)


@command()
def note_hanging(tx: Transaction, _nothing: object) -> int:
    """Tell hosts which apps have had a wish to close for so long without a word."""
    due = tx.rows(
        "select action_id, instance_id from actions where status = 'waiting' and not hanging and due_boot_s <= ?",
        tx.moment.boot_s,
    )
    for action_id, instance_id in due:
        tx.sql.execute("update actions set hanging = 1 where action_id = ?", (action_id,))
        tx.note("action.hangs", instance_id=instance_id, action_id=action_id)
        _tell_hanging(tx, instance_id, hanging=True)
    return len(due)


def _tell_hanging(tx: Transaction, instance_id: str, *, hanging: bool) -> None:
    instance = rows.get(tx, instance_id)
    if instance is not None and instance.state in LIVE:
        data = states.shown_app(tx, instance) | {"state": str(instance.state), "hanging": hanging}
        screens.show(tx, "instance.changed", instance.conversation_id, instance_id, data)
