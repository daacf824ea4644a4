"""The `ls` and `glob` tools: the content of a folder, and the files that match a pattern.

`ls` shows a tree of limited depth; `glob` lists files whose path matches, newest first. Both skip files that git
ignores (`walk`, which is imported with the first call).
"""

from __future__ import annotations

import threading
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qcode.protocol.tools import Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text
from qcode.tools.arguments import Arguments, validate_arguments
from qcode.tools.tool import READS_PATH, Preview, ToolRunContext, run_blocking_tool
from qcode.tools.workspace import Workspace, WorkspacePath, printable
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.tools.files import walk

MAX_FILES = 500  # in the result of `glob`


class Glob:
    """The `glob` tool."""

    spec = ToolSpec(
        name="glob",
        description=(
            f"Find files by path pattern, such as **/*.py, src/*.ts or docs/**/{{a,b}}*.md. ** matches any number of "
            "folders; without it the pattern matches only at the given level. Files ignored by git are skipped, "
            f"unless path names their folder. Newest first, at most {MAX_FILES}."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "Pattern, relative to path."},
                "path": {"type": "string", "description": "Folder to search. Default: the workspace."},
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
        is_read_only=True,
        safety=READS_PATH,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = validate_arguments(self.spec, arguments)
        except Refused as refused:
            return Preview("Find files?", detail="", refusal=str(refused))
        return Preview("Find files?", f"{visible(checked.text('pattern'))} in {visible(checked.text('path', '.'))}")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        stop = threading.Event()
        return await run_blocking_tool(
            lambda: _find_files(validate_arguments(self.spec, arguments), workspace, stop), stop.set
        )


def _find_files(arguments: Arguments, workspace: Workspace, stop: threading.Event) -> ToolOutcome:
    """Return the result of a `glob` call."""
    from qcode.tools.files import walk
    from qcode.tools.files.patterns import split_fixed

    pattern = arguments.text("pattern")
    if not pattern.strip() or ".." in pattern.split("/"):
        raise Refused("the pattern is empty or contains '..'; use path to name the folder")
    # `src/**/*.py` is searched in `src` for `**/*.py`.
    fixed, variable = split_fixed(pattern)  # the folders without a wildcard, and the rest
    folder = arguments.text("path", ".")
    if pattern.startswith(("/", "~/")):
        folder, fixed = fixed, ""
    location = folder_at(workspace, folder)
    start = location.path / fixed
    if fixed and workspace.is_folder(start):
        location = folder_at(workspace, str(start))
        start = location.path
    found = _search(location.base, start, variable, stop)
    matches = found.matches
    newest = sorted(matches, key=lambda match: (-match.mtime_ns, str(match.path)))[:MAX_FILES]
    labels = [workspace.show(match.path) for match in newest]
    notes = []
    if len(matches) > MAX_FILES:
        notes.append(f"[{len(matches) - MAX_FILES:,} more files; narrow the pattern]")
    if not found.is_complete:
        notes.append(f"[the search stopped after {walk.MAX_ENTRIES:,} entries; name a folder with path]")
    if not matches:
        # A model often writes `*.py` and means all levels.
        deeper: list[_Match] = []
        if "**" not in variable:
            deeper = _search(location.base, start, f"**/{variable}", stop).matches
        hint = f"; {len(deeper):,} below match {fixed + '/' if fixed else ''}**/{variable}" if deeper else ""
        return ToolOutcome("\n".join([f"[no file matches {pattern}{hint}]", *notes]), summary="no files")
    return ToolOutcome("\n".join([*labels, *notes]), summary=count_text(len(matches), "file"))


def folder_at(workspace: Workspace, path: str) -> WorkspacePath:
    """Return the folder at `path`. Raise `Refused` if there is none."""
    location = workspace.resolve(path)
    if workspace.is_folder(location.path):
        return location
    problem = "is not a folder" if workspace.exists(location) else "does not exist"
    raise Refused(f"{location.label} {problem}")


@dataclass(frozen=True, slots=True)
class _Match:
    """A file that matches a pattern."""

    path: Path
    mtime_ns: int


class _FoundFiles(NamedTuple):
    """The result of a search for a pattern."""

    matches: list[_Match]
    is_complete: bool
    """All files were examined."""


def _search(root: Path, start: Path, pattern: str, stop: threading.Event) -> _FoundFiles:
    """Return the files below `start` that match. `start` is `root` or below it."""
    from qcode.tools.files import walk
    from qcode.tools.files.patterns import compile_pattern

    matcher = compile_pattern(pattern)
    matches: list[_Match] = []
    try:
        for item in walk.files(root, start, stop.is_set):
            if matcher.fullmatch(item.relative):
                try:
                    info = item.entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                matches.append(_Match(start / item.relative, info.st_mtime_ns))
    except walk.WalkTooLarge:
        return _FoundFiles(matches, is_complete=False)
    return _FoundFiles(matches, is_complete=True)


MAX_ENTRIES = 500  # in the result of `ls`
MAX_DEPTH = 6


class Ls:
    """The `ls` tool."""

    spec = ToolSpec(
        name="ls",
        description=(
            "List a folder as a tree: folders end with /, file sizes are in bytes. Files ignored by git are skipped "
            f"unless all is set; .git is always skipped. At most {MAX_ENTRIES} entries. To find files by name use "
            "glob."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Folder to list. Default: the workspace."},
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_DEPTH,
                    "description": "Number of folder levels to show. Default 2.",
                },
                "all": {"type": "boolean", "description": "Also show files ignored by git. Default false."},
            },
            "required": [],
            "additionalProperties": False,
        },
        is_read_only=True,
        safety=READS_PATH,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            path = validate_arguments(self.spec, arguments).text("path", ".")
        except Refused as refused:
            return Preview("List a folder?", detail="", refusal=str(refused))
        return Preview(f"List {visible(path)}?", visible(path))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        return await run_blocking_tool(lambda: _list_folder(validate_arguments(self.spec, arguments), workspace))


