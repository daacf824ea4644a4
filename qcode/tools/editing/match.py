"""The search for the passage of an edit: first exact, then tolerant of wrong blanks and punctuation. Pure.

`apply` makes the edit; `find` and `find_lines` return positions. A tolerant match covers whole lines, or a part of one
line. Lines that the edit keeps stay unchanged in the file, and new lines get the file's indentation (`Reindenter`).
Example: the file indents with a tab, and the edit replaces "    a()" with "    a()\\n    b()". The passage is found by
its words, "\\ta()" stays, and "\\tb()" is added. If more than one passage matches, nothing is changed, and the refusal
says how to make it unique. `normalize` has other readings of an edit's text; `nearest` describes a missing passage.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from math import gcd

from qcode.protocol.tools import Refused
from qcode.text.diff import BoundedMatcher, Steps
from qcode.tools.editing.nearest import describe_nearest
from qcode.tools.editing.normalize import fold, fold_text, readings
from qcode.values import dataclass

_USUAL_WIDTH = 4  # columns of a tab


def indent_of(line: str) -> str:
    """Return the leading blanks and tabs of a line."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_pairs(old: Sequence[str], file_lines: Sequence[str]) -> dict[str, str] | None:
    """Return the indentation in the file for each indentation in the edit, None if they have different structures.

    Example: the edit indents its lines with 0, 4 and 8 blanks, the file with 0, 1 and 2 tabs. The result maps 4 blanks
    to one tab and 8 blanks to two. If the file has one tab in both lines, no mapping preserves the depth, so the result
    is None.
    """
    pairs: dict[str, str] = {}
    for edit_line, file_line in zip(old, file_lines, strict=True):
        indent = indent_of(file_line)
        if edit_line.strip() and pairs.setdefault(indent_of(edit_line), indent) != indent:
            return None
    depths = sorted((_columns(edit, _USUAL_WIDTH), _columns(file, _USUAL_WIDTH)) for edit, file in pairs.items())
    for (edit_depth, file_depth), (next_edit_depth, next_file_depth) in pairwise(depths):
        is_deeper_in_edit = edit_depth < next_edit_depth
        is_deeper_in_file = file_depth < next_file_depth
        if is_deeper_in_edit != is_deeper_in_file:
            return None
    return pairs


def indent_unit(file: Sequence[str]) -> int:
    """Return the greatest common divisor of the indentations of `file` in blanks, 0 if no line is indented."""
    return gcd(*(len(indent_of(line)) for line in file if line.strip() and "\t" not in indent_of(line)))


