"""How the recorder of shown events measures a turn, and how prompts of commands are shown in lists."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from qcode.agent.sessions.export import ExportRequest
from qcode.agent.sessions.history import HistoryEntry, StoredMessage
from qcode.agent.sessions.recorders import ShownRecorder
from qcode.agent.sessions.replay import replay_messages
from qcode.agent.sessions.shown import ShownItem
from qcode.protocol.approvals import PlanApproval, Question, ToolApproval, TurnOptions
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.events import (
    AgentEvent,
    ApprovalRequested,
    LimitReached,
    ReplyFinished,
    Retry,
    StepStarted,
    ToolCallProgress,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnEvent,
    Waiting,
)
from qcode.protocol.messages import Block, Reasoning, Text, ToolCall, assistant, user
from qcode.protocol.tools import ToolOutcome
from tests.fakes.conversation import talk
from tests.fakes.scripted import call_reply, text_reply
from tests.tui.scripted import FixedClock, ended

RUN, OTHER, AGENT = (ToolCall(name, "shell", "{}") for name in ("c1", "c2", "a1"))
ASK = ApprovalRequested(ToolApproval(RUN, "Run it?", "x"))
LIMIT = LimitReached(ErrorInfo("rate_limit", "limit"), 60.0, is_question=True)
OVER = ended()


def done(call: ToolCall) -> ToolFinished:
    return ToolFinished(call, ToolOutcome("ok"), "done")


@pytest.mark.parametrize(
    ("events", "seconds"),
    [
        ([(1, ASK), (31, ToolStarted(RUN)), (35, done(RUN)), (36, OVER)], 6),
        ([(1, ApprovalRequested(PlanApproval(RUN, "Do it?", "x"))), (31, done(RUN)), (32, OVER)], 2),
        ([(1, ApprovalRequested(Question(RUN, "Where?"))), (31, done(RUN)), (32, OVER)], 2),
        ([(1, ASK), (31, OVER)], 1),
        ([(1, LIMIT), (31, Waiting(5.0, "limit", 1)), (36, OVER)], 6),
        # Another call runs meanwhile, until the 20th second.
        (
            [(0, ToolStarted(OTHER)), (1, ASK), (20, done(OTHER)), (31, ToolStarted(RUN)), (32, done(RUN)), (33, OVER)],
            22,
        ),
        # The only sub-agent asks, so its call waits as well.
        (
            [
                (0, ToolStarted(AGENT)),
                (1, ApprovalRequested(ToolApproval(RUN, "Run it?", "x", agent="task"))),
                (31, AgentEvent("a1", ToolStarted(RUN))),
                (33, done(AGENT)),
                (34, OVER),
            ],
            4,
        ),
        # A tool server asks during a call, which may work meanwhile.
        ([(0, ToolStarted(RUN)), (1, ApprovalRequested(Question(RUN, "?", server="s"))), (9, done(RUN)), (9, OVER)], 9),
    ],
)
def test_duration_of_a_turn_leaves_out_the_time_it_only_waited_for_the_user(
    events: Sequence[tuple[float, TurnEvent]], seconds: float
) -> None:
    clock = FixedClock()
    clock.now = 0.0
    recorder = ShownRecorder(lambda items: None, clock)
    last: TurnEvent | None = None
    for at, event in events:
        clock.now = at
        last = recorder.record_event(event)
    assert isinstance(last, TurnEnded)
    assert last.seconds == seconds


def test_command_stands_for_its_prompt_in_every_list_of_the_session(tmp_path: Path) -> None:
    talked = talk(
        tmp_path,
        call_reply("write", {"path": "notes.md", "content": "# Notes\n"}),
        text_reply("Written."),
        mode="accept-edits",
    )
    conversation = talked.conversation

    async def body() -> None:
        async for _ in conversation.submit("A long text for the model.", options=TurnOptions(shown_prompt="/init")):
            pass
        checkpoints = conversation.checkpoints
        assert [change.text for change in await checkpoints.turn_changes()] == ["/init"]
        assert [point.text for point in checkpoints.rewind_points()] == ["/init"]
        assert (await checkpoints.perform(await checkpoints.plan_undo())).prompt == "/init"
        await checkpoints.perform(await checkpoints.plan_redo())

    asyncio.run(body())
    assert [used.prompt for used in conversation.usage()] == ["/init"]
    assert talked.sessions.title == "/init"
    assert [summary.title for summary in talked.store.summaries()] == ["/init"]
    assert talked.sessions.preview(conversation.session_id)[0] == user("/init")
    page, text = (talked.sessions.export(ExportRequest(form)) for form in ("html", "md"))
    assert [turn.label for turn in talked.sessions.turns()] == ["/init"]
    assert "A long text for the model." in page.split("Prompt sent for the command")[1]
    assert "\n/init\n" in text
    assert "A long text" not in text
    conversation.release()
    again = talk(tmp_path, resumes=conversation.session_id)
    assert [used.prompt for used in again.conversation.usage()] == ["/init"]


def test_command_before_a_prompt_is_in_the_draft_after_undo_and_not_in_the_title(tmp_path: Path) -> None:
    talked = talk(tmp_path, text_reply("A plan."))
    conversation = talked.conversation

    async def body() -> str:
        async for _ in conversation.submit("fix the cart", options=TurnOptions(shown_prompt="/plan fix the cart")):
            pass
        assert talked.sessions.title == "fix the cart"
        assert [summary.title for summary in talked.store.summaries()] == ["fix the cart"]
        assert "Prompt sent for the command" not in talked.sessions.export(ExportRequest("html"))
        checkpoints = conversation.checkpoints
        return (await checkpoints.perform(await checkpoints.plan_undo())).prompt

    assert asyncio.run(body()) == "/plan fix the cart"


@pytest.mark.parametrize("shown", ["see [Pasted text 1]", "/usr/bin/x fails: [Pasted text 1]"])
def test_undone_prompt_with_a_paste_is_complete(tmp_path: Path, shown: str) -> None:
    talked = talk(tmp_path, text_reply("Seen."))
    conversation, sent = talked.conversation, shown.replace("[Pasted text 1]", "line 1\nline 2")

    async def body() -> str:
        async for _ in conversation.submit(sent, options=TurnOptions(shown_prompt=shown)):
            pass
        checkpoints = conversation.checkpoints
        return (await checkpoints.perform(await checkpoints.plan_undo())).prompt

    assert asyncio.run(body()) == sent


@pytest.mark.parametrize(
    ("shown", "title"),
    [
        ("[Pasted text #1 +40 lines] why does it fail?", "why does it fail?"),
        ("why? [Pasted text #1 +40 lines]\n[Pasted text #1 +40 lines] and this", "why? and this"),
        ("[Pasted text #1 +40 lines]", "line 1 line 2"),
    ],
)
def test_title_has_the_typed_words_and_no_pasted_text_beside_them(tmp_path: Path, shown: str, title: str) -> None:
    talked = talk(tmp_path, text_reply("Seen."))
    sent = shown.replace("[Pasted text #1 +40 lines]", "line 1\nline 2")

    async def body() -> None:
        async for _ in talked.conversation.submit(sent, options=TurnOptions(shown_prompt=shown)):
            pass

    asyncio.run(body())
    assert talked.sessions.title == title
    assert [summary.title for summary in talked.store.summaries()] == [title]


@pytest.mark.parametrize(
    "blocks", [(ToolCall("c1", "shell", "{}"),), (Reasoning("hm"), ToolCall("c1", "shell", "{}")), (Reasoning("hm"),)]
)
def test_resumed_reply_without_text_shows_its_retries(blocks: tuple[Block, ...]) -> None:
    retry = Retry(is_continuation=False, reason="fallback", attempt=1, max_tokens=100)
    stored = StoredMessage(HistoryEntry(assistant(*blocks)), is_turn_start=False)
    recorder = ShownRecorder(stored.shown_events.extend, FixedClock())
    finished = ReplyFinished(stop=None, raw_stop="", parts=1, message=stored.entry.message)
    for event in (StepStarted(1), retry, ToolCallProgress(0, "c1", "shell", 2), finished):
        recorder.record_event(event)
    replayed = list(replay_messages([stored]))
    assert retry in replayed
    calls = [item for item in replayed if isinstance(item, ToolCallProgress)]
    assert not calls or replayed.index(retry) < replayed.index(calls[0])


def test_mark_behind_a_text_that_became_shorter_is_shown() -> None:
    retry = Retry(is_continuation=True, reason="max_tokens", attempt=1, max_tokens=100)
    stored = StoredMessage(HistoryEntry(assistant(Text("[redacted]"))), is_turn_start=False)
    stored.shown_events.append(ShownItem(retry, 90))
    assert retry in list(replay_messages([stored]))
