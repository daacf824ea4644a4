"""What a run is asked: standard input and the typed prompt."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

from qcode.runtime.attachments import InputError, decoded

SILENCE_S = 3.0


def read_standard_input(stream: TextIO | None, *, has_prompt: bool, stderr: TextIO) -> str:
    """Return what is piped in, an empty text where nothing is.

    Where a prompt was typed and an open pipe stays silent for `SILENCE_S`, say so on `stderr` and go on without it.
    """
    if stream is None or stream.closed or stream.isatty():
        return ""
    try:
        descriptor = stream.fileno()
        if has_prompt and not select.select([descriptor], [], [], SILENCE_S)[0]:
            stderr.write(f"qcode: nothing arrived on standard input for {SILENCE_S:.0f} s; going on without it\n")
            stderr.flush()
            return ""
        data = b"".join(iter(lambda: os.read(descriptor, 65_536), b""))
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror}") from None
    return decoded(data, "standard input")


def joined(piped: str, typed: str | None) -> str:
    """Put piped text before the typed prompt as its context, or make it the prompt."""
    if not typed:
        return piped
    return f"{piped.rstrip()}\n\n{typed}" if piped.strip() else typed


def standard_input() -> TextIO | None:
    """Return standard input, None where the program was started without one."""
    return sys.stdin
