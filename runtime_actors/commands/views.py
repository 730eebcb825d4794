"""What an operator can see: pages of rows as JSON objects with the wire's field names. These rules change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.commands import questions
from runtime_actors.contract.payload import node_count
from runtime_actors.contract.rejection import Rejection, RejectionCode
from runtime_actors.records import artifacts, audit, calls, grants, interactions, surfaces
from runtime_actors.records import instances as rows
from runtime_actors.rules.audit import Break
from runtime_actors.rules.calls import CallKey
from runtime_actors.rules.grants import GrantStatus, is_over
from runtime_actors.rules.policy import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runtime_actors.contract.base import JsonObject
    from runtime_actors.records.transaction import Transaction


_BOTH_FIT: Final = 128 * 1024
"""Input and result that are shown together in one frame."""
_BOTH_FIT_NODES: Final = 9_000
"""Likewise, with the rest of the row."""


@dataclass(frozen=True, slots=True)
class View:
    """One page of a listing."""

    filter: JsonObject
    after: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and where to go on."""

    rows: tuple[JsonObject, ...]
    next: str | None = None


def view_apps(tx: Transaction, _view: View) -> Page:
    """Registered apps and whether they are switched on."""
    off = {(str(kind), str(name)) for kind, name in tx.rows("select kind, name from switched_off")}
    found = [
        {
            "app_scope": scope,
            "version": app.manifest.version,
            "kind": app.manifest.kind,
            "enabled": ("app", scope) not in off,
            "tools": [{"id": name, "enabled": ("tool", name) not in off} for name in sorted(app.tools)],
            "folder": app.folder,
        }
        for scope, app in sorted(tx.settings.catalogue.apps.items())
    ]
    return Page(tuple(found))


def view_instances(tx: Transaction, view: View) -> Page:
    """Instances and the process each has now; with `filter.all`, those that ended too."""
    where = "" if view.filter.get("all") else "and i.state not in ('closed', 'failed')"
    found = tx.rows(  # the parts of the statement are our own words
        "select i.rowid, i.instance_id, i.app_scope, i.conversation_id, i.state, a.attempt_id, a.pid, a.level, "  # noqa: S608
        "a.started_at, i.end_reason, exists (select 1 from actions x where x.conversation_id = i.conversation_id "
        "and x.app_scope = i.app_scope and x.status = 'waiting' and x.hanging) "
        "from instances i left join attempts a on a.instance_id = i.instance_id and a.state <> 'ended' "
        f"where i.rowid > ? {where} order by i.rowid limit ?",
        int(view.after or 0),
        view.limit + 1,
    )
    names = [
        "instance_id",
        "app_scope",
        "conversation_id",
        "state",
        "attempt_id",
        "pid",
        "level",
        "started_at",
        "end_reason",
    ]
    made = []
    for place, *values, hanging in found:
        row = dict(zip(names, values, strict=True))
        row |= {"app_title": questions.app_title(tx, row["app_scope"]), "hanging": bool(hanging)}
        made.append((place, row))
    return _behind(made, view.limit)


def view_calls(tx: Transaction, view: View) -> Page:
    """Calls, the newest first; `filter` may name status, conversation_id, agent_id or app_scope."""
    names = ("status", "conversation_id", "agent_id", "app_scope")
    asked = [(name, view.filter[name]) for name in names if isinstance(view.filter.get(name), str)]
    terms = [f"{name} = ?" for name, _ in asked]
    values: list[object] = [value for _, value in asked]
    if view.filter.get("open"):
        terms.append("due_boot_s is not null")
    if view.after:
        terms.append("seq < ?")
        values.append(int(view.after))
    where = f"where {' and '.join(terms)}" if terms else ""
    columns = [
        "seq",
        "agent_id",
        "conversation_id",
        "call_id",
        "tool_id",
        "app_scope",
        "instance_id",
        "status",
        "error_code",
        "cancel_requested",
        "crashes",
        "created_at",
        "updated_at",
    ]
    found = tx.rows(
        f"select {', '.join(columns)} from calls {where} order by seq desc limit ?",  # noqa: S608 - our own words
        *values,
        view.limit + 1,
    )
    made = [dict(zip(columns, row, strict=True)) | {"cancel_requested": bool(row[9])} for row in found]
    return Page(tuple(made[: view.limit]), str(made[view.limit - 1]["seq"]) if len(made) > view.limit else None)


def view_call(tx: Transaction, view: View) -> Page | Rejection:
    """Everything about the calls of one id: record, input, and its audit entries."""
    call_id = str(view.filter.get("call_id", ""))
    found = tx.rows(
        "select agent_id, conversation_id from calls where call_id = ? order by seq limit ?", call_id, view.limit
    )
    made = []
    for agent_id, conversation_id in found:
        call = calls.find(tx, CallKey(agent_id, conversation_id, call_id))
        if call is not None:
            row = {
                "agent_id": agent_id,
                "crashes": call.crashes,
                "handling": call.handling,
                **calls.state(call).to_wire(),
            }
            given = msgpack.unpackb(call.input)
            fit = len(call.input) + len(call.result or b"") <= _BOTH_FIT and node_count([row, given]) <= _BOTH_FIT_NODES
            made.append(row | ({"input": given} if fit else {"input_bytes": len(call.input)}))
    if not made:
        return Rejection(code=RejectionCode.NOT_FOUND, detail="no call has this id; `lineup calls` lists them")
    return Page(tuple(made))


