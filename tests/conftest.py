"""Settings of hypothesis for all tests: `pytest --hypothesis-profile=fuzz` looks longer."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine can stall any example, so only pytest's own timeout watches the clock.
SLOW_IS_FINE = [HealthCheck.too_slow]
settings.register_profile("usual", deadline=None, suppress_health_check=SLOW_IS_FINE)
settings.register_profile("fuzz", deadline=None, suppress_health_check=SLOW_IS_FINE, max_examples=1000)
settings.load_profile("usual")
