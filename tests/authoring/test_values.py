"""Whatever the schema: what is made fits it, and is the least or the most of what does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.authoring.values import NoValue, maximal, minimal
from runtime_actors.contract.json_schema import compile_schema

_lengths = st.integers(0, 12)
_numbers = st.integers(-1000, 1000) | st.floats(-10, 10)


def _ordered(low: str, high: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    both = st.tuples(values, values).map(lambda pair: {low: min(pair), high: max(pair)})
    return st.just({}) | both | values.map(lambda one: {low: one}) | values.map(lambda one: {high: one})


_leaves: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.just({"type": "boolean"}),
    _ordered("minLength", "maxLength", _lengths).map(lambda one: {"type": "string"} | one),
    _ordered("minimum", "maximum", _numbers).map(lambda one: {"type": "number"} | one),
    st.lists(st.text(max_size=3) | st.integers(0, 9) | st.booleans(), min_size=1, max_size=4).map(
        lambda values: {"enum": values}
    ),
)


def _objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    known = st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=4)
    return known.flatmap(
        lambda properties: st.builds(
            lambda required, closed: {
                "type": "object",
                "properties": properties,
                "required": required,
                **({"additionalProperties": False} if closed else {}),
            },
            st.lists(st.sampled_from(sorted(properties)), unique=True) if properties else st.just([]),
            st.booleans(),
        )
    )


def _arrays(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, inner, st.integers(0, 4))


_schemas = _objects(st.recursive(_leaves, lambda inner: _objects(inner) | _arrays(inner), max_leaves=12))


@given(_schemas)
def test_the_least_and_the_most_fit_the_schema_they_were_made_for(schema: dict[str, Any]) -> None:
    checked = compile_schema(schema)

    assert checked.find_fault(minimal(schema)) is None
    assert checked.find_fault(maximal(schema)) is None


@given(_schemas)
def test_the_least_leaves_out_what_it_may(schema: dict[str, Any]) -> None:
    assert set(minimal(schema)) == set(schema["required"])
    assert set(maximal(schema)) == set(schema["properties"])


def test_strings_are_as_short_and_as_long_as_they_may_be_counted_in_code_points() -> None:
    schema = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "minLength": 2, "maxLength": 6}},
    }

    assert minimal(schema) == {"name": "aa"}
    assert maximal(schema) == {"name": "aé漢🙂aé"}


def test_numbers_are_at_their_bounds() -> None:
    schema = {
        "type": "object",
        "required": ["share"],
        "properties": {"share": {"type": "number", "minimum": -1.5, "maximum": 1.5}},
    }

    assert minimal(schema) == {"share": -1.5}
    assert maximal(schema) == {"share": 1.5}


def test_what_fits_nothing_is_said_to() -> None:
    impossible = {"type": "object", "required": ["x"], "properties": {"x": {"type": "string", "enum": [1, 2]}}}
    unknown = {"type": "object", "required": ["x"], "additionalProperties": False}

    for schema in (impossible, unknown):
        with pytest.raises(NoValue):
            minimal(schema)


def test_an_optional_member_that_nothing_fits_is_left_out() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "enum": [1]}, "y": {"type": "boolean"}}}

    assert maximal(schema) == {"y": True}


def test_what_could_not_be_sent_is_no_value() -> None:
    schema = {"type": "object", "required": ["x"], "properties": {"x": {"type": "string", "minLength": 300_000}}}

    with pytest.raises(NoValue):
        minimal(schema)


def test_deep_arrays_stay_small_enough_to_be_sent() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(8):
        schema = {"type": "array", "items": schema}

    made = maximal({"type": "object", "properties": {"x": schema}})

    assert made["x"]
