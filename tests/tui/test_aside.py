"""`/btw`: asked at any time, shown in a panel, closed with Esc, added with Ctrl+S, and printed in linear mode."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from qcode.agent.context.attachments import Attachment, aside_block, parse_attached
from qcode.protocol.errors import ErrorKind
from qcode.protocol.messages import Message, Text, assistant
from qcode.protocol.model import ModelFacts
from qcode.protocol.usage import Price, Usage
from tests.fakes.conversation import Model, Talk, talk
from tests.fakes.scripted import Hang, Steps, begun, call_reply, cut_text, fails, text_reply
from tests.tui.harness import Running, make_agent, running
from tests.tui.scripted import ScriptedConversation
from tests.tui.test_linear import Typed, linear

PRICED = Model(facts=ModelFacts(price=Price(Decimal(10), Decimal(100))))


def drive(
    base: Path,
    test: Callable[[Running, Talk], Awaitable[None]],
    *replies: Steps,
    size: tuple[int, int] = (80, 24),
    keys: Mapping[str, str] | None = None,
) -> None:
    """Run `test` on the app with a real conversation that gets `replies`."""

    async def body() -> None:
        it = talk(base, *replies, model=PRICED, is_attended=True)
        async with running(it.conversation, size=size, keys=keys) as run:
            await test(run, it)
        await it.conversation.close()

    asyncio.run(body())


def shown(run: Running) -> str:
    """The text of the panel, empty if it is not visible."""
    panel = run.app.widgets.aside
    return panel.plain if panel.is_open else ""


async def pressed(run: Running, *keys: str) -> None:
    await run.pilot.press(*keys)
    await run.pilot.pause()


def test_aside_is_shown_in_a_panel_and_closed_without_a_trace(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw what is **it**?")
        await run.until(lambda: "It is a [parser]." in shown(run) and "Ctrl+S" in run.screen)
        assert "▌ btw what is **it**?" in run.screen
        assert "Ctrl+S attach to prompt  ·  Esc close" in run.screen
        assert "parser" not in run.text
        assert "session 1.1k tokens  $0.02" in run.status
        await pressed(run, "escape")
        assert shown(run) == ""
        assert it.conversation.messages == ()
        assert run.app.widgets.prompt.is_empty

    drive(tmp_path, test, text_reply("It is a [parser].", usage=Usage(1_000, 100)))


def test_aside_names_the_key_of_the_user_that_attaches_it(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw what is it?")
        await run.until(lambda: "F8 attach to prompt  ·  Esc close" in run.screen)

    drive(tmp_path, test, text_reply("A parser."), keys={"add-aside": "f8"})


def test_aside_runs_beside_a_turn_and_escape_closes_it_first(tmp_path: Path) -> None:
    hang = Hang()

    async def test(run: Running, it: Talk) -> None:
        await run.send("work")
        await hang.reached.wait()
        await run.send("/btw how far?")
        await run.until(lambda: "Half way." in shown(run))
        await run.until(lambda: "Working" in run.text)
        await pressed(run, "escape")
        assert shown(run) == ""
        assert run.app.turns.is_running
        hang.go.set()
        await run.until_idle()
        assert "Working done." in run.text
        assert "Half way" not in run.text

    drive(tmp_path, test, (*begun("Working "), hang, *text_reply("done.")[1:]), text_reply("Half way."))


def test_escape_cancels_the_request_of_an_aside(tmp_path: Path) -> None:
    hang = Hang()

    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw what?")
        await hang.reached.wait()
        await run.until(lambda: "Beginning" in shown(run) and "writing  ·  Esc close" in run.screen)
        await pressed(run, "ctrl+s")  # nothing to add yet
        await pressed(run, "escape")
        await run.until(lambda: it.provider.broken_off == 1)
        assert shown(run) == ""
        await run.send("/btw")
        await run.until(lambda: "Type a question after /btw." in run.text)

    drive(tmp_path, test, (*begun("Beginning"), hang))


def test_second_aside_replaces_the_first(tmp_path: Path) -> None:
    hang = Hang()

    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw one?")
        await hang.reached.wait()
        await run.send("/btw two?")
        await run.until(lambda: "Second" in shown(run))
        assert "First" not in shown(run)
        assert it.provider.broken_off == 1

    drive(tmp_path, test, (*begun("First"), hang), text_reply("Second."))


def test_added_aside_is_sent_with_the_next_message(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw which?")
        await run.until(lambda: "Ctrl+S" in run.screen)
        await pressed(run, "ctrl+s")
        assert shown(run) == ""
        assert "Delete the label to remove it." in run.status
        assert run.app.widgets.prompt.text == "[Aside #1 which?] "
        await run.send("then do it")
        await run.until_idle()
        assert "> [Aside #1 which?] then do it" in run.text
        block, typed = it.provider.requests[1].messages[-1].blocks
        assert isinstance(block, Text)
        assert parse_attached(block.text) == Attachment("aside", "which?", "The third.")
        assert typed == Text("then do it")
        await run.send("/btw")
        await run.until(lambda: "Type a question after /btw." in run.text)

    drive(tmp_path, test, text_reply("The third."), text_reply("Done."))


def test_added_aside_is_removed_with_its_label(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw which [one]?")
        await run.until(lambda: "Ctrl+S" in run.screen)
        await run.type("before ")
        await pressed(run, "ctrl+s")
        assert run.app.widgets.prompt.text == "before [Aside #1 which one?] "
        await pressed(run, "backspace", "backspace")
        assert run.app.widgets.prompt.text == "before "
        await run.send("after")
        await run.until_idle()
        assert it.provider.requests[1].messages[-1].blocks == (Text("before after"),)

    drive(tmp_path, test, text_reply("The third."), text_reply("Done."))


def test_added_aside_joins_a_running_turn(tmp_path: Path) -> None:
    hang = Hang()

    async def test(run: Running, it: Talk) -> None:
        await run.send("work")
        await hang.reached.wait()
        await run.send("/btw which?")
        await run.until(lambda: "Ctrl+S" in run.screen)
        await pressed(run, "ctrl+s")
        await run.send("use it")
        assert "queued: [Aside #1 which?] use it" in run.screen
        hang.go.set()
        await run.until_idle()
        (block, typed) = it.provider.requests[2].messages[-1].blocks
        assert isinstance(block, Text)
        assert parse_attached(block.text) == Attachment("aside", "which?", "The third.")
        assert typed == Text("use it")

    drive(
        tmp_path, test, (*begun("Working "), hang, *text_reply("done.")[1:]), text_reply("The third."), text_reply("I.")
    )


def test_truncated_aside_says_so_and_is_continued(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw all of it?")
        await run.until(lambda: "The first part, and more, and the end." in shown(run))
        assert "continued 1/3" in shown(run)

    replies = cut_text("The first part, "), cut_text("The first part, and more, "), text_reply("and the end.")
    drive(tmp_path, test, *replies)


def test_failed_aside_shows_its_error_in_the_panel(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw what?")
        await run.until(lambda: "the key was refused" in shown(run))
        assert "refused" not in run.text

    drive(tmp_path, test, fails(ErrorKind.AUTH, message="the key was refused"))


def test_question_and_help_take_the_place_of_the_panel(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw what?")
        await run.until(lambda: "An answer" in shown(run))
        await run.send("/cost")
        await run.until(lambda: "Usage" in run.screen)
        assert shown(run) == ""
        assert "/btw what?" in run.screen  # its turn in the usage
        await pressed(run, "escape")
        assert "An answer" in shown(run)
        await run.send("write it")
        await run.until(lambda: run.app.widgets.approval.shown_approval is not None)
        await run.pilot.pause()
        assert shown(run) == ""
        await pressed(run, "escape")
        await run.until_idle()
        assert "An answer" in shown(run)

    drive(tmp_path, test, text_reply("An answer."), call_reply("write", {"path": "a", "content": "b"}))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [(80, 24), (40, 12), (160, 50)])
def test_long_answer_leaves_room_for_the_prompt_and_is_read_from_its_beginning(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw " + "long " * 60)
        await run.until(lambda: "Ctrl+S" in run.screen and "row 0" in run.screen)
        assert "row 99" not in run.screen
        assert "›" in run.screen
        assert run.app.widgets.aside.size.height <= size[1] * 0.6
        await pressed(run, "pagedown")
        await run.until(lambda: "row 0" not in run.screen)
        await pressed(run, "ctrl+end")
        await run.until(lambda: "row 99" in run.screen)
        await pressed(run, "ctrl+home")
        await run.until(lambda: "row 0" in run.screen)

    drive(tmp_path, test, text_reply("\n\n".join(f"row {number}" for number in range(100))), size=size)


def test_hostile_text_in_an_aside_is_shown_as_text(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw [bold]x[/] \x1b[31m")
        await run.until(lambda: "[/nope]" in shown(run))
        assert "\x1b" not in run.screen
        assert "[bold]x[/]" in run.screen

    drive(tmp_path, test, text_reply("[/nope] \x1b]0;owned\x07 </aside> end"))


def test_answer_cannot_end_its_own_block() -> None:
    block = aside_block('a "b"\nc', "x</aside>y")
    assert block.text.count("</aside>") == 1
    assert parse_attached(block.text) == Attachment("aside", 'a "b" c', "x&lt;/aside>y")


def test_resumed_session_shows_an_added_aside_as_a_card() -> None:
    conversation = ScriptedConversation()
    added = aside_block("which?", "The third.")
    conversation.messages = (Message("user", (added, Text("do it"))), assistant(Text("Done.")))

    async def body() -> None:
        async with running(conversation) as run:
            await run.until(lambda: "Done." in run.text)
            assert "btw which?" in run.text
            assert "The third." in run.text
            assert "<aside" not in run.text

    asyncio.run(body())


def test_card_of_an_aside_shows_its_answer_without_markdown_syntax() -> None:
    answer = "## Which\n\nThe **third** one:\n\n- it has `add`\n- see [docs](https://example.org)"
    conversation = ScriptedConversation()
    added = aside_block("which?", answer)
    conversation.messages = (Message("user", (added, Text("do it"))), assistant(Text("Done.")))

    async def body() -> None:
        async with running(conversation) as run:
            await run.until(lambda: "Done." in run.text)
            rows = [row.removeprefix("  │").strip() for row in run.text.split("\n") if row.startswith("  │")]
            assert rows == [
                "Which",
                "",
                "The third one:",
                "",
                "• it has add",
                "• see docs (https://example.org)",
            ]

    asyncio.run(body())


def test_linear_mode_prints_an_aside_and_adds_it_on_request(tmp_path: Path) -> None:
    async def body() -> tuple[Talk, str]:
        it = talk(tmp_path, text_reply("The third."), text_reply("Done."), is_attended=True)
        typed = Typed(["/btw which?", "/btw", "do it"])
        await linear(make_agent(it.conversation), typed).run()
        await it.conversation.close()
        return it, "\n".join(typed.said)

    it, output = asyncio.run(body())
    assert "Assistant:\nThe third." in output
    assert "(not part of the conversation; /btw without a question attaches it to your next message)" in output
    assert "Note: Attached the aside to your next message." in output
    assert "<aside" in str(it.provider.requests[1].messages[-1])


def test_aside_of_a_model_that_only_calls_tools_says_so(tmp_path: Path) -> None:
    async def test(run: Running, it: Talk) -> None:
        await run.send("/btw which?")
        await run.until(lambda: "The model called tools instead of answering" in " ".join(shown(run).split()))
        assert "--max-turns" not in shown(run)

    drive(tmp_path, test, *(call_reply("read", {"path": "a"}, call_id=f"c{n}") for n in range(2)))
