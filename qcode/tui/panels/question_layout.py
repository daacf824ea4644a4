"""How the parts of a question share the rows of the screen: title, detail, notes and choices. Pure.

If there are too few rows, the parts shrink in a fixed order. First the choices lose their second rows, then notes and
title are truncated, and at last only the choices around the current one are shown. Truncated title and notes scroll
with the detail, so everything can be read at any size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len

from qcode.text.clean import ensure_visible, visible
from qcode.text.numbers import count_text
from qcode.tui.transcript.line import (
    UNBROKEN_SPACE,
    WORD_JOINER,
    Line,
    Span,
    TextStyle,
    clip,
    crop,
    prefix,
    shorten,
    start_of_end,
    style_of,
    without_wrap_marks,
    wrap,
)
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tui.panels.choices import Option
    from qcode.tui.panels.preview import ChangedLines

_UNLIMITED = 1_000
"""A number of rows that no title and no note reaches."""
_MIN_DETAIL_ROWS = 2
_GOOD_DETAIL_ROWS = 7
"""If all choices in full would leave fewer rows to the detail, only the current choice may have several rows."""
_MAX_NOTE_ROWS_IF_LOW = 2
_MIN_CHOICES = 2
_MIN_ROWS_OF_CURRENT = 2
_MARK_ROWS = 1
"""The row below the detail with the numbers of hidden rows."""
_TITLE_MARK_CELLS = 5
"""The cells for these numbers at the end of the title, such as ` ↓12`."""
_HIGHLIGHT_MARK, _NO_MARK = "› ", "  "
_MIN_LABEL_CELLS = 20
_MAX_WRITTEN_CELLS = 40
"""The width of the text that the user has written, as shown after the choice that opens the closed text field."""
_NUMBER_CELLS = 4
"""Cells of the mark and the number before a choice."""


@dataclass(frozen=True, slots=True)
class ChoiceRows:
    """The rows of the choices."""

    rows: list[Line]
    option_indexes: list[int]
    """For each row, the index of its option."""
    is_cut: bool
    """An option is truncated."""


@dataclass(frozen=True, slots=True)
class QuestionText:
    """The parts of a question besides its detail."""

    title: tuple[Span, ...]
    notes: tuple[tuple[Span, ...], ...]
    """The reason for asking and the user's draft, each on separate rows."""
    options: tuple[Option, ...]
    current: int
    """The index of the highlighted option, -1 for none."""
    is_warning: bool = False
    """The note is a warning, which takes precedence over the detail."""
    is_prose: bool = False
    """The detail is text that continues the title."""
    ends_with_name: bool = False
    """The first span of the title ends with the name of a file, which stays in view."""
    hidden_notes: str = ""
    """All reasons for asking, which only a pager shows."""
    show_all_key: str = ""
    """The key that opens this pager; empty if no key does."""
    draft_cursor: int = -1
    """The cell of the cursor in the draft, which is the last note; -1 without a draft."""

    @property
    def notes_with_key(self) -> tuple[tuple[Span, ...], ...]:
        """The notes; if there are hidden ones, the first note names the key that shows them."""
        if not self.hidden_notes or not self.show_all_key:
            return self.notes
        first, *others = self.notes
        key_span = (f" · {self.show_all_key} show all reasons", style_of("dim"))
        return ((*first, key_span), *others)


@dataclass(frozen=True, slots=True)
class QuestionRows:
    """The rows of each part."""

    title: list[Line]
    notes: list[Line]
    choices: list[Line]
    choice_indexes: list[int]
    """For each row of `choices`, the index of its option."""
    scroll_rows: int = 0
    """The number of rows for the part that scrolls: `before`, the detail and `after`."""
    before: list[Line] = field(default_factory=list)
    """Rows of title or notes that scroll with the detail, above it."""
    after: list[Line] = field(default_factory=list)
    """Rows of title or notes that scroll with the detail, below it."""
    is_cut: bool = False
    """Rows of title, notes or choices are truncated or hidden."""

    @property
    def is_mark_in_title(self) -> bool:
        """Whether the title shows the number of hidden rows, because the detail needs every row below it."""
        return self.scroll_rows < _MIN_DETAIL_ROWS + _MARK_ROWS


