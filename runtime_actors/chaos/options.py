"""How a daemon under test runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from runtime_actors.config import RuntimeConfig
from runtime_actors.rules.restart import RestartPolicy

_INTENSITY: Final = 1_000_000
_BACKOFF_S: Final = 0.05
_SWEEP_S: Final = 0.3
_STOP_GRACE_S: Final = 0.5
_SUSPEND_AFTER_S: Final = 1.0
"""Short, so that instances are suspended in a run of a few seconds too; the demo waits for one."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a daemon under test is told on its command line, as JSON."""

    state: str
    apps: tuple[str, ...]
    min_isolation: str
    clock: str
    """The file of `clock.set_offsets`."""
    points: tuple[tuple[str, int], ...]
    """Failpoints, each with its hit."""

    def written(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def read(cls, text: str) -> Options:
        told = json.loads(text)
        points = tuple((name, hit) for name, hit in told.pop("points"))
        return cls(**told | {"apps": tuple(told["apps"]), "points": points})

    def config(self) -> RuntimeConfig:
        """Crashes are no reason to give up. What is due is looked for often, so that a loss costs little time."""
        level = cast("Literal['strong', 'sealed', 'partial', 'process']", self.min_isolation)
        return RuntimeConfig(
            state=Path(self.state),
            apps=tuple(map(Path, self.apps)),
            min_isolation=level,
            durability="process",
            restart=RestartPolicy(intensity=_INTENSITY, backoff_s=_BACKOFF_S),
            sweep_s=_SWEEP_S,
            stop_grace_s=_STOP_GRACE_S,
            suspend_after_s=_SUSPEND_AFTER_S,
        )
