"""The checker checked: a run without faults passes, and each way to break a promise is seen."""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from tests import checker
from tests.checker import Evidence
from tests.e2e.daemon import short_folder
from tests.faults.campaign import Round
from tests.faults.world import World

pytestmark = pytest.mark.xdist_group("checker")

Rows = list[dict[str, Any]]
Spoil = Callable[[Rows, Rows, dict[str, Rows]], None]
"""Breaks something in history, audit log or listings."""


@pytest.fixture(scope="module")
def clean() -> Iterator[Evidence]:
    with short_folder() as folder:
        world = World(folder / "s")
        try:
            world.start()
            Round(world, world.agent(), 2, random.Random(0)).play()  # noqa: S311 - load
            yield world.evidence()
        finally:
            world.close()


def test_a_run_without_faults_keeps_every_promise(clean: Evidence) -> None:
    assert checker.violations(clean) == []
    assert checker.figures(clean)["accepted"] > 8
    assert checker.figures(clean)["accepted"] == checker.figures(clean)["final"]


# --- what is broken in it ---


def _of(rows: Rows, **wanted: object) -> dict[str, Any]:
    return next(row for row in rows if all(row.get(name) == value for name, value in wanted.items()))


def _result(history: Rows) -> dict[str, Any]:
    return next(row for row in history if row["what"] == "delivered" and row["body"].get("call", {}).get("result"))


def lose_a_result(history: Rows, *_: object) -> None:
    history.remove(_result(history))


def deliver_other_bytes_the_second_time(history: Rows, *_: object) -> None:
    history.append(_result(history) | {"frame": "0" * 64})


def give_a_call_two_results(history: Rows, *_: object) -> None:
    history.append(_result(history) | {"number": 9999})


def invent_a_result(history: Rows, *_: object) -> None:
    twin = copy.deepcopy(_result(history))
    twin["body"]["call"]["result"] = {"text": "nobody said this"}
    history.append(twin)


def take_a_final_state_back(history: Rows, *_: object) -> None:
    twin = copy.deepcopy(_result(history))
    twin["body"]["call"] |= {"status": "running"}
    history.append(twin | {"what": "answered", "kind": "tool.state", "id": "x", "at": twin["at"] + 1})


def read_another_end_later(history: Rows, *_: object) -> None:
    twin = copy.deepcopy(_result(history))
    twin["body"]["call"] |= {"status": "cancelled"}
    history.append(twin | {"what": "answered", "kind": "tool.state", "id": "x"})


def accept_what_was_never_recorded(history: Rows, *_: object) -> None:
    twin = copy.deepcopy(_of(history, what="answered", kind="tool.state"))
    twin["body"]["call"] |= {"call_id": "ghost"}
    history.append(twin)


def forge_a_mark(history: Rows, *_: object) -> None:
    _result(history)["body"]["audit"] = {"audit_seq": 3, "head_hash": "0" * 64}


def hold_a_mark_beyond_the_end(history: Rows, *_: object) -> None:
    _result(history)["body"]["audit"] = {"audit_seq": 10**6, "head_hash": "0" * 64}


def give_a_message_after_its_acknowledgement(history: Rows, *_: object) -> None:
    acked = _of(history, what="acked")
    history.append(acked | {"what": "given", "at": acked["at"] + 1, "repeated": True})


def run_twice_what_must_not(history: Rows, *_: object) -> None:
    history.append(_of(history, what="given", tool="probe.once") | {"pid": 1})


