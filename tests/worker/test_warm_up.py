"""What the zygote lives through before the first fork is a whole life, and leaves nothing behind."""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path

import psutil
import pytest

from miniapp_worker import layers, warm_up

ROOT = Path(__file__).parents[2]
OF_ITSELF = ("Name", "Uid", "Gid", "Groups", "NSsid", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing confines")


def plan() -> layers.Plan | None:
    return layers.plan(ROOT) if sys.platform == "linux" else None


def test_nothing_stays_open_and_no_thread_is_left() -> None:
    process = psutil.Process()
    made = plan()
    before = process.num_fds(), threading.active_count(), sys.stdout, Path.cwd(), sorted(sys.modules)

    warm_up.warm_up(made, lives=2)

    after = process.num_fds(), threading.active_count(), sys.stdout, Path.cwd(), sorted(sys.modules)
    assert after == before


@on_linux
def test_the_kernel_takes_nothing_from_a_process_that_rehearses() -> None:
    made = plan()
    before = seen_by_kernel()

    warm_up.warm_up(made, lives=1)

    assert seen_by_kernel() == before


@on_linux
def test_every_step_of_a_confinement_is_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[layers.Applied] = []
    confine = layers.confine

    def noted(*arguments: object, **more: object) -> layers.Applied:
        taken.append(confine(*arguments, **more))  # type: ignore[arg-type]
        return taken[-1]

    monkeypatch.setattr(layers, "confine", noted)
    made = plan()
    assert made is not None

    warm_up.warm_up(made, lives=1)

    assert [(one.own_uid, one.landlock_abi > 0, one.filters) for one in taken] == [(True, True, 1)]


def test_every_call_of_a_life_is_served_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    answer = warm_up._Runtime._receipt

    def noted(runtime: warm_up._Runtime, request_id: str, status: str) -> None:
        said.append(status)
        answer(runtime, request_id, status)  # type: ignore[arg-type]

    monkeypatch.setattr(warm_up._Runtime, "_receipt", noted)

    warm_up.warm_up(None, lives=1)

    assert said == ["running", "running", "completed"] * warm_up._CALLS


def test_a_life_that_does_not_end_as_it_should_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("raise ValueError", encoding="utf-8")
    order = warm_up._ORDER | {"spec": {**warm_up._ORDER["spec"], "app_folder": str(tmp_path)}}  # type: ignore[dict-item]
    monkeypatch.setattr(warm_up, "_ORDER", order)

    with pytest.raises(RuntimeError, match="ended with 3"):
        warm_up.warm_up(None, lives=1)


def seen_by_kernel() -> tuple[object, ...]:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    status = [line for line in lines if line.partition(":")[0] in OF_ITSELF]
    limits = [resource.getrlimit(one) for one in range(16)]
    spaces = {one.name: one.stat().st_ino for one in Path("/proc/self/ns").iterdir()}
    mask = os.umask(0o077)
    os.umask(mask)
    return status, limits, spaces, mask, os.getsid(0), Path("/proc/self/mountinfo").read_text(encoding="utf-8")
