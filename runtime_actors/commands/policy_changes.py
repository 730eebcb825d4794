"""Which policy is in force, as the audit log and agents are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runtime_actors.commands.apps import current_inventory
from runtime_actors.commands.command import command
from runtime_actors.commands.follow_ups import InventoryChanged

if TYPE_CHECKING:
    from runtime_actors.records.transaction import Transaction
    from runtime_actors.rules.policy import Policy

_KEPT: Final = "policy"
"""In `meta`: the digest of the file that was in force last."""


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """How it stands, and the revision that agents see now."""

    rules: int
    digest: str
    revision: str


@command()
def note_policy(tx: Transaction, before: Policy | None) -> PolicyInForce:
    """Audit the policy that is in force from this command on, and tell agents if it shows them something else.

    `before` is the one that it replaces; None at a start, where the same file again is no news.
    """
    policy = tx.settings.policy
    kept = tx.row("select value from meta where name = ?", _KEPT)
    now = current_inventory(tx)
    known = kept[0] if kept else ""
    if before is not None or known != (policy.digest if policy.rules else ""):
        tx.sql.execute("insert or replace into meta values (?, ?)", (_KEPT, policy.digest if policy.rules else ""))
        tx.note("policy.loaded", digest=bytes.fromhex(policy.digest), detail={"rules": len(policy.rules)})
    if before is not None and current_inventory(tx, before).revision != now.revision:
        tx.follow_ups.append(InventoryChanged(now))
    return PolicyInForce(len(policy.rules), policy.digest, now.revision)
