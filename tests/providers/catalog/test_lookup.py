from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal

import pytest

from qcode.protocol.model import ModelFacts
from qcode.protocol.usage import Usage, cost_of
from qcode.providers import catalog
from qcode.providers.catalog import (
    BUILT_IN_PROVIDERS,
    CORRECTIONS,
    catalog_source,
    default_model,
    full_names,
    lookup,
    nearest,
    similar_full_names,
)
from qcode.providers.demo.provider import DEMO_FACTS
from qcode.providers.registry import PROVIDERS


def limit(provider: str, model: str) -> int | None:
    facts = lookup(provider, model)
    assert facts is not None, f"{provider}/{model} is not in the catalog"
    return facts.max_output_tokens


@pytest.mark.parametrize(
    ("provider", "model", "enforced"),
    [
        ("openai", "gpt-4o", 16_384),
        ("openai", "gpt-4o-2024-05-13", 4_096),
        ("openai", "gpt-4-turbo-preview", 4_096),
        ("openai", "o1-preview", 32_768),
        ("anthropic", "claude-opus-4-1-20250805", 32_000),
        ("anthropic", "claude-sonnet-4-20250514", 64_000),
        ("anthropic", "claude-sonnet-4-0", 64_000),
        ("bedrock", "us.anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("gemini", "gemini-2.5-pro", 65_535),
        ("gemini", "models/gemini-2.5-flash-preview-09-2025", 65_535),
        ("deepseek", "deepseek-chat", 8_192),
        ("openrouter", "anthropic/claude-opus-4.1", 32_000),
        ("openrouter", "google/gemini-2.5-pro:nitro", 65_535),
    ],
)
def test_known_limit_is_the_limit_that_the_host_enforces(provider: str, model: str, enforced: int) -> None:
    assert limit(provider, model) == enforced


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o-nano-turbo"),
        ("openai", "gpt-4-0125"),
        ("openai", "qwen3-coder"),
        ("openai", ""),
        ("openai", "-latest"),
        ("local", "gpt-4o"),
        ("local", "google/gemma-3-27b-it"),
        ("openrouter", "openai/gpt-oss-120b"),
        ("openrouter", "qwen/qwen3-coder:free"),
        ("openrouter", "anthropic/claude-sonnet-4.5:extended"),
        ("openrouter", "anthropic/"),
        ("dashscope", "qwen-plus-2031-01-01"),
        ("bedrock", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"),
    ],
)
def test_name_that_is_not_clearly_in_the_table_is_unknown(provider: str, model: str) -> None:
    assert lookup(provider, model) is None


def test_contradicting_rows_give_no_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"m-2024-01-01": ModelFacts(1000, 100), "m-2025-01-01": ModelFacts(1000, 200)}
    table = catalog.CatalogTable("s", "d", {"h": rows}, {"h": catalog.by_plain_name("h", rows)}, frozenset())
    monkeypatch.setattr(catalog, "read_table", lambda: table)
    assert lookup("h", "m") is None
    assert lookup("h", "m-2024-01-01") == ModelFacts(1000, 100)
    assert lookup("h", "m-2026-01-01") is None


def test_limit_that_only_repeats_the_window_is_unknown() -> None:
    facts = lookup("xai", "grok-4.7")
    assert facts is not None
    assert facts.context_window == 500_000
    assert facts.max_output_tokens is None


def test_prices_are_exact_decimals_per_million() -> None:
    facts = lookup("openai", "gpt-4o-mini")
    assert facts is not None
    assert facts.price is not None
    assert (facts.price.input, facts.price.output, facts.price.cache_read) == (
        Decimal("0.15"),
        Decimal("0.6"),
        Decimal("0.075"),
    )
    assert cost_of(Usage(input=1_000_000, output=1_000_000, cache_read=0), facts.price) == Decimal("0.75")


def test_region_without_a_row_has_the_limits_of_the_model_and_no_price() -> None:
    base, elsewhere = (
        lookup("bedrock", "anthropic.claude-sonnet-5-5"),
        lookup("bedrock", "sa.anthropic.claude-sonnet-5-5"),
    )
    assert base is not None
    assert elsewhere is not None
    assert elsewhere.max_output_tokens == base.max_output_tokens
    assert base.price is not None
    assert elsewhere.price is None


def test_free_variant_costs_nothing_and_its_limits_are_unknown() -> None:
    facts = lookup("openrouter", "google/gemini-2.5-flash:free")
    assert facts is not None
    assert facts.price is not None
    assert facts.price.output == 0
    assert (facts.context_window, facts.max_output_tokens) == (None, None)


def test_another_relay_has_the_limits_of_the_maker_and_no_price() -> None:
    facts = lookup("my-gateway", "anthropic/claude-sonnet-5-5")
    assert facts is not None
    assert facts.max_output_tokens == limit("anthropic", "claude-sonnet-5-5")
    assert facts.price is None


def test_prefill_is_claimed_for_old_claude_models_and_not_through_a_relay() -> None:
    old, new, relayed = (
        lookup("anthropic", "claude-haiku-4-5"),
        lookup("anthropic", "claude-sonnet-5-5"),
        lookup("openrouter", "anthropic/claude-haiku-4.5"),
    )
    assert old is not None and old.can_prefill
    assert new is not None and not new.can_prefill
    assert relayed is not None and not relayed.can_prefill


