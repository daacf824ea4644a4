"""Finds the passage that an edit means, exactly, then tolerant of what models get wrong about blanks and signs. Pure.

`apply` makes the edit; `find` and `find_lines` return the places. Tolerant matches are of whole lines (or of one
piece of a line) and never change what the edit did not mean to change: lines that stay keep the form they have in
the file, new lines get its indentation (`Reindenter`). If it is not clear which passage is meant, nothing is changed
and the refusal says what would make it clear. Other readings of the text of an edit are in `normalize`, what to say
about a passage that is absent in `nearest`.
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

_USUAL_WIDTH = 4


def indent_of(line: str) -> str:
    """Return the blanks and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def pairs_of(asked: Sequence[str], present: Sequence[str]) -> dict[str, str] | None:
    """Return which indentation of the file stands for each that was asked for.

    None where no one-to-one relation holds that keeps what is deeper deeper: such passages do not mean the same.
    """
    pairs: dict[str, str] = {}
    for want, line in zip(asked, present, strict=True):
        if want.strip() and pairs.setdefault(indent_of(want), indent_of(line)) != indent_of(line):
            return None
    depths = sorted((_columns(asked, _USUAL_WIDTH), _columns(there, _USUAL_WIDTH)) for asked, there in pairs.items())
    is_kept = all((low < high) == (there < other) for (low, there), (high, other) in pairwise(depths))
    return pairs if is_kept else None


def indent_unit(file: Sequence[str]) -> int:
    """Return the number of blanks that every indentation of `file` is a multiple of, 0 if it has none."""
    return gcd(*(len(indent_of(line)) for line in file if line.strip() and "\t" not in indent_of(line)))


