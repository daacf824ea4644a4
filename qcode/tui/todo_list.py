"""The model's list of what is to do, as it is read from calls and messages and as it is said in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.protocol.json import parse_object
from qcode.protocol.messages import Message, ToolCall, ToolResult
from qcode.tools.refusal import Refused
from qcode.tools.todo import Item, Todo, items_of
from qcode.tui.text import one_line

NAME = Todo.spec.name
_WORDS = {"pending": "to do", "in_progress": "now", "done": "done"}


def todos_of(call: ToolCall) -> tuple[Item, ...] | None:
    """Return the list that a call sets, None where it sets none."""
    return _read(call.arguments) if call.name == NAME else None


def todos_in(messages: Sequence[Message]) -> tuple[Item, ...]:
    """Return the list as it was set last; a summary in the place of older messages holds the one they had."""
    failed: set[str] = set()
    for message in reversed(messages):
        failed |= {one.call_id for one in message.blocks if isinstance(one, ToolResult) and one.is_error}
        for call in reversed(message.calls):
            items = todos_of(call) if call.call_id not in failed else None
            if items is not None:
                return items
        if message.text.startswith("<"):
            # Imported where a summary may be met: the engine is not needed for the first screen.
            from qcode.engine.compaction import is_summary, open_todos

            if is_summary(message):
                return _read(open_todos([message])) or ()
    return ()


def is_over(items: Sequence[Item]) -> bool:
    """Whether nothing is left to do; so it is with an empty list."""
    return all(item.state == "done" for item in items)


def current(items: Sequence[Item]) -> int | None:
    """Return the position of the item to look at: the one in progress, else the first that is not done."""
    states = [item.state for item in items]
    for state in ("in_progress", "pending"):
        if state in states:
            return states.index(state)
    return None


def in_short(items: Sequence[Item]) -> str:
    """Return the list in one line, such as `3/7 · doing: write the tests`."""
    done = sum(item.state == "done" for item in items)
    at = current(items)
    if at is None:
        return f"{done}/{len(items)} · all done"
    lead = "doing" if items[at].state == "in_progress" else "next"
    return f"{done}/{len(items)} · {lead}: {one_line(items[at].task)}"


def in_words(items: Sequence[Item]) -> str:
    """Return the whole list, a line for each item, its state in words."""
    return "\n".join([in_short(items), *(f"{_WORDS[item.state]}: {one_line(item.task)}" for item in items)])


def changes(before: Sequence[Item], after: Sequence[Item]) -> str:
    """Return in words what became of a list, a line for each item that is new, begun, done or gone; empty: nothing."""
    states = {item.task: item.state for item in before}
    lines = []
    for item in after:
        old = states.pop(item.task, None)
        if old is None:
            lines.append(f"{_WORDS[item.state]}: {one_line(item.task)}")
        elif old != item.state:
            again = "to do again" if item.state == "pending" else _WORDS[item.state]
            lines.append(f"{again}: {one_line(item.task)}")
    # A list that was finished makes place for another one; that its items are gone is nothing to tell.
    lines += [f"no longer on the list: {one_line(task)}" for task, state in states.items() if state != "done"]
    return "\n".join([in_short(after) if after else "the list is empty", *lines]) if lines else ""


def _read(arguments: str) -> tuple[Item, ...] | None:
    found = parse_object(arguments)
    if found is None:
        return None
    try:
        return items_of(found)
    except Refused:
        return None
