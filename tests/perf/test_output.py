"""Limits of what the app writes to the terminal: bytes of a streamed reply, of waiting and of a key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.perf.conftest import Bars
from tests.perf.test_app import LIVE, Terminal, running

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

COLUMNS, ROWS = 120, 40

STREAMING = (
    LIVE
    + """
import os
from tests.perf.test_transcript import DELTA, REPLY

ui.partial_redraw = sys.argv[1] == "partial"
os.environ["COLORTERM"] = sys.argv[2]

class Streaming(Conversation):
    async def submit(self, prompt, attached=(), options=None):
        yield StepStarted(1)
        if prompt == "go":
            for at in range(0, 60_000, DELTA):
                yield TextDelta(0, REPLY[at : at + DELTA])
                await asyncio.sleep(1 / 200)
            yield TextDelta(0, "\\n\\nall-there")
        await asyncio.sleep(1_000)

conversation = Streaming()
app().run()
"""
)


@contextmanager
def streaming(folder: Path, frames: str, colors: str = "") -> Iterator[Terminal]:
    """Run the app; `colors` is COLORTERM: `truecolor`, or empty for the 256 colors of TERM."""
    with running(folder, STREAMING, frames, colors, columns=COLUMNS, rows=ROWS) as terminal:
        terminal.until("ready-to-type")
        # A terminal with synchronized output says so; the frames then have its sequences around them.
        os.write(terminal.master, b"\x1b[?2026;2$y")
        terminal.read_for(2)
        yield terminal


def streamed(folder: Path, frames: str, colors: str = "") -> tuple[int, float]:
    """Return the bytes and the CPU seconds of a reply of 60 kB at 200 deltas a second."""
    with streaming(folder, frames, colors) as terminal:
        written, used = terminal.written, terminal.running_seconds()
        terminal.type("go\r")
        terminal.until("all-there")
        terminal.read_for(0.5)
        return terminal.written - written, terminal.running_seconds() - used


def test_a_streamed_reply_writes_few_bytes_for_the_same_cpu_time(tmp_path: Path, bars: Bars) -> None:
    pairs = [(streamed(tmp_path, "partial"), streamed(tmp_path, "whole")) for _ in range(3)]
    partial, whole = ([min(run[at] for run in runs) for at in (0, 1)] for runs in zip(*pairs, strict=True))
    bars.hold("60 kB of Markdown streamed at 120x40, bytes to the terminal", partial[0] / 1000, 250, "kB")
    full = min(streamed(tmp_path, "partial", "truecolor")[0] for _ in range(3))
    bars.hold("the same in 24-bit colors", full / 1000, 250, "kB", known=275)
    bars.hold("the same, against whole frames", partial[0] / whole[0], 0.15)
    # Whole frames write a row that moved from a cache. Both kinds take less than whole frames did before the painter:
    # docs/decisions/2026-11-22-partial-redraw.md.
    bars.hold("the same, CPU, against whole frames", partial[1] / whole[1], 1.25)


def test_waiting_and_typing_write_few_bytes(tmp_path: Path, bars: Bars) -> None:
    with streaming(tmp_path, "partial") as terminal:
        echoes = []
        for letter in "a line of some length":
            written = terminal.written
            os.write(terminal.master, letter.encode())
            terminal.read_for(0.3)
            echoes.append(terminal.written - written)
        bars.hold("a key echoed, bytes", max(echoes), 200, "B")
        terminal.type("\r")
        terminal.read_for(2)
        written = terminal.written
        terminal.read_for(10)
        bars.hold("waiting for the model, bytes in a second", (terminal.written - written) / 10, 1000, "B")
