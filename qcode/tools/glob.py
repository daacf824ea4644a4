"""The `glob` tool: files by the pattern of their path, newest first."""

from __future__ import annotations

import threading
from pathlib import Path

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools import walk
from qcode.tools.arguments import Arguments, check
from qcode.tools.patterns import compile_pattern, split_fixed
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, answered
from qcode.tools.visible import visible
from qcode.tools.workspace import Place, Workspace

MOST_FILES = 500


class Glob:
    spec = ToolSpec(
        name="glob",
        description=(
            "Find files by a pattern of their path, such as **/*.py, src/*.ts or docs/**/{a,b}*.md. ** is any number "
            "of folders; without it a pattern looks only where it says. Files that git ignores are left out unless "
            f"the path names their folder. Newest first, at most {MOST_FILES}."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Pattern, relative to path."},
                "path": {"type": "string", "description": "Folder to look in. Default: the workspace."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        is_read_only=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = check(self.spec, arguments)
        except Refused as refused:
            return Preview("Find files?", "", str(refused))
        return Preview("Find files?", f"{visible(checked.text('pattern'))} in {visible(checked.text('path', '.'))}")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        stop = threading.Event()
        return await answered(lambda: _find(check(self.spec, arguments), workspace, stop), stop.set)


def _find(arguments: Arguments, workspace: Workspace, stop: threading.Event) -> ToolOutcome:
    pattern = arguments.text("pattern")
    if not pattern.strip() or ".." in pattern.split("/"):
        raise Refused("the pattern is empty or holds '..'; name the folder with path instead")
    fixed, rest = split_fixed(pattern)
    folder = arguments.text("path", ".")
    if pattern.startswith(("/", "~/")):
        folder, fixed = fixed, ""
    place = folder_at(workspace, folder)
    start = place.path / fixed
    if fixed and workspace.is_folder(start):
        place = folder_at(workspace, str(start))
        start = place.path
    found, is_whole = _matches(place.base, start, rest, stop)
    shown = [workspace.show(path) for _, path in sorted(found, key=lambda item: (-item[0], str(item[1])))[:MOST_FILES]]
    notes = []
    if len(found) > MOST_FILES:
        notes.append(f"[{len(found) - MOST_FILES:,} more files; narrow the pattern]")
    if not is_whole:
        notes.append(f"[the search stopped after {walk.MOST_ENTRIES:,} entries; name a folder with path]")
    if not found:
        deeper = _matches(place.base, start, f"**/{rest}", stop)[0] if "**" not in rest else []
        hint = f"; {len(deeper):,} below match {fixed + '/' if fixed else ''}**/{rest}" if deeper else ""
        return ToolOutcome("\n".join([f"[no file matches {pattern}{hint}]", *notes]), summary="no files")
    return ToolOutcome("\n".join([*shown, *notes]), summary=f"{len(found):,} file{'s' if len(found) != 1 else ''}")


def folder_at(workspace: Workspace, path: str) -> Place:
    """Return the folder that `path` names; raise `Refused` where there is none."""
    place = workspace.resolve(path)
    if not workspace.is_folder(place.path):
        raise Refused(f"{place.shown} is not a folder" if workspace.exists(place) else f"{place.shown} does not exist")
    return place


def _matches(root: Path, start: Path, pattern: str, stop: threading.Event) -> tuple[list[tuple[int, Path]], bool]:
    """Return what matches with its time of change, and whether everything was looked at."""
    matcher = compile_pattern(pattern)
    found: list[tuple[int, Path]] = []
    try:
        for item in walk.files(root, start, stop.is_set):
            if matcher.fullmatch(item.relative):
                try:
                    changed = item.entry.stat(follow_symlinks=False).st_mtime_ns
                except OSError:
                    continue
                found.append((changed, start / item.relative))
    except walk.TooMany:
        return found, False
    return found, True
