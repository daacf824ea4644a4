"""A list to choose from by keyboard: arrows move, typing narrows it down, Enter takes the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from qcode.tui.text import one_line

_STEPS = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1}


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    help: str = ""


class Picker(Widget, can_focus=True):
    """Rows by name. What is typed keeps those whose name holds it; Esc is left to whoever shows the list."""

    @dataclass
    class Picked(Message):
        name: str

    @dataclass
    class Missed(Message):
        """Enter was pressed where no row is left of what was typed."""

        typed: str

    @dataclass
    class Moved(Message):
        """Another row is highlighted."""

        name: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._index = 0
        self.typed = ""

    @property
    def shown(self) -> tuple[Row, ...]:
        """The rows that what was typed leaves."""
        return tuple(row for row in self._rows if self.typed.lower() in row.name.lower())

    @property
    def highlighted(self) -> str:
        """The name of the highlighted row, empty where none is left."""
        rows = self.shown
        return rows[self._index].name if rows else ""

    def offer(self, rows: Sequence[Row], highlighted: str = "") -> None:
        self._rows = tuple(rows)
        self.typed = ""
        self._index = next((place for place, row in enumerate(rows) if row.name == highlighted), 0)
        self.refresh()

    def on_key(self, event: events.Key) -> None:
        rows, before = self.shown, self.highlighted
        page = max(1, self.size.height - 1)
        steps = {**_STEPS, "pageup": -page, "pagedown": page, "home": -len(rows), "end": len(rows)}
        if event.key == "enter":
            self.post_message(self.Picked(before) if before else self.Missed(self.typed))
        elif event.key in steps:
            is_around = abs(steps[event.key]) == 1 and len(rows) > 0
            index = self._index + steps[event.key]
            self._index = index % len(rows) if is_around else max(0, min(index, len(rows) - 1))
        elif event.key == "backspace":
            self._type(self.typed[:-1])
        elif event.key == "ctrl+u":
            self._type("")
        elif event.is_printable and event.character:
            self._type(self.typed + event.character)
        else:
            return
        event.stop()
        event.prevent_default()
        if self.highlighted and self.highlighted != before:
            self.post_message(self.Moved(self.highlighted))
        self.refresh()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._type(self.typed + one_line(event.text, 60))
        self.refresh()

    def render(self) -> Content:
        rows, height = self.shown, self.size.height
        lines = [Content.assemble(("filter: ", "$muted"), self.typed)] if self.typed else []
        if not rows:
            lines.append(Content.styled("nothing of that name; Backspace widens", "$muted"))
        room = max(1, height - len(lines))
        first = max(0, min(self._index - room // 2, len(rows) - room))
        width = max((len(one_line(row.name)) for row in rows), default=0)
        lines += [self._line(row, width, place == self._index) for place, row in enumerate(rows)][first : first + room]
        return Content("\n").join(lines)

    def _type(self, text: str) -> None:
        self.typed = text
        self._index = 0

    def _line(self, row: Row, width: int, is_chosen: bool) -> Content:
        line = Content.assemble(
            ("› " if is_chosen else "  ", "$text-accent"),
            (f"{one_line(row.name):<{width}}", "bold $text-accent" if is_chosen else ""),
            (f"  {one_line(row.help)}" if row.help else "", "$muted"),
        )
        return line.truncate(max(1, self.size.width), ellipsis=True)
