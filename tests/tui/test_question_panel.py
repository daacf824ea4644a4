"""The panel of a question: free answers, the mouse, scrolling, small screens, and what the status line says."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from qcode.protocol.approvals import (
    AcceptPlan,
    Allow,
    Answer,
    CallApproval,
    Choice,
    Decision,
    Deny,
    Draft,
    PlanApproval,
    Question,
    ToolApproval,
)
from qcode.protocol.events import ApprovalRequested, ReplyFinished, ToolFinished, ToolStarted
from qcode.protocol.reply import StopReason
from qcode.protocol.tools import ToolOutcome
from qcode.text.diff import unified_diff
from qcode.tui.app import QcodeApp
from qcode.tui.panels import draft as typing
from qcode.tui.panels.answer_field import AnswerField
from qcode.tui.panels.draft import GUARD_SECONDS
from qcode.tui.screens.pager import PagerScreen
from tests.agent.context.folders import make_executable
from tests.tui.harness import Running, drive
from tests.tui.scripted import Script, ScriptedConversation, Step, UntilAnswered, call, ended, reply, says
from tests.tui.test_approval import FOUR_REQUEST, RUNNER
from tests.tui.test_approval_looks import REWRITTEN

ASK = call("ask_person", '{"question": "What is it called?"}')
FREE = Question(ASK, "What is it called?", "It appears in the docs.")
CHOICES = Question(ASK, "Which color?", choices=(Choice("Red"), Choice("Blue", "as now")))
PLAN = PlanApproval(call("exit_plan_mode", '{"plan": "# Cache"}'), "Carry out this plan?", "# Cache\n\nx")
COMMAND = ToolApproval(call(), "Run this command?", "ls -la", "shell(ls *)", kind="command")
LONG = replace(COMMAND, detail="\n".join(f"echo {number}" for number in range(60)))
TEXT = "\n\n".join(f"line {number}" for number in range(100))


def _script(*approvals: CallApproval, text: str = TEXT) -> ScriptedConversation:
    asked: ReplyFinished = reply(text, *(approval.call for approval in approvals), stop=StopReason.TOOL_USE)
    script: list[Step] = [*says(text), asked]
    for approval in approvals:
        result = ToolFinished(approval.call, ToolOutcome("total 0"), "done")
        script += [ApprovalRequested(approval), UntilAnswered(approval.id), ToolStarted(approval.call), result]
    return ScriptedConversation([*script, ended()])


async def _until_asked(run: Running, *, is_late: bool = True) -> None:
    await run.send("look")
    await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
    await run.pilot.pause()
    if is_late:
        run.clock.now += GUARD_SECONDS


async def _stop(run: Running) -> None:
    while run.app.turns.is_running:
        await run.pilot.press("escape")
        await run.pilot.pause()


def _field(run: Running) -> AnswerField:
    return run.app.widgets.approval.query_one(AnswerField)


async def _click(run: Running, words: str) -> None:
    """Click on the first row of the screen that contains `words`, at their beginning."""
    rows = run.screen.split("\n")
    y = next(number for number, row in enumerate(rows) if words in row)
    await run.pilot.click(offset=(rows[y].index(words) + 1, y))
    await run.pilot.pause()


def test_free_question_has_a_text_field_with_the_focus_at_once() -> None:
    conversation = _script(FREE)

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert run.app.focused is _field(run)
        assert "Write an answer" not in run.screen
        await run.pilot.press(*"tiny 1y", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("tiny 1y"))]

    drive(test, conversation)


def test_text_typed_while_a_free_question_opens_goes_to_the_draft() -> None:
    conversation = _script(FREE)

    async def test(run: Running) -> None:
        await _until_asked(run, is_late=False)
        for key in ("a", "l", "s", "o", "enter"):
            await run.pilot.press(key)
            run.clock.now += 0.1
        _field(run).post_message(events.Paste(" this"))
        await run.until(lambda: run.app.widgets.prompt.text == "also this")
        assert _field(run).text == ""
        assert "Typing your next message: also this" in run.screen
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("o", "k", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("ok"))]
        assert run.app.widgets.prompt.text == "also this"

    drive(test, conversation)


def test_escape_at_a_free_question_stops_the_turn_and_keeps_the_text() -> None:
    conversation = _script(FREE)

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "writing an answer · Enter send · Esc to interrupt" in run.screen
        await run.pilot.press(*"tiny", "escape")
        await run.until_idle()
        assert conversation.cancels == 1
        assert conversation.answers == [("c1", Deny())]
        assert run.app.widgets.prompt.text == "tiny"
        assert run.app.focused is run.app.widgets.prompt

    drive(test, conversation)


async def _press_slowly(run: Running, *keys: str) -> None:
    for key in keys:
        run.clock.now += 2 * GUARD_SECONDS
        await run.pilot.press(key)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["enter", "tab"])
def test_text_typed_at_a_question_with_choices_becomes_the_answer(key: str) -> None:
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"dark gray")
        await run.until(lambda: "Typing an answer: dark gray  Enter use it · ↑↓ choose" in run.screen)
        assert "typing an answer · Esc" in run.screen
        await run.pilot.press(key)
        assert conversation.answers == []
        await run.until(lambda: _field(run).text == "dark gray" and run.app.widgets.prompt.is_empty)
        assert "› 3 Other" in run.screen
        assert "writing an answer · Enter send · Esc back" in run.screen
        await _press_slowly(run, "e", "n", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("dark grayen"))]
        assert run.app.widgets.prompt.is_empty

    drive(test, conversation)


def test_hidden_characters_of_a_choice_are_escaped_once() -> None:
    labels = ("two\nlines", "a\u200bb", "C:\\new ")
    conversation = _script(Question(ASK, "Which?", choices=tuple(map(Choice, labels))))

    async def test(run: Running) -> None:
        await _until_asked(run)
        for row in ("1 two\u23celines", "2 a\\u200bb", "3 C:\\new\\x20"):
            assert row in run.screen
        assert "5c" not in run.screen
        await run.pilot.press("4", "a", "ctrl+j", "b", "escape")
        await run.until(lambda: '4 Other: write an answer (t)  "a\u23ceb"' in run.screen)
        await run.pilot.press("3")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("C:\\new "))]

    drive(test, conversation)


ACTIONS = (Choice("Leave it out", is_action=True), Choice("Decline", is_action=True))
FIELD = Question(ASK, "How many?", "Count", ACTIONS, server="fake")


@pytest.mark.parametrize(
    ("keys", "answer"),
    [(("2", "enter"), "2"), (("escape", "2"), "Leave it out"), (("up", "down", "down", "down", "enter"), "Decline")],
)
def test_field_of_a_server_without_choices_opens_its_text_field(keys: tuple[str, ...], answer: str) -> None:
    conversation = _script(FIELD)

    async def test(run: Running) -> None:
        await _until_asked(run, is_late=False)
        await run.pilot.press("1")
        assert run.app.widgets.prompt.text == "1"
        run.clock.now += GUARD_SECONDS
        assert run.app.focused is _field(run)
        assert "  1 Write an answer (t)" in run.screen
        await _press_slowly(run, *keys)
        await run.until_idle()
        assert [decision for _, decision in conversation.answers] == [Answer(answer)]

    drive(test, conversation)


def test_confirmation_of_a_server_has_no_text_field_and_typed_text_stays_in_the_prompt() -> None:
    choices = (Choice("Send"), Choice("Decline"))
    conversation = _script(Question(ASK, "Send this?", choices=choices, server="fake", accepts_text=False))

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "2 Decline" in run.screen
        assert "write an answer" not in run.screen
        await run.pilot.press(*"looks good", "tab")
        run.clock.now += GUARD_SECONDS
        assert not _field(run).display
        assert run.app.widgets.prompt.text == "looks good"
        await _press_slowly(run, "up", "1")
        await run.until_idle()
        assert [decision for _, decision in conversation.answers] == [Answer("Send")]

    drive(test, conversation)


def test_label_of_a_server_is_not_escaped_again() -> None:
    question = Question(ASK, "Which?", choices=(Choice("a\\u200bb"), Choice("dir\\x5csub")), server="fake")
    conversation = _script(question)

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "1 a\\u200bb" in run.screen
        assert "2 dir\\x5csub" in run.screen
        await _stop(run)

    drive(test, conversation)


def test_text_typed_at_a_plan_says_what_to_change() -> None:
    conversation = _script(PLAN)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"use a file")
        await run.until(lambda: "Typing what to change: use a file  Enter use it" in run.screen)
        await run.pilot.press("enter")
        await run.until(lambda: _field(run).text == "use a file")
        assert "writing what to change · Enter send · Esc back" in run.status
        assert conversation.answers == []
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny("use a file"))]

    drive(test, conversation)


def test_answer_that_begins_with_a_number_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 600.0)
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"2 of them", "enter")
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("2 of them"))]

    drive(test, conversation)


def test_burst_of_several_lines_never_answers_a_question() -> None:
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run)
        for key in ("a", "b", "enter", "enter", "y", "enter", "2", "enter", "enter"):
            await run.pilot.press(key)
            run.clock.now += GUARD_SECONDS / 2
        assert conversation.answers == []
        assert _field(run).text == "ab\n\ny\n2"
        _field(run).post_message(events.Paste("pasted\n"))
        await run.until(lambda: _field(run).text == "ab\n\ny\n2\n\npasted\n")
        await run.pilot.press("enter")
        assert conversation.answers == []
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert len(conversation.answers) == 1

    drive(test, conversation)


def test_burst_that_begins_as_a_question_opens_stays_in_the_draft() -> None:
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run, is_late=False)
        for key in ("a", "b", "enter", "c", "enter"):
            await run.pilot.press(key)
            run.clock.now += GUARD_SECONDS / 2
        await _press_slowly(run, "enter")
        assert conversation.answers == []
        assert not run.app.widgets.approval.is_writing_text
        assert run.app.widgets.prompt.text == "ab\nc"

    drive(test, conversation)


def test_draft_from_before_the_question_is_not_part_of_the_answer() -> None:
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.type("also run the tests")
        await run.pilot.press(*"green")
        await run.until(lambda: "Typing an answer: green  Enter" in run.screen)
        await run.pilot.press("enter")
        await run.until(lambda: "Kept for your next message: also run the tests" in run.screen)
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("green"))]
        assert run.app.widgets.prompt.text == "also run the tests"

    drive(test, conversation)


def test_typed_text_returns_to_the_prompt_if_a_choice_answers() -> None:
    conversation = _script(CHOICES)
    pasted = "\n".join(f"row {number}" for number in range(50))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.app.widgets.approval.post_message(events.Paste(pasted))
        await run.until(lambda: "Typing an answer: [Pasted text" in run.screen)
        await run.pilot.press("enter")
        await run.until(lambda: "[Pasted text" in _field(run).text)
        assert _field(run).whole_text == pasted
        await _press_slowly(run, "escape", "1")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("Red"))]
        assert run.app.widgets.prompt.whole_text == pasted

    drive(test, conversation)


def test_text_typed_at_an_approval_becomes_the_reason_for_no() -> None:
    conversation = _script(COMMAND)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"use it")
        await run.until(lambda: "Typing a reason for No: use it  Enter use it · ↑↓ choose" in run.screen)
        await _press_slowly(run, "enter")
        assert conversation.answers == []
        assert _field(run).text == "use it"
        assert run.app.widgets.prompt.is_empty
        assert "› 4 No, and say why" in run.screen
        assert "writing a reason · Enter send · Esc back" in run.status
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny("use it"))]

    drive(test, conversation)


def test_typed_reason_is_shown_before_the_reason_for_asking_on_a_low_screen() -> None:
    why = "Asks because python may do more than read · the command runs outside the sandbox"
    conversation = _script(replace(COMMAND, reason=why, prefix_rule="shell(ls *)", sandboxed_rule="shell(ls *)"))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.until(lambda: "Asks because" in run.screen)
        await run.pilot.press(*"use it")
        await run.until(lambda: "Typing: use it" in run.screen)
        assert "No, and say why" in run.screen
        await _stop(run)

    drive(test, conversation, size=(70, 10))


def test_reason_typed_at_an_approval_returns_to_the_prompt_after_a_yes() -> None:
    conversation = _script(COMMAND)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"use it")
        await _press_slowly(run, "enter", "escape", "y")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]
        assert run.app.widgets.prompt.text == "use it"

    drive(test, conversation)


@pytest.mark.parametrize("first", ["y", "1", "run x"])
def test_burst_of_lines_at_an_approval_keeps_its_line_breaks_and_never_answers(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 600.0)
    monkeypatch.setattr(typing, "BURST_SECONDS", 600.0)
    conversation = _script(COMMAND)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*first, "enter", *"2 b", "enter", "enter", "y", "enter")
        await run.until(lambda: _field(run).text == f"{first}\n2 b\n\ny")
        assert conversation.answers == []
        await run.pilot.press("escape", "escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == f"{first}\n2 b\n\ny"

    drive(test, conversation)


@pytest.mark.parametrize(
    "keys", [("enter", *"yes", "enter"), ("enter", "enter", "y"), ("enter", "1", "enter", "enter")]
)
def test_burst_that_begins_with_a_line_break_never_answers(
    keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 0.001)
    monkeypatch.setattr(typing, "BURST_SECONDS", 600.0)
    conversation = _script(COMMAND)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*keys)
        await run.until(lambda: run.app.widgets.prompt.text == "".join(key for key in keys if key != "enter"))
        assert conversation.answers == []
        run.clock.now += 2 * GUARD_SECONDS
        monkeypatch.setattr(typing, "BURST_SECONDS", 0.001)
        await run.pilot.press("down", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_ctrl_g_edits_the_call_also_if_a_reason_is_typed() -> None:
    draft = Draft("ls -la", "command.sh")
    conversation = _script(replace(COMMAND, draft=draft))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"use it")
        assert not run.app.widgets.approval.open_text_field()
        assert run.app.widgets.approval.draft == draft
        await _press_slowly(run, "enter")
        assert run.app.widgets.approval.open_text_field()
        await _stop(run)

    drive(test, conversation)


def test_reason_that_was_not_sent_is_kept_if_the_turn_is_stopped_and_dropped_after_a_yes() -> None:
    script: Script = (ApprovalRequested(COMMAND), UntilAnswered("c1"), ended())
    conversation = ScriptedConversation(script, script)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("t", *"why", "escape")
        await run.until(lambda: '4 No, and say why (t)  "why"' in run.screen)
        await run.pilot.press("y")
        await run.until_idle()
        assert run.app.widgets.prompt.text == ""
        await _until_asked(run)
        await run.pilot.press("t", *"why", "escape", "escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == "why"

    drive(test, conversation)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("approval", "words", "decision"),
    [
        (CHOICES, "Blue", Answer("Blue")),
        (CHOICES, "1 Red", Answer("Red")),
        (PLAN, "accept edits", AcceptPlan("accept-edits")),
        (COMMAND, "2 Yes", Allow("session")),
        (COMMAND, "3 No", Deny()),
    ],
)
def test_click_on_a_choice_answers(approval: CallApproval, words: str, decision: Decision) -> None:
    conversation = _script(approval)

    async def test(run: Running) -> None:
        await _until_asked(run, is_late=False)
        await _click(run, words)
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await _click(run, words)
        await run.until_idle()
        assert conversation.answers == [("c1", decision)]

    drive(test, conversation)


def test_click_on_a_row_that_continues_a_choice_answers_with_that_choice() -> None:
    long = replace(CHOICES, choices=(Choice("Red"), Choice("Blue " + "and more " * 12 + "words"), Choice("Green")))
    conversation = _script(long)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await _click(run, "words")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer(long.choices[1].label))]

    drive(test, conversation)


def test_click_on_the_question_does_not_end_the_writing_of_a_reason() -> None:
    conversation = _script(COMMAND)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await _click(run, "No, and say why")
        assert run.app.focused is _field(run)
        await _click(run, "Run this command?")
        await run.pilot.press(*"n1", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny("n1"))]

    drive(test, conversation)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("key", ["tab", "shift+tab", "up"])
def test_tab_moves_between_the_choices_and_the_text(key: str) -> None:
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run)
        panel = run.app.widgets.approval
        await run.pilot.press("tab", "g")
        assert panel.is_writing_text
        assert "› 3 Other" in run.screen
        await run.pilot.press(key)
        await run.until(lambda: run.app.focused is panel and not panel.is_writing_text)
        assert conversation.mode == "default"
        await run.pilot.press("tab", "o", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("go"))]

    drive(test, conversation)


def test_pasted_lines_and_new_lines_stay_in_the_reason() -> None:
    conversation = _script(COMMAND)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("t")
        _field(run).post_message(events.Paste("one\r\ntwo\rthree"))
        await run.until(lambda: _field(run).text == "one\ntwo\nthree")
        await run.pilot.press("ctrl+j", *"four", "backslash", "enter", *"five")
        assert _field(run).region.height == 5
        assert "three" in run.screen
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny("one\ntwo\nthree\nfour\nfive"))]

    drive(test, conversation)


def test_long_paste_is_folded_in_the_text_field_and_sent_whole() -> None:
    conversation = _script(FREE)
    pasted = "\n".join(f"row {number}" for number in range(50))

    async def test(run: Running) -> None:
        await _until_asked(run)
        _field(run).post_message(events.Paste(pasted))
        await run.until(lambda: "[Pasted text #1 +50 lines]" in run.screen)
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer(pasted))]

    drive(test, conversation)


def test_double_click_selects_a_word_of_the_text_field_and_of_the_prompt() -> None:
    async def test(run: Running) -> None:
        await run.type("some draft_text here")
        await run.pilot.click("#prompt", offset=(7, 0), times=2)
        assert run.app.widgets.prompt.selected_text == "draft_text"
        await run.pilot.click("#prompt", offset=(7, 0), times=3)
        assert run.app.widgets.prompt.selected_text == "some draft_text here"
        await run.pilot.press("enter")
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*"one two", "space", *"three")
        await run.pilot.click("#approval-answer", offset=(5, 0), times=2)
        assert _field(run).selected_text == "two"
        await run.pilot.press("ctrl+c")
        assert run.app.clipboard == "two"
        assert run.app.turns.is_running
        await _stop(run)

    drive(test, _script(FREE))


def _shown_range(run: Running, word: str = "echo ") -> tuple[int, int]:
    """Return the first and the last number of the rows in view."""
    rows = [row.removeprefix("▌ ") for row in run.screen.split("\n")]
    numbers = [int(row.removeprefix(word).split()[0]) for row in rows if row.startswith(word)]
    return numbers[0], numbers[-1]


def test_page_keys_scroll_a_long_command_and_the_counts_follow() -> None:
    conversation = _script(LONG)

    async def test(run: Running) -> None:
        await _until_asked(run)
        transcript = run.app.widgets.transcript
        before = transcript.scroll_y
        first, last = _shown_range(run)
        assert first == 0
        assert f"↓ {59 - last} more rows" in run.screen
        await run.pilot.press("pagedown")
        await run.until(lambda: _shown_range(run)[0] > 0)
        above, last = _shown_range(run)
        assert f"↑ {above} rows above · ↓ {59 - last} more rows" in run.screen
        await run.pilot.press("end")
        await run.until(lambda: _shown_range(run)[1] == 59)
        assert f"↑ {_shown_range(run)[0]} rows above" in run.screen
        assert "more row" not in run.screen
        await run.pilot.press("pageup")
        await run.until(lambda: _shown_range(run)[1] < 59)
        await run.pilot.press("home")
        await run.until(lambda: _shown_range(run)[0] == 0)
        assert "above" not in run.screen
        assert transcript.scroll_y == before
        await run.pilot.press("ctrl+home")
        await run.until(lambda: transcript.scroll_y == 0)
        await _stop(run)

    drive(test, conversation)


def test_page_keys_scroll_the_question_while_a_reason_is_written() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("t", *"why", "pagedown")
        await run.until(lambda: _shown_range(run)[0] > 0)
        await run.pilot.press("home", "x")
        assert _field(run).text == "xwhy"
        await _stop(run)

    drive(test, _script(LONG))


def test_page_keys_scroll_the_transcript_if_the_question_is_in_view() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        transcript = run.app.widgets.transcript
        before = transcript.scroll_y
        await run.pilot.press("pageup")
        await run.until(lambda: transcript.scroll_y < before)
        await _stop(run)

    drive(test, _script(COMMAND))


def test_wheel_over_any_part_of_a_long_question_scrolls_it() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        transcript = run.app.widgets.transcript
        before = transcript.scroll_y
        for part in ("#approval-question", "#approval-options", "#approval-preview"):
            first = _shown_range(run)[0]
            await run.pilot._post_mouse_events([events.MouseScrollDown], part, offset=(3, 0))
            await run.until(lambda first=first: _shown_range(run)[0] > first)  # type: ignore[misc]  # bound now
        assert transcript.scroll_y == before
        await _stop(run)

    drive(test, _script(LONG))


@pytest.mark.parametrize("key", ["pagedown", "end", "shift+down"])
def test_extract_of_a_change_is_replaced_by_all_rows_at_the_first_scroll(key: str) -> None:
    edit = replace(FOUR_REQUEST, detail=REWRITTEN, question="Edit n.py?")

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "more removed lines" in run.screen
        await run.pilot.press(key)
        await run.until(lambda: "more removed lines" not in run.screen)
        if key == "end":
            await run.until(lambda: "+ number_59 = 59" in run.screen)
            assert "rows above" in run.screen
        else:
            assert "- n = 5" in run.screen  # the first line that the extract left out
            assert "+ number_0" not in run.screen
        await _stop(run)

    drive(test, _script(edit))


def test_narrow_question_shows_a_long_edit_rather_than_every_choice_in_full() -> None:
    old, new = [f"n = {number}" for number in range(60)], [f"number_{number} = {number}" for number in range(60)]
    edit = replace(FOUR_REQUEST, detail="\n".join(unified_diff(old, new, "a/n.py", "b/n.py")), rule="edit(./n.py)")

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "+ number_0 = 0" in run.screen
        assert len(_diff_numbers(run)) >= 5
        assert re.search(r"2 Yes, and stop asking.*… \(a\)", run.screen)
        await run.pilot.press("down")
        await run.until(lambda: "edits of n.py" in run.screen)
        await _stop(run)

    drive(test, _script(edit), size=(38, 20))


def test_first_page_of_an_extract_that_starts_late_moves_down_and_counts_both_ends() -> None:
    detail = "@@ -1,24 +1,25 @@\n" + "".join(f" line {n}\n" for n in range(1, 7)) + "+new\n"
    edit = replace(FOUR_REQUEST, detail=detail + "".join(f" line {n}\n" for n in range(7, 25)))

    async def test(run: Running) -> None:
        await _until_asked(run)
        first = _diff_numbers(run)[0]
        assert first > 1
        assert f"↑ {first - 1} " in run.screen
        await run.pilot.press("pagedown")
        await run.until(lambda: _diff_numbers(run)[0] > first)
        await run.pilot.press("home")
        await run.until(lambda: _diff_numbers(run)[0] == 1)
        await _stop(run)

    drive(test, _script(edit), size=(40, 20))


def _diff_numbers(run: Running) -> list[int]:
    return [int(match[1]) for row in run.screen.split("\n") if (match := re.match(r"▌ +(\d+) [-+ ] ", row))]


def test_resize_keeps_the_place_in_a_long_question() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("pagedown", "pagedown")
        await run.until(lambda: _shown_range(run)[0] > 10)
        first = _shown_range(run)[0]
        await run.pilot.resize_terminal(100, 30)
        await run.until(lambda: _shown_range(run)[0] == first)
        await run.pilot.resize_terminal(60, 18)
        await run.until(lambda: _shown_range(run)[0] == first)
        await _stop(run)

    drive(test, _script(replace(LONG, detail="\n".join(f"echo {n} {'word ' * 14}" for n in range(60)))))


def test_ctrl_o_at_a_question_in_full_view_leaves_the_transcript_folded() -> None:
    output = "\n".join(f"row {number}" for number in range(80))
    script: Script = [
        reply("", call(call_id="c0")),
        ToolFinished(call(call_id="c0"), ToolOutcome(output), "done"),
        ApprovalRequested(COMMAND),
        UntilAnswered("c1"),
        ended(),
    ]

    async def test(run: Running) -> None:
        await _until_asked(run)
        before = run.text
        assert "Ctrl+O show all" not in run.screen
        await run.pilot.press("ctrl+o")
        await run.pilot.pause()
        assert run.text == before
        assert not isinstance(run.app.screen, PagerScreen)
        assert "the whole question is in view" in run.status
        await _stop(run)

    drive(test, ScriptedConversation(script))


REASON = "Asks because pytest may do more than read · the command runs outside the sandbox"
SMALL: dict[str, tuple[CallApproval, str]] = {
    "edit": (replace(FOUR_REQUEST, reason=REASON), "cents"),
    "command": (replace(RUNNER, reason=REASON), "pytest"),
    "plan": (PLAN, "Cache"),
    "question": (replace(CHOICES, question="Which of the many colors shall all the pages have?"), "The model"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("size", [(20, 5), (20, 12), (30, 14), (40, 14)])
def test_small_screen_shows_the_subject_the_choices_and_the_status(size: tuple[int, int], name: str) -> None:
    approval, subject = SMALL[name]

    async def test(run: Running) -> None:
        await _until_asked(run)
        seen = run.screen
        for _ in range(6):
            rows = [row.rstrip() for row in run.screen.split("\n")]
            assert len(rows) == size[1]
            assert "Esc" in rows[-1]
            assert any("› 1 " in row for row in rows)
            assert any("2 " in row for row in rows)
            assert [row for row in rows if "……" in row or "… …" in row] == []
            await run.pilot.press("pagedown")
            await run.pilot.pause()
            seen += run.screen
        assert subject in seen
        await _stop(run)

    drive(test, _script(approval), size=size)


def test_long_path_in_the_title_is_wrapped_after_a_slash() -> None:
    path = "packages/frontend/components/checkout/cart_total.py"
    long = replace(COMMAND, question=f"Edit {path}?", detail=REWRITTEN, kind="edit")

    async def test(run: Running) -> None:
        await _until_asked(run)
        rows = [row.strip("▌ ") for row in run.screen.split("\n")]
        at = rows.index("Edit packages/frontend/components/")
        assert rows[at + 1].startswith("checkout/cart_total.py  +")
        await _stop(run)

    drive(test, _script(long), size=(40, 24))


def test_reason_for_asking_that_is_cut_ends_in_an_ellipsis_and_is_whole_in_the_pager() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        rows = [row.strip("▌ ") for row in run.screen.split("\n")]
        at = next(number for number, row in enumerate(rows) if row.startswith("Asks because"))
        assert rows[at + 1].endswith("…")
        await run.pilot.press("ctrl+o")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        await run.until(lambda: "outside the sandbox" in " ".join(run.screen.split()))
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        await _stop(run)

    drive(test, _script(replace(RUNNER, reason=REASON)), size=(30, 14))


def test_reasons_that_the_line_counts_are_listed_in_the_pager() -> None:
    approval = replace(COMMAND, reason="Asks because a; and 2 more", reasons=("a", "b", "c and d"))

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "Asks because a; and 2 more · Ctrl+O show all reasons" in run.screen
        await run.pilot.press("ctrl+o")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        await run.until(lambda: "- c and d" in run.screen)
        rows = [row.strip() for row in run.screen.split("\n")]
        at = rows.index("All reasons, the worst first:")
        assert rows[at + 1 : at + 4] == ["- a", "- b", "- c and d"]
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        await _stop(run)

    drive(test, _script(approval))


def test_status_line_says_what_the_user_does_and_what_escape_does() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "waiting for your answer · Esc to interrupt" in run.status
        await run.pilot.press("t")
        await run.until(lambda: "writing a reason · Enter stop the turn · Esc back" in run.status)
        await run.pilot.press("x")
        await run.until(lambda: "writing a reason · Enter send · Esc back" in run.status)
        await run.pilot.press("backspace", "escape")
        await run.until(lambda: "waiting for your answer · Esc to interrupt" in run.status)
        await run.pilot.press("3")
        await run.until(lambda: "waiting for your answer · Esc back" in run.status)
        await run.pilot.press("escape", "y")
        await run.until_idle()
        assert "Esc" not in run.status

    drive(test, _script(RUNNER))


def test_ctrl_g_edits_the_answer_in_the_editor_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = make_executable(tmp_path / "ed", 'printf "%s\\nmore\\n" "$(cat "$1")" > "$1.new"; mv "$1.new" "$1"')
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(QcodeApp, "suspend", lambda app: nullcontext())
    conversation = _script(FREE)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"tiny", "ctrl+g")
        await run.until(lambda: _field(run).text == "tiny\nmore")
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("tiny\nmore"))]

    drive(test, conversation)


@pytest.mark.parametrize("typed", ["", "small"])
def test_ctrl_g_at_a_question_with_choices_writes_the_answer_in_the_editor(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = make_executable(tmp_path / "ed", 'printf "%s in full" "$(cat "$1")" > "$1.new"; mv "$1.new" "$1"')
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(QcodeApp, "suspend", lambda app: nullcontext())
    conversation = _script(CHOICES)

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*typed, "ctrl+g")
        await run.until(lambda: _field(run).text == f"{typed} in full")
        await _press_slowly(run, "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer(f"{typed} in full".strip()))]

    drive(test, conversation)


def test_title_counts_the_questions_of_parallel_sub_agents() -> None:
    first = replace(COMMAND, call=call(call_id="a1"), agent="One")
    second = replace(COMMAND, call=call(call_id="a2"), agent="Two")
    both = [ApprovalRequested(first), ApprovalRequested(second)]
    conversation = ScriptedConversation([*both, UntilAnswered("a1"), UntilAnswered("a2"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.until(lambda: '"One" asks: Run this command?   1 of 2' in run.screen)
        await run.pilot.press("y")
        await run.until(lambda: '"Two" asks: Run this command?' in run.screen)
        assert "of 2" not in run.screen
        await _stop(run)

    drive(test, conversation)


def test_text_typed_while_a_card_is_chosen_goes_to_the_text_field() -> None:
    script: Script = [
        reply("", call(call_id="c0")),
        ToolFinished(call(call_id="c0"), ToolOutcome("done"), "done"),
        ApprovalRequested(FREE),
        UntilAnswered("c1"),
        ended(),
    ]

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("a", "alt+o", "b", "c")
        await run.until(lambda: _field(run).text == "abc")
        assert run.app.widgets.prompt.text == ""
        await _stop(run)

    drive(test, ScriptedConversation(script))


def test_text_field_is_empty_for_the_next_question() -> None:
    conversation = _script(FREE, replace(FREE, call=replace(ASK, call_id="c2"), question="And the other one?"))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"first", "enter")
        await run.until(lambda: "And the other one?" in run.screen)
        assert _field(run).text == ""
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*"second", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("first")), ("c2", Answer("second"))]

    drive(test, conversation)
