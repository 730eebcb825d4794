"""From marks to the way of a call: pure.

A station is a mark that every call passes. The way is cut into legs between stations, and each leg is given in the
median. A station that most calls do not pass, because the code has changed, is left out, and its leg is the next one's.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.profile.tracks import Mark

WORK, HAND_OVER, DISK, WIRE = "work", "hand-over", "disk", "wire"


@dataclass(frozen=True, slots=True)
class Station:
    """A mark, and what leads to it."""

    lane: str
    what: str
    leg: str
    """What happens between the station before and this one."""
    kind: str
    by: str = ""
    """Whose time that is, if it is not the lane's own."""


STATIONS: Final = (
    Station("agent", "asks", "", WORK),
    Station("sockets", "reads", "the agent's frame, ZeroMQ, its way to the daemon's socket thread", WIRE),
    Station("sockets", "tells gateway PeerMessage", "read and taken out of ZMTP", WORK),
    Station("gateway", "takes PeerMessage", "to the gateway", HAND_OVER),
    Station("gateway", "tells router Invoke", "decoded by the intake rule, role and model checked", WORK),
    Station("router", "takes Invoke", "to the router", HAND_OVER),
    Station("router", "tells store admit", "input schema, canonical form, digest", WORK),
    Station("store", "begin", "to the store, and into a group", HAND_OVER),
    Station("store", "commit", "admitted: record, instance, inbox, audit", WORK),
    Station("store", "committed", "COMMIT: log written and synced", DISK),
    Station("store", "tells channel Deliver", "side file, receipt told", WORK),
    Station("channel", "takes Deliver", "to the channel", HAND_OVER),
    Station("channel", "orders a frame", "session, credit, frame", WORK),
    Station("worker", "takes a frame", "the frame written, ZeroMQ, the worker wakes", WIRE),
    Station("worker", "handles", "decoded, given to the app", WORK),
    Station("worker", "sends", "the app's work, its result checked and packed", WORK),
    Station("sockets", "tells channel PeerMessage", "ZeroMQ, socket thread", WIRE),
    Station("channel", "takes PeerMessage", "to the channel", HAND_OVER),
    Station("channel", "tells router Report", "decoded, credit, who speaks", WORK),
    Station("router", "takes Report", "to the router", HAND_OVER),
    Station("router", "tells store finish", "canonical form of the result", WORK),
    Station("store", "begin", "to the store, and into a group", HAND_OVER),
    Station("store", "commit", "finished: output schema, record, ACK, outbox, audit", WORK),
    Station("store", "committed", "COMMIT: log written and synced", DISK),
    Station("store", "tells outbox Post", "side file, the worker's receipt told", WORK),
    Station("outbox", "takes Post", "to the outbox", HAND_OVER),
    Station("outbox", "orders a frame", "window", WORK),
    Station("agent", "has the result", "the frame written, ZeroMQ, the agent wakes", WIRE),
)


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of the way, in the median of all calls."""

    what: str
    kind: str
    origin: str
    lane: str
    """Where it begins and where it ends."""
    took_us: float


@dataclass(frozen=True, slots=True)
class Journey:
    """The way of a call."""

    legs: tuple[Leg, ...]
    calls: int
    median_us: float
    """Of whole calls; the legs' medians add up to about that."""


def journey(marks: Sequence[Mark]) -> Journey:
    """What became of the calls that were made one at a time, the first to the last.

    Raises:
        ValueError: There is no whole call in it.

    """
    calls = list(_calls(sorted(marks)))
    passed = [_passed(call, STATIONS) for call in calls]
    kept = [
        number
        for number, _ in enumerate(STATIONS)
        if sum(times[number] is not None for times in passed) > len(calls) / 2
    ]
    whole = [[times[number] for number in kept] for times in passed]
    known = [[at for at in times if at is not None] for times in whole if None not in times]
    if not known or len(kept) < len(_ENDS):
        raise ValueError("no call passed all stations")
    legs = []
    for place, number in enumerate(kept[1:], 1):
        before, station = STATIONS[kept[place - 1]], STATIONS[number]
        took_us = statistics.median((times[place] - times[place - 1]) / 1000 for times in known)
        legs.append(Leg(station.leg, station.kind, before.lane, station.lane, took_us))
    return Journey(tuple(legs), len(known), statistics.median((times[-1] - times[0]) / 1000 for times in known))


_ENDS: Final = (STATIONS[0], STATIONS[-1])


def _calls(marks: Sequence[Mark]) -> Iterator[list[Mark]]:
    """The marks between each asking and its result."""
    begin = None
    for number, mark in enumerate(marks):
        if (mark.lane, mark.what) == (_ENDS[0].lane, _ENDS[0].what):
            begin = number
        elif begin is not None and (mark.lane, mark.what) == (_ENDS[1].lane, _ENDS[1].what):
            yield list(marks[begin : number + 1])
            begin = None


def _passed(call: Sequence[Mark], stations: Sequence[Station]) -> list[int | None]:
    """When each station was passed, looked for backwards: what follows from a station is never before it.

    Backwards, because of several marks of a kind (two requests read at once, a group with more commands in it) the last
    one in front of the next station is the call's own.
    """
    found: list[int | None] = [None] * len(stations)
    until = len(call)
    for number in range(len(stations) - 1, -1, -1):
        wanted = stations[number].lane, stations[number].what
        at = next((at for at in range(until - 1, -1, -1) if (call[at].lane, call[at].what) == wanted), None)
        if at is not None:
            found[number] = call[at].at_ns
            until = bisect_right(call, call[at].at_ns, hi=until, key=lambda mark: mark.at_ns) - 1
    return found
