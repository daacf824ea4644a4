"""The `ls` tool: what is in a folder, as a tree of a bounded depth, with ignored files left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools import walk
from qcode.tools.arguments import Arguments, check
from qcode.tools.glob import folder_at
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, answered
from qcode.tools.visible import visible, visible_name
from qcode.tools.workspace import Place, Workspace

MOST_ENTRIES = 500
MOST_DEPTH = 6


class Ls:
    spec = ToolSpec(
        name="ls",
        description=(
            "List a folder as a tree: folders end with /, sizes of files are in bytes. Files that git ignores are left "
            f"out unless all is set; .git always is. At most {MOST_ENTRIES} entries. To find files by name use glob."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Folder to list. Default: the workspace."},
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_DEPTH,
                    "description": "How many levels of folders to show. Default 2.",
                },
                "all": {"type": "boolean", "description": "Also show what git ignores. Default false."},
            },
            "required": [],
            "additionalProperties": False,
        },
        is_read_only=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            path = check(self.spec, arguments).text("path", ".")
        except Refused as refused:
            return Preview("List a folder?", "", str(refused))
        return Preview(f"List {visible(path)}?", visible(path))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        return await answered(lambda: _list(check(self.spec, arguments), workspace))


@dataclass(slots=True)
class _Listing:
    """Lines so far; `left_out` counts entries that found no room, `ignored` those that git ignores."""

    lines: list[str] = field(default_factory=list)
    left_out: int = 0
    ignored: int = 0


def _list(arguments: Arguments, workspace: Workspace) -> ToolOutcome:
    place = folder_at(workspace, arguments.text("path") or ".")
    budget = [MOST_ENTRIES]
    listing = _Listing()
    _fill(
        listing,
        walk.folder(place.base, place.path),
        arguments.integer("depth", 2),
        0,
        budget,
        shows_ignored=arguments.flag("all"),
    )
    notes = []
    if listing.left_out:
        notes.append(f"[{listing.left_out:,} more entries; name a folder with path, or use glob]")
    if listing.ignored:
        notes.append(f"[{listing.ignored:,} ignored by git left out; all shows them]")
    if not listing.lines:
        notes.insert(0, f"[{_shown(place)} is empty]")
    count = len(listing.lines)
    return ToolOutcome(
        "\n".join([f"{_shown(place)}/", *listing.lines, *notes]),
        summary=f"{count:,} entr{'ies' if count != 1 else 'y'}",
    )


def _fill(
    listing: _Listing, folder: walk.Folder, depth: int, level: int, budget: list[int], *, shows_ignored: bool
) -> None:
    """Add the entries of a folder: all of it before what is in its folders, so that the top is never cut for a leaf."""
    shown = []
    for item in folder.items():
        if item.is_ignored and not shows_ignored:
            listing.ignored += 1
        elif budget[0] <= 0:
            listing.left_out += 1
        else:
            budget[0] -= 1
            shown.append(item)
    for item in shown:
        indent = "  " * (level + 1)
        mark = "  [ignored]" if item.is_ignored else ""
        if item.folder is None:
            listing.lines.append(f"{indent}{visible_name(item.name + item.described)}{mark}")
            continue
        at = len(listing.lines)
        listing.lines.append("")
        is_open = level + 1 < depth and not item.is_ignored
        if is_open:
            _fill(listing, item.folder, depth, level + 1, budget, shows_ignored=shows_ignored)
        inside = "" if is_open else _count(item.folder)
        listing.lines[at] = f"{indent}{visible_name(item.name)}/{inside}{mark}"


def _count(folder: walk.Folder) -> str:
    count = folder.size()
    return f"  ({count:,} entr{'ies' if count != 1 else 'y'})"


def _shown(place: Place) -> str:
    return place.shown if place.parts else str(place.base)
