"""Folders of Markdown files with front matter: commands, agents and rules of qcode and Claude Code.

A file of a project is read only if the caller says that its folder is trusted. A separate module because agents,
commands and rules share it, and load one without the others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from qcode.agent.context.front_matter import FrontMatter, FrontMatterError, read_front_matter
from qcode.config.definitions import named_files
from qcode.config.paths import DefinitionFolder
from qcode.text.clean import one_line

MAX_BYTES = 256 * 1024
_DOCUMENTATION_FILES = frozenset({"readme.md", "claude.md", "agents.md"})


def markdown_files(folder: DefinitionFolder, problems: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each definition, such as `git:commit` and `git/commit.md`; see `named_files`."""
    for name, file in named_files(folder.path, problems, inside=folder.project, suffix=".md"):
        if file.name.lower() not in _DOCUMENTATION_FILES:
            yield name, file


def read_markdown(file: Path, label: str = "", *, is_lenient: bool = False) -> FrontMatter:
    """Read a file of at most 256 KiB with `read_front_matter`; raise `FrontMatterError`.

    Errors call the file `label`; without one, they name its path. A pipe or device is an error and does not block.
    """
    label = label or str(file)
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
