"""The schema subset of tool inputs and outputs: refuse what is outside it, check values against what is inside.

The subset is seed section 4.2 plus `items`, `title` and `description`. A keyword means what JSON Schema draft 2020-12
says, for values that passed the intake rule (`contract.codec`): lengths count code points, 1.0 is 1, true is no number.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard

import jsonschema_rs

from runtime_actors.contract import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pydantic import JsonValue

TYPES: Final = ("object", "string", "number", "boolean", "array")
MAX_SCHEMA_DEPTH: Final = 16
"""Schemas inside one another, the root included."""
MAX_SCHEMA_NODES: Final = 2_000
"""JSON values in a schema document, as the intake rule counts them."""
MAX_SCHEMA_BYTES: Final = 64 * 1024
"""Size in canonical form."""
MAX_DOCUMENT_DEPTH: Final = 24
"""Maps and arrays inside one another. Less than a frame may have, because an inventory wraps the schema in its own."""


class SchemaRefused(ValueError):
    """A schema outside the subset."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the root'}: {reason}")
        self.path = path
        """JSON pointer (RFC 6901) into the schema; empty for the root."""
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a value breaks its schema. It says nothing of the value itself."""

    path: str
    """JSON pointer (RFC 6901) into the value; empty for the root."""
    keyword: str
    """The keyword that refused what is there."""


class Schema:
    """A schema inside the subset, ready to check values. Made by `compile_schema`."""

    def __init__(self, source: dict[str, JsonValue]) -> None:
        self.source: Final = source
        """The schema in canonical form."""
        self._validator = jsonschema_rs.Draft202012Validator(source, offline=True)

    def find_fault(self, value: object) -> Fault | None:
        """Check a value that passed the intake rule; `None` if it fits."""
        if self._validator.is_valid(value):
            return None
        error = next(iter(self._validator.iter_errors(value)))
        return Fault(_pointer(error.instance_path), str(error.schema_path[-1]))


def compile_schema(schema: object) -> Schema:
    """Accept a tool's `input_schema` or `output_schema`.

    Raises:
        SchemaRefused: it is not wholly inside the subset, contradicts itself, or is too large.

    """
    if not isinstance(schema, dict) or schema.get("type") != "object":
        _refuse(("type",) if isinstance(schema, dict) else (), "the root must be of type object")
    _check_extent(schema)
    _check_schema(schema)
    return Schema(_canonical(schema))


_Path = tuple[str | int, ...]


def _check_extent(document: object) -> None:
    """Count before anything else is looked at, so that a huge schema costs nothing."""
    nodes = 1
    level = [document]
    for _ in range(MAX_DOCUMENT_DEPTH):
        below: list[object] = []
        for value in level:
            children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            nodes += len(children)
            if nodes > MAX_SCHEMA_NODES:
                _refuse((), f"a schema may have {MAX_SCHEMA_NODES} nodes")
            below.extend(child for child in children if isinstance(child, dict | list))
        if not below:
            return
        level = below
    _refuse((), f"maps and arrays may stand {MAX_DOCUMENT_DEPTH} deep")


def _check_schema(root: object) -> None:
    pending: deque[tuple[_Path, object, int]] = deque([((), root, 1)])
    while pending:
        path, schema, depth = pending.popleft()
        if depth > MAX_SCHEMA_DEPTH:
            _refuse(path, f"schemas may stand {MAX_SCHEMA_DEPTH} deep")
        if not isinstance(schema, dict):
            _refuse(path, "a schema must be an object")
        for keyword, operand in schema.items():
            if keyword not in _KEYWORDS:
                _check_intake(path, {keyword: None})  # what cannot be a key cannot stand in a path either
                _refuse((*path, keyword), "the keyword is outside the subset")
            _KEYWORDS[keyword]((*path, keyword), operand)
        _check_bounds(path, schema)
        pending.extend((place, inner, depth + 1) for place, inner in _subschemas(path, schema))


def _subschemas(path: _Path, schema: dict[str, Any]) -> Iterable[tuple[_Path, object]]:
    for name, inner in schema.get("properties", {}).items():
        yield (*path, "properties", name), inner
    if "items" in schema:
        yield (*path, "items"), schema["items"]


def _check_bounds(path: _Path, schema: dict[str, Any]) -> None:
    for low, high in (("minLength", "maxLength"), ("minimum", "maximum")):
        if low in schema and high in schema and schema[low] > schema[high]:
            _refuse((*path, low), f"{low} is above {high}")


def _check_type(path: _Path, operand: object) -> None:
    if not isinstance(operand, str) or operand not in TYPES:
        _refuse(path, f"must be one of {', '.join(TYPES)}")


def _check_text(path: _Path, operand: object) -> None:
    if not isinstance(operand, str):
        _refuse(path, "must be a string")
    _check_intake(path, operand)


def _check_number(path: _Path, operand: object) -> None:
    if not _is_number(operand):
        _refuse(path, "must be a number")
    _check_intake(path, operand)


def _check_length(path: _Path, operand: object) -> None:
    _check_number(path, operand)
    if not _is_number(operand) or operand < 0 or operand != int(operand):
        _refuse(path, "must be a whole number, zero or more")


def _check_enum(path: _Path, operand: object) -> None:
    if not isinstance(operand, list) or not operand:
        _refuse(path, "must be an array of at least one value")
    for index, value in enumerate(operand):
        _check_intake((*path, index), value)


def _check_required(path: _Path, operand: object) -> None:
    if not isinstance(operand, list):
        _refuse(path, "must be an array")
    for index, name in enumerate(operand):
        _check_text((*path, index), name)
    if len(set(operand)) != len(operand):
        _refuse(path, "names a property twice")


def _check_properties(path: _Path, operand: object) -> None:
    if not isinstance(operand, dict):
        _refuse(path, "must be an object")
    for name in operand:
        _check_intake(path, {name: None})


def _check_additional(path: _Path, operand: object) -> None:
    if operand is not False:
        _refuse(path, "can only be false")


def _check_items(path: _Path, operand: object) -> None:
    if not isinstance(operand, dict):
        _refuse(path, "must be one schema")


_KEYWORDS: Final[Mapping[str, Callable[[_Path, object], None]]] = {
    "type": _check_type,
    "required": _check_required,
    "properties": _check_properties,
    "additionalProperties": _check_additional,
    "enum": _check_enum,
    "minLength": _check_length,
    "maxLength": _check_length,
    "minimum": _check_number,
    "maximum": _check_number,
    "maxItems": _check_length,
    "items": _check_items,
    "title": _check_text,
    "description": _check_text,
}


def _is_number(operand: object) -> TypeGuard[int | float]:
    return isinstance(operand, int | float) and not isinstance(operand, bool)


def _check_intake(path: _Path, operand: object) -> None:
    try:
        codec.check(operand)
    except codec.IntakeError as error:
        _refuse(path, error.detail)


def _canonical(schema: dict[str, Any]) -> dict[str, JsonValue]:
    """Copy the schema, so that later changes of the caller's do not reach it, in canonical form."""
    try:
        frame = codec.encode(schema)
    except codec.IntakeError as error:
        _refuse((), error.detail)
    if len(frame) > MAX_SCHEMA_BYTES:
        _refuse((), f"a schema may take {MAX_SCHEMA_BYTES} bytes")
    return codec.decode(frame)


def _pointer(path: Iterable[str | int]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _refuse(path: _Path, reason: str) -> NoReturn:
    raise SchemaRefused(_pointer(path), reason)
