"""Records the programs, connections, imports and writes of a run, with `strace` or with audit hooks of Python.

Audit hooks see only the first process, but they need neither a program nor a permission.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

_AUDIT = r"""
import json, os, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def text(value):
    return os.fsdecode(value) if isinstance(value, (str, bytes, os.PathLike)) else str(value)
def note(event, args):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.spawn", "pty.spawn"):
        row = ["start", text(args[0]), text(args[1][0]) if len(args) > 1 and args[1] else ""]
    elif event == "socket.connect":
        row = ["connect", str(args[1][:2]) if isinstance(args[1], tuple) else text(args[1])]
    elif event == "exec" and hasattr(args[0], "co_filename"):
        row = ["import", args[0].co_filename]
    elif event == "open" and args[0] is not None and not isinstance(args[0], int):
        mode, flags = args[1] or "", args[2] or 0
        if not (set(str(mode)) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR)):
            return
        row = ["write", text(args[0])]
    else:
        return
    os.write(log, (json.dumps(row) + "\n").encode())
sys.addaudithook(note)
sys.argv = ["qcode", *sys.argv[2:]]
from qcode.__main__ import main
sys.exit(main())
"""
_EXEC = re.compile(r'\bexecve(?:at)?\((?:AT_FDCWD, |\d+, )?"((?:[^"\\]|\\.)*)"')
_CONNECT = re.compile(r"\bconnect\(\d+, \{sa_family=(AF_INET6?), (.*?)\}, \d+\)")
_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")


class Watch(Protocol):
    """A way to watch a run."""

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command line of a watched run of qcode."""
        ...

    def complaints(self, work: Path, port: int) -> list[str]:
        """Return the forbidden accesses to `work`, and the connections to other ports than `port`."""
        ...

    def started(self) -> set[str]:
        """Return the names of the programs that were started."""
        ...


class Strace:
    """Watches all processes of a run with `strace`."""

    def __init__(self, log: Path) -> None:
        self._log = log

    @staticmethod
    def works() -> bool:
        """Return whether `strace` is installed and may trace programs."""
        program = shutil.which("strace")
        done = (
            None
            if program is None
            else subprocess.run([program, "-f", "-o", "/dev/null", "/bin/true"], capture_output=True)
        )
        return done is not None and done.returncode == 0

    def command(self, arguments: Sequence[str]) -> list[str]:
        program = shutil.which("strace")
        assert program is not None
        # -DDD: strace leaves the terminal to qcode. When a terminal is closed, a strace that belongs to it sometimes
        # never continues the thread that received the signal.
        options = ("-DDD", "-f", "-qq", "-s", "4096", "-e", "trace=execve,execveat,connect", "-o", str(self._log))
        return [program, *options, sys.executable, "-P", "-m", "qcode", *arguments]

    def complaints(self, work: Path, port: int) -> list[str]:
        found = [f"started {path}" for path in self._started() if not _is_outside(path, work)]
        for line in self._log.read_text("utf-8", "replace").splitlines():
            connected = _CONNECT.search(line)
            if connected is not None and (_PORT.search(connected[2]) or ["", ""])[1] != str(port):
                found.append(line)
        return found

    def started(self) -> set[str]:
        return {Path(path).name for path in self._started()}

    def _started(self) -> Iterator[str]:
        for line in self._log.read_text("utf-8", "replace").splitlines():
            execution = _EXEC.search(line)
            if execution is not None:
                yield execution[1]


class Audit:
    """Watches the first process of a run with audit hooks."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def command(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-P", "-c", _AUDIT, str(self._log), *arguments]

    def complaints(self, work: Path, port: int) -> list[str]:
        found = []
        for kind, what, *_ in self._rows():
            if kind == "start" and not _is_outside(what, work):
                found.append(f"started {what}")
            elif kind in ("import", "write") and Path(what).is_absolute() and Path(what).is_relative_to(work):
                found.append(f"{kind} {what}")
            elif kind == "import" and not what.startswith(("/", "<")):
                found.append(f"import {what}")
            elif kind == "write" and what and not Path(what).is_absolute() and "/" in what:
                found.append(f"write {what}")
            elif kind == "connect" and what.startswith("(") and what != f"('127.0.0.1', {port})":
                found.append(f"connected to {what}")
        return found

    def started(self) -> set[str]:
        return {Path(row[1]).name for row in self._rows() if row[0] == "start"}

    def _rows(self) -> list[list[str]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]


def _is_outside(path: str, work: Path) -> bool:
    return (
        path.startswith("/") and not Path(path).is_relative_to(work) and not Path(path).resolve().is_relative_to(work)
    )
