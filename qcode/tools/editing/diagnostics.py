"""The `diagnostics` tool: runs the project's own linters and type checkers on the changed files.

Checkers run code of the project, so a call becomes a shell command, which is judged, shown and run like any other. A
checker is used only if the project configures it, in a file that the checker's documentation names.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from qcode.protocol.tools import CommandExecution, Refused, ToolOutcome, ToolSpec
from qcode.text.json import JsonObject
from qcode.tools.arguments import validate_arguments
from qcode.tools.shell import Shell
from qcode.tools.tool import Preview, ToolRunContext, failed
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

_MAX_CONFIG_BYTES = 1024 * 1024


Command: TypeAlias = Callable[[Path, Path, Sequence[str]], list[str]]
"""A function that returns the argv to run in a folder of the workspace.

It gets the root of the workspace, the folder, and the files to check, relative to the folder.
"""


@dataclass(frozen=True, slots=True)
class Checker:
    """A linter or type checker."""

    name: str
    endings: tuple[str, ...]
    """The endings of the files that it checks."""
    is_set_up: Callable[[Path], bool]
    """Returns whether a folder configures the checker."""
    command: Command


def check_command(root: Path, files: Iterable[Path]) -> str:
    """Return the command that checks `files` when run in `root`; empty if no checker is set up for them."""
    sorted_files = sorted(set(files))
    commands: list[str] = []
    for checker in CHECKERS:
        names_by_folder: dict[Path, list[str]] = {}
        for file in sorted_files:
            folder = nearest_folder(root, file, checker) if file.suffix in checker.endings else None
            if folder is not None:
                names_by_folder.setdefault(folder, []).append(file.relative_to(folder).as_posix())
        for folder, names in sorted(names_by_folder.items()):
            commands.append(_shell_text(root, folder, checker, names))
    return "; ".join(commands)


def _shell_text(root: Path, folder: Path, checker: Checker, names: Sequence[str]) -> str:
    files = [f"./{name}" if name.startswith("-") else name for name in names]
    command = shlex.join(checker.command(root, folder, files))
    return command if folder == root else f"(cd {shlex.quote(folder.relative_to(root).as_posix())} && {command})"


def nearest_folder(root: Path, file: Path, checker: Checker) -> Path | None:
    """Return the closest folder above the file, up to `root`, in which the checker is set up."""
    return next((folder for folder in file.parents if folder.is_relative_to(root) and checker.is_set_up(folder)), None)


def _has_file(*names: str) -> Callable[[Path], bool]:
    return lambda folder: any(os.path.isfile(folder / name) for name in names)  # noqa: PTH113  # never raises


def _text(path: Path) -> str:
    """Return the text of a configuration file, empty if it cannot be read, is too large, or is a pipe or device."""
    try:
        is_readable = path.is_file() and path.stat().st_size <= _MAX_CONFIG_BYTES
        return path.read_text("utf-8", errors="replace") if is_readable else ""
    except OSError:
        return ""


def _pyproject_has(tool: str) -> Callable[[Path], bool]:
    def has_section(folder: Path) -> bool:
        import tomllib

        try:
            tools = tomllib.loads(_text(folder / "pyproject.toml")).get("tool", {})
        except (ValueError, RecursionError):
            return False
        return isinstance(tools, dict) and tool in tools

    return has_section


def _ini_has(section: str, *names: str) -> Callable[[Path], bool]:
    pattern = re.compile(rf"^\[{section}\]", re.MULTILINE)
    return lambda folder: any(pattern.search(_text(folder / name)) for name in names)


def _package_json_has(key: str) -> Callable[[Path], bool]:
    def has_section(folder: Path) -> bool:
        try:
            package = json.loads(_text(folder / "package.json") or "{}")
        except (ValueError, RecursionError):
            return False
        return isinstance(package, dict) and key in package

    return has_section


def _any_of(*tests: Callable[[Path], bool]) -> Callable[[Path], bool]:
    return lambda folder: any(test(folder) for test in tests)


def _has_eslint(folder: Path) -> bool:
    endings = ("js", "mjs", "cjs", "ts", "mts", "cts")
    old = (".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.json", ".eslintrc.yml", ".eslintrc.yaml")
    has_file = _has_file(*(f"eslint.config.{ending}" for ending in endings), *old)
    return has_file(folder) or _package_json_has("eslintConfig")(folder)


def _python_command(name: str, *arguments: str) -> Command:
    """Return the command of a Python program, from the nearest virtual environment up to the root if one has it."""

    def command(root: Path, folder: Path, files: Sequence[str]) -> list[str]:
        depth = len(folder.relative_to(root).parts)
        for level in range(depth + 1):
            for environment in (".venv", "venv"):
                program = f"{'../' * level}{environment}/bin/{name}"
                if os.path.exists(folder / program):  # noqa: PTH110  # pathlib's raises in the folder of another user
                    return [program, *arguments, *files]
        return [name, *arguments, *files]

    return command


def _go_vet(root: Path, folder: Path, files: Sequence[str]) -> list[str]:
    folders = dict.fromkeys(Path(file).parent.as_posix() for file in files)
    return ["go", "vet", *("." if name == "." else f"./{name}" for name in folders)]


_PYTHON_ENDINGS = (".py", ".pyi")
_SCRIPT_ENDINGS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
CHECKERS = (
    Checker("ruff", _PYTHON_ENDINGS, _any_of(_has_file("ruff.toml", ".ruff.toml"), _pyproject_has("ruff")),
            _python_command("ruff", "check", "--no-fix", "--output-format=concise")),
    Checker("flake8", _PYTHON_ENDINGS, _any_of(_has_file(".flake8"), _ini_has("flake8", "setup.cfg", "tox.ini")),
            _python_command("flake8")),
    Checker("mypy", _PYTHON_ENDINGS,
            _any_of(_has_file("mypy.ini", ".mypy.ini"), _pyproject_has("mypy"), _ini_has("mypy", "setup.cfg")),
            _python_command("mypy", "--no-error-summary")),
    Checker("pyright", _PYTHON_ENDINGS, _any_of(_has_file("pyrightconfig.json"), _pyproject_has("pyright")),
            _python_command("pyright")),
    Checker("eslint", _SCRIPT_ENDINGS, _has_eslint,
            lambda root, folder, files: ["npx", "--no-install", "eslint", *files]),
    # If files are named, tsc ignores tsconfig.json.
    Checker("tsc", (".ts", ".tsx", ".mts", ".cts"), _has_file("tsconfig.json"),
            lambda root, folder, files: ["npx", "--no-install", "tsc", "--noEmit", "-p", "tsconfig.json"]),
    Checker("go vet", (".go",), _has_file("go.mod"), _go_vet),
    Checker("cargo check", (".rs",), _has_file("Cargo.toml"),
            lambda root, folder, files: ["cargo", "check", "--quiet", "--message-format=short"]),
)  # fmt: skip


class Diagnostics:
    """The `diagnostics` tool. The agent runs the command from `shell_arguments`; `run` only returns an error."""

    spec = ToolSpec(
        name="diagnostics",
        description=(
            "Check files with the linters and type checkers that the project has configured "
            f"({', '.join(checker.name for checker in CHECKERS)}) and return their output. Without paths it checks "
            "the files changed in this session. Use it after changing code."
        ),
        parameters={
            "type": "object",
            "properties": {
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": 200,
                    "description": "Files to check. Default: the changed files.",
                },
            },
            "required": [],
            "additionalProperties": False,
        },
        is_backgroundable=True,
        safety=CommandExecution(),
    )

    def shell_arguments(self, arguments: JsonObject, workspace: Workspace) -> JsonObject:
        """Return the arguments of the equivalent shell call. Raise `Refused` if no checker is set up."""
        paths = validate_arguments(self.spec, arguments).texts("paths")
        files = [workspace.resolve(path).path for path in paths] if paths else workspace.changed_files()
        if not files:
            raise Refused("diagnostics: no file was changed in this session; name the files to check with paths")
        command = check_command(workspace.root, [file for file in files if file.is_relative_to(workspace.root)])
        if not command:
            raise Refused("diagnostics: the project has no supported linter or type checker configured for these files")
        return {"command": command}

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            return Shell().preview(self.shell_arguments(arguments, workspace), workspace)
        except Refused as refused:
            return Preview("Check files?", detail="", refusal=str(refused))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        refusal = self.preview(arguments, workspace).refusal
        return failed(refusal or "diagnostics: not run; call shell with the command of the checker instead")
