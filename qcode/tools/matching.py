"""Finds the passage that an edit means: exactly, then tolerant of blanks at line ends and of indentation. Pure.

Where nothing fits it names the nearest passage, so that the next try can be right.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from qcode.tools.refusal import Refused

_SHOWN_MATCHES = 10
_SHOWN_DIFF = 60
_COMPARED_WINDOWS = 25
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edited:
    """The text after an edit, the lines (from 1) where passages began, and a note where the match was not exact."""

    text: str
    lines: tuple[int, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Passage:
    start: int
    end: int
    new: str


def apply(text: str, old: str, new: str, shown: str, *, replaces_all: bool) -> Edited:
    """Return `text` with `old` replaced by `new`; raise `Refused` where `old` is not there, or not only once."""
    if not old:
        raise Refused("old_text is empty; use write to make a file, or give the passage to replace")
    if old == new:
        raise Refused("old_text and new_text are the same: there is nothing to change")
    note = ""
    passages = _exact(text, old, new)
    if not passages:
        for describe, key in _TOLERANCES:
            passages = _tolerant(text, old, new, key)
            if passages:
                note = f"Note: matched ignoring {describe}."
                break
    if not passages:
        raise Refused(_nearest(text, old, shown))
    lines = tuple(_line_of(text, passage.start) for passage in passages)
    if len(passages) > 1 and not replaces_all:
        listed = ", ".join(map(str, lines[:_SHOWN_MATCHES])) + (", ..." if len(lines) > _SHOWN_MATCHES else "")
        raise Refused(
            f"old_text is in {shown} {len(passages)} times, at lines {listed}: add lines around it until it is unique, "
            "or set replace_all. Nothing was changed"
        )
    parts, end = [], 0
    for passage in passages:
        parts += [text[end : passage.start], passage.new]
        end = passage.end
    return Edited("".join([*parts, text[end:]]), lines, note)


def _exact(text: str, old: str, new: str) -> list[_Passage]:
    found, at = [], text.find(old)
    while at >= 0:
        found.append(_Passage(at, at + len(old), new))
        at = text.find(old, at + len(old))
    return found


def _tolerant(text: str, old: str, new: str, key: Callable[[str], str]) -> list[_Passage]:
    """Match whole lines by `key`; lines that the edit does not change keep the form they have in the file."""
    lines = text.split("\n")
    has_newline = old.endswith("\n")
    wanted = old.split("\n")[: -1 if has_newline else None]
    keys, wanted_keys = [key(line) for line in lines], [key(line) for line in wanted]
    if not any(wanted_keys):
        return []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found, index = [], 0
    while index + len(wanted) <= len(lines):
        if keys[index : index + len(wanted)] != wanted_keys:
            index += 1
            continue
        after = index + len(wanted)
        is_last = after == len(lines)
        replacement = _in_form_of(lines[index:after], wanted, new, key)
        takes_newline = has_newline and not is_last
        if has_newline and is_last:
            replacement = replacement.removesuffix("\n")
        found.append(_Passage(starts[index], starts[after] - (0 if takes_newline else 1), replacement))
        index = after
    return found


def _in_form_of(present: list[str], wanted: list[str], new: str, key: Callable[[str], str]) -> str:
    """Return `new` with kept lines as they are in the file, and its indentation in the style of the file."""
    lines = new.split("\n")
    matcher = SequenceMatcher(None, wanted, lines, autojunk=False)
    indents = {_indent(want): _indent(line) for want, line in zip(wanted, present, strict=True) if want.strip()}
    result: list[str] = []
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            result += present[start:end]
        else:
            result += [_reindented(line, indents) for line in lines[new_start:new_end]]
    return "\n".join(result)


def _reindented(line: str, indents: dict[str, str]) -> str:
    indent = _indent(line)
    if not line.strip() or indent in indents:
        return indents.get(indent, indent) + line[len(indent) :] if line.strip() else line
    uses_tabs = any("\t" in there and "\t" not in asked for asked, there in indents.items())
    uses_blanks = any("\t" in asked and "\t" not in there for asked, there in indents.items())
    if uses_tabs:
        width = _width(indents)
        return "\t" * (len(indent) // width) + " " * (len(indent) % width) + line[len(indent) :]
    if uses_blanks:
        return indent.replace("\t", " " * _width(indents)) + line[len(indent) :]
    return line


def _width(indents: dict[str, str]) -> int:
    """Return how many blanks a tab stands for, from pairs of one indentation in both styles."""
    for asked, there in indents.items():
        tabs, blanks = (there, asked) if "\t" in there else (asked, there)
        if tabs.count("\t") and len(blanks) % tabs.count("\t") == 0:
            return len(blanks) // tabs.count("\t") or 4
    return 4


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _with_tabs_of(width: int) -> Callable[[str], str]:
    return lambda line: (_indent(line).expandtabs(width) + line.lstrip(" \t")).rstrip()


_TOLERANCES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("blanks at the ends of lines", str.rstrip),
    ("tabs against blanks in the indentation", _with_tabs_of(4)),
    ("tabs against blanks in the indentation", _with_tabs_of(2)),
    ("tabs against blanks in the indentation", _with_tabs_of(8)),
)


def _line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _nearest(text: str, old: str, shown: str) -> str:
    """Return what to say where nothing matches: the most similar passage, and how it differs from what was asked."""
    numbers = _NUMBERED.findall(old)
    if numbers and len(numbers) == len(old.rstrip("\n").split("\n")):
        return "old_text holds the line numbers that read puts before each line: leave them out. Nothing was changed"
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    start = _best_window(lines, wanted)
    if start is None:
        return f"old_text is not in {shown}, and nothing there is like it: read the file again. Nothing was changed"
    present = lines[start : start + len(wanted)]
    diff = list(unified_diff(wanted, present, "old_text", f"{shown}:{start + 1}", n=1, lineterm=""))
    shown_diff = "\n".join(line[:300] for line in diff[:_SHOWN_DIFF])
    if len(diff) > _SHOWN_DIFF:
        shown_diff += f"\n[{len(diff) - _SHOWN_DIFF} more lines]"
    where = f"lines {start + 1}-{start + len(present)}" if len(present) > 1 else f"line {start + 1}"
    return f"old_text is not in {shown}. Nothing was changed. The nearest passage is at {where}:\n{shown_diff}"


def _best_window(lines: list[str], wanted: list[str]) -> int | None:
    """Return the index of the window of lines most like `wanted`, or None where nothing is like it.

    Windows are ranked by the words they share with it, which is cheap, and the best few compared letter by letter.
    """
    size = min(len(wanted), len(lines))
    words = Counter(re.findall(r"\w+", "\n".join(wanted)))
    scores = [sum(min(words[word], 1) for word in set(re.findall(r"\w+", line))) for line in lines]
    total, windows = sum(scores[:size]), []
    for start in range(len(lines) - size + 1):
        windows.append((total, -start))
        if start + size < len(lines):
            total += scores[start + size] - scores[start]
    best = sorted(windows, reverse=True)[:_COMPARED_WINDOWS]
    asked = "\n".join(line.strip() for line in wanted)[:4_000]
    rated = []
    for score, start in best:
        if score:
            there = "\n".join(line.strip() for line in lines[-start : -start + size])[:4_000]
            rated.append((SequenceMatcher(None, there, asked, autojunk=len(asked) > 1_000).ratio(), start))
    if not rated or max(rated)[0] < 0.4:
        return None
    return -max(rated)[1]
