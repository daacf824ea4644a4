"""Short labels in the prompt that stand for something bigger: a folded paste, an image. Pure.

A label is one thing: the cursor does not stand inside it and it is deleted whole. Numbers are never used twice in a
run, so a label that comes back (by undo, history, or typed by hand) still means what it meant.
"""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

_LABEL = re.compile(r"\[(?:Pasted text|Image) #\d+ [^\[\]\n]{1,200}\]")

Meaning = TypeVar("Meaning")


class Labels(Generic[Meaning]):
    """The labels of one kind and what they stand for; `number` is that of the next."""

    def __init__(self) -> None:
        self._meanings: dict[str, Meaning] = {}

    @property
    def number(self) -> int:
        return len(self._meanings) + 1

    def add(self, label: str, meaning: Meaning) -> str:
        """Remember what `label` stands for; raise `ValueError` where it could not be found again in a text."""
        if not _LABEL.fullmatch(label):
            raise ValueError(f"{label!r} is no label")
        self._meanings[label] = meaning
        return label

    def __contains__(self, label: object) -> bool:
        return label in self._meanings

    def __getitem__(self, label: str) -> Meaning:
        return self._meanings[label]

    def within(self, text: str) -> list[str]:
        """Return the labels of this kind in `text`, in order."""
        return [match[0] for match in _LABEL.finditer(text) if match[0] in self._meanings]


def spans(line: str, *kinds: Labels[Any]) -> list[tuple[int, int]]:
    """Return where the labels of these kinds stand in a line, as start and end."""
    if "[" not in line:
        return []
    return [match.span() for match in _LABEL.finditer(line) if any(match[0] in kind for kind in kinds)]


def replaced(text: str, kind: Labels[str]) -> str:
    """Return `text` with every label of `kind` replaced by its meaning; what is replaced is not looked at again."""
    return _LABEL.sub(lambda match: kind[match[0]] if match[0] in kind else match[0], text)
