"""What an app asks for about its own place (docs/people.md, section 5)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.commands import closing, focus, policy, put_off, receipts
from runtime_actors.commands.command import command
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.contract.tools import CommandReceipt
from runtime_actors.records import calls
from runtime_actors.records import instances as rows
from runtime_actors.rules.instances import LIVE
from runtime_actors.rules.lifecycle import Place, why_not_background, why_not_close, why_not_foreground

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.asker import Asker
    from runtime_actors.commands.policy import LifecycleWish
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.instances import InstanceRecord

CLOSED_BY_APP: Final = "closed_by_app"
"""Why the instance ended."""


@dataclass(frozen=True, slots=True)
class CloseWish:
    """An app wishes to end."""

    by: Asker
    reason: str | None
    """The app's own words."""


@command()
def request_foreground(tx: Transaction, by: Asker) -> CommandReceipt | Rejection:
    """Put the instance in front, if nobody else is there."""

    def refuse(instance: InstanceRecord) -> str | None:
        return why_not_foreground(_place(tx, instance))

    def grant(instance: InstanceRecord) -> None:
        focus.bring_to_front(tx, instance.conversation_id, instance.instance_id)

    return _decide(tx, by, "foreground", refuse, grant)


@command()
def request_background(tx: Transaction, by: Asker) -> CommandReceipt | Rejection:
    """Take the instance off the stack; who was behind it comes to the front."""

    def refuse(instance: InstanceRecord) -> str | None:
        serves = any(_requires_front(tx, call.tool_id) for call in calls.open_of_instance(tx, instance.instance_id))
        return why_not_background(_place(tx, instance), serves_in_front=serves)

    def grant(instance: InstanceRecord) -> None:
        focus.leave(tx, instance.conversation_id, instance.instance_id)

    return _decide(tx, by, "background", refuse, grant)


@command()
def request_close(tx: Transaction, wish: CloseWish) -> CommandReceipt | Rejection:
    """Close the instance, if it has nothing open."""

    def refuse(instance: InstanceRecord) -> str | None:
        return why_not_close(
            open_calls=calls.count_open_of_instance(tx, instance.instance_id),
            open_surfaces=_open_surfaces(tx, instance.instance_id),
        )

    def grant(instance: InstanceRecord) -> None:
        closing.close(tx, instance, CLOSED_BY_APP)

    return _decide(tx, wish.by, "close", refuse, grant, digest_of=wish.reason)


def _decide(
    tx: Transaction,
    by: Asker,
    wish: LifecycleWish,
    refuse: Callable[[InstanceRecord], str | None],
    grant: Callable[[InstanceRecord], None],
    *,
    digest_of: str | None = None,
) -> CommandReceipt | Rejection:
    known = receipts.known(tx, by, CommandReceipt)
    if known is not None:  # first of all: a granted close has left nothing that could ask
        return known
    instance = rows.get(tx, by.instance_id)
    if instance is None or instance.state not in LIVE:
        return _refused(tx, by, RejectionCode.APP_INSTANCE_NOT_FOUND, "the instance is closing")
    if not policy.lifecycle(tx, instance.app_scope, instance.conversation_id, wish):
        return _refused(tx, by, RejectionCode.LIFECYCLE_DENIED, f"{wish}: policy does not allow it")
    why = refuse(instance)
    if why is not None:
        return _refused(tx, by, RejectionCode.LIFECYCLE_DENIED, f"{wish}: {why}")
    tx.note_often(
        "lifecycle.granted",
        who=instance.instance_id,
        digest=b"" if digest_of is None else hashlib.sha256(digest_of.encode()).digest(),
        conversation_id=instance.conversation_id,
        instance_id=instance.instance_id,
        app_scope=instance.app_scope,
        detail={"wish": wish},
    )
    grant(instance)
    return receipts.keep(tx, by, CommandReceipt(request_id=by.request_id, accepted=True))


def _refused(tx: Transaction, by: Asker, code: RejectionCode, detail: str) -> Rejection:
    return tx.refuse("lifecycle.refused", code, detail, who=by.instance_id, attempt_id=by.attempt_id)


def _place(tx: Transaction, instance: InstanceRecord) -> Place:
    stack = rows.stack(tx, instance.conversation_id)
    return Place(
        instance_id=instance.instance_id,
        app_scope=instance.app_scope,
        stack=stack,
        floor=focus.chat_of(tx, stack),
        kept_back=put_off.put_off_until(tx, instance.instance_id) is not None,
    )


def _requires_front(tx: Transaction, tool_id: str) -> bool:
    tool = tx.settings.catalogue.tools.get(tool_id)
    return tool is not None and tool.descriptor.target.requires_foreground


def _open_surfaces(tx: Transaction, instance_id: str) -> int:
    row = tx.row("select count(*) from surfaces where instance_id = ? and status = 'open'", instance_id)
    return row[0] if row else 0
