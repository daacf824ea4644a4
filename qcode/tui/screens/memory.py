"""The instruction files: which are in force and in which order; one is opened, or chosen to take a line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from qcode.protocol.controls import Memory, MemoryFile
from qcode.tui.control_text import memory_detail
from qcode.tui.screens.picker import Picker, Row
from qcode.tui.text import one_line


class MemoryPicker(Picker):
    """Picks a file to open, by its path. Files that are not there yet are made by opening them."""

    ENTER = "open in your editor"

    def __init__(self, memory: Memory) -> None:
        self._notes = memory.notes()
        super().__init__("Instruction files, in their order", file_rows(memory.files()))

    def compose_more(self) -> ComposeResult:
        lines = [Content.styled(one_line(note), "$text-warning") for note in self._notes]
        how = Content.styled("/memory TEXT adds a line. Changes hold from the next turn on.", "$muted")
        yield Static(Content("\n").join([*lines, how]), id="picker-said", markup=False)


class PlacePicker(Picker):
    """Picks the file that a line is added to, by its path."""

    ENTER = "add it here"

    def __init__(self, places: Sequence[MemoryFile], line: str) -> None:
        super().__init__(f"Add “{one_line(line, 60)}” to", file_rows(places))


def file_rows(files: Sequence[MemoryFile]) -> list[Row]:
    return [Row(file.path, one_line(file.shown), memory_detail(file)) for file in files]
