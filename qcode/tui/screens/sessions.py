"""The screen of `/resume`: searches the sessions of this folder by title and content; resumes, renames or deletes one.

Files are read in a thread. The list of sessions is read when the screen opens, and a session when its row is
highlighted. All sessions are read in batches while the user types a search text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from qcode.agent.context.attachments import parse_attached
from qcode.agent.sessions.file import open_elsewhere_text
from qcode.protocol.messages import Message, Text
from qcode.text.clean import one_line, plain_line, quoted
from qcode.text.numbers import age_text, count_text
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.picker import FIELD_KEYS, Finder, Picker
from qcode.tui.shared_widgets import SteadyInput
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from qcode.agent.sessions.library import SessionInfo, SessionLibrary

_NO_NAME = "The name is empty. Type one, or press Esc to keep the current name."
_MAX_PREVIEW_MESSAGES = 4
_MIN_PREVIEW_HEIGHT = 14
"""The height of the terminal, in rows, from which on the preview is shown."""
_MAX_BRANCH = 24
_SEARCH_BATCH = 25
"""The number of sessions searched between two updates of the list."""
_SEARCH_DEBOUNCE_S = 0.1
"""How long the search waits for the next key."""


class SessionPicker(Picker):
    """Picks a session to resume; the result is its id.

    `highlighted` is the id of the session that is highlighted first.
    """

    ENTER = "resume"
    # Age, number of messages, branch.
    COLUMNS = (Column("", weight=3, is_number=False), Column("", weight=2), Column("", weight=1, is_number=False))
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("Ctrl+R", "rename"), ("Ctrl+X", "delete"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "rename", "Rename", priority=True, show=False),
        Binding("ctrl+x", "delete", "Delete", priority=True, show=False),
    ]

    def __init__(
        self, library: SessionLibrary, now: Callable[[], float], highlighted: str = "", *, filter_text: str = ""
    ) -> None:
        self._library = library
        self._initial_filter = filter_text
        self._now = now
        """Returns the time in seconds since 1970."""
        self._id_to_delete = ""
        """The id of the session that the next Ctrl+X deletes, empty if none."""
        self._message_row_id = ""
        """The id of the session for which a message replaces the preview, empty if there is no message."""
        self._id_to_rename = ""
        """The id of the session whose new name is being typed, empty if none."""
        self._sessions: tuple[SessionInfo, ...] = ()
        self._searched_text = ""
        """The filter text of the last search, whether it has ended or not."""
        self._is_searching = False
        self._passages: dict[str, str] = {}  # for each session whose messages match the filter, the text around a match
        super().__init__("Sessions of this folder", (), empty="Loading…", highlighted=highlighted)

    def compose_more(self) -> ComposeResult:
        yield SteadyInput(placeholder="New name", id="session-name", compact=True)
        yield Static(id="session-preview", markup=False)

    def on_mount(self) -> None:
        # Textual also calls the `on_mount` of the base class.
        self.query_one("#session-name").display = False
        self._load()

    @work(exclusive=True, group="load")
    async def _load(self) -> None:
        """Read the sessions from disk and show them."""
        self._sessions = await asyncio.to_thread(self._library.sessions)
        if not self.is_current:
            return  # the user has closed the screen meanwhile
        self.finder.empty = "This folder has no sessions yet."
        is_first_load = not self.finder.all_rows
        self._show_rows()
        if is_first_load:
            ids = [row.id for row in self.rows]
            self.finder.move_to(ids.index(self._initial_row_id) if self._initial_row_id in ids else 0)
            if self._initial_filter and not self.finder.filter_text:
                self.finder.set_filter(self._initial_filter)

    def rows_below(self) -> int:
        name_field = 1 if self._id_to_rename else 0
        if self.size.height < _MIN_PREVIEW_HEIGHT:
            return name_field
        margin, id_line, passage_line = 1, 1, 1
        # One line says that a session is open elsewhere. If any session is, the line is always reserved, so that the
        # list keeps its height.
        is_any_open = any(info.holder is not None for info in self._sessions)
        open_line = 1 if is_any_open else 0
        return margin + open_line + id_line + passage_line + _MAX_PREVIEW_MESSAGES + name_field

    def show_row(self, row: PickerRow | None) -> None:
        # The rows are also shown again when a search ends, which must not hide a message.
        if row is not None and row.id == self._message_row_id:
            return
        self._clear_message()
        if row is None or self.size.height < _MIN_PREVIEW_HEIGHT:
            self.query_one("#session-preview", Static).update("")
        else:
            self._preview(row.id)

    def _show_message(self, session_id: str, text: str) -> None:
        """Show a message instead of the preview, until the user highlights another session or filters the list."""
        self._message_row_id = session_id
        self.query_one("#session-preview", Static).update(Content.styled(text, "$text-warning"))

    def _clear_message(self) -> None:
        self._message_row_id = self._id_to_delete = ""

    @work(exclusive=True, group="preview")
    async def _preview(self, session_id: str) -> None:
        preview, width = self.query_one("#session-preview", Static), max(10, self.size.width - 4)
        try:
            messages = await asyncio.to_thread(self._library.preview, session_id)
        except ValueError as refusal:
            preview.update(Content.styled(str(refusal), "$text-warning"))
            return
        if self.row is None or self._message_row_id:
            return  # meanwhile the filter hides all sessions, or there is a message
        lines = preview_of(messages, width)
        passage = self._passages.get(session_id, "")
        if passage:
            lines = Content.assemble((shorten(f"found: {passage}", width), "$text-accent"), "\n", lines)
        info = next((info for info in self._sessions if info.session_id == session_id), None)
        if info is not None and info.holder is not None:
            lines = Content.assemble((capitalized(open_elsewhere_text(info.holder)), "$text-warning"), "\n", lines)
        # The id is shown in full, so that the user can type or copy the command.
        command = f"qcode --resume {session_id}"
        fork_note = ""
        if info is not None and info.forked is not None:
            fork_note = f"  ·  forked {age_text(self._now() - info.forked)} ago"
        if len(command + fork_note) <= width:  # on a narrow screen, the row alone names the fork
            command += fork_note
        preview.update(Content.assemble((command, "$muted"), "\n", lines))

    def on_resize(self) -> None:
        # Textual also calls the `on_resize` of the base class.
        self.show_row(self.row)

    @on(Finder.Filtered)
    def _search_content(self) -> None:
        """Search the messages too, if the filter text has changed."""
        query = self.finder.filter_text.strip()
        if query != self._searched_text:
            self._searched_text = query
            self._passages = {}
            if self._message_row_id:
                self._clear_message()
                self.show_row(self.row)
            self._search(query)

    @work(exclusive=True, group="search")
    async def _search(self, query: str) -> None:
        self._is_searching = bool(query)
        if not query:
            self._show_rows()
            return
        await asyncio.sleep(_SEARCH_DEBOUNCE_S)  # a newer search cancels this one
        ids = [info.session_id for info in self._sessions]
        for start in range(0, len(ids), _SEARCH_BATCH):
            passages = await asyncio.to_thread(self._library.passages, query, ids[start : start + _SEARCH_BATCH])
            if not self.is_current:
                return  # the user has picked a session meanwhile
            if passages:
                self._passages.update(passages)
                self._show_rows()
                if self.row is not None and self.row.id in passages:
                    self.show_row(self.row)  # it may have been highlighted before its passage was found
        self._is_searching = False
        self.show_title_and_keys()

    def keys(self) -> Sequence[tuple[str, str]]:
        return FIELD_KEYS if self._id_to_rename else super().keys()

    def title_note(self) -> str:
        return "searching" if self._is_searching else ""

    def action_delete(self) -> None:
        """Delete the highlighted session; the first press only asks for confirmation."""
        row = self.row
        if row is None:
            return
        if self._id_to_delete != row.id:
            self._id_to_delete = row.id
            self._show_message(row.id, "Press Ctrl+X again to delete this session permanently.")
            return
        try:
            self._library.delete(row.id)
        except ValueError as refusal:
            self._show_message(row.id, str(refusal))
            return
        self._clear_message()
        self._load()

    def action_rename(self) -> None:
        """Ask for a new name of the highlighted session."""
        row = self.row
        if row is None:
            return
        self._id_to_rename = row.id
        field = self.query_one("#session-name", Input)
        field.value = row.label
        field.display = True
        field.focus()
        self.show_title_and_keys()

    def action_leave(self) -> None:
        if self._id_to_rename:
            self._stop_renaming()
            self._clear_message()
            self.show_row(self.row)
        else:
            super().action_leave()

    @on(Input.Submitted, "#session-name")
    def _rename(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value.strip():
            self._show_message(self._id_to_rename, _NO_NAME)
            return
        try:
            self._library.rename(self._id_to_rename, event.value)
            self._clear_message()
        except ValueError as refusal:
            self._show_message(self._id_to_rename, str(refusal))
        self._stop_renaming()
        self._load()

    def _stop_renaming(self) -> None:
        self._id_to_rename = ""
        self.query_one("#session-name").display = False
        self.finder.take_focus()
        self.show_title_and_keys()

    def _show_rows(self) -> None:
        """Show all sessions.

        A session whose messages match gets the search text as hidden text, so that the filter does not drop it.
        """
        query, now = self._searched_text, self._now()
        rows = []
        for info in self._sessions:
            passage = self._passages.get(info.session_id)
            rows.append(session_row(info, now, f"{query} {passage}" if passage is not None else ""))
        self.set_rows(rows)


class OpenElsewherePicker(Picker):
    """Asks how to continue with a session that another process has open: `copy`, `list` or `new`.

    `holder` is the id of that process. `at_start`: the session was named on the command line, so Esc starts a new one.
    """

    IS_QUESTION = True

    def __init__(self, title: str, holder: int, *, at_start: bool) -> None:
        self._at_start = at_start
        rows = [
            PickerRow("copy", "Continue in a copy", "the other window keeps the original"),
            PickerRow("list", "Choose another session" if at_start else "Back to the sessions"),
            *([PickerRow("new", "Start a new session")] if at_start else []),
        ]
        super().__init__(f"{quoted(plain_line(title, 40))} is {open_elsewhere_text(holder)}", rows)

    def keys(self) -> Sequence[tuple[str, str]]:
        return (("Enter", self.ENTER), ("Esc", "new session" if self._at_start else "close"), ("↑↓", "move"))


def session_row(info: SessionInfo, now: float, hidden_text: str = "") -> PickerRow:
    """Return the row of a session: title, age (or that another process has it open), number of messages, branch.

    A fork is named before its age, because it often has the title of its original. The filter also matches the id, the
    branch and `hidden_text`.
    """
    label = plain_line(info.title, 80) or info.session_id
    age = "open elsewhere" if info.holder is not None else f"{age_text(now - info.updated)} ago"
    cells = (
        age if info.forked is None else f"fork · {age}",
        count_text(info.messages, "message"),
        one_line(info.branch, _MAX_BRANCH),
    )
    search_text = f"{info.session_id} {info.branch} {hidden_text}".rstrip()
    return PickerRow(info.session_id, label, is_current=info.is_open, cells=cells, search_text=search_text, cut="words")


def preview_of(messages: Sequence[Message], width: int) -> Content:
    """Return the last prompts and replies, one line each."""
    lines = []
    for message in messages:
        if text := _shown_text(message).strip():
            mark = "› " if message.role == "user" else "  "
            line = shorten(plain_line(text, 2 * width), width - len(mark))
            lines.append(Content.assemble((mark, "$text-accent"), (line, "$muted")))
    return Content("\n").join(lines[-_MAX_PREVIEW_MESSAGES:])


def _shown_text(message: Message) -> str:
    """Return the text of a prompt or reply: a shell line as it was typed, without attachments."""
    if message.role != "user":
        return message.text
    texts: list[str] = []
    for block in message.blocks:
        attached = parse_attached(block.text) if isinstance(block, Text) else None
        if attached is not None and attached.kind == "shell":
            texts.append(f"!{attached.name}")
        elif attached is None and isinstance(block, Text):
            texts.append(block.text)
    return "\n".join(texts)
