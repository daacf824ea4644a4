"""Approvals: which question is asked, which keys count, which decision is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode

from qcode.protocol.approvals import (
    CHANGE_APPROACH,
    LIMIT_ID,
    AcceptPlan,
    Allow,
    Answer,
    ApprovalMode,
    CallApproval,
    Choice,
    Decision,
    Deny,
    Draft,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    Revise,
    ToolApproval,
)
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ApprovalRequested, LimitReached, Notice, ReplyFinished, ToolFinished, ToolStarted
from qcode.protocol.reply import ReasoningDelta, StopReason
from qcode.protocol.tools import ToolOutcome
from qcode.text.clean import visible_lines
from qcode.text.diff import unified_diff
from qcode.tui.app import QcodeApp
from qcode.tui.panels import draft as typing
from qcode.tui.panels.answer_field import AnswerField
from qcode.tui.panels.choices import form_of
from qcode.tui.panels.draft import GUARD_SECONDS, draft_spans
from qcode.tui.panels.preview import ApprovalDetail, Format
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.transcript.line import shown_text, source_text
from tests.agent.context.folders import make_executable
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
    await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
    await run.pilot.pause()


async def _answer(run: Running, *keys: str) -> None:
    """Ask for an approval and press `keys`, until the turn is over."""
    await _until_asked(run)
    run.clock.now += GUARD_SECONDS
    await run.pilot.press(*keys)
    await run.until_idle()
    assert run.app.widgets.approval.shown_approval is None, keys
    assert not run.app.widgets.approval.display
    assert run.app.focused is run.app.widgets.prompt


def _decisions(
    rows: Sequence[tuple[CallApproval, tuple[str, ...]]], mode: ApprovalMode = "default"
) -> list[tuple[str, Decision]]:
    """Answer one question after another in one app, each with its keys; return the decisions."""
    conversation = ScriptedConversation(*(_asking(approval) for approval, _ in rows), mode=mode)

    async def test(run: Running) -> None:
        for number, (_, keys) in enumerate(rows, 1):
            conversation.set_mode(mode)
            await _answer(run, *keys)
            assert len(conversation.answers) == number, keys

    drive(test, conversation)
    return conversation.answers


def test_numbers_letters_and_arrows_answer_an_approval() -> None:
    rows: list[tuple[tuple[str, ...], Decision]] = [
        (("1",), Allow()),
        (("y",), Allow()),
        (("enter",), Allow()),
        (("2",), Allow("session")),
        (("a",), Allow("session")),
        (("down", "enter"), Allow("session")),
        (("4", *"use -a", "enter"), Deny("use -a")),
        (("t", *"no", "enter"), Deny("no")),
    ]
    assert _decisions([(_request(), keys) for keys, _ in rows]) == [("c1", answer) for _, answer in rows]


def test_question_restyles_only_the_widgets_that_yield_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    restyled: list[str] = []
    apply = Stylesheet.apply

    def watch(sheet: Stylesheet, node: DOMNode, **given: Any) -> None:
        restyled.append(node.id or "")
        apply(sheet, node, **given)

    async def test(run: Running) -> None:
        monkeypatch.setattr(Stylesheet, "apply", watch)
        await _answer(run, "y")

    drive(test, ScriptedConversation(_asking(_request())))
    assert {"todos", "queued", "aside"} <= set(restyled)
    assert not {"transcript", "status", "prompt-row", "search", "menu"} & set(restyled)


def test_no_without_a_reason_stops_the_turn_and_returns_to_the_prompt() -> None:
    ways: list[tuple[str, ...]] = [("3",), ("n",), ("up", "up", "enter"), ("t", "enter")]
    conversation = ScriptedConversation(*(_asking(_request()) for _ in ways))

    async def test(run: Running) -> None:
        for number, keys in enumerate(ways, 1):
            await _answer(run, *keys)
            assert conversation.answers == [("c1", Deny())] * number
            assert conversation.cancels == number
            assert run.text.count("interrupted") == number

    drive(test, conversation)


def _labels(approval: CallApproval) -> list[str]:
    return [f"{option.label} ({option.letter or option.key})" for option in form_of(approval).options]


def test_choices_have_a_fixed_order_and_fixed_letters() -> None:
    plain = _request(rule="")
    assert _labels(plain) == ["Yes (y)", "No (n)", "No, and say why (t)"]
    rule = 'Yes, and stop asking for any "ls …" (this session) (a)'
    assert _labels(_request()) == ["Yes (y)", rule, "No (n)", "No, and say why (t)"]
    whole = replace(_request(), is_keepable=True, offers=("edits", "trust"))
    assert _labels(whole) == [
        "Yes (y)",
        rule,
        'Yes, always in this folder: any "ls …" (f)',
        "Yes, and all edits from now on (Shift+Tab)",
        "Yes, and trust this folder ()",
        "No (n)",
        "No, and say why (t)",
    ]
    assert "always" not in str(_labels(replace(whole, rule="")))


def test_additional_offers_are_answered_by_number() -> None:
    trusted: list[str] = []
    request = replace(_request(), is_keepable=True, offers=("edits", "trust"))
    rows = [("3", Allow("folder")), ("f", Allow("folder")), ("4", Allow("edits")), ("5", Allow("trust"))]
    conversation = ScriptedConversation(*(_asking(request) for _ in rows))

    async def test(run: Running) -> None:
        for key, answer in rows:
            await _answer(run, key)
            assert conversation.answers[-1] == ("c1", answer)
            assert trusted == (["asked"] if answer == Allow("trust") else [])
            assert ("Folder trusted." in run.text) is bool(trusted)

    def trust() -> str:
        trusted.append("asked")
        return "Folder trusted."

    drive(test, conversation, trust=trust)


def test_text_typed_while_an_approval_opens_goes_to_the_draft() -> None:
    gate = Gate()
    script: Script = [_finished(), gate, ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        await run.pilot.press("a")
        gate.open()
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        for key in ("n", "y", "space", "w", "x", "backspace", "enter", "a", "y"):
            await run.pilot.press(key)
            run.clock.now += 0.1
        assert conversation.answers == []
        assert run.app.widgets.prompt.text == "any w\nay"
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]
        assert run.app.widgets.prompt.text == "any w\nay"
        assert run.app.widgets.prompt.region.height > 0

    drive(test, conversation)


@pytest.mark.parametrize("command", ["/theme", "pager"])
def test_screen_above_a_question_says_that_one_is_waiting(command: str) -> None:
    gate = Gate()
    script: Script = [_finished(), gate, ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        if command == "pager":
            run.app.push_screen(PagerScreen("A long text", lambda _: []))
        else:
            await run.send(command)
        await run.until(lambda: len(run.app.screen_stack) > 1)
        await run.pilot.pause()
        assert "a question is waiting" not in run.screen
        gate.open()
        await run.until(lambda: "a question is waiting" in run.screen)
        run.app.turns.withdraw("c1")
        await run.until(lambda: "a question is waiting" not in run.screen)

    drive(test, conversation)


def test_text_typed_at_a_question_is_shown_and_never_answers() -> None:
    script: Script = [_finished(), ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        async def type_slowly(*keys: str) -> None:
            for key in keys:
                run.clock.now += 2 * GUARD_SECONDS
                await run.pilot.press(key)

        await run.send("look")
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        await type_slowly("w", "h", "y", "space", "1")
        assert conversation.answers == []
        assert run.app.widgets.prompt.text == "why 1"
        await run.until(lambda: "Typing a reason for No: why 1  Enter use it · ↑↓ choose" in run.screen)
        assert "typing a reason for No · Esc" in run.screen
        assert "›" not in "\n".join(_choices(run))
        await type_slowly("down", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]
        assert run.app.widgets.prompt.text == "why 1"

    drive(test, conversation)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["yes but call it q2", "also do x", "no wait, use another name", "this is wrong"])
def test_letter_answers_nothing_if_text_follows(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 600.0)
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*("space" if letter == " " else letter for letter in text))
        run.clock.now += GUARD_SECONDS
        assert conversation.answers == []
        assert run.app.widgets.prompt.text == text
        await run.until(lambda: f"{text[-10:]}  Enter use it" in run.screen)
        await run.pilot.press("down", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_letter_is_shown_as_the_choice_and_answers_with_enter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 600.0)
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("a")
        assert conversation.answers == []
        await run.until(lambda: "› 2 Yes, and stop asking" in run.screen)
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow("session"))]

    drive(test, conversation)


def test_letter_answers_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typing, "HOLD_SECONDS", 0.001)
    conversation = ScriptedConversation(_asking(_request()))
    drive(lambda run: _answer(run, "a"), conversation)
    assert conversation.answers == [("c1", Allow("session"))]


def test_enter_answers_again_after_the_typed_text_is_deleted() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("x")
        await run.until(lambda: "Typing a reason for No: x" in run.screen)
        await run.pilot.press("backspace")
        await run.until(lambda: "a reason for No" not in run.screen)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def _choices(run: Running) -> list[str]:
    """Return the rows of the screen with a choice."""
    return [row for row in run.screen.split("\n") if re.match(r"▌ [› ] ?\d ", row)]


def test_draft_is_shown_as_the_question_opens_and_backspace_begins_typing() -> None:
    gate = Gate()
    script: Script = [_finished(), gate, ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        await run.type("also do")
        gate.open()
        await run.until(lambda: "Kept for your next message: also do" in run.screen)
        assert "› 1 Yes (y)" in run.screen
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("backspace")
        await run.until(lambda: "Typing a reason for No: also d  Enter use it · ↑↓ choose" in run.screen)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y", "1")
        assert conversation.answers == []
        assert run.app.widgets.prompt.text == "also dy1"
        await run.pilot.press("down")
        await run.until(lambda: "› 1 Yes (y)" in run.screen and "Kept for your next message: also dy1" in run.screen)
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_editing_keys_of_the_prompt_edit_the_draft_at_a_question() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("x")
        await run.type("words to cut here")
        prompt = run.app.widgets.prompt
        await run.pilot.press("ctrl+w")
        assert prompt.text == "xwords to cut "
        await run.pilot.press("alt+backspace")
        assert prompt.text == "xwords to "
        await run.pilot.press("ctrl+j", "e", "n", "d", "ctrl+a", "left", "left")
        await run.until(lambda: "Typing a reason for No: xwords to▏ ⏎end" in run.screen)
        await run.pilot.press("home", "delete", "ctrl+z", "ctrl+k")
        await run.until(lambda: "Typing a reason for No: ▏⏎end" in run.screen)
        await run.pilot.press("ctrl+y", "ctrl+end", "1")
        assert prompt.text.startswith("xwords to 1")
        await run.pilot.press("ctrl+u", "delete", "ctrl+k")
        await run.until(lambda: "a reason for No" not in run.screen)
        run.clock.now += GUARD_SECONDS
        assert conversation.answers == []
        await run.pilot.press("1")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_cursor_of_the_terminal_is_in_the_row_of_the_draft() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(*"xwords")
        await run.until(lambda: "Typing a reason for No: xwords" in run.screen)
        rows = run.screen.split("\n")
        at = next(index for index, row in enumerate(rows) if "xwords" in row)
        await run.until(lambda: run.app.cursor_position == (rows[at].index("xwords") + len("xwords"), at))
        await run.pilot.press("left", "left")
        await run.until(lambda: run.app.cursor_position == (rows[at].index("xwords") + len("xwor"), at))

    drive(test, ScriptedConversation(_asking(_request())))


def test_draft_row_shows_the_text_around_its_cursor() -> None:
    def shown(text: str, cursor: int) -> str:
        _, (written, _), _ = draft_spans(text, cursor, 57)
        return written

    text = "".join(f"{number:02}." for number in range(40))
    assert shown("say one", 6) == "say on▏e"
    assert shown("two words ", 10) == "two words "
    assert shown(text, len(text)) == f"…{text[-28:]}"
    assert shown(text, 0) == f"▏{text[:27]}…"
    # A wide character has two cells, and the row still fits.
    assert shown("你" * 40, 40) == f"…{'你' * 13}"
    assert shown("你" * 40, 0) == f"▏{'你' * 13}…"
    middle = shown(text, 60)
    assert (middle[0], middle[-1], len(middle)) == ("…", "…", 29)
    assert "19.▏20." in middle


def test_draft_row_has_shorter_words_on_a_narrow_screen() -> None:
    def row(width: int, answer_caption: str = "") -> str:
        spans = draft_spans("use the same database", 21, width, is_typing=True, answer_caption=answer_caption)
        return "".join(text for text, _ in spans)

    assert row(76, "typing an answer") == ("Typing an answer: use the same database  Enter use it · ↑↓ choose")
    assert row(36, "typing an answer") == "Typing: …same database  Enter use it"
    assert row(36) == "Next message: …e database  ↑↓ answer"
    kept = draft_spans("use the same database", 21, 60, is_changed=True)
    assert "".join(text for text, _ in kept) == "Kept: use the same database"


def test_panel_says_when_keys_answer_again_after_early_text() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("o", "k")
        await run.until(lambda: "Typing your next message: ok  ↑ or ↓ to answer" in run.screen)
        run.clock.now += GUARD_SECONDS
        await run.until(lambda: "Kept for your next message: ok  numbers and letters answer" in run.screen)
        assert "waiting for your answer" in run.screen
        assert "›" not in "\n".join(_choices(run))
        await run.pilot.press("enter")
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("1")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_words_typed_for_the_prompt_do_not_answer() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        for key in ("u", "s", "e", "space", "y", "a", "r", "n", "enter"):
            await run.pilot.press(key)
            run.clock.now += 0.1
        assert conversation.answers == []
        assert run.app.widgets.approval.field_text == "use yarn"
        await run.pilot.press("escape", "escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == "use yarn"

    drive(test, conversation)


def test_wheel_over_a_question_that_fits_scrolls_the_transcript() -> None:
    text = "\n\n".join(f"line {number}" for number in range(100))
    script: Script = [*says(text), ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await _until_asked(run)
        transcript = run.app.widgets.transcript
        await run.until(lambda: transcript.is_anchored and transcript.scroll_y > 20)
        before = transcript.scroll_y
        for part in ("#approval-options", "#approval-text"):
            await run.pilot._post_mouse_events([events.MouseScrollUp], part, offset=(3, 0))
        await run.until(lambda: transcript.scroll_y == before - 6)
        await run.pilot._post_mouse_events([events.MouseScrollDown], "#approval-question", offset=(3, 0))
        await run.until(lambda: transcript.scroll_y == before - 3)
        assert conversation.answers == []
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_wheel_over_a_preview_that_does_not_fit_scrolls_the_preview() -> None:
    preview = "\n".join(f"echo {number}" for number in range(200))
    conversation = ScriptedConversation(_asking(_request(preview=preview)))

    async def test(run: Running) -> None:
        await _until_asked(run)
        scroll = run.app.query_one("#approval-preview")
        await run.pilot._post_mouse_events([events.MouseScrollDown], "#approval-preview", offset=(3, 1))
        await run.until(lambda: scroll.scroll_offset.y > 0)
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


EDITABLE = ToolApproval(CALL, "Run this command?", "touch one", draft=Draft("touch one", "command.sh"))


def _editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setenv("VISUAL", str(make_executable(tmp_path / "ed", script)))


def _allow_suspend(run: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the app lend its terminal, which a headless one does not have."""
    monkeypatch.setattr(QcodeApp, "suspend", lambda app: nullcontext())


