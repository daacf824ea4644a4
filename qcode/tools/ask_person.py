"""The `ask_person` tool: a question of the model to the person, with answers to choose from. It touches nothing."""

from __future__ import annotations

from qcode.protocol.events import Choice
from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.tools.arguments import check
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, failed
from qcode.tools.workspace import Workspace

MOST_CHOICES = 8
_LONGEST_LINE = 200


class AskPerson:
    spec = ToolSpec(
        name="ask_person",
        description=(
            "Ask the person a question and wait for the answer, where the task cannot go on well without it: a choice "
            "between ways that differ in result, or something only the person knows. Not for permission to use a "
            "tool, which is asked for anyway, and not for what can be found out. With choices the person picks one, or "
            "writes another answer. One question a call."
        ),
        parameters={
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The question, short and complete."},
                "choices": {
                    "type": "array",
                    "maxItems": MOST_CHOICES,
                    "description": "Answers to choose from, the one you would take first. None: any text.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string", "description": "The answer in a few words."},
                            "detail": {"type": "string", "description": "What choosing it means."},
                        },
                        "required": ["label"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        asks_person=True,
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = check(self.spec, arguments)
            question = checked.text("question").strip()
            choices = tuple(
                Choice(one.text("label").strip(), one.text("detail").strip()) for one in checked.objects("choices")
            )
            labels = [choice.label for choice in choices]
            if not question or not all(labels):
                raise Refused("ask_person: the question or a choice is empty")
            if len(set(labels)) < len(labels):
                raise Refused("ask_person: two choices have the same label")
        except Refused as refused:
            return Preview("A question", "", str(refused))
        first, _, rest = question.partition("\n")
        if len(first) > _LONGEST_LINE:
            first, rest = "this", question
        return Preview(first, rest.strip(), choices=choices)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        refusal = self.preview(arguments, workspace).refusal
        return failed(refusal or "Nobody answered.")
