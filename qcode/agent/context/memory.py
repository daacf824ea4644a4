"""The instruction files of a session, which are read again for each turn, and the texts of `/memory` and `/init`.

`instructions` decides which files are read. No file of a project is read or written before the user trusts it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qcode.agent.context.instructions import (
    DEFAULT_NAME,
    LOCAL_NAME,
    NAMES,
    InstructionFile,
    Instructions,
    load_instructions,
)
from qcode.config.paths import CLAUDE_FOLDER
from qcode.text.clean import one_line
from qcode.text.numbers import count_text
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.context.nested import NestedInstructions


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An instruction file, which may be missing."""

    path: str
    label: str
    """The path for display."""
    owner: Literal["yours", "project"]
    size: int | None
    """The size in bytes; None if the file is missing."""
    used_bytes: int = 0
    """The number of bytes in the prompt."""
    imported_by: str = ""
    """The displayed path of the file that imports this file; empty if no file does."""
    reason: str = ""
    """The reason for reading the file, if it is not in a folder between the root and the session's folder."""
    is_rule: bool = False
    """The file is a rule in a folder of rules, which may be about some files only."""


RESTRICTED = "This folder is restricted, so its instruction files are not read. Type /trust to lift this."
EXCLUDED = "--setting-sources excludes the project, so its instruction files are not read."
_OPEN_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_LINE_CHARS = 4_000


