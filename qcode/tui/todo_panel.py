"""The model's list of todos above the prompt: open, folded to one line, or hidden. It takes no focus.

It opens by itself when a list arrives where nothing was left to do, unless the person folded it before, and folds when
the turn ends. What is finished goes with the next turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Click
from textual.geometry import Region
from textual.widgets import Static

from qcode.protocol.events import ToolFinished, TurnEnded, TurnEvent, TurnStarted
from qcode.tools.todo import Item
from qcode.tui.text import one_line, shorten
from qcode.tui.todo_list import current, in_short, is_over, todos_of

_MARKS = {"pending": "○", "in_progress": "●", "done": "✓"}
_LABEL = "todos "
_ROOM_FOR_HINT = 40
_SHARE = 0.334


class TodoPanel(Vertical):
    """`items` is the list it shows, `key` what opens and folds it, as it is printed on keyboards."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: tuple[Item, ...] = ()
        self.key = ""
        self._is_open = False
        self._is_kept_folded = False
        self.display = False

    def compose(self) -> ComposeResult:
        yield Static(id="todo-line", markup=False)
        with VerticalScroll(id="todo-scroll", can_focus=False):
            yield Static(id="todo-items", markup=False)

    @property
    def is_open(self) -> bool:
        """Whether the items are seen, and not only the line that stands for them."""
        return self._is_open and bool(self.items)

    def see(self, event: TurnEvent) -> None:
        """Follow what a turn does with the list."""
        match event:
            case TurnStarted() if is_over(self.items):
                self._show((), is_open=False)
            case ToolFinished(call=call, state="done"):
                items = todos_of(call)
                if items is not None:
                    is_new = is_over(self.items) and not is_over(items) and not self._is_kept_folded
                    self._show(items, is_open=is_new or self._is_open)
            case TurnEnded():
                self._show(self.items, is_open=False)
            case _:
                pass

    def become(self, items: Sequence[Item]) -> None:
        """Show the list of another conversation, or of another point in it, folded; one that is over is not shown."""
        self._show(() if is_over(items) else tuple(items), is_open=False)

    def toggle(self) -> bool:
        """Open or fold as the person wants it; return False where there is no list."""
        if not self.items:
            return False
        self._is_kept_folded = self._is_open
        self._show(self.items, is_open=not self._is_open)
        return True

    def on_mount(self) -> None:
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    @on(Click, "#todo-line")
    def _line_clicked(self, event: Click) -> None:
        event.stop()
        self.toggle()

    def _show(self, items: tuple[Item, ...], *, is_open: bool) -> None:
        if items == self.items and is_open == self._is_open:
            return
        self.items, self._is_open = items, is_open and bool(items)
        self._paint()

    def _paint(self) -> None:
        self.display = bool(self.items)
        if not self.is_mounted or not self.items:
            return
        width = max(8, (self.size.width or 80) - len(_LABEL) - 2)
        hint = f"  {self.key}" if self.key and width >= _ROOM_FOR_HINT else ""
        line = shorten(in_short(self.items), width - len(hint))
        self.query_one("#todo-line", Static).update(
            Content.assemble((_LABEL, "$muted"), (line, "bold" if self.is_open else ""), (hint, "$muted"))
        )
        scroll = self.query_one("#todo-scroll", VerticalScroll)
        scroll.display = self.is_open
        # With the line above it what the panel may take at most, so that its end can be scrolled into view.
        scroll.styles.max_height = max(1, int(self.app.size.height * _SHARE) - 1)
        if self.is_open:
            at = current(self.items)
            rows = [_row(item, is_current=index == at) for index, item in enumerate(self.items)]
            self.query_one("#todo-items", Static).update(Content("\n").join(rows))
            self.call_after_refresh(self._keep_current_in_view)

    def _keep_current_in_view(self) -> None:
        """Scroll to the current item; where rows wrap, the ones above it take as many lines as they take."""
        at = current(self.items)
        items = self.query_one("#todo-items", Static)
        width = items.size.width
        if at is None or not self.is_open or width <= 0:
            return
        heights = [len(_row(item, is_current=False).wrap(width)) for item in self.items[: at + 1]]
        region = Region(0, sum(heights[:-1]), width, heights[-1])
        self.query_one("#todo-scroll", VerticalScroll).scroll_to_region(region, animate=False, force=True)


def _row(item: Item, *, is_current: bool) -> Content:
    style = "$muted" if item.state == "done" else "bold" if is_current else ""
    mark = "$text-success" if item.state == "done" else "$text-accent" if is_current else "$muted"
    return Content.assemble((f"{_MARKS[item.state]} ", mark), (one_line(item.task), style))
