"""The entries of instances, their processes, and the focus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime_actors.checker.chain import Entry
from runtime_actors.checker.model import LIVE, READY, Instance, Model, Place

_ENDINGS: Final = frozenset({"closing", "closed", "failed"})
_MOVES: Final[Mapping[str, frozenset[str]]] = {
    "starting": READY | _ENDINGS | {"starting"},
    "foreground": _ENDINGS | {"starting"},
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
    instance.state = state
    if state in _ENDINGS and model.live.get(place) == instance.name:
        del model.live[place]
    if state in _ENDINGS and instance.name in stack:
        stack.remove(instance.name)


def focus_changed(model: Model, entry: Entry) -> None:
    """Who is in front now; who left the stack besides is told by the entry of its closing."""
    stack = model.focus.setdefault(entry.subject["conversation_id"], [])
    instance = model.instance_of(entry)
    if instance is None:
        if len(stack) > 1 or "instance_id" in entry.subject:
            model.blame(entry, f"the focus stack was {stack}")
        return
    if instance.state not in LIVE:
        model.blame(entry, "the instance is not live")
    if instance.name in stack:
        stack.remove(instance.name)
    stack.append(instance.name)


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
