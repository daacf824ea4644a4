"""The sessions of a folder, as a front end lists, previews, resumes, names, copies, exports and deletes them."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from qcode.protocol.messages import Message
from qcode.protocol.reports import TurnUsage
from qcode.values import dataclass

ExportForm: TypeAlias = Literal["md", "json", "html"]
EXPORT_FORMS: tuple[ExportForm, ...] = ("md", "json", "html")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list. `updated` is seconds since 1970; `is_open`: it is the one that is open here."""

    session_id: str
    title: str
    model: str
    updated: float
    messages: int
    is_open: bool = False


class Library(Protocol):
    """What refuses raises `ValueError` with one line for a person.

    Nothing here but `make_title` may be called while a turn runs.
    """

    @property
    def title(self) -> str:
        """The title of the open session: what it was named, else the first words said in it, else empty."""
        ...

    def sessions(self) -> tuple[SessionInfo, ...]:
        """Return the sessions of this folder, the one written to last first. It reads files."""
        ...

    def preview(self, session_id: str) -> tuple[Message, ...]:
        """Return what was said in a session, changing nothing."""
        ...

    def search(self, text: str) -> frozenset[str]:
        """Return the ids of the sessions in which all words of `text` were said or stand in the title."""
        ...

    def rename(self, session_id: str, title: str) -> None: ...

    async def make_title(self) -> TurnUsage | None:
        """Have the open session named by the small model, where one is set, nobody named it, and it was not tried.

        Return what that used, None where nothing was asked. It may be called while a turn runs; a model that fails
        leaves the session as it is, and so does a person who names it meanwhile.
        """
        ...

    def delete(self, session_id: str) -> None:
        """Remove a session for good, with the old contents of files it kept; the open one is refused."""
        ...

    def resume(self, session_id: str) -> tuple[str, ...]:
        """Let the conversation go on with another session; return lines for a person about its file."""
        ...

    def fork(self) -> str:
        """Let the conversation go on in a copy of its session; return the id of the copy."""
        ...

    def export(self, form: ExportForm) -> str:
        """Return all that was said in the open session, what a compaction replaced included."""
        ...
