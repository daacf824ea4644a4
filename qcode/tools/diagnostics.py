"""The `diagnostics` tool: the project's own linters and type checkers, on the files that were changed.

They run code of the project, so a call only stands for a shell command: that is what is judged, shown and run.
"""

from __future__ import annotations

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools.arguments import check
from qcode.tools.checkers import CHECKERS, check_command
from qcode.tools.refusal import Refused
from qcode.tools.shell import Shell
from qcode.tools.tool import Preview, ToolContext, failed
from qcode.tools.workspace import Workspace


class Diagnostics:
    spec = ToolSpec(
        name="diagnostics",
        description=(
            "Check files with the linters and type checkers that the project has set up "
            f"({', '.join(checker.name for checker in CHECKERS)}) and return what they say. Without paths it checks "
            "the files that were changed in this session. Use it after changing code."
        ),
        parameters={
            "type": "object",
            "properties": {
                "paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": 200,
                    "description": "Files to check. Default: those that were changed.",
                },
            },
            "required": [],
            "additionalProperties": False,
        },
        can_go_on=True,
    )

    def spelled_out(self, arguments: JsonObject, workspace: Workspace) -> JsonObject:
        """Return the arguments of the shell call that this call stands for; raise `Refused` where there is none."""
        paths = check(self.spec, arguments).texts("paths")
        files = [workspace.resolve(path).path for path in paths] if paths else workspace.changed()
        if not files:
            raise Refused("diagnostics: no file was changed in this session; name the files to check with paths")
        command = check_command(workspace.root, [file for file in files if file.is_relative_to(workspace.root)])
        if not command:
            raise Refused("diagnostics: the project has set up no linter or type checker that is known here for them")
        return {"command": command}

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            return Shell().preview(self.spelled_out(arguments, workspace), workspace)
        except Refused as refused:
            return Preview("Check files?", "", str(refused))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        refusal = self.preview(arguments, workspace).refusal
        return failed(refusal or "diagnostics: it was not run, because it must run as the shell command it stands for")
