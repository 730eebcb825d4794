"""The report from what is known about runs."""

from __future__ import annotations

import time
from xml.etree import ElementTree as ET

from runtime_actors.chaos.campaign import Run, Total, Wanted
from runtime_actors.chaos.page import html
from runtime_actors.chaos.plan import Fault, Kind, Point
from runtime_actors.chaos.run import Played
from runtime_actors.chaos.seen import Life, Struck
from runtime_actors.checker import Evidence, Violation

_HOSTILE = "<script>alert('&')</script>\x1b[31m"


def a_played_run() -> Played:
    fault = Fault(Kind.KILL_WORKER, Point("finish:after"))
    missed = Fault(Kind.CLOCK, Point("progress", 3))
    began = time.monotonic()
    played = Played(7, (fault, missed), began=began, ended=began + 2)
    played.seen.struck.append(Struck(fault, began + 1, "worker 1"))
    played.seen.lives.append(Life(1, began, began + 0.5, began + 2, 0))
    played.seen.commits.append((2, began + 1))
    call = {"call_id": _HOSTILE, "conversation_id": "main", "instance_id": "i1"}
    audit = [
        {"seq": 1, "event": "call.admitted", "subject": call, "detail": {}},
        {"seq": 2, "event": "attempt.started", "subject": {"instance_id": "i1", "attempt_id": "a1"}, "detail": {}},
        {"seq": 3, "event": "call.ended", "subject": call, "detail": {"to": "completed"}},
    ]
    said = {"agent": "local", "by": "local", "id": "r1"}
    history = [
        {"what": "invoke", "at": began, "kind": "tool.invoke", "body": {"call_id": _HOSTILE}, **said},
        {"what": "fail", "at": began + 1, "code": _HOSTILE, **said},
    ]
    place = {"instance_id": "i1", "app_scope": "tally", "conversation_id": "main"}
    played.evidence = Evidence(history, audit, {"ps": [place], "calls": []})
    played.violations = [Violation("scenario_expectation", "step 1", _HOSTILE, ({"step": 1, "note": _HOSTILE},))]
    return played


def a_page(played: Played) -> str:
    total = Total()
    total.add(Run(1, played, demanded=False, min_isolation="sealed", shortest=played))
    return html("demo.jsonl", Wanted((), (), (Kind.KILL_WORKER,)), total)


def test_what_apps_and_agents_said_is_text_and_no_markup() -> None:
    page = a_page(a_played_run())

    assert "<script" not in page
    assert "\x1b" not in page
    ET.fromstring(page)  # noqa: S314 - our own


def test_the_page_says_what_struck_what_did_not_and_what_broke() -> None:
    page = a_page(a_played_run())

    assert "kill-worker at finish:after" in page
    assert "progress:3 was never hit" in page
    assert "each step of the scenario ends as it should" in page
    assert "1 of 1 runs failed" in page


def test_a_run_of_which_nothing_is_known_is_drawn_too() -> None:
    began = time.monotonic()

    ET.fromstring(a_page(Played(1, (), began=began, ended=began)))  # noqa: S314 - our own
