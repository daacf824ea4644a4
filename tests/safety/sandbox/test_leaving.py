"""Real programs try to leave each level of each kind of sandbox that works here."""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from qcode.safety.verdict import Level
from tests.safety.sandbox.attempts import KERNEL, LIFTS, PROCESSES, SOCKETS, WRITES, program
from tests.safety.sandbox.running import Box

CONFINED: tuple[Level, ...] = ("read-only", "workspace")
X86_64 = platform.machine() == "x86_64"


@pytest.fixture
def victim(box: Box) -> Iterator[subprocess.Popen[bytes]]:
    """A process outside, in the folder outside, with a secret in its environment."""
    process = subprocess.Popen(["/bin/sleep", "60"], cwd=box.outside, env={"CANARY": "x"}, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def escapes(box: Box, level: Level, ways: dict[str, str], *arguments: str) -> list[str]:
    """Return the ways that led out of the sandbox; each of them was tried to its end."""
    lines = box.python(level, program(ways), *arguments).text.splitlines()
    tried = [line.removeprefix("TRIED ") for line in lines if line.startswith("TRIED ")]
    # In a separate namespace, a signal to every process also ends the attempts.
    assert tried == list(ways) or list(ways)[-1] == "signal to everybody", lines
    assert not [line for line in lines if line.startswith("BROKEN")], lines
    return [line for line in lines if line.startswith("LEFT")]


def state(path: Path) -> tuple[object, ...]:
    info = path.stat()
    return path.read_text(), info.st_mode, info.st_uid, info.st_mtime, tuple(os.listxattr(path))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
def test_command_changes_nothing_outside_the_sandbox(box: Box, victim: subprocess.Popen[bytes], level: Level) -> None:
    kept_path = box.outside / "kept"
    kept_path.write_text("kept\n")
    os.utime(kept_path, (1_000_000_000, 1_000_000_000))
    before = state(kept_path)
    assert escapes(box, level, WRITES, str(box.outside), str(victim.pid)) == []
    assert [path.name for path in box.outside.iterdir()] == ["kept"]
    assert state(kept_path) == before


def test_read_only_command_changes_nothing_in_the_workspace(box: Box) -> None:
    kept_path = box.work / "kept"
    kept_path.write_text("kept\n")
    before = state(kept_path)
    assert escapes(box, "read-only", WRITES, str(box.work), "1") == []
    assert not (box.work / "made").exists()
    assert state(kept_path) == before


@pytest.mark.sampled(3)
@pytest.mark.skipif(not X86_64, reason="the numbers of the calls are those of x86_64")
@pytest.mark.parametrize("level", CONFINED)
def test_command_cannot_change_the_machine(box: Box, level: Level) -> None:
    assert escapes(box, level, KERNEL) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
@pytest.mark.parametrize(
    "command",
    [
        'date -s "$(date +%FT%T.%N)"',
        'hostname "$(hostname)"',
        "mount -t tmpfs none src",
        "umount /proc",
        "unshare -Ur true",
    ],
)
def test_programs_that_change_the_machine_fail(box: Box, level: Level, command: str) -> None:
    done = box.run(level, command)
    assert done.code != 0, done.text


class Services:
    """Sockets of each kind that listen outside; `reached` names those that a client reached."""

    def __init__(self, folder: Path) -> None:
        self.abstract = f"qcode-test-{os.getpid()}-{time.time_ns()}"
        self._stream = self._listening(socket.AF_UNIX, str(folder / "s.sock"))
        self._abstract = self._listening(socket.AF_UNIX, f"\0{self.abstract}")
        self._datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._datagram.bind(str(folder / "d.sock"))
        self._tcp = self._listening(socket.AF_INET, ("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self.arguments = (
            str(folder / "s.sock"),
            str(folder / "d.sock"),
            self.abstract,
            str(self._tcp.getsockname()[1]),
            str(self._udp.getsockname()[1]),
        )

    @staticmethod
    def _listening(family: int, address: object) -> socket.socket:
        server = socket.socket(family)
        server.bind(address)  # type: ignore[arg-type]  # a path or a pair, as the family wants it
        server.listen()
        return server

    def reached(self) -> list[str]:
        found = []
        for name in ("_stream", "_abstract", "_datagram", "_tcp", "_udp"):
            server: socket.socket = getattr(self, name)
            server.setblocking(False)
            try:
                server.accept()[0].close() if server.type == socket.SOCK_STREAM else server.recv(16)
                found.append(name)
            except BlockingIOError:
                pass
        return found

    def close(self) -> None:
        for server in (self._stream, self._abstract, self._datagram, self._tcp, self._udp):
            server.close()


@pytest.fixture
def services(box: Box) -> Iterator[Services]:
    folder = box.home / ".colima"
    folder.mkdir()
    found = Services(folder)
    yield found
    found.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
def test_command_reaches_no_service_outside(box: Box, services: Services, level: Level) -> None:
    assert escapes(box, level, SOCKETS, *services.arguments) == []
    assert services.reached() == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
def test_command_reaches_no_socket_in_the_workspace(box: Box, level: Level) -> None:
    server = Services(box.work)
    try:
        assert escapes(box, level, SOCKETS, *server.arguments) == []
        assert server.reached() == []
    finally:
        server.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
def test_connected_socket_pair_still_works(box: Box, level: Level) -> None:
    body = "a, b = socket.socketpair(); a.send(b'through'); b.recv(9) == b'through' and left('works')"
    assert len(escapes(box, level, {"pair": body})) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
def test_command_reaches_no_process_outside(box: Box, victim: subprocess.Popen[bytes], level: Level) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x71C0DE
    segment = libc.shmget(key, 1, 0o1600)
    ways = dict(PROCESSES)
    if box.kind == "bubblewrap":  # without a namespace, a failure of the sandbox would end the test itself
        ways |= {"signal to everybody": "os.kill(-1, 9)"}
    try:
        assert escapes(box, level, ways, str(victim.pid), str(key)) == []
        assert victim.poll() is None
    finally:
        libc.shmctl(segment, 0, None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", CONFINED)
def test_sandbox_inherits_no_file_descriptor(box: Box, level: Level) -> None:
    body = "for n in range(3, 256):\n    try: os.fstat(n)\n    except OSError: continue\n    left(n)"
    with (box.outside / "open").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        assert escapes(box, level, {"descriptors": body}) == []


@pytest.mark.skipif(not X86_64, reason="other machines have no second set of system calls")
@pytest.mark.parametrize("level", CONFINED)
def test_system_calls_of_another_abi_are_refused(box: Box, level: Level) -> None:
    # mov eax, 20 (getpid of i386); int 0x80; ret
    i386 = (
        "import mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3');"
        " f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)));"
        " f() > 0 and left()"
    )
    assert escapes(box, level, {"x32": "call(0x40000000 | 39)[0] >= 0 and left()", "i386": i386}) == []


SECRETS_OUTSIDE = (
    "~/notes.txt",
    "~/.ssh/id_ed25519",
    "~/.netrc",
    "/proc/self/root$HOME/notes.txt",
    "/proc/1/root$HOME/notes.txt",
    "home-link",
    "key-link",
)
SECRETS_IN_WORKSPACE = (
    ".env",
    "env-link",
    "env-name",
    "/proc/self/root$PWD/.env",
    "node_modules/x/server.key",
    "src/.ENV.local",
    "src/plain.txt",
    ".git/config",
)


def with_secrets(box: Box) -> None:
    (box.work / "node_modules/x").mkdir(parents=True)
    (box.work / "node_modules/x/server.key").write_text("CANARY-server\n")
    (box.work / "src/.ENV.local").write_text("CANARY-local\n")
    (box.work / "src/plain.txt").write_text("CANARY-plain\n")
    (box.work / "src/.env").symlink_to("plain.txt")
    (box.work / "home-link").symlink_to(box.home / "notes.txt")
    (box.work / "key-link").symlink_to(box.home / ".ssh/id_ed25519")
    (box.work / "env-link").symlink_to(".env")
    os.link(box.work / ".env", box.work / "env-name")
    with (box.work / ".git/config").open("a") as config:
        config.write('[remote "o"]\n\turl = https://me:CANARY-token@example.com/\n')


def test_read_only_command_reads_no_secret(box: Box) -> None:
    with_secrets(box)
    paths = list(SECRETS_OUTSIDE)
    if box.session.support.masks:
        paths += SECRETS_IN_WORKSPACE
    done = box.run("read-only", "".join(f"cat {path}; head -c 99 {path}; echo tried;" for path in paths))
    assert "CANARY" not in done.text, done.text
    assert done.text.count("tried\n") == len(paths)


def test_recursive_search_of_the_workspace_reads_no_secret(box: Box) -> None:
    with_secrets(box)
    if not box.session.support.masks:
        pytest.skip(f"{box.kind} does not mask files of the workspace")
    for command in (
        "grep -r . .",
        "grep -R . .",
        "find -L . -type f -exec cat {} +",
        "git grep --no-index .",
        "tar c .",
    ):
        assert "CANARY" not in box.run("read-only", command).text, command


def test_new_secret_is_masked_from_the_next_command_on(box: Box) -> None:
    if not box.session.support.masks:
        pytest.skip(f"{box.kind} does not mask files of the workspace")
    box.run("read-only", "true")
    (box.work / "src/.env").write_text("CANARY\n")
    assert "CANARY" not in box.run("read-only", "cat src/.env").text


def test_credentials_stay_hidden_in_a_writable_workspace(box: Box) -> None:
    done = box.run("workspace", "cat ~/.ssh/id_ed25519 ~/.netrc; cat ~/notes.txt")
    assert "CANARY-key" not in done.text
    assert "CANARY-netrc" not in done.text
    assert "CANARY-notes" in done.text


@pytest.mark.skipif(not X86_64, reason="the numbers of the calls are those of x86_64")
@pytest.mark.parametrize("level", ["workspace", "protect"])
def test_no_command_lifts_the_protection_of_a_file(every_bubble: Box, level: Level) -> None:
    box = every_bubble
    target = box.home / ".bashrc" if level == "protect" else box.work / "AGENTS.md"
    target.write_text("kept\n")
    neighbor = subprocess.Popen(["/bin/sleep", "60"], cwd=target.parent)
    try:
        assert escapes(box, level, LIFTS, str(target), str(box.work), str(neighbor.pid)) == []
        assert target.read_text() == "kept\n"
    finally:
        neighbor.kill()
        neighbor.wait()
