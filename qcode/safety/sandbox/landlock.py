"""Confinement of the thread that starts a command, by Landlock, seccomp and dropped capabilities.

Landlock only grants access and cannot exclude a path below a granted folder. So this module supports only the level
`read-only`, and secret files in the workspace (`masked_files`) stay readable. Landlock hides the content of files, not
their names. Without namespaces, a seccomp filter or a Landlock scope refuses system calls that affect other processes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence

from qcode.safety.protected_paths import KERNEL_FOLDERS, is_within, is_within_any
from qcode.safety.sandbox import kernel
from qcode.safety.sandbox.confinement import Confinement
from qcode.safety.sandbox.seccomp import FilterName, UnknownMachine, filter_program

MIN_VERSION = 3
"""The first version of the Landlock ABI that can forbid truncating a file."""
_TCP_VERSION = 4
"""The first version that can restrict TCP."""
_IOCTL_VERSION = 5
"""The first version that can restrict ioctl(2) on devices."""
_SCOPES_VERSION = 6
"""The first version that can restrict signals and abstract UNIX sockets."""

# The rights LANDLOCK_ACCESS_FS_… that are granted.
_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_DIR = 1 << 3
_TRUNCATE = 1 << 14
_IOCTL_DEV = 1 << 15  # since version 5
_READ_RIGHTS = _EXECUTE | _READ_FILE | _READ_DIR
_RIGHTS_BEFORE_5 = (1 << 15) - 1
_RIGHTS_SINCE_5 = (1 << 16) - 1
_TCP = 0b11  # bind and connect
_SCOPES = 0b11  # abstract UNIX sockets and signals
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Not /proc/self: the grant would be for the /proc folder of qcode itself. Open file descriptors need no grant.
_PROC_FILES = ("/proc/cpuinfo", "/proc/meminfo", "/proc/filesystems", "/proc/version", "/proc/loadavg", "/proc/uptime")


def version() -> int:
    """Return the version of the Landlock ABI, 0 if Landlock or the machine's system calls are unknown."""
    try:
        filter_program("landlock", os.uname().machine)
    except UnknownMachine:
        return 0
    return kernel.landlock_version()


def restriction(confinement: Confinement) -> Callable[[], None]:
    """Return a function that confines the calling thread and its children, or raises `OSError`.

    Raise `ValueError` for a level other than `read-only`.
    """
    if confinement.level != "read-only":
        raise ValueError(f"Landlock does not support the level {confinement.level}")

    def restrict() -> None:
        abi_version = version()
        if abi_version < MIN_VERSION:
            raise OSError(errno.ENOSYS, "Landlock is missing")
        ruleset = _ruleset(confinement, abi_version)
        try:
            kernel.forbid_new_privileges()
            kernel.drop_capabilities()
            kernel.landlock_restrict(ruleset)
        finally:
            os.close(ruleset)
        name: FilterName = "landlock" if abi_version >= _SCOPES_VERSION else "landlock-no-scopes"
        kernel.load_filter(filter_program(name, os.uname().machine))
        _check_confined()

    return restrict


def _check_confined() -> None:
    """Raise `OSError` if the thread can still open a socket or the root folder."""
    with contextlib.suppress(PermissionError), socket.socket(socket.AF_UNIX):
        raise OSError(errno.EIO, "the restriction of the thread lets sockets through")
    with contextlib.suppress(PermissionError):
        os.close(os.open("/", os.O_RDONLY))
        raise OSError(errno.EIO, "the restriction of the thread lets files through")


def _ruleset(confinement: Confinement, abi_version: int) -> int:
    """Return the descriptor of a ruleset that grants the access of `confinement`. The caller closes it."""
    all_rights = _RIGHTS_SINCE_5 if abi_version >= _IOCTL_VERSION else _RIGHTS_BEFORE_5
    fields = [all_rights]  # struct landlock_ruleset_attr
    fields += [_TCP] if abi_version >= _TCP_VERSION else []
    fields += [_SCOPES] if abi_version >= _SCOPES_VERSION else []
    ruleset = kernel.landlock_ruleset(fields)
    try:
        for folder in confinement.readable:
            for path in _grantable(folder, confinement.hidden_paths):
                _grant(ruleset, path, _READ_RIGHTS)
        for path in _PROC_FILES:
            _grant(ruleset, path, _READ_FILE)
        for path in _DEVICES:
            _grant(ruleset, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV) & all_rights)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def _grantable(folder: str, hidden: Sequence[str]) -> Iterator[str]:
    """Yield `folder` if it contains no hidden path, otherwise the topmost paths in it that contain none.

    Example: if `/etc/ssh/key` is hidden, `/etc` gives its other entries and the other entries of `/etc/ssh`.
    """
    hidden_inside = [path for path in hidden if is_within(path, folder)]
    if folder in hidden_inside or is_within_any(folder, KERNEL_FOLDERS):
        return
    if not hidden_inside and not any(is_within(protected, folder) for protected in KERNEL_FOLDERS):
        yield folder
        return
    try:
        with os.scandir(folder) as scanned:
            # A grant for a link would apply to its target, which may contain hidden paths.
            children = [entry.path for entry in scanned if not entry.is_symlink()]
    except OSError:
        return
    for child in children:
        yield from _grantable(child, hidden_inside)


def _grant(ruleset: int, path: str, access: int) -> None:
    """Grant access to a path. If this fails, the path stays inaccessible."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = os.path.isdir(path)  # noqa: PTH112  # text
        kernel.landlock_grant(ruleset, descriptor, access if is_folder else access & ~_READ_DIR)
    except OSError:
        return
    finally:
        os.close(descriptor)
