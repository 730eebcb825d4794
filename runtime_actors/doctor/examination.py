"""The attempts, each made as a tool call in a confined worker of a daemon that is started for it.

Nothing of the user's is touched: the daemon, its state, the apps and the decoys are in one temporary folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Self

from runtime_actors.client import AgentSession, DoorClient, NoAnswer, door_of, parsed, read_token
from runtime_actors.contract.agent import Listing, Query, Rows
from runtime_actors.contract.base import JsonObject
from runtime_actors.contract.tools import CallStatus
from runtime_actors.doctor.apps.intruder import attempts
from runtime_actors.doctor.apps.intruder.attempts.decoys import Decoys
from runtime_actors.doctor.decoys import SECRET, Laid, laid
from runtime_actors.doctor.layers import Layer, standing_behind
from runtime_actors.doctor.traps import Traps
from runtime_actors.simulator import SimulatedAgent
from runtime_actors.supervisor.isolation import Level, meets
from runtime_actors.supervisor.measured import FILTERS_OF_A_SEALED_WORKER, read_kernel

_APPS: Final = Path(__file__).with_name("apps")
_CONVERSATION: Final = "doctor"
_START_S: Final = 60.0
_STOP_S: Final = 15.0
_ATTEMPT_S: Final = 25.0
_LOG_LINES: Final = 15
_TIED: Final = """\
import ctypes, os, sys
if hasattr(libc := ctypes.CDLL(None), "prctl"):
    libc.prctl(1, 15, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGTERM: with the doctor its daemon ends, however that ended
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_ABI_TRUNCATE, _ABI_TCP, _ABI_SCOPES = 3, 4, 6
_SAID_BY_END: Final = {
    "signal SIGSYS": "stopped",
    "app_out_of_memory": "capped",
    "app_out_of_cpu": "capped",
    "app_out_of_files": "capped",
    "app_out_of_threads": "capped",
}
"""Outcomes by the reason for which a process ended. Any other end was not meant."""


class DoctorFailed(Exception):
    """There is nothing to examine: says why, for a person."""


@dataclass(frozen=True, slots=True)
class Finding:
    """How one attempt ended."""

    attempt: str
    outcome: str
    """`stopped`, `capped` by a limit, or `open`."""
    errno: str | None
    stopped_by: tuple[Layer, ...]
    ok: bool
    promised: bool = True
    """Whether it must be stopped at the level in force."""

    def to_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in ("attempt", "outcome", "errno", "stopped_by", "ok")}


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the intruder's process is in, as measured."""

    level: Level
    layers: frozenset[Layer]


