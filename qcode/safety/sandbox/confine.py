"""Walls a process in by Landlock and seccomp, then becomes the command: `confine.py R W PATH... ARGV...`.

Runs as a script in a fresh interpreter and imports as little as it can, nothing of qcode: it is in the way of every
command. The first R paths may be read and run from with all below them, the W after those written. No socket can be
made. Where a wall cannot be put up it ends with 126 and the command never runs.
Numbers are those of linux/landlock.h, linux/seccomp.h and the syscall tables.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP = 0b11
_SCOPES = 0b11
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_MACHINES = {
    # The kernel's word for the architecture, and the calls refused: making sockets; what reaches into other processes
    # (ptrace, process_vm_writev) or around this filter (io_uring_setup, keyctl, bpf); and what changes a file without
    # opening it, which Landlock has no say over: modes, owners, times, extended attributes.
    "x86_64": (
        0xC000003E,
        (
            41, 101, 311, 425, 250, 321, 90, 91, 268, 452, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198,
            199, 463, 466,
        ),
    ),
    "aarch64": (0xC00000B7, (198, 117, 271, 425, 219, 280, 52, 53, 452, 54, 55, 88, 5, 6, 7, 14, 15, 16, 463, 466)),
}  # fmt: skip
_LOAD, _EQUALS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
_OTHER_ABI = 0x40000000


class _NoWall(Exception):  # noqa: N818  # names what is missing
    """A wall that cannot be put up here."""


class _Kernel:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def call(self, what: str, function: str, *arguments: object) -> int:
        result: int = getattr(self._libc, function)(*arguments)
        if result < 0:
            raise _NoWall(f"{what}: {os.strerror(ctypes.get_errno())}")
        return result

    def landlock_version(self) -> int:
        return self.call("Landlock", "syscall", _CREATE_RULESET, None, 0, 1)


def _landlock(kernel: _Kernel, reading: list[str], writing: list[str]) -> None:
    version = kernel.landlock_version()
    every = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    fields = [every] if version < 4 else [every, _TCP] if version < 6 else [every, _TCP, _SCOPES]
    packed = struct.pack(f"={len(fields)}Q", *fields)
    rules = kernel.call("Landlock", "syscall", _CREATE_RULESET, packed, len(packed), 0)
    for path in reading:
        _grant(kernel, rules, path, _READING & every)
    for path in writing:
        _grant(kernel, rules, path, every & ~_IOCTL_DEV)
    for path in _DEVICES:
        _grant(kernel, rules, path, (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV) & every)
    kernel.call("Landlock", "syscall", _RESTRICT_SELF, rules, 0)
    os.close(rules)


def _grant(kernel: _Kernel, rules: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):  # noqa: PTH112  # pathlib costs as long to load as all the rest
            access &= _OF_FILES
        kernel.call("Landlock", "syscall", _ADD_RULE, rules, 1, struct.pack("=Qi", access, descriptor), 0)
    except _NoWall:
        return  # what cannot be granted stays forbidden
    finally:
        os.close(descriptor)


def _seccomp(kernel: _Kernel) -> None:
    known = _MACHINES.get(os.uname().machine)
    if known is None:
        raise _NoWall(f"seccomp: {os.uname().machine} is not known here")
    architecture, refused = known
    rows = [(_LOAD, 0, 0, 4), (_EQUALS, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    rows += [(_AT_LEAST, 0, 1, _OTHER_ABI), (_RETURN, 0, 0, _KILL)]
    for number in refused:
        rows += [(_EQUALS, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    rows.append((_RETURN, 0, 0, _ALLOW))
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *row) for row in rows))
    head = struct.pack("@HP", len(rows), ctypes.addressof(program))
    kernel.call("seccomp", "prctl", _SET_SECCOMP, _FILTER_MODE, head, 0, 0)


def main() -> int:
    reads, writes, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    argv = paths[reads + writes :]
    kernel = _Kernel()
    try:
        kernel.call("no_new_privs", "prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
        _landlock(kernel, paths[:reads], paths[reads : reads + writes])
        _seccomp(kernel)
    except _NoWall as error:
        os.write(2, f"qcode: the command was not run, it could not be confined ({error})\n".encode())
        return 126
    try:
        os.execv(argv[0], argv)  # noqa: S606  # the one thing this script is for
    except OSError as error:
        os.write(2, f"qcode: {argv[0]} could not be started: {error.strerror}\n".encode())
        return 127


if __name__ == "__main__":
    sys.exit(main())
