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
    running,
    some_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fakes import Records

# One line an operation, one column a status. What is answered: ok, or a refusal (con call_id_conflict, nrd
# call_not_ready, fin call_already_final, inv tool_output_invalid), or bug where the runtime's own event cannot happen.
# Behind ">" stands the status that the call has afterwards, if another one. `routing` and `submitted` are passed within
# one transaction and not seen between commands, `received` and `rejected` belong to permissions: they are planted.
CELLS: Final = """
                    received routing waiting_for_app running submitted completed failed cancelled expired rejected
invoke_again        ok       ok      ok              ok      ok        ok        ok     ok        ok      ok
invoke_other_body   con      con     con             con     con       con       con    con       con     con
get                 ok       ok      ok              ok      ok        ok        ok     ok        ok      ok
cancel              ok>can   ok      ok              ok      nrd       fin       fin    fin       fin     fin
progress            nrd      nrd     ok>run          ok      nrd       fin       fin    fin       fin     fin
complete            nrd      nrd     ok>com          ok>com  nrd       ok        fin    fin       fin     fin
complete_otherwise  nrd      nrd     ok>com          ok>com  nrd       fin       fin    fin       fin     fin
complete_invalidly  nrd      nrd     inv>run         inv     nrd       fin       fin    fin       fin     fin
fail                ok>fai   ok>fai  ok>fai          ok>fai  nrd       fin       ok     fin       fin     fin
fail_otherwise      ok>fai   ok>fai  ok>fai          ok>fai  nrd       fin       fin    fin       fin     fin
app_cancels         ok>can   ok>can  ok>can          ok>can  nrd       fin       fin    ok        fin     fin
acknowledge         ok       ok      ok>run          ok      ok        ok        ok     ok        ok      ok
deadline_passes     ok>exp   ok>exp  ok>exp          ok>exp  bug       ok        ok     ok        ok      ok
grace_passes        ok>can   ok>can  ok>can          ok>can  bug       ok        ok     ok        ok      ok
process_dies        bug      bug     ok              ok>wai  bug       ok        ok     ok        ok      ok
recover             bug      bug     ok              ok>wai  bug       ok        ok     ok        ok      ok
give_up             ok>fai   ok>fai  ok>fai          ok>fai  ok        ok        ok     ok        ok      ok
switch_tool_off     ok>fai   ok>fai  ok>fai          ok>fai  bug       ok        ok     ok        ok      ok
close_instance      ok>fai   ok>fai  ok>fai          ok>fai  bug       ok        ok     ok        ok      ok
"""
STATUSES: Final = tuple(CELLS.strip().partition("\n")[0].split())
ROWS: Final = {line.split()[0]: line.split()[1:] for line in CELLS.strip().splitlines()[1:]}
NAMES: Final = {
    "con": "call_id_conflict",
    "nrd": "call_not_ready",
    "fin": "call_already_final",
    "inv": "tool_output_invalid",
} | {status[:3]: status for status in STATUSES}
ENDED: Final = STATUSES[5:]


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
    "invoke_again": lambda records: records.run(calls.admit, an_invoke()),
    "invoke_other_body": lambda records: records.run(calls.admit, an_invoke(given={"text": "other"})),
    "get": lambda records: records.run(calls.read_call, a_key()),
    "cancel": lambda records: records.run(calls.request_cancel, calls.CancelWish(a_key(), None)),
    "progress": lambda records: records.run(
        calls.report_progress, calls.ProgressReport(by(records.call()), codec.encode({"percent": 50}))
    ),
    "complete": lambda records: records.run(calls.finish, a_result(by(records.call()))),
    "complete_otherwise": lambda records: records.run(calls.finish, a_result(by(records.call()), ok=False)),
    "complete_invalidly": complete_invalidly,
    "fail": lambda records: records.run(calls.finish, a_failure(by(records.call()))),
    "fail_otherwise": lambda records: records.run(calls.finish, a_failure(by(records.call()), "app.other")),
    "app_cancels": lambda records: records.run(calls.finish, a_cancellation(by(records.call()))),
    "acknowledge": acknowledge,
    "deadline_passes": let_deadline_pass,
    "grace_passes": let_grace_pass,
    "process_dies": lambda records: process_ended(records, "att-1", delivered=("c1",)),
    "recover": lambda records: records.run(recovery.recover_call, a_key()),
    "give_up": lambda records: records.run(calls.give_up_call, a_key()),
    "switch_tool_off": lambda records: records.run(apps.switch, apps.SwitchTo("tool", "notes.write", enabled=False)),
    "close_instance": close_instance,
}


def test_there_is_a_cell_for_each_operation_in_each_status() -> None:
    assert {str(status) for status in CallStatus} == set(STATUSES)
    assert set(ROWS) == set(OPERATIONS)
    assert all(len(row) == len(STATUSES) for row in ROWS.values())


@pytest.mark.parametrize(("operation", "status"), list(product(ROWS, STATUSES)))
def test_an_operation_on_a_call_in_a_status_answers_as_its_cell_says(operation: str, status: str) -> None:
    answer, _, after = ROWS[operation][STATUSES.index(status)].partition(">")
    records = a_call_in(status)
    before = records.everything()

    if answer == "bug":
        with pytest.raises(IllegalTransition):
            OPERATIONS[operation](records)
        assert records.call().status == status
        return
    outcome = OPERATIONS[operation](records)

    assert (str(outcome.code) if isinstance(outcome, Rejection) else "ok") == NAMES.get(answer, answer)
    assert records.call().status == (NAMES[after] if after else status)
    assert (records.call().due_boot_s is None) == (records.call().status in ENDED)
    if answer not in {"ok", "inv"}:
        assert records.everything() == before


@pytest.mark.parametrize(("operation", "status"), list(product(ROWS, ENDED)))
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


def test_a_wish_whose_answer_was_lost_may_be_repeated_after_the_call_has_ended(records: Records) -> None:
    call = running(records)
    records.run(calls.request_cancel, calls.CancelWish(a_key(), None))
    records.run(calls.finish, a_cancellation(by(call)))
    before = records.everything()

    answer = records.run(calls.request_cancel, calls.CancelWish(a_key(), None))

    assert isinstance(answer, calls.CallAnswer)
    assert (answer.call.status, answer.repeated) == ("cancelled", True)
    assert records.everything() == before
