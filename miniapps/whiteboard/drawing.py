"""A board as a picture (SVG 2). Pure, and bounded as the board is."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from .board import SIZE, Stroke


def svg(title: str, strokes: Mapping[str, Stroke]) -> bytes:
    """The picture, in order of the strokes' ids: the same board is always the same bytes."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *(_line(strokes[name]) for name in sorted(strokes)),
        "</svg>",
        "",
    ]
    return "\n".join(lines).encode()


def _line(stroke: Stroke) -> str:
    points = stroke.points if len(stroke.points) > 1 else stroke.points * 2  # a dot is a line to where it begins
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{stroke.color}" stroke-width="{stroke.width:g}"'
        ' stroke-linecap="round" stroke-linejoin="round"/>'
    )
