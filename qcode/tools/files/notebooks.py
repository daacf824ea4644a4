"""Jupyter notebooks (nbformat 4) as cells, and the `notebook_edit` tool.

`read` shows cells with this module. `notebook_edit` replaces, adds or deletes one cell and keeps all other cells
unchanged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from qcode.protocol.messages import Image
from qcode.protocol.tools import Refused, ToolSpec
from qcode.text.clean import first_chars, omit_middle, quoted
from qcode.text.json import Json, JsonObject
from qcode.text.pattern import lazy_pattern
from qcode.tools import text_file
from qcode.tools.arguments import Arguments
from qcode.tools.editing.edit import ChangeTool, PlannedChange, open_for_change, plan_replacement, with_plain_newlines
from qcode.tools.tool import WRITES_PATH
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

MAX_OUTPUT_CHARS = 4_000
"""The maximum length of one output of a cell. The middle of a longer one is omitted."""
MAX_CHARS = 200_000
"""The maximum length of the text of all cells in one result."""
MAX_IMAGES = 4  # in one result
_MAX_IMAGE_CHARS = 4_000_000
_ANSI_ESCAPE = lazy_pattern(r"\x1b\[[0-9;]*[A-Za-z]")
_NUMBER = lazy_pattern(r"[0-9]{1,9}")
# The indents with which programs write JSON. `format_notebook` finds out which one a file has.
_INDENTS: tuple[int | str | None, ...] = (1, 2, 4, "\t", None)


def parse_notebook(text: str) -> JsonObject | None:
    """Parse a notebook; return None if `text` is not a supported notebook."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    has_cells = isinstance(value, dict) and value.get("nbformat") == 4 and isinstance(value.get("cells"), list)
    return value if has_cells and all(isinstance(cell, dict) for cell in value["cells"]) else None


def cells_of(notebook: JsonObject) -> list[JsonObject]:
    """Return the cells of a notebook that `parse_notebook` returned."""
    cells = notebook["cells"]
    assert isinstance(cells, list)
    return [cell for cell in cells if isinstance(cell, dict)]


@dataclass(frozen=True, slots=True)
class ShownCells:
    """Some cells of a notebook, as `read` shows them."""

    text: str
    count: int
    """The number of cells in `text`."""
    images: tuple[Image, ...]
    """The images of their outputs."""


def show_cells(cells: Sequence[JsonObject], first: int, limit: int) -> ShownCells:
    """Format at most `limit` cells, starting with cell number `first`; fewer if their text exceeds `MAX_CHARS`."""
    cell_texts: list[str] = []
    images: list[Image] = []
    size = 0
    for number, cell in enumerate(cells[first - 1 : first - 1 + limit], start=first):
        identity = f", id {cell['id']}" if isinstance(cell.get("id"), str) else ""
        text = f"[cell {number}: {cell.get('cell_type', 'unknown')}{identity}]\n{_join_lines(cell.get('source'))}"
        outputs = cell.get("outputs")
        images_before = len(images)
        for output in outputs if isinstance(outputs, list) else []:
            if isinstance(output, dict):
                text += f"\n{_format_output(output, images)}"
        size += len(text)
        if cell_texts and size > MAX_CHARS:
            del images[images_before:]
            break
        cell_texts.append(first_chars(text, MAX_CHARS, " in this cell"))
    return ShownCells("\n".join(cell_texts), len(cell_texts), tuple(images))


def _format_output(output: JsonObject, images: list[Image]) -> str:
    """Return the text of an output; append its image, if it has one, to `images`."""
    kind = output.get("output_type")
    if kind == "stream":
        return f"[{output.get('name', 'output')}]\n{_shorten(_join_lines(output.get('text')))}"
    if kind == "error":
        trace = output.get("traceback")
        name_and_value = f"{output.get('ename')}: {output.get('evalue')}"
        lines = "\n".join(map(str, trace)) if isinstance(trace, list) and trace else name_and_value
        return f"[error]\n{_shorten(lines)}"
    data = output.get("data")
    if not isinstance(data, dict):
        return "[output]"
    for media_type in ("image/png", "image/jpeg"):
        picture = _join_lines(data.get(media_type)).replace("\n", "")
        if picture:
            if len(images) >= MAX_IMAGES or len(picture) > _MAX_IMAGE_CHARS:
                return f"[output: {media_type}, not shown]"
            images.append(Image(media_type, picture))
            return f"[output: {media_type}, image {len(images)} below]"
    text = _join_lines(data.get("text/plain"))
    return f"[output]\n{_shorten(text)}" if text else f"[output: {', '.join(data)}]"


def _shorten(text: str) -> str:
    return omit_middle(_ANSI_ESCAPE.sub("", text).rstrip("\n"), MAX_OUTPUT_CHARS)


def _join_lines(value: Json) -> str:
    """Return a multi-line string, which a notebook may store as a list of lines."""
    if isinstance(value, list):
        return "".join(str(line) for line in value)
    return value if isinstance(value, str) else ""


def source_of(cell: JsonObject) -> str:
    return _join_lines(cell.get("source"))


def find_cell(cells: Sequence[JsonObject], cell_id: str, label: str) -> int:
    """Return the index of the cell whose id or number (from 1) is `cell_id`. Raise `Refused` if there is none.

    `label` names the notebook in the error.
    """
    for index, cell in enumerate(cells):
        if cell.get("id") == cell_id:
            return index
    if _NUMBER.fullmatch(cell_id) and 1 <= int(cell_id) <= len(cells):
        return int(cell_id) - 1
    raise Refused(
        f"{label} has no cell {quoted(cell_id)}; read it for the ids of its {len(cells)} cells. No change made"
    )


