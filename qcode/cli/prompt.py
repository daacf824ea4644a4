"""What a run is asked: standard input and the typed prompt."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from typing import TextIO

from qcode.runtime.attachments import InputError, decoded

SILENCE_S = 3.0
MAX_INPUT_BYTES = 32 * 1024 * 1024
"""More than the largest context window holds; without a limit an endless input would fill the memory."""


def read_standard_input(stream: TextIO | None, *, has_prompt: bool, note: Callable[[str], None]) -> str:
    """Return what is piped in, an empty text where nothing is; raise `InputError` where it cannot be used.

    Where a prompt was typed and an open pipe stays silent for `SILENCE_S`, say so by `note` and go on without it.
    """
    if stream is None or stream.closed or stream.isatty():
        return ""
    try:
        descriptor = stream.fileno()
        if has_prompt and not select.select([descriptor], [], [], SILENCE_S)[0]:
            note(f"nothing arrived on standard input for {SILENCE_S:.0f} s; going on without it")
            return ""
        data = _read(descriptor)
    except OSError as error:
        raise InputError(f"standard input cannot be read: {error.strerror}") from None
    return decoded(data, "standard input")


def _read(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := os.read(descriptor, 65_536):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_INPUT_BYTES:
            raise InputError(f"standard input is too large (more than {MAX_INPUT_BYTES:,} bytes)")
    return b"".join(pieces)


def joined(piped: str, typed: str | None) -> str:
    """Put piped text before the typed prompt as its context, or make it the prompt."""
    if not typed:
        return piped
    return f"{piped.rstrip()}\n\n{typed}" if piped.strip() else typed


def standard_input() -> TextIO | None:
    """Return standard input, None where the program was started without one."""
    return sys.stdin
