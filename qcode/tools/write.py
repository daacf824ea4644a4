"""The `write` tool: a whole file, new or in place of one that was read."""

from __future__ import annotations

from qcode.protocol.tools import ToolSpec
from qcode.tools import text
from qcode.tools.arguments import Arguments
from qcode.tools.change import Change, ChangeTool, creation, open_for_change, replacement
from qcode.tools.refusal import Refused
from qcode.tools.text import Document
from qcode.tools.workspace import Workspace


class Write(ChangeTool):
    spec = ToolSpec(
        name="write",
        description=(
            "Create a file, or replace the whole content of one. An existing file must have been read before. Missing "
            "folders are created. Line endings and encoding of an existing file are kept. To change a part of a file "
            "edit it instead. For a long file, write a skeleton first and add to it piece by piece."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to write, relative to the workspace or absolute."},
                "content": {"type": "string", "description": "The complete new content of the file."},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        writes_files=True,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> Change:
        place = workspace.resolve(arguments.text("path"), "write")
        content = arguments.text("content")
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        size = f"{lines:,} line{'s' if lines != 1 else ''}"
        if not workspace.exists(place):
            document = text.from_text(content)
            return creation(place, text.encode(document), document, f"Created {place.shown} ({size}).")
        loaded = open_for_change(place, workspace)
        old = text.decode(loaded.data, place.shown)
        new = _in_place_of(old, content)
        data = text.encode(new)
        if data == loaded.data:
            raise Refused(f"{place.shown} already has exactly this content; nothing was changed")
        return replacement(place, loaded, old, new, data, f"Wrote {place.shown} ({size}).")


def _in_place_of(old: Document, content: str) -> Document:
    """Keep what the file has. A content that spells CRLF itself means it, and is taken as it is."""
    content = content.removeprefix("\ufeff") if old.mark else content
    if "\r\n" in content:
        return text.from_text(content, old.encoding, old.mark)
    return text.with_text(old, content)
