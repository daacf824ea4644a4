"""Runs one of our own small programs on data that may be made to hurt: it can be ended where a thread cannot."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.tools.environment import MINIMAL


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program printed. `failure` says in one line why it ended early, empty where it did not."""

    lines: list[str]
    failure: str = ""


class SideProcess:
    """One run. `stop` may be called from any thread, before, during and after it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def run(self, program: Path, arguments: Sequence[str], given: bytes, limit_s: float) -> Printed:
        """Return the whole lines that the Python program `program` prints, as many as there are when it ends."""
        with self._lock:
            if self._is_stopped:
                return Printed([], "stopped")
            self._process = process = subprocess.Popen(
                [sys.executable, "-I", str(program), *arguments],
                env=MINIMAL,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        failure = ""
        with process:
            try:
                printed, errors = process.communicate(given, limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                printed, errors = process.communicate()
                failure = f"it took longer than {limit_s:g} s"
        if process.returncode != 0 and not failure:
            said = errors.decode("utf-8", "replace").strip().split("\n")[-1]
            failure = said or f"it was ended by signal {-process.returncode}"
        return Printed(printed.decode("utf-8", "replace").split("\n")[:-1], failure)
