"""How many tokens a text is, by the vocabulary in the package. Whoever asks is never kept waiting for it to load.

Models with another vocabulary cut text up differently: for them a count is an estimate.
Text goes to the encoder in slices: a very long run of white space makes its pattern overflow and print a trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from qcode.providers.counting import vocabulary
from qcode.providers.counting.vocabulary import Encoder

SLICE_CHARS = 65_536


class TokenCounter:
    """Counts texts; all counters of a process share one vocabulary. May be used from several threads."""

    def __init__(self, load: Callable[[], Encoder | None] = vocabulary.load) -> None:
        self._load = load
        self._encoder: Encoder | None = None
        self._is_loaded = False
        self._loading: threading.Thread | None = None

    def load(self) -> bool:
        """Load the vocabulary if that was not tried yet; return whether texts can be counted. It blocks for 0.3 s."""
        if not self._is_loaded:
            self._encoder = self._load()
            self._is_loaded = True
        return self._encoder is not None

    def count(self, text: str) -> int | None:
        """Return the tokens of `text`, or None where the vocabulary is missing or not loaded yet.

        The first call that needs it has it loaded in a thread, so that a later one gets its count.
        """
        if not self._is_loaded:
            self._load_aside()
            return None
        if self._encoder is None:
            return None
        return sum(len(self._encoder.encode_ordinary(piece)) for piece in slices(text, SLICE_CHARS))

    def _load_aside(self) -> None:
        if self._loading is None:
            self._loading = threading.Thread(target=self.load, name="qcode-vocabulary", daemon=True)
            self._loading.start()


def slices(text: str, size: int) -> Iterator[str]:
    """Yield `text` in slices of at most `size` characters, cut in front of a word where one begins late enough.

    Cut there, the counts of the slices add up to the count of the whole; a cut elsewhere may add a few tokens.
    """
    start = 0
    while len(text) - start > size:
        end = start + size
        cut = text.rfind(" ", start + size // 2, end)
        while cut > 0 and text[cut - 1].isspace():
            cut = text.rfind(" ", start + size // 2, cut)
        end = cut if cut > start else end
        yield text[start:end]
        start = end
    yield text[start:] if start else text
