"""The first letter of a message, which is a capital in the app and a small letter after `qcode: `."""

from __future__ import annotations

import re

# A word whose only capital is its first letter: `Nothing` or `Don't`. Not `README.md`, `MCP` or the server `Docs:`.
_CAPITALIZED_WORD = re.compile(r"[A-Z][a-z]*(?:['’-][a-z]+)*(?=[,.;!?]?(?:\s|$))")
_NAME = re.compile(
    "(?:Alibaba|Amazon|Anthropic|Azure|Bedrock|Claude|Codex|Cohere|Gemini|Google|Grok|Groq|Kimi|Llama|Microsoft"
    "|Mistral|Moonshot|Ollama|Qwen|Together|Vertex|Git|Linux|Python|Windows|Zed|Enter|Esc|Tab"
    "|(?:Notification|Stop) hook)(?![a-z])"
)
"""Providers, models, programs, keys and hooks in qcode's own messages. `OpenAI`, `MCP` and `Ctrl+C` need no entry."""

_BRANDS = {"openai": "OpenAI", "openrouter": "OpenRouter", "deepseek": "DeepSeek"}
"""Names of providers that begin a message and have a capital inside."""


def capitalized(text: str) -> str:
    """Return `text` with a capital first letter, for an error message that becomes a sentence in the app.

    `openai needs a key` becomes `OpenAI needs a key`.
    """
    name, separator, words = text.partition(" ")
    if separator and name in _BRANDS:
        return f"{_BRANDS[name]} {words}"
    return text[:1].upper() + text[1:]


def uncapitalized(text: str) -> str:
    """Return `text` with a small first letter, for a message after `qcode: `; names and quoted words stay.

    `The reply is empty.` becomes `the reply is empty.`; `MCP`, `AGENTS.md`, `Ctrl+C` and `Amazon's` are unchanged.
    """
    word = _CAPITALIZED_WORD.match(text)
    if word is None or _NAME.match(text):
        return text
    return text[0].lower() + text[1:]
