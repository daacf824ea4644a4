"""The demo model without its pauses, which would take seconds of each test."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from unittest import mock


def hurry() -> AbstractContextManager[object]:
    """Make providers that connect from now on stream as fast as they are read."""
    from qcode.providers.demo import provider

    return mock.patch.object(provider, "DemoProvider", partial(provider.DemoProvider, pace=0))
