"""Trusted folders, the files they contained when they were trusted, and the changes since.

A folder is identified by real path, device and inode. A folder that replaces it later is not trusted, and trust in a
folder does not extend to a repository inside it. The files of a trusted folder are pinned by hash: `.qcode/`, and the
skills, commands, agents and hooks of other tools, with their scripts. If a pinned file changes, the folder is
restricted until the user has seen the difference. Tool servers are not pinned, because each has an approval
(`mcp.pins`). Instructions are not pinned, because they act only through calls, which are judged.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Literal

from qcode.config import state_file
from qcode.config.paths import CLAUDE_SETTINGS, PROJECT_FOLDER, SKILL_FOLDERS
from qcode.text.clean import visible, visible_rows
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

FILE_NAME = "trust.json"
_VERSION = 2
_UNPINNED_VERSION = 1  # its files have no pins
_PINS_KEY = "pieces"  # the key in existing files
_IDENTITY = frozenset({"path", "device", "inode"})
_MAX_DIFF_LINES = 200  # in the diff of one file
_MAX_NAMED_CHANGES = 5
SETTINGS = f"{PROJECT_FOLDER}/config.toml"
MAX_PINNED_FILES = 5_000
MAX_PINNED_BYTES = 50 * 1024 * 1024
_CLAUDE_FOLDERS = tuple(f".claude/{name}" for name in ("skills", "commands", "agents", "hooks"))
PINNED_FOLDERS = (PROJECT_FOLDER, ".agents/skills", *_CLAUDE_FOLDERS, *CLAUDE_SETTINGS)
"""The folders and files of a project's root that are pinned completely. Below the root, only `SKILL_FOLDERS` are."""
_UNPINNED_FOLDERS = (".git", "__pycache__")
"""Folders that programs write to while they run; qcode reads nothing in them."""
_MAX_FILE_TEXT_CHARS = 32 * 1024
_MAX_ALL_TEXTS_CHARS = 256 * 1024
_MAX_DEPTH = 16
_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class TrustedFile:
    """A pinned file: the hash of its content, and its text for a later diff; a text that is too long is empty."""

    hash: str
    text: str


class TooLargeToPin(Exception):  # noqa: N818  # a state of the folder, not a failure
    """The files of a folder exceed a limit. The message names the limit in one line."""


@dataclass(frozen=True, slots=True)
class TrustedFileChange:
    """A file that differs from its pin."""

    name: str
    before: TrustedFile | None  # None for a new file
    now: TrustedFile | None  # None for a deleted file

    @property
    def has_new_content(self) -> bool:
        return self.before is None or self.now is None or self.before.hash != self.now.hash

    def diff(self) -> str:
        """Return a headline and a diff with invisible characters made visible."""
        from difflib import unified_diff  # slow to import and seldom needed

        name = visible(self.name)
        if self.now is None:
            return f"{name} was deleted"
        lines = _lines(self.now.text)
        if self.before is None:
            return "\n".join([f"{name} is new", *_limit_rows([f"+{line}" for line in lines])])
        rows = list(unified_diff(_lines(self.before.text), lines, lineterm="", n=2))[2:]
        if not rows:
            return f"{name} has changed (too long or not text, so no diff is shown)"
        return "\n".join([f"{name} has changed", *_limit_rows(rows)])


def changes_between(before: Mapping[str, TrustedFile], now: Mapping[str, TrustedFile]) -> tuple[TrustedFileChange, ...]:
    """Return the changed, new and deleted files in the order of their names."""
    changes = (TrustedFileChange(name, before.get(name), now.get(name)) for name in sorted({*before, *now}))
    return tuple(change for change in changes if change.has_new_content)


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _limit_rows(rows: list[str]) -> list[str]:
    omitted = len(rows) - _MAX_DIFF_LINES
    limited = [visible_rows(row) for row in rows[:_MAX_DIFF_LINES]]
    return limited if omitted <= 0 else [*limited, f"[{omitted:,} more lines]"]


