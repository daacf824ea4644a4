"""Feeds the filter, and reads its output in a form that does not depend on the split of the text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from qcode.protocol.tools import FileAccess, ToolSpec
from qcode.providers.text_calls.scanner import ExtractedCalls, ScannedPart, TextCalls, VisibleText

TOOLS = (
    ToolSpec(
        "read",
        "Reads a file.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "deep": {"type": "boolean"},
                "lines": {"anyOf": [{"type": "array"}, {"type": "null"}]},
                "tag": {"type": ["string", "number"]},
            },
            "required": ["path"],
        },
    ),
    ToolSpec(
        "write",
        "Writes a file.",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
        safety=FileAccess("write", lambda _: ()),
    ),
    ToolSpec("list_files", "Lists files.", {"type": "object", "properties": {}}),
)

READ = '{"name": "read", "arguments": {"path": "a.py"}}'
READ_ARGUMENTS = '{"path": "a.py"}'

Seen: TypeAlias = list[tuple[str, str]]
"""Pairs of `text` and the visible text, `taken` and the raw text, or a tool name and the arguments of its call."""


def seen(parts: Iterable[ScannedPart]) -> Seen:
    """Return pieces with adjacent text joined; an incomplete call has a `~` before its name."""
    found: Seen = []
    for piece in parts:
        kind, text = ("text", piece.text) if isinstance(piece, VisibleText) else ("taken", piece.raw)
        assert text, "a piece is empty"
        joins = found and found[-1][0] == kind and not (isinstance(piece, ExtractedCalls) and piece.calls)
        if joins:
            found[-1] = (kind, found[-1][1] + text)
        else:
            found.append((kind, text))
        if isinstance(piece, ExtractedCalls):
            found += [(call.name if call.is_complete else f"~{call.name}", call.arguments) for call in piece.calls]
    return found


def filtered(parts: Sequence[str], *, is_cut: bool = False, before: str = "") -> tuple[Seen, TextCalls]:
    calls = TextCalls(TOOLS, before=before)
    given = [piece for text in parts for piece in calls.feed(text)]
    return seen([*given, *calls.flush(is_cut=is_cut)]), calls


def calls_in(text: str, *, is_cut: bool = False, before: str = "") -> list[tuple[str, str]]:
    return [item for item in filtered([text], is_cut=is_cut, before=before)[0] if item[0] not in ("text", "taken")]


def visible_in(text: str, *, is_cut: bool = False) -> str:
    return "".join(item[1] for item in filtered([text], is_cut=is_cut)[0] if item[0] == "text")
