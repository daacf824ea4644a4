"""Long blocks while they are written: the same rows as at once, and of each frame only the end is new."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from qcode.tui.transcript.chunks import MIN_OPEN_CHARS, context_of
from qcode.tui.transcript.line import Line, shown_text
from qcode.tui.transcript.markdown import MarkdownStream
from tests.tui.transcript.rendering import facts, lines_of

WORDS = (
    "word",
    "some",
    "**bold**",
    "`code`",
    "longer",
    "[link](https://e.example)",
    "and",
    "the",
    "*it*",
    "漢字",
    "end.",
)


def words(count: int) -> str:
    pick = random.Random(count)
    return " ".join(pick.choice(WORDS) for _ in range(count))


PARAGRAPH = words(1_500)
BLOCKS = {
    "one long line": PARAGRAPH,
    "many lines": "\n".join(words(8 + n % 7) for n in range(150)),
    "hard breaks": "".join(f"line {n} of a poem  \n" for n in range(300)),
    "quote": "".join(f"> a line {n} of the quote that goes on for a bit\n>\n" for n in range(150)),
    "nested list": "- top\n" + "".join(f"  - item {n} with `code`\n    - below {n}\n" for n in range(120)),
    "numbered": "1. top\n" + "".join(f"   {n + 1}. item {n} with text\n" for n in range(200)),
    "loose list": "- top\n\n" + "".join(f"  paragraph {n} with `code` in it\n\n" for n in range(150)),
    "code in a list": "1. do\n   ```py\n" + "".join(f"   x = {n:04}\n" for n in range(300)),
    "table": "| name | value | n |\n|---|---|--:|\n"
    + "".join(f"| row {n:04} | some `text` | {n:04} |\n" for n in range(200)),
}


SAMPLE = ("one long line", "quote", "nested list", "code in a list", "table")
"""The blocks of `make test`: one for each way to divide a block."""
NAMES = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.broad) for name in BLOCKS]


def live(text: str, piece: int, width: int = 60) -> list[list[Line]]:
    """Return the rows shown after each chunk."""
    stream = MarkdownStream(width)
    frames = []
    for at in range(0, len(text), piece):
        stream.feed(text[at : at + piece])
        stream.render_open_end()
        frames.append(list(stream.lines))
    return frames


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_long_block_looks_the_same_while_it_is_written(name: str) -> None:
    text = BLOCKS[name]
    assert len(text) > 3 * MIN_OPEN_CHARS
    assert shown_text(live(text, 97)[-1]) == shown_text(lines_of(text.rstrip("\n"), 60))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_finished_rows_equal_the_rows_of_the_complete_text(name: str) -> None:
    stream = MarkdownStream(60)
    for at in range(0, len(BLOCKS[name]), 53):
        stream.feed(BLOCKS[name][at : at + 53])
        stream.render_open_end()
    stream.finish()
    assert facts(stream.lines) == facts(lines_of(BLOCKS[name], 60))


@pytest.mark.parametrize("name", NAMES)
def test_each_frame_renders_only_the_end(name: str) -> None:
    frames = live(BLOCKS[name], 200)
    fresh = []
    for before, after in pairwise(frames):
        first_changed = next(
            (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one is not other), None
        )
        fresh.append(
            sum(len(line.text.strip()) for line in after[len(before) if first_changed is None else first_changed :])
        )
    assert max(fresh) < 5 * MIN_OPEN_CHARS


def test_block_that_is_not_a_paragraph_is_shown_whole() -> None:
    text = words(600) + "\n| a | b |\n|---|---|\n" + "".join(f"| {n} | x |\n" for n in range(20))
    text_on_screen = shown_text(live(text, 61)[-1])
    assert "19 │ x" in text_on_screen
    stream = MarkdownStream(60)
    stream.feed(text)
    stream.finish()
    assert shown_text(stream.lines) == shown_text(lines_of(text, 60))


@pytest.mark.broad
def test_block_with_unclosed_marks_is_still_divided() -> None:
    text = "a * b ` c [ " * 1_500
    frames = live(text, 240)
    before, after = frames[-2], frames[-1]
    same = sum(one is other for one, other in zip(before, after, strict=False))
    assert len(after) - same < 5 * MIN_OPEN_CHARS // 60


def test_context_of_a_line_is_its_enclosing_blocks() -> None:
    lines = ["1. one", "   - two", "     text", "   - three", "     ```py", "     code", "     more"]
    assert context_of(lines, 3) == ["1. one", ""]
    assert context_of(lines, 6) == ["1. one", "   - three", "     ```py"]
    table = ["| a |", "|---|", "| 1 |", "| 2 |"]
    assert context_of(table, 3) == table[:2]
