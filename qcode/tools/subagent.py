"""The `agent` tool as the model sees it: a task for a sub-agent with a separate context.

This module only parses a call. `agent.subagents` runs the sub-agent; `run` here refuses a call by a sub-agent.
"""

from __future__ import annotations

from qcode.protocol.tools import EXPLORE, SAME_MODEL, SMALL_MODEL, ReadOnlyIf, Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible, visible_lines
from qcode.text.json import Json, JsonObject
from qcode.tools.arguments import validate_arguments
from qcode.tools.tool import Preview, ToolRunContext, failed
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

AGENT_TOOL = "agent"
_MAX_DESCRIPTION_CHARS = 80


@dataclass(frozen=True, slots=True)
class Task:
    """The task of a sub-agent."""

    description: str
    """A few words on one line, for the user."""
    prompt: str
    kind: str
    """The name of the sub-agent."""
    model: str
    """`same` or `small`; empty if the call does not name one."""


class SubagentTool:
    """The `agent` tool.

    `kinds` are the names of the sub-agents with their purposes; `readers` are the names of those that change nothing.
    If `has_small_model`, a call may choose the configured small model for its sub-agent.
    """

    def __init__(
        self,
        kinds: tuple[tuple[str, str], ...],
        *,
        readers: tuple[str, ...] = (EXPLORE,),
        has_small_model: bool = False,
    ) -> None:
        self.spec = _spec(kinds, readers, has_small_model=has_small_model)

    def task(self, arguments: JsonObject) -> Task:
        """Return the task in the arguments of a call. Raise `Refused` if they are invalid."""
        checked = validate_arguments(self.spec, arguments)
        description = " ".join(checked.text("description").split())[:_MAX_DESCRIPTION_CHARS]
        prompt = checked.text("prompt").strip()
        if not description or not prompt:
            raise Refused("agent: the description or the prompt is empty")
        return Task(description, prompt, checked.text("kind"), checked.text("model"))

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            task = self.task(arguments)
        except Refused as refused:
            return Preview("Start a sub-agent?", detail="", refusal=str(refused))
        model = f", {task.model} model" if task.model else ""
        task_line = visible(f"{task.description} ({task.kind}{model})")
        return Preview("Start a sub-agent?", f"{task_line}\n\n{visible_lines(task.prompt)}")

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        return failed("agent: a sub-agent cannot start another one")


def _spec(kinds: tuple[tuple[str, str], ...], readers: tuple[str, ...], *, has_small_model: bool) -> ToolSpec:
    properties: dict[str, Json] = {
        "description": {"type": "string", "description": "The task in three to six words; the user sees it."},
        "prompt": {
            "type": "string",
            "description": (
                "The whole task. The sub-agent does not see this conversation: name files and folders, state the known "
                "facts, and say exactly what its answer must contain."
            ),
        },
        "kind": {
            "type": "string",
            "enum": [name for name, _ in kinds],
            "description": " ".join(f"{name}: {purpose}" for name, purpose in kinds),
        },
    }
    if has_small_model:
        properties["model"] = {
            "type": "string",
            "enum": [SAME_MODEL, SMALL_MODEL],
            "description": "small: a cheaper, faster model, for simple lookups. same (the default): your own model.",
        }
    return ToolSpec(
        name=AGENT_TOOL,
        description=(
            "Give a task to a sub-agent, which works on it with separate tools and context and returns one answer. "
            "Use it when a short answer requires reading a lot (for example, how something works across many files), "
            "or for an independent part of the work, so that this conversation contains only the answer. Several "
            "explore calls in one reply run in parallel. Do not use it if one or two calls are enough. The user does "
            "not see its answer: repeat what matters, and check what you rely on."
        ),
        parameters={
            "type": "object",
            "properties": properties,
            "required": ["description", "prompt", "kind"],
            "additionalProperties": False,
        },
        read_only_if=ReadOnlyIf("kind", readers),
        is_for_sub_agents=False,
        safety="harmless",  # each call of the sub-agent is judged separately
    )
