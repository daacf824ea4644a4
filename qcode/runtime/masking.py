"""Hides what a secret file holds where a change of it is shown. What the model would write is always shown whole.

It works on unified diffs, section by section, and counts the lines of each hunk, so that no line of a file can pass
for a header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

MASK = "[hidden]"

_FILE = re.compile(r"(?:---|\+\+\+) (?:[ab]/)?(.*)")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_NAMED = re.compile(r"(\s*(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=)\S.*")


def mask_diff(diff: str, is_secret: Callable[[str], bool]) -> str:
    """Return `diff` with old and unchanged lines of every file that `is_secret` hidden; names of values stay."""
    return "\n".join(_masked(diff.split("\n"), is_secret))


def _masked(lines: list[str], is_secret: Callable[[str], bool]) -> Iterator[str]:
    old = new = 0
    hides = False
    for line in lines:
        if old > 0 or new > 0:
            old -= line.startswith(("-", " "))
            new -= line.startswith(("+", " "))
            yield _hidden(line) if hides and line.startswith(("-", " ")) else line
            continue
        hunk, file = _HUNK.match(line), _FILE.match(line)
        if hunk is not None:
            old, new = (1 if size is None else int(size) for size in hunk.groups())
        elif line.startswith("--- ") and file is not None:
            hides = is_secret(file[1])
        elif file is not None:
            hides = hides or is_secret(file[1])
        yield line


def _hidden(line: str) -> str:
    if not line[1:].strip():
        return line
    named = _NAMED.fullmatch(line[1:])
    return f"{line[0]}{named[1] if named is not None else ''}{MASK}"
