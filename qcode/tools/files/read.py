"""The `read` tool: numbered lines of a text file, images, PDF pages, and notebook cells.

A separate process (`pdf_program`) extracts the text of a PDF, because a malicious PDF can take forever.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

from qcode.protocol.tools import Refused, ToolOutcome, ToolSpec
from qcode.text.clean import first_chars, more_chars, quoted, visible
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.tools import text_file
from qcode.tools.arguments import Arguments, validate_arguments
from qcode.tools.disk import MAX_FILE_BYTES
from qcode.tools.files import notebooks
from qcode.tools.processes import HelperProcess
from qcode.tools.tool import READS_PATH, Preview, ToolRunContext, run_blocking_tool
from qcode.tools.workspace import Workspace, WorkspacePath

MAX_LINES = 2_000
MAX_LINE_CHARS = 2_000
MAX_BYTES = 256 * 1024
"""The maximum size of the numbered lines of a result."""


class Read:
    """The `read` tool."""

    spec = ToolSpec(
        name="read",
        description=(
            "Read a file: text, an image (PNG, JPEG, GIF, WebP), a PDF or a Jupyter notebook. Each line of text "
            "starts with its number and a tab, which are not part of the file. Without a limit the first "
            f"{MAX_LINES:,} lines are returned; the end of the result says how to get the rest. Read a file before "
            "you change it. Use ls for folders."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to read, relative to the workspace or absolute."},
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "First line (or notebook cell) to return, counted from 1.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": f"Number of lines or cells to return. Default and maximum {MAX_LINES:,}.",
                },
                "pages": {"type": "string", "description": "Pages of a PDF, such as 3 or 3-7. Default: the first 20."},
            },
            "required": ["path"],
            "additionalProperties": False,
        },
        is_read_only=True,
        safety=READS_PATH,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            path = validate_arguments(self.spec, arguments).text("path")
        except Refused as refused:
            return Preview("Read a file?", detail="", refusal=str(refused))
        return Preview(f"Read {visible(path)}?", visible(path))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        process = HelperProcess()
        return await run_blocking_tool(
            lambda: _read(validate_arguments(self.spec, arguments), workspace, process), process.stop
        )


def _read(arguments: Arguments, workspace: Workspace, process: HelperProcess) -> ToolOutcome:
    from qcode.tools.files import pictures  # loads with the first file that is read, not at start

    location = workspace.resolve(arguments.text("path"))
    if workspace.is_folder(location.path):
        raise Refused(f"{location.label} is a folder; list it with ls")
    if not workspace.exists(location):
        raise Refused(f"{location.label} does not exist{_similar_names_hint(location, workspace)}")
    first, limit = arguments.integer("offset", 1), min(arguments.integer("limit", MAX_LINES), MAX_LINES)
    if workspace.size(location) > MAX_FILE_BYTES:
        return _read_part(location, first, limit, workspace)
    loaded = workspace.load(location)
    media_type = pictures.image_type(loaded.data)
    if media_type:
        picture = pictures.encode_image(loaded.data, media_type, location.label)
        workspace.remember(location, loaded)
        return ToolOutcome(
            f"[{location.label}: {picture.description}]", summary=picture.description, images=(picture.image,)
        )
    if loaded.data.startswith(b"%PDF-"):
        return read_pdf(loaded.data, location.label, page_range(arguments.text("pages")), process)
    displayed = text_file.decode_to_show(loaded.data, location.label)
    workspace.remember(location, loaded)
    notes = [f"[{displayed.note}]"] if displayed.note else []
    notes += ["[these are unsaved changes in the user's editor]"] if loaded.is_unsaved else []
    if location.path.suffix == ".ipynb":
        notebook = notebooks.parse_notebook(displayed.document.text)
        if notebook is not None:
            return _cells_outcome(notebook, first, limit, location, notes)
        notes.append("[not a notebook of format 4, so it is shown as text]")
    return _text_outcome(displayed.document.text, first, limit, location, notes)


def _text_outcome(content: str, first: int, limit: int, location: WorkspacePath, notes: list[str]) -> ToolOutcome:
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return ToolOutcome(f"[{location.label} is empty]", summary="empty")
    if first > len(lines):
        raise Refused(f"{location.label} has {len(lines):,} lines; offset {first:,} is beyond its end")
    numbered = _number_lines(lines[first - 1 : first - 1 + limit], first)
    last = first + len(numbered) - 1
    summary = count_text(len(numbered), "line")
    if first > 1 or last < len(lines):
        hint = f"; continue with offset {last + 1}" if last < len(lines) else ""
        notes = [f"[lines {first}-{last} of {len(lines)}{hint}]", *notes]
        summary = f"lines {first}-{last} of {len(lines):,}"
    return ToolOutcome("\n".join([*numbered, *notes]), summary=summary)


def _number_lines(lines: list[str], first: int) -> list[str]:
    """Return numbered lines up to the limits, at least one."""
    numbered: list[str] = []
    size = 0
    for number, line in enumerate(lines, start=first):
        entry = f"{number:>6}\t{first_chars(line, MAX_LINE_CHARS, ' on this line')}"
        size += len(entry.encode("utf-8", "replace")) + 1
        if numbered and size > MAX_BYTES:
            break
        numbered.append(entry)
    return numbered


def _read_part(location: WorkspacePath, first: int, limit: int, workspace: Workspace) -> ToolOutcome:
    """Return lines of a file that is too large to be read as a whole. The editing tools cannot change such a file."""
    part = workspace.load_lines(location, first, limit, MAX_BYTES)
    if any(b"\0" in line for line in part.lines):
        raise Refused(f"{location.label} is a binary file ({part.size:,} bytes)")
    if not part.lines:
        raise Refused(f"{location.label} has fewer than {first:,} lines")
    lines = [line.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r") for line in part.lines]
    numbered = _number_lines(lines, first)
    last = first + len(numbered) - 1
    is_complete = part.is_end and len(numbered) == len(lines)
    hint = "" if is_complete else f"; continue with offset {last + 1}, or search with grep"
    note = f"[lines {first}-{last} of a file of {part.size:,} bytes, too large to be changed with edit or write{hint}]"
    return ToolOutcome("\n".join([*numbered, note]), summary=f"lines {first}-{last}")


def _cells_outcome(
    notebook: JsonObject, first: int, limit: int, location: WorkspacePath, notes: list[str]
) -> ToolOutcome:
    cells = notebooks.cells_of(notebook)
    if not cells:
        return ToolOutcome(f"[{location.label} has no cells]", summary="no cells")
    if first > len(cells):
        raise Refused(f"{location.label} has {len(cells):,} cells; offset {first:,} is beyond its end")
    shown = notebooks.show_cells(cells, first, limit)
    last = first + shown.count - 1
    if first > 1 or last < len(cells):
        hint = f"; continue with offset {last + 1}" if last < len(cells) else ""
        notes = [f"[cells {first}-{last} of {len(cells)}{hint}]", *notes]
    return ToolOutcome("\n".join([shown.text, *notes]), summary=count_text(shown.count, "cell"), images=shown.images)


def _similar_names_hint(location: WorkspacePath, workspace: Workspace) -> str:
    """Return a hint with similar file names in the same folder."""
    try:
        names = sorted(entry.name for entry in location.path.parent.iterdir())
    except OSError:
        return ""
    from qcode.text.match import MIN_ALIKE, did_you_mean, likeness, similar

    stem = location.path.stem.lower()
    # Compared without suffix: `hello.py` and `shop.py` are similar only because both end with `.py`.
    close = [
        name for name in similar(location.path.name, names) if likeness(stem, Path(name).stem.lower()) >= MIN_ALIKE
    ]
    nearest = did_you_mean([workspace.show(location.path.parent / name) for name in close])
    return f"; {nearest}" if nearest else ""


MAX_PAGES = 20
MAX_PDF_CHARS = 200_000
MAX_EXTRACTION_S = 40.0
"""The time limit for the text of a PDF."""
_PDF_PROGRAM = Path(__file__).with_name("pdf_program.py")
_PAGE_RANGE = lazy_pattern(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


class PageRange(NamedTuple):
    """Pages of a PDF, counted from 1; both ends are included."""

    first: int
    last: int


def page_range(text: str) -> PageRange:
    """Parse `3` or `3-7`; return the first pages for an empty text. Raise `Refused` for anything else."""
    if not text.strip():
        return PageRange(1, MAX_PAGES)
    match = _PAGE_RANGE.fullmatch(text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (0, 0)
    if not 1 <= first <= last:
        raise Refused(f"read: pages must be a page or a range such as 3 or 3-7, not {quoted(text)}")
    return PageRange(first, min(last, first + MAX_PAGES - 1))


def read_pdf(data: bytes, label: str, pages: PageRange, process: HelperProcess) -> ToolOutcome:
    """Return the text of some pages, and how to read the other pages. Raise `Refused` if the PDF cannot be read."""
    module = importlib.util.find_spec("pypdf")
    if module is None or module.origin is None:
        raise Refused(f"{label} is a PDF, and pypdf, which reads them, is not installed")
    folder = str(Path(module.origin).parents[1])
    arguments = [folder, str(pages.first), str(pages.last), str(MAX_PDF_CHARS)]
    printed = process.run(_PDF_PROGRAM, arguments, data, MAX_EXTRACTION_S)
    # The docstring of the program describes its output: the number of pages, then one list for each page.
    messages = [json.loads(line) for line in printed.lines]
    if not messages:
        raise Refused(f"cannot read the PDF {label}: {printed.failure}")
    count: int = messages[0]
    texts: dict[int, str] = {  # by the number of the page
        number: text + more_chars(left_out, " on this page") if left_out else text
        for number, text, left_out in messages[1:]
    }
    if not texts:
        if printed.failure:
            raise Refused(f"cannot read page {pages.first} of {label}: {printed.failure}")
        raise Refused(f"{label} has {count} pages; page {pages.first} is beyond its end")
    pages_text = [f"[page {number}]\n{text.strip() or '[no text on this page]'}" for number, text in texts.items()]
    end = max(texts)
    hint = f'; continue with pages "{end + 1}-{min(end + MAX_PAGES, count)}"' if end < count else ""
    notes = [f"[pages {pages.first}-{end} of {count}{hint}]"]
    if printed.failure:
        notes.append(f"[cannot read page {end + 1}: {printed.failure}]")
    if not any(text.strip() for text in texts.values()):
        notes.append("[no text found: the pages may be images]")
    return ToolOutcome("\n".join([*pages_text, *notes]), summary=f"{len(texts)} of {count} pages")
