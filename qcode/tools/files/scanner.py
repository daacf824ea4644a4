"""A separate program that searches files for a regular expression: run it, never import it.

A pattern can take forever, and unlike a thread, a process can be killed. The program needs only the standard library.
It reads one JSON object from standard input: `pattern`, `ignore_case`, `context_lines`, `max_count`, `multiline` and
`files`, a list of [name, path]. It prints the events of `ripgrep --json`, one per line: `begin`, `match`, `context`,
`end`.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import Any

_MAX_FILE_BYTES = 50 * 1024 * 1024
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def main() -> int:
    """Return 0, or 2 if the pattern is invalid; the reason is then on standard error."""
    query = json.load(sys.stdin)
    try:
        flags = re.MULTILINE | re.DOTALL if query["multiline"] else 0
        pattern = re.compile(query["pattern"], flags | (re.IGNORECASE if query["ignore_case"] else 0))
    except (re.error, OverflowError, RecursionError) as error:  # `a{4294967295}`, thousands of groups in each other
        sys.stderr.write(f"{error}\n")
        return 2
    for name, path in query["files"]:
        text = _text_of(path)
        if text is not None:
            lines = text.removesuffix("\n").split("\n")
            find_hits = _multiline_hits if query["multiline"] else _hits
            for event in _events(name, lines, find_hits(text, pattern, query["max_count"]), query["context_lines"]):
                sys.stdout.write(json.dumps(event) + "\n")
    return 0


def _text_of(path: str) -> str | None:
    """Return the text of a file, or None if it is empty, binary, too large or not a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(_MAX_FILE_BYTES + 1)
        except OSError:
            return None
    mark, encoding = next(((mark, name) for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), (b"", "utf-8"))
    if not data or len(data) > _MAX_FILE_BYTES or (encoding == "utf-8" and b"\0" in data):
        return None
    return data[len(mark) :].decode(encoding, "replace")


def _multiline_hits(text: str, pattern: re.Pattern[str], max_count: int) -> dict[int, int]:
    """Return the numbers of the lines in a multiline match, each with the byte offset of its first match."""
    hits: dict[int, int] = {}
    number, consumed = 1, 0
    for count, match in enumerate(pattern.finditer(text), start=1):
        start, end = match.span()
        if start == len(text) and (not text or text[-1] == "\n"):
            break  # no line follows the last line end
        number += text.count("\n", consumed, start)
        consumed = start
        line = text[text.rfind("\n", 0, start) + 1 : start]
        hits.setdefault(number, len(line.encode("utf-8", "replace")))
        # A line end at the end of a match does not include the line after it.
        for offset in range(1, text.count("\n", start, max(start, end - 1)) + 1):
            hits.setdefault(number + offset, 0)
        if count == max_count:
            break
    return hits


def _hits(text: str, pattern: re.Pattern[str], max_count: int) -> dict[int, int]:
    """Return the numbers of the matching lines, each with the byte offset of the first match."""
    hits: dict[int, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match = pattern.search(line.removesuffix("\r"))
        if match is not None:
            hits[number] = len(line[: match.start()].encode("utf-8", "replace"))
            if len(hits) == max_count:
                break
    return hits


def _events(name: str, lines: list[str], hits: dict[int, int], context_lines: int) -> Iterator[dict[str, Any]]:
    """Yield the events for the hits in one file, with lines of context around them."""
    if not hits:
        return
    path = {"text": name}
    yield {"type": "begin", "data": {"path": path}}
    numbers = sorted(
        {n for hit in hits for n in range(hit - context_lines, hit + context_lines + 1) if 1 <= n <= len(lines)}
    )
    for number in numbers:
        data: dict[str, Any] = {"path": path, "lines": {"text": lines[number - 1] + "\n"}, "line_number": number}
        data["submatches"] = [{"start": hits[number]}] if number in hits else []
        yield {"type": "match" if number in hits else "context", "data": data}
    yield {"type": "end", "data": {"path": path}}


if __name__ == "__main__":
    sys.exit(main())
