"""A page of the web as text, converted where it can be ended: what a host sends may be made to hurt."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from qcode.tools import pages
from qcode.tools.refusal import Refused
from qcode.tools.side_process import SideProcess

LIMIT_S = 25.0
_PROGRAM = Path(pages.__file__)
# Codecs of Python that are no encoding of text on the web; some fail, some take time that grows with the square.
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"})


def decode_page(data: bytes, charset: str) -> str:
    """Return what a page says; a charset that is unknown or not of the web is taken for UTF-8."""
    name = charset.casefold().replace("-", "_")
    try:
        return data.decode("utf-8" if name in _NO_CHARSETS else charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def html_text(html: str, url: str, process: SideProcess) -> str:
    """Return a page as Markdown; raise `Refused` where that takes too long or too much."""
    found = importlib.util.find_spec("bs4")
    if found is None or found.origin is None:
        raise Refused("HTML cannot be read: beautifulsoup4 is not installed")
    folder = str(Path(found.origin).parents[1])
    printed = process.run(_PROGRAM, [folder, url], html.encode("utf-8", "replace"), LIMIT_S)
    if not printed.lines:
        raise Refused(f"{url} cannot be turned into text: {printed.failure}")
    text: str = json.loads(printed.lines[0])
    return text
