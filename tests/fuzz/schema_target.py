"""JSON Schemas that an app gives, and values against them: `jsonschema` and the page say what is right."""

from __future__ import annotations

import json
from typing import Any, Final

from jsonschema import Draft202012Validator

from runtime_actors.contract import codec
from runtime_actors.contract.json_schema import (
    MAX_DOCUMENT_DEPTH,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_NODES,
    TYPES,
    Schema,
    SchemaRefused,
    compile_schema,
)
from tests.fuzz import reference
from tests.fuzz.source import Source, nested
from tests.fuzz.target import ACCEPTED, Input, Stateless, expect

OUTSIDE: Final = "outside the subset"
_WORDS: Final = (
    *("type", "required", "properties", "additionalProperties", "enum", "minLength", "maxLength"),
    *("minimum", "maximum", "maxItems", "items", "title", "description"),
)
_FOREIGN: Final = (
    *("$ref", "$defs", "$id", "pattern", "format", "anyOf", "oneOf", "not", "if", "const", "minItems"),
    *("uniqueItems", "patternProperties", "propertyNames", "prefixItems", "multipleOf", "\0", "x\ud800"),
)
_BOMBS: Final[tuple[Any, ...]] = (
    {"$ref": "#"},
    {"$ref": "http://127.0.0.1:9/x"},
    {"$ref": "file:///dev/zero"},
    {"pattern": "(a+)+$"},
    {"pattern": "(?:a|a)*" * 50},
    {"$dynamicRef": "#meta"},
    {"minimum": 10**400},
    {"maxLength": -1},
    {"maxLength": 1e300},
    {"maxLength": 2**53 - 1},
    {"minLength": 0.5},
    {"enum": []},
    {"enum": [1, True, 1.0, "1"]},
    {"required": ["a", "a"]},
    {"type": ["object"]},
    {"items": [{}]},
    {"items": True},
    {"additionalProperties": True},
    {"minLength": 3, "maxLength": 2},
)


class SchemaTarget(Stateless):
    """`contract.json_schema`. An input is JSON: `[schema, value, ...]`."""

    name = "schema"

    def make(self, source: Source) -> Input:
        kind = source.random.random()
        schema = _a_schema(source, 3)
        if kind < 0.35:
            schema = _spoilt(source, schema)
        elif kind < 0.36:
            schema = _huge(source)
        values = [_a_value(source, schema, 4) for _ in range(3)] if kind >= 0.36 else []
        return Input(json.dumps([schema, *values]).encode())

    def feed(self, one: Input) -> str:
        schema, *values = json.loads(one.data)
        try:
            compiled = self.cost.of(compile_schema, schema)
        except SchemaRefused as refused:
            expect(not _is_inside(schema), f"the page lets it in; refused at {refused.path}: {refused.reason}")
            expect(len(refused.path) < 20_000, "the path of a refusal has no bound")
            return OUTSIDE
        expect(_is_inside(schema), "the page refuses it")
        expect(reference.same(compiled.source, reference.canonical(schema)), "it is kept as something else")
        if not len(one.data) % 8:  # slow
            Draft202012Validator.check_schema(schema)
        known = Draft202012Validator(schema)
        for value in values:
            self._compare(compiled, known, value)
        return ACCEPTED

    def _compare(self, compiled: Schema, known_as: Draft202012Validator, value: Any) -> None:  # noqa: ANN401 - JSON
        try:
            codec.check(value)
        except codec.IntakeError:
            return
        fault = self.cost.of(compiled.find_fault, value)
        known = {(_pointer(one.absolute_path), str(one.validator)) for one in known_as.iter_errors(value)}
        expect((fault is None) == (not known), f"it finds {fault}, jsonschema {sorted(known)[:2]}")
        expect(fault is None or (fault.path, fault.keyword) in known, f"jsonschema does not know the fault {fault}")


def _pointer(path: Any) -> str:  # noqa: ANN401 - jsonschema's own deque
    # jsonschema-rs leaves a property whose name is empty out of a path, and so do we.
    return "".join("/" + str(one).replace("~", "~0").replace("/", "~1") for one in path if one != "")


# --- making ---


def _a_schema(source: Source, room: int, kind: str = "object") -> dict[str, Any]:
    made: dict[str, Any] = {"type": kind} if kind == "object" or source.chance(0.8) else {}
    if source.chance(0.15):
        made[source.pick(("title", "description"))] = source.pick(("", "text", "\u202e", "\u00e9"))
    if source.chance(0.12):
        made["enum"] = [source.plain(4) for _ in range(1 + source.below(4))]
    if kind == "object":
        made |= _members(source, room)
    elif kind == "array":
        made["items"] = _a_schema(source, room - 1, _a_kind(source, room))
        if source.chance(0.4):
            made["maxItems"] = source.below(4)
    elif kind == "string":
        made |= _bounds(source, "minLength", "maxLength", (0, 1, 2, 3, 1.0))
    elif kind == "number":
        made |= _bounds(source, "minimum", "maximum", (-1, 0, 0.5, 1, 7, 2**53 - 1, 1e10))
    return made


