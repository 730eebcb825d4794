"""A run as a picture: who was there when, what was under way, and what struck. Inline SVG without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final

from runtime_actors.chaos.run import Played
from runtime_actors.rules.text import neutral

_LABEL, _WIDTH, _ROW, _BAR, _TOP = 210, 1100, 22, 12, 26
_RIGHT: Final = 20
_TICKS: Final = 8
_LATE: Final = 0.8
"""Behind this share of a run the names of faults stand left of them."""
_NAME: Final = 30
"""Characters of a lane's name that are shown."""
_FINAL: Final = frozenset({"completed", "failed", "cancelled", "expired", "rejected"})


@dataclass(frozen=True, slots=True)
class Bar:
    """From when to when, seconds since the run began."""

    begin: float
    end: float
    style: str
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    at: float
    style: str
    title: str


@dataclass(slots=True)
class Lane:
    """A row: an agent, the daemon, the processes of an instance, or a call."""

    name: str
    bars: list[Bar] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


class Timeline:
    """The lanes of a run, from what was recorded about it."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._began = played.began
        self.length = max(played.ended - played.began, 0.001)

    def lanes(self) -> list[Lane]:
        """Agents, the daemon, instances, calls."""
        evidence = self._played.evidence
        audit = evidence.audit if evidence is not None else ()
        return [*self._agents(), self._daemon(), *self._workers(audit), *self._calls(audit)]

    def _s(self, at: float) -> float:
        return min(max(at - self._began, 0.0), self.length)

    def _entry_s(self, row: Mapping[str, Any]) -> float:
        return self._s(self._played.seen.committed_at(row["seq"]))

    def _agents(self) -> Iterator[Lane]:
        lanes: dict[str, Lane] = {}
        asked: dict[str, tuple[float, str]] = {}
        history = self._played.evidence.history if self._played.evidence is not None else ()
        for row in history:
            role = "host" if "host" in row else "agent"
            if role not in row:
                continue
            lane = lanes.setdefault(row["by"], Lane(f"{role} {row[role]}"))
            at = self._s(row["at"])
            match row["what"]:
                case "invoke":
                    asked[row["id"]] = (at, _about(row["kind"], row["body"]))
                case "ok" | "fail" if row["id"] in asked:
                    begin, title = asked.pop(row["id"])
                    style = "asked" if row["what"] == "ok" else "refused"
                    lane.bars.append(Bar(begin, at, style, f"{title}: {row.get('code') or 'ok'}"))
                case "delivered":
                    lane.marks.append(Mark(at, row["kind"].replace(".", "-"), _about(row["kind"], row["body"])))
                case "attached":
                    lane.marks.append(Mark(at, "attached", "attached"))
        for begin, title in asked.values():
            next(iter(lanes.values())).bars.append(Bar(begin, self.length, "refused", f"{title}: never answered"))
        yield from lanes.values()

    def _daemon(self) -> Lane:
        lane = Lane("daemon")
        for life in self._played.seen.lives:
            end = self._s(life.ended if life.ended is not None else self._played.ended)
            served = self._s(life.served) if life.served is not None else end
            lane.bars.append(Bar(self._s(life.began), served, "starting", f"daemon {life.pid} starts"))
            how = "killed" if life.code == -9 else f"ended with {life.code}"  # noqa: PLR2004 - SIGKILL
            lane.bars.append(Bar(served, end, "daemon", f"daemon {life.pid} serves, then {how}"))
        return lane

    def _workers(self, audit: Any) -> Iterator[Lane]:  # noqa: ANN401 - rows
        lanes: dict[str, Lane] = {}
        places = _places(self._played)
        begun: dict[str, tuple[float, float | None, str]] = {}
        for row in audit:
            instance_id, attempt_id = row["subject"].get("instance_id"), row["subject"].get("attempt_id")
            if not row["event"].startswith("attempt."):
                continue
            at = self._entry_s(row)
            name = places.get(instance_id, instance_id)
            lane = lanes.setdefault(instance_id, Lane(f"worker {name}"))
            match row["event"]:
                case "attempt.started":
                    begun[attempt_id] = (at, None, instance_id)
                case "attempt.ready" if attempt_id in begun:
                    begun[attempt_id] = (begun[attempt_id][0], at, instance_id)
                case "attempt.ended" if attempt_id in begun:
                    lane.bars += self._attempt(attempt_id, *begun.pop(attempt_id)[:2], at, row["detail"].get("reason"))
        for attempt_id, (at, ready, instance_id) in begun.items():
            lanes[instance_id].bars += self._attempt(attempt_id, at, ready, self.length, "stopped")
        yield from lanes.values()

    def _attempt(self, attempt_id: str, begin: float, ready: float | None, end: float, why: object) -> Iterator[Bar]:
        """It is noted after the next start, if its daemon died."""
        who = f"process {self._played.seen.pids.get(attempt_id, '?')}"
        end = min(end, self._s(self._played.seen.life_ends_after(begin + self._began)))
        yield Bar(begin, end if ready is None else ready, "starting", f"{who} starts")
        if ready is not None:
            yield Bar(ready, max(ready, end), "worker", f"{who} is ready; it ended: {why}")

    def _calls(self, audit: Any) -> Iterator[Lane]:  # noqa: ANN401 - rows
        lanes: dict[tuple[str, str], Lane] = {}
        since: dict[tuple[str, str], tuple[float, str]] = {}
        for row in audit:
            subject, event = row["subject"], row["event"]
            if not event.startswith("call.") or "call_id" not in subject or event == "call.refused":
                continue
            key = (subject.get("conversation_id", ""), subject["call_id"])
            lane = lanes.setdefault(key, Lane(f"call {subject['call_id']}"))
            at = self._entry_s(row)
            status = _status_after(row)
            begin, before = since.get(key, (at, "waiting"))
            if status != before and event != "call.admitted":
                lane.bars.append(Bar(begin, at, before, f"{subject['call_id']} {before}"))
            since[key] = (begin if status == before else at, status)
            style = row["detail"].get("to") if event == "call.ended" else event.replace(".", "-").replace("_", "-")
            lane.marks.append(Mark(at, str(style), f"{event} {row['detail'].get('to', '')}".strip()))
        for key, (begin, status) in since.items():
            if status not in _FINAL:
                lanes[key].bars.append(Bar(begin, self.length, status, f"{key[1]} {status}"))
        yield from lanes.values()


def _status_after(row: Mapping[str, Any]) -> str:
    match row["event"]:
        case "call.admitted" | "call.interrupted" | "call.redelivered":
            return "waiting"
        case "call.ended":
            return str(row["detail"]["to"])
        case _:
            return "running"


def _about(kind: str, body: Mapping[str, Any]) -> str:
    call = body.get("call_id") or (body.get("call") or {}).get("call_id") or body.get("message_id") or ""
    return f"{kind} {call}".strip()


def _places(played: Played) -> dict[str, str]:
    """What instances are, for people."""
    rows = played.evidence.listings["ps"] if played.evidence is not None else ()
    calls = played.evidence.listings["calls"] if played.evidence is not None else ()
    return {
        row["instance_id"]: f"{row['app_scope']} in {row['conversation_id']}"
        for row in (*calls, *rows)
        if row.get("instance_id") and row.get("app_scope")
    }


def picture(played: Played) -> str:
    """An `svg` element."""
    line = Timeline(played)
    lanes = line.lanes()
    height = _TOP + _ROW * (len(lanes) + 1) + 8
    per_s = (_WIDTH - _LABEL - _RIGHT) / line.length
    about = f'role="img" aria-label="timeline of the run with seed {played.seed}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {about}>']
    parts += _axis(line.length, per_s, height)
    for number, lane in enumerate(lanes):
        parts += _drawn(lane, _TOP + _ROW * number, per_s)
    parts += _faults(played, line.length, per_s, _TOP + _ROW * len(lanes), height)
    return "".join([*parts, "</svg>"])


def _axis(length: float, per_s: float, height: int) -> Iterator[str]:
    for tick in range(_TICKS + 1):
        at = length * tick / _TICKS
        x = _LABEL + at * per_s
        yield f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height}"/>'
        yield f'<text class="time" x="{x:.1f}" y="12">{at:.2f} s</text>'


def _drawn(lane: Lane, y: int, per_s: float) -> Iterator[str]:
    yield f'<text class="lane" x="0" y="{y + _BAR}">{_text(lane.name, _NAME)}</text>'
    for bar in lane.bars:
        x, width = _LABEL + bar.begin * per_s, max((bar.end - bar.begin) * per_s, 1.0)
        title = f"<title>{_text(bar.title)} ({bar.begin:.3f} to {bar.end:.3f} s)</title>"
        shape = f'x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{_BAR}"'
        yield f'<rect class="{_style(bar.style)}" {shape}>{title}</rect>'
    for mark in lane.marks:
        x = _LABEL + mark.at * per_s
        title = f"<title>{_text(mark.title)} ({mark.at:.3f} s)</title>"
        yield f'<circle class="{_style(mark.style)}" cx="{x:.1f}" cy="{y + 2 + _BAR / 2:.1f}" r="3.5">{title}</circle>'


def _faults(played: Played, length: float, per_s: float, y: int, height: int) -> Iterator[str]:
    yield f'<text class="lane" x="0" y="{y + _BAR}">faults</text>'
    for one in played.seen.struck:
        at = min(max(one.at - played.began, 0.0), length)
        x = _LABEL + at * per_s
        title = f"<title>{_text(f'{one.fault}: {one.target}')} ({at:.3f} s)</title>"
        yield f'<line class="fault" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{height - 8}">{title}</line>'
        anchor, shift = ("end", -5) if at > length * _LATE else ("start", 5)
        place = f'x="{x:.1f}" dx="{shift}" y="{y + _BAR}" text-anchor="{anchor}"'
        yield f'<text class="fault" {place}>{_text(str(one.fault))}</text>'


def _style(name: str) -> str:
    return "".join(one for one in name if one.isalnum() or one in "-_")


def _text(text: str, limit: int = 200) -> str:
    return escape(neutral(text, limit=limit))
