"""Finds web addresses in text without markup, so that they can be shown as links."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,:;!?)\]}*_]")


def split_addresses(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the addresses in `text` and the texts between them, in order; the boolean is True for an address.

    Punctuation after an address is not part of it: in `see https://a.b/c.` the address ends before the full stop.
    """
    position = 0
    for match in _ADDRESS.finditer(text) if "://" in text else ():
        yield text[position : match.start()], False
        yield match.group(), True
        position = match.end()
    yield text[position:], False
