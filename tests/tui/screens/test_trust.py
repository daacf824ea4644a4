"""The question about trust in a folder, in its own app."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from qcode.protocol.approvals import Allow, Decision, Deny
from qcode.tui.panels.choices import FolderTrust
from qcode.tui.panels.draft import GUARD_SECONDS
from qcode.tui.prompt.history import PromptHistory
from qcode.tui.screens.pager import PagerScreen
from qcode.tui.screens.trust import TrustApp
from tests.tui.scripted import FixedClock
from tests.tui.staged_app import run_context

_FILES = (
    "First time in this folder:\n\n  /home/you/project\n\nIt contains:\n\n  AGENTS.md  instructions, given to the model"
)


def drive(
    test: Callable[[TrustApp, Pilot[int], FixedClock], Awaitable[None]],
    detail: str = _FILES,
    size: tuple[int, int] = (80, 24),
    history: PromptHistory | None = None,
    keys: Mapping[str, str] | None = None,
) -> TrustApp:
    clock = FixedClock()
    app = TrustApp(run_context(keys=keys), FolderTrust("Do you trust this folder?", detail), clock, history)

    async def body() -> None:
        async with app.run_test(size=size) as pilot:
            while not (hasattr(app.widgets, "approval") and app.widgets.approval.shown_approval):
                await pilot.pause()
            await pilot.pause()
            await test(app, pilot, clock)

    asyncio.run(body())
    return app


def screen(app: TrustApp) -> str:
    rows = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in rows)


def test_choices_are_separated_from_the_files() -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        rows = [row.removeprefix("▌").strip() for row in screen(app).split("\n")]
        first = next(index for index, row in enumerate(rows) if row.startswith("1 Yes"))
        assert rows[first - 1] == ""
        assert rows[first - 2] != ""
        await pilot.press("x")
        await pilot.pause()
        assert "Typing your next message: x" in screen(app).split("\n")[first - 1]

    drive(test)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
@pytest.mark.parametrize(
    ("key", "decision"),
    [
        ("1", Allow("folder")),
        ("y", Allow("folder")),
        ("2", Allow()),
        ("3", Deny()),
        ("enter", Deny()),
        ("escape", None),
    ],
)
def test_key_answers_the_question(key: str, decision: Decision | None, size: tuple[int, int]) -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        shown = screen(app)
        assert "Do you trust this folder?" in shown
        assert "/home/you/project" in shown
        assert "› 3 No, keep it restricted (n)" in shown
        assert "Esc quit" in shown
        clock.now += GUARD_SECONDS * 2
        await pilot.press(key)

    app = drive(test, size=size)
    assert app.answer == decision
    assert app.draft == ""


def test_description_of_a_file_is_indented_below_its_name_on_a_narrow_screen() -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        rows = screen(app).split("\n")
        at = rows.index("▌   AGENTS.md")
        assert rows[at + 1] == "▌     instructions, given to the model"

    name = f"{'AGENTS.md':20}"
    drive(test, _FILES.replace("AGENTS.md", name), size=(40, 30))


def test_text_typed_as_the_question_opens_is_the_draft() -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        await pilot.press("y", "e", "s")
        assert app.answer is None
        clock.now += GUARD_SECONDS * 2
        await pilot.press("n")

    app = drive(test)
    assert app.answer == Deny()
    assert app.draft == "yes"


def test_typed_text_is_kept_for_the_next_start_if_the_user_quits(tmp_path: Path) -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        await pilot.press("h", "e", "l", "l", "o")
        clock.now += GUARD_SECONDS * 2
        await pilot.press("escape")

    app = drive(test, history=PromptHistory(tmp_path / "history.jsonl", "~/project"))
    assert app.answer is None
    next_start = PromptHistory(tmp_path / "history.jsonl", "~/project")
    assert next_start.draft_file.take_abandoned().text == "hello"


def test_typed_text_is_not_stored_twice_if_the_question_is_answered(tmp_path: Path) -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        await pilot.press("h", "i")
        clock.now += GUARD_SECONDS * 2
        await pilot.press("n")

    app = drive(test, history=PromptHistory(tmp_path / "history.jsonl", "~/project"))
    assert app.draft == "hi"
    assert not list(tmp_path.glob("drafts/*"))


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_keys_at_the_foot_say_that_enter_selects_nothing_while_text_is_typed(size: tuple[int, int]) -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        assert screen(app).split("\n")[-1].strip() == "Enter select  ·  Esc quit"
        clock.now += GUARD_SECONDS * 2
        await pilot.press("x", "enter")
        await pilot.pause()
        assert app.answer is None
        assert screen(app).split("\n")[-1].strip() == "↑↓ choose  ·  Esc quit, keep the text"
        await pilot.press("down")
        await pilot.pause()
        assert screen(app).split("\n")[-1].strip() == "Enter select  ·  Esc quit"

    drive(test, size=size)


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
def test_click_answers_and_a_paste_before_it_is_the_draft(size: tuple[int, int]) -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        clock.now += GUARD_SECONDS * 2
        app.post_message(events.Paste("yes\rplease"))
        await pilot.pause()
        row = next(index for index, row in enumerate(screen(app).split("\n")) if "2 Yes, for this run" in row)
        await pilot.click(offset=(10, row))
        await pilot.pause()

    app = drive(test, size=size)
    assert isinstance(app.answer, Allow)
    assert app.draft == "yes\nplease"


def test_pager_opens_and_closes_with_the_configured_key() -> None:
    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        assert "F8 show all" in screen(app)
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert not isinstance(app.screen, PagerScreen)
        await pilot.press("f8")
        await pilot.pause()
        assert isinstance(app.screen, PagerScreen)
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert isinstance(app.screen, PagerScreen)
        await pilot.press("f8")
        await pilot.pause()
        assert not isinstance(app.screen, PagerScreen)

    drive(test, "\n".join(f"+line {number}" for number in range(60)), keys={"fold": "f8"})


def test_changes_that_do_not_fit_open_in_the_pager() -> None:
    changes = "\n".join(f"+line {number}" for number in range(60))

    async def test(app: TrustApp, pilot: Pilot[int], clock: FixedClock) -> None:
        assert "more rows · PgDn scroll · Ctrl+O show all" in screen(app)
        assert "+line 59" not in screen(app)
        await pilot.press("ctrl+o")
        await pilot.press("end")
        await pilot.pause()
        assert isinstance(app.screen, PagerScreen)
        assert "+line 59" in screen(app)
        await pilot.press("escape")
        await pilot.pause()
        assert app.widgets.approval.shown_approval is not None
        clock.now += GUARD_SECONDS * 2
        await pilot.press("a")

    assert drive(test, changes).answer == Allow()
