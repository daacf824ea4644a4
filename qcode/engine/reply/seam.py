"""The seam between a text and its continuation: a stream filter that removes repeated text.

Example: after "def f(x):\\n    return x" a model may continue with "    return x + 1". The filter drops "    return x"
and passes on " + 1".

The start of a continuation is held back while it may still be a repetition. Released text is final: repeated text is
never shown, and shown text is never removed. The cost is linear. If a repetition may be intended, no text is removed,
because a reader notices doubled text, but not missing text. An opening is a lead-in (`lead_in`), a reopened code fence
(`text.fences`) or a repeated header. Loads with the first continuation.
"""

from __future__ import annotations

from dataclasses import replace

from qcode.engine.reply.lead_in import lead_in_length, may_become_lead_in
from qcode.text import fences
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

RESTART_MARK = "\n\n[…]\n\n"
"""Inserted between the old text and the new part of a continuation that restarts the reply."""

_BLANK_LINES = lazy_pattern(r"(?:[ \t]*\r?\n)*")


@dataclass(frozen=True, slots=True)
class _Opening:
    """A kind of opening, or one that was removed."""

    max_breaks: int
    """How many line breaks after the opening are removed with it; further line breaks are part of the text."""
    ends_line: bool = True
    """The opening includes its line break. A lead-in does not: text may follow it on the same line."""
    is_indented: bool = False
    """The opening was indented, so the indentation of the next line is removed too."""


_LEAD_IN_OPENING = _Opening(max_breaks=2, ends_line=False)
_HEADING_OPENING = _Opening(max_breaks=1)
_TABLE_OPENING = _Opening(max_breaks=0)


