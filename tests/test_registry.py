"""Which MiniApp folders are taken, and which are left out for what lies in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime_actors import registry
from tests.e2e.made_apps import write_app


def taken(folders: list[Path], state: Path | None) -> tuple[set[str], list[str]]:
    """The scopes that were taken beyond the packaged ones, and the folders that were refused."""
    packaged = set(registry.load(())[0].apps)
    catalogue, refused = registry.load(folders, state=state)
    assert packaged <= set(catalogue.apps)
    return set(catalogue.apps) - packaged, [error.folder for error in refused]


@pytest.mark.parametrize("inside", [".", "state", "data/state"])
def test_an_app_in_whose_folder_the_state_lies_is_left_out_and_its_neighbour_is_taken(
    tmp_path: Path, inside: str
) -> None:
    exposing = write_app(tmp_path / "apps" / "exposing", "exposing")
    write_app(tmp_path / "apps" / "harmless", "harmless")

    found = taken([tmp_path / "apps"], exposing / inside)

    assert found == ({"harmless"}, [str(exposing.resolve())])


@pytest.mark.parametrize("state", ["apps", "apps/echo-state", "elsewhere", "."])
def test_an_app_beside_or_within_the_state_folder_is_taken(tmp_path: Path, state: str) -> None:
    write_app(tmp_path / "apps" / "echo", "echo")

    assert taken([tmp_path / "apps"], tmp_path / state) == ({"echo"}, [])


def test_it_is_the_real_place_of_the_state_that_counts(tmp_path: Path) -> None:
    exposing = write_app(tmp_path / "exposing", "exposing")
    (exposing / "state").mkdir()
    (tmp_path / "state").symlink_to(exposing / "state")

    assert taken([exposing], tmp_path / "state") == (set(), [str(exposing.resolve())])


def test_it_is_the_real_place_of_the_app_that_counts(tmp_path: Path) -> None:
    exposing = write_app(tmp_path / "real", "exposing")
    (tmp_path / "link").symlink_to(exposing)

    assert taken([tmp_path / "link"], exposing / "state") == (set(), [str(exposing.resolve())])


def test_without_a_state_folder_nothing_is_left_out(tmp_path: Path) -> None:
    app = write_app(tmp_path / "echo", "echo")

    assert taken([app], None) == ({"echo"}, [])


def test_a_manifest_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = write_app(tmp_path / "piped", "piped")
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")

    assert taken([folder], None) == (set(), [str(folder)])
