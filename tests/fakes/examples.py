"""The number of random examples of a property, for properties that set their own."""

from __future__ import annotations

from hypothesis import settings


def share(count: int) -> int:
    """Return `count`, or a sixth of it in `make test`. `tests/conftest.py` does so with the default number."""
    return max(10, count // 6) if settings.get_current_profile_name() == "qcode" else count
