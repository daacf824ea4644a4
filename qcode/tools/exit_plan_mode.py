"""The `exit_plan_mode` tool: a plan put to the person, who alone decides whether plan mode ends. It touches nothing.

The name is the one that other assistants use and that models therefore know.
"""

from __future__ import annotations

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools.arguments import check
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, failed
from qcode.tools.workspace import Workspace

NAME = "exit_plan_mode"


class ExitPlanMode:
    """Offered in plan mode only, where a person can answer. What the person answers is its result."""

    spec = ToolSpec(
        name=NAME,
        description=(
            "Hand in your plan when it is ready and wait for the person's decision. They read it and either let you "
            "carry it out, which ends plan mode, or say what to change. For tasks that change something; a question "
            "is answered without a plan. Do not ask in words whether the plan is fine: this call asks."
        ),
        parameters={
            "type": "object",
            "properties": {
                "plan": {
                    "type": "string",
                    "description": (
                        "The plan as Markdown: the goal in a line, the steps in order with the files they touch, "
                        "how the result will be checked, and what you are not sure of."
                    ),
                }
            },
            "required": ["plan"],
            "additionalProperties": False,
        },
        asks_person=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            plan = check(self.spec, arguments).text("plan").strip()
            if not plan:
                raise Refused(f"{NAME}: the plan is empty")
        except Refused as refused:
            return Preview("A plan", "", str(refused))
        return Preview("The model's plan. Go on with it?", plan, is_plan=True)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        refusal = self.preview(arguments, workspace).refusal
        return failed(refusal or "Nobody answered; plan mode goes on.")
