"""A daemon, an innocent agent with its app, and an attacker beside them: what the attack cost, and whom."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import msgpack
import psutil
import zmq

from runtime_actors.client import ClientError, Connection, door_of, read_token
from tests.e2e.agent import Agent
from tests.e2e.daemon import QUICK, ROOT, Daemon, TooLong, wait_until

HOSTILE_APPS: Final = ROOT / "tests" / "hostile" / "apps"
INNOCENT: Final = "innocent"
MIB: Final = 1024 * 1024
_SAMPLE_S: Final = 0.01
MAX_GROWTH: Final = 32 * MIB
_CALL_S: Final = 30.0
_CONNECT_S: Final = 1.0
_AT_LEAST: Final = 10


class Innocent:
    """An agent with one open task on its dashboard, which it updates: one call after the other."""

    def __init__(self, state: Path) -> None:
        self._task = secrets.token_hex(4)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._ids = itertools.count(1)
        self._connection = wait_until("a connection", lambda: _connect(self._context, door_of(state, "agent")), _CALL_S)
        attach = {"agent": "local", "token": read_token(state, "local"), "conversations": [INNOCENT]}
        self._send("agent.attach", attach)
        self._revision = str(self._until(lambda said: said["type"] == "lineup.v1.client.inventory")["body"]["revision"])
        self._invoke("open", {"task_id": self._task, "title": "Go on"}, ends=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._context.term()

    def call(self) -> float:
        """Have one call made and completed; seconds from its invoke to its result."""
        begun = time.perf_counter()
        given = {"task_id": self._task, "progress": next(self._ids) % 100}
        self._invoke("update", given, ends=True)
        return time.perf_counter() - begun

    def calls(self, count: int) -> None:
        for _ in range(count):
            self.call()

    def calls_for(self, seconds: float) -> list[float]:
        """One after the other, for so long; the seconds that each took."""
        deadline = time.monotonic() + seconds
        took = [self.call()]
        while time.monotonic() < deadline:
            took.append(self.call())
        return took

    def calls_until(self, happened: Callable[[], bool], within_s: float = 20.0) -> None:
        """One after the other, and at least as many as make a difference."""
        deadline = time.monotonic() + within_s
        for number in itertools.count(1):
            self.call()
            if number % _AT_LEAST == 0 and happened():
                return
            if time.monotonic() > deadline:
                raise TooLong(f"not within {within_s:g} s")

    def _invoke(self, tool: str, given: dict[str, Any], *, ends: bool) -> None:
        call_id = f"{self._task}-{next(self._ids)}"
        body = {
            "call_id": call_id,
            "tool_id": f"task-dashboard.{tool}",
            "inventory_revision": self._revision,
            "input": given,
        }
        request = self._send("tool.invoke", body)
        if ends:
            done = self._until(lambda said: said["type"] == "lineup.v1.tool.result" and _call_of(said) == call_id)
            if done["body"]["call"]["status"] != "completed":
                raise AssertionError(done)
        else:
            self._until(lambda said: said["body"].get("request_id") == request)

    def _send(self, kind: str, body: dict[str, Any]) -> str:
        request = f"i{next(self._ids)}"
        tree = {"v": 1, "id": request, "type": f"lineup.v1.{kind}", "sent_at": "2026-01-01T00:00:00Z", "body": body}
        self._connection.send(msgpack.packb(tree | {"conversation_id": INNOCENT}))
        return request

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + _CALL_S
        while True:
            frame = self._connection.receive(max(0.0, deadline - time.monotonic()))
            if frame is None:
                raise TooLong(f"no answer within {_CALL_S:g} s")
            said: dict[str, Any] = msgpack.unpackb(frame)
            if said["type"] == "lineup.v1.rejected":
                raise AssertionError(said)
            if "number" in said["body"]:
                self._send("delivery.ack", {"numbers": [said["body"]["number"]]})
            if wanted(said):
                return said


def _connect(context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> Connection | None:
    """A connection, unless there is no room for one just now."""
    connection = Connection(context, endpoint)
    try:
        connection.wait_open(_CONNECT_S)
    except ClientError:
        connection.close()
        return None
    return connection


def _call_of(said: dict[str, Any]) -> str:
    return str(said["body"]["call"]["call_id"])


class Watch:
    """The daemon's resident memory, looked at all the time; use it as a context."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.before = self.peak = self._process.memory_info().rss

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(5)

    @property
    def growth(self) -> int:
        """Bytes, at the worst moment so far."""
        return self.peak - self.before

    def _run(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            while not self._enough.wait(_SAMPLE_S):
                self.peak = max(self.peak, self._process.memory_info().rss)


class Scene:
    """A daemon with the hostile app and an innocent one. Use it as a context."""

    def __init__(self, state: Path, *options: str) -> None:
        self.daemon = Daemon(state, apps=(HOSTILE_APPS,), options=(*QUICK, *options))

    def __enter__(self) -> Self:
        self.daemon.start()
        try:
            self.innocent = Innocent(self.daemon.state)
            self.agent = Agent(self.daemon.state)
            self.agent.attached()
        except BaseException:
            self.daemon.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.close()
        self.innocent.__exit__()
        self.daemon.close()

    # --- attacks ---

    def prepare_inside(self, conversation: str) -> str:
        """Have the hostile app's process, which means no harm yet; its instance."""
        key = self.agent.invoke_with("channel.attack", {"kind": "none"}, conversation=conversation)
        self.agent.final(key)
        return str(self.agent.accepted(key)["call"]["instance_id"])

    def attack_inside(self, kind: str, conversation: str) -> tuple[str, str]:
        """Begin; the call that does it."""
        key = self.agent.invoke_with("channel.attack", {"kind": kind}, conversation=conversation)
        if (code := self.agent.code_of(key)) is not None:
            raise AssertionError(code)
        return key

    @contextlib.contextmanager
    def attacked_outside(self, kind: str, socket_path: Path) -> Iterator[None]:
        """For as long as the context."""
        with beside("tests.hostile.from_outside", kind, str(socket_path)):
            yield

    def door(self, name: str) -> Path:
        return self.daemon.state / "run" / f"{name}.sock"

    # --- looking ---

    def ends(self) -> dict[str, list[str]]:
        """By instance: why its processes ended."""
        found: dict[str, list[str]] = {}
        for row in self.daemon.audit("attempt.ended"):
            found.setdefault(row["subject"]["instance_id"], []).append(row["detail"]["reason"])
        return found

    def descriptors(self) -> int:
        """How many the daemon has open."""
        return psutil.Process(self.daemon.pid).num_fds()

    def wait_descriptors(self, at_most: int) -> None:
        wait_until(f"at most {at_most} descriptors", lambda: self.descriptors() <= at_most, 10)


@contextlib.contextmanager
def beside(module: str, *arguments: str) -> Iterator[psutil.Process]:
    """A process that goes on until the context ends. It has begun when this returns."""
    command = [sys.executable, "-m", module, *arguments]
    started = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"begins\n"
        yield psutil.Process(started.pid)
        if started.poll() is not None:
            raise AssertionError(f"{module} ended by itself: {started.returncode}")
    finally:
        started.kill()
        started.communicate(timeout=5)
