"""Images in the prompt: the label of each, and which pasted text names some. Pure; reading files is not done here."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from qcode.tui.file_menu import mention_of
from qcode.tui.labels import Labels
from qcode.tui.text import shorten

if TYPE_CHECKING:
    from qcode.protocol.messages import Image
    from qcode.runtime.pictures import Picture

_NAME_CELLS = 40
_LONGEST_PATHS = 8_000
_IMAGE_PATH = re.compile(r".+\.(?:png|jpe?g|gif|webp)", re.IGNORECASE)
_ODD = re.compile(r"[\[\]\n]")


class Images:
    """The images of this run."""

    def __init__(self) -> None:
        self.labels: Labels[Picture] = Labels()

    def label(self, picture: Picture) -> str:
        """Return the label that stands for an image from now on."""
        name = shorten(_ODD.sub("", picture.name), _NAME_CELLS) or "image"
        size = f" {picture.size[0]}x{picture.size[1]}" if picture.size is not None else ""
        return self.labels.add(f"[Image #{self.labels.number} {name}{size}]", picture)

    def within(self, text: str) -> tuple[Image, ...]:
        """Return the images whose labels are in `text`, each once, in order."""
        return tuple(self.labels[label].image for label in dict.fromkeys(self.labels.within(text)))

    def lasting(self, text: str) -> str:
        """Return `text` as another session can use it: a mention of the file in the place of its label."""
        for label in self.labels.within(text):
            path = self.labels[label].path
            text = text.replace(label, mention_of(path) if path and "://" not in path else "[image]")
        return text


def image_paths(text: str) -> tuple[str, ...]:
    """Return the paths of images that a pasted text is made of, as terminals paste what is dragged onto them.

    They may be quoted, escaped or `file://` addresses. Empty where it holds anything else.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST_PATHS or not _IMAGE_PATH.search(text):
        return ()
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if words and all(_IMAGE_PATH.fullmatch(word) for word in words):
        return tuple(words)
    return (text,) if "\n" not in text and _IMAGE_PATH.fullmatch(text) and text[0] in "/~." else ()
