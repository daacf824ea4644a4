"""Limits of the transcript, as ratios within one run.

Rendering is the CPU time of taking text in and laying it out 20 times a second, up to the request to repaint. Painting
is Textual's and costs about the same for every frame; the measurements that say "frames" have it in them.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from itertools import count
from time import process_time

import pytest
from textual.pilot import Pilot

from qcode.tui.transcript.markdown import MarkdownStream
from tests.perf.conftest import Bars
from tests.tui.transcript.transcript_app import TranscriptApp, fill, settle

pytestmark = [pytest.mark.perf, pytest.mark.timeout(600)]

DELTA = 24
PER_FRAME = 10  # 200 deltas a second, 20 frames a second

SECTION = '''## Section {n}: how it works

The quick brown fox jumps over the lazy dog, then it **stops** to read `config.toml` and a [link](https://e.example/{n}).
It goes on with a second line of the same paragraph, so that wrapping has something to do at every width.

- first item with some text that is rather long and has to be wrapped somewhere near the end of it
- second item with `code`
  - nested item {n}

```python
class Thing{n}:
    """A doc string that
    goes over lines."""

    def method(self, value: int) -> str:
        for index in range(value):  # a comment
            if index % 2 == 0:
                print("value", index, end="")
        return "done"
```

| name | value | text |
|------|------:|------|
| a{n} | 1 | something |
| b{n} | 22 | something else |

> a quote with *emphasis* that says something wise about section {n}

'''
REPLY = "".join(SECTION.replace("{n}", str(number)) for number in range(200))
CODE = "```python\n" + "def function(argument):\n    return [item for item in argument if item]  # kept\n\n" * 1000

RUNS = count()

Scene = Callable[[TranscriptApp, Pilot[None]], Awaitable[float]]


def run(scene: Scene) -> float:
    async def start() -> float:
        app = TranscriptApp()
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(app, pilot)
            gc.collect()
            return await scene(app, pilot)

    return asyncio.run(start())


def best(scene: Scene, times: int = 3) -> float:
    return min(run(scene) for _ in range(times))


def unseen(text: str) -> str:
    """Return `text` with other names. The spans of a long block of code are cached, so a second run highlights none."""
    return text.replace("argument", f"argument_{next(RUNS)}")


def once(text: str) -> Scene:
    """Return a scene that renders `text` all at once."""

    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> float:
        new = unseen(text)
        start = process_time()
        app.transcript.append_text(new)
        app.transcript.settle()
        app.transcript.lay_out_all()
        return process_time() - start

    return scene


def streamed(text: str, *, above: int = 0, has_frames: bool = False) -> Scene:
    """Return a scene that streams `text` below `above` settled replies, and paints every frame if it `has_frames`."""

    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> float:
        fill(app.transcript, above)
        await settle(app, pilot)
        new = unseen(text)
        gc.collect()
        start = process_time()
        for frame in range(0, len(new), DELTA * PER_FRAME):
            for at in range(frame, min(len(new), frame + DELTA * PER_FRAME), DELTA):
                app.transcript.append_text(new[at : at + DELTA])
            app.transcript.flush()
            if has_frames:
                await pilot.pause()
        app.transcript.settle()
        app.transcript.flush()
        return process_time() - start

    return scene


@pytest.mark.parametrize("text", [REPLY[:60_000], CODE[:60_000]], ids=["markdown", "one block of code"])
def test_streaming_a_reply_costs_at_most_three_times_rendering_it_once(
    text: str, bars: Bars, request: pytest.FixtureRequest
) -> None:
    run(once(text))
    what = f"streaming 60 kB ({request.node.callspec.id}), CPU, against rendering it once"
    bars.hold(what, best(streamed(text)) / best(once(text)), 3)


def test_reply_after_a_thousand_messages_costs_little_more_than_in_an_empty_chat(bars: Bars) -> None:
    text = REPLY[:60_000]
    run(once(text))
    ratio = best(streamed(text, above=1_000)) / best(streamed(text))
    bars.hold("the same with 1,000 messages above it, against an empty chat", ratio, 1.2)


def test_frames_after_a_thousand_messages_cost_little_more_than_in_an_empty_chat() -> None:
    text = REPLY[:15_000]
    run(once(text))
    assert best(streamed(text, above=1_000, has_frames=True)) <= 1.2 * best(streamed(text, has_frames=True))


def test_reply_twice_as_long_costs_twice_as_much() -> None:
    run(once(REPLY[:120_000]))
    assert best(streamed(REPLY[:120_000]), 5) <= 2.4 * best(streamed(REPLY[:60_000]), 5)


def paragraph(size: int) -> str:
    words = ("word", "some", "**bold**", "`code`", "longer", "[link](https://e.example)", "and", "the", "*it*")
    return " ".join(words[number * 7 % len(words)] for number in range(size))[:size]


WITHOUT_END: dict[str, Callable[[int], str]] = {
    "a paragraph": paragraph,
    "a table": lambda size: "| a | b |\n|---|--:|\n" + "".join(f"| row {n} | `{n}` |\n" for n in range(size))[:size],
    "a quote": lambda size: "".join(f"> line {n} of *it*\n" for n in range(size))[:size],
    "a list": lambda size: "- top\n" + "".join(f"  - item {n} with `code`\n" for n in range(size))[:size],
    "a block of code": lambda size: "```python\n" + "".join(f"value = [{n}]  # it\n" for n in range(size))[:size],
    "a line of code": lambda size: "```json\n" + '{"a": [1, 2]}, ' * (size // 15),
}


@pytest.mark.parametrize("name", WITHOUT_END)
def test_frame_of_one_endless_block_costs_the_same_at_any_length(name: str, bars: Bars) -> None:
    """The median of the last frames: garbage collection affects some of them."""

    def frame(size: int) -> float:
        stream = MarkdownStream(80)
        text = WITHOUT_END[name](size)
        times = []
        for at in range(0, len(text), DELTA * PER_FRAME):
            start = process_time()
            stream.feed(text[at : at + DELTA * PER_FRAME])
            stream.render_open_end()
            times.append(process_time() - start)
        return sorted(times[-40:])[20] * 1000

    frame(6_000)
    bars.hold(f"a frame at the end of {name} of 60 kB, laid out", frame(60_000), 16, "ms")


def test_frame_of_a_streaming_reply_costs_at_most_three_repaints() -> None:
    text = REPLY[:15_000]

    async def repaints(app: TranscriptApp, pilot: Pilot[None]) -> float:
        app.transcript.append_text(text)
        await settle(app, pilot)
        start = process_time()
        for _ in range(0, len(text), DELTA * PER_FRAME):
            app.transcript.refresh()
            await pilot.pause()
        return process_time() - start

    assert best(streamed(text, has_frames=True)) <= 3 * best(repaints)


def test_thousand_messages_of_eight_lines_fit_in_sixty_megabytes(bars: Bars) -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> float:
        tracemalloc.start()
        try:
            for number in range(1_000):
                app.transcript.append_text("".join(f"- {number} line {line} with **bold**\n" for line in range(8)))
                app.transcript.settle()
            app.transcript.plain_text()
            await settle(app, pilot)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    bars.hold("1,000 messages of 8 lines, objects of Python", run(scene) / 1e6, 60, "MB")


def test_resumed_session_lays_out_only_visible_blocks() -> None:
    async def scene(app: TranscriptApp, pilot: Pilot[None]) -> float:
        start = process_time()
        for number in range(1_000):
            app.transcript.add_user(f"question {number}")
            app.transcript.append_text(REPLY[:2_000])
            app.transcript.settle()
        await settle(app, pilot)
        return process_time() - start

    run(once(REPLY))
    assert best(scene) <= best(once(REPLY[:200_000]))
