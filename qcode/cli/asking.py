"""Questions on the terminal before the app opens: plain text, one line as the answer."""

from __future__ import annotations

import sys

from qcode.cli.output import put


class Left(Exception):  # noqa: N818  # a wish of the person, not an error
    """The person ended the input (Ctrl+D) instead of answering."""


def ask(text: str) -> str:
    """Show `text` and return the line that is typed, without space around it; raise `Left` at the end of input."""
    put(text)
    line = sys.stdin.readline()
    if not line:
        put("\n")
        raise Left
    return line.strip()
