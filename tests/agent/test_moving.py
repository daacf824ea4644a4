"""Rewinding, compacting, resuming and exporting with the real driver, store and tools."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.agent.models.side_questions import SideQuestions
from qcode.agent.sessions.export import ExportRequest
from qcode.agent.sessions.replay import replay_messages
from qcode.agent.usage import EarlierTurns
from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.protocol.events import Compacted, Notice, ToolOutput, TurnEnded, TurnEvent
from qcode.protocol.messages import ToolResult, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import TextDelta
from tests.fakes.conversation import Model, talk
from tests.fakes.scripted import Call, Steps, call_reply, calls_reply, cut_call, text_reply

WORDS = "".join(f"word {number} " for number in range(1_500))
SHORT, LONG, SUMMARY, EMPTY = (text_reply(text) for text in ("Hello.", WORDS, "Task: x.", ""))
TRUNCATED = cut_call("write", '{"path": "a.txt", "content": "one two three')
BROKEN: Steps = (ProviderError(ErrorKind.AUTH, "the key was refused"),)


def test_undo_and_redo_change_files_messages_and_the_next_request(tmp_path: Path) -> None:
    it = talk(
        tmp_path,
        text_reply("Hello."),
        call_reply("write", {"path": "a.txt", "content": "new\n"}),
        text_reply("Written."),
        text_reply("After."),
        mode="bypass",
    )

    async def run() -> None:
        await it.play("hi")
        before = it.conversation.messages
        await it.play("write it")
        after = it.conversation.messages
        checkpoints = it.conversation.checkpoints
        report = await checkpoints.perform(await checkpoints.plan_undo())
        assert report.prompt == "write it"
        assert (it.conversation.messages, list(it.work.iterdir())) == (before, [])
        await checkpoints.perform(await checkpoints.plan_redo())
        assert it.conversation.messages == after
        assert (it.work / "a.txt").read_text() == "new\n"
        await checkpoints.perform(await checkpoints.plan_undo())
        await it.play("something else")

    asyncio.run(run())
    assert [message.text for message in it.provider.requests[-1].messages] == ["hi", "Hello.", "something else"]
    loaded = it.store.load(it.conversation.session_id)
    assert loaded.messages == it.conversation.messages


def test_changes_of_a_command_are_counted_in_its_summary_and_can_be_undone(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": "echo by command > a.txt"}), text_reply("Ok."), mode="bypass")
    (it.work / "a.txt").write_text("mine\n")

    async def run() -> None:
        events = await it.play("run")
        summaries = [getattr(event, "outcome", None) for event in events if type(event).__name__ == "ToolFinished"]
        assert "1 file changed" in summaries[0].summary  # type: ignore[union-attr]  # the outcome of a tool
        assert summaries[0].files_without_diff == ("a.txt",)  # type: ignore[union-attr]  # as above
        (stored,) = it.store.load(it.conversation.session_id).history.stored[1].shown_results.values()
        assert stored.files_without_diff == ("a.txt",)
        plan = await it.conversation.checkpoints.plan_undo()
        assert [file.path for file in plan.doubtful] == ["a.txt"]
        await it.conversation.checkpoints.perform(plan, ["a.txt"])

    asyncio.run(run())
    assert (it.work / "a.txt").read_text() == "mine\n"


def test_undo_is_refused_while_a_turn_runs(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("Hello."))

    async def run() -> None:
        events = it.conversation.submit("hi")
        await anext(events)
        with pytest.raises(ValueError, match="A turn is running"):
            await it.conversation.checkpoints.plan_undo()
        await events.aclose()

    asyncio.run(run())


def test_compaction_is_stored_can_be_undone_and_exports_in_full(tmp_path: Path) -> None:
    long = "".join(f"word {number} " for number in range(1_500))
    model = Model(facts=ModelFacts(context_window=40_000))
    it = talk(tmp_path, text_reply(long), text_reply(long), text_reply("Task: x."), text_reply("Fine."), model=model)

    async def run() -> None:
        await it.play("one")
        await it.play("two")
        before = it.conversation.messages
        events = [event async for event in it.conversation.compact("names")]
        assert [type(event) for event in events if isinstance(event, (Compacted, TurnEnded))] == [Compacted, TurnEnded]
        short = it.conversation.messages
        assert len(short) < len(before)
        assert it.store.load(it.conversation.session_id).messages == short, "a resume continues with the short one"
        text = it.sessions.export(ExportRequest("md"))
        assert text.startswith("# one\n")
        assert text.count(long.strip()) == 2
        checkpoints = it.conversation.checkpoints
        await checkpoints.perform(await checkpoints.plan_undo())
        assert it.conversation.messages == before
        await checkpoints.perform(await checkpoints.plan_redo())
        assert it.conversation.messages == short
        await it.play("three")

    asyncio.run(run())
    assert it.provider.requests[-1].messages[0].text.startswith("<conversation_summary>")


def test_resumed_session_shows_its_compactions_and_their_cost_separately(tmp_path: Path) -> None:
    long = "".join(f"word {number} " for number in range(1_500))
    replies = [text_reply(long), text_reply(long), text_reply(""), text_reply(""), text_reply("Task: x.")]
    it = talk(tmp_path, *replies, model=Model(facts=ModelFacts(context_window=40_000)))

    async def run() -> None:
        await it.play("one")
        await it.play("two")
        for _ in range(2):
            assert [event async for event in it.conversation.compact()]

    asyncio.run(run())
    history = it.store.load(it.conversation.session_id).history
    rows = EarlierTurns(history).usage(lambda name: None)
    assert [(row.prompt, row.usage, row.api_calls) for row in rows] == [
        (row.prompt, row.usage, row.api_calls) for row in it.conversation.usage()
    ]
    assert [row.prompt for row in rows] == ["one", "two", "/compact", "/compact"]
    items = replay_messages([history.stored[number] for number in history.all_numbers()])
    assert [type(item) for item in items if isinstance(item, Notice | Compacted)] == [Notice, Compacted]


@pytest.mark.parametrize(
    ("prompts", "replies"),
    [
        # Too little text to compact, before and after a turn.
        (("one", "/compact"), (SHORT,)),
        (("one", "two", "/compact", "/compact"), (LONG, LONG, SUMMARY)),
        # The model refuses the summary after a compaction, and after a turn without a reply.
        (("one", "two", "/compact", "three", "/compact"), (LONG, LONG, SUMMARY, LONG, BROKEN)),
        (("one", "two", "/compact", "/compact"), (LONG, LONG, EMPTY, EMPTY, BROKEN)),
        (("one", "two", "three", "/compact"), (LONG, LONG, BROKEN, BROKEN)),
        (("one", "/compact", "two"), (BROKEN, BROKEN)),
        (("one",), (TRUNCATED, TRUNCATED, SHORT)),
    ],
)
def test_resumed_session_has_the_same_rows_of_usage(
    prompts: tuple[str, ...], replies: tuple[Steps, ...], tmp_path: Path
) -> None:
    it = talk(tmp_path, *replies, model=Model(facts=ModelFacts(context_window=40_000)))

    async def run() -> None:
        for prompt in prompts:
            conversation = it.conversation
            events = conversation.compact() if prompt == "/compact" else conversation.submit(prompt)
            assert [event async for event in events]

    asyncio.run(run())
    rows = EarlierTurns(it.store.load(it.conversation.session_id).history).usage(lambda name: None)
    live = it.conversation.usage()
    assert tuple(row.prompt for row in live) == prompts
    assert [(row.prompt, row.usage, row.api_calls, row.truncated_call_tokens) for row in rows] == [
        (row.prompt, row.usage, row.api_calls, row.truncated_call_tokens) for row in live
    ]
    assert (live[0].truncated_call_tokens > 0) is (TRUNCATED in replies)


def test_asides_before_and_after_a_compaction_without_summary_keep_their_place_after_a_resume(tmp_path: Path) -> None:
    long = "".join(f"word {number} " for number in range(1_500))
    replies = [*[text_reply(long)] * 2, text_reply("Early."), *[text_reply("")] * 2, text_reply("Late.")]
    it = talk(tmp_path, *replies, model=Model(facts=ModelFacts(context_window=40_000)))
    asides = SideQuestions(it.conversation, None)

    async def run() -> None:
        await it.play("one")
        await it.play("two")
        assert [event async for event in asides.ask("before")]
        assert [event async for event in it.conversation.compact()]
        assert [event async for event in asides.ask("after")]

    asyncio.run(run())
    rows = EarlierTurns(it.store.load(it.conversation.session_id).history).usage(lambda name: None)
    assert [row.prompt for row in it.conversation.usage()] == ["one", "two", "/btw before", "/compact", "/btw after"]
    assert [(row.prompt, row.usage) for row in rows] == [(row.prompt, row.usage) for row in it.conversation.usage()]


def test_other_sessions_can_be_resumed_renamed_and_deleted(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("First."), text_reply("Second."), text_reply("Third."))
    library = it.sessions

    async def run() -> None:
        await it.play("find the needle")
        first = it.conversation.session_id
        it.conversation.clear()
        await it.play("other")
        second = it.conversation.session_id
        assert set(library.passages("NEEDLE find", [session.session_id for session in library.sessions()])) == {first}
        library.rename(first, "  My   name ")
        assert {info.session_id: info.title for info in library.sessions()} == {first: "My name", second: "other"}
        assert library.resume(first) == ()
        assert it.conversation.messages == (user("find the needle"), *it.conversation.messages[1:])
        await it.play("continue")
        library.delete(second)
        with pytest.raises(ValueError, match="open here"):
            library.delete(first)
        copy = library.fork()
        assert copy == it.conversation.session_id != first
        assert it.conversation.messages == it.store.load(first).messages

    asyncio.run(run())


def test_export_during_a_turn_says_that_the_turn_and_its_call_are_running(tmp_path: Path) -> None:
    commands = [Call("shell", {"command": f"echo {word}"}, word) for word in ("built", "tested")]
    it = talk(tmp_path, calls_reply(*commands), text_reply("Ok."), mode="bypass")
    exports: list[str] = []

    def export(event: TurnEvent) -> None:
        if isinstance(event, ToolOutput) and event.call_id == "tested":
            exports.extend(it.sessions.export(ExportRequest(form)) for form in ("md", "html"))

    asyncio.run(it.play("run", export))
    assert len(exports) == 2
    for text in exports:
        assert text.count("still running") == 1, "the first command has ended"
        assert "not started" not in text
        assert "This turn had not ended when it was exported." in text
        assert "interrupted" not in text
    after = it.sessions.export(ExportRequest("md"))
    assert "still running" not in after
    assert "had not ended" not in after


def test_export_during_a_reply_has_its_text_so_far(tmp_path: Path) -> None:
    it = talk(
        tmp_path,
        call_reply("shell", {"command": "echo built"}),
        text_reply("It is done. Nothing is left."),
        mode="bypass",
    )
    exports: list[str] = []

    def export(event: TurnEvent) -> None:
        if isinstance(event, TextDelta) and not exports:
            exports.extend(it.sessions.export(ExportRequest(form)) for form in ("md", "html", "json"))

    asyncio.run(it.play("run", export))
    assert len(exports) == 3
    for text in exports:
        assert "It is done." in text
    for text in exports[:2]:
        assert text.count("This turn had not ended when it was exported.") == 1
        assert "still running" not in text
    assert it.sessions.export(ExportRequest("md")).count("It is done.") == 1


def test_each_result_of_a_step_is_stored_at_once(tmp_path: Path) -> None:
    it = talk(tmp_path, call_reply("shell", {"command": "echo built"}), text_reply("Ok."), mode="bypass")
    asyncio.run(it.play("run"))
    kinds = [line.split('"')[3] for line in next(it.store.folder.glob("*.jsonl")).read_text().splitlines()]
    assert kinds == ["session", "message", "message", "intent", "result", "message", "message", "shown"]
    results = [
        block for message in it.conversation.messages for block in message.blocks if isinstance(block, ToolResult)
    ]
    assert len(results) == 1
    assert it.conversation.messages[-1] == assistant(*it.conversation.messages[-1].blocks)


def test_context_and_cost_are_reported(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("Hello."))
    asyncio.run(it.play("hi"))
    report = it.conversation.context_report()
    assert report.used + report.free + report.reserve == report.window
    assert report.used > 0
    (turn,) = it.conversation.usage()
    assert (turn.prompt, turn.api_calls.total) == ("hi", 1)
