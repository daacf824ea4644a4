"""The seccomp filters of the sandbox: the system calls that a confined command may not make. Pure.

A filter is a classic BPF program in the form that `prctl(PR_SET_SECCOMP)` and `bwrap --seccomp` take (seccomp(2)).
Numbers are those of the syscall tables and of the headers in linux/ and asm-generic/.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

FilterName: TypeAlias = Literal["read-only", "workspace", "landlock", "landlock-no-scopes"]
"""The name of a filter.

With `landlock` there are no namespaces, so the filter also refuses calls that affect other processes or that change a
file without opening it. `landlock-no-scopes` is for kernels on which Landlock cannot restrict signals.
"""

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# The index of a machine in `Numbers`.
COLUMN_OF = {"x86_64": 0, "aarch64": 1}
_X32 = 0x40000000  # the bit in the numbers of calls of the x32 ABI

_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS = 0x00050001, 0x00050026
"""The results of a filter: the last two refuse the call with an error."""
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUALS, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
"""Opcodes of BPF; those in the second line jump."""
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
"""Offsets in struct seccomp_data, which describes the call."""


class Instruction(NamedTuple):
    """An instruction of BPF."""

    opcode: int
    operand: int
    skips_if_true: int = 0
    """The number of instructions to skip if a test is true."""
    skips_if_false: int = 0
    """The number of instructions to skip if a test is false."""


Numbers: TypeAlias = tuple[int | None, int | None]
"""The number of a call on x86_64 and on aarch64, None if the machine has no such call."""

# Calls that could lead out of the sandbox, such as mounts, or that reach risky interfaces of the kernel.
_BYPASSES: dict[str, Numbers] = {
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "userfaultfd": (323, 282), "perf_event_open": (298, 241), "open_by_handle_at": (304, 265),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "setns": (308, 268),
    "pidfd_getfd": (438, 438),
}  # fmt: skip
_OTHER_PROCESSES: dict[str, Numbers] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}  # fmt: skip
_SHARED_OBJECTS: dict[str, Numbers] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191),
    "semtimedop": (220, 192), "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
# Modes, owners, times and extended attributes change without opening the file, which Landlock does not restrict.
_METADATA: dict[str, Numbers] = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
_SIGNALS: dict[str, Numbers] = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
}  # fmt: skip
# Calls on another process: refused unless the argument at this index is 0, the caller itself.
ON_PROCESS: tuple[tuple[str, Numbers, int], ...] = (
    ("prlimit64", (302, 261), 0),
    ("setpriority", (141, 140), 1),
    ("ioprio_set", (251, 30), 1),
    ("sched_setaffinity", (203, 122), 0),
    ("sched_setscheduler", (144, 119), 0),
    ("sched_setparam", (142, 118), 0),
    ("sched_setattr", (314, 274), 0),
)
SOCKET, SOCKETPAIR, CLONE, CLONE3 = (41, 198), (53, 199), (56, 220), (435, 435)
UNSHARE, IOCTL, FCNTL = (272, 97), (16, 29), (72, 25)
_INTERNET = (2, 10, 16)
"""AF_INET, AF_INET6 and AF_NETLINK. Without a network in its namespace, such a socket reaches nothing.

A namespace does not stop AF_VSOCK, or AF_UNIX with a path.
"""
_AF_UNIX = 1
_SOCKET_TYPE_MASK = 0xF
_CONNECTED_TYPES = (1, 5)
"""SOCK_STREAM and SOCK_SEQPACKET: a pair stays connected. A datagram socket can connect to another path."""
_NEW_NAMESPACES = 0x7E020000  # all flags CLONE_NEW… of clone(2) and unshare(2)
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: inject input into a terminal."""
_FLAGS_OF_FILE = (0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602)
"""FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, with their 32-bit forms: an open for reading is enough."""
_SIGNAL_OWNERS = (0x8901, 0x8902)
"""FIOSETOWN and SIOCSPGRP: make the kernel send a signal to any process."""
_SETS_OWNER = (8, 10, 15)
"""F_SETOWN, F_SETSIG and F_SETOWN_EX: the same with fcntl."""


class UnknownMachine(Exception):  # noqa: N818  # the name of the machine
    """There is no table of system calls for this machine."""


