"""Takes calls written as text out of a reply while it streams. Pure; `candidate` follows each one to its end.

Calls and visible text add up to the input, however it was split into chunks. Nothing inside code is taken: fences of
other languages, spans between backticks, thinking at the start of a reply. After a call that could not be read, no more
calls are taken from the reply: its arguments may look like calls. Fences and code spans follow CommonMark, except that
a span ends with its line: a backtick without a partner must not hide the rest of the text.
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
    find_mark,
    is_mark_begun,
    undecided,
)
from qcode.values import dataclass

MAX_CALL_CHARS = 1_000_000
"""Characters of the longest call that is held back while it is being written; a longer one stays text."""
MAX_REJECTED = 100

_EXCERPT_CHARS = 200
_REASONS = {
    "open": f"it is longer than {MAX_CALL_CHARS} characters",
    "broken": "its content is not a valid call",
    "unrelated": "no call follows its marker",
}
_THINK, _END_THINK = "<think>", "</think>"
_MAX_SPACE_BEFORE_THINKING = 256


@dataclass(frozen=True, slots=True)
class VisibleText:
    """Text of the answer, unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class ExtractedCalls:
    """Text taken out: `raw` as it was written, and its calls. White space after a call is taken out without calls."""

    raw: str
    calls: tuple[WrittenCall, ...] = ()


Piece: TypeAlias = VisibleText | ExtractedCalls


@dataclass(frozen=True, slots=True)
class RejectedCandidate:
    """A candidate that stays in the text: its start, and one line that says why it is not a call."""

    text: str
    reason: str


