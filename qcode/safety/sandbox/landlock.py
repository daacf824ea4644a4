"""The command line that confines through Landlock and seccomp, in a small interpreter of its own.

Landlock grants and never forbids: what is below a granted folder cannot be taken out again. So a confinement in which
something protected lies below something writable is not for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcode.safety.sandbox.confinement import Confinement

_SCRIPT = Path(__file__).with_name("confine.py")
_KERNEL = ("/proc", "/sys", "/run", "/dev")
"""Services listen below /run; /proc shows other processes."""
_OF_PROC = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/filesystems", "/proc/version")


def command(argv: Sequence[str], confinement: Confinement) -> list[str]:
    """Return the argv that runs `argv` (whose first is an absolute path) behind the walls of `confinement`.

    Raise `ValueError` where it protects something below what may be written. A folder above something hidden can be
    passed through but not listed.
    """
    if any(path.is_relative_to(base) for path in confinement.protected for base in confinement.writable):
        raise ValueError("Landlock cannot protect a part of a folder that may be written")
    hidden = frozenset(confinement.hidden)
    covered = [path for path in confinement.visible if any(path.is_relative_to(folder) for folder in _KERNEL)]
    readable = [granted for folder in (Path("/"), *covered) for granted in _readable(folder, hidden)]
    reading = [*(str(path) for path in readable), *_OF_PROC]
    writing = [str(path) for path in confinement.writable]
    counts = [str(len(reading)), str(len(writing))]
    return [sys.executable, "-I", "-S", str(_SCRIPT), *counts, *reading, *writing, *argv]


def _readable(folder: Path, hidden: frozenset[Path]) -> Iterator[Path]:
    """Yield the topmost paths below `folder` that hold nothing hidden."""
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return
    for child in children:
        # What a link names is granted where it really is; granted by the link it could be a folder above the hidden.
        if child in hidden or str(child) in _KERNEL or child.is_symlink():
            continue
        if any(path.is_relative_to(child) for path in hidden):
            yield from _readable(child, hidden)
        else:
            yield child
