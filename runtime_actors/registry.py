"""Reads MiniApp folders: which may be registered, and what is wrong with the others."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import miniapps
from runtime_actors.contract import codec
from runtime_actors.errors import AppRefused
from runtime_actors.rules import inventory
from runtime_actors.rules.inventory import Catalogue
from runtime_actors.rules.registration import RegisteredApp, register, shown_title, without_namesakes, without_twins

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)

MANIFEST: Final = "manifest.json"
MAX_MANIFEST_BYTES: Final = 1024 * 1024


def read_app(folder: Path, *, packaged: bool = False) -> RegisteredApp:
    """Read and check one MiniApp.

    Raises:
        AppRefused: With everything that is wrong with it.

    """
    path = folder / MANIFEST
    try:
        if not path.is_file():  # a pipe would be waited for
            raise AppRefused(str(folder), [("", f"{MANIFEST} is missing, or no regular file")])
        with path.open("rb") as file:
            text = file.read(MAX_MANIFEST_BYTES + 1)
        if len(text) > MAX_MANIFEST_BYTES:
            raise AppRefused(str(folder), [("", f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES} bytes")])
        raw = json.loads(text, object_pairs_hook=_unique)
        codec.check({"manifest": raw})
    except OSError as error:
        raise AppRefused(str(folder), [("", f"{MANIFEST} cannot be read: {error.strerror}")]) from None
    except (ValueError, RecursionError) as error:
        raise AppRefused(str(folder), [("", f"{MANIFEST}: {error}")]) from None
    if not (folder / "app.py").is_file():
        raise AppRefused(str(folder), [("", "there is no app.py")])
    found = register(raw, str(folder.resolve()), packaged=packaged)
    if isinstance(found, RegisteredApp):
        return found
    raise AppRefused(str(folder), found)


def load(folders: Iterable[Path], *, state: Path | None = None) -> tuple[Catalogue, list[AppRefused]]:
    """The packaged apps and those in `folders`, each of which holds one MiniApp or has MiniApps as subfolders.

    A worker can read all of its app's folder: one that `state`, this user's home or this runtime lies in is refused.
    """
    secrets = [Path.home(), Path(miniapps.__file__).parent.parent, *([state] if state is not None else [])]
    apps, refused = [], []
    packaged = Path(miniapps.__file__).parent
    places = [(one, True) for one in _apps_in(packaged)] + [(one, False) for top in folders for one in _apps_in(top)]
    for folder, is_packaged in places:
        try:
            apps.append(_without(secrets, read_app(folder, packaged=is_packaged)))
        except AppRefused as error:
            refused.append(error)
    kept, twins = without_twins(apps)
    refused += [
        AppRefused(twin.folder, [("/app_scope", f"'{twin.manifest.app_scope}' is taken by another app")])
        for twin in twins
    ]
    kept, namesakes = without_namesakes(kept)
    refused += [
        AppRefused(
            one.folder, [("/extensions/title", f"'{shown_title(one)}' reads like the title of another app; choose one")]
        )
        for one in namesakes
    ]
    while (too_large := _overflow(kept)) is not None:
        kept.remove(too_large)
        refused.append(
            AppRefused(too_large.folder, [("/tools", "with its tools the inventory would not fit one frame")])
        )
    return Catalogue.of(kept), refused


def _without(secrets: Iterable[Path], app: RegisteredApp) -> RegisteredApp:
    inside = next((secret for secret in secrets if secret.resolve().is_relative_to(app.folder)), None)
    if inside is not None:
        raise AppRefused(app.folder, [("", f"{inside} lies in it, and the app could read all of that: move the app")])
    return app


def _apps_in(top: Path) -> list[Path]:
    if _is_app(top) or not top.is_dir():
        return [top]  # read_app says what is wrong
    found = sorted(one for one in top.iterdir() if one.is_dir() and _is_app(one))
    return found or [top]


def _is_app(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).exists()
    except PermissionError:  # somebody else's: none of ours
        return False


def _overflow(apps: list[RegisteredApp]) -> RegisteredApp | None:
    """The last app, if together they make an inventory that does not fit a frame with its envelope."""
    try:
        codec.encode(
            {"envelope": {"body": inventory.build(Catalogue.of(apps), frozenset()).wire.to_wire()}, "room": "x" * 1024}
        )
    except codec.IntakeError:
        return apps[-1]
    return None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        detail = "a key stands there twice"
        raise ValueError(detail)
    return found
