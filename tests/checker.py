"""What must always hold (docs/promises.md), checked after the fact and from outside.

Pure functions over three things: what clients and MiniApps wrote down (`history`), the rows of `lineup audit`, and what
the listings show once everything has drained. Nothing of the daemon's insides, and no code of the runtime: the chain
and the lives of calls are computed again here.

A history is a list of maps with `what`, `at` (CLOCK_MONOTONIC, which all processes of a machine share) and, of agents:
`invoked`, `asked`, `answered`, `unknown`, `delivered`, `settled`, `attached`; of MiniApps: `given`, `acked`, `said`.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgpack

Row = Mapping[str, Any]
Key = tuple[str, str, str]
"""(agent, conversation, call id)."""

FINAL: Final = frozenset({"completed", "failed", "cancelled", "expired", "rejected"})
_NOT_DONE: Final = frozenset({"busy", "store_unavailable", "internal_error", "not_attached"})
_LIVE: Final = frozenset({"starting", "foreground", "background", "suspended"})
_PLAIN_REFUSALS: Final = 20
"""Refusals of one agent and code within a period that have an audit entry each; more are counted."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a run."""

    history: Sequence[Row]
    audit: Sequence[Row]
    listings: Mapping[str, Sequence[Row]]
    """Rows of `calls`, `inbox`, `outbox`, `ps`, `focus` and `status`."""
    once: frozenset[str] = frozenset()
    """Tools that must not be given twice (`on_interruption: fail`)."""
    shown: Callable[[Row], bool] = lambda _: True
    """Whether a completed call, as `{tool, input, result}`, has the result of work that was really done."""


@dataclass(slots=True)
class Life:
    """A call as the audit log tells it."""

    admitted: int
    tool: str
    path: list[str]
    ended: Row | None = None
    redelivered: int = 0
    crossings: list[str] = field(default_factory=list)
    """What happened to it after its end."""


def violations(seen: Evidence) -> list[str]:
    """Every broken promise, one sentence each; empty when all hold."""
    lives = _lives(seen.audit)
    return [
        *_chain(seen.audit),
        *_marks(seen),
        *_each_call_ends_once(lives),
        *_what_agents_were_told(seen, lives),
        *_refusals(seen, lives),
        *_acknowledged_messages(seen),
        *_interrupted_work(seen),
        *_tables(seen, lives),
    ]


def figures(seen: Evidence) -> dict[str, int]:
    """How much the run can prove: a run without a redelivery says nothing about redeliveries."""
    copies = [(one["agent"], one["stream"], one["number"]) for one in seen.history if one["what"] == "delivered"]
    return {
        "accepted": len(_lives(seen.audit)),
        "final": sum(1 for one in seen.audit if one["event"] == "call.ended"),
        "redelivered": sum(1 for one in seen.audit if one["event"] == "call.redelivered"),
        "duplicates": len(copies) - len(set(copies)),
        "attaches": sum(1 for one in seen.history if one["what"] == "attached"),
        "entries": len(seen.audit),
    }


# --- the chain ---


