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
    """The defaults suit most compatible servers; `for_openai` is OpenAI itself.

    `reasoning_field`: a field of the delta with reasoning, in addition to `reasoning_content` and `reasoning`.
    `echoes_reasoning`: the server wants the reasoning of a running tool loop back (DeepSeek, Kimi).
    `effort`: how the reasoning effort is sent. `openai`: `reasoning_effort`; `basic`: the same, with levels low to high
    only; `thinking`: `thinking.type`; `enable_thinking`: a boolean of that name (Qwen); `mistral`: `reasoning_effort`
    with the two levels that its adjustable models share.
    `prefill`: how an assistant message is continued; `prefill_path`: the path for it, if not the base URL (DeepSeek).
    `call_ids`: the accepted call ids: any, at most 40 characters (OpenAI), or exactly nine letters and digits
    (Mistral); this matters after a change of model.
    `answers_results`: an assistant message is required between results and a user message (Mistral).
    """

    max_tokens_field: MaxTokensField = "max_tokens"
    reasoning_field: str = ""
    echoes_reasoning: bool = False
    sends_stream_options: bool = True
    effort: EffortStyle = "basic"
    prefill: PrefillStyle = "continue_final_message"
    prefill_path: str = ""
    call_ids: CallIds = "any"
    answers_results: bool = False


COMPATIBLE = ChatQuirks()
"""An unknown server."""


def for_openai() -> ChatQuirks:
    return ChatQuirks(max_tokens_field="max_completion_tokens", effort="openai", prefill="plain", call_ids="openai")


def for_model(quirks: ChatQuirks, model: str) -> ChatQuirks:
    """Return the quirks plus those of the model on any host: Mistral's chat templates check ids and roles."""
    if not _MISTRAL.search(model.lower()):
        return quirks
    return replace(quirks, call_ids="mistral", answers_results=True)


def is_openai(base_url: str) -> bool:
    """Return whether `base_url` is OpenAI itself or OpenAI on Azure, which require `max_completion_tokens`."""
    host = (urlsplit(base_url).hostname or "").lower()
    return host == "openai.com" or host.endswith(".openai.com") or is_azure(base_url)