@dataclass(frozen=True, slots=True)
class _Arrangement:
    """One way to share the rows. The maxima and the minimum are numbers of rows."""

    max_title: int
    max_notes: int
    min_detail: int = _MIN_DETAIL_ROWS
    wraps_current: bool = False
    """The current choice may have several rows."""
    cuts_current: bool = False
    """The current choice loses the last of its rows if they do not fit."""
    wraps_others: bool = False
    """The other choices may have several rows."""


_ARRANGEMENTS = (
    _Arrangement(
        max_title=_UNLIMITED,
        max_notes=_UNLIMITED,
        min_detail=_GOOD_DETAIL_ROWS,
        wraps_current=True,
        wraps_others=True,
    ),
    _Arrangement(max_title=_UNLIMITED, max_notes=_UNLIMITED, wraps_current=True),
    _Arrangement(max_title=_UNLIMITED, max_notes=_MAX_NOTE_ROWS_IF_LOW, wraps_current=True),
    _Arrangement(max_title=2, max_notes=1, wraps_current=True),
    _Arrangement(max_title=2, max_notes=1, wraps_current=True, cuts_current=True),
    _Arrangement(max_title=2, max_notes=1),
    _Arrangement(max_title=1, max_notes=1),
    _Arrangement(max_title=1, max_notes=1, min_detail=1),
    _Arrangement(max_title=1, max_notes=0, min_detail=1),
)
"""The ways to share the rows, the largest first; the first one that fits is used."""


def arrange(
    text: QuestionText, detail_rows: int, width: int, height: int, *, is_low: bool, kept_rows: int
) -> QuestionRows:
    """Share `height` rows between a question and its detail, which has `detail_rows` rows.

    `is_low`: the notes are short, and only the current choice may have several rows. `kept_rows` rows stay free for the
    transcript if the question does not need them.
    """
    title = wrap_title(text, width)
    notes = [wrap(note, width) for note in text.notes_with_key]
    for arrangement in _arrangements(is_low=is_low, is_warning=text.is_warning):
        rows = _rows_of(text, arrangement, title, notes, width)
        min_rows = _min_scroll_rows(arrangement, detail_rows)
        max_rows = height - min_rows - len(rows.title) - len(rows.notes)
        if arrangement.cuts_current:
            rows = _with_current_cut(rows, text, max_rows, width)
        free_rows = height - len(rows.title) - len(rows.notes) - len(rows.choices)
        if free_rows >= min_rows:
            return replace(rows, scroll_rows=max(free_rows - kept_rows, min_rows))
    # Not even the smallest arrangement fits: leave out the notes, and show only the choices around the current one.
    count = max(_MIN_CHOICES, height - len(rows.title) - 1)
    choices = _around_current(rows.choices, count, text.current)
    return replace(
        rows,
        notes=[],
        choices=choices.rows,
        choice_indexes=choices.option_indexes,
        scroll_rows=max(0, height - len(rows.title) - len(choices.rows)),
        is_cut=True,
    )


def _with_current_cut(rows: QuestionRows, text: QuestionText, max_rows: int, width: int) -> QuestionRows:
    """Return the rows with at most `max_rows` rows of choices, if the current choice has enough rows to lose.

    It keeps two rows. A choice with a key or a rule after its label is not cut.
    """
    current_rows = [row for row, index in zip(rows.choices, rows.choice_indexes, strict=True) if index == text.current]
    excess = len(rows.choices) - max_rows
    count = len(current_rows) - excess
    if excess <= 0 or count < _MIN_ROWS_OF_CURRENT:
        return rows
    current = text.options[text.current]
    if _key_spans(current) or current.unbroken:
        return rows
    first = rows.choice_indexes.index(text.current)
    end = first + len(current_rows)
    return replace(
        rows,
        choices=[*rows.choices[:first], *clip(current_rows, count, width), *rows.choices[end:]],
        choice_indexes=[*rows.choice_indexes[:first], *[text.current] * count, *rows.choice_indexes[end:]],
        is_cut=True,
    )


def _arrangements(*, is_low: bool, is_warning: bool) -> list[_Arrangement]:
    """Return the arrangements to try, the largest first. A warning keeps all its rows as long as possible."""
    max_notes = _MAX_NOTE_ROWS_IF_LOW if is_low else _UNLIMITED
    arrangements = [arrangement for arrangement in _ARRANGEMENTS if arrangement.max_notes <= max_notes]
    if not is_warning:
        return arrangements
    with_whole_warning = [replace(arrangement, max_notes=_UNLIMITED, min_detail=0) for arrangement in arrangements]
    return [*with_whole_warning, _ARRANGEMENTS[-1]]