class Seam:
    """A filter of one continuation. `feed` and `flush` return the text to append; call `flush` once at the end.

    Example, with `before` = "def f(x):\\n    return x":
        feed("    ret")    returns "": the text occurs in `before`, so it may be the start of a repetition
        feed("urn x + 1")  returns " + 1": "    return x" is the longest overlap, and is dropped
        feed("\\n")         returns "\\n": the overlap is settled, so all later text passes unchanged
    """

    def __init__(self, before: str, *, is_json: bool = False) -> None:
        """Set up a filter for a continuation of `before`. `is_json`: the text is the argument JSON of a call."""
        self._before = before
        self._tail = before[-SEARCHED_TAIL:]
        """The end of `before`: the only part that is searched for an overlap."""
        self._is_json = is_json
        self._is_code = is_json or fences.open_fence(before) is not None
        self._is_inside_line = bool(before) and not before.endswith("\n")
        # If the text ends inside the opening line of a fence, the continuation completes that line.
        self._fence = fences.open_fence(before[: before.rfind("\n") + 1]) if self._is_code else None
        self._headers = () if self._is_code else repeatable_headers(self._tail)
        self._held_texts: list[str] = []
        """The deltas held back; they are joined only for a decision."""
        self._is_held_blank = True
        self._restarted_chars = 0
        """How many characters of the continuation equal the start of `before`; valid while `_may_restart` is True."""
        self._may_restart = bool(before)
        self._may_lead_in = bool(before)
        self._removed: _Opening | None = None
        """The last removed opening, until text follows it; the white space between them is not decided yet."""
        self._blank = ""
        """The white space after a removed opening that is part of the text, and is released before the text."""
        self._line_break = ""
        """Released if `_blank` is empty and the text must start on a new line: the white space after the opening."""
        self._is_settled = not before
        """All later text passes unchanged."""

    def for_next_continuation(self) -> Seam:
        """Return a new filter for another continuation of the same text."""
        return Seam(self._before, is_json=self._is_json)

    def feed(self, text: str) -> str:
        """Add `text`; return the part of the input that is certainly new, and hold back the remaining part."""
        if self._is_settled:
            return text
        self._held_texts.append(text)
        self._is_held_blank = self._is_held_blank and not text.strip()
        if self._extends_restart(text):
            return ""
        if self._removed is not None and self._is_held_blank:
            return ""  # not joined for each delta: any number of blank deltas may follow an opening
        return self._settle("".join(self._held_texts), is_last=False)

    def flush(self) -> str:
        """Return the text held back, without repetition, at the end of the continuation."""
        if self._is_settled:
            return ""
        return self._settle("".join(self._held_texts), is_last=True)

    def _extends_restart(self, text: str) -> bool:
        """Return whether the continuation so far, with `text` at its end, repeats the reply from its start."""
        if not self._may_restart or not self._before.startswith(text, self._restarted_chars):
            return False
        self._restarted_chars += len(text)
        return self._restarted_chars < len(self._before)

    def _settle(self, pending: str, *, is_last: bool) -> str:
        """Remove openings, then return the new text, or hold `pending` back and return an empty string.

        If `is_last`, the continuation has ended, and no text is held back.
        """
        if self._removed is not None:
            if not pending.strip() and not is_last:
                return ""
            pending = self._without_blank(pending, self._removed)
        if not is_last and self._is_undecided(pending):
            return ""
        after_opening = self._without_opening(pending)
        if len(after_opening) < len(pending):
            self._continue_with(after_opening)
            return self._settle(after_opening, is_last=is_last)
        cleaned = self._without_replay(after_opening)
        if cleaned != after_opening:
            self._blank = ""
        elif self._line_break and not self._blank and not self._is_code:
            is_new_line = needs_new_line(self._before, after_opening)
            if is_new_line is None and not is_last:
                return ""
            self._blank = self._line_break if is_new_line else ""
        self._is_settled = True
        self._held_texts = []
        return self._blank + cleaned

    def _without_blank(self, pending: str, opening: _Opening) -> str:
        """Remove the white space after a removed opening, and store the part that belongs to the text in `_blank`.

        Example: a lead-in takes two line breaks with it, so of "\\n\\n\\nNext" the third line break is stored.
        """
        match = _BLANK_LINES.match(pending)
        blank = match.group() if match else ""
        if self._is_json or blank.count("\n") <= opening.max_breaks:
            self._blank = ""
        else:
            self._blank = blank.split("\n", opening.max_breaks)[-1]
        self._line_break = blank or ("\n" if opening.ends_line else "")
        content = pending[len(blank) :]
        if opening.is_indented:
            content = content.lstrip(" \t")
        elif not (blank or opening.ends_line) and content[:1] in (" ", "\t"):
            content = content[1:]  # of "I left off:  1871", the second blank is part of the text
        self._removed = None
        self._continue_with(content)
        return content

    def _continue_with(self, text: str) -> None:
        """Hold back `text`, the text after a removed opening, as the new start of the continuation."""
        self._held_texts = [text]
        self._is_held_blank = not text.strip()
        self._restarted_chars = _common_length(self._before, text)
        self._may_restart = self._restarted_chars == len(text)

    def _is_undecided(self, pending: str) -> bool:
        """Return whether more text may turn `pending` into a repetition or an opening."""
        stripped = pending.lstrip()
        if not stripped:
            return len(pending) < SEARCHED_TAIL
        if self._may_become_replay(pending) or self._may_become_replay(stripped):
            return True
        if self._may_lead_in and may_become_lead_in(pending):
            return True
        if _may_recur(self._tail, pending) or _may_recur(self._tail, stripped):
            return True
        if self._fence is None:
            return self._may_become_header(stripped)
        after_fence = self._after_bare_fence(pending)
        is_reopened = after_fence is not None and self._may_become_replay(after_fence)
        return is_reopened or fences.may_become_fence(pending)

    def _may_become_replay(self, text: str) -> bool:
        """Return whether more text may turn `text` into a repetition of the end of the reply."""
        return len(text) < len(self._tail) and text in self._tail

    def _may_become_header(self, text: str) -> bool:
        """Return whether more text may turn `text` into a repeated heading or table header."""
        start = _without_indents(text)
        return any(header.startswith(start) or _may_be_continued(header, start) for header in self._headers)

    def _after_bare_fence(self, pending: str) -> str | None:
        """Return the text after a bare fence at the start of `pending`; None if there is no such fence.

        A bare fence that a repetition follows reopens the code block instead of closing it.
        """
        length = fences.bare_fence_length(pending, self._fence) if self._fence is not None else 0
        return pending[length:] if length else None

    def _without_opening(self, pending: str) -> str:
        """Return `pending` without its first opening; unchanged if it has none."""
        if self._may_lead_in:
            self._may_lead_in = False
            length = lead_in_length(pending)
            if length:
                self._removed = _LEAD_IN_OPENING
                return pending[length:]
        if self._fence is not None:
            length = fences.reopened_fence_length(pending, self._fence, is_inside_line=self._is_inside_line)
            after_fence = pending[length:] if length else self._after_bare_fence(pending)
            is_reopened = length > 0 or (after_fence is not None and replay_length(self._tail, after_fence) > 0)
            if is_reopened and after_fence is not None:
                self._fence = None
                self._blank = self._line_break = ""
                return after_fence
        text = pending.lstrip("\r\n")
        for header in self._headers:
            length = _header_length(header, text)
            # A repetition that goes beyond the header, such as "# Costs\n\nTh" after "# Costs\n\nTh", is removed whole.
            is_repeated = replay_length(self._tail, text) > length or self._restarts_beyond(header, text)
            if length and not is_repeated:
                self._headers = ()
                opening = _TABLE_OPENING if header.startswith("|") else _HEADING_OPENING
                self._removed = replace(opening, is_indented=text[0] in " \t")
                return text[length:]
        return pending

    def _restarts_beyond(self, header: str, text: str) -> bool:
        """Return whether `text` repeats the reply from its start, and not only its first lines, the `header`."""
        length = _header_length(header, self._before)
        if not length:
            return False
        repeated_after_header = self._before[length : _common_length(self._before, text)].strip()
        return not is_short_coincidence(repeated_after_header)

    def _without_replay(self, text: str) -> str:
        """Return `text` without the part that repeats the end of the reply, or its start after a restart."""
        replayed = replay_length(self._tail, text)
        if replayed and _recurs(self._tail, text, replayed):
            return text
        if replayed:
            return text[replayed:]
        common = _common_length(self._before, text)
        if is_restart(self._before, text, common):
            new_text = text[common:]
            is_complete = common == len(self._before)  # the whole text was repeated, so the new text follows it
            return new_text if is_complete or not new_text.strip() else RESTART_MARK + new_text
        stripped = text.lstrip()  # the model may have added blanks before the repetition
        replayed = replay_length(self._tail, stripped)
        if replayed >= CLEAR_CHARS and not _recurs(self._tail, stripped, replayed):
            return stripped[replayed:]
        return text


