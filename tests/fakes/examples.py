"""The number of random examples of a property, for properties that set their own."""

from __future__ import annotations

from hypothesis import settings


def share(count: int) -> int:
    """Return `count`, or a quarter of it in `make test`. `tests/conftest.py` does so with the default number."""
    return max(10, count // 4) if settings.get_current_profile_name() == "qcode" else count