def _members(source: Source, room: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    names = [source.pick(("a", "b", "c/d", "~", "", "\u00e9")) for _ in range(source.below(4))]
    if names:
        made["properties"] = {name: _a_schema(source, room - 1, _a_kind(source, room)) for name in names}
    if source.chance(0.4):
        made["required"] = sorted(set(names[:2]))
    if source.chance(0.4):
        made["additionalProperties"] = False
    return made


def _a_kind(source: Source, room: int) -> str:
    return source.pick(TYPES) if room > 0 else source.pick(("string", "number", "boolean"))


def _bounds(source: Source, low: str, high: str, of: tuple[float, ...]) -> dict[str, Any]:
    bounds = sorted((source.pick(of), source.pick(of)))
    return {name: bound for name, bound in zip((low, high), bounds, strict=True) if source.chance(0.5)}


def _a_value(source: Source, schema: Any, room: int) -> Any:  # noqa: ANN401 - JSON
    """Often one that nearly fits."""
    if room == 0 or not isinstance(schema, dict) or source.chance(0.1):
        return source.plain()
    if "enum" in schema and source.chance(0.6):
        return source.pick(schema["enum"]) if isinstance(schema["enum"], list) and schema["enum"] else None
    kind = schema.get("type")
    if kind == "object":
        inner = schema.get("properties", {})
        made = {name: _a_value(source, one, room - 1) for name, one in inner.items() if source.chance(0.8)}
        return made | ({"z": 1} if source.chance(0.1) else {})
    if kind == "array":
        return [_a_value(source, schema.get("items"), room - 1) for _ in range(source.below(5))]
    if kind == "string":
        return source.pick(("", "a", "ab", "\U0001f600", "e\u0301", "abcd"))
    return source.pick((True, False)) if kind == "boolean" else source.pick((0, 1, -1, 0.5, 1.0, 7, 2**53 - 1, True))


def _spoilt(source: Source, schema: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON, or nearly
    """One schema somewhere in it gets something that it must not have."""
    if source.chance(0.05):
        return source.pick((None, [], "object", 1, {}, {"type": "string"}, {"type": []}, True))
    at = schema
    while source.chance(0.6):
        inner = [*at.get("properties", {}).values(), *([at["items"]] if "items" in at else [])]
        inner = [one for one in inner if isinstance(one, dict)]
        if not inner:
            break
        at = source.pick(inner)
    kind = source.below(3)
    if kind == 0:
        at |= source.pick(_BOMBS)
    elif kind == 1:
        at[source.pick(_WORDS)] = source.json()
    else:
        at[source.pick(_FOREIGN)] = source.json()
    return schema


def _huge(source: Source) -> Any:  # noqa: ANN401 - JSON
    size = source.pick((1, 15, 16, 17, 40, 300))
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(size):
        deep = {"type": "object", "properties": {"p": deep}} if source.chance(0.5) else {"items": deep}
    return source.pick(
        (
            deep | {"type": "object"},
            {"type": "object", "properties": {str(at): {} for at in range(source.pick((990, 1990, 2000, 60_000)))}},
            {"type": "object", "enum": [nested(source.pick((20, 21, 22, 23, 40, 400)), in_maps=source.chance(0.5))]},
            {"type": "object", "title": "t" * source.pick((65_000, 65_536, 300_000))},
            {"type": "object", "required": [str(at) for at in range(source.pick((100, 1990, 100_000)))]},
            {"type": "object", "enum": [{"k" * 257: 1}]},
        )
    )


# --- the page, once more ---


def _is_inside(schema: Any) -> bool:  # noqa: ANN401 - JSON
    try:
        kept = reference.canonical(schema)
        small = len(reference.write(kept)) <= MAX_SCHEMA_BYTES and _extent(schema) <= MAX_SCHEMA_NODES
        return small and _depth(schema) <= MAX_DOCUMENT_DEPTH and schema["type"] == "object" and _holds(schema, 1)
    except (reference.Refused, KeyError, TypeError, RecursionError, UnicodeEncodeError, OverflowError):
        return False


def _children(value: Any) -> list[Any]:  # noqa: ANN401 - JSON
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _extent(value: Any) -> int:  # noqa: ANN401 - JSON
    return 1 + sum(map(_extent, _children(value)))


def _depth(value: Any) -> int:  # noqa: ANN401 - JSON
    return int(isinstance(value, (dict, list))) + max(map(_depth, _children(value)), default=0)


def _holds(schema: Any, depth: int) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(schema, dict) or depth > MAX_SCHEMA_DEPTH or not set(schema) <= set(_WORDS):
        return False
    if not all(_word_holds(word, schema[word]) for word in schema):
        return False
    for low, high in (("minLength", "maxLength"), ("minimum", "maximum")):
        if low in schema and high in schema and schema[low] > schema[high]:
            return False
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return all(_holds(one, depth + 1) for one in inner)


def _word_holds(word: str, given: Any) -> bool:  # noqa: ANN401 - JSON
    is_number = isinstance(given, (int, float)) and not isinstance(given, bool)
    match word:
        case "type":
            return isinstance(given, str) and given in TYPES
        case "title" | "description":
            return isinstance(given, str)
        case "required":
            return (
                isinstance(given, list) and all(isinstance(one, str) for one in given) and len({*given}) == len(given)
            )
        case "properties":
            return isinstance(given, dict)
        case "additionalProperties":
            return given is False
        case "enum":
            return isinstance(given, list) and bool(given)
        case "items":
            return isinstance(given, dict)
        case "minimum" | "maximum":
            return is_number
    return is_number and given >= 0 and given == int(given)
