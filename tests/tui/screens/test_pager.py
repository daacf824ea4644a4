"""The search of the pager."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.tui.screens.pager import PagerScreen
from qcode.tui.transcript.line import Line, style_of, wrap
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation

TEXTS = [f"row {number}" + (" has a Needle" if number in (3, 40, 80) else "") for number in range(100)]


def lines_of(texts: Sequence[str], width: int) -> list[Line]:
    return [line for text in texts for line in wrap([(text, style_of())], width)]


async def opened(run: Running, texts: Sequence[str] = TEXTS) -> PagerScreen:
    pager = PagerScreen("Rows", lambda width: lines_of(texts, width))
    run.app.push_screen(pager)
    await run.until(lambda: "row 1" in run.screen)
    return pager


def foot(run: Running) -> str:
    return run.screen.rstrip().split("\n")[-1].strip()


def test_search_goes_from_match_to_match_and_ends_before_the_pager() -> None:
    async def test(run: Running) -> None:
        pager = await opened(run)
        assert foot(run).endswith("/ find")
        await run.pilot.press("pagedown", "/", *"needle")
        await run.until(lambda: "2 of 3" in run.screen)
        await run.until(lambda: "row 40 has a Needle" in run.screen)
        assert foot(run) == "Enter done  ·  ↑↓ next  ·  Esc end search"
        await run.pilot.press("down")
        await run.until(lambda: "row 80 has a Needle" in run.screen)
        await run.pilot.press("enter")
        await run.until(lambda: foot(run).startswith("n N next  ·  Esc end search"))
        await run.pilot.press("n")
        await run.until(lambda: "row 3 has a Needle" in run.screen)
        assert "1 of 3" in run.screen
        await run.pilot.press("N")
        await run.until(lambda: "3 of 3" in run.screen)
        await run.pilot.press("escape")
        await run.until(lambda: foot(run).endswith("/ find"))
        assert "3 of 3" not in run.screen
        assert run.app.screen is pager
        assert "row 80 has a Needle" in run.screen, "the view stays"
        await run.pilot.press("escape")
        await run.until(lambda: run.app.screen is not pager)

    drive(test, ScriptedConversation())


def test_keys_of_less_scroll_and_are_text_in_the_search_field() -> None:
    async def test(run: Running) -> None:
        await opened(run)
        await run.pilot.press("G")
        await run.until(lambda: "row 99" in run.screen)
        await run.pilot.press("b")
        await run.until(lambda: "row 99" not in run.screen)
        await run.pilot.press("g", "j", "j", "k")
        await run.until(lambda: "row 22" in run.screen and "row 0" not in run.screen)
        await run.pilot.press("space")
        await run.until(lambda: "row 43" in run.screen)
        await run.pilot.press("/", "j", "k", "space", "b", "g", "G")
        await run.until(lambda: "Find jk bgG" in run.screen)

    drive(test, ScriptedConversation())


def test_letters_that_close_or_search_are_text_in_the_search_field() -> None:
    async def test(run: Running) -> None:
        pager = await opened(run, [*TEXTS, "q/nN"])
        await run.pilot.press("ctrl+f", "q", "slash", "n", "N")
        await run.until(lambda: "1 of 1" in run.screen)
        assert "Find q/nN" in run.screen
        assert run.app.screen is pager
        await run.pilot.press("x")
        await run.until(lambda: "no match" in run.screen)

    drive(test, ScriptedConversation())


def test_match_that_crosses_a_wrap_is_found_and_highlighted_after_a_resize() -> None:
    texts = ["row 1", "x" * 70 + " some needle here"]

    async def test(run: Running) -> None:
        pager = await opened(run, texts)
        await run.pilot.press("/", *"some needle")
        await run.until(lambda: "1 of 1" in run.screen)
        await run.pilot.resize_terminal(40, 20)
        await run.until(lambda: "1 of 1" in run.screen)
        strips = pager._compositor.render_strips()[:-2]  # without the field and the keys
        plain, marked = (
            {segment.style.bgcolor for strip in strips for segment in strip if text in segment.text and segment.style}
            for text in ("xxx", "needle")
        )
        assert marked
        assert not plain & marked

    drive(test, ScriptedConversation())


def test_resize_keeps_the_text_at_the_top_of_the_pager_and_its_note() -> None:
    texts = [f"row {number} {'with more words ' * 5}" for number in range(100)]

    async def test(run: Running) -> None:
        pager = await opened(run, texts)
        pager.show_title("Rows", "a note")
        await run.pilot.press(*["pagedown"] * 3)
        await run.pilot.pause()
        top = run.screen.split("\n")[1].split("with")[0].strip()
        assert top.startswith("row ")
        await run.pilot.resize_terminal(40, 24)
        await run.until(lambda: run.screen.split("\n")[1].strip().startswith(f"{top} "))
        assert "a note" in run.screen

    drive(test, ScriptedConversation(), size=(120, 24))


def test_pager_closes_with_the_configured_key_of_fold() -> None:
    async def test(run: Running) -> None:
        pager = await opened(run)
        await run.pilot.press("ctrl+o")
        assert run.app.screen is pager
        await run.pilot.press("slash", "f8")
        assert run.app.screen is pager, "the search field has the keys"
        await run.pilot.press("escape", "f8")
        await run.until(lambda: run.app.screen is not pager)

    drive(test, ScriptedConversation(), keys={"fold": "f8"})
