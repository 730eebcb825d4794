"""The entries of instances, their processes, and the focus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime_actors.checker import model_people
from runtime_actors.checker.chain import Entry
from runtime_actors.checker.model import LIVE, READY, Instance, Model, Place

_ENDINGS: Final = frozenset({"closing", "closed", "failed"})
_MOVES: Final[Mapping[str, frozenset[str]]] = {
    "starting": READY | _ENDINGS | {"starting"},
    "foreground": _ENDINGS | {"starting", "suspended"},
    "background": _ENDINGS | {"starting", "suspended"},
    "suspended": _ENDINGS | {"starting"},
    "closing": frozenset({"closed"}),
    "closed": frozenset(),
    "failed": frozenset(),
}
"""By which entry an instance gets where; what covers or uncovers it is told by the focus."""


def instance_changed(model: Model, entry: Entry) -> None:
    subject, state = entry.subject, entry.detail["state"]
    instance = model.instance_of(entry)
    place = Place(subject["conversation_id"], subject["app_scope"])
    if instance is None:
        if state != "starting" or place in model.live:
            model.blame(entry, "an instance begins as starting, and alone in its place")
        check_floors(model, place.conversation)
        name = model.renamed.get(subject["instance_id"], subject["instance_id"])
        model.instances[name] = Instance(name, place, state)
        model.live[place] = name
        return
    if state not in _MOVES[instance.state] or instance.place != place:
        model.blame(entry, f"the instance was {instance.state}, of {'/'.join(instance.place)}")
    stack = model.focus.get(place.conversation, [])
    if state in READY and (state == "foreground") != (stack[-1:] == [instance.name]):
        model.blame(entry, f"the instance is {state}, and the focus stack {stack}")
    if (state == "closed" and instance.attempt) or (state == "closing" and not instance.attempt):
        model.blame(entry, f"the instance's process is {instance.attempt}")
    if state == "suspended" and (model.inbox[place] or instance.attempt is None):
        model.blame(entry, f"it has {len(model.inbox[place])} messages, and its process is {instance.attempt}")
    if state == "suspended":
        _check_rest(model, entry, instance)
    instance.state = state
    if state in _ENDINGS and model.live.get(place) == instance.name:
        del model.live[place]
        model.withdraw_news(place)
        model_people.end_with_instance(model, instance.name, entry)
    if state in _ENDINGS and instance.name in stack:
        stack.remove(instance.name)


def _check_rest(model: Model, entry: Entry, instance: Instance) -> None:
    """Nobody sleeps over work, except over a call that waits for a person."""
    for call in model.open.values():
        if call.instance == instance.name and (call.tool in model.once or not model_people.waits(model, call)):
            model.blame(entry, f"it has an open call, which is {call.status}", call.admitted, rule="asleep-at-work")


def focus_changed(model: Model, entry: Entry) -> None:
    """The whole stack, the last one in front. An older log names only the front; who left besides was closing."""
    conversation = entry.subject["conversation_id"]
    before = model.focus.get(conversation, [])
    instance = model.instance_of(entry)
    if "stack" in entry.detail:
        after = [model.renamed.get(name, name) for name in entry.detail["stack"]]
    else:
        after = [name for name in before if instance is not None and name != instance.name]
        after += [instance.name] if instance is not None else []
    check_floors(model, conversation)
    model.focus[conversation] = after
    floor = model.live.get(Place(conversation, "chat"))
    if floor is not None and after[:1] != [floor]:
        model.unfloored[conversation] = entry
    if (instance is None) != (not after) or (instance is not None and after[-1] != instance.name):
        model.blame(entry, f"the focus stack was {before}, and is {after}")
    for name in after:
        one = model.instances.get(name)
        if one is None or one.state not in LIVE or one.place.conversation != conversation or after.count(name) > 1:
            model.blame(entry, f"{name} is not live here, or there twice")


def check_floors(model: Model, conversation: str | None = None) -> None:
    """`chat` lies below all others; a stack without it is right if that was the last of it."""
    for name in [name for name in model.unfloored if conversation in {None, name}]:
        entry = model.unfloored.pop(name)
        floor = model.live.get(Place(name, "chat"))
        if floor is not None and model.focus.get(name, [])[:1] != [floor]:
            model.blame(entry, f"{floor} is not at the bottom of it", rule="floor-lost")


def attempt_started(model: Model, entry: Entry) -> None:
    instance = model.instance_of(entry)
    if instance is None or instance.state != "starting" or instance.attempt is not None:
        model.blame(entry, "the instance needs no process")
    else:
        instance.attempt = entry.subject["attempt_id"]


def attempt_ready(model: Model, entry: Entry) -> None:
    instance = model.instance_of(entry)
    if instance is None or instance.attempt != entry.subject["attempt_id"] or instance.state not in READY:
        model.blame(entry, "the instance waits for no such process")


def attempt_ended(model: Model, entry: Entry) -> None:
    instance = model.instance_of(entry)
    if instance is None or instance.attempt != entry.subject["attempt_id"]:
        model.blame(entry, "the instance has no such process")
        return
    instance.attempt = None
    if entry.detail["reason"] == "daemon_ended" and instance.state in READY:
        instance.state = "starting"


def recovered(model: Model, entry: Entry) -> None:
    running = sum(1 for call in model.open.values() if call.status == "running")
    if running != entry.detail["interrupted"]:
        model.blame(entry, f"{running} calls were running")
