"""The sessions of a folder beside the one that is open; the conversation goes on with whichever is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from qcode.protocol.events import ApiCalls
from qcode.protocol.library import ExportForm, SessionInfo
from qcode.protocol.messages import Message
from qcode.protocol.reports import TurnUsage
from qcode.protocol.usage import cost_of
from qcode.runtime.store.errors import SessionError
from qcode.runtime.store.line import Entry
from qcode.runtime.store.loaded import assemble
from qcode.runtime.store.session import Session
from qcode.runtime.store.store import SessionStore
from qcode.runtime.store.summaries import SessionSummary, first_words
from qcode.runtime.surroundings import Connected
from qcode.runtime.titles import ask_for_title, is_worth_a_title

_DEMO = "demo"


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
    """The real `protocol.library.Library`. `store` None: no sessions are kept in this run.

    `small_model` gives the model for small tasks, None where there is none; `count` is told what it used.
    """

    def __init__(
        self,
        opener: Opener,
        store: SessionStore | None,
        folder: Path,
        small_model: Callable[[], Connected | None],
        count: Callable[[TurnUsage], None],
    ) -> None:
        self._opener = opener
        self._known = store
        self._folder = folder
        self._small_model = small_model
        self._count = count
        self._tried: set[str] = set()

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

    async def make_title(self) -> TurnUsage | None:
        session = self._opener.session
        messages = [entry.message for entry in self._history()] if self._is_to_be_named(session) else []
        small = self._small_model() if is_worth_a_title(messages) else None
        if small is None or small.provider.name == _DEMO:
            return None
        self._tried.add(session.session_id)
        naming = await ask_for_title(small.provider, small.model.name, small.model.output_limit, messages)
        if naming.title and not session.title and session is self._opener.session:
            session.set_title(naming.title)
        cost = cost_of(naming.usage, small.model.facts.price)
        used = TurnUsage("(a name for the session)", small.name, naming.usage, cost, ApiCalls(initial=1))
        self._count(used)
        return used

    def _is_to_be_named(self, session: Session) -> bool:
        """Whether a name would be kept and seen, and nothing of a run without a network would go to one."""
        is_demo = self._opener.model.partition("/")[0] == _DEMO
        return self._known is not None and not is_demo and not session.title and session.session_id not in self._tried

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
