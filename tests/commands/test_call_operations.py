"""What each operation answers to a call in each status, and the status it leaves: every cell, spelled out."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import pytest

from runtime_actors.commands import apps, calls, instances, recovery
from runtime_actors.contract import codec
from runtime_actors.contract.rejection import Rejection
from runtime_actors.contract.tools import CallStatus
from runtime_actors.errors import IllegalTransition
from runtime_actors.records import instances as instance_rows
from tests.fakes import (
    a_cancellation,
    a_failure,
    a_key,
    a_result,
    acknowledged,
    admitted,
    an_invoke,
    attached,
    by,
    process_ended,
    some_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes import Records

STATUSES: Final = (
    "received", "routing", "waiting_for_app", "running", "submitted", "completed", "failed", "cancelled", "expired", "rejected",
)  # fmt: skip

# What an operation answers: "ok", the code of a refusal, or "bug" where the runtime's own event cannot happen. Behind ">" stands
# the status that the call has afterwards, where it is another one. `received`, `routing` and `submitted` are passed within one
# transaction and never seen between commands today; `rejected` waits for permissions that ask. They are planted.
ENDED: Final = ("call_already_final",) * 5
FINAL_STAYS: Final = ("ok",) * 5
NOT_READY: Final = "call_not_ready"
CELLS: Final[dict[str, tuple[str, ...]]] = {
    # operation            received         routing          waiting_for_app   running           submitted   final statuses
    "invoke again":       ("ok",            "ok",            "ok",             "ok",             "ok",      *FINAL_STAYS),
    "invoke other body":  ("call_id_conflict",) * 10,
    "get":                ("ok",) * 10,
    "cancel":             ("ok",            "ok",            "ok",             "ok",             NOT_READY, *ENDED),
    "progress":           (NOT_READY,       NOT_READY,       "ok>running",     "ok",             NOT_READY, *ENDED),
    "complete":           (NOT_READY,       NOT_READY,       "ok>completed",   "ok>completed",   NOT_READY, "ok", *ENDED[1:]),
    "complete otherwise": (NOT_READY,       NOT_READY,       "ok>completed",   "ok>completed",   NOT_READY, *ENDED),
    "complete invalidly": (NOT_READY,       NOT_READY,  "tool_output_invalid>running", "tool_output_invalid", NOT_READY, *ENDED),
    "fail":               ("ok>failed",     "ok>failed",     "ok>failed",      "ok>failed",      NOT_READY, ENDED[0], "ok", *ENDED[2:]),
    "fail otherwise":     ("ok>failed",     "ok>failed",     "ok>failed",      "ok>failed",      NOT_READY, *ENDED),
    "app cancels":        ("ok>cancelled",  "ok>cancelled",  "ok>cancelled",   "ok>cancelled",   NOT_READY, *ENDED[:2], "ok", *ENDED[3:]),
    "acknowledge":        ("ok",            "ok",            "ok>running",     "ok",             "ok",      *FINAL_STAYS),
    "deadline passes":    ("ok>expired",    "ok>expired",    "ok>expired",     "ok>expired",     "bug",     *FINAL_STAYS),
    "grace passes":       ("ok>cancelled",  "ok>cancelled",  "ok>cancelled",   "ok>cancelled",   "bug",     *FINAL_STAYS),
    "process dies":       ("bug",           "bug",           "ok",             "ok>waiting_for_app", "bug", *FINAL_STAYS),
    "recover":            ("bug",           "bug",           "ok",             "ok>waiting_for_app", "bug", *FINAL_STAYS),
    "give up":            ("ok>failed",     "ok>failed",     "ok>failed",      "ok>failed",      "ok",      *FINAL_STAYS),
    "switch tool off":    ("ok>failed",     "ok>failed",     "ok>failed",      "ok>failed",      "bug",     *FINAL_STAYS),
    "close instance":     ("ok>failed",     "ok>failed",     "ok>failed",      "ok>failed",      "bug",     *FINAL_STAYS),
}  # fmt: skip


def a_call_in(status: str) -> Records:
    """A store with one call of a direct tool, given to an instance whose process is ready."""
    records = some_records()
    call = admitted(records)
    attached(records, call.instance_id)
    if status in {"received", "routing", "submitted"}:
        records.sql.execute("update calls set status = ?", (status,))
    elif status == "rejected":
        records.sql.execute("update calls set status = 'rejected', due_boot_s = null")
        records.sql.execute("delete from inbox")
    elif status == "running":
        acknowledged(records, call)
    elif status == "completed":
        records.run(calls.finish, a_result(by(call, "q0")))
    elif status == "failed":
        records.run(calls.finish, a_failure(by(call, "q0")))
    elif status == "cancelled":
        records.run(calls.finish, a_cancellation(by(call, "q0")))
    elif status == "expired":
        records.clock.move(60)
        records.run(calls.expire_due, None)
    assert records.call().status == status
    return records


def let_grace_pass(records: Records) -> object:
    records.sql.execute("update calls set cancel_requested = 1, due_boot_s = 1001 where due_boot_s is not null")
    records.clock.move(5)
    return records.run(calls.expire_due, None)


def let_deadline_pass(records: Records) -> object:
    records.clock.move(60)
    return records.run(calls.expire_due, None)


def acknowledge(records: Records) -> object:
    return records.run(calls.acknowledge, calls.Acknowledge("ins-1", "att-1", 1))


def close_instance(records: Records) -> object:
    return records.run(apps.switch, apps.SwitchTo("app", "notes", enabled=False))


def complete_invalidly(records: Records) -> object:
    return records.run(calls.finish, a_result(by(records.call()), ok="perhaps"))


OPERATIONS: Final[dict[str, Callable[[Records], object]]] = {
    "invoke again": lambda records: records.run(calls.admit, an_invoke()),
    "invoke other body": lambda records: records.run(calls.admit, an_invoke(given={"text": "other"})),
    "get": lambda records: records.run(calls.read_call, a_key()),
    "cancel": lambda records: records.run(calls.request_cancel, calls.CancelWish(a_key(), None)),
    "progress": lambda records: records.run(
        calls.report_progress, calls.ProgressReport(by(records.call()), codec.encode({"percent": 50}))
    ),
    "complete": lambda records: records.run(calls.finish, a_result(by(records.call()))),
    "complete otherwise": lambda records: records.run(calls.finish, a_result(by(records.call()), ok=False)),
    "complete invalidly": complete_invalidly,
    "fail": lambda records: records.run(calls.finish, a_failure(by(records.call()))),
    "fail otherwise": lambda records: records.run(calls.finish, a_failure(by(records.call()), "app.other")),
    "app cancels": lambda records: records.run(calls.finish, a_cancellation(by(records.call()))),
    "acknowledge": acknowledge,
    "deadline passes": let_deadline_pass,
    "grace passes": let_grace_pass,
    "process dies": lambda records: process_ended(records, "att-1", delivered=("c1",)),
    "recover": lambda records: records.run(recovery.recover_call, a_key()),
    "give up": lambda records: records.run(calls.give_up_call, a_key()),
    "switch tool off": lambda records: records.run(apps.switch, apps.SwitchTo("tool", "notes.write", enabled=False)),
    "close instance": close_instance,
}


def test_there_is_a_cell_for_each_operation_in_each_status() -> None:
    assert {str(status) for status in CallStatus} == set(STATUSES)
    assert set(CELLS) == set(OPERATIONS)
    assert all(len(row) == len(STATUSES) for row in CELLS.values())


@pytest.mark.parametrize(("operation", "status"), list(product(CELLS, STATUSES)))
def test_an_operation_on_a_call_in_a_status_answers_as_its_cell_says(operation: str, status: str) -> None:
    answer, _, after = CELLS[operation][STATUSES.index(status)].partition(">")
    records = a_call_in(status)
    before = records.everything()

    if answer == "bug":
        with pytest.raises(IllegalTransition):
            OPERATIONS[operation](records)
        assert records.call().status == status
        return
    outcome = OPERATIONS[operation](records)

    assert (str(outcome.code) if isinstance(outcome, Rejection) else "ok") == answer
    assert records.call().status == (after or status)
    assert (records.call().due_boot_s is None) == (records.call().status in STATUSES[5:])
    if answer not in {"ok", "tool_output_invalid"}:
        assert records.everything() == before


@pytest.mark.parametrize(("operation", "status"), list(product(CELLS, STATUSES[5:])))
def test_no_operation_changes_anything_about_a_call_that_has_ended(operation: str, status: str) -> None:
    records = a_call_in(status)
    call, outbox = records.call(), records.outbox()

    OPERATIONS[operation](records)

    assert (records.call(), records.outbox()) == (call, outbox)


def test_an_instance_that_is_gone_may_still_repeat_its_last_word() -> None:
    records = some_records()
    call = admitted(records, "board.open")
    attached(records, call.instance_id)
    records.run(calls.finish, a_result(by(call)))
    assert instance_rows.live(records.transaction(), "talk", "board") is None

    again = records.run(calls.finish, a_result(by(call)))

    assert again == calls.Reported(CallStatus.COMPLETED)


def test_a_new_attempt_gets_no_second_message_for_a_call_that_has_one() -> None:
    records = a_call_in("waiting_for_app")
    process_ended(records, "att-1")
    outcome = records.run(instances.begin_attempt, "ins-1")
    assert isinstance(outcome, instances.AttemptBegun)

    records.run(instances.attach, instances.Attached(outcome.attempt_id, "process", b""))

    assert [row.number for row in records.inbox()] == [1]
