"""The search for sessions of other programs, and the choice of a reader for each file. The files are only read.

A file is recognized by its records, not by its name, so a copy of a session can be read from anywhere.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from qcode.agent.imports import claude_code, codex, gemini
from qcode.agent.imports.session import ImportedSession, TranscriptBuilder
from qcode.protocol.errors import InputError
from qcode.text.clean import one_line
from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

PROGRAMS: Mapping[str, str] = {
    claude_code.PROGRAM: "Claude Code",
    codex.PROGRAM: "Codex",
    gemini.QWEN: "qwen-code",
    gemini.GEMINI: "Gemini CLI",
}
"""The programs whose sessions can be imported, by the name in `--json` and in the header of an imported session."""

_HEAD_BYTES = 512 * 1024
"""The number of bytes of a file that are read for a list: enough for its folder, its time and the first words."""
_PATTERNS = ("*.jsonl", "*.json")
_COMPARED_LETTERS = 100
"""The number of letters and digits of a project's path that the name of its folder must begin with."""
MAX_BYTES = 1024 * 1024 * 1024
"""The maximum size of a session file that is read."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session file that another program wrote."""

    path: Path
    modified: float
    """The time of the last change, in seconds since 1970."""
    size: int
    """The size of the file in bytes."""
    head: ImportedSession
    """The session as read from the start of the file; later messages may be missing."""


def find_sessions(env: Mapping[str, str], root: Path | None) -> list[SessionFile]:
    """Return the sessions of the project `root`, or of all folders if `root` is None, newest first."""
    project = root.resolve() if root is not None else None
    files = [file.path for file in _session_files(env) if project is None or _may_belong(file, project)]
    sessions = _read_starts(dict.fromkeys(files))
    return _newest_first(session for session in sessions if project is None or _is_from(session, project))


def _read_starts(paths: Iterable[Path]) -> Iterator[SessionFile]:
    """Read the start of each file; skip files that are not sessions, or have no messages."""
    for path in paths:
        session = _try_file(path)
        if session is not None and session.head.messages:
            yield session


def _newest_first(sessions: Iterable[SessionFile]) -> list[SessionFile]:
    return sorted(sessions, key=lambda session: (-session.modified, str(session.path)))


def is_folder(path: Path) -> bool:
    """Return whether `path` is a folder. A name that the system rejects, such as a very long name, is not a folder."""
    try:
        return path.is_dir()
    except OSError:
        return False


def sessions_in(path: Path) -> list[SessionFile]:
    """Return the session in a file, or the sessions below a folder, newest first; raise `InputError`."""
    if is_folder(path):
        files = (file for pattern in _PATTERNS for file in sorted(path.rglob(pattern)) if not _is_of_subagent(file))
        return _newest_first(_read_starts(files))
    sessions = list(_read_starts([path]))
    if sessions:
        return sessions
    whole = read_file(path)  # raises an error that says why the file is not a session
    status = path.stat()
    return [SessionFile(path, status.st_mtime, status.st_size, whole)]


