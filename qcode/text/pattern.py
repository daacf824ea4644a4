"""Regular expressions that are compiled when they are first used.

A start of qcode loads about 150 patterns and uses a tenth of them. Compiling the others would add a tenth to its time.
Modules that load at the start therefore use `lazy_pattern` for their constants. Other modules use `re.compile`.
"""

from __future__ import annotations

import re
from typing import AnyStr, Generic, cast


class _LazyPattern(Generic[AnyStr]):
    """A pattern with the methods of the compiled one; the first use of a method compiles the pattern."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return `re.compile(pattern, flags)`, compiled at the first call of a method, which may raise `re.error`.

    The functions of `re` do not accept the result as their first argument; use its methods.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))
