"""Pauses garbage collection while qcode creates objects that live until exit. Several packages use it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_gc() -> Iterator[None]:
    """Disable garbage collection in the block, and exempt the objects created in it from later collections.

    Use it for objects that live until exit, such as modules and the messages of a session. A collection would examine
    all of them and free none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
