"""All sessions of one project: create, find, resume, copy, list, summarize and delete them.

A session is stored in `STATE/sessions/PROJECT/ID.jsonl`. Beside this file, `ID.lock` exists while the session is open.
`ID.partial` has the text of the current reply, and the folder `ID.files` the contents of changed files. `ID.corrupt`
has the truncated end of a damaged session. There is no index. A summary is read without building the conversation.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.context.project import read_head
from qcode.agent.sessions.file import RecordFile, SessionFileContent, lock_holder, make_private, read_records
from qcode.agent.sessions.records import message_from_json
from qcode.agent.sessions.session import AssembledEntries, Session
from qcode.agent.sessions.shown import title_prompt
from qcode.garbage import without_gc
from qcode.protocol.errors import SessionError, SessionNotFound
from qcode.protocol.messages import typed_text
from qcode.text.clean import plain_line
from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.sessions.history import SessionEnd
    from qcode.agent.sessions.loader import LoadedSession

_SLUG_LENGTH = 48


def new_session_id(now: datetime) -> str:
    """Return an id that sorts by time (UTC) and is random within a second: `20261121-073520-4f2a`."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def project_folder_name(project_root: Path) -> str:
    """Return a readable unique name for a folder: the end of its path, and a hash of its real path."""
    real = project_root.resolve()
    slug = re.sub(r"[^A-Za-z0-9]+", "-", str(real)).strip("-")[-_SLUG_LENGTH:].strip("-") or "root"
    return f"{slug}-{hashlib.sha256(bytes(real)).hexdigest()[:10]}"


_MAX_LISTED_IDS = 3
"""The maximum number of ids in the message that a session was not found."""
_MAX_ATTEMPTS = 100
"""The maximum number of ids to try for a new session: another process may have taken the same id."""


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _unredacted(text: str) -> str:
    return text