@pytest.mark.parametrize("provider", BUILT_IN_PROVIDERS)
def test_default_model_is_in_the_table_with_limits_and_price(provider: str) -> None:
    facts = lookup(provider, default_model(provider))
    assert facts is not None
    assert facts.context_window and facts.max_output_tokens and facts.price
    assert facts.max_output_tokens >= 32_000


def test_responses_protocol_shares_the_default_of_openai() -> None:
    assert default_model("openai-responses") == default_model("openai")


def test_provider_without_a_default_says_so() -> None:
    with pytest.raises(LookupError, match="no default model is known for local"):
        default_model("local")


def test_unique_bare_name_resolves() -> None:
    assert full_names("claude-sonnet-5-5") == ("anthropic/claude-sonnet-5-5",)
    assert full_names("gpt-4o-2024-11-20") == ("openai/gpt-4o-2024-11-20",)
    assert full_names("GPT-4o") == ("openai/gpt-4o",)
    assert full_names("global.anthropic.claude-sonnet-5-5") == ("bedrock/global.anthropic.claude-sonnet-5-5",)


def test_model_of_the_responses_api_resolves_to_it_if_the_host_supports_it() -> None:
    assert full_names("gpt-5.2-pro", ["openai", "openai-responses"]) == ("openai-responses/gpt-5.2-pro",)
    assert full_names("gpt-5.2-pro", ["openai"]) == ("openai/gpt-5.2-pro",)
    assert full_names("gpt-4o", ["openai", "openai-responses"]) == ("openai/gpt-4o",)


def test_name_resolves_to_the_provider_as_typed() -> None:
    assert full_names("kimi-k3", ["openai", "kimi"]) == ("kimi/kimi-k3",)
    assert full_names("kimi-k3x", ["kimi"]) == ()
    assert similar_full_names("kimi-k3x", ["kimi"]) == ("kimi/kimi-k3", "kimi/kimi-k2.5", "kimi/kimi-k2.6")


def test_table_knows_the_registry_names_of_qwen_kimi_and_glm() -> None:
    assert set(PROVIDERS) >= {"qwen", "kimi", "glm"}
    assert lookup("qwen", "qwen3-max") and lookup("kimi", "kimi-k3") and lookup("glm", "glm-5")


def test_demo_model_is_in_the_catalog() -> None:
    assert lookup("demo", default_model("demo")) == DEMO_FACTS
    assert lookup("demo", "other") is None
    assert full_names("demo", ["openai", "demo"]) == ("demo/demo",)


def test_ambiguous_name_gives_both_providers() -> None:
    assert full_names("deepseek-v4-pro", ["deepseek", "dashscope"]) == (
        "deepseek/deepseek-v4-pro",
        "dashscope/deepseek-v4-pro",
    )


def test_misspelled_name_gives_the_nearest() -> None:
    candidates = similar_full_names("claude-sonet-5-5")
    assert candidates[0] == "anthropic/claude-sonnet-5-5"
    assert len(candidates) <= 3


@pytest.mark.parametrize("name", ["", "zzzzzzzz", "\x00"])
def test_name_similar_to_none_gives_no_candidates(name: str) -> None:
    assert full_names(name) == similar_full_names(name) == ()


def test_nearest_name_comes_from_the_table() -> None:
    assert nearest("openai", "gpt4o")[0] == "gpt-4o"
    assert nearest("local", "gpt4o") == ()


def test_every_correction_is_applied_and_has_a_reason() -> None:
    for (provider, model), correction in CORRECTIONS.items():
        expected = correction.max_output_tokens or (correction.replacement and correction.replacement.max_output_tokens)
        assert limit(provider, model) == expected
        assert correction.reason


def test_every_row_has_plausible_figures() -> None:
    for provider, rows in catalog.read_table().facts.items():
        for name, facts in rows.items():
            where = f"{provider}/{name}"
            assert facts.context_window is not None and facts.context_window >= 256, where
            assert facts.max_output_tokens is None or 0 < facts.max_output_tokens < facts.context_window, where
            if facts.price is not None:
                assert 0 <= facts.price.input < 1000 and 0 <= facts.price.output < 1000, where
            assert lookup(provider, name) == facts, where


def test_source_and_date_of_the_table_can_be_shown() -> None:
    assert "litellm" in catalog_source()
    assert "2026-" in catalog_source()


def test_table_is_read_once_at_the_first_lookup() -> None:
    program = (
        "import json, pathlib, qcode.providers.catalog as catalog\n"
        "reads = []\n"
        "real = pathlib.Path.read_bytes\n"
        "pathlib.Path.read_bytes = lambda self: reads.append(self.name) or real(self)\n"
        "before = list(reads)\n"
        "catalog.lookup('openai', 'gpt-4o'); catalog.lookup('gemini', 'gemini-2.5-pro'); catalog.full_names('gpt-4o')\n"
        "print(json.dumps([before, reads]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[], ["models.json"]]