def canonical(value: object) -> bytes:
    """Canonical form of docs/protocol.md, section 2, for values without fractions."""
    packed: bytes = msgpack.packb(_sorted(value))
    return packed


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value, key=str.encode)}
    if isinstance(value, (list, tuple)):
        return [_sorted(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _chain(audit: Sequence[Row]) -> list[str]:
    """`head_n = SHA-256(head_(n-1) || entry_n)`, docs/protocol.md, section 7."""
    head = bytes(32)
    for expected, row in enumerate(audit, start=1):
        if row["seq"] != expected:
            return [f"audit: entry {expected} is missing"]
        entry = {name: row[name] for name in ("seq", "at", "event", "subject", "detail", "digest")}
        head = hashlib.sha256(head + canonical(entry)).digest()
        if row["head_hash"] != head.hex():
            return [f"audit: entry {expected} does not match its hash"]
    return []


def _marks(seen: Evidence) -> list[str]:
    """Every place that an agent was ever told lies on the chain: nothing was cut off and nothing rewritten."""
    heads = {row["seq"]: row["head_hash"] for row in seen.audit} | {0: bytes(32).hex()}
    faults = []
    for one in seen.history:
        mark = one["body"].get("audit") if one["what"] in {"answered", "delivered"} else None
        if mark is not None and heads.get(mark["audit_seq"]) != mark["head_hash"]:
            faults.append(f"audit: {one['agent']} holds a mark at {mark['audit_seq']} that is not on the chain")
    return faults


# --- calls ---


def _lives(audit: Iterable[Row]) -> dict[Key, Life]:
    lives: dict[Key, Life] = {}
    for row in audit:
        event, subject, detail = row["event"], row["subject"], row["detail"]
        if not event.startswith("call.") or event == "call.refused":
            continue
        key = (subject["agent_id"], subject["conversation_id"], subject["call_id"])
        life = lives.get(key)
        if life is None:
            life = lives[key] = Life(row["seq"], detail.get("tool_id", "?"), list(detail.get("path", ["?"])))
            if event != "call.admitted":
                life.crossings.append(f"began with {event}")
            continue
        if life.ended is not None or event == "call.admitted":
            life.crossings.append(event)
        elif event == "call.ended":
            life.ended = row
        elif event == "call.redelivered":
            life.redelivered += 1
    return lives


def _each_call_ends_once(lives: Mapping[Key, Life]) -> list[str]:
    faults = [f"{key}: {crossing} out of order" for key, life in lives.items() for crossing in life.crossings]
    for key, life in lives.items():
        if life.path != ["received", "routing", "waiting_for_app"]:
            faults.append(f"{key}: was admitted by way of {life.path}")
        if life.ended is None:
            faults.append(f"{key}: never ended")
        elif life.ended["detail"]["to"] not in FINAL or life.ended["detail"]["from"] in FINAL:
            faults.append(f"{key}: ended from {life.ended['detail']['from']} to {life.ended['detail']['to']}")
    return faults


def _what_agents_were_told(seen: Evidence, lives: Mapping[Key, Life]) -> list[str]:
    """Accepted calls have one result, delivered at least once, every copy the same, and nothing else is ever read."""
    accepted = {_key(one, one["body"]["call"]) for one in seen.history if _is_state(one)}
    faults = [f"{key}: was accepted and is not in the audit log" for key in accepted - lives.keys()]
    return faults + _copies(seen) + _readings(seen, lives) + _results(seen, lives)


def _copies(seen: Evidence) -> list[str]:
    frames: dict[tuple[str, str, int], str] = {}
    faults = []
    for one in seen.history:
        if one["what"] == "delivered":
            place = (one["agent"], one["stream"], one["number"])
            if frames.setdefault(place, one["frame"]) != one["frame"]:
                faults.append(f"delivery {place}: copies differ")
    return faults


def _readings(seen: Evidence, lives: Mapping[Key, Life]) -> list[str]:
    """Once final, a call is read as that and nothing else, which is what was recorded.

    An answer may come behind a delivery that was decided after it, but not to a question that was asked after that.
    """
    faults: list[str] = []
    final: dict[Key, tuple[str, float]] = {}
    asked_at: dict[str, float] = {one["id"]: one["at"] for one in seen.history if one["what"] == "asked"}
    for one in seen.history:
        call = one["body"].get("call") if one["what"] in {"answered", "delivered"} else None
        if call is None:
            continue
        key = _key(one, call)
        if call["status"] in FINAL:
            word = final.setdefault(key, (_word(call), one["at"]))[0]
            if word != _word(call):
                faults.append(f"{key}: was final as {word} and then as {_word(call)}")
            if key in lives and lives[key].ended is not None:
                faults += _agrees(key, call, lives[key])
        elif key in final and (asked_at.get(str(one.get("id"))) or one["at"]) > final[key][1]:
            faults.append(f"{key}: was final and then {call['status']}")
    return faults


def _results(seen: Evidence, lives: Mapping[Key, Life]) -> list[str]:
    """One number for each call; none only for what was dropped because nobody read it."""
    numbers: dict[Key, set[int]] = defaultdict(set)
    for one in seen.history:
        if one["what"] == "delivered" and "call" in one["body"]:
            numbers[_key(one, one["body"]["call"])].add(one["number"])
    dropped = any(row["event"] == "delivery.dropped" for row in seen.audit)
    agents = {one["agent"] for one in seen.history if one["what"] == "attached"}
    return [
        f"{key}: {len(numbers[key])} results were delivered, ended {life.ended and life.ended['detail']}"
        for key, life in lives.items()
        if key[0] in agents and len(numbers[key]) != 1 and not (dropped and not numbers[key])
    ]


def _agrees(key: Key, call: Row, life: Life) -> list[str]:
    assert life.ended is not None
    detail = life.ended["detail"]
    payload = call.get("result") if call["status"] == "completed" else call.get("failure")
    digest = hashlib.sha256(canonical(payload) if payload is not None else b"").hexdigest()
    if (call["status"], call.get("error_code")) != (detail["to"], detail["code"]):
        return [f"{key}: the agent read {call['status']}, the audit log says {detail['to']}"]
    if digest != life.ended["digest"]:
        return [f"{key}: what the agent read is not what was recorded"]
    return []


def _refusals(seen: Evidence, lives: Mapping[Key, Life]) -> list[str]:
    """A refused call left an audit entry and nothing else."""
    faults = []
    noted: dict[tuple[str, str, str], int] = defaultdict(int)
    for row in seen.audit:
        if row["event"] in {"call.refused", "request.refused"}:
            subject = row["subject"]
            noted[subject["who"], subject.get("call_id", ""), row["detail"]["code"]] += 1
    asked = {one["id"]: one for one in seen.history if one["what"] == "asked"}
    accepted = {_key(one, one["body"]["call"]) for one in seen.history if _is_state(one)}
    spent: dict[tuple[str, str], int] = defaultdict(int)
    for one in seen.history:
        request = asked.get(one.get("id", ""))
        if one["what"] != "answered" or one["kind"] != "rejected" or request is None:
            continue
        code, agent = one["body"]["code"], one["agent"]
        if request["kind"] != "tool.invoke" or code in _NOT_DONE:
            continue
        key = (agent, request["conversation"], request["call_id"])
        spent[agent, code] += 1
        if code != "call_id_conflict" and key in lives and key not in accepted:
            faults.append(f"{key}: was refused with {code} and has a record")
        is_noted = noted[agent, request["call_id"], code] or code in {"message_invalid", "message_too_large"}
        if not is_noted and spent[agent, code] <= _PLAIN_REFUSALS:
            faults.append(f"{key}: was refused with {code} and no audit entry says so")
    return faults


# --- messages ---


def _acknowledged_messages(seen: Evidence) -> list[str]:
    """A message whose ACK was received is never given again, to no process."""
    acked: dict[tuple[str, str, str], float] = {}
    for one in seen.history:
        if one["what"] == "acked":
            place = (one["conversation"], one["scope"], one["message_id"])
            acked[place] = min(one["at"], acked.get(place, one["at"]))
    return [
        f"message {place}: was acknowledged and given again"
        for one in seen.history
        if one["what"] == "given"
        and (place := (one["conversation"], one["scope"], one["message_id"])) in acked
        and one["at"] > acked[place]
    ]


def _interrupted_work(seen: Evidence) -> list[str]:
    """Completed means that the work was done, and what must not run twice did not."""
    faults = []
    inputs = {
        (one["agent"], one["conversation"], one["call_id"]): one for one in seen.history if one["what"] == "invoked"
    }
    for one in seen.history:
        call = one["body"].get("call") if one["what"] == "delivered" else None
        if call is None or call["status"] != "completed":
            continue
        asked = inputs.get(_key(one, call))
        if asked and not seen.shown({"tool": asked["tool"], "input": asked["input"], "result": call.get("result")}):
            faults.append(f"{_key(one, call)}: is completed with a result that nobody made")
    given: dict[tuple[str, str], set[int]] = defaultdict(set)
    for one in seen.history:
        if one["what"] == "given" and one.get("tool") in seen.once:
            given[one["conversation"], one["call_id"]].add(one["pid"])
    faults += [f"{key}: must not run twice and was given to {pids}" for key, pids in given.items() if len(pids) > 1]
    return faults


# --- tables ---


def _tables(seen: Evidence, lives: Mapping[Key, Life]) -> list[str]:
    """The records are what the audit log adds up to."""
    faults = []
    rows = {(row["agent_id"], row["conversation_id"], row["call_id"]): row for row in seen.listings["calls"]}
    faults += [f"{key}: differs in audit log and records" for key in rows.keys() ^ lives.keys()]
    for key, row in rows.items():
        ended = lives[key].ended if key in lives else None
        if ended is not None and (row["status"], row["error_code"]) != (ended["detail"]["to"], ended["detail"]["code"]):
            faults.append(f"{key}: its record says {row['status']}, the audit log {ended['detail']['to']}")
        elif ended is None and row["status"] in FINAL:
            faults.append(f"{key}: its record says {row['status']}, and it never ended")
    unfinished = sum(1 for row in rows.values() if row["status"] not in FINAL)
    for status in seen.listings["status"]:
        if status["open_calls"] != unfinished:
            faults.append(f"{status['open_calls']} calls are counted as open, and {unfinished} are")
    return faults + _boxes(seen, rows) + _instances(seen)


def _boxes(seen: Evidence, calls: Mapping[Key, Row]) -> list[str]:
    faults = []
    settled = {
        (row["subject"]["agent_id"], number)
        for row in seen.audit
        if row["event"] in {"delivery.settled", "delivery.dropped"}
        for number in row["detail"].get("numbers", [row["detail"].get("number")])
    }
    faults += [
        f"delivery {row['agent_id']}/{row['number']}: was settled and is still there"
        for row in seen.listings["outbox"]
        if (row["agent_id"], row["number"]) in settled
    ]
    scopes = {
        row["subject"]["instance_id"]: row["subject"]["app_scope"]
        for row in seen.audit
        if row["event"] == "instance.changed"
    }
    acked = {
        (row["subject"]["conversation_id"], scopes.get(row["subject"]["instance_id"]), row["subject"]["message_id"])
        for row in seen.audit
        if row["event"] == "message.acknowledged"
    }
    for row in seen.listings["inbox"]:
        place = (row["conversation_id"], row["app_scope"], row["message_id"])
        if place in acked:
            faults.append(f"message {place}: was acknowledged and is still there")
        if row["call_id"] is not None:
            call = calls.get((row["agent_id"], row["conversation_id"], row["call_id"]))
            if call is None or call["status"] in FINAL:
                faults.append(f"message {place}: gives a call that has ended")
    return faults


def _instances(seen: Evidence) -> list[str]:
    faults = []
    live: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in seen.listings["ps"]:
        if row["state"] in _LIVE:
            live[row["conversation_id"], row["app_scope"]].append(row["instance_id"])
    faults += [f"{place}: has {len(ids)} live instances" for place, ids in live.items() if len(ids) > 1]
    known = {one for ids in live.values() for one in ids}
    for row in seen.listings["focus"]:
        faults += [f"focus of {row['conversation_id']}: {one} is not live" for one in row["stack"] if one not in known]
    return faults


def _key(one: Row, call: Row) -> Key:
    return one["agent"], call["conversation_id"], call["call_id"]


def _is_state(one: Row) -> bool:
    return bool(one["what"] == "answered" and one["kind"] == "tool.state")


def _word(call: Row) -> str:
    """What is final about a call."""
    kept = {name: call.get(name) for name in ("status", "error_code", "result", "failure")}
    return json.dumps(kept, sort_keys=True)