def view_inbox(tx: Transaction, view: View) -> Page:
    """Messages that no MiniApp has acknowledged."""
    found = tx.rows(
        "select conversation_id, app_scope, number, kind, agent_id, call_id, repeated, created_at from inbox "
        "order by conversation_id, app_scope, number limit ? offset ?",
        view.limit + 1,
        int(view.after or 0),
    )
    made = [
        {
            "conversation_id": row[0],
            "app_scope": row[1],
            "message_id": f"m{row[2]}",
            "number": row[2],
            "kind": row[3],
            "agent_id": row[4],
            "call_id": row[5],
            "repeated": bool(row[6]),
            "created_at": row[7],
        }
        for row in found
    ]
    return _paged(made, view)


def view_outbox(tx: Transaction, view: View) -> Page:
    """Deliveries that no agent has acknowledged."""
    found = tx.rows(
        "select agent_id, number, conversation_id, kind, call_id, length(frame), created_at from outbox "
        "order by agent_id, number limit ? offset ?",
        view.limit + 1,
        int(view.after or 0),
    )
    names = ("agent_id", "number", "conversation_id", "type", "call_id", "bytes", "created_at")
    return _paged([dict(zip(names, row, strict=True)) for row in found], view)


def view_focus(tx: Transaction, view: View) -> Page:
    """Focus stacks; the last one is in front."""
    found = tx.rows(
        "select rowid, conversation_id from focus where rowid > ? and stack <> '[]' order by rowid limit ?",
        int(view.after or 0),
        view.limit + 1,
    )
    made = [(place, {"conversation_id": name, "stack": list(rows.stack(tx, name))}) for place, name in found]
    return _behind(made, view.limit)


def view_interactions(tx: Transaction, view: View) -> Page:
    """Questions that can be answered now, oldest first, as hosts draw them; with `filter.all`, those that ended too.

    `filter` may name a conversation_id.
    """
    found = interactions.page(
        tx,
        int(view.after or 0),
        view.limit + 1,
        conversation_id=view.filter.get("conversation_id"),
        ended_too=bool(view.filter.get("all")),
    )
    made = [
        (
            place,
            interactions.shown(row, questions.app_title(tx, row.app_scope))
            if interactions.is_readable(row)
            else {"interaction": {"interaction_id": row.interaction_id, "status": str(row.status)}},
        )
        for place, row in found
    ]
    return _behind(made, view.limit)


def view_timeline(tx: Transaction, view: View) -> Page:
    """Host events in order; without `after`, the newest page. `filter` may name a conversation_id."""
    columns = ("number", "at", "conversation_id", "kind", "data")
    of, select = view.filter.get("conversation_id"), f"select {', '.join(columns)} from host_events"  # noqa: S608
    only = "conversation_id = coalesce(?, conversation_id)"
    if view.after is None:
        found = tx.rows(f"{select} where {only} order by number desc limit ?", of, view.limit)[::-1]
    else:
        found = tx.rows(
            f"{select} where {only} and number > ? order by number limit ?", of, int(view.after), view.limit + 1
        )
    made = [(row[0], dict(zip(columns, row, strict=True)) | {"data": msgpack.unpackb(row[4])}) for row in found]
    return _behind(made, view.limit)


def view_audit(tx: Transaction, view: View) -> Page:
    """Audit entries in order; without `after`, the newest page."""
    tx.chain.write(tx.sql)
    if view.after is None and not view.filter.get("all"):
        found = tx.rows("select * from audit order by seq desc limit ?", view.limit)[::-1]
        return Page(tuple(_entry(row) for row in found))
    found = tx.rows("select * from audit where seq > ? order by seq limit ?", int(view.after or 0), view.limit + 1)
    more = len(found) > view.limit
    made = tuple(_entry(row) for row in found[: view.limit])
    return Page(made, str(made[-1]["seq"]) if more else None)


def view_surfaces(tx: Transaction, view: View) -> Page:
    """Open surfaces with their states, in order of opening; with `filter.all`, closed ones too.

    `filter` may name conversation_id, instance_id or app_scope.
    """
    closed_too, of = bool(view.filter.get("all")), _named(view)
    found = surfaces.page(tx, int(view.after or 0), view.limit + 1, closed_too=closed_too, of=of)
    made = [(place, surfaces.shown(one, with_state=True).to_wire()) for place, one in found]
    return _behind(made, view.limit)


def view_artifacts(tx: Transaction, view: View) -> Page:
    """Artifacts, oldest first; `filter` as in `view_surfaces`."""
    found = artifacts.page(tx, int(view.after or 0), view.limit + 1, _named(view))
    made = [
        (place, {**artifacts.shown(one).to_wire(), "instance_id": one.instance_id, "received": one.received})
        for place, one in found
    ]
    return _behind(made, view.limit)


