"""A daemon that may die at any moment, and agents and an operator who go on regardless."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from runtime_actors import checker
from runtime_actors.checker.evidence import LISTINGS, PEOPLE
from runtime_actors.checker.run import RENAMED
from runtime_actors.client import ClientError, DaemonNotRunning
from tests.e2e.agent import FINAL, Agent, History
from tests.e2e.daemon import APPS as FOLDER
from tests.e2e.daemon import QUICK, Daemon, TooLong, wait_until
from tests.faults.nemesis import Nemesis, Peer, Point
from tests.faults.peers import OWN, Host, want_another

PROBE: Final = (FOLDER / "probe",)
APPS: Final = (*PROBE, FOLDER / "social")
WITH_GUEST: Final = (*APPS, FOLDER / "guest")
OPTIONS: Final = (*QUICK, "--suspend-after=0.3")
POLICY: Final = """
[[rule]]
capability = "notify"
decision = "ask"
for = "always"

[[rule]]
tool = "social.guarded"
decision = "ask"
for = "once"
"""
PEER: Final = "peer"
"""The agent that may be a process of its own."""
SCREEN: Final = "screen"
"""The person's host."""
ONCE: Final = frozenset({"probe.once"})
ECHO: Final = "text"
"""The probe repeats this field of its input in every result."""
SPOILED: Final = "spoiled"
"""The conversation whose instance can never start."""
UNUSABLE: Final = "ins spoiled"
_DRAIN_S: Final = 60.0
"""Several daemons may have to start meanwhile, on a busy machine."""
_STUCK_S: Final = 3.0


