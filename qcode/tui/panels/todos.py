"""The model's to-do list: read from calls and messages, formatted as text, shown in a panel above the prompt.

The panel is open, folded to one line, or hidden; it takes no focus. It opens when the model starts a list. When the
turn ends it folds, or is hidden if the list is finished. If the user dismisses it, it stays hidden until they open it
again. The functions below the panel are pure; the linear mode uses them too.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Click
from textual.geometry import Region, Size
from textual.widget import Widget
from textual.widgets import Static

from qcode.protocol.events import ToolFinished, TurnEnded, TurnEvent
from qcode.protocol.messages import Message, ToolCall, ToolResult
from qcode.protocol.tools import Refused
from qcode.text.clean import one_line
from qcode.text.json import parse_object
from qcode.tools.dialog import Todo, TodoItem, TodoState, todo_items
from qcode.tui.shared_widgets import mount_parts
from qcode.tui.transcript.line import shorten

TODO_TOOL = Todo.spec.name
_STATE_WORDS = {"pending": "to do", "in_progress": "now", "done": "done"}
_MARKS = {"pending": "○", "in_progress": "●", "done": "✓"}
_LABEL = "todos "
_MIN_CELLS_FOR_HINT = 40
_SCREEN_SHARE = 1 / 3


class TodoPanel(Vertical):
    """The panel of the to-do list."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: tuple[TodoItem, ...] = ()
        self.key = ""
        """The key that opens and dismisses the panel, such as `Ctrl+T`."""
        self._is_open = False
        self._is_dismissed = False
        self.display = False
        self._line = Static(id="todo-line", markup=False)
        self._rows = _TodoRows(id="todo-items")
        self._scroll = VerticalScroll(self._rows, id="todo-scroll", can_focus=False)

    @property
    def is_open(self) -> bool:
        """Whether the items are visible, not only the summary line."""
        return self._is_open and bool(self.items)

    def update_from(self, event: TurnEvent) -> None:
        """Update the list from an event of the turn."""
        match event:
            case ToolFinished(call=call, state="done"):
                items = todos_of(call)
                if items is not None:
                    # There was no list, or a finished one.
                    is_new_list = are_all_done(self.items) and not are_all_done(items)
                    self._show_items(items, is_open=self._is_open or (is_new_list and not self._is_dismissed))
            case TurnEnded():
                self.replace_items(self.items)  # fold the panel, or hide it if all items are done
            case _:
                pass

    def replace_items(self, items: Sequence[TodoItem]) -> None:
        """Show another list, such as that of a resumed conversation, folded; hide it if all items are done."""
        self._show_items(() if are_all_done(items) else tuple(items), is_open=False)

    def toggle(self) -> bool:
        """Open the panel, or dismiss it if it is open; return False if there is no list."""
        if not self.items:
            return False
        self._is_dismissed = self._is_open
        self._show_items(self.items, is_open=not self._is_open)
        return True

    def on_mount(self) -> None:
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    @on(Click, "#todo-line")
    def _line_clicked(self, event: Click) -> None:
        event.stop()
        self.toggle()

    def _show_items(self, items: tuple[TodoItem, ...], *, is_open: bool) -> None:
        if items == self.items and is_open == self._is_open:
            return
        self.items = items
        self._is_open = is_open and bool(items)
        self._paint()

    def _paint(self) -> None:
        self.display = bool(self.items) and not self._is_dismissed
        if not self.is_mounted or not self.display:
            return
        mount_parts(self, self._line, self._scroll)
        # Two cells stay free at the right. The size is 0 before the first layout.
        width = max(8, (self.size.width or 80) - len(_LABEL) - 2)
        hint = f"  {self.key}" if self.key and width >= _MIN_CELLS_FOR_HINT else ""
        line = shorten(todo_summary(self.items), width - len(hint))
        self._line.update(
            Content.assemble((_LABEL, "$muted"), (line, "bold" if self.is_open else ""), (hint, "$muted"))
        )
        self._scroll.display = self.is_open
        # The panel's largest height without the summary line. A larger list is scrolled.
        self._scroll.styles.max_height = max(1, int(self.app.size.height * _SCREEN_SHARE) - 1)
        if self.is_open:
            self._rows.show(self.items)
            self.call_after_refresh(self._keep_current_in_view)

    def _keep_current_in_view(self) -> None:
        """Scroll to the current item. Items wrap, so its row is the sum of the heights above it."""
        current = current_index(self.items)
        width = self._rows.size.width
        if current is None or not self.is_open or width <= 0:
            return
        heights = [len(rows) for rows in self._rows.rows_of_items(width)]
        region = Region(0, sum(heights[:current]), width, heights[current])
        self._scroll.scroll_to_region(region, animate=False, force=True)


