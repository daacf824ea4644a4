"""Each key of the app, pressed in a running app."""

from __future__ import annotations

import pytest

from qcode.protocol.events import Level, SteeringAdded, ToolFinished
from qcode.protocol.reply import Outcome, TextDelta
from qcode.protocol.tools import ToolOutcome
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, call, ended, said, says


def _long_turn() -> tuple[Gate, ScriptedConversation]:
    gate = Gate()
    return gate, ScriptedConversation([TextDelta(0, "half a sen"), gate, *says("never"), ended()])


def test_enter_sends_the_prompt_and_empties_it() -> None:
    conversation = ScriptedConversation([*says("Good morning."), ended()])

    async def test(run: Running) -> None:
        await run.send("hello there")
        await run.until_idle()
        assert conversation.prompts == ["hello there"]
        assert run.app.widgets.prompt.text == ""
        assert "Good morning." in run.text
        assert "hello there" in run.text

    drive(test, conversation)


def test_empty_prompt_is_not_sent() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.pilot.press("space", "enter")
        await run.pilot.pause()
        assert conversation.prompts == []

    drive(test, conversation)


def test_four_keys_insert_a_new_line_and_send_nothing() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.pilot.press("a", "shift+enter", "b", "alt+enter", "c", "ctrl+j", "d", "backslash", "enter", "e")
        assert run.app.widgets.prompt.text == "a\nb\nc\nd\ne"
        assert conversation.prompts == []

    drive(test, conversation)


def test_shift_tab_in_a_restricted_folder_leaves_out_accept_edits_and_says_why() -> None:
    async def test(run: Running) -> None:
        modes, hints = [], []
        for _ in range(3):
            await run.pilot.press("shift+tab")
            hints.append("/trust enables accept edits" in run.status)
            modes.append(run.app.agent.conversation.mode)
        assert modes == ["plan", "default", "plan"]
        assert hints == [True, False, True]  # from plan to default, no mode is left out

    drive(test, is_trusted=lambda: False)

    async def trusted(run: Running) -> None:
        await run.pilot.press("shift+tab")
        assert run.app.agent.conversation.mode == "accept-edits"
        assert "accept edits" in run.status
        assert "trust" not in run.status

    drive(trusted)


def test_mode_without_effect_in_a_restricted_folder_is_not_shown_as_the_mode() -> None:
    trusted: list[bool] = []

    def trust() -> str:
        trusted.append(True)
        return "Folder trusted."

    async def test(run: Running) -> None:
        await run.send("/mode Accept-Edits")
        assert "Mode accept-edits applies once you trust this folder (/trust)." in run.text
        assert "ask before edits" in run.status
        assert "accept edits" not in run.status
        await run.send("/trust")
        assert "accept edits" in run.status

    drive(test, is_trusted=lambda: bool(trusted), trust=trust)


def test_escape_interrupts_at_once_and_keeps_the_shown_text() -> None:
    gate, conversation = _long_turn()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.press("escape")
        await run.until_idle()
        assert conversation.cancels == 1
        assert "half a sen" in run.text
        assert "interrupted" in run.text
        assert "never" not in run.text

    drive(test, conversation)


def test_hint_for_a_second_press_ends_with_the_prompt_that_is_sent() -> None:
    gate, conversation = _long_turn()

    async def test(run: Running) -> None:
        await run.pilot.press("escape")
        assert "press Esc again to rewind" in run.status
        await run.send("go")
        await gate.reached.wait()
        await run.until(lambda: "Esc to interrupt" in run.status)
        assert "press Esc again" not in run.status

    conversation.messages = said("before")
    drive(test, conversation)


def test_double_escape_clears_the_prompt_and_up_restores_it() -> None:
    async def test(run: Running) -> None:
        await run.type("draft")
        await run.pilot.press("escape")
        assert run.app.widgets.prompt.text == "draft"
        assert "press Esc again to clear the prompt" in run.status
        await run.pilot.press("escape")
        assert run.app.widgets.prompt.text == ""
        await run.pilot.press("up")
        assert run.app.widgets.prompt.text == "draft"

    drive(test)


@pytest.mark.parametrize("key", ["ctrl+u", "up"])
def test_hint_to_clear_the_prompt_ends_with_the_draft(key: str) -> None:
    async def test(run: Running) -> None:
        await run.send("earlier")
        await run.until_idle()
        await run.type("draft")
        await run.pilot.press("escape")
        assert "press Esc again to clear the prompt" in run.status
        await run.pilot.press(key)
        await run.until(lambda: "press Esc again" not in run.status)
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert run.app.widgets.prompt.text == {"ctrl+u": "", "up": "earlier"}[key]

    drive(test)


