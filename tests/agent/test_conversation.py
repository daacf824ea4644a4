"""A conversation over the real driver, store, rules and tools, with a scripted provider."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from qcode.agent.context.system_prompt import PendingAttachments
from qcode.engine.effects import ApprovalAnswered, AskApproval
from qcode.protocol.approvals import (
    Allow,
    Answer,
    CallApproval,
    Choice,
    Deny,
    ImpossibleCall,
    Question,
    RepeatedCall,
    ToolApproval,
    TurnOptions,
)
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import (
    ApprovalRequested,
    Notice,
    PartialRestored,
    ToolFinished,
    ToolOutput,
    TurnEnded,
    TurnEvent,
    TurnStarted,
    Waiting,
)
from qcode.protocol.messages import Image, MentionedFiles, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.reply import Outcome, TextDelta
from qcode.text.json import Json, JsonObject
from qcode.tools.files.grep import GrepLine, GrepSearch, Query
from tests.fakes.conversation import Talk, ended, talk
from tests.fakes.scripted import (
    Call,
    Hang,
    begun,
    call_reply,
    calls_reply,
    cut_text,
    fails,
    text_reply,
)


def test_turn_is_stored_when_it_is_committed(tmp_path: Path) -> None:
    it = talk(tmp_path, cut_text("lost"), cut_text("One, "), text_reply("two."))
    events = asyncio.run(it.play("count"))
    assert ended(events).text == "One, two."
    loaded = it.store.load(it.conversation.session_id)
    assert loaded.messages == it.conversation.messages == (user("count"), assistant(Text("One, two.")))
    assert [attempt.is_discarded for attempt in loaded.entries[1].attempts] == [True, False, False]


def test_approval_waits_for_the_user_and_always_is_remembered(tmp_path: Path) -> None:
    it = talk(
        tmp_path,
        call_reply("shell", {"command": "touch a"}),
        text_reply("Done."),
        call_reply("shell", {"command": "touch a"}),
        text_reply("Again."),
    )
    asked: list[CallApproval] = []

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, Allow("session"))

    async def both() -> None:
        await it.play("touch", answering)
        await it.play("touch it again", answering)

    asyncio.run(both())
    assert (it.work / "a").exists()
    assert "touch a" in asked[0].detail
    assert [request.rule for request in asked if isinstance(request, ToolApproval)] == ["shell(touch a)"]


def test_model_gets_the_mode_of_each_turn(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("a"), text_reply("b"))

    async def both() -> None:
        it.conversation.set_mode("plan")
        await it.play("one")
        it.conversation.set_mode("default")
        await it.play("two")

    asyncio.run(both())
    assert [request.system for request in it.provider.requests] == ["Be brief (plan).", "Be brief (default)."]


def test_denial_reaches_the_model_with_its_reason(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": "touch a"}), text_reply("All right."))

    def denying(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            it.conversation.answer(event.approval.id, Deny("use git instead"))

    asyncio.run(it.play("touch", denying))
    assert not (it.work / "a").exists()
    (result,) = [block for block in it.provider.requests[1].messages[-1].blocks if isinstance(block, ToolResult)]
    assert result.is_error
    assert "use git instead" in result.content


def test_cancel_while_streaming_ends_at_once_and_keeps_the_text(tmp_path: Path) -> None:
    hang = Hang()
    it = talk(tmp_path, [*begun("Half a ", "sentence"), hang])

    def cancelling(event: TurnEvent) -> None:
        if isinstance(event, TextDelta) and event.text == "sentence":
            it.conversation.cancel()

    events = asyncio.run(it.play("go", cancelling))
    assert ended(events).outcome is Outcome.CANCELLED
    assert it.store.load(it.conversation.session_id).messages[-1] == assistant(Text("Half a sentence"))
    assert len(it.provider.requests) == 1


def test_cancel_in_a_backoff_sends_nothing_more(tmp_path: Path) -> None:
    it = talk(tmp_path, fails(ErrorKind.RATE_LIMIT, retry_after=100), text_reply("never"))

    def cancelling(event: TurnEvent) -> None:
        if isinstance(event, Waiting):
            it.conversation.cancel()

    events = asyncio.run(it.play("go", cancelling))
    assert ended(events).outcome is Outcome.CANCELLED
    assert len(it.provider.requests) == 1


def test_cancel_while_escalating_restores_the_partial(tmp_path: Path) -> None:
    hang = Hang()
    it = talk(tmp_path, cut_text("The partial"), [*begun("The"), hang])
    seen: list[str] = []

    def cancelling(event: TurnEvent) -> None:
        if isinstance(event, TextDelta):
            seen.append(event.text)
            if event.text == "The":
                it.conversation.cancel()

    events = asyncio.run(it.play("go", cancelling))
    assert [event.text for event in events if isinstance(event, PartialRestored)] == ["The partial"]
    assert ended(events).text == "The partial"


def test_closed_iterator_keeps_the_shown_text(tmp_path: Path) -> None:
    it = talk(tmp_path, [*begun("Shown "), Hang()])

    async def leave() -> None:
        events = it.conversation.submit("go")
        async for event in events:
            if isinstance(event, TextDelta):
                break
        await events.aclose()

    asyncio.run(leave())
    assert it.store.load(it.conversation.session_id).messages[-1] == assistant(Text("Shown "))


def test_shell_command_streams_its_output(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": "echo one; echo two"}), text_reply("Ok."), mode="bypass")
    events = asyncio.run(it.play("run"))
    assert "one" in "".join(event.text for event in events if isinstance(event, ToolOutput))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.state == "done"
    assert "two" in finished.outcome.content
    output_indexes = [number for number, event in enumerate(events) if isinstance(event, ToolOutput)]
    assert max(output_indexes) < events.index(finished), "what a command showed last comes before its result"


def test_cancel_ends_a_shell_command(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": "echo begun; sleep 60"}), mode="bypass")

    def cancelling(event: TurnEvent) -> None:
        if isinstance(event, ToolOutput):
            it.conversation.cancel()

    async def within_seconds() -> list[TurnEvent]:
        async with asyncio.timeout(5):
            return await it.play("run", cancelling)

    events = asyncio.run(within_seconds())
    assert ended(events).outcome is Outcome.CANCELLED
    (result,) = [block for block in it.conversation.messages[-1].blocks if isinstance(block, ToolResult)]
    assert result.is_error


def test_steering_joins_the_running_turn(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("glob", {"pattern": "*"}), text_reply("Ok."))

    def steering(event: TurnEvent) -> None:
        if isinstance(event, TurnStarted):
            it.conversation.steer("and be quick")

    asyncio.run(it.play("list", steering))
    assert it.provider.requests[1].messages[-1].text == "and be quick"


def test_learned_limit_applies_to_the_next_turn_and_process(tmp_path: Path) -> None:
    refusal = fails(ErrorKind.BAD_REQUEST, message="max_tokens must be at most 4096")
    it = talk(tmp_path, refusal, text_reply("a"), text_reply("b"))

    async def both() -> None:
        await it.play("one")
        await it.play("two")

    asyncio.run(both())
    assert it.provider.caps == [8000, 4096, 4096]
    assert it.limits.knowledge(it.provider.host, "m").output == 4096


def test_failing_session_store_costs_one_notice_and_no_text(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    it = talk(tmp_path, text_reply("Here."), text_reply("Still."))

    async def both() -> list[TurnEvent]:
        return [*await it.play("one"), *await it.play("two")]

    events = asyncio.run(both())
    assert [event.text for event in events if isinstance(event, TurnEnded)] == ["Here.", "Still."]
    assert len([event for event in events if isinstance(event, Notice)]) == 1


def test_exception_in_a_provider_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    it = talk(tmp_path, [RuntimeError("boom")])
    events = asyncio.run(it.play("go"))
    error = ended(events).error
    assert error is not None
    assert (error.kind, "boom" in error.message) == ("internal", True)


def test_clear_starts_a_new_session(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("a"), text_reply("b"))

    async def both() -> tuple[str, str]:
        await it.play("one")
        before = it.conversation.session_id
        it.conversation.clear()
        await it.play("two")
        return before, it.conversation.session_id

    before, after = asyncio.run(both())
    assert before != after
    assert [message.text for message in it.provider.requests[1].messages] == ["two"]


def test_stream_without_an_end_event_is_a_failure(tmp_path: Path) -> None:
    it = talk(tmp_path, begun("Half a sentence"), max_retries=0)
    events = asyncio.run(it.play("go"))
    assert ended(events).outcome is Outcome.ERROR
    assert ended(events).text == "Half a sentence"


def test_rest_of_long_output_can_be_read_from_the_file_in_the_result(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": "seq 40000"}), text_reply("Long."))
    asyncio.run(it.play("count", lambda event: _allow(it, event)))
    (result,) = [block for block in it.provider.requests[1].messages[-1].blocks if isinstance(block, ToolResult)]
    found = re.search(r"all of it in (\S+)", result.content)
    assert found is not None
    asked: JsonObject = {"path": found[1], "offset": 39999}
    again = asyncio.run(it.conversation.run_tool(ToolCall("c", "read", "{}"), asked, print))
    assert "40000" in again.content
    it.conversation.release()
    assert not Path(found[1]).exists()


def _allow(it: Talk, event: TurnEvent) -> None:
    if isinstance(event, ApprovalRequested):
        it.conversation.answer(event.approval.id, Allow())


def test_answer_to_a_question_of_the_model_is_its_result(tmp_path: Path) -> None:
    choices: Json = [{"label": "Red"}, {"label": "Blue", "detail": "as now"}]
    question: JsonObject = {"question": "Which color?", "choices": choices}
    it = talk(tmp_path, call_reply("ask_person", question), text_reply("Blue it is."), mode="plan")
    asked: list[CallApproval] = []

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, Answer("Blue"))

    asyncio.run(it.play("paint", answering))
    (request,) = asked
    assert request == Question(request.call, "Which color?", "", (Choice("Red"), Choice("Blue", "as now")))
    assert _results(it, 1) == ["Blue"]


def test_several_choices_are_the_answer_to_a_question(tmp_path: Path) -> None:
    choices: Json = [{"label": "Lint"}, {"label": "Bread, white"}, {"label": "Tests"}]
    question: JsonObject = {"question": "Which?", "choices": choices, "multi_select": True}
    it = talk(tmp_path, call_reply("ask_person", question), text_reply("Both."))

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            approval = event.approval
            assert isinstance(approval, Question)
            assert approval.is_multi_select
            labels = [choice.label for choice in approval.choices]
            it.conversation.answer(approval.id, Answer.of_choices(labels[:2]))

    asyncio.run(it.play("go", answering))
    assert _results(it, 1) == ['Lint, "Bread, white"']


def test_invalid_question_is_refused_without_asking(tmp_path: Path) -> None:
    twice: JsonObject = {"question": "Which?", "choices": [{"label": "a"}, {"label": "a"}]}
    it = talk(tmp_path, call_reply("ask_person", twice), text_reply("Oh."))
    events = asyncio.run(it.play("go"))
    assert not any(isinstance(event, ApprovalRequested) for event in events)
    assert "the same label" in _results(it, 1)[0]


def test_to_do_list_needs_no_approval(tmp_path: Path) -> None:
    items: JsonObject = {"items": [{"task": "look", "state": "done"}, {"task": "fix", "state": "in_progress"}]}
    it = talk(tmp_path, call_reply("todo", items), text_reply("Continuing."), mode="plan")
    events = asyncio.run(it.play("go"))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert finished.outcome.summary == "1 of 2 done"
    assert _results(it, 1) == ["[x] look\n[>] fix"]


def test_repeated_call_asks_in_bypass_mode_too(tmp_path: Path) -> None:
    same = [call_reply("shell", {"command": "cat a.txt"}) for _ in range(5)]
    it = talk(tmp_path, *same, text_reply("All right."), mode="bypass")
    (it.work / "a.txt").write_text("one")
    asked: list[CallApproval] = []

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, Deny("stop that"))

    asyncio.run(it.play("look", answering))
    assert [type(request) for request in asked] == [RepeatedCall, RepeatedCall]
    assert "3 times in a row" in asked[0].question
    assert "cat a.txt" in asked[0].detail
    assert _results(it, 4) == ["Denied: stop that"]


def test_calls_that_cannot_run_ask_and_are_not_denials(tmp_path: Path) -> None:
    wrong = [call_reply("fly\x1b[31m", {"to": "moon"}) for _ in range(4)]
    it = talk(tmp_path, *wrong, text_reply("All right."), mode="bypass")
    asked: list[CallApproval] = []

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            it.conversation.answer(event.approval.id, Deny("there is no moon"))

    events = asyncio.run(it.play("go", answering))
    (approval,) = asked
    assert isinstance(approval, ImpossibleCall)
    assert "there is no such tool" in approval.question
    assert "\x1b" not in approval.question
    assert "moon" in approval.detail
    assert "there is no moon" in _results(it, 4)[0]
    assert ended(events).outcome is Outcome.END_TURN
    assert ended(events).denials == ()


def test_read_tools_run_at_the_same_time(tmp_path: Path) -> None:
    """Two greps of one step, each waiting until the other runs."""
    one_reply = calls_reply(Call("grep", {"pattern": "a"}, "c1"), Call("grep", {"pattern": "b"}, "c2"))
    it = talk(tmp_path, one_reply, text_reply("Found."))
    (it.work / "x.txt").write_text("a\nb\n")
    both = threading.Barrier(2, timeout=20)
    lines = GrepSearch.lines

    def waiting(self: GrepSearch, query: Query, ripgrep: str | None) -> Generator[GrepLine, None, None]:
        both.wait()
        return lines(self, query, ripgrep)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrepSearch, "lines", waiting)
        asyncio.run(it.play("look"))
    assert [result.splitlines()[-1] for result in _results(it, 1)] == ["1:a", "2:b"]


def _results(it: Talk, request: int) -> list[str]:
    blocks = it.provider.requests[request].messages[-1].blocks
    return [block.content for block in blocks if isinstance(block, ToolResult)]


def test_parallel_calls_ask_in_their_order_even_if_the_first_is_judged_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = [tmp_path / name for name in ("a", "b")]
    calls = [Call("read", {"path": str(path)}, path.name) for path in outside]
    it = talk(tmp_path, calls_reply(*calls), text_reply("Read."))
    for path in outside:
        path.write_text("text")
    judge, asked = it.conversation.judge, []

    async def play() -> None:
        is_second_judged = asyncio.Event()

        async def judge_first_last(request: AskApproval) -> ApprovalAnswered | CallApproval:
            if request.call.call_id == "a":
                await is_second_judged.wait()
            verdict = await judge(request)
            is_second_judged.set()
            return verdict

        def answering(event: TurnEvent) -> None:
            if isinstance(event, ApprovalRequested):
                asked.append(event.approval.id)
                it.conversation.answer(event.approval.id, Allow())

        monkeypatch.setattr(it.conversation, "judge", judge_first_last)
        await it.play("read both", answering)

    asyncio.run(play())
    assert asked == ["a", "b"]


def test_diagnostics_are_judged_shown_and_run_as_their_shell_command(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("diagnostics", {"paths": ["a.py"]}), text_reply("Fine."))
    (it.work / "ruff.toml").write_text("")
    asked: list[CallApproval] = []

    def answering(event: TurnEvent) -> None:
        if isinstance(event, ApprovalRequested):
            asked.append(event.approval)
            (it.work / "ruff.toml").unlink()  # the approved command runs, even if the configuration changed since
            it.conversation.answer(event.approval.id, Allow())

    asyncio.run(it.play("check", answering))
    assert [request.detail for request in asked] == ["ruff check --no-fix --output-format=concise a.py"]
    assert "ruff" in _results(it, 1)[0]
    assert "[exit code " in _results(it, 1)[0]


def test_diagnostics_without_changed_files_say_so_without_asking(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("diagnostics", {}), text_reply("Oh."))
    events = asyncio.run(it.play("check"))
    assert not any(isinstance(event, ApprovalRequested) for event in events)
    assert "no file was changed" in _results(it, 1)[0]


KEPT, SHOT = Text("<kept>"), Image("image/png", "QQ==")


def last_request(it: Talk) -> tuple[object, ...]:
    return it.provider.requests[-1].messages[-1].blocks


def test_attachments_and_images_go_before_the_prompt(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("One."), text_reply("Two."))

    async def play() -> None:
        it.conversation.attach((KEPT,))
        _ = [event async for event in it.conversation.submit("look", (SHOT,))]
        assert last_request(it) == (KEPT, SHOT, Text("look"))
        await it.play("again")
        assert last_request(it) == (Text("again"),)

    asyncio.run(play())
    assert it.store.load(it.conversation.session_id).messages[0].blocks == (KEPT, SHOT, Text("look"))


def test_images_are_unsupported_after_the_model_refused_one(tmp_path: Path) -> None:
    refusal = fails(ErrorKind.BAD_REQUEST, message="This model does not support image inputs")
    it = talk(tmp_path, refusal, text_reply("Without it."))
    assert it.conversation.supports_images

    async def play() -> None:
        _ = [event async for event in it.conversation.submit("look", (SHOT,))]

    asyncio.run(play())
    assert not it.conversation.supports_images


def test_steering_takes_the_attachments_and_returns_them_if_withdrawn(tmp_path: Path) -> None:
    it = talk(
        tmp_path, call_reply("shell", {"command": "true"}), text_reply("Done."), text_reply("Next."), mode="bypass"
    )

    def steer(event: TurnEvent) -> None:
        if isinstance(event, ToolFinished):
            it.conversation.attach((KEPT,))
            it.conversation.steer("no, wait", (SHOT,))
            assert it.conversation.withdraw_steering("no, wait")
            assert not it.conversation.withdraw_steering("no, wait")
            it.conversation.steer("and this", (SHOT,))

    asyncio.run(it.play("go", steer))
    assert last_request(it)[-3:] == (KEPT, SHOT, Text("and this"))
    assert not it.conversation.withdraw_steering("and this")


def test_equal_steering_is_added_from_the_first_and_withdrawn_from_the_last() -> None:
    attachments = PendingAttachments(lambda text, external_spans: MentionedFiles())
    attachments.attach((KEPT,))
    attachments.add_steered("faster", ())
    attachments.add_steered("faster", ())
    attachments.forget_steered("faster")  # the turn has added the first message, and its attachment
    attachments.defer("faster")
    assert attachments.blocks == ()


def test_attachments_of_late_steering_are_not_lost(tmp_path: Path) -> None:
    it = talk(tmp_path, [*text_reply("One.")], text_reply("Two."))

    def steer(event: TurnEvent) -> None:
        if isinstance(event, TurnEnded) and len(it.provider.requests) == 1:
            it.conversation.attach((KEPT,))
            it.conversation.steer("late")

    async def play() -> None:
        await it.play("go", steer)
        await it.play("next")

    asyncio.run(play())
    assert last_request(it) == (KEPT, Text("next"))


def test_options_apply_to_one_turn(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("One."), text_reply("Two."))

    async def play() -> list[TurnEvent]:
        options = TurnOptions(output={"max_tokens": 5})
        events = [event async for event in it.conversation.submit("go", options=options)]
        await it.play("next")
        return events

    asyncio.run(play())
    assert [request.max_tokens for request in it.provider.requests] == [5, 8_000]


def test_model_for_one_turn_is_reset_and_an_invalid_one_ends_the_turn(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("One."), text_reply("Two."))
    own = it.conversation.model

    async def play() -> None:
        options = TurnOptions(model="other/m")
        seen = [it.conversation.model async for _ in it.conversation.submit("go", options=options)]
        assert set(seen) == {"other/m"}
        assert it.conversation.model == own
        refused = [event async for event in it.conversation.submit("go", options=TurnOptions(model="nowhere/m"))]
        error = ended(refused).error
        assert error is not None
        assert error.message == "no model nowhere/m"
        assert len(it.provider.requests) == 1
        await it.play("still works")

    asyncio.run(play())


def test_conversation_is_free_after_a_turn_that_was_cancelled_before_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = talk(tmp_path, text_reply("hi"))

    async def play() -> list[TurnEvent]:
        is_waiting = asyncio.Event()

        async def wait_forever() -> None:
            is_waiting.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            patch.setattr(it.conversation.checkpoints, "wait_until_recorded", wait_forever)
            beginning = asyncio.ensure_future(anext(it.conversation.submit("one")))
            await is_waiting.wait()
            beginning.cancel()
            await asyncio.wait([beginning])
        return [event async for event in it.conversation.submit("two")]

    assert ended(asyncio.run(play())).text == "hi"
