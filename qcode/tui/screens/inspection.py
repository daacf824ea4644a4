"""The screens of `/doctor`, `/memory` and `/tools`: findings, instruction files, tools offered to the model.

Findings are collected in a thread while the app continues. Instruction files are listed in the order in which they
apply; the user opens one, or adds a line to one. Each tool has its current permission, its origin and its cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.agent.context.memory import InstructionFiles, ListedFile, memory_detail, owner_label, size_text
from qcode.agent.offered_tools import OfferedTool, first_sentence, tool_text, tool_title, tools_heading
from qcode.text.clean import one_line, quoted_line, visible_lines
from qcode.text.numbers import tokens_text
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.pager import LESS_KEYS, PagerScreen, ScrollUnit, hanging_lines, scroll_by
from qcode.tui.screens.picker import Picker
from qcode.tui.shared_widgets import HangingText, key_hints
from qcode.tui.terminal.clipboard import CopyResult

_FINDINGS_KEYS = (("Esc", "close"), ("c", "copy"), ("↑↓", "scroll"))
_MARK_STYLES = {"! ": "$text-warning", "✗ ": "$text-error"}


class FindingsScreen(ModalScreen[None]):
    """Shows the findings of the doctor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,ctrl+c", "dismiss(None)", "Close", priority=True, show=False),
        Binding("up", "scroll(-1)", "Up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", priority=True, show=False),
        *LESS_KEYS,
        Binding("c", "copy", "Copy", priority=True, show=False),
    ]

    def __init__(self, examine: Callable[[], Sequence[str]], copy: Callable[[str], CopyResult]) -> None:
        super().__init__()
        self._copy = copy
        self._examine = examine
        """Returns the findings as lines; lines without an indent are headings. It blocks, so it runs in a thread."""

        self.lines: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="findings"):
            yield Static(Content.styled("Doctor", "bold"), id="findings-title", markup=False)
            with VerticalScroll(id="findings-scroll"):
                yield HangingText(id="findings-text")
            yield Static(id="findings-foot", markup=False)

    def on_mount(self) -> None:
        self.query_one("#findings-scroll").focus()
        self._show_lines([("Checking…", "")])
        self._load_lines()

    def on_resize(self) -> None:
        self.query_one("#findings-foot", Static).update(key_hints(_FINDINGS_KEYS, self.size.width - 4))

    def action_scroll(self, step: int) -> None:
        self.query_one("#findings-scroll", VerticalScroll).scroll_relative(y=step, animate=False)

    def action_scroll_by(self, unit: ScrollUnit, step: int) -> None:
        scroll_by(self.query_one("#findings-scroll", VerticalScroll), unit, step)

    def action_copy(self) -> None:
        report = self._copy("\n".join(self.lines)).report("the findings")
        self.query_one("#findings-title", Static).update(
            Content.assemble(("Doctor", "bold"), (f"  {report}", "$muted")).truncate(self.size.width - 4, ellipsis=True)
        )

    @work
    async def _load_lines(self) -> None:
        try:
            self.lines = tuple(await asyncio.to_thread(self._examine))
            lines = findings_lines(self.lines)
        except (OSError, ValueError, RuntimeError) as problem:
            lines = [(f"The check failed: {one_line(str(problem))}", "$text-warning")]
        self._show_lines(lines)

    def _show_lines(self, lines: Sequence[tuple[str, str]]) -> None:
        self.query_one("#findings-text", HangingText).show(lines)


def findings_lines(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return each line with its style: headings highlighted and after a blank line, warnings and errors colored.

    Other lines keep their indent, so that marks and labels stay aligned.
    """
    styled_lines: list[tuple[str, str]] = []
    for line in lines:
        text = line.lstrip(" ")
        indent = line[: len(line) - len(text)]
        if indent:
            styled_lines.append((f"{indent}{one_line(text)}", _MARK_STYLES.get(text[:2], "")))
            continue
        if styled_lines:
            styled_lines.append(("", ""))
        styled_lines.append((one_line(line), "bold $text-accent"))
    return styled_lines


class MemoryFilePicker(Picker):
    """Picks one of the instruction files in `files`; the result is its path."""

    HAS_DESCRIPTION = True
    MIN_LABEL = 26
    """A path such as `~/.config/qcode/AGENTS.md`."""
    COLUMNS = (Column("", weight=2), Column("", weight=1, is_number=False))

    def __init__(self, title: str, files: Sequence[ListedFile]) -> None:
        self._details = {file.path: memory_detail(file) for file in files}
        super().__init__(title, file_rows(files))

    def describe(self, row: PickerRow) -> str:
        return capitalized(self._details[row.id])


class MemoryPicker(MemoryFilePicker):
    """Picks an instruction file to open. A missing file is created when it is opened."""

    ENTER = "open in editor"

    def __init__(self, memory: InstructionFiles) -> None:
        self._notes = memory.notes()
        super().__init__("Instruction files, in prompt order", memory.files())

    def compose_more(self) -> ComposeResult:
        lines = [Content.styled(one_line(note), "$text-warning") for note in self._notes]
        hint = Content.styled("/memory TEXT adds a line. Changes apply from the next turn.", "$muted")
        yield Static(Content("\n").join([*lines, hint]), id="picker-message", markup=False)


class MemoryTargetPicker(MemoryFilePicker):
    """Picks an instruction file to which `line` is added."""

    ENTER = "add here"

    def __init__(self, files: Sequence[ListedFile], line: str) -> None:
        super().__init__(f"Add {quoted_line(line, 60)} to", files)


def file_rows(files: Sequence[ListedFile]) -> list[PickerRow]:
    return [
        PickerRow(file.path, one_line(file.label), cells=(size_text(file), owner_label(file)), cut="start")
        for file in files
    ]


class SkillCommandPicker(Picker):
    """Asks whether a command in the prompt of a skill may run. Esc means no."""

    ENTER = "choose"
    RUN = "run"

    def __init__(self, command: str, reason: str) -> None:
        self._command = command
        self._reason = reason
        rows = [PickerRow("no", "No, do not send the prompt"), PickerRow(self.RUN, "Run it once, outside the sandbox")]
        super().__init__("This prompt runs a command first", rows)

    def compose_more(self) -> ComposeResult:
        command = Content(visible_lines(self._command))
        reason = Content.styled(self._reason, "$muted")
        yield Static(Content("\n").join([command, reason]), id="picker-message", markup=False)


class ToolPicker(Picker):
    """Shows the tools. Enter opens the details of a tool above the list, so that Esc returns to the list."""

    ENTER = "show details"
    HAS_DESCRIPTION = True
    MAX_DESCRIPTION_ROWS = 2

    def __init__(self, tools: Sequence[OfferedTool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        rows = [
            PickerRow(tool.name, tool_title(tool), f"{tool.effect} · {tokens_text(tool.tokens)} tokens · {tool.origin}")
            for tool in tools
        ]
        super().__init__(tools_heading(tools), rows, empty="The model has no tools.")

    def select(self, row: PickerRow) -> None:
        text = tool_text(self._tools[row.id])
        self.app.push_screen(PagerScreen(f"Tool {row.label}", lambda width: hanging_lines(text, width)))

    def describe(self, row: PickerRow) -> str:
        return first_sentence(self._tools[row.id].description)
