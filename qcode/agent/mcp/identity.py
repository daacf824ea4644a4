"""The files that a server starts, with their hashes: an approval applies to exactly these contents.

The files are the program itself, and every file that its arguments name in the workspace, where the model can write:
scripts, modules and local packages. Files that these load in turn are not included. All functions block.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from qcode.agent.mcp.spec import NOT_FOUND, TOO_LARGE, ServerError
from qcode.agent.trust.store import TrustedFile
from qcode.config.settings import McpServer
from qcode.text.pattern import lazy_pattern
from qcode.tools.processes import command_environment

_MAX_TEXT_BYTES = 32 * 1024
"""The maximum size of a file whose text is stored, to show a diff after a change."""
# The limits of one folder; a folder above them is `TOO_LARGE`.
MAX_FILES = 5_000
_MAX_TREE_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# Programs that run a package by its name or folder.
_PACKAGE_RUNNERS = lazy_pattern(
    r"(?:npx|npm|pnpx|pnpm|bunx|bun|yarn|node|deno|tsx|uvx?|pipx|poetry|pipenv|hatch|pdm|py|pypy[\d.]*|python[\d.]*|go)"
)
_RUNNER_COMMANDS = frozenset({"run", "exec", "dlx", "x", "tool", "start", "install"})
_MODULE_EXTENSIONS = (".js", ".json", ".node")
"""Extensions that `node server` tries: https://nodejs.org/api/modules.html#file-modules."""
_PACKAGE_OPTIONS = frozenset(
    {"--from", "--with", "--package", "-p", "--prefix", "--directory", "--project", "-C", "--dir"}
)
# Programs that read a file in their folder without an argument, such as `make`.
_TASK_FILES: Mapping[str, tuple[str, ...]] = {
    "npm": ("package.json",), "pnpm": ("package.json",), "yarn": ("package.json",), "bun": ("package.json",),
    "deno": ("deno.json", "deno.jsonc"), "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"), "task": ("Taskfile.yml", "Taskfile.yaml"),
}  # fmt: skip
_PACKAGE_BIN_FOLDERS = ("node_modules/.bin", ".venv/bin", "venv/bin")
"""The folders in the workspace with the programs of installed packages."""
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache"})
# Variables with code that an interpreter runs before its script.
_PRELOAD_VARIABLES = (
    "NODE_OPTIONS", "PYTHONSTARTUP", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "RUBYOPT", "PERL5OPT",
    "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS",
)  # fmt: skip
_MODULE = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_SEPARATORS = lazy_pattern(r"[\s=:,;'\"<>|&(){}]+")
_CHANGED_FOLDER = lazy_pattern(r"\bcd\s+([^\s;&|<>()'\"]+)")


def files_of(config: McpServer, cwd: Path, env: Mapping[str, str], roots: Sequence[Path]) -> dict[str, TrustedFile]:
    """Return the files that a server starts, by their display name: the program, and files below `roots`.

    `config` has its variables expanded; `env` is the environment of qcode, `cwd` the folder of the server. The program
    of a server in the user's configuration is included only below `roots`, where the model could replace it.
    """
    if config.command is None:
        return {}
    from qcode.agent.mcp.transports import program_path  # loads with the first start

    inherited = {**command_environment(env), **config.env}
    collector = _FileCollector(
        cwd, tuple(dict.fromkeys(Path(os.path.realpath(root)) for root in roots)), inherited["PATH"]
    )
    try:
        program = program_path(config.command, cwd, inherited["PATH"])
    except ServerError:
        return {f"program {config.command}": TrustedFile(NOT_FOUND, "")} if config.is_from_project else {}
    collector.add_program(config.command, cwd / program, even_outside=config.is_from_project)
    for index, argument in enumerate(config.args):
        collector.add_argument(argument, skips_databases=index > 0)
    for file in _TASK_FILES.get(Path(program).name, ()):
        collector.add_argument(file)
    for package in _packages(Path(program).name, config.args):
        collector.add_package(package)
    for module in _modules(config.args):
        collector.add_module(
            module, (cwd, *(cwd / folder for folder in config.env.get("PYTHONPATH", "").split(":") if folder))
        )
    for name in _PRELOAD_VARIABLES:
        if name in config.env:
            collector.add_argument(config.env[name])
    return collector.files


