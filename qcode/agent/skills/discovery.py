"""Finds the skills of a session: the order of the folders, and the files that are read or skipped in each.

The user's folders come first, so that a cloned project cannot replace a skill of the user. Folders of a project are
read only if the project is trusted, and links in them must stay inside the project.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from qcode import __version__
from qcode.agent.skills.skill import FILE_NAMES, Skill, read_skill
from qcode.config import state_file
from qcode.config.paths import OTHER_SKILL_FOLDERS, QCODE_SKILL_FOLDER, SKILL_FOLDERS
from qcode.safety.paths import is_ctime_final
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

MAX_DEPTH = 3
"""How many levels below a folder of skills the folder of a skill may be."""
MAX_FOLDERS = 2_000
"""The maximum number of folders that are read in all folders of skills together."""
MAX_SKILLS = 500
FOLDER = "skills"

CACHE_NAME = "skill_cache.json"

_SKIPPED_FOLDERS = frozenset({".git", "node_modules"})


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder of skills."""

    path: Path
    label: str
    """The path for the user."""
    project_root: Path | None = None
    """The project: links in the folder must not lead out of it; None for a folder of the user."""
    is_configured: bool = False
    """The settings name the folder (`skills.paths`), so it may itself be a skill."""


@dataclass(frozen=True, slots=True)
class NameClash:
    """Two skills with the same handle."""

    hidden: Skill
    used: Skill


@dataclass(frozen=True, slots=True)
class DiscoveredSkills:
    """The skills of a run."""

    skills: tuple[Skill, ...] = ()
    """The skills in order of precedence; each handle is unique."""
    problems: tuple[str, ...] = ()
    """One line for each file or folder that cannot be used."""
    name_clashes: tuple[NameClash, ...] = ()


def _home_label(path: Path, home: Path | None) -> str:
    """Return a path for the user, with `~` for the home folder."""
    return f"~/{path.relative_to(home).as_posix()}" if home is not None and path.is_relative_to(home) else str(path)


def skill_folders(
    config_dir: Path | None,
    home: Path | None,
    folder: Path,
    root: Path,
    *,
    reads_project: bool,
    reads_other_programs: bool = True,
    configured_paths: Sequence[str] = (),
) -> tuple[SkillFolder, ...]:
    """Return the folders that may have skills, in order of precedence; they need not exist.

    `config_dir` is None if files of the user do not apply to the run. With `reads_other_programs`, the folders of other
    programs are included. `configured_paths` are those of the settings; a relative path is relative to the home folder.
    """
    folders: list[SkillFolder] = []
    if config_dir is not None:
        folders.append(SkillFolder(config_dir / FOLDER, _home_label(config_dir / FOLDER, home)))
        if reads_other_programs and home is not None:
            folders += [SkillFolder(home / name, f"~/{name}") for name in OTHER_SKILL_FOLDERS]
    folders += [SkillFolder(_configured_folder(path, home), path, is_configured=True) for path in configured_paths]
    if reads_project:
        real_root = root.resolve()
        for candidate in _folders_up(folder.resolve(), real_root):
            names = SKILL_FOLDERS if reads_other_programs else (QCODE_SKILL_FOLDER,)
            folders += [
                SkillFolder(candidate / name, (candidate / name).relative_to(real_root).as_posix(), real_root)
                for name in names
            ]
    return tuple(folders)


def _configured_folder(path: str, home: Path | None) -> Path:
    base = home or Path("/")
    return base / path[2:] if path.startswith("~/") else base / path