def with_source(cell: JsonObject, source: str, kind: str) -> JsonObject:
    """Return the cell with a new source and type, and without its outputs, which belong to the old source.

    Fields that a cell of the new type cannot have are removed.
    """
    changed: JsonObject = {**cell, "cell_type": kind, "source": _encode_source(source, like=cell.get("source"))}
    if kind == "code":
        changed["outputs"], changed["execution_count"] = [], None
        changed.pop("attachments", None)
    else:
        changed.pop("outputs", None)
        changed.pop("execution_count", None)
    return changed


def new_cell(notebook: JsonObject, source: str, kind: str) -> JsonObject:
    """Return a new cell, with an id if the format has cell ids (nbformat 4.5 or later)."""
    minor = notebook.get("nbformat_minor")
    has_ids = isinstance(minor, int) and minor >= 5
    cell: JsonObject = {"cell_type": kind}
    if kind == "code":
        cell["execution_count"] = None
    if has_ids:
        cell["id"] = os.urandom(4).hex()
    cell["metadata"] = {}
    if kind == "code":
        cell["outputs"] = []
    cell["source"] = _encode_source(source, like=[])
    return cell


def _encode_source(source: str, *, like: Json) -> Json:
    """Return `source` as a string if the value `like` is one, otherwise as a list of lines."""
    if isinstance(like, str):
        return source
    lines: list[Json] = list(source.splitlines(keepends=True))
    return lines


def format_notebook(notebook: JsonObject, old: JsonObject, old_text: str) -> str:
    """Return the JSON text of `notebook`, formatted like `old_text`, which is the text of the notebook `old`."""
    tail = "\n" if old_text.endswith("\n") else ""
    for indent in _INDENTS:
        for ascii_only in (False, True):
            if json.dumps(old, indent=indent, ensure_ascii=ascii_only) + tail == old_text:
                return json.dumps(notebook, indent=indent, ensure_ascii=ascii_only) + tail
    return json.dumps(notebook, indent=1, ensure_ascii=_may_have_surrogates(old_text)) + tail


def _may_have_surrogates(text: str) -> bool:
    """Return whether the JSON in `text` may contain lone surrogates, which can only be written as escapes."""
    return re.search(r"\\u[dD][89a-fA-F]", text) is not None


class NotebookEdit(ChangeTool):
    """The `notebook_edit` tool."""

    spec = ToolSpec(
        name="notebook_edit",
        description=(
            "Change one cell of a Jupyter notebook (.ipynb): replace its source, insert a cell after it, or delete "
            "it. Read the notebook first. Replacing a source clears the outputs of that cell; other cells stay "
            "unchanged."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Notebook to change."},
                "cell": {
                    "type": "string",
                    "description": "Id or number of the cell, as read shows it. For insert: the cell before it, or 0.",
                },
                "mode": {
                    "type": "string",
                    "enum": ["replace", "insert", "delete"],
                    "description": "The change to make. Default replace.",
                },
                "source": {"type": "string", "description": "The complete new source of the cell. Omit it for delete."},
                "cell_type": {
                    "type": "string",
                    "enum": ["code", "markdown", "raw"],
                    "description": "Type of the cell. Default: its current type, or code for a new cell.",
                },
            },
            "required": ["path", "cell"],
            "additionalProperties": False,
        },
        draft_argument="source",
        safety=WRITES_PATH,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> PlannedChange:
        mode = arguments.text("mode", "replace")
        if mode != "delete" and not arguments.has("source"):
            raise Refused("notebook_edit: source is missing; send the complete new source of the cell")
        location = workspace.resolve(arguments.text("path"), "write")
        if not workspace.exists(location):
            raise Refused(f"{location.label} does not exist")
        loaded = open_for_change(location, workspace)
        old = text_file.decode(loaded.data, location.label)
        notebook = parse_notebook(old.text)
        if notebook is None:
            raise Refused(f"{location.label} is not a notebook of format 4; change its text with edit. No change made")
        edited = _change_cells(notebook, arguments, mode, location.label)
        changed: JsonObject = {**notebook, "cells": list(edited.cells)}
        new = text_file.with_text(old, format_notebook(changed, notebook, old.text))
        data = text_file.encode(new)
        if data == loaded.data:
            raise Refused(f"{location.label} already contains this text; no change made")
        return plan_replacement(location, loaded, old, new, data, f"{edited.description} in {location.label}.")


class _ChangedCells(NamedTuple):
    """The cells of a notebook after a change."""

    cells: list[JsonObject]
    description: str
    """The change, such as `Deleted cell 3`."""


def _change_cells(notebook: JsonObject, arguments: Arguments, mode: str, label: str) -> _ChangedCells:
    """Return the cells after the change that a call asks for. Raise `Refused` if it names no cell."""
    cells = cells_of(notebook)
    cell_id, source = arguments.text("cell"), with_plain_newlines(arguments.text("source"))
    if mode == "insert":
        index = 0 if cell_id == "0" else find_cell(cells, cell_id, label) + 1
        inserted = new_cell(notebook, source, arguments.text("cell_type", "code"))
        return _ChangedCells([*cells[:index], inserted, *cells[index:]], f"Inserted cell {index + 1}")
    index = find_cell(cells, cell_id, label)
    if mode == "delete":
        return _ChangedCells([*cells[:index], *cells[index + 1 :]], f"Deleted cell {index + 1}")
    kind = arguments.text("cell_type", str(cells[index].get("cell_type", "code")))
    replaced = with_source(cells[index], source, kind)
    return _ChangedCells([*cells[:index], replaced, *cells[index + 1 :]], f"Replaced cell {index + 1}")
