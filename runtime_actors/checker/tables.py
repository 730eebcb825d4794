"""The records, as the listings show them, against what the log adds up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from runtime_actors.checker.evidence import Row
from runtime_actors.checker.model import Call, Key, Place
from runtime_actors.checker.run import Run
from runtime_actors.checker.violation import Violation

_KINDS: Final[Mapping[str, str]] = {
    "message.received": "message",
    "grant.given": "capability",
    "grant.denied": "capability",
    "interaction.ended": "interaction",
    "action.taken": "action",
}
"""Of a message, by the entry that put it."""
_UNLISTED = frozenset({"closed", "failed"})


def check_tables(run: Run) -> Iterator[Violation]:
    """Every listing."""
    yield from _calls(run)
    yield from _inbox(run)
    yield from _outbox(run)
    yield from _instances(run)
    yield from _focus(run)
    yield from _counts(run)


def _differs(rule: str, subject: str, row: Row | None, wanted: Row | None, *shown: Row) -> Iterator[Violation]:
    """One record against what it should be; None for none."""
    if wanted is None or row is None:
        message = "it is there, and should not be" if wanted is None else "it is missing"
        yield Violation(rule, subject, message, (*shown, *([row] if row is not None else [])))
        return
    found = {name: (row.get(name), value) for name, value in wanted.items() if row.get(name) != value}
    if found:
        message = ", ".join(f"{name} is {is_so!r}, the log says {should!r}" for name, (is_so, should) in found.items())
        yield Violation(rule, subject, message, (*shown, row))


def _calls(run: Run) -> Iterator[Violation]:
    rows = {Key(row["agent_id"], row["conversation_id"], row["call_id"]): row for row in run.listings["calls"]}
    for seq, (key, call) in enumerate(run.model.calls.items(), start=1):
        instance = run.model.instances.get(call.instance)
        last = call.admitted if call.ended is None else call.ended
        wanted = {
            "seq": seq,
            "tool_id": call.tool,
            "app_scope": instance.place.scope if instance else call.tool.partition(".")[0],
            "instance_id": call.instance or None,
            "status": call.status,
            "error_code": None if call.ended is None else call.ended.detail["code"],
            "cancel_requested": call.cancel is not None,
            "crashes": call.crashes,
            "created_at": call.admitted.row["at"],
        }
        yield from _differs("calls-differ", str(key), rows.pop(key, None), wanted, last.row)
    for key, row in rows.items():
        yield from _differs("calls-differ", str(key), row, None)


def _inbox(run: Run) -> Iterator[Violation]:
    rows = {(Place(row["conversation_id"], row["app_scope"]), row["number"]): row for row in run.listings["inbox"]}
    for place, waiting in run.model.inbox.items():
        for number, message in waiting.items():
            wanted = {
                "message_id": f"m{number}",
                "kind": _KINDS.get(message.entry.event, "tool.call"),
                "agent_id": message.agent,
                "call_id": None if message.call is None else message.call.call_id,
                "created_at": message.entry.row["at"],
            }
            subject = f"message {'/'.join(place)}/m{number}"
            yield from _differs("inbox-differs", subject, rows.pop((place, number), None), wanted, message.entry.row)
    for (place, number), row in rows.items():
        gone = run.model.acknowledged.get((place, number))
        shown = () if gone is None else (gone.row,)
        yield from _differs("inbox-differs", f"message {'/'.join(place)}/m{number}", row, None, *shown)


def _outbox(run: Run) -> Iterator[Violation]:
    rows = {(row["agent_id"], row["number"]): row for row in run.listings["outbox"]}
    for agent, waiting in run.model.outbox.items():
        if agent in run.model.flooded:
            continue
        for number, call in waiting.items():
            wanted: dict[str, str | None]
            if isinstance(call, Call):
                kind = "tool.result" if call.result == number else "tool.progress"
                wanted = {"conversation_id": call.key.conversation, "call_id": call.key.call_id}
            else:  # a person's text
                kind, wanted = "text", {"conversation_id": call.subject["conversation_id"], "call_id": None}
            wanted |= {"type": f"lineup.v1.{kind}"}
            yield from _differs("outbox-differs", f"delivery {agent}/{number}", rows.pop((agent, number), None), wanted)
    for (agent, number), row in rows.items():
        gone = run.model.gone.get((agent, number))
        if gone is not None or agent not in run.model.flooded:
            shown = () if gone is None else (gone.row,)
            yield from _differs("outbox-differs", f"delivery {agent}/{number}", row, None, *shown)


def _instances(run: Run) -> Iterator[Violation]:
    rows = {row["instance_id"]: row for row in run.listings["ps"]}
    for instance in run.model.instances.values():
        if instance.state in _UNLISTED:
            continue
        state = instance.state
        if state in {"foreground", "background"}:  # the focus says which
            stack = run.model.focus.get(instance.place.conversation, [])
            state = "foreground" if stack[-1:] == [instance.name] else "background"
        wanted = {
            "conversation_id": instance.place.conversation,
            "app_scope": instance.place.scope,
            "state": state,
            "attempt_id": instance.attempt,
        }
        yield from _differs("instances-differ", instance.name, rows.pop(instance.name, None), wanted)
    for name, row in rows.items():
        yield from _differs("instances-differ", name, row, None)


def _focus(run: Run) -> Iterator[Violation]:
    rows: dict[str, Row] = {row["conversation_id"]: row for row in run.listings["focus"]}
    for conversation, stack in run.model.focus.items():
        if stack:
            yield from _differs("focus-differs", conversation, rows.pop(conversation, None), {"stack": stack})
    for conversation, row in rows.items():
        yield from _differs("focus-differs", conversation, row, None)


def _counts(run: Run) -> Iterator[Violation]:
    wanted: Mapping[str, int] = {
        "open_calls": len(run.model.open),
        "inbox_messages": len(run.listings["inbox"]),
        "outbox_deliveries": len(run.listings["outbox"]),
        "agents": len(run.model.agents),
    }
    for row in run.listings["status"]:
        yield from _differs("counts-differ", "status", row, wanted)


def check_ends(run: Run) -> Iterator[Violation]:
    """What should have happened at last."""
    for call in run.model.open.values():
        yield _never_ended(call)
    if not run.has_drained:
        waits = [one for one in run.operations.values() if one.asked.kind == "drain"]
        yield Violation("not-drained", waits[-1].asked.by, "it waited in vain for everything to end", waits[-1].rows)


def _never_ended(call: Call) -> Violation:
    return Violation("never-ended", str(call.key), f"it is {call.status} for ever", (call.admitted.row,))
