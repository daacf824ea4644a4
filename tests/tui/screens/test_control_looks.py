"""Snapshots of the screens about rules, tools, instruction files, plans and findings, with their readable text."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from qcode.protocol.approvals import PlanApproval
from qcode.protocol.events import ApprovalRequested, StepStarted
from qcode.protocol.reply import TextDelta
from qcode.tui.app import QcodeApp
from qcode.tui.shared_widgets import HangingText
from tests.tui.harness import make_app, until_ready
from tests.tui.sample_project import Project
from tests.tui.scripted import Script, ScriptedConversation, UntilAnswered, call, reply

Compare = Callable[..., bool]

LOOKS = [
    pytest.param({}, (80, 24), id="dark"),
    pytest.param({"theme": "light"}, (80, 24), id="light", marks=pytest.mark.broad),
    pytest.param({}, (40, 24), id="narrow"),
]
PLAN = """\
# Cache the index

Reads get faster; **nothing else** changes.

1. `store/index.py`: keep the last index in memory
2. `tests/test_index.py`: a test that a changed file is seen

| file | change |
|---|---|
| `store/index.py` | about 20 lines |
"""


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _screen_test(seen: list[str], command: str, *keys: str) -> Callable[[Pilot[int]], Awaitable[None]]:
    """Return a function that opens a command's screen, presses keys, and appends its text to `seen`."""

    async def do(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, QcodeApp)
        await until_ready(app, pilot)
        app.widgets.prompt.insert(command)
        await pilot.press("enter")
        while len(app.screen_stack) == 1:
            await pilot.pause()
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        seen.extend(str(widget.content) for widget in app.screen.query(Static))
        seen.extend(widget.plain for widget in app.screen.query(HangingText))

    return do


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_permissions_look_as_recorded(
    snap_compare: Compare, tmp_path: Path, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    project = Project(tmp_path)
    project.permissions.save_rule(project.permissions.add("allow", "shell(make doc)").number)
    seen: list[str] = []
    app = make_app(ScriptedConversation(), project=project, **changes)
    assert snap_compare(app, run_before=_screen_test(seen, "/permissions", "down", "down", "down"), terminal_size=size)
    assert "saved for this folder, added 2025-06-15" in " ".join(seen)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_decisions_look_as_recorded(
    snap_compare: Compare, tmp_path: Path, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    seen: list[str] = []
    app = make_app(ScriptedConversation(), project=Project(tmp_path), **changes)
    assert snap_compare(app, run_before=_screen_test(seen, "/permissions", "tab"), terminal_size=size)
    assert "15:06:40 read a.py" in " ".join(seen)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_tools_look_as_recorded(
    snap_compare: Compare, tmp_path: Path, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    seen: list[str] = []
    app = make_app(ScriptedConversation(), project=Project(tmp_path), **changes)
    assert snap_compare(app, run_before=_screen_test(seen, "/tools", "down"), terminal_size=size)
    assert "tokens with each request" in " ".join(seen)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_memory_picker_looks_as_recorded(
    snap_compare: Compare,
    tmp_path: Path,
    changes: dict[str, Any],
    size: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path)
    (project.work / "AGENTS.md").write_text("See @docs.md and @../out.md\n")
    (project.work / "docs.md").write_text("More.\n")
    # The folder has a different name in every run.
    files = tuple(file for file in project.memory.files() if file.owner == "project")
    monkeypatch.setattr(project.memory, "files", lambda: files, raising=False)
    seen: list[str] = []
    app = make_app(ScriptedConversation(), project=project, **changes)
    assert snap_compare(app, run_before=_screen_test(seen, "/memory"), terminal_size=size)
    assert "leads outside the project" in " ".join(seen)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_findings_look_as_recorded(
    snap_compare: Compare, tmp_path: Path, changes: dict[str, Any], size: tuple[int, int]
) -> None:
    seen: list[str] = []
    app = make_app(ScriptedConversation(), project=Project(tmp_path), **changes)
    assert snap_compare(app, run_before=_screen_test(seen, "/doctor"), terminal_size=size)
    assert "bubblewrap" in " ".join(seen)


@pytest.mark.parametrize(("changes", "size"), LOOKS)
def test_plan_question_looks_as_recorded(snap_compare: Compare, changes: dict[str, Any], size: tuple[int, int]) -> None:
    asks = call("exit_plan_mode", '{"plan": "# Cache the index"}')
    request = ApprovalRequested(PlanApproval(asks, "Carry out this plan?", PLAN))
    script: Script = [StepStarted(1), TextDelta(0, "I have a plan."), reply("", asks), request, UntilAnswered("c1")]
    app = make_app(ScriptedConversation(script, mode="plan"), prompt="make it faster", **changes)

    async def until_asked(pilot: Pilot[int]) -> None:
        await until_ready(app, pilot)
        while app.widgets.approval.shown_approval is None:
            await pilot.pause()
        app.widgets.transcript.flush()
        await pilot.pause()
        app.widgets.transcript.flush()
        await pilot.pause()
        text = app.widgets.approval.query_one("#approval-text", Static)
        rows.extend(text.render_line(y).text.rstrip() for y in range(text.size.height))

    rows: list[str] = []
    assert snap_compare(app, run_before=until_asked, terminal_size=size)
    assert rows[0] == "Cache the index"
    assert not any("**" in row or "|---" in row for row in rows)
