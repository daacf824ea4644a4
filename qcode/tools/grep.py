"""The `grep` tool: lines, files or counts for a regular expression, the same whichever program searches."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools import search
from qcode.tools.arguments import Arguments, check
from qcode.tools.environment import find_program
from qcode.tools.refusal import Refused
from qcode.tools.search import Line, Query, Search
from qcode.tools.tool import Preview, ToolContext, answered
from qcode.tools.visible import visible
from qcode.tools.workspace import Workspace

MOST_MATCHES = 200
MOST_FILES = 500
MOST_LINE_CHARS = 500
_BEFORE_MATCH = 100


_NEW_LINE = re.compile(r"(?<!\\)(?:\\\\)*\\(?:n|x0[aA]|u000[aA])")
_OTHERS = re.compile(r"\[\^[^\]]*\]")
"""A class of all characters but some may name a line end."""


class Grep:
    spec = ToolSpec(
        name="grep",
        description=(
            "Search the text of files for a regular expression. Files that git ignores, binary files and files that "
            "may hold secrets are left out. output: content (the default) gives matching lines with their numbers "
            f"below the name of their file, at most {MOST_MATCHES} of them; files only the names, count how many lines "
            "match in each."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Regular expression, matched within a line."},
                "multiline": {
                    "type": "boolean",
                    "description": "Let the pattern span lines; . matches a line end too (\\r?\\n where lines end in "
                    "CRLF). Default false.",
                },
                "path": {"type": "string", "description": "File or folder to search. Default: the workspace."},
                "glob": {"type": "string", "description": "Only files like this, such as *.py or src/**/*.ts."},
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
                    "description": "What to return. Default content.",
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        is_read_only=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = check(self.spec, arguments)
        except Refused as refused:
            return Preview("Search files?", "", str(refused))
        return Preview("Search files?", f"{visible(checked.text('pattern'))} in {visible(checked.text('path', '.'))}")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        environment = os.environ if context.environment is None else context.environment
        running = Search()

        def work() -> ToolOutcome:
            checked = check(self.spec, arguments)
            query = _query(checked, workspace)
            lines = running.lines(query, find_program("rg", environment, workspace))
            report = _Report(checked.text("output", "content"), context.max_output_chars, has_context=query.around > 0)
            return report.outcome(_gather(report, lines, query, workspace) + _notes(running))

        return await answered(work, running.stop)


def _query(arguments: Arguments, workspace: Workspace) -> Query:
    place = workspace.resolve(arguments.text("path", "."))
    if not workspace.exists(place):
        raise Refused(f"{place.shown} does not exist")
    pattern = arguments.text("pattern")
    is_multiline = arguments.flag("multiline")
    if not pattern or "\0" in pattern:
        raise Refused("the pattern must be a regular expression")
    if not is_multiline and ("\n" in pattern or _NEW_LINE.search(_OTHERS.sub("", pattern))):
        raise Refused("the pattern would span lines; ask for that with multiline")
    output = arguments.text("output", "content")
    query = Query(
        place.base,
        place.path,
        pattern,
        glob=arguments.text("glob"),
        ignore_case=arguments.flag("ignore_case"),
        around=arguments.integer("context", 0) if output == "content" else 0,
        max_count=1 if output == "files" else 0,
        is_multiline=is_multiline,
    )
    if workspace.is_folder(place.path):
        return query
    data = workspace.load(place).data  # refuses what is no ordinary file
    if is_multiline and len(data) > search.LARGEST:
        raise Refused(f"{place.shown} is too large to be searched across lines")
    return replace(query, start=place.path.parent, only=place.path.name)


def _gather(report: _Report, lines: Generator[Line, None, None], query: Query, workspace: Workspace) -> list[str]:
    """Fill the report, and return what to say about files that were left out."""
    hidden: set[str] = set()
    with closing(lines):
        for line in lines:
            if line.file in hidden:
                continue
            shown = workspace.show(query.start / line.file)
            if not report.knows(shown) and not query.only and not workspace.is_open(query.start / line.file):
                hidden.add(line.file)
            elif not report.add(shown, line):
                break
    if not hidden:
        return []
    return [f"[matches in {len(hidden)} more files that may hold secrets; name one with path to ask for it]"]


def _notes(running: Search) -> list[str]:
    notes = []
    if running.is_timed_out:
        notes.append(f"[the search was ended after {search.LIMIT_S:g} s; narrow it with path or glob]")
    if running.is_cut:
        notes.append("[there are too many files to search them all; narrow it with path]")
    return notes


class _Report:
    """Gathers found lines until its bounds are reached."""

    def __init__(self, output: str, most_chars: int, *, has_context: bool) -> None:
        self._output = output
        self._room = most_chars
        self._has_context = has_context
        self._counts: dict[str, int] = {}
        self._lines: list[str] = []
        self._last: tuple[str, int] = ("", 0)
        self._matches = 0
        self._is_full = False

    def knows(self, shown: str) -> bool:
        return shown in self._counts

    def add(self, shown: str, line: Line) -> bool:
        """Take a line; return False, without taking it, where there is room for no more."""
        is_match = line.at >= 0
        is_content = self._output == "content"
        is_beyond = is_content and is_match and self._matches >= MOST_MATCHES
        is_new_beyond = not self.knows(shown) and len(self._counts) >= MOST_FILES
        if is_beyond or is_new_beyond or self._room <= 0:
            self._is_full = True
            return False
        self._matches += is_match
        self._counts[shown] = self._counts.get(shown, 0) + is_match
        if is_content:
            entry = f"{line.number}{':' if is_match else '-'}{_shortened(line)}"
            self._room -= len(entry)
            self._lines += [*self._heading(shown, line.number), entry]
            self._last = (shown, line.number)
        return True

    def _heading(self, shown: str, number: int) -> list[str]:
        file, last = self._last
        if file != shown:
            return ["", shown] if file else [shown]
        return ["--"] if self._has_context and number != last + 1 else []

    def outcome(self, notes: list[str]) -> ToolOutcome:
        files = len(self._counts)
        if not files:
            return ToolOutcome("\n".join(["[no matches]", *notes]), summary="no matches")
        if self._is_full:
            notes = ["[there are more; narrow the pattern, path or glob]", *notes]
        plural = "s" if files != 1 else ""
        if self._output == "files":
            return ToolOutcome("\n".join([*self._counts, *notes]), summary=f"{files} file{plural}")
        if self._output == "count":
            lines = [f"{count:>6}\t{shown}" for shown, count in self._counts.items()]
        else:
            lines = self._lines
        matches = f"{self._matches} match{'es' if self._matches != 1 else ''}"
        return ToolOutcome("\n".join([*lines, *notes]), summary=f"{matches} in {files} file{plural}")


def _shortened(line: Line) -> str:
    """Return a line, or of a long one the part around its match."""
    if len(line.text) <= MOST_LINE_CHARS:
        return line.text
    start = max(0, min(line.at - _BEFORE_MATCH, len(line.text) - MOST_LINE_CHARS))
    end = start + MOST_LINE_CHARS
    return f"{'...' if start else ''}{line.text[start:end]}{'...' if end < len(line.text) else ''}"