def read_file(path: Path) -> ImportedSession:
    """Read a whole session file; raise `InputError` if it cannot be read, or if no known program wrote it."""
    try:
        _check_readable(path)
        session = _read(path, path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {one_line(str(path), 200)}: {error.strerror or error}") from None
    if session is None:
        raise InputError(f"{path} is not a session of {', '.join(PROGRAMS.values())}")
    return session


@dataclass(frozen=True, slots=True)
class _Location:
    """A default location of session files."""

    folder: Path
    pattern: str
    """The pattern of the files in the folder."""
    project_level: int | None = None
    """The parent of a file that belongs to a project, 0 for its folder; None if no folder belongs to a project."""


@dataclass(frozen=True, slots=True)
class _FoundFile:
    """A file at a default location."""

    path: Path
    project_folder: Path | None
    """The folder for the sessions of one project."""


def _session_files(env: Mapping[str, str]) -> Iterator[_FoundFile]:
    """Yield the session files at the default locations."""
    home = Path(env.get("HOME") or "/")

    def program_folder_of(variable: str, default: str) -> Path:
        return Path(env[variable]) if env.get(variable) else home / default

    claude_folder = program_folder_of("CLAUDE_CONFIG_DIR", ".claude")
    codex_folder = program_folder_of("CODEX_HOME", ".codex")
    locations = (
        _Location(claude_folder / "projects", "*/*.jsonl", project_level=0),
        _Location(codex_folder / "sessions", "**/rollout-*.jsonl"),
        _Location(codex_folder / "archived_sessions", "rollout-*.jsonl"),
        _Location(home / ".qwen", "projects/*/chats/*.jsonl", project_level=1),
        _Location(home / ".qwen", "tmp/*/chats/session-*.json*", project_level=1),
        _Location(home / ".gemini", "tmp/*/chats/session-*.json*", project_level=1),
    )
    for location in locations:
        level = location.project_level
        for path in sorted(location.folder.glob(location.pattern)):
            if not _is_of_subagent(path):
                yield _FoundFile(path, None if level is None else path.parents[level])


def _is_of_subagent(path: Path) -> bool:
    return path.name.startswith("agent-") or "subagents" in path.parts


def _may_belong(file: _FoundFile, root: Path) -> bool:
    """Return whether a session may belong to `root`, judged by its folder. If it cannot, its file is not read.

    Claude Code and qwen-code name the folder after the path of the project, with `-` for most characters, and may
    truncate the name. Gemini CLI names it after the hash of the path, or after the last part of the path.
    """
    folder = file.project_folder
    if folder is None:
        return True
    if folder.parent.name == "tmp":  # `~/.gemini/tmp/FOLDER/chats/session-1.json`
        return _is_gemini_folder(folder, root)
    return _letters(folder.name).startswith(_letters(str(root))[:_COMPARED_LETTERS])


def _letters(path: str) -> str:
    """Return the letters and digits of a path, which all programs keep in the name of a folder."""
    return re.sub(r"[^a-z0-9]", "", path.casefold())


def _is_gemini_folder(folder: Path, root: Path) -> bool:
    """Return whether Gemini CLI keeps the sessions of `root` in a folder, which has its hash or its path."""
    if folder.name == hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest():
        return True
    with suppress(OSError, UnicodeDecodeError):
        return (folder / ".project_root").read_text(encoding="utf-8").strip() == str(root)
    return False


def _is_from(session: SessionFile, root: Path) -> bool:
    """Return whether a session was written in `root` or below.

    A session of Gemini CLI or qwen-code may have no `cwd`; then `_may_belong` has already decided.
    """
    if not session.head.cwd:
        return session.head.program in (gemini.GEMINI, gemini.QWEN)
    with suppress(OSError, ValueError):  # `resolve` raises `ValueError` for a null character
        return Path(session.head.cwd).resolve().is_relative_to(root)
    return False


def _try_file(path: Path) -> SessionFile | None:
    """Read the start of a file; return None if it is not a session, or cannot be read."""
    try:
        status = _check_readable(path)
        with path.open("rb") as stream:
            # A file that is one JSON document can only be read as a whole.
            data = stream.read(_HEAD_BYTES if path.suffix == ".jsonl" else -1)
            has_more = len(data) < status.st_size
            complete_lines = data[: data.rfind(b"\n") + 1] if has_more else data
            session = _read(path, complete_lines)
            if has_more and (session is None or not session.messages):
                session = _read(path, data + stream.read())  # the first prompt may be longer, for example an image
    except OSError:
        return None
    if session is None:
        return None
    return SessionFile(path, status.st_mtime, status.st_size, session)


def _check_readable(path: Path) -> os.stat_result:
    """Return the status of a file; raise `OSError` for a pipe or device, which may have no end, and a huge file."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is not a regular file")
    if status.st_size > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES >> 20} MiB")
    return status


def _read(path: Path, data: bytes) -> ImportedSession | None:
    """Convert the content of a file; None if no known program wrote it, or if it belongs to a sub-agent."""
    builder = TranscriptBuilder()
    records = _records(data, builder)
    del data  # up to hundreds of megabytes
    if codex.is_session(records):
        return None if codex.is_subagent(records) else codex.read(records, path.stem, builder)
    if gemini.is_qwen_session(records):
        return gemini.read_qwen(records, path.stem, builder)
    if gemini.is_gemini_session(records):
        # Early versions of qwen-code wrote this format too. The folder shows which program wrote a file.
        program = gemini.QWEN if ".qwen" in path.parts else gemini.GEMINI
        return gemini.read_gemini(records, path.stem, builder, program)
    return claude_code.read(records, path.stem, builder) if claude_code.is_session(records) else None


def _records(data: bytes, builder: TranscriptBuilder) -> list[JsonObject]:
    """Return the JSON objects of a file: one object in each line, or one document.

    An editor on Windows may have saved the file with a byte order mark, or as UTF-16.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    data = data.removeprefix(codecs.BOM_UTF8)
    may_be_document = data.startswith(b"{") and b'"messages"' in data
    document = parse_object(data.decode("utf-8", "replace")) if may_be_document else None
    if document is not None:
        return [document]
    records = []
    for line in io.BytesIO(data):
        if not line.strip():
            continue
        record = parse_object(line.decode("utf-8", "replace"))
        if record is None:
            builder.left_out["unreadable lines"] += 1
        elif record:
            records.append(record)
    return records
