"""A detector of endless repetition in a text while it streams, at a cost linear in its length.

The first pattern is a line, or a cycle of up to 8 lines, many times in a row. The second is a long run of characters
with a short period ("na na na …"). Code and arguments repeat more, so only a much longer run counts there. Text is
examined in blocks of a fixed size, so the result does not depend on the deltas. An incomplete last block is examined at
the end.
"""

from __future__ import annotations

from collections import deque

from qcode.text.fences import fence_after

MAX_CYCLE_LINES = 8
MIN_CYCLES = 40
"""How often a line, or a cycle of lines, must occur in a row."""
MIN_CYCLE_CHARS = 2_000
"""The minimum length of all cycles of lines together, in prose."""
MAX_PERIOD = 200
"""The longest period of a periodic run, in characters: `na ` has the period 3."""
MIN_PERIODIC_CHARS = 4_000
"""The minimum length of a periodic run, in prose."""
MIN_CHARS_IN_CODE = 20_000
"""The minimum length of both patterns in code and arguments."""

_BLOCK = 100
"""Characters per block."""


class RepetitionDetector:
    """The detector for one text, or for the raw arguments of one call."""

    def __init__(self, *, fence: str | None = None, is_arguments: bool = False) -> None:
        """Set up the detector. `fence` is the marker of the code fence that is open at the start of the text, or None.

        `is_arguments`: the text is the argument JSON of a call.
        """
        self._is_arguments = is_arguments
        self._fence = fence
        self._code_until = 0
        """The offset in the text up to which the last code block extends."""
        self._pending_texts: list[str] = []
        self._pending_size = 0
        self._seen_chars = 0
        self._blocks: deque[str] = deque(maxlen=MIN_CHARS_IN_CODE // _BLOCK)
        self._lines = _LineCycles()
        self._line: list[str] = []
        """The fragments of the last line, which is incomplete."""
        self._backslash = ""
        self._lines_end = 0
        """The offset in the text at which the last complete line ended."""
        self._incomplete_block = ""
        """The text after the last whole block; empty before the end of the text."""

    def add(self, text: str) -> int | None:
        """Return how many characters of `text` precede the point at which a repetition is certain; None without one.

        Do not call this method again after it has returned a number.
        """
        self._pending_texts.append(text)
        self._pending_size += len(text)
        if self._pending_size < _BLOCK:
            return None
        joined = "".join(self._pending_texts)
        position = 0
        while len(joined) - position >= _BLOCK:
            position += _BLOCK
            if self._is_repeating_with(joined[position - _BLOCK : position]):
                return max(0, position - (len(joined) - len(text)))  # without the characters of earlier deltas
        self._pending_texts, self._pending_size = [joined[position:]], len(joined) - position
        return None

    def is_repeating_at_end(self) -> bool:
        """Return whether the complete text ends in a repetition."""
        last_block = "".join(self._pending_texts)
        self._seen_chars += len(last_block)
        self._incomplete_block = last_block
        newline = "\\n" if self._is_arguments else "\n"
        return self._has_line_cycle(f"{last_block}{newline}") or self._is_periodic()

    def _is_repeating_with(self, block: str) -> bool:
        self._seen_chars += _BLOCK
        self._blocks.append(block)
        return self._has_line_cycle(block) or self._is_periodic()

    def _has_line_cycle(self, block: str) -> bool:
        """Add the complete lines up to the end of `block`; return whether a cycle of lines is long enough."""
        separator = "\\n" if self._is_arguments else "\n"
        if self._is_arguments:
            # In arguments a newline is two characters, `\n`; a trailing backslash may be the first of them.
            block = self._backslash + block
            self._backslash = "\\" if block.endswith("\\") else ""
            block = block.removesuffix("\\")
        first, *others = block.split(separator)
        self._line.append(first)
        is_cycling = False
        for other in others:
            line = "".join(self._line)
            self._line = [other]
            self._lines_end += len(line) + len(separator)
            self._follow_fence(line)
            start = self._lines.add(line, self._lines_end)
            if start is not None:
                is_cycling = is_cycling or self._lines_end - start >= self._needed_length(start, MIN_CYCLE_CHARS)
        return is_cycling

    def _follow_fence(self, line: str) -> None:
        after = fence_after(self._fence, line)
        if after is not None or self._fence is not None:
            self._code_until = self._lines_end
        self._fence = after

    def _is_periodic(self) -> bool:
        """Find the period of the latest characters, then check how far back it reaches.

        Example: in "na na na ", the last `MAX_PERIOD` characters also occur 3 characters earlier, so the period is 3.
        """
        newest = self._last(2 * MAX_PERIOD)
        probe = newest[-MAX_PERIOD:]
        earlier = newest.rfind(probe, 0, len(newest) - 1)  # the end excludes the probe itself
        if self._seen_chars < MIN_PERIODIC_CHARS or earlier == -1:
            return False
        period = len(newest) - MAX_PERIOD - earlier
        # A run of the length for prose would start here. If that is in code, the run must be longer.
        prose_start = self._seen_chars - MIN_PERIODIC_CHARS
        needed = self._needed_length(prose_start, MIN_PERIODIC_CHARS)
        # The shorter length is checked first: it is cheap, and most texts fail it.
        if self._seen_chars < needed or not _has_period(self._last(MIN_PERIODIC_CHARS), period):
            return False
        return needed == MIN_PERIODIC_CHARS or _has_period(self._last(needed), period)

    def _needed_length(self, start: int, in_prose: int) -> int:
        """Return the minimum length of a repetition that began at `start`: `in_prose`, or more in code or arguments."""
        is_in_code = self._is_arguments or self._fence is not None or start < self._code_until
        return MIN_CHARS_IN_CODE if is_in_code else in_prose

    def _last(self, size: int) -> str:
        """Return the last `size` characters, or all if there are fewer."""
        count = min(-(-size // _BLOCK), len(self._blocks))  # rounded up to whole blocks
        return ("".join([self._blocks[index] for index in range(-count, 0)]) + self._incomplete_block)[-size:]


class _LineCycles:
    """Counts, for each cycle length n, how many lines in a row equal the line n lines before them.

    Example: after the lines a, b, a, b, a, the count for n = 2 is 3, and the count for n = 1 is 0.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[str, int]] = deque(maxlen=MAX_CYCLE_LINES)
        """The last lines, each with the offset at which it starts."""
        # Indexed by the cycle length; index 0 is unused.
        self._counts = [0] * (MAX_CYCLE_LINES + 1)
        self._starts = [0] * (MAX_CYCLE_LINES + 1)
        """The offset of the first line of the first cycle, valid if the count is not 0."""
        self._end = 0
        """The offset at which the last line ends."""

    def add(self, line: str, end: int) -> int | None:
        """Add a line that ends at offset `end`.

        Return the offset at which the longest run of at least `MIN_CYCLES` equal cycles started, None if there is none.
        """
        cycle_start: int | None = None
        recent = self._recent
        for length in range(1, len(recent) + 1):
            before, start = recent[-length]
            if before != line:
                self._counts[length] = 0
                continue
            if not self._counts[length]:
                self._starts[length] = start
            self._counts[length] += 1
            if self._counts[length] >= (MIN_CYCLES - 1) * length:  # the lines of the first cycle are not counted
                start = self._starts[length]
                cycle_start = start if cycle_start is None else min(cycle_start, start)
        recent.append((line, self._end))
        self._end = end
        return cycle_start


def _has_period(text: str, period: int) -> bool:
    return text[period:] == text[:-period]
