"""The `read` tool: numbered lines of a text file, in pieces that fit a reply."""

from __future__ import annotations

from difflib import get_close_matches

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools import text
from qcode.tools.arguments import Arguments, check
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, answered
from qcode.tools.visible import visible
from qcode.tools.workspace import Place, Workspace

MOST_LINES = 2_000
MOST_LINE_CHARS = 2_000
MOST_BYTES = 256 * 1024


class Read:
    spec = ToolSpec(
        name="read",
        description=(
            "Read a text file of the workspace. Each line comes with its number and a tab before it, which are not "
            f"part of the file. Without a limit the first {MOST_LINES:,} lines are returned; the end of the result "
            "says how to get the rest. A file must be read before it can be changed with write or edit. Folders are "
            "listed with glob, not read."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to read, relative to the workspace or absolute."},
                "offset": {"type": "integer", "minimum": 1, "description": "First line to return, counted from 1."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"Number of lines to return, {MOST_LINES:,} unless given and at most.",
                },
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        is_read_only=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            path = check(self.spec, arguments).text("path")
        except Refused as refused:
            return Preview("Read a file?", "", str(refused))
        return Preview(f"Read {visible(path)}?", visible(path))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        return await answered(lambda: _read(check(self.spec, arguments), workspace))


def _read(arguments: Arguments, workspace: Workspace) -> ToolOutcome:
    place = workspace.resolve(arguments.text("path"))
    if workspace.is_folder(place.path):
        below = f"{place.shown}/*" if place.parts else "*"
        raise Refused(f"{place.shown} is a folder; list it with glob, pattern {below!r}")
    if not workspace.exists(place):
        raise Refused(f"{place.shown} does not exist{_neighbours(place, workspace)}")
    loaded = workspace.load(place)
    document = text.decode(loaded.data, place.shown)
    lines = document.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    workspace.remember(place, loaded)
    if not lines:
        return ToolOutcome(f"[{place.shown} is empty]", summary="empty")
    first = arguments.integer("offset", 1)
    if first > len(lines):
        raise Refused(f"{place.shown} has {len(lines):,} lines; offset {first:,} is beyond its end")
    shown = _numbered(lines, first, min(arguments.integer("limit", MOST_LINES), MOST_LINES))
    last = first + len(shown) - 1
    content = "\n".join(shown)
    if first > 1 or last < len(lines):
        rest = f"; read on with offset {last + 1}" if last < len(lines) else ""
        content += f"\n[lines {first}-{last} of {len(lines)}{rest}]"
    return ToolOutcome(content, summary=f"{len(shown):,} line{'s' if len(shown) != 1 else ''}")


def _numbered(lines: list[str], first: int, limit: int) -> list[str]:
    """Return at least one line, and no more than fit the bounds."""
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[first - 1 : first - 1 + limit], start=first):
        if len(line) > MOST_LINE_CHARS:
            line = f"{line[:MOST_LINE_CHARS]}... [{len(line) - MOST_LINE_CHARS:,} more characters on this line]"
        entry = f"{number:>6}\t{line}"
        size += len(entry.encode("utf-8", "replace")) + 1
        if shown and size > MOST_BYTES:
            break
        shown.append(entry)
    return shown


def _neighbours(place: Place, workspace: Workspace) -> str:
    """Return a hint at files of a similar name in the same folder."""
    try:
        names = sorted(entry.name for entry in place.path.parent.iterdir())
    except OSError:
        return ""
    near = get_close_matches(place.path.name, names, n=3)
    return f"; did you mean {' or '.join(workspace.show(place.path.parent / name) for name in near)}?" if near else ""
