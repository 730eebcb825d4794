from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes import Records, some_records

# A busy machine must not fail a test that found nothing. The same examples each time: a red run can be repeated.
settings.register_profile("ci", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")


@pytest.fixture
def records() -> Iterator[Records]:
    """A new store in memory."""
    made = some_records()
    yield made
    made.sql.close()
