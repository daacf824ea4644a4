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

from qcode.text.clean import quoted, visible
from qcode.text.numbers import count_text
from qcode.tui.transcript.line import Line, Span, TextStyle, clip, crop, prefix, shorten, start_of_end, style_of, wrap
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tui.panels.choices import Option
    from qcode.tui.panels.preview import ChangedLines

_UNLIMITED = 1_000
"""A number of rows that no title and no note reaches."""
_MIN_DETAIL_ROWS = 2
_GOOD_DETAIL_ROWS = 7
"""If all choices in full would leave fewer rows to the detail, only the current choice may have several rows."""
_MAX_LOW_NOTES = 2
_MIN_CHOICES = 2
_MARK_ROWS = 1
_TITLE_MARK_CELLS = 5
_HIGHLIGHT_MARK, _NO_MARK = "› ", "  "
_MIN_LABEL_CELLS = 20
_MAX_WRITTEN_CELLS = 40
"""The width of the text that the user has written, as shown after the choice that opens the closed text field."""
_NUMBER_CELLS = 4
"""Cells of the mark and the number before a choice."""
_UNBROKEN_SPACE = "\u00a0"
"""A space at which `wrap` does not break. `visible` leaves none of them in a text."""


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

    @property
    def notes_with_key(self) -> tuple[tuple[Span, ...], ...]:
        """The notes; if there are hidden ones, the first note names the key that shows them."""
        if not self.hidden_notes or not self.show_all_key:
            return self.notes
        first, *others = self.notes
        return (*first, (f" · {self.show_all_key} show all reasons", style_of("dim"))), *others


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
    _Arrangement(max_title=_UNLIMITED, max_notes=_MAX_LOW_NOTES, wraps_current=True),
    _Arrangement(max_title=2, max_notes=1, wraps_current=True),
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
    max_notes = _MAX_LOW_NOTES if is_low else _UNLIMITED
    arrangements = tuple(arrangement for arrangement in _ARRANGEMENTS if arrangement.max_notes <= max_notes)
    if text.is_warning:
        arrangements = (
            *(replace(arrangement, max_notes=_UNLIMITED, min_detail=0) for arrangement in arrangements),
            _ARRANGEMENTS[-1],
        )
    for arrangement in arrangements:
        rows = _rows_of(text, arrangement, title, notes, width)
        min_rows = min(detail_rows, arrangement.min_detail)
        if arrangement.min_detail > 1 and detail_rows > arrangement.min_detail:
            min_rows += _MARK_ROWS  # with fewer rows, the title has the mark
        free_rows = height - len(rows.title) - len(rows.notes) - len(rows.choices)
        if free_rows >= min_rows:
            return replace(rows, scroll_rows=max(free_rows - kept_rows, min_rows))
    count = max(_MIN_CHOICES, height - len(rows.title) - 1)
    choices, indexes = _around_current(rows.choices, count, text.current)
    free_rows = max(0, height - len(rows.title) - len(choices))
    return replace(rows, notes=[], choices=choices, choice_indexes=indexes, scroll_rows=free_rows, is_cut=True)


def _rows_of(
    text: QuestionText, arrangement: _Arrangement, title: list[Line], wrapped_notes: list[list[Line]], width: int
) -> QuestionRows:
    """Return the rows of every part in one arrangement. Rows of title and notes that do not fit scroll."""
    choices = choice_rows(
        text.options,
        text.current,
        width,
        wraps_current=arrangement.wraps_current,
        wraps_others=arrangement.wraps_others,
    )
    notes = [row for rows in wrapped_notes for row in rows]
    is_title_cut, are_notes_cut = len(title) > arrangement.max_title, len(notes) > arrangement.max_notes
    keeps_name = text.ends_with_name and arrangement.max_title == 1
    before: list[Line] = []
    after: list[Line] = []
    if is_title_cut and text.is_prose:
        title = wrap(text.title, max(1, width - _TITLE_MARK_CELLS))
        title, before = title[: arrangement.max_title], title[arrangement.max_title :]
    elif is_title_cut:
        # Only the last arrangement, which has no notes, scrolls the whole title; otherwise a pager shows it.
        after = [] if arrangement.max_notes else title
        title = [_title_with_name(text.title, width)] if keeps_name else clip(title, arrangement.max_title, width)
    if are_notes_cut and not arrangement.max_notes and text.is_warning:
        before = [*before, *notes]
    elif are_notes_cut and not arrangement.max_notes:
        after = [*after, *notes]
    return QuestionRows(
        title,
        _clip_notes(wrapped_notes, arrangement.max_notes, width),
        choices.rows,
        choices.option_indexes,
        before=before,
        after=after,
        is_cut=choices.is_cut or is_title_cut or are_notes_cut,
    )


