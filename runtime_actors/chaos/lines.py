"""A line of evidence for people: what happened to what, without digests and hashes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from runtime_actors.checker import Row

_IDS: Final = ("call_id", "message_id", "attempt_id", "instance_id")
_QUIET: Final = frozenset({"what", "at", "by", "agent", "host", "id", "frame", "stream", "body", "conversation"})


def told(row: Row) -> str:
    """An audit entry, a line of a history, a last word of an app, or whatever else, as JSON."""
    if "head_hash" in row and "event" in row:
        return f"audit {row['seq']}: {row['event']} {_ids(row['subject'])}{_pairs(row['detail'])}"
    if row.get("what") == "fault":
        detail = row.get("detail") or {}
        return f"fault: {row['kind']} at {detail.get('point', '?')}, {detail.get('target', '?')}"
    if "word" in row and "digest" in row:
        return f"app: {row['word']} {row['call_id']} (result {row['digest'][:12]}...), after audit {row['seq']}"
    if "what" in row and "by" in row:
        body = row.get("body") or {}
        rest = {name: value for name, value in row.items() if name not in _QUIET}
        return f"{row['by']}: {row['what']} {_ids(body)}{_pairs(rest)}"
    return json.dumps(dict(row), ensure_ascii=False)


def _ids(of: Mapping[str, Any]) -> str:
    found = [str(of[name]) for name in _IDS if of.get(name)]
    return found[0] if found else ""


def _pairs(of: Mapping[str, Any]) -> str:
    shown = [f"{name} {_value(value)}" for name, value in of.items() if value is not None]
    return f" ({', '.join(shown)})" if shown else ""


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
