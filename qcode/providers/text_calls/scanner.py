"""The extraction of calls written as text from a reply while it streams. No I/O; `candidate` parses each call.

Calls and visible text add up to the input, however it was split into chunks. Nothing is extracted from code (fences of
other languages, spans between backticks) or from thinking at the start of a reply. After an invalid call, no more calls
are extracted from the reply, because text inside its arguments may look like calls. Fences and code spans follow
CommonMark, except that a span ends with its line, so that a single backtick does not hide all text after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Literal, TypeAlias

from qcode.protocol.tools import ToolSpec
from qcode.providers.text_calls.candidate import Candidate
from qcode.providers.text_calls.forms import (
    END_TAG,
    NO_NAME,
    CallForm,
    CallMark,
    UnreadableError,
    WrittenCall,
    count_undecided,
    find_mark,
    is_partial_mark,
)
from qcode.values import dataclass

MAX_CALL_CHARS = 1_000_000
"""The maximum length of a call, which is held back until it is complete. A longer one stays text."""
MAX_REJECTED = 100
"""The maximum number of recorded rejections in one reply."""

_EXCERPT_CHARS = 200
_REASONS = {
    "open": f"it is longer than {MAX_CALL_CHARS} characters",
    "broken": "its content is not a valid call",
    "unrelated": "no call follows its marker",
}
"""The reason for the rejection of a candidate while the reply continues, by the state of the candidate."""
_THINK, _END_THINK = "<think>", "</think>"
_MAX_SPACE_BEFORE_THINKING = 256


@dataclass(frozen=True, slots=True)
class VisibleText:
    """Text of the answer, unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class ExtractedCalls:
    """Text that was extracted from the reply."""

    raw: str
    """The text as it was written."""
    calls: tuple[WrittenCall, ...] = ()
    """The calls in it; none if it is white space after a call."""


ScannedPart: TypeAlias = VisibleText | ExtractedCalls


@dataclass(frozen=True, slots=True)
class RejectedCandidate:
    """A candidate that stays in the text."""

    text: str
    """The start of its text."""
    reason: str
    """The reason in one line."""


