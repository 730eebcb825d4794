"""The entries of what is between apps and people: questions, surfaces, grants, and what people do (docs/people.md)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from runtime_actors.checker.chain import Entry, digest_of
from runtime_actors.checker.model import LIVE, PLAIN, READY, Call, Grant, Key, Message, Model, Place, Question, Surface

OVER: Final = frozenset({"completed", "cancelled", "expired", "failed"})
_NEXT: Final[Mapping[str, frozenset[str]]] = {
    "pending": frozenset({"presented", "cancelled", "expired", "failed"}),
    "presented": frozenset({"submitted", "cancelled", "expired", "failed"}),
    "submitted": frozenset({"completed"}),
}
YES: Final = digest_of({"approved": True})
_CLOSED: Final = frozenset(
    {"fetch", "network", "filesystem", "tauri.invoke", "clipboard", "microphone", "camera", "host.dom", "appserver"}
    | {"agent.protocol"}
)
"""Never granted, and nothing below them."""
_MOST_SURFACES: Final = 4
POLICY: Final = "runtime_policy"


# --- questions ---


def question_opened(model: Model, entry: Entry) -> None:
    subject = entry.subject
    name, instance = subject["interaction_id"], model.instance_of(entry)
    if name in model.questions:
        model.blame(entry, "the question had been asked", model.questions[name].opened, rule="second-record")
        return
    source = entry.detail["source"]
    place = Place(subject["conversation_id"], subject["app_scope"])
    question = Question(entry, place, "" if instance is None else instance.name, _parent(model, entry), source)
    model.questions[name] = model.asked[name] = question
    if source != POLICY and (instance is None or instance.state not in LIVE or instance.place != place):
        model.blame(entry, "its owner is no live instance of this place")
    call = model.calls.get(question.call) if question.call is not None else None
    if call is not None and call.ended is not None:
        model.blame(entry, "the call that it is about had ended", call.ended)


def _parent(model: Model, entry: Entry) -> Key | None:
    conversation, call_id = entry.subject["conversation_id"], entry.subject.get("call_id")
    return None if call_id is None else Key(model.owners.get(conversation, ""), conversation, call_id)


def _open(model: Model, entry: Entry) -> Question | None:
    question = model.questions.get(entry.subject["interaction_id"])
    if question is None:
        model.blame(entry, "no such question was asked")
    elif question.ended is not None:
        model.blame(entry, "the question had ended", question.ended, rule="second-answer")
    else:
        return question
    return None


def question_presented(model: Model, entry: Entry) -> None:
    question = _open(model, entry)
    if question is None:
        return
    if question.status != "pending":
        model.blame(entry, f"the question was {question.status}", question.opened)
    question.status = "presented"


def question_ended(model: Model, entry: Entry) -> None:
    question = _open(model, entry)
    if question is None:
        return
    path = list(entry.detail["path"])
    steps = itertools.pairwise(path)
    if path[0] != question.status or path[-1] not in OVER or any(to not in _NEXT.get(was, ()) for was, to in steps):
        model.blame(entry, f"a question that was {question.status} cannot end by way of {path}", question.opened)
    question.status, question.ended = path[-1], entry
    del model.asked[entry.subject["interaction_id"]]
    instance = model.instances.get(question.instance)
    is_live = instance is not None and instance.state in LIVE
    if not entry.detail.get("told", question.source != POLICY and is_live):
        if question.source != POLICY:
            model.untold[entry.subject["interaction_id"]] = question
        return
    if question.source == POLICY or not is_live:
        model.blame(entry, "there is nobody who may be told", question.opened, rule="result-astray")
    question.message = model.put_message(question.place, Message(entry, "", None))


def blame_untold(model: Model) -> None:
    """What they belong to did not end."""
    for question in model.untold.values():
        model.blame(question.ended or question.opened, "its owner was not told", question.opened, rule="result-astray")
    model.untold.clear()


def end_with_call(model: Model, call: Call, entry: Entry) -> None:
    """What belongs to a call is over with it."""
    for name, question in [(name, one) for name, one in model.untold.items() if one.call == call.key]:
        del model.untold[name]
        is_expired = entry.detail["to"] == "expired" and question.opened.detail["kind"] != "notice"
        if is_expired and question.status == "cancelled":
            message = "its time ran out while it waited for a person"
            model.blame(entry, message, question.opened, rule="clock-ran")
    _leaves_open(model, entry, [one for one in model.asked.values() if one.call == call.key])
    for surface in [one for one in model.shown.values() if one.call == call.key]:
        model.blame(entry, "a surface of it stays open", surface.opened, rule="orphaned")


def end_with_instance(model: Model, instance: str, entry: Entry) -> None:
    """What belongs to an instance is over with it."""
    for name in [name for name, one in model.untold.items() if one.instance == instance]:
        del model.untold[name]
    _leaves_open(model, entry, [one for one in model.asked.values() if one.instance == instance])
    for surface in [one for one in model.shown.values() if one.instance == instance]:
        model.blame(entry, "a surface of it stays open", surface.opened, rule="orphaned")


def _leaves_open(model: Model, entry: Entry, questions: list[Question]) -> None:
    for question in questions:
        model.blame(entry, "a question of it stays open", question.opened, rule="orphaned")


def waits(model: Model, call: Call) -> bool:
    """Whether a call has an open question of its own."""
    return any(one.call == call.key for one in model.asked.values())


# --- surfaces ---


def surface_opened(model: Model, entry: Entry) -> None:
    name, instance = entry.subject["surface_id"], model.instance_of(entry)
    if name in model.surfaces:
        model.blame(entry, "the surface was there", model.surfaces[name].opened, rule="second-record")
        return
    owner = "" if instance is None else instance.name
    surface = Surface(entry, owner, _parent(model, entry), entry.detail["revision"])
    surface.digests[surface.revision] = entry.digest
    model.surfaces[name] = model.shown[name] = surface
    if instance is None or instance.state not in READY or surface.revision != 1:
        model.blame(entry, "a surface begins at revision 1, of an instance that is ready")
    if sum(one.instance == owner for one in model.shown.values()) > _MOST_SURFACES:
        model.blame(entry, f"there are more than {_MOST_SURFACES} of it")


def surface_changed(model: Model, entry: Entry) -> None:
    surface, revision = model.surfaces.get(entry.subject["surface_id"]), entry.detail["revision"]
    if surface is None or surface.closed is not None:
        model.blame(entry, "there is no such open surface", *([surface.opened] if surface else []))
        return
    step = revision - surface.revision
    if step < 1 or (step > 1 and surface.changes < PLAIN):  # in a flood not each one has its entry
        model.blame(entry, f"the surface had revision {surface.revision}", surface.opened)
    surface.revision = revision
    surface.changes += 1
    surface.digests[revision] = entry.digest


def surface_closed(model: Model, entry: Entry) -> None:
    surface = model.surfaces.get(entry.subject["surface_id"])
    if surface is None or surface.closed is not None:
        model.blame(entry, "there is no such open surface", *([surface.opened] if surface else []))
        return
    surface.closed = entry
    del model.shown[entry.subject["surface_id"]]


# --- what people do ---


def action_taken(model: Model, entry: Entry) -> None:
    instance, name = model.instance_of(entry), entry.subject["action_id"]
    if name in model.actions:
        model.blame(entry, "the action had been taken", rule="second-record")
        return
    if instance is None or instance.state not in LIVE:
        model.blame(entry, "the instance is not live")
    elif entry.detail["kind"] != "force_close":  # which the app is not asked about
        model.actions[name] = instance.place, model.put_message(instance.place, Message(entry, "", None))


def action_over(model: Model, entry: Entry) -> None:
    """Withdrawn, or acknowledged by way of what was done with it."""
    place, number = model.actions.get(entry.subject["action_id"], (None, 0))
    if place is None:
        model.blame(entry, "no such action was taken")
    else:
        model.inbox[place].pop(number, None)


def text_sent(model: Model, entry: Entry) -> None:
    """A person's text goes to the agent, once an action."""
    action = entry.subject.get("action_id")
    if action is not None:
        before = model.sent.get(action)
        if before is not None:
            model.blame(entry, "the text had been sent", before, rule="second-record")
        model.sent[action] = entry
    agent = entry.subject["agent_id"]
    model.posted[agent] += 1
    model.outbox[agent][model.posted[agent]] = model.posts[agent, model.posted[agent]] = entry


