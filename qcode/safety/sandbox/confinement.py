"""What a confined command may do, whichever wall holds it."""

from __future__ import annotations

from pathlib import Path

from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Confinement:
    """The walls around one command. All paths are absolute and real.

    The whole file system can be read and run from, without `hidden`. `writable` can be written, without `protected`
    inside it. `visible` are folders that stay in sight although they lie where private temporary folders are put over
    everything else. There is no network and no way to reach a process outside.
    """

    visible: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    protected: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
