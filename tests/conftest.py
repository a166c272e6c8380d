"""What every test has in common."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A slow machine is no failure, and a few dozen examples a property keep the whole run short.
settings.register_profile("collector", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("collector")
