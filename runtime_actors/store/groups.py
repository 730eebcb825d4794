"""Groups of commands: one transaction, outcomes released after the COMMIT.

An exception undoes its own command alone. That is seldom, and a SAVEPOINT around each command costs as much as the
command; so a group is run without them, and once more with them if a command raised.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from runtime_actors.commands.calls import give_up_call
from runtime_actors.commands.command import GROWING
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records.transaction import Chain, Transaction
from runtime_actors.rules.flood import FloodMeter
from runtime_actors.store.faults import is_full, is_of_the_store, may_be_broken

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.rules.calls import CallKey
    from runtime_actors.store.messages import Run
    from runtime_actors.store.parts import StoreParts
    from runtime_actors.store.space import Space

    Released = tuple[Run[Any, Any], object, list[object]]
    """A command, its outcome and its follow-ups, to be told."""

logger = logging.getLogger(__name__)

_RESTORE: Final = "`lineup restore FILE` puts a backup in its place"
_UNAVAILABLE: Final = RejectionCode.STORE_UNAVAILABLE
_NO_SPACE: Final = Rejection(code=_UNAVAILABLE, detail="there is no space for the store; free some and try again")
BROKEN: Final = Rejection(code=_UNAVAILABLE, detail="the store cannot be used any more; the daemon ends")
_FAILED: Final = Rejection(code=RejectionCode.INTERNAL_ERROR, detail="the runtime failed on this request; see its log")


class Groups:
    """Runs groups on the store's thread, until the store breaks."""

    def __init__(self, parts: StoreParts, space: Space) -> None:
        self._parts, self._space = parts, space
        self._floods = FloodMeter()
        self._broken = False
        self.commit_s: deque[float] = deque(maxlen=1000)
        """How long the latest commits took."""
        self.commits = 0
        self.commands = 0

    def is_whole(self) -> bool:
        """Whether the store can be written. Once it cannot, it never is again: nobody knows what the disk holds."""
        if not self._broken and not self._parts.identity.holds():
            path = self._parts.identity.path
            self._break(f"{path} or its log was deleted or replaced while the daemon ran. {_RESTORE}")
        return not self._broken

    def run(self, group: list[Run[Any, Any]]) -> None:
        """Run, commit and tell. Raises nothing: what was committed is not to be tried again; each gets an outcome."""
        if self.is_whole():
            self._space.probe()
            released = self._decided(group)
        else:
            released = [(run, BROKEN, []) for run in group]
        for run, outcome, follow_ups in released:
            self._release(run, outcome, follow_ups)

    def _decided(self, group: list[Run[Any, Any]]) -> list[Released]:
        try:
            return self._commit(group)
        except sqlite3.Error as error:
            if not is_full(error):
                return self._refuse_broken(group, error)
            self._space.note_full()
        except Exception:
            logger.exception("a transaction failed")
        return self._one_by_one(group)

    def _one_by_one(self, group: list[Run[Any, Any]]) -> list[Released]:
        """A transaction each: who needs no space, or did not fail, need not suffer for the others."""
        released: list[Released] = []
        for number, run in enumerate(group):
            if self._broken:
                return released + [(one, BROKEN, []) for one in group[number:]]
            try:
                released += self._commit([run])
            except sqlite3.Error as error:
                if not is_full(error) or (may_be_broken(error) and self._space.is_there()):
                    return released + self._refuse_broken(group[number:], error)
                self._space.note_full()
                released.append((run, _NO_SPACE, []))
            except Exception:
                logger.exception("a transaction failed", extra={"command": _name(run)})
                released.append((run, _FAILED, []))
        return released

    def _refuse_broken(self, group: list[Run[Any, Any]], error: sqlite3.Error) -> list[Released]:
        self.fail(error)
        return [(run, BROKEN, []) for run in group]

    def fail(self, error: sqlite3.Error) -> None:
        """SQLite failed in a way that says nothing about what is on the disk."""
        logger.error("a transaction failed", exc_info=error)
        self._break(f"a transaction failed: {error}. If that repeats, {_RESTORE}")

    def _break(self, why: str) -> None:
        self._broken = True
        self._parts.unusable(why)

    def _commit(self, group: list[Run[Any, Any]]) -> list[Released]:
        """All of a group, or an exception and none of it."""
        try:
            return self._transact(group, self._decide)
        except _CommandRaised:
            return self._transact(group, self._decide_apart)

    def _transact(
        self, group: list[Run[Any, Any]], decide: Callable[[Transaction, Run[Any, Any]], object]
    ) -> list[Released]:
        parts, moment = self._parts, self._parts.clock.now()
        kept, begun = parts.chain.kept(), time.perf_counter()
        released: list[Released] = []
        self._floods.keep()
        try:
            parts.sql.execute("begin immediate")
            for run in group:
                tx = Transaction(parts.sql, parts.chain, parts.settings, parts.ids, moment, self._floods)
                released.append((run, decide(tx, run), tx.follow_ups))
            parts.chain.write(parts.sql)
            parts.failpoints.before_commit(group)
            parts.sql.execute("commit")
        except BaseException:
            parts.chain.go_back(kept)
            self._floods.undo()
            if parts.sql.in_transaction:  # SQLite has rolled back by itself after some errors
                parts.sql.execute("rollback")
            raise
        self.commit_s.append(time.perf_counter() - begun)
        self.commits += 1
        self.commands += len(group)
        return released if self._kept_aside(group, kept.seq) else [(run, BROKEN, []) for run in group]

    def _kept_aside(self, group: list[Run[Any, Any]], before: int) -> bool:
        """Between COMMIT and outcomes: the side file. False if nobody may be told."""
        parts = self._parts
        try:
            parts.failpoints.after_commit(group)
            if parts.chain.seq != before:
                parts.side.write(parts.chain.seq, parts.chain.head)
        except OSError as error:
            logger.exception("the side file could not be written")
            if not is_full(error):
                self._break(f"the audit chain's side file cannot be written: {error}")
                return False
            self._space.note_full()  # the older place in it is true as well
        return True

    def _decide(self, tx: Transaction, run: Run[Any, Any]) -> object:
        if self._space.is_full and _name(run) in GROWING:
            return _NO_SPACE
        try:
            return run.rule(tx, run.argument)
        except BaseException as error:  # SystemExit of one command would take the whole group with it
            if is_of_the_store(error):
                raise  # not this command's fault
            raise _CommandRaised from error

    def _decide_apart(self, tx: Transaction, run: Run[Any, Any]) -> object:
        """One command in its SAVEPOINT: an exception undoes it alone."""
        kept = self._set_savepoint(tx)
        try:
            outcome = self._decide(tx, run)
        except _CommandRaised as raised:
            if not tx.sql.in_transaction:
                raise  # not this command's loss alone
            error = raised.__cause__
            logger.exception("a command failed", exc_info=error, extra={"command": _name(run)})
            _undo(tx, kept)
            failed = {"command": _name(run), "error": type(error).__name__}
            tx.note_often("command.failed", who=_name(run), digest=b"", detail=failed)
            if run.call_key is not None:
                self._end_call(tx, run.call_key)
            outcome = _FAILED
        tx.sql.execute("release command")
        return outcome

    def _end_call(self, tx: Transaction, key: CallKey) -> None:
        """A command about a call raised: the call ends with `internal_error`, if that much can be done."""
        kept = self._set_savepoint(tx)
        try:
            give_up_call(tx, key)
        except Exception as error:
            if is_of_the_store(error) or not tx.sql.in_transaction:
                raise
            logger.exception("a call could not be ended")
            _undo(tx, kept)
        tx.sql.execute("release command")

    def _set_savepoint(self, tx: Transaction) -> Chain:
        tx.chain.write(tx.sql)
        self._floods.keep()
        tx.sql.execute("savepoint command")
        return tx.chain.kept()

    def _release(self, run: Run[Any, Any], outcome: object, follow_ups: list[object]) -> None:
        if self._parts.failpoints.drops_outcome(run):
            return
        if run.then is not None:
            try:
                run.then(outcome)
            except Exception:
                logger.exception("an outcome could not be told", extra={"command": _name(run)})
        for follow_up in follow_ups:
            try:
                self._parts.listeners[type(follow_up)].tell(follow_up)
            except Exception:
                logger.exception("a follow-up could not be told", extra={"kind": type(follow_up).__name__})


def _undo(tx: Transaction, kept: Chain) -> None:
    tx.sql.execute("rollback to command")  # the newest one of this name
    tx.chain.go_back(kept)
    tx.floods.undo()
    tx.follow_ups.clear()


class _CommandRaised(Exception):
    """With the exception as its cause."""


def _name(run: Run[Any, Any]) -> str:
    return getattr(run.rule, "__name__", "")
