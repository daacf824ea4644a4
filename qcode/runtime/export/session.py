"""A whole session as one text. Every word that was said is in each form; control characters are in none but JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from qcode import __version__
from qcode.protocol.json import Json, JsonObject
from qcode.protocol.library import ExportForm
from qcode.protocol.messages import Image, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.values import dataclass
from qcode.runtime.export.html import html_page
from qcode.runtime.store.codec import attempt_to_json, message_to_json
from qcode.runtime.store.line import Entry
from qcode.safety.cleaning import clean


@dataclass(frozen=True, slots=True)
class About:
    session_id: str
    title: str
    model: str


def exported(entries: Sequence[Entry], about: About, form: ExportForm) -> str:
    """Return the session in the form that was asked for; it ends with a newline."""
    match form:
        case "json":
            return _as_json(entries, about)
        case "md":
            return clean("\n".join(_markdown(entries, about))) + "\n"
        case "html":
            return html_page(entries, about.title or about.session_id, f"{about.session_id} · {about.model}")


def _as_json(entries: Iterable[Entry], about: About) -> str:
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
    # A lone surrogate has no UTF-8 form; as an escape it survives.
    text = json.dumps(page, ensure_ascii=False, indent=1)
    return (text if text.isascii() or _is_writable(text) else json.dumps(page, indent=1)) + "\n"


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _markdown(entries: Iterable[Entry], about: About) -> Iterable[str]:
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
    """Return `text` in a code fence longer than any in it."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
