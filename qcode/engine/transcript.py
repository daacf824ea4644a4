"""The rules for a history that every provider accepts, and the removal of parts that one host refuses.

In a valid history, roles alternate, starting with the user. Each call of an assistant message has exactly one result at
the start of the next user message. No block is empty. Only the copy in a request is changed, never the stored history.
A host that rejects an image or a signature would reject every later request of the session, so `without_part` removes
images or signatures from the copy.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.engine.model_facts import KnownModel
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Block, Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.text.pattern import lazy_pattern

INTERRUPTED_RESULT = "Interrupted before it finished: the outcome is unknown. Check the state before you repeat it."


def make_valid(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` as a valid history; a valid history is returned unchanged."""
    history = _merge_neighbors(_sendable(messages))
    while True:
        # A message with only results of missing calls is dropped; its neighbors then have the same role.
        repaired = _merge_neighbors(_with_results(_from_the_first_prompt(history)))
        if repaired == history:
            return tuple(repaired)
        history = repaired


def without_signals(messages: Sequence[Message], one_way: frozenset[str] | None) -> Sequence[Message]:
    """Return `messages` without the recorded calls of one-way tools, their results, and the reasoning before them.

    `one_way` are the names of the one-way tools; if it is None, results marked as signals identify the calls. A result
    is matched with a call of the message before it, because ids may recur in a conversation.
    """
    may_have_signals = any(map(_has_signal, messages)) if one_way is None else bool(one_way)
    if not may_have_signals:
        return messages
    remaining: list[Message] = []
    recorded: set[tuple[str, str]] = set()
    for index, message in enumerate(messages):
        if message.role == "assistant":
            answers = messages[index + 1].blocks if index + 1 < len(messages) else ()
            results = (block for block in answers if isinstance(block, ToolResult) and not block.is_error)
            recorded = {
                (result.call_id, result.name)
                for result in results
                if (result.is_signal if one_way is None else result.name in one_way)
            }
        remaining.append(_without_signals(message, recorded) if recorded else message)
    return remaining


def _has_signal(message: Message) -> bool:
    return message.role == "user" and any(isinstance(block, ToolResult) and block.is_signal for block in message.blocks)


def _without_signals(message: Message, recorded: set[tuple[str, str]]) -> Message:
    """Return the message without the calls and results in `recorded`, and without reasoning before such calls."""
    result: list[Block] = []
    for block in message.blocks:
        if not isinstance(block, (ToolCall, ToolResult)) or (block.call_id, block.name) not in recorded:
            result.append(block)
            continue
        # Some hosts reject reasoning at the end of a message.
        while isinstance(block, ToolCall) and result and isinstance(result[-1], Reasoning):
            result.pop()
    return message if len(result) == len(message.blocks) else replace(message, blocks=tuple(result))


class PreparedHistory:
    """A cache of the valid history of one growing conversation: `prepare` processes only the added messages.

    The history is split before a prompt that follows an answer without calls. No rule spans such a position, so the
    messages before it are processed once.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._prepared: tuple[Message, ...] = ()
        self.settled = 0
        """How many messages at the start are never processed again, because they precede the split."""
        self._settled_prepared = 0
        """How many messages of `_prepared` come from settled messages; fewer if some were merged or dropped."""

    def prepare(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the same as `make_valid`. Earlier messages are compared by identity, which is cheap."""
        if _are_same(self._messages, messages):
            return self._prepared
        settled = self.settled
        if not (settled <= len(messages) and _are_same(self._messages[:settled], messages[:settled])):
            settled = self.settled = self._settled_prepared = 0
        self._messages = list(messages)
        before = self._prepared[: self._settled_prepared]
        end = self._next_settled(settled)
        head = make_valid(messages[settled:end]) if end > settled else ()
        if head and head[-1] == messages[end - 1]:
            before = (*before, *head)
            self.settled, self._settled_prepared = end, len(before)
        self._prepared = (*before, *make_valid(messages[self.settled :]))
        return self._prepared

    def _next_settled(self, start: int) -> int:
        """Return the last index after `start` at which the history can be split, `start` if there is none."""
        messages = self._messages
        indexes = range(len(messages) - 1, start, -1)
        splits = (index for index in indexes if _is_a_prompt(messages[index]) and _is_plain_answer(messages[index - 1]))
        return next(splits, start)


def _are_same(left: Sequence[Message], right: Sequence[Message]) -> bool:
    return len(left) == len(right) and all(map(operator.is_, left, right))


def _is_a_prompt(message: Message) -> bool:
    """Return whether this is a user message with text; it may also have results of calls."""
    return message.role == "user" and any(isinstance(block, Text) and block.text for block in message.blocks)


def _is_plain_answer(message: Message) -> bool:
    return message.role == "assistant" and not message.calls and bool(message.text.strip())


