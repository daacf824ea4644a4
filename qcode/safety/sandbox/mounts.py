"""The mounts of a sandbox if qcode runs as the root user.

The thread that starts bwrap makes these mounts, ten times as fast as bwrap. The thread gets its own root folder and
mount namespace (mount_namespaces(7)), which bwrap copies. It cannot return to the old ones, so it starts only one
command. `bubblewrap` loads this module only for the root user, because `kernel` needs ctypes.

Paths are text, as in `Confinement`; `# text` is the reason for each call of `os` instead of `Path`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence

from qcode.safety.protected_paths import is_within_any
from qcode.safety.sandbox import kernel
from qcode.safety.sandbox.confinement import EMPTY_FILE, Confinement, depth

_NEW_ROOT = "/sys"
"""The mount point of the new root folder until it is complete. It can be any folder that is not needed meanwhile."""
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}


def build_root(confinement: Confinement, covered_folders: Sequence[str], devices: Sequence[str] = ()) -> None:
    """Build the root folder of a confined command, and make it the root of the calling thread.

    Empty folders cover `covered_folders` (`/run`, `/tmp`, `/var/tmp`), except at the level `protect`. `devices` are
    added to the default devices. The thread still sees the host's /proc, because bwrap needs it; bwrap covers it for
    the command.
    """
    kernel.separate_mounts()
    readable_in_covered = tuple(path for path in confinement.readable if is_within_any(path, covered_folders))
    if confinement.level == "read-only":
        _show_readable(confinement, covered_folders, readable_in_covered)
    else:
        kernel.bind("/", _NEW_ROOT)
        kernel.restrict_mount(_NEW_ROOT, is_read_only=confinement.level == "workspace")
    if confinement.level != "protect":
        for folder in filter(_is_folder, covered_folders):
            kernel.mount_empty(f"{_NEW_ROOT}{folder}")
    for path in confinement.empty_folders:
        if is_within_any(path, covered_folders):
            os.makedirs(f"{_NEW_ROOT}{path}", exist_ok=True)  # noqa: PTH103  # text
    for path in sorted(readable_in_covered, key=depth):
        _show(path)
    for link, target in confinement.links:
        if not os.path.lexists(f"{_NEW_ROOT}{link}"):
            os.makedirs(os.path.dirname(f"{_NEW_ROOT}{link}"), exist_ok=True)  # noqa: PTH103, PTH120  # text
            os.symlink(target, f"{_NEW_ROOT}{link}")  # noqa: PTH211  # text
    for path in sorted(confinement.writable, key=depth):
        os.makedirs(f"{_NEW_ROOT}{path}", exist_ok=True)  # noqa: PTH103  # text
        _bind(path, f"{_NEW_ROOT}{path}")
    # A mount point cannot be renamed or removed.
    for path in confinement.pinned_folders:
        _bind(path, f"{_NEW_ROOT}{path}")
    for path in confinement.protected_paths:
        _bind(path, f"{_NEW_ROOT}{path}", is_read_only=True)
    _hide(confinement.hidden_paths, confinement.masked_files)
    if confinement.level == "protect":
        # With write access, root could make the kernel run a program: /sys/kernel/uevent_helper contains its path.
        kernel.restrict_mount(f"{_NEW_ROOT}/sys", is_read_only=True)
    _make_devices(f"{_NEW_ROOT}/dev", devices)
    if confinement.level == "read-only":
        kernel.bind("/proc", f"{_NEW_ROOT}/proc")
        kernel.forbid_setuid(f"{_NEW_ROOT}/proc")
        kernel.restrict_mount(_NEW_ROOT, is_read_only=True, is_recursive=False)
    kernel.enter_root(_NEW_ROOT)
    if confinement.level != "protect":
        # Without CAP_DAC_OVERRIDE, root cannot write to folders in /proc. bwrap then omits its own read-only mounts
        # there; its option `--remount-ro /proc` makes all of /proc read-only.
        kernel.forbid_capability(kernel.DAC_OVERRIDE)


def _show_readable(
    confinement: Confinement, covered_folders: Sequence[str], readable_in_covered: Sequence[str]
) -> None:
    """Create a root folder with the readable folders that are not below a covered folder."""
    kernel.mount_empty(_NEW_ROOT)
    empty = [path for path in confinement.empty_folders if not is_within_any(path, covered_folders)]
    for folder in (*covered_folders, "/dev", "/proc", *empty):
        os.makedirs(f"{_NEW_ROOT}{folder}", exist_ok=True)  # noqa: PTH103  # text
    for path in sorted(set(confinement.readable) - set(readable_in_covered), key=depth):
        _show(path)


def _hide(hidden_paths: Sequence[str], masked_files: Sequence[str]) -> None:
    """Cover each existing path with an empty folder or file. `masked_files` must not contain folders."""
    if hidden_paths or masked_files:
        # A bind mount inherits the flags of its source: make EMPTY_FILE read-only once instead of each copy.
        _bind(EMPTY_FILE, EMPTY_FILE, is_read_only=True)
    folders = set(filter(os.path.isdir, hidden_paths))
    for path in (*hidden_paths, *masked_files):
        target = f"{_NEW_ROOT}{path}"
        with contextlib.suppress(FileNotFoundError):
            if path in folders:
                kernel.cover(target)
            else:
                kernel.bind(EMPTY_FILE, target)


def _bind(source: str, target: str, *, is_read_only: bool = False) -> None:
    """Mount `source` at `target`, if both still exist."""
    with contextlib.suppress(FileNotFoundError):
        kernel.bind(source, target)
        if is_read_only:
            kernel.restrict_mount(target, is_read_only=True)


def _show(path: str) -> None:
    """Show a folder or a file of the host in the new root, read-only."""
    target = f"{_NEW_ROOT}{path}"
    if os.path.isdir(path):  # noqa: PTH112  # text
        os.makedirs(target, exist_ok=True)  # noqa: PTH103  # text
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120  # text
        _make_file(target)
    _bind(path, target, is_read_only=True)


def _make_devices(folder: str, added_devices: Iterable[str]) -> None:
    """Create the devices of a confined command in `folder`."""
    kernel.mount_empty(folder, has_devices=True)
    for name in _DEVICES:
        _make_device(f"/dev/{name}", f"{folder}/{name}")
    for name, target in _LINKS.items():
        os.symlink(target, f"{folder}/{name}")  # noqa: PTH211  # text
    for name in ("pts", "shm"):
        os.mkdir(f"{folder}/{name}")  # noqa: PTH102  # text
    kernel.mount_terminals(f"{folder}/pts")
    for path in added_devices:
        name = path.removeprefix("/dev/")
        if os.path.isdir(path):  # noqa: PTH112  # text
            os.makedirs(f"{folder}/{name}", exist_ok=True)  # noqa: PTH103  # text
        elif os.path.exists(path):  # noqa: PTH110  # text
            _make_file(f"{folder}/{name}")
        else:
            continue
        _bind(path, f"{folder}/{name}")
    kernel.forbid_setuid(folder)


def _make_device(device: str, target: str) -> None:
    """Create the same device at `target`. If this is not permitted, as in a container, mount the device there."""
    info = os.stat(device)  # noqa: PTH116  # text
    try:
        os.mknod(target, stat.S_IFMT(info.st_mode), info.st_rdev)
    except PermissionError:
        _make_file(target)
        _bind(device, target)
    else:
        os.chmod(target, info.st_mode)  # noqa: PTH101  # text


def _make_file(target: str) -> None:
    if not os.path.lexists(target):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114  # text
