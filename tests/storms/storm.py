"""One storm: a daemon, two agents, everything that the schedule says; then calm, a drain, and the checker.

`python -m tests.storms.storm FOLDER SEED SECONDS KINDS`: runs it in a process of its own, because its small disk is
mounted for that alone. The last line of its output is the verdict as JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import json
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from runtime_actors import checker
from runtime_actors.checker.evidence import LISTINGS, PEOPLE
from runtime_actors.checker.files import write
from runtime_actors.client import ClientError
from runtime_actors.errors import StoreUnusable
from runtime_actors.store import verifying
from tests.e2e.agent import FINAL
from tests.e2e.daemon import ACCEPTED, APPS, QUICK, ROOT, Daemon, TooLong, is_alive, wait_until
from tests.faults.world import ECHO, ONCE, worker_words
from tests.storms import small_disk
from tests.storms.agent import read_journal
from tests.storms.nemesis import Nemesis
from tests.storms.proxy import Proxy
from tests.storms.schedule import Kind, Strike, planned

AGENTS: Final = ("local", "other")
_OPTIONS: Final = (*QUICK, "--restart-intensity=1000000", "--restart-backoff=0", "--ping=0.5")
_DRAIN_S: Final = 60.0
_GONE_S: Final = 5.0
"""What is left of a killed daemon is gone by then. A second is promised, and holds; a storm leaves it no processor."""
_PATIENCE: Final = 5.0
"""So many times as long as planned a storm may take, on a busy machine."""
_TICK_S: Final = 0.005
_AGAIN_S: Final = 0.2
_EXPECTED: Final = frozenset(
    {
        "there is no space: new work is refused until there is",
        "a transaction failed",  # a limit was gone again when the store looked whether there is one: it ends with 5
        "a worker could not be forked",
        "a worker's socket could not be opened",
    }
)
"""What a daemon may call an error here."""
_DISK_MB: Final = 192


@dataclass(slots=True)
class Verdict:
    """What became of a storm."""

    seed: int
    violations: list[str] = field(default_factory=list)
    struck: dict[str, int] = field(default_factory=dict)
    figures: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    """Exit codes of daemons that nobody killed."""
    errors: dict[str, int] = field(default_factory=dict)
    """Sentences that daemons logged as errors."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Kinds that could not be had here, and why."""


class StormDaemon(Daemon):
    """A daemon whose clock a storm can move. What it prints is kept outside of its disk, which may be full."""

    def __init__(self, state: Path, folder: Path) -> None:
        super().__init__(state, apps=(APPS / "probe",), options=_OPTIONS)
        self.log = folder / "daemon.log"
        self.offsets = folder / "clock"
        self._out = folder / "out"

    def launch(self, *more: str) -> None:
        self.starts += 1
        command = [sys.executable, "-m", "tests.storms.shifted", str(self.offsets), "run", f"--state={self.state}"]
        command += [*ACCEPTED, *self.options, *more, *(f"--apps={folder}" for folder in self.apps)]
        with self.log.open("ab") as errors, self._out.open("wb") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)

    @property
    def ready(self) -> bool:
        return self._out.read_bytes().startswith(b"ready ")


