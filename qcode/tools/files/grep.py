"""The `grep` tool: lines, files or counts for a regular expression, found by ripgrep or qcode's own `scanner`.

`GrepSearch` starts one of the two programs and parses its output; both give the same results. They run as processes
with a minimal environment, so a search can be stopped at any moment.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import IO

from qcode.protocol.tools import Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.tools.arguments import Arguments, validate_arguments
from qcode.tools.processes import MINIMAL_ENVIRONMENT, find_program
from qcode.tools.tool import READS_PATH, Preview, ToolRunContext, run_blocking_tool
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

MAX_SEARCH_S = 30.0
"""The time limit of a search."""
MAX_FILE_BYTES = 50 * 1024 * 1024
"""The largest file, in bytes, that is searched as a whole; the scanner has the same limit."""
SCANNER = Path(__file__).with_name("scanner.py")
_RIPGREP_ERROR_CODE = 2
"""The exit code of ripgrep for an error, such as an invalid pattern. For no match, it is 1."""

MAX_MATCHES = 200  # matching lines in the result
MAX_FILES = 500  # files in the result
MAX_LINE_CHARS = 500
MAX_PATTERN_CHARS = 5_000
"""With a longer pattern, an error message, which repeats the pattern, may not fit into a pipe."""
_MAX_ERROR_BYTES = 65_536
_CHARS_BEFORE_MATCH = 100

# An escape for a line end, such as `\n`, but not a backslash before an `n` (`\\n`).
_NEW_LINE = lazy_pattern(r"(?<!\\)(?:\\\\)*\\(?:n|x0[aA]|u000[aA])")
_NEGATED_CLASS = lazy_pattern(r"\[\^[^\]]*(?:\]|\Z)")
"""A negated class, such as `[^a]`, which matches line ends unless it contains them."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search for a regular expression."""

    root: Path
    start: Path
    """The folder to search, which is `root` or below it."""
    pattern: str
    only_file: str = ""
    """The name of the single file in `start` to search, empty for all files."""
    glob: str = ""
    ignore_case: bool = False
    context_lines: int = 0
    max_count: int = 0
    """The maximum number of matches in a file, 0 for all."""
    is_multiline: bool = False


@dataclass(frozen=True, slots=True)
class GrepLine:
    """A line of a file."""

    file: str
    """The path below the start of the search."""
    number: int
    """The line number, from 1."""
    text: str
    match_index: int = -1
    """The index of the first match in the line, -1 for a context line."""


