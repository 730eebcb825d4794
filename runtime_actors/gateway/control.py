"""What an operator can ask and order."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from runtime_actors.commands import agents, apps, capabilities, views
from runtime_actors.contract import agent as a
from runtime_actors.contract import codec
from runtime_actors.contract.base import AuditMark
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.gateway.peers import HOST_LISTINGS
from runtime_actors.supervisor.messages import Signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime_actors.commands.policy_changes import PolicyInForce
    from runtime_actors.contract.base import JsonObject, WireModel
    from runtime_actors.gateway.peers import Peer
    from runtime_actors.mailbox import Mailbox
    from runtime_actors.rules.inventory import Inventory
    from runtime_actors.store.client import Store

    Answer = Callable[[str, WireModel | Rejection], None]

_VERIFY_AT_ONCE: Final = 500
_MOST_DIGITS: Final = 15
_ENVELOPE_BYTES: Final = 1024
_ROW_BYTES: Final = 16
"""Around a line of a log."""


class Machinery(Protocol):
    """What only `boot` can reach."""

    def status(self) -> JsonObject:
        """Queues, restarts, latencies, memory."""

    def rss_bytes(self, pid: int) -> int | None:
        """Of one process; None if it is gone."""

    def log_tail(self, instance_id: str, lines: int) -> list[str]:
        """The end of an instance's log."""

    def backup(self, path: str, done: Callable[[JsonObject | Rejection], None]) -> None:
        """Copy the store, and verify the copy."""

    def export_audit(self, path: str, keep: int, done: Callable[[JsonObject | Rejection], None]) -> None:
        """Move old audit entries to a file."""

    def reload_policy(self, done: Callable[[PolicyInForce | Rejection], None]) -> None:
        """Read the policy file again, and have it in force from the next command on."""

    def shutdown(self) -> None:
        """Stop the daemon cleanly."""

    def anchor(self) -> tuple[int, bytes]:
        """Where the kept part of the audit chain begins."""

    def keys_changed(self, keys: dict[str, str]) -> None:
        """An agent with a public key was added."""


