"""Starts the app on a scripted conversation, with everything fixed that could differ between runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

import qcode.tui
from qcode.tui.app import AppSetup, QcodeApp
from tests.tui.offering import ScriptedOffering
from tests.tui.scripted import FixedClock, ScriptedConversation

ROOT_CSS = Path(qcode.tui.__file__).with_name("app.tcss")
"""The style sheet of the app, for a test that shows one screen of it alone."""

SETUP = AppSetup(
    version="0.1.0",
    cwd="~/project",
    model_note=("demo/scripted (no key is set)", "Set ANTHROPIC_API_KEY to use a real model."),
    instructions=("AGENTS.md",),
    git_branch="main",
    help_topics={"demo": lambda: "The demo model plays [every] feature."},
    has_title=False,
)


@dataclass
class Running:
    """A running app and what a test drives it with."""

    app: QcodeApp
    pilot: Pilot[int]
    conversation: ScriptedConversation
    clock: FixedClock

    @property
    def text(self) -> str:
        """The transcript."""
        return self.app.parts.transcript.plain_text()

    @property
    def status(self) -> str:
        plain: str = self.app.parts.status.render().plain
        return plain

    async def type(self, text: str) -> None:
        """Put `text` into the prompt at the cursor, at once; where single keys matter tests press them."""
        self.app.parts.prompt.insert(text)
        await self.pilot.pause()

    async def send(self, text: str) -> None:
        await self.type(text)
        await self.pilot.press("enter")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the app work until `holds`; the test's own time limit ends a wait that is in vain."""
        while not holds():
            await self.pilot.pause()

    async def until_idle(self) -> None:
        """Let the turn end, and the transcript show all that came of it."""
        await self.until(lambda: not self.app.turns.is_running)
        await self.pilot.pause()
        await self.until(lambda: not self.app.parts.transcript._is_due)
        await self.pilot.pause()


def make_app(conversation: ScriptedConversation, clock: FixedClock | None = None, **changes: Any) -> QcodeApp:
    return QcodeApp(
        conversation,
        setup=replace(SETUP, **{"clock": clock or FixedClock(), "offering": ScriptedOffering(), **changes}),
    )


async def at_work(app: QcodeApp, pilot: Pilot[int]) -> None:
    """Let the app come to where it takes keys and commands."""
    while not app.is_at_work:
        await pilot.pause()
    await pilot.pause()


@asynccontextmanager
async def running(
    conversation: ScriptedConversation, *, size: tuple[int, int] = (80, 24), **changes: Any
) -> AsyncIterator[Running]:
    clock = FixedClock()
    app = make_app(conversation, clock, **changes)
    async with app.run_test(size=size) as pilot:
        await at_work(app, pilot)
        yield Running(app, pilot, conversation, clock)


def drive(
    test: Callable[[Running], Awaitable[None]],
    conversation: ScriptedConversation | None = None,
    *,
    size: tuple[int, int] = (80, 24),
    **changes: Any,
) -> None:
    """Run `test` on a running app, in an event loop of its own."""

    async def body() -> None:
        async with running(conversation or ScriptedConversation(), size=size, **changes) as run:
            await test(run)

    asyncio.run(body())