def test_ctrl_c_interrupts_then_clears_then_quits_on_the_second_press() -> None:
    gate, conversation = _long_turn()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.type("next")
        await run.pilot.press("ctrl+c")
        await run.until_idle()
        assert conversation.cancels == 1
        assert run.app.widgets.prompt.text == "next"
        await run.pilot.press("ctrl+c")
        assert run.app.widgets.prompt.text == ""
        await run.pilot.press("ctrl+c")
        assert "press Ctrl+C again to quit" in run.status
        assert run.app.is_running
        await run.pilot.press("ctrl+c")
        await run.until(lambda: run.app.return_value is not None)
        assert run.app.return_value == 0

    drive(test, conversation)


def test_two_presses_of_ctrl_c_far_apart_do_not_quit() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+c")
        run.clock.now += 60
        await run.pilot.press("ctrl+c")
        await run.pilot.pause()
        assert run.app.return_value is None
        assert "again to quit" in run.status

    drive(test)


@pytest.mark.parametrize("key", ["ctrl+c", "escape"])
def test_typing_between_two_presses_makes_the_second_one_the_first(key: str) -> None:
    async def test(run: Running) -> None:
        await run.pilot.press(key)
        assert "again to" in run.status
        await run.pilot.press("x")
        assert "again to" not in run.status
        await run.pilot.press("backspace", key)
        await run.pilot.pause()
        assert run.app.return_value is None
        assert "again to" in run.status

    drive(test, ScriptedConversation(messages=said("before")))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("key", ["ctrl+c", "escape"])
@pytest.mark.parametrize("other", ["f1", "pageup", "ctrl+o"])
def test_another_key_ends_the_hint_for_a_second_press(key: str, other: str) -> None:
    async def test(run: Running) -> None:
        await run.pilot.press(key)
        assert "again to" in run.status
        await run.pilot.press(other)
        assert "again to" not in run.status
        await run.pilot.press("ctrl+c")
        assert run.app.return_value is None
        assert "press Ctrl+C again to quit" in run.status

    drive(test, ScriptedConversation(messages=said("before")))


def test_ctrl_c_copies_a_selection_instead_of_clearing_it() -> None:
    async def test(run: Running) -> None:
        await run.type("draft")
        await run.pilot.press("shift+home", "ctrl+c")
        assert run.app.clipboard == "draft"
        assert run.app.widgets.prompt.text == "draft"

    drive(test)


def test_ctrl_d_quits_only_on_an_empty_prompt() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("a", "b", "left", "ctrl+d")
        assert run.app.widgets.prompt.text == "a"
        assert run.app.return_value is None
        await run.pilot.press("backspace", "ctrl+d")
        await run.until(lambda: run.app.return_value is not None)
        assert run.app.return_value == 0

    drive(test)


def test_quit_interrupts_the_turn_and_waits_for_its_end() -> None:
    gate, conversation = _long_turn()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.press("ctrl+d")
        await run.until(lambda: run.app.return_value is not None)
        assert conversation.cancels == 1
        assert not run.app.turns.is_running

    drive(test, conversation)


def test_shift_tab_cycles_three_modes_and_never_reaches_bypass() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        seen, words = [], []
        for _ in range(6):
            await run.pilot.press("shift+tab")
            seen.append(conversation.mode)
            words.append(run.status.partition(" · ")[0])
        assert seen == ["accept-edits", "plan", "default"] * 2
        assert words == ["accept edits", "plan mode", "ask before edits"] * 2

    drive(test, conversation)


def test_shift_tab_leaves_bypass_for_default() -> None:
    conversation = ScriptedConversation(mode="bypass")

    async def test(run: Running) -> None:
        assert "without asking" in run.text
        await run.pilot.press("shift+tab")
        assert conversation.mode == "default"

    drive(test, conversation)


def test_question_mark_and_f1_show_and_hide_the_keys() -> None:
    async def test(run: Running) -> None:
        for key in ("question_mark", "f1"):
            await run.pilot.press(key)
            assert run.app.widgets.help.is_open
            assert run.app.widgets.prompt.text == ""
            await run.pilot.press(key)
            assert not run.app.widgets.help.is_open

    drive(test)


def test_question_mark_in_a_prompt_is_a_character() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("a", "question_mark")
        assert run.app.widgets.prompt.text == "a?"
        assert not run.app.widgets.help.is_open

    drive(test)


def test_escape_closes_help_before_it_interrupts() -> None:
    gate, conversation = _long_turn()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.press("f1", "escape")
        assert not run.app.widgets.help.is_open
        assert conversation.cancels == 0
        gate.open()
        await run.until_idle()

    drive(test, conversation)


