"""Snapshots of the to-do list and of a full status line, with their readable text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from qcode.protocol.events import StepStarted, UsageUpdated
from qcode.protocol.reply import TextDelta
from qcode.protocol.usage import Usage
from qcode.tui.app import QcodeApp
from qcode.tui.status import render_status
from tests.tui.harness import make_app
from tests.tui.scripted import Gate, Script, ScriptedConversation
from tests.tui.test_todos import listed

LOOKS = [
    pytest.param({}, (80, 24), id="dark"),
    pytest.param({"theme": "light"}, (80, 24), id="light"),
    pytest.param({}, (40, 24), id="narrow"),
]


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_todos(snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int]) -> None:
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
        pilot.app.parts.transcript.flush()
        await pilot.pause()

    assert snap_compare(app, run_before=wait, terminal_size=size)
    assert app.parts.todos.is_open
    assert [item.state for item in app.parts.todos.items] == ["done", "in_progress", "pending", "pending"]


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_status(snap_compare: Callable[..., bool], changes: dict[str, Any], size: tuple[int, int]) -> None:
    gate = Gate()
    usage = UsageUpdated(Usage(160_000, 900), None, 160_900, 200_000)
    conversation = ScriptedConversation([StepStarted(1), usage, gate])
    stated: dict[str, Any] = {"model": None, "is_trusted": lambda: False, "has_sandbox": lambda: False}
    app = make_app(conversation, prompt="hello", **stated, **changes)

    async def wait(pilot: Pilot[int]) -> None:
        while not gate.reached.is_set() or not app.parts.status.status.has_no_sandbox:
            await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, run_before=wait, terminal_size=size)
    # The line as rendered for the width inside its padding.
    shown = render_status(app.parts.status.status, size[0] - 2, 1_000.0).plain
    assert ("no key  restricted  scripted" in shown) is (size[0] >= 80)
    assert shown.startswith("ask  ⠋ waiting for the model")
    assert shown.endswith("80% nearly full") is (size[0] >= 80)
