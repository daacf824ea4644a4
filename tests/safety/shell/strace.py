"""Runs programs under strace and reports files read, changed and looked at, programs started, and connections.

Many commands run in one strace, because its start costs more than most of them. Each gets /dev/null as standard input
and separate output files, and runs in a separate process session with a time limit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from qcode.values import dataclass

TIME_LIMIT_S = 10
BATCH = 250

_LOOKS = frozenset(
    {
        "stat", "stat64", "lstat", "lstat64", "newfstatat", "fstatat64", "statx", "access", "faccessat", "faccessat2",
        "readlink", "readlinkat", "statfs", "statfs64", "getxattr", "lgetxattr", "listxattr", "llistxattr", "getcwd",
        "name_to_handle_at",
    }
)  # fmt: skip
_OPENS = frozenset({"open", "openat", "openat2", "creat"})
_LISTS = frozenset({"getdents", "getdents64"})
_MOVES = frozenset({"chdir", "fchdir"})
_STARTS = frozenset({"execve", "execveat"})
_FORKS = frozenset({"fork", "vfork", "clone", "clone3"})
_NETWORK = frozenset({"connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg", "sendmmsg"})
_QUIET_NETWORK = frozenset(
    {
        "socket", "socketpair", "getsockname", "getpeername", "getsockopt", "setsockopt", "recvfrom", "recvmsg",
        "recvmmsg", "shutdown",
    }
)  # fmt: skip
_CHANGES = (
    "ftruncate,fchmod,fchown,fallocate,fsetxattr,fremovexattr,kill,tkill,tgkill,ptrace,process_vm_writev,"
    "pidfd_send_signal,sethostname,setdomainname,clock_settime,settimeofday,adjtimex,clock_adjtime,unshare,setns,"
    "move_mount,fsopen,bpf,perf_event_open,io_uring_setup,add_key,keyctl,mq_open"
)
"""Calls outside strace's class of files that change something; every other traced call is a change as well."""
_TRACED = f"%file,%network,getdents,getdents64,fchdir,fork,vfork,clone,clone3,{_CHANGES}"

_LINE = re.compile(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()(.*)", re.DOTALL)
_RESULT = re.compile(r"\) += (-?\d+|\?|0x[0-9a-f]+)(?:<([^>]*)>)?[^=]*$")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>(?:\(deleted\))?, )?"((?:\\x[0-9a-f]{2})*)"')
_FD = re.compile(r"\d+<([^>]*)>")
_WRITING = re.compile(r"\bO_(?:WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")

_DRIVER = """
import json, os, signal, sys

job = json.load(open(sys.argv[1]))
os.chdir(job["cwd"])
results = []

def expire(*_):
    raise TimeoutError

signal.signal(signal.SIGALRM, expire)
for index, argv in enumerate(job["commands"]):
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, f"{job['out']}/{index}.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, f"{job['out']}/{index}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    ]
    pid = os.posix_spawn(argv[0], argv[1:], job["env"], file_actions=actions, setsid=True)
    is_late = False
    signal.setitimer(signal.ITIMER_REAL, job["limit"])
    try:
        status = os.waitpid(pid, 0)[1]
    except TimeoutError:
        is_late = True
        os.killpg(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    results.append([pid, os.waitstatus_to_exitcode(status), is_late])
json.dump(results, open(job["results"], "w"))
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """A file or folder that was opened to be read: as spelled, made absolute, and as the kernel resolved it."""

    spelled: str
    real: str


@dataclass(frozen=True, slots=True)
class Run:
    """The effects of one command. Paths are absolute; those of `looked` are as spelled, without `.` and `..`."""

    argv: tuple[str, ...]
    code: int
    is_late: bool
    output: bytes
    errors: bytes
    read: frozenset[Opened]
    """Files that were opened to be read."""
    entered: frozenset[Opened]
    """Folders that were opened, whether they were listed or not."""
    listed: frozenset[str]
    """Folders whose entries were read, resolved."""
    looked: frozenset[str]
    """Paths whose metadata, link target or existence was queried."""
    changed: tuple[str, ...]
    """Calls that change something or open a file for writing, failed ones included."""
    executed: tuple[str, ...]
    """Programs that were started, the command itself first."""
    connected: tuple[str, ...]
    """Calls that connect, bind or send."""


@cache
def why_not() -> str:
    """Return why no program can be traced here, or nothing."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    tried = subprocess.run([strace, "-f", "-o", os.devnull, "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"strace does not work here: {tried.stderr.decode(errors='replace')[:200]}"