@dataclass(frozen=True, slots=True)
class TrustStatus:
    """The current trust status of a folder."""

    kind: Literal["unknown", "trusted", "changed", "unpinned", "unpinnable"]
    """`unknown`: never trusted; `changed`: its files differ from the trusted ones; `unpinned`: trusted by a version of
    qcode that did not pin files; `unpinnable`: its files exceed a limit."""
    files: Mapping[str, TrustedFile] = field(default_factory=dict)
    """The current files, which are stored if the user trusts the folder."""
    changes: tuple[TrustedFileChange, ...] = ()
    problem: str = ""  # the limit that the files exceed

    @property
    def is_trusted(self) -> bool:
        return self.kind == "trusted"

    def differences(self) -> str:
        """Return all changes as text for the user."""
        return "\n\n".join(change.diff() for change in self.changes)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The trusted folders. A file that cannot be read, or that other users could have written, counts as empty.

    `folder` is the folder of the session if that is below the project's root. Skills in `folder`, and in the folders
    between it and the root, are pinned too.
    """

    state_dir: Path
    folder: Path | None = None

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    def status_of(self, root: Path) -> TrustStatus:
        """Return the current trust status of `root` itself (not of its parents)."""
        row = self._row(root)
        try:
            files = files_to_pin(root, self.state_dir, self.folder)
        except TooLargeToPin as problem:
            return TrustStatus("unknown" if row is None else "unpinnable", problem=str(problem))
        if row is None:
            return TrustStatus("unknown", files)
        pinned = files_from_json(row.get(_PINS_KEY))
        if pinned is None:
            # A folder without files to pin stays trusted: there is nothing to review.
            return TrustStatus("unpinned" if files else "trusted", files)
        changes = changes_between(self._used_files(root, pinned), files)
        return TrustStatus("changed" if changes else "trusted", files, changes)

    def _used_files(self, root: Path, pinned: Mapping[str, TrustedFile]) -> dict[str, TrustedFile]:
        """Return the pinned files that this session uses: other sessions may start in another subfolder."""
        folders = tuple(f"{name}/" for name in pinned_folders(root, self.folder))
        return {name: file for name, file in pinned.items() if name.startswith(folders)}

    def changes_below(self, root: Path, folder: Path) -> tuple[TrustedFileChange, ...]:
        """Return the pinned files below `folder` that differ now; empty if the project has no pins."""
        name = _name_in(root, folder)
        status = self.status_of(root)
        return tuple(change for change in status.changes if name and change.name.startswith(f"{name}/"))

    def is_trusted(self, root: Path) -> bool:
        """Return whether the user trusted this folder itself (not a parent) and its pinned files are unchanged."""
        return self.status_of(root).is_trusted

    def remember(self, root: Path, files: Mapping[str, TrustedFile] | None = None) -> None:
        """Trust this folder from now on with these files, by default its current files.

        Raise `OSError` if that cannot be stored, and `TooLargeToPin` if the files exceed a limit.
        """
        identity = _identity(root)
        if identity is None:
            raise FileNotFoundError(2, os.strerror(2), str(root))
        pinned = files_to_pin(root, self.state_dir, self.folder) if files is None else files
        row = self._row(root)
        before = (None if row is None else files_from_json(row.get(_PINS_KEY))) or {}
        used = self._used_files(root, before)
        unused = {name: file for name, file in before.items() if name not in used}
        others = [row for row in self._folders() if row["path"] != identity["path"]]
        self._write([*others, {**identity, _PINS_KEY: files_to_json({**unused, **pinned})}])

    def forget(self, root: Path) -> bool:
        """Revoke trust in this path, even of a replaced folder; return whether it was trusted. Raise `OSError`."""
        path = os.path.realpath(root)
        rows = self._folders()
        remaining = [row for row in rows if row["path"] != path]
        if remaining == rows:
            return False
        self._write(remaining)
        return True

    def folders(self) -> list[Path]:
        """Return the stored paths, including those of folders that were replaced."""
        return [Path(str(row["path"])) for row in self._folders()]

    @contextmanager
    def accept_changes(self, root: Path, targets: frozenset[str]) -> Iterator[None]:
        """Pin the new contents of these files after the block, because the user saw and approved the whole change.

        Only for a folder whose files are pinned, and only for files that matched their pins before.
        """
        folders = tuple(f"{name}/" for name in pinned_folders(root, self.folder))
        target_names = (_name_in(root, Path(target)) for target in targets)
        names = {name for name in target_names if name.startswith(folders)}
        before = self.status_of(root) if names else TrustStatus("unknown")
        yield
        if before.kind not in ("trusted", "changed"):
            return
        eligible = names - {change.name for change in before.changes}
        row = self._row(root)
        pinned = None if row is None else files_from_json(row.get(_PINS_KEY))
        try:
            now = files_to_pin(root, self.state_dir, self.folder)
            new_pins = {name: file for name, file in (pinned or {}).items() if name not in eligible}
            new_pins |= {name: file for name, file in now.items() if name in eligible}
            if new_pins != pinned and eligible:
                self.remember(root, new_pins)
        except (OSError, TooLargeToPin):
            return  # qcode asks about it at the next start

    def _row(self, root: Path) -> JsonObject | None:
        identity = _identity(root)
        if identity is None:
            return None
        return next((row for row in self._folders() if identity.items() <= row.items()), None)

    def _write(self, rows: list[JsonObject]) -> None:
        state_file.save_json(self.path, {"version": _VERSION, "folders": list(rows)})

    def _folders(self) -> list[JsonObject]:
        stored = state_file.load_json(self.path)
        rows = stored.get("folders") if stored.get("version") in (_VERSION, _UNPINNED_VERSION) else None
        return [
            row
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict) and set(row) - {_PINS_KEY} == _IDENTITY
        ]


def _identity(root: Path) -> JsonObject | None:
    try:
        real_root = root.resolve(strict=True)
        state = real_root.stat()
    except (OSError, RuntimeError):
        return None
    return {"path": str(real_root), "device": state.st_dev, "inode": state.st_ino}


def save_trust(
    root: Path, state_dir: Path, files: Mapping[str, TrustedFile] | None = None, folder: Path | None = None
) -> str:
    """Trust the project at `root` from now on; return a line for the user if that cannot be stored.

    See `TrustStore` for `folder`.
    """
    store = TrustStore(state_dir, folder)
    try:
        store.remember(root, files)
    except OSError as error:
        return f"trust applies to this run only, because it cannot be saved: {store.path}: {error.strerror}"
    except TooLargeToPin as problem:
        return f"trust applies to this run only, because it cannot be saved: {problem}"
    return ""


def why_restricted(status: TrustStatus) -> str:
    """Return in one line why a folder is no longer trusted; empty if it was never trusted."""
    if status.kind == "changed":
        names = first_names([change.name for change in status.changes], _MAX_NAMED_CHANGES)
        return f"files in this folder have changed since you trusted it ({names}), so it is restricted"
    if status.kind == "unpinned":
        return (
            "this folder was trusted by a version of qcode that did not record its files, so it is restricted "
            "until you review it"
        )
    if status.kind == "unpinnable":
        return f"{status.problem}: that cannot be recorded, so this folder is restricted unless you use --trust"
    return ""


def _name_in(root: Path, path: Path) -> str:
    """Return the path relative to the project, empty for a path outside the project."""
    real_root = root.resolve()
    return path.relative_to(real_root).as_posix() if path.is_relative_to(real_root) else ""


def pinned_folders(root: Path, folder: Path | None = None) -> tuple[str, ...]:
    """Return the folders to pin by their path in the project, for a session in `folder` (None: in the root).

    In the home folder, skills belong to the user and are not pinned.
    """
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  # never raises
    names = (PROJECT_FOLDER,) if _resolved(root) == _resolved(home) else PINNED_FOLDERS
    below = _name_in(root, _resolved(folder)) if folder is not None else ""
    parts = below.split("/") if below and below != "." else []
    # For `a/b` these are `a` and `a/b`.
    folders_below_root = ("/".join(parts[:size]) for size in range(1, len(parts) + 1))
    return (*names, *(f"{name}/{skills}" for name in folders_below_root for skills in SKILL_FOLDERS))


def files_to_pin(root: Path, state_dir: Path, folder: Path | None = None) -> dict[str, TrustedFile]:
    """Return the files to pin of the project at `root` by their path in it; raise `TooLargeToPin`.

    A `.qcode` that contains `state_dir`, the state folder of qcode, belongs to the user and is not pinned.
    """
    files: dict[str, TrustedFile] = {}
    text_left, bytes_left = _MAX_ALL_TEXTS_CHARS, MAX_PINNED_BYTES
    for name in pinned_folders(root, folder):
        full_path = root / name
        if name == PROJECT_FOLDER and _resolved(state_dir).is_relative_to(_resolved(full_path)):
            continue
        is_file = os.path.isfile(full_path)  # noqa: PTH113  # `pathlib` would raise an error for a folder of another user
        for path in [full_path] if is_file else _files_below(full_path, _resolved(root)):
            file_name = path.relative_to(root).as_posix()
            if len(files) == MAX_PINNED_FILES:
                raise TooLargeToPin(f"{name} and the other pinned folders have more than {MAX_PINNED_FILES:,} files")
            read = _read_file(file_name, path, root, bytes_left)
            bytes_left -= read.size
            file = read.file
            if len(file.text) > min(text_left, _MAX_FILE_TEXT_CHARS):
                file = TrustedFile(file.hash, "")
            text_left -= len(file.text)
            files[file_name] = file
    return files


def files_to_json(files: Mapping[str, TrustedFile]) -> JsonObject:
    """Return files as JSON for a state file."""
    return {name: {"hash": file.hash, "text": file.text} for name, file in files.items()}


def files_from_json(value: Json) -> dict[str, TrustedFile] | None:
    """Read the result of `files_to_json`; return None for anything else."""
    if not isinstance(value, dict):
        return None
    files: dict[str, TrustedFile] = {}
    for name, row in value.items():
        if not isinstance(row, dict):
            return None
        digest, text = row.get("hash"), row.get("text")
        if not isinstance(digest, str) or not isinstance(text, str):
            return None
        files[name] = TrustedFile(digest, text)
    return files


def _files_below(folder: Path, root: Path) -> Iterator[Path]:
    """Yield the files in and below `folder`, sorted; links to folders are followed inside the project."""
    if folder.name != PROJECT_FOLDER and not _resolved(folder).is_relative_to(root):
        return  # qcode reads no skills of a project from outside the project
    pending, visited = [(folder, 0)], {_resolved(folder)}
    while pending:
        current, depth = pending.pop()
        for entry in _entries(current):
            path = Path(entry.path)
            if _is_never_read(entry.name, path, folder):
                continue
            if not _is_folder(entry):
                yield path
                continue
            real_path = _resolved(path)
            if real_path.is_relative_to(root) and real_path not in visited:
                if depth == _MAX_DEPTH:
                    raise TooLargeToPin(f"{folder.name} is more than {_MAX_DEPTH} folders deep")
                visited.add(real_path)
                pending.append((path, depth + 1))


def _is_never_read(name: str, path: Path, folder: Path) -> bool:
    """Return whether a trusted run never uses a file of this name. A skill or hook may use any file beside it."""
    if folder.name == PROJECT_FOLDER and path.relative_to(folder).parts[0] not in ("skills", "hooks"):
        return name.startswith(".") or name.endswith("~")
    return name in _UNPINNED_FOLDERS


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link, a name that is too long, or a target without permission
        return False


def _resolved(path: Path) -> Path:
    """Return `path` with its links resolved if possible; unlike `Path.resolve` it accepts circular links."""
    return Path(os.path.realpath(path))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


@dataclass(frozen=True, slots=True)
class _FileToPin:
    file: TrustedFile
    size: int
    """The size in bytes; 0 if the file cannot be read."""


def _read_file(name: str, path: Path, root: Path, max_bytes: int) -> _FileToPin:
    """Return the file to pin; raise `TooLargeToPin` if it has more than `max_bytes` bytes."""
    data = _read(path, max_bytes)
    if data is None:
        return _FileToPin(TrustedFile("unreadable", "[unreadable]"), size=0)
    size = len(data)
    if name == SETTINGS:
        data = _normalized_settings(data)
    import hashlib  # loads OpenSSL, which a folder without files to pin does not need

    digest = hashlib.sha256(data).hexdigest()
    if not _resolved(path).is_relative_to(_resolved(root)):
        return _FileToPin(TrustedFile(digest, "[leads out of the project]"), size)
    return _FileToPin(TrustedFile(digest, data.decode("utf-8", "replace")), size)


def _read(path: Path, max_bytes: int) -> bytes | None:
    try:
        handle = os.open(path, _OPEN_FLAGS)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            data = file.read(max_bytes + 1)
    except OSError:
        return None
    if len(data) > max_bytes:
        raise TooLargeToPin(f"its files for qcode contain more than {MAX_PINNED_BYTES // 1024**2} MB in total")
    return data


def _normalized_settings(data: bytes) -> bytes:
    """Return a settings file as sorted lines without comments and tool servers; unchanged if it cannot be parsed."""
    import tomllib  # loads with the first file

    try:
        table = tomllib.loads(data.decode("utf-8"))
        table.pop("mcp_servers", None)
        lines = sorted(_setting_lines(table))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return data
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _setting_lines(table: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        name = f"{prefix}{key if key.replace('_', '').replace('-', '').isalnum() else json.dumps(key)}"
        if isinstance(value, dict):
            yield from _setting_lines(value, f"{name}.")
        else:
            yield f"{name} = {json.dumps(value, default=str, ensure_ascii=False)}"


def first_names(names: list[str], limit: int) -> str:
    """Return at most `limit` of these names as a list in a sentence, and how many more there are."""
    text = ", ".join(map(visible, names[:limit]))
    return f"{text} and {len(names) - limit:,} more" if len(names) > limit else text
