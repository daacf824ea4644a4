"""The detection of a sandbox that works on this machine, by attempts to escape from it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.protocol.tools import Launch
from qcode.safety.sandbox import bubblewrap
from qcode.safety.sandbox.bubblewrap import BwrapVariant
from qcode.safety.sandbox.confinement import SYSTEM_FOLDERS, Confinement, PathLink
from qcode.safety.sandbox.seccomp import UnknownMachine, filter_program
from qcode.safety.verdict import Level, SandboxSupport
from qcode.values import dataclass

Kind: TypeAlias = Literal["bubblewrap", "landlock"]

_BWRAP_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")
_PROBE_TIMEOUT_S = 5.0
CONFINED_EXIT_CODE = 42  # of `ATTEMPTS` if no attempt succeeds
# Each line is an attempt to escape. The first successful attempt ends the probe with its number as the exit code. 42
# proves that every line ran and no attempt succeeded. Landlock hides /proc/self, so the thread itself checks its
# capabilities and the filter (`kernel.drop_capabilities`, `landlock.restriction`). `cat` reads the status at once. The
# shell's `read` would read it in several calls, and the kernel creates the text again for each of them.
ATTEMPTS = """
echo x 2>/dev/null > "$1/made" && exit 1
cat "$1/hidden" 2>/dev/null | grep -q secret && exit 2
cat "$1/seen" 2>/dev/null | grep -q visible || exit 3
[ "$2" = landlock ] && exit 42
status=$(cat /proc/self/status)
case $status in *CapPrm:?0000000000000000*CapEff:?0000000000000000*) ;; *) exit 4 ;; esac
case $status in *NoNewPrivs:?1*) ;; *) exit 5 ;; esac
case $status in *Seccomp:?2*) ;; *) exit 6 ;; esac
exit 42
"""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that passed the escape tests."""

    kind: Kind
    levels: tuple[Level, ...]
    variant: BwrapVariant = BwrapVariant("")
    """The variant of a bubblewrap sandbox; unused for Landlock."""

    def launch(self, argv: Sequence[str], confinement: Confinement) -> Launch:
        """Return the confined launch of `argv`, whose first item is an absolute path.

        Raise `ValueError` for a level that this kind does not support.
        """
        if confinement.level not in self.levels:
            raise ValueError(f"{self.kind} does not support the level {confinement.level}")
        if self.kind == "bubblewrap":
            return bubblewrap.launch(self.variant, argv, confinement)
        from qcode.safety.sandbox import landlock

        return Launch(tuple(argv), restrict=landlock.restriction(confinement))

    @property
    def support(self) -> SandboxSupport:
        return SandboxSupport(self.levels, masks=self.kind == "bubblewrap", kind=self.kind)

    @property
    def description(self) -> str:
        """The effect of the sandbox, in one line for the user."""
        if self.kind == "bubblewrap":
            return (
                "bubblewrap: read-only commands run without asking; they cannot write, reach the network or "
                "other processes, or read your home folder and secret files"
            )
        return (
            "Landlock: read-only commands run without asking; they cannot write, open sockets or signal other "
            "processes. Searches ask if a secret file is in reach, because Landlock cannot hide it. Auto mode "
            "and output redirected to files ask: they need bubblewrap"
        )


@cache
def _first_effective(kind: Kind) -> Sandbox | None:
    return next((sandbox for sandbox in candidates(kind) if is_effective(sandbox)), None)


_DETECTION_LOCK = threading.Lock()


def find_sandbox(*, allows: Sequence[Kind] = ("bubblewrap", "landlock")) -> Sandbox | None:
    """Return the best sandbox that works here, None if none does.

    The first call runs a few short processes; the result is cached for the life of this process. Thread-safe.
    """
    if sys.platform != "linux":
        return None
    with _DETECTION_LOCK:
        for kind in allows:
            sandbox = _first_effective(kind)
            if sandbox is not None:
                return sandbox
        return None


def candidates(kind: Kind) -> list[Sandbox]:
    """Return the untested sandboxes of a kind that may work on this machine, the best first."""
    try:
        filter_program("read-only", os.uname().machine)
    except UnknownMachine:
        return []
    if kind == "landlock":
        from qcode.safety.sandbox import landlock

        return [Sandbox("landlock", ("read-only",))] if landlock.version() >= landlock.MIN_VERSION else []
    programs = [f"{folder}/bwrap" for folder in _BWRAP_FOLDERS]
    program = next((path for path in programs if os.access(path, os.X_OK)), "")
    if not program:
        return []
    levels: tuple[Level, ...] = ("read-only", "workspace", "protect")
    variants = [BwrapVariant(program)]
    if os.geteuid() == 0:
        variants = [
            BwrapVariant(program, is_root=True, has_user_namespace=False, mounts_in_thread=True),
            BwrapVariant(program, is_root=True, has_user_namespace=False),
            BwrapVariant(program, is_root=True),
        ]
    return [Sandbox("bubblewrap", levels, variant) for variant in variants]


def is_effective(sandbox: Sandbox) -> bool:
    """Return whether a command runs in the sandbox and every attempt to escape fails."""
    with tempfile.TemporaryDirectory(prefix="qcode-probe-") as created:
        folder = os.path.realpath(created)
        Path(folder, "seen").write_text("visible\n")
        Path(folder, "hidden").write_text("secret\n")
        system = tuple(path for path in SYSTEM_FOLDERS if os.path.isdir(path) and not os.path.islink(path))  # noqa: PTH112, PTH114  # text
        links = tuple(PathLink(path, os.readlink(path)) for path in SYSTEM_FOLDERS if os.path.islink(path))  # noqa: PTH114, PTH115  # text
        hidden = (f"{folder}/hidden",)
        confinement = Confinement("read-only", readable=(*system, folder), links=links, hidden_paths=hidden)
        argv = ["/bin/sh", "-c", ATTEMPTS, "probe", folder, sandbox.kind]
        return _exit_code(sandbox.launch(argv, confinement)) == CONFINED_EXIT_CODE


def _exit_code(launch: Launch) -> int | None:
    """Return the exit code of a launch, None if it cannot start or does not end in time.

    As in `tools.processes`, it starts in a separate thread, because the restriction also applies to the thread.
    """
    codes: list[int] = []

    def run() -> None:
        argv = list(launch.argv)
        inherited: tuple[int, ...] = ()
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError, subprocess.SubprocessError):
            if launch.data:
                file = opened.enter_context(tempfile.TemporaryFile())
                file.write(launch.data)
                file.seek(0)
                inherited = (file.fileno(),)
                argv[launch.data_index] = str(file.fileno())
            if launch.restrict is not None:
                launch.restrict()
            codes.append(
                subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={"PATH": "/usr/bin:/bin"},
                    timeout=_PROBE_TIMEOUT_S,
                    pass_fds=inherited,
                ).returncode
            )

    thread = threading.Thread(target=run, name="qcode-probe")
    thread.start()
    thread.join()
    return codes[0] if codes else None
