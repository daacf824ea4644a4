"""Instruction files below the session's folder, and rules with `paths`: sent when the model uses a file they cover.

The files follow the result of the call, outermost first. Each file is sent once, and again after the file changed or a
compaction removed it. Files in dependency folders and nested repositories are not read. Separate from `memory`,
because most sessions use no such file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from qcode.agent.context.instructions import (
    MAX_TOTAL_BYTES,
    RULE_FOLDERS,
    InstructionFile,
    InstructionLoader,
    Instructions,
)
from qcode.agent.context.project import git_folder
from qcode.values import dataclass

MAX_FILE_BYTES = 16 * 1024
"""The maximum size of one file."""

_DEPENDENCIES = frozenset(
    {"node_modules", "site-packages", "dist-packages", ".venv", "venv", "bower_components", "vendor", ".git"}
)
_INTRODUCTION = "Instructions of the project for the files that this call touched:"


@dataclass(frozen=True, slots=True)
class _SeenFile:
    """A file that the model has received."""

    file: InstructionFile
    version: tuple[int, int]
    """The version that the model received; see `_version`."""


class NestedInstructions:
    """The instruction files below the folder that the conversation, or one sub-agent, has received.

    `start_instructions` returns the instructions in the system prompt. `may_read` returns whether a file may be
    attached.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        home: Path | None,
        start_instructions: Callable[[], Instructions],
        reads_project: Callable[[], bool],
        may_read: Callable[[Path], bool],
    ) -> None:
        self._folder = folder
        self._root = root
        self._home = home
        self._start_instructions = start_instructions
        self._reads_project = reads_project
        self._may_read = may_read
        self._lock = threading.Lock()
        """Held while files are attached: calls that run in parallel must not attach the same file twice."""
        self._attached_files: dict[Path, _SeenFile] = {}
        self._notices: dict[str, None] = {}

    @property
    def files(self) -> tuple[InstructionFile, ...]:
        return tuple(item.file for item in self._attached_files.values())

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(self._notices)

    def for_subagent(self) -> NestedInstructions:
        """Return the instructions for a sub-agent, which has read no file yet."""
        return NestedInstructions(
            self._folder, self._root, self._home, self._start_instructions, self._reads_project, self._may_read
        )

    def forget(self) -> None:
        """Attach each file again when it is next needed, because a compaction removed the files from the messages."""
        self._attached_files.clear()

    def text_for(self, paths: Iterable[str]) -> str:
        """Return the instructions for the files of a call, empty without instructions. Reads files."""
        if not self._reads_project():
            return ""
        with self._lock:
            return self._attach_files(paths)

    def _attach_files(self, paths: Iterable[str]) -> str:
        """Return the instructions for the files of a call that the model does not have, and record them as attached."""
        loader: InstructionLoader | None = None
        for path in map(Path, paths):
            if not path.is_relative_to(self._root) or path == self._root:
                continue
            loader = loader or self._loader()
            name = path.relative_to(self._root).as_posix()
            loader.reason = f"read for {name}"
            for folder in self._folders(path):
                loader.load_folder(folder, self._root)
            if self._home is not None:
                loader.load_rules(self._home / ".claude/rules", None, name)
            for rules in RULE_FOLDERS:
                loader.load_rules(self._root / rules, self._root, name)
        if loader is None:
            return ""
        self._notices |= dict.fromkeys(loader.notices)
        for file in loader.files:
            self._attached_files[file.path] = _SeenFile(file, _version(file.path))
        return "\n\n".join([_INTRODUCTION, *loader.parts]) if loader.parts else ""

    def _loader(self) -> InstructionLoader:
        start = self._start_instructions().files
        current = {path for path, attached in self._attached_files.items() if attached.version == _version(path)}
        used = sum(file.used_bytes for file in (*start, *self.files))
        loader = InstructionLoader(bytes_left=max(0, MAX_TOTAL_BYTES - used), max_file_bytes=MAX_FILE_BYTES)
        loader.use_project(self._root, self._may_read)
        loader.seen_paths = {*(file.path for file in start), *current}
        return loader

    def _folders(self, path: Path) -> Iterator[Path]:
        """Yield the folders between the session's folder and a file, outermost first."""
        if not path.is_relative_to(self._folder):
            return
        current = self._folder
        for part in path.relative_to(self._folder).parts[:-1]:
            current = current / part
            if part in _DEPENDENCIES or git_folder(current) is not None:
                return
            yield current


def _version(path: Path) -> tuple[int, int]:
    """Return modification time in nanoseconds and size in bytes, which change with the content of a file."""
    try:
        stat = path.stat()
    except OSError:
        return (0, -1)
    return (stat.st_mtime_ns, stat.st_size)
