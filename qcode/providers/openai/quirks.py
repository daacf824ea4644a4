"""How one Chat Completions server differs from OpenAI: data, no behaviour."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from qcode.providers.azure import is_azure
from qcode.values import dataclass

MaxTokensField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
EffortStyle: TypeAlias = Literal["openai", "basic", "thinking", "enable_thinking", "mistral"]
CallIds: TypeAlias = Literal["any", "openai", "mistral"]
PrefillStyle: TypeAlias = Literal["continue_final_message", "prefix", "partial", "plain"]


_MISTRAL = re.compile(r"mistral|ministral|mixtral|magistral|devstral|codestral|pixtral")


@dataclass(frozen=True, slots=True)
class ChatQuirks:
    """The defaults suit most compatible servers; `for_openai` is OpenAI itself.

    `reasoning_field`: a field of the delta that holds reasoning, besides `reasoning_content` and `reasoning`.
    `echoes_reasoning`: the server wants the reasoning of a running tool loop back (DeepSeek, Kimi).
    `effort`: how thinking is set. `openai`: `reasoning_effort` as it is; `basic`: the same, levels low to high only;
    `thinking`: `thinking.type`; `enable_thinking`: a bool of that name (Qwen); `mistral`: `reasoning_effort` with the
    two levels its adjustable models share.
    `prefill`: how an assistant message is continued, and `prefill_path` where, if not at the base URL (DeepSeek).
    `call_ids`: what an id may be: anything, at most 40 characters
    (OpenAI), or exactly nine letters and digits (Mistral); it matters where the person switched models.
    `answers_results`: results and a person's message may not follow each other (Mistral).
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
"""A server nothing else is known of."""


def for_openai() -> ChatQuirks:
    return ChatQuirks(max_tokens_field="max_completion_tokens", effort="openai", prefill="plain", call_ids="openai")


def for_model(quirks: ChatQuirks, model: str) -> ChatQuirks:
    """Return the quirks with those a model brings to any host: Mistral's chat templates check ids and roles."""
    if not _MISTRAL.search(model.lower()):
        return quirks
    return replace(quirks, call_ids="mistral", answers_results=True)


def is_openai(base_url: str) -> bool:
    """Tell whether `base_url` is OpenAI itself, at home or on Azure: those take `max_completion_tokens`."""
    host = (urlsplit(base_url).hostname or "").lower()
    return host == "openai.com" or host.endswith(".openai.com") or is_azure(base_url)