class InstructionFiles:
    """The instruction files of the project at `root`, and of the user in `config_dir` (None: without user files).

    `may_read` returns whether the rules of the session let the model read a file of the project without asking. `home`
    is the home folder of the user, with the files for Claude Code; None: without these files. With
    `includes_project=False`, the files of the project are not read even if it is trusted.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        config_dir: Path | None,
        is_trusted: Callable[[], bool],
        may_read: Callable[[Path], bool] = lambda path: True,
        home: Path | None = None,
        *,
        includes_project: bool = True,
    ) -> None:
        self._home = home
        self._nested: NestedInstructions | None = None
        self._folder = folder.resolve()
        self._root = root.resolve()
        self._config_dir = config_dir
        self._is_trusted = is_trusted
        self._may_read = may_read
        self._includes_project = includes_project

    def _reads_project(self) -> bool:
        return self._includes_project and self._is_trusted()

    def read(self) -> Instructions:
        """Return the current instructions; unchanged files give the same text, which hosts can cache."""
        return load_instructions(
            self._folder,
            self._root,
            self._config_dir,
            reads_project=self._reads_project(),
            may_read=self._may_read,
            home=self._home,
        )

    def nested(self) -> NestedInstructions:
        """Return the instruction files below the folder, which the model receives when it uses a file they cover."""
        from qcode.agent.context.nested import NestedInstructions  # loads with the first call to a file tool

        if self._nested is None:
            self._nested = NestedInstructions(
                self._folder, self._root, self._home, self.read, self._reads_project, self._may_read
            )
        return self._nested

    def files(self) -> tuple[ListedFile, ...]:
        """Return the files in use, in the order of the prompt, then files that could be created."""
        nested = () if self._nested is None else self._nested.files
        read = tuple(map(self._listed_file, (*self.read().files, *nested)))
        used_paths = {file.path for file in read}
        return (*read, *(file for file in self.editable_files() if file.path not in used_paths))

    def notes(self) -> tuple[str, ...]:
        """Return a line for each omitted file, with the reason."""
        nested = () if self._nested is None else self._nested.notices
        unread: tuple[str, ...] = ()
        if not self._includes_project:
            unread = (EXCLUDED,)
        elif not self._is_trusted():
            unread = (RESTRICTED,)
        return (*unread, *self.read().notices, *nested)

    def editable_files(self) -> tuple[ListedFile, ...]:
        """Return the files that a line can be added to: the project's in a trusted folder, then the user's.

        The first file of each owner is the best place for a line: the file nearest to the session's folder, never a
        rule unless there is nothing else.
        """
        read = [self._listed_file(file) for file in self.read().files if not file.imported_by]
        project_files = [file for file in read if file.owner == "project"]
        user_files = [file for file in read if file.owner == "yours"]
        has_file_here = any(os.path.lexists(self._folder / name) for name in (*NAMES, LOCAL_NAME))
        if self._reads_project() and not has_file_here:
            new = self._folder / DEFAULT_NAME
            project_files.append(ListedFile(str(new), str(new.relative_to(self._root)), "project", size=None))
        if self._config_dir is not None and not os.path.lexists(self._config_dir / DEFAULT_NAME):
            new = self._config_dir / DEFAULT_NAME
            user_files.append(ListedFile(str(new), self._with_tilde(str(new)), "yours", size=None))
        project_files.sort(key=lambda file: (file.is_rule, -file.label.count("/")))
        user_files.sort(key=lambda file: file.is_rule)
        return (*project_files, *user_files)

    def append(self, path: str, text: str) -> str:
        """Add a line to one of `editable_files`; return a message, or raise `ValueError` if it cannot be written."""
        file = next((file for file in self.editable_files() if file.path == path), None)
        line = " ".join(text.split()).removeprefix("- ")
        if file is None:
            raise ValueError("that instruction file does not exist")
        if not line or len(line) > _MAX_LINE_CHARS:
            raise ValueError(
                f"only one line of up to {_MAX_LINE_CHARS:,} characters can be added; use /memory to edit the file"
            )
        try:
            if file.owner == "yours":
                Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _append(Path(path), line)
        except OSError as error:
            raise ValueError(f"cannot write {file.label}: {error.strerror}") from None
        return f"Added to {file.label}. It applies from the next turn."

    def init_prompt(self, request: str) -> str:
        """Return the prompt to write or improve an instruction file; raise `ValueError` if the folder is restricted."""
        if not self._is_trusted():
            raise ValueError("This folder is restricted. Type /trust first, otherwise the file is never read.")
        existing = next((name for name in NAMES if os.path.lexists(self._folder / name)), "")
        return init_prompt(existing, request)

    def _listed_file(self, file: InstructionFile) -> ListedFile:
        """Return a loaded file with its owner and its path for display."""
        user_folders: list[Path] = []
        if self._config_dir is not None:
            # The user's file may be a link, and files that it imports are then in the folder of the link's target.
            user_folders.append((self._config_dir / DEFAULT_NAME).resolve().parent)
        if self._home is not None:
            user_folders.append((self._home / CLAUDE_FOLDER).resolve())
        is_in_project = file.path.is_relative_to(self._root)
        is_users = not is_in_project and any(file.path.is_relative_to(folder) for folder in user_folders)
        return ListedFile(
            str(file.path),
            label=self._with_tilde(file.label),
            owner="yours" if is_users else "project",
            size=file.size,
            used_bytes=file.used_bytes,
            imported_by=file.imported_by,
            reason=file.reason,
            is_rule=file.is_rule,
        )

    def _with_tilde(self, label: str) -> str:
        """Return the label of a file with `~` for the home folder."""
        if self._home is None or not label.startswith(f"{self._home}/"):
            return label
        return f"~{label.removeprefix(str(self._home))}"


def _append(path: Path, line: str) -> None:
    """Append a list item to a text file, with its line endings; raise `OSError` or `ValueError`."""
    handle = os.open(path, _OPEN_FLAGS, 0o644)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        data = file.read() or b""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
            raise ValueError(f"{path} is not UTF-8 text; /memory opens it in your editor")
        newline = b"\r\n" if b"\r\n" in data else b"\n"
        missing_newline = newline if data and not data.endswith(b"\n") else b""
        # The line continues a list at the end of the file; after any other text, a blank line starts a new list.
        last_line = data.rstrip().rpartition(b"\n")[2].lstrip()
        blank_line = newline if last_line and not last_line.startswith((b"- ", b"* ")) else b""
        file.write(missing_newline + blank_line + b"- " + line.encode("utf-8", "replace") + newline)


_INIT_NEW = "Explore this folder and write an AGENTS.md for it."
_INIT_EXISTING = "Explore this folder and improve its {name}."

_INIT_CONTENT = """\
Coding assistants read {name} at the start of each session. Include only facts that take effort to find out.

