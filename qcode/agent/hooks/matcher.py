"""The matcher of a hook: a list of exact names, or a regular expression, which is matched with a time limit.

A separate module because it imports the package `regex`: `re` of the standard library has no time limit.
"""

from __future__ import annotations

from collections.abc import Iterable

from qcode.text.pattern import lazy_pattern

MAX_PATTERN_CHARS = 1_000
DEADLINE_S = 0.2
_EXACT = lazy_pattern(r"[A-Za-z0-9_\-,| ]*")


class MatcherError(ValueError):
    """A matcher is invalid or too slow. The text is the reason in one line."""


def exact_names(matcher: str) -> frozenset[str] | None:
    """Return the names in a matcher that lists names, None for a regular expression.

    Names are separated by `|` or `,`. The empty set means that everything matches.
    """
    if matcher.strip() in ("", "*"):
        return frozenset()
    if not _EXACT.fullmatch(matcher):
        return None
    return frozenset(name for part in matcher.split("|") for name in map(str.strip, part.split(",")) if name)


def matches(matcher: str, names: Iterable[str]) -> bool:
    """Return whether a matcher selects one of these names; an event without names is always selected.

    Raise `MatcherError` for a regular expression that does not compile or takes too long.
    """
    event_names = tuple(names)
    exact = exact_names(matcher)
    if exact is not None:
        return not exact or not event_names or not exact.isdisjoint(event_names)
    return not event_names or _matches_pattern(matcher, event_names)


def _matches_pattern(pattern: str, names: tuple[str, ...]) -> bool:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise MatcherError(f"the matcher is longer than {MAX_PATTERN_CHARS:,} characters")
    import regex  # not needed for a list of names

    try:
        compiled = regex.compile(pattern)
        return any(compiled.search(name, timeout=DEADLINE_S) is not None for name in names)
    except regex.error as error:
        raise MatcherError(f"the matcher is not a valid regular expression: {error}") from None
    except TimeoutError:
        raise MatcherError(f"the matcher took longer than {DEADLINE_S:g} s") from None
    except (RecursionError, OverflowError, MemoryError):
        raise MatcherError("the matcher is too complex") from None
