"""Switches: which of the registered apps and tools are on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runtime_actors.commands import endings, instances
from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import InventoryChanged
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.records import calls
from runtime_actors.records import instances as rows
from runtime_actors.rules import inventory
from runtime_actors.rules.instances import LIVE

if TYPE_CHECKING:
    from runtime_actors.contract.rejection import Rejection
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.inventory import Inventory
    from runtime_actors.rules.policy import Policy


@dataclass(frozen=True, slots=True)
class SwitchTo:
    """Turn one app or tool on or off."""

    kind: Literal["app", "tool"]
    name: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class Switched:
    """How it stands, and the revision that agents see now."""

    revision: str
    changed: bool


def current_inventory(tx: Transaction, policy: Policy | None = None) -> Inventory:
    """What agents may use now, or would under another policy."""
    off = frozenset((str(kind), str(name)) for kind, name in tx.rows("select kind, name from switched_off"))
    return inventory.build(tx.settings.catalogue, off, policy or tx.settings.policy)


@command()
def switch(tx: Transaction, to: SwitchTo) -> Switched | Rejection:
    """Turn it; running calls of what is turned off end failed (`app_disabled`)."""
    known = tx.settings.catalogue.apps if to.kind == "app" else tx.settings.catalogue.tools
    if to.name not in known:
        detail = f"no such {to.kind}; `lineup inventory` lists them"
        return tx.refuse(f"{to.kind}.switch_refused", RejectionCode.NOT_FOUND, detail, who="operator", name=to.name)
    if to.enabled:
        done = tx.sql.execute("delete from switched_off where kind = ? and name = ?", (to.kind, to.name))
    else:
        done = tx.sql.execute("insert or ignore into switched_off values (?, ?)", (to.kind, to.name))
    now = current_inventory(tx)
    if not done.rowcount:
        return Switched(now.revision, changed=False)
    tx.note(f"{to.kind}.switched", detail={"enabled": to.enabled, "revision": now.revision}, name=to.name)
    if not to.enabled:
        _end_all(tx, to)
    tx.follow_ups.append(InventoryChanged(now))
    return Switched(now.revision, changed=True)


def _end_all(tx: Transaction, to: SwitchTo) -> None:
    why = f"{to.kind} {to.name} was switched off"
    if to.kind == "app":
        for instance in rows.unfinished(tx):
            if instance.app_scope == to.name and instance.state in LIVE:
                instances.close_instance(tx, instance, RejectionCode.APP_DISABLED, why)
        for call in calls.not_let_in(tx, to.name):
            endings.give_up(tx, call, RejectionCode.APP_DISABLED, why)
        return
    for call in calls.every_open(tx):
        if call.tool_id == to.name:
            endings.give_up(tx, call, RejectionCode.APP_DISABLED, why)
