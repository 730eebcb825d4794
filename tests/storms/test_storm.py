"""The short form of `scripts/storm`: one seed, every kind, a mixed load; afterwards every promise holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.daemon import short_folder
from tests.storms import run, storm
from tests.storms.schedule import A_SECOND, KILLS, LEAST, Kind, planned

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="storms use prlimit and /proc")

_SECONDS: Final = 15.0
_SEED: Final = 4


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("storm")
def test_after_a_storm_of_every_kind_every_promise_holds(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    code = run.main([f"--seconds={_SECONDS}", f"--seed={_SEED}", "--json"])

    told = json.loads(capsys.readouterr().out)
    record_property("storm", json.dumps(told))
    assert told["violations"] == []
    assert told["lacking"] == []
    assert code == 0
    assert told["kills"] > 40
    assert told["final"] == told["accepted"]


def test_a_seed_draws_the_same_strikes_again_and_another_one_others() -> None:
    assert planned(1, 30.0) == planned(1, 30.0)
    assert planned(1, 30.0) != planned(2, 30.0)


def test_each_kind_strikes_often_enough_however_short_the_storm() -> None:
    strikes = planned(1, 1.0)

    assert {kind: sum(one.kind is kind for one in strikes) for kind in Kind} == {
        kind: max(LEAST, round(A_SECOND[kind])) for kind in Kind
    }


def test_a_minute_of_storms_kills_enough_for_a_night() -> None:
    kills = sum(one.kind in KILLS for one in planned(1, 60.0))

    assert kills * 30 > 2 * 2000  # with a machine half as fast


def test_a_storm_that_never_struck_proves_nothing() -> None:
    total = run.Total()
    total.struck.update(dict.fromkeys(map(str, Kind), LEAST))
    total.figures.update(run.REQUIRED)
    total.left_out[Kind.FULL_DISK] = "no disk"
    total.struck[Kind.CLOCK] = 1
    del total.struck[Kind.FULL_DISK]

    assert total.lacking(tuple(Kind)) == [f"clock: 1, and at least {LEAST} must be"]


def test_a_daemon_that_ends_by_itself_is_told() -> None:
    with short_folder() as folder:
        made = storm.Storm(folder, 1, 1.0, [])
        (made.daemon.state / "store.db").mkdir()  # nothing that could be opened

        verdict = made.play()

    assert any("the daemon ended with 5" in one for one in verdict.violations)


def test_a_violation_keeps_the_folder_and_names_its_seed(tmp_path: Path) -> None:
    verdict = {"seed": 7, "violations": ["a call was lost"], "struck": {}, "figures": {}, "ends": {}, "errors": {}}
    total = run.Total()

    total.add({**verdict, "left_out": {}}, tmp_path)

    assert total.violations == [f"seed 7: a call was lost (logs: {tmp_path})"]
