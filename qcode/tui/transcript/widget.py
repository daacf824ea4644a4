"""The transcript as the rest of the app sees it: what can be added, changed and asked for.

Every call is cheap and returns before anything is painted; `pane` shows the changes with the next frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from textual.geometry import Offset
from textual.selection import Selection

from qcode.tui.transcript.column import occurrences
from qcode.tui.transcript.content import Content, Level
from qcode.tui.transcript.line import Line, join
from qcode.tui.transcript.pane import Pane

_WIDTH_BEFORE_MOUNT = 80


class Transcript(Pane):
    """Everything said and done. `clock` gives seconds for durations; it must never go back."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = monotonic,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(clock, id, classes)
        self._clock = clock

    def add_welcome(self, lines: Sequence[str]) -> None:
        """Add lines of greeting, the first one bold."""
        self.content.add_welcome(lines)
        self.schedule()

    def add_user(self, text: str) -> None:
        """Add what the person said, as it was typed."""
        self.content.add_user(text)
        self.schedule()

    def append_text(self, text: str) -> None:
        """Open or go on with the live text of the reply; `text` is Markdown, cut anywhere."""
        self.content.append_text(text)
        self.schedule()

    def append_reasoning(self, text: str) -> None:
        """Open or go on with live thinking."""
        self.content.append_reasoning(text)
        self.schedule()

    def settle(self) -> None:
        """Close the live blocks; thinking folds, old text of an attempt that was given up goes."""
        self.content.settle()
        self.schedule()

    def restart(self, label: str) -> None:
        """The reply starts over: its live blocks stay, dimmed and labelled, until new ones have taken their place."""
        self.content.restart(label)
        self.schedule()

    def restore(self, text: str, reasoning: str = "") -> None:
        """The live blocks are replaced by these, which are live and may go on."""
        self.content.restore(text, reasoning)
        self.schedule()

    def add_mark(self, text: str) -> None:
        """Put a thin line with `text` after what is shown of the live text, which goes on below it unbroken."""
        self.content.add_mark(text)
        self.schedule()

    def add_notice(self, level: Level, text: str) -> None:
        """Add something that qcode itself has to say."""
        self.content.add_notice(level, text)
        self.schedule()

    def add_card(self, call_id: str, name: str, argument: str) -> None:
        """Add the card of a tool call, waiting. A later call with the same id gets a card of its own."""
        self.content.add_card(call_id, name, argument)
        self.schedule()

    def update_card(
        self,
        call_id: str,
        *,
        state: str | None = None,
        argument: str | None = None,
        output: str | None = None,
        append: str | None = None,
        diff: str | None = None,
        summary: str | None = None,
    ) -> None:
        """Change what is given of a card; one that went with its attempt is ignored.

        `output` replaces the output so far, `append` goes on after it, `diff` is a unified diff. Raise `ValueError`
        for a state that is none.
        """
        self.content.update_card(
            call_id, state=state, argument=argument, output=output, append=append, diff=diff, summary=summary
        )
        self.schedule()

    def toggle_folds(self) -> None:
        """Unfold all thinking, outputs and diffs, or fold them again."""
        self.content.toggle_folds()
        self.drop_selection()
        self.schedule()

    def clear(self) -> None:
        """Take everything away."""
        self.show(Content(self._clock))

    def plain_text(self) -> str:
        """Return everything shown, row by row at the present width, whether or not a frame has shown it yet."""
        return join(self._all_lines())

    def find(self, text: str, *, is_upwards: bool = True) -> tuple[int, int]:
        """Select the next place where `text` stands in a row, whatever its case, and bring it into view.

        The search goes on from what is selected, else from the nearest end of the view, and around. Return which one it
        is, counted from the top, and how many there are; `(0, 0)` where there is none.
        """
        found = occurrences(self._all_lines(), text)
        if not found:
            return 0, 0
        selection = self.text_selection
        edge = round(self.scroll_y) + (self.size.height if is_upwards else -1)
        here = (selection.start.y, selection.start.x) if selection and selection.start else (edge, 0)
        before = sum((y, start) < here for y, start, _ in found)
        is_on_one = before < len(found) and found[before][:2] == here
        index = before - 1 if is_upwards else before + is_on_one
        y, start, end = found[index % len(found)]
        self.reveal(y)
        self.screen.selections = {self: Selection(Offset(start, y), Offset(end, y))}
        return index % len(found) + 1, len(found)

    def _all_lines(self) -> list[Line]:
        column = self.column
        if not self.size.width:
            column.width = _WIDTH_BEFORE_MOUNT
        column.invalidate(0)
        self.cover()
        column.lay_out_all()
        # Guessed heights have become exact: the view has to stand at its place among them before it is painted again.
        self.flush()
        return [row for entry in column.entries for row in entry.rows(column.width)]
