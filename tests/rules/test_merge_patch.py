"""JSON merge patches: the RFC's own examples, and what must hold for any."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.merge_patch import merged

APPENDIX_A: Final = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]
"""RFC 7396, appendix A: original, patch, result."""

_LEAVES: Final = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
VALUES: Final = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3)
)
OBJECTS: Final = st.dictionaries(st.text("abc", max_size=1), VALUES, max_size=4)


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """As a value that a patch can spell: what an object holds is not null, at any depth that objects make."""
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(one) for name, one in value.items() if one is not None}


@pytest.mark.parametrize(("original", "patch", "result"), APPENDIX_A)
def test_the_examples_of_the_rfc_come_out_as_it_says(original: str, patch: str, result: str) -> None:
    assert merged(json.loads(original), json.loads(patch)) == json.loads(result)


@given(VALUES, VALUES)
def test_neither_the_value_nor_the_patch_is_changed(target: Any, patch: Any) -> None:  # noqa: ANN401
    before = deepcopy((target, patch))

    merged(target, patch)

    assert (target, patch) == before


@given(OBJECTS, OBJECTS)
def test_a_patch_that_is_applied_again_changes_nothing_more(target: Any, patch: Any) -> None:  # noqa: ANN401
    once = merged(target, patch)

    assert merged(once, patch) == once


@given(OBJECTS, OBJECTS)
def test_there_is_a_patch_from_any_object_to_any_that_holds_no_null(source: Any, wanted: Any) -> None:  # noqa: ANN401
    goal = without_nulls(wanted)
    patch = dict.fromkeys(source) | goal
    for name in source.keys() & goal.keys():
        if isinstance(source[name], dict) and isinstance(goal[name], dict):
            patch[name] = goal[name]
            source = source | {name: {}}

    assert merged(source, patch) == goal


@given(VALUES)
def test_a_patch_to_nothing_leaves_out_its_nulls(patch: Any) -> None:  # noqa: ANN401
    assert merged(None, patch) == without_nulls(patch)
