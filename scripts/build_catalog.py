"""Rebuild `qcode/providers/data/models.json` from the price table in the wheel of litellm (MIT license).

Run by hand: `pip download --no-deps litellm`, unpack it, then
`python -m scripts.build_catalog model_prices_and_context_window_backup.json "litellm 1.109.1" 2026-11-21`.
litellm is never a dependency. Corrections are in `qcode.providers.catalog`, not here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from qcode.providers.catalog import DATA, exact_name, plain_name

Row: TypeAlias = dict[str, Any]

PROVIDERS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "openai": "openai",
    "gemini": "gemini",
    "bedrock_converse": "bedrock",
    "cerebras": "cerebras",
    "dashscope": "dashscope",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "together_ai": "together",
    "xai": "xai",
    "zai": "zai",
}
_PRICES = (
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
)
_NOT_FOR_CODE = re.compile(
    r"^ft:|audio|tts|realtime|live|robotics|omni|image|lyria|learnlm|guard|voxtral|vision-\d+b|container|"
    r"search-(?:preview|api)|deep-research|computer-use|multi-agent|nano-banana|-exp-"
)
# Providers that support prefill and do not repeat its text in the reply, as Mistral does.
_PREFILL = frozenset({"anthropic", "bedrock", "deepseek"})


def trim(table: Mapping[str, Row]) -> dict[str, dict[str, Row]]:
    """Return the rows of coding models by provider and model name, sorted, without dated names of the same model."""
    models: dict[str, dict[str, Row]] = {}
    for key, entry in sorted(table.items(), key=lambda item: "/" in item[0]):
        provider = PROVIDERS.get(str(entry.get("litellm_provider")))
        if provider is None or entry.get("mode") not in ("chat", "responses"):
            continue
        name = exact_name(provider, key.removeprefix(f"{entry['litellm_provider']}/"))
        row = _row(provider, entry)
        if row is not None and not _NOT_FOR_CODE.search(name) and not (provider == "bedrock" and "@" in name):
            models.setdefault(provider, {})[name] = row
    return {provider: _without_dated_names(provider, rows) for provider, rows in sorted(models.items())}


def _row(provider: str, entry: Row) -> Row | None:
    """Return the row of a model, None if the source lacks its window or output limit."""
    window, output = entry.get("max_input_tokens"), entry.get("max_output_tokens")
    if not window or not output:
        return None
    row: Row = {"window": int(window)}
    # If a provider names no output limit, the source repeats the window (131,072 for both): not a real limit.
    if int(output) < int(window):
        row["output"] = int(output)
    if (price := _price(entry)) is not None:
        row["price"] = price
    if entry.get("supports_vision"):
        row["images"] = True
    if entry.get("supports_reasoning"):
        row["thinking"] = True
    if provider in _PREFILL and entry.get("supports_assistant_prefill"):
        row["prefill"] = True
    if entry.get("mode") == "responses":
        row["api"] = "responses"
    return row


def _price(entry: Row) -> list[str | None] | None:
    """Return the prices in USD per million tokens as decimal text, None if the provider has no single price."""
    if entry.get("input_cost_per_token") is None or entry.get("output_cost_per_token") is None:
        return None
    return [_per_million(entry.get(field)) for field in _PRICES]


def _per_million(cost: Decimal | int | None) -> str | None:
    if cost is None:
        return None
    text = f"{Decimal(cost) * 1_000_000:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _without_dated_names(provider: str, rows: dict[str, Row]) -> dict[str, Row]:
    def is_duplicate(name: str) -> bool:
        undated = plain_name(provider, name)
        return undated != name and rows.get(undated) == rows[name]

    return {name: rows[name] for name in sorted(rows) if not is_duplicate(name)}


def render(models: Mapping[str, Mapping[str, Row]], source: str, date: str) -> str:
    """Return the JSON text of the file, with one model per line, so that the diff of a rebuild is readable."""
    parts = []
    for provider, rows in models.items():
        lines = ",\n".join(f"   {_compact(name)}: {_compact(row)}" for name, row in rows.items())
        parts.append(f"  {json.dumps(provider)}: {{\n{lines}\n  }}")
    head = f' "source": {json.dumps(source)},\n "date": {json.dumps(date)},\n'
    return "{\n" + head + ' "models": {\n' + ",\n".join(parts) + "\n }\n}\n"


def _compact(value: str | Row) -> str:
    return json.dumps(value, separators=(",", ":"))


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        sys.stderr.write("usage: python -m scripts.build_catalog TABLE.json SOURCE DATE\n")
        return 2
    table = json.loads(Path(arguments[0]).read_text(encoding="utf-8"), parse_float=Decimal)
    text = render(trim(table), arguments[1], arguments[2])
    DATA.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
