"""The card of a tool call: its argument, its state, and its output folded to head and tail.

`CardUpdate` is a change of a card. `TranscriptView` is the interface that the presenter, shell lines and a replay write
to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias, get_args

from rich.cells import cell_len

from qcode import values
from qcode.agent.call_titles import STATE_TEXTS, VERBS, ShownState, verb
from qcode.protocol.events import Level
from qcode.text.clean import clean
from qcode.text.numbers import duration_text
from qcode.text.redrawn import redrawn
from qcode.tools.output import OMISSION
from qcode.tui.transcript.ansi import PLAIN_PEN, Pen, has_sequences, pen_after, styled_spans
from qcode.tui.transcript.diff import DiffRow, parse_diff, render_diff
from qcode.tui.transcript.entries import Foldable
from qcode.tui.transcript.line import (
    UNBROKEN_SPACE,
    Line,
    Span,
    crop,
    estimate_rows,
    expand_tabs,
    prefix,
    shorten_start,
    shorten_to_clauses,
    style_of,
    tidy,
    tidy_keeping_tabs,
    without_wrap_marks,
    wrap,
)

CardState: TypeAlias = Literal[ShownState, "writing", "waiting", "running", "stopped"]
STATES = get_args(CardState)

_ICONS = {
    "writing": "○",
    "waiting": "○",
    "running": "●",
    "done": "✓",
    "failed": "✗",
    "denied": "✗",
    "declined": "✗",
    "unanswered": "–",
    "rejected": "✗",
    "cancelled": "–",
    "stopped": "–",
}
_STATE_SLOTS = {
    "writing": "dim",
    "waiting": "dim",
    "declined": "card-denied",
    "unanswered": "dim",
    "rejected": "card-failed",
    "cancelled": "dim",
    "stopped": "dim",
}
_STATE_TEXTS = {
    **{state: text for state, text in STATE_TEXTS.items() if state != "done"},
    "writing": "writing…",
    "waiting": "waiting",
    "running": "running",
    "stopped": "stopped",
}
_STATE_PREFIXES = ("stopped", "outcome unknown")
"""The first words of a summary that already names the state of a stopped command."""
_VERB_CELLS = max(map(len, VERBS.values()))


_READ_TOOLS = frozenset({"read", "grep", "glob", "ls", "fetch", "web_search", "todo", "jobs"})
_PATH_TOOLS = frozenset({"read", "ls", "edit", "multi_edit", "notebook_edit", "write"})
"""The argument of these tools is a path, whose end is more useful than its beginning."""
_HEAD_LINES, _TAIL_LINES = 3, 5
_MAX_UNBROKEN_CELLS = 20
"""The width up to which a clause of the status stays in one row."""
"""The number of lines of output at its start and end that a folded card shows."""
_DIFF_HEAD_ROWS, _DIFF_TAIL_ROWS = 24, 6
"""The number of rows of a diff at its start and end that a folded card shows."""
_PLAN_ROWS = 8
"""The number of rows of a plan that a folded card shows if the plan was not approved."""
_ARGUMENT_ROWS = 3
"""The maximum number of rows of the argument in a folded card."""
_ROWS_PER_LINE = 2
"""The maximum number of rows of one line of output in a folded card."""
# Combining marks take no cell, but legible text has fewer characters per cell than this; the rest is not measured.
_CHARACTERS_PER_CELL = 8
_MAX_UNFOLDED_REST = 2
"""If at most this many lines would be hidden, they are shown."""
# A command such as `yes` sends 100,000 lines a second; all of them would fill the memory and slow down every frame.
_MAX_LIVE_LINES = 2_000
_LIVE_HEAD_LINES, _LIVE_TAIL_LINES = 500, 1_000
"""The number of lines at its start and end to which longer live output is shortened."""
_MAX_LIVE_LINE_CHARS, _MAX_REDRAWN_CHARS = 20_000, 4_000
"""The maximum length of an incomplete line, and of one with carriage returns, which is drawn from all its states."""
_INDENT: Span = ("  ", style_of())
_GUTTER: Span = ("  │ ", style_of("dim"))
OUTPUT_INDENT = cell_len(_GUTTER[0])
"""The number of cells to the left of the output."""
_MIN_SHOWN_S = 1.0
"""Shorter durations are not shown."""
_HINT_AFTER_S = 3.0
"""The running time after which the card shows its hint."""


@values.dataclass(frozen=True, slots=True)
class CardUpdate:
    """A change of a card. None leaves that part of the card unchanged."""

    state: CardState | None = None
    argument: str | None = None
    output: str | None = None
    """The text that replaces the output."""
    append: str | None = None
    """The text that is added to the output."""
    diff: str | None = None
    """A unified diff."""
    summary: str | None = None
    """The result in a few words, shown in the status."""
    sandbox_note: str | None = None
    """A note on where a command ran, such as `in the sandbox`, shown after the summary."""
    hint: str | None = None
    """A note, such as a key, that is shown in the status of a call that runs for several seconds."""
    detail: str | None = None
    """Text that is added to the detail, which the unfolded card shows instead of the output."""
    seconds: float | None = None
    """The duration of the call, if the card must not measure it."""
    is_hidden: bool | None = None
    """The card has no rows until its next state, because a question shows the same call."""
    plan: str | None = None
    """A plan of the model in Markdown, which the card shows instead of output."""


@values.dataclass(frozen=True, slots=True)
class Omission:
    """The omitted part of an output, which a line such as `[... 12 lines, 340 characters omitted ...]` reports."""

    lines: int
    """The number of lines that are omitted as a whole."""
    chars: int
    """The number of characters that are omitted inside other lines."""

    @classmethod
    def from_match(cls, match: re.Match[str]) -> Omission:
        """Return the omission of a match of `OMISSION`.

        The match counts the omitted line breaks. Three breaks between two shown parts omit two whole lines.
        """
        if match["lines"]:
            return cls(_parse_number(match["lines"]) - 1, 0)
        return cls(0, _parse_number(match["chars"]))


def is_read_only(tool: str) -> bool:
    """Return whether a tool only reads. The card of such a tool is one row, and its calls seldom need approval."""
    return tool in _READ_TOOLS


class TranscriptView(Protocol):
    """A view of the conversation: the transcript widget, or the linear view. `Transcript` documents the methods."""

    def add_user(self, text: str) -> None: ...
    def add_attached(self, lines: Sequence[str]) -> None: ...
    def append_text(self, text: str) -> None: ...
    def append_reasoning(self, text: str) -> None: ...
    def end_reasoning(self, seconds: float) -> None: ...
    def settle(self) -> None: ...
    def restart(self, label: str) -> None: ...
    def restore(self, text: str, reasoning: str = "") -> None: ...
    def add_mark(self, text: str) -> None: ...
    def add_notice(self, level: Level, text: str) -> None: ...
    def add_card(self, call_id: str, name: str, argument: str) -> None: ...
    def update_card(self, call_id: str, update: CardUpdate) -> None: ...


class _OutputText(NamedTuple):
    """Output that may still grow."""

    complete_lines: list[str]
    partial_line: str
    """The last line, which has no line break yet."""


class Card(Foldable):
    """The card of one tool call. `state` changes only through `change`."""

    def __init__(self, name: str, argument: str, clock: Callable[[], float]) -> None:
        super().__init__()
        self.state: CardState = "waiting"
        self._name = f"{verb(name):<{_VERB_CELLS}}" if name in VERBS else verb(name)
        self.is_read_only = is_read_only(name)
        """The folded card is one row, because only the model reads its output."""
        self._argument = tidy(argument)
        self._is_argument_path = name in _PATH_TOOLS
        self._clock = clock
        self._started_at: float | None = None
        self._seconds: float | None = None
        self._summary = ""
        self._sandbox_note = ""
        self._hint = ""
        self._is_hidden = False
        self._plan = ""
        self._output: list[str] = []
        self._partial_line = ""
        self._pen = PLAIN_PEN
        self._pens: dict[int, Pen] = {}  # the pen at the start of a line, by its index, unless it is plain
        self._omissions: dict[int, Omission] = {}  # by the index of the line that reports it
        self._detail: list[str] = []
        self._partial_detail = ""
        self._diff: list[DiffRow] = []
        # The cached rows of each complete line in the unfolded card, and the width for which they were computed.
        self._unfolded_rows: list[list[Line]] = []
        self._unfolded_width = 0

    def change(self, update: CardUpdate) -> None:
        """Apply `update` to the card."""
        if update.state is not None:
            self._set_state(update.state)
        if update.argument is not None:
            self._argument = tidy(update.argument)
        if update.output is not None:
            self._output = []
            self._partial_line = ""
            self._pen = PLAIN_PEN
            self._pens = {}
            self._omissions = {}
            self._unfolded_rows.clear()
            self._append_output(update.output)
        if update.append is not None:
            self._append_output(update.append)
            self._limit_live_output()
        if update.detail is not None:
            *complete, self._partial_detail = (self._partial_detail + update.detail).split("\n")
            self._detail += complete
        if update.plan is not None:
            self._plan = update.plan
        if update.diff is not None:
            self._diff = parse_diff(update.diff) if update.diff else []
        if update.seconds is not None:
            self._seconds = update.seconds
        if update.sandbox_note is not None:
            self._sandbox_note = update.sandbox_note
        if update.hint is not None:
            self._hint = update.hint
        # A new state shows a hidden card again.
        if update.state is not None or update.is_hidden is not None:
            self._is_hidden = update.is_hidden is True
        if update.summary is not None:
            self._summary = tidy(update.summary).replace("\n", " ")
        self.touch()

    def estimated_rows(self, width: int) -> int:
        if self._plan:
            return estimate_rows(self._plan, width)
        argument = self._argument.replace("\n", " ")
        if self.is_unfolded:
            return estimate_rows(argument, width) + len(self._detail or self._output) + len(self._diff)
        if self._hides_output:
            return 1
        output_rows = min(len(self._output), _HEAD_LINES + _TAIL_LINES + 1)
        diff_rows = min(len(self._diff), _DIFF_HEAD_ROWS + _DIFF_TAIL_ROWS + 1)
        return estimate_rows(argument[:80], width) + output_rows + diff_rows

    def has_two_forms(self, width: int) -> bool:
        # Long output has a short form for certain, and laying out all of it would take long.
        return len(self._output) > 2 * (_HEAD_LINES + _TAIL_LINES) or super().has_two_forms(width)

    def source(self) -> str:
        unfolded = self._unfolded_text()
        output = redrawn("\n".join([*unfolded.complete_lines, unfolded.partial_line]))
        return clean("\n".join([self._argument, self._plan, output, *(row.text for row in self._diff)]))

    @property
    def _hides_output(self) -> bool:
        """Whether only the title is shown. The output of a call that did not run is the reason, which is shown."""
        is_reason = self.state in ("denied", "rejected") and bool(self._output or self._partial_line)
        return self.is_read_only and not self.is_unfolded and not is_reason

    def lay_out(self, width: int) -> list[Line]:
        if self._is_hidden:
            return []
        if self._hides_output and self._can_be_one_row(width):
            return [self._only_row(width)]
        lines = self._title(width)
        if self._hides_output:
            return lines
        available_width = max(1, width - len(_INDENT[0]))
        if self._plan:
            # The output of a declined plan is a reason of several lines.
            return lines + self._output_rows(max(1, width - len(_GUTTER[0]))) + self._plan_rows(available_width)
        if self._diff:
            rows = render_diff(self._diff, available_width)
            lines += prefix(self._fold(rows, _DIFF_HEAD_ROWS, _DIFF_TAIL_ROWS, "row"), _INDENT, _INDENT)
        return lines + self._output_rows(max(1, width - len(_GUTTER[0])))

    def _plan_rows(self, width: int) -> list[Line]:
        """Return the rows of the plan: complete if the user approved it, otherwise its first rows."""
        # The Markdown parser is imported with the first reply, because the first paint does not need it.
        from qcode.tui.transcript.markdown import MarkdownStream

        stream = MarkdownStream(width)
        stream.feed(self._plan)
        stream.finish()
        rows = stream.lines if self.state == "done" else self._fold(stream.lines, _PLAN_ROWS, 0, "row")
        return prefix(rows, _INDENT, _INDENT)

    def _set_state(self, state: CardState) -> None:
        if state == self.state:
            return
        if state == "running":
            # A call that moved to the background runs on: its time includes that before the move.
            self._started_at = self._started_at or self._clock()
            self._seconds = None
        elif self.state == "running" and self._started_at is not None:
            self._seconds = self._clock() - self._started_at
        self.state = state

    def _append_output(self, text: str) -> None:
        *complete, self._partial_line = (self._partial_line + text).split("\n")
        for line in complete:
            if line.startswith("[... ") and (match := OMISSION.fullmatch(line)) is not None:
                self._omissions[len(self._output)] = Omission.from_match(match)
            self._output.append(line)
            if has_sequences(line):
                self._pen = pen_after(line, self._pen)
            if self._pen != PLAIN_PEN:
                self._pens[len(self._output)] = self._pen

    def _limit_live_output(self) -> None:
        """Shorten live output that is too long; the complete output replaces it when the call ends."""
        if len(self._output) > _MAX_LIVE_LINES:
            self._omit_middle()
        max_chars = _MAX_REDRAWN_CHARS if "\r" in self._partial_line else _MAX_LIVE_LINE_CHARS
        if len(self._partial_line) <= max_chars:
            return
        if "\r" in self._partial_line:
            # A progress bar that a command draws again and again: only its last two states may be visible.
            earlier_states, _, last_state = self._partial_line.rpartition("\r")
            older_states, _, previous_state = earlier_states.rpartition("\r")
            self._pen = self._pens[len(self._output)] = pen_after(older_states, self._pen)
            self._partial_line = f"{previous_state}\r{last_state}"
        if len(self._partial_line) > _MAX_LIVE_LINE_CHARS:
            self._append_output("\n")

    def _omit_middle(self) -> None:
        """Replace the middle of long live output by a line that counts the omitted lines.

        Example: of 2,001 lines, the 501 lines from index 500 up to 1,001 are replaced by one line. The line at index
        1,001 is then at 501, so the indexes in `_pens` and `_omissions` are 500 lower.
        """
        first, last = _LIVE_HEAD_LINES, len(self._output) - _LIVE_TAIL_LINES
        hidden = self._count_hidden(first, last)
        removed_lines = [self._output[index] for index in range(first, last) if index not in self._omissions]
        chars = hidden.chars + sum(len(line) + 1 for line in removed_lines)
        self._output[first:last] = [f"[... {hidden.lines:,} lines, {chars:,} characters omitted ...]"]

        def new_index(index: int) -> int:
            return index if index < first else index - (last - first - 1)

        self._pens = {new_index(index): pen for index, pen in self._pens.items() if not first <= index < last}
        self._omissions = {
            new_index(index): omission for index, omission in self._omissions.items() if not first <= index < last
        }
        self._omissions[first] = Omission(hidden.lines, 0)
        if len(self._unfolded_rows) > first:
            self._unfolded_rows[first:last] = [self._output_line(self._output[first], self._unfolded_width, first)]

    def _slot(self) -> str:
        """Return the slot of the icon for the current state."""
        return _STATE_SLOTS.get(self.state, f"card-{self.state}")

    def _status(self) -> str:
        """Return the status text: state, elapsed time if notable, summary."""
        texts = [_STATE_TEXTS[self.state]] if self.state in _STATE_TEXTS else []
        if self.state == "running" and self._started_at is not None:
            seconds = self._clock() - self._started_at
            texts = [f"running {duration_text(seconds)}"]
            if self._hint and seconds >= _HINT_AFTER_S:
                texts.append(self._hint)
        if self._summary:
            # A job that ended with qcode is `stopped when qcode ended`, which is the state and its reason.
            names_state = self.state in ("cancelled", "stopped") and self._summary.startswith(_STATE_PREFIXES)
            texts = [self._summary] if names_state else [*texts, self._summary]
        if self._sandbox_note:
            texts.append(self._sandbox_note)
        if self._seconds is not None and self._seconds >= _MIN_SHOWN_S:
            texts.append(duration_text(self._seconds))
        return " · ".join(texts)

    def _can_be_one_row(self, width: int) -> bool:
        """Return whether one row is enough: always, except for a failure whose reason would be cut."""
        # The icon and a blank, a blank before the argument, and two before the status take 5 cells.
        needed_cells = 5 + cell_len(self._name) + cell_len(self._argument) + cell_len(self._status())
        return self._slot() != "card-failed" or needed_cells <= width

    def _only_row(self, width: int) -> Line:
        """Return the whole card in one row: icon, name, argument, status. Argument and status are cut if needed.

        The status leaves the argument the cells that it needs, but at most half of those after the name. The argument
        then gets all that the status leaves.
        """
        icon = f"{_ICONS[self.state]} "
        cells_after_name = width - cell_len(icon) - cell_len(self._name)
        reserved_cells = 0
        if self._argument:
            reserved_cells = min(cell_len(f" {self._argument}"), cells_after_name // 2)
        status = shorten_to_clauses(self._status(), max(0, cells_after_name - reserved_cells - 2))
        if status:
            # A name that is padded to the width of the longest one ends in a blank.
            ends_in_blank = not self._argument and self._name.endswith(" ")
            status = f" {status}" if ends_in_blank else f"  {status}"
        spans: list[Span] = [(icon, style_of(self._slot())), (self._name, style_of("card-title"))]
        argument_cells = cells_after_name - cell_len(status) - 1  # a blank precedes the argument
        if self._argument and argument_cells > 1:
            shorten = shorten_start if self._is_argument_path else crop
            argument = shorten(self._argument.replace("\n", " "), argument_cells)
            spans.append((f" {argument}", style_of("card-argument")))
        if status:
            spans.append((status, style_of("card-failed" if self._slot() == "card-failed" else "dim")))
        return Line(tuple(spans), lead=2)

    def _title(self, width: int) -> list[Line]:
        """Return icon, name and argument, and the status on the same row if it fits, otherwise below."""
        icon: Span = (f"{_ICONS[self.state]} ", style_of(self._slot()))
        text_width = max(1, width - len(_INDENT[0]))
        if self._plan and self.state == "done":
            # The summary of an approved plan is the title: `Plan approved · edits run without asking`.
            title, dot, mode = (self._summary or "Plan").partition(" · ")
            plan_spans = [(title, style_of("card-title")), (dot + mode, style_of("dim"))]
            return prefix(wrap(plan_spans, text_width), icon, _INDENT)
        # Nothing follows the name of a plan: its argument is its first line, which is below.
        name: Span = (self._name.rstrip() if self._plan else self._name, style_of("card-title"))
        has_argument = bool(self._argument) and not self._plan
        spans = [name, (f" {self._argument}", style_of("card-argument"))] if has_argument else [name]
        rows = wrap(spans, text_width)
        if not self.is_unfolded and len(rows) > _ARGUMENT_ROWS:
            if self._is_argument_path:
                path = shorten_start(self._argument, text_width)
                rows = wrap([name, (f" {path}", style_of("card-argument"))], text_width)[:_ARGUMENT_ROWS]
            else:
                rows = rows[:_ARGUMENT_ROWS]
                rows[-1] = _crop_for_ellipsis(rows[-1], text_width)
        return self._with_status(prefix(rows, icon, _INDENT), width)

    def _with_status(self, lines: list[Line], width: int) -> list[Line]:
        """Return the title with the status on its row if it fits, otherwise below."""
        status = self._status()
        if not status:
            return lines
        style = style_of("card-failed" if self._slot() == "card-failed" else "dim")
        # Two blanks before the status and one after it take 3 cells.
        if len(lines) == 1 and lines[0].width + 3 + cell_len(status) <= width:
            lines[0].spans += (("  " + status, style),)
            return lines
        # A row does not end inside a short clause, such as `1 min 05 s`.
        clauses = [
            clause.replace(" ", UNBROKEN_SPACE) if cell_len(clause) <= _MAX_UNBROKEN_CELLS else clause
            for clause in status.split(" · ")
        ]
        rows = wrap([(" · ".join(clauses), style)], max(1, width - 2))
        return lines + prefix(map(without_wrap_marks, rows), _INDENT, _INDENT)

    def _unfolded_text(self) -> _OutputText:
        """Return the output that the unfolded card shows."""
        if self._detail or self._partial_detail:
            return _OutputText(self._detail, self._partial_detail)
        return _OutputText(self._output, self._partial_line)

    def _output_rows(self, width: int) -> list[Line]:
        """Return the rows of the output without blank lines at its start and end; folded if the card is."""
        text = self._unfolded_text() if self.is_unfolded else _OutputText(self._output, self._partial_line)
        source = [*text.complete_lines, text.partial_line] if text.partial_line else text.complete_lines
        first, last = 0, len(source)
        while last > first and not source[last - 1].strip():
            last -= 1
        while first < last and not source[first].strip():
            first += 1
        count = last - first
        if self.is_unfolded:
            rows = [row for rows in self._cached_rows_of_lines(source, width)[first:last] for row in rows]
        elif count <= _HEAD_LINES + _TAIL_LINES + _MAX_UNFOLDED_REST:
            rows = self._rows_of_lines(source, first, last, width)
        else:
            rows = self._rows_of_lines(source, first, first + _HEAD_LINES, width)
            rows.append(self._hidden_lines_row(first + _HEAD_LINES, last - _TAIL_LINES))
            rows += self._rows_of_lines(source, last - _TAIL_LINES, last, width)
        return prefix(rows, _GUTTER, _GUTTER)

    def _hidden_lines_row(self, first: int, last: int) -> Line:
        """Return the row that replaces the lines from `first` up to `last`, such as `… 12 more lines`.

        It also counts the lines that the replaced lines report as omitted.
        """
        hidden = self._count_hidden(first, last)
        return _fold_line(hidden.lines, "line", f" and {hidden.chars:,} characters" if hidden.chars else "")

    def _count_hidden(self, first: int, last: int) -> Omission:
        """Return the number of lines from `first` up to `last`, and of characters omitted inside them.

        A line that reports an omission counts as the lines that are omitted there.
        """
        omissions = [omission for index, omission in self._omissions.items() if first <= index < last]
        lines = last - first - len(omissions) + sum(omission.lines for omission in omissions)
        return Omission(lines, sum(omission.chars for omission in omissions))

    def _rows_of_lines(self, source: Sequence[str], first: int, last: int, width: int) -> list[Line]:
        return [row for index in range(first, last) for row in self._output_line(source[index], width, index)]

    def _cached_rows_of_lines(self, source: Sequence[str], width: int) -> list[list[Line]]:
        """Return the rows of every line. Rows of complete lines are cached, so the cost depends only on new output."""
        rows = self._unfolded_rows
        if width != self._unfolded_width:
            rows.clear()
            self._unfolded_width = width
        for index in range(len(rows), len(self._unfolded_text().complete_lines)):
            rows.append(self._output_line(source[index], width, index))
        return [*rows, *(self._output_line(source[index], width, index) for index in range(len(rows), len(source)))]

    def _output_line(self, text: str, width: int, index: int) -> list[Line]:
        """Return the rows of the output line `text` at `index`, with colors that earlier lines began.

        As in a terminal, a carriage return overwrites the text before it.
        """
        limit = None if self.is_unfolded else width * _ROWS_PER_LINE * _CHARACTERS_PER_CELL
        pen = PLAIN_PEN if self.is_unfolded and self._detail else self._pens.get(index, PLAIN_PEN)
        if pen == PLAIN_PEN and not has_sequences(text):
            spans = [(tidy_keeping_tabs(redrawn(text))[:limit], style_of("output"))]
        else:
            spans = styled_spans(text, style_of("output"), pen, limit)
        rows = wrap(expand_tabs(spans), width, is_code=True)
        if self.is_unfolded or len(rows) <= _ROWS_PER_LINE:
            return rows
        first_rows = rows[:_ROWS_PER_LINE]
        first_rows[-1] = _crop_for_ellipsis(first_rows[-1], width)
        return first_rows

    def _fold(self, rows: Sequence[Line], head: int, tail: int, noun: str) -> list[Line]:
        """Return all rows if the card is unfolded, otherwise those of head and tail with a count of the others."""
        hidden = len(rows) - head - tail
        if self.is_unfolded or hidden <= _MAX_UNFOLDED_REST:
            return list(rows)
        return [*rows[:head], _fold_line(hidden, noun), *rows[len(rows) - tail :]]


def _fold_line(count: int, noun: str, addition: str = "") -> Line:
    """Return a line such as `… 1,200 more lines`."""
    return Line(((f"… {count:,} more {noun}s{addition}", style_of("dim")),), is_decoration=True)


def _parse_number(text: str) -> int:
    """Return the value of a number such as `1,200`."""
    return int(text.replace(",", ""))


def _crop_for_ellipsis(line: Line, width: int) -> Line:
    """Return `line` with an ellipsis at its end, cut to at most `width` cells."""
    remaining_chars = len(crop(line.text + "…", width)) - 1
    spans: list[Span] = []
    ellipsis_style = style_of()
    for text, style in line.spans:
        if remaining_chars > 0:
            spans.append((text[:remaining_chars], style))
        remaining_chars -= len(text)
        ellipsis_style = style
    return Line((*spans, ("…", ellipsis_style)), lead=line.lead, joint=line.joint)
