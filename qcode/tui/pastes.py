"""Big pastes as one short label in the prompt, the whole text when it is sent. Pure."""

from __future__ import annotations

from qcode.safety.cleaning import clean
from qcode.tui.labels import Labels, replaced

LONGEST_UNFOLDED = 100_000
"""Characters of the longest paste that is laid out in the prompt; a longer one is for the editor."""

_FEW_LINES = 10
_FEW_CHARACTERS = 1_000


class Pastes:
    """The folded pastes of this run."""

    def __init__(self) -> None:
        self.labels: Labels[str] = Labels()

    def fold(self, text: str) -> str:
        """Return `text`, or a label for it when it is more than about ten lines or a thousand characters."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines <= _FEW_LINES and len(text) <= _FEW_CHARACTERS:
            return text
        size = f"+{lines:,} lines" if lines > 1 else f"+{len(text):,} chars"
        return self.labels.add(f"[Pasted text #{self.labels.number} {size}]", text)

    def expand(self, text: str) -> str:
        """Return `text` with every label of this run replaced by what was pasted; other text is untouched."""
        return replaced(text, self.labels)


def pasted(text: str) -> str:
    """Return what a paste puts into the prompt: `\\n` line ends, for terminals paste carriage returns, and nothing a
    terminal would act on, so that what is sent is what can be seen."""
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))