@cache
def filter_program(name: FilterName, machine: str) -> bytes:
    """Return the filter for a machine as named by `os.uname`. Raise `UnknownMachine` if its calls are not known."""
    if machine not in AUDIT_ARCH:
        raise UnknownMachine(machine)
    column = COLUMN_OF[machine]
    program = [
        Instruction(_LOAD, _ARCH_AT),
        Instruction(_EQUALS, AUDIT_ARCH[machine], skips_if_true=1),
        _returns(_KILL),
        Instruction(_LOAD, _NUMBER_AT),
    ]
    if machine == "x86_64":
        program += [Instruction(_AT_LEAST, _X32, skips_if_false=1), _returns(_ENOSYS)]
    for numbers in _refused_numbers(name):
        if (number := numbers[column]) is not None:
            program += [Instruction(_EQUALS, number, skips_if_false=1), _returns(_EPERM)]
    for numbers, block in _conditions(name):
        if (number := numbers[column]) is not None:
            program += [Instruction(_EQUALS, number, skips_if_false=len(block)), *block]
    program.append(_returns(_ALLOW))
    return b"".join(map(_packed, program))


def _packed(instruction: Instruction) -> bytes:
    """Return an instruction as struct sock_filter."""
    opcode, operand, skips_if_true, skips_if_false = instruction
    return struct.pack("=HBBI", opcode, skips_if_true, skips_if_false, operand)


def _refused_numbers(name: FilterName) -> Iterator[Numbers]:
    """Yield the calls that the filter refuses whatever their arguments are."""
    yield from _BYPASSES.values()
    if name != "workspace":  # debuggers need these calls, and the PID namespace contains no other processes
        yield from _OTHER_PROCESSES.values()
    if name in ("landlock", "landlock-no-scopes"):
        yield SOCKET
        yield from _SHARED_OBJECTS.values()
        yield from _METADATA.values()
    if name == "landlock-no-scopes":
        yield from _SIGNALS.values()


def _conditions(name: FilterName) -> Iterator[tuple[Numbers, list[Instruction]]]:
    """Yield calls with the instructions that decide on them; each block ends with a return."""
    is_landlock = name in ("landlock", "landlock-no-scopes")
    if not is_landlock:
        yield SOCKET, _refuse_unless(0, _INTERNET)
    yield SOCKETPAIR, [*_require_one_of(0, (_AF_UNIX,)), *_refuse_unless(1, _CONNECTED_TYPES, _SOCKET_TYPE_MASK)]
    yield CLONE, _allow_without_bits(0, _NEW_NAMESPACES)
    yield UNSHARE, _allow_without_bits(0, _NEW_NAMESPACES)
    yield CLONE3, [_returns(_ENOSYS)]  # its flags are in memory, which a filter cannot read; glibc falls back to clone
    controls: tuple[int, ...] = _TERMINAL_INPUT
    if is_landlock:
        controls += _FLAGS_OF_FILE
        for _, numbers, argument in ON_PROCESS:
            yield numbers, _refuse_unless(argument, (0,))
    if name == "landlock-no-scopes":
        controls += _SIGNAL_OWNERS
        yield FCNTL, _allow_unless(1, _SETS_OWNER)
    yield IOCTL, _allow_unless(1, controls)


def _returns(action: int) -> Instruction:
    return Instruction(_RETURN, action)


def _load(argument: int, mask: int | None) -> list[Instruction]:
    # Load the lower half: the kernel ignores the upper half of these arguments. Both machines are little-endian.
    load = Instruction(_LOAD, _ARGUMENTS_AT + 8 * argument)
    return [load] if mask is None else [load, Instruction(_AND, mask)]


def _tests(values: Sequence[int]) -> list[Instruction]:
    """Return tests that skip the instruction after them if the loaded value is one of `values`.

    Example: of two tests, the first skips two instructions if it is true, the second test and the instruction after it.
    """
    return [Instruction(_EQUALS, value, skips_if_true=len(values) - index) for index, value in enumerate(values)]


def _require_one_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    """Return instructions that refuse the call unless the argument has one of the values."""
    return [*_load(argument, None), *_tests(values), _returns(_EPERM)]


def _refuse_unless(argument: int, values: Sequence[int], mask: int | None = None) -> list[Instruction]:
    """Return instructions that allow the call if the masked argument has one of the values, and refuse it otherwise."""
    return [*_load(argument, mask), *_tests(values), _returns(_EPERM), _returns(_ALLOW)]


def _allow_unless(argument: int, values: Sequence[int]) -> list[Instruction]:
    """Return instructions that refuse the call if the argument has one of the values, and allow it otherwise."""
    return [*_load(argument, None), *_tests(values), _returns(_ALLOW), _returns(_EPERM)]


def _allow_without_bits(argument: int, bits: int) -> list[Instruction]:
    """Return instructions that refuse the call if the argument has any of the bits, and allow it otherwise."""
    test = Instruction(_ANY_BIT, bits, skips_if_true=1)
    return [*_load(argument, None), test, _returns(_ALLOW), _returns(_EPERM)]