# --- grants ---


def grant_asked(model: Model, entry: Entry) -> None:
    name, question = entry.subject["grant_id"], model.asked.get(entry.subject["interaction_id"])
    if name in model.grants:
        model.blame(entry, "it had been asked for", rule="second-record")
    if question is None or question.source != POLICY:
        model.blame(entry, "no open question of policy asks for it", rule="grant-from-nowhere")
    _check_capability(model, entry)
    model.grants[name] = Grant(entry.detail["capability"], entry.subject["interaction_id"], "asking", entry)


def grant_moved(model: Model, entry: Entry) -> None:
    grant, to = model.grants.get(entry.subject["grant_id"]), entry.detail["status"]
    if grant is None:
        model.blame(entry, "nobody was asked for it", rule="grant-from-nowhere")
        return
    came_from = "asking" if entry.event in {"grant.given", "grant.denied"} else "granted"
    if grant.status != came_from:
        model.blame(entry, f"it was {grant.status}", grant.asked)
    if entry.event == "grant.given":
        question = model.questions.get(grant.question)
        said = None if question is None else question.ended
        if said is None or said.digest != YES or said.detail["path"][-1] != "completed":
            model.blame(entry, "no person said yes", grant.asked, rule="grant-from-nowhere")
        _check_capability(model, entry)
    grant.status = to
    if entry.event in {"grant.given", "grant.denied"}:
        _decided(model, entry)


def _decided(model: Model, entry: Entry) -> None:
    """The instance that asked is told by its inbox, if it lives."""
    instance = model.instance_of(entry)
    if instance is not None and instance.state in LIVE and "call_id" not in entry.subject:
        model.put_message(instance.place, Message(entry, "", None))


def capability_allowed(model: Model, entry: Entry) -> None:
    if not model.has_rules:
        model.blame(entry, "there is no rule that could allow it", rule="grant-from-nowhere")
    _check_capability(model, entry)


def _check_capability(model: Model, entry: Entry) -> None:
    capability = entry.detail["capability"]
    if any(capability == one or capability.startswith(f"{one}.") for one in _CLOSED):
        model.blame(entry, f"{capability} is never granted", rule="grant-from-nowhere")


def policy_loaded(model: Model, entry: Entry) -> None:
    model.has_rules = bool(entry.detail["rules"])
