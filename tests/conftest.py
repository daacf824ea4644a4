"""What holds for the whole suite."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The first text Hypothesis makes in a fresh checkout takes seconds, for it builds its table of characters then, and two
# busy cores are slow at any time. Neither says anything about the program.
settings.register_profile("qcode", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("qcode")
