"""Whether a place in streaming Markdown is inside code: a fence or a span between backticks. Pure.

After CommonMark's rules for fenced code blocks and code spans, except that a span ends with its line: a backtick
without a partner must not hide what follows for ever.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"\n|`+|~+|[ \t\r]+|[^\n`~ \t\r]+")
_MIN_FENCE = 3
_LONGEST_RUN = 64


class CodeSpans:
    """Fed with text in any pieces; says where its end stands."""

    def __init__(self) -> None:
        self._fence = ""
        self._is_info_line = self._may_close = False
        self._span = ""
        self._run = ""
        self._is_blank = True

    @property
    def is_at_line_start(self) -> bool:
        """Nothing but white space stands before this place on its line."""
        return self._is_blank and not self._run

    @property
    def is_in_fence(self) -> bool:
        return bool(self._fence)

    def is_inside(self) -> bool:
        """Say whether this place is in code, where what follows is no backtick and no tilde."""
        self._end_run()
        return bool(self._fence or self._span)

    def feed(self, text: str) -> None:
        for found in _PIECE.finditer(text):
            piece = found.group()
            if piece[0] in "`~":
                if self._run and self._run[0] != piece[0]:
                    self._end_run()
                self._run = (self._run + piece)[:_LONGEST_RUN]
                continue
            self._end_run()
            if piece == "\n":
                self._end_line()
            elif not piece.isspace():
                self._is_blank = self._may_close = False

    def _end_run(self) -> None:
        run, self._run = self._run, ""
        if not run:
            return
        if self._fence:
            if self._is_info_line and run[0] == self._fence[0] == "`":
                # A fence of backticks has none in its first line: this was a span.
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
