"""The completion menu above the prompt, for commands and `@path`.

The prompt moves the highlight of `CompletionMenu`, which never has the focus. The functions for `@path` are pure: they
find the mention at the cursor and make the rows that complete it. The rows for commands come from `commands.command`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.widget import Widget

from qcode.protocol.messages import Message, ToolCall
from qcode.text.clean import clean, one_line
from qcode.text.json import parse_object
from qcode.text.pattern import lazy_pattern
from qcode.tui.shared_widgets import chosen_style, overflow_mark
from qcode.tui.transcript.line import break_text, shorten, start_of_end
from qcode.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.geometry import Size

    from qcode.agent.context.file_index import FileMatches
    from qcode.agent.context.pictures import Picture
    from qcode.text.match import FileMatch

_MAX_MENU_ROWS = 8
_MAX_LEFT_CELLS = 24
_MAX_LABEL_CHARS = 4_000
_MAX_DETAIL_ROWS = 2
_MIN_DETAIL_HEIGHT = 20
"""The number of screen rows from which the menu shows the whole help of the highlighted row below its list."""
_HELP_GAP = 2
_MIN_HINT_WIDTH = 60
"""On a narrower screen the menu leaves out the arguments, which the prompt shows after the command."""


@dataclass(frozen=True, slots=True)
class MenuItem:
    """A row of the menu."""

    text: str
    """The text that is inserted."""
    label: str
    help: str = ""
    is_complete: bool = True
    """Nothing must be typed after the text. Enter then also sends a command."""
    matched_positions: tuple[int, ...] = ()
    """The positions of the matched letters in `label`."""
    hint: str = ""
    """The argument of a command."""

    @property
    def left_column(self) -> str:
        """The left column of a row with help: the label and as much of the hint as fits."""
        return shorten(f"{self.label} {self.hint}".rstrip(), _MAX_LEFT_CELLS)

    def without_hint(self) -> MenuItem:
        return replace(self, hint="")


@dataclass(frozen=True, slots=True)
class CompletionSources:
    """The functions that return completions and pasted images to the prompt."""

    commands: Callable[[str], tuple[MenuItem, ...]]
    """Returns the menu rows for the text of the prompt."""
    hint: Callable[[str], str]
    """Returns the argument of the command that the text names, which is shown dimmed after it; it may be empty."""
    files: Callable[[str, bool], FileMatches]
    """Returns the files that match a mention. True means that the mention is new: the folder is then scanned again."""
    pictures: Callable[[tuple[str, ...]], tuple[Picture, ...]]
    """Returns the images at pasted paths; empty unless all are images."""
    resources: Callable[[str], tuple[MenuItem, ...]] = lambda query: ()
    """Returns the menu rows for resources of tool servers that match a mention."""


class CompletionMenu(Widget):
    """A list of completions, of which one may be highlighted; hidden if empty."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.on_pick: Callable[[MenuItem], None] = lambda choice: None
        """Called with a row that the user clicks."""
        self._choices: tuple[MenuItem, ...] = ()
        self._index: int | None = None
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._choices)

    @property
    def choices(self) -> tuple[MenuItem, ...]:
        return self._choices

    @property
    def chosen(self) -> MenuItem | None:
        """The highlighted row, None if nothing is highlighted yet."""
        return self._choices[self._index] if self._index is not None and self._choices else None

    def offer(self, choices: tuple[MenuItem, ...], *, is_first_chosen: bool, keeps_chosen: bool = False) -> None:
        """Show `choices`, or hide the menu if there are none.

        `is_first_chosen`: highlight the first row. `keeps_chosen`: leave the highlight on its row if that row is still
        listed, because the list was only updated. A highlight on the first row stays on the first row instead: the user
        has not moved it.
        """
        if choices == self._choices:
            return
        old_chosen = self.chosen if keeps_chosen and self._index != 0 else None
        self._choices = choices
        self._index = 0 if choices and is_first_chosen else None
        for index, choice in enumerate(choices):
            if old_chosen is not None and choice.text == old_chosen.text:
                self._index = index
                break
        self.display = bool(choices)
        self.refresh(layout=True)

    def close(self) -> None:
        self.offer((), is_first_chosen=False)

    def move(self, step: int) -> None:
        """Move the highlight, wrapping around at the ends."""
        if not self._choices:
            return
        if self._index is not None:
            self._highlight((self._index + step) % len(self._choices))
        else:
            self._highlight(0 if step > 0 else len(self._choices) - 1)

    def page(self, step: int) -> None:
        """Move the highlight by a page, not around the ends."""
        self._move_within(step * max(1, self._max_rows - 1))

    def _choice_at(self, y: int) -> int | None:
        index = self._first_visible + y
        return index if y < self._max_rows and index < len(self._choices) else None

    def on_click(self, event: events.Click) -> None:
        if (index := self._choice_at(event.y)) is not None:
            self.on_pick(self._choices[index])

    def on_mouse_move(self, event: events.MouseMove) -> None:
        index = self._choice_at(event.y)
        if index is not None and index != self._index:
            self._highlight(index)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._move_within(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._move_within(1)

    def _move_within(self, step: int) -> None:
        """Move the highlight, but not around the ends."""
        if self._choices:
            index = self._index if self._index is not None else -1
            self._highlight(max(0, min(index + step, len(self._choices) - 1)))

    def _highlight(self, index: int) -> None:
        width, height = self.size.width, self.screen.size.height
        detail_height = self._detail_height(width, height)
        self._index = index
        self.refresh(layout=self._detail_height(width, height) != detail_height)

    @property
    def _max_rows(self) -> int:
        return _max_menu_rows(self.screen.size.height)

    @property
    def _first_visible(self) -> int:
        """The index of the first visible choice."""
        return max(0, min((self._index or 0) - self._max_rows + 1, len(self._choices) - self._max_rows))

    def get_content_height(self, container: object, viewport: Size, width: int) -> int:
        max_rows = _max_menu_rows(viewport.height)
        is_cut = len(self._choices) > max_rows
        rows = max_rows + 1 if is_cut else len(self._choices)  # the mark of a list that is cut takes one row
        return rows + self._detail_height(width, viewport.height)

    def render(self) -> Content:
        first, choices, width = self._first_visible, self._fitted(self.size.width), self.size.width
        visible = choices[first : first + self._max_rows]
        left_width = _left_width(choices)
        rows = [
            self._row(choice, left_width, is_chosen=index == self._index) for index, choice in enumerate(visible, first)
        ]
        if len(visible) < len(self._choices):
            mark = overflow_mark(first, len(visible), len(self._choices))
            rows.append(Content.styled(f"  {mark}", "$muted"))
        chosen = self.chosen
        has_details = self._detail_height(width, self.screen.size.height) > 0
        if has_details and chosen is not None and _is_cut(chosen, left_width, width):
            rows += _detail_rows(chosen, width)
        return Content("\n").join(rows)

    def _fitted(self, width: int) -> tuple[MenuItem, ...]:
        """Return the choices as text for `width` cells."""
        if width >= _MIN_HINT_WIDTH:
            return self._choices
        return tuple(choice.without_hint() for choice in self._choices)

    def _detail_height(self, width: int, screen_height: int) -> int:
        """Return the rows reserved below the list, so that the menu keeps its height when the highlight moves in view.

        Help that is out of view needs none: one long description would leave blank rows below all others.
        """
        if screen_height < _MIN_DETAIL_HEIGHT:
            return 0
        choices, first = self._fitted(width), self._first_visible
        left_width = _left_width(choices)
        visible = choices[first : first + self._max_rows]
        cut = (choice for choice in visible if _is_cut(choice, left_width, width))
        return max((len(_detail_rows(choice, width)) for choice in cut), default=0)

    def _row(self, choice: MenuItem, left_width: int, *, is_chosen: bool) -> Content:
        label_style = chosen_style(self) if is_chosen else ""
        name = one_line(choice.label, _MAX_LABEL_CHARS)
        if choice.help:
            left = one_line(choice.left_column)
            name, hint = left[: len(name)], left[len(name) :]
            label = Content.assemble((name, label_style), (hint, "$muted"), " " * max(0, left_width - cell_len(left)))
        else:
            label = Content.styled(name, label_style)
        for position in choice.matched_positions:
            label = label.stylize("bold underline", position, position + 1)
        label_width = max(1, self.size.width - 2)
        if not choice.help and cell_len(name) > label_width:
            # The end of a long path is more useful than its start: `…/tui/prompt/menu.py`.
            label = Content.assemble("…", label[start_of_end(name, label_width - cell_len("…")) :])
        row = Content.assemble(
            ("› " if is_chosen else "  ", "$text-accent"),
            label,
            (" " * _HELP_GAP + choice.help if choice.help else "", "$muted"),
        )
        return row.truncate(max(1, self.size.width), ellipsis=True)


def _max_menu_rows(screen_height: int) -> int:
    """Return how many choices fit besides the mark, the status line and a prompt of a third of the screen."""
    return max(1, min(_MAX_MENU_ROWS, screen_height * 2 // 3 - 3))


def _left_width(choices: Iterable[MenuItem]) -> int:
    return max((cell_len(choice.left_column) for choice in choices if choice.help), default=0)


def _is_cut(choice: MenuItem, left_width: int, width: int) -> bool:
    """Return whether the help of `choice` does not fit into its row of `width` cells."""
    return bool(choice.help) and cell_len("› ") + left_width + _HELP_GAP + cell_len(choice.help) > width


def _detail_rows(choice: MenuItem, width: int) -> list[Content]:
    """Return the whole help of `choice` in rows of `width` cells; its end is cut if it needs too many."""
    rows = [choice.help[start:end] for start, end, _ in break_text(choice.help, max(1, width - 4))]
    if len(rows) > _MAX_DETAIL_ROWS:
        rows[_MAX_DETAIL_ROWS - 1 :] = [" ".join(rows[_MAX_DETAIL_ROWS - 1 :])]
    return [Content.styled("  " + shorten(row, max(1, width - 4)), "$muted") for row in rows]


_MENTION_BEFORE_CURSOR = lazy_pattern(r'(?:^|(?<=\s))@(?:"(?P<quoted>[^"]*)|(?P<unquoted>(?:\\.|[^\s"\\])*))$')
_REST_OF_UNQUOTED = lazy_pattern(r"(?:\\.|[^\s\\])*")
_REST_OF_QUOTED = lazy_pattern(r'[^"]*"?')
_ESCAPED = lazy_pattern(r"\\(.)")
_NEEDS_ESCAPE = lazy_pattern(r'(["\\\s])')
_MAX_SEARCHED_MESSAGES, _MAX_RECENT_PATHS = 60, 20
"""Limits of `recent_paths`: the latest messages that it searches, and the paths that it returns."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention that is being typed."""

    start: int
    """The index of its `@` in the line."""
    end: int
    """The index after its last character."""
    query: str
    """The path before the cursor, without quotes and escapes."""


def mention_at(line: str, column: int) -> Mention | None:
    """Return the mention at the cursor or directly before it, None if there is none."""
    match = _MENTION_BEFORE_CURSOR.search(line[:column])
    if match is None:
        return None
    if match["quoted"] is not None:
        query = match["quoted"]
        rest = _REST_OF_QUOTED.match(line, column)
    else:
        query = _ESCAPED.sub(r"\1", match["unquoted"])
        rest = _REST_OF_UNQUOTED.match(line, column)
    return Mention(match.start(), rest.end() if rest is not None else column, query)


def mention_of(path: str, *, is_open: bool = False) -> str:
    """Return the mention of a path: plain, quoted or escaped. `is_open` omits the closing quote."""
    if '"' in path or "\\" in path:
        return "@" + _NEEDS_ESCAPE.sub(r"\\\1", path)
    if re.search(r"\s", path):
        return f'@"{path}' + ("" if is_open else '"')
    return f"@{path}"


def file_choices(matches: Iterable[FileMatch]) -> tuple[MenuItem, ...]:
    """Return a row for each match. A folder can be completed further; a file ends the mention."""
    return tuple(
        MenuItem(
            mention_of(match.path, is_open=match.is_folder),
            clean(match.path),
            is_complete=not match.is_folder,
            matched_positions=match.matched_positions if clean(match.path) == match.path else (),
        )
        for match in matches
    )


def recent_paths(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the paths in the latest calls of a transcript, newest first."""
    paths: dict[str, None] = {}
    for message in reversed(list(messages)[-_MAX_SEARCHED_MESSAGES:]):
        for block in reversed(message.blocks):
            if isinstance(block, ToolCall):
                path = (parse_object(block.arguments) or {}).get("path")
                if isinstance(path, str) and path:
                    paths.setdefault(path)
    return tuple(paths)[:_MAX_RECENT_PATHS]
