"""Fenced code: highlighted with Pygments and laid out on a colored band.

A growing block is highlighted line by line and the lexer's state is kept, so the cost is linear. A finished block is
highlighted once as a whole. Pygments is imported with the first block that names a language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from qcode.text.lexers import LEXER_FAULTS, lexer_of
from qcode.tui.transcript.line import Line, Span, add_slot, crop, expand_tabs, prefix, style_of, tidy, wrap

BAND = style_of("code-block")
"""The style of plain code, whose colored background is a band across the width."""
_LABEL = style_of("code-block", "code-label")
_MARGIN: Span = (" ", BAND)
_CONTINUATION_MARGIN: Span = ("↳", _LABEL)
"""The margin of a row that continues the line above it, so that a long line does not look like two."""
Token = tuple[int, Any, str]
"""A token of Pygments: its index in the text, its type, and its text."""
_MAX_LINE_CHARS = 2_000
"""Lines that are highlighted together stay plain if one of them is longer."""
_MAX_BLOCK_CHARS = 200_000
"""A longer block is not highlighted, or only up to this length while it grows."""
_MIN_CACHED_CHARS = 5_000
"""The spans of a finished block of this length are cached for other widths."""

_SLOTS = {
    "Comment": "code-comment",
    "Comment.Preproc": "code-keyword",
    "Keyword": "code-keyword",
    "Keyword.Type": "code-type",
    "Operator.Word": "code-keyword",
    "Literal.String": "code-string",
    "Literal.Number": "code-number",
    "Keyword.Constant": "code-number",
    "Name.Builtin": "code-type",
    "Name.Class": "code-type",
    "Name.Exception": "code-type",
    "Name.Decorator": "code-function",
    "Name.Function": "code-function",
    "Name.Tag": "code-keyword",
    "Name.Attribute": "code-function",
    "Generic.Inserted": "diff-add",
    "Generic.Deleted": "diff-remove",
    "Generic.Heading": "code-function",
    "Generic.Subheading": "diff-hunk",
}


class Highlighter:
    """Highlights the lines of one code block; they stay plain if the language is unknown."""

    def __init__(self, language: str) -> None:
        self._lexer = lexer_of(language)
        # The text of a growing block so far, and the states of the lexer after it, the innermost one last.
        self._text = ""
        self._stack = ["root"]

    def highlight_block(self, lines: Sequence[str]) -> list[list[Span]]:
        """Return all lines of a finished block as spans."""
        text = "\n".join(lines) + "\n"
        if not self._can_highlight(lines) or len(text) > _MAX_BLOCK_CHARS:
            return [_plain_spans(line) for line in lines]
        return _split_into_lines(self._tokenize(text), lines)

    def highlight_next(self, lines: Sequence[str]) -> list[list[Span]]:
        """Return the next complete lines of a growing block as spans."""
        if not self._can_highlight(lines) or len(self._text) > _MAX_BLOCK_CHARS:
            return [_plain_spans(line) for line in lines]
        if self._is_resumable:
            return _split_into_lines(self._tokenize_continued("".join(line + "\n" for line in lines)), lines)
        # The lexer keeps no state, so each line is highlighted as if it were the first.
        return [_split_into_lines(self._tokenize(line + "\n"), [line])[0] for line in lines]

    def _can_highlight(self, lines: Sequence[str]) -> bool:
        return self._lexer is not None and all(len(line) <= _MAX_LINE_CHARS for line in lines)

    @property
    def _is_resumable(self) -> bool:
        """Whether the lexer is a plain table of rules and states, which can continue where it stopped."""
        return type(self._lexer).get_tokens_unprocessed is _pygments_lexer().RegexLexer.get_tokens_unprocessed

    def _tokenize(self, text: str) -> list[Token]:
        try:
            return list(self._lexer.get_tokens_unprocessed(text))
        except LEXER_FAULTS:
            return []

    def _tokenize_continued(self, text: str) -> list[Token]:
        """Return the tokens of `text`, lexed as the continuation of the text before."""
        context = _pygments_lexer().LexerContext(self._text + text, len(self._text), list(self._stack))
        try:
            tokens = list(_pygments_lexer().ExtendedRegexLexer.get_tokens_unprocessed(self._lexer, context=context))
        except LEXER_FAULTS:
            return self._tokenize(text)
        self._text = context.text
        self._stack = list(context.stack)
        return tokens


class CodeBlock:
    """The rows of one code block at one width, while it grows and after it is finished."""

    def __init__(self, language: str, width: int) -> None:
        self._language = tidy(language).strip().split(" ")[0]
        self._width = width
        self._highlighter = Highlighter(self._language)
        self._complete_lines: list[str] = []
        self._rows: list[Line] = []

    def grow(self, source: Sequence[str]) -> list[Line]:
        """Return the rows of an open block. `source` is that of the last call with text added at its end.

        The last line may be incomplete, so it is not highlighted yet.
        """
        if self._complete_lines != list(source[: len(self._complete_lines)]):
            # The source has changed: start again.
            self._highlighter = Highlighter(self._language)
            self._complete_lines = []
            self._rows = []
        new_lines = list(source[len(self._complete_lines) : -1])
        if new_lines:
            self._rows += self._lay_out(self._highlighter.highlight_next(new_lines))
            self._complete_lines += new_lines
        return [*self._label(), *self._rows, *self._lay_out(map(_plain_spans, source[-1:]))]

    def finish(self, source: Sequence[str]) -> list[Line]:
        """Return the rows of the whole block."""
        is_long = sum(map(len, source)) >= _MIN_CACHED_CHARS
        spans = _highlighted(self._language, tuple(source)) if is_long else self._highlighter.highlight_block(source)
        return [*self._label(), *self._lay_out(spans)]

    def _label(self) -> list[Line]:
        """Return the row with the name of the language; none if the block names no language."""
        if not self._language:
            return []
        text = crop(self._language, max(1, self._width - 2))
        return [Line((_MARGIN, (text, _LABEL)), lead=1, fill=BAND, is_decoration=True)]

    def _lay_out(self, lines: Iterable[list[Span]]) -> list[Line]:
        rows: list[Line] = []
        for spans in lines:
            rows += prefix(
                wrap(expand_tabs(spans), max(1, self._width - 2), is_code=True), _MARGIN, _CONTINUATION_MARGIN
            )
        for row in rows:
            row.fill = BAND
        return rows


@lru_cache(maxsize=4)
def _highlighted(language: str, source: tuple[str, ...]) -> list[list[Span]]:
    """Return the lines of a long block as spans. Cached, because highlighting takes ten times as long as wrapping."""
    return Highlighter(language).highlight_block(source)


@lru_cache(maxsize=1)
def _pygments_lexer() -> Any:  # noqa: ANN401  Pygments ships no types
    """Return the Pygments module with the lexer classes."""
    import pygments.lexer  # type: ignore[import-untyped]  # Pygments ships no types

    return pygments.lexer


@lru_cache(maxsize=256)
def language_of(path: str) -> str:
    """Return the language of a file by its name, for `Highlighter`; empty if Pygments knows no language for it."""
    from pygments.lexers import find_lexer_class_for_filename  # type: ignore[import-untyped]  # no types there

    lexer_class = find_lexer_class_for_filename(path.rpartition("/")[2])
    return str(lexer_class.aliases[0]) if lexer_class is not None and lexer_class.aliases else ""


def without_band(spans: Iterable[Span]) -> list[Span]:
    """Return spans of a highlighter without their first slot, the background band of a code block."""
    return [(text, style_of(*style.slots[1:])) for text, style in spans]


def add_slot_to_range(spans: Iterable[Span], start: int, end: int, slot: str) -> list[Span]:
    """Return the spans of one line with `slot` on top of the characters from `start` to `end`."""
    result: list[Span] = []
    position = 0
    for text, style in spans:
        first = min(max(start - position, 0), len(text))
        last = min(max(end - position, 0), len(text))
        parts = [(text[:first], style), (text[first:last], add_slot(style, slot)), (text[last:], style)]
        result += [(part, part_style) for part, part_style in parts if part]
        position += len(text)
    return result


@lru_cache(maxsize=512)
def _token_style(kind: Any) -> Any:  # noqa: ANN401  a token type of Pygments, which ships no types
    """Return the style of a token type, or of the nearest type above it: that of `Keyword` for `Keyword.Reserved`."""
    name = str(kind).removeprefix("Token").lstrip(".")
    while name and name not in _SLOTS:
        name = name.rpartition(".")[0]
    return style_of("code-block", _SLOTS[name]) if name else BAND


def _plain_spans(line: str) -> list[Span]:
    return [(line, BAND)] if line else []


def _split_into_lines(tokens: Iterable[Token], lines: Sequence[str]) -> list[list[Span]]:
    """Return the tokens as spans for each line; a line stays plain if its tokens do not add up to its text."""
    rows: list[list[Span]] = [[]]
    for text, style in _spans_and_breaks(tokens):
        if text == "\n":
            rows.append([])
            continue
        row = rows[-1]
        last_text, last_style = row[-1] if row else ("", None)
        if last_style == style:
            row[-1] = (last_text + text, style)
        else:
            row.append((text, style))
    rows += [[] for _ in range(len(lines) - len(rows))]
    return [
        row if "".join([text for text, _ in row]) == line else _plain_spans(line)
        for row, line in zip(rows, lines, strict=False)
    ]


def _spans_and_breaks(tokens: Iterable[Token]) -> Iterator[Span]:
    """Yield the text of `tokens` with its style; each line break is a separate span."""
    for _, kind, value in tokens:
        style = _token_style(kind)
        first, *others = value.split("\n")
        if first:
            yield first, style
        for other in others:
            yield "\n", style
            if other:
                yield other, style