def require_strace() -> None:
    """Skip the calling test, visibly, if nothing can be traced."""
    if why_not():
        pytest.skip(why_not())


def observe(commands: Sequence[Sequence[str]], cwd: Path, env: Mapping[str, str]) -> list[Run]:
    """Run each argv list in the folder `cwd` with exactly `env`; the first word of each is found on the PATH of `env`.

    Nothing is protected: the commands have their real effects.
    """
    runs: list[Run] = []
    for start in range(0, len(commands), BATCH):
        runs += _observe_batch(commands[start : start + BATCH], cwd, env)
    return runs


def shell_argv(command: str) -> list[str]:
    """Return the argv list by which a shell command is run."""
    return ["bash", "--noprofile", "--norc", "-c", command]


def _observe_batch(commands: Sequence[Sequence[str]], cwd: Path, env: Mapping[str, str]) -> list[Run]:
    with tempfile.TemporaryDirectory(prefix="qcode-strace-") as folder:
        place = Path(folder)
        job = {
            "commands": [[_found(argv[0], env["PATH"]), *argv] for argv in commands],
            "cwd": str(cwd),
            "env": dict(env),
            "out": folder,
            "results": f"{folder}/results",
            "limit": TIME_LIMIT_S,
        }
        (place / "job").write_text(json.dumps(job))
        strace = ["strace", "-f", "-qq", "-y", "-xx", "-s", "4096", "-e", "signal=none", "--seccomp-bpf"]
        driver = [sys.executable, "-I", "-S", "-c", _DRIVER, f"{folder}/job"]
        done = subprocess.run(
            [*strace, "-e", f"trace={_TRACED}", "-o", f"{folder}/log", *driver], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        calls = _calls_by_process((place / "log").read_text("ascii").splitlines())
        results = json.loads((place / "results").read_text())
        return [
            _run(tuple(argv), pid, code, is_late, calls, str(cwd), place / str(index))
            for index, (argv, (pid, code, is_late)) in enumerate(zip(commands, results, strict=True))
        ]


def _found(name: str, path: str) -> str:
    found = shutil.which(name, path=path)
    assert found is not None, f"{name} is not installed"
    return found


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: str
    """The text between the parentheses, strings and paths in hexadecimal."""
    result: int | None
    real: str
    """The path of the file descriptor that was returned."""


def _calls_by_process(lines: Iterable[str]) -> dict[int, list[_Call]]:
    """Return the calls of each process or thread in order; a call that was interrupted in the log is put together."""
    calls: dict[int, list[_Call]] = defaultdict(list)
    unfinished: dict[int, str] = {}
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        process, resumed, name, rest = int(match[1]), match[2], match[3], match[4]
        if resumed is not None:
            name, _, begun = unfinished.pop(process, f"{resumed}(").partition("(")
            rest = begun + rest
        if rest.endswith("<unfinished ...>"):
            unfinished[process] = f"{name}({rest.removesuffix('<unfinished ...>')}"
            continue
        calls[process].append(_call(name, rest))
    for process, text in unfinished.items():
        # It never returned: the process was killed, or replaced by another thread's exec.
        name, _, rest = text.partition("(")
        calls[process].append(_call(name, rest))
    return calls


def _call(name: str, rest: str) -> _Call:
    result = _RESULT.search(rest)
    if result is None:
        return _Call(name, rest, None, "")
    value = int(result[1], 0) if result[1] != "?" else None
    return _Call(name, rest[: result.start()], value, _decoded(result[2] or ""))


def _decoded(text: str) -> str:
    """Return the text that strace wrote in hexadecimal; a name that it made up itself (`socket:[1]`) is plain."""
    return bytes.fromhex(text.replace("\\x", "")).decode("utf-8", "surrogateescape") if "\\x" in text else text


def _run(
    argv: tuple[str, ...],
    pid: int,
    code: int,
    is_late: bool,
    calls: Mapping[int, list[_Call]],
    cwd: str,
    output: Path,
) -> Run:
    events = _Events()
    events.follow(pid, calls, cwd)
    return Run(
        argv,
        code,
        is_late,
        output.with_suffix(".out").read_bytes()[:100_000],
        output.with_suffix(".err").read_bytes()[:100_000],
        frozenset(events.read),
        frozenset(events.entered),
        frozenset(events.listed),
        frozenset(events.looked),
        tuple(events.changed),
        tuple(events.executed),
        tuple(events.connected),
    )


class _Events:
    """Collects the effects of a command and its child processes."""

    def __init__(self) -> None:
        self.read: set[Opened] = set()
        self.entered: set[Opened] = set()
        self.listed: set[str] = set()
        self.looked: set[str] = set()
        self.changed: list[str] = []
        self.executed: list[str] = []
        self.connected: list[str] = []

    def follow(self, pid: int, calls: Mapping[int, list[_Call]], cwd: str) -> None:
        """Collect the calls of a process, and of those it forks, from the folder `cwd` on."""
        for call in calls.get(pid, ()):
            # Before its program starts, the process is still the driver's and opens its outputs.
            if not self.executed and call.name not in _STARTS:
                continue
            if call.name in _FORKS and call.result is not None and call.result > 0:
                self.follow(call.result, calls, cwd)
            elif call.name in _MOVES and call.result == 0:
                cwd = next(self._paths(call, cwd), cwd)
            else:
                self._collect(call, cwd)

    def _collect(self, call: _Call, cwd: str) -> None:
        name = call.name
        if name in _FORKS or name in _MOVES or name in _QUIET_NETWORK:
            return
        if name in _OPENS:
            self._open(call, cwd)
        elif name in _LOOKS:
            self._look(call, cwd)
        elif name in _LISTS:
            self.listed.update(_decoded(found) for found in _FD.findall(call.arguments)[:1])
        elif name in _STARTS:
            started = next(self._paths(call, cwd), "?")
            self.executed.append(started if call.result == 0 else f"{started} (failed)")
        elif name in _NETWORK:
            self.connected.append(f"{name}({_readable(call.arguments)})")
        else:
            self.changed.append(f"{name}({_readable(call.arguments)})")

    def _look(self, call: _Call, cwd: str) -> None:
        # A second string is what the call found out; an empty one is about a file that is open already.
        found = _PATH.search(call.arguments)
        if found is not None and found[2]:
            self.looked.add(_joined(cwd, found[1], found[2]))

    def _open(self, call: _Call, cwd: str) -> None:
        spelled = next(self._paths(call, cwd), "?")
        flags = _PATH.sub("", call.arguments)
        if call.name == "creat" or _WRITING.search(flags):
            self.changed.append(f"{call.name}({spelled}{flags})")
        elif call.result is None or call.result < 0 or "O_PATH" in flags:
            self.looked.add(spelled)
        else:
            opened = Opened(spelled, call.real)
            (self.entered if _is_folder(call.real) else self.read).add(opened)

    @staticmethod
    def _paths(call: _Call, cwd: str) -> Iterator[str]:
        """Yield the paths in the arguments of a call, made absolute without a look at links."""
        for folder, text in _PATH.findall(call.arguments):
            yield _joined(cwd, folder, text)
        if call.name == "fchdir":
            yield from (_decoded(found) for found in _FD.findall(call.arguments)[:1])


def _joined(cwd: str, folder: str | None, text: str) -> str:
    return os.path.normpath(os.path.join(cwd, _decoded(folder or ""), _decoded(text)))  # noqa: PTH118  # plain text


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _readable(arguments: str) -> str:
    return re.sub(r"((?:\\x[0-9a-f]{2})+)", lambda found: _decoded(found[1]), arguments)
