"""The shell speaks the language of the person's locale."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from runtime_actors.terminal.phrases import CHINESE, ENGLISH, Phrases, phrases_of


@pytest.mark.parametrize(
    ("environment", "phrases"),
    [
        ({}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8"}, CHINESE),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, ENGLISH),
        ({"LANG": "C", "LC_ALL": "", "LC_MESSAGES": "zh_CN"}, CHINESE),
    ],
)
def test_the_locale_says_which_language(environment: dict[str, str], phrases: Phrases) -> None:
    assert phrases_of(environment) is phrases


@pytest.mark.parametrize("name", [one.name for one in fields(Phrases) if one.type == "str"])
def test_a_phrase_takes_the_same_in_each_language(name: str) -> None:
    places = [sorted(re.findall(r"{\w+}", getattr(phrases, name))) for phrases in (ENGLISH, CHINESE)]

    assert places[0] == places[1]
