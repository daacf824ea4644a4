"""What the public table gets wrong or leaves out, each with its reason. Applied on top of `data.json` at load.

Only facts that a host enforces or documents belong here. Read `qcode.providers.catalog` next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from qcode.protocol.model import ModelFacts
from qcode.protocol.usage import Price
from qcode.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Correction:
    """Facts that replace those of the table; None leaves the table's own. `reason` says where they come from."""

    reason: str
    output: int | None = None
    whole: ModelFacts | None = None

    def apply(self, facts: ModelFacts | None) -> ModelFacts:
        """Return the corrected facts of a model the table may or may not hold."""
        base = self.whole or facts or ModelFacts()
        return replace(base, max_output_tokens=self.output or base.max_output_tokens)


def _claude_4(output: int, prices: tuple[str, str, str, str]) -> ModelFacts:
    price = Price(*(Decimal(text) for text in prices))
    return ModelFacts(200_000, output, price, prefill=True, images=True, thinking=True)


_OPUS_4 = _claude_4(32_000, ("15", "75", "1.5", "18.75"))
_SONNET_4 = _claude_4(64_000, ("3", "15", "0.3", "3.75"))
_RETIRED_ROW = "no longer in the public table, still served in places; figures of Anthropic's model page"
_GEMINI_2_5 = "the API counts the cap exclusively: 65,536 is refused, 65,535 is taken"
_O1_FIRST = "the first o1 models had smaller limits than o1 itself (OpenAI's model pages)"

CORRECTIONS: Mapping[tuple[str, str], Correction] = {
    ("openai", "gpt-4o"): Correction("the API refuses more than 16,384", output=16_384),
    ("openai", "o1-preview"): Correction(_O1_FIRST, whole=ModelFacts(128_000, 32_768, thinking=True)),
    ("openai", "o1-mini"): Correction(_O1_FIRST, whole=ModelFacts(128_000, 65_536, thinking=True)),
    ("anthropic", "claude-opus-4-1"): Correction(_RETIRED_ROW, whole=_OPUS_4),
    ("anthropic", "claude-opus-4"): Correction(_RETIRED_ROW, whole=_OPUS_4),
    ("anthropic", "claude-opus-4-0"): Correction("Anthropic's alias of claude-opus-4", whole=_OPUS_4),
    ("anthropic", "claude-sonnet-4"): Correction(_RETIRED_ROW, whole=_SONNET_4),
    ("anthropic", "claude-sonnet-4-0"): Correction("Anthropic's alias of claude-sonnet-4", whole=_SONNET_4),
    ("gemini", "gemini-2.5-pro"): Correction(_GEMINI_2_5, output=65_535),
    ("gemini", "gemini-2.5-flash"): Correction(_GEMINI_2_5, output=65_535),
    ("gemini", "gemini-2.5-flash-lite"): Correction(_GEMINI_2_5, output=65_535),
    ("deepseek", "deepseek-chat"): Correction("the API's range is 1 to 8,192", output=8_192),
}
