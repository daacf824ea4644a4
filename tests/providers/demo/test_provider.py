"""The demo model as a provider: true caps, no memory, and recovery that finds its place."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from qcode.engine import synthetic
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.messages import Message, Text, ToolCall, assistant, user
from qcode.protocol.reply import ReplyStarted, StopReason, ToolCallStarted
from qcode.providers.demo.guide import LONG_FILE_CHARS, VERY_LONG_CHARS, guide
from qcode.providers.demo.provider import DEMO_FACTS, LIMIT_MODEL, LIMIT_S, OVERLOADED_MODEL, DemoProvider
from qcode.providers.demo.scenarios import SCENARIOS, Scenario
from qcode.text.json import parse_object
from tests.providers.demo.asking import UNCUT, Reply, reply_to, request, result

_CAPS = (1, 7, 50, 8_000, 64_000)


@pytest.mark.parametrize("cap", _CAPS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.request)
def test_reply_fits_its_cap_and_a_truncated_one_fills_it(scenario: Scenario, cap: int) -> None:
    provider = DemoProvider(pace=0)
    asked = request([user(scenario.request)], cap)
    if scenario.is_rate_limited:
        with pytest.raises(ProviderError):
            reply_to(asked, provider)
    reply = reply_to(asked, provider)
    size = len(reply.text) + len(reply.reasoning) + len(reply.arguments)
    assert reply.usage.output == -(-size // 4) <= cap
    if reply.stop is StopReason.MAX_TOKENS:
        assert size == cap * 4
    else:
        assert reply.ended_blocks


def test_same_request_gets_the_same_answer() -> None:
    asked = request([user("a long reply")], 8_000)
    provider = DemoProvider(pace=0)
    assert reply_to(asked, provider) == reply_to(asked, provider) == reply_to(asked)


def test_escalated_request_gets_the_same_reply_longer() -> None:
    cut = reply_to(request([user("a long reply")], 8_000))
    whole = reply_to(request([user("a long reply")], 64_000))
    assert (cut.stop, whole.stop) == (StopReason.MAX_TOKENS, StopReason.END_TURN)
    assert whole.text.startswith(cut.text)
    assert cut.ended_blocks == []


@pytest.mark.parametrize("way", ["resume", "broken", "prefill", "typed"])
def test_very_long_reply_is_continued_to_its_end_without_a_seam(way: str) -> None:
    first = user("a very long reply")
    text = reply_to(request([first], 64_000)).text
    assert reply_to(request([first], 8_000)).stop is StopReason.MAX_TOKENS
    messages = [first, assistant(Text(text))]
    asks = {
        "resume": synthetic.resume_text(text),
        "broken": synthetic.broken_stream_text(text),
        "typed": "please continue",
    }
    asked = request([*messages, user(asks[way])] if way in asks else messages, 64_000)
    rest = reply_to(replace(asked, is_prefill=way == "prefill"))
    assert rest.stop is StopReason.END_TURN
    assert text + rest.text == guide(VERY_LONG_CHARS)


def test_continuations_work_with_a_prefill_and_with_a_message() -> None:
    first = user("a long reply")
    apart: list[Message] = [first]
    text = ""
    for _ in range(4):
        joined = [first, assistant(Text(text)), user(synthetic.resume_text(text))] if text else [first]
        part = reply_to(request(apart, 1_000)).text
        assert part == reply_to(request(joined, 1_000)).text
        text += part
        apart += [assistant(Text(part)), user(synthetic.resume_text(text))]
    assert text == guide(40_000)[: 4 * 4_000]


def test_continuation_completes_the_intended_call() -> None:
    cut = reply_to(request([user("list the folder")], 3))
    messages = [user("list the folder"), assistant(Text(cut.text)), user(synthetic.resume_text(cut.text))]
    reply = reply_to(request(messages))
    assert (cut.text + reply.text, reply.stop) == ("I will look at the folder with the `glob` tool.\n", "tool_use")
    assert parse_object(reply.arguments) == {"pattern": "*"}


def test_continuation_of_a_complete_reply_adds_nothing() -> None:
    whole = reply_to(request([user("hello")])).text
    asked = request([user("hello"), assistant(Text(whole)), user(synthetic.resume_text(whole))])
    assert (reply_to(asked).text, reply_to(asked).stop) == ("", StopReason.END_TURN)


def test_prompt_that_resembles_a_continuation_is_a_new_request() -> None:
    text = reply_to(request([user("tell me a joke")])).text
    for prompt in ("continue", "read the limit where I stopped and resume with notes.md"):
        reply = reply_to(request([user("run ls"), assistant(Text("Not from the script.")), user(prompt)]))
        assert reply.text == text or "notes.md" in reply.text


def test_rest_of_a_truncated_call_is_sent_as_raw_json() -> None:
    prompt = user("write a huge file")
    cut = reply_to(request([prompt], 64_000))
    asking = user(synthetic.resumed_call_text("write", cut.arguments))
    told = request([prompt, assistant(Text(cut.text)), asking], 64_000, tools=())
    merged = request([Message("user", (*prompt.blocks, *asking.blocks))], 64_000)
    for asked in (told, merged):
        rest = reply_to(replace(asked, allows_calls=False))
        arguments = json.loads(cut.arguments + rest.text)
        assert arguments == {"path": "huge_demo.md", "content": guide(LONG_FILE_CHARS)}
        assert not rest.has_calls


def test_truncated_write_is_split_after_its_rejection() -> None:
    first = user("write a huge file")
    messages: list[Message] = [first]
    for cap in (8_000, 64_000):
        reply = reply_to(request(messages, cap))
        assert (reply.stop, reply.call.name) == (StopReason.MAX_TOKENS, "write")
        assert parse_object(reply.arguments) is None
    stored = ToolCall(reply.call.call_id, "write", synthetic.placeholder_arguments(reply.arguments))
    rejection = synthetic.split_guidance("write", reply.arguments, 64_000, 1)
    messages += [assistant(Text(reply.text), stored), result(stored, rejection, is_error=True)]
    file, names = "", []
    while (reply := reply_to(request(messages, 8_000))).stop is StopReason.TOOL_USE:
        names.append(reply.call.name)
        arguments = json.loads(reply.arguments)
        if reply.call.name == "write":
            file = arguments["content"]
        else:
            assert file.count(arguments["old_text"]) == 1
            file = file.replace(arguments["old_text"], arguments["new_text"])
        messages += [reply.message, result(reply.call, "done")]
    assert names == ["write", "edit", "edit", "edit"]
    assert reply.stop is StopReason.END_TURN
    assert all(f"Part {part}, line {line}." in file for part in (1, 2, 3) for line in range(1, 6))


def test_limit_model_refuses_a_request_once_and_names_the_end() -> None:
    provider = DemoProvider(pace=0)
    asked = replace(request([user("hello")]), model=LIMIT_MODEL)
    with pytest.raises(ProviderError) as caught:
        reply_to(asked, provider)
    assert (caught.value.kind, caught.value.retry_after) == (ErrorKind.RATE_LIMIT, LIMIT_S)
    assert caught.value.resets_at is not None
    assert reply_to(asked, provider).text


def test_overloaded_model_refuses_every_request() -> None:
    provider = DemoProvider(pace=0)
    for _ in range(3):
        with pytest.raises(ProviderError) as caught:
            reply_to(replace(request([user("hello")]), model=OVERLOADED_MODEL), provider)
        assert caught.value.kind is ErrorKind.OVERLOADED


def test_rate_limit_is_raised_once_per_request_for_it() -> None:
    provider = DemoProvider(pace=0)
    asked = request([user("please show me a rate limit")])
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            reply_to(asked, provider)
        assert (caught.value.kind, caught.value.retry_after) == (ErrorKind.RATE_LIMIT, 3.0)
        assert "retried it automatically" in reply_to(asked, provider).text


def test_thinking_comes_before_the_answer_and_not_with_low_effort() -> None:
    asked = request([user("think about it")])
    reply = reply_to(asked)
    assert reply.reasoning
    assert "**25**" in reply.text
    assert reply.usage.reasoning == -(-len(reply.reasoning) // 4)
    assert reply_to(replace(asked, effort="low")).reasoning == ""


def test_endless_thinking_answers_when_instructed() -> None:
    prompt = user("overthink it")
    for cap in (8_000, 64_000):
        reply = reply_to(request([prompt], cap))
        assert (reply.stop, reply.text) == (StopReason.MAX_TOKENS, "")
    answered = reply_to(request([Message("user", (*prompt.blocks, Text(synthetic.ANSWER_NOW)))], 64_000))
    assert (answered.stop, answered.reasoning) == (StopReason.END_TURN, "")
    assert "**42**" in answered.text


def test_call_is_made_only_if_its_tool_is_offered() -> None:
    for asked in (request([user("run ls")], tools=()), replace(request([user("run ls")]), allows_calls=False)):
        reply = reply_to(asked)
        assert (reply.stop, reply.has_calls) == (StopReason.END_TURN, False)
        assert "not available" in reply.text


def test_steering_message_is_acknowledged() -> None:
    call = reply_to(request([user("run ls")])).call
    results = Message("user", (*result(call, "a.py").blocks, Text("and hurry")))
    assert reply_to(request([user("run ls"), assistant(call), results])).text.startswith("You added: and hurry")


def test_prompt_after_a_turn_that_ended_at_a_limit_is_answered() -> None:
    call = reply_to(request([user("run ls")])).call
    prompt = Message("user", (*result(call, "a.py").blocks, Text("run date")))
    history = [user("run ls"), assistant(call), prompt]
    second = reply_to(request(history))
    assert not second.text.startswith("You added")
    assert json.loads(second.call.arguments)["command"] == "date"
    answered = reply_to(request([*history, assistant(second.call), result(second.call, "today")]))
    assert "today" in answered.text
    assert "a.py" not in answered.text


def test_input_is_counted_like_output() -> None:
    small = request([user("hi")], tools=())
    assert reply_to(small).usage.input == -(-len("Be brief." + "hi") // 4)
    assert (reply_to(request([user("hi" * 400)])).usage.input or 0) > 200


def test_call_ids_do_not_repeat_in_a_transcript() -> None:
    first = reply_to(request([user("run ls")])).call
    messages = [user("run ls"), assistant(first), result(first, "a.py"), assistant(Text("ok")), user("run ls")]
    assert reply_to(request(messages)).call.call_id != first.call_id


def test_other_model_names_are_unknown() -> None:
    with pytest.raises(ProviderError) as caught:
        reply_to(replace(request([user("hi")]), model="demo-2"))
    assert caught.value.kind is ErrorKind.UNKNOWN_MODEL
    assert caught.value.status == 404


def test_demo_provider_has_one_free_model() -> None:
    async def ask() -> tuple[str, ...]:
        provider = DemoProvider()
        names = await provider.model_names()
        await provider.close()
        await provider.close()
        return names

    assert asyncio.run(ask()) == ("demo",)
    assert DEMO_FACTS.price is not None
    assert DEMO_FACTS.price.output == 0


def test_reply_keeps_its_pace_at_any_length() -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    provider = DemoProvider(sleep=note)
    first = [user("a very long reply")]
    text = reply_to(request(first, 64_000), provider).text
    reply_to(request(first, 8_000), provider)
    reply_to(request([*first, assistant(Text(text)), user(synthetic.resume_text(text))], 64_000), provider)
    assert sum(pauses) < 6
    pauses.clear()
    short = reply_to(request([user("hello")]), provider)
    assert len(pauses) > 20
    assert max(len(getattr(event, "text", "")) for event in short.events) < 60


def test_reply_can_be_cancelled_between_two_chunks() -> None:
    async def run() -> int:
        seen = 0

        async def read() -> None:
            nonlocal seen
            async for _ in DemoProvider(pace=3_600).stream(request([user("hello")], UNCUT)):
                seen += 1
                started.set()

        started = asyncio.Event()
        reading = asyncio.ensure_future(read())
        await started.wait()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert reading.cancelled()
        return seen

    assert asyncio.run(run()) <= 2


def test_complete_stream_starts_and_ends_as_the_protocol_requires() -> None:
    reply: Reply = reply_to(request([user("list the folder")]))
    assert isinstance(reply.events[0], ReplyStarted)
    assert [event.block for event in reply.events if isinstance(event, ToolCallStarted)] == [1]
    assert reply.ended_blocks == [0, 1]