def sendable_blocks(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks of an assistant message that can be sent: no blank text unless signed, no duplicate call."""
    result: list[Block] = []
    ids: set[str] = set()
    for block in blocks:
        match block:
            case Text() if block.text.strip() or block.opaque is not None:
                result.append(block)
            case ToolCall() if block.call_id not in ids:
                ids.add(block.call_id)
                result.append(block)
            case Reasoning():
                result.append(block)
            case _:
                pass
    return tuple(result)


def _sendable(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without blocks that cannot be sent, and without empty messages."""
    result: list[Message] = []
    for message in messages:
        if message.role == "assistant":
            blocks = sendable_blocks(message.blocks)
            is_empty = all(isinstance(block, Reasoning) for block in blocks)
        else:
            blocks = tuple([block for block in message.blocks if _is_user_block(block)])
            is_empty = not blocks
        if not is_empty:
            result.append(message if len(blocks) == len(message.blocks) else Message(message.role, blocks))
    return result


def _is_user_block(block: Block) -> bool:
    return isinstance(block, (Image, ToolResult)) or (isinstance(block, Text) and bool(block.text))


def _merge_neighbors(messages: Sequence[Message]) -> list[Message]:
    """Merge neighbors with the same role; missing results of calls are added between two assistant messages."""
    result: list[Message] = []
    for message in messages:
        if not result or result[-1].role != message.role:
            result.append(message)
        elif result[-1].calls:
            result += [Message("user", _results_first((), result[-1].calls)), message]
        else:
            blocks = (*result[-1].blocks, *message.blocks)
            result[-1] = Message(message.role, sendable_blocks(blocks) if message.role == "assistant" else blocks)
    return result


def _from_the_first_prompt(messages: Sequence[Message]) -> Sequence[Message]:
    first = next((index for index, message in enumerate(messages) if message.role == "user"), len(messages))
    return messages[first:]


def _with_results(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with exactly one result for each call, first in the next user message."""
    result: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "assistant":
            result.append(message)
            continue
        blocks = _results_first(message.blocks, messages[index - 1].calls if index else ())
        if blocks:
            result.append(message if blocks == message.blocks else Message("user", blocks))
    if result and result[-1].calls:
        result.append(Message("user", _results_first((), result[-1].calls)))
    return result


def _results_first(blocks: Sequence[Block], calls: Sequence[ToolCall]) -> tuple[Block, ...]:
    """Return a user message's blocks, starting with exactly one result per call in the order of the calls."""
    answered = [block.call_id for block in blocks if isinstance(block, ToolResult)]
    are_leading = all(isinstance(block, ToolResult) for block in blocks[: len(calls)])
    if are_leading and answered == [call.call_id for call in calls]:  # the case of nearly every message
        return tuple(blocks)
    by_id = {block.call_id: block for block in reversed(blocks) if isinstance(block, ToolResult)}
    results = [
        by_id.get(call.call_id) or ToolResult(call.call_id, call.name, INTERRUPTED_RESULT, is_error=True)
        for call in calls
    ]
    others = [block for block in blocks if isinstance(block, (Text, Image))]
    return (*results, *others)


RefusedPart: TypeAlias = Literal["images", "signatures"]

# Some servers reject an image with a 404 (no route accepts it) or a 500 (no projector is loaded).
_REFUSALS = frozenset({ErrorKind.BAD_REQUEST, ErrorKind.UNKNOWN_MODEL, ErrorKind.CONTEXT_OVERFLOW, ErrorKind.SERVER})
_IMAGE_WORDS = lazy_pattern(
    r"\bimages?\b|image_url|\bvision\b|multi-?modal|modalit(?:y|ies)|inline_?data", re.IGNORECASE
)
_UNSUPPORTED = lazy_pattern(
    r"not support|n't support|unsupported|not (?:a |an )?(?:vision|multi-?modal)|no endpoints|not allowed|text[ -]only"
    r"|only (?:supports? )?text|expected `?text|unknown variant|cannot (?:accept|take|handle)|mmproj|not enabled"
    r"|invalid content type|not available",
    re.IGNORECASE,
)
_SIGNATURE_WORDS = lazy_pattern(
    r"signature|encrypted[_ ]content|reasoning (?:item|content)|redacted_thinking", re.IGNORECASE
)


def refused_part(error: ProviderError, request: ModelRequest) -> RefusedPart | None:
    """Return the part of `request` that the host's error message names, None if it names none."""
    if error.kind not in _REFUSALS:
        return None
    words = f"{error.message} {error.code or ''} {error.param or ''}"
    if _SIGNATURE_WORDS.search(words) and error.kind is ErrorKind.BAD_REQUEST and has_signatures(request.messages):
        return "signatures"
    if _IMAGE_WORDS.search(words) and has_images(request.messages):
        # A server error counts only if its message says that images are unsupported: other errors may be temporary.
        return "images" if error.kind is not ErrorKind.SERVER or refuses_all_images(error) else None
    return None


def refuses_all_images(error: ProviderError) -> bool:
    """Return whether the host refuses all images, not only this image."""
    return _UNSUPPORTED.search(error.message) is not None


def has_images(messages: Iterable[Message]) -> bool:
    return any(
        isinstance(block, Image) or (isinstance(block, ToolResult) and bool(block.images))
        for message in messages
        for block in message.blocks
    )


def has_signatures(messages: Iterable[Message]) -> bool:
    return any(
        isinstance(block, Text | Reasoning | ToolCall) and block.opaque is not None
        for message in messages
        for block in message.blocks
    )


def without_part(messages: Iterable[Message], part: RefusedPart) -> tuple[Message, ...]:
    """Return messages with each image replaced by a text, or with all signatures removed."""
    change = _without_images if part == "images" else _without_signature
    return tuple(replace(message, blocks=tuple(change(block) for block in message.blocks)) for message in messages)


def _without_images(block: Block) -> Block:
    match block:
        case Image():
            return Text(_image_placeholder(block))
        case ToolResult() if block.images:
            parts = [block.content, *map(_image_placeholder, block.images)]
            return replace(block, content="\n".join(filter(None, parts)), images=())
        case _:
            return block


def _image_placeholder(image: Image) -> str:
    return f"[An image ({image.media_type}) was here. This model cannot see images; say so if you need it.]"


def _without_signature(block: Block) -> Block:
    return replace(block, opaque=None) if isinstance(block, Text | Reasoning | ToolCall) else block


def without_refused_parts(messages: tuple[Message, ...], model: KnownModel) -> tuple[Message, ...]:
    """Return the history without the parts that `model` refuses."""
    if not model.sees_images and has_images(messages):
        messages = without_part(messages, "images")
    return without_part(messages, "signatures") if model.host.refuses_signatures else messages
