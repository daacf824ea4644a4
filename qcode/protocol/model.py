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
_MAX_LOW_TOKENS = 4_096
"""The maximum number of thinking tokens that means a low effort."""
_MAX_MEDIUM_TOKENS = 16_384
"""The maximum number of thinking tokens that means a medium effort."""
DEFAULT_MODEL_ALIASES = ("", "default", "inherit")
"""Names that stand for the model selected by the configuration, in flags and in Claude Code's files."""


def effort_of_budget(thinking_tokens: int) -> Effort:
    """Return the effort for the maximum number of thinking tokens, which Claude Code's flag and hosts set instead."""
    if thinking_tokens == 0:
        return "none"
    if thinking_tokens <= _MAX_LOW_TOKENS:
        return "low"
    return "medium" if thinking_tokens <= _MAX_MEDIUM_TOKENS else "high"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about a model of one provider. None means unknown, never unlimited."""

    context_window: int | None = None
    max_output_tokens: int | None = None
    """The model's own output limit."""
    price: Price | None = None
    can_prefill: bool = False
    """The provider can continue an assistant message."""
    can_read_images: bool | None = None
    can_think: bool = False
    """The model can reason before it answers."""
    has_inline_thinking: bool = False
    """The provider sends reasoning as `<think>` in the text of a reply."""
    has_text_tool_calls: bool = False
    """The provider sends tool calls in the text of a reply."""
    can_search_web: bool | None = None
    """The provider can search the web for the model."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request for a reply."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    max_tokens: int
    """The output cap, always positive and always sent."""
    effort: Effort | None = None
    allows_calls: bool = True
    """False: the model must not call tools. Their definitions are still sent if the provider requires them."""
    is_prefill: bool = False
    """The last message is an assistant message that the provider must continue."""
    note: str = ""
    """A short text for the end of the last message.

    It belongs to this request only, so no prompt cache should include it.
    """


LimitWait: TypeAlias = Literal["ask", "always", "never"]


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """When and how often a failed request is sent again."""

    max_retries: int = 5
    """The number of failures in a row that are retried."""
    retry_after_max_s: float = 120.0
    """A failure is not retried if the server asks for a wait longer than this."""
    wait_for_limit: LimitWait = "never"
    """When a reply waits for the end of a rate limit: after a question to the user, always, or never.

    qcode waits for a limit only after the last retry, or if the limit ends later than after `retry_after_max_s`. A
    reply waits for at most three limits, and only if the server names the end of the limit.
    """
    limit_wait_max_s: float = 7 * 86_400.0
    """The longest wait for the end of a rate limit. A random delay of up to 30 s is added to the wait."""

    @property
    def unattended(self) -> RetrySettings:
        """The same settings for a turn that cannot ask the user, such as the turn of a sub-agent."""
        return replace(self, wait_for_limit="never") if self.wait_for_limit == "ask" else self
