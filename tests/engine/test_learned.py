"""Limits learned from refusals: the wordings of real servers, and messages without a limit."""

from __future__ import annotations

import pytest

from qcode.engine.model_facts import LearnedLimit, learn_limit

TEACHES: list[tuple[str, LearnedLimit]] = [
    ("max_tokens is too large: 64000. This model supports at most 16384 completion tokens, whereas you provided 64000.",
     LearnedLimit("output", 16384)),
    ("max_tokens: 65536 > 64000, which is the maximum allowed number of output tokens for this model",
     LearnedLimit("output", 64000)),
    ("Range of max_tokens should be [1, 8192]", LearnedLimit("output", 8192)),
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", LearnedLimit("output", 8192)),
    ("`max_tokens` must be less than or equal to `40960`, the maximum value for `max_tokens` is less than the "
     "`context_window` for this model", LearnedLimit("output", 40960)),
    ("max_tokens: must be <= 40766: 64000 > 64001 - 24235", LearnedLimit("window", 64001, 24235)),
    ("max_total_tokens (33802) must be <= max_seq_len (32768)", LearnedLimit("window", 32768, total=33802)),
    ("This model's maximum context length is 8,192 tokens. However, you requested 9000 tokens",
     LearnedLimit("window", 8192, total=9000)),
    ("This model's maximum context length is 32768 tokens. However, you requested 33802 tokens (25802 in the messages, "
     "8000 in the completion).", LearnedLimit("window", 32768, 25802, 33802)),
    ("'max_tokens' is too large: 8000. This model's maximum context length is 8192 tokens and your request has 1500 "
     "input tokens (8000 > 8192 - 1500).", LearnedLimit("window", 8192, 1500)),
    ("input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000, decrease input length",
     LearnedLimit("window", 200000, 190000)),
    ("prompt is too long: 210000 tokens > 200000 maximum", LearnedLimit("window", 200000, 210000)),
    ("a maxOutputTokens value of 70000 but the supported range is from 1 (inclusive) to 65537 (exclusive).",
     LearnedLimit("output", 65536)),
    ("max_tokens must be less than 8193", LearnedLimit("output", 8192)),
    ("max_new_tokens must be <= 4096. Given: 64000", LearnedLimit("output", 4096)),
    ("The maximum tokens you requested exceeds the model limit of 4096", LearnedLimit("output", 4096)),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
     LearnedLimit("window", 1048576, 1200000)),
    ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
     LearnedLimit("window", 32768, 40000)),
    ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3000 `inputs` tokens and 2000 `max_new_tokens`",
     LearnedLimit("window", 4096, 3000)),
    ("Your request exceeded model token limit: 8192 (requested: 64123)", LearnedLimit("window", 8192, total=64123)),
    ("request (5000 tokens) exceeds the available context size (4096 tokens)", LearnedLimit("window", 4096, 5000)),
    ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
     LearnedLimit("window", 131072, 140000)),
    ("Range of input length should be [1, 98304]", LearnedLimit("window", 98304)),
    ("The total number of tokens (prompt + completion) must not exceed 32768", LearnedLimit("window", 32768)),
    ("max_tokens must be between 1 and 4096, inclusive", LearnedLimit("output", 4096)),
    ("maxOutputTokens 64000 exceeds model limit 5120", LearnedLimit("output", 5120)),
    ("the request exceeds the available context size (4096 tokens)", LearnedLimit("window", 4096)),
]  # fmt: skip

TEACHES_NOTHING = [
    "temperature must be at most 512",
    "tools: at most 1280 allowed",
    "messages must have at most 2048 items",
    "max_tokens must be at most 100",
    "max_tokens must be positive",
    "Invalid API key",
    "64000 > 64001 - 24235",
    "Rate limit reached on tokens per min (TPM): Limit 10000, Used 9000, Requested 64000",
    "",
]


@pytest.mark.parametrize(("message", "limit"), TEACHES)
def test_limit_that_an_error_message_names_is_learned(message: str, limit: LearnedLimit) -> None:
    assert learn_limit(message) == limit


@pytest.mark.parametrize("message", TEACHES_NOTHING)
def test_error_message_without_a_limit_is_ignored(message: str) -> None:
    assert learn_limit(message) is None


def test_message_that_repeats_the_cap_is_about_the_cap() -> None:
    assert learn_limit("64000 > 64001 - 24235", cap=64_000) == LearnedLimit("window", 64001, 24235)
    assert learn_limit("65,536 > 64,000, which is the maximum", cap=65_536) == LearnedLimit("output", 64000)
    assert learn_limit("64000 > 64001 - 24235", cap=6_400) is None


def test_blamed_parameter_decides_if_the_message_names_none() -> None:
    assert learn_limit("must be at most 16384", "max_tokens") == LearnedLimit("output", 16384)
    assert learn_limit("must be at most 16384", "top_k") is None
