"""Big pastes as one short label in the prompt, the whole text when it is sent. Pure."""

from __future__ import annotations

import re

_FEW_LINES = 10
_FEW_CHARACTERS = 1_000
_LABEL = re.compile(r"\[Pasted text #(\d+) \+[\d,]+ (?:lines|chars)\]")


class Pastes:
    """The folded pastes of this run. Numbers are never used twice, so a recalled label still means its text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return `text`, or a label for it when it is more than about ten lines or a thousand characters."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= _FEW_LINES and len(text) <= _FEW_CHARACTERS:
            return text
        size = f"+{lines:,} lines" if lines > 1 else f"+{len(text):,} chars"
        label = f"[Pasted text #{len(self._texts) + 1} {size}]"
        self._texts[label] = text
        return label

    def expand(self, text: str) -> str:
        """Return `text` with every label of this run replaced by what was pasted; other text is untouched."""
        return _LABEL.sub(lambda match: self._texts.get(match[0], match[0]), text)

    def label_before(self, text: str) -> str:
        """Return the label that `text` ends with, empty where it does not end with one."""
        if not text.endswith("]"):
            return ""
        start = text.rfind("[Pasted text #")
        label = text[start:] if start >= 0 else ""
        return label if label in self._texts else ""


def normalize_newlines(text: str) -> str:
    """Return `text` with `\\n` line ends: terminals paste carriage returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
