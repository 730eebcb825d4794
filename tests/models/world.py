"""A state folder from its first daemon to its last, and everybody around it: agents, workers, hosts, clocks."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import itertools
import shutil
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from runtime_actors import state_folder
from runtime_actors.commands import agents as agent_commands
from runtime_actors.commands import follow_ups
from runtime_actors.contract import envelope
from tests.actor_fakes import SENT_AT, HandMonotonic
from tests.fakes import CountingIds, HandClock
from tests.models import foretold
from tests.models.agents import Agent
from tests.models.books import Books
from tests.models.faults import Faults
from tests.models.hosts import Host
from tests.models.life import NAMES, SWEEP_S, Died, Life, Surroundings, copy_state
from tests.models.processes import Machine, Process
from tests.models.questions import END
from tests.models.wire import read
from tests.models.witness import FINAL, Witness

if TYPE_CHECKING:
    from tests.models.wire import Connection

_HAVE_CLOCKS: Final = ("actor", "channel.actor", "channel.requests", "gateway.actor")
_A_DAY_S: Final = 86_400.0
_OPERATOR: Final = 9
_OTHERS_TOKEN: Final = "other's token"
_KEPT_EVENTS, _HOST_WINDOW = 40, 8
"""Few, so that hosts fall behind."""
ROUNDS: Final = 6
"""Of a drain, each with a sweep: everything ends within as many."""
_roots: list[Path] = []


def _new_state() -> Path:
    """A folder with a store that knows the agents `local` and `other`; made once, and copied."""
    if not _roots:
        memory = Path("/dev/shm")  # noqa: S108 - where it exists, syncing costs nothing
        root = Path(tempfile.mkdtemp(prefix="models-", dir=memory if memory.is_dir() else None))
        atexit.register(shutil.rmtree, root, ignore_errors=True)
        state_folder.prepare(root / "first")
        first = Life(root / "first", _surroundings([], NAMES, sealed=False))
        new = agent_commands.NewAgent("other", hashlib.sha256(_OTHERS_TOKEN.encode()).digest(), None)
        first.store.run(agent_commands.add_agent, new)
        first.run()
        first.kill()
        first.forget()
        _roots.append(root)
    state = _roots[0] / "state"
    shutil.rmtree(state, ignore_errors=True)
    copy_state(_roots[0] / "first+", state)
    return state


def _surroundings(wrong: list[str], order: tuple[str, ...], *, sealed: bool) -> Surroundings:
    return Surroundings(
        clock=HandClock(),
        monotonic=HandMonotonic(),
        ids=CountingIds(),
        numbers=itertools.count(1),
        faults=Faults(),
        forks=Machine(),
        observer=Witness(wrong),
        wrong=wrong,
        sealed=sealed,
        order=order,
    )


class World:
    """See the module."""

    def __init__(self, order: tuple[str, ...], *, sealed: bool, has_people: bool = False) -> None:
        self.wrong: list[str] = []
        self.around = _surroundings(self.wrong, order, sealed=sealed)
        assert isinstance(self.around.observer, Witness)
        assert isinstance(self.around.forks, Machine)
        self.witness, self.machine = self.around.observer, self.around.forks
        self.clock, self.faults = self.around.clock, self.around.faults
        self._patch = pytest.MonkeyPatch()
        for module in _HAVE_CLOCKS:
            self._patch.setattr(f"runtime_actors.{module}.time", self.around.monotonic)
        self._patch.setattr("runtime_actors.commands.screens.KEPT", _KEPT_EVENTS)
        self._patch.setattr("runtime_actors.shell.feed.WINDOW", _HOST_WINDOW)
        self.books = Books(self.witness, self.clock, self.around.monotonic)
        state = _new_state()
        token = (state / "tokens" / "local").read_text().strip()
        self.agents = {"local": Agent("local", token, 1), "other": Agent("other", _OTHERS_TOKEN, 2)}
        hosts = [Host("screen", 11), Host("window", 12, follows=("talk-1",))] if has_people else []
        self.hosts = {one.name: one for one in hosts}
        self.lives = 0
        self.deaths_at_start: list[int] = []
        """Boundaries at which the next starts are killed."""
        self.down_s, self.reboots = 0.0, False
        """How long the next kill keeps the daemon down, and whether the machine was off."""
        self.doubtful = False
        """News of a switch got lost: router and gateway may believe what was."""
        self.worker_frames: list[bytes] = []
        self.damaged: set[int] = set()
        """Connections over which a frame got lost."""
        self.operator: Connection | None = None
        self.life: Life
        self._start(state)

    def clients(self) -> list[Agent | Host]:
        return [*self.agents.values(), *self.hosts.values()]

    # --- lives ---

    def _start(self, state: Path) -> None:
        """Again and again while it is killed on the way."""
        alive = False
        while not alive:
            self.lives += 1
            self.doubtful = follow_ups.InventoryChanged in self.faults.loses
            self.operator = None
            self.faults.kill_in = self.deaths_at_start.pop(0) if self.deaths_at_start else None
            self.life = self.machine.life = Life(state, self.around)
            self.witness.lives(self.life)
            with contextlib.suppress(Died):
                self.life.boot()
            alive = self.life.alive
            if not alive:
                self._bury(self.life)
        self.faults.kill_in = None
        for one in self.clients():
            one.attach(self.life)

    def _bury(self, life: Life) -> None:
        """What was in memory and on its way is lost; the files are as the kill left them."""
        self.machine.kill_all()
        for one in self.clients():
            one.connections.clear()
        life.forget()
        assert life.left is not None
        life.left.rename(life.state)

    def rise(self) -> None:
        """After a kill: some time passes, and the next life begins."""
        self._bury(self.life)
        if self.reboots:
            self.clock.reboot(self.down_s)
        else:
            self.clock.move(self.down_s)
        self.around.monotonic.now_s += self.down_s
        self.faults.others_go_on = self.reboots = False
        self._start(self.life.state)

    def rest(self) -> None:
        """Whatever was begun comes to its end, with a new life if it has to; then all must hold."""
        self.life.run()
        if not self.life.alive:
            self.rise()
        self.check()

    def check(self) -> None:
        """Nothing is under way, and nothing was promised that is not so."""
        assert not self.wrong, self.wrong
        self.books.check(self.life.sql, self.life.side.read(), self.lives)
        assert not self.wrong, self.wrong

    def close(self) -> None:
        self._patch.undo()
        self.life.alive = False
        self.life.forget()

    # --- what is on its way ---

    def connections(self) -> list[Connection]:
        return list(self.life.wire.connections.values())

    def carry(self, *, at_once: bool = False) -> None:
        """Bring everything to where it belongs, and let all answer, until nobody has anything left to say."""
        for _ in range(20):
            self.life.run()
            for process in self.machine.living():
                process.read()
            for one in self.clients():
                one.read()
            if not self.hear_everybody(at_once=at_once):
                return

    def hear_everybody(self, *, at_once: bool = False) -> bool:
        """What peers have said reaches the daemon; False if there was nothing, or the daemon is dead."""
        self.life.run()
        waiting = [one for one in self.connections() if one.up]
        for connection in waiting:
            if at_once:
                self.hear_all(connection)
            while connection.up and self.life.alive:
                self.hear(connection, connection.up.pop(0))
        return bool(waiting) and self.life.alive

    def hear_all(self, connection: Connection) -> None:
        """At once."""
        while connection.up:
            self._hear(connection, connection.up.pop(0))

    def _hear(self, connection: Connection, frame: bytes) -> None:
        if connection.door.startswith("w-"):
            self.worker_frames.append(frame)
        self.life.wire.hear(connection, frame)

    def hear(self, connection: Connection, frame: bytes) -> None:
        """One frame, alone: so its answer is known beforehand."""
        self.life.run()
        if not self.life.alive:
            return
        said = read(frame)
        self._hear(connection, frame)
        answer = foretold.answer(self, connection, said)
        self.witness.answers.clear()
        sql = self.life.sql
        changes, (entries,) = sql.total_changes, sql.execute("select count(*) from audit").fetchone()
        self.life.run()
        if not self.life.alive or answer is None:
            return
        codes = [code for request_id, code in self.witness.answers if request_id == said.id]
        may_be_silent = connection.door.startswith("w-") or not connection.is_open
        assert codes == [answer] or (codes == [] and may_be_silent), (said, answer, codes)
        if answer == "nothing" or (connection.door == "agent" and answer != "ok"):
            (now,) = sql.execute("select count(*) from audit").fetchone()
            assert sql.total_changes - changes == now - entries, f"{said.kind} was answered {answer} and left something"

    def gone_connections(self) -> list[Connection]:
        """Of workers, in this life."""
        return [one for one in self.life.wire.ended if one.door.startswith("w-")]

    # --- what people and clocks do ---

    def switch(self, kind: str, name: str, *, enabled: bool) -> None:
        """The operator turns an app or a tool off or on."""
        if self.operator is None or not self.operator.is_open:
            self.operator = self.life.wire.connect("control", _OPERATOR)
        assert self.operator is not None
        self.tell_operator({"kind": kind, "name": name, "enabled": enabled})

    def tell_operator(self, order: Mapping[str, Any]) -> None:
        assert self.operator is not None
        frame = envelope.encode("lineup.v1.control.switch", order, id="o1", sent_at=SENT_AT)
        self._hear(self.operator, frame)
        self.life.run()

    def wait(self, seconds: float) -> None:
        """Time passes while the daemon is up; what is due happens."""
        self.let_pass(seconds)
        self.life.tell_due()

    def let_pass(self, seconds: float) -> None:
        """Time passes, and the daemon does not come to look at it."""
        self.clock.move(seconds)
        self.around.monotonic.now_s += seconds
        if seconds > _A_DAY_S:
            self.witness.people.a_day_passes()

    def set_wall(self, hours: int) -> None:
        """Somebody sets the wall clock."""
        self.clock.set_wall(self.clock.now().wall + timedelta(hours=hours))
        self.books.people.may_be_late = True
        self.witness.people.a_day_passes()

    def lose(self, kind: type) -> None:
        """The next follow-up of this kind does not reach its listener."""
        self.faults.loses.add(kind)
        self.doubtful = self.doubtful or kind is follow_ups.InventoryChanged
        people = self.books.people
        self.books.may_be_late = self.books.may_be_late or kind is follow_ups.DueAt
        people.may_be_late = people.may_be_late or kind is follow_ups.InteractionDueAt
        people.events_may_be_late = people.events_may_be_late or kind is follow_ups.Shown

    # --- the end of all faults ---

    def drain(self) -> None:
        """The faults stop: whatever is open ends within bounded time, by its app's word, and every agent gets it."""
        self._stop_faults()
        open_calls = [call for call in self.books.calls.values() if call.status not in FINAL]
        most_s = (ROUNDS + 1) * SWEEP_S
        patient = [one.key for one in open_calls if one.left_s(self.now_s()) > most_s]
        self._end_all()
        assert [key for key in patient if self.books.calls[key].status == "expired"] == []
        self.wait(SWEEP_S)  # news of a switch may have got lost
        self.carry()
        # Only now: a new delivery would show the outbox that it has missed one.
        self.agents["local"].invoke("probe-talk", "probe", "notes.write", {})
        self._end_all()
        self._check_hosts()
        [probe] = [one for one in self.books.calls.values() if one.call_id == "probe"]
        assert probe.status == "completed"

    def _end_all(self) -> None:
        for _ in range(ROUNDS):
            for _ in range(3):
                self.carry()
                self._all_work()
                self.rest()
            if self._is_drained():
                return
            self.wait(SWEEP_S)
        raise AssertionError("it does not drain")

    def _check_hosts(self) -> None:
        """Nothing is open any more, and all know that."""
        assert not [name for name, one in self.books.people.questions.items() if one.status not in END]
        for host in self.hosts.values():
            assert not host.drawn, f"the {host.name} shows {host.drawn}"
            assert not host.unanswered

    def now_s(self) -> float:
        return self.clock.now().boot_s

    def wall_s(self) -> float:
        return self.clock.now().wall.timestamp()

    def _stop_faults(self) -> None:
        self.faults.kill_in = None
        self.faults.loses.clear()
        self.deaths_at_start.clear()
        self.rest()
        for kind, name in self.life.sql.execute("select kind, name from switched_off").fetchall():
            self.switch(kind, name, enabled=True)
        for process in list(self.machine.living()):
            process.hangs = False
            if process.connection is None or self._is_damaged(process.connection):
                process.hang_up()
                if self.around.sealed:
                    process.die()
                else:
                    process.connect()
        for agent in self.agents.values():
            for connection in [one for one in agent.connections if self._is_damaged(one)]:
                agent.detach(self.life, connection)
            if not agent.connections:
                agent.attach(self.life)
        for host in self.hosts.values():
            self.renew(host)
        self.rest()
        self.carry()
        self.rest()

    def renew(self, host: Host) -> None:
        """It comes again if its connection is not what it was."""
        if host.newest is None or self._is_damaged(host.newest):
            host.detach(self.life)
            host.attach(self.life)

    def _is_damaged(self, connection: Connection) -> bool:
        """Only a new connection brings back what got lost; over one that is whole nothing may be missing."""
        return not connection.is_open or connection.number in self.damaged

    def _all_work(self) -> None:
        for host in self.hosts.values():
            self.renew(host)  # one that has fallen too far behind was closed
            host.acknowledge()
            host.answer_all()
        self.carry()
        for process in self.machine.living():
            work_off(process)
        for agent in self.agents.values():
            if agent.unacknowledged:
                agent.acknowledge(list(agent.unacknowledged))
        self.carry()

    def _is_drained(self) -> bool:
        waiting = self.life.sql.execute(
            "select count(*) from inbox join instances using (conversation_id, app_scope) "
            "where state in ('starting', 'foreground', 'background')"
        ).fetchone()
        left = self.life.sql.execute("select count(*) from outbox").fetchone()
        asked = any(one.status not in END for one in self.books.people.questions.values())
        drawn = any(host.drawn or host.unanswered for host in self.hosts.values())
        is_over = all(call.status in FINAL for call in self.books.calls.values())
        return waiting == left == (0,) and is_over and not asked and not drawn


def work_off(process: Process) -> None:
    """A good app: every call gets its result, every message its acknowledgement."""
    for call_id in list(process.calls):
        process.say_word(call_id, "yes")
        del process.calls[call_id]
    for number in list(process.held):
        process.acknowledge(number)
        del process.held[number]
