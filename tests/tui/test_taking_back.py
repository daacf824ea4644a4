"""An interrupt before any output returns the prompt, and the conversation is as it was before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from qcode.agent.context.attachments import aside_block, shell_block
from qcode.protocol.reply import TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.tui.panels.draft import GUARD_SECONDS
from tests.fakes.conversation import Talk, talk
from tests.fakes.scripted import Hang, begun, call_reply, text_reply
from tests.tui.harness import Running, running


def drive(it: Talk, base: Path, test: Callable[[Running], Awaitable[None]]) -> None:
    async def body() -> None:
        async with running(it.conversation, folder=base, sessions=it.sessions) as run:
            await test(run)

    asyncio.run(body())


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
def test_prompt_of_a_turn_without_output_returns_and_is_sent_once(tmp_path: Path, key: str) -> None:
    it = talk(tmp_path, [*begun(), Hang()], text_reply("Done."))

    async def test(run: Running) -> None:
        it.conversation.attach((shell_block("ls", ToolOutcome("a.txt")),))
        await run.send("make it so")
        await run.until(lambda: bool(it.provider.requests))
        await run.pilot.press(key)
        await run.until_idle()
        assert run.app.widgets.prompt.text == "make it so"
        assert it.conversation.messages == ()
        assert "make it so" not in run.text
        assert "interrupted" not in run.text
        await run.pilot.press("end", *" now", "enter")
        await run.until(lambda: "Done." in run.text)
        texts = [message.text for message in it.provider.requests[-1].messages]
        assert len(texts) == 1, "the first one is not sent again"
        assert "make it so now" in texts[0]
        assert "a.txt" in texts[0], "output that waited for the prompt goes with it"

    drive(it, tmp_path, test)
    records = (it.store.folder / f"{it.conversation.session_id}.jsonl").read_text()
    assert records.count('"kind":"message"') == 3, "the session keeps the record of the first one"
    assert len(it.store.load(it.conversation.session_id).messages) == 2


@pytest.mark.parametrize("commands", [("/undo",), ("/undo", "/redo", "/undo")])
def test_undone_prompt_returns_with_all_its_attachments(tmp_path: Path, commands: tuple[str, ...]) -> None:
    it = talk(tmp_path, text_reply("It fails."), text_reply("Fixed."))

    async def test(run: Running) -> None:
        output = shell_block("make test", ToolOutcome("1 failed", summary="exit 2"))
        it.conversation.attach((output, aside_block("which file?", "cart.py")))
        await run.send("why?")
        await run.until_idle()
        for command in commands:
            await run.pilot.press(*command, "enter")  # the keys replace the returned prompt
            if command == "/redo":
                await run.until(lambda: bool(it.conversation.messages) and "+ ! make" not in run.screen)
            else:
                await run.until(lambda: not it.conversation.messages and "+ ! make test  exit 2" in run.screen)
        assert run.app.widgets.prompt.text == "why?"
        await run.pilot.press("end", *" fix it", "enter")
        await run.until(lambda: "Fixed." in run.text)
        (message,) = it.provider.requests[-1].messages
        assert message.text.count("1 failed") == message.text.count("cart.py") == 1

    drive(it, tmp_path, test)


def test_prompt_stays_sent_if_there_was_output_or_something_new_is_typed(tmp_path: Path) -> None:
    it = talk(tmp_path, [*begun(), TextDelta(0, "I beg"), Hang()], [*begun(), Hang()])

    async def test(run: Running) -> None:
        await run.send("one")
        await run.until(lambda: "I beg" in run.text)
        await run.pilot.press("escape")
        await run.until_idle()
        assert run.app.widgets.prompt.is_empty
        await run.send("two")
        await run.until(lambda: len(it.provider.requests) == 2)
        await run.type("next idea")
        await run.pilot.press("escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == "next idea"
        assert [message.text for message in it.conversation.messages if message.role == "user"] == ["one", "two"]

    drive(it, tmp_path, test)


def test_notices_above_a_withdrawn_prompt_stay_and_nothing_else_moves(tmp_path: Path) -> None:
    it = talk(tmp_path, text_reply("First."), [*begun(), Hang()])

    async def test(run: Running) -> None:
        await run.send("one")
        await run.until(lambda: "First." in run.text)
        await run.until_idle()
        await run.send("/theme nothing")
        await run.until(lambda: "Unknown theme" in run.text)
        await run.pilot.press("escape", "escape")
        before = run.text
        await run.send("two")
        await run.until(lambda: len(it.provider.requests) == 2)
        await run.pilot.press("escape")
        await run.until_idle()
        assert run.app.widgets.prompt.text == "two"
        assert run.text == before

    drive(it, tmp_path, test)


def test_welcome_is_whole_again_if_the_first_prompt_is_withdrawn(tmp_path: Path) -> None:
    it = talk(tmp_path, [*begun(), Hang()])

    async def test(run: Running) -> None:
        before = run.text
        await run.send("one")
        await run.until(lambda: len(it.provider.requests) == 1)
        assert run.text != before
        await run.pilot.press("escape")
        await run.until_idle()
        assert run.text == before

    drive(it, tmp_path, test)


@pytest.mark.parametrize("key", ["escape", "n"])
def test_no_to_another_try_of_calls_that_cannot_run_is_an_interruption(key: str, tmp_path: Path) -> None:
    it = talk(tmp_path, *(call_reply("fly", {"to": "moon"}) for _ in range(4)), is_attended=True)

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        run.clock.now += GUARD_SECONDS
        await run.pilot.press(key)
        await run.until(lambda: not run.app.turns.is_running)
        assert "interrupted" in run.text
        assert "The turn has ended" not in run.text

    drive(it, tmp_path, test)
    assert '"outcome":"cancelled"' in (it.store.folder / f"{it.conversation.session_id}.jsonl").read_text()
