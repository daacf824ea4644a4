"""Approvals: which question is asked, which keys count, which decision is made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qcode.protocol.approvals import (
    AcceptPlan,
    Allow,
    Answer,
    CallApproval,
    Choice,
    Decision,
    Deny,
    PlanApproval,
    Question,
    RepeatedCall,
    ToolApproval,
)
from qcode.protocol.events import ApprovalRequested, ReplyFinished, ToolFinished, ToolStarted
from qcode.protocol.reply import StopReason
from qcode.protocol.tools import ToolOutcome
from qcode.text.clean import visible_lines
from qcode.tui.panels.approval import AGAIN, GUARD_SECONDS, form_of, preview_content
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, Script, ScriptedConversation, UntilAnswered, call, ended, reply, says

CALL = call()


def _request(rule: str = "shell(ls *)", preview: str = "ls -la", call_id: str = "c1") -> ToolApproval:
    return ToolApproval(call(call_id=call_id), "Run this command?", preview, rule)


def _asking(approval: CallApproval) -> Script:
    result = ToolFinished(CALL, ToolOutcome("total 0"), "done")
    return [_finished(), ApprovalRequested(approval), UntilAnswered("c1"), ToolStarted(CALL), result, ended()]


def _finished() -> ReplyFinished:
    return reply("I will look.", CALL, stop=StopReason.TOOL_USE)


async def _until_asked(run: Running) -> None:
    await run.send("look")
    await run.until(lambda: run.app.parts.approval.request is not None)
    await run.pilot.pause()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("1",), Allow()),
        (("y",), Allow()),
        (("enter",), Allow()),
        (("2",), Allow("session")),
        (("a",), Allow("session")),
        (("down", "enter"), Allow("session")),
        (("3",), Deny()),
        (("n",), Deny()),
        (("up", "up", "enter"), Deny()),
        (("4", *"use -a", "enter"), Deny("use -a")),
        (("t", *"no", "enter"), Deny("no")),
    ],
)
def test_numbers_letters_and_arrows_answer(keys: tuple[str, ...], answer: Answer) -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*("space" if key == " " else key for key in keys))
        await run.until_idle()
        assert conversation.answers == [("c1", answer)]
        assert run.app.parts.approval.request is None
        assert not run.app.parts.approval.display
        assert run.app.focused is run.app.parts.prompt

    drive(test, conversation)


def _numbers(approval: CallApproval) -> list[str]:
    return [option.number for option in form_of(approval).options]


def test_without_a_rule_always_is_not_offered() -> None:
    assert _numbers(_request(rule="")) == ["1", "3", "4"]
    conversation = ScriptedConversation(_asking(_request(rule="")))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("2")
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("a")
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("3")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny())]

    drive(test, conversation)


def test_words_meant_for_the_prompt_do_not_answer() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        for key in ("u", "s", "e", "space", "y", "a", "r", "n", "enter"):
            await run.pilot.press(key)
            run.clock.now += 0.1
        assert conversation.answers == []
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_keys_in_the_first_300_ms_are_ignored_and_so_is_the_rest_of_their_burst() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        for _ in range(5):
            run.clock.now += 0.2
            await run.pilot.press("y", "enter", "1", "a")
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_a_second_question_has_its_own_300_ms() -> None:
    second = _request(call_id="c2")
    asked = [ApprovalRequested(_request()), ApprovalRequested(second)]
    script: Script = [_finished(), *asked, UntilAnswered("c1"), UntilAnswered("c2"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y", "y")
        assert conversation.answers == [("c1", Allow())]
        assert run.app.parts.approval.request == second
        run.clock.now += 2 * GUARD_SECONDS
        await run.pilot.press("n")
        await run.until_idle()
        assert conversation.answers[1:] == [("c2", Deny())]

    drive(test, conversation)


def test_escape_denies_and_cancels_the_turn() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("escape")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny())]
        assert conversation.cancels == 1
        assert not run.app.parts.approval.display
        assert "interrupted" in run.text

    drive(test, conversation)


def test_escape_in_the_reason_goes_back_to_the_choices() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t", "y", "escape")
        assert not run.app.parts.approval.is_telling
        assert conversation.answers == []
        assert conversation.cancels == 0
        await run.pilot.press("n")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny())]

    drive(test, conversation)


def test_the_transcript_scrolls_and_the_prompt_keeps_its_text_meanwhile() -> None:
    text = "\n\n".join(f"line {number}" for number in range(100))
    gate = Gate()
    script: Script = [*says(text), gate, ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        await run.type("draft")
        gate.open()
        await run.until(lambda: run.app.parts.approval.request is not None)
        transcript = run.app.parts.transcript
        await run.until(lambda: transcript.max_scroll_y > 20)
        await run.pilot.press("ctrl+home")
        assert transcript.scroll_offset.y == 0
        await run.pilot.press("pagedown")
        assert transcript.scroll_offset.y > 0
        assert run.app.parts.prompt.text == "draft"
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_a_request_settled_elsewhere_is_withdrawn() -> None:
    gate = Gate()
    settled = ToolFinished(CALL, ToolOutcome("timed out", is_error=True), "failed")
    conversation = ScriptedConversation([_finished(), ApprovalRequested(_request()), gate, settled, ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        gate.open()
        await run.until_idle()
        assert not run.app.parts.approval.display
        assert conversation.answers == []

    drive(test, conversation)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 50)])
def test_a_long_preview_scrolls_and_never_hides_question_or_choices(size: tuple[int, int]) -> None:
    preview = "\n".join(f"echo {number}" for number in range(200))
    conversation = ScriptedConversation(_asking(_request(preview=preview)))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        scroll = run.app.query_one("#approval-preview")
        assert 2 <= scroll.size.height <= size[1] * 0.4
        await run.pilot.press("shift+down", "shift+down")
        await run.until(lambda: scroll.scroll_offset.y == 2)
        for part in ("#approval-question", "#approval-options", "#prompt", "#status"):
            region = run.app.query_one(part).region
            assert region.height > 0
            assert run.app.screen.region.contains_region(region)
        await run.pilot.press("n")
        await run.until_idle()

    drive(test, conversation, size=size)


def test_what_runs_is_shown_character_by_character() -> None:
    hidden = "ls \x1b[2K\u202e\u200b\tcafé\nrm"
    shown = "ls \\x1b[2K\\u202e\\u200b⇥   café⏎\nrm"
    assert preview_content(visible_lines(hidden)).plain == preview_content(hidden).plain == shown


def test_a_line_end_in_a_command_is_marked() -> None:
    assert preview_content(visible_lines("cd /tmp\nrm x\n")).plain == "cd /tmp⏎\nrm x⏎\n"
    forged = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-rm x"
    assert preview_content(visible_lines(forged)).plain == forged.replace("\n", "⏎\n")


def test_a_diff_has_line_numbers_and_keeps_every_line() -> None:
    diff = (
        "--- a/old.py\n+++ b/new.py\n@@ -9,3 +9,3 @@ def f\n same\n-one old\n+one new\n\\ No newline at end of file\n"
    )
    content = preview_content(diff)
    assert content.plain.split("\n") == [
        "--- a/old.py",
        "+++ b/new.py",
        "@@ -9,3 +9,3 @@ def f",
        " 9  same",
        "10 -one old",
        "10 +one new",
        "\\ No newline at end of file",
    ]
    marked = [content.plain[span.start : span.end] for span in content.spans if span.style == "reverse"]
    assert marked == ["old", "new"]


def test_brackets_in_a_question_are_no_markup() -> None:
    request = ApprovalRequested(ToolApproval(CALL, "Run [bold]this[/]?", "echo [red]x[/red] [/]", "shell([x])"))
    conversation = ScriptedConversation([_finished(), request, UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        screen = run.app.export_screenshot()
        shown = screen.replace("&#160;", " ")
        assert "Run [bold]this[/]?" in shown
        assert "echo [red]x[/red] [/]" in shown
        assert "shell([x])" in shown
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


QUESTION = Question(CALL, "Which colour?", "It is used\neverywhere.", choices=(Choice("Red"), Choice("Blue", "as now")))


@pytest.mark.parametrize(
    ("request_", "keys", "answer"),
    [
        (QUESTION, ("1",), Answer("Red")),
        (QUESTION, ("down", "enter"), Answer("Blue")),
        (QUESTION, ("3", *"green", "enter"), Answer("green")),
        (QUESTION, ("t", "enter", *"no", "enter"), Answer("no")),
        (QUESTION, ("up", "enter", *"x", "escape", "2"), Answer("Blue")),
        (replace(QUESTION, choices=()), ("enter", *"any", "enter"), Answer("any")),
        (replace(QUESTION, choices=()), ("1", *"1", "enter"), Answer("1")),
        (RepeatedCall(CALL, "Run it again?", "ls"), ("y",), Allow()),
        (RepeatedCall(CALL, "Run it again?", "ls"), ("n",), Deny(AGAIN)),
    ],
)
def test_a_question_is_answered_with_a_choice_or_in_words(
    request_: CallApproval, keys: tuple[str, ...], answer: Decision
) -> None:
    conversation = ScriptedConversation(_asking(request_))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*keys)
        await run.until_idle()
        assert conversation.answers == [("c1", answer)]

    drive(test, conversation)


def test_keys_of_the_first_moment_do_not_choose_an_answer() -> None:
    conversation = ScriptedConversation(_asking(QUESTION))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("1", "enter", "n", "y")
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("n", "y")
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("1")
        await run.until_idle()

    drive(test, conversation)


PLAN = PlanApproval(call("exit_plan_mode", '{"plan": "# Cache"}'), "Go on with it?", "# Cache\n\n1. **add** it")


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("1",), AcceptPlan("accept-edits")),
        (("y",), AcceptPlan("accept-edits")),
        (("2",), AcceptPlan("default")),
        (("3",), Deny()),
        (("t", *"less", "enter"), Deny("less")),
    ],
)
def test_a_plan_is_approved_with_a_mode_or_sent_back(keys: tuple[str, ...], answer: Decision) -> None:
    conversation = ScriptedConversation(
        [reply("", PLAN.call), ApprovalRequested(PLAN), UntilAnswered("c1"), ended()], mode="plan"
    )

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*keys)
        await run.until_idle()
        assert conversation.answers == [("c1", answer)]

    drive(test, conversation)


def test_the_status_line_shows_the_mode_that_an_approved_plan_brought() -> None:
    class Planning(ScriptedConversation):
        def answer(self, approval_id: str, decision: Decision) -> None:
            assert isinstance(decision, AcceptPlan)
            self.mode = decision.mode
            super().answer(approval_id, decision)

    conversation = Planning([reply("", PLAN.call), ApprovalRequested(PLAN), UntilAnswered("c1"), ended()], mode="plan")

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("1")
        await run.until_idle()
        assert run.app.parts.status.status.mode == "accept-edits"

    drive(test, conversation)


def test_always_in_this_folder_is_offered_last_and_only_where_it_can_be_kept() -> None:
    request = replace(_request(), is_keepable=True)
    assert _numbers(request) == ["1", "2", "3", "4", "5"]
    assert _numbers(_request()) == ["1", "2", "3", "4"]
    assert _numbers(replace(request, rule="")) == ["1", "3", "4"]
    conversation = ScriptedConversation(_asking(request))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("f")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow("folder"))]

    drive(test, conversation)