def _no_partial_secret(text: str) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session that was resumed or copied."""

    session: Session
    loaded: LoadedSession
    """The contents of its file."""


class SessionStore:
    """The sessions of the project at `project_root`, stored below `state_dir`.

    `clock` returns the current time with its zone, `new_id` the id of a session that starts at that time, `redact` a
    text without secrets. See `Session` for `partial_secret_length`.
    """

    def __init__(
        self,
        state_dir: Path,
        project_root: Path,
        clock: Callable[[], datetime] = _utc_now,
        new_id: Callable[[datetime], str] = new_session_id,
        *,
        redact: Callable[[str], str] = _unredacted,
        partial_secret_length: Callable[[str], int] = _no_partial_secret,
    ) -> None:
        self.folder = state_dir / "sessions" / project_folder_name(project_root)
        self._root = project_root
        self._clock = clock
        self._new_id = new_id
        self._redact = redact
        self._partial_secret_length = partial_secret_length

    def create(
        self, model: str, cwd: Path, *, is_saved: bool = True, forked_from: str = "", imported: JsonObject | None = None
    ) -> Session:
        """Create a session. The file is created with the first record; with `is_saved` False there is no file.

        Raise `SessionError` if no id is free.
        """
        for _ in range(_MAX_ATTEMPTS):
            session_id = self._new_id(self._clock())
            file = RecordFile(self._path(session_id) if is_saved else None)
            if not is_saved or file.reserve():
                break
        else:
            raise SessionError(f"no free name for a new session in {self.folder}")
        session = Session(
            session_id,
            file,
            self._clock,
            self._redact,
            blobs=self._blobs(session_id) if is_saved else None,
            partial=self._partial(session_id) if is_saved else None,
            partial_secret_length=self._partial_secret_length,
        )
        session.buffer_header(
            model=model,
            cwd=str(cwd),
            root=str(self._root),
            forked_from=forked_from,
            branch=read_head(self._root).branch if is_saved and imported is None else "",
            imported=imported,
        )
        return session

    def find(self, prefix: str) -> str:
        """Return the id equal to `prefix`, or the only one that starts with it. Raise `SessionNotFound` otherwise."""
        ids = self.ids()
        if prefix in ids:
            return prefix
        matches = [session_id for session_id in ids if prefix and session_id.startswith(prefix)]
        if len(matches) == 1:
            return matches[0]
        raise SessionNotFound(_not_found(prefix, matches, ids))

    def ids(self) -> tuple[str, ...]:
        """Return all ids, the most recently written one first."""
        files = []
        for file in self.folder.glob("*.jsonl"):
            with suppress(OSError):
                files.append((file.stat().st_mtime_ns, file.stem))
        return tuple(session_id for _, session_id in sorted(files, reverse=True))

    def latest(self) -> str | None:
        """Return the id of the most recently written session, None if there is none."""
        return next(iter(self.ids()), None)

    def holder(self, session_id: str) -> int | None:
        """Return the id of the process in which a session is open, 0 if it is unknown, None if it is not open."""
        return lock_holder(self._path(session_id).with_suffix(".lock"))

    def load(self, prefix: str) -> LoadedSession:
        """Load a session by id or unique prefix, even while another process writes to it. Read-only."""
        session_id = self.find(prefix)
        is_open = self.holder(session_id) is not None  # before reading: a call may end, and with it the process
        contents = read_records(self._read(session_id))
        notice = "The last record of this session is incomplete and was skipped." if contents.incomplete_line else ""
        return self._rebuild(session_id, contents, notice, "open" if is_open else "closed")

    def model_of(self, prefix: str) -> str:
        """Return the last model of a session as `provider/model`, empty if it is unknown."""
        summary = summarize(self._path(self.find(prefix)))
        return summary.model if summary is not None else ""

    def resume(self, prefix: str) -> OpenedSession:
        """Open a session to continue it. Raise `SessionNotFound`, `SessionBusy`, or `SessionError` if unreadable.

        Results for calls that a crash left open are also written to the file, so that loading it is reproducible.
        """
        session_id = self.find(prefix)
        file = RecordFile(self._path(session_id))
        try:
            opened = file.open_existing()
        except OSError as error:
            file.close()
            raise SessionError(f"cannot read session {session_id}: {error.strerror}") from None
        loaded = self._rebuild(session_id, opened.content, opened.notice)
        session = Session(
            session_id,
            file,
            self._clock,
            self._redact,
            history=loaded.history,
            title=loaded.title,
            blobs=self._blobs(session_id),
            partial=self._partial(session_id),
            partial_secret_length=self._partial_secret_length,
        )
        session.assembled = AssembledEntries(loaded.history.head, loaded.entries)
        if not loaded.has_header:
            session.buffer_header(model=loaded.model, cwd=loaded.cwd or str(self._root), root=str(self._root))
        _store_repairs(session, loaded)
        return OpenedSession(session, loaded)

    def fork(self, prefix: str, *, cwd: Path) -> OpenedSession:
        """Create a copy of a session. The original is not changed, and may be open in another process."""
        session_id = self.find(prefix)
        is_open = self.holder(session_id) is not None  # before reading, see `load`
        contents = read_records(self._read(session_id))
        loaded = self._rebuild(session_id, contents, "", "copied" if is_open else "closed")
        session = self.create(loaded.model, cwd, forked_from=session_id)
        session.copy_records(contents.records)
        session.history = loaded.history
        session.title = loaded.title
        self._copy_blobs(session_id, session.session_id)
        _store_repairs(session, loaded)
        return OpenedSession(session, loaded)

    def rename(self, prefix: str, title: str) -> None:
        """Set the title of a session, but keep its time of last use. Raise `SessionBusy` if it is open anywhere."""
        path = self._path(self.find(prefix))
        before = path.stat()
        session = self.resume(prefix).session
        session.set_title(title)
        session.close()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def search(self, query: str) -> frozenset[str]:
        """Return the ids of the sessions that contain all words of `query`, ignoring case."""
        return frozenset(self.passages(query, self.ids()))

    def passages(self, query: str, session_ids: Iterable[str]) -> dict[str, str]:
        """Return a passage for each of these sessions that contains all words of `query`, ignoring case."""
        words = query.casefold().split()
        passages = ((session_id, find_passage(self._path(session_id), words)) for session_id in session_ids)
        return {session_id: text for session_id, text in passages if text is not None}

    def prune(self, older_than: datetime, keep: Collection[str] = ()) -> int:
        """Delete sessions last written before `older_than`, except open ones and `keep`; return their number."""
        count = 0
        for session_id in self.ids():
            with suppress(OSError, SessionError):
                modified = datetime.fromtimestamp(self._path(session_id).stat().st_mtime, UTC)
                if modified < older_than and session_id not in keep:
                    self.delete(session_id)
                    count += 1
        return count

    def summaries(self) -> tuple[SessionSummary, ...]:
        """Return the summaries of all sessions, the most recently written one first; unreadable files are skipped."""
        summaries = (summarize(self._path(session_id)) for session_id in self.ids())
        return tuple(
            replace(summary, size=summary.size + self._size_of_other_files(summary.session_id))
            for summary in summaries
            if summary is not None
        )

    def _size_of_other_files(self, session_id: str) -> int:
        """Return the size in bytes of the files beside the session file."""
        path = self._path(session_id)
        size = 0
        for candidate in (path.with_suffix(".corrupt"), self._partial(session_id), *self._blobs(session_id).glob("*")):
            with suppress(OSError):
                size += candidate.stat().st_size
        return size

    def delete(self, prefix: str) -> str:
        """Delete a session and return its id. Raise `SessionBusy` if it is open anywhere."""
        session_id = self.find(prefix)
        remove_session(self._path(session_id))
        return session_id

    def _path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def _blobs(self, session_id: str) -> Path:
        return _blobs_folder(self._path(session_id))

    def _partial(self, session_id: str) -> Path:
        return _partial_file(self._path(session_id))

    def _rebuild(
        self, session_id: str, contents: SessionFileContent, notice: str, end: SessionEnd = "closed"
    ) -> LoadedSession:
        from qcode.agent.sessions.loader import rebuild  # imported with the first session that is loaded
        from qcode.agent.sessions.partial import read_partial

        path = self._partial(session_id)
        with without_gc():  # a long session has 100,000 objects
            return rebuild(session_id, contents, notice, lambda number: read_partial(path, number), end=end)

    def _copy_blobs(self, session_id: str, copy_id: str) -> None:
        """Copy the contents of changed files. A content that cannot be copied cannot be restored in the copy."""
        import shutil

        source, target = self._blobs(session_id), self._blobs(copy_id)
        with suppress(OSError):
            blobs = list(source.iterdir())
            make_private(target)
            for blob in blobs:
                with suppress(OSError):
                    try:
                        os.link(blob, target / blob.name)
                    except OSError:
                        shutil.copyfile(blob, target / blob.name)

    def _read(self, session_id: str) -> bytes:
        try:
            return self._path(session_id).read_bytes()
        except OSError as error:
            raise SessionError(f"cannot read session {session_id}: {error.strerror}") from None


def _store_repairs(session: Session, loaded: LoadedSession) -> None:
    """Write to the file what a crash left out: the reply that was being written, and results for the open calls."""
    if loaded.recovered is not None:
        session.recover(loaded.recovered)
    if loaded.entries and loaded.entries[-1].is_filled_in:
        session.append_entry(loaded.entries[-1])
    session.has_unfinished_turn = loaded.has_unfinished_turn


def _not_found(prefix: str, matches: list[str], ids: tuple[str, ...]) -> str:
    if matches:
        return (
            f'"{prefix}" matches {len(matches)} sessions: {", ".join(matches[:_MAX_LISTED_IDS])}; type more of the id'
        )
    if not ids:
        return f'no session "{prefix}": this folder has no sessions yet'
    from qcode.text.match import nearest_list, similar

    hint = nearest_list(similar(prefix, ids, _MAX_LISTED_IDS)) or f"the latest: {', '.join(ids[:_MAX_LISTED_IDS])}"
    return f'no session "{prefix}" in this folder; {hint}'


_MAX_FIRST_WORDS = 80
_HEADER_FACTS = ("model", "created", "cwd", "branch", "forked_from")
_SUMMARY_KINDS = tuple(f'{{"kind":"{kind}"'.encode() for kind in ("session", "title", "model"))
_MESSAGE = b'{"kind":"message"'
_SHOWN = b'{"kind":"shown"'
_TITLE = b'{"kind":"title"'


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list."""

    session_id: str
    title: str
    """The title, or the first words of the user."""
    model: str
    created: str
    updated: datetime
    messages: int
    """The number of messages."""
    size: int
    """The size of all files of the session in bytes."""
    cwd: str = ""
    """The folder in which the session started."""
    branch: str = ""
    """The git branch at that time; empty if unknown."""
    forked_from: str = ""
    """The id of the original if the session is a fork, otherwise empty."""