def _packages(program: str, args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments that name a package or script for a runner: `npx PKG`, `uv run --directory DIR X`.

    Other arguments are data, such as the folder in `npx server-filesystem .`.
    """
    words = [program]
    for argument in args:
        words += argument.split() if " " in argument else [argument]  # `sh -c "npx PKG"`
    is_option_value = expects_package = False
    for word in words:
        if is_option_value:
            yield word
            is_option_value = False
        elif _PACKAGE_RUNNERS.fullmatch(word.rpartition("/")[2]):
            expects_package = True
        elif word.startswith("-"):
            option, has_value, value = word.partition("=")
            is_option_value = option in _PACKAGE_OPTIONS and not has_value
            if option in _PACKAGE_OPTIONS and has_value:
                yield value
        elif expects_package and word not in _RUNNER_COMMANDS:
            yield word
            expects_package = False


def _modules(args: Sequence[str]) -> Iterator[str]:
    """Yield the modules of `-m MODULE` and `-mMODULE`."""
    for index, argument in enumerate(args):
        module = args[index + 1] if argument == "-m" and index + 1 < len(args) else argument[2:]
        if argument.startswith("-m") and _MODULE.fullmatch(module):
            yield module


class _FileCollector:
    """Collects `files` by their display path. Links are followed."""

    def __init__(self, cwd: Path, roots: tuple[Path, ...], search_path: str) -> None:
        self.files: dict[str, TrustedFile] = {}
        self._cwd = cwd
        self._roots = roots
        self._search_path = search_path

    def add_program(self, command: str, path: Path, *, even_outside: bool) -> None:
        """Add the program of a server, if it is in the workspace or `even_outside`."""
        if not even_outside and not self._is_inside(path):
            return
        real = Path(os.path.realpath(path))
        label = command if str(real) == command else f"{command} ({real})"
        self.files[f"program {label}"] = _read(real, keeps_text=self._is_inside(path))
        self._add_interpreter(path)

    def add_argument(self, argument: str, *, skips_databases: bool = False) -> None:
        """Add each file that an argument names: in full, after `--flag=`, in a list, or in a shell command.

        `skips_databases`: leave out SQLite databases, which change whenever a server uses them.
        """
        # `argument[2:]` is the file of a short option: `-rsetup.js`.
        for word in dict.fromkeys((argument, argument[2:], *_SEPARATORS.split(argument))):
            name = word.removeprefix("file://").removeprefix("file:").removeprefix("@")
            for folder in ("", *_CHANGED_FOLDER.findall(argument)) if name and "\0" not in name else ():
                path = self._cwd / folder / name
                if not (skips_databases and _is_database(path)):
                    self._add(path)

    def add_package(self, name: str) -> None:
        """Add the package that a runner gets: a folder or file in the workspace, or a program installed there."""
        name = name.removeprefix("file:")
        if not name or "\0" in name:
            return
        self._add(self._cwd / name, allows_folder=True)
        for extension in _MODULE_EXTENSIONS:
            self._add(self._cwd / f"{name}{extension}")
        for folder in _PACKAGE_BIN_FOLDERS if "/" not in name and name not in (".", "..") else ():
            self._add(self._cwd / folder / name)

    def add_module(self, module: str, folders: Sequence[Path]) -> None:
        """Add the module that `python -m` would run from a folder of the workspace: a file or its whole package."""
        for folder in folders:
            top = folder / module.partition(".")[0]
            self._add(top.with_name(f"{top.name}.py"))
            self._add(top, allows_folder=True)

    def _add(self, path: Path, *, allows_folder: bool = False) -> None:
        """Add a path if it is a file in the workspace, or with `allows_folder` a folder there with all its files."""
        if not self._is_inside(path):
            return
        try:
            mode = path.stat().st_mode
        except (OSError, ValueError):
            return
        if stat.S_ISREG(mode):
            self.files[self._label(path)] = _read(Path(os.path.realpath(path)), keeps_text=True)
            self._add_interpreter(path)
        elif stat.S_ISDIR(mode) and allows_folder:
            self.files[f"{self._label(path)}/"] = _read_tree(Path(os.path.realpath(path)))

    def _add_interpreter(self, path: Path) -> None:
        """Add the interpreter of a script if it is in the workspace: `#!./bin/python`, `#!/usr/bin/env x`."""
        try:
            handle = os.open(path, _OPEN_FLAGS)
        except OSError:
            return
        with os.fdopen(handle, "rb") as file:
            head = file.read(256) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        if not head.startswith(b"#!"):
            return
        for word in head[2:].split(b"\n")[0].decode("utf-8", "surrogateescape").split():
            executable = shutil.which(word, path=self._search_path) if "/" not in word else word
            if executable is None:
                continue
            interpreter = self._cwd / executable
            if interpreter != path and self._label(interpreter) not in self.files:
                self._add(interpreter)

    def _is_inside(self, path: Path) -> bool:
        """Return whether the model can replace a file: its path or the target of its links is in the workspace."""
        normalized = Path(os.path.normpath(self._cwd / path))
        parent = Path(os.path.realpath(normalized.parent)) / normalized.name
        real = Path(os.path.realpath(path))
        return any(candidate.is_relative_to(root) for root in self._roots for candidate in (parent, real))

    def _label(self, path: Path) -> str:
        normalized = Path(os.path.normpath(self._cwd / path))
        return str(normalized.relative_to(self._cwd)) if normalized.is_relative_to(self._cwd) else str(normalized)


def _read(path: Path, *, keeps_text: bool) -> TrustedFile:
    """Return the hash of a file; with `keeps_text` also the text of a file of at most `_MAX_TEXT_BYTES`."""
    digest, head = hashlib.sha256(), b""
    try:
        handle = os.open(path, _OPEN_FLAGS)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return TrustedFile(NOT_FOUND, "")
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                head = head if len(head) > _MAX_TEXT_BYTES else head + chunk[: _MAX_TEXT_BYTES + 1]
    except OSError:
        return TrustedFile(NOT_FOUND, "")
    is_text = keeps_text and len(head) <= _MAX_TEXT_BYTES and b"\0" not in head
    return TrustedFile(digest.hexdigest(), head.decode("utf-8", "replace") if is_text else "")


def _is_database(path: Path) -> bool:
    try:
        with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
            return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _read_tree(folder: Path) -> TrustedFile:
    """Return the hash of the names and contents of all files below a folder, without installed packages."""
    digest, count, size = hashlib.sha256(), 0, 0
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(current, name)
            count += 1
            with suppress(OSError):
                size += path.stat().st_size
            if count > MAX_FILES or size > _MAX_TREE_BYTES:
                return TrustedFile(TOO_LARGE, "")
            file = _read(Path(os.path.realpath(path)), keeps_text=False)
            digest.update(f"{path.relative_to(folder)}\0{file.hash}\n".encode("utf-8", "surrogateescape"))
    return TrustedFile(digest.hexdigest(), "")
