"""What clients asked for, against the log: each ok once, no fail, unknowns once or never, in the order of real time."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from runtime_actors.checker.chain import Entry, digest_of
from runtime_actors.checker.evidence import Row
from runtime_actors.checker.history import Answered, Delivered
from runtime_actors.checker.model import PLAIN, Key, Place
from runtime_actors.checker.run import Known, Operation, Run, number_of
from runtime_actors.checker.violation import Violation

_WORDS: Final = {"tools.complete": "completed", "tools.fail": "failed", "tools.cancel": "cancelled"}
_UNNOTED: Final = frozenset({"message_invalid", "message_too_large"})
"""Refusals of frames that could not be read: their entry does not name the call."""


_AGENTS: Final = frozenset({"call.admitted", "call.cancel_requested", "message.received"})
"""Entries that only an agent's request makes."""


class Deed(NamedTuple):
    """What an operation is to leave in the log, once: an entry of this event about this."""

    event: str
    subject: Key | tuple[Place, int]


class Deeds:
    """Operations by what they are to leave, the entries that did, and what was known when."""

    def __init__(self, run: Run) -> None:
        self.asked: dict[Deed, list[Operation]] = defaultdict(list)
        for operation in run.operations.values():
            deed = deed_of(run, operation)
            if deed is not None:
                self.asked[deed].append(operation)
        self.left: Mapping[Deed, Entry] = _left(run)
        self.known = Known(_told(run, self))
        begun = sorted(
            (min(one.asked.at for one in asked), self.left[deed].seq)
            for deed, asked in self.asked.items()
            if deed in self.left
            and deed.event in _AGENTS  # what a MiniApp does may have been done before, or by others
        )
        self._begun = [at for at, _ in begun]
        self._lowest = [seq for _, seq in begun]
        for at in range(len(begun) - 2, -1, -1):
            self._lowest[at] = min(self._lowest[at], self._lowest[at + 1])

    def not_before(self, at: float) -> float:
        """The lowest entry that was made for something that began later: nobody can have seen it by then."""
        found = bisect_right(self._begun, at)
        return self._lowest[found] if found < len(self._lowest) else math.inf


def deed_of(run: Run, operation: Operation) -> Deed | None:
    """What an operation is to leave in the log, if anything."""
    asked = operation.asked
    body, conversation = asked.body, asked.conversation or ""
    match asked.kind:
        case "tool.invoke" | "tool.call":
            return Deed("call.admitted", Key(asked.agent or "", conversation, body["call_id"]))
        case "tool.cancel":
            return Deed("call.cancel_requested", Key(asked.agent or "", conversation, body["call_id"]))
        case "message":
            return Deed("message.received", Key(asked.agent or "", conversation, body["message_id"]))
        case "inbox.acknowledge":
            place = Place(conversation, asked.scope or "")
            return Deed("message.acknowledged", (place, number_of(body["message_id"])))
        case "tools.complete" | "tools.fail" | "tools.cancel":
            owner = run.model.owners.get(conversation, "")
            return Deed("call.ended", Key(owner, conversation, body["call_id"]))
        case _:
            return None


def _left(run: Run) -> dict[Deed, Entry]:
    found: dict[Deed, Entry] = {}
    for key, call in run.model.calls.items():
        found[Deed("call.admitted", key)] = call.admitted
        if call.cancel is not None:
            found[Deed("call.cancel_requested", key)] = call.cancel
        if call.ended is not None:
            found[Deed("call.ended", key)] = call.ended
    found |= {Deed("message.received", key): entry for key, entry in run.model.texts.items()}
    found |= {Deed("message.acknowledged", place): entry for place, entry in run.model.acknowledged.items()}
    return found


def _told(run: Run, deeds: Deeds) -> Iterator[tuple[float, int, Row]]:
    """When somebody was told of which entry: by a mark, or because it was made for what was answered with ok."""
    for one in run.events:
        mark = one.body.get("audit") if isinstance(one, (Answered, Delivered)) else None
        entry = None if mark is None else run.entry(mark["audit_seq"])
        if entry is not None and mark is not None and entry.head == mark["head_hash"]:
            yield one.at, entry.seq, one.row
    for deed, asked in deeds.asked.items():
        entry = deeds.left.get(deed)
        for operation in asked:
            if entry is not None and operation.answer is not None and operation.outcome == "ok":
                yield operation.done_at, entry.seq, operation.answer.row


def check_operations(run: Run, deeds: Deeds) -> Iterator[Violation]:
    """Each deed against its entry."""
    for deed, asked in deeds.asked.items():
        entry = deeds.left.get(deed)
        if entry is None:
            yield from _missing(run, deed, asked)
        else:
            yield from _present(deeds, deed, asked, entry)
    for deed, entry in deeds.left.items():
        agent = entry.subject.get("agent_id")
        if deed not in deeds.asked and deed.event != "call.ended" and agent in run.agents:
            yield Violation("from-nowhere", _name(deed), f"{agent} never asked for it", (entry.row,))


