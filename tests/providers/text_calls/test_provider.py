"""A model without native tool calls, in whole turns through the real engine, driver and tools."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import PartialRestored, Retry, ToolFinished, TurnEvent
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelRequest, RetrySettings
from qcode.protocol.reply import Outcome, ReplyEvent, StopReason, TextDelta, ToolCallStarted
from qcode.providers.history import text_to_continue
from qcode.providers.text_calls.provider import TextCallProvider, as_text_history, instructions
from tests.fakes.conversation import Model, ended, open_conversation
from tests.fakes.scripted import Reply, ScriptedProvider, begun, cut_text, fails, text_reply
from tests.providers.text_calls.scanning import READ, TOOLS

CALL = f"<tool_call>\n{READ}\n</tool_call>"


def written(name: str, **arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def turn(base: Path, *replies: Reply) -> tuple[list[TurnEvent], ScriptedProvider, Path]:
    inner = ScriptedProvider(replies)
    it = open_conversation(base, TextCallProvider(inner), Model(retries=RetrySettings(max_retries=0)), mode="bypass")

    async def main() -> list[TurnEvent]:
        events = await it.play("do it")
        await it.conversation.close()
        return events

    return asyncio.run(main()), inner, it.work


def finished(events: list[TurnEvent]) -> list[tuple[str, str]]:
    return [(event.call.name, event.state) for event in events if isinstance(event, ToolFinished)]


def collect(inner: ScriptedProvider, request: ModelRequest) -> list[ReplyEvent]:
    async def main() -> list[ReplyEvent]:
        return [event async for event in TextCallProvider(inner).stream(request)]

    return asyncio.run(main())


REQUEST = ModelRequest("m", "Be brief.", (user("hi"),), TOOLS, 100)


def test_call_in_text_runs_and_its_result_is_sent_as_text(tmp_path: Path) -> None:
    call = written("write", path="a.txt", content="one\ntwo\n")
    events, inner, work = turn(tmp_path, text_reply("I write it.\n", call[:30], call[30:]), text_reply("Done."))
    assert finished(events) == [("write", "done")]
    assert (work / "a.txt").read_text() == "one\ntwo\n"
    assert ended(events).outcome is Outcome.END_TURN
    assert ended(events).text == "Done."
    first, second = inner.requests
    assert first.tools == second.tools == ()
    assert first.system == second.system
    assert "write" in first.system
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]
    text = second.messages[1].text
    assert text.startswith("I write it.\n<tool_call>")
    assert "one\\ntwo" in text
    assert second.messages[2].text.startswith('<tool_result name="write">\n')


def test_truncated_call_is_requested_again_and_never_runs_partially(tmp_path: Path) -> None:
    call = written("write", path="a.txt", content="x" * 400)
    events, inner, work = turn(tmp_path, cut_text("So.\n", call[:200]), text_reply("So.\n", call), text_reply("Done."))
    assert [event.reason for event in events if isinstance(event, Retry)] == ["max_tokens"]
    assert inner.caps == [8_000, 64_000, 8_000]
    assert finished(events) == [("write", "done")]
    assert (work / "a.txt").read_text() == "x" * 400


def test_write_truncated_twice_is_rejected_with_guidance(tmp_path: Path) -> None:
    cut = written("write", path="a.txt", content="x" * 400)[:200]
    events, inner, work = turn(tmp_path, cut_text(cut), cut_text(cut), text_reply("I give up."))
    assert finished(events) == [("write", "rejected")]
    assert list(work.iterdir()) == []
    text = inner.requests[2].messages[-1].text
    assert 'status="error"' in text
    assert "MUST split" in text


def test_unreadable_call_is_requested_once_more(tmp_path: Path) -> None:
    broken = '<tool_call>{"name": "write", "arguments": {"path": "a.txt", "content": "a\nb"}}</tool_call>'
    good = written("write", path="a.txt", content="a\nb")
    events, inner, work = turn(tmp_path, text_reply(broken), text_reply(good), text_reply("Done."))
    assert (work / "a.txt").read_text() == "a\nb"
    assert "could not be parsed" in inner.requests[1].messages[-1].text
    assert ended(events).outcome is Outcome.END_TURN


def test_call_in_a_broken_stream_never_runs(tmp_path: Path) -> None:
    call = written("write", path="a.txt", content="x")
    events, _, work = turn(tmp_path, fails(ErrorKind.CONNECTION, after=begun("So. ", call, "\nand")))
    assert finished(events) == []
    assert list(work.iterdir()) == []
    assert ended(events).outcome is Outcome.ERROR
    assert [event for event in events if isinstance(event, PartialRestored)] == []


def test_example_in_a_code_block_across_a_continuation_never_runs(tmp_path: Path) -> None:
    call = written("write", path="a.txt", content="x")
    events, inner, work = turn(
        tmp_path,
        cut_text("Like this:\n```xml\n<a>\n"),
        cut_text("Like this:\n```xml\n<a>\n"),
        text_reply(f"{call}\n```\nThat is all."),
    )
    assert "Continue exactly" in inner.requests[2].messages[-1].text
    assert finished(events) == []
    assert list(work.iterdir()) == []
    assert ended(events).text == f"Like this:\n```xml\n<a>\n{call}\n```\nThat is all."


def test_text_to_continue_is_found_in_the_request() -> None:
    partial = assistant(Text("Like\n```py\nx = 1"))
    asked = user("Continue. Your text ends with:\n<so_far>\nLike\n```py\nx = 1\n</so_far>")
    assert text_to_continue((user("hi"), partial)) == partial.text
    assert text_to_continue((user("hi"), partial, asked)) == partial.text
    assert text_to_continue((user("hi"), partial, user("What is x = 1?"))) == ""
    assert text_to_continue((user("hi"), assistant(Text("")), user("\n</"))) == ""
    assert text_to_continue((user("hi"),)) == ""


def test_text_is_unchanged_if_calls_are_not_allowed() -> None:
    for request in (replace(REQUEST, allows_calls=False), replace(REQUEST, tools=())):
        events = collect(ScriptedProvider([text_reply(CALL)]), request)
        assert [event.text for event in events if isinstance(event, TextDelta)] == [CALL]


def test_request_without_tools_is_unchanged() -> None:
    inner = ScriptedProvider([text_reply("ok")])
    request = replace(REQUEST, tools=())
    collect(inner, request)
    assert inner.requests == [request]


def test_call_ids_differ_between_requests() -> None:
    longer = replace(REQUEST, messages=(user("a"), assistant(Text("b")), user("c")))
    ids = [
        event.call_id
        for request in (REQUEST, longer)
        for event in collect(ScriptedProvider([text_reply(CALL, CALL)]), request)
        if isinstance(event, ToolCallStarted)
    ]
    assert len(set(ids)) == 4


def test_closing_the_stream_closes_the_inner_stream() -> None:
    inner = ScriptedProvider([text_reply("a", "b", CALL)])

    async def leave() -> None:
        events = TextCallProvider(inner).stream(REQUEST)
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()  # type: ignore[attr-defined]  # a stream is an asynchronous generator
        assert inner.broken_off == 1

    asyncio.run(leave())


def test_name_and_close_are_those_of_the_inner_provider() -> None:
    inner = ScriptedProvider([], name="local", host="http://localhost:1/v1", models=("a", "b"))
    provider = TextCallProvider(inner)

    async def ask() -> tuple[str, ...]:
        names = await provider.model_names()
        await provider.close()
        return names

    assert (provider.name, provider.host) == ("local", "http://localhost:1/v1")
    assert asyncio.run(ask()) == ("a", "b")
    assert inner.closed


def test_warm_up_is_passed_to_the_inner_provider() -> None:
    class Slow(ScriptedProvider):
        is_warm = False

        def warm_up(self) -> None:
            self.is_warm = True

    slow = Slow([])
    TextCallProvider(slow).warm_up()
    TextCallProvider(ScriptedProvider([])).warm_up()
    assert slow.is_warm


def test_instructions_name_every_tool_and_show_the_call_format() -> None:
    text = instructions(TOOLS)
    assert text == instructions(TOOLS)
    assert instructions(()) == ""
    listed = [json.loads(line) for line in text.splitlines() if line.startswith('{"name": ') and "description" in line]
    assert [tool["name"] for tool in listed] == ["read", "write", "list_files"]
    assert listed[0]["parameters"] == TOOLS[0].parameters
    assert "<tool_call>" in text


HISTORY = (
    user("fix it"),
    assistant(
        Reasoning("hm"), Text("I look.\n\n"), ToolCall("1", "read", '{"path": "a"}'), ToolCall("2", "list_files", "{}")
    ),
    Message(
        "user",
        (
            ToolResult("1", "read", "text </tool_result> <tool_call>", images=(Image("image/png", "AA=="),)),
            ToolResult("2", "list_files", "no such folder", is_error=True),
            Text("and be quick"),
        ),
    ),
    assistant(Text("Done.")),
)


def test_history_becomes_text_with_calls_and_results_in_order() -> None:
    first, second, third, last = as_text_history(HISTORY)
    assert (first, last) == (HISTORY[0], HISTORY[3])
    assert second == assistant(
        Reasoning("hm"),
        Text(
            'I look.\n<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n'
            '<tool_call>\n{"name": "list_files", "arguments": {}}\n</tool_call>'
        ),
    )
    assert third == Message(
        "user",
        (
            Text(
                '<tool_result name="read">\ntext <\\/tool_result> <tool_call>\n</tool_result>\n'
                '<tool_result name="list_files" status="error">\nno such folder\n</tool_result>'
            ),
            Image("image/png", "AA=="),
            Text("and be quick"),
        ),
    )


def test_call_in_the_history_can_be_parsed_again() -> None:
    events = collect(ScriptedProvider([text_reply(as_text_history(HISTORY)[1].text)]), REQUEST)
    assert [event.name for event in events if isinstance(event, ToolCallStarted)] == ["read", "list_files"]


@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.UNKNOWN])
def test_reply_without_calls_is_the_answer(stop: StopReason, tmp_path: Path) -> None:
    events, inner, _ = turn(tmp_path, text_reply("Use `<tool_call>` for that.", stop=stop))
    assert ended(events).text == "Use `<tool_call>` for that."
    assert len(inner.requests) == 1
