"""Problems of a file: parsing of diagnostics, comparison before and after an edit, and display. Pure.

Diagnostics are values of the Language Server Protocol (LSP). Text of language servers and checkers is not trusted, so
this module cleans and shortens it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from qcode.text.clean import single_spaced
from qcode.text.numbers import count_text
from qcode.values import dataclass

Severity: TypeAlias = Literal["error", "warning"]

MAX_SHOWN = 20
"""The maximum number of listed problems of a file."""
MAX_MESSAGE_CHARS = 300
MAX_SOURCE_CHARS = 60
MAX_DIAGNOSTICS = 2_000
"""The number of diagnostics read from one report; a server that sends more has misunderstood the file."""

_SEVERITIES: Mapping[int, Severity] = {1: "error", 2: "warning"}
"""`DiagnosticSeverity` of LSP. Hints and information are not problems."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a file."""

    severity: Severity
    line: int
    """Counts from 1."""
    column: int
    """Counts characters from 1."""
    message: str
    source: str = ""
    """The program and its rule: `ruff F401`."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The problem without its line and column, to recognize it after lines moved."""
        return self.severity, self.message, self.source


def clean_problem(severity: Severity, line: int, column: int, message: str, source: str = "") -> Problem:
    """Return a problem with its text cleaned and shortened."""
    text = single_spaced(message, MAX_MESSAGE_CHARS) or "no message"
    return Problem(severity, max(1, line), max(1, column), text, single_spaced(source, MAX_SOURCE_CHARS))


def parse_diagnostics(diagnostics: object, text: str, server: str) -> tuple[Problem, ...]:
    """Return the problems in a list of LSP diagnostics about `text`; malformed entries are skipped."""
    lines = text.split("\n")
    items = diagnostics[:MAX_DIAGNOSTICS] if isinstance(diagnostics, list) else []
    problems = (_parse_diagnostic(entry, lines, server) for entry in items if isinstance(entry, dict))
    return tuple(problem for problem in problems if problem is not None)


def _parse_diagnostic(entry: Mapping[str, Any], lines: Sequence[str], server: str) -> Problem | None:
    # A diagnostic without a severity counts as an error; LSP leaves this to the client.
    severity = _SEVERITIES.get(entry.get("severity", 1))
    extent = entry.get("range")
    start = extent.get("start") if isinstance(extent, dict) else None
    message = entry.get("message")
    if severity is None or not isinstance(start, dict) or not isinstance(message, str):
        return None
    line, character = start.get("line"), start.get("character")
    if not isinstance(line, int) or not isinstance(character, int):
        return None
    source, code = entry.get("source"), entry.get("code")
    parts = [source if isinstance(source, str) and source else server, code if isinstance(code, str | int) else ""]
    column = _column(lines, line, character)
    return clean_problem(severity, line + 1, column, message, " ".join(map(str, parts)).strip())


def _column(lines: Sequence[str], line: int, utf16_units: int) -> int:
    """Return the column, counted in characters from 1, of a position that counts UTF-16 code units from 0."""
    if not 0 <= line < len(lines) or lines[line].isascii():
        return utf16_units + 1
    start = lines[line].encode("utf-16-le", "surrogatepass")[: 2 * max(0, utf16_units)]
    return len(start.decode("utf-16-le", "replace")) + 1


def new_problems(
    before: Iterable[Problem], after: Iterable[Problem], old_text: str | None, new_text: str
) -> tuple[Problem, ...]:
    """Return the problems of `after` that `before` did not have, errors first, then by line.

    A problem is old if `before` has the same problem on the same line. Lines below the edit are renumbered for this:
    after an edit that added 2 lines, a problem on line 9 is expected on line 11. Each problem of `before` that is not
    found on its line, or is on an edited line, still makes one problem with the same text old.
    """
    line_map = _LineMap((old_text or "").split("\n"), new_text.split("\n"))
    old_by_line: Counter[tuple[int, tuple[str, str, str]]] = Counter()
    old_by_text: Counter[tuple[str, str, str]] = Counter()
    for problem in before:
        line = line_map.line_after(problem.line)
        if line is None:
            old_by_text[problem.key] += 1
        else:
            old_by_line[line, problem.key] += 1
    unmatched: list[Problem] = []
    for problem in sorted(set(after), key=_sort_key):
        if old_by_line[problem.line, problem.key]:
            old_by_line[problem.line, problem.key] -= 1
        else:
            unmatched.append(problem)
    for (_, key), count in old_by_line.items():
        old_by_text[key] += count
    new: list[Problem] = []
    for problem in unmatched:
        if old_by_text[problem.key]:
            old_by_text[problem.key] -= 1
        else:
            new.append(problem)
    return tuple(new)


def _sort_key(problem: Problem) -> tuple[bool, int, int, str]:
    return problem.severity != "error", problem.line, problem.column, problem.message


class _LineMap:
    """Maps line numbers before an edit to those after it. The edit is between the equal lines at both ends of the file.

    Example: if line 3 of 5 was replaced by 2 lines, lines 1 and 2 stay, 4 and 5 become 5 and 6, and 3 has no number.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        shorter = min(len(old), len(new))
        head = next((index for index in range(shorter) if old[index] != new[index]), shorter)
        max_tail = shorter - head
        tail = next((index for index in range(max_tail) if old[-1 - index] != new[-1 - index]), max_tail)
        self._head = head
        self._tail_from = len(old) - tail
        self._offset = len(new) - len(old)

    def line_after(self, line: int) -> int | None:
        """Return the number of a line after the edit, None if the edit changed the line."""
        if line <= self._head:
            return line
        return line + self._offset if line > self._tail_from else None


def new_problem_count(problems: Sequence[Problem]) -> str:
    """Return the number of new problems, such as `2 new problems`."""
    return count_text(len(problems), "new problem")


def problem_lines(label: str, problems: Sequence[Problem]) -> list[str]:
    """Return a line for each problem, at most `MAX_SHOWN`; `label` is the printable name of the file."""
    lines = [_problem_line(label, problem) for problem in problems[:MAX_SHOWN]]
    omitted = len(problems) - MAX_SHOWN
    return [*lines, f"[{omitted} more]"] if omitted > 0 else lines


def _problem_line(label: str, problem: Problem) -> str:
    source = f" ({problem.source})" if problem.source else ""
    return f"{label}:{problem.line}:{problem.column}: {problem.severity}: {problem.message}{source}"


def diagnostics_block(label: str, title: str, lines: Sequence[str]) -> str:
    """Return lines about a file as a `<diagnostics>` block for the model. Text in the lines cannot close the block."""
    body = "\n".join([title, *lines]).replace("</diag", "< /diag")
    name = label.replace('"', "'")
    return f'<diagnostics file="{name}">\n{body}\n</diagnostics>'
