from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Final

import pytest

from miniapp_worker import landlock, seccomp
from tests.isolation.places import ROOT

_LIMIT_S: Final = 60
_BARE: Final = ("namespaces", "uid")
_OUTER: Final = (*_BARE, "landlock")

TRIES: Final[tuple[dict[str, Any], ...]] = (
    {"name": "full"},
    {"name": "sealed", "without": _BARE},
    {"name": "oldest", "without": _BARE, "abi": 1},
    {"name": "canaries", "scenario": "check"},
    {"name": "canaries without filters", "scenario": "check", "without": ("filter", "seal")},
    {"name": "canaries without landlock", "scenario": "check", "without": (*_BARE, "landlock")},
    {"name": "canaries without seal", "scenario": "check", "without": ("seal",)},
    {"name": "work", "scenario": "work"},
    {"name": "work sealed", "scenario": "work", "without": _BARE},
    {"name": "bombs", "scenario": "bombs"},
    {"name": "bombs without limits", "scenario": "bombs", "without": ("limits",)},
    {"name": "foreign", "scenario": "foreign"},
    {"name": "every thread", "scenario": "every_thread"},
    {"name": "status", "scenario": "status", "without": (*_BARE, "landlock")},
    {"name": "tied", "scenario": "tied", "without": ("filter", "seal")},
    {"name": "without descriptors", "without": ("descriptors",)},
    {"name": "without namespaces", "without": ("namespaces",)},
    {"name": "without landlock", "without": _OUTER},
    {"name": "without seal", "without": (*_BARE, "seal")},
    {"name": "without filters", "without": (*_BARE, "filter", "seal")},
    {"name": "without filters, oldest", "without": (*_BARE, "filter", "seal"), "abi": 1},
    {"name": "only namespaces", "without": ("landlock", "filter", "seal")},
    {"name": "only uid", "without": ("namespaces", "landlock", "filter", "seal")},
    {"name": "only capabilities", "without": (*_OUTER, "filter", "seal")},
    {"name": "only capabilities, open daemon", "without": (*_OUTER, "filter", "seal"), "daemon_is_dumpable": True},
    {"name": "only descriptors", "without": (*_OUTER, "filter", "seal", "capabilities")},
)

needs_confinement = pytest.mark.skipif(
    not (landlock.kernel_abi() and seccomp.is_available()), reason="this kernel cannot confine a worker"
)


@dataclass(frozen=True)
class Place:
    """What happened to each of `TRIES` in one place."""

    name: str
    report: dict[str, Any]

    def heard(self, name: str) -> Any:  # noqa: ANN401 - JSON, a shape for each scenario
        """What the child of that name reported."""
        assert "heard" in self.report[name], self.report[name]
        return self.report[name]["heard"]


@functools.cache
def _tried(place: str) -> Place:
    ran = subprocess.run(
        [sys.executable, "-I", str(ROOT / "tests/isolation/jail.py")],
        input=json.dumps({"place": place, "tries": TRIES}),
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        env={"SECRET": "of the daemon"},
    )
    assert ran.returncode == 0, ran.stderr
    return Place(place, json.loads(ran.stdout))


def _needs(place: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(place != "user" and os.getuid() != 0, reason="only root can play root")


PLACES: Final = [
    pytest.param(name, marks=[_needs(name), pytest.mark.xdist_group(f"isolation-{name}"), needs_confinement])
    for name in ("root", "user", "container")
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Place:
    return _tried(request.param)


@pytest.fixture(params=PLACES[:1])
def at_root(request: pytest.FixtureRequest) -> Place:
    return _tried(request.param)
