"""The store actor: runs commands in groups, releases outcomes after the COMMIT."""

from __future__ import annotations

import logging
import sqlite3
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runtime_actors.actor import Beat, RuntimeActor
from runtime_actors.commands.policy_changes import note_policy
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records.audit import anchor, chain_end
from runtime_actors.records.transaction import Chain
from runtime_actors.store.backup import CopyAborted, copy_to, verified
from runtime_actors.store.export import AuditExport, Dropped, drop_exported
from runtime_actors.store.faults import is_full
from runtime_actors.store.groups import BROKEN, Groups
from runtime_actors.store.messages import Copy, ExportAudit, ExportOn, Run, Upkeep, UsePolicy
from runtime_actors.store.parts import StoreParts
from runtime_actors.store.space import Space
from runtime_actors.store.walk import ChainWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime_actors.actor import Care
    from runtime_actors.commands.policy_changes import PolicyInForce
    from runtime_actors.contract.base import JsonObject

__all__ = ["StoreActor", "StoreParts"]

logger = logging.getLogger(__name__)


class StoreActor(RuntimeActor):
    """The only writer. Keeps the end of the audit chain and nothing else that is not in the rows."""

    def __init__(self, care: Care, parts: StoreParts) -> None:
        super().__init__(care)
        self._parts = parts
        self._space = Space(parts.sql, parts.ballast, parts.identity.wal)
        self._groups = Groups(parts, self._space)
        self._walk = ChainWalk(parts.sql, parts.chain.seq)
        self._copying = False
        self._export: tuple[AuditExport, Callable[[JsonObject | Rejection], None]] | None = None
        self.anchor = anchor(parts.sql)
        """Where the part of the audit chain that is kept here begins. May be read from any thread."""

    @property
    def full(self) -> bool:
        """Whether new work is refused because the disk is full."""
        return self._space.is_full

    @property
    def broken_chain(self) -> str | None:
        """What the walk along the audit chain, which goes on after the start, found broken."""
        return self._walk.broken

    @property
    def commit_s(self) -> Sequence[float]:
        """How long the latest commits took."""
        return self._groups.commit_s

    @property
    def commits(self) -> int:
        """Transactions so far."""
        return self._groups.commits

    @property
    def commands(self) -> int:
        """Commands in them."""
        return self._groups.commands

    def on_stop(self) -> None:
        """Close the files: the log is brought into the database, and whoever opens it next is not kept waiting."""
        if self._export is not None:
            self._export[0].abort()
        try:
            self._parts.sql.close()
        except sqlite3.Error:
            logger.exception("the store could not be closed")
        self._parts.side.close()

    def receive(self, message: object) -> None:
        """Run a group that begins with `message`."""
        match message:
            case Run():
                more = self._waiting()
                self.handled += len(more)
                self._groups.run([message, *more])
            case Copy():
                self._copy(message)
            case ExportAudit():
                self._begin_export(message)
            case ExportOn():
                self._export_on()
            case UsePolicy():
                self._use_policy(message)
            case Upkeep():
                self._keep_up()
            case _:
                detail = f"the store cannot take {type(message).__name__}"
                raise TypeError(detail)

    def rebuild(self) -> None:
        """Whatever was open is undone; the chain is where the rows say."""
        if self._parts.sql.in_transaction:
            self._parts.sql.execute("rollback")
        self._parts.chain.go_back(Chain(*chain_end(self._parts.sql)))
        self.anchor = anchor(self._parts.sql)

    def _waiting(self) -> list[Run[Any, Any]]:
        """More commands for the same transaction, as far as they wait already and nothing else stands before them."""
        more: list[Run[Any, Any]] = []
        while len(more) < self._parts.settings.bounds.group and isinstance(self._next(), Run):
            more.append(self.actor_inbox.get().message)
        return more

    def _next(self) -> object:
        """The message that waits longest, left where it is."""
        envelope = self.actor_inbox.next()
        if envelope is None:
            return None
        return envelope.message if envelope.reply_to is None else envelope

    def _use_policy(self, use: UsePolicy) -> None:
        before = self._parts.settings
        self._parts.settings = replace(before, policy=use.policy)

        def told(outcome: PolicyInForce | Rejection) -> None:
            if isinstance(outcome, Rejection):  # what is not on the audit log is not in force
                self._parts.settings = before
            use.done(outcome)

        self._groups.run([Run(note_policy, before.policy, told)])

    # --- upkeep ---

    def _keep_up(self) -> None:
        if not self._groups.is_whole():
            return
        try:
            self._space.look()
            self._walk.go_on(lambda: self._next() is not None)
        except sqlite3.Error as error:
            if is_full(error):
                self._space.note_full()
            else:
                self._groups.fail(error)

    # --- copies ---

    def _copy(self, copy: Copy) -> None:
        if not self._groups.is_whole() or self._copying:
            busy = Rejection(code=RejectionCode.BUSY, detail="a copy is being made")
            copy.done(busy if self._copying else BROKEN)
            return
        self._copying = True
        try:
            failed = copy_to(self._parts.sql, copy.path, self._between)
        finally:
            self._copying = False
        if failed is not None:
            copy.done(failed)
            return
        # Walking a long chain takes seconds: not on this thread.
        threading.Thread(target=lambda: copy.done(verified(copy.path)), name="verify-copy", daemon=True).start()

    def _between(self) -> None:
        """Serve whoever waits while a copy is being made."""
        while (message := self._next()) is not None:
            if not isinstance(message, Run | Beat | Upkeep | Copy | ExportAudit | ExportOn | UsePolicy):
                raise CopyAborted("the daemon ends")
            self.actor_inbox.get()
            self.on_receive(message)
            if not self._groups.is_whole():
                raise CopyAborted("the store cannot be used any more")
            if isinstance(message, Run):
                return  # a group; under load another one waits always, and the copy is to end

    # --- the export of old audit entries ---

    def _begin_export(self, export: ExportAudit) -> None:
        if not self._groups.is_whole() or self._export is not None:
            busy = Rejection(code=RejectionCode.BUSY, detail="an export is under way")
            export.done(busy if self._export is not None else BROKEN)
            return
        try:
            self._export = AuditExport(self._parts.sql, export.path, export.keep), export.done
        except OSError as error:
            detail = f"the export cannot be written there: {error.strerror}"
            export.done(Rejection(code=RejectionCode.NOT_FOUND, detail=detail))
            return
        self._export_on()

    def _export_on(self) -> None:
        if self._export is None:
            return
        export, _ = self._export
        if export.is_written:
            self._groups.run([Run(drop_exported, export.through, self._dropped)])
            return
        try:
            refused = export.write_on()
        except OSError as error:
            refused = Rejection(
                code=RejectionCode.STORE_UNAVAILABLE, detail=f"the export could not be written: {error.strerror}"
            )
        if refused is None:
            self.actor_ref.tell(ExportOn())
        else:
            export.abort()
            self._end_export(refused)

    def _dropped(self, outcome: Dropped | Rejection) -> None:
        self.anchor = anchor(self._parts.sql)
        if isinstance(outcome, Rejection):
            self._end_export(outcome)
        elif outcome.done:
            self._end_export(None)
        else:
            self.actor_ref.tell(ExportOn())

    def _end_export(self, refused: Rejection | None) -> None:
        assert self._export is not None  # noqa: S101 - only called while there is one
        (export, done), self._export = self._export, None
        done(refused or export.told())