def test_page_keys_scroll_the_transcript_while_the_prompt_has_the_focus() -> None:
    conversation = ScriptedConversation(messages=said("\n\n".join(f"line {number}" for number in range(100))))

    async def test(run: Running) -> None:
        transcript = run.app.widgets.transcript
        await run.until(lambda: transcript.max_scroll_y > 50)
        await run.pilot.press("ctrl+home")
        assert transcript.scroll_offset.y == 0
        await run.pilot.press("pagedown")
        assert transcript.scroll_offset.y > 0
        await run.pilot.press("pageup")
        assert transcript.scroll_offset.y == 0
        await run.pilot.press("ctrl+end")
        assert transcript.scroll_offset.y == transcript.max_scroll_y

    drive(test, conversation)


def test_ctrl_p_opens_the_palette_which_handles_its_own_keys() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+p")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press(*"newsess")
        await run.pilot.press("enter")
        await run.until(lambda: len(run.app.screen_stack) == 1 and conversation.clears == 1)
        await run.pilot.press("ctrl+p")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press("escape")
        await run.until(lambda: len(run.app.screen_stack) == 1)
        assert run.app.focused is run.app.widgets.prompt

    drive(test, conversation)


def test_any_command_id_can_have_a_key() -> None:
    conversation = ScriptedConversation(messages=said("the reply"))

    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+y")
        await run.until(lambda: len(run.app.screen_stack) == 2)
        await run.pilot.press("enter")
        await run.until(lambda: run.app.clipboard == "the reply")
        seen = []
        for key in ("shift+tab", "f9"):
            await run.pilot.press(key)
            seen.append(conversation.mode)
        assert seen == ["default", "accept-edits"]

    drive(test, conversation, keys={"copy": "ctrl+y", "next-mode": "f9"})


def test_text_typed_without_focus_goes_to_the_prompt() -> None:
    async def test(run: Running) -> None:
        run.app.set_focus(None)
        await run.pilot.press("h", "i")
        assert run.app.widgets.prompt.text == "hi"

    drive(test)


