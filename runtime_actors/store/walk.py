"""The rest of the audit chain, verified in slices while the daemon serves."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from runtime_actors.records.audit import anchor, walk
from runtime_actors.rules.audit import Break

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_BUDGET_S: Final = 0.05
"""Each time: a hundredth of one processor, for the store looks after itself every 5 s."""
_AT_ONCE: Final = 200


class ChainWalk:
    """Walks once from the anchor to where the chain ended at the start."""

    def __init__(self, sql: sqlite3.Connection, until: int) -> None:
        self._sql, self._until = sql, until
        self._seq, self._head = anchor(sql)
        self.broken: str | None = None

    def go_on(self, wanted: Callable[[], bool]) -> None:
        """A few slices, fewer when the store is `wanted`."""
        begun = time.perf_counter()
        while self._seq < self._until and self.broken is None:
            start = anchor(self._sql)
            if start[0] > self._seq:  # exported meanwhile, and verified then
                self._seq, self._head = start
            walked = walk(self._sql, self._seq, self._head, _AT_ONCE)
            if isinstance(walked, Break):
                self.broken = walked.reason
                # New entries hold; what is behind them is for a person to judge, and no reason to stop.
                logger.error("the audit chain is broken: keep the folder, and see `lineup audit verify`")
                return
            at_end = walked[0] == self._seq
            self._seq, self._head = walked
            if at_end or wanted() or time.perf_counter() - begun > _BUDGET_S:
                return
