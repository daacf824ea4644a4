"""The tools that only communicate with the user: `ask_person`, `exit_plan_mode` and `todo`.

`ask_person` asks a question, with answers to choose from. `exit_plan_mode` proposes a plan; only the user can end plan
mode. Models know the name `exit_plan_mode` from other assistants. `todo` keeps the model's to-do list: every call sends
the whole list, and `todo_items` parses it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from qcode.protocol.approvals import Choice
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import Refused, ToolOutcome, ToolSpec
from qcode.text.clean import visible, visible_rows
from qcode.text.json import JsonObject, parse_object, text_in
from qcode.tools.arguments import validate_arguments
from qcode.tools.tool import Preview, ToolRunContext, failed
from qcode.tools.workspace import Workspace
from qcode.values import dataclass

MAX_CHOICES = 8
_MIN_MULTI_SELECT_CHOICES = 2
_MAX_HEADING_CHARS = 200


class AskUser:
    """The `ask_person` tool. The answer to its approval is the result; `run` is reached only if no user can answer."""

    spec = ToolSpec(
        name="ask_person",
        description=(
            "Ask the user a question and wait for the answer. Use it only if you cannot continue well without the "
            "answer: for a choice between options with different results, or for something only the user knows. Do "
            "not use it to get permission for a tool (that is asked automatically), or for anything you can find "
            "out. With choices the user picks one, or several if multi_select is true, or writes another answer. One "
            "question per call."
        ),
        parameters={
            "type": "object",
            "properties": {
                "question": {"type": "string", "description": "The question, short and complete."},
                "choices": {
                    "type": "array",
                    "maxItems": MAX_CHOICES,
                    "description": "Suggested answers, the best one first. Omit them for a free answer.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "label": {"type": "string", "description": "The answer in a few words."},
                            "detail": {"type": "string", "description": "The consequence of this choice."},
                        },
                        "required": ["label"],
                        "additionalProperties": False,
                    },
                },
                "multi_select": {
                    "type": "boolean",
                    "description": "Set it to true if several choices can apply together. The default is false.",
                },
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        asks_user=True,
        is_for_sub_agents=False,
        safety="harmless",
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            checked = validate_arguments(self.spec, arguments)
            question = checked.text("question").strip()
            choices = tuple(
                Choice(item.text("label").strip(), item.text("detail").strip()) for item in checked.objects("choices")
            )
            labels = [choice.label for choice in choices]
            if not question or not all(labels):
                raise Refused("ask_person: the question or a choice is empty")
            if len(set(labels)) < len(labels):
                raise Refused("ask_person: two choices have the same label")
            if checked.flag("multi_select") and len(choices) < _MIN_MULTI_SELECT_CHOICES:
                raise Refused("ask_person: multi_select needs at least two choices; add choices or omit multi_select")
        except Refused as refused:
            return Preview("A question", detail="", refusal=str(refused))
        first_line, _, other_lines = question.partition("\n")
        if len(first_line) > _MAX_HEADING_CHARS:
            # In the heading, "this" replaces the question, which is below in full.
            first_line, other_lines = "this", question
        detail, is_multi_select = visible_rows(other_lines.strip()), checked.flag("multi_select")
        return Preview(visible(first_line), detail, choices=choices, is_multi_select=is_multi_select)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        refusal = self.preview(arguments, workspace).refusal
        return failed(refusal or "No answer was given. Choose the most likely answer yourself and continue.")


EXIT_PLAN_MODE = "exit_plan_mode"


class ExitPlanMode:
    """The `exit_plan_mode` tool, which proposes a plan. The user's answer is the result.

    The model gets this tool only in plan mode, and only if a user can answer.
    """

    spec = ToolSpec(
        name=EXIT_PLAN_MODE,
        description=(
            "Present your plan when it is ready and wait for the user's decision: they approve it, which ends plan "
            "mode, or say what to change. Use it for tasks that change files; answer questions without a plan. Do "
            "not ask in text whether the plan is fine: this call asks."
        ),
        parameters={
            "type": "object",
            "properties": {
                "plan": {
                    "type": "string",
                    "description": (
                        "The plan as Markdown: the goal in one line, the steps in order with the files they change, "
                        "how to check the result, and open questions."
                    ),
                }
            },
            "required": ["plan"],
            "additionalProperties": False,
        },
        asks_user=True,
        is_for_sub_agents=False,
        safety="harmless",
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            plan = validate_arguments(self.spec, arguments).text("plan").strip()
            if not plan:
                raise Refused(f"{EXIT_PLAN_MODE}: the plan is empty")
        except Refused as refused:
            return Preview("A plan", detail="", refusal=str(refused))
        return Preview("Carry out this plan?", visible_rows(plan), is_plan=True)

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        refusal = self.preview(arguments, workspace).refusal
        return failed(refusal or "No answer was given; plan mode stays on. Present the plan in your reply.")


def plan_of(call: ToolCall) -> str:
    """Return the Markdown plan of an `exit_plan_mode` call; empty for other calls."""
    if call.name != EXIT_PLAN_MODE:
        return ""
    return text_in((parse_object(call.arguments) or {}).get("plan"))


TodoState: TypeAlias = Literal["pending", "in_progress", "done"]
MAX_ITEMS = 50
_TODO_MARKS: dict[TodoState, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


@dataclass(frozen=True, slots=True)
class TodoItem:
    """A task of the to-do list, on one line."""

    task: str
    state: TodoState


class Todo:
    """The `todo` tool."""

    spec = ToolSpec(
        name="todo",
        description=(
            "Keep a to-do list for work of three steps or more; the user sees it. Send the whole list each time, in "
            "order; it replaces the previous one. Set one item to in_progress when you start it, and to done as soon "
            "as it is finished, not several together at the end."
        ),
        parameters={
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "maxItems": MAX_ITEMS,
                    "description": "All items; empty to clear the list.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "task": {"type": "string", "description": "The task in one line."},
                            "state": {
                                "type": "string",
                                "enum": ["pending", "in_progress", "done"],
                                "description": "The state of the task.",
                            },
                        },
                        "required": ["task", "state"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["items"],
            "additionalProperties": False,
        },
        is_read_only=True,
        is_for_sub_agents=False,
        safety="harmless",
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            items = todo_items(arguments)
        except Refused as refused:
            return Preview("Keep a list?", detail="", refusal=str(refused))
        return Preview("Keep a list?", visible_rows(_todo_list(items)))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolRunContext) -> ToolOutcome:
        try:
            items = todo_items(arguments)
        except Refused as refused:
            return failed(str(refused))
        if not items:
            return ToolOutcome("The list is empty.", summary="empty")
        done = sum(item.state == "done" for item in items)
        in_progress = sum(item.state == "in_progress" for item in items)
        notes = ["[more than one item is in progress; work on one at a time]"] if in_progress > 1 else []
        if not in_progress and done < len(items):
            notes.append("[no item is in progress; set the item you start with to in_progress]")
        return ToolOutcome("\n".join([_todo_list(items), *notes]), summary=f"{done} of {len(items)} done")


def todo_items(arguments: JsonObject) -> tuple[TodoItem, ...]:
    """Return the to-do list in the arguments of a call. Raise `Refused` if it is invalid."""
    items = tuple(
        TodoItem(" ".join(item.text("task").split()), cast("TodoState", item.text("state")))
        for item in validate_arguments(Todo.spec, arguments).objects("items")
    )
    if not all(item.task for item in items):
        raise Refused("todo: the task of an item is empty")
    return items


def _todo_list(items: tuple[TodoItem, ...]) -> str:
    return "\n".join(f"{_TODO_MARKS[item.state]} {item.task}" for item in items)
