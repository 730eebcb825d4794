"""Any story of agents, apps, deaths, restarts and time, told to the real commands on a real store.

Small alphabets on purpose: two agents, two conversations, five call ids and two bodies must collide. After each step
the rules of the design's section 9 are checked against a model of plain dicts; at the end the faults stop, and all that
is open must drain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime_actors.commands import agents, apps, calls, inbox, instances, recovery
from runtime_actors.commands.follow_ups import Deliver, Post
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.tools import CallStatus
from runtime_actors.records import boxes
from runtime_actors.records import calls as call_rows
from runtime_actors.records import instances as instance_rows
from runtime_actors.records.audit import audit_entries
from runtime_actors.records.transaction import Transaction
from runtime_actors.rules.audit import GENESIS, Break, first_break
from runtime_actors.rules.calls import CallKey, CallRecord
from runtime_actors.rules.instances import LIVE, AttemptState, InstanceState
from tests.fakes import SNAPSHOT, a_cancellation, a_failure, a_result, an_invoke, some_records

A = TypeVar("A")
O = TypeVar("O")  # noqa: E741 - an outcome

AGENTS: Final = ("local", "other")
TALKS: Final = ("talk-1", "talk-2")
WHO: Final = (*((("local", "talk-1"),) * 4), ("other", "talk-2"), ("other", "talk-1"))
"""Who speaks where: mostly one agent in its own conversation, so that stories get somewhere."""
CALL_IDS: Final = ("c1", "c2", "c3", "c4", "c5")
TOOLS: Final = ("notes.write", "notes.once", "board.open", "board.update", "board.show")
GRACE_S: Final = 10.0
TIMEOUT_S: Final = 60.0
BODIES: Final[tuple[dict[str, Any], ...]] = ({}, {"text": "two"})
WORDS: Final[dict[str, Callable[[calls.Reporter], calls.FinalReport]]] = {
    "yes": a_result,
    "no": lambda by: a_result(by, ok=False),
    "fail": a_failure,
    "cancel": a_cancellation,
}
ENDS: Final = {"completed", "failed", "cancelled", "expired", "rejected"}
STEPS: Final = {
    "waiting_for_app": {"waiting_for_app", "running", *ENDS - {"rejected"}},
    "running": {"running", "waiting_for_app", *ENDS - {"rejected"}},
} | {end: {end} for end in ENDS}
"""What one step may make of a status."""


@dataclass
class Process:
    """A worker process as the channel sees it."""

    attempt_id: str
    instance_id: str
    ready: bool = False
    sent: dict[int, str | None] = field(default_factory=dict)
    """Messages in flight, each with its call."""


class Story(RuleBasedStateMachine):
    """The commands, and what they must amount to."""

    def __init__(self) -> None:
        super().__init__()
        self.records = some_records()
        self.records.run(recovery.recover, None)
        self.bodies: dict[CallKey, bytes] = {}
        """Every call that was accepted, with the digest of its body."""
        self.owners: dict[str, str] = {}
        self.off: set[tuple[str, str]] = set()
        self.ended: dict[CallKey, CallRecord] = {}
        self.statuses: dict[CallKey, str] = {}
        self.deaths: Counter[CallKey] = Counter()
        self.results: defaultdict[CallKey, list[int]] = defaultdict(list)
        self.given: defaultdict[CallKey, set[str]] = defaultdict(set)
        """The attempts that were sent a call."""
        self.due: dict[CallKey, float] = {}
        self.wished: set[CallKey] = set()
        """When, on the wall clock, each open call ends by itself."""
        self.words: dict[CallKey, str] = {}
        """The last word of an app about a call."""
        self.invalid: defaultdict[CallKey, set[str]] = defaultdict(set)
        self.sent_before: set[tuple[str, str, int]] = set()
        """Messages that a process which is gone was sent."""
        self.acknowledged: set[tuple[str, str, int]] = set()
        self.texts: set[tuple[str, str, int]] = set()
        self.processes: dict[str, Process] = {}
        self.walked = (0, GENESIS)
        self.requests = 0

    # --- the edge ---

    def run(self, command: Callable[[Transaction, A], O], argument: A, *, counted_refusal: bool = False) -> O:
        """Run one command; look at what it told, and that a refusal changed nothing."""
        changes, entries = self.records.sql.total_changes, self.records.chain.seq
        outcome = self.records.run(command, argument)
        if isinstance(outcome, Rejection) and not counted_refusal:  # rows were written to the log alone
            assert self.records.sql.total_changes - changes == self.records.chain.seq - entries
        for told in self.records.told(Post):
            if told.delivery.kind == "lineup.v1.tool.result":
                one = told.delivery
                self.results[CallKey(one.agent_id, one.conversation_id, one.call_id or "")].append(one.number)
        for deliver in self.records.told(Deliver):
            assert (*self.place(deliver.instance_id), deliver.message.number) not in self.acknowledged
        return outcome

    def place(self, instance_id: str) -> tuple[str, str]:
        instance = self.records.instance(instance_id)
        return instance.conversation_id, instance.app_scope

    def find(self, key: CallKey) -> CallRecord:
        return self.records.call(key.call_id, agent_id=key.agent_id, conversation_id=key.conversation_id)

    def live(self, talk: str, scope: str) -> bool:
        return instance_rows.live(self.records.transaction(), talk, scope) is not None

    def reporter(self, call: CallRecord, *, again: bool) -> calls.Reporter:
        self.requests += not again
        return calls.Reporter(call.instance_id or "", "att", f"q{self.requests}", call.call_id)

    # --- agents ---

    @initialize(
        tools=st.lists(st.sampled_from(TOOLS), max_size=4), taken_over=st.integers(0, 4), most=st.integers(0, 4)
    )
    def begin_in_the_middle(self, tools: list[str], taken_over: int, most: int) -> None:
        """Most stories are about calls that processes have already."""
        for call_id, tool in zip(CALL_IDS, tools, strict=False):
            self.invoke(WHO[0], call_id, tool, BODIES[0])
        for instance_id in self.wanted() if most else ():
            process = self.begin_one(instance_id)
            self.attach_one(process)
            self.read_for(process, most)
            for number in sorted(process.sent)[:taken_over]:
                self.acknowledge_one(process, number)

    @rule(
        who=st.sampled_from(WHO),
        call_id=st.sampled_from(CALL_IDS),
        tool=st.sampled_from(TOOLS),
        given=st.sampled_from(BODIES),
    )
    def invoke(self, who: tuple[str, str], call_id: str, tool: str, given: dict[str, Any]) -> None:
        agent, talk = who
        asked = an_invoke(tool, call_id, agent_id=agent, conversation_id=talk, given=given)
        scope = tool.partition(".")[0]
        expected = "ok"
        if asked.key in self.bodies:
            expected = "repeated" if self.bodies[asked.key] == asked.digest else "call_id_conflict"
        elif self.off & {("app", scope), ("tool", tool)}:
            expected = "app_disabled"
        elif self.owners.get(talk, agent) != agent:
            expected = "conversation_denied"
        elif tool == "board.update" and not self.live(talk, scope):
            expected = "app_instance_not_found"

        outcome = self.run(calls.admit, asked)

        if isinstance(outcome, Rejection):
            assert outcome.code == expected
        else:
            assert ("repeated" if outcome.repeated else "ok") == expected
            if not outcome.repeated:
                self.due[asked.key] = self.now() + TIMEOUT_S
            self.bodies[asked.key] = asked.digest
            self.owners.setdefault(talk, agent)

    @rule(who=st.sampled_from(WHO), call_id=st.sampled_from(CALL_IDS))
    def cancel(self, who: tuple[str, str], call_id: str) -> None:
        key = CallKey(*who, call_id)
        outcome = self.run(calls.request_cancel, calls.CancelWish(key, None))

        is_known = key in self.bodies and (key not in self.ended or key in self.wished)
        assert isinstance(outcome, calls.CallAnswer) == is_known
        if isinstance(outcome, calls.CallAnswer) and not outcome.repeated:
            self.wished.add(key)
            self.due[key] = min(self.due[key], self.now() + GRACE_S)

    @rule(who=st.sampled_from(WHO), name=st.sampled_from(("t1", "t2")))
    def send_text(self, who: tuple[str, str], name: str) -> None:
        agent, talk = who
        outcome = self.run(inbox.put_text, inbox.PutText(agent, talk, name, "notes", name, None, name.encode()))
        if isinstance(outcome, inbox.TextReceived):
            self.owners.setdefault(talk, agent)
            if not outcome.repeated:
                self.texts.add((talk, "notes", boxes.last_inbox_number(self.records.transaction(), talk, "notes")))

    @rule(agent=st.sampled_from(AGENTS), choice=st.data())
    def acknowledge_deliveries(self, agent: str, choice: st.DataObject) -> None:
        numbers = tuple(one.number for one in self.records.outbox(agent))
        if numbers:
            some = choice.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=3))
            self.run(agents.settle_deliveries, agents.Settle(agent, tuple(some)))
            assert not {one.number for one in self.records.outbox(agent)} & set(some)

    # --- processes ---

    @precondition(lambda self: self.wanted())
    @rule(choice=st.data(), how_far=st.integers(0, 3))
    def begin(self, choice: st.DataObject, how_far: int) -> None:
        process = self.begin_one(choice.draw(st.sampled_from(self.wanted())))
        if how_far:
            self.attach_one(process)
        if how_far > 1:
            self.read_for(process, how_far)

    def wanted(self) -> tuple[str, ...]:
        return instances.read_wanted(self.records.transaction(), None).wanted

    def begin_one(self, instance_id: str) -> Process:
        outcome = self.run(instances.begin_attempt, instance_id)
        assert isinstance(outcome, instances.AttemptBegun)
        process = Process(outcome.attempt_id, instance_id)
        self.processes[process.attempt_id] = process
        return process

    @precondition(lambda self: any(not one.ready for one in self.processes.values()))
    @rule(choice=st.data())
    def attach(self, choice: st.DataObject) -> None:
        starting = sorted(one.attempt_id for one in self.processes.values() if not one.ready)
        self.attach_one(self.processes[choice.draw(st.sampled_from(starting))])

    def attach_one(self, process: Process) -> None:
        outcome = self.run(instances.attach, instances.Attached(process.attempt_id, "process", SNAPSHOT))
        if isinstance(outcome, instances.AttemptReady):
            process.ready = True
            debts = [
                call.call_id for call in call_rows.open_of_instance(self.records.transaction(), process.instance_id)
            ]
            talk, scope = self.place(process.instance_id)
            assert [row.call_id for row in self.records.inbox(scope, talk) if row.call_id is not None] == debts

    def now(self) -> float:
        return self.records.clock.now().wall.timestamp()

    @precondition(lambda self: any(one.ready for one in self.processes.values()))
    @rule(choice=st.data(), most=st.integers(1, 3))
    def read_inbox(self, choice: st.DataObject, most: int) -> None:
        self.read_for(self.processes[choice.draw(st.sampled_from(self.ready()))], most)

    def ready(self) -> list[str]:
        return sorted(one.attempt_id for one in self.processes.values() if one.ready)

    def read_for(self, process: Process, most: int) -> None:
        of = inbox.InboxPageOf(process.instance_id, frozenset(process.sent), 0, most)
        page = self.run(inbox.read_inbox, of)
        if isinstance(page, Rejection):
            assert self.records.instance(process.instance_id).state not in LIVE
            return
        for message in page.messages:
            place = (*self.place(process.instance_id), message.number)
            assert place not in self.acknowledged
            assert message.repeated or place not in self.sent_before
            call_id = message.call.call_id if message.call else None
            process.sent[message.number] = call_id
            if call_id is not None:
                self.given[self.key_of(process.instance_id, call_id)].add(process.attempt_id)

    def key_of(self, instance_id: str, call_id: str) -> CallKey:
        call = call_rows.of_instance(self.records.transaction(), instance_id, call_id)
        assert call is not None
        return call.key

    @precondition(lambda self: any(one.sent for one in self.processes.values()))
    @rule(choice=st.data())
    def acknowledge_message(self, choice: st.DataObject) -> None:
        process = self.processes[
            choice.draw(st.sampled_from(sorted(name for name, one in self.processes.items() if one.sent)))
        ]
        self.acknowledge_one(process, choice.draw(st.sampled_from(sorted(process.sent))))

    def acknowledge_one(self, process: Process, number: int) -> None:
        outcome = self.run(calls.acknowledge, calls.Acknowledge(process.instance_id, process.attempt_id, number))
        assert isinstance(outcome, calls.Acknowledged) == (self.records.instance(process.instance_id).state in LIVE)
        if isinstance(outcome, calls.Acknowledged):
            self.acknowledged.add((*self.place(process.instance_id), number))
            call_id = process.sent.pop(number)
            if call_id is not None:
                assert self.find(self.key_of(process.instance_id, call_id)).status in {"running", *ENDS}

    @precondition(lambda self: self.given)
    @rule(choice=st.data(), word=st.sampled_from((*WORDS, "invalid", "progress")), again=st.booleans())
    def report(self, choice: st.DataObject, word: str, *, again: bool) -> None:
        self.say(choice.draw(st.sampled_from(sorted(self.given, key=str))), word, again=again)

    def say(self, key: CallKey, word: str, *, again: bool = False) -> None:
        call = self.find(key)
        by = self.reporter(call, again=again)
        if word == "progress":
            outcome = self.run(calls.report_progress, calls.ProgressReport(by, codec.encode({"percent": 50})))
            assert isinstance(outcome, calls.Reported) == (call.status not in ENDS)
        elif word == "invalid":
            outcome = self.run(calls.finish, a_result(by, ok="?"), counted_refusal=True)
            assert isinstance(outcome, Rejection)
            if call.status not in ENDS:
                self.invalid[key].add(by.request_id)
                assert (self.find(key).error_code == "tool_output_invalid") == (len(self.invalid[key]) == 3)
        else:
            outcome = self.run(calls.finish, WORDS[word](by))
            expected = call.status not in ENDS or self.words.get(key) == word
            assert isinstance(outcome, calls.Reported) == expected
            if expected:
                self.words[key] = word
        if self.find(key).status in ENDS:
            self.forget_message(call)
            self.check_launch_ended(call)

    def check_launch_ended(self, call: CallRecord) -> None:
        if call.status not in ENDS and call.tool_id == "board.open":
            others = call_rows.open_of_instance(self.records.transaction(), call.instance_id or "")
            assert bool(others) == (self.records.instance(call.instance_id).state in LIVE)

    def forget_message(self, call: CallRecord) -> None:
        """The store told the channel that the message is settled."""
        for process in self.processes.values():
            if process.instance_id == call.instance_id:
                process.sent = {number: one for number, one in process.sent.items() if one != call.call_id}

    @precondition(lambda self: self.processes)
    @rule(choice=st.data(), counted=st.booleans())
    def process_dies(self, choice: st.DataObject, *, counted: bool) -> None:
        self.end_process(self.processes[choice.draw(st.sampled_from(sorted(self.processes)))], counted=counted)

    def end_process(self, process: Process, *, counted: bool) -> None:
        delivered = tuple(one for one in process.sent.values() if one is not None)
        counts = counted and self.records.attempt(process.attempt_id).state is not AttemptState.STOPPING
        had = [
            call.key
            for call in call_rows.open_of_instance(self.records.transaction(), process.instance_id)
            if call.status == "running" or call.call_id in delivered
        ]
        self.deaths.update(had if counts else ())

        self.run(instances.end_attempt, instances.AttemptEnd(process.attempt_id, "exited", counted, delivered))

        self.gone(process)
        given_up = self.records.instance(process.instance_id).state is InstanceState.FAILED
        for key in had:
            self.check_interrupted(key, given_up=given_up)

    def gone(self, process: Process) -> None:
        self.sent_before |= {(*self.place(process.instance_id), number) for number in process.sent}
        del self.processes[process.attempt_id]

    def check_interrupted(self, key: CallKey, *, given_up: bool = False) -> None:
        call = self.find(key)
        if call.tool_id == "notes.once":
            assert call.error_code == "outcome_unknown"
        elif self.deaths[key] >= 3 or given_up:
            assert call.error_code == "app_crashed"
        else:
            assert call.status == "waiting_for_app"

    # --- the operator, time, and the daemon ---

    @rule(name=st.sampled_from((("app", "notes"), ("app", "board"), ("tool", "notes.once"))), stays=st.integers(0, 3))
    def switch(self, name: tuple[Any, str], stays: int) -> None:
        """Off, and mostly on again at once."""
        self.run(apps.switch, apps.SwitchTo(name[0], name[1], enabled=False))
        self.off.add(name)
        if stays:
            self.run(apps.switch, apps.SwitchTo(name[0], name[1], enabled=True))
            self.off.discard(name)

    @rule(seconds=st.sampled_from((0.5, 5.0, GRACE_S + 0.5, TIMEOUT_S + 0.5, 31 * 86_400.0)), swept=st.booleans())
    def time_passes(self, seconds: float, *, swept: bool) -> None:
        self.records.clock.move(seconds)
        if swept:
            self.sweep()

    def sweep(self) -> None:
        while self.run(calls.expire_due, None).ended:
            pass
        for key, due in self.due.items():
            open_still = self.find(key).status not in ENDS
            assert not (open_still and due < self.now() - 0.001)
            if not open_still and key not in self.ended:
                assert due < self.now() + 0.001
        self.run(agents.drop_unread, None)
        self.run(agents.count_floods, None)

    @rule(
        down_s=st.sampled_from((0.0, 0.0, 11.0, 61.0)),
        reboot=st.booleans(),
        cut_short=st.booleans(),
        looked_at=st.integers(0, 2),
    )
    def daemon_dies(self, down_s: float, looked_at: int, *, reboot: bool, cut_short: bool) -> None:
        had = {key for key in self.bodies if self.find(key).status == "running"}
        for process in list(self.processes.values()):
            given = [self.key_of(process.instance_id, one) for one in process.sent.values() if one is not None]
            had |= {key for key in given if self.find(key).status not in ENDS}
            self.gone(process)
        if reboot:
            self.records.clock.reboot(down_s)
        else:
            self.records.clock.move(down_s)
        if cut_short:  # and again, while it recovers
            self.recover(looked_at)
        self.recover()
        for key in had:
            self.check_interrupted(key)

    def recover(self, at_most: int | None = None) -> None:
        self.run(recovery.retire_missing_apps, None)
        for key in self.run(recovery.recover, None).interrupted[:at_most]:
            self.run(recovery.recover_call, key)

    # --- what must hold ---

    @invariant()
    def a_status_changes_as_the_table_says_and_ends_once(self) -> None:
        rows = self.records.transaction().rows("select agent_id, conversation_id, call_id from calls")
        keys = [CallKey(*row) for row in rows]
        assert set(keys) == set(self.bodies)
        for key in keys:
            call = self.find(key)
            assert call.status in STEPS[self.statuses.get(key, "waiting_for_app")]
            self.statuses[key] = call.status
            assert (call.due_boot_s is None) == (call.status in ENDS)
            if key in self.ended:
                assert call == self.ended[key]
            elif call.status in ENDS:
                self.ended[key] = call
                assert (call.result is None) == (call.status is not CallStatus.COMPLETED)
            else:
                assert call.crashes == self.deaths[key] < 3

    @invariant()
    def each_ended_call_has_one_result(self) -> None:
        assert {key: len(numbers) for key, numbers in self.results.items()} == dict.fromkeys(self.ended, 1)

    @invariant()
    def the_log_is_whole_and_only_grows(self) -> None:
        found = first_break(*self.walked, audit_entries(self.records.sql, self.walked[0]))
        assert not isinstance(found, Break)
        assert found == (self.records.chain.seq, self.records.chain.head)
        self.walked = found

    @invariant()
    def the_counts_follow_the_rows(self) -> None:
        tx = self.records.transaction()
        assert tx.row("select cast(total(open_calls) as integer) from agents") == tx.row(
            "select count(*) from calls where due_boot_s is not null"
        )
        for agent in AGENTS:
            assert tx.row("select unsettled from agents where agent_id = ?", agent) == (
                len(self.records.outbox(agent)),
            )

    @invariant()
    def messages_are_kept_until_acknowledged_and_a_call_has_one_at_most(self) -> None:
        rows = self.records.transaction().rows(
            "select conversation_id, app_scope, number, agent_id, call_id from inbox"
        )
        assert not {row[:3] for row in rows} & self.acknowledged
        assert self.texts - self.acknowledged == {row[:3] for row in rows if row[4] is None}
        keys = [CallKey(row[3], row[0], row[4]) for row in rows if row[4] is not None]
        assert len(set(keys)) == len(keys)
        assert not set(keys) & set(self.ended)
        for key in keys:  # whoever waits for its app without a message gets one at the next attach
            assert self.find(key).status in {"waiting_for_app", "running"}

    @invariant()
    def nothing_that_must_not_run_twice_was_given_twice(self) -> None:
        for key, attempts in self.given.items():
            assert len(attempts) == 1 or self.find(key).tool_id != "notes.once"

    @invariant()
    def who_is_in_front_is_live_and_knows_it(self) -> None:
        for talk in TALKS:
            stack = self.records.stack(talk)
            assert len(set(stack)) == len(stack)
            for instance_id in stack:
                state = self.records.instance(instance_id).state
                assert state in LIVE
                assert (state is InstanceState.FOREGROUND) <= (instance_id == stack[-1])
                assert (state is InstanceState.BACKGROUND) <= (instance_id != stack[-1])

    def teardown(self) -> None:
        """The faults stop, and everything drains in bounded time."""
        for _ in range(6):
            for instance_id in self.wanted():
                self.begin_one(instance_id)
            for process in list(self.processes.values()):
                if not process.ready:
                    self.attach_one(process)
                if process.ready:
                    self.work_off(process)
            for attempt_id, _ in instances.read_wanted(self.records.transaction(), None).unwanted:
                self.end_process(self.processes[attempt_id], counted=True)
        self.a_status_changes_as_the_table_says_and_ends_once()
        self.each_ended_call_has_one_result()
        self.the_log_is_whole_and_only_grows()
        assert set(self.ended) == set(self.bodies)
        assert call_rows.count_open(self.records.transaction()) == 0
        for instance in instance_rows.unfinished(self.records.transaction()):
            assert instance.state in {InstanceState.FOREGROUND, InstanceState.BACKGROUND}
        self.records.sql.close()

    def work_off(self, process: Process) -> None:
        self.read_for(process, 64)
        for number in list(process.sent):
            if number in process.sent and self.records.instance(process.instance_id).state in LIVE:
                self.acknowledge_one(process, number)
        for call in call_rows.open_of_instance(self.records.transaction(), process.instance_id):
            self.say(call.key, "yes")


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=250, stateful_step_count=40)
