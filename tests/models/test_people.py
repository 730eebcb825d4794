"""Any story of apps that ask a person, told to the real actors and the real store: the system's, with two hosts in it.

Everything that can go wrong in `test_system.py` can here, too, and most stories begin with open questions. What must
hold is in `people.py` (what was said), `people_books.py` (what the rows say) and `people_expected.py` (the answers).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from runtime_actors.commands import follow_ups
from runtime_actors.records.transaction import rfc3339
from tests.models.hosts import Host
from tests.models.life import NAMES
from tests.models.profiles import examples, limit
from tests.models.questions import KINDS, QUESTION_OF_CHAT
from tests.models.test_system import CALL_IDS, Carried, System, _carried, _one_of, _pick
from tests.models.world import World

TITLES: Final = list(KINDS)
TOOLS: Final = ("notes.write", "notes.write", "board.open", "board.show", "notes.once", "chat.confirm")
NEWS: Final = (
    follow_ups.TellInteraction,
    follow_ups.InteractionDueAt,
    follow_ups.Shown,
    follow_ups.Deliver,
    follow_ups.Settled,
    follow_ups.DueAt,
    follow_ups.InstanceWanted,
)
_who = st.sampled_from(("screen", "screen", "window"))
_title = st.sampled_from((*TITLES, "Who?", "Who?"))
"""That one alone has drafts."""
_later = st.sampled_from((None, None, 0.5, 1.0, 1.0, 5.0, 30.0, -1.0))
"""When a question expires, in seconds from now."""


class People(System):
    """The runtime, and everybody around it, people too."""

    @initialize(
        order=st.sampled_from((NAMES, tuple(reversed(NAMES)), (*NAMES[1:], "store"))),
        sealed=st.sampled_from((False, False, True)),
        tools=st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3),
        titles=st.lists(_title, min_size=1, max_size=3),
        has_free=st.booleans(),
    )
    def begin_in_the_middle(
        self, order: tuple[str, ...], tools: list[str], titles: list[str], *, sealed: bool, has_free: bool
    ) -> None:
        """Calls that workers have, questions about them, and perhaps some about none."""
        self.world = World(order, sealed=sealed, has_people=True)
        self.world.carry()
        for call_id, tool in zip(CALL_IDS, tools, strict=False):
            self.world.agents["local"].invoke("talk-1", call_id, tool, _input_of(tool))
        self._end(carried="all")
        pairs = [(process, call_id) for process in self._processes() for call_id in process.calls]
        for number, title in enumerate(titles):
            process, call_id = _one_of(pairs, number)
            process.ask(KINDS[title].request, parent_call_id=call_id)
        for process in self._processes() if has_free else ():
            process.ask(KINDS[titles[0]].request)
        self._end(carried="all")

    # --- apps ask ---

    @precondition(lambda self: self.world.machine.living())
    @rule(pick=_pick, title=_title, key=st.sampled_from(("k1", "k2", None, None)), in_s=_later, carried=_carried)
    def ask(self, pick: int, title: str, key: str | None, in_s: float | None, *, carried: Carried) -> None:
        """Mostly about a call that it has; now and then about one that it has not, or about none."""
        process = _one_of(self._processes(), pick)
        own = [*process.calls, *process.calls, None, CALL_IDS[0]]
        how: dict[str, Any] = {"parent_call_id": _one_of(own, pick // 7), "key": key}
        if in_s is not None:
            how["expires_at"] = rfc3339(self.world.clock.now().wall + timedelta(seconds=in_s))
        process.ask(KINDS[title].request, **{name: value for name, value in how.items() if value is not None})
        self._end(carried=carried)

    @precondition(lambda self: self._known() and self.world.machine.living())
    @rule(
        pick=_pick,
        what=st.sampled_from(("cancel", "cancel", "get", "list")),
        foreign=st.sampled_from((False, False, True)),
        carried=_carried,
    )
    def look_after_question(self, pick: int, what: str, *, foreign: bool, carried: Carried) -> None:
        """Of its own; now and then of another instance."""
        process = _one_of([one for one in self._processes() if one.questions] or self._processes(), pick)
        name = _one_of(self._known() if foreign or not process.questions else list(process.questions), pick // 3)
        match what:
            case "cancel":
                process.request("ui.cancel", {"interaction_id": name, "reason": f"it is {pick % 2}"})
            case "get":
                process.request("ui.get", {"interaction_id": name})
            case _:
                process.request("ui.list", {})
        self._end(carried=carried)

    # --- people answer ---

    def _known(self) -> list[str]:
        return list(self.world.books.people.questions)

    def _question(self, host: Host, pick: int, what: str) -> tuple[str, str]:
        """Its name and title: mostly one that the host shows."""
        drawn = [name for name, one in host.drawn.items() if what != "draft" or one["kind"] == "input"]
        name = _one_of(drawn if drawn and pick % 5 else self._known(), pick // 5)
        return name, self.world.books.people.questions[name].title

    def _respond(self, host: Host, pick: int, what: str) -> str:
        """The question's name is returned."""
        name, title = self._question(host, pick, what)
        match what:
            case "answer" | "invalid":
                known = KINDS[title]
                given = [answer for answer, _ in known.answers] if what == "answer" else list(known.invalid)
                host.say("answer", {"interaction_id": name, **_one_of(given or list(known.invalid), pick // 11)})
            case "draft":
                for number in (pick % 4, pick // 4 % 4):  # the second may be the older one
                    host.say("draft", {"interaction_id": name, "sequence": number, "values": {"name": f"n{number}"}})
                if pick % 2:
                    host.say("presented", {"interaction_id": name})
            case _:
                host.say(what, {"interaction_id": name})
        return name

    @precondition(lambda self: self._known())
    @rule(
        who=_who,
        pick=_pick,
        words=st.lists(
            st.sampled_from(("answer", "answer", "invalid", "dismiss", "presented", "draft")), min_size=1, max_size=4
        ),
        carried=_carried,
    )
    def respond(self, who: str, pick: int, words: list[str], *, carried: Carried) -> None:
        for more, what in enumerate(words):
            self._respond(self.world.hosts[who], pick + 7 * more, what)
        self._end(carried=carried)

    @precondition(lambda self: self._known())
    @rule(
        pick=_pick,
        words=st.lists(st.sampled_from(("answer", "answer", "dismiss", "draft", "presented")), min_size=2, max_size=2),
        at_once=st.booleans(),
        carried=_carried,
    )
    def both_respond(self, pick: int, words: list[str], *, at_once: bool, carried: Carried) -> None:
        """From two hosts at once, to the same question if both show it; the second says something else."""
        for more, (host, what) in enumerate(zip(self.world.hosts.values(), words, strict=True)):
            self._respond(host, pick + 11 * more if pick // 11 % 2 else pick, what)
        if at_once:
            self.world.hear_everybody(at_once=True)
        self._end(carried=carried)

    @precondition(lambda self: self._known())
    @rule(
        who=_who,
        pick=_pick,
        what=st.sampled_from(("answer", "answer", "dismiss", "draft")),
        after_s=st.sampled_from((-0.5, 0.0, 0.0, 0.0, 1.0)),
    )
    def respond_in_the_last_moment(self, who: str, pick: int, what: str, after_s: float) -> None:
        """The time of a question is over, and what was said about it comes before the look at the clock."""
        name = self._respond(self.world.hosts[who], pick, what)
        expires_s = self.world.books.people.questions[name].expires_wall_s
        left_s = 0.0 if expires_s is None else expires_s - self.world.wall_s() + after_s
        self.world.let_pass(left_s if 0 <= left_s < 100 else 1.0)  # not if the clock was set
        for connection in [one for one in self.world.connections() if one.door == "host"]:
            while connection.up and self.world.life.alive:
                self.world.hear(connection, connection.up.pop(0))
        self.world.life.tell_due()
        self._end(carried="all")

    @precondition(lambda self: any(one.calls for one in self.world.machine.living()))
    @rule(pick=_pick, before_s=st.sampled_from((0.5, 5.0, 20.0)), thinks_s=st.sampled_from((1.0, 20.0)))
    def ask_and_be_answered(self, pick: int, before_s: float, thinks_s: float) -> None:
        """With time for both: the app's counts, and the person's does not."""
        process = _one_of([one for one in self._processes() if one.calls], pick)
        for seconds in (before_s, thinks_s):
            self.world.wait(seconds)
            self._end(carried="all")
            if seconds == before_s and process.alive:
                process.ask(KINDS[_one_of(TITLES, pick)].request, parent_call_id=next(iter(process.calls), CALL_IDS[0]))
                self._end(carried="all")
        for host in self.world.hosts.values():
            host.answer_all()
        self._end(carried="all")

    @precondition(lambda self: any(one.said for one in self.world.hosts.values()))
    @rule(pick=_pick)
    def person_says_again(self, pick: int) -> None:
        """The same request, by its id."""
        host = _one_of([one for one in self.world.hosts.values() if one.said], pick)
        if host.newest is not None and host.newest.is_open:
            host.newest.up.append(_one_of(host.said, pick))
        self._end(carried="all")

    @precondition(lambda self: self.world.machine.living())
    @rule(
        who=_who, pick=_pick, action=st.sampled_from(("focus", "close", "force_close", "force_close")), carried=_carried
    )
    def act(self, who: str, pick: int, action: str, *, carried: Carried) -> None:
        process = _one_of(self._processes(), pick)
        instance_id = self.world.witness.place_of(process.attempt_id)[0]
        self.world.hosts[who].say("act", {"instance_id": instance_id, "action": action})
        self._end(carried=carried)

    # --- hosts come and go ---

    @rule(
        who=_who,
        leaves=st.sampled_from(("reads", "reads", "cut", "stays")),
        comes=st.sampled_from(("goes on", "goes on", "goes on", "anew", "false stream", "too far", "later")),
        on_screen=st.sampled_from((None, "talk-1", "talk-2")),
    )
    def host_comes_again(self, who: str, leaves: str, comes: str, on_screen: str | None) -> None:
        host, life = self.world.hosts[who], self.world.life
        host.on_screen = on_screen
        if leaves != "stays":
            host.detach(life, reads=leaves == "reads")
        if comes == "anew":
            host.detach(life)
            host.begin_anew()
        claims: dict[str, dict[str, Any]] = {
            "false stream": {"stream": "s"},
            "too far": {"after_number": host.last_number + 1000},
        }
        if comes != "later":
            host.attach(life, **(claims.get(comes, {}) if host.taken_over is not None else {}))
        self._end(carried="all" if leaves != "cut" else "nothing")

    @rule(who=_who, carried=_carried)
    def acknowledge_events(self, who: str, *, carried: Carried) -> None:
        self.world.hosts[who].acknowledge()
        self._end(carried=carried)

    @rule(who=_who, on_screen=st.sampled_from((None, "talk-1", "talk-2")))
    def turn_over(self, who: str, on_screen: str | None) -> None:
        """Its person sees another conversation."""
        self.world.hosts[who].say("show", {} if on_screen is None else {"on_screen": on_screen})
        self._end(carried="all")

    @rule(kind=st.sampled_from(NEWS))
    def lose_news(self, kind: type) -> None:
        """The next follow-up of this kind does not reach its listener."""
        self.world.lose(kind)


def _input_of(tool: str) -> dict[str, Any]:
    return dict(QUESTION_OF_CHAT) if tool == "chat.confirm" else {}


TestPeople = limit()(People.TestCase)
TestPeople.settings = examples(220, steps=30)