class Storm:
    """In one folder: `disk/s` is the state folder, all else is beside the disk and outlives it."""

    def __init__(self, folder: Path, seed: int, seconds: float, kinds: Sequence[Kind]) -> None:
        self.folder, self.seed, self.seconds = folder, seed, seconds
        self.verdict = Verdict(seed)
        disk = folder / "disk"
        disk.mkdir()
        refused = small_disk.mount(disk, _DISK_MB) if Kind.FULL_DISK in kinds else None
        if refused is not None:
            self.verdict.left_out[Kind.FULL_DISK] = refused
        self.kinds = tuple(kind for kind in kinds if kind not in self.verdict.left_out)
        self.daemon = StormDaemon(disk / "s", folder)
        self.daemon.state.mkdir(mode=0o700)
        views = [self._view(name) for name in AGENTS]
        there = self.daemon.state / "run" / "agent.sock"
        self.proxies = tuple(Proxy(view / "run" / "agent.sock", there) for view in views)
        self.nemesis = Nemesis(self.daemon.state, self.proxies, self.daemon.offsets, disk / "filler")
        self.nemesis.set_clocks(0.0, 0.0)
        self._notes: list[dict[str, Any]] = []
        self._lives = Counter[str]()
        self._agents: dict[str, psutil.Popen] = {}

    def _view(self, name: str) -> Path:
        """What the agent takes for the state folder: another door, the same tokens."""
        view = self.folder / f"v-{name}"
        (view / "run").mkdir(parents=True)
        (view / "tokens").symlink_to(self.daemon.state / "tokens")
        return view

    def play(self) -> Verdict:
        """All of it. The verdict is told even if the storm could not be ended as it should."""
        try:
            self.daemon.start()
            self.nemesis.daemon_pid = self.daemon.pid
            self._register("other")
            for name in AGENTS:
                self._launch_agent(name)
            self._rage()
            self._drain()
            self._judge()
            self._end()
        except (TooLong, ClientError, StoreUnusable, checker.Unreadable, psutil.TimeoutExpired) as error:
            self._fault(f"{type(error).__name__}: {error}")
        finally:
            self._close()
        self.verdict.struck = {str(kind): count for kind, count in self.nemesis.struck.items()}
        return self.verdict

    def _planned(self) -> list[Strike]:
        return planned(self.seed, self.seconds, self.kinds)

    def _fault(self, what: str) -> None:
        self.verdict.violations.append(what)

    def _note(self, what: str, by: str, **fields: object) -> None:
        self._notes.append({"what": what, "at": time.monotonic(), "by": by, **fields})

    def _register(self, name: str) -> None:
        token = secrets.token_urlsafe(32)
        (self.daemon.state / "tokens" / name).write_text(f"{token}\n")
        self.daemon.control("add_agent", {"name": name, "token_hash": hashlib.sha256(token.encode()).hexdigest()})

    def _launch_agent(self, name: str) -> None:
        self._lives[name] += 1
        command = [sys.executable, "-m", "tests.storms.agent", str(self.folder / f"v-{name}"), name]
        command += [str(self.seed), str(self._lives[name]), str(self.folder)]
        with (self.folder / f"{name}.err").open("ab") as errors:
            self._agents[name] = psutil.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=errors)
        self.nemesis.agents = list(self._agents.values())

    # --- the storm ---

    def _rage(self) -> None:
        """A second of a storm is one in which a daemon serves. What finds nobody to strike is tried again later."""
        due = [(strike.at_s, number, strike) for number, strike in enumerate(self._planned())]
        now = time.monotonic()
        gone_s, give_up_at = 0.0, now + self.seconds * _PATIENCE + _DRAIN_S
        while due and time.monotonic() < give_up_at:
            time.sleep(_TICK_S)
            self._tend()
            before, now = now, time.monotonic()
            gone_s += now - before if self.nemesis.daemon_pid else 0.0
            if due[0][0] > gone_s:
                continue
            at_s, number, strike = heapq.heappop(due)
            if self.nemesis.strike(strike):
                self._note("fault", "nemesis", kind=str(strike.kind))
            elif at_s < 2 * self.seconds:
                heapq.heappush(due, (at_s + _AGAIN_S, number, strike))
        self.nemesis.calm()

    def _tend(self) -> None:
        """Start again what has ended; look that of what a daemon left nothing lives on."""
        self.nemesis.undo_due(time.monotonic())
        if not self.daemon.running:
            self._note_end(self.daemon.exit_code)
            self.daemon.launch()
            self.nemesis.daemon_pid = 0
        elif not self.nemesis.daemon_pid and self.daemon.ready:
            self.nemesis.daemon_pid = self.daemon.pid
        for name, agent in self._agents.items():
            if agent.poll() is not None:
                if agent.returncode != -signal.SIGKILL:
                    said = (self.folder / f"{name}.err").read_text()[-2000:]
                    self._fault(f"the agent {name} ended with {agent.returncode}: {said}")
                self._launch_agent(name)
                break
        self._look_after_the_dead()

    def _note_end(self, code: int | None) -> None:
        if code == -signal.SIGKILL:
            return
        self.verdict.ends[str(code)] = self.verdict.ends.get(str(code), 0) + 1
        if code != 5 or time.monotonic() > self.nemesis.excused_until:
            self._fault(f"a daemon ended by itself with {code}: {self.daemon.said()[-1500:]}")

    def _look_after_the_dead(self) -> None:
        left = self.nemesis.left_behind
        while left and time.monotonic() - left[0][0] > _GONE_S:
            _, family = left.pop(0)
            for one in filter(is_alive, family):
                self._fault(f"{_described(one)} outlived its daemon by {_GONE_S:g} s")

    # --- afterwards ---

    def _drain(self) -> None:
        (self.folder / "calm").touch()
        self._note("invoke", "harness", id="drain", kind="drain")
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline:
            self._tend()
            if all((self.folder / f"{name}.done").exists() for name in AGENTS) and self._is_quiet():
                self._note("ok", "harness", id="drain")
                return
            time.sleep(0.02)
        self._note("info", "harness", id="drain")
        missing = [name for name in AGENTS if not (self.folder / f"{name}.done").exists()]
        self._fault(f"not drained within {_DRAIN_S:g} s; agents that wait: {missing}, {self._left()}")

    def _left(self) -> dict[str, list[dict[str, Any]]]:
        """What of the daemon's rows stands for something unfinished."""
        found = {
            "calls": [row for row in self.daemon.listed("calls") if row["status"] not in FINAL],
            "outbox": self.daemon.listed("outbox"),
            "ps": [row for row in self.daemon.listed("ps") if row["state"] not in {"foreground", "background"}],
        }
        return {what: rows for what, rows in found.items() if rows}

    def _is_quiet(self) -> bool:
        try:
            status = self.daemon.listed("status")[0]
            rows = self.daemon.listed("ps")
        except ClientError:
            return False
        settled = not status["open_calls"] and not status["outbox_deliveries"]
        return settled and all(row["state"] in {"foreground", "background"} for row in rows)

    def _judge(self) -> None:
        seen = self._evidence()
        self.verdict.figures = checker.figures(seen)
        broken = [str(found) for found in checker.violations(seen)]
        self.verdict.violations += broken
        if broken:
            write(self.folder / "evidence", seen)
        try:
            self.daemon.control("verify_audit", {})
        except ClientError as error:
            self._fault(f"audit verify: {error}")

    def _evidence(self) -> checker.Evidence:
        """Of one moment: read again if something was noted meanwhile."""
        while True:
            listings = {what: self.daemon.listed(what) for what in (*LISTINGS, *PEOPLE)}
            audit = self.daemon.audit()
            if listings["status"][0]["audit"] == self.daemon.listed("status")[0]["audit"]:
                break
        history = [*self._notes, *worker_words(self.daemon)]
        for name in AGENTS:
            history += read_journal(self.folder / f"{name}.journal")
        return checker.Evidence(history, audit, listings, once=ONCE, echo=ECHO)

    def _end(self) -> None:
        """A clean end leaves no process, no socket and a store that holds."""
        (self.folder / "over").touch()
        for agent in self._agents.values():
            agent.wait(10)
        try:
            code: int | None = self.daemon.terminate(20.0)
        except subprocess.TimeoutExpired:
            code = None
        if code != 0:
            self._fault(f"the daemon was told to stop and ended with {code}")
        wait_until("every process is gone", lambda: not self._processes(), _GONE_S)
        sockets = [path.name for path in (self.daemon.state / "run").rglob("*") if path.is_socket()]
        if sockets:
            self._fault(f"sockets were left: {sockets}")
        verifying.verify(self.daemon.state / "store.db")

    def _processes(self) -> list[int]:
        """Whatever has the state folder in its command: daemons, zygotes and, having been forked, workers."""
        mine = str(self.daemon.state)
        return [one.pid for one in psutil.process_iter(["cmdline"]) if mine in " ".join(one.info["cmdline"] or ())]

    def _close(self) -> None:
        self.nemesis.undo_due()
        for agent in self._agents.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                agent.kill()
                agent.wait(10)
        lines = [line.split(" error ", 1)[1] for line in self.daemon.said().splitlines() if " error " in line]
        self.verdict.errors = dict(Counter(line.strip().split("  ")[0] for line in lines))
        for sentence in self.verdict.errors.keys() - _EXPECTED:
            self._fault(f"a daemon logged as an error: {sentence}")
        if self.verdict.violations:
            with contextlib.suppress(OSError):
                subprocess.run(["cp", "-r", self.daemon.state, self.folder / "state"], check=False)
            self.daemon.log.rename(self.folder / "kept.log")
        self.daemon.close()
        for proxy in self.proxies:
            proxy.close()


def _described(process: psutil.Process) -> str:
    try:
        age_s = time.time() - process.create_time()
        return f"process {process.pid}, {process.status()}, {age_s:.1f} s old, child of {process.ppid()},"
    except psutil.Error:
        return f"process {process.pid}, gone by now,"


def main() -> int:
    folder, seed, seconds, kinds = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    storm = Storm(Path(folder), int(seed), float(seconds), [Kind(kind) for kind in kinds.split(",")])
    verdict = storm.play()
    sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