class Examination:
    """A private daemon with the intruder in it. A context manager: afterwards there is no process and no folder."""

    def __init__(self, landlock_abi: int | None) -> None:
        self._landlock_abi = landlock_abi
        self._kept = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with self._kept as kept:
            folder = Path(tempfile.mkdtemp(prefix="lineup-doctor-"))
            kept.callback(shutil.rmtree, folder)
            shutil.copytree(_APPS, folder / "apps", ignore=shutil.ignore_patterns("__pycache__"))
            _make_readable(folder / "apps")
            self._state = folder / "state"
            self._laid: Laid = kept.enter_context(laid(folder, own_app="intruder", sibling="sibling"))
            self._traps = kept.enter_context(Traps(self._laid, self._state / "logs"))
            kept.enter_context(self._daemon(folder))
            session = AgentSession(door_of(self._state, "agent"), "local", read_token(self._state, "local"))
            self._agent = kept.enter_context(SimulatedAgent(session))
            self._control = kept.enter_context(DoorClient(door_of(self._state, "control")))
            self._decoys = self._hold_a_call()
            self._kept = kept.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def confinement(self) -> Confinement:
        """Start the intruder, and look at what the daemon and the kernel say about its process."""
        _, looked_up = self._ask("look_up_store")
        row = next(row for row in self._rows("ps") if row["app_scope"] == "intruder")
        level = Level(row["level"])
        worker, own = read_kernel(int(row["pid"])), read_kernel(os.getpid())
        if worker is None or own is None:
            raise DoctorFailed("the intruder's process ended before it was asked to do anything")
        has_filters = worker.filters - own.filters >= FILTERS_OF_A_SEALED_WORKER
        has_landlock = meets(level, Level.SEALED) or (level is Level.PARTIAL and not has_filters)
        abi = self._most_landlock() if has_landlock else 0
        found = {
            Layer.CLEAN_START: True,
            Layer.SEAL: has_filters,
            Layer.FILTER: has_filters,
            Layer.OWN_ROOT: looked_up == "ENOENT",
            Layer.OWN_NETWORK: level is Level.STRONG,
            Layer.CAPABILITIES: worker.capabilities == 0,
            Layer.FEWER_RIGHTS: worker.capabilities == 0 and own.capabilities > 0,
            Layer.OWN_UID: worker.uid != own.uid,
            Layer.HIDDEN_DAEMON: True,
            Layer.LANDLOCK: abi >= 1,
            Layer.LANDLOCK_3: abi >= _ABI_TRUNCATE,
            Layer.LANDLOCK_4: abi >= _ABI_TCP,
            Layer.LANDLOCK_6: abi >= _ABI_SCOPES,
            Layer.LIMITS: True,
            Layer.DAEMON: True,
        }
        return Confinement(level, frozenset(layer for layer, is_there in found.items() if is_there))

    def _most_landlock(self) -> int:
        """The newest ABI that a worker can have here: landlock_create_ruleset(2) with a version asked for."""
        asked = ctypes.c_long(444), None, ctypes.c_size_t(0), ctypes.c_uint32(1)
        found: int = ctypes.CDLL(None).syscall(*asked)
        return found if self._landlock_abi is None else min(found, self._landlock_abi)

    def attempts(self, level: Level) -> list[str]:
        """What is tried at `level`, in order: bombs only where something stops them."""
        named = (name for names in attempts.GROUPS.values() for name in names)
        left_out = attempts.NOT_HERE | (frozenset() if meets(level, Level.SEALED) else attempts.BOMBS)
        return [name for name in named if name not in left_out]

    def find(self, attempt: str, confinement: Confinement) -> Finding:
        """Make one attempt, and judge it."""
        outcome, errno = self._ask(attempt)
        if self._traps.sprung() or (attempt in attempts.CHANNEL and not self._is_held()):
            outcome, errno = "open", None
        if attempt == "log_flood":
            outcome = "open" if self._traps.log_is_kept() else "capped"
        promised = attempt not in attempts.LOOK_UPS or confinement.level is Level.STRONG
        if outcome == "open":
            return Finding(attempt, outcome, None, (), ok=not promised, promised=promised)
        behind = tuple(standing_behind(attempt, errno, confinement.layers))
        return Finding(attempt, outcome, errno, behind, ok=bool(behind), promised=promised)

    def _ask(self, attempt: str) -> tuple[str, str | None]:
        """Outcome and errno: as the intruder says, or by how its process ended over it."""
        first, second = self._traps.victims
        decoys = replace(self._decoys, victim=first.pid, victim_address=first.address, sigio_victim=second.pid)
        # Those that end their process have one of their own, so that the others need not wait for a new one.
        conversation = attempt if attempt in attempts.BOMBS | attempts.DEADLY else _CONVERSATION
        given = {"attempt": attempt, "decoys": asdict(decoys)}
        state = self._agent.invoke("intruder.try", given, conversation_id=conversation).call
        try:
            state = self._agent.wait(conversation, state.call_id, timeout_s=_ATTEMPT_S).state
        except NoAnswer:
            return "open", None
        if state.status is CallStatus.COMPLETED and state.result is not None:
            return state.result["outcome"], state.result.get("errno")
        return _SAID_BY_END.get(self._end_of(conversation), "open"), None

    def _end_of(self, conversation: str) -> str:
        """Why the newest process of the intruder there ended."""
        instances = {
            row["instance_id"]
            for row in self._rows("ps")
            if row["app_scope"] == "intruder" and row["conversation_id"] == conversation
        }
        ends = [row for row in self._rows("audit") if row["event"] == "attempt.ended"]
        return next(
            (end["detail"]["reason"] for end in reversed(ends) if end["subject"]["instance_id"] in instances), ""
        )

    def _hold_a_call(self) -> Decoys:
        """Have another app keep a call open, for the intruder to meddle with."""
        held = self._agent.invoke("sibling.hold", {}, conversation_id=_CONVERSATION).call.call_id
        known = self._agent.wait(
            _CONVERSATION, held, lambda one: one.is_final or one.state.progress is not None, _ATTEMPT_S
        )
        if known.state.progress is None or known.state.progress.note is None:
            raise DoctorFailed(f"the app that is to be attacked did not start: {known.state.error_code}")
        self._held = held
        return replace(self._laid.decoys, sibling_call=held, sibling_message=known.state.progress.note)

    def _is_held(self) -> bool:
        """Whether the other app's call and its message are as they were."""
        call = self._agent.get(_CONVERSATION, self._held).call
        is_as_it_was = call.progress is not None and call.progress.percent is None
        has_message = any(row["app_scope"] == "sibling" for row in self._rows("inbox"))
        return call.status is CallStatus.RUNNING and is_as_it_was and not call.cancel_requested and has_message

    def _rows(self, what: Listing) -> tuple[JsonObject, ...]:
        wanted: JsonObject = {"all": True} if what == "ps" else {}
        _, answer = self._control.request("lineup.v1.control.query", Query(what=what, filter=wanted), timeout_s=_STOP_S)
        return parsed(Rows, answer).rows

    @contextlib.contextmanager
    def _daemon(self, folder: Path) -> Iterator[None]:
        """A daemon of its own, which the terminal's Ctrl-C does not reach: it is ended when everything else is."""
        command = [sys.executable, "-c", _TIED, "-m", "runtime_actors", "run"]
        command += [
            f"--state={self._state}",
            f"--apps={folder / 'apps'}",
            "--min-isolation=process",
            "--durability=process",
            "--restart-intensity=1000",
            "--restart-backoff=0.01",
        ]
        command += [] if self._landlock_abi is None else [f"--landlock-abi={self._landlock_abi}"]
        log = folder / "daemon.log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=[self._laid.decoys.leaked_fd],
                env=os.environ | {"LINEUP_SECRET": SECRET},
                start_new_session=True,
            ) as daemon,
        ):
            try:
                if not _is_ready(daemon):
                    last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
                    raise DoctorFailed("\n".join(["its daemon did not start:", *last]))
                yield
            finally:
                daemon.terminate()
                try:
                    daemon.wait(_STOP_S)
                except subprocess.TimeoutExpired:
                    daemon.kill()


def _is_ready(daemon: subprocess.Popen[bytes]) -> bool:
    output = daemon.stdout
    return output is not None and bool(select.select([output], [], [], _START_S)[0]) and output.readline() != b""


def _make_readable(folder: Path) -> None:
    """Whatever umask they were installed with: workers may have a uid of their own."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
