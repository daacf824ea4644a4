"""How cards look, dark and light, in several sizes, each with its readable text: live, replayed, side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from textual.pilot import Pilot

from qcode.agent.sessions.history import HistoryEntry, StoredMessage
from qcode.agent.sessions.shown import ShownItem, ShownResult
from qcode.protocol.events import Notice, StepStarted, ToolFinished, TurnEvent, TurnStarted
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant
from qcode.protocol.reply import StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.tui.app import QcodeApp
from tests.tui.harness import make_app, until_ready
from tests.tui.scripted import Script, ScriptedConversation, ended, reply
from tests.tui.staged_app import StagedApp
from tests.tui.test_approval import FOUR
from tests.tui.test_approval_looks import LOOKS

WIDE_LOOKS = [
    pytest.param("dark", (160, 50), id="dark"),
    pytest.param("light", (160, 50), id="light", marks=pytest.mark.broad),
]
FILE = Text('<file path="src/cart.py">\n' + "x\n" * 21 + "\n</file>")
PLAN = "# Count the items\n\nThe cart ignores **counts**.\n\n1. Change `total`\n2. Add a test\n"


def tool(name: str, call_id: str, *, is_from_text: bool = False, **arguments: object) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments), is_from_text=is_from_text)


RAN = ToolOutcome("....\n4 passed\n", summary="exit 0", sandbox="outside")
CALLS: tuple[tuple[ToolCall, ToolOutcome, str], ...] = (
    (
        tool("exit_plan_mode", "c0", plan=PLAN),
        ToolOutcome("", summary="Plan approved · qcode asks before each change"),
        "done",
    ),
    (tool("read", "c1", path="src/cart.py", is_from_text=True), ToolOutcome("x\n", summary="21 lines"), "done"),
    (tool("grep", "c2", pattern="cents", path="src"), ToolOutcome("x\n", summary="3 matches"), "done"),
    (
        tool("read", "c3", path="src/nofile.py"),
        ToolOutcome("no such file", True, "src/nofile.py does not exist"),
        "failed",
    ),
    (tool("edit", "c4", path="src/cart.py"), ToolOutcome("", summary="+4 -4 lines", diff=FOUR), "done"),
    (tool("shell", "c5", command="pytest -x"), RAN, "done"),
)
REVISED = "c5"
PROMPT = "fix @src/cart.py and @nofile.txt"
MISSING = Notice("warning", "nofile.txt not found, not attached")


def live() -> Script:
    events: list[TurnEvent] = [TurnStarted(PROMPT, (FILE,)), MISSING, StepStarted(1), TextDelta(0, "I will fix it.")]
    events.append(reply("I will fix it.", *(one for one, _, _ in CALLS), stop=StopReason.TOOL_USE))
    for one, outcome, state in CALLS:
        events.append(ToolFinished(one, outcome, state, is_revised=one.call_id == REVISED))  # type: ignore[arg-type]
    return [*events, StepStarted(2), TextDelta(0, "Done."), reply("Done."), ended()]


class Resumed(ScriptedConversation):
    """The same turn, stored."""

    @property
    def stored_messages(self) -> tuple[StoredMessage, ...]:
        asked = StoredMessage(
            HistoryEntry(Message("user", (FILE, Text(PROMPT))), timestamp="2026-11-22T10:00:00+00:00"), True
        )
        asked.shown_events.append(ShownItem(MISSING))
        messages = StoredMessage(HistoryEntry(assistant(Text("I will fix it."), *(one for one, _, _ in CALLS))), False)
        results: list[ToolResult] = []
        for one, outcome, state in CALLS:
            ran = one.arguments if one.call_id == REVISED else ""
            messages.shown_results[one.call_id] = ShownResult(
                state,  # type: ignore[arg-type]
                outcome.summary,
                outcome.diff,
                ran_arguments=ran,
                sandbox=outcome.sandbox,
            )
            results.append(ToolResult(one.call_id, one.name, outcome.content, outcome.is_error))
        answer = StoredMessage(HistoryEntry(Message("user", tuple(results))), False)
        done = StoredMessage(HistoryEntry(assistant(Text("Done.")), timestamp="2026-11-22T10:01:00+00:00"), False)
        done.shown_events.append(ShownItem(ended()))
        return asked, messages, answer, done


def shown_rows(app: QcodeApp) -> list[str]:
    return ["".join(segment.text for segment in row).rstrip() for row in app.screen._compositor.render_strips()]


async def until_shown(app: StagedApp, pilot: Pilot[int], word: str) -> None:
    await until_ready(app, pilot)
    while word not in app.widgets.transcript.plain_text() or app.turns.is_running:
        await pilot.pause()
    app.widgets.transcript.flush()
    await pilot.pause()


def assert_shows(rows: Sequence[str], words: Sequence[str], size: tuple[int, int]) -> None:
    text = "".join(" ".join(rows).split())
    assert [word for word in words if "".join(word.split()) not in text] == []
    assert max(map(len, rows)) <= size[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("theme", "size"), LOOKS)
@pytest.mark.parametrize("place", ["start", "end"])
def test_turn_looks_as_recorded(
    snap_compare: Callable[..., bool], place: str, theme: str, size: tuple[int, int]
) -> None:
    app = make_app(ScriptedConversation(live()), prompt=PROMPT, theme=theme)
    rows: list[str] = []

    async def run(pilot: Pilot[int]) -> None:
        await until_shown(app, pilot, "Done.")
        await pilot.press("ctrl+home" if place == "start" else "ctrl+end")
        await pilot.pause()
        rows[:] = shown_rows(app)

    assert snap_compare(app, run_before=run, terminal_size=size)
    first = (
        "+ src/cart.py 21 lines",
        "! nofile.txt not found, not attached",
        "✓ Plan approved · qcode asks before each change",
    )
    last = ("✓ Run pytest -x edited by you · exit 0", "4 passed", "Done.")
    assert_shows(rows, first if place == "start" else last, size)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("theme", "size"), LOOKS)
def test_resumed_turn_looks_as_recorded(snap_compare: Callable[..., bool], theme: str, size: tuple[int, int]) -> None:
    conversation = Resumed([])
    conversation.messages = tuple(stored.entry.message for stored in conversation.stored_messages)
    app = make_app(conversation, theme=theme)
    rows: list[str] = []

    async def run(pilot: Pilot[int]) -> None:
        await until_shown(app, pilot, "Done.")
        await pilot.press("ctrl+home")
        await pilot.pause()
        rows[:] = shown_rows(app)

    assert snap_compare(app, run_before=run, terminal_size=size)
    assert_shows(
        rows,
        ("+ src/cart.py 21 lines", "! nofile.txt not found", "✓ Plan approved · qcode asks before each change"),
        size,
    )
    text = " ".join(app.widgets.transcript.plain_text().split())
    assert "✓ Read src/cart.py call found in reply text · 21 lines" in text
    assert "✓ Run pytest -x edited by you · exit 0" in text


@pytest.mark.parametrize(("theme", "size"), WIDE_LOOKS)
def test_two_columns_of_a_diff_look_as_recorded(
    snap_compare: Callable[..., bool], theme: str, size: tuple[int, int]
) -> None:
    app = make_app(ScriptedConversation(live()), prompt=PROMPT, theme=theme)
    rows: list[str] = []

    async def run(pilot: Pilot[int]) -> None:
        await until_shown(app, pilot, "Done.")
        rows[:] = shown_rows(app)

    assert snap_compare(app, run_before=run, terminal_size=size)
    both = [row for row in rows if row.count("cents") == 2 and " │ " in row]
    assert len(both) >= 4, rows


@pytest.mark.parametrize(("theme", "size"), LOOKS)
def test_chosen_card_looks_as_recorded(snap_compare: Callable[..., bool], theme: str, size: tuple[int, int]) -> None:
    app = make_app(ScriptedConversation(live()), prompt=PROMPT, theme=theme)
    rows: list[str] = []

    async def run(pilot: Pilot[int]) -> None:
        await until_shown(app, pilot, "Done.")
        await pilot.press("alt+o", "g", "j", "j", "enter")
        app.widgets.transcript.flush()
        await pilot.pause()
        rows[:] = shown_rows(app)

    assert snap_compare(app, run_before=run, terminal_size=size)
    assert_shows(rows, ("✓›Search cents in src  3 matches", "│ x"), size)
