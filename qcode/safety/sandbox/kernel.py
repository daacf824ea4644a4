"""System calls that restrict the calling thread: capabilities, Landlock, seccomp, private mounts.

They affect only the calling thread and its children, unlike the functions of glibc for users and groups, which change
every thread of a process. Numbers are from linux/prctl.h, capability.h, landlock.h, sched.h and mount.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct

_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS
_SET_SECCOMP = 22  # PR_SET_SECCOMP
_FILTER_MODE = 2  # SECCOMP_MODE_FILTER
_SET_KEEPCAPS = 8  # PR_SET_KEEPCAPS
_BOUNDING_DROP = 24  # PR_CAPBSET_DROP
_SET_SECUREBITS = 28  # PR_SET_SECUREBITS
_AMBIENT = 47  # PR_CAP_AMBIENT
_AMBIENT_CLEAR_ALL = 4  # PR_CAP_AMBIENT_CLEAR_ALL
_SECUREBITS = 0b1110_1111
"""NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, each locked, and KEEP_CAPS locked in its off state."""
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_MAX_CAPABILITY = 63
DAC_OVERRIDE = 1  # CAP_DAC_OVERRIDE
"""The right of root to open any file."""
# capset, capget, pivot_root
_NUMBERS = {"x86_64": (126, 125, 155), "aarch64": (91, 90, 41)}
_CAPSET, _CAPGET, _PIVOT_ROOT = _NUMBERS.get(os.uname().machine, (-1, -1, -1))
_NEW_MOUNTS = 0x20000  # CLONE_NEWNS
_DETACH = 2  # MNT_DETACH
_MOUNT_SETATTR = 442  # mount_setattr
_AT_CWD = -100  # AT_FDCWD
_AT_RECURSIVE = 0x8000  # AT_RECURSIVE
# For both `mount` and `mount_setattr`: MS_RDONLY equals MOUNT_ATTR_RDONLY, and so on.
_READ_ONLY = 0x1
_NO_SUID = 0x2
_NO_DEV = 0x4
_NO_EXEC = 0x8
_BIND = 0x1000  # MS_BIND
_RECURSIVE = 0x4000  # MS_REC
_PRIVATE = 0x40000  # MS_PRIVATE
_CREATE_RULESET = 444  # landlock_create_ruleset
_ADD_RULE = 445  # landlock_add_rule
_RESTRICT_SELF = 446  # landlock_restrict_self
_GET_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH

_libc = ctypes.CDLL(None, use_errno=True)


def call(purpose: str, function: str, *arguments: object) -> int:
    """Call a function of the C library and return its result; raise `OSError` with `purpose` if it fails."""
    # ctypes passes a plain int as a 32-bit C int, but the arguments of system calls have 64 bits.
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    result: int = getattr(_libc, function)(*words)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{purpose}: {os.strerror(number)}")
    return result


def landlock_version() -> int:
    """Return the version of the Landlock ABI, 0 if the kernel has none."""
    try:
        return call("Landlock", "syscall", _CREATE_RULESET, None, 0, _GET_VERSION)
    except OSError:
        return 0


def landlock_ruleset(fields: list[int]) -> int:
    """Return the file descriptor of a new ruleset; `fields` is struct landlock_ruleset_attr."""
    packed = struct.pack(f"={len(fields)}Q", *fields)
    return call("Landlock", "syscall", _CREATE_RULESET, packed, len(packed), 0)


def landlock_grant(ruleset: int, descriptor: int, access: int) -> None:
    """Grant `access` below an open folder, or to an open file."""
    call("Landlock", "syscall", _ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)


def landlock_restrict(ruleset: int) -> None:
    call("Landlock", "syscall", _RESTRICT_SELF, ruleset, 0)


def forbid_new_privileges() -> None:
    call("no_new_privs", "prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)


def load_filter(program: bytes) -> None:
    """Load a seccomp filter. Call `forbid_new_privileges` first."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    call("seccomp", "prctl", _SET_SECCOMP, _FILTER_MODE, header, 0, 0)