def cut_the_tail(_: Rows, audit: Rows, __: object) -> None:
    del audit[-len(audit) // 2 :]


def remove_an_entry(_: Rows, audit: Rows, __: object) -> None:
    del audit[10]


def change_an_entry(_: Rows, audit: Rows, __: object) -> None:
    _of(audit, event="call.ended")["detail"]["to"] = "cancelled"


def swap_two_entries(_: Rows, audit: Rows, __: object) -> None:
    audit[10], audit[11] = audit[11], audit[10]


def _rechain(audit: Rows) -> None:
    """As somebody would who can write the whole log: only receipts and records betray it."""
    head = bytes(32)
    for seq, row in enumerate(audit, start=1):
        row["seq"] = seq
        entry = {name: row[name] for name in ("seq", "at", "event", "subject", "detail", "digest")}
        head = hashlib.sha256(head + checker.canonical(entry)).digest()
        row["head_hash"] = head.hex()


def rewrite_the_log(_: Rows, audit: Rows, __: object) -> None:
    audit[5]["at"] = "2020-01-01T00:00:00.000Z"
    _rechain(audit)


def end_a_call_twice(history: Rows, audit: Rows, _: object) -> None:
    history[:] = [row for row in history if row["what"] not in {"answered", "delivered"}]
    audit.append(copy.deepcopy(_of(audit, event="call.ended")))
    _rechain(audit)


def never_end_a_call(history: Rows, audit: Rows, _: object) -> None:
    history[:] = [row for row in history if row["what"] not in {"answered", "delivered"}]
    audit.remove(_of(audit, event="call.ended"))
    _rechain(audit)


def record_a_refused_call(history: Rows, *_: object) -> None:
    asked = _of(history, what="asked", kind="tool.invoke")
    answer = _of(history, what="answered", id=asked["id"])
    answer |= {"kind": "rejected", "body": {"code": "tool_input_invalid", "request_id": asked["id"]}}


def refuse_without_an_entry(history: Rows, audit: Rows, _: object) -> None:
    history[:] = [row for row in history if "audit" not in row.get("body", {})]
    audit.remove(_of(audit, event="call.refused"))
    _rechain(audit)


def lose_a_record(_: Rows, __: Rows, listings: dict[str, Rows]) -> None:
    listings["calls"].pop()


def record_another_end(_: Rows, __: Rows, listings: dict[str, Rows]) -> None:
    _of(listings["calls"], status="completed")["status"] = "failed"


def open_an_ended_call(_: Rows, __: Rows, listings: dict[str, Rows]) -> None:
    listings["status"][0]["open_calls"] += 1


def keep_a_settled_delivery(_: Rows, audit: Rows, listings: dict[str, Rows]) -> None:
    settled = _of(audit, event="delivery.settled")
    number = settled["detail"]["numbers"][0]
    listings["outbox"].append({"agent_id": settled["subject"]["agent_id"], "number": number})


def keep_an_acknowledged_message(_: Rows, audit: Rows, listings: dict[str, Rows]) -> None:
    subject = _of(audit, event="message.acknowledged")["subject"]
    kept = {name: subject[name] for name in ("conversation_id", "message_id")}
    listings["inbox"].append(kept | {"app_scope": "probe", "call_id": None, "agent_id": "local"})


def keep_the_message_of_an_ended_call(_: Rows, __: Rows, listings: dict[str, Rows]) -> None:
    call = listings["calls"][0]
    kept = {name: call[name] for name in ("agent_id", "conversation_id", "call_id", "app_scope")}
    listings["inbox"].append(kept | {"message_id": "m99"})


def make_two_live_instances(_: Rows, __: Rows, listings: dict[str, Rows]) -> None:
    listings["ps"].append(listings["ps"][0] | {"instance_id": "other"})


def leave_a_dead_instance_in_front(_: Rows, __: Rows, listings: dict[str, Rows]) -> None:
    listings["focus"].append({"conversation_id": "c", "stack": ["gone"]})


SPOILED: Final[tuple[Spoil, ...]] = (
    lose_a_result,
    deliver_other_bytes_the_second_time,
    give_a_call_two_results,
    invent_a_result,
    take_a_final_state_back,
    read_another_end_later,
    accept_what_was_never_recorded,
    forge_a_mark,
    hold_a_mark_beyond_the_end,
    give_a_message_after_its_acknowledgement,
    run_twice_what_must_not,
    cut_the_tail,
    remove_an_entry,
    change_an_entry,
    swap_two_entries,
    rewrite_the_log,
    end_a_call_twice,
    never_end_a_call,
    record_a_refused_call,
    refuse_without_an_entry,
    lose_a_record,
    record_another_end,
    open_an_ended_call,
    keep_a_settled_delivery,
    keep_an_acknowledged_message,
    keep_the_message_of_an_ended_call,
    make_two_live_instances,
    leave_a_dead_instance_in_front,
)


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda one: one.__name__)
def test_a_broken_promise_is_seen(clean: Evidence, spoil: Spoil) -> None:
    history, audit, listings = copy.deepcopy((list(clean.history), list(clean.audit), dict(clean.listings)))
    spoil(history, audit, listings)  # type: ignore[arg-type]  # rows of a copy may be written

    assert checker.violations(replace(clean, history=history, audit=audit, listings=listings))