First collect the facts, and state only those you have verified:
- Use `ls` and `glob` for the layout. Read the files that define how to build, test, check and run the project \
(manifests, Makefile, CI configuration), the README and the contributing guide if they exist, and two or three of the \
most important source files with a test.
- Read existing instructions for other assistants (`CLAUDE.md`, `GEMINI.md`, `.cursor/rules`, \
`.github/copilot-instructions.md`) and keep the parts that are still correct.

Then write these sections:
- Commands: set up, build, run, all tests, a single test, linter, formatter, type checker; exactly as they are typed.
- Layout: the components and how they interact, if that takes reading several files to understand.
- Conventions: naming, style, error handling, tests, common mistakes in this project. No general advice.
Keep it under about 100 lines of Markdown. Include no keys, passwords or personal addresses.
"""
_INIT_WRITE = "Write it to `AGENTS.md` in this folder with one call, then summarize it in two lines."
_INIT_CHANGE = (
    "Improve the existing `{name}`: read it, keep the wording of correct parts, correct errors, add missing facts, "
    "and remove empty phrases. Then list your changes in a few lines, or say that no change is needed."
)


def init_prompt(existing: str, request: str = "") -> str:
    """Return the prompt; `existing` is the name of the current file if any, `request` the request of the user."""
    name = existing or "AGENTS.md"
    first = _INIT_EXISTING.format(name=existing) if existing else _INIT_NEW
    last = _INIT_CHANGE.format(name=existing) if existing else _INIT_WRITE
    request_text = f"The user adds: {request.strip()}" if request.strip() else ""
    parts = [first, _INIT_CONTENT.format(name=name), request_text, last]
    return "\n\n".join(part.strip() for part in parts if part)


def owner_label(file: ListedFile) -> str:
    """Return the projects for which an instruction file applies: `for all projects` or `for this project`."""
    return "for all projects" if file.owner == "yours" else "for this project"


def size_text(file: ListedFile) -> str:
    """Return the size of an instruction file in bytes, as text."""
    return "missing" if file.size is None else count_text(file.size, "byte")


def memory_detail(file: ListedFile) -> str:
    """Return owner, size and status of an instruction file in a few words."""
    owner = owner_label(file)
    if file.size is None:
        return f"{owner}; does not exist yet"
    importer = f", imported by {one_line(file.imported_by)}" if file.imported_by else ""
    reason = f", {one_line(file.reason, 160)}" if file.reason else ""
    truncation = f", truncated: the prompt has {file.used_bytes:,} of them" if file.used_bytes < file.size else ""
    return f"{owner}{importer}{reason}; {size_text(file)}{truncation}"


def memory_text(memory: InstructionFiles) -> str:
    """Return the text of `/memory`: the instruction files in order, with notes and a hint."""
    files = [f"  {one_line(file.label)}: {memory_detail(file)}" for file in memory.files()]
    notes = [one_line(note) for note in memory.notes()]
    hint = "/memory project: TEXT or /memory yours: TEXT adds a line."
    return "\n".join(["In the order of the prompt:", *files, *notes, "", hint])


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line to add to an instruction file."""

    text: str
    files: Sequence[ListedFile]
    """The files to which the line may be added."""


def split_memory_line(text: str, files: Sequence[ListedFile]) -> MemoryLine:
    """Return the line that the user typed after `/memory`.

    `files` are the `editable_files`. `project: …` or `yours: …` selects the first file of this owner.
    """
    owner, colon, line = text.partition(":")
    selected = next((file for file in files if file.owner == owner.strip().lower()), None)
    if colon and selected is not None:
        return MemoryLine(line.strip(), [selected])
    return MemoryLine(text, files)
