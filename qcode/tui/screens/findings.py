"""What `/doctor` found, to read, scroll and copy. It is looked for in a thread; the app goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from qcode.tui.hanging import HangingText
from qcode.tui.screens.picker import foot
from qcode.tui.text import one_line

_KEYS = (("Esc", "closes"), ("c", "copies it"), ("↑↓", "scroll"))


class FindingsScreen(ModalScreen[None]):
    """`examine` blocks and returns lines, the titles among them at the margin."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,ctrl+c", "dismiss(None)", "Close", priority=True, show=False),
        Binding("up", "scroll(-1)", "Up", priority=True, show=False),
        Binding("down", "scroll(1)", "Down", priority=True, show=False),
        Binding("c", "copy", "Copy", priority=True, show=False),
    ]

    def __init__(self, examine: Callable[[], Sequence[str]]) -> None:
        super().__init__()
        self._examine = examine
        self.lines: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="findings"):
            yield Static(Content.styled("Doctor", "bold"), id="findings-title", markup=False)
            with VerticalScroll(id="findings-scroll"):
                yield HangingText(id="findings-text")
            yield Static(id="findings-foot", markup=False)

    def on_mount(self) -> None:
        self.query_one("#findings-scroll").focus()
        self._show([("Looking around…", "")])
        self.run_worker(self._look())

    def on_resize(self) -> None:
        self.query_one("#findings-foot", Static).update(foot(_KEYS, self.size.width - 4))

    def action_scroll(self, step: int) -> None:
        self.query_one("#findings-scroll", VerticalScroll).scroll_relative(y=step, animate=False)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard("\n".join(self.lines))
        self.query_one("#findings-title", Static).update(Content.assemble(("Doctor", "bold"), ("  copied", "$muted")))

    async def _look(self) -> None:
        try:
            self.lines = tuple(await asyncio.to_thread(self._examine))
            shown = findings_lines(self.lines)
        except (OSError, ValueError, RuntimeError) as problem:
            shown = [(f"It could not be found out: {one_line(str(problem))}", "$text-warning")]
        self._show(shown)

    def _show(self, lines: Sequence[tuple[str, str]]) -> None:
        self.query_one("#findings-text", HangingText).show(lines)


def findings_lines(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the findings with a style each: their titles marked, a blank line before each."""
    shown: list[tuple[str, str]] = []
    for line in lines:
        is_title = not line.startswith(" ")
        if is_title and shown:
            shown.append(("", ""))
        shown.append((one_line(line), "bold $text-accent") if is_title else (f"  {one_line(line)}", ""))
    return shown
