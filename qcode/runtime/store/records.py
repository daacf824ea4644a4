"""Records as lines of bytes, and the bytes of a file as records.

A line is one JSON object and ends with a newline. Nothing else in it can be taken for the end of a line, whatever
reads it: control characters, U+0085, U+2028 and U+2029 are written as escapes.
"""

from __future__ import annotations

import json

from qcode.protocol.json import JsonObject, parse_object
from qcode.protocol.values import dataclass

_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def to_line(record: JsonObject) -> bytes:
    """Return the line of a record, newline included."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).translate(_LINE_ENDS)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form; as an escape it survives.
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds. `end` is how many bytes are whole lines, `torn` what follows them.

    `is_unended`: the last record is whole and lacks only its newline. `skipped` counts the lines that are no record.
    """

    records: tuple[JsonObject, ...]
    end: int
    torn: bytes
    is_unended: bool
    skipped: int


def read_records(data: bytes) -> Contents:
    """Read every record there is. A proper beginning of a record is never itself a record, so none is misread."""
    *lines, tail = data.split(b"\n")
    found = [_record(line) for line in lines if line]
    last = _record(tail) if tail else None
    records = tuple(one for one in (*found, last) if one is not None)
    is_unended = last is not None
    torn = b"" if is_unended else tail
    return Contents(records, len(data) - len(torn), torn, is_unended, sum(one is None for one in found))


def _record(line: bytes) -> JsonObject | None:
    try:
        return parse_object(line.decode())
    except UnicodeDecodeError:
        return None
