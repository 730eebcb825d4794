"""The store actor: runs commands in groups, releases outcomes after the COMMIT."""

from __future__ import annotations

import logging
import queue
import sqlite3
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.actor import RuntimeActor
from runtime_actors.commands.calls import give_up_call
from runtime_actors.commands.command import GROWING
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records.transaction import Chain, Settings, Transaction
from runtime_actors.rules.flood import FloodMeter
from runtime_actors.store.backup import copy_to
from runtime_actors.store.messages import Copy, Run, Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime_actors.actor import Care
    from runtime_actors.mailbox import Clock, Ids, Mailbox
    from runtime_actors.store.failpoints import Failpoints
    from runtime_actors.store.files import Ballast, Identity, SideFile

logger = logging.getLogger(__name__)

_PROBE_EVERY_S: Final = 1.0
_FULL: Final = RejectionCode.STORE_UNAVAILABLE
_NO_SPACE: Final = Rejection(code=_FULL, detail="the disk is full; free some space and try again")
_FAILED: Final = Rejection(code=RejectionCode.INTERNAL_ERROR, detail="the runtime failed on this request; see its log")


@dataclass(frozen=True, slots=True)
class StoreParts:
    """What the store works with; opened by `boot`, used by this actor's thread alone."""

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


class StoreActor(RuntimeActor):
    """The only writer. Keeps the end of the audit chain and nothing else that is not in the rows."""

    def __init__(self, care: Care, parts: StoreParts) -> None:
        super().__init__(care)
        self._parts = parts
        self._floods = FloodMeter()
        self._full_since: float | None = None
        self._probed = 0.0
        self.commit_s: deque[float] = deque(maxlen=1000)
        """How long the latest commits took."""
        self.commits = 0
        self.commands = 0

    @property
    def full(self) -> bool:
        """Whether new work is refused because the disk is full."""
        return self._full_since is not None

    def receive(self, message: object) -> None:
        """Run a group that begins with `message`."""
        match message:
            case Run():
                self._run_group([message, *self._waiting()])
            case Copy(path, done):
                done(copy_to(self._parts.sql, path, self._parts.chain))
            case Upkeep():
                self._probe()
                if not self._parts.identity.holds():
                    self._parts.unusable(f"{self._parts.identity.path} was deleted or replaced while the daemon ran")
            case _:
                detail = f"the store cannot take {type(message).__name__}"
                raise TypeError(detail)

    def rebuild(self) -> None:
        """Whatever was open is undone; the chain is where the rows say."""
        if self._parts.sql.in_transaction:
            self._parts.sql.execute("rollback")
        row = self._parts.sql.execute("select seq, head from audit order by seq desc limit 1").fetchone()
        if row is not None:
            self._parts.chain.seq, self._parts.chain.head = row

    def _waiting(self) -> list[Run[Any, Any]]:
        """More commands for the same transaction, as far as they wait already."""
        more: list[Run[Any, Any]] = []
        while len(more) < self._parts.settings.bounds.group:
            try:
                envelope = self.actor_inbox.get_nowait()
            except queue.Empty:
                break
            if not isinstance(envelope.message, Run):
                self.actor_inbox.put(envelope)
                break
            more.append(envelope.message)
        return more

    def _run_group(self, group: list[Run[Any, Any]]) -> None:
        parts = self._parts
        if not parts.identity.holds():
            parts.unusable(f"{parts.identity.path} was deleted or replaced while the daemon ran")
            return
        if self.full:
            self._probe()
        begun = time.perf_counter()
        try:
            released = self._commit(group)
        except sqlite3.Error as error:
            if not _is_full(error):
                logger.exception("a transaction failed")
                parts.unusable(f"a transaction failed: {error}")
                return
            released = self._after_full(group)
        self.commits += 1
        self.commands += len(group)
        self.commit_s.append(time.perf_counter() - begun)
        for run, outcome, follow_ups in released:
            self._release(run, outcome, follow_ups)

    def _commit(self, group: list[Run[Any, Any]]) -> list[tuple[Run[Any, Any], object, list[object]]]:
        """All of a group, or an exception and none of it."""
        parts, moment = self._parts, self._parts.clock.now()
        kept = Chain(parts.chain.seq, parts.chain.head)
        released = []
        parts.sql.execute("begin immediate")
        try:
            for run in group:
                tx = Transaction(parts.sql, parts.chain, parts.settings, parts.ids, moment, self._floods)
                released.append((run, self._decide(tx, run), tx.follow_ups))
            parts.failpoints.before_commit(group)
            parts.sql.execute("commit")
        except BaseException:
            if parts.sql.in_transaction:  # SQLite has rolled back by itself after some errors
                parts.sql.execute("rollback")
            parts.chain.seq, parts.chain.head = kept.seq, kept.head
            raise
        parts.failpoints.after_commit(group)
        if parts.chain.seq != kept.seq:
            parts.side.write(parts.chain.seq, parts.chain.head)
        return released

    def _decide(self, tx: Transaction, run: Run[Any, Any]) -> object:
        """One command in its SAVEPOINT: an exception undoes it alone."""
        name = getattr(run.rule, "__name__", "")
        if self.full and name in GROWING:
            return _NO_SPACE
        kept = Chain(tx.chain.seq, tx.chain.head)
        tx.sql.execute("savepoint command")
        try:
            outcome: object = run.rule(tx, run.argument)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and _is_full(error):
                raise  # not this command's fault
            logger.exception("a command failed", extra={"command": name})
            tx.sql.execute("rollback to command")
            tx.chain.seq, tx.chain.head = kept.seq, kept.head
            tx.follow_ups.clear()
            tx.note("command.failed", detail={"command": name, "error": type(error).__name__})
            if run.call_key is not None:
                self._end_call(tx, run)
            outcome = _FAILED
        tx.sql.execute("release command")
        return outcome

    def _end_call(self, tx: Transaction, run: Run[Any, Any]) -> None:
        """A command about a call raised: the call ends with `internal_error`, if that much can be done."""
        kept = Chain(tx.chain.seq, tx.chain.head)
        tx.sql.execute("savepoint ending")
        try:
            if run.call_key is not None:
                give_up_call(tx, run.call_key)
        except Exception:
            logger.exception("a call could not be ended")
            tx.sql.execute("rollback to ending")
            tx.chain.seq, tx.chain.head = kept.seq, kept.head
            tx.follow_ups.clear()
        tx.sql.execute("release ending")

    def _after_full(self, group: list[Run[Any, Any]]) -> list[tuple[Run[Any, Any], object, list[object]]]:
        """The disk is full: give up the ballast, refuse new work, and let the rest end in the space that is left."""
        if not self.full:
            logger.error("the disk is full: new work is refused until there is space")
            self._full_since = time.monotonic()
        self._parts.ballast.drop()
        try:
            return self._commit(group)
        except sqlite3.Error as error:
            if not _is_full(error):
                self._parts.unusable(f"a transaction failed: {error}")
            return [(run, _NO_SPACE, []) for run in group]

    def _probe(self) -> None:
        """Is there space again?"""
        now = time.monotonic()
        if self.full and now - self._probed >= _PROBE_EVERY_S:
            self._probed = now
            if self._parts.ballast.restore():
                logger.warning("there is space again: new work is taken")
                self._full_since = None

    def _release(self, run: Run[Any, Any], outcome: object, follow_ups: list[object]) -> None:
        if self._parts.failpoints.drops_outcome(run):
            return
        if run.then is not None:
            try:
                run.then(outcome)
            except Exception:
                logger.exception("an outcome could not be told")
        for follow_up in follow_ups:
            self._parts.listeners[type(follow_up)].tell(follow_up)


def _is_full(error: sqlite3.Error) -> bool:
    """No space, or the file size limit (setrlimit(2), RLIMIT_FSIZE)."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE}
