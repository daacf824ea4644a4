"""Corrections of an edit whose old text is not in the file: for example, copied line numbers are removed. Pure.

Each reading of the edit assumes one mistake of the model, and corrects it in the old and the new text. A new text that
clearly does not contain the mistake stays unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

from qcode.text.fences import unfenced
from qcode.values import dataclass

_NUMBERED = re.compile(r"[ ]*+(\d{1,9}+)(\t|→|: |:|\| |\|)")
_ENTITY = re.compile(r"&(lt|gt|amp|quot|apos|#39|#x27|#34);")
_BARE_MARKUP = re.compile(r"[<>]|&(?!(?:lt|gt|amp|quot|apos|#39|#x27|#34);)")
_ESCAPE = re.compile(r"\\([nrt\"'`\\/])")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
"""The characters for the letters of escapes. Any other escaped character stands for itself."""
_ESCAPED_QUOTE = re.compile(r"\\([\"'`])")

_FOLDS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u200b\u00ad\ufeff", ""),
    "\u2026": "...",
}
_MAX_MARKS = 32
"""The maximum number of combining marks on one character; the Unicode stream-safe format (UAX 15) allows 30."""
_NON_ASCII = re.compile(r"[\s\S]?[^\x00-\x7f]+")  # the ASCII character may have a combining mark


@dataclass(frozen=True, slots=True)
class EditReading:
    """An alternative reading of an edit."""

    label: str
    """The reading in words, for the note on the match: `without its line numbers`."""
    old: str
    new: str
    line: int = 0
    """The number of the line that the passage was copied from, 0 if unknown."""


class _EditTexts(NamedTuple):
    """The old and the new text of an edit."""

    old: str
    new: str


def readings(old: str, new: str) -> Iterator[EditReading]:
    """Yield alternative readings of an edit, most likely first; each has a different `old`."""
    for correction in _CORRECTIONS:
        texts = correction.correct(old, new)
        if texts is not None and texts.old != old and texts.old.strip():
            yield EditReading(correction.label, texts.old, texts.new)
    numbered = _without_numbers(old, new)
    if numbered is not None:
        yield numbered


def _without_numbers(old: str, new: str) -> EditReading | None:
    """Remove the line numbers of `read` and `grep` output, if every line has one and they are consecutive."""
    lines = old.removesuffix("\n").split("\n")
    matches = [_NUMBERED.match(line) for line in lines]
    numbers = [int(match[1]) for match in matches if match is not None]
    is_consecutive = bool(numbers) and numbers == list(range(numbers[0], numbers[0] + len(lines)))
    # A single line such as `3: three` may be text of the file; only `read` separates with a tab or an arrow.
    is_ambiguous = len(lines) == 1 and matches[0] is not None and matches[0][2] not in ("\t", "→")
    if not is_consecutive or is_ambiguous:
        return None
    plain = "\n".join(map(_without_number, lines))
    if not plain.strip():
        return None  # a blank passage would match everywhere
    tail = "\n" if old.endswith("\n") else ""
    unnumbered = "\n".join(map(_without_number, new.split("\n")))
    return EditReading("without its line numbers", plain + tail, unnumbered, numbers[0])


def _without_number(line: str) -> str:
    number = _NUMBERED.match(line)
    return line[number.end() :] if number is not None else line


def _without_fence(old: str, new: str) -> _EditTexts | None:
    inside = unfenced(old)
    return None if inside is None else _EditTexts(inside, unfenced(new) or new)


def _without_blank_lines(old: str, new: str) -> _EditTexts | None:
    """Remove the blank lines around the old text, and at most as many around the new text."""
    before, after = _blank_lines_before(old), _blank_lines_after(old)
    if not before and not after:
        return None
    trimmed = _cut_lines(new, min(before, _blank_lines_before(new)))
    return _EditTexts(
        _cut_lines(old, before).removesuffix("\n" * after),
        trimmed[: len(trimmed) - min(after, _blank_lines_after(new))],
    )


def _blank_lines_before(text: str) -> int:
    """Return the number of blank lines at the start of `text`; 0 if all lines are blank."""
    return next((index for index, line in enumerate(text.split("\n")) if line.strip()), 0)


def _blank_lines_after(text: str) -> int:
    """Return the number of empty lines at the end of `text`."""
    return max(len(text) - len(text.rstrip("\n")) - 1, 0)


def _cut_lines(text: str, count: int) -> str:
    return "\n".join(text.split("\n")[count:])


def _without_entities(old: str, new: str) -> _EditTexts | None:
    """Decode HTML entities: `a &lt; b` becomes `a < b`. A new text with bare markup was not encoded and stays."""
    if not _ENTITY.search(old):
        return None
    import html

    try:
        return _EditTexts(html.unescape(old), new if _BARE_MARKUP.search(new) else html.unescape(new))
    except ValueError:  # a character reference of more than 4,300 digits
        return None


def _without_quote_escapes(old: str, new: str) -> _EditTexts | None:
    """Remove the backslashes before quotes: `say(\\"hi\\")` becomes `say("hi")`."""
    quotes = set(_ESCAPED_QUOTE.findall(old))
    if not quotes:
        return None
    has_bare = any(re.search(rf"(?<!\\){re.escape(quote)}", new) for quote in quotes)
    return _EditTexts(_ESCAPED_QUOTE.sub(r"\1", old), new if has_bare else _ESCAPED_QUOTE.sub(r"\1", new))


def _with_breaks(old: str, new: str) -> _EditTexts | None:
    """Decode `\\n` and `\\t` outside quotes."""
    if "\\" not in old:
        return None
    # A new text with real line breaks is not encoded, so its `\\n` are meant.
    has_real_breaks = "\n" in new and "\n" not in old
    return _EditTexts(_decode_breaks(old), new if has_real_breaks else _decode_breaks(new))


def _with_breaks_and_quotes(old: str, new: str) -> _EditTexts | None:
    quoted = _without_quote_escapes(old, new)
    return _with_breaks(quoted.old, quoted.new) if quoted is not None else None


def _with_all_breaks(old: str, new: str) -> _EditTexts | None:
    """Decode every `\\n`, also inside quotes, in a text that has no line break."""
    if "\n" in old or "\\n" not in old:
        return None
    return _EditTexts(old.replace("\\n", "\n"), new if "\n" in new else new.replace("\\n", "\n"))


def _with_half_the_backslashes(old: str, new: str) -> _EditTexts | None:
    """Halve the backslashes, if each has a neighbor: `\\\\d` becomes `\\d`."""
    if "\\\\" not in old or _has_lone_backslash(old):
        return None
    halved_new = new if _has_lone_backslash(new) else new.replace("\\\\", "\\")
    return _EditTexts(old.replace("\\\\", "\\"), halved_new)


def _has_lone_backslash(text: str) -> bool:
    return "\\" in text.replace("\\\\", "")


def _unescaped_once(old: str, new: str) -> _EditTexts | None:
    """Decode each text as the content of a JSON string, if it contains neither a bare quote nor a line break."""
    if "\\" not in old or not _is_escaped(old):
        return None
    return _EditTexts(_unescape(old), _unescape(new) if _is_escaped(new) else new)


def _is_escaped(text: str) -> bool:
    return "\n" not in text and re.search(r'(?<!\\)(?:\\\\)*"', text) is None


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _CONTROLS.get(match[1], match[1]), text)


def _with_escaped_breaks(old: str, new: str) -> _EditTexts | None:
    """Replace line breaks and tabs inside quotes with escapes: the model omitted a backslash."""
    return _EditTexts(_map_around_quotes(old, _keep, _escape_breaks), _map_around_quotes(new, _keep, _escape_breaks))


def _escape_breaks(text: str) -> str:
    return text.replace("\n", "\\n").replace("\t", "\\t")


def _decode_breaks(text: str) -> str:
    return _map_around_quotes(
        text, lambda part: part.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t"), _keep
    )


def _keep(text: str) -> str:
    return text


def _map_around_quotes(text: str, map_unquoted: Callable[[str], str], map_quoted: Callable[[str], str]) -> str:
    """Apply one function to the text outside quotes, and another to the text inside."""
    parts: list[str] = []
    quote, start = "", 0
    index = 0
    while index < len(text):
        char = text[index]
        if char == "\\" and quote:
            index += 1
        elif char in "\"'`" and not quote:
            parts.append(map_unquoted(text[start:index]))
            quote, start = char, index
        elif char == quote:
            parts.append(map_quoted(text[start : index + 1]))
            quote, start = "", index + 1
        index += 1
    parts.append(map_unquoted(text[start:]))
    return "".join(parts)


class _Correction(NamedTuple):
    """The correction of one mistake of the model."""

    label: str
    """The label of the reading."""
    correct: Callable[[str, str], _EditTexts | None]
    """Returns both texts of an edit without the mistake, None if the edit cannot have it."""


_CORRECTIONS = (
    _Correction("without the code fence around it", _without_fence),
    _Correction("without the blank lines around it", _without_blank_lines),
    _Correction("with HTML entities such as &lt; decoded", _without_entities),
    _Correction("without the backslashes before its quotes", _without_quote_escapes),
    _Correction("with \\n and \\t decoded", _with_breaks),
    _Correction("with \\n, \\t and escaped quotes decoded", _with_breaks_and_quotes),
    _Correction("with escape sequences decoded", _unescaped_once),
    _Correction("with each double backslash as a single one", _with_half_the_backslashes),
    _Correction("with every \\n as a line break", _with_all_breaks),
    _Correction("with line breaks inside quotes as \\n", _with_escaped_breaks),
)


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A text with typographic characters replaced by plain ones."""

    text: str
    offsets: list[int]
    """The index in the original text of each character of `text`, then the length of the original text."""

    def starts_at(self, index: int) -> bool:
        """Return whether an original character starts at `index`."""
        return index == 0 or self.offsets[index] != self.offsets[index - 1]


def fold(text: str) -> FoldedText:
    """Return `text` in composed form (NFC), with plain quotes, dashes and blanks instead of typographic ones."""
    parts: list[str] = []
    offsets: list[int] = []
    end = 0
    for run in _NON_ASCII.finditer(text):
        parts.append(text[end : run.start()])
        offsets.extend(range(end, run.start()))
        for start, cluster in _clusters(run[0], run.start()):
            folded = "".join(_FOLDS.get(char, char) for char in unicodedata.normalize("NFC", cluster))
            parts.append(folded)
            offsets.extend([start] * len(folded))
        end = run.end()
    parts.append(text[end:])
    offsets.extend(range(end, len(text) + 1))
    return FoldedText("".join(parts), offsets)


def fold_text(text: str) -> str:
    """Return only the text of `fold`."""
    return text if text.isascii() else fold(text).text


def _clusters(run: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield each character with its combining marks, and its index."""
    cluster_start = 0
    for index in range(1, len(run) + 1):
        # Longer clusters are cut, because sorting n marks takes n² steps (2 s for 20,000).
        if index == len(run) or index - cluster_start > _MAX_MARKS or not unicodedata.combining(run[index]):
            yield start + cluster_start, run[cluster_start:index]
            cluster_start = index
