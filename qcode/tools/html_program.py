"""Conversion of an HTML page to Markdown, without scripts, styles and navigation.

A malicious page can take forever to convert, so `web` runs this file as a separate program, which imports nothing from
qcode. Its arguments are the folder of the parsers and the URL. It reads HTML from standard input and prints one line of
JSON.
"""

from __future__ import annotations

import json
import re
import sys

_OMITTED_ELEMENTS = (
    "script",
    "style",
    "noscript",
    "template",
    "iframe",
    "svg",
    "canvas",
    "form",
    "nav",
    "header",
    "footer",
    "aside",
)
_MAX_MEMORY_BYTES = 2 * 1024**3
_MAX_CPU_S = 20
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")


def as_markdown(html: str, url: str) -> str:
    """Return a page as Markdown with absolute links, starting with its title if the text has no heading.

    A page that is nested too deeply is returned as plain text.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page = BeautifulSoup(html, "html.parser")
    title = page.title.get_text(" ", strip=True) if page.title else ""
    for element in page(_OMITTED_ELEMENTS):
        element.decompose()
    body = page.find("main") or page.find("article") or page.body or page
    for link in body("a"):
        address = link.get("href")
        if isinstance(address, str):
            link["href"] = _absolute(url, address)
    for image in body("img"):
        image.replace_with(str(image.get("alt") or ""))
    try:
        text: str = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(body)
    except RecursionError:
        text = body.get_text("\n")
    text = _BLANK_LINES.sub("\n\n", text).strip()
    return text if not title or re.search(r"^# ", text, re.MULTILINE) else f"# {title}\n\n{text}"


def _absolute(url: str, address: str) -> str:
    from urllib.parse import urljoin

    try:
        return urljoin(url, address)
    except ValueError:  # not a valid URL
        return address


def main() -> int:
    import resource

    folder, url = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_S, _MAX_CPU_S))
    sys.path.append(folder)
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.write(f"{json.dumps(as_markdown(html, url))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
