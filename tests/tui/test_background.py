"""Ctrl+B moves a running command to the background."""

from __future__ import annotations

from qcode.protocol.events import ToolStarted
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, call, ended


def test_long_running_command_shows_the_background_key_which_moves_it() -> None:
    gate = Gate()
    conversation = ScriptedConversation([ToolStarted(call(), is_backgroundable=True), gate, ended()])
    conversation.background.calls = ("c0", "c1")

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        assert "background" not in run.text
        run.clock.now += 4
        run.app.parts.transcript.content.tick()
        assert "running 4 s \u00b7 Ctrl+B: background" in run.text
        await run.pilot.press("ctrl+b")
        await run.until(lambda: bool(conversation.background.moved))
        assert conversation.background.moved == ["c1"]
        gate.open()
        await run.until_idle()
        assert "Ctrl+B: background" not in run.text

    drive(test, conversation)


def test_call_that_cannot_be_moved_shows_no_background_key() -> None:
    gate = Gate()
    conversation = ScriptedConversation([ToolStarted(call("read")), gate, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        run.clock.now += 4
        run.app.parts.transcript.content.tick()
        assert "running 4 s" in run.text
        assert "background" not in run.text

    drive(test, conversation)


def test_background_key_moves_the_cursor_and_bg_reports_that_nothing_can_be_moved() -> None:
    async def test(run: Running) -> None:
        await run.type("ab")
        await run.pilot.press("ctrl+b")
        assert run.app.parts.prompt.cursor_location == (0, 1)
        await run.pilot.press("ctrl+e", "ctrl+u")
        await run.send("/bg")
        await run.pilot.pause()
        assert "No running command can move to the background." in run.text

    drive(test)


def test_background_refusal_reports_reason() -> None:
    gate = Gate()
    conversation = ScriptedConversation([ToolStarted(call(), is_backgroundable=True), gate, ended()])
    conversation.background.calls, conversation.background.refusal = ("c1",), "Too many."

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.press("ctrl+b")
        await run.until(lambda: "Too many." in run.text)

    drive(test, conversation)