class World:
    """One state folder from its first daemon to its last."""

    def __init__(self, state: Path, *, apps: Sequence[Path] = PROBE, options: Sequence[str] = QUICK) -> None:
        self.daemon = Daemon(state, apps=apps, options=options)
        self.history: History = []
        self.agents: list[Agent] = []
        self.deaths = 0
        self._drains = 0
        self.next_options: list[tuple[str, ...]] = []
        """Options of the next starts, in order; then none."""
        self.strikes: dict[Point, str] = {}
        """What the nemesis does where the daemon stands still."""
        self.peers: list[Peer] = []
        self.nemesis = Nemesis(self.daemon, {}, ())
        self._host: tuple[Host, threading.Thread] | None = None
        self.drops: frozenset[str] = frozenset()
        """Commands whose outcome is dropped while a start waits for it: that start is killed."""

    def close(self) -> None:
        for agent in self.agents:
            agent.close()
        for peer in self.peers:
            peer.end()
        self.nemesis.close()
        self._end_host()
        self.daemon.close()
        for peer in self.peers:
            for suffix in (".jsonl", ".rounds", ".ready"):
                peer.journal.with_suffix(suffix).unlink(missing_ok=True)

    def begin(self, peers: Collection[str] = ()) -> None:
        """Start the daemon, somebody who strikes it, and a host and an agent: those of `peers` as processes."""
        names = {"host": SCREEN, "agent": PEER}
        self.peers = [Peer(kind, self.daemon.state, names[kind]) for kind in sorted(peers)]
        self.nemesis = Nemesis(self.daemon, self.strikes, self.peers)
        self.nemesis.start()
        for peer in self.peers:
            peer.start()
            peer.wait_ready()
        self.start()
        if "host" not in peers:
            host = Host(self.daemon.state, SCREEN, self.history)
            thread = threading.Thread(target=host.run, name="host", daemon=True)
            self._host = host, thread
            thread.start()

    def finish(self) -> None:
        """Nothing strikes any more: the peers end what they began, and everything drains."""
        self.drain()
        self.nemesis.close()
        for kind in ("agent", "host"):  # who is asked goes last
            for peer in self.peers:
                if peer.kind == kind and not peer.finish():
                    raise TooLong(f"{peer.name} did not end")
            self.drain()
        self._end_host()

    def want_more(self) -> None:
        """Another round of calls of the agent that is a process of its own."""
        for peer in self.peers:
            if peer.kind == "agent":
                want_another(peer.journal)

    def cut_host(self) -> None:
        """End the connection of the host, which comes again at once."""
        if self._host is not None:
            self._host[0].cut.set()
        for peer in self.peers:
            if peer.kind == "host" and peer.is_ready:
                peer.signal(signal.SIGUSR1)

    def _end_host(self) -> None:
        if self._host is not None:
            host, thread = self._host
            host.over.set()
            thread.join(15)

    def agent(self, name: str = "local") -> Agent:
        agent = Agent(self.daemon.state, name, history=self.history)
        agent.tend = self.tend
        self.agents.append(agent)
        return agent

    def tend(self) -> None:
        """Start the daemon again if it has died."""
        if not self.daemon.running:
            self.deaths += 1
            self.note("fault", "nemesis", kind="daemon-died")
            self.start()

    def start(self) -> None:
        """Start the daemon, again and again if it dies on the way."""
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline:
            more = self.next_options.pop(0) if self.next_options else ()
            self.daemon.launch(*more)
            try:
                self._come_up()
            except TooLong:
                if self.daemon.exit_code not in ({None, -9} if self.drops else {-9}):
                    raise
                self.daemon.kill()
                self.deaths += 1
            else:
                return
        raise TooLong(f"no daemon came up: {self.daemon.said()[-3000:]}")

    def _come_up(self) -> None:
        before = self._dropped()
        daemon = self.daemon
        wait_until("a start", lambda: daemon.ready or not daemon.running or self._dropped() > before, _DRAIN_S)
        daemon.wait_ready(_STUCK_S if self._dropped() > before else _DRAIN_S)

    def _dropped(self) -> int:
        return sum(self.daemon.passed(command, "outcome", "drop") for command in self.drops)

    def order(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """An order that is given until it is answered."""
        deadline = time.monotonic() + _DRAIN_S
        while True:
            self.tend()
            try:
                return self.daemon.control(kind, body, timeout_s=1.0)
            except DaemonNotRunning:
                time.sleep(0.01)
            except ClientError:
                if time.monotonic() > deadline:
                    raise

    def ask(self, look: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever it found, None if nobody could say
        """Look at the daemon, if it is there to be looked at."""
        self.tend()
        try:
            return look()
        except ClientError:
            return None

    def note(self, what: str, by: str, **fields: object) -> None:
        """Write down what was done to the run, rather than in it."""
        self.history.append({"what": what, "at": time.monotonic(), "by": by, **fields})

    def drain(self, within_s: float = _DRAIN_S) -> None:
        """Until no call is open, every delivery was handled and settled, and no instance is between two states."""
        self._drains += 1
        wait = {"id": f"drain/{self._drains}", "kind": "drain"}
        self.note("invoke", "harness", **wait)
        try:
            self._drain(within_s)
        except TooLong:
            self.note("info", "harness", **wait)
            raise
        self.note("ok", "harness", **wait)

    def _drain(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for agent in self.agents:
                agent.pump(0.01)
            if not any(agent.open_calls() for agent in self.agents) and self.ask(self._is_quiet):
                return
        left = {agent.name: agent.open_calls() for agent in self.agents}
        raise TooLong(
            f"not drained within {within_s:g} s: {left}, {self.ask(lambda: self.daemon.listed('calls', open=True))}"
        )

    def _is_quiet(self) -> bool:
        status = self.daemon.listed("status")[0]
        if status["open_calls"] or status["outbox_deliveries"]:
            return False
        rows = [row for row in self.daemon.listed("ps") if row["conversation_id"] != SPOILED]
        return all(row["state"] in {"foreground", "background", "suspended"} for row in rows)

    def describe(self) -> str:
        """How things stand, for somebody who wants to know why nothing goes on."""
        shown = [f"{peer.name} runs: {peer.is_running}, after {peer.starts} starts" for peer in self.peers]
        shown += [f"{agent.name} waits for {agent.open_calls()}" for agent in self.agents]
        for what in ("ps", "calls", "inbox", "outbox"):
            rows = self.ask(partial(self.daemon.listed, what))
            shown += [f"{what}: {row}" for row in rows or () if row.get("status") not in FINAL]
        return "\n".join([*shown, *self.daemon.said().splitlines()[-60:]])

    def evidence(self) -> checker.Evidence:
        """Everything that is known now; read again if a fault that is still planted strikes meanwhile."""
        while True:
            try:
                return self._evidence()
            except ClientError:
                if self.daemon.running:
                    raise
                self.drain()

    def _evidence(self) -> checker.Evidence:
        """One state of the records: read again if something was noted meanwhile."""
        while True:
            listings = {what: self.daemon.listed(what) for what in (*LISTINGS, *PEOPLE)}
            audit = self.daemon.audit()
            if listings["status"][0]["audit"] == self.daemon.listed("status")[0]["audit"]:
                history = [row for row in self.history if row["what"] not in OWN]
                history += [*self.nemesis.history, *worker_words(self.daemon)]
                history += [*self.daemon.failpoints(), *(row for peer in self.peers for row in peer.history)]
                return checker.Evidence(history, audit, listings, once=ONCE, echo=ECHO)

    def violations(self) -> list[str]:
        """What the checker says, the daemon's own verdict on its chain, and whatever it called an error."""
        faults = [str(found) for found in checker.violations(self.evidence())]
        try:
            self.order("verify_audit", {})
        except ClientError as error:
            faults.append(f"audit verify: {error}")
        return faults


def worker_words(daemon: Daemon) -> list[dict[str, Any]]:
    """What the probes wrote into their logs; a line that a kill cut off says nothing."""
    words = []
    for line in daemon.worker_log():
        if line.startswith('{"what"'):
            try:
                words.append(json.loads(line))
            except ValueError:
                continue
    return words


# --- a state folder in which every command has something to do ---


def prepare(state: Path) -> History:
    """Leave a store as a killed daemon leaves it, with something to do for every command.

    Calls of every kind, an app that will be missing, a delivery that nobody read for 31 days, and an instance that no
    supervisor can start.
    """
    world = World(state, apps=WITH_GUEST)
    state.mkdir(mode=0o700)
    (state / "policy.toml").write_text(POLICY)
    try:
        world.start()
        _add_agent(world, PEER)
        agent = world.agent()
        agent.acknowledges = False
        agent.attached()
        running = [
            agent.invoke("probe.hold", "held", conversation="kept"),
            agent.invoke("probe.once", "once", conversation="kept2", steps=1, step_ms=600_000),
        ]
        running += [
            agent.invoke("guest.hold", "guest", conversation="kept"),
            agent.invoke("probe.hold", "spoiled", conversation=SPOILED),
        ]
        old = agent.invoke("probe.echo", "old", conversation="kept")
        agent.final(old)
        agent.say("keep", conversation="kept")
        for text in ("answer kept", "expire kept", "draft kept"):
            running.append(agent.invoke("social.ask", text, conversation="kept3"))
        agent.invoke("social.guarded", "guarded", conversation="kept3")
        for key in running:
            agent.until_running(key)
        wait_until("the text was given", lambda: any(one.get("text") == "keep" for one in worker_words(world.daemon)))
        world.daemon.kill()
    finally:
        world.close()
    with sqlite3.connect(state / "store.db") as sql:
        sql.execute("update outbox set created_wall_s = created_wall_s - 31 * 86400 where call_id = ?", (old[1],))
        # No log file can have this name, so the supervisor fails whenever it is to fork for this instance.
        [(known,)] = sql.execute("select instance_id from instances where conversation_id = ?", (SPOILED,))
        world.note("fault", "nemesis", kind=RENAMED, detail={"from": known, "to": UNUSABLE})
        for table in ("attempts", "calls", "instances"):
            rename = f"update {table} set instance_id = ? where instance_id = ?"  # noqa: S608 - our names
            sql.execute(rename, (UNUSABLE, known))
    sql.close()
    return world.history


def _add_agent(world: World, name: str) -> None:
    token = secrets.token_urlsafe(32)
    (world.daemon.state / "tokens" / name).write_text(f"{token}\n")
    world.order("add_agent", {"name": name, "token_hash": sha256(token.encode()).hexdigest()})


def copy(state: Path, to: Path) -> None:
    """A state folder without its sockets."""
    shutil.copytree(state, to, ignore=shutil.ignore_patterns("run", "out"))
