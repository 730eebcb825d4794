"""What is on a board, and what of it can be drawn. Pure.

A board is the state of its surface, where a person's host writes as well as this app; so what stands there is looked at
like anything from outside.

    {"board_id": "b1", "title": "Plan", "status": "open", "strokes": {"s1": {"points": [0, 0, 10, 10]}}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from miniapp_worker.sdk import CallFailed

SIZE: Final = 1000
"""Of the canvas: points lie between 0 and this, in both directions."""
MAX_STROKES: Final = 256
MAX_POINTS: Final = 512
"""Of one stroke."""
MAX_WIDTH: Final = 64
_LEAST: Final = 2
"""Numbers of a point."""
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_KEY: Final = re.compile(r"[!-~]{1,64}")
_COLOR: Final = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class Stroke:
    """One line."""

    points: tuple[tuple[float, float], ...]
    color: str
    width: float


def first_state(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The state that a board begins with.

    Raises:
        CallFailed: The agent's drawing cannot be drawn, or its name cannot be one.

    """
    if _KEY.fullmatch(asked["board_id"]) is None:
        raise CallFailed("app.board_invalid", "a board_id has up to 64 visible ASCII characters")
    strokes = {f"a{number}": one for number, one in enumerate(asked.get("initial", {}).get("strokes", ()), start=1)}
    wrong = unreadable(strokes)
    if wrong:
        raise CallFailed("app.board_invalid", f"stroke {wrong[0].removeprefix('a')} of the drawing cannot be drawn")
    return {"board_id": asked["board_id"], "title": asked["title"], "status": "open", "strokes": strokes}


def strokes_of(state: Mapping[str, Any]) -> dict[str, Stroke]:
    """What can be drawn, by id, as far as a board holds it."""
    raw = state.get("strokes")
    found = {name: _stroke(name, one) for name, one in raw.items()} if isinstance(raw, dict) else {}
    readable = [(name, one) for name, one in found.items() if one is not None]
    return dict(readable[:MAX_STROKES])


def unreadable(strokes: object) -> list[str]:
    """The ids of what is no stroke, or one too many."""
    if not isinstance(strokes, dict):
        return []
    good = strokes_of({"strokes": strokes})
    return [name for name in strokes if name not in good]


def tidied(state: Mapping[str, Any], board_id: str, title: str) -> dict[str, Any]:
    """A merge patch that takes away what cannot be drawn, counts the rest, and sets right what is not the person's."""
    strokes = state.get("strokes")
    return {
        "board_id": board_id,
        "title": title,
        "status": "open",
        "strokes": dict.fromkeys(unreadable(strokes)) if isinstance(strokes, dict) else {},
        "summary": summary(strokes_of(state)),
    }


def cleared(state: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that takes away all that is drawn."""
    strokes = state.get("strokes")
    return {"strokes": dict.fromkeys(strokes) if isinstance(strokes, dict) else {}, "summary": summary({})}


def summary(strokes: Mapping[str, Stroke]) -> dict[str, Any]:
    """What an agent is told that reads no drawing."""
    return {
        "strokes": len(strokes),
        "points": sum(len(one.points) for one in strokes.values()),
        "colors": sorted({one.color for one in strokes.values()}),
    }


def _stroke(name: str, raw: object) -> Stroke | None:
    if _ID.fullmatch(name) is None or not isinstance(raw, dict) or not raw.keys() <= {"points", "color", "width"}:
        return None
    points, color, width = raw.get("points"), raw.get("color", "#000000"), raw.get("width", 2)
    if not isinstance(points, list) or not _LEAST <= len(points) <= 2 * MAX_POINTS or len(points) % 2:
        return None
    if not all(_is_number(one) and 0 <= one <= SIZE for one in points):
        return None
    if not isinstance(color, str) or _COLOR.fullmatch(color) is None:
        return None
    if not _is_number(width) or not 0 < width <= MAX_WIDTH:
        return None
    return Stroke(tuple(zip(points[::2], points[1::2], strict=True)), color, width)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