@dataclass(slots=True)
class _Listing:
    """The lines of a tree, and the numbers of entries without a line."""

    max_depth: int
    """The number of levels to list."""
    shows_ignored: bool
    """Entries that git ignores have a line too."""
    remaining: int
    """The number of entries that may still be listed."""
    lines: list[str] = field(default_factory=list)
    omitted: int = 0
    """The number of entries beyond the limit."""
    ignored: int = 0
    """The number of entries that git ignores."""


def _list_folder(arguments: Arguments, workspace: Workspace) -> ToolOutcome:
    """Return the result of an `ls` call."""
    from qcode.tools.files import walk

    location = folder_at(workspace, arguments.text("path") or ".")
    listing = _Listing(arguments.integer("depth", 2), arguments.flag("all"), remaining=MAX_ENTRIES)
    _add_entries(listing, walk.listed_folder(location.base, location.path), level=1)
    notes = []
    if listing.omitted:
        notes.append(f"[{listing.omitted:,} more entries; name a folder with path, or use glob]")
    if listing.ignored:
        notes.append(f"[{listing.ignored:,} ignored by git; set all to list them]")
    if not listing.lines:
        notes.insert(0, f"[{_label(location)} is empty]")
    return ToolOutcome(
        "\n".join([f"{_label(location)}/", *listing.lines, *notes]),
        summary=count_text(len(listing.lines), "entry", "entries"),
    )


def _add_entries(listing: _Listing, folder: walk.Folder, level: int) -> None:
    """Add the entries of a folder, which are on this `level` (from 1), and those of its subfolders.

    A folder counts its entries before its subfolders do, so the limit omits the deepest entries.
    """
    listed = []
    for item in folder.entries():
        if item.is_ignored and not listing.shows_ignored:
            listing.ignored += 1
        elif listing.remaining <= 0:
            listing.omitted += 1
        else:
            listing.remaining -= 1
            listed.append(item)
    for item in listed:
        indent = "  " * level
        mark = "  [ignored]" if item.is_ignored else ""
        if item.subfolder is None:
            listing.lines.append(f"{indent}{printable(item.name + item.detail)}{mark}")
            continue
        line_index = len(listing.lines)
        listing.lines.append("")
        is_open = level < listing.max_depth and not item.is_ignored
        if is_open:
            _add_entries(listing, item.subfolder, level + 1)
        count = "" if is_open else _count_note(item.subfolder)
        listing.lines[line_index] = f"{indent}{printable(item.name)}/{count}{mark}"


def _count_note(folder: walk.Folder) -> str:
    return f"  ({count_text(folder.count(), 'entry', 'entries')})"


def _label(location: WorkspacePath) -> str:
    return location.label if location.parts else str(location.base)
