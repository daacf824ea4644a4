"""JSON: the value as a type, a strict reader that never repairs, and access that does not trust a server.

`parse_object` refuses what is not JSON (RFC 8259), also what Python's reader accepts. `object_in`, `text_in` and
`count_in` treat a value of the wrong type as absent. `sendable` replaces halves of characters, which cannot be sent.
"""

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


def object_in(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[JsonObject]:
    """Return the objects of a list; one object alone, as some servers send it, is a list of one."""
    if isinstance(value, dict):
        return [value]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_in(value: Json) -> str:
    return value if isinstance(value, str) else ""


def count_in(value: Json) -> int | None:
    """Return a token count, or None where there is none; a bool, a negative or an endless number is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < float("inf") else None


def sum_of(*counts: int | None) -> int | None:
    """Sum what is reported; None when nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def sendable(text: str) -> str:
    """Return `text` with halves of characters replaced: they cannot be sent, and file and terminal input has them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def sendable_object(text: str) -> JsonObject:
    """Return the JSON object `text` is, fit to be sent; arguments that are none become an empty one."""
    parsed = parse_object(text)
    if parsed is None:
        return {}
    # An escape in the JSON can hide half a character from `sendable`.
    written = json.dumps(parsed, ensure_ascii=False)
    clean = sendable(written)
    return parsed if clean is written else parse_object(clean) or {}
