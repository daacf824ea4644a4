"""What holds for the whole suite."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.e2e.running import NO_KEYRING

# The first text Hypothesis makes in a fresh checkout takes seconds, for it builds its table of characters then, and two
# busy cores are slow at any time. Neither says anything about the program.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# What has to pass before a merge tries the same examples everywhere; `make search` looks for new ones.
settings.register_profile("qcode", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("qcode")

# No test may reach the keyring of whoever runs the tests; those about keyrings bring their own.
os.environ["PYTHON_KEYRING_BACKEND"] = NO_KEYRING
