"""Inline Markdown (tokens of markdown-it) to spans of text and ink.

Links show where they really lead; only http(s) targets can be opened. Images are never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qcode.tui.transcript.line import Ink, Span, ink, over, tidy

if TYPE_CHECKING:
    from markdown_it.token import Token

_SLOT = {"strong_open": "strong", "em_open": "emphasis", "s_open": "strike", "link_open": "link"}
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`|]*[^\s<>\"'`|.,:;!?)\]}*_]")


def inline_spans(tokens: Sequence[Token], base: Ink) -> list[Span]:
    """Return the text of inline `tokens` over `base`; a hard break is a newline in the text."""
    spans: list[Span] = []
    inks = [base]
    links: list[tuple[str, int]] = []
    for token in tokens:
        kind = token.type
        if kind == "text":
            _add_text(spans, tidy(token.content), inks[-1])
        elif kind in ("softbreak", "hardbreak"):
            spans.append((" " if kind == "softbreak" else "\n", inks[-1]))
        elif kind == "code_inline":
            spans.append((tidy(token.content), over(inks[-1], "code")))
        elif kind == "image":
            spans.extend(_image(token, inks[-1]))
        elif kind in _SLOT:
            paint = over(inks[-1], _SLOT[kind])
            if kind == "link_open":
                target = str(token.attrs.get("href", ""))
                links.append((target, len(spans)))
                paint = ink(*paint.slots, href=target if is_web(target) else "")
            inks.append(paint)
        elif token.nesting == -1:
            inks.pop()
            if kind == "link_close":
                target, first = links.pop()
                spans.extend(_target("".join(text for text, _ in spans[first:]), target, inks[-1]))
        elif token.content:
            spans.append((tidy(token.content), inks[-1]))
    return spans


def is_web(target: str) -> bool:
    return target.startswith(("https://", "http://"))


def _add_text(spans: list[Span], text: str, paint: Ink) -> None:
    if "<" in text:
        text = _BREAK.sub("\n", text)
    if "://" not in text or "link" in paint.slots:
        if text:
            spans.append((text, paint))
        return
    position = 0
    for match in _ADDRESS.finditer(text):
        spans.append((text[position : match.start()], paint))
        spans.append((match.group(), ink(*paint.slots, "link", href=match.group())))
        position = match.end()
    spans.append((text[position:], paint))


def _target(label: str, target: str, base: Ink) -> list[Span]:
    """Return the target of a link as it has to be shown after `label`, nothing where the label already is it."""
    shown = tidy(target)
    if label.rstrip("/") == shown.removeprefix("mailto:").rstrip("/") or not shown:
        return []
    return [(f" ({shown})" if label.strip() else shown, over(base, "target"))]


def _image(token: Token, base: Ink) -> list[Span]:
    label = tidy(token.content) or "image"
    source = str(token.attrs.get("src", ""))
    paint = ink(*base.slots, "link", href=source if is_web(source) else "")
    return [(f"[image: {label}]" if label != "image" else "[image]", paint), *_target(label, source, base)]
