"""Starts the app on a scripted conversation, with a fixed clock, size, theme and model name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from textual.pilot import Pilot

from qcode.tui.app import AppOptions, QcodeApp
from qcode.tui.terminal.textual_internals import NOT_SHOWN
from qcode.tui.welcome import Welcome
from tests.tui.scripted import FixedClock, ScriptedConversation
from tests.tui.staged_app import WELCOME, Services, StagedAgent, StagedApp, run_context

if TYPE_CHECKING:
    from qcode.agent.conversation import Conversation

_SERVICES = frozenset(field.name for field in fields(Services))


PATIENCE_S, MIN_PAUSES = 30.0, 300
"""How long `Running.until` waits: both must have passed. A busy machine may take seconds to start a program."""


@dataclass
class Running:
    """A running app with its pilot."""

    app: QcodeApp
    pilot: Pilot[int]
    conversation: ScriptedConversation
    clock: FixedClock

    @property
    def text(self) -> str:
        """The transcript."""
        return self.app.widgets.transcript.plain_text()

    @property
    def status(self) -> str:
        plain: str = self.app.widgets.status.render().plain
        return plain

    async def type(self, text: str) -> None:
        """Insert `text` into the prompt at the cursor, without pressing keys."""
        self.app.widgets.prompt.insert(text)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        """Insert `text` into the prompt and press Enter."""
        await self.type(text)
        await self.pilot.press("enter")

    async def type_over(self, text: str) -> None:
        """Send `text` in place of a refused command, which is selected in the prompt."""
        prompt = self.app.widgets.prompt
        await self.until(lambda: prompt.is_refilled)
        prompt.replace(text, *prompt.selection)
        await self.pilot.press("enter")

    @property
    def screen(self) -> str:
        """The text on the screen."""
        return rows_of(self.app)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the app work until `holds()`. After `PATIENCE_S` and `MIN_PAUSES`, fail with the text on the screen."""
        end, pauses = time.monotonic() + PATIENCE_S, 0
        while not holds():
            if time.monotonic() > end and pauses > MIN_PAUSES:
                raise AssertionError(f"the app did not reach the expected state:\n{self.screen}")
            await self.pilot.pause()
            pauses += 1

    async def until_idle(self) -> None:
        """Wait until the turn has ended and the transcript shows its result."""
        await self.until(lambda: not self.app.turns.is_running)
        await self.pilot.pause()
        await self.until(lambda: not self.app.widgets.transcript.is_frame_due)
        await self.pilot.pause()


def rows_of(app: QcodeApp) -> str:
    """Return the rows on the screen."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def make_agent(conversation: Conversation, **given: Any) -> StagedAgent:
    """Return an agent on a conversation; `given` are fields of `Services` and arguments of `run_context`."""
    services = Services(**{name: value for name, value in given.items() if name in _SERVICES})
    context = run_context(**{name: value for name, value in given.items() if name not in _SERVICES})
    return StagedAgent(conversation, replace(context, is_trusted=services.is_trusted()), services)


def make_app(
    conversation: Conversation,
    clock: FixedClock | None = None,
    *,
    welcome: Welcome = WELCOME,
    history_file: Path | None = None,
    **given: Any,
) -> StagedApp:
    """Return the app on a conversation; `given` are arguments of `make_agent`. With a history file, the app stores."""
    given.setdefault("no_session", history_file is None)
    options = AppOptions(history_file, clock=clock or FixedClock())
    return StagedApp(make_agent(conversation, **given), welcome, options)


async def until_ready(app: QcodeApp, pilot: Pilot[int]) -> None:
    """Wait until the app handles keys and commands."""
    while not app.is_ready:
        await pilot.pause()
    await pilot.pause()


@asynccontextmanager
async def running(
    conversation: Conversation, *, size: tuple[int, int] = (80, 24), may_hide: bool = False, **given: Any
) -> AsyncIterator[Running]:
    """Start the app and wait until it handles keys. At the end, fail if a widget of the last state cannot be painted.

    `may_hide`: the test breaks a widget on purpose.
    """
    clock = FixedClock()
    app = make_app(conversation, clock, **given)
    async with app.run_test(size=size) as pilot:
        await until_ready(app, pilot)
        yield Running(app, pilot, cast("ScriptedConversation", conversation), clock)
        if app.screen_stack and not may_hide:
            rendered = [strip.text for _, _, strips in app.screen._compositor._get_renders() for strip in strips]
            assert not [text for text in rendered if NOT_SHOWN in text], rows_of(app)


def drive(
    test: Callable[[Running], Awaitable[None]],
    conversation: ScriptedConversation | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    **given: Any,
) -> None:
    """Run `test` on a running app, in a separate event loop."""

    async def body() -> None:
        async with running(conversation or ScriptedConversation(), size=size, **given) as run:
            await test(run)

    asyncio.run(body())
