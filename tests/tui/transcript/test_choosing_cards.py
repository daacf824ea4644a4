"""Choosing a card by key: the mark moves from card to card, Enter unfolds one, Esc and typing return to the prompt."""

from __future__ import annotations

import re

from textual import events

from qcode.protocol.approvals import ToolApproval
from qcode.protocol.events import ApprovalRequested, ToolFinished
from qcode.protocol.reply import StopReason
from qcode.protocol.tools import ToolOutcome
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, Step, call, ended, reply, says

CALLS = tuple(call("read", f'{{"path": "{name}.py"}}', name) for name in ("one", "two", "three"))
READS: list[Step] = [
    reply("I read.", *CALLS, stop=StopReason.TOOL_USE),
    *(ToolFinished(item, ToolOutcome(f"text of {item.call_id}\n", summary="1 line"), "done") for item in CALLS),
]


def marked(run: Running) -> list[str]:
    return re.findall(r"✓›Read +(\w+)\.py", run.screen)


async def begin(run: Running) -> None:
    await run.send("look")
    await run.until_idle()
    await run.pilot.press("alt+o")
    await run.pilot.pause()


def test_keys_move_the_mark_and_stop_at_the_ends() -> None:
    async def test(run: Running) -> None:
        await begin(run)
        seen = [marked(run)]
        for key in ("j", "k", "up", "k", "down", "G", "g", "end", "home"):
            await run.pilot.press(key)
            await run.pilot.pause()
            seen.append(marked(run))
        names = ["three", "three", "two", "one", "one", "two", "three", "one", "three", "one"]
        assert seen == [[name] for name in names]
        assert "j k move · Enter unfold · Esc close" in run.status

    drive(test, ScriptedConversation([*READS, ended()]))


def test_enter_unfolds_the_marked_card_only_and_folds_it_again() -> None:
    async def test(run: Running) -> None:
        await begin(run)
        await run.pilot.press("k", "enter")
        await run.until(lambda: "text of two" in run.screen)
        assert "text of one" not in run.screen
        assert "text of three" not in run.screen
        assert marked(run) == ["two"]
        await run.pilot.press("enter")
        await run.until(lambda: "text of two" not in run.screen)
        await run.pilot.press("ctrl+o")
        await run.until(lambda: all(f"text of {name}" in run.screen for name in ("one", "two", "three")))

    drive(test, ScriptedConversation([*READS, ended()]))


def test_marked_card_stays_in_its_row_when_all_cards_are_unfolded() -> None:
    calls = tuple(call("read", f'{{"path": "f{number}.py"}}', f"f{number}") for number in range(9))
    script: list[Step] = [
        reply("I read.", *calls, stop=StopReason.TOOL_USE),
        *(ToolFinished(item, ToolOutcome("a line\n" * 9, summary="9 lines"), "done") for item in calls),
        ended(),
    ]

    def marked_row(run: Running) -> tuple[int, str]:
        rows = run.screen.split("\n")
        return next(((at, row.split()[1]) for at, row in enumerate(rows) if "›Read" in row), (-1, "no mark"))

    async def test(run: Running) -> None:
        await begin(run)
        await run.pilot.press("k", "k")
        await run.pilot.pause()
        before = marked_row(run)
        assert before[1] == "f6.py"
        await run.pilot.press("ctrl+o")
        await run.until(lambda: "a line" in run.screen)
        assert marked_row(run) == before
        assert "Enter fold" in run.status
        await run.pilot.press("ctrl+o")
        await run.until(lambda: "a line" not in run.screen)
        assert marked_row(run)[1] == "f6.py"

    drive(test, ScriptedConversation(script))


