"""The text of a PDF, page by page, as much as fits."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from qcode.protocol.tools import ToolOutcome
from qcode.tools.refusal import Refused
from qcode.tools.side_process import SideProcess

MOST_PAGES = 20
MOST_CHARS = 200_000
LIMIT_S = 40.0
_PROGRAM = Path(__file__).with_name("pdf_program.py")
_RANGE = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


def page_range(text: str) -> tuple[int, int]:
    """Return first and last page of `3` or `3-7`; raise `Refused` for anything else. Without one, the first pages."""
    if not text.strip():
        return 1, MOST_PAGES
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found is not None else (0, 0)
    if not 1 <= first <= last:
        raise Refused(f"read: pages must be a page or a range such as 3 or 3-7, not {text!r}")
    return first, min(last, first + MOST_PAGES - 1)


def read_pdf(data: bytes, shown: str, pages: tuple[int, int], process: SideProcess) -> ToolOutcome:
    """Return the text of some pages, with how to get the rest; raise `Refused` where there is none to get."""
    found = importlib.util.find_spec("pypdf")
    if found is None or found.origin is None:
        raise Refused(f"{shown} is a PDF, and pypdf, which reads them, is not installed")
    first, last = pages
    arguments = [str(Path(found.origin).parents[1]), str(first), str(last), str(MOST_CHARS)]
    printed = process.run(_PROGRAM, arguments, data, LIMIT_S)
    told = [json.loads(line) for line in printed.lines]
    if not told:
        raise Refused(f"{shown} is a PDF that cannot be read: {printed.failure}")
    count: int = told[0]
    texts: list[tuple[int, str]] = [(number, text) for number, text in told[1:]]
    if not texts:
        if printed.failure:
            raise Refused(f"page {first} of {shown} cannot be read: {printed.failure}")
        raise Refused(f"{shown} has {count} pages; page {first} is beyond its end")
    parts = [f"[page {number}]\n{text.strip() or '[no text on this page]'}" for number, text in texts]
    end = texts[-1][0]
    rest = f"; read on with pages '{end + 1}-{min(end + MOST_PAGES, count)}'" if end < count else ""
    notes = [f"[pages {first}-{end} of {count}{rest}]"]
    if printed.failure:
        notes.append(f"[page {end + 1} cannot be read: {printed.failure}]")
    if not any(text.strip() for _, text in texts):
        notes.append("[there is no text to take out: the pages may be pictures]")
    return ToolOutcome("\n".join([*parts, *notes]), summary=f"{len(texts)} of {count} pages")