def remove_session(path: Path) -> None:
    """Remove a session with all its files. Raise `SessionBusy` if it is open, or `SessionError`."""
    import shutil

    file = RecordFile(path)
    try:
        file.open_existing()
        for extra in (path.with_suffix(".corrupt"), _partial_file(path)):
            extra.unlink(missing_ok=True)
        shutil.rmtree(_blobs_folder(path), ignore_errors=True)
        path.unlink()
    except OSError as error:
        raise SessionError(f"cannot delete session {path.stem}: {error.strerror}") from None
    finally:
        file.close()


def _blobs_folder(path: Path) -> Path:
    return path.with_suffix(".files")


def _partial_file(path: Path) -> Path:
    return path.with_suffix(".partial")


def summarize(path: Path) -> SessionSummary | None:
    """Return the summary of a session file, or None if it cannot be read."""
    facts: dict[str, str] = {}
    messages = 0
    first_prompt = ""
    is_after_first_prompt = False
    try:
        with path.open("rb") as stream:
            for line in stream:
                if line.startswith(_MESSAGE):
                    messages += 1
                    is_after_first_prompt = False
                    if not first_prompt:
                        first_prompt = _prompt_words(line)
                        is_after_first_prompt = bool(first_prompt)
                elif is_after_first_prompt and line.startswith(_SHOWN):
                    first_prompt = first_words([title_prompt(first_prompt, _shown_prompt(line))])
                elif line.startswith(_SUMMARY_KINDS):
                    facts.update(_summary_fields(_parse(line)))
        state = path.stat()
    except OSError:
        return None
    updated = datetime.fromtimestamp(state.st_mtime, UTC)
    title = facts.get("title") or first_prompt
    model, created, cwd, branch, forked_from = (facts.get(name, "") for name in _HEADER_FACTS)
    return SessionSummary(path.stem, title, model, created, updated, messages, state.st_size, cwd, branch, forked_from)


