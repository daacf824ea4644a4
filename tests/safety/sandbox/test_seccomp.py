"""The filters of the sandbox: numbers as in the kernel's headers, and the effect of the programs in the kernel."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from qcode.safety.sandbox import seccomp
from qcode.safety.sandbox.seccomp import FilterName, UnknownMachine, filter_program

HEADERS = {
    0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    1: Path("/usr/include/asm-generic/unistd.h"),
}
NAMES: tuple[FilterName, ...] = ("read-only", "workspace", "landlock", "landlock-no-scopes")
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003


def tables() -> dict[str, tuple[int | None, int | None]]:
    found: dict[str, tuple[int | None, int | None]] = {}
    for name, table in vars(seccomp).items():
        if isinstance(table, dict) and name[1:].isupper() and name not in ("AUDIT_ARCH", "COLUMN_OF"):
            found |= table
    found |= {name: numbers for name, numbers, _ in seccomp.ON_PROCESS}
    single = {"socket": seccomp.SOCKET, "socketpair": seccomp.SOCKETPAIR, "clone": seccomp.CLONE}
    more = {"clone3": seccomp.CLONE3, "unshare": seccomp.UNSHARE, "ioctl": seccomp.IOCTL, "fcntl": seccomp.FCNTL}
    return found | single | more


@pytest.mark.parametrize("column", HEADERS)
def test_system_call_numbers_are_those_of_the_kernel(column: int) -> None:
    if not HEADERS[column].exists():
        pytest.skip(f"{HEADERS[column]} is missing")
    text = HEADERS[column].read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    wrong = {
        name: (numbers[column], known[name])
        for name, numbers in tables().items()
        if name in known and numbers[column] != known[name]
    }
    assert wrong == {}
    assert len(tables().keys() & known.keys()) > 40


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Return the answer of a filter, by running its instructions as bpf(4) describes them."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    rows = list(struct.iter_unpack("=HBBI", program))
    at, loaded = 0, 0
    while True:
        code, if_true, if_false, value = rows[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, value)
            case 0x54:
                loaded &= value
            case 0x06:
                return int(value)
            case _:
                holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                at += if_true if holds else if_false


def on_x86(name: FilterName, number: int, *arguments: int) -> int:
    return verdict(filter_program(name, "x86_64"), X86_64, number, *arguments)


@pytest.mark.parametrize("name", NAMES)
def test_other_system_call_abis_are_refused(name: FilterName) -> None:
    assert verdict(filter_program(name, "x86_64"), I386, 1) == KILL
    assert verdict(filter_program(name, "x86_64"), AARCH64, 1) == KILL
    assert verdict(filter_program(name, "aarch64"), X86_64, 1) == KILL
    assert on_x86(name, 0x40000000 | 1) == ENOSYS


@pytest.mark.parametrize("name", NAMES)
def test_ordinary_calls_are_allowed(name: FilterName) -> None:
    assert {on_x86(name, number) for number in (0, 1, 2, 9, 59, 60, 231, 257, 318)} == {ALLOW}
    assert on_x86(name, 16, 1, 0x5401) == ALLOW  # TCGETS
    assert on_x86(name, 56, 0x01200011) == ALLOW  # fork
    assert on_x86(name, 272, 0x400) == ALLOW  # unshare(CLONE_FILES)
    assert on_x86(name, 72, 1, 1) == ALLOW  # F_GETFD


@pytest.mark.parametrize("name", ["read-only", "workspace"])
def test_only_sockets_of_the_network_namespace_can_be_created(name: FilterName) -> None:
    families = {family for family in range(64) if on_x86(name, 41, family, 1) == ALLOW}
    assert families == {2, 10, 16}
    assert on_x86(name, 41, 1 << 32 | 1, 1) == EPERM  # the kernel ignores the upper half


@pytest.mark.parametrize("name", NAMES)
def test_only_connected_unix_socket_pairs_are_allowed(name: FilterName) -> None:
    allowed = {kind for kind in range(16) if on_x86(name, 53, 1, kind) == ALLOW}
    assert allowed == {1, 5}
    assert on_x86(name, 53, 1, 1 | 0o2000000 | 0o4000) == ALLOW
    assert on_x86(name, 53, 1, 2 | 0o2000000) == EPERM
    assert on_x86(name, 53, 30, 1) == EPERM


def test_filter_without_namespaces_refuses_sockets_and_path_changes() -> None:
    for name in ("landlock", "landlock-no-scopes"):
        calls = (41, 90, 91, 92, 132, 188, 235, 268, 280, 29, 68, 64, 240, 101, 310, 425)
        assert {on_x86(name, number, 2) for number in calls} == {EPERM}
        assert on_x86(name, 302, 0) == ALLOW
        assert on_x86(name, 302, 77) == EPERM
        assert on_x86(name, 141, 0, 0) == ALLOW
        assert on_x86(name, 141, 0, 77) == EPERM


def test_signals_are_refused_only_without_scopes() -> None:
    for number in (62, 200, 234, 129, 297, 424):
        assert on_x86("landlock", number) == ALLOW
        assert on_x86("landlock-no-scopes", number) == EPERM
    assert on_x86("landlock-no-scopes", 72, 1, 8) == EPERM  # F_SETOWN
    assert on_x86("landlock-no-scopes", 16, 1, 0x8901) == EPERM  # FIOSETOWN


def test_debugger_works_only_at_the_workspace_level() -> None:
    assert on_x86("workspace", 101) == ALLOW
    assert on_x86("read-only", 101) == EPERM


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_fits_one_pipe_and_every_jump_is_inside_it(name: FilterName, machine: str) -> None:
    program = filter_program(name, machine)
    assert len(program) <= 4096
    rows = list(struct.iter_unpack("=HBBI", program))
    for at, (code, if_true, if_false, _) in enumerate(rows):
        if code in (0x15, 0x35, 0x45):
            assert at + 1 + max(if_true, if_false) < len(rows)


def test_unknown_machine_has_no_filter() -> None:
    with pytest.raises(UnknownMachine):
        filter_program("read-only", "sparc64")
