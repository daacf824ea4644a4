"""Finds where in a text a passage is: exactly, then tolerant of what models get wrong about blanks and signs. Pure.

Tolerant matches are of whole lines (or of one piece of a line), and never change what the edit did not mean to change:
lines that stay keep the form they have in the file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

from qcode.protocol.values import dataclass
from qcode.tools.indentation import indent_of, pairs_of, reindented
from qcode.tools.spellings import fold, fold_text

_BLANKS = re.compile(r"[ \t]+")
_RESTORED = 4_000
"""Characters of a passage up to which its typographic characters are kept one by one."""


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
    """Return every place of `old`, by the strictest comparison that finds any."""
    exact = _exact(text, old, new)
    if exact and not any(_splits_indentation(text, old, passage) for passage in exact):
        return Found(exact)
    tolerant = _tolerant(text, old, new)
    # A passage that begins inside an indentation is that line, indented too little: so must be what replaces it.
    return Found(exact) if exact and len(tolerant.passages) != len(exact) else tolerant


def _splits_indentation(text: str, old: str, passage: Passage) -> bool:
    before = text[text.rfind("\n", 0, passage.start) + 1 : passage.start]
    return old[0] in " \t" and bool(before) and not before.strip()


def _tolerant(text: str, old: str, new: str) -> Found:
    lines = text.split("\n")
    starts = _starts(lines)
    for ignored, key, is_shifted in _TOLERANCES:
        passages: tuple[Passage, ...] = ()
        if key is _folded:
            if text.isascii() and old.isascii():
                continue
            passages = tuple(_look_alikes(text, old, new))
        passages = passages or tuple(_whole_lines(lines, starts, old, new, key, is_shifted=is_shifted))
        if passages:
            return Found(passages, ignored)
    passages = tuple(_piece_of_a_line(text, old, new))
    return Found(passages, "how many blanks are between its words") if passages else Found()


def find_lines(text: str, old: str, new: str) -> Found:
    """Return every place where the lines of `old` are whole lines of `text`, by the strictest comparison that does."""
    lines = text.split("\n")
    starts = _starts(lines)
    for ignored, key, is_shifted in (_EXACTLY, *_TOLERANCES):
        passages = tuple(_whole_lines(lines, starts, old, new, key, is_shifted=is_shifted))
        if passages:
            return Found(passages, ignored)
    return Found()


def find_line(lines: Sequence[str], wanted: str, first: int) -> int | None:
    """Return the index of a line like `wanted`, at `first` or behind it: exactly, else by how it reads."""
    for key in (str, str.rstrip, str.strip, lambda line: " ".join(fold_text(line).split())):
        for index in range(first, len(lines)):
            if key(lines[index]) == key(wanted):
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


def _starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _whole_lines(
    lines: list[str], starts: list[int], old: str, new: str, key: Callable[[str], str], *, is_shifted: bool
) -> Iterator[Passage]:
    """Match whole lines by `key`; where indentation may be shifted, the shift must be the same for the same depth."""
    has_newline = old.endswith("\n")
    wanted = old.split("\n")[: -1 if has_newline else None]
    keys, wanted_keys = [key(line) for line in lines], [key(line) for line in wanted]
    if not any(wanted_keys):
        return
    index = 0
    while index + len(wanted) <= len(lines):
        after = index + len(wanted)
        if keys[index] != wanted_keys[0] or keys[index:after] != wanted_keys:
            index += 1
            continue
        present = lines[index:after]
        if is_shifted and pairs_of(wanted, present) is None:
            index += 1
            continue
        is_last = after == len(lines)
        replacement = _in_form_of(present, wanted, new, lines)
        if has_newline and is_last:
            replacement = replacement.removesuffix("\n")
        yield Passage(starts[index], starts[after] - (0 if has_newline and not is_last else 1), replacement)
        index = after


def _in_form_of(present: list[str], wanted: list[str], new: str, file: Sequence[str]) -> str:
    """Return `new` with kept lines as they are in the file, and its indentation in the style of the file."""
    lines = new.split("\n")
    pairs = {indent_of(want): indent_of(line) for want, line in zip(wanted, present, strict=True) if want.strip()}
    result: list[str] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(None, wanted, lines, autojunk=False).get_opcodes():
        if kind == "equal":
            result += present[start:end]
        else:
            result += [reindented(line, pairs, file) for line in lines[new_start:new_end]]
    return "\n".join(result)


def _look_alikes(text: str, old: str, new: str) -> Iterator[Passage]:
    """Match with typographic characters made plain; what stays keeps the characters of the file."""
    folded, wanted = fold(text), fold_text(old)
    at = folded.text.find(wanted)
    while at >= 0 and wanted:
        after = at + len(wanted)
        if folded.starts_at(at) and folded.starts_at(after):
            start, end = folded.offsets[at], folded.offsets[after]
            yield Passage(start, end, _restored(text[start:end], new))
            at = folded.text.find(wanted, after)
        else:
            at = folded.text.find(wanted, at + 1)


def _restored(present: str, new: str) -> str:
    if len(present) > _RESTORED or len(new) > _RESTORED:
        return new
    there, given = fold(present), fold(new)
    pieces: list[str] = []
    matcher = SequenceMatcher(None, there.text, given.text, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(present[there.offsets[start] : there.offsets[end]])
        else:
            pieces.append(new[given.offsets[new_start] : given.offsets[new_end]])
    return "".join(pieces)


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
    ("how many blanks are between its words", lambda line: " ".join(fold_text(line).split()), True),
)
