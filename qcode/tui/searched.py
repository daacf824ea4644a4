"""What is said under a reply for which the host of the model searched the web. Pure."""

from __future__ import annotations

from qcode.protocol.reply import WebSearched
from qcode.tui.text import one_line

_MOST_SOURCES = 20


def searched_text(search: WebSearched) -> str:
    """Return what was searched for, and the pages the reply cites with their whole addresses."""
    queries = "; ".join(f"\u201c{one_line(query, 120)}\u201d" for query in search.queries)
    lines = [f"Searched the web for {queries}." if queries else "Searched the web."]
    for number, source in enumerate(search.sources[:_MOST_SOURCES], 1):
        title = one_line(source.title, 100)
        lines.append(f"{number}. {title} {one_line(source.url)}" if title else f"{number}. {one_line(source.url)}")
    left_out = len(search.sources) - _MOST_SOURCES
    if left_out > 0:
        lines.append(f"and {left_out} more")
    return "\n".join(lines)
