"""Settings of hypothesis for all tests: `pytest --hypothesis-profile=fuzz` looks longer."""

from __future__ import annotations

from hypothesis import settings

# A busy machine can stall any example, so only pytest's own timeout watches the clock.
settings.register_profile("usual", deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=1000)
settings.load_profile("usual")
