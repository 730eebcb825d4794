"""`lineup doctor`, for real, wherever a daemon may have been started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from runtime_actors.doctor.apps.intruder import attempts
from runtime_actors.doctor.decoys import Laid, laid
from runtime_actors.doctor.layers import Layer, standing_behind
from runtime_actors.doctor.traps import Traps
from tests.isolation.conftest import PLACES
from tests.isolation.places import ROOT

_LIMIT_S: Final = 60
_HERE: Final = frozenset(name for names in attempts.GROUPS.values() for name in names) - attempts.NOT_HERE


@dataclass(frozen=True)
class Examined:
    code: int
    found: dict[str, dict[str, Any]]
    verdict: dict[str, Any]


@cache
def examined(place: str, *options: str) -> Examined:
    """What the doctor says in a place, within its promised minute."""
    doctor = [sys.executable, "-m", "runtime_actors", "doctor", "--json", *options]
    command = [sys.executable, "-I", str(ROOT / "tests/isolation/places.py"), place, *doctor]
    ran = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=_LIMIT_S)
    assert ran.stderr == ""
    *rows, verdict = map(json.loads, ran.stdout.splitlines())
    return Examined(ran.returncode, {row.pop("attempt"): row for row in rows}, verdict)


@pytest.fixture(params=PLACES)
def place_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("options", [(), ("--landlock-abi=1",)])
def test_all_is_stopped_in_every_place(place_name: str, options: tuple[str, ...]) -> None:
    got = examined(place_name, *options)

    assert {name: row for name, row in got.found.items() if not row["ok"]} == {}
    level = "sealed" if place_name == "container" else "strong"
    assert got.verdict == {"level": level, "attempts": len(_HERE), "ok": True}
    assert got.code == 0
    assert set(got.found) == _HERE


def test_each_line_says_what_stopped_it(place_name: str) -> None:
    got = examined(place_name)

    for name, row in got.found.items():
        if row["outcome"] == "open":
            assert name in attempts.LOOK_UPS
            assert (row["errno"], row["stopped_by"]) == (None, [])
        else:
            assert row["outcome"] == ("capped" if name in attempts.BOMBS else "stopped")
            assert row["stopped_by"]
            assert set(row["stopped_by"]) <= set(Layer)


def test_without_landlock_the_doctor_fails_and_names_what_opened() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can play a container")

    got = examined("container", "--landlock-abi=0")

    assert got.code == 1
    assert got.verdict["level"] == "partial"
    assert not got.verdict["ok"]
    assert {"read_sibling", "read_accounts", "proc_list"} <= {
        name for name, row in got.found.items() if row["outcome"] == "open"
    }
    assert not attempts.BOMBS & set(got.found)


def test_where_nothing_confines_the_doctor_fails_and_harms_nothing() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can play a container")

    got = examined("bare")

    opened = {name for name, row in got.found.items() if row["outcome"] == "open"}
    assert got.code == 1
    assert got.verdict == {"level": "process", "attempts": len(_HERE - attempts.BOMBS), "ok": False}
    assert {"fork", "tcp", "read_sibling", "own_door_again", "memory_file", "exec"} <= opened
    assert not {"leaked_descriptor", "complete_call", "order_as_operator"} & opened


def test_the_page_has_a_row_for_each_attempt() -> None:
    checked = subprocess.run(
        [sys.executable, "scripts/isolation_table.py", "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_people_get_a_table_and_the_verdict_last() -> None:
    command = [sys.executable, "-m", "runtime_actors", "doctor", "--landlock-abi=0"]
    ran = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=_LIMIT_S)

    lines = ran.stdout.splitlines()
    assert ran.returncode == 1
    assert lines[-1].startswith("level partial: ")
    assert all(any(line.startswith(group) for line in lines) for group in attempts.GROUPS if group != "resources")
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_doctor_leaves_nothing_behind(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="lu-") as short:
        command = [sys.executable, "-m", "runtime_actors", "doctor", "--json"]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": short}
        ) as doctor:
            assert doctor.stdout is not None
            doctor.stdout.readline()
            family = psutil.Process(doctor.pid).children(recursive=True)
            doctor.send_signal(number)
            _, errors = doctor.communicate(timeout=_LIMIT_S)

        assert doctor.returncode == 130
        assert errors == b""
        assert len(family) >= 4  # two victims, a daemon and its zygote
        assert psutil.wait_procs(family, timeout=5)[1] == []
        assert list(Path(short).iterdir()) == []


# --- the second witness


@dataclass(frozen=True)
class Trapped:
    laid: Laid
    traps: Traps


@pytest.fixture
def trapped() -> Iterator[Trapped]:
    with tempfile.TemporaryDirectory(prefix="lu-") as folder:
        for app in ("intruder", "sibling"):
            (Path(folder) / "apps" / app).mkdir(parents=True)
            (Path(folder) / "apps" / app / "app.py").touch()
        with laid(Path(folder), own_app="intruder", sibling="sibling") as made, Traps(made, Path(folder)) as traps:
            yield Trapped(made, traps)


def test_untouched_traps_are_quiet(trapped: Trapped) -> None:
    assert not trapped.traps.sprung()
    assert not trapped.traps.log_is_kept()


_SEEN_FROM_OUTSIDE: Final = """
connect_door connect_control connect_abstract tcp udp datagram_to_path change_mode change_times move_sibling
write_own_app write_file link_store kill_by_data change_limits priority processors
"""


def _by_attempt(name: str) -> Callable[[Trapped], object]:
    def act(trapped: Trapped) -> None:
        one, other = trapped.traps.victims
        attempts.ALL[name](
            replace(trapped.laid.decoys, victim=one.pid, victim_address=one.address, sigio_victim=other.pid)
        )

    return act


@pytest.mark.parametrize("name", _SEEN_FROM_OUTSIDE.split())
def test_an_attempt_that_succeeds_springs_a_trap_once(trapped: Trapped, name: str) -> None:
    _by_attempt(name)(trapped)

    assert trapped.traps.sprung()
    assert not trapped.traps.sprung()


def test_a_refusal_that_no_layer_in_force_explains_is_credited_to_none() -> None:
    in_force = {Layer.FILTER, Layer.LANDLOCK}

    assert standing_behind("read_store", "EACCES", in_force) == [Layer.LANDLOCK]
    assert standing_behind("read_store", "ENOENT", in_force) == []
    assert standing_behind("tcp", "ECONNREFUSED", in_force) == []
    assert standing_behind("write_store", "EACCES", in_force) == [Layer.FILTER, Layer.LANDLOCK]
