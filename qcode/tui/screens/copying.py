"""The list of `/copy`: the replies of a conversation, each with its code blocks.

Separate from the view because it loads only when it opens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from qcode.protocol.messages import Message
from qcode.text.clean import plain_line, single_spaced
from qcode.text.numbers import count_text
from qcode.tui.panels.picker_list import PickerRow
from qcode.tui.screens.picker import Picker
from qcode.values import dataclass

_MAX_REPLIES = 100
_MAX_LABEL = 80


@dataclass(frozen=True, slots=True)
class CopyItem:
    """A text to copy. `name` completes "Copied …"; `label` and `lines` are shown in the list."""

    name: str
    label: str
    text: str

    @property
    def lines(self) -> str:
        return count_text(self.text.rstrip("\n").count("\n") + 1, "line")


def copy_items(messages: Sequence[Message]) -> tuple[CopyItem, ...]:
    """Return the replies, the last one first, each followed by its code blocks."""
    replies = (message.text for message in reversed(messages) if message.role == "assistant" and message.text.strip())
    items: list[CopyItem] = []
    for number, text in enumerate(islice(replies, _MAX_REPLIES)):
        name = "the last reply" if number == 0 else "a reply"
        items.append(CopyItem(name, plain_line(text, _MAX_LABEL), text))
        items += _code_blocks(text)
    return tuple(items)


def _code_blocks(text: str) -> Iterable[CopyItem]:
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.content.strip():
            language = single_spaced(token.info.split(" ")[0], 20) or "code"
            first = next(line for line in token.content.split("\n") if line.strip())
            yield CopyItem("the code block", f"  {language}: {single_spaced(first, _MAX_LABEL)}", token.content)


class CopyPicker(Picker):
    """Picks an item by its position."""

    ENTER = "copy"

    def __init__(self, items: Sequence[CopyItem]) -> None:
        rows = [PickerRow(str(at), item.label, item.lines, also=item.text) for at, item in enumerate(items)]
        super().__init__("Copy", rows)
