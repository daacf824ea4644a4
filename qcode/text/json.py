"""JSON: its type, a strict parser that repairs nothing, and access to values from servers that may be wrong.

`parse_object` rejects everything that is not JSON (RFC 8259), including extensions that Python accepts. `object_in`,
`text_in` and `count_in` treat a value of the wrong type as absent. `sendable` replaces lone surrogates, which cannot
be encoded.
"""

from __future__ import annotations

import json
import sys
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"


def parse_object(text: str) -> JsonObject | None:
    """Parse `text` as one JSON object; return None if it is anything else. Nothing is repaired.

    `NaN` and `Infinity`, which Python accepts, are rejected because they are not JSON (RFC 8259).
    """
    text = text.strip(_WHITESPACE)
    try:
        # `decode` would search for white space with two patterns, which takes as long as parsing a short record.
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if end == len(text) and isinstance(value, dict) else None


class DuplicateKeyError(ValueError):
    """An object has the same key twice, so its value depends on the parser."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {json.dumps(key, ensure_ascii=False)} occurs twice in one object")
        self.key = key


def parse_arguments(text: str) -> JsonObject | None:
    """Parse the arguments of a tool call like `parse_object`; raise `DuplicateKeyError` for a duplicate key."""
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=unique_keys)
    except DuplicateKeyError:
        raise
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def unique_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return an object from its pairs, for `object_pairs_hook`; raise `DuplicateKeyError` for a duplicate key."""
    values: JsonObject = {}
    for key, value in pairs:
        if key in values:
            raise DuplicateKeyError(key)
        values[key] = value
    return values


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


_WHITESPACE = " \t\n\r"
"""The characters that may surround a JSON value."""

_DECODER = json.JSONDecoder(parse_constant=_refuse)
"""Created once: `json.loads` with an option creates a decoder for each text, which takes longer than parsing it."""


def object_in(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def objects_in(value: Json) -> list[JsonObject]:
    """Return the objects in a list; empty for other values. A single object, as some servers send, counts as a list."""
    if isinstance(value, dict):
        return [value]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_in(value: Json) -> str:
    return value if isinstance(value, str) else ""


def texts_in(value: Json) -> tuple[str, ...]:
    """Return the texts in a list; none for another value."""
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def count_in(value: Json) -> int | None:
    """Return a token count, or None if `value` is not a finite number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < float("inf") else None


def finite_in(value: Json) -> float | None:
    """Return a number as a `float`, or None if `value` is not a finite number; an integer may be too large for one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


def sum_of(*counts: int | None) -> int | None:
    """Return the sum of the counts that are not None; None if all are."""
    reported = [count for count in counts if count is not None]
    return sum(reported) if reported else None


def sendable(text: str) -> str:
    """Return `text` with lone surrogates replaced, which cannot be encoded but occur in file and terminal input."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def sendable_object(text: str) -> JsonObject:
    """Parse `text` as a JSON object and replace lone surrogates in it; return an empty object for any other text."""
    parsed = parse_object(text)
    if parsed is None:
        return {}
    # A JSON escape such as \ud83d can hide a lone surrogate from `sendable`.
    encoded = json.dumps(parsed, ensure_ascii=False)
    clean = sendable(encoded)
    return parsed if clean is encoded else parse_object(clean) or {}


def sendable_json(text: str) -> str:
    """Return the text of a JSON object with lone surrogates replaced, also those that are written as escapes."""
    text = sendable(text)
    if "\\ud" not in text and "\\uD" not in text:
        return text
    parsed = parse_object(text)
    clean = sendable_object(text)
    return text if parsed is None or parsed == clean else json.dumps(clean, ensure_ascii=False)
