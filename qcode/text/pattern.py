"""Regular expressions that are compiled when they are first used.

A start loads about 150 patterns and uses a tenth of them; compiling the others would be a tenth of its time. Modules
that load at the start therefore use `lazy_pattern` for their constants. Others use `re.compile`.
"""

from __future__ import annotations

import re
from typing import AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    """A pattern whose methods are those of the compiled one, looked up once each."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return `re.compile(pattern, flags)`, compiled with the first call of a method. `re.error` is raised then.

    The functions of `re` do not accept it as their first argument; use its methods.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
