"""Evidence in a folder: the only part of the checker that touches files.

```text
histories/*.jsonl   what each client wrote, a file each
audit.jsonl         the audit log from its first entry
listings.json       {calls, inbox, outbox, ps, focus, status}: the rows of each
run.json            {once, echo, required, ...}: what else must be known; required: the least of each figure
```
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from runtime_actors.checker.evidence import Evidence, Row, Unreadable

_HISTORIES: Final = "histories"
_AUDIT: Final = "audit.jsonl"
_LISTINGS: Final = "listings.json"
_RUN: Final = "run.json"


def read(folder: Path) -> tuple[Evidence, Mapping[str, int]]:
    """What is known about a run, and the least that each figure must be.

    The last line of a history may have been cut off by a kill: then it never happened.

    Raises:
        Unreadable: something is missing, or is not as it should be.

    """
    histories = sorted((folder / _HISTORIES).glob("*.jsonl"))
    if not histories:
        raise Unreadable(f"{folder} holds no histories/*.jsonl")
    history = [row for path in histories for row in _lines(path, may_be_cut=True)]
    audit = list(_lines(folder / _AUDIT, may_be_cut=False))
    listings = _object(folder / _LISTINGS)
    run = _object(folder / _RUN) if (folder / _RUN).exists() else {}
    if not all(isinstance(rows, list) for rows in listings.values()):
        raise Unreadable(f"{_LISTINGS}: each listing is a list of rows")
    once, echo, required = run.get("once", []), run.get("echo"), run.get("required", {})
    if not isinstance(once, list) or not isinstance(echo, str | None) or not isinstance(required, dict):
        raise Unreadable(f"{_RUN}: once is a list, echo a string, required an object")
    return Evidence(history, audit, listings, frozenset(once), echo), required


def write(folder: Path, seen: Evidence, **run: object) -> None:
    """Leave what is known about a run in a folder that may be there already; `run` goes into run.json as it is."""
    by_client: dict[str, list[Row]] = defaultdict(list)
    for row in seen.history:
        by_client[str(row["by"])].append(row)
    (folder / _HISTORIES).mkdir(parents=True, exist_ok=True)
    for client, rows in by_client.items():
        name = "".join(one if one.isalnum() or one in "-_." else "_" for one in client)
        _write_lines(folder / _HISTORIES / f"{name}.jsonl", rows)
    _write_lines(folder / _AUDIT, seen.audit)
    (folder / _LISTINGS).write_text(json.dumps({name: list(rows) for name, rows in seen.listings.items()}))
    (folder / _RUN).write_text(json.dumps({"once": sorted(seen.once), "echo": seen.echo, **run}))


def _write_lines(path: Path, rows: Any) -> None:  # noqa: ANN401 - rows of JSON
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _lines(path: Path, *, may_be_cut: bool) -> Iterator[Row]:
    lines = _text(path).splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            if may_be_cut and number == len(lines):
                return
            raise Unreadable(f"{path.name}, line {number}: this is not JSON") from None
        if not isinstance(row, dict):
            raise Unreadable(f"{path.name}, line {number}: this is no JSON object")
        yield row


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_text(path))
    except ValueError:
        raise Unreadable(f"{path.name}: this is not JSON") from None
    if not isinstance(found, dict):
        raise Unreadable(f"{path.name}: this is no JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path}: {getattr(error, 'strerror', None) or error}") from None
