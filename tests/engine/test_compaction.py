"""A conversation that fills its window is compacted and continues; a failed compaction changes nothing."""

from __future__ import annotations

import pytest

from qcode.engine import compactor
from qcode.engine.compactor import (
    insert_summary,
    is_summary,
    resolve_items,
    split_transcript,
    without_old_output,
)
from qcode.engine.counting import estimate_text, size_messages
from qcode.engine.effects import CancelRequested, CompactionSettings, CompactRequested, TurnSettings, UserSubmitted
from qcode.engine.model_facts import KnownModel
from qcode.protocol.errors import ErrorKind
from qcode.protocol.events import Compacted, CompactionStarted, Notice, ReplyFinished, Retry, TurnEnded
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant, user
from qcode.protocol.model import ModelFacts
from qcode.protocol.reply import Outcome, StopReason
from qcode.protocol.tools import ToolOutcome
from tests.engine.play import TOOLS, Played, Player, Script, calls, cut, refused, text

SETTINGS = TurnSettings("Be brief.", TOOLS, compaction=CompactionSettings())
SMALL_MODEL = ModelFacts(context_window=20_000)


def step(number: int, size: int = 8_000) -> list[Message]:
    """Return a call and its output of `size` characters."""
    call = ToolCall(f"h{number}", "read", f'{{"path": "f{number}.py"}}')
    return [
        assistant(Text(f"I read {number}."), call),
        Message("user", (ToolResult(f"h{number}", "read", "x" * size),)),
    ]


