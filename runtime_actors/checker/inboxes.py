"""The inboxes as total queues, seen from the MiniApps.

Their histories may have holes (a killed process takes what it had not written yet with it), so only what they hold
counts, never what they lack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from runtime_actors.checker.history import Delivered, Given
from runtime_actors.checker.model import Key, Place
from runtime_actors.checker.run import Operation, Run, number_of
from runtime_actors.checker.violation import Violation

Slot = tuple[Place, int]


def check_messages(run: Run) -> Iterator[Violation]:
    """All that MiniApps were given."""
    acknowledged = _acknowledged(run)
    newest: dict[tuple[str, Place, str | None], tuple[int, Given]] = {}
    seen: set[tuple[str, Slot]] = set()
    given_to: dict[tuple[str, str], dict[str, Given]] = defaultdict(dict)
    for one in run.of(Given):
        place, number = Place(one.conversation, one.scope), number_of(one.message_id)
        if one.tool in run.once and one.call_id is not None:
            given_to[one.conversation, one.call_id].setdefault(one.by, one)
        if not number:
            continue
        yield from _expected(run, one, (place, number))
        done = acknowledged.get((place, number))
        if done is not None and one.at > done.done_at:
            message = "it was acknowledged, and given again"
            yield Violation("message-after-ack", _name((place, number)), message, (*done.rows, one.row))
        if (one.by, (place, number)) not in seen:
            seen.add((one.by, (place, number)))
            before = newest.get((one.by, place, one.tool))
            if before is not None and before[0] > number:
                message = f"it was given behind m{before[0]}"
                yield Violation("message-order", _name((place, number)), message, (before[1].row, one.row))
            newest[one.by, place, one.tool] = number, one
    for (conversation, call_id), those in given_to.items():
        if len(those) > 1:
            message = f"must not run twice, and was given to {', '.join(those)}"
            shown = tuple(one.row for one in those.values())
            yield Violation("ran-twice", f"call {conversation}/{call_id}", message, shown)


def _acknowledged(run: Run) -> dict[Slot, Operation]:
    """By message: the acknowledgement that was answered first."""
    found: dict[Slot, Operation] = {}
    for one in run.operations.values():
        if one.asked.kind == "inbox.acknowledge" and one.outcome == "ok":
            slot = Place(one.asked.conversation or "", one.asked.scope or ""), number_of(one.asked.body["message_id"])
            known = found.get(slot)
            if known is None or one.done_at < known.done_at:
                found[slot] = one
    return found


def _expected(run: Run, one: Given, slot: Slot) -> Iterator[Violation]:
    put = run.model.put.get(slot)
    if put is None:
        yield Violation("message-unexpected", _name(slot), "the log puts no such message into this inbox", (one.row,))
        return
    call_id = None if put.call is None else put.call.call_id
    if call_id != one.call_id:
        message = f"it is about {one.call_id}, and the log says {call_id}"
        yield Violation("message-unexpected", _name(slot), message, (put.entry.row, one.row))


def check_work(run: Run) -> Iterator[Violation]:
    """Where the apps repeat a field of the input in the result, each completed call's result does."""
    if run.echo is None:
        return
    asked: dict[Key, list[Operation]] = defaultdict(list)
    for one in run.operations.values():
        if one.asked.kind == "tool.invoke" and one.outcome != "fail":
            asked[Key(one.asked.agent or "", one.asked.conversation or "", one.asked.body["call_id"])].append(one)
    for got in run.of(Delivered):
        call = got.body.get("call", {})
        key = Key(got.agent, got.conversation, call.get("call_id", ""))
        if call.get("status") != "completed" or key not in asked:
            continue
        made = (call.get("result") or {}).get(run.echo)
        if all(one.asked.body["input"].get(run.echo) != made for one in asked[key]):
            shown = (asked[key][0].asked.row, got.row)
            yield Violation("result-unmade", str(key), "its result is none that its app made", shown)


def _name(slot: Slot) -> str:
    return f"message {'/'.join(slot[0])}/m{slot[1]}"
