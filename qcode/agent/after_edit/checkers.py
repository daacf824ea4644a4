"""Checkers for files without a language server: programs that quickly report the problems of one text.

A checker reads the text from stdin, so that the text before an edit can be checked too. Checkers run in the same
sandbox as the servers. A linter is used only if the project configures it; a parser is always used, because syntax
errors are errors in every project.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qcode.agent.after_edit.problems import MAX_DIAGNOSTICS, Problem, Severity, clean_problem
from qcode.protocol.tools import Launch
from qcode.tools.editing.diagnostics import CHECKERS, nearest_folder
from qcode.tools.processes import command_environment, find_program, run_program
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

CHECK_TIMEOUT_S = 10.0
MAX_OUTPUT_BYTES = 1024 * 1024

_PARSE_PYTHON = """
import sys
try:
    compile(sys.stdin.buffer.read(), "text", "exec", 0x400, True)
except SyntaxError as error:
    print(f"{error.lineno or 1}:{error.offset or 1}:{error.msg}")
"""
"""A program that only parses the text on its stdin (0x400 is `ast.PyCF_ONLY_AST`): no code in the text runs."""


@dataclass(frozen=True, slots=True)
class TextChecker:
    """A program that checks one text."""

    program: str
    extensions: tuple[str, ...]
    """The file extensions that the program checks, without the dot."""
    arguments: Callable[[str], Sequence[str]]
    """Returns the arguments of the program for the path of a file."""
    parse: Callable[[str], Iterable[Problem]]
    """Returns the problems in the output of the program."""
    linter: str = ""
    """The name in the `diagnostics` tool, for a checker that runs only if the project configures it."""


def _line_parser(pattern: str, source: str) -> Callable[[str], Iterator[Problem]]:
    """Return a parser for lines that match a pattern with the groups `line` and `message`, and optionally `column`."""
    compiled = re.compile(pattern)

    def parse(output: str) -> Iterator[Problem]:
        for line in output.split("\n")[:MAX_DIAGNOSTICS]:
            if match := compiled.search(line):
                groups = match.groupdict()
                line_number, column = int(groups["line"]), int(groups.get("column") or 1)
                yield clean_problem("error", line_number, column, groups["message"], source)

    return parse


def _parse_ruff(output: str) -> Iterator[Problem]:
    for row in _parse_rows(output):
        location = row.get("location")
        # Rules such as F401 are warnings; the code of a syntax error is missing, or a word.
        severity: Severity = "warning" if re.fullmatch(r"[A-Z]+\d+", str(row.get("code"))) else "error"
        if isinstance(location, dict):
            line, column = _number_or_one(location.get("row")), _number_or_one(location.get("column"))
            yield clean_problem(severity, line, column, str(row.get("message")), f"ruff {row.get('code') or 'syntax'}")


def _parse_eslint(output: str) -> Iterator[Problem]:
    for file in _parse_rows(output):
        for row in file.get("messages") or []:
            if isinstance(row, dict):
                severity: Severity = "error" if row.get("severity") == 2 else "warning"
                yield _problem_at(row, severity, f"eslint {row.get('ruleId') or ''}".strip())


def _parse_shellcheck(output: str) -> Iterator[Problem]:
    for row in _parse_rows(output):
        if row.get("level") in ("error", "warning"):
            severity: Severity = "error" if row["level"] == "error" else "warning"
            yield _problem_at(row, severity, f"shellcheck SC{row.get('code')}")


def _problem_at(row: Mapping[str, Any], severity: Severity, source: str) -> Problem:
    """Return the problem in a row with the keys `line`, `column` and `message`."""
    line, column = _number_or_one(row.get("line")), _number_or_one(row.get("column"))
    return clean_problem(severity, line, column, str(row.get("message")), source)


def _parse_node(output: str) -> Iterator[Problem]:
    """Parse an uncaught error of node: the location is on the first line, the message on a later line."""
    match = re.search(r"^\[stdin\]:(\d+)", output, re.MULTILINE)
    message = re.search(r"^(SyntaxError: .*)", output, re.MULTILINE)
    if match and message and not _OTHER_DIALECT.search(message[1]):
        yield clean_problem("error", int(match[1]), 1, message[1], "node")


def _parse_rows(output: str) -> list[Mapping[str, Any]]:
    """Return the objects of the JSON list in the output of a checker; warnings may precede the list."""
    start = re.search(r"^\[", output, re.MULTILINE)
    try:
        rows = json.JSONDecoder().raw_decode(output, start.start())[0] if start else []
    except (ValueError, RecursionError):
        return []
    return [row for row in rows[:MAX_DIAGNOSTICS] if isinstance(row, dict)]


def _number_or_one(value: object) -> int:
    return value if isinstance(value, int) else 1


_OTHER_DIALECT = re.compile("outside a module|'export'|'import.meta'|'<'|await is only valid")
"""Errors about modules and JSX: a parser of plain scripts cannot tell whether the project allows them."""
_SCRIPT_EXTENSIONS = ("js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts")
TEXT_CHECKERS = (
    TextChecker("ruff", ("py", "pyi"), lambda name: ("check", "--no-fix", "--no-cache", "--output-format=json",
                                                     f"--stdin-filename={name}", "-"), _parse_ruff, "ruff"),
    TextChecker("flake8", ("py", "pyi"), lambda name: (f"--stdin-display-name={name}", "-"),
                _line_parser(r":(?P<line>\d+):(?P<column>\d+): (?P<message>\S+ .*)", "flake8"), "flake8"),
    TextChecker("eslint", _SCRIPT_EXTENSIONS, lambda name: ("--stdin", f"--stdin-filename={name}", "--format=json"),
                _parse_eslint, "eslint"),
    TextChecker("python3", ("py", "pyi"), lambda name: ("-I", "-S", "-c", _PARSE_PYTHON),
                _line_parser(r"^(?P<line>\d+):(?P<column>\d+):(?P<message>.*)", "Python syntax")),
    TextChecker("node", ("js", "cjs"), lambda name: ("--check", "-"), _parse_node),
    TextChecker("gofmt", ("go",), lambda name: ("-e", "-l"),
                _line_parser(r"^<standard input>:(?P<line>\d+):(?P<column>\d+): (?P<message>.*)", "gofmt")),
    TextChecker("shellcheck", ("sh", "bash"), lambda name: ("--format=json", "--shell=bash", "-"), _parse_shellcheck),
    TextChecker("bash", ("sh", "bash"), lambda name: ("--noprofile", "--norc", "-n"),
                _line_parser(r"line (?P<line>\d+): (?P<message>.*)", "bash")),
)  # fmt: skip
"""In order of preference: the first that is configured and installed checks a file."""


class TextCheckers:
    """The checkers of a session. `launch` returns how to start a program confined, or raises `ValueError`."""

    def __init__(
        self, environment: Mapping[str, str], workspace: Workspace, launch: Callable[[Sequence[str]], Launch]
    ) -> None:
        self._environment = environment
        self._workspace = workspace
        self._launch = launch
        self._programs: dict[str, str] = {}

    def has_checker(self, path: Path) -> bool:
        """Return whether there is a checker for files with this extension, installed or not."""
        extension = path.suffix.removeprefix(".").lower()
        return any(extension in checker.extensions for checker in TEXT_CHECKERS)

    def find(self, path: Path) -> TextChecker | None:
        """Return the first checker that the project configures for the file and that is installed. Reads files."""
        extension = path.suffix.removeprefix(".").lower()
        for checker in TEXT_CHECKERS:
            is_installed = extension in checker.extensions and bool(self._program_path(checker.program))
            if is_installed and self._is_configured(checker, path):
                return checker
        return None

    async def check(self, checker: TextChecker, path: Path, text: str) -> tuple[Problem, ...] | None:
        """Return the problems of `text`, a version of the file at `path`; None if the checker failed."""
        root = self._workspace.root
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
        argv = [self._program_path(checker.program), *checker.arguments(name)]
        output = bytearray()

        def collect(data: bytes) -> None:
            output.extend(data[: MAX_OUTPUT_BYTES - len(output)])

        launch = await asyncio.to_thread(self._launch, argv)
        with tempfile.TemporaryFile() as source:
            source.write(text.encode("utf-8", "replace"))
            source.seek(0)
            try:
                ended = await run_program(
                    launch,
                    cwd=root,
                    environment=command_environment(self._environment),
                    on_output=collect,
                    timeout_s=CHECK_TIMEOUT_S,
                    stdin=source.fileno(),
                )
            except OSError:
                return None
        if ended.is_timed_out or len(output) >= MAX_OUTPUT_BYTES:
            return None
        return tuple(checker.parse(output.decode("utf-8", "replace")))

    def _program_path(self, name: str) -> str:
        if name not in self._programs:
            self._programs[name] = find_program(name, self._environment, self._workspace) or ""
        return self._programs[name]

    def _is_configured(self, checker: TextChecker, path: Path) -> bool:
        if not checker.linter:
            return True
        linter = next(candidate for candidate in CHECKERS if candidate.name == checker.linter)
        return nearest_folder(self._workspace.root, path, linter) is not None
