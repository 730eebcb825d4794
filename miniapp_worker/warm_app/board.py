"""A neighbour of `app.py`, as most apps have some, with a dataclass in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from miniapp_worker.sdk import CallFailed

KINDS: Final = frozenset({"seen", "new"})


@dataclass(frozen=True, slots=True)
class Item:
    """What was asked for."""

    name: str
    text: str
    seen: float
    kind: str = "new"

    @property
    def is_new(self) -> bool:
        return self.kind in KINDS

    def summary(self) -> dict[str, Any]:
        return asdict(self)


class Board:
    """Items by name."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}

    def put(self, name: str, text: str, reported: Mapping[str, Any] | None) -> Item:
        """Put one up. Raises CallFailed for a name that is taken."""
        present = self._items.get(name)
        if present is not None and not present.is_new:
            raise CallFailed("app.known", "it is here already")
        item = Item(name, text, 0)
        self._items[name] = replace(item, seen=reported["seen"] if reported else 1)
        return self._items[name]