def _recurs(before: str, text: str, replayed: int) -> bool:
    """Return whether the first line of the overlap follows the overlap again, so that the repetition may be intended.

    `replayed` is the length of the overlap. Example: after "x += 1\n" the continuation "x += 1\nx += 1\n" may be two
    new lines, or a repeated line and one new line.
    """
    line = _first_line(before, text[:replayed])
    return bool(line) and text.startswith(line, replayed)


def _may_recur(before: str, text: str) -> bool:
    """Return whether more of `text` is needed to decide `_recurs`."""
    replayed = replay_length(before, text)
    line = _first_line(before, text[:replayed])
    return len(text) - replayed < len(line) and line.startswith(text[replayed:])


def _first_line(before: str, overlap: str) -> str:
    """Return the first line of the overlap, with line breaks before it; empty if the overlap begins inside a line."""
    start = len(before) - len(overlap)
    if start and before[start - 1] != "\n" and overlap[:1] not in ("\n", "\r"):
        return ""
    start_of_text = len(overlap) - len(overlap.lstrip())
    line, newline, _ = overlap[start_of_text:].partition("\n")
    return overlap[:start_of_text] + line + newline


def _without_indents(text: str) -> str:
    """Return `text` without the blanks at both ends of each complete line, and at the start of the last one."""
    *complete, last = text.split("\n")
    return "".join(f"{line.strip()}\n" for line in complete) + last.lstrip()


def _header_length(header: str, text: str) -> int:
    """Return the length of `header` at the start of `text`, in which its lines may be indented; otherwise 0."""
    end = 0
    for row in header.splitlines():
        start, end = end, text.find("\n", end) + 1
        line = text[start:end].strip()
        is_repeated = line == row or (row.startswith("#") and _is_continued(line, row))
        if not end or not is_repeated:
            return 0
    return end


def _is_continued(line: str, heading: str) -> bool:
    """Return whether `line` is the heading with a note, such as `## Costs (continued)`."""
    return line.startswith(heading) and _CONTINUED.fullmatch(line[len(heading) :]) is not None


def _may_be_continued(header: str, start: str) -> bool:
    """Return whether `start` may become a heading with a note."""
    heading = header.removesuffix("\n")
    if not heading.startswith("#") or not start.startswith(heading):
        return False
    note = start.removeprefix(heading)
    return "\n" not in note and len(note) <= _MAX_NOTE_CHARS


def _common_length(left: str, right: str) -> int:
    """Return the length of the common prefix, by binary search over slices (faster than a loop over characters)."""
    low = 0
    high = min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


