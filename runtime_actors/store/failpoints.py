"""Planted faults around the COMMIT, for crash tests: `lineup run --failpoint COMMAND:POINT:ACTION[@HIT]`."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runtime_actors.config import Failpoint
    from runtime_actors.store.messages import Run

logger = logging.getLogger(__name__)


class Failpoints:
    """Counts how often each command passes each point, and acts at the planted ones."""

    def __init__(self, planted: Sequence[Failpoint], act: Callable[[str], None]) -> None:
        self._planted: dict[tuple[str, str, int], str] = {
            (one.command, one.point, one.hit): one.action for one in planted
        }
        self._act = act
        self._passed: Counter[tuple[str, str]] = Counter()

    def before_commit(self, group: Sequence[Run[Any, Any]]) -> None:
        """All of the group is written and nothing is durable."""
        if self._planted:
            self._pass_all(group, "before")

    def after_commit(self, group: Sequence[Run[Any, Any]]) -> None:
        """All of the group is durable and nobody was told."""
        if self._planted:
            self._pass_all(group, "after")

    def drops_outcome(self, run: Run[Any, Any]) -> bool:
        """Whether to tell nobody of this outcome."""
        return bool(self._planted) and self._pass(run, "outcome") == "drop"

    def _pass_all(self, group: Sequence[Run[Any, Any]], point: str) -> None:
        for run in group:
            action = self._pass(run, point)
            if action is not None:
                self._act(action)

    def _pass(self, run: Run[Any, Any], point: str) -> str | None:
        name = getattr(run.rule, "__name__", "")
        self._passed[name, point] += 1
        action = self._planted.get((name, point, self._passed[name, point]))
        if action is not None:
            # A test waits for this line: it proves that the point was hit.
            logger.warning("failpoint", extra={"command": name, "point": point, "action": action})
        return action
