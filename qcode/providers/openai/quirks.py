"""Differences between Chat Completions servers, as data."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from qcode.providers.azure import is_azure
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

MaxTokensField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
EffortStyle: TypeAlias = Literal["openai", "basic", "thinking", "enable_thinking", "mistral"]
CallIds: TypeAlias = Literal["any", "openai", "mistral"]
PrefillStyle: TypeAlias = Literal["continue_final_message", "prefix", "partial", "plain"]


_MISTRAL = lazy_pattern(r"mistral|ministral|mixtral|magistral|devstral|codestral|pixtral")


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """The quirks of a server. The defaults suit most compatible servers; `openai_quirks` are those of OpenAI."""

    max_tokens_field: MaxTokensField = "max_tokens"
    reasoning_field: str = ""
    """A field of the delta with reasoning, in addition to `reasoning_content` and `reasoning`."""
    echoes_reasoning: bool = False
    """The server requires the reasoning of the current tool loop in requests (DeepSeek, Kimi)."""
    sends_stream_options: bool = True
    """Requests contain `stream_options`, which ask for the usage at the end of the stream."""
    effort: EffortStyle = "basic"
    """The field in which the reasoning effort is sent.

    `openai`: `reasoning_effort`; `basic`: the same, only with the levels low to high; `thinking`: `thinking.type`;
    `enable_thinking`: a boolean with this name (Qwen); `mistral`: `reasoning_effort` with the two levels that all
    adjustable models of Mistral have.
    """
    prefill: PrefillStyle = "continue_final_message"
    """The way to continue an assistant message.

    `continue_final_message`: a field of the body with this name (vLLM); `prefix` (DeepSeek, Mistral) and `partial`
    (Qwen, Kimi): a field of the message with this name; `plain`: no field.
    """
    prefill_path: str = ""
    """The path for a prefill, if it is not the base URL (DeepSeek)."""
    call_ids: CallIds = "any"
    """The accepted call ids: any, at most 40 characters (OpenAI), or exactly nine letters and digits (Mistral).

    After a change of model, the history contains call ids of another host.
    """
    answers_results: bool = False
    """An assistant message is required between results and a user message (Mistral)."""


COMPATIBLE = ChatQuirks()
"""The quirks of an unknown server."""


def openai_quirks() -> ChatQuirks:
    """Return the quirks of OpenAI's own servers."""
    return ChatQuirks(max_tokens_field="max_completion_tokens", effort="openai", prefill="plain", call_ids="openai")


def model_quirks(quirks: ChatQuirks, model: str) -> ChatQuirks:
    """Return the quirks of the server and the model: Mistral's chat templates check ids and roles on any host."""
    if not _MISTRAL.search(model.lower()):
        return quirks
    return replace(quirks, call_ids="mistral", answers_results=True)


def is_openai(base_url: str) -> bool:
    """Return whether `base_url` is OpenAI or OpenAI on Azure. Both require `max_completion_tokens`."""
    host = (urlsplit(base_url).hostname or "").lower()
    return host == "openai.com" or host.endswith(".openai.com") or is_azure(base_url)
