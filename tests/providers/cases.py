"""The requests every protocol must be able to send: one table for the snapshots of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelRequest
from qcode.protocol.tools import ToolSpec

READ_FILE = ToolSpec(
    name="read_file",
    description="Read a file.",
    parameters={
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "line_limit": {"type": "integer"}},
        "required": ["file_path"],
    },
    is_read_only=True,
)
LIST_FILES = ToolSpec(name="list_files", description="List files.", parameters={"type": "object", "properties": {}})
PIXEL = Image("image/png", "iVBORw0KGgo=")

MODELS: Mapping[str, str] = {
    "openai": "some-model",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "openai-responses": "gpt-6",
    "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}

SIGNATURES: Mapping[str, str] = {
    "anthropic": '{"signature": "EqQB"}',
    "gemini": '{"thoughtSignature": "CoMB"}',
    "bedrock": '{"signature": "BqQB"}',
    "openai-responses": (
        '{"id": "rs_1", "summary": [{"type": "summary_text", "text": "S."}], "encrypted_content": "gAAA"}'
    ),
}
"""The signature that a protocol attaches to thinking."""

_CALL = ToolCall("call_1", "read_file", '{"file_path": "a.py"}')
_CALLED = (
    user("Read both."),
    assistant(Text("Reading."), _CALL, ToolCall("call_2", "list_files", "{}")),
    Message(
        "user",
        (
            ToolResult("call_1", "read_file", "import os"),
            ToolResult("call_2", "list_files", "not allowed", is_error=True),
        ),
    ),
)

_PLAIN = ModelRequest(model="", system="", messages=(user("Hello"),), tools=(), max_tokens=8000)
_TOOLED = replace(_PLAIN, system="Be brief.", tools=(READ_FILE, LIST_FILES))


def _signed(source: str) -> Message:
    opaque = Opaque(source, SIGNATURES[source])
    return assistant(
        Reasoning("Signed thoughts.", opaque), Text("Reading."), ToolCall("call_1", "read_file", "{}", opaque)
    )


_RESULT = Message("user", (ToolResult("call_1", "read_file", "import os"),))

CASES: Mapping[str, ModelRequest] = {
    "plain": _PLAIN,
    "system_and_history": replace(
        _PLAIN, system="Be brief.", messages=(user("Hello"), assistant(Text("Hi.")), user("Who are you? ✓"))
    ),
    "tools": _TOOLED,
    "calls_and_results": replace(_TOOLED, messages=_CALLED),
    "steered_between_steps": replace(
        _TOOLED, messages=(*_CALLED[:2], Message("user", (*_CALLED[2].blocks, Text("And hurry.")))),
    ),
    "calls_without_text": replace(_TOOLED, messages=(user("Read."), assistant(_CALL), _RESULT)),
    "no_calls_allowed": replace(_TOOLED, allows_calls=False),
    "no_calls_allowed_after_calls": replace(_TOOLED, messages=_CALLED, allows_calls=False),
    "calls_in_history_without_tools": replace(_PLAIN, messages=(*_CALLED, assistant(Text("Done.")), user("Sum up."))),
    "images": replace(
        _PLAIN, messages=(Message("user", (Text("What is this?"), PIXEL)), assistant(Text("A dot.")), user("Sure?"))
    ),
    "images_in_results": replace(
        _TOOLED,
        messages=(
            *_CALLED[:2],
            Message(
                "user",
                (
                    ToolResult("call_1", "read_file", "a picture", images=(PIXEL,)),
                    ToolResult("call_2", "list_files", "failed", is_error=True, images=(PIXEL,)),
                ),
            ),
        ),
    ),
    "thinking_signed_by_anthropic": replace(
        _TOOLED,
        effort="high",
        messages=(user("Read."), _signed("anthropic"), _RESULT),
    ),
    "thinking_redacted": replace(
        _TOOLED,
        messages=(
            user("Read."),
            assistant(Reasoning("", Opaque("anthropic", '{"data": "Emw="}')), Text("Ok.")),
            user("Go"),
        ),
    ),
    "thinking_signed_by_gemini": replace(
        _TOOLED, messages=(user("Read."), _signed("gemini"), _RESULT)
    ),
    "thinking_signed_by_bedrock": replace(
        _TOOLED, effort="high", messages=(user("Read."), _signed("bedrock"), _RESULT)
    ),
    "thinking_redacted_by_bedrock": replace(
        _TOOLED,
        messages=(
            user("Read."),
            assistant(Reasoning("", Opaque("bedrock", '{"redactedContent": "Emw="}')), Text("Ok.")),
            user("Go"),
        ),
    ),
    "thinking_signed_by_openai-responses": replace(
        _TOOLED, effort="low", messages=(user("Read."), _signed("openai-responses"), _RESULT)
    ),
    "thinking_that_leads_to_nothing": replace(
        _TOOLED,
        messages=(
            user("Read."),
            assistant(Text("Ok."), Reasoning("Hm.", Opaque("openai-responses", SIGNATURES["openai-responses"]))),
            user("Go"),
        ),
    ),
    "phases": replace(
        _PLAIN,
        messages=(
            user("Go"),
            assistant(
                Text("On it.", Opaque("openai-responses", '{"phase": "commentary"}')),
                Text("Done.", Opaque("openai-responses", '{"phase": "final_answer"}')),
            ),
            user("Thanks"),
        ),
    ),
    "thinking_unsigned": replace(
        _TOOLED, effort="high", messages=(user("Read."), assistant(Reasoning("Hm."), Text("Ok."), _CALL), _RESULT)
    ),
    "empty_texts": replace(
        _PLAIN,
        messages=(user("Hello"), assistant(Text(""), Text("  ")), user(""), assistant(Reasoning("Hm.")), user("So?")),
    ),
    "empty_result": replace(
        _TOOLED, messages=(user("Go"), assistant(_CALL), Message("user", (ToolResult("call_1", "read_file", ""),))),
    ),
    "neighbors_of_one_role": replace(
        _PLAIN, messages=(user("One."), user("Two."), assistant(Text("Th")), assistant(Text("ree.")), user("Four."))
    ),
    "prefill": replace(_PLAIN, messages=(user("Count."), assistant(Text("1, 2,\n"))), is_prefill=True, effort="low"),
    "half_a_character": replace(_PLAIN, system="a\ud83d", messages=(user("b\udce9"),)),
    "half_a_character_in_a_call": replace(
        _TOOLED,
        messages=(
            user("Read."),
            assistant(ToolCall("call_1", "read_file", '{"path": "\\ud83dx \\ud83d\\ude00"}')),
            Message("user", (ToolResult("call_1", "read_file", "no", is_error=True),)),
        ),
    ),
    "effort_none": replace(_PLAIN, effort="none"),
    "effort_minimal": replace(_PLAIN, effort="minimal"),
    "effort_medium": replace(_PLAIN, effort="medium"),
    "effort_max": replace(_PLAIN, effort="max", max_tokens=64_000),
    "effort_under_a_small_cap": replace(_PLAIN, effort="high", max_tokens=1000),
    "ids_of_another_host": replace(
        _TOOLED,
        messages=(
            user("Go"),
            assistant(ToolCall("functions.read_file:0" + "x" * 60, "read_file", "{}")),
            Message("user", (ToolResult("functions.read_file:0" + "x" * 60, "read_file", "ok"),)),
        ),
    ),
}  # fmt: skip
