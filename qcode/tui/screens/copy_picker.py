"""The picker of `/copy`: the replies of a conversation, including one that still streams, each with its code blocks.

A separate module, because it loads when the picker first opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from qcode.agent.sessions.history import StoredMessage
from qcode.text.clean import plain_line, single_spaced
from qcode.text.numbers import count_text
from qcode.tui.panels.picker_list import Column, PickerRow, time_labels
from qcode.tui.screens.picker import Picker
from qcode.values import dataclass

_MAX_REPLIES = 100
_MAX_LABEL_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class CopyItem:
    """A text to copy."""

    name: str
    """The words after "Copied", such as `the last reply`."""
    label: str
    """The label in the list."""
    text: str
    turn: str
    """The turn of the reply, such as `turn 3`; `so far` while it streams."""
    time: str = ""
    """The local time of a stored reply; empty for a code block, and for a reply that still streams."""

    @property
    def size(self) -> str:
        return count_text(self.text.rstrip("\n").count("\n") + 1, "line")


def copy_items(stored: Sequence[StoredMessage], partial_reply: str = "") -> tuple[CopyItem, ...]:
    """Return the replies, the last one first, each followed by its code blocks. `partial_reply` is still streaming."""
    turns = accumulate(message.is_turn_start for message in stored)  # the number of turns up to each message
    replies = [
        (turn, message.entry)
        for turn, message in zip(turns, stored, strict=True)
        if message.entry.message.role == "assistant" and message.entry.message.text.strip()
    ]
    replies = replies[-_MAX_REPLIES:][::-1]

    items: list[CopyItem] = []
    if partial_reply.strip():
        items.append(
            CopyItem("the reply so far", plain_line(partial_reply, _MAX_LABEL_CHARACTERS), partial_reply, "so far")
        )
        items += _code_blocks(partial_reply, "so far")
    times = time_labels([entry.timestamp for _, entry in replies])
    for number, ((turn, entry), time) in enumerate(zip(replies, times, strict=True)):
        name = "the last reply" if number == 0 else "a reply"
        text = entry.message.text
        reply = CopyItem(name, plain_line(text, _MAX_LABEL_CHARACTERS), text, f"turn {turn}", time)
        items += [reply, *_code_blocks(text, f"turn {turn}")]
    return tuple(items)


def _code_blocks(text: str, turn: str) -> Iterable[CopyItem]:
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.content.strip():
            language = single_spaced(token.info.split(" ")[0], 20) or "code"
            first_line = next(line for line in token.content.split("\n") if line.strip())
            label = f"  {language}: {single_spaced(first_line, _MAX_LABEL_CHARACTERS)}"
            yield CopyItem("the code block", label, token.content, turn)


class CopyPicker(Picker):
    """Picks a text to copy; the result is its position in `items`."""

    ENTER = "copy"
    COLUMNS = (Column("", weight=2), Column("", weight=1), Column("", weight=3))

    def __init__(self, items: Sequence[CopyItem]) -> None:
        rows = [
            PickerRow(str(index), item.label, cells=(item.turn, item.time, item.size), search_text=item.text)
            for index, item in enumerate(items)
        ]
        super().__init__("Copy", rows)
