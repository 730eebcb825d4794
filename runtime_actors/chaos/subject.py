"""The daemon under test: a real one, whose clock can be moved and whose store stands still where it is to be struck."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from runtime_actors import boot
from runtime_actors.chaos.clock import MovedClock, Offsets
from runtime_actors.chaos.options import Options
from runtime_actors.chaos.plan import Point
from runtime_actors.chaos.wire import Wire
from runtime_actors.commands.calls import FinalReport
from runtime_actors.commands.instances import Spawned
from runtime_actors.config import RuntimeConfig
from runtime_actors.daemon import Daemon
from runtime_actors.records.transaction import Chain
from runtime_actors.store.failpoints import Failpoints
from runtime_actors.store.messages import Run


class Points(Failpoints):
    """Stands still at the points, and tells what is committed when."""

    def __init__(self, points: Collection[Point], chain: Chain, wire: Wire) -> None:
        super().__init__((), lambda _: None)
        self._wanted, self._chain, self._wire = frozenset(points), chain, wire
        self._arrivals: Counter[str] = Counter()

    def before_commit(self, group: Sequence[Run[Any, Any]]) -> None:
        for run in group:
            self._come_to(run, "before")

    def after_commit(self, group: Sequence[Run[Any, Any]]) -> None:
        self._wire.say(seq=self._chain.seq, at=time.monotonic())
        for run in group:
            self._tell(run.argument)
        for run in group:
            self._come_to(run, "after")

    def drops_outcome(self, run: Run[Any, Any]) -> bool:
        point = self._arrived_at(run, "outcome")
        if point not in self._wanted or self._wire.is_calm:
            return False
        self._wire.say(dropped=point.name, hit=point.hit)
        return True

    def _come_to(self, run: Run[Any, Any], place: str) -> None:
        point = self._arrived_at(run, place)
        if point in self._wanted:
            self._wire.stand_still(point.name, point.hit)

    def _arrived_at(self, run: Run[Any, Any], place: str) -> Point:
        name = f"{getattr(run.rule, '__name__', '')}:{place}"
        self._arrivals[name] += 1
        return Point(name, self._arrivals[name])

    def _tell(self, argument: object) -> None:
        """Of what its client cannot tell: processes, and each last word of an app."""
        match argument:
            case Spawned(attempt_id, pid):
                self._wire.say(spawned=pid, attempt=attempt_id)
            case FinalReport(by=by, status=status, payload=payload):
                digest = hashlib.sha256(payload or b"").hexdigest()
                self._wire.say(
                    word=str(status),
                    at=time.monotonic(),
                    seq=self._chain.seq,
                    call_id=by.call_id,
                    instance_id=by.instance_id,
                    attempt_id=by.attempt_id,
                    digest=digest,
                )


class Subject(Daemon):
    """A daemon whose clock and failpoints are in other hands."""

    def __init__(self, config: RuntimeConfig, options: Options, wire: Wire) -> None:
        super().__init__(config)
        self.clock = MovedClock(Offsets(Path(options.clock)))
        self._chosen = tuple(Point(name, hit) for name, hit in options.points)
        self._wire = wire

    def make_failpoints(self, chain: Chain) -> Failpoints:
        return Points(self._chosen, chain, self._wire)


def run(text: str, wire: Wire) -> int:
    """Serve until told to stop; the exit codes are those of `lineup run`."""
    options = Options.read(text)
    return boot.run(options.config(), lambda config: Subject(config, options, wire))
