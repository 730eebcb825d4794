"""The schema subset: what is refused at registration, and agreement with the published suite and `jsonschema`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runtime_actors.contract import codec
from runtime_actors.contract.json_schema import (
    MAX_DOCUMENT_DEPTH,
    MAX_SCHEMA_BYTES,
    MAX_SCHEMA_DEPTH,
    MAX_SCHEMA_NODES,
    TYPES,
    Fault,
    SchemaRefused,
    compile_schema,
)

SUITE = Path(__file__).parents[1] / "data" / "json-schema-test-suite"
KEYWORDS = {
    *("type", "required", "properties", "additionalProperties", "enum", "minLength", "maxLength"),
    *("minimum", "maximum", "maxItems", "items", "title", "description"),
}


def a_root(schema: object) -> dict[str, object]:
    """An object that must have a `value` of `schema`."""
    return {"type": "object", "properties": {"value": schema}, "required": ["value"]}


def refused_at(schema: object) -> str | None:
    try:
        compile_schema(schema)
    except SchemaRefused as refusal:
        return refusal.path
    return None


def fits(schema: object, value: object) -> bool:
    return compile_schema(a_root(schema)).find_fault({"value": value}) is None


# --- the published suite


def is_outside(schema: Any) -> bool:  # noqa: ANN401 - JSON as it stands in the file
    """Whether a schema uses what the subset has not, told apart from the code under test."""
    return (
        not isinstance(schema, dict)
        or not set(schema) <= KEYWORDS
        or schema.get("type", "object") not in TYPES
        or schema.get("enum") == []
        or schema.get("additionalProperties", False) is not False
        or any(is_outside(inner) for inner in schema.get("properties", {}).values())
        or ("items" in schema and is_outside(schema["items"]))
    )


def passes_intake(value: object) -> bool:
    try:
        codec.check(value)
    except codec.IntakeError:
        return False
    return True


CASES: list[tuple[str, Any, list[dict[str, Any]]]] = []
for _file in sorted(SUITE.glob("*.json")):
    for _case in json.loads(_file.read_text(encoding="utf-8")):
        _schema = _case["schema"]
        if isinstance(_schema, dict):
            _schema.pop("$schema", None)
        CASES.append((f"{_file.stem}: {_case['description']}", _schema, _case["tests"]))


def verdict(schema: object) -> str:
    if not passes_intake(schema):
        return "intake"
    return "refused" if is_outside(schema) else "agrees"


@pytest.mark.parametrize(
    ("schema", "tests"), [(schema, tests) for _, schema, tests in CASES], ids=[name for name, _, _ in CASES]
)
def test_a_case_of_the_published_suite_agrees_or_is_refused_at_registration(
    schema: object, tests: list[dict[str, Any]]
) -> None:
    if verdict(schema) != "agrees":
        path = refused_at(a_root(schema))
        assert path is not None
        assert path.startswith("/properties/value")
        return

    compiled = compile_schema(a_root(schema))
    for test in tests:
        value = {"value": test["data"]}
        assert passes_intake(value)
        assert (compiled.find_fault(value) is None) is test["valid"], test["description"]


def test_no_case_of_the_published_suite_is_passed_over() -> None:
    verdicts = Counter(verdict(schema) for _, schema, _ in CASES)
    checked = sum(len(tests) for _, schema, tests in CASES if verdict(schema) == "agrees")

    assert {name.partition(":")[0] for name, _, _ in CASES} == KEYWORDS - {"title", "description"}
    assert verdicts == {"agrees": 37, "refused": 28, "intake": 1}
    assert checked == 155


# --- agreement with the library that defines the meaning

NAMES = st.sampled_from(["a", "b", "é", "$id", "$ref", "$schema", "__proto__", "toString", "a/b~c", ""])
LETTERS = st.text("ab é💩", max_size=4)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([-0.0, 0.0, 1.0, 2.0, 0.5, 0.1, 2**53 - 1])
    | LETTERS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
# Tried on every schema, beside what is made at random.
PROBES: list[object] = [
    *(None, False, True, 0, 1, 0.0, 1.0, 0.5, -3, 2**53 - 1, "", "a", "é💩", [], [0], [False], [1, 1, 1, 1]),
    *(
        {},
        {"a": 0},
        {"b": "a"},
        {"é": [], "$id": True},
        {"$ref": "", "$schema": 0.5, "__proto__": {}},
        {"a": {"a": {}}},
    ),
]
LENGTHS = st.integers(0, 3) | st.sampled_from([0.0, 1.0, 2.0])
LIMITS = st.integers(-3, 3) | st.sampled_from([0.5, -0.5, 0.1, 2.0, 2**53 - 1])


def ordered(low: str, high: str, bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    pairs = st.tuples(bounds, bounds).map(sorted)
    return st.one_of(
        pairs.map(lambda pair: {low: pair[0], high: pair[1]}),
        bounds.map(lambda bound: {low: bound}),
        bounds.map(lambda bound: {high: bound}),
        st.just({}),
    )


def extended(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    keywords = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "additionalProperties": st.just(False),  # noqa: FBT003 - the keyword's value
            "enum": st.lists(VALUES, min_size=1, max_size=4),
            "maxItems": LENGTHS,
            "items": inner,
            "title": LETTERS,
            "description": LETTERS,
        },
    )
    return st.builds(
        lambda *parts: {name: operand for part in parts for name, operand in part.items()},
        keywords,
        ordered("minLength", "maxLength", LENGTHS),
        ordered("minimum", "maximum", LIMITS),
    )


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(st.just({}), extended, max_leaves=6)


@settings(max_examples=300)
@given(SCHEMAS, st.lists(VALUES, max_size=6))
@example(
    {"enum": [{"$id": "::no uri", "$ref": "#/nowhere", "a": 1.0}]}, [{"$id": "::no uri", "$ref": "#/nowhere", "a": 1}]
)
@example({"properties": {"$ref": {"type": "string"}, "$id": {"minLength": 1.0}}}, [{"$ref": 1}, {"$id": ""}])
@example({"enum": [[0], {"a": True}]}, [[False], [0.0], {"a": 1}, {"a": True}])
@example({"type": "number", "minimum": 0.1}, [0.1, True, 0.09999999999999999])
def test_every_schema_of_the_subset_means_what_jsonschema_says(schema: dict[str, Any], values: list[object]) -> None:
    root = a_root(schema)
    compiled = compile_schema(root)
    oracle = Draft202012Validator(root)

    for value in PROBES + values:
        instance = {"value": value}
        fault = compiled.find_fault(instance)
        faults = {
            Fault(pointer_to(error.absolute_path), str(error.validator)) for error in oracle.iter_errors(instance)
        }
        assert fault in faults if faults else fault is None


def pointer_to(steps: Iterable[str | int]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


# --- what a fault says


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({}, {}, Fault("", "required")),
        ({"type": "string"}, {"value": 1}, Fault("/value", "type")),
        ({"type": "array", "items": {"type": "number"}}, {"value": [1, True]}, Fault("/value/1", "type")),
        ({"maxItems": 1}, {"value": [1, 2]}, Fault("/value", "maxItems")),
        ({"properties": {"a/b~c": {"minimum": 2}}}, {"value": {"a/b~c": 1}}, Fault("/value/a~1b~0c", "minimum")),
        ({"maximum": 1}, {"value": 1.5}, Fault("/value", "maximum")),
        ({"minLength": 1}, {"value": ""}, Fault("/value", "minLength")),
        ({"maxLength": 1}, {"value": "éé"}, Fault("/value", "maxLength")),
        ({"enum": ["hunter2"]}, {"value": "hunter3"}, Fault("/value", "enum")),
        ({"additionalProperties": False}, {"value": {"hunter2": 0}}, Fault("/value", "additionalProperties")),
    ],
)
def test_a_fault_names_the_place_and_the_keyword_and_never_the_value(
    schema: object, value: object, fault: Fault
) -> None:
    found = compile_schema(a_root(schema)).find_fault(value)

    assert found == fault
    assert "hunter" not in repr(found)


# --- faults that other systems have had


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": [[False]]}, [0]),
        ({"enum": [[0]]}, [False]),
        ({"enum": [1]}, True),
        ({"enum": [True]}, 1),
        ({"enum": [{"a": 1}]}, {"a": True}),
        ({"enum": [{"a": True}]}, {"a": 1.0}),
        ({"type": "number"}, True),
        ({"type": "boolean"}, 1),
    ],
)
def test_true_and_false_are_never_numbers_however_deep(schema: object, value: object) -> None:
    assert not fits(schema, value)


@pytest.mark.parametrize(
    ("schema", "value", "valid"),
    [
        ({"enum": [1]}, 1.0, True),
        ({"enum": [1.0]}, 1, True),
        ({"enum": [[{"a": 100}]]}, [{"a": 1e2}], True),
        ({"enum": [0]}, -0.0, True),
        ({"enum": [1]}, 1.5, False),
        ({"minLength": 2.0}, "ab", True),
        ({"maxItems": 1.0}, [1, 2], False),
    ],
)
def test_a_whole_number_is_the_same_with_and_without_a_fraction(schema: object, value: object, *, valid: bool) -> None:
    assert fits(schema, value) is valid


@pytest.mark.parametrize("name", ["toString", "__proto__", "constructor", "hasOwnProperty"])
def test_a_required_name_is_only_there_when_it_was_sent(name: str) -> None:
    schema = {"type": "object", "required": [name]}

    assert not fits(schema, {})
    assert fits(schema, {name: 0})


def test_lengths_count_code_points() -> None:
    schema = {"minLength": 2, "maxLength": 2}

    assert fits(schema, "💩💩")
    assert fits(schema, "e\u0301")
    assert not fits(schema, "💩")


FOREIGN: dict[str, object] = {
    "$ref": "#",
    "$defs": {},
    "$id": "x",
    "$comment": "x",
    "$dynamicRef": "#x",
    "allOf": [{}],
    "anyOf": [{}],
    "oneOf": [{}],
    "not": {},
    "if": {},
    "const": 1,
    "default": 1,
    "examples": [],
    "format": "uri",
    "pattern": "a",
    "patternProperties": {},
    "propertyNames": {},
    "dependentRequired": {},
    "prefixItems": [{}],
    "contains": {},
    "minItems": 1,
    "uniqueItems": True,
    "minProperties": 1,
    "exclusiveMinimum": 1,
    "multipleOf": 2,
    "unevaluatedProperties": False,
    "contentMediaType": "text/html",
    "nullable": True,
}
WRONG: dict[str, list[object]] = {
    "type": ["integer", "null", "any", "", None, 1, ["string"], ["string", "number"]],
    "required": ["a", {}, None, True, ["a", "a"]],
    "properties": [[], None, True],
    "additionalProperties": [True, {}, None, 0, {"type": "string"}],
    "enum": [[], {}, "a", None],
    "minLength": [-1, 1.5, "2", None, True, [1], math.nan, math.inf, 2**53],
    "maxLength": [-1, 0.5, "2", None, False],
    "maxItems": [-1, 2.5, "2", True],
    "minimum": [math.nan, math.inf, -math.inf, "1", None, True, 2**53, 1e300],
    "maximum": [math.nan, "1", False, -(2**53)],
    "items": [True, False, [{}], None, "a"],
    "title": [1, None, ["a"]],
    "description": [{}, False],
}
REFUSED: dict[str, tuple[object, str]] = {
    "another dialect": ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema"),
    "the same dialect": ({"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"}, "/$schema"),
    "no object": ("object", ""),
    "a boolean": (True, ""),
    "no type at the root": ({}, "/type"),
    "another type at the root": ({"type": "array"}, "/type"),
    "two types at the root": ({"type": ["object"]}, "/type"),
    "an unknown keyword": (a_root({"x-ui": 1}), "/properties/value/x-ui"),
    "an unknown keyword deep inside": (
        a_root({"items": {"properties": {"a/b": {"pattern": "a+"}}}}),
        "/properties/value/items/properties/a~1b/pattern",
    ),
    **{
        f"{keyword} is outside": (a_root({keyword: operand}), f"/properties/value/{keyword}")
        for keyword, operand in FOREIGN.items()
    },
    **{
        f"{keyword}: {operand!r}": (a_root({keyword: operand}), f"/properties/value/{keyword}")
        for keyword, operands in WRONG.items()
        for operand in operands
    },
    "required names a number": (a_root({"required": ["a", 1]}), "/properties/value/required/1"),
    "a property that is no schema": (a_root({"properties": {"a": True}}), "/properties/value/properties/a"),
    "items inside items that are no schema": (a_root({"items": {"items": True}}), "/properties/value/items/items"),
    "NaN in an enum": (a_root({"enum": [0, [math.nan]]}), "/properties/value/enum/1"),
    "2**53 + 1 in an enum": (a_root({"enum": [2**53 + 1]}), "/properties/value/enum/0"),
    "NUL in an enum": (a_root({"enum": ["a\0b"]}), "/properties/value/enum/0"),
    "NUL in a property name": (a_root({"properties": {"a\0b": {}}}), "/properties/value/properties"),
    "a lone surrogate in a title": (a_root({"title": "\ud800"}), "/properties/value/title"),
    "a long unknown keyword": (a_root({"k" * 257: 0}), "/properties/value"),
    "a keyword that is no string": (a_root({1: 0}), "/properties/value"),
    "minLength above maxLength": (a_root({"minLength": 3, "maxLength": 2}), "/properties/value/minLength"),
    "minimum above maximum": (a_root({"minimum": 0.2, "maximum": 0.1}), "/properties/value/minimum"),
}


@pytest.mark.parametrize(("schema", "path"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_outside_the_subset_is_refused_with_the_path_to_it(schema: object, path: str) -> None:
    with pytest.raises(SchemaRefused) as refused:
        compile_schema(schema)

    assert refused.value.path == path
    assert refused.value.reason
    assert isinstance(refused.value, ValueError)


# --- limits


def nested_schema(depth: int, *, keyword: str = "items") -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth - 1):
        schema = {"type": "object"} | ({"items": schema} if keyword == "items" else {"properties": {"p": schema}})
    return schema


def deep_enum(depth: int) -> dict[str, Any]:
    value: object = []
    for _ in range(depth - 5):  # root, properties, value, enum, and the innermost list
        value = [value]
    return a_root({"enum": [value]})


def test_a_schema_at_each_limit_is_accepted_and_one_more_is_refused() -> None:
    assert refused_at(nested_schema(MAX_SCHEMA_DEPTH)) is None
    assert refused_at(nested_schema(MAX_SCHEMA_DEPTH + 1)) == "/items" * MAX_SCHEMA_DEPTH
    assert refused_at(deep_enum(MAX_DOCUMENT_DEPTH)) is None
    assert refused_at(deep_enum(MAX_DOCUMENT_DEPTH + 1)) == ""
    assert refused_at(nested_schema(13, keyword="properties")) == ""
    assert refused_at(a_root({"enum": [0] * (MAX_SCHEMA_NODES - 7)})) is None
    assert refused_at(a_root({"enum": [0] * (MAX_SCHEMA_NODES - 6)})) == ""
    room = MAX_SCHEMA_BYTES - len(codec.encode({"type": "object", "title": "x" * 60_000})) + 60_000
    assert refused_at({"type": "object", "title": "x" * room}) is None
    assert refused_at({"type": "object", "title": "x" * (room + 1)}) == ""


def test_a_schema_that_holds_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema["items"] = schema
    shared: dict[str, Any] = {}
    for _ in range(11):
        shared = {"properties": {"a": shared, "b": shared}}

    assert refused_at(schema) == ""
    assert refused_at(a_root(shared)) == ""


def test_the_deepest_schema_still_fits_a_frame_with_seven_levels_around_it() -> None:
    source: object = compile_schema(deep_enum(MAX_DOCUMENT_DEPTH)).source
    for _ in range(codec.MAX_DEPTH - MAX_DOCUMENT_DEPTH):
        source = {"inside": source}

    codec.check(source)


def test_later_changes_of_the_caller_s_schema_change_nothing() -> None:
    mine = a_root({"type": "string", "minLength": 1.0})
    schema = compile_schema(mine)

    mine["required"] = []

    assert schema.source == a_root({"type": "string", "minLength": 1})
    assert schema.find_fault({}) == Fault("", "required")


@given(
    st.recursive(
        SCALARS | st.floats() | st.binary(max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(sorted(KEYWORDS)) | st.text(max_size=2), inner, max_size=4)
        ),
        max_leaves=10,
    )
)
def test_whatever_stands_where_a_schema_should_only_a_refusal_is_raised(schema: object) -> None:
    refused_at(schema)
    refused_at(a_root(schema))
