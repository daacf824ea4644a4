"""The output cap of each request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, FirstCap, OutputSettings, caps_for, fit, learn_first_cap

ROWS: list[tuple[str, OutputSettings, int | None, tuple[int, int | None, int]]] = [
    ("unknown model", OutputSettings(), None, (8000, 64000, 64000)),
    ("a large known limit", OutputSettings(), 128_000, (8000, 128_000, 128_000)),
    ("a known limit just worth it", OutputSettings(), 10_000, (8000, 10_000, 10_000)),
    ("a known limit not worth it", OutputSettings(), 9_999, (8000, None, 9_999)),
    ("a known limit below the default", OutputSettings(), 4096, (4096, None, 4096)),
    ("an override", OutputSettings(override=16_000), None, (16_000, None, 16_000)),
    ("an override above the limit", OutputSettings(override=50_000), 32_000, (32_000, None, 32_000)),
    ("an override below the default", OutputSettings(override=100), 32_000, (100, None, 100)),
    ("escalation switched off", OutputSettings(can_escalate=False), 32_000, (8000, None, 8000)),
    ("the continuing policy", OutputSettings(policy="continue"), 32_000, (8000, 32_000, 32_000)),
    ("another gain", OutputSettings(min_escalation_gain=5), 32_000, (8000, None, 32_000)),
]


@pytest.mark.parametrize(("settings", "limit", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_caps_follow_settings_and_model_facts(
    settings: OutputSettings, limit: int | None, expected: tuple[int, int | None, int]
) -> None:
    caps = caps_for(settings, limit)
    assert (caps.first, caps.escalation, caps.continuation) == expected


def test_silently_truncating_host_is_continued_at_the_target_without_escalation() -> None:
    caps = caps_for(OutputSettings(), None, is_silently_capped=True)
    assert (caps.escalation, caps.continuation) == (None, 64_000)


def test_reply_budgets_follow_the_continuation_cap() -> None:
    assert caps_for(OutputSettings(), None).total_tokens == 256_000
    assert caps_for(OutputSettings(), None).total_chars == 1_024_000
    assert caps_for(OutputSettings(override=100), None).total_chars == 120_000
    assert caps_for(OutputSettings(max_total_completion_tokens=7), None).total_tokens == 7


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.one_of(st.none(), st.integers(1, 10**6)), st.booleans())
def test_prompt_and_cap_always_fit_the_window(cap: int, prompt: int, window: int | None, is_counted: bool) -> None:
    fitted = fit(cap, prompt_tokens=prompt, window=window, is_counted=is_counted)
    if fitted is not None:
        assert 0 < fitted <= cap
        assert prompt + fitted + 1_024 <= (window or DEFAULT_CONTEXT_WINDOW)


def test_no_cap_is_sent_without_useful_room() -> None:
    assert fit(8000, prompt_tokens=30_000, window=32_000, is_counted=True) is None


LONG = [*[2_000] * 44, *[11_000] * 5, 30_000]


def test_first_cap_is_learned_from_long_replies() -> None:
    assert learn_first_cap(LONG) == FirstCap(11_000, 6, 50)
    assert learn_first_cap(LONG * 4) == FirstCap(11_000, 24, 200)
    assert learn_first_cap([*[30_000] * 200, *LONG * 4]) == FirstCap(11_000, 24, 200), "only the last 200 count"
    assert learn_first_cap([40_000] * 50) == FirstCap(16_000, 50, 50)
    assert learn_first_cap([*[9_000] * 44, *[-64_000] * 6]) == FirstCap(9_000, 50, 50)


@pytest.mark.parametrize(
    "lengths",
    [
        [],
        [20_000] * 49,
        [*[2_000] * 45, *[11_000] * 5],
        [8_000] * 200,
        [*[2_000] * 44, *[-64_000] * 6],
        [-64_000] * 50,
    ],
)
def test_first_cap_stays_without_enough_long_replies(lengths: list[int]) -> None:
    assert learn_first_cap(lengths) is None


def test_learned_first_cap_changes_no_other_cap() -> None:
    learned = FirstCap(12_000, 30, 200)
    caps = caps_for(OutputSettings(), 64_000, learned=learned)
    assert (caps.first, caps.escalation, caps.continuation) == (12_000, 64_000, 64_000)
    assert caps_for(OutputSettings(), 10_000, learned=learned).first == 10_000
    assert caps_for(OutputSettings(override=500), 64_000, learned=learned).first == 500
    assert caps_for(OutputSettings(learn_first_cap=False), 64_000, learned=learned).first == 8_000
