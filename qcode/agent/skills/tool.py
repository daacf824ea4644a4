"""The `skill` tool: it returns the instructions of one skill to the model, and makes the folder of the skill readable.

The tool only reads files of the user or of a trusted project, so no call needs an approval.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qcode.protocol.messages import Message, Text, ToolResult
from qcode.protocol.tools import SKILL_TOOL, ReadOnlyIf, Refused, ToolOutcome, ToolSpec
from qcode.text.clean import first_chars, visible
from qcode.text.json import JsonObject
from qcode.tools.arguments import validate_arguments
from qcode.tools.subagent import AGENT_TOOL
from qcode.tools.tool import CallToRun, Preview, ToolRunContext, failed
from qcode.tools.workspace import Workspace

if TYPE_CHECKING:
    from qcode.agent.skills.library import SkillLibrary


class SkillTool:
    """The `skill` tool.

    `read_only_kinds` are the kinds of sub-agents that change nothing: a skill that runs in such a sub-agent only reads.
    """

    def __init__(self, skills: SkillLibrary, read_only_kinds: Sequence[str] = ()) -> None:
        self._skills = skills
        offered = skills.for_model
        reads = tuple(
            skill.handle
            for skill in offered
            if not skills.runs_in_subagent(skill) or skills.kind_of(skill) in read_only_kinds
        )
        self.spec = ToolSpec(
            name=SKILL_TOOL,
            description=(
                "Load the instructions of a skill, and the names of its files. Call it before you begin a task that "
                "fits the description of a skill, once per skill and conversation. Read the files of the skill only "
                "as far as its instructions need them."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": [skill.handle for skill in offered]},
                    "arguments": {
                        "type": "string",
                        "description": "The arguments, such as a file name, if the skill takes any.",
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            read_only_if=ReadOnlyIf("name", reads),
            safety="harmless",
        )

    def agent_call(self, arguments: JsonObject) -> CallToRun | None:
        """Return the call of the `agent` tool that runs a skill in a sub-agent; None for any other skill."""
        try:
            checked = validate_arguments(self.spec, arguments)
            skill = self._skills.find(checked.text("name"))
            if not self._skills.runs_in_subagent(skill):
                return None
            loaded = self._skills.load(skill, checked.text("arguments"))
        except Refused:
            return None  # `run` reports the reason
        task: JsonObject = {
            "description": f"skill {skill.handle}",
            "prompt": loaded.text,
            "kind": self._skills.kind_of(skill),
        }
        if model := self._skills.agent_model(skill):
            task["model"] = model
        return CallToRun(AGENT_TOOL, task)

    def preload(self, name: str, workspace: Workspace) -> str:
        """Return the text of a skill that precedes the task of a sub-agent; raise `Refused`."""
        skill = self._skills.find(name)
        text = self._skills.load(skill).text
        workspace.add_readable_folder(skill.folder)
        return text

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        return Preview("Load a skill?", visible(str(arguments.get("name", ""))))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        try:
            checked = validate_arguments(self.spec, arguments)
            skill = self._skills.find(checked.text("name"))
            loaded = await asyncio.to_thread(self._skills.load, skill, checked.text("arguments"))
        except Refused as refused:
            return failed(str(refused))
        workspace.add_readable_folder(skill.folder)
        if is_loaded(loaded.text, context.transcript()):
            text = f"The skill {skill.handle} is already in this conversation, unchanged. Follow it without loading it."
            return ToolOutcome(text, summary="already loaded")
        limit = context.max_output_chars
        text = loaded.text
        if len(text) > limit:
            text = f"{first_chars(text, limit, f'; read {skill.file} for the rest')}\n</skill>"
        return ToolOutcome(text, summary=f"{skill.handle} · about {skill.tokens:,} tokens")


def is_loaded(text: str, messages: Sequence[Message]) -> bool:
    """Return whether the conversation contains the text of a skill already, loaded by the model or the user."""
    start, _, _ = text.partition("\n</skill>")
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolResult) and block.name == SKILL_TOOL and start in block.content:
                return True
            if isinstance(block, Text) and message.role == "user" and start in block.text:
                return True
    return False
