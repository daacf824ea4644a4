"""The command line of bubblewrap for a confinement, with options as in bwrap(1).

On the disk, this module reads only whether a path is a folder or a link. bwrap reads the whole list of mounts after
each mount, so a mount costs about 0.15 ms, and more in a long list.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

from qcode.protocol.tools import Launch
from qcode.safety.protected_paths import is_within_any
from qcode.safety.sandbox.confinement import EMPTY_FILE, Confinement, depth
from qcode.safety.sandbox.seccomp import FilterName, filter_program
from qcode.values import dataclass

# Folders with sockets of services and files of other programs. A read-only mount would not prevent connections.
_COVERED_FOLDERS = ("/run", "/tmp", "/var/tmp")  # noqa: S108  # folders to cover; nothing is written there
_NAMESPACES = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_DEVICE_LINKS = (
    ("/dev/fd", "/proc/self/fd"), ("/dev/stdin", "fd/0"), ("/dev/stdout", "fd/1"), ("/dev/stderr", "fd/2"),
)  # fmt: skip
_FILTER_FD = "{fd}"
"""Replaced in the command line by the number of the file descriptor from which bwrap reads the seccomp filter."""
# The capabilities that root keeps at the level `protect`. Mounts, tracing, kernel modules and device nodes need others.
_ROOT_CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
    "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SYS_CHROOT", "CAP_AUDIT_WRITE",
)  # fmt: skip
# Devices that a command of root still sees at the level `protect`, beside the usual ones.
_ROOT_DEVICES = ("/dev/dri", "/dev/fuse", "/dev/kvm", "/dev/net", "/dev/shm", "/dev/snd")  # noqa: S108  # bound


@dataclass(frozen=True, slots=True)
class BwrapVariant:
    """A variant of the sandbox, because bwrap cannot create each kind of namespace on every machine."""

    program: str
    """The path of `bwrap`."""
    is_root: bool = False
    has_user_namespace: bool = True
    """The sandbox has a user namespace. Root needs none, and often cannot create one in a container."""
    mounts_in_thread: bool = False
    """The thread that starts bwrap makes most mounts itself. Only root without a user namespace can do this."""


def launch(variant: BwrapVariant, argv: Sequence[str], confinement: Confinement) -> Launch:
    """Return the launch of `argv`, whose first item is an absolute path, in `confinement`."""
    level = confinement.level
    has_filter = level != "protect"  # such a command may do everything except write protected files
    options = [variant.program, "--die-with-parent", "--cap-drop", "ALL"]
    options += ["--unshare-user"] if variant.has_user_namespace else []
    if has_filter:
        options += [*_NAMESPACES, "--seccomp", _FILTER_FD]
    elif variant.is_root:
        # A user namespace denies access to other processes in /proc; root needs a PID namespace for that.
        options.append("--unshare-pid")
        for capability in _ROOT_CAPABILITIES:
            options += ["--cap-add", capability]
    restrict = partial(_build_root, confinement) if variant.mounts_in_thread else None
    if variant.mounts_in_thread:
        options += ["--dev-bind", "/", "/", "--proc", "/proc"]  # the thread has made the other mounts
    elif level == "read-only":
        options += [*_private_root(confinement), *_path_options(confinement), "--remount-ro", "/"]
    elif level == "workspace":
        options += [*_writable_workspace(confinement), *_path_options(confinement)]
    else:
        options += [*_host_view(variant), *_path_options(confinement)]
    if variant.is_root:
        # Root without capabilities still owns the kernel settings in /proc/sys.
        options += ["--remount-ro", "/proc"]
    command_line = (*options, "--", *argv)
    if not has_filter:
        return Launch(command_line, restrict)
    name: FilterName = "read-only" if level == "read-only" else "workspace"
    program = filter_program(name, os.uname().machine)
    return Launch(command_line, restrict, data=program, data_index=options.index(_FILTER_FD))


def _build_root(confinement: Confinement) -> None:
    """Make the mounts in the calling thread, which then starts bwrap."""
    from qcode.safety.sandbox import mounts

    mounts.build_root(confinement, _COVERED_FOLDERS, _ROOT_DEVICES if confinement.level == "protect" else ())


def _path_options(confinement: Confinement) -> list[str]:
    """Return options that pin, protect and hide paths. Paths that no longer exist are skipped, except hidden ones."""
    options: list[str] = []
    for path in confinement.pinned_folders:  # a mount point cannot be moved or removed
        options += ["--bind-try", path, path]
    for path in confinement.protected_paths:
        options += ["--ro-bind-try", path, path]
    for path in (*confinement.hidden_paths, *confinement.masked_files):
        options += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", EMPTY_FILE, path]  # noqa: PTH112  # text
    return options


def _private_root(confinement: Confinement) -> list[str]:
    """Return options for a root folder that contains only the readable folders."""
    options: list[str] = []
    for folder in (*_COVERED_FOLDERS, "/dev"):
        options += ["--tmpfs", folder]
    for device in _DEVICES:  # --dev would mount twice as many
        options += ["--dev-bind", device, device]
    for link, target in _DEVICE_LINKS:
        options += ["--symlink", target, link]
    options += ["--dir", "/dev/shm", "--proc", "/proc"]  # noqa: S108  # a name in the sandbox
    for path in confinement.empty_folders:
        options += ["--dir", path]
    for path in sorted(confinement.readable, key=depth):
        options += ["--ro-bind", path, path]
    for link, target in confinement.links:
        options += ["--symlink", target, link]
    return options


def _writable_workspace(confinement: Confinement) -> list[str]:
    """Return options for a read-only view of the host in which the folders of the session are writable."""
    options = ["--ro-bind", "/", "/"]
    for folder in _COVERED_FOLDERS:
        if os.path.isdir(folder) and not os.path.islink(folder):  # noqa: PTH112, PTH114  # text
            options += ["--tmpfs", folder]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for path in sorted((path for path in confinement.readable if is_within_any(path, _COVERED_FOLDERS)), key=depth):
        options += ["--ro-bind", path, path]
    for path in sorted(confinement.writable, key=depth):
        options += ["--bind", path, path]
    for link, target in confinement.links:
        if is_within_any(link, _COVERED_FOLDERS):
            options += ["--symlink", target, link]
    return options


def _host_view(variant: BwrapVariant) -> list[str]:
    """Return options that show the host.

    Root does not see disks, and cannot write the files in /sys that make the kernel run programs (`uevent_helper`).
    """
    if not variant.is_root:
        return ["--dev-bind", "/", "/"]
    options = ["--bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys"]
    for device in _ROOT_DEVICES:
        options += ["--dev-bind-try", device, device]
    return options
