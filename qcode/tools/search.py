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
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO

from qcode.protocol.values import dataclass
from qcode.tools import walk
from qcode.tools.environment import MINIMAL
from qcode.tools.patterns import compile_pattern
from qcode.tools.refusal import Refused

LIMIT_S = 30.0
LARGEST = 50 * 1024 * 1024
"""Bytes of a file that is searched as a whole; the scanner has the same bound."""
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
    is_multiline: bool = False


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
            wants = _wanted(query)
            yield from (line for line in _read(process.stdout) if query.only or wants(line.file))
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
            "multiline": query.is_multiline,
            "files": [[name, str(query.start / name)] for name in files],
        }
        return json.dumps(asked).encode("utf-8", "surrogateescape")

    def _files(self, query: Query) -> Iterator[str]:
        wants = _wanted(query)
        try:
            for item in walk.files(query.root, query.start, self._stopped.is_set):
                is_file = item.entry.is_file(follow_symlinks=False)
                if is_file and wants(item.relative):
                    yield item.relative
        except walk.TooMany:
            self.is_cut = True


def _wanted(query: Query) -> Callable[[str], bool]:
    """Return what says whether the glob of a query is about a file; one that leaves out is about folders too."""
    pattern = query.glob.removeprefix("!")
    if not pattern:
        return lambda _: True
    is_without = query.glob.startswith("!")
    pattern = pattern.rstrip("/") if is_without else pattern
    matcher = compile_pattern(pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}")
    if not is_without:
        return lambda file: matcher.fullmatch(file) is not None

    def is_wanted(file: str) -> bool:
        parts = file.split("/")
        return not any(matcher.fullmatch("/".join(parts[: depth + 1])) for depth in range(len(parts)))

    return is_wanted


def _narrowed(query: Query) -> list[str]:
    """Return what makes ripgrep look at fewer files that the glob is not about.

    A glob that names files would bring back what git ignores; a type of files does not, but sees only their names.
    """
    if query.only or not query.glob:
        return []
    name = query.glob.rpartition("/")[2]
    is_name = name not in ("", "**") and ":" not in name and not ("{" in query.glob and "/" in query.glob)
    return ["--type-add", f"wanted:{name}", "--type", "wanted"] if is_name and not query.glob.startswith("!") else []


def _argv(query: Query, ripgrep: str | None) -> list[str]:
    if ripgrep is None:
        return [sys.executable, "-I", "-S", str(_SCANNER)]
    argv = [ripgrep, "--no-config", "--json", "--hidden", "--no-require-git", "--no-ignore-global"]
    argv += ["--no-ignore-dot", "--no-messages", "--sort", "path"]
    # What spans lines is kept in memory as a whole, and its line ends are characters like others.
    across = ["--multiline", "--multiline-dotall", "--max-filesize", str(LARGEST)]
    argv += across if query.is_multiline else ["--crlf"]
    argv += ["--ignore-case"] if query.ignore_case else []
    argv += ["--context", str(query.around)] if query.around else []
    argv += ["--max-count", str(query.max_count)] if query.max_count else []
    return [*argv, *_narrowed(query), "--glob", "!.git", "--regexp", query.pattern, "--", query.only or "./"]


def _read(stream: IO[bytes]) -> Iterator[Line]:
    for raw in stream:
        try:
            event = json.loads(raw)
        except ValueError:
            return  # the end of what a stopped program printed
        data = event["data"]
        if event["type"] in ("match", "context"):
            file, number, at = os.path.normpath(_text(data["path"])), data["line_number"], -1
            for index, text in enumerate(_text(data["lines"]).removesuffix("\n").split("\n")):
                if event["type"] == "match":
                    at = _first(text, data["submatches"]) if index == 0 else 0
                yield Line(file, number + index, text.removesuffix("\r"), at)


def _first(text: str, submatches: list[dict[str, int]]) -> int:
    """Return where in a line its first match begins; the offsets of a search count bytes."""
    start = submatches[0]["start"] if submatches else 0
    return len(text.encode("utf-8", "replace")[:start].decode("utf-8", "ignore"))


def _text(value: dict[str, str]) -> str:
    """Return a string of ripgrep, which spells bytes that are not UTF-8 in base64."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "replace")


def _first_line(error: bytes) -> str:
    lines = [line.strip() for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    return (lines[-1] if lines else "it is not valid").removeprefix("error: ")
