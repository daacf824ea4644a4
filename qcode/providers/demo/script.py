"""What the demo model is going to say, as blocks, and the arithmetic of its output cap.

A script is a tuple of `Reasoning`, `Text` and `ToolCall` blocks. One token is `CHARS_PER_TOKEN` characters of
output: reasoning, text and the argument JSON of calls count, names and ids do not. Pure; it knows no request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from qcode.protocol.messages import Reasoning, Text, ToolCall

CHARS_PER_TOKEN = 4
ScriptBlock: TypeAlias = Reasoning | Text | ToolCall
Script: TypeAlias = tuple[ScriptBlock, ...]

_TAIL = 120
_WORD = 24


def tokens_of(characters: int) -> int:
    """Return how many tokens `characters` are; a token that was begun counts."""
    return -(-characters // CHARS_PER_TOKEN)


def body_of(block: ScriptBlock) -> str:
    """Return the part of `block` that costs output."""
    return block.arguments if isinstance(block, ToolCall) else block.text


def size_of(script: Script) -> int:
    """Return the characters of output that `script` costs."""
    return sum(len(body_of(block)) for block in script)


def cut_at(script: Script, cap: int) -> Script:
    """Return as much of `script` as `cap` tokens hold, cut to the character; a block with nothing left is gone."""
    left = cap * CHARS_PER_TOKEN
    kept: list[ScriptBlock] = []
    for block in script:
        body = body_of(block)
        if left == 0 and body:
            break
        kept.append(_shortened(block, left) if len(body) > left else block)
        left -= min(left, len(body))
    return tuple(kept)


def rest_of_text(script: Script, partial: str) -> Script | None:
    """Return what follows `partial` in `script`, or None where the script never said it.

    Thinking is not repeated, and so is no text before the place; calls after it are still to be made. A partial
    that is not the exact beginning is looked up by its end.
    """
    said = "".join(block.text for block in script if isinstance(block, Text))
    start = len(partial) if said.startswith(partial) else end_of(partial, said)
    if start is None:
        return None
    rest: list[ScriptBlock] = []
    for block in script:
        if isinstance(block, Text):
            if start < len(block.text):
                rest.append(Text(block.text[start:]))
            start = max(0, start - len(block.text))
        elif isinstance(block, ToolCall):
            rest.append(block)
    return tuple(rest)


def end_of(partial: str, whole: str) -> int | None:
    """Return where the last characters of `partial` end inside `whole`, or None where they are not in it."""
    needle = partial[-_TAIL:]
    found = whole.find(needle) if needle.strip() else -1
    return None if found < 0 else found + len(needle)


def slices(text: str, size: int) -> Iterator[str]:
    """Yield `text` in pieces of about `size` characters that end after a space where one is near."""
    start = 0
    while start < len(text):
        end = start + size
        space = text.find(" ", end, end + _WORD)
        end = space + 1 if space >= 0 else end
        yield text[start:end]
        start = end


def _shortened(block: ScriptBlock, length: int) -> ScriptBlock:
    if isinstance(block, ToolCall):
        return replace(block, arguments=block.arguments[:length])
    return replace(block, text=block.text[:length])
