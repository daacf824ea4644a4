from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.providers.catalog import canonical_provider, exact_name, plain_name, without_region


@pytest.mark.parametrize(
    ("provider", "model", "plain"),
    [
        ("openai", "gpt-4o-2024-11-20", "gpt-4o"),
        ("anthropic", "claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("anthropic", "claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("anthropic", "claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("gemini", "models/gemini-2.5-pro-preview-06-05", "gemini-2.5-pro"),
        ("gemini", "gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
        ("mistral", "mistral-large-latest", "mistral-large"),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5"),
        ("openai", " GPT-4o ", "gpt-4o"),
    ],
)
def test_documented_decorations_are_not_part_of_a_name(provider: str, model: str, plain: str) -> None:
    assert plain_name(provider, model) == plain


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4-0613"),
        ("openai", "gpt-5-mini"),
        ("mistral", "mistral-large-2512"),
        ("dashscope", "qwen-plus-latest"),
        ("dashscope", "qwen-plus-2025-01-25"),
        ("gemini", "gemini-2.5-pro-preview-tts"),
        ("anthropic", "latest"),
    ],
)
def test_distinguishing_parts_of_a_name_are_kept(provider: str, model: str) -> None:
    assert plain_name(provider, model) == model


def test_bedrock_resource_name_becomes_the_id_inside_it() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-pro-v1:0"
    assert exact_name("bedrock", arn) == "us.amazon.nova-pro-v1:0"
    assert without_region("us.amazon.nova-pro") == "amazon.nova-pro"
    assert without_region("us-gov.xai.grok-4.6") == "xai.grok-4.6"


def test_vendor_that_looks_like_a_region_is_kept() -> None:
    assert without_region("ai21.jamba-1-5-large") == "ai21.jamba-1-5-large"


@pytest.mark.parametrize(
    ("typed", "known"),
    [("openai-responses", "openai"), ("Google", "gemini"), ("z-ai", "zai"), ("my-server", "my-server")],
)
def test_provider_has_one_name_in_the_table(typed: str, known: str) -> None:
    assert canonical_provider(typed) == known


@given(st.sampled_from(["openai", "anthropic", "gemini", "bedrock", "dashscope"]), st.text(max_size=40))
def test_plain_name_of_a_plain_name_is_unchanged(provider: str, model: str) -> None:
    plain = plain_name(provider, model)
    assert plain_name(provider, plain) == plain
