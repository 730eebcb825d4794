"""Run by `test_full_disk.py` in a process of its own: fills a disk, or limits its files, and prints what the store did.

`full_disk.py WAY FOLDER`: WAY is `tmpfs` (a small one in a mount namespace of this process; exit code 77 where that is
not allowed) or `limit` (RLIMIT_FSIZE on the files of this process). One JSON object a line.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from runtime_actors.contract.rejection import Rejection
from runtime_actors.errors import StoreUnusable
from runtime_actors.records.transaction import Transaction
from runtime_actors.store import files
from tests.store.bench import Bench, a_bench, admit_call, complete_call, note, run_call

NOT_ALLOWED: Final = 77
PAGE: Final = 4096
MOST: Final = 28
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18


def main(way: str, folder: Path) -> None:
    if way == "tmpfs":
        mount_small_disk(folder)
    template = folder / "template"
    with a_bench(template) as bench:
        reporter = run_call(bench)
        # As a crash leaves it: the calls that follow begin in the middle of a log.
        shutil.copytree(template, folder / "crashed", ignore=shutil.ignore_patterns(files.BALLAST))
    shutil.rmtree(template)
    for scenario in ("ballast", "no-ballast", "crash"):
        for room in range(MOST):
            in_child(partial(once, way, folder, scenario, room, reporter))
            report(scenario=scenario, room=room, step="reopened", **reopened(folder / "s"))
            shutil.rmtree(folder / "s")
    in_child(partial(large_writes, way, folder))
    if way == "tmpfs":
        for ballast in (True, False):
            shutil.rmtree(folder / "s")
            in_child(partial(opened_full, folder, reporter, ballast=ballast))


def once(way: str, folder: Path, scenario: str, room: int, reporter: Any) -> None:  # noqa: ANN401
    """A new call and the end of a running one, with space for `room` pages."""
    state = folder / "s"
    shutil.copytree(folder / "crashed", state)
    with a_bench(state) as bench:
        if scenario == "no-ballast":
            bench.actor._space.note_full()
        with limited(way, state, room):
            before = bench.digest()
            admitted = told(admit_call(bench, "c2"))
            same = bench.digest() == before
            finished = told(complete_call(bench, reporter))
            seen = {"full": bench.actor.full, "same": same, "status": bench.status()}
        report(scenario=scenario, room=room, step="limited", admitted=admitted, finished=finished, **seen)
        if scenario == "crash":
            os._exit(0)
        space_returns(bench)
        report(
            scenario=scenario, room=room, step="again", admitted=told(admit_call(bench, "c2")),
            finished=told(complete_call(bench, reporter)), full=bench.actor.full, holds=bench.walked() == bench.end(),
            unusable=bench.unusable,
        )  # fmt: skip
        os._exit(0)  # as if killed


def large_writes(way: str, folder: Path) -> None:
    """A command whose pages do not fit into memory meets the full disk in its own statements, not at the COMMIT."""

    def write_much(tx: Transaction, megabytes: int) -> str:
        for _ in range(megabytes):
            tx.sql.execute("insert into set_aside values (null, 'a', ?, '', '')", ("x" * 1_000_000,))
        return "written"

    state = folder / "s"
    shutil.copytree(folder / "crashed", state)
    with a_bench(state) as bench:
        with limited(way, state, 20):
            bench.tell(note, "before")
            bench.tell(write_much, 8)
            bench.tell(note, "after")
            outcomes = [told(outcome) for outcome in bench.handle()]
            rows = bench.row("select count(*) from set_aside")[0]
        space_returns(bench)
        small = told(bench.ask(write_much, 1))
        holds = bench.walked() == bench.end()
        report(step="large", outcomes=outcomes, rows=rows, small=small, holds=holds, unusable=bench.unusable)
        os._exit(0)


def opened_full(folder: Path, reporter: Any, *, ballast: bool) -> None:  # noqa: ANN401
    """A daemon starts on a disk without a free page."""
    state = folder / "s"
    shutil.copytree(folder / "crashed", state)
    if ballast:
        files.Ballast(state).restore()
    with limited("tmpfs", state, 0):
        try:
            with a_bench(state) as bench:
                report(
                    step="opened", ballast=ballast, admitted=told(admit_call(bench, "c2")),
                    finished=told(complete_call(bench, reporter)), full=bench.actor.full, unusable=bench.unusable,
                )  # fmt: skip
        except StoreUnusable as error:
            report(step="opened", ballast=ballast, refused=str(error))
    report(step="reopened", ballast=ballast, **reopened(state))


def space_returns(bench: Bench) -> None:
    bench.actor._space._probed = 0.0  # a second has passed


def reopened(state: Path) -> dict[str, Any]:
    """What the next daemon finds."""
    with a_bench(state) as bench:
        return {
            "holds": bench.walked() == bench.end() == bench.opened.side.read(),
            "c1": bench.status("c1"),
            "c2": bench.status("c2"),
            "results": bench.row("select count(*) from outbox where kind = 'lineup.v1.tool.result'")[0],
            "ended": bench.row("select count(*) from audit where event = 'call.ended'")[0],
            "counted": bench.row("select cast(total(open_calls) as integer) from agents")[0],
        }


def told(outcome: object) -> str:
    return str(outcome.code) if isinstance(outcome, Rejection) else "done"


def report(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def limited(way: str, state: Path, room: int) -> Iterator[None]:
    """Leave space for so many pages."""
    if way == "limit":
        kept = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (state / files.WAL).stat().st_size + room * PAGE
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, kept[1]))
        yield
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        return
    filler = state.parent / "filler"
    disk = os.statvfs(state)
    with filler.open("wb", buffering=0) as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_frsize - room * PAGE)))
    yield
    filler.unlink()


def in_child(run: Callable[[], None]) -> None:
    """Run it in a child, which ends without closing anything."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except BaseException:  # noqa: BLE001 - a child must not go on as its parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"a child ended with status {status}")


def mount_small_disk(folder: Path) -> None:
    """A disk of 16 MiB that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    flags = _CLONE_NEWNS | (_CLONE_NEWUSER if uid else 0)
    if libc.unshare(flags) != 0:
        not_allowed("unshare")
    try:
        if uid:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
            Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError:
        not_allowed("uid_map")
    if libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        not_allowed("mount")
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=16m,mode=700") != 0:
        not_allowed("mount")


def not_allowed(what: str) -> None:
    sys.stdout.write(f"{what}: {os.strerror(ctypes.get_errno())}\n")
    sys.stdout.flush()
    os._exit(NOT_ALLOWED)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
