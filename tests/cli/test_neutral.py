"""Text of apps and agents on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.text import neutral

HOSTILE = [
    ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
    ("\x9b31m", r"\x9b31m"),
    ("safe\r$ rm -rf", r"safe\r$ rm -rf"),
    ("a\u202efdp.exe", r"a\u202efdp.exe"),
    ("\u2066x\u2069", r"\u2066x\u2069"),
    ("\U000e0041", r"\U000e0041"),
    ("a\u2028b", r"a\u2028b"),
    ("\ud800", r"\ud800"),
    ("\x7f\x08", r"\x7f\x08"),
]


@pytest.mark.parametrize(("text", "shown"), HOSTILE)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert neutral(text) == shown


@pytest.mark.parametrize(
    "text", ["plain", "Grüße, 世界", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "👩\u200d💻", "naïve ☕", ""]
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert neutral(text) == text


def test_line_ends_stay_only_where_several_lines_are_wanted() -> None:
    assert neutral("a\n\tb") == r"a\n\tb"
    assert neutral("a\n\tb", lines=True) == "a\n\tb"


def test_a_limit_cuts_before_escaping_and_shows_that_it_did() -> None:
    assert neutral("abcdef", limit=4) == "abc…"
    assert neutral("abcd", limit=4) == "abcd"


@given(st.text(st.characters(codec=None)))
def test_nothing_that_comes_out_controls_a_terminal(text: str) -> None:
    for character in neutral(text):
        assert character in "\u200c\u200d" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}
