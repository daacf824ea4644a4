"""Snapshots of the to-do list, a full status line, background jobs, an aside and vim mode, with their readable text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from qcode.protocol.events import StepStarted, UsageUpdated
from qcode.protocol.reply import TextDelta
from qcode.protocol.usage import Usage
from qcode.tui.app import QcodeApp
from qcode.tui.screens.jobs import JobsScreen
from qcode.tui.status import render_status
from tests.fakes.conversation import talk
from tests.fakes.scripted import text_reply
from tests.tui.harness import make_app, rows_of, until_ready
from tests.tui.scripted import Gate, Script, ScriptedConversation
from tests.tui.test_jobs import start
from tests.tui.test_todos import listed

LOOKS = [
    pytest.param({}, (80, 24), id="dark"),
    pytest.param({"theme": "light"}, (80, 24), id="light", marks=pytest.mark.broad),
    pytest.param({}, (40, 24), id="narrow"),
]
ALL_LOOKS = [*LOOKS, pytest.param({}, (120, 40), id="wide")]


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_todos_look_as_recorded(
    snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int]
) -> None:
    gate = Gate()
    plan = listed(
        ("read the code of the parser", "done"),
        ("write a test that fails because of [it]", "in_progress"),
        ("fix it", "pending"),
        ("run all tests and say what came of it", "pending"),
    )
    script: Script = [StepStarted(1), TextDelta(0, "I begin with the parser."), plan, gate]
    app = make_app(ScriptedConversation(script), prompt="please fix the app", **changes)

    async def wait(pilot: Pilot[int]) -> None:
        assert isinstance(pilot.app, QcodeApp)
        while not gate.reached.is_set():
            await pilot.pause()
        pilot.app.widgets.transcript.flush()
        await pilot.pause()

    assert snap_compare(app, run_before=wait, terminal_size=size)
    assert app.widgets.todos.is_open
    assert [item.state for item in app.widgets.todos.items] == ["done", "in_progress", "pending", "pending"]


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_status_looks_as_recorded(
    snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int]
) -> None:
    gate = Gate()
    usage = UsageUpdated(Usage(160_000, 900), None, 160_900, 200_000)
    conversation = ScriptedConversation([StepStarted(1), usage, gate])
    stated: dict[str, Any] = {"model": None, "is_trusted": lambda: False, "has_sandbox": lambda: False}
    app = make_app(conversation, prompt="hello", **stated, **changes)

    async def wait(pilot: Pilot[int]) -> None:
        while not gate.reached.is_set() or not app.widgets.status.status.has_no_sandbox:
            await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, run_before=wait, terminal_size=size)
    # The line as rendered for the width inside its padding.
    text = render_status(app.widgets.status.status, size[0] - 2, 1_000.0).plain
    assert ("restricted  scripted" in text) is (size[0] >= 80)
    assert ("no key set" in text) is (size[0] > 80)
    assert text.startswith("ask  ⠋ waiting for the model · Esc ")


@pytest.mark.frames
@pytest.mark.parametrize(("changes", "size"), ALL_LOOKS)
def test_background_jobs_look_as_recorded(
    snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    app = make_app(ScriptedConversation([]), **changes)
    screens: list[str] = []

    async def show(pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        jobs = app.agent.toolbox.jobs
        running = start(jobs, "echo building [it]; read line < pipe", tmp_path)
        ended = start(jobs, "echo 3 failed; exit 1", tmp_path)
        while ended.is_running or not running.recent:
            await pilot.pause()
        app.widgets.prompt.insert("/jobs")
        await pilot.press("enter")
        while not isinstance(app.screen, JobsScreen) or "building" not in rows_of(app):
            await pilot.pause()
        screens.append(rows_of(app))

    assert snap_compare(app, run_before=show, terminal_size=size)
    (screen,) = screens
    assert ("echo building [it]" if size[0] >= 80 else "echo building [i…") in screen
    assert "exit 1" in screen
    assert "Enter show output" in screen


@pytest.mark.parametrize(("changes", "size"), ALL_LOOKS)
def test_aside_looks_as_recorded(
    snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int], tmp_path: Path
) -> None:
    answer = "It is a **parser** of `cart.toml`:\n\n- it reads [tables]\n- it keeps the order"
    conversation = talk(tmp_path, text_reply(answer, usage=Usage(1_000, 100)), is_attended=True)
    app = make_app(conversation.conversation, **changes)
    screens: list[str] = []

    async def ask(pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        app.widgets.prompt.insert("/btw what is cart.py?")
        await pilot.press("enter")
        while "Ctrl+S" not in rows_of(app) or "keeps the order" not in rows_of(app):
            await pilot.pause()
        screens.append(rows_of(app))

    assert snap_compare(app, run_before=ask, terminal_size=size)
    (screen,) = screens
    assert "btw what is cart.py?" in screen
    assert "it reads [tables]" in screen
    assert f"Ctrl+S {'attach to prompt' if size[0] >= 80 else 'attach'}  ·  Esc close" in screen


@pytest.mark.sampled(2)
@pytest.mark.parametrize("keys", ["escape", "escape,v,b"], ids=["normal", "visual"])
@pytest.mark.parametrize(("changes", "size"), ALL_LOOKS)
def test_vim_mode_looks_as_recorded(
    snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int], keys: str
) -> None:
    app = make_app(ScriptedConversation([]), vim=True, **changes)
    screens: list[str] = []

    async def write(pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        app.widgets.prompt.insert("rename the cart\nand its tests")
        await pilot.press(*keys.split(","))
        await pilot.pause()
        screens.append(rows_of(app))

    assert snap_compare(app, run_before=write, terminal_size=size)
    (screen,) = screens
    mode = "VISUAL" if "v" in keys.split(",") else "NORMAL"
    assert mode in screen
    assert "and its tests" in screen
