"""The sessions of a folder beside the one that is open; the conversation goes on with whichever is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from qcode.protocol.library import ExportForm, SessionInfo
from qcode.protocol.messages import Message
from qcode.runtime.store.errors import SessionError
from qcode.runtime.store.line import Entry
from qcode.runtime.store.loaded import assemble
from qcode.runtime.store.session import Session
from qcode.runtime.store.store import SessionStore
from qcode.runtime.store.summaries import SessionSummary, first_words


class Opener(Protocol):
    """The conversation, as far as this needs it."""

    @property
    def session(self) -> Session: ...

    @property
    def model(self) -> str: ...

    @property
    def is_busy(self) -> bool: ...

    def open_session(self, session: Session, *, is_copy: bool = False) -> None:
        """Leave the session that is open and go on with this one; `is_copy`: with all that it holds."""
        ...


class Library:
    """The real `protocol.library.Library`. `store` None: no sessions are kept in this run."""

    def __init__(self, opener: Opener, store: SessionStore | None, folder: Path) -> None:
        self._opener = opener
        self._known = store
        self._folder = folder

    @property
    def title(self) -> str:
        session = self._opener.session
        return session.title or first_words(entry.message for entry in self._history())

    def sessions(self) -> tuple[SessionInfo, ...]:
        found = self._known.summaries() if self._known is not None else ()
        return tuple(_info(one, one.session_id == self._opener.session.session_id) for one in found)

    def preview(self, session_id: str) -> tuple[Message, ...]:
        with _one_line():
            return tuple(entry.message for entry in self._store.load(session_id).history())

    def search(self, text: str) -> frozenset[str]:
        return self._known.search(text) if self._known is not None else frozenset()

    def rename(self, session_id: str, title: str) -> None:
        title = " ".join(title.split())
        if not title:
            raise ValueError("A name is needed: /rename NAME.")
        if session_id == self._opener.session.session_id:
            self._opener.session.set_title(title)
            return
        with _one_line():
            self._store.rename(session_id, title)

    def delete(self, session_id: str) -> None:
        if session_id == self._opener.session.session_id:
            raise ValueError("This session is open here; /clear begins another one first.")
        with _one_line():
            self._store.delete(session_id)

    def resume(self, session_id: str) -> tuple[str, ...]:
        self._check_idle()
        if session_id == self._opener.session.session_id:
            return ()
        with _one_line():
            session, loaded = self._store.resume(session_id)
        self._opener.open_session(session)
        return loaded.notices

    def fork(self) -> str:
        self._check_idle()
        with _one_line():
            session, _ = self._store.fork(self._opener.session.session_id, cwd=self._folder)
        self._opener.open_session(session, is_copy=True)
        return session.session_id

    def export(self, form: ExportForm) -> str:
        from qcode.runtime.export.session import About, exported

        about = About(self._opener.session.session_id, self.title, self._opener.model)
        return exported(self._history(), about, form)

    def _history(self) -> tuple[Entry, ...]:
        line = self._opener.session.line
        return assemble(line, line.history()).entries

    @property
    def _store(self) -> SessionStore:
        if self._known is None:
            raise ValueError("Sessions are not kept in this run (--no-session).")
        return self._known

    def _check_idle(self) -> None:
        if self._opener.is_busy:
            raise ValueError("A turn is running. Press Esc to interrupt it first.")


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except SessionError as error:
        text = str(error)
        raise ValueError(f"{text[:1].upper()}{text[1:]}.") from None


def _info(one: SessionSummary, is_open: bool) -> SessionInfo:
    return SessionInfo(one.session_id, one.title, one.model, one.updated.timestamp(), one.messages, is_open)
