"""Text from apps and agents, made harmless for a terminal.

What is neutralised stays visible as an escape, so that a person sees that something was there. Unicode's general
categories (UAX #44) decide: controls (ANSI sequences begin with one), formats (the bidi characters of UAX #9 and the
invisible tags among them), surrogates, private and unassigned code points, line and paragraph separators.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_OTHER_MARKS: Final = dict.fromkeys(map(ord, "“”„‟\uff02"), "'")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Formats that Persian, Indic scripts and emoji cannot be written without."""


def neutral(text: str, *, limit: int | None = None, lines: bool = False) -> str:
    """`text` for one line of a terminal, or with `lines` for several, cut to `limit` characters."""
    cut = text if limit is None or len(text) <= limit else text[: limit - 1] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(character if _shown(character, lines=lines) else _escape(character) for character in cut)


def _shown(character: str, *, lines: bool) -> bool:
    if character in "\n\t":
        return lines
    return character in _JOINERS or unicodedata.category(character) not in _HIDDEN


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def quotable(text: str) -> str:
    """Words of an app's own on one line, which can neither end the “quotation” around them nor hide anything."""
    shown = "".join(_escape(character) if character in _JOINERS else character for character in neutral(text))
    return shown.translate(_OTHER_MARKS)
