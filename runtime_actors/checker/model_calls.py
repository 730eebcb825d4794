"""The entries of calls."""

from __future__ import annotations

from typing import Final

from runtime_actors.checker import model_people
from runtime_actors.checker.chain import Entry
from runtime_actors.checker.model import FINAL, LIVE, PLAIN, READY, Call, Message, Model, Version, key_of

_ADMITTED: Final = ["received", "routing", "waiting_for_app"]
_UNDER_WAY: Final = frozenset({"waiting_for_app", "running"})
_OPEN: Final = _UNDER_WAY | {_ADMITTED[0]}
_METERED: Final = 4096
"""Subjects that are metered one by one; more share a meter."""


def received(model: Model, entry: Entry) -> None:
    """A call that a person has to permit: nobody has it before that."""
    if "instance_id" in entry.subject:
        model.blame(entry, "a call that waits to be let in has no instance")
    _begin(model, entry, _ADMITTED[0])


def _begin(model: Model, entry: Entry, status: str) -> Call | None:
    key = key_of(entry)
    known = model.calls.get(key)
    if known is not None:
        model.blame(entry, "the call had been admitted", known.admitted, rule="second-record")
        return None
    model.check_owner(entry)
    version = Version(entry.seq, status, cancel_requested=False)
    call = Call(key, entry.detail.get("tool_id", ""), "", entry, [version], None)
    model.calls[key] = model.open[key] = call
    return call


def admitted(model: Model, entry: Entry) -> None:
    key, instance = key_of(entry), model.instance_of(entry)
    call = model.open.get(key)
    if call is not None and call.status == _ADMITTED[0]:  # a person permitted it
        call.versions.append(Version(entry.seq, _ADMITTED[-1], call.cancel is not None))
    else:
        call = _begin(model, entry, _ADMITTED[-1])
    if call is None:
        return
    if entry.detail.get("path") != _ADMITTED:
        model.blame(entry, f"a call cannot be admitted by way of {entry.detail.get('path')}")
    if instance is None or instance.state not in LIVE or instance.place.conversation != key.conversation:
        model.blame(entry, "the call was given to no live instance of its conversation")
    if instance is not None:
        call.instance = instance.name
        call.message = model.put_message(instance.place, Message(entry, key.agent, key))


def running(model: Model, entry: Entry) -> None:
    call = model.open_call(entry)
    if call is None:
        return
    model.move(entry, call, "running", came_from=frozenset({"waiting_for_app"}))
    is_taken_over = call.message is None or (call.instance, call.key.call_id) in model.misreported
    if not is_taken_over and call.tool not in model.once and model.misreports[call.instance] < PLAIN:
        model.blame(entry, "its message was not acknowledged", call.admitted)


def report_refused(model: Model, entry: Entry) -> None:
    """An invalid result takes a call over as well, and leaves its message."""
    if entry.detail["code"] == "tool_output_invalid":
        instance = model.renamed.get(entry.subject["who"], entry.subject["who"])
        model.misreports[instance] += 1
        model.misreported.add((instance, entry.subject["call_id"]))


def progressed(model: Model, entry: Entry) -> None:
    call = model.open_call(entry)
    if call is None:
        return
    model.move(entry, call, "running", came_from=_UNDER_WAY)
    model.metered += not call.progressed
    call.progressed += 1
    call.progress = model.post(call)
    if call.progressed >= PLAIN or model.metered >= _METERED:
        model.flooded.add(call.key.agent)


def interrupted(model: Model, entry: Entry) -> None:
    call = model.open_call(entry)
    if call is None:
        return
    model.move(entry, call, "waiting_for_app", came_from=_UNDER_WAY)
    if entry.detail["crashes"] - call.crashes not in {0, 1}:
        model.blame(entry, f"the call had been interrupted by {call.crashes} crashes")
    call.crashes = entry.detail["crashes"]


def redelivered(model: Model, entry: Entry) -> None:
    call = model.open_call(entry)
    if call is None:
        return
    if call.tool in model.once and call.has_run:
        model.blame(entry, "the call had run and must not run twice", rule="ran-twice")
    model.move(entry, call, "waiting_for_app", came_from=_UNDER_WAY)
    model.withdraw(call)
    instance = model.instances.get(call.instance)
    if instance is None or instance.state not in READY:
        model.blame(entry, "its instance has no process that is ready")
    if instance is not None:
        call.message = model.put_message(instance.place, Message(entry, call.key.agent, call.key))


def cancel_requested(model: Model, entry: Entry) -> None:
    call = model.open_call(entry)
    if call is not None and call.cancel is not None:
        model.blame(entry, "that had been wanted", call.cancel)
    elif call is not None:
        call.cancel = entry
        call.versions.append(Version(entry.seq, call.status, cancel_requested=True))


def ended(model: Model, entry: Entry) -> None:
    call = model.open_call(entry)
    if call is None:
        return
    to, code = entry.detail["to"], entry.detail["code"]
    model.move(entry, call, to, came_from=frozenset({_ADMITTED[0]}) if to == "rejected" else _OPEN)
    if to not in FINAL or (to == "completed") != (code is None) or (to == "expired") != (code == "deadline_passed"):
        model.blame(entry, f"a call cannot end as {to} with {code}")
    model.withdraw(call)
    call.ended = entry
    model.open.pop(call.key, None)
    model_people.end_with_call(model, call, entry)
    call.result = model.post(call)
