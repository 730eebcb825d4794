"""Where it is measured: a temporary folder on a disk, processes that end with this one, and a daemon of its own."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import psutil

from runtime_actors.client import DoorClient, door_of

APPS: Final = Path(__file__).with_name("apps")
LINEUP: Final = ("-m", "runtime_actors")
_READY_S: Final = 120.0
_STOP_S: Final = 30.0
_ORDER_S: Final = 60.0
_LOG_LINES: Final = 15
_NEEDED_BYTES: Final = 4 * 2**30
_NEEDED_QUICK_BYTES: Final = 2**30
_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_TIED: Final = """\
import ctypes, os, sys
if hasattr(libc := ctypes.CDLL(None), "prctl"):  # of Linux
    libc.prctl(1, 15, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGTERM
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


class BenchFailed(Exception):
    """It cannot be measured here: says why, for a person."""


def tied(arguments: Sequence[str], **more: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - as Popen takes them
    """Run this Python with `arguments`; however this process ends, that one gets SIGTERM.

    It is in a process group of its own: a terminal's Ctrl-C does not reach it before what depends on it was ended. It
    is in the same session, because Linux shares a busy machine out among sessions (sched(7), autogroup).
    """
    command = [sys.executable, "-c", _TIED, str(os.getpid()), *arguments]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, **more)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL if that does not help."""
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextlib.contextmanager
def ground(wanted: Path | None, *, quick: bool) -> Iterator[Path]:
    """A new folder on a disk that is large enough; gone afterwards.

    Raises:
        BenchFailed: There is no such disk.

    """
    candidates = [wanted] if wanted is not None else [Path(tempfile.gettempdir()), Path("/var/tmp")]  # noqa: S108
    on_disk = [one for one in candidates if one.is_dir() and _file_system(one) not in _IN_MEMORY]
    if not on_disk:
        tried = " and ".join(map(str, candidates))
        raise BenchFailed(f"{tried}: in memory a commit costs nothing; name a folder on a disk with --folder")
    needed = _NEEDED_QUICK_BYTES if quick else _NEEDED_BYTES
    if shutil.disk_usage(on_disk[0]).free < needed:
        raise BenchFailed(f"{on_disk[0]}: less than {needed >> 30} GiB are free; name another folder with --folder")
    folder = Path(tempfile.mkdtemp(prefix="lineup-bench-", dir=on_disk[0]))
    try:
        shutil.copytree(APPS, folder / "apps", ignore=shutil.ignore_patterns("__pycache__"))
        for path in (folder, folder / "apps", *(folder / "apps").rglob("*")):  # workers may have a uid of their own
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _file_system(folder: Path) -> str:
    """The type of file system that a folder is on (proc(5), mountinfo): of the longest mount point above it."""
    real, found = folder.resolve(), (0, "")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        if real.is_relative_to(point):
            found = max(found, (len(point), after.split()[0]))
    return found[1]


class Daemon:
    """`lineup run` on a state folder, started, killed and started again."""

    def __init__(
        self, state: Path, *, apps: Path | None = None, entry: Sequence[str] = LINEUP, options: Sequence[str] = ()
    ) -> None:
        """Serve the apps in `apps`, or those that lie beside the state folder."""
        self.state = state
        self._log = state.with_name(f"{state.name}.log")
        self._command = (*entry, "run", f"--state={state}", f"--apps={apps or state.parent / 'apps'}", *options)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None  # noqa: S101 - it was started
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """Processor time that it used so far, without its workers."""
        spent = psutil.Process(self.pid).cpu_times()
        return float(spent.user + spent.system)

    def start(self) -> None:
        """Return once it serves.

        Raises:
            BenchFailed: It ended instead, or is not ready in time.

        """
        with self._log.open("ab") as log:
            self._process = tied(self._command, stdout=subprocess.PIPE, stderr=log)
        output = self._process.stdout
        assert output is not None  # noqa: S101 - as asked for
        if not select.select([output], [], [], _READY_S)[0] or not output.readline().startswith(b"ready"):
            self.stop()
            last = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
            raise BenchFailed("\n".join(["the daemon that is to be measured did not start:", *last]))

    def stop(self) -> None:
        """End it cleanly; nothing if it was not started."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self.stop()

    def rows(self, what: str, **wanted: object) -> list[dict[str, Any]]:
        """The first 200 of a listing."""
        with DoorClient(door_of(self.state, "control")) as door:
            query = {"what": what, "filter": wanted, "limit": 200}
            _, answer = door.request("lineup.v1.control.query", query, timeout_s=_ORDER_S)
            return list(answer["rows"])
