"""One MiniApp in a real runtime of its own: confined workers, a daemon that may be killed, an agent that calls."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self, TypeVar

import psutil

import miniapps
from runtime_actors import registry
from runtime_actors.authoring.calls import Call
from runtime_actors.authoring.daemon import KeptDaemon, NotServed
from runtime_actors.client import AgentSession, ClientError, DoorClient, HostSession, door_of, parsed, read_token
from runtime_actors.contract.agent import Done, Kill, Listing, Query, Rows, Switch
from runtime_actors.contract.base import JsonObject, WireModel
from runtime_actors.errors import AppRefused
from runtime_actors.rules.registration import RegisteredApp
from runtime_actors.simulator import SimulatedAgent

LEFT_OUT: Final = ("__pycache__", "tests", ".*")
"""What of a folder the app itself does not need."""
_PACKAGED: Final = Path(miniapps.__file__).parent
_OPTIONS: Final = (
    "--durability=process",  # only processes are killed here
    "--restart-intensity=1000",
    "--restart-backoff=0.01",
    "--sweep=0.5",
)
_UP: Final = frozenset({"foreground", "background"})
_LOOK_S: Final = 0.02
_T = TypeVar("_T")


class TooLong(Exception):
    """What was waited for did not happen in time: says what, for a person."""


class PrivateRuntime:
    """A context manager: afterwards there is no process and no folder of it. For one thread."""

    def __init__(self, folder: Path, *, options: Sequence[str] = (), planted: Sequence[str] = ()) -> None:
        """Serve the app in `folder`, from a copy. `planted` are failpoints of the first daemon (`lineup run`)."""
        self._folder = folder
        self._options = (*_OPTIONS, *options)
        self._planted = planted
        self._kept = contextlib.ExitStack()
        self._numbers = itertools.count(1)
        self.explained: set[str] = set()
        """Attempts whose end is accounted for: they were killed from here."""

    def __enter__(self) -> Self:
        """Return once the app is served.

        Raises:
            NotServed: It cannot be: its manifest has faults, or the daemon does not start.

        """
        self.app = read_app(self._folder)
        with self._kept as kept:
            ground = Path(tempfile.mkdtemp(prefix="lineup-app-"))
            kept.callback(shutil.rmtree, ground, ignore_errors=True)
            self.state = ground / "state"
            apps = [] if _is_packaged(self._folder) else [_copy(self._folder, ground / "apps" / self.scope)]
            self.daemon = KeptDaemon(self.state, apps, options=self._options, planted=self._planted)
            kept.callback(self.daemon.stop)
            self.daemon.start()
            self._control = kept.enter_context(DoorClient(door_of(self.state, "control")))
            session = AgentSession(door_of(self.state, "agent"), "local", read_token(self.state, "local"))
            self.agent = kept.enter_context(SimulatedAgent(session))
            self.host = kept.enter_context(HostSession(door_of(self.state, "host"), "author", surfaces=True))
            self.host.attach()
            if all(row["app_scope"] != self.scope for row in self.rows("apps")):
                raise NotServed("\n".join(["the daemon does not register the app:", *self.daemon.last_lines()]))
            self._kept = kept.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    @property
    def scope(self) -> str:
        return self.app.manifest.app_scope

    # --- acting ---

    def new_conversation(self) -> str:
        """One that nobody has used."""
        return f"c{next(self._numbers)}"

    def call(self, tool_id: str, given: JsonObject, conversation: str, call_id: str | None = None) -> Call:
        """Invoke a tool; the call is under way then.

        Raises:
            Refused: The runtime let it not in.

        """
        state = self.agent.invoke(tool_id, given, conversation_id=conversation, call_id=call_id, timeout_s=30.0).call
        return Call(self, conversation, state.call_id)

    def kill_worker(self, conversation: str, signal: str = "SIGKILL") -> None:
        """Signal the process of the app's instance; return once it is gone (SIGKILL) or stands still (SIGSTOP).

        Raises:
            TooLong: There is none.

        """
        row = self.wait_for("a process of the app", lambda: self.process(conversation))
        attempt = str(row["attempt_id"])
        if signal == "SIGKILL":
            self.explained.add(attempt)
        self._order("kill", Kill(instance_id=row["instance_id"], attempt_id=attempt, signal=signal))
        if signal == "SIGKILL":
            self.wait_for("its end", lambda: all(one["attempt_id"] != attempt for one in self.rows("ps")))
        elif signal == "SIGSTOP":
            self.wait_for("it to stand still", lambda: _stands_still(int(row["pid"])))

    def kill_daemon(self) -> None:
        """SIGKILL; returns once the next one serves. All workers die with it."""
        self.daemon.kill()
        # The host sees that its connection ended when it next waits; apps may need a surface before that.
        self.wait_for("the host to be back", self._host_is_back)

    def close_all(self) -> None:
        """Close every instance of the app, and with it its calls."""
        self.switch(enabled=False)
        self.switch(enabled=True)

    def switch(self, *, enabled: bool) -> None:
        """Switch the app off, which closes its instances, or on."""
        self._order("switch", Switch(kind="app", name=self.scope, enabled=enabled))

    def answer(self, conversation: str, given: JsonObject) -> JsonObject:
        """Answer the oldest question that is open there, as the person does; what was asked.

        Raises:
            TooLong: Nothing is asked.
            Refused: The answer does not fit the question (`interaction_invalid`).

        """
        asked = self.question(conversation)
        self.host.answer(asked["interaction_id"], given)
        return dict(asked["request"])

    def wish_close(self, conversation: str) -> str:
        """Wish that the app is closed there, as the person does; the id of the action.

        Raises:
            TooLong: It has no process there.

        """
        row = self.wait_for("a process of the app", lambda: self.process(conversation))
        return str(self.host.act(row["instance_id"], "close").data["action_id"])

    def question(self, conversation: str) -> JsonObject:
        """The oldest question that is open there: `interaction_id`, `request`, `status` and more.

        Raises:
            TooLong: Nothing is asked.

        """

        def look() -> JsonObject | None:
            open_ones = self.rows("interactions", {"conversation_id": conversation})
            return next((dict(row["interaction"]) for row in open_ones), None)

        return self.wait_for("a question", look)

    # --- looking ---

    def rows(self, what: Listing, wanted: JsonObject | None = None) -> list[JsonObject]:
        """All of a listing; of the audit log from its beginning."""
        found: list[JsonObject] = []
        after = "0" if what == "audit" else None
        while True:
            query = Query(what=what, filter=wanted or {}, after=after)
            _, body = self._control.request("lineup.v1.control.query", query)
            page = parsed(Rows, body)
            found += page.rows
            after = page.next
            if after is None:
                return found

    def process(self, conversation: str) -> JsonObject | None:
        """The app's live instance there, once its process has attached."""
        for row in self.rows("ps"):
            of_app = row["app_scope"] == self.scope and row["conversation_id"] == conversation
            if of_app and row["state"] in _UP and row.get("pid"):
                return row
        return None

    def lines(self, conversation: str | None = None) -> list[str]:
        """What processes of the app wrote, there or anywhere."""
        found: list[str] = []
        for row in self.rows("ps", {"all": True}):
            if row["app_scope"] == self.scope and conversation in (None, row["conversation_id"]):
                for path in sorted((self.state / "logs" / str(row["instance_id"])).glob("*.log*")):
                    found += path.read_text(encoding="utf-8", errors="replace").splitlines()
        return found

    def wait_for(self, what: str, look: Callable[[], _T | None], timeout_s: float = 15.0) -> _T:
        """The first true value that `look` finds.

        Raises:
            TooLong: There is none in time.

        """
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(ClientError):  # the daemon may be on its way back
                found = look()
                if found:
                    return found
            if time.monotonic() > deadline:
                raise TooLong(f"{what}: not within {timeout_s:g} s")
            time.sleep(_LOOK_S)

    def _host_is_back(self) -> bool:
        self.host.rows("focus", timeout_s=1.0)
        return True

    def _order(self, kind: str, body: WireModel) -> JsonObject:
        _, answer = self._control.request(f"lineup.v1.control.{kind}", body)
        return parsed(Done, answer).data


def read_app(folder: Path) -> RegisteredApp:
    """Read an app's folder, packaged or not.

    Raises:
        NotServed: With each fault of its manifest on a line.

    """
    try:
        return registry.read_app(folder, packaged=_is_packaged(folder))
    except AppRefused as refused:
        faults = [f"{path or '/'}: {reason}" for path, reason in refused.faults]
        raise NotServed("\n".join([f"{folder} cannot be registered:", *faults])) from None


def _stands_still(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        raise TooLong("the process ended by itself") from None


def _is_packaged(folder: Path) -> bool:
    return folder.resolve().parent == _PACKAGED.resolve()


def _copy(folder: Path, into: Path) -> Path:
    """Readable for workers with uids of their own, and not changed by an editor meanwhile."""
    shutil.copytree(folder, into, ignore=shutil.ignore_patterns(*LEFT_OUT))
    ground = into.parent.parent
    for path in (ground, into.parent, into, *into.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return into
