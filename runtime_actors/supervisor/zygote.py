"""The daemon's end of the zygote: starting it, and asking it for workers. The other end is `miniapp_worker.zygote`."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgpack

import runtime_actors
from runtime_actors.errors import RuntimeActorsError, ZygoteLost
from runtime_actors.supervisor.process import ExitStatus, Ties, WorkerProcess, at_end, become_subreaper, strongest_ties

WORKER_ENTRY: Final = "miniapp_worker.main:run"

# -I hears neither the environment nor the working folder, so a tree that is not installed must be named.
_BOOT: Final = """\
import json, sys
from pathlib import Path
told = json.loads(sys.argv[1])
if told["root"] not in sys.path:
    sys.path.insert(0, told["root"])
from miniapp_worker import forks
forks.register_nothing()
from miniapp_worker.zygote import main
main(
    Path(told["root"]), told["control_fd"], told["daemon_pid"], Path(told["sockets"]),
    by_kernel=told["by_kernel"], landlock_at_most=told["landlock_at_most"],
)
"""
_READ_BYTES: Final = 65536
_END_WITHIN_S: Final = 2.0


class ForkRefused(RuntimeActorsError):
    """The system had no room for another process. The zygote is well; try again later."""


@dataclass(frozen=True)
class WorkerLimits:
    """See `miniapp_worker.confine.Limits`."""

    memory_bytes: int = 256 * 2**20
    address_space_bytes: int = 2**30
    cpu_s: int = 24 * 3600
    open_files: int = 64
    threads: int = 20


@dataclass(frozen=True, slots=True)
class Keeps:
    """See `miniapp_worker.spawned.Keeps`."""

    app_folder: Path | None
    socket_path: Path | None
    uid: int | None


@dataclass(frozen=True, slots=True)
class Offers:
    """What the zygote found out about this machine."""

    uids: range = range(0)
    """To be given to workers, one to each living one; none: they keep the daemon's."""
    own_root: bool = False
    """A worker sees nothing of the file system but what it may read."""
    trees: tuple[Path, ...] = ()
    """Everything that every worker may read."""

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """From the zygote's first word."""
        first, count = answer["uids"] or (0, 0)
        # Another daemon on this machine may give away the same ones, and its workers' limits would count for ours.
        start = first + secrets.randbelow(count // 2) if count else 0
        return cls(range(start, first + count), answer["own_root"], tuple(Path(tree) for tree in answer["trees"]))

    def exposes(self, secret: Path) -> Path | None:
        """The tree that `secret` lies beneath, or that lies beneath it; None when they do not touch.

        A state folder must not be exposed: a tree can be granted, but no branch can be taken out of it again.
        """
        hidden = secret.resolve()
        near = (tree for tree in self.trees if hidden.is_relative_to(tree) or tree.is_relative_to(hidden))
        return next(near, None)


class ZygoteProcess:
    """At most one zygote at a time; after its end `start` makes another. Workers do not notice.

    `start` runs on the main thread, everything else on any: the kernel kills a zygote with the *thread* that
    started it, and only the main thread lives as long as the daemon.
    """

    def __init__(
        self, ties: Ties | None = None, *, sockets: Path = Path("/"), landlock_at_most: int | None = None
    ) -> None:
        """`sockets` is the folder that workers connect into. `landlock_at_most` is the newest Landlock ABI to use."""
        self.ties: Final = ties or strongest_ties()
        self._sockets, self._landlock_at_most = sockets, landlock_at_most
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._life: int | None = None
        self._offers: Offers | None = None

    @property
    def pid(self) -> int | None:
        """None before `start` and after `close`."""
        process = self._process
        return process.pid if process else None

    def start(self, log_fd: int) -> None:
        """Start a zygote and return at once; the first `fork` waits until it is ready. `log_fd` stays the caller's.

        Raises:
            RuntimeError: not called on the main thread, or the last zygote was not closed.
            OSError: it could not be started.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the zygote would die with this thread: start it on the main one")
        if self.ties is Ties.KERNEL:
            become_subreaper()
        with self._lock, contextlib.ExitStack() as theirs:
            if self._process is not None:
                raise RuntimeError("close the last zygote first")
            control, their_control = socket.socketpair()
            theirs.enter_context(their_control)
            life, their_life = os.pipe()
            theirs.callback(os.close, their_life)
            self._control, self._life, self._offers = control, life, None
            told = {
                "root": str(Path(runtime_actors.__file__).resolve().parent.parent),
                "control_fd": their_control.fileno(),
                "daemon_pid": os.getpid(),
                "sockets": str(self._sockets),
                "by_kernel": self.ties is Ties.KERNEL,
                "landlock_at_most": self._landlock_at_most,
            }
            try:
                self._process = _exec(told, (their_control.fileno(), their_life), log_fd)
            except OSError:
                self._close()
                raise

    def wait_ready(self, limit_s: float = 10.0) -> Offers:
        """What workers can be given here. Raises ZygoteLost if it ends or takes longer; it is killed then."""
        with self._lock:
            return self._wait_ready(time.monotonic() + limit_s)

    def fork(
        self,
        attempt_id: str,
        spec: Mapping[str, object],
        *,
        log_fd: int,
        limits: WorkerLimits = WorkerLimits(),
        keeps: Keeps | None = None,
        entry: str = WORKER_ENTRY,
        limit_s: float = 5.0,
    ) -> WorkerProcess:
        """A new worker, waiting at its gate. `release` it, and it calls `entry` ("module:function") with `spec`.

        Without `keeps` it has limits only: for what is not a MiniApp. Takes a few milliseconds.
        `log_fd` becomes the worker's stdout and stderr; the caller closes its own copy.

        Raises:
            ForkRefused: no room for another process.
            ZygoteLost: no zygote, or no answer within `limit_s`, for which it is killed. No worker comes of it.
            TypeError: `spec` is not plain msgpack.
            OSError: the daemon is out of descriptors; the worker ends at its gate.
        """
        order = {
            "attempt_id": attempt_id,
            "daemon_pid": os.getpid(),
            "by_kernel": self.ties is Ties.KERNEL,
            "entry": entry,
            "limits": asdict(limits),
            "keeps": None if keeps is None else _as_text(keeps),
            "spec": dict(spec),
        }
        request = msgpack.packb(order)
        with self._lock, contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            self._wait_ready(deadline := time.monotonic() + limit_s)
            their_gate, gate = os.pipe()
            theirs.callback(os.close, their_gate)
            ours.callback(os.close, gate)
            life = None
            fds = [log_fd, their_gate]
            if self.ties is Ties.PIPES:
                life, their_life = os.pipe()
                theirs.callback(os.close, their_life)
                ours.callback(os.close, life)
                fds.append(their_life)
            match self._ask(request, fds, deadline):
                case {"attempt_id": str(born), "pid": int(pid)} if born == attempt_id:
                    worker = WorkerProcess(attempt_id, pid, gate=gate, life=life)
                    ours.pop_all()
                    return worker
                case {"attempt_id": str(born), "errno": int(code)} if born == attempt_id:
                    raise ForkRefused(os.strerror(code))
                case answer:
                    self._give_up()
                    raise ZygoteLost(f"the zygote answered {answer}")

    def fileno(self) -> int:
        """Readable once the zygote has ended. Raises ValueError when there is none."""
        if self._life is None:
            raise ValueError("there is no zygote")
        return self._life

    def reap(self) -> ExitStatus | None:
        """How it ended, or None while it runs."""
        process = self._process
        if process is None or self._life is None:
            return ExitStatus()
        if not at_end(self._life):
            return None
        # Its descriptors close a moment before it can be waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(_END_WITHIN_S)
            return ExitStatus(code=code) if code >= 0 else ExitStatus(signal=-code)
        return None

    def close(self) -> None:
        """End the zygote if it runs, wait for it, and give everything back. Workers go on.

        Not while an `ExitWatcher` holds it: that one closes it by itself.
        """
        with self._lock:
            self._close()

    def _wait_ready(self, deadline: float) -> Offers:
        if self._offers is None:
            self._offers = Offers.read(self._receive(deadline))
        return self._offers

    def _ask(self, request: bytes, fds: list[int], deadline: float) -> dict[str, object]:
        control = self._open_control()
        try:
            control.settimeout(max(deadline - time.monotonic(), 0.001))
            sent = socket.send_fds(control, [request], fds)
            control.sendall(request[sent:])
        except OSError as broken:
            self._give_up()
            raise ZygoteLost(f"the zygote took no request: {broken}") from broken
        return self._receive(deadline)

    def _receive(self, deadline: float) -> dict[str, object]:
        control = self._open_control()
        unpacker = msgpack.Unpacker()
        try:
            while True:
                control.settimeout(max(deadline - time.monotonic(), 0.001))
                data = control.recv(_READ_BYTES)
                if not data:
                    raise ConnectionError("closed")
                unpacker.feed(data)
                for answer in unpacker:
                    return dict(answer)
        except OSError as broken:
            self._give_up()
            raise ZygoteLost(f"the zygote gave no answer: {broken}") from broken

    def _open_control(self) -> socket.socket:
        if self._control is None or self._process is None:
            raise ZygoteLost("there is no zygote")
        return self._control

    def _give_up(self) -> None:
        """After a lost answer the next one could be taken for it. Killed, it is told and closed like any other end."""
        if self._process is not None:
            self._process.kill()
        if self._control is not None:
            self._control.close()
            self._control = None

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(_END_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._life is not None:
            os.close(self._life)
            self._life = None


def _as_text(keeps: Keeps) -> dict[str, object]:
    folder, path = keeps.app_folder, keeps.socket_path
    return {
        "app_folder": None if folder is None else str(folder),
        "socket_path": None if path is None else str(path),
        "uid": keeps.uid,
    }


def _exec(told: Mapping[str, object], kept: tuple[int, int], log_fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", _BOOT, json.dumps(told)],
        env={"LANG": "C.UTF-8"},  # whatever is in it can be read in /proc by every worker, even after it is unset
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=log_fd,
        stderr=log_fd,
        pass_fds=kept,
        start_new_session=True,  # Ctrl-C at the daemon's terminal is for the daemon
    )
