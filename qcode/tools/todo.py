"""The `todo` tool: the model's list of what is to do, whole at every call. It touches nothing.

The list is in the arguments of the call, and `items_of` reads it from there, for whoever shows it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from qcode.protocol.json import JsonObject
from qcode.protocol.tools import ToolOutcome, ToolSpec
from qcode.protocol.values import dataclass
from qcode.tools.arguments import check
from qcode.tools.refusal import Refused
from qcode.tools.tool import Preview, ToolContext, failed
from qcode.tools.workspace import Workspace

State: TypeAlias = Literal["pending", "in_progress", "done"]
MOST_ITEMS = 50
_MARKS: dict[State, str] = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


@dataclass(frozen=True, slots=True)
class Item:
    task: str
    state: State


class Todo:
    spec = ToolSpec(
        name="todo",
        description=(
            "Keep a list of what is to do, for work of three steps or more: the person sees it. Send the whole list "
            "each time, in order; it takes the place of the one before. Set one item to in_progress when you begin it "
            "and to done at once when it is finished, not several together at the end."
        ),
        parameters={
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "maxItems": MOST_ITEMS,
                    "description": "All items; empty to clear the list.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "task": {"type": "string", "description": "What is to be done, in one line."},
                            "state": {
                                "type": "string",
                                "enum": ["pending", "in_progress", "done"],
                                "description": "How far it is.",
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
    )

    def preview(self, arguments: JsonObject, workspace: Workspace) -> Preview:
        try:
            items = items_of(arguments)
        except Refused as refused:
            return Preview("Keep a list?", "", str(refused))
        return Preview("Keep a list?", _listed(items))

    async def run(self, arguments: JsonObject, workspace: Workspace, context: ToolContext) -> ToolOutcome:
        try:
            items = items_of(arguments)
        except Refused as refused:
            return failed(str(refused))
        if not items:
            return ToolOutcome("The list is empty.", summary="empty")
        done = sum(item.state == "done" for item in items)
        under_way = sum(item.state == "in_progress" for item in items)
        notes = ["[more than one item is in progress; work on one at a time]"] if under_way > 1 else []
        if not under_way and done < len(items):
            notes.append("[nothing is in progress; set the item you begin with to in_progress]")
        return ToolOutcome("\n".join([_listed(items), *notes]), summary=f"{done} of {len(items)} done")


def items_of(arguments: JsonObject) -> tuple[Item, ...]:
    """Return the list that a call holds; raise `Refused` where it holds none."""
    items = tuple(
        Item(" ".join(one.text("task").split()), cast("State", one.text("state")))
        for one in check(Todo.spec, arguments).objects("items")
    )
    if not all(item.task for item in items):
        raise Refused("todo: the task of an item is empty")
    return items


def _listed(items: tuple[Item, ...]) -> str:
    return "\n".join(f"{_MARKS[item.state]} {item.task}" for item in items)
