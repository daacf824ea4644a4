"""The vocabulary inside the package, as an encoder of tiktoken.

tiktoken's own `get_encoding` is never called: where its cache is empty it fetches, without a time limit. The data
and its source are in `o200k_base.json`, `o200k_base.tiktoken.xz` and `o200k_base.LICENSE`, all made by `build`.
"""

from __future__ import annotations

import json
import logging
from binascii import a2b_base64
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tiktoken import Encoding

NAME = "o200k_base"

_log = logging.getLogger(__name__)
_lock = Lock()
_loaded: list[Encoder | None] = []


class Encoder(Protocol):
    """Text to tokens; what looks like a special token is ordinary text."""

    def encode_ordinary(self, text: str) -> list[int]: ...


def load() -> Encoder | None:
    """Return the encoder, loaded once in a process (about 0.3 s); None where tiktoken or the data is missing.

    Safe to call from several threads: the others wait for the first.
    """
    with _lock:
        if not _loaded:
            _loaded.append(_try_to_read(Path(__file__).parent))
        return _loaded[0]


def _try_to_read(folder: Path) -> Encoder | None:
    # A Python may be built without lzma, which is an ImportError too.
    try:
        return read(folder)
    except (ImportError, OSError, EOFError, ValueError, LookupError) as error:
        _log.warning("tokens are estimated, not counted: %s: %s", type(error).__name__, error)
        return None


def read(folder: Path) -> Encoding:
    """Read the vocabulary in `folder`; raise `ImportError`, `OSError`, `ValueError`, ... where that is not possible."""
    import lzma

    from tiktoken import Encoding

    facts = json.loads((folder / f"{NAME}.json").read_text(encoding="utf-8"))
    try:
        listed = lzma.decompress((folder / f"{NAME}.tiktoken.xz").read_bytes())
    except lzma.LZMAError as error:
        raise ValueError(f"{NAME}.tiktoken.xz is damaged: {error}") from error
    return Encoding(
        NAME,
        pat_str=facts["pattern"],
        mergeable_ranks=ranks_in(listed),
        special_tokens=facts["special_tokens"],
    )


def ranks_in(listed: bytes) -> dict[bytes, int]:
    """Return the ranks of a rank file: a token in base64 and its rank on each line."""
    words = listed.split()
    return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
