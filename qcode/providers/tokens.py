"""Offline token counts with one vocabulary from the package (o200k_base).

A prompt is counted only if its size is unknown and may exceed the context window. The count is exact for models with
this vocabulary, and an estimate for others. tiktoken is imported when the vocabulary is loaded. Its
`get_encoding` is never called, because this function may download the vocabulary without a time limit.
`scripts/build_vocabulary.py` creates `data/o200k_base.*`. Text is encoded in slices, because a very long run of white
space makes tiktoken's pattern overflow and print a traceback.
"""

from __future__ import annotations

import json
import logging
import threading
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

NAME = "o200k_base"
DATA = Path(__file__).with_name("data")
SLICE_CHARS = 65_536

_log = logging.getLogger(__name__)
_lock = threading.Lock()
loaded: list[Encoding | None] = []
"""The result of `load_vocabulary` after its first call, otherwise empty."""


def load_vocabulary() -> Encoding | None:
    """Return the encoder, loaded once per process (about 0.3 s); None if tiktoken or the data is missing.

    Thread-safe: other callers wait for the first.
    """
    with _lock:
        if not loaded:
            loaded.append(_try_to_read(DATA))
        return loaded[0]


def _try_to_read(folder: Path) -> Encoding | None:
    # A Python built without lzma raises ImportError too.
    try:
        return read_vocabulary(folder)
    except (ImportError, OSError, EOFError, ValueError, LookupError) as error:
        _log.warning("tokens are estimated, not counted: %s: %s", type(error).__name__, error)
        return None


def read_vocabulary(folder: Path) -> Encoding:
    """Read the vocabulary in `folder`. Raise `ImportError`, `OSError`, `ValueError` or `LookupError` if that fails."""
    import lzma

    from tiktoken import Encoding

    facts = json.loads((folder / f"{NAME}.json").read_text(encoding="utf-8"))
    try:
        rank_file = lzma.decompress((folder / f"{NAME}.tiktoken.xz").read_bytes())
    except lzma.LZMAError as error:
        raise ValueError(f"{NAME}.tiktoken.xz is corrupted: {error}") from error
    return Encoding(
        NAME,
        pat_str=facts["pattern"],
        mergeable_ranks=ranks_in(rank_file),
        special_tokens=facts["special_tokens"],
    )


def ranks_in(rank_file: bytes) -> dict[bytes, int]:
    """Parse a rank file. Each line contains a token in base64 and its rank."""
    words = rank_file.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


class TokenCounter:
    """A counter of tokens in a text. All counters of a process share one vocabulary. Thread-safe."""

    def __init__(self, load: Callable[[], Encoding | None] = load_vocabulary) -> None:
        self._load = load
        self._encoder: Encoding | None = None
        self._is_loaded = False
        self._load_thread: threading.Thread | None = None

    def load(self) -> bool:
        """Load the vocabulary if needed; return whether counting is possible. Blocks for about 0.3 s."""
        if not self._is_loaded:
            self._encoder = self._load()
            self._is_loaded = True
        return self._encoder is not None

    def count(self, text: str) -> int | None:
        """Return the number of tokens in `text`, or None if the vocabulary is missing or not loaded yet.

        The first call starts loading the vocabulary in a thread, so that a later call gets a count.
        """
        if not self._is_loaded:
            self._load_in_background()
            return None
        if self._encoder is None:
            return None
        return sum(len(self._encoder.encode_ordinary(chunk)) for chunk in slices(text, SLICE_CHARS))

    def _load_in_background(self) -> None:
        if self._load_thread is None:
            self._load_thread = threading.Thread(target=self.load, name="qcode-vocabulary", daemon=True)
            self._load_thread.start()


def slices(text: str, size: int) -> Iterator[str]:
    """Yield `text` in slices of at most `size` characters, split before a word if possible.

    If all splits are before words, the counts of the slices add up to the exact count. Other splits may add a few
    tokens.
    """
    start = 0
    while len(text) - start > size:
        end = start + size
        cut = text.rfind(" ", start + size // 2, end)
        # A run of spaces is not split, because one token may contain the whole run.
        while cut > 0 and text[cut - 1].isspace():
            cut = text.rfind(" ", start + size // 2, cut)
        end = cut if cut > start else end
        yield text[start:end]
        start = end
    yield text[start:] if start else text
