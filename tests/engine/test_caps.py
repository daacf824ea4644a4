"""The output cap of each request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW, OutputSettings, caps_for, fit

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
def test_caps(settings: OutputSettings, limit: int | None, expected: tuple[int, int | None, int]) -> None:
    caps = caps_for(settings, limit)
    assert (caps.first, caps.escalated, caps.continuation) == expected


def test_a_host_that_cuts_silently_is_not_escalated_but_continued_at_the_target() -> None:
    caps = caps_for(OutputSettings(), None, is_silently_capped=True)
    assert (caps.escalated, caps.continuation) == (None, 64_000)


def test_the_budgets_of_a_reply_follow_the_cap_of_a_continuation() -> None:
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


def test_no_cap_is_sent_where_no_useful_room_is_left() -> None:
    assert fit(8000, prompt_tokens=30_000, window=32_000, is_counted=True) is None
