"""What the model is offered: each tool with what a call of it does now, where it comes from and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from qcode.protocol.controls import OfferedTool
from qcode.tui.control_text import first_sentence, tools_heading
from qcode.tui.figures import tokens_text
from qcode.tui.screens.picker import Picker, Row
from qcode.tui.text import one_line


class ToolPicker(Picker):
    """Picks a tool to read all about, by its name."""

    ENTER = "all about it"

    def __init__(self, tools: Sequence[OfferedTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        rows = [
            Row(tool.name, one_line(tool.name), f"{tool.standing} · {tokens_text(tool.tokens)} tokens · {tool.origin}")
            for tool in tools
        ]
        super().__init__(tools_heading(tools), rows, empty="The model is offered no tools.")

    def compose_more(self) -> ComposeResult:
        yield Static(id="picker-said", markup=False)

    def show_row(self, row: Row | None) -> None:
        said = first_sentence(self._tools[row.id].description) if row is not None else ""
        self.query_one("#picker-said", Static).update(Content.styled(said, "$muted"))