SEARCHED_TAIL = 4_000
"""How many characters at the end of a text are searched for an overlap."""
MIN_BYTES = 6
MIN_CHARS = 4
"""A shorter overlap may be a coincidence. Bytes count too, because a Chinese word has few characters."""
MIN_STRUCTURAL_BYTES = 4
"""The minimum of an overlap that contains Markdown syntax: `\\n## ` is less likely to be a coincidence."""
CLEAR_CHARS = 20
"""An overlap of this length is a repetition even if it neither starts nor ends a line."""

_STRUCTURAL = frozenset("#|`\n")
_RULE_CHARS = frozenset("|-:=_+*. \t")
"""Horizontal rules and the second row of a table consist only of these characters; a text may repeat them anywhere."""
# The characters before the text of a list item: `- [ ] **`, `12. `. The quantifiers are possessive, because otherwise
# three groups of blanks in a row match in n³ ways.
_LIST_OPENER = lazy_pattern(r"\s*+(?:[-*+]|\d{1,4}[.)])?\s*+(?:\[[ xX]?\]?\s*+)?(?:\*\*|__|`|\[)?")
_HEADING = lazy_pattern(r"#{1,6} \S[^\n]*")
_DELIMITER_ROW = lazy_pattern(r"\s*+\|?+\s*+:?+-++:?+\s*+(?:\|\s*+:?+-++:?+\s*+)*+\|?+\s*+")
# The note after a repeated heading: ` (continued)`, ` - cont'd:`.
_CONTINUED = lazy_pattern(r"(?i)[ \t]*+[-–—:]?[ \t]*+[(\[]?[*_]*(?:continued|cont(?:['’]?d|inuation)?\.?)[*_]*[)\]]?:?")
_MAX_NOTE_CHARS = 24
_BLOCK_START = lazy_pattern(r"(?:#{1,6}|[-*+>]|\d{1,4}[.)])[ \t]|```|~~~")
_SENTENCE_END = lazy_pattern(r"[.!?:][*_\"'”’)]*$")
# A text that may become a `_BLOCK_START`, such as `1` or `##`.
_PARTIAL_BLOCK_START = lazy_pattern(r"#{1,6}|[-*+>]|\d{1,4}[.)]?|`{1,2}|~{1,2}")


def replay_length(before: str, text: str) -> int:
    """Return how many characters at the start of `text` certainly repeat the end of `before`, or 0.

    `before` is only the searched tail. Only the longest overlap is examined: a shorter overlap is never clearer.
    """
    length = longest_overlap(before, text)
    return length if length and _is_replay(before, text[:length]) else 0


def longest_overlap(before: str, text: str) -> int:
    """Return the length of the longest suffix of `before` that is a prefix of `text`, in linear time.

    Example: `longest_overlap("one two", "two three")` is 3. This is the search of Knuth, Morris and Pratt: `matched` is
    the length of the longest prefix of `text` that ends at the current character of `before`. With the text "abac",
    after "aba" of "abab" it is 3. The next character is "b", not "c". The longest border of "aba", a prefix that is
    also a suffix, is "a"; "b" extends it to "ab", so `longest_overlap("abab", "abac")` is 2.
    """
    limit = min(len(before), len(text))
    if not limit:
        return 0
    pattern = text[:limit]
    borders = _borders(pattern)
    matched = 0
    for char in before[-limit:]:
        while matched and pattern[matched] != char:
            matched = borders[matched - 1]
        if pattern[matched] == char:
            matched += 1
    return matched


def _borders(pattern: str) -> list[int]:
    """Return for each prefix of `pattern` the length of its longest proper border (the KMP failure function).

    A border is both a prefix and a suffix: the result for "abab" is [0, 0, 1, 2].
    """
    borders = [0] * len(pattern)
    matched = 0
    for index in range(1, len(pattern)):
        while matched and pattern[matched] != pattern[index]:
            matched = borders[matched - 1]
        if pattern[matched] == pattern[index]:
            matched += 1
        borders[index] = matched
    return borders


def is_short_coincidence(overlap: str) -> bool:
    """Return whether an overlap is too short to rule out a coincidence."""
    size = len(overlap.encode("utf-8", "surrogatepass"))
    if _STRUCTURAL.intersection(overlap):
        return size < MIN_STRUCTURAL_BYTES or not overlap.strip()
    return size < MIN_BYTES or len(overlap) < MIN_CHARS or not overlap.strip()