def test_prompt_during_a_turn_steers_it() -> None:
    gate, taken = Gate(), Gate()
    conversation = ScriptedConversation([gate, SteeringAdded("also tests"), taken, *says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("also tests")
        await run.pilot.pause()
        assert conversation.steered == ["also tests"]
        queued = [run.app.widgets.queue.typed_texts]
        gate.open()
        await taken.reached.wait()
        queued.append(run.app.widgets.queue.typed_texts)
        assert queued == [("also tests",), ()]
        assert "also tests" in run.text
        taken.open()
        await run.until_idle()
        assert conversation.prompts == ["go"]

    drive(test, conversation)


def test_queued_prompt_is_sent_after_the_turn() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, *says("one"), ended()], [*says("two"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("more")
        await run.send("and more")
        await run.pilot.pause()
        gate.open()
        await run.until(lambda: len(conversation.prompts) == 2)
        await run.until_idle()
        assert conversation.prompts[1] == "more\n\nand more"
        assert "two" in run.text
        assert run.app.widgets.queue.typed_texts == ()

    drive(test, conversation)


def test_queued_prompt_returns_to_prompt_after_interrupt_or_error() -> None:
    for ending in (None, ended(Outcome.ERROR, error="no such key")):
        gate = Gate()
        conversation = ScriptedConversation([gate, ending or ended()])

        async def test(
            run: Running,
            gate: Gate = gate,
            is_interrupted: bool = ending is None,
            conversation: ScriptedConversation = conversation,
        ) -> None:
            await run.send("go")
            await gate.reached.wait()
            await run.send("more")
            await run.pilot.pause()
            if is_interrupted:
                await run.pilot.press("escape")
            gate.open()
            await run.until_idle()
            assert conversation.prompts == ["go"]
            assert run.app.widgets.prompt.text == "more"

        drive(test, conversation)


def test_ctrl_o_expands_and_collapses_output() -> None:
    output = "\n".join(f"row {number}" for number in range(300))
    conversation = ScriptedConversation([ToolFinished(call(), ToolOutcome(output), "done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until_idle()
        transcript = run.app.widgets.transcript
        await run.until(lambda: "Run" in run.screen)
        folded = transcript.virtual_size.height
        assert folded < 300
        await run.pilot.press("ctrl+o")
        await run.until(lambda: transcript.virtual_size.height > 300)
        await run.pilot.press("ctrl+o")
        await run.until(lambda: transcript.virtual_size.height == folded)

    drive(test, conversation)


def test_ctrl_o_without_output_in_view_says_what_it_changes() -> None:
    output = "\n".join(f"row {number}" for number in range(30))
    long_text = "\n\n".join(f"line {number}" for number in range(60))
    conversation = ScriptedConversation([ToolFinished(call(), ToolOutcome(output), "done"), *says(long_text), ended()])

    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+o")
        assert "nothing to unfold yet" in run.status
        assert not run.app.widgets.transcript.content.is_unfolded
        await run.send("go")
        await run.until_idle()
        assert "line 59" in run.screen
        await run.pilot.press("ctrl+o")
        assert "all output is unfolded now" in run.status
        await run.pilot.press("ctrl+o")
        assert "all output is folded again" in run.status
        run.app.view.hint("")
        await run.pilot.press("home", "ctrl+o")
        await run.until(lambda: "row 12" in run.screen)
        assert "unfolded" not in run.status
        # A hint about all output ends when a later press changes rows in view.
        run.app.view.hint("all output is folded again")
        await run.pilot.press("ctrl+o")
        await run.until(lambda: "row 12" not in run.screen)
        assert "folded again" not in run.status

    drive(test, conversation)


def test_new_text_below_is_announced_above_the_prompt_with_the_key_that_shows_it() -> None:
    gate = Gate()
    lines = TextDelta(0, "\n\n".join(f"row {number}" for number in range(60)))
    conversation = ScriptedConversation([lines, gate, TextDelta(0, "\n\nlast")])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.until(lambda: "row 59" in run.screen)
        height = run.app.widgets.transcript.size.height
        await run.pilot.press("home")
        assert "row 2" in run.screen
        gate.open()
        await run.until(lambda: "↓ new text below · Ctrl+End" in run.screen)
        assert run.app.widgets.transcript.size.height == height
        await run.type("x")
        await run.pilot.press("end")
        assert not run.app.widgets.transcript.is_anchored
        await run.pilot.press("backspace", "end")
        await run.until(lambda: run.app.widgets.transcript.is_anchored)
        await run.until(lambda: "new text below" not in run.screen)

    drive(test, conversation)


def test_panel_of_answers_keeps_earlier_notices_until_it_is_closed() -> None:
    conversation = ScriptedConversation([TextDelta(0, "\n\n".join(f"row {n}" for n in range(60))), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until_idle()
        await run.pilot.press("home")
        notices: list[tuple[Level, str]] = [("error", "The first failed."), ("info", "The second is done.")]
        for level, text in notices:
            run.app.view.notify(level, text)
        await run.pilot.pause()
        assert all(text in run.screen for text in ("Error", "The first failed.", "The second is done."))
        await run.pilot.press("escape")
        run.app.view.notify("info", "The third is done.")
        await run.pilot.pause()
        assert "The third is done." in run.screen
        assert "The first failed." not in run.screen

    drive(test, conversation)


def test_answer_of_a_command_is_shown_above_the_prompt_while_the_user_reads_elsewhere() -> None:
    gate = Gate()
    lines = TextDelta(0, "\n\n".join(f"row {number}" for number in range(60)))
    conversation = ScriptedConversation([lines, gate, TextDelta(0, "\n\nlast")])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.until(lambda: "row 59" in run.screen)
        await run.pilot.press("home")
        first_row = run.screen.split("\n")[0]
        await run.send("/mode nonsense")
        await run.until(lambda: "nonsense" in run.screen)
        assert run.app.widgets.help.heading == "Warning"
        gate.open()
        await run.until_idle()
        assert run.screen.split("\n")[0] == first_row
        assert "nonsense" in run.screen
        run.app.widgets.transcript.add_notice("info", "a job has ended")
        await run.pilot.press("escape", "delete", "end")
        await run.send("/mode bypass")
        await run.until(lambda: "Cannot switch to bypass here" in run.screen)
        assert not run.app.widgets.help.is_open

    drive(test, conversation)


def test_interrupt_out_of_view_is_said_in_the_status_line() -> None:
    gate = Gate()
    lines = TextDelta(0, "\n\n".join(f"row {number}" for number in range(60)))
    conversation = ScriptedConversation([lines, gate])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.until(lambda: "row 59" in run.screen)
        await run.pilot.press("home", "escape")
        await run.until_idle()
        assert "interrupted" in run.status

    drive(test, conversation)


def test_hint_of_a_key_ends_with_another_key() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+o")
        await run.until(lambda: "nothing to unfold yet" in run.screen)
        await run.pilot.press("a")
        await run.pilot.pause()
        assert "nothing to unfold yet" not in run.screen

    drive(test)
