"""What a request about a question must be answered when nothing else is under way, from the rows in front of it.

The words are those of docs/people.md, sections 2.2 and 2.3.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgpack

from runtime_actors.rules.instances import LIVE
from tests.models.questions import END, KINDS
from tests.models.witness import FINAL

if TYPE_CHECKING:
    import sqlite3

    from tests.models.wire import Said

_MOST: Final = 16
"""Questions of one instance."""
_CALL_WAITS_S: Final = 7 * 86_400.0
"""At most, for a person."""
_ROW: Final = "select status, expires_wall_s, request, instance_id, interaction_id from interactions"
FINAL_CODE: Final = "interaction_already_final"


def to_worker(sql: sqlite3.Connection, place: tuple[str, str, str], attempt_id: str, said: Said, wall_s: float) -> str:
    """The code of the receipt, or `ok`; `none` of a `ui.get` that finds nothing."""
    instance_id = place[0]
    if said.kind == "ui.list":
        return "ok"
    if said.kind == "ui.request":
        return _asks(sql, place, said, wall_s)
    row = _one(sql, f"{_ROW} where interaction_id = ?", said.body["interaction_id"])
    is_own = row is not None and row[3] == instance_id
    if said.kind == "ui.get":
        return "ok" if is_own else "none"
    if _one(sql, "select 1 from receipts where attempt_id = ? and request_id = ?", attempt_id, said.id):
        return "ok"
    if not is_own:
        return "interaction_not_found"
    return FINAL_CODE if _is_over(row, wall_s) else "ok"


def _asks(sql: sqlite3.Connection, place: tuple[str, str, str], said: Said, wall_s: float) -> str:
    instance_id, _, scope = place
    body, parent = said.body, said.body.get("parent_call_id")
    if _one(sql, f"{_ROW} where instance_id = ? and request_id = ?", instance_id, said.id):
        return "ok"
    named = f"{_ROW} where instance_id = ? and coalesce(parent_call_id, '') = ? and key = ?"
    known = _one(sql, named, instance_id, parent or "", body.get("key"))
    if known is not None:
        return "ok" if msgpack.unpackb(known[2])["title"] == body["request"]["title"] else "key_conflict"
    expires_s = None if body.get("expires_at") is None else datetime.fromisoformat(body["expires_at"]).timestamp()
    if expires_s is not None and expires_s <= wall_s:
        return "interaction_invalid"
    if _one(sql, "select state from instances where instance_id = ?", instance_id)[0] not in LIVE:
        return "app_instance_not_found"
    if _one(sql, "select 1 from switched_off where kind = 'app' and name = ?", scope):
        return "app_disabled"
    if parent is not None:
        about = "select status, created_at from calls where instance_id = ? and call_id = ? order by seq desc"
        call = _one(sql, about, instance_id, parent)
        if call is None or call[0] in FINAL:
            return "call_not_found" if call is None else "call_already_final"
        if datetime.fromisoformat(call[1]).timestamp() + _CALL_WAITS_S <= wall_s:
            return "interaction_invalid"
    counted = "select count(*) from interactions where instance_id = ? and not settled"
    return "busy" if _one(sql, counted, instance_id)[0] >= _MOST else "ok"


def to_host(sql: sqlite3.Connection, said: Said, wall_s: float) -> str:
    """The code of the refusal, or `ok`. That a host's request is known again is the witness's to say."""
    body = said.body
    if said.kind == "host.act":
        row = _one(sql, "select state from instances where instance_id = ?", body["instance_id"])
        return "ok" if row is not None and row[0] in LIVE else "app_instance_not_found"
    row = _one(sql, f"{_ROW} where interaction_id = ?", body["interaction_id"])
    if row is None:
        return "interaction_not_found"
    if _is_over(row, wall_s):
        return FINAL_CODE
    request = msgpack.unpackb(row[2])
    given = {name: value for name, value in body.items() if name != "interaction_id"}
    is_invalid = False
    if said.kind == "host.answer":
        is_invalid = KINDS[request["title"]].result_of(given) is None
    elif said.kind == "host.draft":
        is_invalid = request["kind"] != "input"
    return "interaction_invalid" if is_invalid else "ok"


def is_known(sql: sqlite3.Connection, host: str, nonce: str, request_id: str) -> bool:
    """Whether a request of a host was done before."""
    by_name = "select 1 from host_requests where host = ? and nonce = ? and request_id = ?"
    return _one(sql, by_name, host, nonce, request_id) is not None


def _is_over(row: tuple[Any, ...], wall_s: float) -> bool:
    return row[0] in END or (row[1] is not None and row[1] <= wall_s)


def _one(sql: sqlite3.Connection, query: str, *arguments: object) -> Any:  # noqa: ANN401 - a row
    return sql.execute(query, arguments).fetchone()
