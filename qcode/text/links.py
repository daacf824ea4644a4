"""Finds web addresses in text without markup, so that they can be shown as links."""

from __future__ import annotations

import re
from collections.abc import Iterator

from qcode.values import dataclass

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,:;!?)\]}*_]")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A web address, or the text between two of them."""

    text: str
    is_address: bool = False


def split_at_addresses(text: str) -> Iterator[TextPart]:
    """Yield the web addresses in `text` and the texts between them, in order. No part is empty.

    Punctuation after an address is not part of it: in `see https://a.b/c.` the address ends before the full stop.
    """
    end = 0
    for match in _ADDRESS.finditer(text) if "://" in text else ():
        if match.start() > end:
            yield TextPart(text[end : match.start()])
        yield TextPart(match.group(), is_address=True)
        end = match.end()
    if end < len(text):
        yield TextPart(text[end:])