class TextCalls:
    """Takes the calls out of the text of one reply. `tools` are the offered ones; a call of any other tool stays text.

    `before` is text of the same reply from an earlier attempt: it determines whether this one starts inside code.
    """

    def __init__(self, tools: Iterable[ToolSpec], *, before: str = "") -> None:
        self.rejected_candidates: list[RejectedCandidate] = []
        self.ends_rejected = False
        """The reply ends with a marked call that was rejected: the model expects a result."""
        self.forms: set[str] = set()
        """The forms of the calls taken so far; `fence` is one that may also hold other JSON."""
        self._tools = {tool.name: tool for tool in tools}
        self._code = CodeSpans()
        self._code.feed(before)
        self._thinking_state: Literal["possible", "begun", "over"] = "over" if before else "possible"
        self._rest = ""
        self._candidate: Candidate | None = None
        self._is_behind_call = False
        self._is_spoilt = False
        self._is_in_broken = False
        self._broken_end = ""
        self._pieces: list[Piece] = []

    def feed(self, text: str) -> list[Piece]:
        """Add text; return the pieces that are decided by now, in order. No piece is empty."""
        self._read(text)
        return self._merged_pieces()

    def flush(self, *, is_cut: bool = False) -> list[Piece]:
        """Return the remaining pieces: the text has ended.

        `is_cut`: the output limit or a broken connection ended it. A marked call that is still open is then returned as
        incomplete, with its arguments so far; otherwise it is rejected.
        """
        while self._candidate is not None:
            self._read(self._end_candidate(self._candidate, is_cut=is_cut))
        rest, self._rest = self._rest, ""
        if is_cut and self._thinking_state == "over" and is_mark_begun(rest) and not self._code.is_inside():
            self._pieces.append(ExtractedCalls(rest, (WrittenCall(NO_NAME, "", is_complete=False),)))
        else:
            self._show(rest)
        return self._merged_pieces()

    def _merged_pieces(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        runs = groupby(pieces, key=lambda piece: isinstance(piece, VisibleText))
        return [
            piece for is_visible, run in runs for piece in ([VisibleText("".join(_texts(run)))] if is_visible else run)
        ]

    def _read(self, text: str) -> None:
        while text:
            if self._thinking_state != "over":
                text = self._read_thinking(text)
            elif self._candidate is None:
                text = self._find_candidate(self._rest + text)
            else:
                text = self._follow(self._candidate, text)

    def _read_thinking(self, text: str) -> str:
        """Pass thinking at the start of a reply through; return the text after it."""
        text, self._rest = self._rest + text, ""
        if self._thinking_state == "possible":
            begin = text.lstrip()
            is_at_start = len(text) - len(begin) <= _MAX_SPACE_BEFORE_THINKING
            if is_at_start and begin.startswith(_THINK):
                self._thinking_state = "begun"
            elif is_at_start and _THINK.startswith(begin):
                self._rest = text
                return ""
            else:
                self._thinking_state = "over"
                return text
        at = text.find(_END_THINK)
        if at < 0:
            undecided = next((n for n in range(len(_END_THINK) - 1, 0, -1) if text.endswith(_END_THINK[:n])), 0)
            self._rest = text[len(text) - undecided :]
            self._append(text[: len(text) - undecided])
            return ""
        self._thinking_state = "over"
        self._append(text[: at + len(_END_THINK)])
        return text[at + len(_END_THINK) :]

    def _find_candidate(self, text: str) -> str:
        """Show text up to the next candidate; return the text after its mark."""
        self._rest = ""
        start = at = 0
        while (mark := find_mark(text, at)) is not None:
            self._show(text[start : mark.start])
            start = at = mark.start
            form = self._form_of(mark)
            if form is not None and not self._is_spoilt:
                self._candidate = Candidate(form, text[mark.start : mark.end])
                self._is_in_broken = False
                return text[mark.end :]
            if form is not None and form.is_marked and not self._is_in_broken:
                self._begin_malformed(form, is_call=True)
            start = at = mark.end
            self._show(text[mark.start : at])
            self._end_broken(text[mark.start : at])
        length = undecided(text[start:])
        self._show(text[start : len(text) - length])
        self._rest = text[len(text) - length :]
        return ""

    def _form_of(self, mark: CallMark) -> CallForm | None:
        """Return the form of the candidate at `mark`; None if it is only text."""
        if mark.form is None:
            return None
        if not mark.is_fence:
            return None if self._code.is_inside() else mark.form
        return mark.form if self._code.is_at_line_start and not self._code.is_in_fence else None

    def _follow(self, candidate: Candidate, text: str) -> str:
        """Add text to the candidate; return the text after it once it is decided."""
        candidate.feed(text)
        if candidate.state == "closed":
            return self._close(candidate)
        if candidate.state == "open" and candidate.size <= MAX_CALL_CHARS:
            return ""
        return self._reject(candidate, _REASONS[candidate.state])

    def _close(self, candidate: Candidate) -> str:
        self._candidate = None
        body = candidate.body
        try:
            calls = candidate.calls(self._tools)
        except UnreadableError as error:
            if error.is_attempt:
                self._note(candidate, str(error))
            self._show(candidate.opener + body[: candidate.end])
            self.ends_rejected = candidate.form.is_marked
            return body[candidate.end :]
        form = candidate.form
        self.forms.add(f"marked {form.name}" if form.name == "fence" and form.is_marked else form.name)
        self._take(candidate.opener + body[: candidate.end], calls)
        return body[candidate.end :]

    def _end_candidate(self, candidate: Candidate, *, is_cut: bool) -> str:
        """End the reply inside `candidate`; return the text to scan again."""
        candidate.finish()
        if candidate.state == "closed":
            return self._close(candidate)
        if is_cut and candidate.is_attempt:
            try:
                calls = candidate.cut_calls(self._tools)
            except UnreadableError as error:
                return self._reject(candidate, str(error))
            self._candidate = None
            self._take(candidate.opener + candidate.body, calls)
            return ""
        return self._reject(candidate, "it was never closed")

    def _reject(self, candidate: Candidate, reason: str) -> str:
        """Leave the candidate in the text: show its mark and scan the rest again as text."""
        self._candidate = None
        if candidate.is_attempt:
            self._note(candidate, reason)
        self._show(candidate.opener)
        if candidate.form.is_marked:
            is_call = candidate.state != "unrelated"
            self._is_spoilt = self._is_spoilt or is_call
            self._begin_malformed(candidate.form, is_call=is_call)
        return candidate.body

    def _begin_malformed(self, form: CallForm, *, is_call: bool) -> None:
        """Treat text up to the end of `form` as text that was meant as a call (`is_call`), or may have been."""
        self._is_in_broken, self._broken_end = form.name != "fence" or is_call, form.broken_end
        self.ends_rejected = is_call

    def _end_broken(self, mark: str) -> None:
        if self._is_in_broken and mark == self._broken_end:
            self._is_in_broken, self.ends_rejected = False, True
        elif self._is_spoilt and mark == END_TAG:
            self.ends_rejected = True

    def _note(self, candidate: Candidate, reason: str) -> None:
        if len(self.rejected_candidates) < MAX_REJECTED:
            known = (
                candidate.body if candidate.state == "open" else candidate.body[: max(candidate.end, candidate.size)]
            )
            self.rejected_candidates.append(RejectedCandidate((candidate.opener + known)[:_EXCERPT_CHARS], reason))

    def _take(self, raw: str, calls: list[WrittenCall]) -> None:
        self._pieces.append(ExtractedCalls(raw, tuple(calls)))
        self._is_behind_call = True
        self.ends_rejected = False

    def _show(self, text: str) -> None:
        """Show text. White space between a call and the text after it belongs to the call."""
        self._code.feed(text)
        if self._is_behind_call:
            behind = text.lstrip()
            if len(behind) < len(text):
                self._pieces.append(ExtractedCalls(text[: len(text) - len(behind)]))
            text = behind
        if not text:
            return
        self._is_behind_call = False
        if not self._is_in_broken and not text.isspace():
            self.ends_rejected = False
        self._append(text)

    def _append(self, text: str) -> None:
        if text:
            self._pieces.append(VisibleText(text))


def _texts(pieces: Iterable[Piece]) -> Iterator[str]:
    return (piece.text for piece in pieces if isinstance(piece, VisibleText))


_PIECE = re.compile(r"\n|`+|~+|[ \t\r]+|[^\n`~ \t\r]+")
_MIN_FENCE = 3
_MAX_RUN = 64


class CodeSpans:
    """Follows Markdown code in text of any chunk size, and knows whether its end is inside code."""

    def __init__(self) -> None:
        self._fence = ""
        self._is_info_line = self._may_close = False
        self._span = ""
        self._fence_run = ""
        self._is_blank = True

    @property
    def is_at_line_start(self) -> bool:
        """Whether only white space precedes the current position on its line."""
        return self._is_blank and not self._fence_run

    @property
    def is_in_fence(self) -> bool:
        return bool(self._fence)

    def is_inside(self) -> bool:
        """Whether the current position is in code, if the next character is neither a backtick nor a tilde."""
        self._end_run()
        return bool(self._fence or self._span)

    def feed(self, text: str) -> None:
        for found in _PIECE.finditer(text):
            piece = found.group()
            if piece[0] in "`~":
                if self._fence_run and self._fence_run[0] != piece[0]:
                    self._end_run()
                self._fence_run = (self._fence_run + piece)[:_MAX_RUN]
                continue
            self._end_run()
            if piece == "\n":
                self._end_line()
            elif not piece.isspace():
                self._is_blank = self._may_close = False

    def _end_run(self) -> None:
        run, self._fence_run = self._fence_run, ""
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
        elif run[0] == "`":
            self._span = "" if run == self._span else self._span or run
        self._is_blank = False

    def _end_line(self) -> None:
        if self._may_close:
            self._fence = ""
        self._is_info_line = self._may_close = False
        self._span = ""
        self._is_blank = True
