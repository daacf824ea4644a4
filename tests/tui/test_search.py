"""The search field of the app, copying, and its keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from qcode.protocol.events import Retry, StepStarted
from qcode.protocol.reply import TextDelta
from qcode.tui.panels.search import SearchField
from qcode.tui.terminal.driver import has_browser
from qcode.tui.transcript.line import Line
from qcode.tui.transcript.transcript import MatchRange, SearchPosition, Transcript, find_matches
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, Script, ScriptedConversation, ended, says

LONG = "\n\n".join(f"paragraph {number} with a needle{number}" for number in range(60))


def conversation() -> ScriptedConversation:
    return ScriptedConversation([*says(LONG), ended()])


def bar(run: Running) -> str:
    strips = run.app.widgets.search.screen._compositor.render_strips()
    return "".join(segment.text for segment in strips[run.app.widgets.search.region.y])


async def asked(run: Running) -> None:
    await run.send("go")
    await run.until_idle()


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_typing_searches_and_escape_returns(size: tuple[int, int]) -> None:
    async def test(run: Running) -> None:
        await asked(run)
        transcript = run.app.widgets.transcript
        before = transcript.scroll_y
        await run.pilot.press("ctrl+f", *"needle1")
        await run.pilot.pause()
        assert "11 of 11" in bar(run)
        assert transcript.scroll_y < before
        await run.pilot.press("up")
        await run.pilot.pause()
        assert "10 of 11" in bar(run)
        await run.pilot.press("down")
        await run.pilot.pause()
        assert "11 of 11" in bar(run)
        await run.pilot.press("x")
        await run.pilot.pause()
        assert "no match" in bar(run)
        await run.pilot.press("escape")
        await run.pilot.pause()
        assert not run.app.widgets.search.is_open
        assert transcript.scroll_y == before
        assert transcript.is_anchored
        assert run.app.focused is run.app.widgets.prompt

    drive(test, conversation(), size=size)


def test_search_names_the_key_of_the_user_that_stays_at_the_match() -> None:
    async def test(run: Running) -> None:
        await asked(run)
        await run.pilot.press("f8", *"needle1")
        await run.until(lambda: "11 of 11  ↑↓ next · Esc close · F8 close and stay" in bar(run))
        await run.pilot.press("f8")
        await run.until(lambda: not run.app.widgets.search.is_open)
        assert not run.app.widgets.transcript.is_anchored

    drive(test, conversation(), keys={"search": "f8"})


@pytest.mark.broad
def test_typed_letters_are_shown_before_the_search_lays_out_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_at_start: list[str] = []
    laid_out: list[int] = []
    steps = Transcript.search_steps

    async def test(run: Running) -> None:
        def watched_steps(transcript: Transcript, words: str) -> Iterator[None]:
            shown_at_start.append(bar(run))
            entries = transcript.row_layout.entries
            for _ in steps(transcript, words):
                laid_out.append(sum(entry.is_laid_out(transcript.row_layout.width) for entry in entries))
                yield

        await asked(run)
        monkeypatch.setattr(Transcript, "search_steps", watched_steps)
        await run.pilot.press("ctrl+f", *"needle")
        await run.until(lambda: "2400 of 2400" in bar(run))
        assert shown_at_start
        assert all("Find n" in shown for shown in shown_at_start)
        assert laid_out[-1] - laid_out[0] > 50, "the entries far above the view are laid out by the search"
        assert all(later - earlier in (0, 1) for earlier, later in pairwise(laid_out)), "one entry in each step"

    text = "\n\n".join(f"paragraph {number} with a needle {'and more words ' * 20}" for number in range(2_400))
    drive(test, ScriptedConversation([*says(text), ended()]))


def test_matches_are_found_in_the_steps_and_not_again_by_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counted(rows: Sequence[Line], pattern: re.Pattern[str]) -> list[MatchRange]:
        searched.append(len(rows))
        return find_matches(rows, pattern)

    async def test(run: Running) -> None:
        await asked(run)
        transcript = run.app.widgets.transcript
        transcript.begin_search()
        monkeypatch.setattr("qcode.tui.transcript.transcript.find_matches", counted)
        steps = sum(1 for _ in transcript.search_steps("e"))
        assert len(searched) == steps > 50
        position = transcript.search("e")
        assert position.count > 10_000
        assert transcript.search_next(is_upwards=True).number == position.number - 1
        assert len(searched) == steps
        run.app.widgets.transcript.end_search(returns_to_start=True)

    text = "\n\n".join(f"paragraph {number} with a needle {'and more words ' * 20}" for number in range(600))
    drive(test, ScriptedConversation([*says(text), ended()]))


def test_failed_search_is_reported_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Transcript.search

    def fail(transcript: Transcript, text: str) -> SearchPosition:
        if text == "needle":
            raise ValueError("odd")
        return search(transcript, text)

    monkeypatch.setattr(Transcript, "search", fail)

    async def test(run: Running) -> None:
        await asked(run)
        await run.pilot.press("ctrl+f")
        run.app.query_one(SearchField).value = "needle"
        await run.until(lambda: "Internal error: ValueError: odd" in run.text)
        await run.pilot.press("1")
        await run.until(lambda: "11 of 11" in bar(run))

    drive(test, conversation())


def test_second_press_of_the_search_key_stays_at_the_match() -> None:
    async def test(run: Running) -> None:
        await asked(run)
        await run.pilot.press("ctrl+f", *"needle7")
        await run.pilot.pause()
        there = run.app.widgets.transcript.scroll_y
        await run.pilot.press("ctrl+f")
        await run.pilot.pause()
        assert not run.app.widgets.search.is_open
        assert run.app.widgets.transcript.scroll_y == there
        await run.pilot.press("ctrl+f")
        await run.pilot.pause()
        field = run.app.widgets.search.query_one(SearchField)
        assert field.value == "needle7"
        await run.pilot.press("9")
        assert field.value == "9"

    drive(test, conversation())


def test_keys_of_an_empty_prompt_are_letters_in_the_search_field() -> None:
    async def test(run: Running) -> None:
        await run.pilot.press("ctrl+f", "question_mark", "slash", "ctrl+d")
        await run.pilot.pause()
        assert run.app.widgets.search.query_one(SearchField).value == "?/"
        assert run.app.is_running
        assert not run.app.widgets.help.is_open

    drive(test)


def test_escape_closes_the_search_before_it_interrupts_the_turn() -> None:
    gate = Gate()
    script: Script = [*says("text"), gate, ended()]

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until(gate.reached.is_set)
        await run.pilot.press("ctrl+f", "t", "escape")
        assert run.conversation.cancels == 0
        await run.pilot.press("escape")
        assert run.conversation.cancels == 1
        await run.until_idle()

    drive(test, ScriptedConversation(script))


def test_copied_selection_is_confirmed_in_the_footer() -> None:
    async def test(run: Running) -> None:
        await asked(run)
        transcript = run.app.widgets.transcript
        await run.pilot.click(transcript, offset=(16, transcript.size.height - 1), times=2)
        await run.pilot.pause()
        assert "Ctrl+C copies" in run.status
        await run.pilot.press("ctrl+c")
        assert run.app.clipboard in LONG
        assert run.app.clipboard
        assert "copied" in run.status
        assert "through the terminal (OSC 52)" in run.status

    drive(test, conversation())


def test_text_replaced_after_it_was_selected_is_copied_while_the_hint_says_so() -> None:
    selected, done = Gate(), Gate()
    retry = Retry(is_continuation=False, reason="max_tokens", attempt=1, max_tokens=64_000)
    script: Script = [StepStarted(1), TextDelta(0, "first attempt"), selected, retry, TextDelta(0, "x"), done, ended()]

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until(selected.reached.is_set)
        await run.until(lambda: "first attempt" in run.screen)
        row = next(y for y, line in enumerate(run.screen.split("\n")) if "first attempt" in line)
        await run.pilot.click(offset=(3, row), times=2)
        await run.until(lambda: "Ctrl+C copies 5 characters" in run.status)
        selected.open()
        await run.until(done.reached.is_set)
        await run.until(lambda: run.app.screen.get_selected_text() is None)
        await run.pilot.press("ctrl+c")
        assert run.app.clipboard == "first"
        assert run.conversation.cancels == 0
        await run.pilot.press("ctrl+c")
        assert run.conversation.cancels == 1
        done.open()
        await run.until_idle()

    drive(test, ScriptedConversation(script))


def test_keys_jump_to_user_messages() -> None:
    async def test(run: Running) -> None:
        await asked(run)
        await run.pilot.press("alt+up")
        await run.pilot.pause()
        assert "> go" in run.app.widgets.transcript.render_line(0).text
        await run.pilot.press("alt+up")
        assert "no earlier message" in run.status
        await run.pilot.press("alt+down")
        await run.pilot.pause()
        assert run.app.widgets.transcript.is_anchored

    drive(test, conversation())


def test_link_is_copied_without_a_visible_browser() -> None:
    async def test(run: Running) -> None:
        await asked(run)
        transcript = run.app.widgets.transcript
        await run.pilot.click(transcript, offset=(3, transcript.size.height - 1))
        await run.pilot.pause()
        assert run.app.clipboard == "https://e.example/x"

    drive(test, ScriptedConversation([*says("[docs](https://e.example/x)"), ended()]))


def test_browser_counts_as_available_only_with_a_local_display() -> None:
    assert has_browser({}, "darwin")
    assert has_browser({"DISPLAY": ":0"}, "linux")
    assert not has_browser({}, "linux")
    assert not has_browser({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/1"}, "linux")