def test_call_edited_with_ctrl_g_is_judged_and_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _editor(
        tmp_path, monkeypatch, f'cat "$1" > {tmp_path}/seen; basename "$1" > {tmp_path}/name; echo "touch two" > "$1"'
    )
    judged = Gate()
    revised = replace(EDITABLE, detail="touch two", draft=Draft("touch two", "command.sh"), is_revised=True)
    script: Script = [ApprovalRequested(EDITABLE), judged, ApprovalRequested(revised), Gate()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        _allow_suspend(run, monkeypatch)
        await _until_asked(run)
        assert "Run this command?   Ctrl+G edits it" in run.screen
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("ctrl+g")
        await run.until(lambda: bool(conversation.answers))
        assert conversation.answers == [("c1", Revise("touch two"))]
        assert (tmp_path / "seen").read_text() == "touch one"
        assert (tmp_path / "name").read_text() == "command.sh\n"
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y", "enter")
        assert len(conversation.answers) == 1, "no key answers until the edited call is shown"
        assert "touch one" in run.screen
        judged.open()
        await run.until(lambda: run.app.widgets.approval.shown_approval == revised)
        await run.pilot.pause()
        assert "touch two" in run.screen
        assert "edited by you" in run.screen
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("1")
        await run.until(lambda: len(conversation.answers) == 2)
        assert conversation.answers[1] == ("c1", Allow())
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_refused_edit_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _editor(tmp_path, monkeypatch, f'cat "$1" >> {tmp_path}/seen; echo >> {tmp_path}/seen; echo "rm two" > "$1"')
    script: Script = [
        ApprovalRequested(EDITABLE),
        UntilAnswered("c1"),
        Notice("warning", "Your edit was not used: a rule denies it."),
        ApprovalRequested(EDITABLE),
        Gate(),
    ]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        _allow_suspend(run, monkeypatch)
        await _until_asked(run)
        await run.pilot.press("ctrl+g")
        await run.until(lambda: "Your edit was not used" in run.text)
        await run.until(lambda: run.app.widgets.approval.draft is not None)
        assert "touch one" in run.screen
        await run.pilot.press("ctrl+g")
        await run.until(lambda: (tmp_path / "seen").read_text().count("\n") >= 2)
        assert (tmp_path / "seen").read_text().split("\n")[:2] == ["touch one", "rm two"]
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("script", ["exit 0", "exit 3"])
def test_unchanged_or_failed_edit_keeps_the_approval_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    _editor(tmp_path, monkeypatch, f"touch {tmp_path}/ran; {script}")
    conversation = ScriptedConversation([ApprovalRequested(EDITABLE), UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        _allow_suspend(run, monkeypatch)
        await _until_asked(run)
        await run.pilot.press("ctrl+g")
        await run.until(lambda: (tmp_path / "ran").exists() and not _workers(run))
        assert conversation.answers == []
        assert ("ended with code 3; the call is unchanged" in " ".join(run.text.split())) is (script == "exit 3")
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def _workers(run: Running) -> bool:
    return any(worker.group == "command" and not worker.is_finished for worker in run.app.workers)


def test_ctrl_g_edits_only_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _editor(tmp_path, monkeypatch, f"touch {tmp_path}/ran")
    conversation = ScriptedConversation(_asking(Question(CALL, "Which one?")))

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "edits it" not in run.screen
        await run.pilot.press("ctrl+g")
        await run.pilot.press("escape")
        await run.until_idle()
        assert not (tmp_path / "ran").exists()

    drive(test, conversation)


def test_editor_that_writes_nothing_returns_to_the_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _editor(tmp_path, monkeypatch, "true")
    conversation = ScriptedConversation(_asking(PLAN))

    async def test(run: Running) -> None:
        _allow_suspend(run, monkeypatch)
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("ctrl+g")
        await run.until(lambda: not _workers(run) and not run.app.widgets.approval.is_writing_text)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y")
        await run.until_idle()
        assert conversation.answers == [("c1", AcceptPlan())]

    drive(test, conversation)


def test_paste_and_the_enter_after_it_are_never_an_answer() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        run.app.widgets.approval.post_message(events.Paste("y"))
        await run.until(lambda: "Typing a reason for No: y" in run.screen)
        await run.pilot.press("enter", "enter")
        assert conversation.answers == []
        assert run.app.widgets.approval.field_text == "y"
        await run.pilot.press("escape", "escape")
        await run.until_idle()

    drive(test, conversation)


def test_second_approval_has_its_own_300_ms() -> None:
    second = _request(call_id="c2")
    asked = [ApprovalRequested(_request()), ApprovalRequested(second)]
    script: Script = [_finished(), *asked, UntilAnswered("c1"), UntilAnswered("c2"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y", "y")
        assert conversation.answers == [("c1", Allow())]
        assert run.app.widgets.approval.shown_approval == second
        run.clock.now += 2 * GUARD_SECONDS
        await run.pilot.press("n")
        await run.until_idle()
        assert conversation.answers[1:] == [("c2", Deny())]

    drive(test, conversation)


def test_limit_question_names_the_end_and_is_answered_like_an_approval() -> None:
    limit = ErrorInfo(ErrorKind.RATE_LIMIT, "p: limit reached", 429, None, 7_800, 1_792_499_400)
    script: Script = [LimitReached(limit, 7_799.2, is_question=True), UntilAnswered(LIMIT_ID), ended()]
    rows: list[tuple[str, Decision]] = [("y", Allow()), ("1", Allow()), ("n", Deny()), ("escape", Deny())]
    conversation = ScriptedConversation(*(script for _ in rows))

    async def test(run: Running) -> None:
        for key, answer in rows:
            await _until_asked(run)
            asked = run.app.widgets.approval.shown_approval
            assert asked is not None
            assert asked.question.endswith("(in 2 h 10 min) and continue?")
            run.clock.now += GUARD_SECONDS
            cancels = conversation.cancels
            await run.pilot.press(key)
            await run.until_idle()
            assert conversation.answers[-1] == (LIMIT_ID, answer)
            assert (conversation.cancels > cancels) is (answer == Deny())

    drive(test, conversation)


def test_escape_denies_and_cancels_the_turn() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("escape")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny())]
        assert conversation.cancels == 1
        assert not run.app.widgets.approval.display
        assert "interrupted" in run.text

    drive(test, conversation)


def test_unsent_reason_is_put_into_the_prompt_after_an_older_draft() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.app.widgets.prompt.replace_text("older draft")
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t", *"a reason", "escape", "escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == "older draft\na reason"

    drive(test, conversation)


def test_escape_in_the_reason_returns_to_the_choices_and_keeps_the_text() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t", "y", "escape")
        assert not run.app.widgets.approval.is_writing_text
        assert conversation.answers == []
        assert conversation.cancels == 0
        await run.pilot.press("t", "o", "enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny("yo"))]

    drive(test, conversation)


def test_transcript_scrolls_and_the_prompt_keeps_its_text_during_an_approval() -> None:
    text = "\n\n".join(f"line {number}" for number in range(100))
    gate = Gate()
    script: Script = [*says(text), gate, ApprovalRequested(_request()), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        await run.type("draft")
        gate.open()
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        transcript = run.app.widgets.transcript
        await run.until(lambda: transcript.max_scroll_y > 20)
        await run.pilot.press("ctrl+home")
        assert transcript.scroll_offset.y == 0
        await run.pilot.press("pagedown")
        assert transcript.scroll_offset.y > 0
        assert run.app.widgets.prompt.text == "draft"
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_approval_answered_elsewhere_is_withdrawn() -> None:
    gate = Gate()
    settled = ToolFinished(CALL, ToolOutcome("timed out", is_error=True), "failed")
    conversation = ScriptedConversation([_finished(), ApprovalRequested(_request()), gate, settled, ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        gate.open()
        await run.until_idle()
        assert not run.app.widgets.approval.display
        assert conversation.answers == []

    drive(test, conversation)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 50)])
def test_long_preview_never_hides_the_question_or_choices(size: tuple[int, int]) -> None:
    preview = "\n".join(f"echo {number}" for number in range(200))
    conversation = ScriptedConversation(_asking(_request(preview=preview)))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        scroll = run.app.query_one("#approval-preview")
        # The title, the count of rows left, four choices and the status line; two for the transcript.
        assert scroll.size.height >= size[1] - (9 if size[1] >= 20 else 8)
        await run.pilot.press("shift+down", "shift+down")
        await run.until(lambda: scroll.scroll_offset.y == 2)
        for part in ("#approval-question", "#approval-more", "#approval-options", "#status"):
            region = run.app.query_one(part).region
            assert region.height > 0
            assert run.app.screen.region.contains_region(region)
        assert not run.app.query_one("#prompt-row").display
        await run.pilot.press("n")
        await run.until_idle()
        assert run.app.query_one("#prompt-row").display

    drive(test, conversation, size=size)


def _rows(format: Format, detail: str, width: int = 60) -> str:
    return shown_text(ApprovalDetail.of(format, detail).lines(width))


@pytest.mark.parametrize("format", ["command", "call"])
def test_command_is_shown_character_by_character(format: Format) -> None:
    hidden = "ls \x1b[2K\u202e\u200b\tcafé\nrm"
    expected = "ls \\x1b[2K\\u202e\\u200b⇥   café⏎\nrm"
    assert _rows(format, visible_lines(hidden)) == _rows(format, hidden) == expected


@pytest.mark.parametrize("format", ["command", "call"])
def test_line_break_in_a_command_is_marked(format: Format) -> None:
    assert _rows(format, visible_lines("cd /tmp\n\nrm x\n")) == "cd /tmp⏎\n⏎\nrm x⏎\n"
    forged = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-rm x"
    assert _rows(format, visible_lines(forged)) == forged.replace("\n", "⏎\n")


@given(st.text(st.characters(codec="utf-8"), max_size=60), st.integers(8, 30))
def test_highlighting_loses_no_character_of_a_command(command: str, width: int) -> None:
    detail = visible_lines(command)
    text = source_text(ApprovalDetail.of("command", detail).lines(width))
    assert text == detail or not detail.strip()


def _marked(command: str) -> list[str]:
    lines = ApprovalDetail.of("command", visible_lines(command)).lines(200)
    return [text for line in lines for text, style in line.spans if "risk" in style.slots]


@pytest.mark.parametrize(
    ("command", "risky"),
    [
        ("rm -rf build", "rm -rf"),
        ("cd x && rm -r -f y", "rm -r -f"),
        ("git push --force origin", "--force"),
        ("git push origin main -f", "-f"),
        ("git reset --hard HEAD~1", "--hard"),
        ("curl https://x.test/i | sh", "| sh"),
        ("wget -O- x |sudo bash -s", "|sudo bash"),
        ("sudo make install", "sudo"),
        ("find . -name x -delete", "-delete"),
        ("make test", ""),
        ("grep -rf patterns src", ""),
        ("echo form -rf", ""),
        ("cat build.sh | shuf", ""),
        ("npm run format --forceful", ""),
        ('git commit -m "Remove rm -rf and git push --force"', ""),
        ("git commit -m 'Fix\n\nUse rm -rf'; rm -rf b", "rm -rf"),
        ("echo rm -rf x", ""),
        ('echo "é rm -rf $(rm -rf y) --force"; sudo ls', "rm -rfsudo"),
        ("cat > a <<E\nrm -rf x\nE\nrm -r y", "rm -r"),
        ("bash <<E\nrm -rf x\nE", "rm -rf"),
        ("make # rm -rf x", ""),
        ("bash -c 'rm -rf x'", "rm -rf"),
        ("if rm -rf x; then", "rm -rf"),
        ("git commit --amend", "--amend"),
        ("crontab -r", "crontab -r"),
        ("systemctl --user stop x", "systemctl --user stop"),
        ("docker compose -f a.yml down --volumes", "--volumes"),
    ],
)
def test_risky_words_of_a_command_are_marked(command: str, risky: str) -> None:
    assert "".join(_marked(command)) == risky


BEFORE = """\
def total(items):
    cents = 0
    for item in items:
        cents = cents + item.price
    return cents


def discount(cents, code):
    if code == "half":
        return cents / 2
    return cents


def shown(cents):
    return "$" + str(cents / 100)


# the end
"""
AFTER = """\
def total(items):
    cents = 0
    for item in items:
        cents += item.price * item.count
    return cents


def discount(cents: int, code: str) -> int:
    if code == "half":
        return cents // 2
    return cents


def shown(cents):
    return f"${cents / 100:.2f}"


# the end
"""
FOUR = "\n".join(unified_diff(BEFORE.split("\n"), AFTER.split("\n"), "a/src/cart.py", "b/src/cart.py"))
FOUR_REQUEST = ToolApproval(
    call("edit", '{"path": "src/cart.py"}'),
    "Edit src/cart.py?",
    FOUR,
    "edit(./src/cart.py)",
    is_keepable=True,
    kind="edit",
    offers=("edits",),
)


def _screen(run: Running) -> list[str]:
    return ["".join(segment.text for segment in row) for row in run.app.screen._compositor.render_strips()]


COMMAND = replace(
    _request("shell(pytest -q)", "cd src && pytest -q --tb=short"), kind="command", reason="Asks because x"
)
ASKING_ABOUT_A_PLAN = PlanApproval(
    call("exit_plan_mode", '{"plan": "# Cache"}'), "Carry out this plan?", "# Cache\n\nx"
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("approval", [FOUR_REQUEST, COMMAND, ASKING_ABOUT_A_PLAN], ids=["edit", "command", "plan"])
@pytest.mark.parametrize(
    "size", [(20, 5), (40, 8), *(pytest.param(size, marks=pytest.mark.broad) for size in ((20, 12), (80, 10)))]
)
def test_choices_are_in_view_on_the_smallest_screens(size: tuple[int, int], approval: CallApproval) -> None:
    conversation = ScriptedConversation(_asking(approval))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        options = run.app.widgets.approval.options
        for number in range(1, len(options) + 1):
            rows = [row.strip("▌ ") for row in _screen(run)]
            shown = [
                at
                for at in range(1, len(options) + 1)
                if any(f"{at} {options[at - 1].label[:6]}" in row for row in rows)
            ]
            assert len(shown) >= min(len(options), size[1] - 3), run.screen
            assert any(row.startswith(f"› {number} ") for row in rows), run.screen
            assert "……" not in run.screen
            await run.pilot.press("down")

    drive(test, conversation, size=size)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_every_changed_line_of_a_four_line_edit_is_visible_while_yes_is_chosen(size: tuple[int, int]) -> None:
    other = call("edit", '{"path": "src/other.py"}', "c2")
    asked = reply("I will fix the cart.", FOUR_REQUEST.call, other, stop=StopReason.TOOL_USE)
    conversation = ScriptedConversation([asked, ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        screen_text = _screen(run)
        text = "\n".join(screen_text)
        changed = [line[1:] for line in FOUR.split("\n")[3:] if line[:1] in ("+", "-")]
        assert len(changed) == 8
        assert [line for line in changed if line not in text] == []
        assert any("Edit src/cart.py  +4 -4   1 of 2" in row for row in screen_text)
        assert any("› 1 Yes (y)" in row for row in screen_text)
        assert "@@" not in text
        assert "+++" not in text
        assert "Edit   src/cart.py" not in run.text
        await run.pilot.press("escape")
        await run.until_idle()
        assert "Edit   src/cart.py" in run.text

    drive(test, conversation, size=size)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "signs"), [((40, 20), "-+"), ((40, 17), "-+"), ((30, 8), "-"), ((20, 5), "-")])
def test_changed_lines_come_first_if_the_change_does_not_fit(size: tuple[int, int], signs: str) -> None:
    conversation = ScriptedConversation([_finished(), ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        rows = [match[1] for row in _screen(run) if (match := re.match(r"▌ +\d+ ([-+ ]) ", row))]
        assert set(signs) <= set(rows), run.screen
        assert "cart.py" in _screen(run)[-size[1] :][0] or size[1] > 8, run.screen
        assert run.app.widgets.approval.highlighted.label == "Yes"

    drive(test, conversation, size=size)


def test_choice_of_another_mode_names_the_key_of_the_user() -> None:
    request = replace(_request(), offers=("edits",))

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert any("Yes, and all edits from now on (F8)" in row for row in _screen(run))

    drive(test, ScriptedConversation(_asking(request)), keys={"next-mode": "f8"})


def test_thinking_and_a_question_that_does_not_fit_name_the_key_that_shows_all() -> None:
    conversation = ScriptedConversation(
        [ReasoningDelta(0, "hm"), _finished(), ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), ended()]
    )

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "more rows · PgDn scroll · F9 show all" in "\n".join(_screen(run))
        assert "∴ thought · F9" in run.text

    drive(test, conversation, keys={"fold": "f9"})


def test_pager_shows_all_of_a_change_that_does_not_fit() -> None:
    conversation = ScriptedConversation([_finished(), ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "# the end" not in "\n".join(_screen(run))
        assert "more rows · PgDn scroll · Ctrl+O show all" in "\n".join(_screen(run))
        await run.pilot.press("ctrl+o")
        await run.until(lambda: isinstance(run.app.screen, PagerScreen))
        await run.until(lambda: "Edit src/cart.py  +4 -4" in "\n".join(_screen(run)))
        await run.pilot.press("end")
        await run.until(lambda: "# the end" in "\n".join(_screen(run)))
        await run.pilot.press("ctrl+o")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow())]

    drive(test, conversation)


def test_resize_fits_the_approval_to_the_new_size() -> None:
    conversation = ScriptedConversation([_finished(), ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.resize_terminal(100, 50)
        await run.until(lambda: "# the end" in "\n".join(_screen(run)))
        assert not run.app.widgets.approval.view.has_more
        await run.pilot.resize_terminal(40, 14)
        await run.until(lambda: run.app.widgets.approval.view.has_more)
        assert "No, and say why" in "\n".join(_screen(run))
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_card_of_a_denied_edit_keeps_its_diff() -> None:
    denied = ToolFinished(FOUR_REQUEST.call, ToolOutcome("Denied: use Decimal", True, "denied", FOUR), "denied")
    script: Script = [_finished(), ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), denied, ended()]
    conversation = ScriptedConversation(script)

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t", *"use Decimal", "enter")
        await run.until_idle()
        assert "denied · use Decimal" in run.text
        assert 'return f"${cents / 100:.2f}"' in run.text

    drive(test, conversation, size=(80, 60))


def test_brackets_in_an_approval_are_text() -> None:
    request = ApprovalRequested(ToolApproval(CALL, "Run [bold]this[/]?", "echo [red]x[/red] [/]", "shell([x])"))
    conversation = ScriptedConversation([_finished(), request, UntilAnswered("c1"), ended()])

    async def test(run: Running) -> None:
        await _until_asked(run)
        screen = run.app.export_screenshot()
        screen_text = screen.replace("&#160;", " ")
        assert "Run [bold]this[/]?" in screen_text
        assert "echo [red]x[/red] [/]" in screen_text
        assert "shell([x])" in screen_text
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


QUESTION = Question(CALL, "Which color?", "It is used\neverywhere.", choices=(Choice("Red"), Choice("Blue", "as now")))


def test_question_is_answered_with_a_choice_or_text() -> None:
    plain = replace(QUESTION, choices=())
    again, once_more = RepeatedCall(CALL, "Run it again?", "ls"), ImpossibleCall(CALL, "Let it try again?", "{}")
    rows: list[tuple[CallApproval, tuple[str, ...], Decision]] = [
        (QUESTION, ("1",), Answer("Red")),
        (QUESTION, ("down", "enter"), Answer("Blue")),
        (QUESTION, ("3", *"green", "enter"), Answer("green")),
        (QUESTION, ("t", "enter", *"no", "enter"), Answer("no")),
        (QUESTION, ("up", "enter", *"x", "escape", "2"), Answer("Blue")),
        (plain, ("enter", *"any", "enter"), Answer("any")),
        (plain, ("1", "enter"), Answer("1")),
        (again, ("y",), Allow()),
        (again, ("n",), Deny(CHANGE_APPROACH)),
        (once_more, ("y",), Allow()),
        (once_more, ("n",), Deny()),
        (once_more, ("t", *"use ls", "enter"), Deny("use ls")),
    ]
    assert _decisions([row[:2] for row in rows]) == [("c1", answer) for *_, answer in rows]


def test_keys_pressed_as_a_question_opens_do_not_choose_an_answer() -> None:
    conversation = ScriptedConversation(_asking(QUESTION))

    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press("1", "enter", "n", "y")
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("n", "y")
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("1")
        assert conversation.answers == []
        assert run.app.widgets.prompt.text == "1\nnyny1"
        await run.pilot.press("up", "1")
        await run.until_idle()
        assert conversation.answers == [("c1", Answer("Red"))]

    drive(test, conversation)


PLAN = PlanApproval(call("exit_plan_mode", '{"plan": "# Cache"}'), "Carry out this plan?", "# Cache\n\n1. **add** it")


def test_plan_is_approved_with_a_mode_or_rejected() -> None:
    rows: list[tuple[tuple[str, ...], Decision]] = [
        (("1",), AcceptPlan("default")),
        (("y",), AcceptPlan("default")),
        (("2",), AcceptPlan("accept-edits")),
        (("a",), AcceptPlan("accept-edits")),
        (("3",), Deny()),
        (("t", *"less", "enter"), Deny("less")),
    ]
    assert _decisions([(PLAN, keys) for keys, _ in rows], "plan") == [("c1", answer) for _, answer in rows]


def test_plan_in_a_restricted_folder_offers_trust_with_accepted_edits() -> None:
    plan = replace(PLAN, is_trusted=False)
    script: Script = [reply("", plan.call), ApprovalRequested(plan), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script, mode="plan")
    trusted: list[bool] = []

    def trust() -> str:
        trusted.append(True)
        return "Folder trusted."

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        assert "1 Yes, and ask before each edit (y, Shift+Tab)" in run.screen
        assert "2 Yes, trust this folder and accept edits  edits in it run without asking" in run.screen
        assert "3 No, keep planning (n, Esc)" in run.screen
        await run.pilot.press("2")
        await run.until_idle()
        assert conversation.answers == [("c1", AcceptPlan("accept-edits", trusts_folder=True))]
        assert trusted == [True]
        assert "Folder trusted." in run.text

    drive(test, conversation, is_trusted=lambda: bool(trusted), trust=trust)


def test_shift_tab_approves_an_open_plan_with_the_mode_that_follows() -> None:
    conversation = ScriptedConversation(
        [reply("", PLAN.call), ApprovalRequested(PLAN), UntilAnswered("c1"), ended()], mode="plan"
    )

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert "1 Yes, and ask before each edit (y, Shift+Tab)" in run.screen
        await run.pilot.press("shift+tab")  # too early to be an answer
        assert conversation.answers == []
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t", "shift+tab")  # back from the reason to the choices
        assert conversation.answers == []
        assert conversation.mode == "plan"
        assert not run.app.widgets.approval.is_writing_text
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("shift+tab")
        await run.until_idle()
        assert conversation.answers == [("c1", AcceptPlan("default"))]

    drive(test, conversation)


def test_shift_tab_at_a_question_skips_plan_mode_which_would_deny_the_call() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        modes = []
        for _ in range(3):
            await run.pilot.press("shift+tab")
            modes.append(conversation.mode)
        assert modes == ["accept-edits", "default", "accept-edits"]
        assert conversation.answers == []

    drive(test, conversation)


def test_escape_and_a_digit_in_one_read_stop_the_turn_and_keep_the_digit() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("alt+2")
        await run.until_idle()
        assert conversation.cancels == 1
        assert conversation.answers == [("c1", Deny())]
        await run.until(lambda: run.app.widgets.prompt.text == "2")

    drive(test, conversation)


def test_escape_and_a_digit_in_one_read_leave_the_reason_and_choose() -> None:
    conversation = ScriptedConversation(_asking(_request()))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t", "x", "alt+2")
        await run.until_idle()
        assert conversation.answers == [("c1", Allow("session"))]

    drive(test, conversation)


def test_status_line_shows_the_mode_of_an_approved_plan() -> None:
    class Planning(ScriptedConversation):
        def answer(self, approval_id: str, decision: Decision) -> None:
            assert isinstance(decision, AcceptPlan)
            self.mode = decision.mode
            super().answer(approval_id, decision)

    conversation = Planning([reply("", PLAN.call), ApprovalRequested(PLAN), UntilAnswered("c1"), ended()], mode="plan")

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("2")
        await run.until_idle()
        assert run.app.widgets.status.status.mode == "accept-edits"

    drive(test, conversation)


RUNNER = replace(
    _request("shell(pytest -q)", "pytest -q"),
    kind="command",
    offers=("prefix", "sandbox"),
    prefix_rule="shell(pytest *)",
    sandboxed_rule="shell(pytest *)",
)


def test_test_runner_rule_is_accepted_after_one_warning() -> None:
    rows = [
        (("3", "1"), Allow("prefix")),
        (("3", "y"), Allow("prefix")),
        (("3", "enter", "4"), Allow("sandbox")),
        (("3", "n", "3", "up", "enter"), Allow("prefix")),
        (("3", "escape", "y"), Allow()),
        (("4",), Allow("sandbox")),
    ]
    conversation = ScriptedConversation(*(_asking(RUNNER) for _ in rows))

    async def test(run: Running) -> None:
        for number, (keys, answer) in enumerate(rows):
            await _until_asked(run)
            run.clock.now += GUARD_SECONDS
            await run.pilot.press("3")
            screen_text = " ".join(" ".join(_screen(run)).replace("▌", "").split())
            assert 'Careful: any "pytest …" will run without asking, outside the sandbox.' in screen_text
            assert "› 2 Back (n)" in screen_text
            assert len(conversation.answers) == number
            await run.pilot.press("escape", *keys)
            await run.until_idle()
            assert conversation.answers[-1] == ("c1", answer)
        assert conversation.cancels == 0

    drive(test, conversation)


def test_text_typed_at_a_warning_becomes_the_reason_for_no_of_the_question() -> None:
    conversation = ScriptedConversation(_asking(RUNNER))

    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("3")
        await run.until(lambda: "Careful:" in run.screen)
        await run.pilot.press(*"why not")
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("enter")
        await run.until(lambda: "No, and say why (t)\n▌     why not" in run.screen)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("enter")
        await run.until_idle()
        assert conversation.answers == [("c1", Deny("why not"))]

    drive(test, conversation)


def test_above_140_columns_old_and_new_text_are_side_by_side_in_question_and_card() -> None:
    finished = ToolFinished(FOUR_REQUEST.call, ToolOutcome("", diff=FOUR_REQUEST.detail), "done")
    script: Script = [ApprovalRequested(FOUR_REQUEST), UntilAnswered("c1"), finished, ended()]
    conversation = ScriptedConversation(script)

    def is_beside(run: Running) -> bool:
        return any(row.count("cents") == 2 and "│" in row for row in run.screen.split("\n"))

    async def test(run: Running) -> None:
        await _until_asked(run)
        assert is_beside(run)
        await run.pilot.resize_terminal(139, 40)
        await run.until(lambda: not is_beside(run))
        await run.pilot.resize_terminal(141, 40)
        await run.until(lambda: is_beside(run))
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("y")
        await run.until_idle()
        assert is_beside(run)
        await run.pilot.resize_terminal(139, 40)
        await run.until(lambda: not is_beside(run))
        await run.pilot.resize_terminal(200, 40)
        await run.until(lambda: is_beside(run))

    drive(test, conversation, size=(160, 40))


def test_cursor_of_the_terminal_is_in_the_reason_from_the_start_and_after_a_resize() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press("t")
        field = run.app.widgets.approval.query_one(AnswerField)
        await run.until(lambda: run.app.cursor_position == field.content_region.offset != (0, 0))
        await run.pilot.resize_terminal(60, 20)
        await run.until(lambda: run.app.cursor_position == field.content_region.offset)
        await run.pilot.press("escape", "escape")

    drive(test, ScriptedConversation(_asking(_request())))


def test_draft_typed_while_a_question_opens_shows_no_menu_over_it() -> None:
    async def test(run: Running) -> None:
        await _until_asked(run)
        await run.pilot.press(*"/di")
        await run.pilot.pause()
        assert run.app.widgets.prompt.text == "/di"
        assert "Show the file changes" not in "\n".join(_screen(run))
        await run.pilot.press("escape")
        await run.until_idle()
        await run.pilot.press("f")
        await run.until(lambda: "Show the file changes" in "\n".join(_screen(run)))

    drive(test, ScriptedConversation(_asking(_request())))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("edit(./src/cart.py)", "edits of src/cart.py"),
        ("shell(npm run build)", 'exactly "npm run build"'),
        ("shell(pytest *)", 'any "pytest …"'),
        ("fetch(example.org:8080)", "fetches from example.org:8080"),
        ("mcp(files/read_all)", "the tool read_all of files"),
    ],
)
def test_offered_rule_is_said_in_words_and_shown_exactly(rule: str, words: str) -> None:
    options = form_of(_request(rule=rule)).options
    assert (options[1].label, options[1].detail) == (f"Yes, and stop asking for {words} (this session)", rule)
    _, session, folder, *_ = form_of(replace(_request(rule=rule), is_keepable=True)).options
    assert (session.label, session.detail) == (f"Yes, and stop asking for {words} (this session)", "")
    assert (folder.label, folder.detail) == (f"Yes, always in this folder: {words}", rule)
