"""How many tokens a text is: exactly by the vocabulary in the package, or by a bound where that already decides.

Models with another vocabulary cut text up differently: for them a count is an estimate.
Text goes to the encoder in slices: a very long run of white space makes its pattern overflow and print a trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from qcode.providers.counting import vocabulary
from qcode.providers.counting.vocabulary import Encoder

BYTES_PER_TOKEN = 4
SLICE_CHARS = 65_536
MAX_WORD_CHARS = 4_096
"""A stream without a space is counted after so many characters, whether a token ends there or not."""

_WORD_START = re.compile(r"(?<=\S) ")


def upper_bound(text: str) -> int:
    """Return what `text` cannot exceed in any byte-level vocabulary: its length in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate(text: str) -> int:
    """Return about how many tokens `text` is without a vocabulary: four bytes each (characters, in English)."""
    return -(-upper_bound(text) // BYTES_PER_TOKEN)


class TokenCounter:
    """Counts texts; all counters of a process share one vocabulary.

    The vocabulary loads with the first text that needs it. `load` does that ahead of time and may run in a thread.
    """

    def __init__(self, load: Callable[[], Encoder | None] = vocabulary.load) -> None:
        self._load = load
        self._encoder: Encoder | None = None
        self._is_loaded = False

    @property
    def is_exact(self) -> bool:
        """The vocabulary is loaded: the next count is exact and costs no loading."""
        return self._encoder is not None

    def load(self) -> bool:
        """Load the vocabulary if that was not tried yet; return whether counts are exact."""
        if not self._is_loaded:
            self._encoder = self._load()
            self._is_loaded = True
        return self._encoder is not None

    def count(self, text: str) -> int:
        """Return the tokens of `text`; about four bytes each where there is no vocabulary."""
        return self._count(text) if text else 0

    def upper_bound(self, text: str) -> int:
        """Return what `count` never exceeds, without the vocabulary."""
        return upper_bound(text)

    def fits(self, text: str, room: int) -> bool:
        """Say whether `text` is at most `room` tokens; the vocabulary loads only where the byte length leaves it open.

        Counting stops as soon as there is too much.
        """
        if upper_bound(text) <= room:
            return True
        return room >= 0 and self._count(text, room) <= room

    def _count(self, text: str, enough: int | None = None) -> int:
        if not self.load() or self._encoder is None:
            return estimate(text)
        tokens = 0
        for piece in slices(text, SLICE_CHARS):
            tokens += len(self._encoder.encode_ordinary(piece))
            if enough is not None and tokens > enough:
                break
        return tokens


class StreamCounter:
    """Counts a text while it streams, at a cost that grows with the text alone.

    Nothing loads while it streams: until someone has loaded the vocabulary of `counter`, text is kept and estimated.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counted = 0
        self._held: list[str] = []
        self._held_chars = 0
        self._held_bytes = 0
        self._last = " "

    @property
    def tokens(self) -> int:
        """The tokens so far: counted, but for the word being written, which is estimated."""
        return self._counted + -(-self._held_bytes // BYTES_PER_TOKEN)

    def feed(self, text: str) -> int:
        """Append `text`; return `tokens`."""
        if not text:
            return self.tokens
        end = self._end_of_words(text) if self._counter.is_exact else None
        if end is not None:
            self._count_held(text[:end])
        self._hold(text[end:])
        self._last = text[-1]
        return self.tokens

    def finish(self) -> int:
        """Count what is left, loading the vocabulary if nobody has; return the tokens of the whole text."""
        self._count_held("")
        return self._counted

    def _end_of_words(self, text: str) -> int | None:
        """Return up to where `text` can be counted now: two pieces of the pattern meet in front of a word's space."""
        starts = [found.start() for found in _WORD_START.finditer(self._last + text)]
        if starts:
            return starts[-1] - 1
        return len(text) if self._held_chars + len(text) >= MAX_WORD_CHARS else None

    def _hold(self, text: str) -> None:
        if text:
            self._held.append(text)
            self._held_chars += len(text)
            self._held_bytes += upper_bound(text)

    def _count_held(self, more: str) -> None:
        self._counted += self._counter.count("".join((*self._held, more)))
        self._held.clear()
        self._held_chars = self._held_bytes = 0


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
