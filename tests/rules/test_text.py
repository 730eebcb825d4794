"""Text of apps and agents cannot write on a terminal what it likes, and a person sees that something was there."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_actors.rules.text import neutral


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, ümläuts and 漢字", "plain words, ümläuts and 漢字"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("two\nlines", "two\\nlines"),
        ("a\tb", "a\\tb"),
        ("\x07\x00\x7f", "\\x07\\x00\\x7f"),
        ("abc\u202etxt.exe", "abc\\u202etxt.exe"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("line\u2028end", "line\\u2028end"),
        ("private\ue000", "private\\ue000"),
        ("لا\u200cن", "لا\u200cن"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert neutral(text) == shown


def test_line_ends_and_tabs_stay_where_several_lines_are_shown() -> None:
    assert neutral("two\n\tlines\r", lines=True) == "two\n\tlines\\r"


def test_long_text_is_cut_with_a_sign_of_it() -> None:
    assert neutral("abcdef", limit=4) == "abc…"
    assert neutral("abcd", limit=4) == "abcd"


@given(st.text(), st.booleans())
def test_nothing_that_a_terminal_obeys_is_left(text: str, lines: bool) -> None:  # noqa: FBT001 - drawn
    shown = neutral(text, lines=lines)

    for character in shown:
        if not (character in "\u200c\u200d" or (lines and character in "\n\t")):
            assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
