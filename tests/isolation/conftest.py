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
from runtime_actors.doctor.apps.intruder import attempts
from tests.isolation.places import ROOT

_LIMIT_S: Final = 60
_BARE: Final = ("namespaces", "uid")
_LAYERS: Final = (*_BARE, "landlock", "filter", "seal")
_ALONE: Final[dict[str, Any]] = {"without": (*_LAYERS, "capabilities"), "daemon_is_dumpable": True}


def _alone(layer: str) -> dict[str, Any]:
    return _ALONE | {"without": tuple(other for other in _ALONE["without"] if other != layer)}


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
    *({"name": name, "scenario": name} for name in sorted(attempts.DEADLY)),
    {"name": "every thread", "scenario": "every_thread"},
    {"name": "status", "scenario": "status", "without": (*_BARE, "landlock")},
    {"name": "tied", "scenario": "tied", "without": ("filter", "seal")},
    {"name": "without descriptors", "without": ("descriptors",)},
    {"name": "nothing", **_ALONE},
    *({"name": f"only {layer}"} | _alone(layer) for layer in (*_LAYERS, "capabilities")),
    *({"name": f"only landlock {abi}", "abi": abi} | _alone("landlock") for abi in (1, 3, 4)),
    {"name": "only a hidden daemon"} | _alone("capabilities") | {"daemon_is_dumpable": False},
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
