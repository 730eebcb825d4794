"""What MiniApps can do that is wrong: a stable code, an audit entry, nothing else changes, and the daemon serves on."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.e2e.daemon import short_folder, wait_until
from tests.e2e.made_apps import SERVES, write_app
from tests.e2e.stage import Stage

pytestmark = [pytest.mark.xdist_group("bad-apps"), pytest.mark.timeout(240)]

START_FAILS = {
    "raises": "raise RuntimeError('not today')\n",
    "lacks-main": "main = 1\n",
    "leaves": "import sys\nsys.exit(0)\n",
}
CRASHES = {
    "quits": "import os\nos._exit(0)\n" + SERVES,
    "returns": "async def main(sdk):\n    return\n",
    "throws": "async def main(sdk):\n    raise RuntimeError('not today')\n",
}
HANGS = "import time\ntime.sleep(600)\n" + SERVES


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with short_folder() as folder:
        codes = START_FAILS | CRASHES | {"hangs": HANGS}
        apps = [write_app(folder / "apps" / scope, scope, code) for scope, code in codes.items()]
        with Stage(folder / "s", *apps, options=("--ping=0.3",)) as made:
            yield made


def ended(stage: Stage, key: tuple[str, str], within_s: float = 60) -> tuple[str, str | None]:
    """Wait for the end of a call: status and code, which the audit log has as well."""
    call = stage.agent.final(key, within_s)
    [entry] = [row for row in stage.daemon.audit("call.ended") if row["subject"]["call_id"] == key[1]]
    assert (entry["detail"]["to"], entry["detail"]["code"]) == (call["status"], call.get("error_code"))
    return call["status"], call.get("error_code")


def instance_of(stage: Stage, key: tuple[str, str]) -> str:
    return str(stage.agent.accepted(key)["call"]["instance_id"])


# --- at the start ---


@pytest.mark.parametrize("scope", START_FAILS)
def test_an_app_that_cannot_be_imported_is_not_tried_again(stage: Stage, scope: str) -> None:
    key = stage.agent.invoke(f"{scope}.go", "start", conversation=scope)

    assert ended(stage, key) == ("failed", "app_start_failed")
    assert stage.ends(instance_of(stage, key)) == ["import_failed"]
    stage.serves()


@pytest.mark.parametrize("scope", CRASHES)
def test_an_app_that_ends_at_once_is_given_up(stage: Stage, scope: str) -> None:
    key = stage.agent.invoke(f"{scope}.go", "start", conversation=scope)

    assert ended(stage, key) == ("failed", "app_crashed")
    assert 3 <= len(stage.ends(instance_of(stage, key))) <= 6
    stage.serves()


def test_an_app_that_hangs_at_its_start_is_ended(stage: Stage) -> None:
    key = stage.agent.invoke("hangs.go", "start", conversation="hangs")
    stage.serves()

    assert ended(stage, key) == ("failed", "app_start_failed")
    assert stage.ends(instance_of(stage, key)) == ["start_timeout"]
    stage.serves()


# --- words that are refused ---


def test_the_same_final_word_again_is_accepted_and_every_other_is_refused(stage: Stage) -> None:
    key = stage.agent.invoke("hostile.twice", "go", conversation="twice")

    assert ended(stage, key) == ("completed", None)
    said = answered(stage, key, 5)
    assert said == [
        ("completed first", True, None),
        ("completed first", True, None),
        ("completed second", False, "call_already_final"),
        ("failed", False, "call_already_final"),
        ("cancelled", False, "call_already_final"),
    ]
    assert stage.agent.get(key)[1]["call"]["result"] == {"text": "first"}
    assert refused(stage, key[1]) == ["call_already_final"] * 3
    stage.serves()


def answered(stage: Stage, key: tuple[str, str], count: int) -> list[tuple[str, bool, str | None]]:
    """Wait for so many answers that the hostile app got: word, accepted, code."""

    def look() -> list[tuple[str, bool, str | None]]:
        said = stage.said(key[1])
        return said if len(said) >= count else []

    return wait_until("what it was answered", look)


def refused(stage: Stage, call_id: str) -> list[str]:
    """Codes of the reports about a call that were refused, in the audit log."""
    rows = stage.daemon.audit("report.refused")
    return [row["detail"]["code"] for row in rows if row["subject"].get("call_id") == call_id]


@pytest.mark.parametrize("target", ["another", "unknown"])
def test_an_app_can_touch_no_call_but_its_own(stage: Stage, target: str) -> None:
    held = stage.hold("meddled")
    call_id = held[1] if target == "another" else "never-was"
    before = stage.agent.get(held)[1]["call"]

    key = stage.agent.invoke("hostile.meddle", call_id, conversation="meddled")

    assert stage.agent.final(key)["result"] == {"text": "call_not_found " * 4 + "nothing"}
    assert refused(stage, call_id) == ["call_not_found"] * 4
    assert stage.agent.get(held)[1]["call"] == before
    stage.release(held)
    stage.serves()


def test_the_third_invalid_result_ends_the_call(stage: Stage) -> None:
    key = stage.agent.invoke("hostile.invalid", "go", conversation="invalid")

    assert ended(stage, key) == ("failed", "tool_output_invalid")
    said = answered(stage, key, 4)
    assert [code for _, _, code in said] == ["tool_output_invalid"] * 3 + ["call_already_final"]
    assert refused(stage, key[1]) == ["tool_output_invalid"] * 3 + ["call_already_final"]
    stage.serves()


def test_an_answer_after_the_deadline_changes_nothing(stage: Stage) -> None:
    key = stage.agent.invoke("hostile.late", "go", conversation="late")

    assert ended(stage, key) == ("expired", "deadline_passed")
    said = answered(stage, key, 1)
    assert said == [("completed late", False, "call_already_final")]
    assert refused(stage, key[1]) == ["call_already_final"]
    assert stage.agent.get(key)[1]["call"] == stage.agent.finals[key]
    stage.serves()


def test_a_handler_that_exits_fails_its_call_and_no_other(stage: Stage) -> None:
    key = stage.agent.invoke("hostile.exits", "0", conversation="exits")

    assert ended(stage, key) == ("failed", "app.unhandled_exception")
    after = stage.agent.invoke("hostile.meddle", "nobody", conversation="exits")
    assert ended(stage, after) == ("completed", None)
    assert instance_of(stage, after) == instance_of(stage, key)
    assert stage.ends(instance_of(stage, key)) == []
    stage.serves()


# --- the process and its channel ---


@pytest.mark.parametrize(
    ("tool", "reason"), [("blocks", "not_responding"), ("floods", "credit_exceeded"), ("babbles", "protocol_error")]
)
def test_a_process_that_misbehaves_is_ended_and_the_next_one_gets_its_call(
    stage: Stage, tool: str, reason: str
) -> None:
    key = stage.agent.invoke(f"hostile.{tool}", "again", conversation=tool)
    stage.agent.accepted(key)
    stage.serves()

    assert ended(stage, key) == ("completed", None)
    assert stage.ends(instance_of(stage, key)) == [reason]
    assert stage.agent.final(key)["result"] == {"text": "again"}
    stage.serves()


def test_what_cannot_be_read_on_a_workers_channel_is_refused_and_its_call_completes(stage: Stage) -> None:
    key = stage.agent.invoke("hostile.garbage", "done", conversation="garbage")

    assert ended(stage, key) == ("completed", None)
    who = instance_of(stage, key)
    rows = [row for row in stage.daemon.audit() if row["subject"].get("who") == who]
    noted = [(row["event"], row["detail"]["code"]) for row in rows]
    assert noted == [
        *[("frame.refused", "message_invalid")] * 4,
        ("frame.refused", "message_too_large"),
        ("frame.refused", "message_invalid"),
        ("report.refused", "message_invalid"),
    ]
    stage.serves()


def test_a_process_that_never_reads_is_sent_no_more_than_its_window(stage: Stage) -> None:
    """More at once would end its connection as a slow consumer's; the rest waits in the store."""
    first = stage.agent.invoke("hostile.deaf", "", conversation="deaf")
    stage.agent.accepted(first)
    daemon = psutil.Process(stage.daemon.pid)
    before = daemon.memory_info().rss

    keys = [stage.agent.invoke("hostile.deaf", "x" * 180_000, conversation="deaf") for _ in range(60)]
    stage.serves()
    ends = {ended(stage, key) for key in (*keys, first)}

    assert ends == {("expired", "deadline_passed")}
    assert stage.ends(instance_of(stage, first)) == []
    assert daemon.memory_info().rss - before < 64 * 1024 * 1024
    stage.serves()
