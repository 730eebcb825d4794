"""What clients read about calls: a register each, that is final once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from runtime_actors.checker.chain import digest_of
from runtime_actors.checker.evidence import Row
from runtime_actors.checker.history import Changed, Delivered
from runtime_actors.checker.model import FINAL, Call, Key
from runtime_actors.checker.operations import Deeds
from runtime_actors.checker.run import Operation, Run
from runtime_actors.checker.violation import Violation

_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of nothing."""


class Reading(NamedTuple):
    """A state of a call that a client saw."""

    begun_at: float
    done_at: float
    key: Key
    state: Row
    mark: int | None
    """The entry that it is the state at, if it says so."""
    rows: tuple[Row, ...]


def check_reads(run: Run, deeds: Deeds) -> Iterator[Violation]:
    """Every reading, against the log and against those before it."""
    final: dict[Key, Reading] = {}
    for reading in sorted(_readings(run), key=lambda one: one.done_at):
        call = run.model.calls.get(reading.key)
        if call is None:
            yield Violation("ok-missing", str(reading.key), "it was read and is not in the log", reading.rows)
            continue
        first = final.get(reading.key)
        if first is not None:
            yield from _stays(first, reading)
        if reading.state["status"] in FINAL:
            final.setdefault(reading.key, reading)
            yield from _is_recorded(call, reading)
        yield from _is_current(call, reading, deeds)
    yield from _not_found(run, deeds)
    yield from _news(run)


def _readings(run: Run) -> Iterator[Reading]:
    for one in run.operations.values():
        if one.answer is not None and one.outcome == "ok" and "call" in one.answer.body and one.asked.agent:
            state = one.answer.body["call"]
            key = Key(one.asked.agent, state["conversation_id"], state["call_id"])
            yield Reading(one.asked.at, one.done_at, key, state, one.mark, one.rows)
    for got in run.of(Delivered):
        if "call" in got.body:
            state = got.body["call"]
            key = Key(got.agent, state["conversation_id"], state["call_id"])
            yield Reading(got.at, got.at, key, state, None, (got.row,))


def _stays(first: Reading, reading: Reading) -> Iterator[Violation]:
    """An answer may come behind a delivery that was decided after it, but not if it was asked for after that."""
    shown = (*first.rows, *reading.rows)
    if reading.state["status"] in FINAL:
        if _word(reading.state) != _word(first.state):
            yield Violation("final-changed", str(reading.key), "it was read as final, and as another end later", shown)
    elif reading.begun_at > first.done_at:
        was, now = first.state["status"], reading.state["status"]
        yield Violation("final-changed", str(reading.key), f"it was read as {was}, and as {now} later", shown)


def _is_recorded(call: Call, reading: Reading) -> Iterator[Violation]:
    if call.ended is None:
        return  # which is said as a status that it never had
    state, detail = reading.state, call.ended.detail
    payload = state.get("result") if state["status"] == "completed" else state.get("failure")
    digest = _EMPTY if payload is None else digest_of(payload)
    if (state["status"], state.get("error_code")) != (detail["to"], detail["code"]) or digest != call.ended.digest:
        message = f"it was read as {state['status']}, and ended as {detail['to']} with another content"
        yield Violation("end-disagrees", str(call.key), message, (*reading.rows, call.ended.row))


def _is_current(call: Call, reading: Reading, deeds: Deeds) -> Iterator[Violation]:
    """It was so at its mark, or at some time between what was known when it began and what began when it was done."""
    lowest, told = deeds.known.before(reading.begun_at)
    beyond = deeds.not_before(reading.done_at)
    if reading.mark is not None:
        lowest, beyond = reading.mark, reading.mark + 1
    seen = (reading.state["status"], bool(reading.state.get("cancel_requested")))
    ends = [one.seq for one in call.versions[1:]] + [float("inf")]
    possible = [one for one, end in zip(call.versions, ends, strict=True) if end > lowest and one.seq < beyond]
    if any((one.status, one.cancel_requested) == seen for one in possible):
        return
    earlier = [one for one in call.versions if one.seq <= lowest and (one.status, one.cancel_requested) == seen]
    if earlier and reading.mark is None:
        message = f"it was read as {seen[0]}, which it was no longer"
        yield Violation("stale-read", str(call.key), message, (*told, *reading.rows))
    else:
        message = f"it was read as {seen[0]}, and the log says {', '.join(one.status for one in possible) or 'nothing'}"
        yield Violation("answer-disagrees", str(call.key), message, reading.rows)


def _not_found(run: Run, deeds: Deeds) -> Iterator[Violation]:
    """Nobody is told that there is no call of which somebody knew."""
    for one in run.operations.values():
        if one.asked.kind != "tool.get" or _code(one) != "call_not_found":
            continue
        call = run.model.calls.get(Key(one.asked.agent or "", one.asked.conversation or "", one.asked.body["call_id"]))
        known, told = deeds.known.before(one.asked.at)
        if call is not None and call.admitted.seq <= known:
            yield Violation("stale-read", str(call.key), "it was not found, and was known", (*told, *one.rows))


def _news(run: Run) -> Iterator[Violation]:
    """What a MiniApp is told about an end is the end."""
    for one in run.of(Changed):
        key = Key(run.model.owners.get(one.conversation, ""), one.conversation, one.call_id)
        call = run.model.calls.get(key)
        if call is None or (one.status in FINAL and one.status != call.status):
            yield Violation("end-disagrees", str(key), f"its app was told {one.status}", (one.row,))


def _code(one: Operation) -> str | None:
    return one.answer.code or one.answer.body.get("code") if one.answer is not None else None


def _word(state: Row) -> str:
    """What is final about a call."""
    return json.dumps({name: state.get(name) for name in ("status", "error_code", "result", "failure")}, sort_keys=True)
