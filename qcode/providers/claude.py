"""Reasoning parameters of Claude models, shared by the Anthropic and Bedrock protocols. Pure.

Source: Anthropic's pages on extended thinking, adaptive thinking and effort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qcode.protocol.messages import Message, Reasoning, Text
from qcode.protocol.model import Effort, ModelRequest
from qcode.providers.history import assistant_blocks, start_of_tool_loop
from qcode.text.json import JsonObject
from qcode.text.pattern import lazy_pattern

MIN_THINKING_BUDGET = 1024
"""The smallest `budget_tokens` that the API accepts."""

# The thinking budget in tokens for each effort.
_BUDGETS: dict[Effort, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "max": 32_768}
_ADAPTIVE_EFFORTS: dict[Effort, str] = {"none": "low", "minimal": "low"}
# Models up to 4.5 accept a token budget for thinking; later models think adaptively and accept an effort. The names of
# the former are, for example, claude-3-7-sonnet, claude-opus-4@20250514 and claude-haiku-4-5.
_BUDGET_MODEL = lazy_pattern(r"claude-(?:instant|v\d|[123]\b|4-[a-z]|[a-z]+-(?:3|4-[0-5](?!\d)|4-\d{8}|4$|4@))")
# Models before 3.7 cannot think.
_UNTHINKING_MODEL = lazy_pattern(r"claude-(?:instant|v\d|[12]\b|3-(?!7)|3$)")


def thinking_fields(request: ModelRequest, effort: Effort, is_signed: Callable[[Reasoning], bool]) -> JsonObject:
    """Return the thinking parameters: an effort if the model accepts it, otherwise a budget below the output cap.

    `is_signed` returns whether a thinking block has a signature, so that it can be sent back.
    """
    name = request.model.lower()
    if _UNTHINKING_MODEL.search(name):
        return {}
    if "claude" in name and not _BUDGET_MODEL.search(name):
        level = _ADAPTIVE_EFFORTS.get(effort, effort)
        if effort == "none":
            # Some of these models reject disabled thinking; all accept the lowest effort.
            return {"output_config": {"effort": level}}
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": level}}
    if effort == "none":
        return {"thinking": {"type": "disabled"}}
    budget = min(_BUDGETS[effort], request.max_tokens // 2)
    if budget < MIN_THINKING_BUDGET or _loop_lacks_thinking(request.messages, is_signed):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _loop_lacks_thinking(messages: Sequence[Message], is_signed: Callable[[Reasoning], bool]) -> bool:
    """Return whether the current tool loop starts without signed thinking, which the API rejects with a budget.

    This happens if another model started the loop.
    """
    for message in messages[start_of_tool_loop(messages) :]:
        if message.role != "assistant" or not message.calls:
            continue
        for block in assistant_blocks(message.blocks):
            if isinstance(block, Reasoning):
                if is_signed(block):
                    return False
            elif not isinstance(block, Text) or block.text.strip():
                return True
    return False
