"""The recorded run, and ways to change a copy of it."""

from __future__ import annotations

import copy
import functools
import json
import lzma
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from runtime_actors.checker import Evidence
from runtime_actors.checker.chain import GENESIS, next_head

RECORDED: Final = Path(__file__).with_name("recorded.json.xz")
PEOPLE: Final = Path(__file__).with_name("people.json.xz")

Rows = list[dict[str, Any]]


@dataclass
class Spoilt:
    """A copy of the evidence that may be written."""

    history: Rows
    audit: Rows
    listings: dict[str, Rows]

    def line(self, what: str, **wanted: object) -> dict[str, Any]:
        """The first line of a history with these fields."""
        return of(self.history, what=what, **wanted)

    def entry(self, event: str, **wanted: object) -> dict[str, Any]:
        """The first entry of the audit log of this event with these ids in its subject."""
        return next(row for row in self.audit if row["event"] == event and wanted.items() <= row["subject"].items())

    def result(self, status: str = "completed") -> dict[str, Any]:
        """The first delivered result of a call that ended so."""
        return next(
            row
            for row in self.history
            if row["what"] == "delivered" and row["body"].get("call", {}).get("status") == status
        )

    def answer(self, kind: str, outcome: str = "ok", **wanted: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first request of a kind that was answered so, and the answer, whose body holds `wanted`."""
        answers = {row["id"]: row for row in self.history if row["what"] == outcome}
        return next(
            (row, answers[row["id"]])
            for row in self.history
            if row["what"] == "invoke"
            and row["kind"] == kind
            and row["id"] in answers
            and wanted.items() <= answers[row["id"]].get("body", {}).items()
        )

    def rechain(self) -> None:
        """As somebody would who can write the whole log: only what clients and records hold betrays it."""
        head = GENESIS
        for seq, row in enumerate(self.audit, start=1):
            row["seq"] = seq
            head = next_head(head, row)
            row["head_hash"] = head.hex()

    def forget_marks(self) -> None:
        """Nobody kept a place on the chain."""
        for row in self.history:
            row.get("body", {}).pop("audit", None)
        for row in self.listings["status"]:
            row.pop("audit", None)


def of(rows: Rows, **wanted: object) -> dict[str, Any]:
    """The first row with these fields."""
    return next(row for row in rows if wanted.items() <= row.items())


def recorded() -> Evidence:
    """The run of agents that `python -m tests.checker.record` made."""
    return _kept(RECORDED)


def people() -> Evidence:
    """The run with a person that it made."""
    return _kept(PEOPLE)


@functools.cache
def _kept(path: Path) -> Evidence:
    kept = json.loads(lzma.decompress(path.read_bytes()))
    return Evidence(kept["history"], kept["audit"], kept["listings"], frozenset(kept["once"]), kept["echo"])


def spoilt(seen: Evidence | None = None) -> Spoilt:
    """A copy of a recorded run."""
    seen = seen or recorded()
    return Spoilt(*copy.deepcopy((list(seen.history), list(seen.audit), dict(seen.listings))))  # type: ignore[arg-type]


def evidence(changed: Spoilt, of: Evidence | None = None) -> Evidence:
    """What the checker is shown."""
    return replace(of or recorded(), history=changed.history, audit=changed.audit, listings=changed.listings)
