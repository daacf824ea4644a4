"""The JSON value as a type, and a strict reader that never repairs."""

from __future__ import annotations

import json
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"


def parse_object(text: str) -> JsonObject | None:
    """Return the JSON object that `text` is, or None when it is anything else; nothing is repaired.

    `NaN` and `Infinity`, which Python's reader accepts, are refused: they are not JSON (RFC 8259).
    """

    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")