class _TodoRows(Widget):
    """The items, each after its mark. A long item wraps, and its other rows align with its text."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._items: tuple[TodoItem, ...] = ()

    def show(self, items: tuple[TodoItem, ...]) -> None:
        self._items = items
        self.refresh(layout=True)

    def rows_of_items(self, width: int) -> list[list[Content]]:
        """Return the rows of each item for `width` cells."""
        current = current_index(self._items)
        return [_todo_rows(item, width, is_current=index == current) for index, item in enumerate(self._items)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return sum(map(len, self.rows_of_items(width)))

    def render(self) -> Content:
        return Content("\n").join(row for rows in self.rows_of_items(self.content_size.width) for row in rows)


def _todo_rows(item: TodoItem, width: int, *, is_current: bool) -> list[Content]:
    style, mark_style = "", "$muted"
    if item.state == "done":
        style, mark_style = "$muted", "$text-success"
    elif is_current:
        style, mark_style = "bold", "$text-accent"
    mark = f"{_MARKS[item.state]} "
    first, *others = Content.styled(one_line(item.task), style).wrap(max(1, width - len(mark)))
    return [Content.assemble((mark, mark_style), first), *(Content(" " * len(mark)) + row for row in others)]


def todos_of(call: ToolCall) -> tuple[TodoItem, ...] | None:
    """Return the list that a call of the to-do tool sets, None for any other call."""
    return _read_items(call.arguments) if call.name == TODO_TOOL else None


def todos_in(messages: Sequence[Message]) -> tuple[TodoItem, ...]:
    """Return the most recent list. If a compaction removed its call, the summary contains the list."""
    failed: set[str] = set()
    for message in reversed(messages):
        failed |= {result.call_id for result in message.blocks if isinstance(result, ToolResult) and result.is_error}
        for call in reversed(message.calls):
            items = todos_of(call) if call.call_id not in failed else None
            if items is not None:
                return items
        if message.text.startswith("<"):
            # A summary begins with a tag. Imported only then, because the first paint must not load the engine.
            from qcode.engine.compactor import is_summary, open_todos

            if is_summary(message):
                arguments_of_last_call = open_todos([message])
                return _read_items(arguments_of_last_call) or ()
    return ()


def are_all_done(items: Sequence[TodoItem]) -> bool:
    """Return whether every item is done; True for an empty list."""
    return all(item.state == "done" for item in items)


def current_index(items: Sequence[TodoItem]) -> int | None:
    """Return the index of the item in progress, otherwise of the first pending one."""
    states = [item.state for item in items]
    for state in ("in_progress", "pending"):
        if state in states:
            return states.index(state)
    return None


def todo_summary(items: Sequence[TodoItem]) -> str:
    """Return the list in one line, such as `3/7 · doing: write the tests`."""
    done = sum(item.state == "done" for item in items)
    current = current_index(items)
    if current is None:
        return f"{done}/{len(items)} · all done"
    label = "doing" if items[current].state == "in_progress" else "next"
    return f"{done}/{len(items)} · {label}: {one_line(items[current].task)}"


def todo_lines(items: Sequence[TodoItem]) -> str:
    """Return the whole list, one line for each item: its state in words, then the task in a second column."""
    states = [f"{_STATE_WORDS[item.state]}:" for item in items]
    width = max(map(len, states), default=0)
    rows = [f"{state:<{width}}  {one_line(item.task)}" for state, item in zip(states, items, strict=True)]
    return "\n".join([todo_summary(items), *rows])


def todo_changes(before: Sequence[TodoItem], after: Sequence[TodoItem]) -> str:
    """Return the summary, then one line for each item that is new or whose state changed, or that was removed.

    Empty if nothing changed.
    """

    # The same task may be on the list several times: its first item is compared with its first item before, and so on.
    old_states: dict[str, list[TodoState]] = {}
    for item in before:
        old_states.setdefault(item.task, []).append(item.state)
    lines = []
    for item in after:
        states = old_states.get(item.task)
        old_state = states.pop(0) if states else None
        if old_state != item.state:
            is_reopened = old_state is not None and item.state == "pending"
            lines.append(f"{'to do again' if is_reopened else _STATE_WORDS[item.state]}: {one_line(item.task)}")
    # The model replaces a finished list by the next one, so removed items that are done are not reported.
    removed = ((task, state) for task, states in old_states.items() for state in states)
    lines += [f"no longer on the list: {one_line(task)}" for task, state in removed if state != "done"]
    if not lines:
        return ""
    return "\n".join([todo_summary(after) if after else "the list is empty", *lines])


def _read_items(arguments: str) -> tuple[TodoItem, ...] | None:
    argument_object = parse_object(arguments)
    if argument_object is None:
        return None
    try:
        return todo_items(argument_object)
    except Refused:
        return None