def view_counts(tx: Transaction, _view: View) -> Page:
    """Sizes, for `status`."""
    counted = {
        "open_calls": "select cast(total(open_calls) as integer) from agents",
        "inbox_messages": "select count(*) from inbox",
        "outbox_deliveries": "select count(*) from outbox",
        "agents": "select count(*) from agents",
        "hosts": "select count(*) from hosts where peer is not null",
        "set_aside": "select count(*) from set_aside",
    }
    row: JsonObject = {name: (tx.row(sql) or (0,))[0] for name, sql in counted.items()}
    row["audit"] = {"audit_seq": tx.chain.seq, "head_hash": tx.chain.head.hex()}
    return Page((row,))


def view_grants(tx: Transaction, view: View) -> Page:
    """What people were asked to permit and permitted; with `filter.all`, also what is over."""
    now_s = tx.moment.wall.timestamp()
    found = grants.page(tx, int(view.after or 0), view.limit + 1, ended_too=bool(view.filter.get("all")))
    made: list[tuple[int, JsonObject]] = []
    for place, one in found:
        status = GrantStatus.EXPIRED if one.status is GrantStatus.GRANTED and is_over(one, now_s) else one.status
        row: JsonObject = {
            "grant_id": one.grant_id,
            "app_scope": one.app_scope,
            "conversation_id": one.conversation_id,
            "capability": one.capability,
            "span": one.span,
            "status": status,
            "expires_at": one.expires_at,
            "call_id": one.call_id,
            "interaction_id": one.interaction_id,
            "reason": one.reason,
            "created_at": one.created_at,
            "updated_at": one.updated_at,
        }
        made.append((place, row))
    return _behind(made, view.limit)


def view_policy(tx: Transaction, view: View) -> Page:
    """The rules in force, in their order."""
    begin = int(view.after or 0)
    rules = tx.settings.policy.rules[begin : begin + view.limit + 1]
    made = [
        {
            "rule": rule.number,
            "app": rule.app,
            "agent": rule.agent,
            "conversation": rule.conversation,
            "about": rule.kind,
            "name": rule.name,
            "decision": str(rule.verdict),
            "for": rule.span if rule.verdict is Verdict.ASK else None,
            "expires_s": rule.expires_s,
        }
        for rule in rules
    ]
    return _paged(made, view)


VIEWS: Final[Mapping[str, Callable[[Transaction, View], Page | Rejection]]] = {
    "apps": view_apps,
    "ps": view_instances,
    "calls": view_calls,
    "call": view_call,
    "inbox": view_inbox,
    "outbox": view_outbox,
    "focus": view_focus,
    "interactions": view_interactions,
    "timeline": view_timeline,
    "audit": view_audit,
    "surfaces": view_surfaces,
    "artifacts": view_artifacts,
    "grants": view_grants,
    "policy": view_policy,
}


@dataclass(frozen=True, slots=True)
class Slice:
    """How far the chain was walked."""

    seq: int
    head: bytes
    broken: Break | None
    done: bool


def verify_slice(tx: Transaction, start: tuple[int, bytes, int]) -> Slice:
    """Walk a slice of the audit chain: `start` is (seq, head, how many entries)."""
    seq, head, limit = start
    tx.chain.write(tx.sql)
    kept = audit.anchor(tx.sql)
    if kept[0] > seq:  # exported since the walk began, and verified then
        seq, head = kept
    found = audit.rows_behind(tx.sql, seq, limit)
    walked = audit.walk_rows(seq, head, found)
    if isinstance(walked, Break):
        return Slice(seq, head, walked, done=True)
    return Slice(walked[0], walked[1], None, done=len(found) < limit)


def audit_mark(tx: Transaction, seq: int) -> bytes | None:
    """The chain's head at a place."""
    tx.chain.write(tx.sql)
    row = tx.row("select head from audit where seq = ?", seq)
    return bytes(row[0]) if row else None


def _entry(row: tuple[Any, ...]) -> JsonObject:
    entry = audit.entry_of(row)
    return {
        "seq": entry.seq,
        "at": entry.at,
        "event": entry.event,
        "subject": entry.subject,
        "detail": entry.detail,
        "digest": entry.digest.hex(),
        "head_hash": bytes(row[6]).hex(),
    }


def _named(view: View) -> dict[str, str]:
    names = ("conversation_id", "instance_id", "app_scope")
    return {name: value for name in names if isinstance(value := view.filter.get(name), str)}


def _behind(made: list[tuple[int, JsonObject]], limit: int) -> Page:
    """A page of rows that have places of their own."""
    shown = made[:limit]
    return Page(tuple(row for _, row in shown), str(shown[-1][0]) if len(made) > limit else None)


def _paged(made: list[JsonObject], view: View) -> Page:
    if len(made) <= view.limit:
        return Page(tuple(made))
    return Page(tuple(made[: view.limit]), str(int(view.after or 0) + view.limit))