class Control:
    """Carries out orders; answers come later, from whichever thread has them."""

    def __init__(self, store: Store, supervisor: Mailbox[object], machinery: Machinery) -> None:
        self._store, self._supervisor, self._machinery = store, supervisor, machinery

    def handle(  # noqa: C901 - one line an order
        self,
        peer: Peer,
        request_id: str,
        body: Any,  # noqa: ANN401
        inventory: Inventory,
        answer: Answer,
    ) -> None:
        """Carry out one order."""
        match body:
            case a.Query():
                self._query(peer, request_id, body, inventory, answer)
            case a.Kill():
                self._kill(request_id, body, answer)
            case a.Switch(kind=kind, name=name, enabled=enabled):
                self._store.run(
                    apps.switch,
                    apps.SwitchTo(kind, name, enabled),
                    lambda out: answer(*_done(request_id, out)),
                )
            case a.AddAgent():
                self._add_agent(request_id, body, answer)
            case a.ReloadPolicy():
                self._machinery.reload_policy(lambda out: answer(*_done(request_id, out)))
            case a.RevokeGrant(grant_id=grant_id):
                self._store.run(capabilities.revoke_grant, grant_id, lambda out: answer(*_done(request_id, out)))
            case a.Backup(path=path):
                self._machinery.backup(path, lambda out: answer(*_done(request_id, out)))
            case a.ExportAudit(path=path, keep=keep):
                self._machinery.export_audit(path, keep, lambda out: answer(*_done(request_id, out)))
            case a.VerifyAudit():
                self._verify(request_id, answer, *self._machinery.anchor(), 0)
            case a.Shutdown():
                answer("lineup.v1.control.done", a.Done(request_id=request_id))
                self._machinery.shutdown()

    def audit_mark(self, request_id: str, seq: int, answer: Answer) -> None:
        """What the chain says at a place, for an agent."""

        def told(head: bytes | Rejection | None) -> None:
            if isinstance(head, Rejection):
                answer("", head)
            elif head is None:
                answer("", Rejection(code=RejectionCode.NOT_FOUND, detail=f"there is no audit entry {seq} here"))
            else:
                mark = AuditMark(audit_seq=seq, head_hash=head.hex())
                answer("lineup.v1.audit.mark", a.AuditAnswer(request_id=request_id, audit=mark))

        self._store.run(views.audit_mark, seq, told)

    def _query(self, peer: Peer, request_id: str, query: a.Query, inventory: Inventory, answer: Answer) -> None:
        if peer.role == "host" and query.what not in HOST_LISTINGS:
            answer("", Rejection(code=RejectionCode.ROLE_DENIED, detail=f"hosts may not read {query.what}"))
        elif query.after is not None and not _is_place(query.after):
            answer(
                "", Rejection(code=RejectionCode.MESSAGE_INVALID, detail="after: give the `next` of the page before")
            )
        elif query.what == "inventory":
            answer(*_rows(request_id, views.Page((inventory.wire.to_wire(),))))
        elif query.what == "logs":
            instance_id, lines = str(query.filter.get("instance_id", "")), query.limit
            found = _newest_that_fit(self._machinery.log_tail(instance_id, lines))
            answer(*_rows(request_id, views.Page(tuple({"line": line} for line in found))))
        else:
            self._read_page(request_id, query, query.limit, answer)

    def _read_page(self, request_id: str, query: a.Query, limit: int, answer: Answer) -> None:
        """One page; a shorter one, if that turns out to be more than a frame holds."""

        def told(read: views.Page | Rejection) -> None:
            kind, page = _rows(request_id, self._completed(query.what, read))
            if isinstance(page, Rejection) or _fits(page):
                answer(kind, page)
            elif limit > 1:
                self._read_page(request_id, query, limit // 2, answer)
            else:
                answer("", Rejection(code=RejectionCode.MESSAGE_TOO_LARGE, detail="one row is more than a frame holds"))

        view = views.View(query.filter, query.after, limit)
        self._store.run(views.VIEWS.get(query.what, views.view_counts), view, told)

    def _completed(self, what: str, page: views.Page | Rejection) -> views.Page | Rejection:
        """Add what no row knows."""
        if isinstance(page, Rejection):
            return page
        if what == "status":
            return views.Page(({**page.rows[0], **self._machinery.status()},))
        if what == "ps":
            rows = (
                {**row, "rss_bytes": self._machinery.rss_bytes(row["pid"]) if row["pid"] else None} for row in page.rows
            )
            return views.Page(tuple(rows), page.next)
        return page

    def _kill(self, request_id: str, kill: a.Kill, answer: Answer) -> None:
        try:
            number = signal.Signals[kill.signal]
        except KeyError:
            answer("", Rejection(code=RejectionCode.MESSAGE_INVALID, detail="signal: no such name; SIGKILL is one"))
            return

        def told(attempt_id: str | None) -> None:
            if attempt_id is None:
                detail = f"{kill.instance_id} has no such process; `lineup ps` lists them"
                answer("", Rejection(code=RejectionCode.NOT_FOUND, detail=detail))
                return
            subject = {"instance_id": kill.instance_id, "attempt_id": attempt_id, "signal": number.name}
            self._store.run(agents.note_event, agents.Event("worker.signalled", subject))
            answer("lineup.v1.control.done", a.Done(request_id=request_id, data={"attempt_id": attempt_id}))

        self._supervisor.tell(Signal(kill.instance_id, kill.attempt_id, number, told))

    def _add_agent(self, request_id: str, new: a.AddAgent, answer: Answer) -> None:
        def told(outcome: agents.AgentAdded | Rejection) -> None:
            answer(*_done(request_id, outcome))
            if new.public_key is not None and not isinstance(outcome, Rejection):
                self._store.run(
                    agents.public_keys,
                    None,
                    lambda keys: self._machinery.keys_changed(keys) if isinstance(keys, dict) else None,
                )

        record = agents.NewAgent(new.name, bytes.fromhex(new.token_hash), new.public_key)
        self._store.run(agents.add_agent, record, told)

    def _verify(self, request_id: str, answer: Answer, seq: int, head: bytes, entries: int) -> None:
        """Walk the chain in slices, so that calls go on meanwhile."""

        def told(walked: views.Slice | Rejection) -> None:
            if isinstance(walked, Rejection):
                answer("", walked)
            elif walked.broken is not None:
                reason = f"the audit chain is broken: {walked.broken.reason}"
                answer("", Rejection(code=RejectionCode.INTERNAL_ERROR, detail=reason))
            elif not walked.done:
                self._verify(request_id, answer, walked.seq, walked.head, entries + walked.seq - seq)
            else:
                data = {"entries": entries + walked.seq - seq, "audit_seq": walked.seq, "head_hash": walked.head.hex()}
                answer("lineup.v1.control.done", a.Done(request_id=request_id, data=data))

        self._store.run(views.verify_slice, (seq, head, _VERIFY_AT_ONCE), told)


def _is_place(after: str) -> bool:
    return after.isascii() and after.isdigit() and len(after) <= _MOST_DIGITS


def _fits(page: WireModel) -> bool:
    """Whether a page fits a frame, in bytes and in nodes, with an envelope around it."""
    try:
        codec.check({"envelope": {"body": page.to_wire()}, "room": "x" * _ENVELOPE_BYTES})
    except codec.IntakeError:
        return False
    return True


def _newest_that_fit(lines: list[str]) -> list[str]:
    room = codec.MAX_FRAME_BYTES - _ENVELOPE_BYTES
    kept = 0
    for line in reversed(lines):
        room -= len(line.encode()) + _ROW_BYTES
        if room < 0:
            break
        kept += 1
    return lines[len(lines) - kept :]


def _done(
    request_id: str,
    outcome: apps.Switched | agents.AgentAdded | capabilities.Revoked | PolicyInForce | JsonObject | Rejection,
) -> tuple[str, WireModel | Rejection]:
    if isinstance(outcome, Rejection):
        return "", outcome
    data = outcome if isinstance(outcome, dict) else asdict(outcome)
    return "lineup.v1.control.done", a.Done(request_id=request_id, data=data)


def _rows(request_id: str, page: views.Page | Rejection) -> tuple[str, WireModel | Rejection]:
    if isinstance(page, Rejection):
        return "", page
    return "lineup.v1.control.rows", a.Rows(request_id=request_id, rows=page.rows, next=page.next)