def _is_replay(before: str, overlap: str) -> bool:
    """Return whether `overlap`, the end of `before` and start of a continuation, can only be a repetition."""
    if is_short_coincidence(overlap) or _LIST_OPENER.fullmatch(overlap):
        return False
    start = len(before) - len(overlap)
    is_line_start = start == 0 or before[start - 1] == "\n"
    if _RULE_CHARS.issuperset(overlap):
        return False
    # The text may be a new row that begins like the unfinished row: after "| a | 1 |\n| a" it may be "| a | 2 |". A
    # marker alone, such as "| ", opens every row.
    unfinished = before[before.rfind("\n") + 1 :]
    begins_alike = overlap.endswith("\n" + unfinished) and before.endswith(unfinished, 0, start)
    if begins_alike and any(map(str.isalnum, unfinished)):
        return False
    is_whole_line = "\n" in overlap and (is_line_start or "\n" in overlap[:-1])
    if is_whole_line or len(overlap) >= CLEAR_CHARS:
        return _occurs_once(before, overlap)
    if before.endswith("\n"):
        return False
    line = before[before.rfind("\n") + 1 :]
    return _occurs_once(line if len(line) >= len(overlap) else before, overlap)


def _occurs_once(text: str, part: str) -> bool:
    """Return whether `part`, the end of `text`, occurs only there and does not repeat itself."""
    first = text.find(part)
    return first == len(text) - len(part) and not _is_periodic(part)


def _is_periodic(part: str) -> bool:
    """Return whether `part` repeats itself ("ab ab ab"), so that the end of a repetition is ambiguous."""
    border = _borders(part)[-1]
    return border * 2 >= len(part)


def is_restart(before: str, text: str, common: int) -> bool:
    """Return whether `text` clearly restarts the reply `before`; their first `common` characters are equal."""
    start = before[:common]
    if is_short_coincidence(start):
        return False
    ends_line = before[common : common + 1] == "\n" and text[common : common + 1] in ("", "\n")
    is_clear = "\n" in start.strip("\n") or ends_line or common >= CLEAR_CHARS
    return is_clear and before.find(start, 1) == -1 and not _is_periodic(start)


def repeatable_headers(before: str) -> tuple[str, ...]:
    """Return the headers that a continuation may repeat: the heading of its section, the first two rows of its table.

    Only complete lines that occur once in `before` are returned, because a recurring line is part of the document. A
    heading at the end of `before` is not returned: it is an ordinary overlap. The lines have no indentation.
    """
    lines = before.split("\n")
    complete = lines[:-1]
    headers: list[str] = []
    headings = [index for index, line in enumerate(complete) if _HEADING.fullmatch(line)]
    if headings:
        last = headings[-1]
        has_text_after = any(line.strip() for line in lines[last + 1 :])
        if lines.count(lines[last]) == 1 and has_text_after:
            headers.append(lines[last].strip() + "\n")
    table_end = len(lines) if lines[-1] else len(lines) - 1  # an empty last line follows a complete row
    table_start = table_end
    while table_start and lines[table_start - 1].lstrip().startswith("|"):
        table_start -= 1
    table = lines[table_start:table_end]
    if len(table) >= 3 and _DELIMITER_ROW.fullmatch(table[1]) and lines.count(table[0]) == 1:
        headers.append(f"{table[0].strip()}\n{table[1].strip()}\n")
    return tuple(headers)


def needs_new_line(before: str, text: str) -> bool | None:
    """Return whether `text` must start on a new line after `before`; None if more text is needed to decide.

    `text` needs a new line if it starts a block, such as a list item, a heading or the next row of a table. It also
    does if `before` ends with a sentence and `text` starts with a capital letter.
    """
    if not before or before[-1].isspace():
        return False
    line = before[before.rfind("\n") + 1 :].strip()
    if text.startswith("|"):
        return line.startswith("|") and line.endswith("|") and _has_all_cells(before, line)
    if _BLOCK_START.match(text):
        return True
    if not text or _PARTIAL_BLOCK_START.fullmatch(text):
        return None
    return _SENTENCE_END.search(line) is not None and text[0].isupper()


def _has_all_cells(before: str, row: str) -> bool:
    """Return whether the table row at the end of `before` has as many cells as the row above it."""
    above = before[: before.rfind("\n") + 1].rstrip("\r\n").rpartition("\n")[2].strip()
    return not above.startswith("|") or row.count("|") >= above.count("|")
