"""A program to start, with what a sandbox adds to starting it."""

from __future__ import annotations

from collections.abc import Callable

from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """A program to start and what happens before and after it. One value starts one program."""

    argv: tuple[str, ...]
    """The first item is an absolute path."""
    restrict: Callable[[], None] | None = None
    """Called in the thread that starts the program, just before. The thread is never used again.

    If this raises `OSError`, the program must not be started.
    """
    data: bytes = b""
    """Input that the program reads from an inherited file descriptor, at most 4 kB. Empty: no descriptor."""
    data_at: int = 0
    """The item of `argv` that is replaced by the number of that descriptor."""
    finish: Callable[[], tuple[str, ...]] | None = None
    """Called once when nothing of the program runs any more, also if it could not be started.

    Returns lines about what it did, for the model and the user. Blocks on the disk.
    """
