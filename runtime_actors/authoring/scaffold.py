"""`lineup new`: a running MiniApp to begin with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

import miniapps
from runtime_actors import registry
from runtime_actors.contract.base import AppScope
from runtime_actors.rules.registration import RUNTIME_NAMES, RegisteredApp, plain_title, shown_title

_PACKAGED: Final = Path(miniapps.__file__).parent
EXAMPLE: Final = Path(__file__).with_name("example")
FILES: Final = ("manifest.json", "app.py", "README.md", "scenario.jsonl", "tests/test_app.py")
_SCOPE: Final = TypeAdapter[str](AppScope)
_NAME: Final = re.compile(r"\bexample\b")
_TITLE: Final = re.compile(r"\bExample\b")


class CannotMake(Exception):
    """Nothing was written: says why, for a person."""


def make(folder: Path) -> list[Path]:
    """Write the example app into `folder`, under its name; the files.

    Raises:
        CannotMake: The name is no `app_scope`, or no name for an app; or the folder is not empty.
        OSError: It cannot be written.

    """
    scope = folder.absolute().name
    try:
        _SCOPE.validate_python(scope)
    except ValidationError:
        raise CannotMake(
            f"{scope!r} cannot be the app's name: a-z, 0-9 and -, beginning with a letter, at most 64 characters;"
            f" {_proposal(scope)}"
        ) from None
    if any(name in plain_title(scope) for name in RUNTIME_NAMES):
        raise CannotMake(f"{scope!r} names the runtime, and hosts would show it as the app's title; {_proposal(scope)}")
    title = scope.replace("-", " ").strip().capitalize()
    if any(
        {app.manifest.app_scope, plain_title(shown_title(app))} & {scope, plain_title(title)} for app in _packaged()
    ):
        raise CannotMake(f"{scope!r} is the name of a packaged app; try {f'my-{scope}'[:64]!r}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CannotMake(f"{folder} is there already and not empty; nothing was changed")
    written = []
    for name in FILES:
        text = (EXAMPLE / name).read_text(encoding="utf-8")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_TITLE.sub(title, _NAME.sub(scope, text)), encoding="utf-8")
        target.chmod(0o644)  # workers may have a uid of their own
        written.append(target)
    for made in (folder, folder / "tests"):
        made.chmod(0o755)
    return written


def _packaged() -> list[RegisteredApp]:
    return [registry.read_app(path.parent, packaged=True) for path in sorted(_PACKAGED.glob(f"*/{registry.MANIFEST}"))]


def _proposal(scope: str) -> str:
    tried = re.sub("|".join(RUNTIME_NAMES), "-", scope.lower())
    tried = re.sub(r"[^a-z0-9]+", "-", tried).strip("-")
    if any(name in plain_title(tried) for name in RUNTIME_NAMES):  # spelled with hyphens in it
        tried = ""
    tried = tried if tried[:1].isalpha() else f"app-{tried}".rstrip("-")
    return f"try {tried[:64]!r}"
