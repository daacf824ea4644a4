"""The sessions of this folder: search by title, preview, resume, rename, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from qcode.agent.context.attachments import split_attached
from qcode.protocol.messages import Message, Text
from qcode.text.clean import one_line
from qcode.text.numbers import age_text, count_text
from qcode.tui.screens.picker import Picker, PickerRow
from qcode.tui.transcript.line import shorten
from qcode.tui.widgets import Field

if TYPE_CHECKING:
    from qcode.agent.sessions.library import Library, SessionInfo

_PREVIEWED = 4


class SessionPicker(Picker):
    """Picks a session to resume.

    `now` returns seconds since 1970. A session's file is read when its row is highlighted.
    """

    ENTER = "resume"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("Ctrl+R", "rename"), ("Ctrl+X", "delete"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "rename", "Rename", priority=True, show=False),
        Binding("ctrl+x", "delete", "Delete", priority=True, show=False),
    ]

    def __init__(self, library: Library, now: Callable[[], float]) -> None:
        self._library = library
        self._now = now
        self._deleting = ""
        self._renaming = ""
        super().__init__("Sessions of this folder", self._read(), empty="This folder has no sessions yet.")

    def compose_more(self) -> ComposeResult:
        yield Field(placeholder="New name, then Enter", id="session-name", compact=True)
        yield Static(id="session-preview", markup=False)

    def on_mount(self) -> None:
        # Textual also calls the picker's own handler of the same event, here and below.
        self.query_one("#session-name").display = False

    def show_row(self, row: PickerRow | None) -> None:
        self._deleting = ""
        preview = self.query_one("#session-preview", Static)
        if row is None or self.size.height < 14:
            preview.update("")
            return
        try:
            messages = self._library.preview(row.id)
        except ValueError as refusal:
            preview.update(Content.styled(str(refusal), "$text-warning"))
            return
        preview.update(preview_of(messages, max(10, self.size.width - 4)))

    def action_delete(self) -> None:
        """Delete the highlighted session; the first press only asks for confirmation."""
        row = self.row
        if row is None:
            return
        preview = self.query_one("#session-preview", Static)
        if self._deleting != row.id:
            self._deleting = row.id
            preview.update(Content.styled("Press Ctrl+X again to delete this session permanently.", "$text-warning"))
            return
        try:
            self._library.delete(row.id)
        except ValueError as refusal:
            preview.update(Content.styled(str(refusal), "$text-warning"))
            return
        self.set_rows(self._read())

    def action_rename(self) -> None:
        """Ask for a new name of the highlighted session."""
        row = self.row
        if row is None:
            return
        field = self.query_one("#session-name", Input)
        self._renaming, field.value, field.display = row.id, row.label, True
        field.focus()

    def action_leave(self) -> None:
        if self._renaming:
            self._stop_renaming()
        else:
            super().action_leave()

    @on(Input.Submitted, "#session-name")
    def _rename(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self._library.rename(self._renaming, event.value)
        except ValueError as refusal:
            self.query_one("#session-preview", Static).update(Content.styled(str(refusal), "$text-warning"))
        self._stop_renaming()
        self.set_rows(self._read())

    def _stop_renaming(self) -> None:
        self._renaming = ""
        self.query_one("#session-name").display = False
        self.finder.take_focus()

    def _read(self) -> tuple[PickerRow, ...]:
        return tuple(session_row(info, self._now()) for info in self._library.sessions())


def session_row(info: SessionInfo, now: float) -> PickerRow:
    """Return a row: title, age and size."""
    age = age_text(now - info.updated)
    label = one_line(info.title, 80) or info.session_id
    detail = f"{age} ago · {count_text(info.messages, 'message')} · {info.session_id}"
    return PickerRow(info.session_id, label, detail, info.is_open)


def preview_of(messages: Sequence[Message], width: int) -> Content:
    """Return the last prompts and replies, one line each."""
    said = [(message.role, text) for message in messages if (text := _spoken(message).strip())][-_PREVIEWED:]
    lines = [
        Content.assemble(("› " if role == "user" else "  ", "$text-accent"), (shorten(text, width - 2), "$muted"))
        for role, text in said
    ]
    return Content("\n").join(lines)


def _spoken(message: Message) -> str:
    """Return the text of a prompt or reply: a shell line as it was typed, without attachments."""
    if message.role != "user":
        return message.text
    texts: list[str] = []
    for block in message.blocks:
        attached = split_attached(block.text) if isinstance(block, Text) else None
        if attached is not None and attached.kind == "shell":
            texts.append(f"!{attached.name}")
        elif attached is None and isinstance(block, Text):
            texts.append(block.text)
    return "\n".join(texts)
