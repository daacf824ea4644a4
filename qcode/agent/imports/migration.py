"""The import of a session of another program into the store of a project. A session is imported only once.

The id is derived from the program and its session id, so a second import finds the first. If only the other program has
continued the session meanwhile, the second import replaces the first. A file is either complete or missing.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from qcode.agent.imports.session import NO_RESULT, ImportedCompaction, ImportedSession
from qcode.agent.sessions.file import Lock, make_private, sync_folder
from qcode.agent.sessions.session import Session
from qcode.agent.sessions.store import SessionStore, header_of
from qcode.protocol.errors import SessionError
from qcode.protocol.messages import Message, ToolResult
from qcode.safety.redaction import redact_message
from qcode.text.json import JsonObject, object_in
from qcode.values import dataclass

_PROVIDERS = {"claude-code": "anthropic", "codex": "openai-responses", "gemini-cli": "gemini", "qwen-code": "openai"}
_DIGEST_LENGTHS = range(4, 33)
"""The lengths of the hash in an id. The shortest length that gives an unused id is used."""
_TEMPORARY_PREFIX = ".import-"
_STALE_S = 3_600
"""The age in seconds at which a temporary folder belongs to an import that was killed."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import."""

    session_id: str
    status: Literal["imported", "updated", "unchanged", "changed"]
    """Nothing is written in two cases.

    `unchanged`: the other program's file has no more messages than the session. `changed`: both programs continued the
    session.
    """
    added: int
    """The number of messages that were added to the session."""


class Migration:
    """The import of sessions into the project at `root`, whose sessions are stored under `state_dir`.

    `redact` removes secrets, as from every session. `run` raises `SessionError` or `OSError` if a session cannot be
    written.
    """

    def __init__(self, state_dir: Path, root: Path, redact: Callable[[str], str]) -> None:
        self._root = root
        self._redact = redact
        self._store = SessionStore(state_dir, root, redact=redact)

    def run(self, source: ImportedSession) -> ImportResult:
        """Write `source`, unless it is already imported."""
        started = _parse_time(source.created) or _parse_time(source.latest) or datetime.now(UTC)
        session_id, header = self._session_name(source, started)
        if header is None:
            self._write(source, session_id, started)
            return ImportResult(session_id, "imported", len(source.messages))
        stored = [message for _, message in sorted(self._store.load(session_id).history.stored.items())]
        stored_messages = [message.entry.message for message in stored if not message.is_summary]
        messages = [redact_message(message.message, self._redact) for message in source.messages]
        imported_count = object_in(header.get("imported")).get("messages")
        is_continued = not isinstance(imported_count, int) or len(stored_messages) > imported_count
        has_nothing_new = messages == stored_messages[: len(messages)]
        if is_continued and not has_nothing_new:
            return ImportResult(session_id, "changed", added=0)
        if has_nothing_new or _lacks_content(messages, stored_messages):
            return ImportResult(session_id, "unchanged", added=0)
        self._write(source, session_id, started)
        return ImportResult(session_id, "updated", len(messages) - len(stored_messages))

    def _session_name(self, source: ImportedSession, started: datetime) -> tuple[str, JsonObject | None]:
        """Return the id for a session, and the header of the file if the session was imported before."""
        origin = _origin(source)
        name = f"{source.program} {source.session_id}"
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        for length in _DIGEST_LENGTHS:
            session_id = f"{started.astimezone(UTC):%Y%m%d-%H%M%S}-{digest[:length]}"
            header = header_of(self._path(session_id))
            if header is None or origin.items() <= object_in(header.get("imported")).items():
                return session_id, header
        raise SessionError(f"no free name for the imported session in {self._store.folder}")

    def _path(self, session_id: str) -> Path:
        return self._store.folder / f"{session_id}.jsonl"

    def _write(self, source: ImportedSession, session_id: str, started: datetime) -> None:
        """Write the whole session to a temporary folder, then move it to the folder of the store."""
        path = self._path(session_id)
        make_private(path.parent)
        for leftover in path.parent.glob(f"{_TEMPORARY_PREFIX}*"):  # of an import that was killed
            if leftover.stat().st_mtime < time.time() - _STALE_S:
                shutil.rmtree(leftover, ignore_errors=True)
        lock = Lock(path.with_suffix(".lock"))
        try:
            with TemporaryDirectory(prefix=_TEMPORARY_PREFIX, dir=path.parent) as folder:
                written = _Writer(Path(folder), self._root, self._redact, session_id, started).write(source)
                written.replace(path)
            sync_folder(path.parent)
        finally:
            lock.release()


class _Writer:
    """A writer of one session under `folder`, with the original times of the messages."""

    def __init__(
        self, folder: Path, root: Path, redact: Callable[[str], str], session_id: str, started: datetime
    ) -> None:
        self._now = started
        self._root = root
        self._store = SessionStore(folder, root, lambda: self._now, lambda _: session_id, redact=redact)

    def write(self, source: ImportedSession) -> Path:
        """Write `source` and return the file."""
        model = next((message.model for message in source.messages if message.model), "")
        folder = Path(source.cwd) if source.cwd else self._root
        origin: JsonObject = {**_origin(source), "messages": len(source.messages)}
        session = self._store.create(_qualified(source, model), folder, imported=origin)
        try:
            self._write_items(session, source)
            session.sync()
            if not session.is_saved:
                raise SessionError("; ".join(session.take_warnings()) or "this session cannot be saved")
        finally:
            session.close()
        return self._store.folder / f"{session.session_id}.jsonl"

    def _write_items(self, session: Session, source: ImportedSession) -> None:
        for item in source.items:
            self._now = _parse_time(item.timestamp) or self._now
            if isinstance(item, ImportedCompaction):
                session.compact(item.messages)
                continue
            model = _qualified(source, item.model)
            if model and session.history.current_model != model:
                session.record_model(model)
            session.append(item.message, is_turn_start=item.is_typed)
        if title := " ".join(source.title.split()):
            session.set_title(title)


def _origin(source: ImportedSession) -> JsonObject:
    """Return the fields of `imported` in the header of a session that identify the imported session."""
    return {"program": source.program, "session_id": source.session_id}


def _qualified(source: ImportedSession, model: str) -> str:
    """Return the model as PROVIDER/MODEL, with the most likely provider; empty without a model.

    This is for display: a resumed session uses the configured model.
    """
    return f"{_PROVIDERS[source.program]}/{model}" if model else ""


def _lacks_content(imported: list[Message], stored: list[Message]) -> bool:
    """Return whether `imported` lacks messages, or results of calls, that `stored` has."""
    if len(imported) != len(stored):
        return len(imported) < len(stored)
    return _missing_results(imported) > _missing_results(stored)


def _missing_results(messages: list[Message]) -> int:
    blocks = (block for message in messages for block in message.blocks)
    return sum(isinstance(block, ToolResult) and block.content == NO_RESULT for block in blocks)


def _parse_time(text: str) -> datetime | None:
    """Parse a time, in UTC if the text has no offset; return None for an invalid text."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
