"""Fenced code blocks of Markdown (CommonMark): which one is open after a text, and whether a line reopens it. Pure."""

from __future__ import annotations

import re

from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

MAX_FENCE_LINE = 200
"""A longer incomplete line, in characters, is not treated as the start of a fence line."""

_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})([^\n]*)")
# A text that is exactly one fenced block; the group is its content.
_SINGLE_BLOCK = lazy_pattern(r"```[\w+-]*\n(.*\n)```\n?", re.DOTALL)
_HOLDS_FENCES = frozenset({"markdown", "md", "mdx", "rmd", "qmd", "rst", "text", "txt", "plain", "plaintext"})
"""The languages of blocks that may themselves contain fences."""


@dataclass(frozen=True, slots=True)
class Fence:
    """An open fence."""

    marker: str
    """The backticks or tildes of the opening line."""
    language: str
    """In lower case; it may be empty."""

    @property
    def may_hold_fences(self) -> bool:
        """Whether the text inside may itself contain fences, as Markdown does."""
        return self.language in _HOLDS_FENCES


def fenced(text: str, language: str = "") -> str:
    """Return `text` in a code fence that is longer than any fence in it."""
    fence = "`" * max(3, longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest


def unfenced(text: str) -> str | None:
    """Return the content of a text that is exactly one fenced block; None for any other text."""
    match = _SINGLE_BLOCK.fullmatch(text)
    return None if match is None else match[1]


def without_opening(text: str, language: str) -> str:
    """Return `text` without a first line that opens a code block, if the block has no language or `language`."""
    fence = _FENCE.match(text, len(text) - len(text.lstrip()))
    if fence is None or not text.startswith("\n", fence.end()) or _language(fence[2]) not in ("", language):
        return text
    return text[fence.end() + 1 :]


def fence_after(marker: str | None, line: str) -> str | None:
    """Return the marker of the fence that is open after `line`; `marker` is the one open before it.

    A fence in an open block closes the block only if it is at least as long as `marker` and has no language. Example:
    after "````", the lines "```" and "```py" are content.
    """
    if "```" not in line and "~~~" not in line:
        return marker
    match = _FENCE.match(line)
    if match is None:
        return marker
    new_marker, info = match.groups()
    if marker is None:
        is_code_span = new_marker.startswith("`") and "`" in info  # "```code``` in a line" opens no block
        return None if is_code_span else new_marker
    closes = new_marker.startswith(marker) and not info.strip()
    return None if closes else marker


def open_fence(before: str) -> Fence | None:
    """Return the fence that is open at the end of `before`, or None.

    A fence in an incomplete last line counts as open, although its language may be incomplete.
    """
    marker, opening = None, ""
    for line in before.split("\n"):
        after = fence_after(marker, line)
        if marker is None and after is not None:
            opening = line
        marker = after
    return None if marker is None else Fence(marker, _language(opening.lstrip()[len(marker) :]))


def reopened_fence_length(text: str, fence: Fence, *, is_inside_line: bool) -> int:
    """Return the length of a line at the start of `text` that reopens `fence`, newline included, otherwise 0.

    A fence line with a language never closes a block, so it reopens `fence`. If the block may itself contain fences,
    the line must be the same as the original opening line. A bare fence closes the block, with two exceptions. After an
    incomplete line (`is_inside_line`) no fence can close a block. Before an indented line, which is code, it reopens
    `fence`.
    """
    leading_breaks = len(text) - len(text.lstrip("\r\n"))
    match = _FENCE.match(text, leading_breaks)
    if match is None or not text.startswith("\n", match.end()):
        return 0
    end = match.end() + 1
    marker = match.group(1)
    language = _language(match.group(2))
    if language:
        is_same = marker == fence.marker and language == fence.language
        return 0 if fence.may_hold_fences and not is_same else end
    next_char = text[end : end + 1]
    continues_line = is_inside_line and not leading_breaks and next_char not in ("", "\r", "\n")
    is_reopened = next_char in (" ", "\t") or continues_line
    return end if marker == fence.marker and is_reopened and text[leading_breaks] != " " else 0


def bare_fence_length(text: str, fence: Fence) -> int:
    """Return the length of a line at the start of `text` that is only the marker of `fence`, otherwise 0."""
    content = text.lstrip("\r\n")
    line, newline, _ = content.partition("\n")
    return len(text) - len(content) + len(line) + 1 if newline and line.rstrip() == fence.marker else 0


def may_become_fence(text: str) -> bool:
    """Return whether more text may turn the start of `text` into a fence line.

    Also True if `text` ends after a bare fence, because the next character decides what the fence does.
    """
    line, newline, after = text.lstrip("\r\n").partition("\n")
    if newline:
        return not after and _is_run(line.replace(" ", "").replace("\r", ""))
    line = line.lstrip(" ")
    if len(line) > MAX_FENCE_LINE:
        return False
    return not line or _is_run(line) or line.startswith(("```", "~~~"))


def _is_run(text: str) -> bool:
    """Return whether `text` consists of backticks only, or of tildes only; False if it is empty."""
    return bool(text) and (not text.strip("`") or not text.strip("~"))


def _language(info: str) -> str:
    """Return the language in the text after the marker of a fence, in lower case."""
    words = info.split()
    return words[0].lower() if words else ""
