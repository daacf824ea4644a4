"""Stop reasons: every word the installed SDKs know is mapped on purpose, so that an upgrade fails here first."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.reply import StopReason
from qcode.providers.anthropic import codec as anthropic_codec
from qcode.providers.bedrock import codec as bedrock_codec
from qcode.providers.blocks import normalize_stop
from qcode.providers.gemini import codec as gemini_codec
from qcode.providers.openai import chat as chat_codec
from qcode.providers.openai import responses as responses_codec
from qcode.text.json import JsonObject
from tests.providers.events import Recording, recordings


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


def test_every_finish_reason_of_the_google_sdk_is_mapped_or_listed_as_neutral() -> None:
    from google.genai.types import FinishReason

    words = {member.value for member in FinishReason}
    assert words == gemini_codec.STOPS.keys() | gemini_codec.UNKNOWN_STOPS
    assert not gemini_codec.STOPS.keys() & gemini_codec.UNKNOWN_STOPS


def test_every_response_status_of_the_openai_sdk_is_mapped_or_listed_as_neutral() -> None:
    from openai.types.responses import ResponseStatus
    from openai.types.responses.response import IncompleteDetails

    reasons = set(_words(IncompleteDetails.model_fields["reason"].annotation))
    assert "max_output_tokens" in reasons
    # A failed response is an error and never gets as far as the map.
    words = reasons | set(get_args(ResponseStatus)) - {"failed"}
    assert words == responses_codec.STOPS.keys() | responses_codec.UNKNOWN_STOPS
    assert not responses_codec.STOPS.keys() & responses_codec.UNKNOWN_STOPS


def test_every_error_code_of_a_failed_response_is_classified() -> None:
    from openai.types.responses import ResponseError

    codes = set(get_args(ResponseError.model_fields["code"].annotation))
    kinds = {}
    for code in codes:
        with pytest.raises(ProviderError) as caught:
            responses_codec.ResponsesDecoder().feed(
                {"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": "x"}}}
            )
        kinds[code] = caught.value.kind
    assert {code for code, kind in kinds.items() if kind is ErrorKind.SERVER} == {
        "server_error",
        "vector_store_timeout",
    }
    assert {code for code, kind in kinds.items() if kind is ErrorKind.RATE_LIMIT} == {"rate_limit_exceeded"}
    assert {code for code, kind in kinds.items() if kind is ErrorKind.BAD_REQUEST} == responses_codec.REFUSED


_IGNORED_EVENTS = {
    # The same text again, and parts that are announced by their first piece.
    "response.content_part.added", "response.content_part.done", "response.output_text.done",
    "response.refusal.done", "response.function_call_arguments.done", "response.output_text.annotation.added",
    "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
    "response.reasoning_summary_text.done", "response.reasoning_text.done",
    # Unrequested tools and media.
    "response.audio.delta", "response.audio.done", "response.audio.transcript.delta",
    "response.audio.transcript.done", "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done", "response.code_interpreter_call.completed",
    "response.code_interpreter_call.in_progress", "response.code_interpreter_call.interpreting",
    "response.compaction.compacting", "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done", "response.file_search_call.completed",
    "response.file_search_call.in_progress", "response.file_search_call.searching",
    "response.image_generation_call.completed", "response.image_generation_call.generating",
    "response.image_generation_call.in_progress", "response.image_generation_call.partial_image",
    "response.mcp_call.completed", "response.mcp_call.failed", "response.mcp_call.in_progress",
    "response.mcp_call_arguments.delta", "response.mcp_call_arguments.done", "response.mcp_list_tools.completed",
    "response.mcp_list_tools.failed", "response.mcp_list_tools.in_progress", "response.shell_call_command.added",
    "response.shell_call_command.delta", "response.shell_call_command.done",
    "response.shell_call_output_content.delta", "response.shell_call_output_content.done",
    "response.web_search_call.completed", "response.web_search_call.in_progress",
    "response.web_search_call.searching",
}  # fmt: skip


def test_every_stream_event_of_the_openai_sdk_is_read_or_ignored_on_purpose() -> None:
    from openai.types.responses import ResponseStreamEvent

    union, _ = get_args(ResponseStreamEvent)
    events = {word for kind in get_args(union) for word in get_args(kind.model_fields["type"].annotation)}
    assert "response.output_text.delta" in events
    read = {str(chunk.get("type")) for found in recordings() for chunk in found.chunks if _says_something(found, chunk)}
    assert events - _IGNORED_EVENTS - {"response.queued", "response.in_progress"} == read & events
    assert events >= _IGNORED_EVENTS


def _says_something(found: Recording, chunk: JsonObject) -> bool:
    """Tell whether an event, behind a call or a greeting, makes a difference."""
    if found.protocol != "openai-responses":
        return False
    target = responses_codec.ResponsesDecoder()
    target.feed({"type": "response.created", "response": {}})
    call: JsonObject = {"type": "function_call", "name": "f", "call_id": "c"}
    for index in range(3):
        item: JsonObject = {"type": "response.output_item.added", "output_index": index, "item": call}
        if chunk.get("type") == "response.function_call_arguments.delta":
            target.feed(item)
    if chunk.get("type") == "response.created":
        target = responses_codec.ResponsesDecoder()
    try:
        return bool(target.feed(chunk)) or target.is_ended
    except ProviderError:
        return True


def test_every_stop_reason_of_the_amazon_sdk_is_mapped() -> None:
    assert set(_converse("StopReason").enum) == bedrock_codec.STOPS.keys()


def test_every_event_of_the_amazon_sdk_is_read_and_every_exception_classified() -> None:
    members = _converse("ConverseStreamOutput").members
    exceptions = {name for name in members if name.endswith("Exception")}
    assert members.keys() - exceptions == {
        "messageStart",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    }
    kinds = {}
    for name in exceptions:
        with pytest.raises(ProviderError) as caught:
            bedrock_codec.BedrockDecoder().feed({name: {"message": "x"}})
        kinds[name] = caught.value.kind
    assert kinds == {
        "internalServerException": ErrorKind.SERVER,
        "modelStreamErrorException": ErrorKind.SERVER,
        "serviceUnavailableException": ErrorKind.OVERLOADED,
        "throttlingException": ErrorKind.RATE_LIMIT,
        "validationException": ErrorKind.BAD_REQUEST,
    }


def _converse(shape: str) -> Any:
    session = importlib.import_module("botocore.session")
    return session.get_session().get_service_model("bedrock-runtime").shape_for(shape)


def _words(annotation: object) -> Iterator[str]:
    for arg in get_args(annotation):
        if isinstance(arg, str):
            yield arg
        yield from _words(arg)


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
def test_stop_reason_is_case_insensitive_and_calls_make_it_tool_use(
    raw: str, has_calls: bool, expected: StopReason
) -> None:
    assert normalize_stop(chat_codec.STOPS, raw, has_calls=has_calls) is expected


def test_failures_and_stop_reasons_of_chat_have_distinct_names() -> None:
    assert not chat_codec.FAILURES.keys() & chat_codec.STOPS.keys()
