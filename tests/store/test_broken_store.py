"""Once the store cannot be used, nobody gets anything of it but that word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from runtime_actors.store import files
from runtime_actors.store.messages import Copy, ExportAudit, Run
from tests.store.bench import Bench, a_bench, is_rejected, note

Done = Callable[[object], None]

ORDERS: Final[dict[str, Callable[[Path, Done], object]]] = {
    "command": lambda _, done: Run(note, "late", done),
    "copy": lambda path, done: Copy(str(path), done),
    "export": lambda path, done: ExportAudit(str(path), 0, done),
}


def break_store(bench: Bench) -> None:
    """Its database is taken away."""
    (bench.state / files.DATABASE).rename(bench.state / "elsewhere")
    assert is_rejected(bench.ask(note, "the first that meets it"), "store_unavailable")
    assert len(bench.unusable) == 1


@pytest.mark.parametrize("kind", ORDERS)
def test_whatever_is_asked_is_refused_and_changes_nothing(tmp_path: Path, kind: str) -> None:
    outcomes: list[object] = []
    with a_bench(tmp_path / "state") as bench:
        break_store(bench)
        entries = bench.row("select count(*) from audit")

        bench.send(ORDERS[kind](tmp_path / "out", outcomes.append))
        bench.handle()

        assert [is_rejected(one, "store_unavailable") for one in outcomes] == [True]
        assert bench.row("select count(*) from audit") == entries
        assert not (tmp_path / "out").exists()
        assert len(bench.unusable) == 1