def _missing(run: Run, deed: Deed, asked: list[Operation]) -> Iterator[Violation]:
    if deed.event == "message.acknowledged" and deed.subject in run.model.put:
        return  # it may be acknowledged after it was withdrawn
    for operation in asked:
        if operation.outcome == "ok":
            yield Violation("ok-missing", _name(deed), "it was answered with ok and is not in the log", operation.rows)
            return


def _present(deeds: Deeds, deed: Deed, asked: list[Operation], entry: Entry) -> Iterator[Violation]:
    possible = [one for one in asked if one.outcome != "fail"]
    if deed.event == "call.ended":
        yield from _words(deed, asked, entry)
        return  # deadlines and deaths end calls too, whenever they like
    if not possible and deed.event == "message.acknowledged":
        return  # the process that did it may have taken its words with it
    if not possible:
        shown = (*asked[0].rows, entry.row)
        yield Violation("fail-present", _name(deed), f"it was refused with {_code(asked[0])} and is in the log", shown)
        return
    first = min(possible, key=lambda one: one.asked.at)
    known, told = deeds.known.before(first.asked.at)
    if entry.seq <= known and deed.event in _AGENTS:
        message = f"entry {entry.seq} was made for what began when entry {known} was known"
        yield Violation("time-order", _name(deed), message, (*told, first.asked.row, entry.row))
    if entry.digest and not any(_is_unspelt(one) or digest_of(_wire(one)) == entry.digest for one in possible):
        yield Violation("from-nowhere", _name(deed), "what is recorded was never asked", (first.asked.row, entry.row))
    for operation in possible:
        if operation.outcome == "ok" and "repeated" in operation.rows[-1].get("body", {}):
            yield from _place(deed, operation, entry)


def _place(deed: Deed, operation: Operation, entry: Entry) -> Iterator[Violation]:
    """The first ok names the entry itself, a repeated one any that is not before it."""
    assert operation.answer is not None  # noqa: S101 - it is ok
    mark = operation.mark
    if operation.answer.body["repeated"]:
        if mark is not None and mark < entry.seq:
            yield Violation("answer-disagrees", _name(deed), "it was known before it was", (*operation.rows, entry.row))
    elif mark != entry.seq:
        message = f"the answer names entry {mark}, and entry {entry.seq} was made for it"
        yield Violation("answer-disagrees", _name(deed), message, (*operation.rows, entry.row))


def _words(deed: Deed, asked: list[Operation], entry: Entry) -> Iterator[Violation]:
    """A MiniApp's last word that was taken is how the call ended; one that was refused is not.

    Of refused words only a result counts: without one, another process may have said the same and left no history.
    """
    to, code = entry.detail.get("to"), entry.detail.get("code")
    by_app = code is None or str(code).startswith("app.")  # else time, a death or an operator ended it
    taken = any(one.outcome != "fail" and _WORDS[one.asked.kind] == to for one in asked)
    for one in asked:
        same = "result" not in one.asked.body or digest_of(one.asked.body["result"]) == entry.digest
        is_it = by_app and same and _WORDS[one.asked.kind] == to
        shown = (*one.rows, entry.row)
        if one.outcome == "ok" and not is_it:
            yield Violation("end-disagrees", _name(deed), f"its app's word was taken, and it ended as {to}", shown)
        elif one.outcome == "fail" and "result" in one.asked.body and is_it and not taken:
            yield Violation("fail-present", _name(deed), "its app's word was refused, and is how it ended", shown)


def check_refusals(run: Run) -> Iterator[Violation]:
    """A refusal left its entry, or is one of a flood."""
    noted: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry in run.entries:
        if entry.event in {"call.refused", "request.refused", "message.refused"}:
            about = entry.subject.get("call_id") or entry.subject.get("message_id") or ""
            noted[entry.subject["who"], about, entry.detail["code"]] += 1
    spent: dict[tuple[str, str], int] = defaultdict(int)
    for operation in run.operations.values():
        asked = operation.asked
        if operation.outcome != "fail" or asked.kind not in {"tool.invoke", "message"}:
            continue
        agent, code = asked.agent or "", _code(operation)
        spent[agent, code] += 1
        about = asked.body.get("call_id") or asked.body.get("message_id") or ""
        if not noted[agent, about, code] and code not in _UNNOTED and spent[agent, code] <= PLAIN:
            yield Violation("refusal-unnoted", f"{asked.kind} {about}", f"{code} left no entry", operation.rows)


def _is_unspelt(operation: Operation) -> bool:
    """A question in its old form: the runtime spells the call that it is, and knows the revision."""
    return operation.asked.kind == "tool.call"


def _wire(operation: Operation) -> Row:
    """The body with what the protocol fills in."""
    body = operation.asked.body
    return {"app_scope": "chat", **body} if operation.asked.kind == "message" else body


def _code(operation: Operation) -> str:
    return "" if operation.answer is None else str(operation.answer.code or operation.answer.body.get("code"))


def _name(deed: Deed) -> str:
    if isinstance(deed.subject, Key):
        return f"{deed.event} {'/'.join(deed.subject)}"
    place, number = deed.subject
    return f"{deed.event} {'/'.join(place)}/m{number}"
