"""The fields of an open input, filled in one after the other, with a way back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runtime_actors.terminal.answers import NotAnAnswer, filled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runtime_actors.terminal.phrases import Phrases


class Form:
    """Texts by field id, and which field is being written. Pure: the box on the screen shows `text`."""

    def __init__(self, fields: Sequence[Mapping[str, Any]], draft: Mapping[str, Any], phrases: Phrases) -> None:
        """Begin where the draft was left: at the last field it has, or before it at one that is not right yet."""
        self.fields = fields
        self.texts = {field["id"]: _text_of(draft[field["id"]]) for field in fields if field["id"] in draft}
        self.place = 0
        self._phrases = phrases
        last = max((place for place, field in enumerate(fields) if self.texts.get(field["id"])), default=0)
        while self.place < last and self._is_right(fields[self.place]):
            self.place += 1

    @property
    def field(self) -> Mapping[str, Any] | None:
        """The one that is being written; None once all are."""
        return self.fields[self.place] if self.place < len(self.fields) else None

    @property
    def text(self) -> str:
        """What that field has so far."""
        return "" if self.field is None else self.texts.get(self.field["id"], "")

    @property
    def draft(self) -> dict[str, str]:
        """What has been written, fields that are under way or were gone back from included."""
        return {key: text for key, text in self.texts.items() if text}

    def hold(self, line: str) -> None:
        """Take over what is in the box, however it may be."""
        if self.field is not None:
            self.texts[self.field["id"]] = line

    def finish(self, line: str) -> dict[str, Any] | None:
        """End the field with `line`; the values of all of them if it was the last.

        Raises:
            NotAnAnswer: It is outside the field's limits; the field stays.

        """
        if self.field is not None:
            filled([self.field], {self.field["id"]: line}, self._phrases)
            self.hold(line)
            self.place += 1
        return filled(self.fields, self.texts, self._phrases) if self.field is None else None

    def back(self) -> bool:
        """Go to the field before, if there is one."""
        if self.place == 0:
            return False
        self.place -= 1
        return True

    def again(self) -> None:
        """From the first field on, with what was written."""
        self.place = 0

    def _is_right(self, field: Mapping[str, Any]) -> bool:
        try:
            filled([field], self.texts, self._phrases)
        except NotAnAnswer:
            return False
        return True


def _text_of(value: object) -> str:
    """A draft holds texts, numbers, booleans and nulls (docs/people.md, 2.5)."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
