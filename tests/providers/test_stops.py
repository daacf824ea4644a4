"""Stop reasons: every word the installed SDKs know is mapped on purpose, so that an upgrade fails here first."""

from __future__ import annotations

from typing import get_args

import pytest

from qcode.protocol.stops import StopReason
from qcode.providers.anthropic import codec as anthropic_codec
from qcode.providers.gemini import codec as gemini_codec
from qcode.providers.openai_chat import codec as chat_codec
from qcode.providers.stops import normalise


def test_every_finish_reason_of_the_openai_sdk_is_mapped() -> None:
    from openai.types.chat.chat_completion import Choice
    from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice

    streamed = ChunkChoice.model_fields["finish_reason"].annotation
    words = {word for arg in get_args(streamed) for word in get_args(arg)}
    words |= set(get_args(Choice.model_fields["finish_reason"].annotation))
    assert "stop" in words
    assert words <= chat_codec.STOPS.keys()


def test_every_stop_reason_of_the_anthropic_sdk_is_mapped() -> None:
    from anthropic.types import StopReason as Stable
    from anthropic.types.beta import BetaStopReason

    words = {*get_args(Stable), *get_args(BetaStopReason)}
    assert "end_turn" in words
    assert words == anthropic_codec.STOPS.keys()


def test_every_finish_reason_of_the_google_sdk_is_mapped_or_known_to_say_nothing() -> None:
    from google.genai.types import FinishReason

    words = {member.value for member in FinishReason}
    assert words == gemini_codec.STOPS.keys() | gemini_codec.UNKNOWN_STOPS
    assert not gemini_codec.STOPS.keys() & gemini_codec.UNKNOWN_STOPS


@pytest.mark.parametrize(
    ("raw", "has_calls", "expected"),
    [
        ("stop", False, StopReason.END_TURN),
        ("stop", True, StopReason.TOOL_USE),
        ("STOP", False, StopReason.END_TURN),
        ("tool_calls", True, StopReason.TOOL_USE),
        ("length", True, StopReason.MAX_TOKENS),
        ("model_length", False, StopReason.MAX_TOKENS),
        ("content_filter", True, StopReason.REFUSAL),
        ("context_length_exceeded", False, StopReason.CONTEXT_WINDOW_EXCEEDED),
        ("", False, StopReason.UNKNOWN),
        ("whatever", True, StopReason.UNKNOWN),
    ],
)
def test_a_word_is_looked_up_in_any_case_and_calls_turn_an_end_into_tool_use(
    raw: str, has_calls: bool, expected: StopReason
) -> None:
    assert normalise(chat_codec.STOPS, raw, has_calls=has_calls) is expected


def test_a_failure_in_place_of_a_reason_is_no_reason() -> None:
    assert not chat_codec.FAILURES.keys() & chat_codec.STOPS.keys()
