"""Values that fit a schema of the subset: the least and the most that it lets in."""

from __future__ import annotations

import itertools
from typing import Any, Final

from runtime_actors.contract import codec, payload
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.json_schema import compile_schema

_LETTERS: Final = "aé漢🙂"
"""One, two, three and four bytes of UTF-8: lengths count code points."""
_MOST_CHARACTERS: Final = 2_000
_MOST_ITEMS: Final = 8
_MOST_NODES: Final = 2_000
"""After so many values the rest is as small as it may be."""
_CHARACTERS_A_NODE: Final = 25
"""Long strings use up that room too, so that all of it stays below what one payload may take."""
_LARGE: Final = 1_000_000


class NoValue(ValueError):
    """No value that may be sent fits the schema, or none was found."""


def minimal(schema: JsonObject) -> JsonObject:
    """The least: required members only, shortest strings, lowest numbers, empty arrays.

    Raises:
        NoValue: Nothing fits.

    """
    return _checked(schema, _Maker(0).make(schema))


def maximal(schema: JsonObject) -> JsonObject:
    """The most, within reason: all members, longest strings (in four alphabets), highest numbers, long arrays.

    Raises:
        NoValue: Nothing fits.

    """
    return _checked(schema, _Maker(_MOST_NODES).make(schema))


def _checked(schema: JsonObject, value: object) -> JsonObject:
    try:
        payload.canonical(value)  # type: ignore[arg-type]  # that it is an object is checked next
    except codec.IntakeError as error:
        raise NoValue(error.detail) from None
    fault = compile_schema(schema).find_fault(value)
    if fault is not None or not isinstance(value, dict):
        raise NoValue(f"no value was found that fits {fault.keyword if fault else 'an object'}")
    return value


class _Maker:
    """Makes one value, as large as it may be while `room` values are left."""

    def __init__(self, room: int) -> None:
        self._room = room

    def make(self, schema: JsonObject) -> Any:  # noqa: ANN401 - any JSON value
        self._room -= 1
        if "enum" in schema:
            return self._one_of(schema)
        match schema.get("type"):
            case "object":
                return self._object(schema)
            case "array":
                return self._array(schema)
            case "string":
                return self._string(schema)
            case "number":
                return self._number(schema)
            case _:
                return self._large  # no keyword but enum says anything about true and false

    @property
    def _large(self) -> bool:
        return self._room > 0

    def _one_of(self, schema: JsonObject) -> object:
        whole = compile_schema({"type": "object", "properties": {"value": schema}})
        fitting = [one for one in schema["enum"] if whole.find_fault({"value": one}) is None]
        if not fitting:
            raise NoValue("no value of an enum fits the rest of its schema")
        return fitting[-1] if self._large else fitting[0]

    def _object(self, schema: JsonObject) -> JsonObject:
        known: dict[str, JsonObject] = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        made = {name: self.make(known[name]) if name in known else True for name in required}
        for name in known if self._large else ():
            if name in made:
                continue
            try:
                made[name] = self.make(known[name])
            except NoValue:
                continue  # it can only be left out
        return made

    def _array(self, schema: JsonObject) -> list[object]:
        count = min(schema.get("maxItems", _MOST_ITEMS), _MOST_ITEMS) if self._large else 0
        try:
            return [self.make(schema.get("items", {})) for _ in range(int(count))]
        except NoValue:
            return []

    def _string(self, schema: JsonObject) -> str:
        least = int(schema.get("minLength", 0))
        length = max(least, min(int(schema.get("maxLength", _MOST_CHARACTERS)), _MOST_CHARACTERS))
        if not self._large:
            return "a" * least
        self._room -= length // _CHARACTERS_A_NODE
        return "".join(itertools.islice(itertools.cycle(_LETTERS), length))

    def _number(self, schema: JsonObject) -> float:
        low, high = schema.get("minimum"), schema.get("maximum")
        if self._large:
            return high if high is not None else max(_LARGE, low or 0)
        return low if low is not None else min(0, high or 0)
