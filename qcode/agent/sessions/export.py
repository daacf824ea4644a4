"""Exports a session as Markdown, JSON or an HTML page, to a new file.

Each format contains the complete text; only JSON contains control characters. The page loads nothing: no script, no
external style sheet, and images are embedded. This module is imported on first use.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from qcode import __version__
from qcode.agent.sessions.history import HistoryEntry
from qcode.agent.sessions.records import attempt_to_json, message_to_json
from qcode.protocol.messages import Image, Reasoning, Text, ToolCall, ToolResult
from qcode.text.clean import clean
from qcode.text.json import Json, JsonObject
from qcode.values import dataclass

ExportForm: TypeAlias = Literal["md", "json", "html"]
EXPORT_FORMS: tuple[ExportForm, ...] = ("md", "json", "html")


@dataclass(frozen=True, slots=True)
class About:
    session_id: str
    title: str
    model: str


def exported(entries: Sequence[HistoryEntry], about: About, form: ExportForm) -> str:
    """Return the session in the given format, ending with a newline."""
    match form:
        case "json":
            return _as_json(entries, about)
        case "md":
            return clean("\n".join(_markdown(entries, about))) + "\n"
        case "html":
            return html_page(entries, about.title or about.session_id, f"{about.session_id} · {about.model}")


def _as_json(entries: Iterable[HistoryEntry], about: About) -> str:
    messages: list[Json] = []
    for entry in entries:
        one: JsonObject = {"at": entry.at, **message_to_json(entry.message)}
        if entry.note:
            one["note"] = entry.note
        if entry.attempts:
            one["attempts"] = [attempt_to_json(attempt) for attempt in entry.attempts]
        messages.append(one)
    page: JsonObject = {
        "qcode": __version__,
        "session_id": about.session_id,
        "title": about.title,
        "model": about.model,
        "messages": messages,
    }
    # A lone surrogate cannot be encoded in UTF-8, so it is written as an escape.
    text = json.dumps(page, ensure_ascii=False, indent=1)
    return (text if text.isascii() or _is_writable(text) else json.dumps(page, indent=1)) + "\n"


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _markdown(entries: Iterable[HistoryEntry], about: About) -> Iterable[str]:
    yield f"# {' '.join(about.title.split()) or about.session_id}\n"
    yield f"Session `{about.session_id}`, {about.model}\n"
    for entry in entries:
        heading = ""
        for block in entry.message.blocks:
            wanted = "" if isinstance(block, ToolResult) else "You" if entry.message.role == "user" else "Assistant"
            if wanted and wanted != heading:
                heading = wanted
                yield f"## {heading}\n"
            yield _markdown_block(block)
        if entry.note:
            yield f"*{' '.join(entry.note.split())}*\n"


def _markdown_block(block: Text | Reasoning | ToolCall | ToolResult | Image) -> str:
    match block:
        case Text(text=text):
            return f"{text}\n"
        case Reasoning(text=text):
            quoted = "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
            return f"{quoted}\n" if text.strip() else ""
        case ToolCall(name=name, arguments=arguments):
            return f"**{name}**\n\n{fenced(arguments, 'json')}\n"
        case ToolResult(name=name, content=content):
            images = f"\n[{len(block.images)} image(s)]\n" if block.images else ""
            state = "failed" if block.is_error else "gave"
            return f"{name} {state}:\n\n{fenced(content)}\n{images}"
        case Image(media_type=media_type, data=data):
            return f"[image, {media_type}, {len(data) * 3 // 4:,} bytes]\n"


def fenced(text: str, language: str = "") -> str:
    """Return `text` in a code fence that is longer than any fence in it."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


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


def html_page(entries: Iterable[HistoryEntry], title: str, subtitle: str) -> str:
    """Return the page. All content is escaped text, without active parts."""
    body = "\n".join(_article(entry) for entry in entries)
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{_text(title)}</h1><p>{_text(subtitle)}</p>\n{body}\n</body></html>\n"
    )


def _article(entry: HistoryEntry) -> str:
    blocks = "\n".join(_blocks(entry))
    is_a_persons = any(not isinstance(block, ToolResult) for block in entry.message.blocks)
    who = "Assistant" if entry.message.role == "assistant" else "You" if is_a_persons else "Results"
    note = f'<p class="note">{_text(entry.note)}</p>' if entry.note else ""
    return f"<article><h2>{who}</h2>\n{blocks}\n{note}</article>"


def _blocks(entry: HistoryEntry) -> Iterator[str]:
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


def save_export(folder: Path, name: str, text: str) -> str:
    """Write `text` to the new file `name`, relative to `folder`, and return its path. Existing files are not replaced.

    Raise `ValueError` with one line for the user.
    """
    try:
        path = folder / Path(name).expanduser()
        # Readable by the owner only, because it contains the whole conversation.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ValueError(f"{name} already exists. Choose another file name.") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ValueError(f"Cannot write {name}: {reason}.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ValueError(f"Cannot write {name}: {error.strerror}.") from None
    return str(path)