def drop_capabilities() -> None:
    """Drop every capability permanently; raise `OSError` if one remains. Call `forbid_new_privileges` first.

    no_new_privs prevents programs that root starts from regaining capabilities. The bounding set and the securebits
    ensure the same independently, if the thread may set them.
    """
    with contextlib.suppress(OSError):
        call("keepcaps", "prctl", _SET_KEEPCAPS, 0, 0, 0, 0)
    with contextlib.suppress(OSError):
        call("securebits", "prctl", _SET_SECUREBITS, _SECUREBITS, 0, 0, 0)
    with contextlib.suppress(OSError):
        for number in range(_MAX_CAPABILITY + 1):
            call("bounding set", "prctl", _BOUNDING_DROP, number, 0, 0, 0)
    with contextlib.suppress(OSError):
        call("ambient set", "prctl", _AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    call("capset", "syscall", _CAPSET, header, bytes(24))
    remaining = ctypes.create_string_buffer(24)
    call("capget", "syscall", _CAPGET, header, remaining)
    if any(remaining.raw):
        raise OSError(errno.EPERM, "capabilities are left")


def forbid_capability(number: int) -> None:
    """Deny a capability to every program that the thread starts, even as root."""
    call("bounding set", "prctl", _BOUNDING_DROP, number, 0, 0, 0)


def separate_mounts() -> None:
    """Give the thread a private copy of all mounts."""
    call("mount namespace", "unshare", _NEW_MOUNTS)
    call("private mounts", "mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)


def bind(source: str, target: str) -> None:
    """Show `source` at `target`, including the mounts below it."""
    call(f"mount {target}", "mount", os.fsencode(source), os.fsencode(target), None, _BIND | _RECURSIVE, None)


def restrict_mount(target: str, *, is_read_only: bool, is_recursive: bool = True) -> None:
    """Forbid device nodes and set-user-ID bits at a mount and the mounts below it, and optionally writes."""
    attributes = _NO_SUID | _NO_DEV | (_READ_ONLY if is_read_only else 0)
    _set_attributes(target, attributes, is_recursive=is_recursive)


def forbid_setuid(target: str) -> None:
    """Ignore set-user-ID bits at a mount and the mounts below it. bwrap does the same with one call for each mount."""
    _set_attributes(target, _NO_SUID, is_recursive=True)


def _set_attributes(target: str, attributes: int, *, is_recursive: bool) -> None:
    """Set attributes of a mount, and of the mounts below it if `is_recursive`."""
    packed = struct.pack("=4Q", attributes, 0, 0, 0)  # struct mount_attr
    at_flags = _AT_RECURSIVE if is_recursive else 0
    call(f"mount {target}", "syscall", _MOUNT_SETATTR, _AT_CWD, os.fsencode(target), at_flags, packed, len(packed))


def cover(folder: str) -> None:
    """Cover `folder` with an empty one."""
    flags = _READ_ONLY | _NO_SUID | _NO_DEV | _NO_EXEC
    call(f"mount {folder}", "mount", b"tmpfs", os.fsencode(folder), b"tmpfs", flags, b"size=4k,mode=755")


def mount_empty(target: str, *, has_devices: bool = False) -> None:
    """Mount an empty writable folder, optionally for device nodes."""
    flags = _NO_SUID | (0 if has_devices else _NO_DEV)
    call(f"mount {target}", "mount", b"tmpfs", os.fsencode(target), b"tmpfs", flags, b"mode=755")


def mount_terminals(target: str) -> None:
    """Mount a private folder of pseudo-terminals."""
    data = b"newinstance,ptmxmode=0666,mode=620"
    call(f"mount {target}", "mount", b"devpts", os.fsencode(target), b"devpts", _NO_SUID | _NO_EXEC, data)


def enter_root(target: str) -> None:
    """Make a mounted folder the root of the thread, and detach the old root."""
    call("root", "chdir", os.fsencode(target))
    call("root", "syscall", _PIVOT_ROOT, b".", b".")
    call("old root", "umount2", b".", _DETACH)
    call("root", "chdir", b"/")