class TextCalls:
    """An extractor of the calls in the text of one reply."""

    def __init__(self, tools: Iterable[ToolSpec], *, before: str = "") -> None:
        """Extract calls of `tools`; a call of any other tool stays text.

        `before` is the text of the same reply from an earlier attempt. If a code block is open at its end, the new text
        starts inside code.
        """
        self.rejected_candidates: list[RejectedCandidate] = []
        self.ends_rejected = False
        """The reply ends with a rejected call, so that the model expects a result."""
        self.forms: set[str] = set()
        """The forms of the calls so far. A `marked fence` begins with the word `tool_call`, a `fence` with `json`."""
        self._tools = {tool.name: tool for tool in tools}
        self._code = CodeSpans()
        self._code.feed(before)
        self._thinking_state: Literal["possible", "begun", "over"] = "over" if before else "possible"
        self._undecided = ""
        """The end of the text so far, which may be the start of a mark."""
        self._candidate: Candidate | None = None
        self._is_after_call = False
        """Only white space has followed the last call."""
        self._has_invalid_call = False
        """A call was invalid, so no more calls are extracted."""
        self._is_in_invalid_call = False
        """The current text is inside an invalid call."""
        self._invalid_call_end = ""
        """The end mark of the invalid call, empty if it has none."""
        self._parts: list[ScannedPart] = []

    def feed(self, text: str) -> list[ScannedPart]:
        """Add text; return the parts that are certain so far, in order; no part is empty."""
        self._read(text)
        return self._merged_parts()

    def flush(self, *, is_cut: bool = False) -> list[ScannedPart]:
        """Return the remaining parts at the end of the text.

        If `is_cut`, the output limit or a broken connection ended the text. Then a marked call that is still open is
        returned as incomplete, with its arguments so far. At a normal end, an open call is rejected.
        """
        while self._candidate is not None:
            self._read(self._end_candidate(self._candidate, is_cut=is_cut))
        undecided, self._undecided = self._undecided, ""
        if is_cut and self._thinking_state == "over" and is_partial_mark(undecided) and not self._code.is_inside():
            self._parts.append(ExtractedCalls(undecided, (WrittenCall(NO_NAME, "", is_complete=False),)))
        else:
            self._show(undecided)
        return self._merged_parts()

    def _merged_parts(self) -> list[ScannedPart]:
        """Return and clear the parts so far, with adjacent visible text joined."""
        parts, self._parts = self._parts, []
        merged: list[ScannedPart] = []
        for is_visible, run in groupby(parts, key=lambda part: isinstance(part, VisibleText)):
            if is_visible:
                merged.append(VisibleText("".join(_texts(run))))
            else:
                merged.extend(run)
        return merged

    def _read(self, text: str) -> None:
        """Scan text: first the thinking, then plain text and candidates in turn."""
        while text:
            if self._thinking_state != "over":
                text = self._read_thinking(text)
            elif self._candidate is None:
                text = self._find_candidate(self._undecided + text)
            else:
                text = self._feed_candidate(self._candidate, text)

    def _read_thinking(self, text: str) -> str:
        """Show thinking at the start of a reply; return the text after it."""
        text, self._undecided = self._undecided + text, ""
        if self._thinking_state == "possible":
            begin = text.lstrip()
            is_at_start = len(text) - len(begin) <= _MAX_SPACE_BEFORE_THINKING
            if is_at_start and begin.startswith(_THINK):
                self._thinking_state = "begun"
            elif is_at_start and _THINK.startswith(begin):
                self._undecided = text
                return ""
            else:
                self._thinking_state = "over"
                return text
        position = text.find(_END_THINK)
        if position < 0:
            starts_of_end = [_END_THINK[:length] for length in range(len(_END_THINK) - 1, 0, -1)]
            self._undecided = next((start for start in starts_of_end if text.endswith(start)), "")
            self._append(text.removesuffix(self._undecided))
            return ""
        self._thinking_state = "over"
        self._append(text[: position + len(_END_THINK)])
        return text[position + len(_END_THINK) :]

    def _find_candidate(self, text: str) -> str:
        """Show text up to the next candidate; return the text after its mark."""
        self._undecided = ""
        position = 0
        while (mark := find_mark(text, position)) is not None:
            mark_text = text[mark.start : mark.end]
            self._show(text[position : mark.start])
            form = self._form_of(mark)
            if form is not None and not self._has_invalid_call:
                self._candidate = Candidate(form, mark_text)
                self._is_in_invalid_call = False
                return text[mark.end :]
            if form is not None and form.is_marked and not self._is_in_invalid_call:
                self._begin_invalid_call(form, is_call=True)
            self._show(mark_text)
            self._end_invalid_call(mark_text)
            position = mark.end
        undecided_start = len(text) - count_undecided(text[position:])
        self._show(text[position:undecided_start])
        self._undecided = text[undecided_start:]
        return ""

    def _form_of(self, mark: CallMark) -> CallForm | None:
        """Return the form of the candidate at `mark`, None if the mark is only text."""
        if mark.form is None:
            return None
        if not mark.is_fence:
            return None if self._code.is_inside() else mark.form
        return mark.form if self._code.is_at_line_start and not self._code.is_in_fence else None

    def _feed_candidate(self, candidate: Candidate, text: str) -> str:
        """Add text to the candidate; return the text after it once it is decided."""
        candidate.feed(text)
        if candidate.state == "closed":
            return self._close(candidate)
        if candidate.state == "open" and candidate.size <= MAX_CALL_CHARS:
            return ""
        return self._reject(candidate, _REASONS[candidate.state])

    def _close(self, candidate: Candidate) -> str:
        """Extract the calls of a closed candidate, or show its text if they are invalid; return the text after it."""
        self._candidate = None
        body = candidate.body
        try:
            calls = candidate.calls(self._tools)
        except UnreadableError as error:
            if error.is_attempt:
                self._record_rejection(candidate, str(error))
            self._show(candidate.opener + body[: candidate.end])
            self.ends_rejected = candidate.form.is_marked
            return body[candidate.end :]
        form = candidate.form
        self.forms.add(f"marked {form.name}" if form.name == "fence" and form.is_marked else form.name)
        self._extract(candidate.opener + body[: candidate.end], calls)
        return body[candidate.end :]

    def _end_candidate(self, candidate: Candidate, *, is_cut: bool) -> str:
        """Handle the end of the reply inside `candidate`; return the text to scan again."""
        candidate.finish()
        if candidate.state == "closed":
            return self._close(candidate)
        if is_cut and candidate.is_attempt:
            try:
                calls = candidate.cut_calls(self._tools)
            except UnreadableError as error:
                return self._reject(candidate, str(error))
            self._candidate = None
            self._extract(candidate.opener + candidate.body, calls)
            return ""
        return self._reject(candidate, "it was never closed")

    def _reject(self, candidate: Candidate, reason: str) -> str:
        """Show the mark of the candidate as text; return the text after the mark, which must be scanned again."""
        self._candidate = None
        if candidate.is_attempt:
            self._record_rejection(candidate, reason)
        self._show(candidate.opener)
        if candidate.form.is_marked:
            is_call = candidate.state != "unrelated"
            self._has_invalid_call = self._has_invalid_call or is_call
            self._begin_invalid_call(candidate.form, is_call=is_call)
        return candidate.body

    def _begin_invalid_call(self, form: CallForm, *, is_call: bool) -> None:
        """Start an invalid call, which is shown up to the end mark of `form`. `is_call` is whether a call was meant."""
        # A fence without a call is an ordinary code block.
        self._is_in_invalid_call = form.name != "fence" or is_call
        self._invalid_call_end = form.invalid_call_end
        self.ends_rejected = is_call

    def _end_invalid_call(self, mark: str) -> None:
        """End the invalid call if `mark` is its end mark; the model then expects a result."""
        if self._is_in_invalid_call and mark == self._invalid_call_end:
            self._is_in_invalid_call = False
            self.ends_rejected = True
        elif self._has_invalid_call and mark == END_TAG:
            self.ends_rejected = True  # the outer end mark in `<tool_call><function=…></function></tool_call>`

    def _record_rejection(self, candidate: Candidate, reason: str) -> None:
        if len(self.rejected_candidates) < MAX_REJECTED:
            body = candidate.body
            if candidate.state != "open":
                body = body[: max(candidate.end, candidate.size)]  # without the text after the candidate
            self.rejected_candidates.append(RejectedCandidate((candidate.opener + body)[:_EXCERPT_CHARS], reason))

    def _extract(self, raw: str, calls: list[WrittenCall]) -> None:
        self._parts.append(ExtractedCalls(raw, tuple(calls)))
        self._is_after_call = True
        self.ends_rejected = False

    def _show(self, text: str) -> None:
        """Show text. White space between a call and the text after it belongs to the call."""
        self._code.feed(text)
        if self._is_after_call:
            stripped = text.lstrip()
            if len(stripped) < len(text):
                self._parts.append(ExtractedCalls(text[: len(text) - len(stripped)]))
            text = stripped
        if not text:
            return
        self._is_after_call = False
        if not self._is_in_invalid_call and not text.isspace():
            self.ends_rejected = False
        self._append(text)

    def _append(self, text: str) -> None:
        if text:
            self._parts.append(VisibleText(text))


