"""Each test runs the app in a confined process of a real runtime (the pytest plugin of lineup-runtime)."""

from __future__ import annotations

from runtime_actors.pytest_plugin import LineupApp

TEA = {"steps": ["boil water", "pour"]}


def test_a_checklist_ends_when_each_step_is_ticked(lineup_app: LineupApp) -> None:
    tea = lineup_app.call("example.start", TEA)
    tea.running()

    first = lineup_app.call("example.tick", {"step": "boil water"}).result()
    half = tea.progress()
    second = lineup_app.call("example.tick", {"step": "pour"}).result()

    assert first == {"left": 1}
    assert half is not None
    assert half.percent == 50
    assert second == {"left": 0}
    assert tea.result() == {"ticked": ["boil water", "pour"]}


def test_what_was_ticked_survives_the_death_of_app_and_runtime(lineup_app: LineupApp) -> None:
    tea = lineup_app.call("example.start", TEA)
    tea.running()
    lineup_app.call("example.tick", {"step": "boil water"}).result()

    lineup_app.survives(tea)
    left = lineup_app.call("example.tick", {"step": "pour"}).result()

    assert left == {"left": 0}
    assert tea.result() == {"ticked": ["boil water", "pour"]}


def test_no_step_is_lost_wherever_a_kill_comes(lineup_faults: LineupApp) -> None:
    tea = lineup_faults.call("example.start", TEA)
    tea.running()

    lineup_faults.call("example.tick", {"step": "boil water"}).result()
    lineup_faults.call("example.tick", {"step": "pour"}).result()

    assert tea.result() == {"ticked": ["boil water", "pour"]}


def test_ticks_are_taken_away_only_if_the_person_agrees(lineup_app: LineupApp) -> None:
    lineup_app.call("example.start", TEA).running()
    lineup_app.call("example.tick", {"step": "pour"}).result()

    refused = lineup_app.call("example.clear")
    lineup_app.answer(approved=False)
    agreed = lineup_app.call("example.clear")
    lineup_app.survives(agreed)
    lineup_app.answer(approved=True)

    assert refused.result() == {"left": 1}
    assert agreed.result() == {"left": 2}


def test_an_agent_can_cancel_a_checklist(lineup_app: LineupApp) -> None:
    tea = lineup_app.call("example.start", TEA)
    tea.running()

    tea.cancel()

    assert tea.ended().status == "cancelled"


def test_a_person_can_close_it(lineup_app: LineupApp) -> None:
    tea = lineup_app.call("example.start", TEA)
    tea.running()

    lineup_app.close()

    assert tea.ended().status == "cancelled"


def test_a_step_that_is_not_on_the_checklist_is_refused(lineup_app: LineupApp) -> None:
    lineup_app.call("example.start", TEA).running()

    refused = lineup_app.call("example.tick", {"step": "fly"}).ended()

    assert refused.error_code == "app.unknown_step"
