"""The `multi_edit` tool: several edits of one file, one after another, all of them or none."""

from __future__ import annotations

from qcode.protocol.tools import ToolSpec
from qcode.tools import matching, text
from qcode.tools.arguments import Arguments
from qcode.tools.change import Change, ChangeTool, open_for_change, replacement
from qcode.tools.edit import created, plain, where
from qcode.tools.matching import Edited
from qcode.tools.refusal import Refused
from qcode.tools.workspace import Workspace


class MultiEdit(ChangeTool):
    spec = ToolSpec(
        name="multi_edit",
        description=(
            "Make several edits in one file, in order, each on the result of the one before: all are made, or none. "
            "The rules for each are those of edit: the file must have been read, and each old_text must be there "
            "exactly and only once, unless replace_all is set."
        ),
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "File to change, relative to the workspace or absolute."},
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "description": "The edits, in the order in which they are made.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_text": {"type": "string", "description": "The passage to replace."},
                            "new_text": {"type": "string", "description": "What stands there instead."},
                            "replace_all": {"type": "boolean", "description": "Replace every occurrence."},
                        },
                        "required": ["old_text", "new_text"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["path", "edits"],
            "additionalProperties": False,
        },
        writes_files=True,
    )

    def plan(self, arguments: Arguments, workspace: Workspace) -> Change:
        place = workspace.resolve(arguments.text("path"), "write")
        edits = arguments.objects("edits")
        if not workspace.exists(place):
            if plain(edits[0].text("old_text")):
                raise Refused(f"{place.shown} does not exist; use write to create it")
            content, _ = _edited("", edits, place.shown)
            return created(place, content)
        loaded = open_for_change(place, workspace)
        old = text.decode(loaded.data, place.shown)
        content, reports = _edited(old.text, edits, place.shown)
        new = text.with_text(old, content)
        data = text.encode(new)
        if data == loaded.data:
            raise Refused(f"{place.shown} already reads like this; nothing was changed")
        report = "\n".join([f"Made {len(edits)} edit{'s' if len(edits) != 1 else ''} in {place.shown}.", *reports])
        return replacement(place, loaded, old, new, data, report)


def _edited(content: str, edits: list[Arguments], shown: str) -> tuple[str, list[str]]:
    """Return the text after all edits, and a line about each."""
    reports = []
    for number, one in enumerate(edits, start=1):
        asked, given = plain(one.text("old_text")), plain(one.text("new_text"))
        try:
            if not asked and not content:
                edited = Edited(given, (1,))
            else:
                edited = matching.apply(content, asked, given, shown, replaces_all=one.flag("replace_all"))
        except Refused as refused:
            before = f" (of the text after edit {number - 1})" if number > 1 else ""
            raise Refused(f"Edit {number} of {len(edits)}{before}: {refused}\nNone of the edits was made.") from None
        content = edited.text
        reports.append(f"{number}. {where(edited)}.{f' {edited.note}' if edited.note else ''}")
    return content, reports
