"""The number of random examples of a property that is not the default."""

from __future__ import annotations

from hypothesis import settings


def share(count: int) -> int:
    """Return `count`, or a quarter of it in `make test`, as the profiles in `tests/conftest.py` do with the default."""
    return max(10, count // 4) if settings.get_current_profile_name() == "qcode" else count