def _clip_notes(wrapped_notes: list[list[Line]], max_rows: int, width: int) -> list[Line]:
    """Return the first rows of the notes. The user's draft, which is the last of several, takes rows of the others."""
    *reasons, draft = wrapped_notes or [[]]
    reason_rows = [row for rows in reasons for row in rows]
    draft_rows = clip(draft, max_rows, width)
    return [*clip(reason_rows, max_rows - len(draft_rows), width), *draft_rows]


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
    detail = "" if is_field_open else quoted(shorten(written_text, _MAX_WRITTEN_CELLS))
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
    label, detail = visible(option.label), option.detail
    for part in filter(None, option.unbroken):
        unbroken = _unbroken(part, width)
        label, detail = label.replace(part, unbroken), detail.replace(part, unbroken)
    gap = "\n" if option.unbroken and cell_len(option.detail) > width else "  "
    detail_spans = [(gap + detail, style_of("dim"))] if detail else []
    keys = _key_spans(option)
    joined_keys = [(text.replace(" ", _UNBROKEN_SPACE), key_style) for text, key_style in keys]
    wrapped = (wrap([(label, style), *spans, *detail_spans], width) for spans in (joined_keys, keys))
    return [
        replace(row, spans=tuple((text.replace(_UNBROKEN_SPACE, " "), span_style) for text, span_style in row.spans))
        for row in min(wrapped, key=len)
    ]


def _cut_option(option: Option, style: TextStyle, width: int) -> Line:
    """Return an option in one row: its label, cut if necessary, and its keys if enough of the label is left."""
    keys = _key_spans(option)
    free_cells = width - sum(cell_len(text) for text, _ in keys)
    label = visible(option.label)
    if free_cells < min(cell_len(label), _MIN_LABEL_CELLS):
        return Line(((crop(label, width), style),))
    return Line(((crop(label, free_cells), style), *keys))


def _unbroken(text: str, width: int) -> str:
    """Return `text` with spaces at which `wrap` does not break.

    Text that is longer than a row keeps its spaces, and gets a line break after a slash in each path longer than a row.
    """
    if cell_len(text) <= width:
        return text.replace(" ", _UNBROKEN_SPACE)
    return " ".join("\n".join(_path_rows(word, width) or [word]) for word in text.split(" "))


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


def _around_current(lines: list[Line], count: int, current: int) -> tuple[list[Line], list[int]]:
    """Return `count` choices around the current one, one row each, with arrows that point to hidden choices."""
    start = max(0, min(current - count // 2, len(lines) - count))
    rows = lines[start : start + count]
    indexes = list(range(start, start + len(rows)))
    for index, arrow, has_hidden in ((0, "↑", start > 0), (len(rows) - 1, "↓", start + count < len(lines))):
        if has_hidden and rows and indexes[index] != current:
            (text, style), *others = rows[index].spans
            rows[index] = Line(((f"{arrow} {text.removeprefix(_NO_MARK)}", style), *others), rows[index].lead)
    return rows, indexes


def hidden_text(above: int, below: int, width: int, keys: Sequence[str]) -> str:
    """Return the row with the numbers of hidden rows above and below, and as many of `keys` as fit into `width`.

    At least one of the numbers is not 0.
    """
    rows_above, rows_below = count_text(above, "row"), count_text(below, "more row")
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
        (last,) = clip([last, Line()], 1, width - len(mark))
    return [*first_rows, Line((*last.spans, (mark, style_of("dim"))), last.lead)]
