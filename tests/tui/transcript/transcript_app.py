"""A small app around one transcript, with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from qcode.tui.transcript.transcript import Transcript


class TranscriptApp(App[None]):
    CSS = "Transcript { height: 1fr; padding: 0; }"

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.transcript = Transcript(clock=lambda: self.now)
        self.links: list[str] = []
        self.selected: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.transcript

    def on_selectable_pane_link_clicked(self, event: Transcript.LinkClicked) -> None:
        self.links.append(event.href)

    def on_selectable_pane_selected(self, event: Transcript.Selected) -> None:
        self.selected.append(event.text)

    @property
    def top(self) -> int:
        return round(self.transcript.scroll_y)

    @property
    def end(self) -> int:
        return round(self.transcript.max_scroll_y)

    def is_anchored(self) -> bool:
        return self.transcript.is_anchored

    def is_ticking(self) -> bool:
        return self.transcript.ticker is not None

    def is_frame_due(self) -> bool:
        return self.transcript.is_frame_due

    def view(self) -> list[str]:
        """Return the painted rows of the transcript."""
        height = self.transcript.size.height
        return [self.transcript.render_line(y).text.rstrip() for y in range(height)]


Scene = Callable[[TranscriptApp, Pilot[None]], Awaitable[None]]


def play(scene: Scene, size: tuple[int, int] = (60, 12)) -> None:
    """Run `scene` with an app of `size`."""

    async def run() -> None:
        app = TranscriptApp()
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            await scene(app, pilot)

    asyncio.run(run())


async def settle(app: TranscriptApp, pilot: Pilot[None]) -> None:
    """Show all changes and let the screen catch up."""
    app.transcript.flush()
    await pilot.pause()


def fill(transcript: Transcript, count: int) -> None:
    """Add `count` settled replies of three rows each, a blank row between them."""
    for number in range(count):
        transcript.append_text(f"- reply {number}\n- body {number}\n- end {number}\n")
        transcript.settle()
