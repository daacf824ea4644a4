"""A session as one page of HTML that loads nothing: no script, no style sheet from elsewhere, images inside."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator

from qcode.protocol.messages import Image, Reasoning, Text, ToolCall, ToolResult
from qcode.runtime.store.line import Entry
from qcode.safety.cleaning import clean

_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8881}
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
article{border-top:1px solid var(--line);padding:.5rem 0}
h2{font-size:.9rem;opacity:.7;margin:.5rem 0}
.text{white-space:pre-wrap;overflow-wrap:anywhere}
details{margin:.5rem 0;background:var(--soft);border-radius:.4rem;padding:.3rem .6rem}
summary{cursor:pointer}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.4rem 0;font-size:.85rem}
.note{opacity:.7;font-style:italic}
img{max-width:100%}
"""
_MEDIA_TYPE = re.compile(r"image/[a-z0-9.+-]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def html_page(entries: Iterable[Entry], title: str, subtitle: str) -> str:
    """Return the page. Whatever was said stands there as text and can do nothing."""
    body = "\n".join(_article(entry) for entry in entries)
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{_text(title)}</h1><p>{_text(subtitle)}</p>\n{body}\n</body></html>\n"
    )


def _article(entry: Entry) -> str:
    blocks = "\n".join(_blocks(entry))
    is_a_persons = any(not isinstance(block, ToolResult) for block in entry.message.blocks)
    who = "Assistant" if entry.message.role == "assistant" else "You" if is_a_persons else "Results"
    note = f'<p class="note">{_text(entry.note)}</p>' if entry.note else ""
    return f"<article><h2>{who}</h2>\n{blocks}\n{note}</article>"


def _blocks(entry: Entry) -> Iterator[str]:
    for block in entry.message.blocks:
        match block:
            case Text(text=text):
                yield f'<div class="text">{_text(text)}</div>'
            case Reasoning(text=text) if text.strip():
                yield f'<details><summary>Thinking</summary><div class="text">{_text(text)}</div></details>'
            case ToolCall(name=name, arguments=arguments):
                yield f"<details><summary>{_text(name)}</summary><pre>{_text(arguments)}</pre></details>"
            case ToolResult(name=name, content=content, is_error=is_error):
                state = "failed" if is_error else "gave"
                images = "".join(_image(image) for image in block.images)
                head = f"<summary>{_text(name)} {state}</summary>"
                yield f"<details>{head}<pre>{_text(content)}</pre>{images}</details>"
            case Image():
                yield _image(block)
            case _:
                pass


def _image(image: Image) -> str:
    if not _MEDIA_TYPE.fullmatch(image.media_type) or not _BASE64.fullmatch(image.data):
        return "<p>[an image that cannot be shown]</p>"
    return f'<img alt="image" src="data:{image.media_type};base64,{image.data}">'


def _text(text: str) -> str:
    return html.escape(clean(text).encode("utf-8", "replace").decode())
