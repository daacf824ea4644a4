"""The entries of the transcript (prompts, replies, reasoning, notices), each of which computes its rows at a width.

An entry is laid out only when its rows are needed; until then its height is an estimate. Cards are in `cards`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len

from qcode.text.clean import clean
from qcode.text.numbers import duration_text
from qcode.text.pattern import lazy_pattern
from qcode.tui.transcript.line import (
    Line,
    Span,
    TextStyle,
    count_letters,
    crop,
    estimate_rows,
    prefix,
    row_of_letter,
    style_of,
    tidy,
    with_style,
    wrap,
)

if TYPE_CHECKING:
    from qcode.protocol.events import Level
    from qcode.tui.transcript.chunks import SplitterState
    from qcode.tui.transcript.markdown import MarkdownStream

BLANK = Line()
PLAIN_LABEL = "! Shown as plain text because of an internal error."
_THINKING_GUTTER: Span = ("│ ", style_of("thinking-title"))
_MIN_SHOWN_S = 0.5
"""Reasoning that took less time is shown without a duration."""
_MAX_UNLABELED_ROWS = 12
"""If more rows of a superseded attempt are shown, the last row shows the replaced percentage."""
_MIN_PART_CHARS = 2_000
"""The minimum length of an entry of a divided reply."""
_SLICE_CHARS = 2 * _MIN_PART_CHARS
"""Longer text is added to a reply in slices: a new entry reads the rest of its slice again, not of the whole text."""
_LONG_LINE_CHARS = 2_000
"""In a longer line of live reasoning, only the last row is laid out again with each delta."""
_LABEL = lazy_pattern("· |\\S+ {2,}| {2,}")
"""The label at the start of a welcome line: `model  `, a bullet, or an indent. Wrapped rows are indented as far."""
_Item = tuple[Literal["text", "mark"], str]
"""A part of the text, or the label of a mark at this position."""


class Entry:
    """An entry of the transcript. Layout is lazy: `update` computes the rows, `touch` makes them stale."""

    def __init__(self) -> None:
        self.gap = 0
        """The number of blank rows above the entry, if it has any rows."""
        self._lines: list[Line] = []
        self._width = 0
        self._is_current = False
        self.is_plain = False
        """Only the plain text is shown, because an internal error prevented the layout."""

    def source(self) -> str:
        """Return the whole text, for the search and for `show_plainly`."""
        return ""

    def show_plainly(self, width: int) -> None:
        """Show the text without formatting from now on, because `lay_out` failed. Must not fail for any text."""
        self.is_plain = True
        self._lines = [Line(((PLAIN_LABEL[:width], style_of("notice-error")),))]
        for text in clean(self.source()).split("\n"):
            step = max(1, width if text.isascii() else width // 2)
            self._lines += [
                Line(((text[start : start + step], style_of()),)) for start in range(0, max(1, len(text)), step)
            ]
        self._width, self._is_current = width, True

    def lay_out(self, width: int) -> list[Line]:
        """Return the rows at `width` cells, without the gap."""
        raise NotImplementedError

    def estimated_rows(self, width: int) -> int:
        """Return about how many rows the entry has, without the gap, if it is not laid out."""
        return 1

    def is_laid_out(self, width: int) -> bool:
        """Return whether the rows are current at this width."""
        return self._is_current and self._width == width

    def update(self, width: int) -> int:
        """Update the rows; return the index of the first row that may have changed, or their number if none has."""
        if self.is_laid_out(width):
            return self.gap + len(self._lines)
        self._lines, self._width, self._is_current = self.lay_out(width), width, True
        return 0

    def touch(self) -> None:
        """Mark the rows as stale."""
        self._is_current = False

    def height(self, width: int) -> int:
        """Return the number of rows, gap included: exact if the entry is laid out, otherwise an estimate."""
        if self.is_laid_out(width):
            return self._gap_above + len(self._lines)
        return self.gap + self.estimated_rows(width)

    def line(self, index: int, width: int) -> Line | None:
        """Return a row as last laid out, even if the text has grown since; None if there is no such row."""
        if width != self._width or index - self._gap_above >= len(self._lines):
            return None
        return BLANK if index < self._gap_above else self._lines[index - self._gap_above]

    def rows(self, width: int) -> list[Line]:
        """Return all current rows at `width`."""
        if not self.is_laid_out(width):
            if self.is_plain:
                self.show_plainly(width)
            else:
                self.update(width)
        return self.shown_rows()

    def shown_rows(self) -> list[Line]:
        """Return all rows as last laid out, at the width of that time."""
        return [BLANK] * self._gap_above + self._lines

    def letters_above(self, row: int) -> int:
        """Return the number of letters and digits before a row of the last layout."""
        return count_letters(self.shown_rows()[:row])

    def row_of_letter(self, count: int) -> int:
        """Return the index of the row of the last layout that has the letter after the first `count` letters."""
        return row_of_letter(self.shown_rows(), count)

    @property
    def _gap_above(self) -> int:
        """The number of rows in the gap: 0 for an entry without rows, such as a reply of white space only."""
        return self.gap if self._lines else 0


class Foldable(Entry):
    """An entry with a short and a long form."""

    def __init__(self) -> None:
        super().__init__()
        self.is_unfolded = False

    def unfold(self, is_unfolded: bool) -> None:
        if self.is_unfolded != is_unfolded:
            self.is_unfolded = is_unfolded
            self.touch()

    def full_rows(self, width: int) -> list[Line]:
        """Return the rows of the long form, gap included, without unfolding the entry."""
        return self._form(width, is_unfolded=True)

    def has_two_forms(self, width: int) -> bool:
        """Return whether the long form differs from the short one."""
        long, short = (self._form(width, is_unfolded=is_unfolded) for is_unfolded in (True, False))
        return [row.text for row in long] != [row.text for row in short]

    def _form(self, width: int, *, is_unfolded: bool) -> list[Line]:
        if self.is_plain:
            return self.rows(width)
        was_unfolded, self.is_unfolded = self.is_unfolded, is_unfolded
        try:
            lines = self.lay_out(width)
        finally:
            self.is_unfolded = was_unfolded
        return [BLANK] * (self.gap if lines else 0) + lines


class TextEntry(Entry):
    """Plain text in one style, with a symbol such as `> ` in the gutter before its first row."""

    def __init__(self, text: str, style: TextStyle, symbol: str = "", symbol_style: TextStyle | None = None) -> None:
        super().__init__()
        self._text = text
        self._style = style
        self._symbol = symbol
        self._symbol_style = symbol_style or style

    def estimated_rows(self, width: int) -> int:
        return estimate_rows(self._text, width)

    def source(self) -> str:
        return self._text

    def lay_out(self, width: int) -> list[Line]:
        lines = wrap([(tidy(self._text), self._style)], max(1, width - len(self._symbol)))
        return prefix(lines, (self._symbol, self._symbol_style), (" " * len(self._symbol), self._style))


class NoticeEntry(TextEntry):
    """A notice of qcode, with a count if the same one came several times in a row."""

    def __init__(self, level: Level, text: str, symbol: str) -> None:
        super().__init__(text, style_of(f"notice-{level}"), symbol)
        self._notice = (level, text)
        self._count = 1

    def count_repetition(self, level: Level, text: str) -> bool:
        """Count a repetition of this notice; return False, and change nothing, for another notice."""
        if (level, text) != self._notice:
            return False
        self._count += 1
        self._text = f"{text} (×{self._count})"
        self.touch()
        return True


class PromptEntry(TextEntry):
    """A prompt of the user, on a colored band across the width, so that turns are easy to find."""

    def lay_out(self, width: int) -> list[Line]:
        lines = super().lay_out(width)
        for line in lines:
            line.fill = style_of("user-band")
        return lines


class AttachmentsEntry(TextEntry):
    """The files that a prompt attaches, one on each line."""

    def lay_out(self, width: int) -> list[Line]:
        texts = tidy(self._text).split("\n")
        rows_of_texts = (wrap([(text, self._style)], max(1, width - len(self._symbol))) for text in texts)
        symbol, blank = (self._symbol, self._symbol_style), (" " * len(self._symbol), self._style)
        return [row for rows in rows_of_texts for row in prefix(rows, symbol, blank)]


class WelcomeEntry(Entry):
    """The facts about the session at its start, one on each line; one row after the first prompt."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._texts = [tidy(line) for line in lines]
        self._is_collapsed = False

    def source(self) -> str:
        return "\n".join(self._texts)

    def change(self, lines: Sequence[str]) -> bool:
        """Show other lines unless the conversation has begun; return whether this changed it."""
        texts = [tidy(line) for line in lines]
        if self._is_collapsed or texts == self._texts:
            return False
        self._texts = texts
        self.touch()
        return True

    def collapse(self, *, is_collapsed: bool = True) -> bool:
        """Show only the first two lines, joined, or all lines again; return whether this changed it."""
        if self._is_collapsed == is_collapsed:
            return False
        self._is_collapsed = is_collapsed
        self.touch()
        return True

    def lay_out(self, width: int) -> list[Line]:
        if self._is_collapsed:
            return [self._collapsed_row(width)]
        title, *facts = self._texts
        rows = _wrap_hanging(title, style_of("welcome-title"), width)
        return rows + [row for fact in facts for row in _wrap_hanging(fact, style_of("welcome"), width)]

    def _collapsed_row(self, width: int) -> Line:
        title, *facts = self._texts
        title_span: Span = (crop(title, width), style_of("welcome-title"))
        label = _LABEL.match(facts[0]) if facts else None
        addition = f" · {facts[0].removeprefix(label[0] if label else '')}" if facts else ""
        free_cells = width - cell_len(title_span[0])
        if cell_len(addition) > free_cells:
            addition = addition.partition(" (")[0]  # without the reason for the model: `demo/demo (named by -m)`
        addition = crop(addition, free_cells)
        return Line((title_span, (addition, style_of("welcome"))) if addition else (title_span,))


