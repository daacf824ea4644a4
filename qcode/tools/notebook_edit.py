"""The `notebook_edit` tool: one cell of a notebook replaced, added or deleted."""

from __future__ import annotations

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolSpec
from qcode.tools import notebooks, text
from qcode.tools.arguments import Arguments
from qcode.tools.change import Change, ChangeTool, open_for_change, replacement
from qcode.tools.edit import plain
from qcode.tools.refusal import Refused
from qcode.tools.workspace import Workspace


class NotebookEdit(ChangeTool):
    spec = ToolSpec(
        name="notebook_edit",
        description=(
            "Change one cell of a Jupyter notebook (.ipynb) that was read: replace its source, insert a cell behind "
            "it, or delete it. Outputs of a cell whose source is replaced are cleared; other cells stay as they are."
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
                    "description": "What to do. Default replace.",
                },
                "source": {"type": "string", "description": "The whole new source; not for delete."},
                "cell_type": {
                    "type": "string",
                    "enum": ["code", "markdown", "raw"],
                    "description": "Kind of the cell. Default: the one it has, or code for a new one.",
                },
            },
            "required": ["path", "cell"],
            "additionalProperties": False,
        },
        writes_files=True,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> Change:
        mode = arguments.text("mode", "replace")
        if mode != "delete" and not arguments.has("source"):
            raise Refused("notebook_edit: source is missing")
        place = workspace.resolve(arguments.text("path"), "write")
        if not workspace.exists(place):
            raise Refused(f"{place.shown} does not exist")
        loaded = open_for_change(place, workspace)
        old = text.decode(loaded.data, place.shown)
        notebook = notebooks.parse_notebook(old.text)
        if notebook is None:
            raise Refused(f"{place.shown} is no notebook of format 4; change its text with edit. Nothing was changed")
        cells, done = _changed(notebook, arguments, mode, place.shown)
        changed: JsonObject = {**notebook, "cells": list(cells)}
        new = text.with_text(old, notebooks.spell(changed, notebook, old.text))
        data = text.encode(new)
        if data == loaded.data:
            raise Refused(f"{place.shown} already reads like this; nothing was changed")
        return replacement(place, loaded, old, new, data, f"{done} in {place.shown}.")


def _changed(notebook: JsonObject, arguments: Arguments, mode: str, shown: str) -> tuple[list[JsonObject], str]:
    """Return the cells after the change, and what was done."""
    cells = notebooks.cells_of(notebook)
    wanted, source = arguments.text("cell"), plain(arguments.text("source"))
    is_first = mode == "insert" and wanted == "0"
    at = 0 if is_first else notebooks.find_cell(cells, wanted, shown) + (mode == "insert")
    if mode == "delete":
        return [*cells[:at], *cells[at + 1 :]], f"Deleted cell {at + 1}"
    if mode == "insert":
        made = notebooks.new_cell(notebook, source, arguments.text("cell_type", "code"))
        return [*cells[:at], made, *cells[at:]], f"Inserted cell {at + 1}"
    kind = arguments.text("cell_type", str(cells[at].get("cell_type", "code")))
    return [*cells[:at], notebooks.with_source(cells[at], source, kind), *cells[at + 1 :]], f"Replaced cell {at + 1}"
