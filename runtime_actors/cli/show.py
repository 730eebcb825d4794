"""How rows and sentences are shown: JSON for scripts, and for people text that apps and agents cannot abuse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime_actors.contract.base import JsonObject
from runtime_actors.rules.text import neutral

_CELL: Final = 200
"""The most characters of a value that a table shows."""
_NO_TERMINAL_WIDTH: Final = 250


def say(sentence: str) -> None:
    """One sentence to a person, on stderr."""
    click.echo(f"lineup: {sentence}" if not sentence.startswith(" ") else sentence, err=True)


def show_json(row: JsonObject) -> None:
    """One JSON object on a line of its own, in ASCII, which no terminal takes for a command."""
    click.echo(json.dumps(row))


def show_rows(rows: Iterable[JsonObject], columns: Sequence[str], *, as_json: bool) -> int:
    """A table with the columns that any row has, or one JSON object a line; 0."""
    if as_json:
        for row in rows:
            show_json(row)
        return 0
    found = list(rows)
    shown = [name for name in columns if any(row.get(name) is not None for row in found)]
    if not found:
        say("nothing to show")
        return 0
    table = Table(box=None, pad_edge=False)
    for name in shown:
        table.add_column(name, overflow="fold")
    for row in found:
        table.add_row(*(Text(as_cell(row.get(name))) for name in shown))
    console().print(table)
    return 0


def show_pairs(row: JsonObject) -> None:
    """Every member of one row, a line each."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in row.items():
        table.add_row(Text(neutral(name)), Text(as_cell(value, limit=None)))
    console().print(table)


def as_cell(value: object, limit: int | None = _CELL) -> str:
    """A JSON value as harmless text on one line."""
    if value is None:
        return "-"
    return neutral(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), limit=limit)


def console() -> Console:
    """Where tables go; without a terminal lines are not wrapped to 80 columns."""
    one = Console(highlight=False, markup=False, emoji=False)
    if not one.is_terminal:
        one.width = _NO_TERMINAL_WIDTH
    return one
