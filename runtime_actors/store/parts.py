"""What the store works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping

    from runtime_actors.mailbox import Clock, Ids, Mailbox
    from runtime_actors.records.transaction import Chain, Settings
    from runtime_actors.store.failpoints import Failpoints
    from runtime_actors.store.files import Ballast, Identity, SideFile


@dataclass(slots=True)
class StoreParts:
    """What the store works with; opened by `boot`, used by this actor's thread alone. Only `settings` is replaced."""

    sql: sqlite3.Connection
    chain: Chain
    side: SideFile
    ballast: Ballast
    identity: Identity
    settings: Settings
    clock: Clock
    ids: Ids
    listeners: Mapping[type, Mailbox[Any]]
    """Who gets which kind of follow-up."""
    failpoints: Failpoints
    unusable: Callable[[str], None]
    """Ends the runtime with exit code 5."""
