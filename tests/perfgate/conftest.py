"""Property tests on a busy machine: no deadline for one example, and fewer of them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "perfgate", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("perfgate")