def test_hint_names_what_enter_does_with_the_marked_card() -> None:
    bare = call("read", '{"path": "bare.py"}', "bare")
    script = [
        reply("I read.", CALLS[0], bare, stop=StopReason.TOOL_USE),
        READS[1],
        ToolFinished(bare, ToolOutcome("", summary="empty"), "done"),
        ended(),
    ]

    async def test(run: Running) -> None:
        await begin(run)
        assert marked(run) == ["bare"]
        assert "j k move · Esc close" in run.status
        await run.pilot.press("enter", "k")
        await run.until(lambda: "j k move · Enter unfold · Esc close" in run.status)
        await run.pilot.press("enter")
        await run.until(lambda: "j k move · Enter fold · Esc close" in run.status)

    drive(test, ScriptedConversation(script))


def test_escape_returns_to_the_prompt_and_does_not_interrupt() -> None:
    gate = Gate()
    conversation = ScriptedConversation([*READS, gate, *says("Done."), ended()])

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        await run.pilot.press("alt+o")
        await run.until(lambda: bool(marked(run)))
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert marked(run) == []
        assert run.app.focused is run.app.widgets.prompt
        assert "Esc close" not in run.status
        assert conversation.cancels == 0
        gate.open()
        await run.until_idle()
        assert "Done." in run.screen, "the view follows the end again"

    drive(test, conversation)


def test_typing_and_pasting_return_to_the_prompt_with_the_text() -> None:
    async def test(run: Running) -> None:
        await begin(run)
        await run.pilot.press("h", "e", "j")
        assert run.app.widgets.prompt.text == "hej"
        assert marked(run) == []
        await run.pilot.press("alt+o")
        run.app.widgets.transcript.post_message(events.Paste(" two words"))
        await run.until(lambda: run.app.widgets.prompt.text == "hej two words")
        assert run.app.focused is run.app.widgets.prompt

    drive(test, ScriptedConversation([*READS, ended()]))


def test_question_that_opens_takes_the_focus() -> None:
    gate = Gate()
    asked = ApprovalRequested(ToolApproval(call(), "Run it?", "ls"))
    conversation = ScriptedConversation([*READS, gate, asked, Gate()])

    async def test(run: Running) -> None:
        await run.send("look")
        await gate.reached.wait()
        await run.pilot.press("alt+o")
        gate.open()
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        await run.until(lambda: run.app.focused is run.app.widgets.approval)
        assert marked(run) == []
        await run.pilot.press("alt+o", "k")
        await run.until(lambda: bool(marked(run)))
        await run.pilot.press("escape")
        await run.until(lambda: run.app.focused is run.app.widgets.approval)
        assert conversation.answers == []
        await run.pilot.press("escape")
        await run.until_idle()

    drive(test, conversation)


def test_mark_survives_the_loss_of_the_terminals_focus_and_a_resize() -> None:
    async def test(run: Running) -> None:
        await begin(run)
        await run.pilot.press("k")
        run.app.post_message(events.AppBlur())
        await run.pilot.pause()
        run.app.post_message(events.AppFocus())
        await run.pilot.pause()
        await run.pilot.resize_terminal(40, 20)
        await run.until(lambda: marked(run) == ["two"])
        await run.pilot.press("j")
        await run.until(lambda: marked(run) == ["three"])

    drive(test, ScriptedConversation([*READS, ended()]))


def test_hint_says_that_there_is_no_card_to_choose() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("alt+o")
        assert "no cards yet" in run.status
        assert run.app.focused is run.app.widgets.prompt

    drive(test)


def test_new_session_ends_choosing() -> None:
    async def test(run: Running) -> None:
        await begin(run)
        run.app.widgets.transcript.clear()
        await run.pilot.press("j", "x")
        assert run.app.widgets.prompt.text == "jx"

    drive(test, ScriptedConversation([*READS, ended()]))


def test_click_still_unfolds_a_card_while_choosing() -> None:
    async def test(run: Running) -> None:
        await begin(run)
        row = next(index for index, line in enumerate(run.screen.split("\n")) if "one.py" in line)
        await run.pilot.click(offset=(4, row))
        await run.until(lambda: "text of one" in run.screen)

    drive(test, ScriptedConversation([*READS, ended()]))
