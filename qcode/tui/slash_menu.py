"""The rows above the prompt while a command or a file is typed. The prompt drives it; it takes no focus."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from qcode.protocol.values import dataclass
from qcode.tui.text import one_line

_ROWS = 8


@dataclass(frozen=True, slots=True)
class Choice:
    """One row: `text` is what is put in, `is_complete` whether Enter may go on with it as it is.

    `marks` are the places of the letters in `label` that were asked for.
    """

    text: str
    label: str
    help: str = ""
    is_complete: bool = True
    marks: tuple[int, ...] = ()


class SlashMenu(Widget):
    """Shows choices and which of them is meant; hidden while there are none."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._choices: tuple[Choice, ...] = ()
        self._index: int | None = None
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._choices)

    @property
    def choices(self) -> tuple[Choice, ...]:
        return self._choices

    @property
    def chosen(self) -> Choice | None:
        """The highlighted row, None where nothing is highlighted yet."""
        return self._choices[self._index] if self._index is not None and self._choices else None

    def offer(self, choices: tuple[Choice, ...], *, is_first_chosen: bool, keeps_chosen: bool = False) -> None:
        """Show `choices`; none hides the menu. `keeps_chosen`: they are the same ones, better known."""
        if choices == self._choices:
            return
        chosen = self.chosen.text if keeps_chosen and self.chosen is not None and self._index else None
        self._choices = choices
        self._index = 0 if choices and is_first_chosen else None
        if chosen is not None:
            self._index = next((at for at, choice in enumerate(choices) if choice.text == chosen), self._index)
        self.display = bool(choices)
        self.refresh(layout=True)

    def close(self) -> None:
        self.offer((), is_first_chosen=False)

    def move(self, step: int) -> None:
        """Move the highlight, around the ends."""
        if self._choices:
            start = self._index if self._index is not None else (-1 if step > 0 else 0)
            self._index = (start + step) % len(self._choices)
            self.refresh()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(_ROWS, len(self._choices))

    def render(self) -> Content:
        first = max(0, min((self._index or 0) - _ROWS + 1, len(self._choices) - _ROWS))
        shown = self._choices[first : first + _ROWS]
        width = max((len(choice.label) for choice in self._choices if choice.help), default=0)
        rows = [self._row(choice, width, first + place == self._index) for place, choice in enumerate(shown)]
        return Content("\n").join(rows)

    def _row(self, choice: Choice, width: int, is_chosen: bool) -> Content:
        label_style = "bold $text-accent" if is_chosen else ""
        label = Content.styled(f"{one_line(choice.label, 4_000):<{width}}", label_style)
        for mark in choice.marks:
            label = label.stylize("bold underline", mark, mark + 1)
        room = max(1, self.size.width - 2)
        if not choice.help and len(choice.label) > room:
            # Of a path the end says more than the beginning.
            label = Content.assemble("…", label.rstrip()[len(choice.label) - room + 1 :])
        row = Content.assemble(
            ("› " if is_chosen else "  ", "$text-accent"), label, ("  " + choice.help if choice.help else "", "$muted")
        )
        return row.truncate(max(1, self.size.width), ellipsis=True)
