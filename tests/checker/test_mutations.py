"""Each way to break a promise, planted in a copy of a real run, is found under the name of its rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import pytest

from runtime_actors.checker import RULES, violations
from tests.checker.evidence import Rows, Spoilt, evidence, of, spoilt
from tests.checker.test_people import SPOILED as PEOPLES

Spoil = Callable[[Spoilt], object]


def _ids(row: dict[str, Any]) -> dict[str, str]:
    return {name: row["subject"][name] for name in ("agent_id", "conversation_id", "call_id")}


def _twin(rows: Rows, row: dict[str, Any], **changes: object) -> dict[str, Any]:
    """A copy of a row behind all others, a second later where it has a time of its own."""
    twin: dict[str, Any] = copy.deepcopy(row) | changes
    if isinstance(twin.get("at"), float) and "at" not in changes:
        twin["at"] += 1.0
    rows.append(twin)
    return twin


# --- the chain ---


def change_one_byte_of_an_entry(run: Spoilt) -> None:
    ended = run.entry("call.ended")
    ended["digest"] = ended["digest"][:-1] + ("0" if ended["digest"][-1] != "0" else "1")


def remove_an_entry(run: Spoilt) -> None:
    del run.audit[10]


def repeat_an_entry(run: Spoilt) -> None:
    run.audit.insert(11, run.audit[10])


def swap_two_entries(run: Spoilt) -> None:
    run.audit[10], run.audit[11] = run.audit[11], run.audit[10]


def cut_the_tail(run: Spoilt) -> None:
    del run.audit[-len(run.audit) // 2 :]


def cut_the_last_entry(run: Spoilt) -> None:
    run.audit.pop()


def rewrite_the_log(run: Spoilt) -> None:
    run.audit[5]["at"] = "2020-01-01T00:00:00.000Z"
    run.rechain()


def forge_a_mark(run: Spoilt) -> None:
    run.result()["body"]["audit"] = {"audit_seq": 3, "head_hash": "0" * 64}


def hold_a_mark_beyond_the_end(run: Spoilt) -> None:
    run.result()["body"]["audit"] = {"audit_seq": 10**6, "head_hash": "0" * 64}


# --- a log that was written as a whole, chain and all ---


def end_a_call_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(run.entry("call.ended")))
    run.rechain()


def admit_a_call_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(run.entry("call.admitted")))
    run.rechain()


def end_a_call_before_it_was_admitted(run: Spoilt) -> None:
    ended = run.entry("call.ended")
    run.audit.remove(ended)
    run.audit.insert(run.audit.index(run.entry("call.admitted", **_ids(ended))), ended)
    run.rechain()


def never_end_a_call(run: Spoilt) -> None:
    run.audit.remove(run.entry("call.ended"))
    run.rechain()


def end_a_call_as_it_cannot(run: Spoilt) -> None:
    run.entry("call.ended")["detail"] |= {"to": "completed", "code": "app.nope"}
    run.rechain()


def lose_the_crash_count(run: Spoilt) -> None:
    run.entry("call.interrupted")["detail"]["crashes"] = 2
    run.rechain()


def run_again_what_must_not_run_twice(run: Spoilt) -> None:
    once = next(_ids(row) for row in run.audit if row["detail"].get("tool_id") == "probe.once")
    again = run.entry("call.running", **once)
    at = run.audit.index(again)
    run.audit.insert(at + 1, again | {"event": "call.redelivered"})
    run.rechain()


def acknowledge_a_message_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(run.entry("message.acknowledged")))
    run.rechain()


def settle_a_delivery_twice(run: Spoilt) -> None:
    run.audit.append(copy.deepcopy(run.entry("delivery.settled")))
    run.rechain()


def start_a_second_process(run: Spoilt) -> None:
    started = run.entry("attempt.started")
    at = run.audit.index(started)
    run.audit.insert(at + 1, started | {"subject": started["subject"] | {"attempt_id": "att-x"}})
    run.rechain()


def interrupt_fewer_calls_than_ran(run: Spoilt) -> None:
    of(run.audit[::-1], event="runtime.recovered")["detail"]["interrupted"] += 1
    run.rechain()


def open_a_conversation_for_two(run: Spoilt) -> None:
    opened = run.entry("conversation.opened", agent_id="local")
    run.audit.insert(run.audit.index(opened) + 1, opened | {"subject": opened["subject"] | {"agent_id": "other"}})
    run.rechain()


# --- what clients did ---


def lose_an_accepted_call(run: Spoilt) -> None:
    gone = _ids(run.entry("call.admitted"))
    run.audit[:] = [row for row in run.audit if not gone.items() <= row["subject"].items()]
    run.rechain()


def accept_what_was_never_recorded(run: Spoilt) -> None:
    asked, answer = run.answer("tool.invoke", repeated=False)
    ghost = _twin(run.history, asked, id="ghost")
    ghost["body"]["call_id"] = "ghost"
    _twin(run.history, answer, id="ghost")["body"]["call"]["call_id"] = "ghost"


def lose_an_accepted_text(run: Spoilt) -> None:
    run.audit.remove(run.entry("message.received"))
    run.rechain()


def record_a_refused_call(run: Spoilt) -> None:
    _, answer = run.answer("tool.invoke", repeated=False)
    answer |= {"what": "fail", "code": "tool_input_invalid", "body": {"code": "tool_input_invalid"}}


def record_a_call_that_nobody_made(run: Spoilt) -> None:
    asked, _ = run.answer("tool.invoke", repeated=False)
    run.history[:] = [row for row in run.history if row.get("id") != asked["id"]]


def record_another_input_than_was_asked(run: Spoilt) -> None:
    asked, _ = run.answer("tool.invoke", repeated=False)
    asked["body"]["input"]["text"] += "!"


def record_a_call_before_its_invoke(run: Spoilt) -> None:
    asked, answer = run.answer("tool.invoke", repeated=False)
    asked["at"] = run.history[-1]["at"]
    answer["at"] = asked["at"] + 0.001


def swap_two_calls_that_did_not_overlap(run: Spoilt) -> None:
    first, last = (of(rows, event="call.admitted") for rows in (run.audit, run.audit[::-1]))
    at, behind = run.audit.index(first), run.audit.index(last)
    run.audit[at], run.audit[behind] = last, first
    run.rechain()


def answer_with_another_place(run: Spoilt) -> None:
    _, answer = run.answer("tool.invoke", repeated=False)
    entry = run.audit[answer["body"]["audit"]["audit_seq"]]
    answer["body"]["audit"] = {"audit_seq": entry["seq"], "head_hash": entry["head_hash"]}


def answer_with_another_status(run: Spoilt) -> None:
    _, answer = run.answer("tool.invoke", repeated=False)
    answer["body"]["call"]["status"] = "running"


def refuse_without_an_entry(run: Spoilt) -> None:
    _, answer = run.answer("tool.invoke", "fail")
    run.audit[:] = [row for row in run.audit if row["subject"].get("call_id") != answer["body"]["call_id"]]
    run.rechain()


def refuse_a_word_and_take_it(run: Spoilt) -> None:
    _, answer = run.answer("tools.complete")
    answer |= {"what": "fail", "code": "call_already_final"}


def take_a_word_and_record_another(run: Spoilt) -> None:
    asked, _ = run.answer("tools.complete")
    asked["body"]["result"]["text"] = "something else"


# --- deliveries ---


def drop_a_result(run: Spoilt) -> None:
    body = run.result()["body"]
    run.history[:] = [row for row in run.history if row.get("body", {}).get("number") != body["number"]]


def change_one_byte_of_a_result(run: Spoilt) -> None:
    result = run.result()["body"]["call"]["result"]
    result["text"] = f"{result['text'][:-1]}~"


def invent_a_result(run: Spoilt) -> None:
    _twin(run.history, run.result())["body"]["call"]["call_id"] = "ghost"


def deliver_other_bytes_the_second_time(run: Spoilt) -> None:
    _twin(run.history, run.result(), frame="0" * 64)


def give_a_call_two_results(run: Spoilt) -> None:
    _twin(run.history, run.result(), number=9999)


def deliver_to_another_agent(run: Spoilt) -> None:
    other = of(run.history, what="attached", agent="other")
    result = of(run.history, what="delivered", kind="tool.result", agent="local")
    _twin(run.history, result, agent="other", by=other["by"], number=9999)


def deliver_out_of_order(run: Spoilt) -> None:
    first = run.result()
    later = next(
        row
        for row in run.history
        if row["what"] == "delivered"
        and (row["by"], row["conversation"]) == (first["by"], first["conversation"])
        and row["number"] > first["number"]
    )
    copies = [row for row in run.history if row["what"] == "delivered" and row["number"] == first["number"]]
    for one in copies:
        one["at"] += later["at"]


def settle_what_was_not_acknowledged(run: Spoilt) -> None:
    number = run.entry("delivery.settled", agent_id="local")["detail"]["numbers"][0]
    for row in run.history:
        if row["what"] == "settled" and row["agent"] == "local":
            row["numbers"] = [one for one in row["numbers"] if one != number]


def complete_what_nobody_made(run: Spoilt) -> None:
    key = run.result()["body"]["call"]["call_id"]
    for row in run.history:
        if row["what"] == "invoke" and row["kind"] == "tool.invoke" and row["body"]["call_id"] == key:
            row["body"]["input"]["text"] = "another"


# --- messages ---


def give_a_message_after_its_acknowledgement(run: Spoilt) -> None:
    asked, answer = run.answer("inbox.acknowledge")
    given = next(
        row
        for row in run.history
        if row["what"] == "given" and (row["by"], row["message_id"]) == (asked["by"], asked["body"]["message_id"])
    )
    _twin(run.history, given, at=answer["at"] + 0.5, repeated=True)


def give_what_was_never_sent(run: Spoilt) -> None:
    _twin(run.history, run.line("given"), message_id="m999")


def give_the_message_of_another_call(run: Spoilt) -> None:
    run.line("given")["call_id"] = "other"


def give_to_another_conversation(run: Spoilt) -> None:
    given = run.line("given")
    given["conversation"] = next(
        row["conversation"]
        for row in run.history
        if row["what"] == "given" and row["conversation"] != given["conversation"]
    )


def swap_the_order_of_an_inbox(run: Spoilt) -> None:
    place = ("by", "scope", "conversation", "tool")
    given = [row for row in run.history if row["what"] == "given" and not row["repeated"]]
    first, second = next(
        (one, two)
        for one in given
        for two in given
        if one["at"] < two["at"] and all(one.get(n) == two.get(n) for n in place)
    )
    first["at"], second["at"] = second["at"], first["at"]


def give_to_two_processes_what_must_not_run_twice(run: Spoilt) -> None:
    _twin(run.history, run.line("given", tool="probe.once"), by="probe-0")


# --- reads ---


def read_what_was_no_longer(run: Spoilt) -> None:
    asked, answer = run.answer("tool.invoke", repeated=False)
    late = run.history[-1]["at"] + 1
    run.history[:] = [
        row
        for row in run.history
        if row.get("body", {}).get("call", {}).get("call_id") != asked["body"]["call_id"] or row is answer
    ]
    _twin(run.history, asked, id="late", kind="tool.get", at=late)
    body = {name: value for name, value in answer["body"].items() if name != "audit"}
    _twin(run.history, answer, id="late", at=late + 1, body=body)


def find_no_call_that_was_known(run: Spoilt) -> None:
    asked, answer = run.answer("tool.get")
    answer |= {"what": "fail", "code": "call_not_found", "body": {"code": "call_not_found"}}
    assert asked["kind"] == "tool.get"


def take_a_final_state_back(run: Spoilt) -> None:
    result = run.result()
    late = {"at": run.history[-1]["at"] + 1, "by": result["by"], "agent": result["agent"], "id": "late"}
    call = result["body"]["call"] | {"status": "running"}
    body = {"call_id": call["call_id"]}
    run.history.append(
        late | {"what": "invoke", "kind": "tool.get", "conversation": result["conversation"], "body": body}
    )
    run.history.append(late | {"what": "ok", "body": {"call": call}})


def read_another_end_later(run: Spoilt) -> None:
    twin = _twin(run.history, run.result())
    twin["body"]["call"] |= {"status": "cancelled"}


def tell_the_app_another_end(run: Spoilt) -> None:
    change = next(row for row in run.history if row["what"] == "changed" and row["status"] != "running")
    change["status"] = "completed"


# --- tables ---


def lose_a_record(run: Spoilt) -> None:
    run.listings["calls"].pop()


def keep_a_record_that_nobody_made(run: Spoilt) -> None:
    run.listings["calls"].append(run.listings["calls"][0] | {"call_id": "extra"})


def record_another_end(run: Spoilt) -> None:
    of(run.listings["calls"], status="completed")["status"] = "failed"


def forget_a_crash(run: Spoilt) -> None:
    next(row for row in run.listings["calls"] if row["crashes"])["crashes"] = 0


def keep_an_acknowledged_message(run: Spoilt) -> None:
    message = run.entry("message.received")
    place = {name: message["subject"][name] for name in ("conversation_id", "app_scope", "agent_id")}
    kept = {"message_id": "m1", "number": 1, "kind": "message", "call_id": None, "created_at": message["at"]}
    run.listings["inbox"].append(place | kept)


def lose_a_message(run: Spoilt) -> None:
    acknowledged = next(
        row for row in run.audit if row["event"] == "message.acknowledged" and "call_id" not in row["subject"]
    )
    run.audit.remove(acknowledged)
    run.rechain()


def keep_a_settled_delivery(run: Spoilt) -> None:
    settled = run.entry("delivery.settled")
    number = settled["detail"]["numbers"][0]
    run.listings["outbox"].append({"agent_id": settled["subject"]["agent_id"], "number": number})


def forget_to_settle(run: Spoilt) -> None:
    run.audit.remove(run.entry("delivery.settled"))
    run.rechain()


def make_two_live_instances(run: Spoilt) -> None:
    run.listings["ps"].append(run.listings["ps"][0] | {"instance_id": "other"})


def show_a_process_that_has_ended(run: Spoilt) -> None:
    run.listings["ps"][0]["attempt_id"] = run.entry("attempt.ended")["subject"]["attempt_id"]


def leave_a_dead_instance_in_front(run: Spoilt) -> None:
    run.listings["focus"].append({"conversation_id": "c", "stack": ["gone"]})


def open_an_ended_call(run: Spoilt) -> None:
    run.listings["status"][0]["open_calls"] += 1


# --- liveness ---


def wait_in_vain(run: Spoilt) -> None:
    _, answer = run.answer("drain")
    answer["what"] = "info"


SPOILED: Final[dict[Spoil, str]] = {
    change_one_byte_of_an_entry: "chain-broken",
    remove_an_entry: "chain-broken",
    repeat_an_entry: "chain-broken",
    swap_two_entries: "chain-broken",
    cut_the_tail: "mark-off-chain",
    cut_the_last_entry: "mark-off-chain",
    rewrite_the_log: "mark-off-chain",
    forge_a_mark: "mark-off-chain",
    hold_a_mark_beyond_the_end: "mark-off-chain",
    end_a_call_twice: "second-end",
    admit_a_call_twice: "second-record",
    end_a_call_before_it_was_admitted: "illegal-step",
    never_end_a_call: "never-ended",
    end_a_call_as_it_cannot: "illegal-step",
    lose_the_crash_count: "illegal-step",
    run_again_what_must_not_run_twice: "ran-twice",
    acknowledge_a_message_twice: "illegal-step",
    settle_a_delivery_twice: "illegal-step",
    start_a_second_process: "illegal-step",
    interrupt_fewer_calls_than_ran: "illegal-step",
    open_a_conversation_for_two: "illegal-step",
    lose_an_accepted_call: "ok-missing",
    accept_what_was_never_recorded: "ok-missing",
    lose_an_accepted_text: "ok-missing",
    record_a_refused_call: "fail-present",
    record_a_call_that_nobody_made: "from-nowhere",
    record_another_input_than_was_asked: "from-nowhere",
    record_a_call_before_its_invoke: "time-order",
    swap_two_calls_that_did_not_overlap: "time-order",
    answer_with_another_place: "answer-disagrees",
    answer_with_another_status: "answer-disagrees",
    refuse_without_an_entry: "refusal-unnoted",
    refuse_a_word_and_take_it: "fail-present",
    take_a_word_and_record_another: "end-disagrees",
    drop_a_result: "result-lost",
    change_one_byte_of_a_result: "end-disagrees",
    invent_a_result: "delivery-unexpected",
    deliver_other_bytes_the_second_time: "copies-differ",
    give_a_call_two_results: "result-twice",
    deliver_to_another_agent: "delivery-unexpected",
    deliver_out_of_order: "delivery-order",
    settle_what_was_not_acknowledged: "settle-unexpected",
    complete_what_nobody_made: "result-unmade",
    give_a_message_after_its_acknowledgement: "message-after-ack",
    give_what_was_never_sent: "message-unexpected",
    give_the_message_of_another_call: "message-unexpected",
    give_to_another_conversation: "message-unexpected",
    swap_the_order_of_an_inbox: "message-order",
    give_to_two_processes_what_must_not_run_twice: "ran-twice",
    read_what_was_no_longer: "stale-read",
    find_no_call_that_was_known: "stale-read",
    take_a_final_state_back: "final-changed",
    read_another_end_later: "final-changed",
    tell_the_app_another_end: "end-disagrees",
    lose_a_record: "calls-differ",
    keep_a_record_that_nobody_made: "calls-differ",
    record_another_end: "calls-differ",
    forget_a_crash: "calls-differ",
    keep_an_acknowledged_message: "inbox-differs",
    lose_a_message: "inbox-differs",
    keep_a_settled_delivery: "outbox-differs",
    forget_to_settle: "outbox-differs",
    make_two_live_instances: "instances-differ",
    show_a_process_that_has_ended: "instances-differ",
    leave_a_dead_instance_in_front: "focus-differs",
    open_an_ended_call: "counts-differ",
    wait_in_vain: "not-drained",
}


@pytest.mark.parametrize(("spoil", "rule"), SPOILED.items(), ids=[one.__name__ for one in SPOILED])
def test_a_broken_promise_is_found_under_its_rule_with_the_lines_that_show_it(spoil: Spoil, rule: str) -> None:
    run = spoilt()
    spoil(run)

    found = [one for one in violations(evidence(run)) if one.rule == rule]

    assert found
    assert all(one.shortest for one in found if rule != "outbox-differs")
    assert all(len(one.shortest) <= 6 for one in found)


def test_every_rule_has_been_broken() -> None:
    assert {*SPOILED.values(), *PEOPLES.values()} == RULES.keys()
