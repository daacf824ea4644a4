"""Which walls work on this machine, found by running something behind them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass
from qcode.safety.sandbox import bubblewrap, landlock
from qcode.safety.sandbox.confinement import Confinement
from qcode.safety.verdict import Level

Kind: TypeAlias = Literal["bubblewrap", "landlock"]

_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin")
_PROBE_S = 5.0
_CAN_WRITE = 7


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Walls that were tried and held. `levels` are the confinements it can give."""

    kind: Kind
    levels: tuple[Level, ...]
    program: str = ""
    keeps_user: bool = False

    def wrap(self, argv: Sequence[str], confinement: Confinement) -> list[str]:
        """Return the argv that runs `argv` (whose first is an absolute path) confined.

        Raise `ValueError` for a confinement this kind cannot give; see `levels`.
        """
        if self.kind == "bubblewrap":
            return bubblewrap.command(self.program, argv, confinement, keeps_user=self.keeps_user)
        return landlock.command(argv, confinement)

    @property
    def description(self) -> str:
        """What it stops, in one line for a person."""
        if self.kind == "bubblewrap":
            return "bubblewrap: confined commands cannot reach the network or other processes, nor write outside"
        return (
            "Landlock: commands that only read cannot write, open sockets or signal others; auto mode needs bubblewrap"
        )


def find_sandbox(*, allows: Sequence[Kind] = ("bubblewrap", "landlock")) -> Sandbox | None:
    """Return the best sandbox that works here, None where none does. Runs a few short processes; safe in a thread."""
    if sys.platform != "linux":
        return None
    candidates: list[Sandbox] = []
    program = next((path for folder in _SYSTEM if os.access(path := f"{folder}/bwrap", os.X_OK)), "")
    if program and "bubblewrap" in allows:
        ways = (True, False) if os.geteuid() == 0 else (False,)
        candidates += [Sandbox("bubblewrap", ("read-only", "workspace"), program, keeps_user) for keeps_user in ways]
    if "landlock" in allows:
        candidates.append(Sandbox("landlock", ("read-only",)))
    return next((sandbox for sandbox in candidates if _holds(sandbox)), None)


def _holds(sandbox: Sandbox) -> bool:
    """Whether a command runs behind the walls, and cannot write where nothing was granted."""
    with tempfile.TemporaryDirectory(prefix="qcode-probe-") as folder:
        place = Path(folder).resolve()
        script = f'echo x 2>/dev/null > "$1/made" && exit {_CAN_WRITE}; exit 0'
        argv = sandbox.wrap(["/bin/sh", "-c", script, "probe", str(place)], Confinement(visible=(place,)))
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                timeout=_PROBE_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0 and not (place / "made").exists()
