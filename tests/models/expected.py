"""What a request must be answered when nothing else is under way, derived from the rows in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from runtime_actors.rules import inventory
from runtime_actors.rules.instances import LIVE
from tests.models.life import CATALOGUE
from tests.models.witness import FINAL, Asked, Word, status_of

if TYPE_CHECKING:
    import sqlite3

_CALL: Final = (
    "select status, digest, cancel_requested from calls where agent_id = ? and conversation_id = ? and call_id = ?"
)
_revisions: dict[frozenset[tuple[str, str]], str] = {}


def revision(off: frozenset[tuple[str, str]]) -> str:
    """Of the inventory without what is switched off."""
    if off not in _revisions:
        _revisions[off] = inventory.build(CATALOGUE, off).revision
    return _revisions[off]


def to_agent(sql: sqlite3.Connection, asked: Asked, *, doubtful: bool) -> str | None:
    """The code, or `ok`; None if it depends on news that may have got lost (`doubtful`)."""
    key = asked.key
    known = sql.execute(_CALL, (key.agent_id, key.conversation_id, key.call_id)).fetchone()
    owner = sql.execute(
        "select agent_id from conversations where conversation_id = ?", (key.conversation_id,)
    ).fetchone()
    if asked.kind != "tool.invoke":
        if known is None:
            return "call_not_found" if owner in {None, (key.agent_id,)} else "conversation_denied"
        ended = asked.kind == "tool.cancel" and known[0] in FINAL and not known[2]
        return "call_already_final" if ended else "ok"
    if known is not None:
        return "ok" if known[1] == asked.digest else "call_id_conflict"
    return None if doubtful else _admission(sql, asked, owner)


def _admission(sql: sqlite3.Connection, asked: Asked, owner: tuple[str] | None) -> str:
    off: frozenset[Any] = frozenset(sql.execute("select kind, name from switched_off").fetchall())
    scope = asked.tool_id.partition(".")[0]
    if asked.revision != revision(off):
        return "inventory_revision_mismatch"
    if off & {("app", scope), ("tool", asked.tool_id)}:
        return "app_disabled"
    if owner not in {None, (asked.key.agent_id,)}:
        return "conversation_denied"
    states = sql.execute(
        "select state from instances where conversation_id = ? and app_scope = ?", (asked.key.conversation_id, scope)
    ).fetchall()
    if asked.tool_id == "board.update" and not any(state in LIVE for (state,) in states):
        return "app_instance_not_found"
    return "ok"


def to_worker(sql: sqlite3.Connection, place: tuple[str, str, str], word: Word) -> str:
    """The code of the receipt, or `ok`."""
    instance_id, talk, scope = place
    (state,) = sql.execute("select state from instances where instance_id = ?", (instance_id,)).fetchone()
    if word.kind == "inbox.acknowledge":
        if state not in LIVE:
            return "app_instance_not_found"
        last = sql.execute(
            "select last_number from inboxes where conversation_id = ? and app_scope = ?", (talk, scope)
        ).fetchone()
        return "ok" if last is not None and 1 <= int(word.message_id[1:]) <= last[0] else "message_not_found"
    call = sql.execute(
        "select status, result, failure, tool_id from calls where instance_id = ? and call_id = ? order by seq desc",
        (instance_id, word.call_id),
    ).fetchone()
    if call is None:
        return "call_not_found"
    return _about_call(sql, word, call, is_live=state in LIVE, scope=scope)


def _about_call(sql: sqlite3.Connection, word: Word, call: tuple[Any, ...], *, is_live: bool, scope: str) -> str:
    status, result, failure, tool_id = call
    if status in FINAL:
        same = status_of(word.kind) == status and word.payload == (result if status == "completed" else failure)
        return "ok" if same else "call_already_final"
    if not is_live:
        return "app_instance_not_found"
    if set(sql.execute("select kind, name from switched_off").fetchall()) & {("app", scope), ("tool", tool_id)}:
        return "app_disabled"
    return "tool_output_invalid" if word.kind == "complete" and word.payload not in VALID else "ok"


VALID: Final = frozenset({bytes.fromhex("81a26f6bc3"), bytes.fromhex("81a26f6bc2")})
"""`{"ok": true}` and `{"ok": false}`, as they are recorded."""
