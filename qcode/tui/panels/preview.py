"""The detail of an approval as rows of the transcript: a diff, a command, or a text of the model.

`Rows` shows such rows in a `Static`. The detail is never truncated; only a long diff is first reduced to its changes
(`fitting`), and scrolling shows all of it. The caller has already made invisible characters visible; `ensure_visible`
repeats this in case a caller forgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.segment import Segment
from textual.strip import Strip
from textual.visual import Visual

from qcode.safety.shell.risks import risky_words
from qcode.text.clean import LINE_BREAK, ensure_visible
from qcode.tui.transcript.code import Highlighter, add_slot_to_range, without_band
from qcode.tui.transcript.diff import (
    MIN_SIDE_BY_SIDE_CELLS,
    DiffRow,
    changed_rows,
    has_added_in_view,
    line_number_digits,
    near_changes,
    parse_diff,
    render_diff,
    with_added_in_view,
)
from qcode.tui.transcript.line import PLAIN, Line, Span, prefix, style_of, terminal_text, wrap
from qcode.tui.transcript.markdown import MarkdownStream
from qcode.tui.transcript.palette import Palette
from qcode.values import dataclass

if TYPE_CHECKING:
    from textual.css.styles import RulesMap
    from textual.style import Style
    from textual.visual import RenderOptions
    from textual.widget import Widget

Format: TypeAlias = Literal["edit", "command", "call", "text", "markdown"]

_MAX_MARKDOWN_CELLS = 100
_HANGING_CELLS, _MIN_INDENTED_CELLS = 2, 12


class Rows(Visual):
    """Shows `lines`, wrapped for one width, in the colors of `widget`. The owner replaces the lines on resize."""

    def __init__(self, lines: Sequence[Line], widget: Widget) -> None:
        self.lines = lines
        self._widget = widget

    def render_strips(self, width: int, height: int | None, style: Style, options: RenderOptions) -> list[Strip]:
        palette = Palette(self._widget)
        strips = []
        for line in self.lines[:height]:
            segments = [Segment(terminal_text(text), palette.style(text_style)) for text, text_style in line.spans]
            segments.append(Segment(" " * max(0, width - line.width), palette.style(line.fill)))
            strips.append(Strip(segments).adjust_cell_length(width, palette.base))
        return strips

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_height(self, rules: RulesMap, width: int) -> int:
        return len(self.lines)


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """The numbers of lines that an edit adds and removes."""

    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class ApprovalDetail:
    """The detail of one approval."""

    format: Format
    detail: str
    diff: tuple[DiffRow, ...] = ()
    """The rows of an edit; empty for other formats."""

    @staticmethod
    def of(format: Format, detail: str) -> ApprovalDetail:
        """Return the detail, with invisible characters made visible and a diff parsed."""
        text = ensure_visible(detail)
        return ApprovalDetail(format, text, tuple(parse_diff(text)) if format == "edit" else ())

    def lines(self, width: int) -> list[Line]:
        """Return all rows."""
        if not self.detail.strip():
            return []
        match self.format:
            case "edit":
                return render_diff(self.diff, width)
            case "markdown":
                stream = MarkdownStream(max(1, min(width, _MAX_MARKDOWN_CELLS)))
                stream.feed(self.detail)
                stream.finish()
                return stream.lines
            case _:
                return _call_lines(self.detail, width, self.format)

    def fitting(self, width: int, height: int) -> list[Line]:
        """Return all rows if they fit into `height`, otherwise an extract of a diff.

        The extract has fewer unchanged lines around each change. If the extract does not fit either, return all rows,
        which scroll. The first `height` of these may show only removed lines, for example if 100 lines are replaced.
        Then return some removed and some added lines instead.
        """
        lines = self.lines(width)
        digits = line_number_digits(self.diff)
        for context in (2, 1, 0):
            if len(lines) <= height or not self.diff:
                return lines
            shorter = render_diff(near_changes(self.diff, context), width, digits)
            if len(shorter) <= height:
                return shorter
        shown_rows = [row for row in self.diff if row.kind not in ("file", "hunk")]
        if width >= MIN_SIDE_BY_SIDE_CELLS or has_added_in_view(shown_rows, height):
            return lines
        return render_diff(with_added_in_view(changed_rows(self.diff), height), width, digits)[:height]

    @property
    def change(self) -> ChangedLines | None:
        """The numbers of added and removed lines, None without a diff."""
        kinds = [row.kind for row in self.diff]
        return ChangedLines(kinds.count("add"), kinds.count("remove")) if kinds else None


def _call_lines(detail: str, width: int, format: Format) -> list[Line]:
    """Return a command with shell highlighting, or plain text. The marks of its line breaks are muted.

    The marks distinguish line breaks of the text from those that wrapping adds.
    """
    is_command = format == "command"
    texts = detail.split("\n")
    bare = [text.removesuffix(LINE_BREAK) for text in texts]
    spans: list[list[Span]] = [[(text, style_of())] if text else [] for text in bare]
    if is_command:
        spans = [without_band(line) for line in Highlighter("bash").highlight_block(bare)]
    risky = risky_words("\n".join(bare)) if is_command else ()
    lines: list[Line] = []
    line_start = 0
    for text, bare_text, line in zip(texts, bare, spans, strict=True):
        for risk_start, risk_end in risky:
            line = add_slot_to_range(line, risk_start - line_start, risk_end - line_start, "risk")
        mark = [(LINE_BREAK, style_of("dim"))] if len(bare_text) < len(text) else []
        marked = [*line, *mark]
        lines += _wrap_indented(marked, width) if format == "text" else wrap(marked, max(1, width), is_code=True)
        line_start += len(bare_text) + 1
    return lines


def _wrap_indented(line: Sequence[Span], width: int) -> list[Line]:
    """Wrap a line of text. If it is indented, its further rows are indented by two cells more than its first row."""
    rows = wrap(line, max(1, width))
    text = "".join(text for text, _ in line)
    indent = len(text) - len(text.lstrip(" "))
    text_width = width - indent - _HANGING_CELLS
    if len(rows) == 1 or not indent or text_width < _MIN_INDENTED_CELLS:
        return rows
    return prefix(wrap(line, text_width), ("", PLAIN), (" " * (indent + _HANGING_CELLS), PLAIN))
