"""Loaded into pytest by a trial: runs only the chosen tests, in their order, and writes down the first that fails.

Hypothesis looks for one failing example and does not shrink it: that there is one is all that is asked.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, settings

REPORT: Final = "MUTANT_REPORT"
CHOSEN: Final = "MUTANT_CHOSEN"
_PROFILE: Final = "mutants"


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """After tests/conftest.py has loaded its own profile."""
    settings.register_profile(
        _PROFILE,
        settings(),
        phases=(Phase.explicit, Phase.generate),
        report_multiple_bugs=False,
        database=None,
    )
    settings.load_profile(_PROFILE)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen ones, if any were."""
    path = os.environ.get(CHOSEN)
    if path is None:
        return
    places = {name: place for place, name in enumerate(json.loads(Path(path).read_text(encoding="utf-8")))}
    left = [item for item in items if item.nodeid not in places]
    items[:] = sorted((item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid])
    config.hook.pytest_deselected(items=left)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:  # noqa: ANN401 - pytest's report
    """The first failure, and the class of what was raised."""
    report = yield
    path = Path(os.environ[REPORT])
    if report.failed and call.excinfo is not None and not path.exists():
        found = {"test": item.nodeid, "error": call.excinfo.type.__name__, "says": str(call.excinfo.value)[:300]}
        path.write_text(json.dumps(found), encoding="utf-8")
    return report


def machines_only(item: pytest.Item) -> bool:
    """A state machine of hypothesis: one test that runs everything."""
    return item.name == "runTest"
