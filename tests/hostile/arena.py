"""A real daemon with hostile MiniApps among innocent ones, and what must be true whatever they do."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psutil

from runtime_actors.client import door_of
from tests.e2e.daemon import ROOT, is_alive, wait_until
from tests.e2e.stage import Stage

HOSTILE: Final = Path(__file__).parent / "apps"
GROUPS: Final = ("files", "network", "processes", "kernel", "resources", "identity", "startup")
VARIANTS: Final = ("raises", "exits", "hangs", "leaves", "aborts", "ends")
"""Of `startup`: how else it spoils its start."""
MARK: Final = "hostile-was-here"
"""In the name of every file that an attack tries to make."""
CONFINED: Final = frozenset({"sealed", "strong"})
READY: Final = frozenset({"foreground", "background"})
GROWTH_BYTES: Final = 32 * 2**20
_OPTIONS: Final = ("--ping=0.5",)
_INNOCENT: Final = "elsewhere"

Key = tuple[str, str]


class Arena(Stage):
    """`agent` asks the hostile apps, `other` the Task Dashboard."""

    def __init__(self, state: Path, *groups: str, copies: Sequence[Path] = ()) -> None:
        super().__init__(state, *(HOSTILE / group for group in groups), *copies, options=_OPTIONS)
        self._tasks = 0

    # --- what is hostile ---

    def attack(self, tool: str, given: dict[str, Any] | None = None, *, within_s: float = 30) -> dict[str, Any]:
        """Let one MiniApp try its worst while a task goes on; the end of its call.

        The task is open before, told of progress while the attack is on, and completed behind it; then another one
        goes from its begin to its end.
        """
        task = self.open_task()
        key = self.begin(tool, given)
        self.update_task(task, progress=50)
        ended = self.agent.final(key, within_s)
        self.complete_task(task)
        self.is_unharmed()
        return ended

    def begin(self, tool: str, given: dict[str, Any] | None = None) -> Key:
        """Ask for an attack, in a conversation of its own."""
        key = self.agent.invoke_with(tool, given or {}, conversation=f"c{secrets.token_hex(4)}")
        assert self.agent.accepted(key)["call"]["status"] != "rejected"
        return key

    def reached(self, ended: dict[str, Any]) -> dict[str, Any]:
        """What the app says of each attempt, of a call that must have completed."""
        assert ended["status"] == "completed", ended
        found: dict[str, Any] = ended["result"]
        return found

    def instance_of(self, call: dict[str, Any]) -> str:
        return str(call["instance_id"])

    # --- what is innocent ---

    def open_task(self) -> Key:
        self._tasks += 1
        given = {"task_id": f"task-{self._tasks}", "title": "Innocent work", "status": "running"}
        key = self._ask_innocently("task-dashboard.open", given)
        self.other.wait("the task is on the board", lambda: self.other.progress.get(key[1]))
        return key

    def update_task(self, task: Key, **news: object) -> None:
        """Change the newest task, and wait for the answer."""
        key = self._ask_innocently("task-dashboard.update", {"task_id": f"task-{self._tasks}", **news})
        assert self.other.final(key)["status"] == "completed"
        assert task not in self.other.finals or "status" in news

    def complete_task(self, task: Key) -> None:
        self.update_task(task, status="completed")
        ended = self.other.final(task)
        assert (ended["status"], ended["result"]) == ("completed", {"status": "completed"})

    def _ask_innocently(self, tool: str, given: dict[str, Any]) -> Key:
        revision = self.other.ask("inventory.get", {})[1]["revision"]
        return self.other.invoke_with(tool, given, conversation=_INNOCENT, revision=revision)

    # --- what must be true ---

    def is_unharmed(self) -> None:
        """The same daemon, healthy, with a whole audit chain, and it serves."""
        status = self.status()
        assert (self.daemon.running, status["pid"], self.daemon.starts) == (True, self.daemon.pid, 1)
        assert not any(status["restarts"].values())
        assert (status["audit_break"], status["set_aside"], status["commit"]["disk_full"]) == (None, 0, False)
        self.daemon.control("verify_audit", {})
        self.complete_task(self.open_task())

    def status(self) -> dict[str, Any]:
        return self.daemon.listed("status")[0]

    def rss_bytes(self) -> int:
        return int(self.status()["memory"]["rss_bytes"])

    def levels(self) -> set[str]:
        """Of every process that is ready, as `lineup ps --json` shows them."""
        command = [sys.executable, "-m", "runtime_actors", "ps", "--json", f"--state={self.daemon.state}"]
        shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=30).stdout
        return {row["level"] for row in map(json.loads, shown.splitlines()) if row["state"] in READY}

    def zygote(self) -> int:
        """The oldest child of the daemon."""
        children = psutil.Process(self.daemon.pid).children()
        return min(children, key=lambda child: (child.create_time(), child.pid)).pid

    def ends_and_leaves_nothing(self) -> None:
        """Ended by SIGTERM, it leaves no process, no socket, no control group, and no file of an attack."""
        family = self.daemon.family()
        attempts = {row["subject"]["attempt_id"] for row in self.daemon.audit("attempt.started")}
        assert self.daemon.terminate() == 0, self.daemon.said()[-2000:]
        wait_until("every process is gone", lambda: not any(map(is_alive, family)))
        assert left_files(self.daemon.state) == []
        assert not [path for path in (self.daemon.state / "run").rglob("*") if path.is_socket()]
        folders = (name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names)  # others come and go meanwhile
        groups = {name.split("-", 2)[2] for name in folders if name.startswith("lineup-")}
        assert attempts, "every start is audited"
        assert groups & attempts == set()


def left_files(state: Path) -> list[Path]:
    """What attacks made in the places that they try."""
    system = ("/", "/etc", "/home", "/tmp", "/var/tmp", "/dev/shm", "/run", sys.prefix)  # noqa: S108
    shallow = (*map(Path, system), Path(os.__file__).parent, Path.cwd())
    return [
        *(path for place in shallow for path in place.glob(f"{MARK}*")),
        *(path for place in (state, HOSTILE) for path in place.rglob(f"{MARK}*")),
    ]


def copies_of(group: str, into: Path, *variants: str) -> tuple[Path, ...]:
    """The same app under the scopes GROUP-VARIANT."""
    made = []
    for variant in variants:
        scope = f"{group}-{variant}"
        folder = into / scope
        folder.mkdir(parents=True)
        shutil.copy(HOSTILE / group / "app.py", folder)
        manifest = (HOSTILE / group / "manifest.json").read_text()
        renamed = manifest.replace(f'"{group}"', f'"{scope}"').replace(f'"{group}.', f'"{scope}.')
        renamed = renamed.replace('"Attacks at its import"', f'"Attacks at its import: {variant}"')
        (folder / "manifest.json").write_text(renamed)
        made.append(folder)
    return tuple(made)


def doors(state: Path) -> dict[str, str]:
    """Where everybody else connects."""
    return {name: str(door_of(state, name)) for name in ("agent", "host", "control")}


@contextlib.contextmanager
def listeners() -> Iterator[dict[str, Any]]:
    """Somebody to connect to, who must never hear anything."""
    name = f"lineup-decoy-{os.getpid()}"
    tcp, udp = socket.socket(socket.AF_INET), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    abstract = socket.socket(socket.AF_UNIX)
    with tcp, udp, abstract:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0{name}")
        for one in (tcp, abstract):
            one.listen()
        yield {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "abstract": name}
        for one in (tcp, udp, abstract):
            one.settimeout(0)
            with contextlib.suppress(BlockingIOError):
                heard = one.recv(1) if one is udp else one.accept()
                raise AssertionError(f"a hostile MiniApp was heard: {heard!r}")


@contextlib.contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the daemon's user that is not the daemon's, and that lives until the end."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        yield process
        assert process.poll() is None
        assert psutil.Process(process.pid).nice() == psutil.Process().nice()
    finally:
        process.kill()
        process.communicate()


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
