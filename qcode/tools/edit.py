"""The `edit` tool: one passage of a file that was read, or every occurrence of it, replaced."""

from __future__ import annotations

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools import diffs, matching, text
from qcode.tools.arguments import Arguments
from qcode.tools.change import Change, perform, preview_change
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, answered
from qcode.tools.workspace import Workspace


class Edit:
    spec = ToolSpec(
        name="edit",
        description=(
            "Replace a passage of a file. The file must have been read before. old_text must be the passage exactly as "
            "it is in the file, without the line numbers that read puts before lines, and long enough to be there only "
            "once; with replace_all every occurrence is replaced. Everything else in the file stays as it is."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to change, relative to the workspace or absolute."},
                "old_text": {"type": "string", "description": "The passage to replace, with its indentation."},
                "new_text": {"type": "string", "description": "What stands there instead; empty to delete it."},
                "replace_all": {"type": "boolean", "description": "Replace every occurrence. Default false."},
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": False,
        },
        writes_files=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        return preview_change(self.spec, _plan, arguments, workspace)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        return await answered(lambda: perform(self.spec, _plan, arguments, workspace))


def _plan(arguments: Arguments, workspace: Workspace) -> Change:
    place = workspace.resolve(arguments.text("path"), "write")
    if not workspace.exists(place):
        raise Refused(f"{place.shown} does not exist; use write to create it")
    loaded = workspace.load(place)
    workspace.check_fresh(place, loaded)
    workspace.check_writable(place, loaded)
    old = text.decode(loaded.data, place.shown)
    asked, given = (_plain(arguments.text(name)) for name in ("old_text", "new_text"))
    edited = matching.apply(old.text, asked, given, place.shown, replaces_all=arguments.flag("replace_all"))
    new = text.with_text(old, edited.text)
    data = text.encode(new)
    if data == loaded.data:
        raise Refused(f"{place.shown} already reads like this; nothing was changed")
    many = len(edited.lines)
    at = f"at line {edited.lines[0]}" if many == 1 else f"in {many} places, first at line {edited.lines[0]}"
    note = f" {edited.note}" if edited.note else ""
    return Change(place, loaded, data, diffs.unified(place.shown, old, new), f"Edited {place.shown} {at}.{note}")


def _plain(value: str) -> str:
    return value.replace("\r\n", "\n")