class Reindenter:
    """A converter of new lines to the indentation of the file. `pairs` maps edit indentation to file indentation.

    `unit` returns the `indent_unit` of the file; it is called at most once. Example: with the pairs "" → "" and 4
    blanks → one tab, 8 blanks become two tabs.
    """

    def __init__(self, pairs: Mapping[str, str], unit: Callable[[], int]) -> None:
        self._pairs = pairs
        self._is_kept = all(old == new for old, new in pairs.items())
        self._width = _tab_width(pairs)
        self._has_tabs = any("\t" in new for new in pairs.values())
        self._unit = unit
        self._indents: dict[int, str] = {}

    def reindent(self, line: str) -> str:
        """Return `line` with its indentation converted."""
        indent, text = indent_of(line), line.lstrip(" \t")
        if text and indent in self._pairs:
            return self._pairs[indent] + text
        if not text or self._is_kept:
            return line
        columns = _columns(indent, self._width)
        if columns not in self._indents:
            self._indents[columns] = self._indent(columns)
        return self._indents[columns] + text

    def _indent(self, depth: int) -> str:
        """Return the indentation in the file for `depth` columns in the edit, counted from the nearest known depth.

        Example: 4 blanks are one tab in the file, so 8 blanks, 4 columns deeper, are two tabs.
        """
        nearest = min(self._file_columns, key=lambda edit_columns: abs(edit_columns - depth))
        columns = max(self._file_columns[nearest] + round((depth - nearest) * self._scale), 0)
        if self._has_tabs:
            return "\t" * (columns // self._width) + " " * (columns % self._width)
        return " " * columns

    @cached_property
    def _file_columns(self) -> dict[int, int]:
        """The columns in the file for columns in the edit; it has at most √n items for a text of n characters."""
        file_columns: dict[int, int] = {}
        for old, new in self._pairs.items():
            file_columns.setdefault(_columns(old, self._width), _columns(new, self._width))
        return file_columns

    @cached_property
    def _scale(self) -> float:
        """The number of columns in the file for one column in the edit."""
        columns = sorted((_columns(old, self._width), _columns(new, self._width)) for old, new in self._pairs.items())
        (min_edit, min_file), (max_edit, max_file) = columns[0], columns[-1]
        if max_edit > min_edit:
            return (max_file - min_file) / (max_edit - min_edit)
        # All lines have the same depth. If it is not a multiple of the file's unit, the edit has another unit.
        unit = self._unit() if max_edit else 0
        is_other_unit = unit > 1 and bool(max_edit % unit)
        return max_file / max_edit if is_other_unit else 1.0


def _tab_width(pairs: Mapping[str, str]) -> int:
    """Return the width of a tab in blanks, derived from pairs of the same indentation in both styles."""
    for old, new in pairs.items():
        tabs, blanks = (new, old) if "\t" in new else (old, new)
        count = tabs.count("\t")
        if count and "\t" not in blanks and blanks and len(blanks) % count == 0:
            return len(blanks) // count
    return _USUAL_WIDTH


def _columns(indent: str, width: int) -> int:
    return len(indent.expandtabs(width))


_BLANKS = re.compile(r"[ \t]+")
_MAX_RESTORED_CHARS = 4_000
"""The maximum size of a passage in which the typographic characters of the file are restored."""
_MAX_COMPARED_LINES = 500_000
"""The maximum number of lines compared in candidates that fail for their indentation: about one second."""
_MAX_WRITTEN_LINES = 2_000_000
"""The maximum number of new lines in all replacements of one edit."""
_MAX_PASSED_CHARS = 50_000_000
"""The maximum total length of skipped matches, which start or end inside a character such as `…`, folded to `...`."""
_TOO_ALIKE = (
    "old_text matches too many passages with different indentation: send it with the exact indentation of the file. "
    "Nothing was changed"
)
_TOO_LONG = (
    f"too many replacements: together they would write more than {_MAX_WRITTEN_LINES:,} lines. Nothing was changed"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A range of a text, and its replacement."""

    start: int
    end: int
    new: str
    """The replacement."""


@dataclass(frozen=True, slots=True)
class PassageMatches:
    """The positions at which a passage was found."""

    passages: tuple[Passage, ...] = ()
    """In the order of the text; they do not overlap."""
    ignored_difference: str = ""
    """The kind of difference that the comparison ignored; empty if the match is exact."""
    reading: str = ""
    """The alternative reading of the edit that was found; empty if the edit was found as it was sent."""

    @property
    def note(self) -> str:
        """How the match differs from the edit as it was sent, in a sentence; empty if it does not."""
        ignored = f"ignoring {self.ignored_difference}" if self.ignored_difference else ""
        differences = ", ".join(filter(None, (self.reading, ignored)))
        return f"matched {differences}." if differences else ""


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A way to compare the lines of an edit with the lines of a file."""

    ignored_difference: str
    """The kind of difference that it ignores; empty if it ignores none."""
    key_of: Callable[[str], str]
    """Returns the key of a line. Lines with the same key are equal."""
    checks_depth: bool = False
    """The lines must also be indented with the same structure: `indent_pairs` must not return None."""


def find(text: str, old: str, new: str) -> PassageMatches:
    """Return all positions of `old`, by the strictest comparison that finds one. Raise `Refused` beyond a limit."""
    exact = _exact_passages(text, old, new)
    if exact and not _splits_indentation(text, old, exact):
        return PassageMatches(exact)
    # A match inside an indentation means that the model sent too few blanks, so tolerant matches are better. But they
    # must be the same passages.
    tolerant = _tolerant(text, old, new)
    is_better = not exact or len(tolerant.passages) == len(exact)
    return tolerant if is_better else PassageMatches(exact)


def _splits_indentation(text: str, old: str, passages: Sequence[Passage]) -> bool:
    """Return whether one of the sorted `passages` starts inside the indentation of a line.

    Example: "  a()" occurs in "    a()", but the line has two more blanks.
    """
    if old[0] not in " \t":
        return False
    line_start = line_end = text_start = 0
    for passage in passages:
        if passage.start >= line_end:
            line_start = text.rfind("\n", line_end, passage.start) + 1 or line_end
            line_end = text.find("\n", passage.start) + 1 or len(text) + 1
            line = text[line_start:line_end]
            text_start = line_start + len(line) - len(line.lstrip())
        if line_start < passage.start <= text_start:
            return True
    return False


def _tolerant(text: str, old: str, new: str) -> PassageMatches:
    """Return the matches of the first tolerant comparison that finds any, otherwise those within a line."""
    lines = _Lines(text)
    wanted = _WantedLines(old, new)
    is_possible = lines.may_match(wanted)
    for comparison in _TOLERANT:
        passages: tuple[Passage, ...] = ()
        if comparison is _FOLDED:
            if text.isascii() and old.isascii():
                continue
            passages = tuple(_match_folded(text, old, new))
        if not passages and is_possible:
            passages = tuple(lines.passages(wanted, comparison))
        if passages:
            return PassageMatches(passages, comparison.ignored_difference)
    passages = tuple(_match_within_line(text, old, new))
    return PassageMatches(passages, "the number of spaces between words") if passages else PassageMatches()


def find_lines(text: str, old: str, new: str) -> PassageMatches:
    """Return all positions at which `old` is whole lines of `text`, by the strictest comparison that finds one."""
    lines = _Lines(text)
    wanted = _WantedLines(old, new)
    for comparison in (_EXACT, *_TOLERANT):
        passages = tuple(lines.passages(wanted, comparison))
        if passages:
            return PassageMatches(passages, comparison.ignored_difference)
    return PassageMatches()


def find_line(lines: Sequence[str], line: str, first: int) -> int | None:
    """Return the index of the first line, at or after `first`, that equals `line`; None if there is none.

    If no line is equal, white space at the ends of lines is ignored, then also the kind of blanks and punctuation.
    """
    for key in (str, str.rstrip, str.strip, _words):
        wanted_key = key(line)
        for index in range(first, len(lines)):
            if key(lines[index]) == wanted_key:
                return index
    return None


def line_of(text: str, offset: int) -> int:
    """Return the number, from 1, of the line that contains `offset`."""
    return text.count("\n", 0, offset) + 1


def lines_of(text: str, offsets: Iterable[int]) -> Iterator[int]:
    """Yield the line number, from 1, of each of the sorted offsets."""
    line, last = 1, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        last = offset
        yield line


def _exact_passages(text: str, old: str, new: str) -> tuple[Passage, ...]:
    passages: list[Passage] = []
    position = text.find(old)
    while position >= 0:
        passages.append(Passage(position, position + len(old), new))
        position = text.find(old, position + len(old))
    return tuple(passages)


class _WantedLines:
    """The lines of a passage to find, and their replacement."""

    def __init__(self, old: str, new: str) -> None:
        self.ends_with_newline = old.endswith("\n")
        self.lines = old.removesuffix("\n").split("\n")
        self.new_lines = new.split("\n")

    @cached_property
    def _changes(self) -> Sequence[tuple[str, int, int, int, int]]:
        """The changes from the old to the new lines, as opcodes of `difflib`."""
        return BoundedMatcher(self.lines, self.new_lines, autojunk=False).get_opcodes()

    def formatted_like(self, file_lines: Sequence[str], unit: Callable[[], int]) -> str:
        """Return the replacement: kept lines unchanged from the file, new lines in its indentation style."""
        line_pairs = zip(self.lines, file_lines, strict=True)
        indents = {
            indent_of(edit_line): indent_of(file_line) for edit_line, file_line in line_pairs if edit_line.strip()
        }
        reindenter = Reindenter(indents, unit)
        result: list[str] = []
        for kind, start, end, new_start, new_end in self._changes:
            if kind == "equal":
                result += file_lines[start:end]
            else:
                result += [reindenter.reindent(line) for line in self.new_lines[new_start:new_end]]
        return "\n".join(result)


class _Lines:
    """The lines of a text, indexed to find passages of whole lines."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]

    @cached_property
    def _unit(self) -> int:
        return indent_unit(self.lines)

    def may_match(self, wanted: _WantedLines) -> bool:
        """Return whether the loosest comparison finds the passage. If not, no stricter one can."""
        keys = [_words(line) for line in wanted.lines]
        searched, pattern = _as_characters([_words(line) for line in self.lines], keys)
        return not any(keys) or pattern in searched

    def passages(self, wanted: _WantedLines, comparison: _Comparison) -> Iterator[Passage]:
        """Yield the passages of whole lines that are equal to the wanted ones."""
        wanted_keys = [comparison.key_of(line) for line in wanted.lines]
        if not any(wanted_keys):
            return
        searched, pattern = _as_characters([comparison.key_of(line) for line in self.lines], wanted_keys)
        count = len(wanted.lines)
        compared = replaced = 0
        index = searched.find(pattern)
        while index >= 0:
            after = index + count
            file_lines = self.lines[index:after]
            if comparison.checks_depth and indent_pairs(wanted.lines, file_lines) is None:
                compared += count
                if compared > _MAX_COMPARED_LINES:
                    raise Refused(_TOO_ALIKE)
                index = searched.find(pattern, index + 1)
                continue
            replaced += len(wanted.new_lines)
            if replaced > _MAX_WRITTEN_LINES:
                raise Refused(_TOO_LONG)
            yield self._passage(index, after, wanted, wanted.formatted_like(file_lines, lambda: self._unit))
            index = searched.find(pattern, after)

    def _passage(self, index: int, after: int, wanted: _WantedLines, replacement: str) -> Passage:
        """Return the passage of the lines from `index` to `after`; it ends with their last newline, if there is one."""
        includes_newline = wanted.ends_with_newline and after != len(self.lines)
        if wanted.ends_with_newline and not includes_newline:
            replacement = replacement.removesuffix("\n")
        return Passage(self._starts[index], self._starts[after] - (0 if includes_newline else 1), replacement)


def _as_characters(text_keys: Sequence[str], wanted_keys: Sequence[str]) -> tuple[str, str]:
    """Encode both sequences with one character per distinct key, so that `str.find` can search in linear time.

    Example: with the characters 1 and 2 for the wanted keys `b c`, the text keys `a b c b` become `0121`.
    """
    characters = {key: chr(number) for number, key in enumerate(dict.fromkeys(wanted_keys), start=1)}
    searched = "".join([characters.get(key, "\0") for key in text_keys])
    return searched, "".join([characters[key] for key in wanted_keys])


def _match_folded(text: str, old: str, new: str) -> Iterator[Passage]:
    """Match with typographic characters replaced by plain ones; unchanged text keeps the characters of the file."""
    folded, folded_old = fold(text), fold_text(old)
    restored = _RestoredText(new)
    passed = 0
    position = folded.text.find(folded_old)
    while position >= 0 and folded_old and passed < _MAX_PASSED_CHARS:
        after = position + len(folded_old)
        if folded.starts_at(position) and folded.starts_at(after):
            start, end = folded.offsets[position], folded.offsets[after]
            yield Passage(start, end, restored.like(text[start:end]))
            position = folded.text.find(folded_old, after)
        else:
            passed += len(folded_old)
            position = folded.text.find(folded_old, position + 1)


class _RestoredText:
    """A replacement with the typographic characters of a passage restored, computed once per passage."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._folded_new = fold(new)
        self._steps = Steps()
        self._cached_texts: dict[str, str] = {}

    def like(self, file_text: str) -> str:
        """Return the replacement for `file_text`, with the unchanged characters from `file_text`.

        Example: the file has ‘a’ = 1, the edit replaces 'a' = 1 with 'a' = 2; the result is ‘a’ = 2.
        """
        if len(file_text) > _MAX_RESTORED_CHARS or len(self._new) > _MAX_RESTORED_CHARS:
            return self._new
        if file_text not in self._cached_texts:
            file_folded, folded = fold(file_text), self._folded_new
            parts: list[str] = []
            matcher = BoundedMatcher(file_folded.text, folded.text, autojunk=False, steps=self._steps)
            for kind, start, end, new_start, new_end in matcher.get_opcodes():
                if kind == "equal":
                    parts.append(file_text[file_folded.offsets[start] : file_folded.offsets[end]])
                else:
                    parts.append(self._new[folded.offsets[new_start] : folded.offsets[new_end]])
            self._cached_texts[file_text] = "".join(parts)
        return self._cached_texts[file_text]


def _match_within_line(text: str, old: str, new: str) -> Iterator[Passage]:
    """Match part of one line, ignoring the number of blanks between words."""
    words = old.split()
    if "\n" in old.strip() or len(words) < 2:
        return
    # A regular expression would take forever in a file with one long line.
    pattern = " ".join(words)
    single = _with_single_blanks(text)
    position = single.text.find(pattern)
    while position >= 0:
        after = position + len(pattern)
        # A blank replacement stays as it is: it may be the blank between two other words.
        yield Passage(single.original_offset(position), single.original_offset(after), new.strip() or new)
        position = single.text.find(pattern, after)


@dataclass(frozen=True, slots=True)
class _SingleSpacedText:
    """A text with each run of blanks replaced by one.

    Example: "a  b   c" becomes "a b c", with the `ends` [2, 4] and the `shifts` [0, 1, 3]. The offset 4 of "c" is after
    two runs, so its original offset is 4 + 3.
    """

    text: str
    ends: list[int]
    """The offset after each run."""
    shifts: list[int]
    """The difference to the original offsets before all runs, and after each run."""

    def original_offset(self, offset: int) -> int:
        return offset + self.shifts[bisect_right(self.ends, offset)]


def _with_single_blanks(text: str) -> _SingleSpacedText:
    parts, ends, shifts = [], [], [0]
    last = size = 0
    for run in _BLANKS.finditer(text):
        parts += [text[last : run.start()], " "]
        size += run.start() - last + 1
        last = run.end()
        ends.append(size)
        shifts.append(last - size)
    return _SingleSpacedText("".join([*parts, text[last:]]), ends, shifts)


def _with_tabs_of(width: int) -> Callable[[str], str]:
    """Return a function that expands the tabs of an indentation to `width` blanks."""
    return lambda line: (indent_of(line).expandtabs(width) + line.lstrip(" \t")).rstrip()


def _words(line: str) -> str:
    """Return the words of a line with single blanks between them, in plain characters."""
    return " ".join(fold_text(line).split())


def _fold_line(line: str) -> str:
    return fold_text(line).rstrip()


_EXACT = _Comparison("", str)
_FOLDED = _Comparison("the kind of quotes, dashes, spaces or composed characters", _fold_line)
_TABS = "tabs and spaces in the indentation"
_TOLERANT = (
    _Comparison("trailing whitespace", str.rstrip),
    _Comparison(_TABS, _with_tabs_of(4)),
    _Comparison(_TABS, _with_tabs_of(2)),
    _Comparison(_TABS, _with_tabs_of(8)),
    _Comparison("the indentation", str.strip, checks_depth=True),
    _FOLDED,
    _Comparison(
        "the kind of quotes, dashes or spaces, and the indentation",
        lambda line: fold_text(line).strip(),
        checks_depth=True,
    ),
    _Comparison("the number of spaces between words", _words, checks_depth=True),
)
"""The comparisons that ignore a difference, the strictest first."""


MAX_LENGTH = 64 * 1024 * 1024
"""The maximum size of a file after an edit, in characters."""

_MAX_SHOWN_MATCHES = 10
_MAX_SHOWN_LINE_CHARS = 120


@dataclass(frozen=True, slots=True)
class EditResult:
    """The result of an edit."""

    text: str
    """The whole text after the edit."""
    lines: tuple[int, ...]
    """The number, from 1, of the first line of each replaced passage."""
    note: str = ""
    """A note on a match that was not exact, otherwise empty."""


def apply(text: str, old: str, new: str, label: str, *, replaces_all: bool = False) -> EditResult:
    """Return `text` with `old` replaced by `new`. Raise `Refused` if `old` is missing or ambiguous."""
    if not old:
        raise Refused("old_text is empty; send the passage to replace, or use write to create a file")
    if old == new:
        raise Refused("old_text and new_text are identical; no change made")
    matches = search(text, old, new)
    if not matches.passages:
        raise Refused(describe_nearest(text, old, new, label))
    lines = tuple(lines_of(text, (passage.start for passage in matches.passages)))
    if len(lines) > 1 and not replaces_all:
        raise Refused(_ambiguous(text, lines, label, matches.note))
    length = len(text) + sum(len(passage.new) - (passage.end - passage.start) for passage in matches.passages)
    if length > MAX_LENGTH:
        raise Refused(f"the file would have {length:,} characters, more than {MAX_LENGTH:,}. Nothing was changed")
    note = f"Note: {matches.note}" if matches.note else ""
    return EditResult(replace(text, matches.passages), lines, note)


def search(text: str, old: str, new: str) -> PassageMatches:
    """Return the positions of `old`; try alternative readings of the edit if `old` is not found."""
    matches = find(text, old, new)
    if matches.passages:
        return matches
    for reading in readings(old, new):
        matches = find(text, reading.old, reading.new)
        if not matches.passages:
            continue
        numbers = lines_of(text, (passage.start for passage in matches.passages))
        at_copied_line = tuple(
            passage for passage, line in zip(matches.passages, numbers, strict=True) if line == reading.line
        )
        return PassageMatches(at_copied_line or matches.passages, matches.ignored_difference, reading.label)
    return PassageMatches()


def replace(text: str, passages: Sequence[Passage]) -> str:
    """Return `text` with every passage replaced; passages are sorted and do not overlap."""
    parts, end = [], 0
    for passage in passages:
        parts += [text[end : passage.start], passage.new]
        end = passage.end
    return "".join([*parts, text[end:]])


def _ambiguous(text: str, lines: Sequence[int], label: str, note: str) -> str:
    """Return the message for a passage that matches several times, with each match. `note` is that of the matches."""
    listed = ", ".join(map(str, lines[:_MAX_SHOWN_MATCHES])) + (", ..." if len(lines) > _MAX_SHOWN_MATCHES else "")
    file_lines = text.split("\n")
    context = "\n".join(
        f"{number:>6}\t{file_lines[number - 1][:_MAX_SHOWN_LINE_CHARS]}"
        for line in lines[:_MAX_SHOWN_MATCHES]
        for number in (line - 1, line)
        if number
    )
    tolerance = f" ({note.removesuffix('.')})" if note else ""
    return (
        f"old_text occurs {len(lines)} times in {label}, at lines {listed}{tolerance}: add lines around it until it is "
        f"unique, or set replace_all. Nothing was changed. Each match with the line before it:\n{context}"
    )
