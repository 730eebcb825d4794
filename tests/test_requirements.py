"""Every promise of the seed has a test."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.requirements import REQUIREMENTS, Requirement

TESTS = Path(__file__).parent


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("promise", REQUIREMENTS, ids=lambda promise: promise.id)
def test_a_promise_has_a_test_that_exists(promise: Requirement) -> None:
    assert promise.tests, promise.sentence
    for test in promise.tests:
        path, _, name = test.partition("::")
        assert f"test_{name}" in names_in(path), test


def test_a_promise_has_one_id() -> None:
    ids = [promise.id for promise in REQUIREMENTS]
    assert len(set(ids)) == len(ids)
