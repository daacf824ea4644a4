"""Skips the pauses of the demo model, which would take seconds of each test."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from unittest import mock


def skip_demo_pauses() -> AbstractContextManager[object]:
    """Let demo providers that are created from now on stream without pauses."""
    from qcode.providers.demo import provider

    return mock.patch.object(provider, "DemoProvider", partial(provider.DemoProvider, pace=0))
