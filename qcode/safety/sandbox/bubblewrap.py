"""The command line of bubblewrap for a confinement. Pure: options as bwrap(1) documents them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qcode.safety.sandbox.confinement import Confinement

# Sockets of services that would do for a command what it cannot do itself (Docker's, D-Bus's, an SSH agent's) are
# here. Connecting needs no right to write, so a read-only view would not stop it.
_EMPTIED = ("/run", "/tmp", "/var/tmp")  # noqa: S108  # names of folders to cover, nothing is put there
# Root without capabilities still owns the switches of the kernel; the cover that bwrap has for them tests for a right
# that dropping the capabilities took away.
_SWITCHES = ("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/mtrr", "/proc/sysrq-trigger")


def command(bwrap: str, argv: Sequence[str], confinement: Confinement, *, keeps_user: bool) -> list[str]:
    """Return the argv that runs `argv` behind the walls of `confinement`.

    `keeps_user`: without a user namespace, for root, whose capabilities are dropped instead; a namespace is often not
    to be had in a container.
    """
    namespaces = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    user = ["--cap-drop", "ALL"] if keeps_user else ["--unshare-user"]
    options = [
        bwrap,
        *namespaces,
        *user,
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    for switch in _SWITCHES:
        options += ["--ro-bind-try", switch, switch]
    for folder in _EMPTIED:
        if Path(folder).is_dir() and not Path(folder).is_symlink():
            options += ["--tmpfs", folder]
    for path in confinement.visible:
        options += ["--ro-bind-try", str(path), str(path)]
    for path in confinement.writable:
        options += ["--bind-try", str(path), str(path)]
    for path in confinement.protected:
        options += ["--ro-bind-try", str(path), str(path)]
    for path in confinement.hidden:
        options += _hiding(path)
    return [*options, "--", *argv]


def _hiding(path: Path) -> list[str]:
    if path.is_dir():
        return ["--tmpfs", str(path)]
    return ["--ro-bind", "/dev/null", str(path)] if path.exists() else []
