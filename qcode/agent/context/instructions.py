"""Instruction files: the user's file, then the files of a trusted project from its root down to the folder.

In each folder the first existing name is used, then `CLAUDE.local.md`. A file is quoted in full with its name, without
HTML comments; its `@path` imports follow it, except secrets and keys. All files together are limited to 64 KiB; a
truncation is marked. `instruction_rules` reads rules (`.claude/rules`), `nested` files below the folder. Separate from
`memory` because the first paint needs it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path

from qcode.safety.paths import SessionFolders, judge_path
from qcode.text.fences import fence_after
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

NAMES = ("AGENTS.override.md", "AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md", "QWEN.md")
DEFAULT_NAME = "AGENTS.md"
"""The name of the user's file, and of new instruction files."""

LOCAL_NAME = "CLAUDE.local.md"
RULE_FOLDERS = (".claude/rules", ".qwen/rules")
MAX_TOTAL_BYTES = 64 * 1024
"""The limit for all instruction files together."""
MAX_IMPORT_DEPTH = 5

_INTRODUCTION = "# Instructions\nThe files below were written by the user or their team. Later ones are more specific."
_TAG = lazy_pattern(r"<(?=/?instructions\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """A loaded instruction file."""

    path: Path
    label: str
    """The path for display."""
    size: int
    """The size of the file in bytes."""
    used_bytes: int
    """The number of bytes in the prompt."""
    imported_by: str = ""
    """The displayed path of the file that imports this file; empty if no file does."""
    reason: str = ""
    """The reason for reading the file, if it is not in a folder between the root and the session's folder."""
    is_rule: bool = False
    """The file is a rule in a folder of rules, which may be about some files only."""

    @property
    def is_cut(self) -> bool:
        return self.used_bytes < self.size


@dataclass(frozen=True, slots=True)
class Instructions:
    """The instructions section of the prompt, its files, and lines for the user about omitted files."""

    text: str = ""
    files: tuple[InstructionFile, ...] = ()
    notices: tuple[str, ...] = ()


def load_instructions(
    folder: Path,
    project_root: Path,
    config_dir: Path | None,
    *,
    reads_project: bool,
    may_read: Callable[[Path], bool] = lambda path: True,
    home: Path | None = None,
) -> Instructions:
    """Read all instruction files that apply to `folder`. A project's files are read only if `reads_project`.

    The files and imports of a project must be in the project, and the model must be allowed to read them without
    asking. `SessionFolders` and `may_read` both judge each real path; `may_read` applies the rules of the session. The
    user's file can import files of its folder. `home` has the user's files for Claude Code: `~/.claude/CLAUDE.md` is
    used only if `config_dir` has no instruction file, `~/.claude/rules` always.
    """
    loader = InstructionLoader()
    if config_dir is not None:
        loader.load_user_file(config_dir, home)
    if reads_project:
        root = project_root.resolve()
        loader.use_project(root, may_read)
        for candidate in _folders_from_root(folder, project_root):
            loader.load_folder(candidate, root)
        for name in RULE_FOLDERS:
            loader.load_rules(root / name, root)
    return loader.result()


def _folders_from_root(folder: Path, project_root: Path) -> Iterator[Path]:
    """Yield the folders from the root down to `folder`; only `folder` if that is outside the root."""
    root, last = project_root.resolve(), folder.resolve()
    if not last.is_relative_to(root):
        yield last
        return
    yield root
    for size in range(1, len(last.relative_to(root).parts) + 1):
        yield root.joinpath(*last.relative_to(root).parts[:size])


@dataclass(slots=True)
class InstructionLoader:
    """A reader of instruction files, which reads each file once and keeps to the size limits.

    In its methods, `within` is the folder that a file and its imports must be in.
    """

    may_read: Callable[[Path], bool] = lambda path: True
    bytes_left: int = MAX_TOTAL_BYTES
    """The remaining limit for all files."""
    max_file_bytes: int = MAX_TOTAL_BYTES
    """The limit for each file."""
    reason: str = ""
    """The reason to record with the files that are read next (`InstructionFile.reason`)."""
    parts: list[str] = field(default_factory=list)
    """The texts for the prompt, one for each file."""
    files: list[InstructionFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seen_paths: set[Path] = field(default_factory=set)

    def use_project(self, root: Path, may_read: Callable[[Path], bool]) -> None:
        """Read files of the project at `root` from now on, if the model may read them without asking."""
        session_folders = SessionFolders(root)
        self.may_read = lambda path: judge_path(session_folders, str(path), "read").is_allowed and may_read(path)

    def load_user_file(self, config_dir: Path, home: Path | None) -> None:
        """Load the user's files, following links anywhere; they may import files of their folder."""
        path, reason = config_dir / DEFAULT_NAME, ""
        if home is not None and not os.path.lexists(path):
            path, reason = home / ".claude/CLAUDE.md", f"there is no {path}"
        if os.path.lexists(path):
            real_path = _resolved(path)
            self.reason = reason
            self._load(real_path, str(path), real_path.parent, imported_by="", depth=0)
            self.reason = ""
        if home is not None:
            self.load_rules(home / ".claude/rules", None)

    def load_rules(self, folder: Path, within: Path | None, path: str | None = None) -> None:
        """Load the rules in a folder: rules that always apply (`path` is None), or rules for the file `path`.

        `within` is the project, None for the rules of the user.
        """
        if not os.path.lexists(folder):
            return
        from qcode.agent.context.instruction_rules import find_rules

        for rule in find_rules(folder, within, self.notices):
            is_needed = rule.patterns is None if path is None else rule.covers(path)
            if is_needed:
                self.reason = rule.reason_for(path)
                label = _label(rule.file, within) if within is not None else str(rule.file)
                self._load_if_allowed(rule.file, label, within or _resolved(folder), is_rule=True)
        self.reason = ""

    def load_folder(self, folder: Path, within: Path) -> None:
        """Load the first instruction file of a folder of the project, then the local one."""
        existing = [name for name in NAMES if os.path.lexists(folder / name)][:1]
        existing += [LOCAL_NAME] if os.path.lexists(folder / LOCAL_NAME) else []
        for name in existing:
            self._load_if_allowed(folder / name, _label(folder / name, within), within)

    def _load_if_allowed(self, path: Path, label: str, within: Path, *, is_rule: bool = False) -> None:
        real_path = _resolved(path)
        if not real_path.is_relative_to(within):
            self.notices.append(f"{label} leads outside the project and was not read")
        elif is_secret(real_path) or not self.may_read(real_path):
            is_file = os.path.isfile(real_path)  # noqa: PTH113  # never raises, unlike pathlib's for a long name
            self.notices.append(f"{label} may not be read" if is_file else f"cannot read {label}")
        else:
            self._load(real_path, label, within, imported_by="", depth=0, is_rule=is_rule)

    def _load(
        self, real_path: Path, label: str, within: Path, *, imported_by: str, depth: int, is_rule: bool = False
    ) -> None:
        if real_path in self.seen_paths:
            return
        self.seen_paths.add(real_path)
        content = _read(real_path, min(self.bytes_left, self.max_file_bytes))
        if content is None:
            self.notices.append(f"cannot read {label}")
            return
        data = content.data
        size = content.file_size
        if b"\0" in data:
            self.notices.append(f"{label} is not text and was not read")
            return
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        used = len(data)
        self.bytes_left -= used
        self.files.append(InstructionFile(real_path, label, size, used, imported_by, self.reason, is_rule))
        if is_rule:
            from qcode.agent.context.instruction_rules import body_of

            text = body_of(text)
        text = without_comments(text)
        if used < size:
            limit = f"all instructions together may have {MAX_TOTAL_BYTES}"
            if self.max_file_bytes < min(MAX_TOTAL_BYTES, self.bytes_left + used):
                limit = f"one file below the folder of the session may have {self.max_file_bytes}"
            text += f"\n[cut here: {label} has {size} bytes, and {limit}]"
            self.notices.append(f"{label} was truncated to {used} of {size} bytes: {limit}")
        source = f' imported-by="{_attribute(imported_by)}"' if imported_by else ""
        body = _TAG.sub("&lt;", text).strip()
        self.parts.append(f'<instructions file="{_attribute(label)}"{source}>\n{body}\n</instructions>')
        for name in find_imports(text):
            self._import(name, real_path, label, within, depth + 1)

    def _import(self, name: str, importer: Path, importer_label: str, within: Path, depth: int) -> None:
        """Load the file that `@name` imports. A missing file is reported only if the name looks like a file name."""
        target = importer.parent / name
        try:
            real_path = target.resolve()
            is_existing = real_path.exists()
        except (OSError, RuntimeError, ValueError):
            return
        if name.startswith("~") or not real_path.is_relative_to(within):
            if is_existing or name.startswith(("/", "~", "..")):
                self.notices.append(f"@{name} in {importer_label} leads outside the project and was not read")
        elif not is_existing:
            if name.startswith("./") or name.endswith(".md"):
                self.notices.append(f"@{name} in {importer_label} does not exist")
        elif real_path.is_dir():
            return
        elif is_secret(real_path) or not self.may_read(real_path):
            self.notices.append(f"@{name} in {importer_label} {'may not' if real_path.is_file() else 'cannot'} be read")
        elif depth > MAX_IMPORT_DEPTH:
            self.notices.append(
                f"@{name} in {importer_label} was not read: imports are limited to {MAX_IMPORT_DEPTH} levels"
            )
        else:
            self._load(real_path, _label(real_path, within), within, imported_by=importer_label, depth=depth)

    def result(self) -> Instructions:
        text = "\n\n".join([_INTRODUCTION, *self.parts]) if self.parts else ""
        return Instructions(text, tuple(self.files), tuple(self.notices))


def _resolved(path: Path) -> Path:
    """Return `path` with its links resolved if possible; unlike `Path.resolve` it accepts circular links."""
    return Path(os.path.realpath(path))


def _label(path: Path, within: Path) -> str:
    return str(path.relative_to(within)) if path.is_relative_to(within) else str(path)


@dataclass(frozen=True, slots=True)
class _FileStart:
    """The first lines of a file."""

    data: bytes
    file_size: int
    """The size of the whole file in bytes."""


def _read(real_path: Path, max_bytes: int) -> _FileStart | None:
    """Return at most `max_bytes` bytes of a regular file, truncated at a line end. Follows no link."""
    try:
        handle = os.open(real_path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            data = stream.read(max_bytes + 1)
    except OSError:
        return None
    if len(data) <= max_bytes:
        return _FileStart(data, len(data))
    prefix = data[:max_bytes]
    whole_lines = prefix[: prefix.rfind(b"\n") + 1]
    file_size = max(status.st_size, len(data))
    return _FileStart(whole_lines or prefix.decode("utf-8", "ignore").encode(), file_size)


def _attribute(text: str) -> str:
    return re.sub(r'[\x00-\x1f\x7f-\x9f"<>\u2028\u2029\ud800-\udfff]', "?", text)


_IMPORT = lazy_pattern(r"(?<![^\s(\[\"'])@([^\s`<>()\[\]\"']+)")
_BACKTICKS = lazy_pattern(r"(`++)")
_SECRET_NAMES = (".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", ".netrc", ".npmrc", ".pypirc")
_KEY_NAME = lazy_pattern(r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?")
_PUBLIC_NAMES = (".env.example", ".env.sample", ".env.template")


def find_imports(text: str) -> tuple[str, ...]:
    """Return the paths that `text` imports, in order and without duplicates. Code spans and fences are ignored."""
    imports: dict[str, None] = {}
    for line in _lines_outside_fences(text):
        for match in _IMPORT.finditer(_without_code_spans(line)):
            name = match[1].rstrip(".,;:!?")
            if name and name.strip("./"):
                imports[name] = None
    return tuple(imports)


def without_comments(text: str) -> str:
    """Return Markdown without HTML comments at line starts; comments in fences and unclosed comments stay."""
    if "<!--" not in text:
        return text
    result: list[str] = []
    is_inside = False
    last = text.rfind("-->")
    position = 0
    for line, is_code in _lines(text):
        begins = not is_inside and not is_code and line.lstrip().startswith("<!--") and position < last
        is_inside = is_inside or begins
        if not is_inside:
            result.append(line)
        elif "-->" in (line.partition("<!--")[2] if begins else line):
            is_inside = False
            after_comment = line.rpartition("-->")[2]
            result += [after_comment] if after_comment.strip() else []
        position += len(line) + 1
    return "\n".join(result)


def is_secret(path: Path) -> bool:
    """Return whether a file holds keys, judged by its name, or is in a `.git` folder. Such a file is never imported."""
    name = path.name.casefold()
    if ".git" in (part.casefold() for part in path.parts):
        return True
    if _KEY_NAME.fullmatch(name):
        return True
    return name not in _PUBLIC_NAMES and any(fnmatchcase(name, pattern) for pattern in _SECRET_NAMES)


def _without_code_spans(line: str) -> str:
    """Return `line` without its code spans (CommonMark 0.31, section 6.1)."""
    parts = _BACKTICKS.split(line)
    last = {run: index for index, run in enumerate(parts) if index % 2}
    result: list[str] = []
    index = 0
    while index < len(parts):
        if index % 2 and last[parts[index]] > index:
            index = next(end for end in range(index + 2, len(parts), 2) if parts[end] == parts[index])
        else:
            result.append(parts[index])
        index += 1
    return "".join(result)


def _lines_outside_fences(text: str) -> Iterator[str]:
    return (line for line, is_code in _lines(text) if not is_code)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether the line belongs to a fenced code block, even inside a list.

    See CommonMark 0.31, section 4.5.
    """
    marker: str | None = None
    for line in text.split("\n"):
        before, marker = marker, fence_after(marker, line.lstrip(" \t"))
        yield line, before is not None or marker is not None
