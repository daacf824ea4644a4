"""A wrapper for API keys that keeps them out of printed text, logs and pickles.

Separate from `redaction`, which removes secrets from text, because this module is loaded before the first paint.
"""

from __future__ import annotations

from typing import NoReturn

REDACTED = "[redacted]"


class Secret:
    """A value hidden from `str`, `repr`, formatting and pickling. `reveal` returns it."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """Return the value. Only code that sends it to a server should call this."""
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    def __str__(self) -> str:
        return REDACTED

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        import hmac  # loads OpenSSL, which start-up does not need

        return hmac.compare_digest(self.__value.encode(), other.__value.encode())

    def __hash__(self) -> int:
        return hash(self.__value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret must not be pickled")