def long_talk(turns: int = 12, size: int = 4_000) -> list[Message]:
    """Return turns of plain text."""
    found: list[Message] = []
    for number in range(turns):
        found += [user(f"question {number}"), assistant(Text(f"answer {number} " + "word " * (size // 5)))]
    return found


def play(*scripts: Script, history: list[Message], facts: ModelFacts = SMALL_MODEL) -> Played:
    return Player(*scripts, facts=facts, settings=SETTINGS, history=history).play("and now?")


def kinds(played: Played) -> list[str]:
    return [event.kind for event in played.events if isinstance(event, Compacted)]


def test_old_tool_output_is_dropped_first_without_a_request() -> None:
    history = [user("look"), *(item for number in range(8) for item in step(number)), assistant(Text("Seen."))]
    played = play(text("Now this."), history=history)
    assert kinds(played) == ["output"]
    (request,) = played.requests
    results = [block for message in request.messages for block in message.blocks if isinstance(block, ToolResult)]
    assert "removed to save space" in results[0].content
    assert results[-1].content == "x" * 8_000, "the last turns stay word for word"
    assert [call.call_id for message in request.messages for call in message.calls] == [f"h{n}" for n in range(8)]


def test_summary_replaces_old_messages_if_dropping_output_is_not_enough() -> None:
    played = play(text("Task: questions."), text("Fine."), history=long_talk(16))
    assert kinds(played) == ["summary"]
    asked, request = played.requests
    assert (asked.tools, asked.max_tokens <= 8_000) == ((), True)
    assert "question 0" in asked.messages[0].text
    first = request.messages[0]
    assert first.text.count("<conversation_summary>") == 1
    assert "Task: questions." in first.text
    assert "- question 11" in first.text, "user text stays word for word"
    assert request.messages[-1].text.endswith("and now?")
    assert played.end.text == "Fine."
    assert (played.end.api_calls.compactions, played.end.api_calls.total, played.end.replies) == (1, 2, 1)


def test_summary_is_never_shown_or_stored_as_a_reply() -> None:
    played = play(text("SUMMARY WORDS"), text("Fine."), history=long_talk(16))
    assert "SUMMARY" not in played.shown
    assert [message.text for message in played.messages] == ["and now?", "Fine."]
    assert len([event for event in played.events if isinstance(event, ReplyFinished)]) == 1


def test_small_conversation_is_not_compacted() -> None:
    played = play(text("Fine."), history=long_talk(3))
    assert not played.of(CompactionStarted)
    assert len(played.requests) == 1


def test_summary_that_is_not_shorter_is_requested_twice_and_then_abandoned() -> None:
    endless = text("".join(f"word {number} " for number in range(9_000)))
    played = play(endless, endless, text("Fine."), history=long_talk(16))
    assert kinds(played) == []
    assert len(played.requests) == 3
    (notice,) = [event for event in played.events if isinstance(event, Notice)]
    assert "not shorter" in notice.text
    assert played.requests[-1].messages[:-1] == tuple(long_talk(16)), "nothing was changed"
    assert played.end.text == "Fine."


def test_provider_that_fails_changes_nothing() -> None:
    played = play(refused("no", ErrorKind.AUTH), text("Fine."), history=long_talk(16))
    assert kinds(played) == []
    assert played.requests[-1].messages[:-1] == tuple(long_talk(16))
    assert played.end.outcome is Outcome.END_TURN


def test_window_full_during_a_reply_is_compacted_and_the_text_continued() -> None:
    full = text("The first half", stop=StopReason.CONTEXT_WINDOW_EXCEEDED)
    played = play(full, text("Task."), text(" and the second."), history=long_talk(10))
    assert played.end.outcome is Outcome.END_TURN
    assert played.shown == "The first half and the second."
    assert played.messages[-1] == assistant(Text("The first half and the second."))
    assert [event.reason for event in played.events if isinstance(event, Retry)] == ["context"]
    assert played.end.replies == 1


def test_request_refused_for_a_full_window_is_sent_again_after_compaction() -> None:
    played = play(
        refused("the context is too long", ErrorKind.CONTEXT_OVERFLOW),
        text("Task."),
        text("Fine."),
        history=long_talk(10),
    )
    assert played.end.text == "Fine."
    assert kinds(played) == ["summary"]


def test_second_full_window_ends_with_the_text() -> None:
    full = text("The first half", stop=StopReason.CONTEXT_WINDOW_EXCEEDED)
    again = text(", a bit more", stop=StopReason.CONTEXT_WINDOW_EXCEEDED)
    played = play(full, text("Task."), again, history=long_talk(10))
    assert played.end.outcome is Outcome.MAX_TOKENS
    assert played.end.text == "The first half, a bit more"
    assert len(played.requests) == 3


def test_full_window_ends_the_turn_without_compaction() -> None:
    full = text("The first half", stop=StopReason.CONTEXT_WINDOW_EXCEEDED)
    played = Player(full, facts=SMALL_MODEL, history=long_talk(4)).play()
    assert (played.end.outcome, played.end.text) == (Outcome.MAX_TOKENS, "The first half")


def test_prompt_larger_than_the_window_ends_with_the_figures() -> None:
    player = Player(facts=ModelFacts(context_window=8_000), settings=SETTINGS)
    player.give(UserSubmitted(user("word " * 20_000)))
    error = player.played.end.error
    assert error is not None
    assert error.kind == ErrorKind.CONTEXT_OVERFLOW
    assert "8,000" in error.message
    assert player.played.requests == []


def test_user_can_request_compaction_with_a_focus() -> None:
    player = Player(text("Task."), settings=SETTINGS, history=long_talk(10), facts=SMALL_MODEL)
    player.give(CompactRequested("the parser"))
    while player.step():
        pass
    assert kinds(player.played) == ["summary"]
    assert "the parser" in player.played.requests[0].messages[0].text
    assert player.played.end.outcome is Outcome.END_TURN
    assert player.played.messages == []


def test_requested_compaction_with_nothing_to_shorten_says_so() -> None:
    player = Player(settings=SETTINGS, history=[user("hi"), assistant(Text("hello"))])
    player.give(CompactRequested())
    (notice,) = [event for event in player.played.events if isinstance(event, Notice)]
    assert "could not be compacted" in notice.text
    assert player.played.is_over


def test_cancel_while_summarizing_changes_nothing_and_ends_the_turn() -> None:
    player = Player(text("Task."), facts=SMALL_MODEL, settings=SETTINGS, history=long_talk(16))
    player.give(UserSubmitted(user("and now?")))
    player.step()
    player.give(CancelRequested())
    assert player.played.end.outcome is Outcome.CANCELLED
    assert kinds(player.played) == []
    assert len(player.played.requests) == 1


def test_cancel_during_compaction_keeps_the_text() -> None:
    full = text("The first half", stop=StopReason.CONTEXT_WINDOW_EXCEEDED)
    player = Player(full, text("Task."), facts=SMALL_MODEL, settings=SETTINGS, history=long_talk(10))
    player.give(UserSubmitted(user("and now?")))
    while len(player.played.requests) < 2:
        player.step()
    player.give(CancelRequested())
    assert player.played.end.outcome is Outcome.CANCELLED
    assert player.played.messages[-1] == assistant(Text("The first half"))


def test_configured_model_writes_the_summary() -> None:
    writer = KnownModel("other", "small", ModelFacts(context_window=6_000))
    settings = TurnSettings("s", TOOLS, compaction=CompactionSettings(writer))
    player = Player(text("Task."), text("Fine."), facts=SMALL_MODEL, settings=settings, history=long_talk(16))
    seen = player.play("and now?").sent
    assert [(item.request.model, item.is_summary) for item in seen] == [("small", True), ("m", False)]
    size = size_messages(seen[0].request.messages)
    assert size + seen[0].request.max_tokens <= 6_000, "the request for a summary fits its own model's window"


@pytest.mark.parametrize("count", [1, 2, 5, 9])
def test_calls_and_results_are_never_separated(count: int) -> None:
    history = [user("go"), *(item for number in range(count) for item in step(number, 3_000)), assistant(Text("end"))]
    shape = split_transcript(history, 6_000)
    compacted = resolve_items(insert_summary(shape, "Task.", TOOLS), history)
    ids = [call.call_id for message in compacted for call in message.calls]
    assert ids == [block.call_id for message in compacted for block in message.blocks if isinstance(block, ToolResult)]
    assert compacted[-1] == history[-1]


def test_prompts_changed_files_and_to_dos_survive_two_summaries() -> None:
    write = ToolCall("w1", "write", '{"path": "src/a.py", "content": ""}')
    todo = ToolCall("t1", "todo", '{"todos": ["fix the parser"]}')
    done = Message("user", (ToolResult("w1", "write", "ok"), ToolResult("t1", "todo", "ok")))
    history = [user("Use tabs, never spaces."), assistant(write, todo), done, *long_talk(8)]
    once = resolve_items(insert_summary(split_transcript(history, 8_000), "First.", TOOLS), history)
    twice = resolve_items(
        insert_summary(split_transcript([*once, *long_talk(8)], 8_000), "Second.", TOOLS), [*once, *long_talk(8)]
    )
    assert is_summary(twice[0])
    for needed in ("Use tabs, never spaces.", "src/a.py", "fix the parser", "Second."):
        assert twice[0].text.count(needed) == 1, needed


def test_huge_output_in_the_last_turn_keeps_its_start_and_end() -> None:
    huge = Message("user", (ToolResult("h0", "read", "begin " + "x" * 400_000 + " end"),))
    history = [user("go"), step(0)[0], huge]
    (result,) = resolve_items(without_old_output(split_transcript(history, 20_000)), history)[-1].blocks
    assert isinstance(result, ToolResult)
    assert result.content.startswith("begin ")
    assert result.content.endswith(" end")
    assert len(result.content) < 20_000


def test_text_to_summarize_fits_the_given_size() -> None:
    for most in (300, 2_000, 50_000):
        found = compactor.render_messages(long_talk(30), most)
        assert estimate_text(found) <= most
    assert "question 0" in compactor.render_messages(long_talk(30), 50_000)


def test_compaction_names_kept_messages_by_position() -> None:
    player = Player(text("Task."), text("Fine."), facts=SMALL_MODEL, settings=SETTINGS, history=long_talk(16))
    (compact,) = player.play("and now?").compacted
    before = [*long_talk(16), user("and now?")]
    assert isinstance(compact.items[0], Message)
    assert compact.items[-1] == len(before) - 1
    assert all(isinstance(item, int) for item in compact.items[1:])


def test_long_turn_is_compacted_between_steps_never_inside_one() -> None:
    reads = [calls(("read", '{"path": "a"}'), output=None) for _ in range(6)]
    player = Player(*reads, text("Done."), facts=SMALL_MODEL, settings=SETTINGS)
    player.outcome = lambda run: ToolOutcome("y" * 24_000)
    played = player.play("read a lot")
    assert played.end.text == "Done."
    assert kinds(played)
    for request in played.requests:
        asked = [call.call_id for message in request.messages for call in message.calls]
        given = [b.call_id for message in request.messages for b in message.blocks if isinstance(b, ToolResult)]
        assert asked == given


def test_truncated_reply_without_room_is_continued_after_compaction() -> None:
    history = long_talk(11, 5_400)
    played = play(
        cut("first ", output=None), cut("first ", output=None), text("Task."), text("second."), history=history
    )
    assert isinstance(played.events[-1], TurnEnded)
    assert played.end.text.startswith("first")
