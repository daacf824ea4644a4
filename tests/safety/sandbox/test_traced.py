"""Each level under strace: the calls that the kernel granted to a command that tries everything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from qcode.safety.verdict import Level
from tests.safety.sandbox.running import WORKING

REPOSITORY = Path(__file__).parents[3]
CALLS = (
    "open,openat,openat2,creat,truncate,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat,link,linkat,symlink,"
    "symlinkat,mknod,mknodat,chmod,fchmodat,chown,fchownat,utimensat,connect,bind,sendto,socket,execve"
)
COMMAND = (
    ": traced; cat .env ~/notes.txt ~/.netrc ~/.ssh/id_ed25519; grep -r . . ; find / -maxdepth 3 -name '*.pem';"
    " git status; git log; git diff; sort file.txt | uniq -c; echo x > file.txt; echo x > new; echo x > ~/new;"
    " echo x > /etc/new; echo x > ../../outside/new; rm file.txt; mv file.txt b; mkdir d; ln file.txt h; ln -s x s;"
    " chmod 777 file.txt; touch file.txt; mkfifo p; dd if=/dev/zero of=file.txt count=1; tee src/t < file.txt;"
    " cp file.txt src/c; echo x > /dev/tcp/127.0.0.1/9; perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0);"
    ' connect(S, pack_sockaddr_un("/run/x"))\'; logger x; getent passwd nobody; true'
)
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC")
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Call:
    name: str
    line: str
    is_granted: bool

    @property
    def paths(self) -> list[str]:
        return PATH.findall(self.line)


def trace(sandbox: str, level: Level, base: Path, folder: Path) -> list[Call]:
    """Return the calls of the command and its children, without those of the sandbox itself."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is missing")
    argv = [strace, "-ff", "-qq", "-ttt", "-s", "400", "-e", f"trace={CALLS}", "-o", str(folder / "t")]
    runner = [sys.executable, "-m", "tests.safety.sandbox.traced", sandbox, level, str(base), COMMAND]
    subprocess.run([*argv, *runner], cwd=REPOSITORY, check=True, capture_output=True, timeout=100)
    files = {path: path.read_text(errors="replace").splitlines() for path in folder.iterdir()}
    started = re.compile(r'^([0-9.]+) execve\("/bin/bash", \[.*": traced;.*= 0$')
    lines_of = [(path, number, line) for path, lines in files.items() for number, line in enumerate(lines)]
    begun = [(path, number, begin[1]) for path, number, line in lines_of if (begin := started.match(line))]
    ((first, at, moment),) = begun
    found = files[first][at + 1 :]
    for path, lines in files.items():
        if path != first and lines and float(lines[0].split()[0]) > float(moment):
            found += lines
    calls = [re.match(r"^[0-9.]+ (\w+)\((.*) = (-?\w+)", line) for line in found]
    return [Call(call[1], call[2], call[3] != "?" and int(call[3], 0) >= 0) for call in calls if call]


@pytest.fixture(params=WORKING or ["none"])
def sandbox(request: pytest.FixtureRequest) -> str:
    if request.param == "none":
        pytest.skip("no sandbox works on this machine")
    return str(request.param)


def changes(calls: list[Call]) -> list[Call]:
    """Return the granted calls that open a file for writing or change a file without opening it."""
    opens = ("open", "openat", "openat2", "creat")
    harmless = ("connect", "bind", "sendto", "socket", "execve")
    found = [call for call in calls if call.is_granted and call.name not in harmless]
    return [call for call in found if call.name not in opens or WRITES.search(call.line)]


def is_private(call: Call) -> bool:
    """Return whether a change is one of a device that keeps nothing."""
    return all(path in ("/dev/null", "/dev/tty") or path.startswith("/proc/self/fd/") for path in call.paths)


@pytest.mark.sampled(2)
def test_read_only_command_gets_no_write_no_connection_and_no_secret(sandbox: str, base: Path, tmp_path: Path) -> None:
    calls = trace(sandbox, "read-only", base, tmp_path)
    assert [call for call in changes(calls) if not is_private(call)] == []
    assert [call for call in calls if call.name in ("connect", "sendto", "bind") and call.is_granted] == []
    assert [call for call in calls if call.name == "socket" and call.is_granted and "AF_UNIX" in call.line] == []
    opened = [path for call in calls if call.is_granted and call.name.startswith("open") for path in call.paths]
    # A masked file opens as an empty one: see test_levels and tests/agent/test_sandboxed_commands.
    hidden = ["notes.txt", ".netrc", "id_ed25519", ".bashrc"]
    assert [path for path in opened if path.rsplit("/", 1)[-1] in hidden] == []
    # The command did try; otherwise the test would prove nothing.
    assert len([call for call in calls if not call.is_granted and WRITES.search(call.line)]) >= 6
    assert [call for call in calls if call.name == "socket" and not call.is_granted and "AF_UNIX" in call.line]
    assert [path for path in opened if path.endswith("file.txt")]


def test_workspace_command_gets_writes_only_in_the_workspace(base: Path, tmp_path: Path) -> None:
    names = [name for name in WORKING if "workspace" in WORKING[name].levels]
    if not names:
        pytest.skip("no sandbox here gives the level workspace")
    calls = trace(names[0], "workspace", base, tmp_path)
    inside = (f"{base}/home/work/", "/tmp/", "/dev/null", "/dev/tty")
    outside = [
        call
        for call in changes(calls)
        if not all(path.startswith(inside) or not path.startswith(("/", "..")) for path in call.paths)
    ]
    assert outside == []
    assert [call for call in calls if call.name == "connect" and call.is_granted] == []
    assert [call for call in changes(calls) if "file.txt" in call.line]
