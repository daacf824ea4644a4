"""Finds the Pygments lexer of a language. The first search imports Pygments."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

# A lexer may raise these for incomplete code, or if it cannot resume its state; the code is then not highlighted.
LEXER_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@lru_cache(maxsize=64)
def lexer_of(language: str) -> Any:  # noqa: ANN401  Pygments ships no types
    """Return the lexer of a language, None if Pygments has none."""
    if not language:
        return None
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # Pygments ships no types
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]  # Pygments ships no types

    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        return None
