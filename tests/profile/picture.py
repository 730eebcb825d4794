"""The way of a call as an SVG: a lane for each who works on it, time from left to right."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from tests.profile.journey import DISK, HAND_OVER, WIRE, WORK, Journey, Leg

LANES: Final = ("agent", "sockets", "gateway", "router", "store", "channel", "worker", "outbox")
COLOURS: Final = {WORK: "#3b7dd8", DISK: "#c2542d", WIRE: "#8a8f98", HAND_OVER: "#d9a514"}
_SAYS: Final = {
    WORK: "work on one thread",
    DISK: "COMMIT and fsync",
    WIRE: "sockets and processes",
    HAND_OVER: "waiting for another thread",
}
_WIDTH, _LEFT, _RIGHT, _TOP, _LANE, _BAR = 1080, 90, 20, 64, 44, 24
_FONT: Final = 'font-family="sans-serif" font-size="12"'
_NARROW_PX: Final = 26
"""A bar less wide than this has no room for its figure."""


def draw(journey: Journey) -> str:
    """The picture, for people who see no colours as well: every bar has a title."""
    height = _TOP + _LANE * len(LANES) + 40
    said = f"One durable call: {journey.median_us:,.0f} µs in the median of {journey.calls} calls, one at a time"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT} role="img">',
        f"<title>{said}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{said}</text>',
        *_legend(),
        *_grid(journey, height),
        *_bars(journey),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend() -> Iterator[str]:
    for number, (kind, colour) in enumerate(COLOURS.items()):
        x = _LEFT + 200 * number
        yield f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 18}" y="42">{_SAYS[kind]}</text>'


def _scale(journey: Journey) -> float:
    return (_WIDTH - _LEFT - _RIGHT) / sum(leg.took_us for leg in journey.legs)


def _grid(journey: Journey, height: int) -> Iterator[str]:
    for number, lane in enumerate(LANES):
        y = _TOP + _LANE * number
        yield f'<text x="{_LEFT - 10}" y="{y + 28}" text-anchor="end">{lane}</text>'
        yield f'<line x1="{_LEFT}" y1="{y + _LANE}" x2="{_WIDTH - _RIGHT}" y2="{y + _LANE}" stroke="#e3e5e8"/>'
    total, scale = sum(leg.took_us for leg in journey.legs), _scale(journey)
    step = next(step for step in (50, 100, 200, 500, 1000, 2000, 5000, 10_000_000) if total / step <= 10)
    for at in range(0, int(total) + 1, step):
        x = _LEFT + at * scale
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 40}" stroke="#e3e5e8"/>'
        yield f'<text x="{x:.1f}" y="{height - 22}" text-anchor="middle" fill="#555">{at:,}</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{height - 6}" text-anchor="end" fill="#555">µs</text>'


def _bars(journey: Journey) -> Iterator[str]:
    x, scale = float(_LEFT), _scale(journey)
    for leg in journey.legs:
        width = leg.took_us * scale
        yield from _bar(leg, x, width)
        x += width


def _bar(leg: Leg, x: float, width: float) -> Iterator[str]:
    """Work in its lane; what lies between two lanes as a slope from one to the other."""
    title = f"<title>{escape(f'{leg.origin} to {leg.lane}: {leg.what}, {leg.took_us:.0f} µs')}</title>"
    begin, end = (_TOP + _LANE * LANES.index(lane) + (_LANE - _BAR) // 2 for lane in (leg.origin, leg.lane))
    to, colour, is_work = x + max(width, 1), COLOURS[leg.kind], leg.origin == leg.lane
    points = f"{x:.1f},{begin} {x:.1f},{begin + _BAR} {to:.1f},{end + _BAR} {to:.1f},{end}"
    yield f'<polygon points="{points}" fill="{colour}" fill-opacity="{1 if is_work else 0.55}">{title}</polygon>'
    if width >= _NARROW_PX:
        place = f'x="{x + width / 2:.1f}" y="{(begin + end + _BAR) / 2 + 4:.0f}"'
        yield f'<text {place} text-anchor="middle" fill="{"#fff" if is_work else "#222"}">{leg.took_us:.0f}</text>'
