"""Questions on the terminal before the app opens: plain text, one line as the answer."""

from __future__ import annotations

import getpass
import sys
import warnings

from qcode.cli.failure import StartError
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


def ask_unseen(text: str) -> str:
    """Show `text` on the terminal and return the line that is typed or pasted, which is not shown; raise `Left`.

    What was pasted beyond the line is thrown away: the shell must not get it.
    """
    try:
        with warnings.catch_warnings():
            # Where echo cannot be switched off there is no terminal to show it on.
            warnings.simplefilter("error", getpass.GetPassWarning)
            return getpass.getpass(text)
    except EOFError:
        put("\n")
        raise Left from None
    except getpass.GetPassWarning:
        raise StartError("what is typed here would be shown; pipe the key in instead", 42) from None
