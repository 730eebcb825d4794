"""The lines of a history as typed records (docs/history.md). Each keeps the line that it was read from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from runtime_actors.checker.evidence import Row, Unreadable

Outcome = Literal["ok", "fail", "info"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What every line has."""

    at: float
    """CLOCK_MONOTONIC, seconds."""
    by: str
    """The client: one process or connection, one file."""
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoked(Said):
    """A client is about to ask for something. Agents name themselves in `agent`, MiniApps in `scope`."""

    id: str
    kind: str
    """The request's type without `lineup.v1.`; `drain` for the wait at the end of a run."""
    body: Row
    agent: str | None
    conversation: str | None
    scope: str | None
    host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Said):
    """How that went: done, refused, or nobody knows. A later line about the same id replaces `info`."""

    id: str
    outcome: Outcome
    body: Row
    code: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached(Said):
    """An agent's connection may ask from here on."""

    agent: str
    stream: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(Said):
    """Progress or a result came to an agent."""

    agent: str
    stream: str
    number: int
    kind: str
    conversation: str
    frame: str
    """A digest of the frame's bytes."""
    body: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled(Said):
    """An agent acknowledged deliveries; nothing answers that."""

    agent: str
    stream: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Said):
    """A MiniApp was given a message."""

    conversation: str
    scope: str
    message_id: str | None
    """None where an app was given a call without one."""
    call_id: str | None
    tool: str | None
    repeated: bool
    interaction_id: str | None = None
    """Of a question that was its own, whose end it is told."""
    result: Row | None = None
    """What the person answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Said):
    """A MiniApp was told how a call stands now."""

    conversation: str
    scope: str
    call_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Said):
    """Whoever injects faults did so."""

    kind: str
    detail: Row


Event = Invoked | Answered | Attached | Delivered | Settled | Given | Changed | Fault


def parse(rows: Iterable[Row]) -> list[Event]:
    """All lines, in the order of their time.

    Raises:
        Unreadable: a line is none of those above.

    """
    return sorted(map(_event, rows), key=lambda one: one.at)


def _event(row: Row) -> Event:
    try:
        return _read(row)
    except (KeyError, TypeError) as error:
        raise Unreadable(f"a line of a history is not as it should be ({error}): {dict(row)}") from None


def _read(row: Row) -> Event:
    what = row["what"]
    said: dict[str, Any] = {"at": _of(row, "at", (int, float)), "by": _of(row, "by", str), "row": row}
    match what:
        case "invoke":
            return Invoked(
                **said,
                id=_of(row, "id", str),
                kind=_of(row, "kind", str),
                body=row.get("body") or {},
                agent=row.get("agent"),
                conversation=row.get("conversation"),
                scope=row.get("scope"),
                host=row.get("host"),
            )
        case "ok" | "fail" | "info":
            return Answered(
                **said, id=_of(row, "id", str), outcome=what, body=row.get("body") or {}, code=row.get("code")
            )
        case "attached":
            return Attached(**said, agent=row["agent"], stream=row["stream"])
        case "delivered":
            return Delivered(
                **said,
                agent=row["agent"],
                stream=row["stream"],
                number=_of(row, "number", int),
                kind=row["kind"],
                conversation=row["conversation"],
                frame=row["frame"],
                body=row["body"],
            )
        case "settled":
            return Settled(**said, agent=row["agent"], stream=row["stream"], numbers=tuple(row["numbers"]))
        case "given":
            return Given(
                **said,
                conversation=row["conversation"],
                scope=row["scope"],
                message_id=row.get("message_id"),
                call_id=row.get("call_id"),
                tool=row.get("tool"),
                repeated=bool(row.get("repeated")),
                interaction_id=row.get("interaction_id"),
                result=row.get("result"),
            )
        case "changed":
            return Changed(
                **said,
                conversation=row["conversation"],
                scope=row["scope"],
                call_id=row["call_id"],
                status=row["status"],
            )
        case "fault":
            return Fault(**said, kind=_of(row, "kind", str), detail=row.get("detail") or {})
        case _:
            raise TypeError(f"nobody knows what {what!r} is")


def _of(row: Row, name: str, kind: type[T] | tuple[type[T], ...]) -> T:
    value = row[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}")
    return value
