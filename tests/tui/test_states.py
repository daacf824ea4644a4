"""Snapshots of the app's states and screens, dark and light, in 80 and 40 columns, with their readable text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from textual.pilot import Pilot

from qcode.agent.checkpoints.rewind import RewindPoint
from qcode.agent.context.attachments import shell_block
from qcode.agent.context.window import ContextReport
from qcode.agent.sessions.library import SessionInfo
from qcode.agent.usage import TurnUsage
from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import ApiCalls, StepStarted, TurnEnded, UsageUpdated, Waiting
from qcode.protocol.messages import Message, Text, ToolCall, ToolResult, assistant
from qcode.protocol.reply import Outcome, StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.protocol.usage import Usage
from qcode.tui.app import QcodeApp
from qcode.tui.screens.connect import ConnectScreen
from tests.tui.harness import make_app, until_ready
from tests.tui.scripted import Gate, ScriptedCheckpoints, ScriptedConversation, ScriptedLibrary, Step, ended, reply
from tests.tui.scripted_keys import ScriptedKeysService
from tests.tui.test_servers import READY, WAITING, ScriptedServers

LOOKS = [
    pytest.param("dark", (80, 24), id="dark"),
    pytest.param("light", (40, 24), id="light-narrow"),
]
TALK = (
    Message("user", (shell_block("make", ToolOutcome("no rule", summary="exit 2")), Text("why does it fail?"))),
    assistant(Text("I look."), ToolCall("c1", "read", '{"path": "Makefile"}')),
    Message("user", (ToolResult("c1", "read", "all:\n\ttrue\n"),)),
    assistant(Text("There is **no** rule for it.")),
)
USAGE = Usage(160_000, 900, 120_000)


class _Library(ScriptedLibrary):
    def sessions(self) -> tuple[SessionInfo, ...]:
        # Half a unit more, so that a slow machine shows the same age.
        now = time.time()
        return (
            SessionInfo("20250615-150640-12d1", "Fix [the] Makefile", "demo/scripted", now - 570, 4, is_open=True),
            SessionInfo("20250614-101500-ab34", "Write a parser of dates", "demo/scripted", now - 12_600, 31),
        )

    def preview(self, session_id: str) -> tuple[Message, ...]:
        return TALK


class _Checkpoints(ScriptedCheckpoints):
    def rewind_points(self) -> tuple[RewindPoint, ...]:
        at = "2025-06-15T15:06:40Z"
        return RewindPoint(1, "why does it fail?", at), RewindPoint(2, "mend it", at, ("Makefile", "src/a.py"))


class _Conversation(ScriptedConversation):
    """An agent with sessions, messages to rewind to, and reports."""

    def __init__(self, *steps: Step, messages: tuple[Message, ...] = ()) -> None:
        super().__init__(steps, messages=messages)
        self.library = _Library()
        self.checkpoints = _Checkpoints()

    def context_report(self) -> ContextReport:
        return ContextReport("m", 200_000, 1_100, 11_000, 3_100, 60_000, 90_000, 8_000, is_counted=True)

    def usage(self) -> tuple[TurnUsage, ...]:
        cut = ApiCalls(1, 1, 3)
        return (
            TurnUsage("why does it fail?", "demo/scripted", Usage(10_000, 500, 8_000), Decimal("0.04"), ApiCalls(2)),
            TurnUsage("mend it", "demo/scripted", USAGE, Decimal("1.2"), cut, 8_000),
        )


def _is_open(app: QcodeApp) -> bool:
    return len(app.screen_stack) > 1


def _has_panel(app: QcodeApp) -> bool:
    return app.widgets.help.is_open


def _is_over(app: QcodeApp) -> bool:
    return bool(app.agent.conversation.prompts) and not app.turns.is_running  # type: ignore[attr-defined]  # a scripted one


@dataclass
class State:
    """A state of the app, reached with `command` if it has one. Ready once it `holds` and all `words` are readable."""

    words: tuple[str, ...]
    command: str = ""
    holds: Callable[[QcodeApp], bool] = lambda app: app.is_ready
    make: Callable[[], ScriptedConversation] = _Conversation
    changes: Callable[[], dict[str, Any]] = dict
    prompt: str = ""
    shown: list[str] = field(default_factory=list)

    async def __call__(self, pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, QcodeApp)
        await until_ready(app, pilot)
        if self.command:
            app.widgets.prompt.insert(self.command)
            await pilot.press("enter")
        async with asyncio.timeout(20):
            while not self.holds(app):
                await pilot.pause()
        await pilot.pause()
        app.widgets.transcript.flush()
        with suppress(TimeoutError):  # the test then names the words that are missing
            async with asyncio.timeout(20):
                while True:
                    await pilot.pause()
                    rows = app.screen._compositor.render_strips()
                    self.shown[:] = ["".join(segment.text for segment in row) for row in rows]
                    if not self.missing_words:
                        break

    def prepare(self, theme: str) -> QcodeApp:
        first: dict[str, Any] = {"prompt": self.prompt} if self.prompt else {}
        return make_app(self.make(), theme=theme, **first, **self.changes())

    @property
    def missing_words(self) -> list[str]:
        """The `words` that are not on the screen; spaces from wrapping are ignored."""
        text = "".join(" ".join(self.shown).replace("▌", "").split())
        return [word for word in self.words if "".join(word.split()) not in text]


def _failing(kind: str, message: str) -> Callable[[], ScriptedConversation]:
    over = TurnEnded(
        Outcome.ERROR, StopReason.END_TURN, "", "", 1, Usage(), None, ApiCalls(1), error=ErrorInfo(kind, message)
    )
    return lambda: _Conversation(StepStarted(1), over)


def _activity(word: str) -> Callable[[QcodeApp], bool]:
    def holds(app: QcodeApp) -> bool:
        activity = app.widgets.status.status.activity
        return activity is not None and word in activity.text

    return holds


NEARLY_FULL = UsageUpdated(Usage(186_000, 900), None, 186_900, 200_000)
STATES = {
    "welcome": State(("qcode 0.1.0", "AGENTS.md", "/ lists the commands")),
    "sessions": State(("Fix [the] Makefile", "9 min ago", "›!make", "why does it fail"), "/resume", _is_open),
    "rewind": State(("Rewind to the state before a message", "mend it", "turn 2"), "/rewind", _is_open),
    "context": State(("Context", "Tool output", "45%"), "/context", _has_panel),
    "cost": State(("Usage", "$1.24", "discarded 8k"), "/cost", _has_panel),
    "mcp": State(
        ("git", "ready", "theirs"),
        "/mcp",
        _has_panel,
        changes=lambda: {"servers": ScriptedServers(READY, WAITING)},
    ),
    "help": State(("/help [topic]", "Show the commands, or help"), "/help", _has_panel),
    "resumed": State(
        ("✗ ! make", "no rule", "> why does it fail?", "✓ Read Makefile", "There is no rule for it."),
        make=lambda: _Conversation(messages=TALK),
    ),
    "connect": State(
        ("API key for openrouter", "Enter check"),
        "/connect openrouter",
        lambda app: isinstance(app.screen, ConnectScreen) and app.screen.step == "key",
        changes=lambda: {"connect": ScriptedKeysService()},
    ),
    "waiting": State(
        ("retry 2", "ask"),
        holds=_activity("rate limited"),
        make=lambda: _Conversation(StepStarted(1), Waiting(5.0, "rate limited", 2, max_retries=5), Gate()),
        prompt="hello",
    ),
    "offline": State(
        ("The host cannot be reached", "offline"),
        holds=_is_over,
        make=_failing(ErrorKind.CONNECTION, "The host cannot be reached."),
        prompt="hello",
    ),
    "no key": State(
        ("No key for openai", "no key"),
        holds=_is_over,
        make=_failing(ErrorKind.NO_CREDENTIAL, "No key for openai: /connect adds one."),
        prompt="hello",
    ),
    "nearly full": State(
        ("Done.", "93%"),
        holds=_is_over,
        make=lambda: _Conversation(StepStarted(1), TextDelta(0, "Done."), reply("Done."), NEARLY_FULL, ended()),
        prompt="hello",
    ),
    "queued": State(
        ("I begin", "and the [tests] too"),
        "and the [tests] too",
        lambda app: bool(app.agent.conversation.steered),  # type: ignore[attr-defined]  # a scripted one
        lambda: _Conversation(StepStarted(1), TextDelta(0, "I begin."), Gate()),
        prompt="fix it",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.frames
@pytest.mark.parametrize(("theme", "size"), LOOKS)
@pytest.mark.parametrize("name", STATES)
def test_state_looks_as_recorded(
    snap_compare: Callable[..., bool], name: str, theme: str, size: tuple[int, int]
) -> None:
    state = STATES[name]
    run: Callable[[Pilot[int]], Awaitable[None]] = state
    assert snap_compare(state.prepare(theme), run_before=run, terminal_size=size)
    assert state.missing_words == []
    assert max(map(len, state.shown)) <= size[0]
