"""The picture in the README shows the current app."""

from __future__ import annotations

import asyncio
import html
import re

from tests.tui.picture import PICTURE, draw


def _texts(svg: str) -> list[str]:
    pieces = re.findall(r"<text[^>]*>(.*?)</text>", svg, flags=re.DOTALL)
    return [html.unescape(piece).replace("\xa0", " ").strip() for piece in pieces]


def test_picture_of_the_readme_equals_the_current_screen() -> None:
    drawn = _texts(asyncio.run(draw()))
    assert _texts(PICTURE.read_text(encoding="utf-8")) == drawn, "draw it anew: python -m tests.tui.picture"
    assert any("continued 1/3" in text for text in drawn)
    assert any("stop asking for edit" in text for text in drawn)
