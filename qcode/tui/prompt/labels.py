"""Short labels in the prompt that stand for a folded paste, an image or a side question (an answered `/btw`). Pure.

A label such as `[Image #1 a.png]` is one unit: the cursor never enters it, and it is deleted whole. A process never
reuses a number, so a label that returns (by undo, from the history, typed by hand) keeps its meaning. `attachments`
reads the files.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from qcode.text.clean import clean
from qcode.text.pattern import lazy_pattern
from qcode.tui.prompt.menu import mention_of
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from qcode.agent.context.pictures import Picture
    from qcode.protocol.messages import Image, Text

_LABEL = lazy_pattern(r"\[(?:Pasted text|Image|Aside) #\d+ [^\[\]\n]{1,200}\]")

Meaning = TypeVar("Meaning")


class Labels(Generic[Meaning]):
    """The labels of one kind, each with its meaning: a paste, an image or a side question."""

    def __init__(self) -> None:
        self._meanings: dict[str, Meaning] = {}

    @property
    def next_number(self) -> int:
        return len(self._meanings) + 1

    def add(self, label: str, meaning: Meaning) -> str:
        """Add a label with its meaning; raise `ValueError` for a label that would not be recognized in a text."""
        if not _LABEL.fullmatch(label):
            raise ValueError(f"{label!r} is not a label")
        self._meanings[label] = meaning
        return label

    def __contains__(self, label: object) -> bool:
        return label in self._meanings

    def __getitem__(self, label: str) -> Meaning:
        return self._meanings[label]

    def labels_in(self, text: str) -> list[str]:
        """Return the labels of this kind in `text`, in order."""
        return [match[0] for match in _LABEL.finditer(text) if match[0] in self._meanings]


def label_spans(line: str, *kinds: Labels[Any]) -> list[tuple[int, int]]:
    """Return start and end of each label of these kinds in a line."""
    if "[" not in line:
        return []
    return [match.span() for match in _LABEL.finditer(line) if any(match[0] in kind for kind in kinds)]


def expand_labels(text: str, labels: Labels[str]) -> str:
    """Return `text` with every one of `labels` replaced by its meaning. Labels inside a meaning are not replaced."""
    return _LABEL.sub(lambda match: labels[match[0]] if match[0] in labels else match[0], text)


MAX_UNFOLDED_CHARS = 100_000
"""The maximum length of a text that the prompt lays out; a longer one stays folded and opens only in the editor."""

_MAX_PASTED_LINES = 10
_MAX_PASTED_CHARS = 1_000


class Pastes:
    """The folded pastes of this process."""

    def __init__(self) -> None:
        self.labels: Labels[str] = Labels()

    def fold(self, text: str) -> str:
        """Return `text`; if it has more than ten lines or a thousand characters, return a label that stands for it."""
        lines = text.count("\n")
        if not text.endswith("\n"):
            lines += 1
        if lines <= _MAX_PASTED_LINES and len(text) <= _MAX_PASTED_CHARS:
            return text
        size = f"+{lines:,} lines" if lines > 1 else f"+{len(text):,} chars"
        return self.labels.add(f"[Pasted text #{self.labels.next_number} {size}]", text)

    def expand(self, text: str) -> str:
        """Return `text` with every label of a paste replaced by the pasted text."""
        return expand_labels(text, self.labels)


def clean_paste(text: str) -> str:
    """Return a paste as the prompt inserts it: with `\\n` line ends (terminals paste `\\r`) and no control characters.

    The user thus sees exactly the text that is sent.
    """
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


_MAX_NAME_CELLS = 40
_MAX_PATHS_CHARS = 8_000
"""A longer paste is not searched for image paths."""
_IMAGE_PATH = lazy_pattern(r".+\.(?:png|jpe?g|gif|webp)", re.IGNORECASE)
_FORBIDDEN_IN_LABELS = lazy_pattern(r"[\[\]\n]")


class Images:
    """The images that this process attached to prompts."""

    def __init__(self) -> None:
        self.labels: Labels[Picture] = Labels()

    def label(self, picture: Picture) -> str:
        """Return a new label for an image."""
        name = shorten(_FORBIDDEN_IN_LABELS.sub("", picture.name), _MAX_NAME_CELLS) or "image"
        size = ""
        if picture.size is not None:
            width, height = picture.size
            size = f" {width}x{height}"
        return self.labels.add(f"[Image #{self.labels.next_number} {name}{size}]", picture)

    def images_in(self, text: str) -> tuple[Image, ...]:
        """Return the images whose labels are in `text`, each once, in order."""
        return tuple(self.labels[label].image for label in dict.fromkeys(self.labels.labels_in(text)))

    def with_file_mentions(self, text: str) -> str:
        """Return `text` for use in another session: each label is replaced by a mention of its file."""
        for label in self.labels.labels_in(text):
            path = self.labels[label].path
            text = text.replace(label, mention_of(path) if path and "://" not in path else "[image]")
        return text


class Asides:
    """The labels of the side questions that this process added to prompts, with question and answer."""

    def __init__(self) -> None:
        self.labels: Labels[Text] = Labels()

    def label(self, question: str, block: Text) -> str:
        """Return a new label for a side question; `block` has the question and the answer for the model."""
        name = shorten(_FORBIDDEN_IN_LABELS.sub("", question), _MAX_NAME_CELLS) or "question"
        return self.labels.add(f"[Aside #{self.labels.next_number} {name}]", block)

    def blocks_in(self, text: str) -> tuple[Text, ...]:
        """Return the blocks whose labels are in `text`, each once, in order."""
        return tuple(self.labels[label] for label in dict.fromkeys(self.labels.labels_in(text)))

    def without_labels(self, text: str) -> str:
        """Return `text` without labels, which mean nothing to the model; unchanged if it has only labels."""
        typed = text
        for label in self.labels.labels_in(text):
            typed = typed.replace(f"{label} ", "").replace(label, "")
        return typed if typed.strip() else text


def image_paths(text: str) -> tuple[str, ...]:
    """Return the image paths that a pasted text consists of, as terminals paste files dragged onto them.

    They may be quoted, escaped or `file://` URLs. Return nothing if the text contains anything else.
    """
    text = text.strip()
    if not text or len(text) > _MAX_PATHS_CHARS or not _IMAGE_PATH.search(text):
        return ()
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if words and all(_IMAGE_PATH.fullmatch(word) for word in words):
        return tuple(words)
    # One path with blanks that are neither quoted nor escaped: `/home/me/two words.png`.
    is_path = text[0] in "/~." and "\n" not in text and _IMAGE_PATH.fullmatch(text) is not None
    return (text,) if is_path else ()
