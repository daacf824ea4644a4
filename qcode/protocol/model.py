"""The facts about a model, a request to it, and the settings for retries."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias, get_args

from qcode.protocol.messages import Message
from qcode.protocol.tools import ToolSpec
from qcode.protocol.usage import Price
from qcode.values import dataclass

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "max"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
CONFIGURED_MODELS = ("", "default", "inherit")
"""Names that stand for the model selected by the configuration, in flags and in Claude Code's files."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model on one host. None means unknown, never unlimited.

    `max_output_tokens` is the model's own output limit. `prefill`: the host can continue an assistant message.
    `inline_thinking`: reasoning arrives as `<think>` text. `text_tool_calls`: calls arrive as text. `web_search`: the
    host can search the web for the model.
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

    `is_prefill`: the last message is an assistant message that the host must continue.
    `allows_calls` False: the model must not call tools, although their definitions may have to be sent. `note` is a
    short text for the end of the last message: it belongs to this request only, so no prompt cache should include it.
    """

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int
    effort: Effort | None = None
    allows_calls: bool = True
    is_prefill: bool = False
    note: str = ""


LimitWait: TypeAlias = Literal["ask", "always", "never"]


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Retry at most `max_retries` failures in a row, if the server asks to wait at most `retry_after_max_s`.

    After a rate limit with a longer wait, `wait_for_limit` decides: ask the user, always wait, or never wait. qcode
    never waits longer than `limit_wait_max_s`.
    """

    max_retries: int = 5
    retry_after_max_s: float = 120.0
    wait_for_limit: LimitWait = "never"
    limit_wait_max_s: float = 7 * 86_400.0

    @property
    def unasked(self) -> RetrySettings:
        """The same settings for work that cannot ask the user, such as a sub-agent."""
        return replace(self, wait_for_limit="never") if self.wait_for_limit == "ask" else self