def _texts(parts: Iterable[ScannedPart]) -> Iterator[str]:
    return (part.text for part in parts if isinstance(part, VisibleText))


_TOKEN = re.compile(r"\n|`+|~+|[ \t\r]+|[^\n`~ \t\r]+")
_MIN_FENCE = 3
_MAX_RUN = 64


class CodeSpans:
    """An incremental scanner of Markdown that knows whether the current position is inside code."""

    def __init__(self) -> None:
        self._fence = ""
        """The backticks or tildes that opened the current fence, empty outside fences."""
        self._is_info_line = False
        """The current line opened the fence."""
        self._may_close = False
        """The current line closes the fence, if nothing but white space follows."""
        self._span = ""
        """The backticks that opened the current code span, empty outside spans."""
        self._run = ""
        """The backticks or tildes directly before the current position."""
        self._is_blank = True
        """The current line has only white space so far."""

    @property
    def is_at_line_start(self) -> bool:
        """Whether only white space precedes the current position on its line."""
        return self._is_blank and not self._run

    @property
    def is_in_fence(self) -> bool:
        return bool(self._fence)

    def is_inside(self) -> bool:
        """Return whether the current position is in code. The next character must not be a backtick or a tilde."""
        self._end_run()
        return bool(self._fence or self._span)

    def feed(self, text: str) -> None:
        for match in _TOKEN.finditer(text):
            part = match.group()
            if part[0] in "`~":
                if self._run and self._run[0] != part[0]:
                    self._end_run()
                self._run = (self._run + part)[:_MAX_RUN]
                continue
            self._end_run()
            if part == "\n":
                self._end_line()
            elif not part.isspace():
                self._is_blank = self._may_close = False

    def _end_run(self) -> None:
        """Handle the end of a run of backticks or tildes, which may open or close a fence or a code span."""
        run, self._run = self._run, ""
        if not run:
            return
        if self._fence:
            if self._is_info_line and run[0] == self._fence[0] == "`":
                # The first line of a backtick fence contains no backticks, so this was a code span.
                self._fence, self._is_info_line = "", False
            else:
                self._may_close = self._is_blank and run.startswith(self._fence)
        elif self._is_blank and len(run) >= _MIN_FENCE:
            self._fence, self._is_info_line = run, True
        elif run == self._span:
            self._span = ""
        elif run[0] == "`" and not self._span:
            self._span = run
        self._is_blank = False

    def _end_line(self) -> None:
        if self._may_close:
            self._fence = ""
        self._is_info_line = self._may_close = False
        self._span = ""
        self._is_blank = True
