"""A run as the rules see it: its evidence read, its log replayed, its operations matched with their answers."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from runtime_actors.checker.chain import Entry, parse_audit
from runtime_actors.checker.evidence import LISTINGS, Evidence, Row, Unreadable
from runtime_actors.checker.history import (
    Answered,
    Attached,
    Event,
    Fault,
    Invoked,
    Outcome,
    parse,
)
from runtime_actors.checker.witness import replay

E = TypeVar("E")

RENAMED: Final = "rename-instance"
"""A fault: an operator changed the name of an instance behind the runtime's back, `{from, to}`."""


@dataclass(slots=True)
class Operation:
    """Something that a client asked for. Without an answer its outcome is `info`, for ever."""

    asked: Invoked
    answer: Answered | None = None
    doubts: int = 0
    """How often it was told that nobody knows."""

    @property
    def outcome(self) -> Outcome:
        return "info" if self.answer is None else self.answer.outcome

    @property
    def done_at(self) -> float:
        return math.inf if self.answer is None else self.answer.at

    @property
    def rows(self) -> tuple[Row, ...]:
        return (self.asked.row,) if self.answer is None else (self.asked.row, self.answer.row)

    @property
    def mark(self) -> int | None:
        """The entry at the place that its answer names."""
        mark = None if self.answer is None else self.answer.body.get("audit")
        return None if mark is None else int(mark["audit_seq"])


class Known:
    """What was known when: after each moment, the highest entry that somebody had been told of by then."""

    def __init__(self, told: Iterable[tuple[float, int, Row]]) -> None:
        self._at: list[float] = []
        self._seq: list[int] = []
        self._row: list[Row] = []
        for at, seq, row in sorted(told, key=lambda one: one[:2]):
            if not self._seq or seq > self._seq[-1]:
                self._at.append(at)
                self._seq.append(seq)
                self._row.append(row)

    def before(self, at: float) -> tuple[int, tuple[Row, ...]]:
        """The entry, and the line that told of it; 0 for none."""
        found = bisect_left(self._at, at) - 1
        return (0, ()) if found < 0 else (self._seq[found], (self._row[found],))


class Run:
    """Read once, and looked at by every rule.

    Raises:
        Unreadable: the evidence is not as docs/history.md says.

    """

    def __init__(self, seen: Evidence) -> None:
        missing = [name for name in LISTINGS if name not in seen.listings]
        if missing:
            raise Unreadable(f"there is no listing of {', '.join(missing)}")
        self.once = seen.once
        self.echo = seen.echo
        self.listings: Mapping[str, Sequence[Row]] = seen.listings
        self.events: Sequence[Event] = parse(seen.history)
        self.entries: Sequence[Entry] = parse_audit(seen.audit)
        self._by_seq = {entry.seq: entry for entry in self.entries}
        self.renamed = {one.detail["from"]: one.detail["to"] for one in self.of(Fault) if one.kind == RENAMED}
        self.model = replay(self.entries, self.once, self.renamed)
        self.operations: Mapping[str, Operation] = self._operations()
        self.agents = {one.agent for one in self.of(Attached)}
        """Those that keep a history and listen."""

    def of(self, kind: type[E]) -> list[E]:
        """The events of a kind, in the order of their time."""
        return [one for one in self.events if isinstance(one, kind)]

    def entry(self, seq: int) -> Entry | None:
        """An entry by its number."""
        return self._by_seq.get(seq)

    @property
    def has_drained(self) -> bool:
        """Whether the wait at the end succeeded, as far as one was written down."""
        waits = [one for one in self.operations.values() if one.asked.kind == "drain"]
        return not waits or waits[-1].outcome == "ok"

    def _operations(self) -> dict[str, Operation]:
        found: dict[str, Operation] = {}
        for one in self.events:
            if isinstance(one, Invoked):
                found.setdefault(one.id, Operation(one))
            elif isinstance(one, Answered) and one.id in found:
                operation = found[one.id]
                if one.outcome == "info":
                    operation.doubts += 1
                elif operation.answer is None:
                    operation.answer = one
        return found


def number_of(message_id: str | None) -> int:
    """The number in an inbox message's id; 0 for none."""
    digits = (message_id or "")[1:]
    return int(digits) if digits.isdecimal() else 0
