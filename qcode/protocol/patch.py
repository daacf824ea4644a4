"""The `*** Begin Patch` form that GPT models write: which files it is about, and what it does to each. Pure.

It is here because two rooms must read it in one way: what may be changed is judged by the paths that are changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

BEGIN, END = "*** Begin Patch", "*** End Patch"
_AT_END = "*** End of File"
_SECTION = re.compile(r"\*\*\* (Add|Update|Delete) File: *(.*\S) *")
_MOVE = re.compile(r"\*\*\* Move to: *(.*\S) *")
_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?")
_HEREDOC = re.compile(r"(?:apply_patch )?<<-?\s*(['\"]?)(\w+)\1\n(.*)\n\2", re.DOTALL)
_FENCE = re.compile(r"```[\w+-]*\n(.*)\n```", re.DOTALL)


class PatchError(ValueError):
    """A text is no such patch. The message is one line that says where and why."""


@dataclass(slots=True)
class Hunk:
    """Lines as they are (`old`) and as they are to be (`new`). `anchors` are lines that stand before it, in order.

    An anchor that came with line numbers is only a hint. `is_at_end`: the hunk reaches to the end of the file.
    """

    anchors: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    is_hint: bool = False
    is_at_end: bool = False
    has_change: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Deleted:
    path: str


@dataclass(frozen=True, slots=True)
class Updated:
    """`moved_to` is empty where the file keeps its name; a file that is only moved has no hunks."""

    path: str
    moved_to: str
    hunks: tuple[Hunk, ...]


Section: TypeAlias = Added | Deleted | Updated


def patch_paths(text: str) -> tuple[str, ...]:
    """Return every path a patch names, in order; raise `PatchError` where it is none."""
    paths: list[str] = []
    for section in parse_patch(text):
        paths.append(section.path)
        if isinstance(section, Updated) and section.moved_to:
            paths.append(section.moved_to)
    return tuple(paths)


def parse_patch(text: str) -> tuple[Section, ...]:
    """Return the sections of a patch, at least one; raise `PatchError` where it is none."""
    lines = _inside(text)
    sections: list[Section] = []
    at = 0
    while at < len(lines):
        found = _SECTION.fullmatch(lines[at])
        if found is None:
            if not lines[at].strip():
                at += 1
                continue
            raise PatchError(
                f"patch line {at + 2}: expected '*** Add File: ', '*** Update File: ' or '*** Delete File: ' and a "
                f"path, not {lines[at][:80]!r}"
            )
        end = next((index for index in range(at + 1, len(lines)) if _SECTION.fullmatch(lines[index])), len(lines))
        sections.append(_section(found[1], found[2], lines[at + 1 : end], at + 3))
        at = end
    if not sections:
        raise PatchError("the patch names no file")
    return tuple(sections)


def _inside(text: str) -> list[str]:
    """Return the lines between the first and the last line of a patch, without what models wrap it in."""
    text = text.replace("\r\n", "\n").strip()
    for wrapped in (_FENCE, _HEREDOC):
        found = wrapped.fullmatch(text)
        if found is not None:
            text = found[found.re.groups].strip()
    lines = text.split("\n")
    if lines[0].strip() != BEGIN:
        raise PatchError(f"the patch must begin with the line '{BEGIN}'")
    if len(lines) < 2 or lines[-1].strip() != END:
        raise PatchError(f"the patch must end with the line '{END}'; it may have been cut")
    return lines[1:-1]


def _section(kind: str, path: str, body: Sequence[str], number: int) -> Section:
    """Return one section; `number` is the line of the patch its body begins at."""
    if kind == "Add":
        return Added(path, _content(path, body, number))
    if kind == "Delete":
        if any(line.strip() for line in body):
            raise PatchError(f"patch line {number}: nothing can follow '*** Delete File: {path}'")
        return Deleted(path)
    moved = _MOVE.fullmatch(body[0]) if body else None
    start = 0 if moved is None else 1
    hunks = _hunks(body[start:], number + start)
    if not hunks and moved is None:
        raise PatchError(f"patch line {number}: '*** Update File: {path}' has no hunk")
    return Updated(path, moved[1] if moved is not None else "", hunks)


def _content(path: str, body: Sequence[str], number: int) -> str:
    lines = list(body)
    while lines and not lines[-1].strip():
        lines.pop()
    for index, line in enumerate(lines):
        if line and not line.startswith("+"):
            raise PatchError(f"patch line {number + index}: every line of the new file {path} must begin with +")
    return "".join(f"{line[1:]}\n" for line in lines)


def _hunks(body: Sequence[str], number: int) -> tuple[Hunk, ...]:
    hunks: list[Hunk] = []
    is_open = False
    for index, line in enumerate(body):
        if line.startswith("@@"):
            if not is_open or hunks[-1].old or hunks[-1].new:
                hunks.append(Hunk())
            is_open = True
            _anchor(hunks[-1], line[2:].strip())
        elif line.rstrip() == _AT_END:
            if not hunks:
                raise PatchError(f"patch line {number + index}: '{_AT_END}' without a hunk before it")
            hunks[-1].is_at_end, is_open = True, False
        elif line.startswith("\\ No newline"):
            continue
        else:
            if not is_open:
                hunks.append(Hunk())
                is_open = True
            _take(hunks[-1], line, number + index)
    for hunk in hunks:
        _trim(hunk)
    empty = next((hunk for hunk in hunks if not hunk.has_change), None)
    if empty is not None and (len(hunks) == 1 or empty.old):
        raise PatchError(f"patch line {number}: a hunk has no line that begins with + or -")
    return tuple(hunk for hunk in hunks if hunk.has_change)


def _anchor(hunk: Hunk, text: str) -> None:
    numbers = _NUMBERS.match(f"{text} ")
    hunk.is_hint = hunk.is_hint or numbers is not None
    rest = f"{text} "[numbers.end() :].strip() if numbers is not None else text.removesuffix(" @@").strip()
    if rest:
        hunk.anchors.append(rest)


def _take(hunk: Hunk, line: str, number: int) -> None:
    sign, text = line[:1], line[1:]
    if sign not in ("", " ", "+", "-"):
        raise PatchError(
            f"patch line {number}: a line of a hunk must begin with a blank (kept), - (removed) or + (added), not "
            f"{line[:60]!r}"
        )
    if sign != "+":
        hunk.old.append(text)
    if sign != "-":
        hunk.new.append(text)
    hunk.has_change = hunk.has_change or sign in ("+", "-")


def _trim(hunk: Hunk) -> None:
    """Leave out empty lines that only part one section of a patch from the next."""
    while hunk.old and hunk.new and not hunk.old[-1] and not hunk.new[-1]:
        hunk.old.pop()
        hunk.new.pop()
