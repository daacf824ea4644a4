"""A model as the engine needs to know it, a request to one, and how often a failed request is sent again."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from qcode.protocol.messages import Message
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Price
from qcode.values import dataclass

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model on one host. None means unknown, never unlimited.

    `max_output_tokens` is the model's own output limit; `prefill`: the host continues an assistant message;
    `inline_thinking`: thinking comes as `<think>` text; `text_tool_calls`: calls come as text;
    `web_search`: the host can search the web for it.
    """

    context_window: int | None = None
    max_output_tokens: int | None = None
    price: Price | None = None
    prefill: bool = False
    images: bool | None = None
    thinking: bool = False
    inline_thinking: bool = False
    text_tool_calls: bool = False
    web_search: bool | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `max_tokens` is the output cap, always positive and always sent.

    `is_prefill`: the last message is the assistant's and is to be continued as it is.
    `allows_calls` False: the model may not call tools, although their definitions may have to be sent.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int
    effort: Effort | None = None
    allows_calls: bool = True
    is_prefill: bool = False


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """`max_retries` failures in a row are retried, unless the server asks to wait longer than `retry_after_max_s`."""

    max_retries: int = 5
    retry_after_max_s: float = 120.0