def _wrap_hanging(text: str, style: TextStyle, width: int) -> list[Line]:
    """Return the rows of a line with a hanging indent: wrapped rows align with its text, not with its label."""
    label = _LABEL.match(text)
    head = label[0] if label is not None and len(label[0]) <= width // 3 else ""
    first, *others = wrap([(text[len(head) :], style)], width - len(head))
    blank = (" " * len(head), style)
    return [Line(((head, style), *first.spans), joint=first.joint) if head else first, *prefix(others, blank, blank)]


def _labeled_rule(label: str, width: int) -> Line:
    from qcode.tui.transcript.markdown import labeled_rule

    return labeled_rule(label, width)


class DividerEntry(Entry):
    """A thin labeled line between entries."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label

    def source(self) -> str:
        return self._label

    def lay_out(self, width: int) -> list[Line]:
        return [_labeled_rule(self._label, width)]


class ReplyEntry(Entry):
    """Text of the model, live until `settle`. A mark, such as `continued 1/3`, is shown but not part of the text.

    A long text is divided into several entries, so that only those near the view are laid out at a new width.
    `start` is the state of the Markdown before this entry.
    """

    def __init__(self, start: SplitterState | None = None) -> None:
        # The Markdown modules are imported with the first reply, because the first paint does not need them.
        from qcode.tui.transcript.chunks import PartFinder, SplitterState

        super().__init__()
        self._start = start or SplitterState()
        self._finder = PartFinder(self._start, _MIN_PART_CHARS)
        self._items: list[_Item] = []
        # The renderer for the current width, and the number of items that it has received.
        self._stream: MarkdownStream | None = None
        self._fed_items = 0
        self._is_live = True

    def estimated_rows(self, width: int) -> int:
        return estimate_rows("".join([text for _, text in self._items]), width)

    def source(self) -> str:
        return "".join([text for kind, text in self._items if kind == "text"])

    def append(self, text: str) -> Sequence[ReplyEntry]:
        """Add text. Return the new entries in which a long text continues; all before the last one are settled."""
        slices: list[_Item] = [
            ("text", text[start : start + _SLICE_CHARS]) for start in range(0, len(text), _SLICE_CHARS)
        ]
        pending = slices[::-1]  # a stack, with the next item at its end
        entry, following = self, []
        while pending:
            start = entry.add_item(*pending.pop())
            if start is not None:
                pending += entry.take_next_part()
                entry = ReplyEntry(start)
                following.append(entry)
        return following

    def add_item(self, kind: Literal["text", "mark"], text: str) -> SplitterState | None:
        """Add an item; return the start of the next part if it begins in this text."""
        self._items.append((kind, text))
        self._is_current = False
        return self._finder.feed(text) if kind == "text" else None

    def take_next_part(self) -> list[_Item]:
        """Remove the items that belong to the next part, and settle this entry; return the items in reverse.

        Example: of the texts "aaa" and "bbb" the last 4 characters belong to the next part. This entry keeps "aa", and
        the result is "bbb", "a".
        """
        remaining_chars, fed_chars = self._finder.tail, 0
        moved: list[_Item] = []
        while remaining_chars > 0:
            kind, text = self._items.pop()
            if kind == "mark":
                moved.append((kind, text))
                continue
            moved_chars = min(remaining_chars, len(text))
            moved.append((kind, text[len(text) - moved_chars :]))
            if len(self._items) < self._fed_items:  # the stream has received this item
                fed_chars += moved_chars
            remaining_chars -= moved_chars
            if moved_chars < len(text):
                self._items.append((kind, text[: len(text) - moved_chars]))
        if self._stream is not None and fed_chars:
            self._stream.drop_end(fed_chars)
        self._fed_items = min(self._fed_items, len(self._items))
        self.settle()
        return moved

    def mark(self, label: str) -> None:
        """Insert a mark after the text so far."""
        self._items.append(("mark", label))
        self._is_current = False

    def settle(self) -> None:
        """End the text."""
        if self._is_live:
            self._is_live = False
            self._is_current = False

    def update(self, width: int) -> int:
        if self.is_laid_out(width):
            return self.gap + len(self._lines)
        if self._stream is None or width != self._width:
            from qcode.tui.transcript.markdown import MarkdownStream

            self._stream, self._fed_items, self._width = MarkdownStream(width, self._start), 0, width
        stream = self._stream
        first = stream.settled_count
        for kind, text in self._items[self._fed_items :]:
            if kind == "text":
                stream.feed(text)
            else:
                stream.add_mark(text)
        self._fed_items = len(self._items)
        if self._is_live:
            stream.render_open_end()
        else:
            stream.finish()
            self._stream = None
            self._items = _joined(self._items)
            self._fed_items = len(self._items)
        self._lines, self._is_current = stream.lines, True
        return self.gap + first


class ReasoningEntry(Foldable):
    """Reasoning of the model: one row with its duration and, while it streams, its last words; unfolded, all of it."""

    def __init__(self, clock: Callable[[], float], fold_key: str = "") -> None:
        super().__init__()
        self._clock = clock
        self._fold_key = fold_key
        self._begin_time = clock()
        self._seconds: float | None = None
        self._deltas: list[str] = []
        # How far the rows of the unfolded live entry are complete: the number of deltas that they include, the text of
        # the incomplete last line, and the number of rows before it, the header included.
        self._included_deltas = 0
        self._partial_line = ""
        self._settled_rows = 0

    @property
    def is_live(self) -> bool:
        return self._seconds is None

    def estimated_rows(self, width: int) -> int:
        if not self.is_unfolded:
            return 1
        return 1 + estimate_rows(self.source(), width)  # the header, and the text

    def append(self, text: str) -> None:
        self._deltas.append(text)
        self._is_current = False

    def finish(self) -> None:
        """End the reasoning. Idempotent."""
        self.finish_after(self._clock() - self._begin_time)

    def finish_after(self, seconds: float) -> None:
        """End the reasoning, which took `seconds`. Idempotent."""
        if self._seconds is None:
            self._seconds = seconds
            self._deltas = ["".join(self._deltas)]
            self.touch()

    def unfold(self, is_unfolded: bool) -> None:
        if self.is_unfolded != is_unfolded:
            self._lines = []
        super().unfold(is_unfolded)

    def update(self, width: int) -> int:
        """Update the rows. In an unfolded live entry, add those of new text, so that the cost stays constant.

        Example: after "one\\ntwo" the header and "one" are settled, and "two" is the partial line. The next delta
        " three\\n" makes "two three" a complete line, whose row replaces that of "two".
        """
        if not self.is_live or not self.is_unfolded:
            return super().update(width)
        if self._width != width or not self._lines:
            self._included_deltas, self._partial_line, self._settled_rows = 0, "", 1
            self._lines = [self._header(width)]
        elif self._is_current:
            return self.gap + len(self._lines)
        old_header, header = self._lines[0], self._header(width)
        first = self._settled_rows
        self._lines[0] = header
        del self._lines[self._settled_rows :]
        new_text = "".join(self._deltas[self._included_deltas :])
        *complete, self._partial_line = (self._partial_line + new_text).split("\n")
        self._included_deltas = len(self._deltas)
        for line in complete:
            self._lines += self._body(line, width)
        if len(self._partial_line) > _LONG_LINE_CHARS:
            # In a very long line only the last row can still change, so the rows before it are settled.
            *rows, last = self._body(self._partial_line, width)
            self._lines += rows
            self._partial_line = last.text[last.lead :]
        self._settled_rows = len(self._lines)
        if self._partial_line.strip():
            self._lines += self._body(self._partial_line, width)
        self._width, self._is_current = width, True
        return self.gap + first if header.text == old_header.text else 0

    def source(self) -> str:
        return "".join(self._deltas)

    def lay_out(self, width: int) -> list[Line]:
        lines = [self._header(width)]
        if self.is_unfolded:
            lines += [row for line in self.source().strip("\n").split("\n") for row in self._body(line, width)]
        return lines

    def _header(self, width: int) -> Line:
        seconds = self._clock() - self._begin_time if self._seconds is None else self._seconds
        if self._seconds is not None:
            text = f"∴ thought for {duration_text(seconds)}" if seconds >= _MIN_SHOWN_S else "∴ thought"
            key = f" · {self._fold_key}" if self._fold_key and not self.is_unfolded else ""
            return Line(((crop(text + key, width), style_of("thinking-title")),), is_decoration=True)
        text = f"∴ thinking {duration_text(seconds)}" if seconds >= 1 else "∴ thinking"
        words = "" if self.is_unfolded else self._last_words(width - len(text) - 4)
        return Line(
            ((crop(f"{text} · {words}…" if words else f"{text}…", width), style_of("thinking-title")),),
            is_decoration=True,
        )

    def _last_words(self, width: int) -> str:
        """Return the end of the text in at most `width` cells, from the start of a word."""
        tail = ""
        for delta in reversed(self._deltas):
            tail = delta + tail
            if len(tail) > 2 * width:
                break
        words = tidy(tail[-2 * max(1, width) :]).split()
        last_words: list[str] = []
        remaining_cells = width
        for word in reversed(words):
            remaining_cells -= cell_len(word) + bool(last_words)
            if remaining_cells < 0:
                break
            last_words.append(word)
        return " ".join(reversed(last_words))

    def _body(self, line: str, width: int) -> list[Line]:
        return prefix(wrap([(tidy(line), style_of("thinking"))], max(1, width - 2)), _THINKING_GUTTER, _THINKING_GUTTER)


class SupersededEntry(Entry):
    """The dimmed text of a superseded attempt, shown below the new attempt until the new text is as long.

    Each row of the new attempt replaces one old row, so nothing moves while the reply is rewritten. Example: 3 new rows
    have replaced 3 of 10 old rows. A labeled rule then replaces old row 4, and old rows 5 to 10 follow.
    """

    def __init__(self, old: Sequence[Entry], label: str) -> None:
        super().__init__()
        self._old = old
        self._label = label
        self._replaced_rows = 0
        self._dimmed_lines: list[Line] = []
        self._dimmed_width = 0

    def replace_rows(self, rows: int, width: int) -> bool:
        """Drop the old rows that `rows` new rows replace; return whether any old rows remain."""
        if rows != self._replaced_rows:
            self._replaced_rows = rows
            self.touch()
        return len(self._old_rows(width)) > rows

    def letters_above(self, row: int) -> int:
        """Return the number of letters from the start of the old text, replaced rows included, up to a row.

        The number of replaced rows changes with the width, so it must not change the result.
        """
        return count_letters(self._dimmed_lines[: self._replaced_rows + row - self._gap_above])

    def row_of_letter(self, count: int) -> int:
        return max(0, row_of_letter(self._dimmed_lines, count) - self._replaced_rows + self._gap_above)

    def _old_rows(self, width: int) -> list[Line]:
        if width != self._dimmed_width:
            self._dimmed_lines = [with_style(row, style_of("old")) for entry in self._old for row in entry.rows(width)]
            self._dimmed_width = width
        return self._dimmed_lines

    def lay_out(self, width: int) -> list[Line]:
        old = self._old_rows(width)
        remaining = old[self._replaced_rows + 1 :]  # the rule replaces one more row
        if len(remaining) > _MAX_UNLABELED_ROWS:
            remaining[-1] = _labeled_rule(f"old text, {100 * self._replaced_rows // len(old)}% replaced", width)
        return [_labeled_rule(self._label, width), *remaining]


def _joined(items: Sequence[_Item]) -> list[_Item]:
    """Return `items` with adjacent texts joined."""
    result: list[_Item] = []
    for kind, group in groupby(items, key=itemgetter(0)):
        if kind == "text":
            result.append(("text", "".join([text for _, text in group])))
        else:
            result.extend(group)
    return result