def _min_scroll_rows(arrangement: _Arrangement, detail_rows: int) -> int:
    """Return the number of rows that a detail of `detail_rows` rows needs at least."""
    if detail_rows <= arrangement.min_detail:
        return detail_rows
    # The row with the numbers of hidden rows. If the detail has a single row, the title shows them.
    mark_rows = _MARK_ROWS if arrangement.min_detail > 1 else 0
    return arrangement.min_detail + mark_rows


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of the title or the notes in one arrangement."""

    shown: list[Line]
    before: list[Line] = field(default_factory=list)
    """Rows that scroll with the detail, above it."""
    after: list[Line] = field(default_factory=list)
    """Rows that scroll with the detail, below it."""
    is_cut: bool = False
    """Rows are truncated or scroll."""


def _rows_of(
    text: QuestionText, arrangement: _Arrangement, title_rows: list[Line], wrapped_notes: list[list[Line]], width: int
) -> QuestionRows:
    """Return the rows of every part in one arrangement. Rows of title and notes that do not fit scroll."""
    title = _fit_title(text, arrangement, title_rows, width)
    notes = _fit_notes(text, arrangement, wrapped_notes, width)
    choices = choice_rows(
        text.options,
        text.current,
        width,
        wraps_current=arrangement.wraps_current,
        wraps_others=arrangement.wraps_others,
    )
    return QuestionRows(
        title.shown,
        notes.shown,
        choices.rows,
        choices.option_indexes,
        before=[*title.before, *notes.before],
        after=[*title.after, *notes.after],
        is_cut=choices.is_cut or title.is_cut or notes.is_cut,
    )


def _fit_title(text: QuestionText, arrangement: _Arrangement, rows: list[Line], width: int) -> _Part:
    max_rows = arrangement.max_title
    if len(rows) <= max_rows:
        return _Part(rows)
    if text.is_prose:
        rows = wrap(text.title, max(1, width - _TITLE_MARK_CELLS))
        return _Part(rows[:max_rows], before=rows[max_rows:], is_cut=True)
    has_one_row_for_name = text.ends_with_name and max_rows == 1
    shown = [_title_with_name(text.title, width)] if has_one_row_for_name else clip(rows, max_rows, width)
    # Only the last arrangement, which has no notes, scrolls the whole title; otherwise a pager shows it.
    return _Part(shown, after=[] if arrangement.max_notes else rows, is_cut=True)


def _fit_notes(text: QuestionText, arrangement: _Arrangement, wrapped_notes: list[list[Line]], width: int) -> _Part:
    rows = [row for note_rows in wrapped_notes for row in note_rows]
    max_rows = arrangement.max_notes
    if len(rows) <= max_rows:
        return _Part(rows)
    if max_rows == 0:
        return _Part([], before=rows, is_cut=True) if text.is_warning else _Part([], after=rows, is_cut=True)
    # The last note is the user's draft if there are several: it gets its rows first.
    *reasons, draft = wrapped_notes
    reason_rows = [row for reason in reasons for row in reason]
    shown_draft = clip(draft, max_rows, width)
    shown_reasons = clip(reason_rows, max_rows - len(shown_draft), width)
    return _Part([*shown_reasons, *shown_draft], is_cut=True)


def title_spans(
    question: str, change: ChangedLines | None, notes: Sequence[str], hint: str, width: int
) -> tuple[Span, ...]:
    """Return a title: the question, the numbers of added and removed lines, notes, and `hint` if it fits in the row."""
    spans: list[Span] = [(question, style_of("card-title"))]
    if change is not None:
        spans = [(question.removesuffix("?"), style_of("card-title"))]
        spans += [(f"  +{change.added}", style_of("card-done")), (f" -{change.removed}", style_of("card-failed"))]
    spans += [(f"   {note}", style_of("dim")) for note in notes if note]
    hint_span: Span = (f"   {hint}", style_of("dim"))
    if hint and Line((*spans, hint_span)).width <= width:
        spans.append(hint_span)
    return tuple(spans)


def wrap_title(text: QuestionText, width: int) -> list[Line]:
    """Wrap the title. A path at the end of its first span is wrapped after a slash, if each of its names fits."""
    rows = wrap(text.title, width)
    (question, style), *others = text.title
    verb, _, path = question.partition(" ")
    if len(rows) == 1 or not text.ends_with_name:
        return rows
    texts = _path_rows(path, width, f"{verb} ")
    if not texts:
        return rows
    last_row = wrap([(texts.pop(), style), *others], width)
    return [*(Line(((row.rstrip(), style),)) for row in texts), *last_row]


def _title_with_name(title: Sequence[Span], width: int) -> Line:
    """Return a title in one row that keeps the end of the name, and the spans that fit: `Edit …cart.py  +4`.

    If the file name alone needs the space, the verb is dropped: `…rc/cart.py`.
    """
    (question, style), *others = title
    width = max(1, width - _TITLE_MARK_CELLS)
    verb, _, path = question.partition(" ")
    if len(verb) + cell_len(path.rpartition("/")[2]) + 2 > width:
        verb = ""
    verb_part = f"{verb} " if verb else ""
    if cell_len(verb_part + path) > width:
        path = f"…{path[start_of_end(path, width - cell_len(f'{verb_part}…')) :]}"
    spans: list[Span] = [(verb_part + path, style)]
    for span in others:
        if Line((*spans, span)).width > width:
            break
        spans.append(span)
    return Line(tuple(spans))


def shown_options(options: Sequence[Option], written_text: str, *, is_field_open: bool) -> tuple[Option, ...]:
    """Return the options as shown. The one that opens the text field has a check mark if there is a `written_text`.

    If the field is closed, the text is shown after this option.
    """
    if not written_text.strip():
        return tuple(options)
    detail = "" if is_field_open else f'"{shorten(visible(written_text.strip()), _MAX_WRITTEN_CELLS)}"'
    return tuple(_with_written_text(option, detail) if option.opens_text_field else option for option in options)


def _with_written_text(option: Option, detail: str) -> Option:
    if option.is_checked is None:
        return replace(option, detail=detail)
    return replace(option, detail=detail, is_checked=True)


def choice_rows(
    options: Sequence[Option], current: int, width: int, *, wraps_current: bool = True, wraps_others: bool = True
) -> ChoiceRows:
    """Return the rows of the choices. An option that may not wrap is truncated to one row."""
    lines: list[Line] = []
    indexes: list[int] = []
    is_cut = False
    for index, option in enumerate(options):
        is_current = index == current
        lead_cells = _NUMBER_CELLS + len(option.check_mark)
        label_width = max(1, width - lead_cells)
        style = style_of("choice") if is_current else style_of()
        rows = _wrap_option(option, style, label_width)
        if len(rows) > 1 and not (wraps_current if is_current else wraps_others):
            is_cut = True
            rows = [_cut_option(option, style, label_width)]
        mark = _HIGHLIGHT_MARK if is_current else _NO_MARK
        lines += prefix(rows, (f"{mark}{index + 1} {option.check_mark}", style), (" " * lead_cells, style_of()))
        indexes += [index] * len(rows)
    return ChoiceRows(lines, indexes, is_cut)


def _key_spans(option: Option) -> list[Span]:
    """Return the letter and the key of an option in parentheses, after a space; nothing if it has none."""
    keys = ", ".join(key for key in (option.letter, option.key) if key)
    return [(f" ({keys})", style_of("dim"))] if keys else []


def _wrap_option(option: Option, style: TextStyle, width: int) -> list[Line]:
    """Return the rows of an option. The parts in `Option.unbroken` start a new row if they would be wrapped inside.

    Keys stay in one row with the end of the label, unless this takes more rows. Example of a rule in its own row:

        Yes, always in this folder: exactly "git push origin main" (f)
        shell(git push origin main)
    """
    label, detail = ensure_visible(option.label), option.detail
    # The longest part comes first, because a rule contains the path or the command that it covers.
    for part in sorted(filter(None, option.unbroken), key=len, reverse=True):
        unbroken = _unbroken(part, width)
        label = label.replace(part, unbroken)
        detail = detail.replace(part, unbroken)
    gap = "\n" if option.unbroken and cell_len(option.detail) > width else "  "
    detail_spans = [(gap + detail, style_of("dim"))] if detail else []
    keys = _key_spans(option)
    unbroken_keys = [(text.replace(" ", UNBROKEN_SPACE), key_style) for text, key_style in keys]
    rows = wrap([(label, style), *keys, *detail_spans], width)
    rows_with_unbroken_keys = wrap([(label, style), *unbroken_keys, *detail_spans], width)
    last_word_cells = cell_len(label.rpartition(" ")[2]) + sum(cell_len(text) for text, _ in keys)
    if last_word_cells <= width and len(rows_with_unbroken_keys) <= len(rows):
        rows = rows_with_unbroken_keys
    return [without_wrap_marks(row) for row in rows]


def _cut_option(option: Option, style: TextStyle, width: int) -> Line:
    """Return an option in one row: its label, cut if necessary, and its keys if enough of the label is left."""
    keys = _key_spans(option)
    free_cells = width - sum(cell_len(text) for text, _ in keys)
    label = ensure_visible(option.label)
    if free_cells < min(cell_len(label), _MIN_LABEL_CELLS):
        return Line(((crop(label, width), style),))
    return Line(((crop(label, free_cells), style), *keys))


def _unbroken(text: str, width: int) -> str:
    """Return `text` with characters between which `wrap` does not break, also if they are wide.

    Text that is longer than a row keeps its spaces, and gets a line break after a slash in each path longer than a row.
    """
    if cell_len(text) <= width:
        return _joined(text.replace(" ", UNBROKEN_SPACE))
    return " ".join("\n".join(map(_joined, _path_rows(word, width))) or word for word in text.split(" "))


def _joined(text: str) -> str:
    return text if text.isascii() else WORD_JOINER.join(text)


def _path_rows(path: str, width: int, lead: str = "") -> list[str]:
    """Wrap a path after its slashes, with `lead` before it; return no rows if one of its names is longer than a row."""
    names = re.findall(r"[^/]*/|[^/]+", path)
    if any(cell_len(name) > width for name in names):
        return []
    rows = [lead]
    for name in names:
        if cell_len(rows[-1] + name) > width:
            rows.append("")
        rows[-1] += name
    return rows


def _around_current(lines: list[Line], count: int, current: int) -> ChoiceRows:
    """Return `count` choices around the current one, one row each, with arrows that point to hidden choices."""
    start = max(0, min(current - count // 2, len(lines) - count))
    indexes = list(range(start, min(start + count, len(lines))))
    rows = [lines[index] for index in indexes]
    if indexes and indexes[0] > 0 and indexes[0] != current:
        rows[0] = _with_arrow(rows[0], "↑")
    if indexes and indexes[-1] < len(lines) - 1 and indexes[-1] != current:
        rows[-1] = _with_arrow(rows[-1], "↓")
    return ChoiceRows(rows, indexes, is_cut=True)


def _with_arrow(row: Line, arrow: str) -> Line:
    """Return the row of a choice with an arrow in place of its mark."""
    (text, style), *others = row.spans
    return Line(((f"{arrow} {text.removeprefix(_NO_MARK)}", style), *others), row.lead)


def hidden_text(above: int, below: int, width: int, keys: Sequence[str]) -> str:
    """Return the row with the numbers of hidden rows above and below, and as many of `keys` as fit into `width`.

    At least one of the numbers is not 0.
    """
    rows_above = count_text(above, "row")
    rows_below = count_text(below, "more row")
    text = f"↓ {rows_below}" if below else f"↑ {rows_above} above"
    if above and below:
        text = f"↑ {rows_above} above · ↓ {rows_below}"
        if len(f"{text} · {keys[0]}") > width:
            text = f"↑ {above} ↓ {rows_below}"
    for key in keys:
        longer = f"{text} · {key}"
        if Line(((longer, style_of()),)).width <= width:
            text = longer
    return crop(text, width)


def title_with_mark(title: list[Line], above: int, below: int, width: int) -> list[Line]:
    """Return a title whose last row ends with the numbers of hidden rows: `↑3 ↓12`, or `↕15` in a narrow row."""
    mark = "".join(f" {arrow}{count}" for arrow, count in (("↑", above), ("↓", below)) if count)
    if not title or not mark:
        return title
    *first_rows, last = title
    if above and below and last.width > width - len(mark):
        mark = f" ↕{above + below}"
    if last.width > width - len(mark):
        # A second row lets `clip` end the first one with an ellipsis.
        (last,) = clip([last, Line()], 1, width - len(mark))
    return [*first_rows, Line((*last.spans, (mark, style_of("dim"))), last.lead)]
