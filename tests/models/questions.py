"""What model apps ask: one question of each kind, what answers it, and what does not.

The expectations are written down here, and not computed by the rules that they are to test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from runtime_actors.contract import codec

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, by its title."""

    request: Json
    answers: tuple[tuple[Json, Json], ...]
    """Each with the result that it gives."""
    invalid: tuple[Json, ...]

    def result_of(self, given: Json) -> bytes | None:
        """Canonical; None if it does not fit."""
        return next((codec.encode(result) for answer, result in self.answers if answer == given), None)


_FIELDS: Final = [
    {"id": "name", "label": "Name", "type": "text", "required": True},
    {"id": "age", "label": "Age", "type": "number", "required": False},
]
_ACTIONS: Final = [{"id": "a", "label": "A"}, {"id": "b", "label": "B"}]
_BOTH: Final = (
    Asked(
        {"kind": "confirm", "title": "Sure?", "prompt": ""},
        (({"approved": True}, {"approved": True}), ({"approved": False}, {"approved": False})),
        ({"acknowledged": True}, {}),
    ),
    Asked(
        {"kind": "choice", "title": "Which?", "prompt": "", "mode": "single-choice", "actions": _ACTIONS},
        (({"action_ids": ["a"]}, {"action_ids": ["a"]}), ({"action_ids": ["b"]}, {"action_ids": ["b"]})),
        ({"action_ids": ["c"]}, {"action_ids": ["a", "b"]}),
    ),
    Asked(
        {"kind": "choice", "title": "Which ones?", "prompt": "", "mode": "multi-choice", "actions": _ACTIONS},
        (({"action_ids": ["b", "a"]}, {"action_ids": ["a", "b"]}), ({"action_ids": ["b"]}, {"action_ids": ["b"]})),
        ({"action_ids": []}, {"action_ids": ["a", "a"]}),
    ),
    Asked(
        {"kind": "input", "title": "Who?", "prompt": "", "fields": _FIELDS},
        (
            ({"values": {"name": "x"}}, {"values": {"name": "x"}}),
            ({"values": {"name": "y", "age": 7}}, {"values": {"name": "y", "age": 7}}),
        ),
        ({"values": {"age": 7}}, {"values": {"name": "x", "age": True}}),
    ),
    Asked(
        {"kind": "notice", "title": "Look!", "message": "", "acknowledge_label": "Done"},
        (({"acknowledged": True}, {"acknowledged": True}),),
        ({"acknowledged": False}, {"approved": True}),
    ),
    Asked({"kind": "notice", "title": "Note", "message": ""}, (), ({"acknowledged": True}, {})),
)
KINDS: Final[Mapping[str, Asked]] = {one.request["title"]: one for one in _BOTH}
NOTE: Final = "Note"
"""Needs no answer: it ends when it is shown, and stops no clock."""
SURE: Final = "Sure?"
QUESTION_OF_CHAT: Final = {"title": SURE, "prompt": ""}
"""The input of `chat.confirm`."""
UNANSWERED: Final[Mapping[str, Json]] = {"confirm": {"approved": False}, "notice": {"acknowledged": False}}
"""What a dismissed `confirm` and a notice that was only shown complete with."""
END: Final = frozenset({"completed", "cancelled", "expired", "failed"})
STEPS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"pending", "presented"}) | END,
    "pending": frozenset({"pending", "presented"}) | END,
    "presented": frozenset({"presented"}) | END,
} | {end: frozenset({end}) for end in END}
"""What the time between two looks may make of a status."""
