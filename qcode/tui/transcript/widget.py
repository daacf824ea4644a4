"""The transcript as the rest of the app sees it: what can be added, changed and asked for.

Every call is cheap and returns before anything is painted; `pane` shows the changes with the next frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from qcode.tui.transcript.column import Place
from qcode.tui.transcript.content import Content, Level, Thoughts
from qcode.tui.transcript.entries import Prompted
from qcode.tui.transcript.line import Line, join
from qcode.tui.transcript.searching import SearchingPane

_WIDTH_BEFORE_MOUNT = 80


class Transcript(SearchingPane):
    """Everything said and done.

    `clock` gives seconds for durations; it must never go back. `thinking` says what becomes of thinking that is over.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = monotonic,
        thinking: Thoughts = "folded",
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(Content(clock, thinking), id, classes)
        self._clock = clock
        self._thinking: Thoughts = thinking

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
        hint: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Change what is given of a card; one that went with its attempt is ignored.

        `output` replaces the output so far, `append` goes on after it, `diff` is a unified diff. `hint` is shown
        while the call runs long. Raise `ValueError` for a state that is none.
        """
        self.content.update_card(
            call_id,
            state=state,
            argument=argument,
            output=output,
            append=append,
            diff=diff,
            summary=summary,
            hint=hint,
            detail=detail,
        )
        self.schedule()

    def toggle_folds(self) -> None:
        """Unfold all thinking, outputs and diffs, or fold them again."""
        self.content.toggle_folds()
        self.drop_selection()
        self.schedule()

    def show_thinking(self, thinking: Thoughts) -> None:
        """Fold, expand or hide what is thought from now on."""
        self._thinking = self.content.thinking = thinking

    def clear(self) -> None:
        """Take everything away."""
        self.show(Content(self._clock, self._thinking))

    def plain_text(self) -> str:
        """Return everything shown, row by row at the present width, whether or not a frame has shown it yet."""
        return join(self._all_lines())

    def jump(self, step: int) -> bool:
        """Show what the person said before (-1) or after (1) what is in view, at the top; return whether there is any.

        After the last one is the end.
        """
        own = [index for index, entry in enumerate(self.column.entries) if isinstance(entry, Prompted)]
        if not own:
            return False
        index, row = self.column.find(round(self.scroll_y))
        entry = self.column.entries[index]
        is_at_start = row <= entry.gap
        if step < 0:
            before = [at for at in own if at < index or (at == index and not is_at_start)]
            target = before[-1] if before else None
        else:
            if self.is_anchored:
                return False
            target = next((at for at in own if at > index), None)
            if target is None:
                self.scroll_end(animate=False)
                return True
        if target is None:
            return False
        self.go_to(Place(self.column.entries[target], self.column.entries[target].gap))
        return True

    def _all_lines(self) -> list[Line]:
        column = self.column
        if not self.text_width:
            column.width = _WIDTH_BEFORE_MOUNT
        self.lay_out_all()
        return [row for entry in column.entries for row in entry.rows(column.width)]
