"""Plays daemon and zygote for the tests: a clean program of one thread that confines forked children and lets them try.

    python -I jail.py < {"place": ..., "tries": [{"name", "scenario", "without", "abi", "daemon_is_dumpable"}]}

Prints one JSON map: what the place allows, and under each name what its child reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).resolve().parent.parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from miniapp_worker import canaries, confine, layers, prctl, privileges, spawned  # noqa: E402, F401 - as a zygote
from runtime_actors.doctor import decoys as doctor  # noqa: E402
from runtime_actors.doctor.apps.intruder.attempts.decoys import Decoys  # noqa: E402
from runtime_actors.supervisor.measured import read_kernel  # noqa: E402
from tests.isolation import places, scenarios  # noqa: E402

LIMIT_S: Final = 30.0
_MARK: Final = ctypes.create_string_buffer(b"secret!!", 8)
_LIMITS: Final = confine.Limits(
    memory_bytes=256 * 2**20, address_space_bytes=2**30, cpu_s=60, open_files=64, threads=16
)


@dataclass(frozen=True)
class Try:
    """One child: what is left out of its confinement, and what it does then."""

    name: str
    scenario: str = "matrix"
    without: frozenset[str] = frozenset()
    abi: int | None = None
    daemon_is_dumpable: bool = False

    @classmethod
    def parse(cls, given: dict[str, Any]) -> Try:
        return cls(**(given | {"without": frozenset(given.get("without", ()))}))


def main() -> None:
    asked = json.load(sys.stdin)
    places.enter(asked["place"])
    os.environ["SECRET"] = "of the daemon"
    made = layers.plan(ROOT)
    report: dict[str, Any] = {"plan": {"way": made.way and asdict(made.way), "uids": made.uids and asdict(made.uids)}}
    daemon = read_kernel(os.getpid())
    report["daemon"] = daemon and asdict(daemon)
    with _decoys() as (decoys, folder):
        for one in (Try.parse(given) for given in asked["tries"]):
            report[one.name] = _run(made, one, decoys, folder)
    print(json.dumps(report))  # noqa: T201 - that is its answer


def _run(made: layers.Plan, one: Try, decoys: Decoys, folder: Path) -> object:
    victims = [_victim(dumpable=one.daemon_is_dumpable) for _ in range(2)]
    plan_ = made if one.abi is None else replace(made, landlock_abi=min(one.abi, made.landlock_abi))
    report_end, child_end = os.pipe()
    gate, gate_key = os.pipe()
    path = folder / "run" / os.urandom(8).hex()
    aimed = replace(
        decoys,
        victim=victims[0],
        victim_address=ctypes.addressof(_MARK),  # a fork has it at the same place
        sigio_victim=victims[1],
        own_door=str(path),
    )
    child = os.fork()
    if child == 0:
        os.close(gate_key)
        os.read(gate, 1)
        _be_worker(plan_, one, aimed, path, (child_end, gate))
    for end in (child_end, gate):
        os.close(end)
    with scenarios.runtime(one.scenario, path, for_others=made.uids is not None) as serve:
        os.write(gate_key, b"g")
        serve()
        answer = _read_all(report_end)
        kernel = read_kernel(child)  # as the daemon of this place sees it
        os.close(gate_key)
        _, status = os.waitpid(child, 0)
    sigio_alive = os.waitpid(victims[1], os.WNOHANG)[0] == 0
    for victim in victims[: 1 + sigio_alive]:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
    heard = json.loads(answer) if answer else {}
    seen = {"kernel": kernel and asdict(kernel)}
    return heard | seen | {"ended": os.waitstatus_to_exitcode(status), "sigio_victim_lives": sigio_alive}


def _be_worker(made: layers.Plan, one: Try, decoys: Decoys, path: Path, kept: tuple[int, int]) -> NoReturn:
    daemon = os.getppid()
    report_end, gate = kept
    code = 1
    try:
        without = frozenset(layers.Layer(name) for name in one.without if name in set(layers.Layer))
        if "descriptors" not in one.without:
            confine.take_descriptors(2, kept)
            report_end, gate = confine.FIRST_KEPT_FD, confine.FIRST_KEPT_FD + 1
        limits = _LIMITS if "limits" not in one.without else replace(_LIMITS, memory_bytes=2**33)
        os.environ.clear()
        confine.confine(limits)
        applied = layers.confine(
            made,
            app_folder=Path(decoys.apps, "own"),
            socket_path=path,
            uid=made.uids.first if made.uids else None,
            threads=_LIMITS.threads,
            stay_tied=lambda: prctl.die_with_parent(daemon),
            without=without,
        )
        seal = (lambda: 0) if layers.Layer.SEAL in without else (lambda: layers.seal(made))
        heard = scenarios.ALL[one.scenario](decoys, path, seal)
        state = {"namespaces": sorted(applied.namespaces), "own_uid": applied.own_uid, "abi": applied.landlock_abi}
        os.write(report_end, json.dumps({"applied": state, "heard": heard}).encode())
        os.close(report_end)
        os.read(gate, 1)
        code = 0
    except BaseException as error:
        os.write(report_end, json.dumps({"error": repr(error), "errno": getattr(error, "errno", None)}).encode())
        raise
    finally:
        os._exit(code)


def _victim(*, dumpable: bool) -> int:
    child = os.fork()
    if child == 0:
        os.setsid()
        privileges.set_dumpable(dumpable=dumpable)
        while True:
            signal.pause()
    return child


def _read_all(descriptor: int) -> bytes:
    heard = b""
    with open(descriptor, "rb", buffering=0) as file:
        while select.select([file], [], [], LIMIT_S)[0]:
            piece = file.read(65536)
            if not piece:
                return heard
            heard += piece
    raise TimeoutError("the child said nothing")


@contextlib.contextmanager
def _decoys() -> Iterator[tuple[Decoys, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="isolation-"))
    try:
        for name in ("apps/own", "apps/sibling", "run"):
            (folder / name).mkdir(parents=True)
            (folder / name).chmod(0o755)
        (folder / "apps/sibling/app.py").write_text("a secret of another app", encoding="ascii")
        (folder / "apps/own/app.py").write_text("VALUE = 7\n", encoding="ascii")
        with doctor.laid(folder, own_app="own", sibling="sibling") as laid:
            yield laid.decoys, folder
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
