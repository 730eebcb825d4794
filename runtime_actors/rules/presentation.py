"""How a host shows a question (docs/people.md, 2.4). Policy has had its say already: the wish is what it left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from runtime_actors.rules.lifecycle import CHAT

if TYPE_CHECKING:
    from runtime_actors.contract.interactions import Presentation, Source

Placement = Literal["inline", "modal", "listed"]
"""In the time line; above everything of its conversation; or under its app's name, and not opened."""


def placement(
    owner_scope: str, source: Source, wish: Presentation, *, in_front: bool, listed_until: str | None, now: str
) -> Placement:
    """The first that holds. `in_front` is the owner, `now` is spelled as records spell times."""
    if owner_scope == CHAT:
        return "inline"
    if source == "runtime_policy":
        return "modal"
    if not in_front or (listed_until is not None and now < listed_until):
        return "listed"
    return "inline" if wish == "inline" else "modal"
