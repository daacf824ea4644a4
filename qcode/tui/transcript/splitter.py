"""Cuts Markdown, line by line as it comes, into chunks that are rendered on their own and once.

A chunk is a top-level fenced block, a list item, or what stands between blank lines. Where a chunk ends depends on
complete lines before that place only, so text that streams is cut exactly like text that comes at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)")
_ITEM = re.compile(r"( {0,3})(?:([-*+])|(\d{1,9})[.)])(?:\s+(\S)|\s*$)")
_RULE = re.compile(r" {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")


@dataclass(slots=True)
class Chunk:
    """Some lines of the source. `has_gap`: a blank line came before it.

    `fence` is the opening mark of a code chunk, empty for prose; then `indent` and `info` are its own, too. `number` is
    what the first item shows where the chunk is an ordered list, `written` the number in the source.
    """

    lines: list[str] = field(default_factory=list)
    has_gap: bool = False
    fence: str = ""
    indent: int = 0
    info: str = ""
    is_list: bool = False
    number: int | None = None
    written: int | None = None
    is_over: bool = False

    @property
    def is_code(self) -> bool:
        return bool(self.fence)

    def closes(self, line: str) -> bool:
        """Whether `line` is the end of this code chunk."""
        mark = line.strip()
        is_mark = len(mark) >= len(self.fence) and mark == self.fence[0] * len(mark)
        return is_mark and len(line) - len(line.lstrip(" ")) <= 3 and not line.lstrip(" ").startswith("\t")

    def add(self, line: str) -> None:
        self.lines.append(undent(line, self.indent) if self.is_code else line)

    def longer(self, line: str) -> Chunk:
        """Return what this chunk is with one more line."""
        return replace(self, lines=[*self.lines, undent(line, self.indent) if self.is_code else line])


class Splitter:
    """Takes complete lines; `open` is the chunk being written, None between chunks."""

    def __init__(self) -> None:
        self.open: Chunk | None = None
        self._before: Chunk | None = None
        self._blank = False

    def feed(self, line: str) -> Chunk | None:
        """Take one line without its end; return the chunk that is complete because of it."""
        chunk = self.open
        if chunk is not None and chunk.is_code:
            if not chunk.closes(line):
                chunk.add(line)
                return None
            return self.close()
        if not line.strip():
            self._blank = True
            if chunk is not None:
                chunk.add("")
            return None
        begun = self.begin(line)
        if begun is None:
            assert chunk is not None
            chunk.add(line)
            self._blank = False
            return None
        done = self.close() if chunk is not None else None
        self.open = begun
        self._blank = False
        return done

    def close(self) -> Chunk:
        """End the open chunk and return it."""
        chunk = self.open
        assert chunk is not None
        self._before, self.open = chunk, None
        return chunk

    def begin(self, line: str) -> Chunk | None:
        """Return the chunk that `line`, which is not blank, would begin; None where it belongs to the open one."""
        chunk = self.open
        if chunk is not None and chunk.is_code:
            return None
        indent = len(line) - len(line.lstrip(" "))
        has_gap = self._blank and (chunk is not None or self._before is not None)
        is_inside = chunk is not None and chunk.is_list and indent > 0
        fence = None if is_inside else _FENCE.fullmatch(line)
        if fence is not None:
            return Chunk([], has_gap, fence.group(2), len(fence.group(1)), fence.group(3).strip())
        if chunk is not None and not self._ends(chunk, line, indent):
            return None
        begun = Chunk([line], has_gap)
        item = None if _RULE.match(line) else _ITEM.match(line)
        if item is not None:
            begun.is_list = True
            if item.group(3):
                begun.written = int(item.group(3))
                begun.number = self._number(begun.written)
        begun.is_over = item is None and bool(_HEADING.match(line) or _RULE.match(line))
        return begun

    def _ends(self, chunk: Chunk, line: str, indent: int) -> bool:
        """Whether `line` ends the open prose `chunk`."""
        if chunk.is_over:
            return True
        if self._blank and indent <= (0 if chunk.is_list else 3):
            return True
        if indent == 0 and _HEADING.match(line):
            return True
        item = None if _RULE.match(line) else _ITEM.match(line)
        if item is None:
            return False
        if chunk.is_list:
            return indent == 0
        return bool(item.group(4)) and item.group(3) in (None, "1")

    def _number(self, written: int) -> int:
        """Return what an item shows: its own number, or the next one where the source repeats the number before."""
        last = self.open or self._before
        if last is not None and last.number is not None and last.written == written:
            return last.number + 1
        return written


def undent(line: str, indent: int) -> str:
    """Return `line` without up to `indent` spaces at its start."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]
