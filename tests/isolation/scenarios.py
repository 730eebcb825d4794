"""What a confined child does: attack, or work as a MiniApp does. Returns what it reports, as JSON."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from miniapp_worker import canaries
from tests.isolation import attacks

Seal = Callable[[], int]
LIMIT_MS: Final = 10_000


def matrix(decoys: attacks.Decoys, _: Path, seal: Seal) -> object:
    """Every attack: `open`, or the name of the errno."""
    seal()
    return {name: outcome(attack, decoys) for name, attack in attacks.ALL.items()}


def outcome(attack: attacks.Attack, decoys: attacks.Decoys) -> str:
    try:
        attack(decoys)
    except OSError as refused:
        return errno.errorcode.get(refused.errno or 0, type(refused).__name__)
    return "open"


def check(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """The worker's own canaries."""
    seal()
    return {found.name: [errno.errorcode.get(found.got, "open"), found.ok] for found in canaries.run()}


def status(_: attacks.Decoys, __: Path, seal: Seal) -> object:
    """What the kernel says about itself, where /proc can be seen."""
    seal()
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


ALL: Final[dict[str, Callable[[attacks.Decoys, Path, Seal], object]]] = {
    "matrix": matrix,
    "check": check,
    "status": status,
}


@contextlib.contextmanager
def runtime(scenario: str, path: Path) -> Iterator[Callable[[], None]]:
    """The other end, where the scenario needs one. What it gives is called once the child is forked."""
    yield lambda: None
