"""What the command line writes itself: answers of small commands to stdout, one line for a person to stderr.

stdout may be full, closed, or have lost its reader; that is an `OutputLost`. stderr never is a reason to fail.
"""

from __future__ import annotations

import os
import re
import sys

from qcode.safety.cleaning import clean

_WHITE_SPACE = re.compile(r"\s+")


class OutputLost(Exception):  # noqa: N818  # a state of the world more than an error of ours
    """Standard output takes no more. The text says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_reader_gone = isinstance(error, BrokenPipeError)


def put(data: str | bytes) -> None:
    """Write all of `data` to stdout, text as UTF-8; raise `OutputLost`."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    try:
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except OSError as error:
        # The interpreter flushes once more at exit; it must find somebody who listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise OutputLost(error) from error


def say(text: str) -> None:
    """Write `text` to stderr as one line, several where it has line breaks; foreign text is cleaned."""
    try:
        sys.stderr.flush()
        os.write(2, f"qcode: {clean(text)}\n".encode("utf-8", "replace"))
    except OSError:
        return


def one_line(text: str) -> str:
    """Return foreign text as one clean line."""
    return _WHITE_SPACE.sub(" ", clean(text)).strip()
