"""Folders of Markdown files with front matter: commands, agents and rules of qcode and Claude Code.

A file of a project is read only if the caller says that its folder is trusted. A separate module because agents,
commands and rules share it, and load one without the others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from qcode.agent.context.front_matter import FrontMatter, FrontMatterError, read_front_matter
from qcode.config.definitions import named_files
from qcode.text.clean import one_line
from qcode.values import dataclass

MAX_BYTES = 256 * 1024
_DOCUMENTATION_FILES = frozenset({"readme.md", "claude.md", "agents.md"})


@dataclass(frozen=True, slots=True)
class MarkdownFolder:
    """A folder of definitions, one in each file."""

    path: Path
    project: Path | None = None
    """The project: links in the folder must not lead out of it; None for a folder of the user."""

    def files(self, problems: list[str]) -> Iterator[Path]:
        """Yield the files in the order of `named_files`; add a line to `problems` for each refused file."""
        return (file for _, file in self.named_files(problems))

    def named_files(self, problems: list[str]) -> Iterator[tuple[str, Path]]:
        """Yield each file with its name, such as `git:commit` for `git/commit.md`."""
        for name, file in named_files(self.path, problems, inside=self.project, suffix=".md"):
            if file.name.lower() not in _DOCUMENTATION_FILES:
                yield name, file


def markdown_folders(folders: Iterable[tuple[Path, Path | None]]) -> tuple[MarkdownFolder, ...]:
    """Return the folders of `RunContext.definition_folders`."""
    return tuple(MarkdownFolder(path, project) for path, project in folders)


def read_markdown(file: Path, *, is_lenient: bool = False) -> FrontMatter:
    """Read a file of at most 256 KiB with `read_front_matter`; raise `FrontMatterError`.

    A pipe or device is an error and does not block.
    """
    label = str(file)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise FrontMatterError(one_line(f"{label}:1: not a regular file"))
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise FrontMatterError(one_line(f"{label}:1: cannot read the file: {error.strerror}")) from None
    if len(data) > MAX_BYTES:
        raise FrontMatterError(one_line(f"{label}:1: the file is larger than {MAX_BYTES // 1024} KiB"))
    return read_front_matter(data, label, is_lenient=is_lenient)