def header_of(path: Path) -> JsonObject | None:
    """Return the first record of a session file, empty if it is unreadable; None if there is no such file."""
    try:
        with path.open("rb") as stream:
            return _parse(stream.readline())
    except FileNotFoundError:
        return None
    except OSError:
        return {}


def first_words(prompts: Iterable[str]) -> str:
    """Return the first words of the first prompt that has words, empty if there is none."""
    for prompt in prompts:
        if words := " ".join(prompt.split()):
            return words if len(words) <= _MAX_FIRST_WORDS else words[: _MAX_FIRST_WORDS - 1] + "…"
    return ""


_PASSAGE_CHARS = 160
_PASSAGE_CHARS_BEFORE = 16
"""The number of characters before a match. It is small, because a list of 40 columns must still show the match."""


def find_passage(path: Path, words: Sequence[str]) -> str | None:
    """Return one line of text around the casefolded `words` in a session; None if a word is missing.

    Only lines that may contain one of the words are parsed, so that 500 sessions are searched in under a second.
    """
    missing = set(words)
    # JSON escapes none of the characters of these words, so a line contains them unchanged.
    unescaped = {word: word.encode() for word in missing if word.isascii() and not set('"\\/') & set(word)}
    found_passage = ""
    try:
        with path.open("rb") as stream:
            for line in stream:
                if not missing:
                    break
                if line.startswith((_MESSAGE, _TITLE)) and _may_match(line, missing, unescaped):
                    text = _message_text(_parse(line))
                    folded = text.casefold()
                    present = {word for word in missing if word in folded}
                    if present and not found_passage:
                        found_passage = _text_around(text, _best_position(folded, words, present))
                    missing -= present
    except OSError:
        return None
    return None if missing else found_passage


def _may_match(line: bytes, words: Collection[str], unescaped: Mapping[str, bytes]) -> bool:
    if any(word not in unescaped for word in words):
        return True
    lower = line.lower()
    return any(unescaped[word] in lower for word in words)


def _best_position(folded: str, words: Sequence[str], present: Collection[str]) -> int:
    """Return the position of all words in order, otherwise of the word that is the rarest in the text.

    Example: a match of `37` in `section 37` is more useful than one of `section`, which is everywhere in a long text.
    """
    position = folded.find(" ".join(words))
    return position if position >= 0 else folded.find(min(present, key=folded.count))


def _text_around(text: str, position: int) -> str:
    """Return one line of text around `position`, which is counted in the folded text and may be slightly off."""
    start = max(0, position - _PASSAGE_CHARS_BEFORE)
    if start:
        # Begin with a whole word.
        space = text.find(" ", start, position)
        start = space + 1 if space >= 0 else start
    return ("…" if start else "") + plain_line(text[start : start + _PASSAGE_CHARS], _PASSAGE_CHARS)


def _message_text(record: JsonObject) -> str:
    title = record.get("title")
    if isinstance(title, str):
        return title
    try:
        return message_from_json(record).text
    except ValueError:
        return ""


def _summary_fields(record: JsonObject) -> dict[str, str]:
    names = ("title", *_HEADER_FACTS)
    return {name: value for name in names if isinstance(value := record.get(name), str)}


def _prompt_words(line: bytes) -> str:
    """Return the first words of a stored prompt; empty for an image without text and for another message."""
    try:
        message = message_from_json(_parse(line))
    except ValueError:
        return ""
    return first_words([typed_text(message)]) if message.role == "user" else ""


def _shown_prompt(line: bytes) -> str:
    """Return the text that was shown for a prompt, empty if the record has none."""
    items = _parse(line).get("items")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") == "prompt" and isinstance(text := item.get("text"), str):
            return text
    return ""


def _parse(line: bytes) -> JsonObject:
    try:
        return parse_object(line.decode()) or {}
    except UnicodeDecodeError:
        return {}
