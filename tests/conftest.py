"""Fixtures and settings of the whole suite."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.e2e.running import NO_KEYRING
from tests.fakes.demo import hurry

# The first text Hypothesis makes in a fresh checkout takes seconds, for it builds its table of characters then, and two
# busy cores are slow at any time. Neither says anything about the program.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The suite tries the same examples on every machine; `make search` looks for new ones.
settings.register_profile("qcode", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("qcode")

# Hundreds of programs start below, and each test file is rewritten before it runs, so compiled files are kept, even if
# the machine is configured not to write them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test may reach the real keyring of the user; tests of keyrings use their own.
os.environ["PYTHON_KEYRING_BACKEND"] = NO_KEYRING


def pytest_collection_finish() -> None:
    """Exclude the collected test items and loaded modules from garbage collection, and collect less often.

    With the default thresholds, a fifth of the time of an app test is garbage collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


@pytest.fixture(scope="session", autouse=True)
def demo_without_pauses() -> Iterator[None]:
    with hurry():
        yield
