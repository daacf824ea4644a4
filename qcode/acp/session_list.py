"""The list of the stored sessions of all projects for an editor, in pages, and the deletion of one.

Loads with the first request for the list.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from qcode.acp.wire import invalid
from qcode.agent.sessions.store import SessionSummary, remove_session, summarize
from qcode.config.paths import ConfigPaths
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

PAGE_SIZE = 50
"""The number of sessions in a response to `session/list`."""


class ListPosition(NamedTuple):
    """The position of a session in the list of all projects, which is sorted by it."""

    changed_ns: int
    """The time of the last change, in nanoseconds."""
    session_id: str


@dataclass(frozen=True, slots=True)
class _ListedSession:
    """A session in the list of all projects."""

    position: ListPosition
    summary: SessionSummary


def read_cursor(cursor: Json) -> ListPosition | None:
    """Return the position that a cursor of `session_page` names; None for None. Raise `WireError` for another value."""
    if cursor is None:
        return None
    value: Json = None
    if isinstance(cursor, str):
        with suppress(binascii.Error, ValueError, RecursionError):
            value = json.loads(base64.b64decode(cursor, validate=True))
    match value:
        case [int(changed_ns), str(session_id)]:
            return ListPosition(changed_ns, session_id)
        case _:
            raise invalid("the cursor is not valid")


def session_page(cwd: str | None, after: ListPosition | None) -> JsonObject:
    """Return a page of the stored sessions of a folder, or of all folders, newest first; `after` is the cursor."""
    sessions = _stored_sessions(_state_dir(), cwd=cwd, after=after, count=PAGE_SIZE + 1)
    rows: list[Json] = []
    for session in sessions[:PAGE_SIZE]:
        summary = session.summary
        row: JsonObject = {
            "sessionId": summary.session_id,
            "cwd": summary.cwd,
            "updatedAt": summary.updated.isoformat(),
        }
        if summary.title:
            row["title"] = one_line(summary.title, 200)
        rows.append(row)
    page: JsonObject = {"sessions": rows}
    if len(sessions) > PAGE_SIZE:
        cursor = json.dumps(sessions[PAGE_SIZE - 1].position).encode()
        page["nextCursor"] = base64.b64encode(cursor).decode()
    return page


class _SessionFile(NamedTuple):
    position: ListPosition
    path: Path


def _stored_sessions(
    state_dir: Path, *, cwd: str | None, after: ListPosition | None, count: int
) -> list[_ListedSession]:
    """Return at most `count` sessions, newest first: of all projects, or only those that started in `cwd`.

    `after` is the position of the last session of the previous page; None for the first page. Only as many files as
    needed are read.
    """
    files: list[_SessionFile] = []
    for path in (state_dir / "sessions").glob("*/*.jsonl"):
        with suppress(OSError):
            files.append(_SessionFile(ListPosition(path.stat().st_mtime_ns, path.stem), path))
    listed: list[_ListedSession] = []
    for file in sorted(files, reverse=True):
        if len(listed) == count:
            break
        if after is not None and file.position >= after:
            continue
        summary = summarize(file.path)
        if summary is not None and summary.cwd and cwd in (None, summary.cwd):
            listed.append(_ListedSession(file.position, summary))
    return listed


def delete_session(session_id: str) -> None:
    """Delete the session with this id in any project; ignore an unknown id. Raise `SessionBusy` if it is open."""
    for path in (_state_dir() / "sessions").glob("*/*.jsonl"):
        if path.stem == session_id:
            remove_session(path)


def _state_dir() -> Path:
    return ConfigPaths.from_env(os.environ).state_dir