class GrepSearch:
    """One search. `stop` may be called from any thread, before, during and after it."""

    def __init__(self) -> None:
        self._stop_event = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.is_timed_out = False
        self.is_incomplete = False
        """There were too many files to search all of them."""

    def stop(self) -> None:
        with self._lock:
            self._stop_event.set()
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def lines(self, query: Query, ripgrep: str | None) -> Generator[GrepLine, None, None]:
        """Yield the matching lines, sorted by path. Raise `Refused` for an invalid pattern.

        `ripgrep` is the absolute path of ripgrep, None to search with the scanner.
        """
        stdin = b"" if ripgrep is not None else self._scanner_input(query)
        with self._lock:
            if self._stop_event.is_set():
                return
            self._process = process = subprocess.Popen(
                _argv(query, ripgrep),
                cwd=query.start,
                env=MINIMAL_ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        timer = threading.Timer(MAX_SEARCH_S, self._time_out)
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None and process.stderr is not None
            try:
                process.stdin.write(stdin)
                process.stdin.close()
            except BrokenPipeError:
                pass  # the program ended at once; its exit code is checked below
            is_wanted = _glob_predicate(query)
            for line in _read_events(process.stdout):
                if query.only_file or is_wanted(line.file):
                    yield line
            error = process.stderr.read(_MAX_ERROR_BYTES)
            has_failed = _has_failed(process.wait(), error, is_ripgrep=ripgrep is not None)
            if has_failed and not self._stop_event.is_set():
                raise Refused(f"grep: the search failed: {_last_line(error)}")
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

    def _scanner_input(self, query: Query) -> bytes:
        """Return the input of the scanner: the files that ripgrep would search."""
        files = [query.only_file] if query.only_file else list(self._files(query))
        query_json = {
            "pattern": query.pattern,
            "ignore_case": query.ignore_case,
            "context_lines": query.context_lines,
            "max_count": query.max_count,
            "multiline": query.is_multiline,
            "files": [[name, str(query.start / name)] for name in files],
        }
        return json.dumps(query_json).encode("utf-8", "surrogateescape")

    def _files(self, query: Query) -> Iterator[str]:
        """Yield the files to search, as paths relative to the start."""
        from qcode.tools.files import walk  # loads with the first search, not at start

        is_wanted = _glob_predicate(query)
        try:
            for item in walk.files(query.root, query.start, self._stop_event.is_set):
                is_file = item.entry.is_file(follow_symlinks=False)
                if is_file and is_wanted(item.relative):
                    yield item.relative
        except walk.WalkTooLarge:
            self.is_incomplete = True


def _glob_predicate(query: Query) -> Callable[[str], bool]:
    """Return a predicate for the glob of a query. An excluding glob (`!…`) also excludes folders that match."""
    pattern = query.glob.removeprefix("!")
    if not pattern:
        return lambda _: True
    from qcode.tools.files.patterns import compile_pattern

    is_excluding = query.glob.startswith("!")
    pattern = pattern.rstrip("/") if is_excluding else pattern
    matcher = compile_pattern(pattern.removeprefix("/") if "/" in pattern else f"**/{pattern}")
    if not is_excluding:
        return lambda file: matcher.fullmatch(file) is not None

    def is_included(file: str) -> bool:
        parts = file.split("/")
        return not any(matcher.fullmatch("/".join(parts[: depth + 1])) for depth in range(len(parts)))

    return is_included


def _glob_options(query: Query) -> list[str]:
    """Return ripgrep options that skip files which the glob does not match.

    With `--glob`, ripgrep would also search ignored files. So these options define a file type, which matches only file
    names.
    """
    if query.only_file or not query.glob or query.glob.startswith("!"):
        return []
    name = query.glob.rpartition("/")[2]
    if name in ("", "**") or ":" in name:
        return []  # `src/**` matches every name, and ripgrep reads `include:py` as the name of another type
    if "{" in query.glob and "/" in query.glob:
        return []  # the last slash may be inside braces: `{a,b/c}.py`
    return ["--type-add", f"wanted:{name}", "--type", "wanted"]


def _argv(query: Query, ripgrep: str | None) -> list[str]:
    if ripgrep is None:
        return [sys.executable, "-I", "-S", str(SCANNER)]
    argv = [ripgrep, "--no-config", "--json", "--hidden", "--no-require-git", "--no-ignore-global"]
    argv += ["--no-ignore-dot", "--no-messages", "--sort", "path"]
    # For a multiline search ripgrep keeps the whole file in memory, so the size is limited.
    multiline_options = ["--multiline", "--multiline-dotall", "--max-filesize", str(MAX_FILE_BYTES)]
    argv += multiline_options if query.is_multiline else ["--crlf"]
    if query.ignore_case:
        argv.append("--ignore-case")
    if query.context_lines:
        argv += ["--context", str(query.context_lines)]
    if query.max_count:
        argv += ["--max-count", str(query.max_count)]
    return [*argv, *_glob_options(query), "--glob", "!.git", "--regexp", query.pattern, "--", f"./{query.only_file}"]


def _has_failed(exit_code: int, error: bytes, *, is_ripgrep: bool) -> bool:
    """Return whether a search program failed as a whole. `error` is the start of its standard error."""
    was_killed = exit_code < 0
    if was_killed or not is_ripgrep:
        return exit_code != 0
    # An unreadable file gives the same exit code, but no message because of `--no-messages`.
    return exit_code == _RIPGREP_ERROR_CODE and bool(error)


def _read_events(stream: IO[bytes]) -> Iterator[GrepLine]:
    """Yield the lines in the output of the search program, which has one JSON event per line."""
    for raw in stream:
        try:
            event = json.loads(raw)
        except ValueError:
            return  # an incomplete last line, because the program was stopped
        data = event["data"]
        if event["type"] in ("match", "context"):
            file, first_number = os.path.normpath(_text(data["path"])), data["line_number"]
            # A match of a multiline search has several lines.
            for index, text in enumerate(_text(data["lines"]).removesuffix("\n").split("\n")):
                match_index = -1
                if event["type"] == "match":
                    match_index = _first_match(text, data["submatches"]) if index == 0 else 0
                yield GrepLine(file, first_number + index, text.removesuffix("\r"), match_index)


def _first_match(text: str, submatches: list[dict[str, int]]) -> int:
    """Return the index of the first match in a line; the offsets in the output count bytes."""
    start = submatches[0]["start"] if submatches else 0
    return len(text.encode("utf-8", "replace")[:start].decode("utf-8", "ignore"))


def _text(value: dict[str, str]) -> str:
    """Return a string from ripgrep, which encodes bytes that are not UTF-8 in base64."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "replace")


def _last_line(error: bytes) -> str:
    lines = [line.strip() for line in error.decode("utf-8", "replace").splitlines() if line.strip()]
    return (lines[-1] if lines else "the search program crashed").removeprefix("error: ")


class Grep:
    """The `grep` tool."""

    spec = ToolSpec(
        name="grep",
        description=(
            "Search the text of files for a regular expression. Files ignored by git, binary files and files that "
            "may contain secrets are skipped. output selects the result: content (the default) returns the matching "
            f"lines with line numbers, grouped by file, at most {MAX_MATCHES} lines; files returns only the names of "
            "the files; count returns the number of matching lines in each file."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression, matched within a line."},
                "multiline": {
                    "type": "boolean",
                    "description": "Let the pattern match across lines; . then also matches line ends. For files with "
                    "CRLF line ends write \\r?\\n. Default false.",
                },
                "path": {"type": "string", "description": "File or folder to search. Default: the workspace."},
                "glob": {"type": "string", "description": "Search only matching files, such as *.py or src/**/*.ts."},
                "ignore_case": {"type": "boolean", "description": "Ignore upper and lower case. Default false."},
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": 20,
                    "description": "Lines to show before and after each match. Default 0.",
                },
                "output": {
                    "type": "string",
                    "enum": ["content", "files", "count"],
                    "description": "The form of the result. Default content.",
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        is_read_only=True,
        safety=READS_PATH,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = validate_arguments(self.spec, arguments)
        except Refused as refused:
            return Preview("Search files?", detail="", refusal=str(refused))
        return Preview("Search files?", f"{visible(checked.text('pattern'))} in {visible(checked.text('path', '.'))}")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        environment = os.environ if context.environment is None else context.environment
        search = GrepSearch()

        def work() -> ToolOutcome:
            checked = validate_arguments(self.spec, arguments)
            query = _query(checked, workspace)
            lines = search.lines(query, find_program("rg", environment, workspace))
            report = _Report(
                checked.text("output", "content"), context.max_output_chars, has_context=query.context_lines > 0
            )
            skipped_count = _fill_report(report, lines, query, workspace)
            return report.outcome(_notes(search, skipped_count))

        return await run_blocking_tool(work, search.stop)


def _query(arguments: Arguments, workspace: Workspace) -> Query:
    """Return the search of a call; raise `Refused` if its arguments are invalid."""
    location = workspace.resolve(arguments.text("path", "."))
    if not workspace.exists(location):
        raise Refused(f"{location.label} does not exist")
    pattern = arguments.text("pattern")
    is_multiline = arguments.flag("multiline")
    if not pattern or "\0" in pattern:
        raise Refused("the pattern must be a regular expression")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise Refused(f"the pattern is longer than {MAX_PATTERN_CHARS:,} characters; send a shorter one")
    if not is_multiline and ("\n" in pattern or _NEW_LINE.search(_NEGATED_CLASS.sub("", pattern))):
        raise Refused("the pattern contains a line break; set multiline to match across lines")
    output = arguments.text("output", "content")
    query = Query(
        location.base,
        location.path,
        pattern,
        glob=arguments.text("glob"),
        ignore_case=arguments.flag("ignore_case"),
        context_lines=arguments.integer("context", 0) if output == "content" else 0,
        max_count=1 if output == "files" else 0,
        is_multiline=is_multiline,
    )
    if workspace.is_folder(location.path):
        return query
    data = workspace.load(location).data  # refuses anything but a regular file
    if is_multiline and len(data) > MAX_FILE_BYTES:
        raise Refused(f"{location.label} is too large to be searched across lines")
    return replace(query, start=location.path.parent, only_file=location.path.name)


def _fill_report(report: _Report, lines: Generator[GrepLine, None, None], query: Query, workspace: Workspace) -> int:
    """Add lines to the report until it is full. Return the number of files that the search may not show."""
    skipped: set[str] = set()
    with closing(lines):
        for line in lines:
            if line.file in skipped:
                continue
            path = query.start / line.file
            label = workspace.show(path)
            is_allowed = query.only_file or report.contains(label) or workspace.may_search(path)
            if not is_allowed:
                skipped.add(line.file)
            elif not report.add(label, line):
                break
    return len(skipped)


def _notes(search: GrepSearch, skipped_count: int) -> list[str]:
    """Return notes about a search that did not cover all files. `skipped_count` files with matches are not shown."""
    notes = []
    if skipped_count:
        files = count_text(skipped_count, "more file")
        notes.append(
            f"[matches in {files} that may contain secrets; to ask the user for access to one, name it with path]"
        )
    if search.is_timed_out:
        notes.append(f"[the search was stopped after {MAX_SEARCH_S:g} s; narrow it with path or glob]")
    if search.is_incomplete:
        notes.append("[too many files: not all were searched; narrow the search with path]")
    return notes


class _Report:
    """The matching lines, collected up to the limits of a result."""

    def __init__(self, output: str, max_chars: int, *, has_context: bool) -> None:
        self._output = output
        self._remaining_chars = max_chars
        self._has_context = has_context
        self._counts: dict[str, int] = {}
        self._lines: list[str] = []
        self._last_label, self._last_number = "", 0
        """The file and the number of the last line."""
        self._matches = 0
        self._is_full = False

    def contains(self, label: str) -> bool:
        return label in self._counts

    def add(self, label: str, line: GrepLine) -> bool:
        """Add a line. Return False if the report is full; the line is then not added."""
        is_match = line.match_index >= 0
        is_content = self._output == "content"
        exceeds_matches = is_content and is_match and self._matches >= MAX_MATCHES
        exceeds_files = not self.contains(label) and len(self._counts) >= MAX_FILES
        if exceeds_matches or exceeds_files or self._remaining_chars <= 0:
            self._is_full = True
            return False
        self._matches += is_match
        self._counts[label] = self._counts.get(label, 0) + is_match
        if is_content:
            entry = f"{line.number}{':' if is_match else '-'}{_shorten_line(line)}"
            self._remaining_chars -= len(entry)
            self._lines += [*self._separator(label, line.number), entry]
            self._last_label, self._last_number = label, line.number
        return True

    def _separator(self, label: str, number: int) -> list[str]:
        """Return the lines before a line: the name of another file, or `--` for lines that context does not join."""
        if not self._last_label:
            return [label]
        if label != self._last_label:
            return ["", label]
        is_gap = self._has_context and number != self._last_number + 1
        return ["--"] if is_gap else []

    def outcome(self, notes: list[str]) -> ToolOutcome:
        files = len(self._counts)
        if not files:
            return ToolOutcome("\n".join(["[no matches]", *notes]), summary="no matches")
        if self._is_full:
            notes = ["[there are more matches; narrow the pattern, path or glob]", *notes]
        if self._output == "files":
            return ToolOutcome("\n".join([*self._counts, *notes]), summary=count_text(files, "file"))
        if self._output == "count":
            lines = [f"{count:>6}\t{label}" for label, count in self._counts.items()]
        else:
            lines = self._lines
        matches = count_text(self._matches, "match", "matches")
        return ToolOutcome("\n".join([*lines, *notes]), summary=f"{matches} in {count_text(files, 'file')}")


def _shorten_line(line: GrepLine) -> str:
    """Return a line, or the part around its match if it is long."""
    if len(line.text) <= MAX_LINE_CHARS:
        return line.text
    start = max(0, min(line.match_index - _CHARS_BEFORE_MATCH, len(line.text) - MAX_LINE_CHARS))
    end = start + MAX_LINE_CHARS
    return f"{'...' if start else ''}{line.text[start:end]}{'...' if end < len(line.text) else ''}"
