"""Confinement is no use if nothing works in it: what a MiniApp may count on."""

from __future__ import annotations

import pytest

from tests.isolation.conftest import Place


@pytest.mark.parametrize("name", ["work", "work sealed"])
def test_channel_threads_loops_and_late_imports_work(place: Place, name: str) -> None:
    done = place.heard(name)

    refused = done.pop("refused")
    assert all(done.values()), done
    assert set(done) == {
        "handshake", "sealed", "large", "round_trips", "threads", "event_loop", "sqlite", "zone", "own_app", "bye",
    }  # fmt: skip
    assert refused == {
        "subprocess": "PermissionError",
        "temporary_file": refused["temporary_file"],  # which of its candidates fails last depends on the place
        "connection": "PermissionError",
        "name": "gaierror",
        "make_folder": "PermissionError",
    }
    assert refused["temporary_file"] in {"PermissionError", "FileNotFoundError"}
    assert place.report[name]["ended"] == 0
