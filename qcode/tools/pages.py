"""A page of HTML as Markdown, without what is not its text: scripts, styles, navigation."""

from __future__ import annotations

import re

_LEFT_OUT = (
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
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")


def as_markdown(html: str, url: str) -> str:
    """Return the text of a page as Markdown, links made absolute; the title first where the text has no heading."""
    from urllib.parse import urljoin

    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    page = BeautifulSoup(html, "html.parser")
    title = page.title.get_text(" ", strip=True) if page.title else ""
    for element in page(_LEFT_OUT):
        element.decompose()
    body = page.find("main") or page.find("article") or page.body or page
    for link in body("a"):
        address = link.get("href")
        if isinstance(address, str):
            link["href"] = urljoin(url, address)
    for image in body("img"):
        image.replace_with(str(image.get("alt") or ""))
    text: str = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(body)
    text = _BLANK_LINES.sub("\n\n", text).strip()
    return text if not title or re.search(r"^# ", text, re.MULTILINE) else f"# {title}\n\n{text}"