def _folders_up(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the folders from `folder` up to `root`; only `root` if `folder` is not below it."""
    if folder.is_relative_to(root):
        while folder != root:
            yield folder
            folder = folder.parent
    yield root


class SkillCache:
    """A cache of the skills that earlier starts have read, in a file of the state folder.

    The cache saves the import of the YAML parser, which takes longer than all other work at a start. A file that
    changed since, or that was read just after a change, is read again. The text of a skill is never cached.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Without `path` nothing is cached."""
        self._path = path
        stored = state_file.load_json(path) if path is not None else {}
        files = stored.get("files") if stored.get("version") == __version__ else None
        self._stored_rows = files if isinstance(files, dict) else {}
        self._current_rows: dict[str, Json] = {}

    def look_up(self, file: str, label: str, folder: SkillFolder) -> Skill | None:
        """Return the cached skill of an unchanged file, None if the file must be read. `label` is for display."""
        is_from_project = folder.project_root is not None
        identity = _identity(file, label)
        row = self._stored_rows.get(file)
        if isinstance(row, dict) and identity and row.get("identity") == identity:
            skill = _skill_of(file, row.get("values"))
            if skill is not None and skill.folder_label == folder.label and skill.is_from_project == is_from_project:
                self._current_rows[file] = row
                return skill
        return None

    def read(self, file: str, label: str, folder: SkillFolder) -> Skill:
        """Read the skill of a file, and cache it; raise `FrontMatterError`."""
        is_from_project = folder.project_root is not None
        identity = _identity(file, label)
        skill = read_skill(Path(file), label, folder.label, is_from_project=is_from_project)
        if identity:
            self._current_rows[file] = {"identity": identity, "values": _row_of(skill)}
        return skill

    def save(self) -> None:
        """Store the cached skills for the next start."""
        if self._path is not None and self._current_rows != self._stored_rows:
            with suppress(OSError):
                state_file.save_json(self._path, {"version": __version__, "files": self._current_rows})


def _identity(file: str, label: str) -> list[Json]:
    """Return metadata that differ after each change of a file, or an empty list for a file that changed just now.

    Such a file can change again without a new time, because the clocks of file systems are coarse.
    """
    try:
        state = os.stat(file)  # noqa: PTH116 - a path is not needed for it
    except OSError:
        return []
    if not is_ctime_final(state, time.time_ns()):
        return []
    return [label, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns]


def _row_of(skill: Skill) -> JsonObject:
    """Return the fields of a skill to store: those that differ from their default or from the path of its file."""
    implied = {"file": skill.file, "folder": skill.file.parent}
    row: JsonObject = {}
    for field in fields(skill):
        value = getattr(skill, field.name)
        if value != implied.get(field.name, field.default):
            row[field.name] = _to_json(value)
    return row


def _to_json(value: Any) -> Json:  # noqa: ANN401 - of any field
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


_JSON_TYPES = {"Path": str, "tuple[str, ...]": list, "str": str, "bool": bool, "int": int}
_REQUIRED = frozenset({"handle", "description", "folder_label"})


@cache
def _stored_types() -> dict[str, type[object]]:
    return {name: _JSON_TYPES[str(kind)] for name, kind in Skill.__annotations__.items()}


def _skill_of(file: str, stored: Json) -> Skill | None:
    """Return a stored skill, None if a value is missing or has the wrong type."""
    if not isinstance(stored, dict) or not stored.keys() >= _REQUIRED:
        return None
    types, path = _stored_types(), Path(file)
    values: dict[str, Any] = {"file": path, "folder": path.parent}
    for name, value in stored.items():
        if type(value) is not types.get(name):
            return None
        if name == "folder":
            values[name] = Path(str(value))
        elif isinstance(value, list):
            if not all(isinstance(item, str) for item in value):
                return None
            values[name] = tuple(value)
        else:
            values[name] = value
    return Skill(**values)


def find_skills(folders: Sequence[SkillFolder], cache: SkillCache | None = None) -> DiscoveredSkills:
    """Read all skills in these folders; a file that cannot be used is reported as a problem."""
    cache = cache or SkillCache()
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    name_clashes: list[NameClash] = []
    visited: set[str] = set()
    walk = _SkillWalk(problems)
    found = ((folder, file, real) for folder in folders for file, real in walk.files(folder))
    for folder, file, real in found:
        if real in visited:
            continue
        visited.add(real)
        if len(visited) > MAX_SKILLS:
            problems.append(f"{folder.label}: there are more than {MAX_SKILLS} skills; the rest are not read")
            break
        label = f"{folder.label}/{file.removeprefix(str(folder.path)).lstrip('/')}"
        skill = cache.look_up(file, label, folder) or _read(cache, file, label, folder, problems)
        if skill is None:
            continue
        if skill.handle in skills:
            name_clashes.append(NameClash(hidden=skill, used=skills[skill.handle]))
        else:
            skills[skill.handle] = skill
    cache.save()
    return DiscoveredSkills(tuple(skills.values()), tuple(problems), tuple(name_clashes))


def _read(cache: SkillCache, file: str, label: str, folder: SkillFolder, problems: list[str]) -> Skill | None:
    from qcode.agent.context.front_matter import FrontMatterError  # not needed for cached skills

    try:
        return cache.read(file, label, folder)
    except FrontMatterError as problem:
        problems.append(str(problem))
        return None


def skill_files(folder: SkillFolder) -> list[Path]:
    """Return the `SKILL.md` of each skill in a folder."""
    return [Path(file) for file, _ in _SkillWalk([]).files(folder)]


@dataclass(frozen=True, slots=True)
class _PendingFolder:
    """A folder to read."""

    path: str
    real: str
    """The path with links resolved."""
    depth: int
    """The number of folders between it and the folder of skills."""


class _SkillWalk:
    """Walks folders of skills. `MAX_FOLDERS` applies to all of them together."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._folders = 0

    def files(self, folder: SkillFolder) -> Iterator[tuple[str, str]]:
        """Yield the path and the real path of each `SKILL.md`, in the order of the names of their folders."""
        top = os.path.realpath(folder.path)
        if self._leaves_project(folder.path, top, folder):
            return
        if os.path.islink(folder.path):  # noqa: PTH114  # `pathlib` would raise an error for a folder of another user
            self._report_broken_link(folder.path, folder)
        if folder.is_configured and (skill_file := _skill_file_in(folder.path)) is not None:
            yield str(skill_file), os.path.realpath(skill_file)
            return
        pending = [_PendingFolder(str(folder.path), top, depth=0)]
        visited = {top}
        while pending:
            current = pending.pop()
            entries = _entries(current.path)
            name = next((name for name in FILE_NAMES if name in entries), None)
            if name is not None and current.depth:
                path, real = f"{current.path}/{name}", _real(entries[name], current.real)
                if not self._leaves_project(path, real, folder):
                    yield path, real
            elif current.depth < MAX_DEPTH:
                subfolders = list(self._subfolders(current, entries, folder, visited))
                pending += reversed(subfolders)  # `pop` returns the last one

    def _subfolders(
        self, parent: _PendingFolder, entries: Mapping[str, os.DirEntry[str]], folder: SkillFolder, visited: set[str]
    ) -> Iterator[_PendingFolder]:
        """Yield the folders to read in `parent` by name, and add them to `visited`."""
        for name in sorted(entries):
            path = os.path.join(parent.path, name)  # noqa: PTH118
            if name in _SKIPPED_FOLDERS:
                continue
            if not _is_folder(entries[name]):
                if entries[name].is_symlink():
                    self._report_broken_link(Path(path), folder)
                continue
            self._folders += 1
            if self._folders > MAX_FOLDERS:
                if self._folders == MAX_FOLDERS + 1:
                    self._problems.append(f"{folder.label}: more than {MAX_FOLDERS:,} folders; the rest are not read")
                return
            real = _real(entries[name], parent.real)
            if real not in visited and not self._leaves_project(path, real, folder):
                visited.add(real)
                yield _PendingFolder(path, real, parent.depth + 1)

    def _report_broken_link(self, path: Path, folder: SkillFolder) -> None:
        """Report a link to a folder that does not exist, such as the folder of an uninstalled skill."""
        if not os.path.exists(path):  # noqa: PTH110 - a folder without permission raises no error here
            inner = path.relative_to(folder.path).as_posix()
            label = folder.label if inner == "." else f"{folder.label}/{inner}"
            self._problems.append(f"{label}: a link to {one_line(str(path.readlink()), 120)}, which cannot be read")

    def _leaves_project(self, path: Path | str, real: str, folder: SkillFolder) -> bool:
        """Return whether a path in a folder of a project leads out of the project; if so, add a problem."""
        if folder.project_root is None or Path(real).is_relative_to(folder.project_root):
            return False
        self._problems.append(
            f"{Path(path).relative_to(folder.project_root)}: leads outside the project and is not read"
        )
        return True


def _skill_file_in(folder: Path) -> Path | None:
    """Return the `SKILL.md` of a folder, None if it has none or cannot be read."""
    try:
        return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)
    except OSError:
        return None


def _entries(folder: str) -> dict[str, os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry for entry in entries}
    except OSError:
        return {}


def _real(entry: os.DirEntry[str], folder: str) -> str:
    """Return the real path of an entry, given the real path of its folder: only a link needs to be resolved."""
    return os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(folder, entry.name)  # noqa: PTH118


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link, a name that is too long, or no permission
        return False
