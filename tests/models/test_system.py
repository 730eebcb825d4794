"""Any story of agents, workers, faults and time, told to the real actors and the real store on real files.

One thread drives all actors by hand. Frames wait in lists, where they are lost, doubled, swapped, kept back and played
again; the daemon is killed at any boundary between two effects, also while it starts, and rises from its files. The
alphabets are small on purpose: two agents, two conversations, three call ids and two bodies must collide. `witness.py`
and `books.py` say what must hold. At the end the faults stop, and everything must drain.

A failing example is printed as the calls that lead to it. In the profile `ci` the examples are the same each time, so
running the test again runs it again; in `nightly` the line `@reproduce_failure(...)` does.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime_actors.commands import follow_ups
from tests.models.life import NAMES
from tests.models.processes import WORDS, Process
from tests.models.profiles import examples, limit
from tests.models.wire import Connection, read
from tests.models.world import World, work_off

WHO: Final = (*((("local", "talk-1"),) * 4), ("local", "talk-2"), ("other", "talk-2"), ("other", "talk-1"))
"""Who speaks where: mostly one agent in its own conversation, so that stories get somewhere."""
CALL_IDS: Final = ("c1", "c2", "c3")
TOOLS: Final = ("notes.write", "notes.once", "notes.write", "notes.once", "board.open", "board.update", "board.show")
BODIES: Final[tuple[dict[str, Any], ...]] = ({}, {"text": "two"})
NEWS: Final = (
    follow_ups.Deliver,
    follow_ups.Settled,
    follow_ups.TellCallChanged,
    follow_ups.TellContext,
    follow_ups.Post,
    follow_ups.InstanceWanted,
    follow_ups.InstanceDone,
    follow_ups.DueAt,
    follow_ups.InventoryChanged,
)
SWITCHES: Final = (("app", "notes"), ("tool", "notes.once"), ("tool", "board.open"))
Carried = str | int
_carried = st.sampled_from((*(["all"] * 10), "said", "said", "nothing", "nothing", 1, 2, 3, 4))
"""Which frames get to where they belong: all until nobody has anything left to say, what peers have said, or none; with
a number all, and the daemon is killed at the boundary after so many."""
_midway = st.sampled_from((None, None, 1, 2, 3, 4, 6))
"""How many messages the actors handle before something happens in between."""
_pick = st.integers(0, 1000)
"""Chooses one of however many there are."""


class System(RuleBasedStateMachine):
    """The runtime, and everybody around it."""

    world: World

    # --- how it begins ---

    @initialize(
        order=st.sampled_from((NAMES, tuple(reversed(NAMES)), (*NAMES[1:], "store"))),
        sealed=st.sampled_from((False, False, True)),
        tools=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3),
        taken_over=st.integers(0, 3),
    )
    def begin_in_the_middle(self, order: tuple[str, ...], tools: list[str], taken_over: int, *, sealed: bool) -> None:
        """Most stories are about calls that workers have already."""
        self.world = World(order, sealed=sealed)
        self.world.carry()
        for call_id, tool in zip(CALL_IDS, tools, strict=False):
            self.world.agents["local"].invoke("talk-1", call_id, tool, {})
        self._end(carried="all")
        for process in self._processes():
            for number in list(process.held)[:taken_over]:
                process.acknowledge(number)
                del process.held[number]
        self._end(carried="all")

    def _end(self, *, carried: Carried = "nothing") -> None:
        if isinstance(carried, int):
            self.world.faults.kill_in = carried
        if isinstance(carried, int) or carried == "all":
            self.world.carry()
        elif carried == "said":
            self.world.hear_everybody()
        self.world.rest()

    # --- agents ---

    @rule(
        who=st.sampled_from(WHO), call_id=st.sampled_from(CALL_IDS), tool=st.sampled_from(TOOLS),
        given=st.sampled_from(BODIES), stale=st.sampled_from((False, False, False, True)), carried=_carried,
    )  # fmt: skip
    def invoke(
        self, who: tuple[str, str], call_id: str, tool: str, given: dict[str, Any], *, stale: bool, carried: Carried
    ) -> None:
        self.world.agents[who[0]].invoke(who[1], call_id, tool, given, stale=stale)
        self._end(carried=carried)

    @rule(
        who=st.sampled_from(WHO), what=st.sampled_from(("tool.cancel", "tool.get", "message")),
        call_id=st.sampled_from(CALL_IDS), carried=_carried,
    )  # fmt: skip
    def say_something_else(self, who: tuple[str, str], what: str, call_id: str, *, carried: Carried) -> None:
        text = {"message_id": call_id, "app_scope": "notes", "text": call_id}
        self.world.agents[who[0]].say(what, text if what == "message" else {"call_id": call_id}, talk=who[1])
        self._end(carried=carried)

    @rule(name=st.sampled_from(("local", "other")), most=st.integers(1, 3), carried=_carried)
    def acknowledge_deliveries(self, name: str, most: int, *, carried: Carried) -> None:
        agent = self.world.agents[name]
        if agent.unacknowledged:
            agent.acknowledge(list(agent.unacknowledged)[:most])
            self._end(carried=carried)

    @rule(name=st.sampled_from(("local", "other")), stays=st.booleans())
    def attach_again(self, name: str, *, stays: bool) -> None:
        agent = self.world.agents[name]
        for connection in [] if stays and len(agent.connections) < 2 else list(agent.connections):
            agent.detach(self.world.life, connection)
        agent.attach(self.world.life)
        self._end(carried="all")

    # --- workers ---

    def _processes(self) -> list[Process]:
        return self.world.machine.living()

    @precondition(lambda self: self.world.machine.living())
    @rule(pick=_pick, word=st.sampled_from((*WORDS, "yes", "invalid", "progress")), carried=_carried)
    def speak(self, pick: int, word: str, *, carried: Carried) -> None:
        """About a call that it has; now and then about one that it has not."""
        pairs = [(process, call_id) for process in self._processes() for call_id in process.calls]
        if pick % 5 == 0 or not pairs:
            pairs = [(process, call_id) for process in self._processes() for call_id in CALL_IDS]
        process, call_id = _one_of(pairs, pick // 5)
        process.say_word(call_id, word)
        self._end(carried=carried)

    @precondition(lambda self: any(one.held for one in self.world.machine.living()))
    @rule(pick=_pick, again=st.booleans(), carried=_carried)
    def acknowledge_message(self, pick: int, *, again: bool, carried: Carried) -> None:
        process = _one_of([one for one in self._processes() if one.held], pick)
        number = _one_of(list(process.held), pick)
        process.acknowledge(number)
        if not again:
            del process.held[number]
        self._end(carried=carried)

    @precondition(lambda self: any(one.said for one in self.world.machine.living()))
    @rule(pick=_pick)
    def say_again(self, pick: int) -> None:
        """The same request, by its id."""
        process = _one_of([one for one in self._processes() if one.said], pick)
        process.put_frame(_one_of(process.said, pick))
        self._end(carried="all")

    @precondition(lambda self: self.world.machine.living())
    @rule(pick=_pick)
    def work_off(self, pick: int) -> None:
        work_off(_one_of(self._processes(), pick))
        self._end(carried="all")

    @precondition(lambda self: self.world.machine.living())
    @rule(pick=_pick, after=_midway, speaks=st.booleans(), then=_midway, carried=_carried)
    def reconnect(self, pick: int, after: int | None, then: int | None, *, speaks: bool, carried: Carried) -> None:
        """What it said before may be lost; what it says at once comes before its hello, or behind it; it may die."""
        process = _one_of(self._processes(), pick)
        self._get_to(process, after)
        process.hang_up(read=after is None)
        process.connect()
        if speaks and process.connection is not None:
            process.say_word(next(iter(process.calls), CALL_IDS[0]), "yes")
            process.connection.up.sort(key=lambda frame: (read(frame).kind == "session.hello") == bool(pick % 2))
        if then is not None:
            self._get_to(process, then)
            process.die()
        self._end(carried=carried)

    @precondition(lambda self: self.world.machine.living())
    @rule(pick=_pick, what=st.sampled_from(("hangs", "wakes", "inbox.list", "tools.get", "session.resume")))
    def behave_oddly(self, pick: int, what: str) -> None:
        """It reads nothing any more, or asks for a list, a call, or a resume that nobody offered."""
        process = _one_of(self._processes(), pick)
        match what:
            case "hangs" | "wakes":
                process.hangs = what == "hangs"
            case "session.resume":
                process.resume(max(1, process.session))
            case _:
                process.request(what, {"call_id": CALL_IDS[0]} if what == "tools.get" else {})
        self._end(carried="all")

    @precondition(lambda self: self.world.machine.living())
    @rule(pick=_pick, after=_midway, exit_first=st.booleans(), carried=_carried)
    def process_dies(self, pick: int, after: int | None, *, exit_first: bool, carried: Carried) -> None:
        process = _one_of(self._processes(), pick)
        self._get_to(process, after)
        process.die(read=after is None, exit_first=exit_first)
        self._end(carried=carried)

    def _get_to(self, process: Process, after: int | None) -> None:
        """Stop in the middle of what the daemon does about its latest words."""
        if after is not None and process.connection is not None and process.is_connected:
            self.world.hear_all(process.connection)
            self.world.life.run(after)

    # --- what happens to frames ---

    @rule(at_once=st.booleans(), settles=st.booleans())
    def carry(self, *, at_once: bool, settles: bool) -> None:
        """All frames, one after the other or all at once; agents that settle have acknowledged what they have."""
        for agent in self.world.agents.values() if settles else ():
            agent.acknowledge(list(agent.unacknowledged))
        self.world.carry(at_once=at_once)
        self._end()

    def _loaded(self) -> list[Connection]:
        return [one for one in self.world.connections() if one.up or one.down]

    @precondition(lambda self: self._loaded())
    @rule(pick=_pick)
    def deliver_one(self, pick: int) -> None:
        """The oldest frame of one connection, either way."""
        connection = _one_of(self._loaded(), pick)
        if connection.up:
            self.world.hear(connection, connection.up.pop(0))
        else:
            self._reader(connection)
        self._end()

    def _reader(self, connection: Connection) -> None:
        for process in self._processes():
            if process.connection is connection and not process.hangs:
                process.read_one(connection)
        for one in self.world.clients():
            if connection in one.connections:
                one.read_one(connection)

    @precondition(lambda self: self._loaded())
    @rule(pick=_pick, how=st.sampled_from(("lose", "double", "swap")), carried=_carried)
    def disturb(self, pick: int, how: str, *, carried: Carried) -> None:
        connection = _one_of(self._loaded(), pick)
        frames = _one_of([way for way in (connection.up, connection.down) if way], pick)
        at = pick % len(frames)
        self.world.damaged.add(connection.number)
        if connection.door == "host" and frames is connection.down:  # it hears in order, up to some end
            del frames[at:]
            self.world.life.wire.hang_up(connection)
        elif how == "lose":
            del frames[at]
        elif how == "double":
            frames.insert(at, frames[at])
        else:
            frames[at], frames[-1] = frames[-1], frames[at]
        self._end(carried=carried)

    @rule(pick=_pick, whom=_pick, what=st.sampled_from(("local", "other", "worker")))
    def play_again(self, pick: int, whom: int, what: str) -> None:
        """A frame of an agent, or of any earlier worker, over a connection of today."""
        agent = self.world.agents.get(what)
        processes = [one for one in self._processes() if one.connection is not None]
        if agent is not None:
            if agent.said and agent.connections:
                agent.connections[-1].up.append(_one_of(agent.said, pick))
        elif self.world.worker_frames and processes:
            _one_of(processes, whom).put_frame(_one_of(self.world.worker_frames, pick))
        self._end(carried="all")

    @precondition(lambda self: self.world.gone_connections())
    @rule(pick=_pick, word=st.sampled_from(("yes", "progress", "again")))
    def speak_late(self, pick: int, word: str) -> None:
        """Over a connection that is gone: something new, or what was said before."""
        gone = _one_of(self.world.gone_connections(), pick)
        frame = _one_of(self.world.worker_frames, pick)
        for process in self._processes():
            if gone.door == f"w-{process.attempt_id}" and word != "again":
                kind, body = WORDS[word]
                _, frame = process.frame(f"tools.{kind}", {"call_id": next(iter(process.calls), CALL_IDS[0]), **body})
        self.world.hear(gone, frame)
        self._end(carried="all")

    # --- the operator, time, and the daemon ---

    @rule(seconds=st.sampled_from((0.5, 1.0, 1.0, 5.0, 10.5)), times=st.integers(1, 7))
    def time_passes(self, seconds: float, times: int) -> None:
        for _ in range(times if seconds == 1.0 else 1):
            self.world.wait(seconds)
            self._end(carried="all")

    @rule(what=st.sampled_from((*SWITCHES, -24 * 400, -1, 25, "long", "longer")), stays=st.booleans())
    def what_happens_seldom(self, what: Any, *, stays: bool) -> None:  # noqa: ANN401 - one of these
        """A switch goes off, perhaps on again; somebody sets the wall clock, by hours; a machine sleeps for long."""
        if isinstance(what, tuple):
            self.world.switch(*what, enabled=False)
            if not stays and self.world.life.alive:
                self.world.switch(*what, enabled=True)
        elif isinstance(what, int):
            self.world.set_wall(what)
        else:
            self.world.wait(60.5 if what == "long" else 31 * 86_400.0)
        self._end(carried="all")

    @rule(kind=st.sampled_from(NEWS))
    def lose_news(self, kind: type) -> None:
        """The next follow-up of this kind does not reach its listener."""
        self.world.lose(kind)

    @rule(
        kill_in=st.integers(1, 12), others_go_on=st.booleans(), down_s=st.sampled_from((0.0, 0.0, 1.0, 11.0, 61.0)),
        reboots=st.booleans(), at_start=st.lists(st.integers(1, 6), max_size=2),
    )  # fmt: skip
    def arm(self, kill_in: int, down_s: float, at_start: list[int], *, others_go_on: bool, reboots: bool) -> None:
        """Plan a kill at the boundary after so many, and others while the daemon starts again."""
        self.world.faults.kill_in, self.world.faults.others_go_on = kill_in, others_go_on
        self.world.down_s, self.world.reboots, self.world.deaths_at_start = down_s, reboots, at_start

    @rule(down_s=st.sampled_from((0.0, 0.0, 1.0, 11.0, 61.0)), reboots=st.booleans())
    def daemon_dies(self, down_s: float, *, reboots: bool) -> None:
        self.world.down_s, self.world.reboots = down_s, reboots
        self.world.life.kill()
        self._end(carried="all")

    # --- what must hold ---

    @invariant()
    def all_promises_hold(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if sys.exc_info()[0] is None:  # else a step has failed, and that is what is to be told
                self.world.drain()
        finally:
            self.world.close()


def _one_of(some: list[Any], pick: int) -> Any:  # noqa: ANN401 - one of `some`
    return some[pick % len(some)]


TestSystem = limit()(System.TestCase)
TestSystem.settings = examples(760, steps=30)
