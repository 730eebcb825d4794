"""The outbox as a total queue: nothing lost, nothing unexpected, copies equal, in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from runtime_actors.checker.chain import Entry, digest_of
from runtime_actors.checker.evidence import Row
from runtime_actors.checker.history import Delivered, Settled
from runtime_actors.checker.model import Call, Key
from runtime_actors.checker.run import Run
from runtime_actors.checker.violation import Violation


def check_deliveries(run: Run) -> Iterator[Violation]:
    """All that agents were sent, and acknowledged."""
    copies: dict[tuple[str, str, int], Delivered] = {}
    numbers: dict[Key, dict[int, Row]] = defaultdict(dict)
    seen: set[tuple[str, str, int]] = set()
    newest: dict[tuple[str, str, str], Delivered] = {}
    for one in run.of(Delivered):
        first = copies.setdefault((one.agent, one.stream, one.number), one)
        if first.frame != one.frame:
            message = f"copies of delivery {one.number} differ"
            yield Violation("copies-differ", one.agent, message, (first.row, one.row))
        yield from _expected(run, one)
        if one.kind != "text" and "call" in one.body:
            numbers[_key(one)].setdefault(one.number, one.row)
        if (one.by, one.stream, one.number) not in seen:
            seen.add((one.by, one.stream, one.number))
            before = newest.setdefault((one.by, one.stream, one.conversation), one)
            newest[one.by, one.stream, one.conversation] = one
            if before.number > one.number:
                message = f"delivery {one.number} came behind {before.number}"
                yield Violation("delivery-order", f"{one.by} {one.conversation}", message, (before.row, one.row))
    yield from _results(run, numbers)
    yield from _texts(run)
    yield from _numbered(run, numbers)
    yield from _settled(run)


def _key(one: Delivered) -> Key:
    call_id = one.body["call"]["call_id"] if "call" in one.body else one.body["call_id"]
    return Key(one.agent, one.conversation, call_id)


def _expected(run: Run, one: Delivered) -> Iterator[Violation]:
    if one.kind == "text":
        yield from _expected_text(run, one)
        return
    key, is_result = _key(one), "call" in one.body
    call = run.model.calls.get(key)
    if call is None or (is_result and call.ended is None):
        yield Violation("delivery-unexpected", str(key), "the log posts nothing of it to this agent", (one.row,))
        return
    if one.agent not in run.model.flooded:
        posted = run.model.posts.get((one.agent, one.number))
        if posted is not call or is_result != (call.result == one.number):
            message = f"delivery {one.number} is posted for something else"
            yield Violation("delivery-unexpected", str(key), message, (one.row,))
    mark = one.body.get("audit")
    if is_result and call.ended is not None and mark is not None and mark["audit_seq"] != call.ended.seq:
        message = f"its result names entry {mark['audit_seq']}, and its end is entry {call.ended.seq}"
        yield Violation("answer-disagrees", str(key), message, (one.row, call.ended.row))


def _expected_text(run: Run, one: Delivered) -> Iterator[Violation]:
    posted = run.model.posts.get((one.agent, one.number))
    if one.agent in run.model.flooded:
        return
    if not isinstance(posted, Entry) or posted.digest != digest_of(one.body["text"]):
        message = f"delivery {one.number} brings a text that nobody sent"
        yield Violation("delivery-unexpected", f"text to {one.agent}", message, (one.row,))


def _texts(run: Run) -> Iterator[Violation]:
    """Each text of a person reaches an agent that listens, unless it was dropped because nobody read it."""
    if not run.has_drained:
        return
    came = {(one.agent, one.number) for one in run.of(Delivered) if one.kind == "text"}
    for (agent, number), entry in run.model.posts.items():
        if not isinstance(entry, Entry) or agent not in run.agents or agent in run.model.flooded:
            continue
        gone = run.model.gone.get((agent, number))
        if (agent, number) not in came and (gone is None or gone.event != "delivery.dropped"):
            yield Violation("result-lost", f"text to {agent}", "it was delivered to nobody", (entry.row,))


def _results(run: Run, numbers: dict[Key, dict[int, Row]]) -> Iterator[Violation]:
    """One number for each call; none only for what was dropped because nobody read it, or waits still."""
    for key, call in run.model.calls.items():
        if call.ended is None or call.result is None or key.agent not in run.agents:
            continue
        found = numbers.get(key, {})
        if len(found) > 1:
            message = f"it has the results {sorted(found)}"
            yield Violation("result-twice", str(key), message, (*found.values(), call.ended.row))
        elif not found:
            yield from _undelivered(run, key, call)


def _numbered(run: Run, numbers: dict[Key, dict[int, Row]]) -> Iterator[Violation]:
    """An agent's results are numbered in the order in which its calls ended."""
    highest: dict[str, int] = defaultdict(int)
    ends = sorted((call.ended.seq, key) for key, call in run.model.calls.items() if call.ended is not None)
    for _, key in ends:
        for number, row in numbers.get(key, {}).items():
            if number < highest[key.agent]:
                message = f"its result has number {number}, less than that of a call that ended before"
                yield Violation("delivery-unexpected", str(key), message, (row,))
            highest[key.agent] = max(number, highest[key.agent])


def _undelivered(run: Run, key: Key, call: Call) -> Iterator[Violation]:
    assert call.ended is not None  # noqa: S101 - its result is looked for
    assert call.result is not None  # noqa: S101 - as above
    gone = run.model.gone.get((key.agent, call.result))
    if key.agent in run.model.flooded:  # its number is not known exactly
        if any(entry.event == "delivery.dropped" for entry in run.model.gone.values()):
            return
    elif gone is not None and gone.event == "delivery.dropped":
        return
    if gone is not None or run.has_drained:
        shown = (call.ended.row,) if gone is None else (call.ended.row, gone.row)
        yield Violation("result-lost", str(key), "its result was delivered to nobody", shown)


def _settled(run: Run) -> Iterator[Violation]:
    acknowledged: dict[str, set[int]] = defaultdict(set)
    for one in run.of(Settled):
        acknowledged[one.agent].update(one.numbers)
    for (agent, number), entry in run.model.gone.items():
        if agent in run.agents and entry.event == "delivery.settled" and number not in acknowledged[agent]:
            message = f"delivery {number} is settled, and {agent} never acknowledged it"
            yield Violation("settle-unexpected", agent, message, (entry.row,))
