"""Any story of apps that ask a person, told to the real commands and to a model of plain dicts.

Small alphabets on purpose: two apps and `chat`, three call ids, two keys and a few patches must collide. After each
step the invariants of docs/people.md, section 9, are looked at; what a command answers is foretold by the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import msgpack
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from runtime_actors.checker.people import merged
from runtime_actors.commands import (
    actions,
    calls,
    capabilities,
    hosts,
    instances,
    interactions,
    lifecycle,
    recovery,
    surfaces,
    suspension,
    views,
)
from runtime_actors.commands.asker import Asker
from runtime_actors.contract.capabilities import CapabilityReceipt, CapabilityRequest
from runtime_actors.contract.host import HostAnswer, HostSurface
from runtime_actors.contract.interactions import UiCancel, UiRequest
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.surfaces import SurfaceClose, SurfaceOpen, SurfaceReceipt, SurfaceRequest, SurfaceUpdate
from runtime_actors.contract.tools import CommandReceipt
from runtime_actors.records import calls as call_rows
from runtime_actors.records import instances as instance_rows
from runtime_actors.records import interactions as question_rows
from runtime_actors.records import surfaces as surface_rows
from runtime_actors.records.transaction import rfc3339
from runtime_actors.rules.calls import NEVER_S, CallRecord
from runtime_actors.rules.interactions import InteractionRow
from runtime_actors.rules.inventory import Catalogue
from tests.commands.people import CHAT, a_system_app
from tests.fakes import (
    BOARD,
    NOTES,
    TALK,
    a_manifest,
    a_result,
    a_tool,
    an_app,
    an_invoke,
    attached,
    by,
    some_records,
    some_settings,
)
from tests.permission_fakes import ruled

CONFIRM_TOOL: Final = a_tool("chat.confirm", handling="interactive", input_schema={"type": "object"})
DRAWING: Final = a_manifest("drawing", a_tool("drawing.open"), requested_capabilities=["notify", "network"])
CATALOGUE: Final = Catalogue.of(
    [a_system_app(CHAT | {"tools": [CONFIRM_TOOL]}), an_app(BOARD), an_app(NOTES), an_app(DRAWING)]
)
RULES: Final = (
    'capability = "notify", decision = "ask", for = "always", expires_s = 300',
    'tool = "drawing.open", decision = "ask"',
)
TOOLS: Final = ("notes.write", "notes.once", "board.open", "board.show", "chat.confirm", "drawing.open")
CALL_IDS: Final = ("c1", "c2", "c3")
KEYS: Final = ("k1", "k2")
TIMEOUT_S: Final = 60.0
SURE: Final = {"kind": "confirm", "title": "Sure?", "prompt": ""}
REQUESTS: Final[tuple[dict[str, Any], ...]] = (
    SURE,
    {"kind": "notice", "title": "Note", "message": ""},
    {"kind": "input", "title": "Who?", "prompt": "", "fields": [{"id": "name", "label": "Name", "type": "text"}]},
)
ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "confirm": {"approved": True},
    "notice": {"acknowledged": True},
    "input": {"values": {"name": "x"}},
}
PATCHES: Final[tuple[dict[str, Any], ...]] = ({"a": 1}, {"a": None}, {"b": {"c": 2}}, {"b": {"c": None, "d": [1]}}, {})
PAGED: Final = sorted(views.VIEWS.keys() - {"apps", "call"})
"""Listings that come in pages."""
OVER: Final = frozenset({"completed", "cancelled", "expired", "failed"})
ENDS: Final = frozenset({"completed", "failed", "cancelled", "expired", "rejected"})
LIVE: Final = frozenset({"starting", "foreground", "background", "suspended"})
READY: Final = frozenset({"foreground", "background"})
ALREADY_FINAL: Final = "interaction_already_final"


@dataclass
class Asked:
    """A question as the model has it."""

    owner: str | None
    parent: str | None
    kind: str
    policy: bool
    until_s: float | None
    status: str = "pending"
    draft: int = -1


@dataclass
class Drawn:
    """A surface as the model has it."""

    owner: str
    call: str | None
    state: dict[str, Any]
    revision: int = 1
    is_open: bool = True


class Story(RuleBasedStateMachine):
    """The commands, and what they must amount to."""

    def __init__(self) -> None:
        super().__init__()
        self.records = some_records(replace(some_settings(CATALOGUE), policy=ruled(*RULES)))
        self.records.run(recovery.recover, None)
        self.questions: dict[str, Asked] = {}
        self.surfaces: dict[str, Drawn] = {}
        self.said_yes: set[str] = set()
        """Questions of policy that a person permitted."""
        self.final: dict[str, tuple[object, ...]] = {}
        self.requests = itertools.count(1)

    # --- looking ---

    def now_s(self) -> float:
        return self.records.clock.now().wall.timestamp()

    def row(self, name: str) -> InteractionRow:
        found = question_rows.get(self.records.transaction(), name)
        assert found is not None
        return found

    def state(self, instance_id: str | None) -> str:
        return str(self.records.instance(instance_id).state)

    def live(self) -> list[str]:
        return [one.instance_id for one in instance_rows.unfinished(self.records.transaction()) if one.state in LIVE]

    def ready(self) -> list[str]:
        return [name for name in self.live() if self.state(name) in READY]

    def open_calls(self) -> list[CallRecord]:
        rows = self.records.transaction().rows("select call_id from calls where due_boot_s is not null order by seq")
        return [self.records.call(call_id) for (call_id,) in rows]

    def asker(self, instance_id: str) -> Asker:
        attempt = instance_rows.running_attempt(self.records.transaction(), instance_id)
        return Asker(instance_id, attempt.attempt_id if attempt else "att", f"q{next(self.requests)}")

    def learn(self) -> None:
        """What others opened and ended in the course of a command. That they may is looked at by the invariants."""
        tx = self.records.transaction()
        for (name,) in tx.rows("select interaction_id from interactions"):
            row = self.row(name)
            if name not in self.questions:
                is_policys = row.source == "runtime_policy"
                self.questions[name] = Asked(
                    row.instance_id, row.parent_call_id, row.kind, is_policys, row.expires_wall_s
                )
            known = self.questions[name]
            if row.status in OVER and known.status not in OVER:
                assert self.may_end(known) or known.status == str(row.status)
                known.status = str(row.status)
        for name, drawn in self.surfaces.items():
            surface = surface_rows.get(tx, name)
            assert surface is not None
            if drawn.is_open and surface.status == "closed":
                call = self.records.call(drawn.call) if drawn.call else None
                assert self.state(drawn.owner) not in LIVE or (call is not None and call.status in ENDS)
                drawn.is_open = False

    def may_end(self, asked: Asked) -> bool:
        """Whether something else than a person or its owner has ended a question."""
        is_over = asked.until_s is not None and asked.until_s <= self.now_s()
        has_owner = asked.owner is None or self.state(asked.owner) in LIVE
        parent = None if asked.parent is None else self.records.call(asked.parent)
        return is_over or not has_owner or (parent is not None and parent.status in ENDS) or asked.policy

    # --- agents and processes ---

    @initialize(tools=st.lists(st.sampled_from(TOOLS), max_size=3))
    def begin_in_the_middle(self, tools: list[str]) -> None:
        self.a_host_is_there()
        for call_id, tool in zip(CALL_IDS, tools, strict=False):
            self.invoke(call_id, tool)
        self.processes_start()
        for owner in self.ready():
            own = call_rows.open_of_instance(self.records.transaction(), owner)
            self.ask_one(owner, SURE, None, None, own[0].call_id)
            self.open_one(owner, None, None)

    def a_host_is_there(self) -> None:
        """It can show surfaces."""
        there = hosts.Attaching(1, "screen", "n" * 16, True, None, None, None)  # noqa: FBT003 - a host's word
        self.records.run(hosts.attach_host, there)

    def one_of(self, choice: st.DataObject, all_of: Iterable[str], good: Iterable[str]) -> str:
        """Mostly a good one."""
        better = sorted(good)
        is_good = bool(better) and choice.draw(st.booleans())
        return choice.draw(st.sampled_from(better if is_good else sorted(all_of)))

    @rule(call_id=st.sampled_from(CALL_IDS), tool=st.sampled_from(TOOLS))
    def invoke(self, call_id: str, tool: str) -> None:
        given = {"title": "Sure?", "prompt": ""} if tool == "chat.confirm" else {}
        self.records.run(calls.admit, an_invoke(tool, call_id, given=given))
        self.learn()

    @rule()
    def processes_start(self) -> None:
        """Whoever needs a process gets one, and takes over what it has."""
        for instance_id in instances.read_wanted(self.records.transaction(), None).wanted:
            attached(self.records, instance_id)
            self.take_all(instance_id)

    def take_all(self, instance_id: str) -> None:
        instance = self.records.instance(instance_id)
        for row in self.records.inbox(instance.app_scope):
            self.records.run(calls.acknowledge, calls.Acknowledge(instance_id, "att", row.number))

    @precondition(lambda self: self.ready())
    @rule(choice=st.data())
    def take(self, choice: st.DataObject) -> None:
        self.take_all(choice.draw(st.sampled_from(self.ready())))

    @precondition(lambda self: self.open_calls())
    @rule(choice=st.data(), word=st.sampled_from(("complete", "cancel")))
    def end_call(self, choice: st.DataObject, word: str) -> None:
        call = choice.draw(st.sampled_from(self.open_calls()))
        if word == "complete" and call.instance_id is not None and call.status == "running":
            self.records.run(calls.finish, a_result(by(call, f"q{next(self.requests)}")))
        else:
            self.records.run(calls.request_cancel, calls.CancelWish(call.key, None))
        self.learn()

    @rule(counted=st.booleans(), choice=st.data())
    def process_dies(self, choice: st.DataObject, *, counted: bool) -> None:
        running = instances.read_running(self.records.transaction(), None)
        if running:
            attempt_id, _ = choice.draw(st.sampled_from(running))
            self.records.run(instances.end_attempt, instances.AttemptEnd(attempt_id, "exited", counted))
            self.learn()

    # --- apps ask ---

    @precondition(lambda self: self.ready())
    @rule(
        choice=st.data(),
        request=st.sampled_from(REQUESTS),
        key=st.sampled_from((*KEYS, None)),
        in_s=st.sampled_from((None, 5.0, 500.0)),
        has_parent=st.booleans(),
    )
    def ask(
        self, choice: st.DataObject, request: dict[str, Any], key: str | None, in_s: float | None, *, has_parent: bool
    ) -> None:
        owner = choice.draw(st.sampled_from(self.ready()))
        own = [call.call_id for call in call_rows.open_of_instance(self.records.transaction(), owner)]
        parent = choice.draw(st.sampled_from(own)) if has_parent and own else None
        self.ask_one(owner, request, key, in_s, parent)

    def ask_one(
        self, owner: str, request: dict[str, Any], key: str | None, in_s: float | None, parent: str | None
    ) -> None:
        how = {"request": request, "key": key, "parent_call_id": parent}
        if in_s is not None:
            how["expires_at"] = rfc3339(self.records.clock.now().wall + timedelta(seconds=in_s))
        known = None
        if key is not None:
            known = question_rows.of_key(self.records.transaction(), owner, parent, key)

        wish = interactions.AskPerson(self.asker(owner), UiRequest.model_validate(how))
        outcome = self.records.run(interactions.request_interaction, wish)

        if isinstance(outcome, Rejection):
            assert str(outcome.code) in ({"key_conflict"} if known is not None else {"interaction_invalid", "busy"})
        else:
            assert outcome.repeated == (known is not None)
            assert known is None or outcome.record.interaction_id == known.interaction_id
        self.learn()

    @precondition(lambda self: self.ready() and self.questions)
    @rule(choice=st.data())
    def cancel(self, choice: st.DataObject) -> None:
        name = self.one_of(choice, self.questions, self.open_questions())
        asked = self.questions[name]
        who = self.one_of(choice, self.ready(), {asked.owner or ""} & set(self.ready()))
        expected = self.expected(asked) if asked.owner == who and not asked.policy else "interaction_not_found"

        wish = interactions.CancelOwn(self.asker(who), UiCancel(interaction_id=name))
        outcome = self.records.run(interactions.cancel_interaction, wish)

        self.check(outcome, expected)
        if expected is None:
            asked.status = "cancelled"
        self.learn()

    def open_questions(self) -> list[str]:
        return [name for name, one in self.questions.items() if one.status not in OVER]

    def expected(self, asked: Asked) -> str | None:
        """The code with which whoever ends a question is refused."""
        is_over = asked.until_s is not None and asked.until_s <= self.now_s()
        return ALREADY_FINAL if asked.status in OVER or is_over else None

    def check(self, outcome: object, expected: str | None) -> None:
        code = str(outcome.code) if isinstance(outcome, Rejection) else None
        assert code == expected

    # --- a person answers ---

    @precondition(lambda self: self.questions)
    @rule(choice=st.data(), word=st.sampled_from(("answer", "answer", "dismiss", "present", "draft")))
    def person(self, choice: st.DataObject, word: str) -> None:
        self.respond(self.one_of(choice, self.questions, self.open_questions()), word)

    @precondition(lambda self: self.open_questions())
    @rule(word=st.sampled_from(("answer", "answer", "draft", "dismiss")), newest=st.booleans())
    def person_goes_on(self, word: str, *, newest: bool) -> None:
        self.respond(self.open_questions()[-newest], word)

    def respond(self, name: str, word: str) -> None:
        asked = self.questions[name]
        expected = self.expected(asked)
        outcome: object
        match word:
            case "answer":
                outcome = self.answer(name, ANSWERS[asked.kind])
                if asked.kind == "notice" and expected is None:  # without a label there is nothing to answer
                    expected = "interaction_invalid"
                if expected is None:
                    asked.status = "completed"
            case "dismiss":
                outcome = self.records.run(interactions.dismiss, interactions.Dismiss(name, "screen"))
                if expected is None:
                    asked.status = "completed" if asked.kind == "confirm" else "cancelled"
            case "present":
                outcome = self.records.run(interactions.present, interactions.Present(name, "screen"))
                if expected is None:
                    asked.status = "completed" if asked.kind == "notice" else "presented"
            case _:
                draft = interactions.Draft(name, asked.draft + 1, msgpack.packb({"name": asked.draft + 1}), "screen")
                outcome = self.records.run(interactions.save_draft, draft)
                if expected is None and asked.kind != "input":
                    expected = "interaction_invalid"
                asked.draft += expected is None
        self.check(outcome, expected)
        self.learn()

    def answer(self, name: str, said: dict[str, Any]) -> object:
        given = HostAnswer.model_validate({"interaction_id": name, **said})
        if self.questions[name].policy and self.expected(self.questions[name]) is None and said.get("approved"):
            self.said_yes.add(name)
        return self.records.run(interactions.answer, interactions.Answer(name, given, "screen"))

    # --- permissions ---

    @precondition(lambda self: self.ready())
    @rule(choice=st.data(), capability=st.sampled_from(("notify", "network", "print")))
    def wish(self, choice: st.DataObject, capability: str) -> None:
        who = choice.draw(st.sampled_from(self.ready()))
        request = CapabilityRequest(capability=capability, reason="so that you hear of it")
        outcome = self.records.run(
            capabilities.request_capability, capabilities.CapabilityWish(self.asker(who), request)
        )

        is_drawings = self.records.instance(who).app_scope == "drawing"
        if capability != "notify" or not is_drawings:
            assert isinstance(outcome, Rejection)
        elif isinstance(outcome, CapabilityReceipt) and outcome.decision == "granted":
            assert outcome.grant_id is not None
        self.learn()

    # --- surfaces ---

    @precondition(lambda self: self.ready())
    @rule(choice=st.data(), key=st.sampled_from((*KEYS, None)), has_call=st.booleans())
    def open_surface(self, choice: st.DataObject, key: str | None, *, has_call: bool) -> None:
        owner = choice.draw(st.sampled_from(self.ready()))
        own = [call.call_id for call in call_rows.open_of_instance(self.records.transaction(), owner)]
        self.open_one(owner, key, own[0] if has_call and own else None)

    def open_one(self, owner: str, key: str | None, call: str | None) -> None:
        asked = SurfaceOpen(surface=SurfaceRequest(kind="board", title="B", state={"a": 0}), call_id=call, key=key)
        mine = [one for one in self.surfaces.values() if one.owner == owner and one.is_open]
        outcome = self.records.run(surfaces.open_surface, surfaces.Opening(self.asker(owner), asked))
        if isinstance(outcome, SurfaceReceipt):
            assert outcome.surface_id is not None
            assert outcome.surface_id in self.surfaces or len(mine) < 4
            self.surfaces.setdefault(outcome.surface_id, Drawn(owner, call, {"a": 0}))

    @precondition(lambda self: self.surfaces and self.ready())
    @rule(
        choice=st.data(),
        patch=st.sampled_from(PATCHES),
        revision=st.sampled_from((None, None, None, 1, 2)),
        person=st.booleans(),
    )
    def draw(self, choice: st.DataObject, patch: dict[str, Any], revision: int | None, *, person: bool) -> None:
        name = self.one_of(choice, self.surfaces, self.open_surfaces())
        owner = {self.surfaces[name].owner} & set(self.ready())
        self.patch(name, patch, revision, None if person else self.one_of(choice, self.ready(), owner))

    @precondition(lambda self: self.open_surfaces())
    @rule(patch=st.sampled_from(PATCHES), person=st.booleans())
    def draw_on(self, patch: dict[str, Any], *, person: bool) -> None:
        name = self.open_surfaces()[0]
        self.patch(name, patch, None, None if person else self.surfaces[name].owner)

    def open_surfaces(self) -> list[str]:
        return [name for name, drawn in self.surfaces.items() if drawn.is_open]

    def patch(self, name: str, patch: dict[str, Any], revision: int | None, who: str | None) -> None:
        """By an instance, or by a person if `who` is None."""
        drawn = self.surfaces[name]
        expected = "surface_closed" if not drawn.is_open else None
        if expected is None and revision not in {None, drawn.revision}:
            expected = "surface_stale"
        if who is None:
            said = HostSurface(surface_id=name, op="update", patch=patch, revision=revision)
            outcome: object = self.records.run(surfaces.bridge, (said, "screen"))
        else:
            expected = expected if who == drawn.owner else "surface_not_found"
            update = SurfaceUpdate(surface_id=name, patch=patch, revision=revision)
            outcome = self.records.run(surfaces.update_surface, surfaces.Updating(self.asker(who), update))
        code = outcome.code if isinstance(outcome, (Rejection, SurfaceReceipt)) else None
        assert (None if code is None else str(code)) == expected
        if expected is None:
            made = merged(drawn.state, patch)
            drawn.revision += made != drawn.state
            drawn.state = made

    @precondition(lambda self: self.surfaces and self.ready())
    @rule(choice=st.data())
    def close_surface(self, choice: st.DataObject) -> None:
        name = choice.draw(st.sampled_from(sorted(self.surfaces)))
        drawn = self.surfaces[name]
        if self.state(drawn.owner) not in LIVE:
            return
        closing = surfaces.Closing(self.asker(drawn.owner), SurfaceClose(surface_id=name))
        self.check(self.records.run(surfaces.close_surface, closing), None if drawn.is_open else "surface_closed")
        drawn.is_open = False

    # --- focus, the end, and sleep ---

    @precondition(lambda self: self.ready())
    @rule(choice=st.data(), wish=st.sampled_from(("foreground", "background", "close")))
    def move(self, choice: st.DataObject, wish: str) -> None:
        who = choice.draw(st.sampled_from(self.ready()))
        scope, stack = self.records.instance(who).app_scope, self.records.stack()
        scopes = [self.records.instance(name).app_scope for name in stack]
        open_calls = call_rows.open_of_instance(self.records.transaction(), who)
        in_front = any(call.tool_id in {"board.open", "board.show"} for call in open_calls)
        asker = self.asker(who)
        match wish:
            case "foreground":
                outcome: object = self.records.run(lifecycle.request_foreground, asker)
                others = bool(stack) and stack[-1] != who and (scopes[-1] != "chat" or scope == "chat")
                assert not (others and isinstance(outcome, CommandReceipt))
            case "background":
                outcome = self.records.run(lifecycle.request_background, asker)
                assert isinstance(outcome, Rejection) == (scope == "chat" or in_front)
                assert isinstance(outcome, Rejection) or who not in self.records.stack()
            case _:
                shows = any(one.owner == who and one.is_open for one in self.surfaces.values())
                outcome = self.records.run(lifecycle.request_close, lifecycle.CloseWish(asker, None))
                assert isinstance(outcome, Rejection) == (bool(open_calls) or shows)
        if isinstance(outcome, Rejection):
            assert str(outcome.code) == "lifecycle_denied"
            assert self.records.stack() == stack
        self.learn()

    @precondition(lambda self: self.live())
    @rule(choice=st.data(), action=st.sampled_from(("focus", "close", "force_close")))
    def act(self, choice: st.DataObject, action: Any) -> None:  # noqa: ANN401 - one of the words
        who = choice.draw(st.sampled_from(self.live()))
        outcome = self.records.run(actions.act, actions.Act(who, action))
        assert isinstance(outcome, actions.Acted)
        if action == "focus":
            assert self.records.stack()[-1] == who
            assert self.state(who) != "suspended"
        elif action == "force_close":
            assert self.state(who) not in LIVE
        self.learn()

    @rule(dies=st.booleans())
    def sleep(self, *, dies: bool) -> None:
        """Whatever may rest does."""
        for quiet in suspension.read_quiet(self.records.transaction(), None).quiet:
            outcome = self.records.run(suspension.suspend, quiet)
            assert isinstance(outcome, suspension.Suspended)
        for attempt_id, _ in instances.read_wanted(self.records.transaction(), None).unwanted if dies else ():
            self.records.run(instances.end_attempt, instances.AttemptEnd(attempt_id, "stopped", counted=True))
        self.learn()

    # --- time, and the daemon ---

    @rule(
        seconds=st.sampled_from((0.0, 1.0, 1.0, 6.0, 61.0, 601.0)),
        daemon=st.sampled_from(("lives", "lives", "lives", "dies", "reboots")),
        looked=st.booleans(),
    )
    def time_passes(self, seconds: float, daemon: str, *, looked: bool) -> None:
        """Whatever is overdue counts as such, also before the timer comes to it."""
        if daemon == "reboots":
            self.records.clock.reboot(seconds)
        else:
            self.records.clock.move(seconds)
        if daemon != "lives":
            for key in self.records.run(recovery.recover, None).interrupted:
                self.records.run(recovery.recover_call, key)
        if looked or daemon != "lives":
            self.look()
        if daemon != "lives":
            self.a_host_is_there()

    def look(self) -> None:
        while self.records.run(calls.expire_due, None).ended:
            pass
        while self.records.run(interactions.expire_interactions, None).ended:
            pass
        self.learn()
        rows = self.records.transaction().rows(
            "select 1 from interactions where status in ('pending', 'presented') and expires_wall_s <= ?", self.now_s()
        )
        assert rows == []

    # --- what must hold: docs/people.md, section 9 ---

    @invariant()
    def a_question_ends_once_and_its_owner_is_told(self) -> None:
        for name, asked in self.questions.items():
            row = self.row(name)
            assert str(row.status) == asked.status
            if asked.status not in OVER:
                continue
            ended = (row.status, row.result, row.reason)
            assert self.final.setdefault(name, ended) == ended
            if asked.owner is None or self.state(asked.owner) not in LIVE:
                continue
            inbox = self.records.inbox(self.records.instance(asked.owner).app_scope)
            told = [one for one in inbox if one.kind == "interaction"]
            mine = [one for one in told if msgpack.unpackb(one.body)["interaction_id"] == name]
            assert len(mine) == (not row.settled)
            assert not (mine and asked.policy)

    @invariant()
    def nothing_is_asked_for_who_is_gone(self) -> None:
        for asked in self.questions.values():
            if asked.status not in OVER:
                assert asked.owner is None or self.state(asked.owner) in LIVE
                assert asked.parent is None or self.records.call(asked.parent).status not in ENDS

    @invariant()
    def nobody_reads_the_question_of_another(self) -> None:
        for name, asked in self.questions.items():
            is_overdue = asked.status not in OVER and self.expected(asked) is not None  # a look would end it
            for who in () if is_overdue else self.live():
                found = interactions.read_own(self.records.transaction(), interactions.OwnOne(Asker(who, "", ""), name))
                assert (found.record is not None) == (asked.owner == who and not asked.policy)

    @invariant()
    def a_call_that_waits_for_a_person_has_no_deadline_and_another_has(self) -> None:
        waiting = {
            one.parent
            for one in self.questions.values()
            if one.status not in OVER and one.kind != "notice" and one.parent is not None
        }
        now = self.records.clock.now().boot_s
        for call in self.open_calls():
            assert (call.remaining_s is not None) == (call.call_id in waiting)
            assert (call.deadline_boot_s == NEVER_S) == (call.call_id in waiting)
            left = call.deadline_boot_s - now if call.remaining_s is None else call.remaining_s
            assert left <= TIMEOUT_S + 0.001

    @invariant()
    def what_is_listed_is_what_can_be_answered(self) -> None:
        page = views.view_interactions(self.records.transaction(), views.View({}, None, 1000))
        listed = {row["interaction"]["interaction_id"] for row in page.rows}
        assert listed == {name for name, one in self.questions.items() if self.expected(one) is None}
        for row in page.rows:
            drafted = self.questions[row["interaction"]["interaction_id"]].draft
            assert row.get("draft") == (None if drafted < 0 else {"name": drafted})

    @invariant()
    def a_surface_is_the_fold_of_its_patches(self) -> None:
        for name, drawn in self.surfaces.items():
            surface = surface_rows.get(self.records.transaction(), name)
            assert surface is not None
            assert (surface.status == "open", surface.revision) == (drawn.is_open, drawn.revision)
            assert not drawn.is_open or msgpack.unpackb(surface.state) == drawn.state

    @invariant()
    def nothing_is_granted_that_no_person_permitted(self) -> None:
        page = views.view_grants(self.records.transaction(), views.View({"all": True}, None, 1000))
        for row in page.rows:
            assert row["capability"] in {"notify", "tool:drawing.open"}
            if row["status"] in {"granted", "used"}:
                assert row["interaction_id"] in self.said_yes

    @invariant()
    def the_stack_is_in_order(self) -> None:
        stack = self.records.stack()
        states = [self.state(name) for name in stack]
        assert len(set(stack)) == len(stack)
        assert set(states) <= LIVE
        assert not states or states[-1] in {"foreground", "starting", "suspended"}
        assert "foreground" not in states[:-1]
        chat = instance_rows.live(self.records.transaction(), TALK, "chat")
        assert chat is None or stack[0] == chat.instance_id
        on_stack = set(stack)
        assert all(self.state(name) != "foreground" for name in self.live() if name not in on_stack)

    @invariant()
    def nobody_sleeps_over_work(self) -> None:
        for call in self.open_calls():
            if call.status == "running" and call.remaining_s is None and not call.cancel_requested:
                assert self.state(call.instance_id) != "suspended"

    def teardown(self) -> None:
        """A person answers everything, and everything ends."""
        self._listings_are_their_pages()
        for name in [name for name, one in self.questions.items() if one.status not in OVER]:
            self.records.run(interactions.dismiss, interactions.Dismiss(name, "screen"))
        self.records.clock.move(100 * TIMEOUT_S)
        for _ in range(4):
            self.processes_start()
            while self.records.run(interactions.expire_interactions, None).ended:
                pass
            while self.records.run(calls.expire_due, None).ended:
                pass
        assert call_rows.count_open(self.records.transaction()) == 0
        assert question_rows.every_open(self.records.transaction()) == []
        self.records.sql.close()

    def _listings_are_their_pages(self) -> None:
        """However long a page is."""
        for name in PAGED:
            (whole,) = self._pages(name, 1000)
            for limit in (1, 2):
                pages = self._pages(name, limit)
                assert [row for page in pages for row in page] == list(whole), name
                assert all(len(page) == limit for page in pages[:-1]), name
                assert pages[-1] or not whole, name

    def _pages(self, name: str, limit: int) -> list[tuple[dict[str, Any], ...]]:
        pages: list[tuple[dict[str, Any], ...]] = []
        after = "0" if name in {"timeline", "audit"} else None
        while after is not None or not pages:
            page = views.VIEWS[name](self.records.transaction(), views.View({"all": True}, after, limit))
            assert isinstance(page, views.Page), name
            pages.append(page.rows)
            after = page.next
        return pages


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=150, stateful_step_count=40)
