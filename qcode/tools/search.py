"""Starts a search program, ripgrep or our own `scanner`, and turns what it prints into the same few values.

Both run as processes with an environment of their own, so that a search can be ended at any moment.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qcode.tools import walk
from qcode.tools.environment import MINIMAL
from qcode.tools.patterns import compile_pattern
from qcode.tools.refusal import Refused

LIMIT_S = 30.0
_SCANNER = Path(__file__).with_name("scanner.py")


@dataclass(frozen=True, slots=True)
class Query:
    """What to search: `start` is a folder in `root`, or one file of it where `only` is its name."""

    root: Path
    start: Path
    pattern: str
    only: str = ""
    glob: str = ""
    ignore_case: bool = False
    around: int = 0
    max_count: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file below the start; `at` is where its first match begins, -1 for a line around a match."""

    file: str
    number: int
    text: str
    at: int = -1


class Search:
    """One run of a search. `stop` may be called from any thread, before, during and after it."""

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.is_timed_out = False
        self.is_cut = False
        """Whether there were too many files to look at all of them."""

    def stop(self) -> None:
        with self._lock:
            self._stopped.set()
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def lines(self, query: Query, ripgrep: str | None) -> Generator[Line, None, None]:
        """Yield what is found, file by file in order of their paths; raise `Refused` for a bad pattern.

        `ripgrep` is its absolute path, None to search with our own scanner.
        """
        stdin = b"" if ripgrep is not None else self._listing(query)
        with self._lock:
            if self._stopped.is_set():
                return
            self._process = process = subprocess.Popen(
                _argv(query, ripgrep),
                cwd=query.start,
                env=MINIMAL,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        timer = threading.Timer(LIMIT_S, self._time_out)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            try:
                process.stdin.write(stdin)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it ended at once; its exit code says why
            yield from _read(process.stdout)
            error = process.stderr.read(4_000)
            if process.wait() == 2 and error and not self._stopped.is_set():
                raise Refused(f"grep: the pattern could not be searched for: {_first_line(error)}")
        finally:
            timer.cancel()
            self.stop()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def _time_out(self) -> None:
        self.is_timed_out = True
        self.stop()

    def _listing(self, query: Query) -> bytes:
        """Return the input of the scanner: the files that ripgrep would look at."""
        files = [query.only] if query.only else list(self._files(query))
        asked = {
            "pattern": query.pattern,
            "ignore_case": query.ignore_case,
            "before_after": query.around,
            "max_count": query.max_count,
            "files": [[name, str(query.start / name)] for name in files],
        }
        return json.dumps(asked).encode("utf-8", "surrogateescape")

    def _files(self, query: Query) -> Iterator[str]:
        wants, pattern = not query.glob.startswith("!"), query.glob.removeprefix("!")
        anchored = pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}"
        matcher = compile_pattern(anchored) if pattern else None
        try:
            for item in walk.files(query.root, query.start, self._stopped.is_set):
                is_file = item.entry.is_file(follow_symlinks=False)
                if is_file and (matcher is None or bool(matcher.fullmatch(item.relative)) == wants):
                    yield item.relative
        except walk.TooMany:
            self.is_cut = True


def _argv(query: Query, ripgrep: str | None) -> list[str]:
    if ripgrep is None:
        return [sys.executable, "-I", "-S", str(_SCANNER)]
    argv = [ripgrep, "--no-config", "--json", "--hidden", "--no-require-git", "--no-ignore-global"]
    argv += ["--no-ignore-dot", "--no-messages", "--crlf", "--sort", "path"]
    argv += ["--ignore-case"] if query.ignore_case else []
    argv += ["--context", str(query.around)] if query.around else []
    argv += ["--max-count", str(query.max_count)] if query.max_count else []
    if query.glob and not query.only:
        argv += ["--glob", query.glob]
    return [*argv, "--glob", "!.git", "--regexp", query.pattern, "--", query.only or "./"]


def _read(stream: IO[bytes]) -> Iterator[Line]:
    for raw in stream:
        try:
            event = json.loads(raw)
        except ValueError:
            return  # the end of what a stopped program printed
        data = event["data"]
        if event["type"] in ("match", "context"):
            text = _text(data["lines"]).removesuffix("\n").removesuffix("\r")
            submatches = data["submatches"]
            at = -1
            if event["type"] == "match":
                start = submatches[0]["start"] if submatches else 0
                at = len(text.encode("utf-8", "replace")[:start].decode("utf-8", "ignore"))
            yield Line(os.path.normpath(_text(data["path"])), data["line_number"], text, at)


def _text(value: dict[str, str]) -> str:
    """Return a string of ripgrep, which spells bytes that are not UTF-8 in base64."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "replace")


def _first_line(error: bytes) -> str:
    lines = [line.strip() for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    return (lines[-1] if lines else "it is not valid").removeprefix("error: ")
