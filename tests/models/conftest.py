from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.models.profiles import NIGHTLY

settings.register_profile(
    NIGHTLY, deadline=None, derandomize=False, print_blob=True, suppress_health_check=list(HealthCheck)
)
