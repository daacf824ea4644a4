"""The `edit` tool: one passage of a file that was read, or every occurrence of it, replaced."""

from __future__ import annotations

from qcode.protocol.tools import ToolSpec
from qcode.tools import matching, text
from qcode.tools.arguments import Arguments
from qcode.tools.change import Change, ChangeTool, creation, open_for_change, replacement
from qcode.tools.matching import Edited
from qcode.tools.refusal import Refused
from qcode.tools.workspace import Place, Workspace


class Edit(ChangeTool):
    spec = ToolSpec(
        name="edit",
        description=(
            "Replace a passage of a file. The file must have been read before. old_text must be the passage exactly as "
            "it is in the file, without the line numbers that read puts before lines, and long enough to be there only "
            "once; with replace_all every occurrence is replaced. Everything else in the file stays as it is. An empty "
            "old_text makes a new file, or fills an empty one. For several changes in one file use multi_edit."
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

    def plan(self, arguments: Arguments, workspace: Workspace) -> Change:
        place = workspace.resolve(arguments.text("path"), "write")
        asked, given = (plain(arguments.text(name)) for name in ("old_text", "new_text"))
        if not workspace.exists(place):
            if asked:
                raise Refused(f"{place.shown} does not exist; use write to create it")
            return created(place, given)
        loaded = open_for_change(place, workspace)
        old = text.decode(loaded.data, place.shown)
        if not asked and not old.text:
            edited = Edited(given, (1,))
        else:
            edited = matching.apply(old.text, asked, given, place.shown, replaces_all=arguments.flag("replace_all"))
        new = text.with_text(old, edited.text)
        data = text.encode(new)
        if data == loaded.data:
            raise Refused(f"{place.shown} already reads like this; nothing was changed")
        report = f"Edited {place.shown} {where(edited)}.{f' {edited.note}' if edited.note else ''}"
        return replacement(place, loaded, old, new, data, report)


def created(place: Place, content: str) -> Change:
    """Return the change that makes a new file of `content`."""
    document = text.from_text(content)
    return creation(place, text.encode(document), document, f"Created {place.shown}.")


def plain(value: str) -> str:
    """Return a text of the model with plain newlines: each line of the file keeps the ending it has."""
    return value.replace("\r\n", "\n")


def where(edited: Edited) -> str:
    """Return where an edit took place, in words."""
    first = edited.lines[0]
    return f"at line {first}" if len(edited.lines) == 1 else f"in {len(edited.lines)} places, first at line {first}"