class Reindenter:
    """Gives new lines the indentation style of the file, from `pairs` of an indentation asked for and one present.

    `unit` returns `indent_unit` of the file; it is called at most once.
    """

    def __init__(self, pairs: Mapping[str, str], unit: Callable[[], int]) -> None:
        self._pairs = pairs
        self._is_kept = all(asked == there for asked, there in pairs.items())
        self._width = _tab_width(pairs)
        self._has_tabs = any("\t" in there for there in pairs.values())
        self._unit = unit
        self._indents: dict[int, str] = {}

    def reindented(self, line: str) -> str:
        """Return `line` with its indentation in the style of the file."""
        indent, text = indent_of(line), line.lstrip(" \t")
        if not text or indent in self._pairs:
            return self._pairs[indent] + text if text else line
        if self._is_kept:
            return line
        columns = _columns(indent, self._width)
        if columns not in self._indents:
            self._indents[columns] = self._indent(columns)
        return self._indents[columns] + text

    def _indent(self, asked: int) -> str:
        base = min(self._known, key=lambda known: abs(known - asked))
        columns = max(self._known[base] + round((asked - base) * self._scale), 0)
        if self._has_tabs:
            return "\t" * (columns // self._width) + " " * (columns % self._width)
        return " " * columns

    @cached_property
    def _known(self) -> dict[int, int]:
        """Columns that were asked for, each with those of the file; at most √n in a text of n characters."""
        known: dict[int, int] = {}
        for asked, there in self._pairs.items():
            known.setdefault(_columns(asked, self._width), _columns(there, self._width))
        return known

    @cached_property
    def _scale(self) -> float:
        """How many columns of the file one that was asked for is worth."""
        known = sorted(
            (_columns(asked, self._width), _columns(there, self._width)) for asked, there in self._pairs.items()
        )
        (low, low_there), (high, high_there) = known[0], known[-1]
        if high > low:
            return (high_there - low_there) / (high - low)
        unit = self._unit() if high else 0
        is_other_unit = unit > 1 and bool(high % unit)
        return high_there / high if is_other_unit else 1.0


def _tab_width(pairs: Mapping[str, str]) -> int:
    """Return how many blanks a tab stands for, from pairs of one indentation in both styles."""
    for asked, there in pairs.items():
        tabs, blanks = (there, asked) if "\t" in there else (asked, there)
        count = tabs.count("\t")
        if count and "\t" not in blanks and blanks and len(blanks) % count == 0:
            return len(blanks) // count
    return _USUAL_WIDTH


def _columns(indent: str, width: int) -> int:
    return len(indent.expandtabs(width))


_BLANKS = re.compile(r"[ \t]+")
_RESTORED = 4_000
"""Characters of a passage up to which its typographic characters are kept one by one."""
_MAX_COMPARED_LINES = 500_000
"""Lines of passages that are compared and have another shift of indentation at each line, about a second."""
_MAX_WRITTEN_LINES = 2_000_000
_MAX_PASSED_CHARS = 50_000_000
_TOO_ALIKE = (
    "old_text is like too many passages of the file, each with another indentation: give it with the indentation "
    "of the file. Nothing was changed"
)
_TOO_LONG = (
    f"old_text is in too many places to replace: the new text has more than {_MAX_WRITTEN_LINES:,} lines in all. "
    "Nothing was changed"
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A place in a text, and what is to stand there."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Found:
    """Where a passage is, in order, and what was ignored to find it there (empty: nothing)."""

    passages: tuple[Passage, ...] = ()
    ignored: str = ""


def find(text: str, old: str, new: str) -> Found:
    """Return every place of `old`, by the strictest comparison that finds any; raise `Refused` past a limit."""
    exact = _exact(text, old, new)
    if exact and not _splits_indentation(text, old, exact):
        return Found(exact)
    tolerant = _tolerant(text, old, new)
    # A passage that begins inside an indentation is that line, indented too little: so must be what replaces it.
    return Found(exact) if exact and len(tolerant.passages) != len(exact) else tolerant


def _splits_indentation(text: str, old: str, passages: Sequence[Passage]) -> bool:
    """Return whether one of `passages`, which are in order, begins inside the indentation of a line."""
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


def _tolerant(text: str, old: str, new: str) -> Found:
    lines = _Lines(text)
    wanted = _Wanted(old, new)
    is_possible = lines.may_hold(wanted)
    for ignored, key, is_shifted in _TOLERANCES:
        passages: tuple[Passage, ...] = ()
        if key is _folded:
            if text.isascii() and old.isascii():
                continue
            passages = tuple(_look_alikes(text, old, new))
        if not passages and is_possible:
            passages = tuple(lines.passages(wanted, key, is_shifted=is_shifted))
        if passages:
            return Found(passages, ignored)
    passages = tuple(_piece_of_a_line(text, old, new))
    return Found(passages, "how many blanks are between its words") if passages else Found()


def find_lines(text: str, old: str, new: str) -> Found:
    """Return every place where the lines of `old` are whole lines of `text`, by the strictest comparison that does."""
    lines = _Lines(text)
    wanted = _Wanted(old, new)
    for ignored, key, is_shifted in (_EXACTLY, *_TOLERANCES):
        passages = tuple(lines.passages(wanted, key, is_shifted=is_shifted))
        if passages:
            return Found(passages, ignored)
    return Found()


def find_line(lines: Sequence[str], wanted: str, first: int) -> int | None:
    """Return the index of a line like `wanted`, at `first` or behind it: exactly, else by how it reads."""
    for key in (str, str.rstrip, str.strip, _words):
        wanted_key = key(wanted)
        for index in range(first, len(lines)):
            if key(lines[index]) == wanted_key:
                return index
    return None


def line_of(text: str, offset: int) -> int:
    """Return the number of the line, from 1, that `offset` is in."""
    return text.count("\n", 0, offset) + 1


def lines_of(text: str, offsets: Iterable[int]) -> Iterator[int]:
    """Yield the number of the line, from 1, of each offset; they are in order."""
    line, last = 1, 0
    for offset in offsets:
        line += text.count("\n", last, offset)
        last = offset
        yield line


def _exact(text: str, old: str, new: str) -> tuple[Passage, ...]:
    found, at = [], text.find(old)
    while at >= 0:
        found.append(Passage(at, at + len(old), new))
        at = text.find(old, at + len(old))
    return tuple(found)


class _Wanted:
    """The lines of a passage to find, and the lines that replace it."""

    def __init__(self, old: str, new: str) -> None:
        self.has_newline = old.endswith("\n")
        self.lines = old.split("\n")[: -1 if self.has_newline else None]
        self.new_lines = new.split("\n")

    @cached_property
    def _changes(self) -> Sequence[tuple[str, int, int, int, int]]:
        return BoundedMatcher(self.lines, self.new_lines, autojunk=False).get_opcodes()

    def in_form_of(self, present: Sequence[str], unit: Callable[[], int]) -> str:
        """Return the new lines with kept lines as they are in the file, and indentation in the style of the file."""
        both = zip(self.lines, present, strict=True)
        indentation = Reindenter({indent_of(want): indent_of(line) for want, line in both if want.strip()}, unit)
        result: list[str] = []
        for kind, start, end, new_start, new_end in self._changes:
            if kind == "equal":
                result += present[start:end]
            else:
                result += [indentation.reindented(line) for line in self.new_lines[new_start:new_end]]
        return "\n".join(result)


class _Lines:
    """The lines of a text, to find passages of whole lines in."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self.lines)]

    @cached_property
    def _unit(self) -> int:
        return indent_unit(self.lines)

    def may_hold(self, wanted: _Wanted) -> bool:
        """Return whether a passage is there by the loosest comparison, without which no other finds it."""
        keys = [_words(line) for line in wanted.lines]
        searched, pattern = _as_characters([_words(line) for line in self.lines], keys)
        return not any(keys) or pattern in searched

    def passages(self, wanted: _Wanted, key: Callable[[str], str], *, is_shifted: bool) -> Iterator[Passage]:
        """Yield whole lines that match by `key`; if `is_shifted`, equal depths must be shifted equally."""
        wanted_keys = [key(line) for line in wanted.lines]
        if not any(wanted_keys):
            return
        searched, pattern = _as_characters([key(line) for line in self.lines], wanted_keys)
        count = len(wanted.lines)
        compared = written = 0
        index = searched.find(pattern)
        while index >= 0:
            after = index + count
            present = self.lines[index:after]
            if is_shifted and pairs_of(wanted.lines, present) is None:
                compared += count
                if compared > _MAX_COMPARED_LINES:
                    raise Refused(_TOO_ALIKE)
                index = searched.find(pattern, index + 1)
                continue
            written += len(wanted.new_lines)
            if written > _MAX_WRITTEN_LINES:
                raise Refused(_TOO_LONG)
            yield self._passage(index, after, wanted, wanted.in_form_of(present, lambda: self._unit))
            index = searched.find(pattern, after)

    def _passage(self, index: int, after: int, wanted: _Wanted, replacement: str) -> Passage:
        keeps_break = wanted.has_newline and after != len(self.lines)
        if wanted.has_newline and not keeps_break:
            replacement = replacement.removesuffix("\n")
        return Passage(self._starts[index], self._starts[after] - (0 if keeps_break else 1), replacement)


def _as_characters(keys: Sequence[str], wanted: Sequence[str]) -> tuple[str, str]:
    """Return both with one character for each key of `wanted`: `str.find` is linear, comparing slices is not."""
    characters = {key: chr(number) for number, key in enumerate(dict.fromkeys(wanted), start=1)}
    return "".join([characters.get(key, "\0") for key in keys]), "".join([characters[key] for key in wanted])


def _look_alikes(text: str, old: str, new: str) -> Iterator[Passage]:
    """Match with typographic characters made plain; what stays keeps the characters of the file."""
    folded, wanted = fold(text), fold_text(old)
    restored = _Restored(new)
    passed = 0
    at = folded.text.find(wanted)
    while at >= 0 and wanted and passed < _MAX_PASSED_CHARS:
        after = at + len(wanted)
        if folded.starts_at(at) and folded.starts_at(after):
            start, end = folded.offsets[at], folded.offsets[after]
            yield Passage(start, end, restored.like(text[start:end]))
            at = folded.text.find(wanted, after)
        else:
            passed += len(wanted)
            at = folded.text.find(wanted, at + 1)


class _Restored:
    """A new text with the typographic characters that a passage of the file has, computed once for each passage."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._folded = fold(new)
        self._steps = Steps()
        self._known: dict[str, str] = {}

    def like(self, present: str) -> str:
        if len(present) > _RESTORED or len(self._new) > _RESTORED:
            return self._new
        if present not in self._known:
            there, given = fold(present), self._folded
            pieces: list[str] = []
            matcher = BoundedMatcher(there.text, given.text, autojunk=False, steps=self._steps)
            for kind, start, end, new_start, new_end in matcher.get_opcodes():
                if kind == "equal":
                    pieces.append(present[there.offsets[start] : there.offsets[end]])
                else:
                    pieces.append(self._new[given.offsets[new_start] : given.offsets[new_end]])
            self._known[present] = "".join(pieces)
        return self._known[present]


def _piece_of_a_line(text: str, old: str, new: str) -> Iterator[Passage]:
    """Match a piece of one line whatever the number of blanks between its words."""
    words = old.split()
    if "\n" in old.strip() or len(words) < 2:
        return
    # Not by a regular expression: in a file of one long line that takes for ever, with everything else standing still.
    wanted = " ".join(words)
    single, behind, shifts = _with_single_blanks(text)
    at = single.find(wanted)
    while at >= 0:
        after = at + len(wanted)
        start, end = (place + shifts[bisect_right(behind, place)] for place in (at, after))
        yield Passage(start, end, new.strip() if new.strip() else new)
        at = single.find(wanted, after)


def _with_single_blanks(text: str) -> tuple[str, list[int], list[int]]:
    """Return `text` with each run of blanks as one, the places behind them, and how much is missing before each.

    The first of `shifts` is for what is before all of them.
    """
    pieces, behind, shifts = [], [], [0]
    last = size = 0
    for run in _BLANKS.finditer(text):
        pieces += [text[last : run.start()], " "]
        size += run.start() - last + 1
        last = run.end()
        behind.append(size)
        shifts.append(last - size)
    return "".join([*pieces, text[last:]]), behind, shifts


def _with_tabs_of(width: int) -> Callable[[str], str]:
    return lambda line: (indent_of(line).expandtabs(width) + line.lstrip(" \t")).rstrip()


def _words(line: str) -> str:
    return " ".join(fold_text(line).split())


def _folded(line: str) -> str:
    return fold_text(line).rstrip()


_EXACTLY: tuple[str, Callable[[str], str], bool] = ("", str, False)
_TABS = "tabs against blanks in the indentation"
_TOLERANCES: tuple[tuple[str, Callable[[str], str], bool], ...] = (
    ("blanks at the ends of lines", str.rstrip, False),
    (_TABS, _with_tabs_of(4), False),
    (_TABS, _with_tabs_of(2), False),
    (_TABS, _with_tabs_of(8), False),
    ("the indentation", str.strip, True),
    ("which quotes, dashes, blanks or composed characters are used", _folded, False),
    ("which quotes, dashes or blanks are used, and the indentation", lambda line: fold_text(line).strip(), True),
    ("how many blanks are between its words", _words, True),
)


MAX_LENGTH = 64 * 1024 * 1024
"""Characters of a file after an edit."""

_SHOWN_MATCHES = 10
_SHOWN_LINE = 120


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after an edit, the lines (from 1) where passages began, and a note where the match was not exact."""

    text: str
    lines: tuple[int, ...]
    note: str = ""


def apply(text: str, old: str, new: str, shown: str, *, replaces_all: bool = False) -> Edited:
    """Return `text` with `old` replaced by `new`; raise `Refused` where `old` is not there, or not only once."""
    if not old:
        raise Refused("old_text is empty; use write to make a file, or give the passage to replace")
    if old == new:
        raise Refused("old_text and new_text are the same: there is nothing to change")
    found, note = search(text, old, new)
    if not found.passages:
        raise Refused(describe_nearest(text, old, new, shown))
    lines = tuple(lines_of(text, (passage.start for passage in found.passages)))
    if len(lines) > 1 and not replaces_all:
        raise Refused(_ambiguous(text, lines, shown, note))
    length = len(text) + sum(len(one.new) - (one.end - one.start) for one in found.passages)
    if length > MAX_LENGTH:
        raise Refused(f"the file would have {length:,} characters, more than {MAX_LENGTH:,}. Nothing was changed")
    return Edited(replace(text, found.passages), lines, note)


def search(text: str, old: str, new: str) -> tuple[Found, str]:
    """Return where `old` is and a note on how it was found; with other readings where the text itself is not there."""
    found = find(text, old, new)
    if found.passages:
        return found, f"Note: matched ignoring {found.ignored}." if found.ignored else ""
    for reading in readings(old, new):
        found = find(text, reading.old, reading.new)
        numbers = lines_of(text, (one.start for one in found.passages))
        at_line = tuple(one for one, line in zip(found.passages, numbers, strict=True) if line == reading.line)
        if found.passages:
            ignored = f", ignoring {found.ignored}" if found.ignored else ""
            return Found(at_line or found.passages, found.ignored), f"Note: matched {reading.what}{ignored}."
    return Found(), ""


def replace(text: str, passages: Sequence[Passage]) -> str:
    """Return `text` with every passage replaced; they are in order and do not overlap."""
    parts, end = [], 0
    for passage in passages:
        parts += [text[end : passage.start], passage.new]
        end = passage.end
    return "".join([*parts, text[end:]])


def _ambiguous(text: str, lines: Sequence[int], shown: str, note: str) -> str:
    listed = ", ".join(map(str, lines[:_SHOWN_MATCHES])) + (", ..." if len(lines) > _SHOWN_MATCHES else "")
    present = text.split("\n")
    around = "\n".join(
        f"{number:>6}\t{present[number - 1][:_SHOWN_LINE]}"
        for line in lines[:_SHOWN_MATCHES]
        for number in (line - 1, line)
        if number
    )
    how = f" ({note.removeprefix('Note: ').removesuffix('.')})" if note else ""
    return (
        f"old_text is in {shown} {len(lines)} times, at lines {listed}{how}: add lines around it until it is unique, "
        f"or set replace_all. Nothing was changed. Each place with the line before it:\n{around}"
    )
