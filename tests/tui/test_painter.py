"""Partial frames: the terminal shows the same cells as if every frame had been written whole."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Region
from textual.strip import Strip

from qcode.tui.terminal.painter import Painter, Part, erases_color
from tests.fakes.examples import share
from tests.tui.emulators import Pyte, Screen
from tests.tui.harness import Running, drive
from tests.tui.scripted import ScriptedConversation, ended, says

pytestmark = pytest.mark.frames

CONSOLES = {
    system: Console(file=io.StringIO(), force_terminal=True, color_system=system, width=80, _environ={})
    for system in ("standard", "256", "truecolor")
}


def make_styles() -> list[Style | None]:
    """Return new styles: Rich keeps in a style, and in its copies, how the first console wrote it."""
    return [
        None,
        Style(bgcolor="#14161b"),
        Style(color="default", bgcolor="default"),
        Style(color="#d6d9e0", bgcolor="#14161b"),
        Style(color="#5fc9b8", bgcolor="#1c1f26", bold=True),
        Style(color="red", bgcolor="#1c1f26", bold=True, dim=True),
        Style(italic=True, underline=True),
        Style(reverse=True, bgcolor="#14161b"),
        Style(strike=True, underline2=True, overline=True),
        Style(color="bright_blue", bgcolor="blue", link="https://e.example/1"),
        Style(underline=True, link="https://e.example/2"),
    ]


STYLES = make_styles()
SURE_TEXTS = ["word ", "x", " ", "     ", "-" * 12, "│ ", "漢字", "한", "é", "—", "⠋", " " * 30, "Ж", "ｆ"]
HIDDEN = "\u200b\ufeff\u202e\u2066\u200d\ufe0f\u0301"  # characters that take no cell
UNSURE_TEXTS = ["👍", "👩‍👩‍👧", "⚠️", "e\u0301", "🇩🇪", "✓", "⚠", "ﷺ"]


Placed = tuple[int, Strip]
"""A strip and its column."""


class Frames:
    """Random frames of an app: text that scrolls, columns beside it, and rows below that change by themselves."""

    def __init__(self, chance: random.Random, texts: list[str]) -> None:
        self.chance = chance
        self.texts = texts
        self.styles = make_styles()
        self.resize()

    def resize(self) -> None:
        self.width, self.height = self.chance.randint(6, 44), self.chance.randint(4, 14)
        self.cuts = sorted({0, self.width, *self.chance.sample(range(1, self.width), self.chance.randint(0, 2))})
        self.rows = [self.row() for _ in range(self.height)]
        self.end = self.height - self.chance.randint(0, 3)

    def row(self) -> list[Placed]:
        return [(start, self.strip(end - start)) for start, end in pairwise(self.cuts)]

    def strip(self, cells: int) -> Strip:
        segments: list[Segment] = []
        left = cells if self.chance.random() < 0.9 else 0
        while left > 0 and self.chance.random() < 0.8:
            text = self.chance.choice(self.texts)
            if cell_len(text) > left:
                break
            segments.append(Segment(text, self.chance.choice(self.styles)))
            left = cells - sum(cell_len(segment.text) for segment in segments)
        missing = cells - sum(cell_len(segment.text) for segment in segments)
        return Strip([*segments, Segment(" " * missing, self.chance.choice(self.styles[:4]))], cells)

    def change(self) -> list[Part]:
        """Change something, and return the parts to write: all that changed, and some others."""
        before = [dict(row) for row in self.rows]
        for _ in range(self.chance.randint(1, 3)):
            self.chance.choice([self.scroll, self.scroll, self.replace, self.alter])()
        known = [
            {x: strip for x, strip in row if shown.get(x) is strip}
            for row, shown in zip(self.rows, before, strict=True)
        ]
        if self.chance.random() < 0.4:
            self.patch(known)
        return [
            (y, x, strip)
            for y, row in enumerate(self.rows)
            for x, strip in row
            if self.chance.random() < 0.2 or known[y].get(x) is not strip
        ]

    def scroll(self) -> None:
        first, by = self.chance.randrange(self.end), self.chance.randint(-3, 4)
        region = self.rows[first : self.end]
        new = [self.row() for _ in range(min(abs(by), len(region)))]
        kept_rows = region[by:] if by > 0 else region[: len(region) + by]
        self.rows[first : self.end] = ([*kept_rows, *new] if by > 0 else [*new, *kept_rows])[: len(region)]

    def replace(self) -> None:
        self.rows[self.chance.randrange(self.height)] = self.row()

    def alter(self) -> None:
        """Change one segment."""
        row = self.chance.choice(self.rows)
        at = self.chance.randrange(len(row))
        x, strip = row[at]
        segments = list(strip)
        index = self.chance.randrange(len(segments))
        cells = segments[index].cell_length
        text = set_cell_size(self.chance.choice(["ab", "漢a", "-" * cells, ""]), cells)
        segments[index] = Segment(text, self.chance.choice(self.styles))
        row[at] = (x, Strip(segments, strip.cell_length))

    def patch(self, known: list[dict[int, Strip]]) -> None:
        """Write over a part of a strip, as a widget that appears above it. The rest of the strip is not written."""
        y = self.chance.randrange(self.height)
        at = self.chance.randrange(len(self.rows[y]))
        x, strip = self.rows[y][at]
        start, end = sorted(self.chance.sample(range(strip.cell_length + 1), 2))
        left, middle, right = strip.crop(0, start), strip.crop(start, end), strip.crop(end, strip.cell_length)
        # Not through a wide or joined character.
        is_simple = left.text + middle.text + right.text == strip.text and not any(map(strip.text.count, UNSURE_TEXTS))
        if known[y].get(x) is strip and is_simple:
            pieces = [(x, left), (x + start, self.strip(end - start)), (x + end, right)]
            self.rows[y][at : at + 1] = [(column, piece) for column, piece in pieces if piece.cell_length]
            known[y] |= {x: left, x + end: right}

    def parts(self) -> list[Part]:
        return [(y, x, strip) for y, row in enumerate(self.rows) for x, strip in row]

    def whole(self, console: Console) -> str:
        """Return the output of Textual for the frame."""
        strips = [[strip for _, strip in row] for row in self.rows]
        return LayoutUpdate(list(strips), Region(0, 0, self.width, self.height)).render_segments(console)


def play(seed: int, texts: list[str], kind: type[Screen] | type[Pyte], *, can_erase: bool) -> None:
    """Write the same frames whole and by a painter to two screens, which must always be equal."""
    chance = random.Random(seed)
    frames, painter = Frames(chance, texts), Painter(erases_color=can_erase)
    console = CONSOLES[chance.choice(list(CONSOLES))]
    expected, screen = kind(frames.width, frames.height), kind(frames.width, frames.height)
    parts = frames.parts()
    for _ in range(12):
        expected.feed(frames.whole(console))
        screen.feed(painter.paint(frames.width, frames.height, parts, console))
        assert screen.rows == expected.rows
        if chance.random() < 0.1:
            frames.resize()
            expected, screen = kind(frames.width, frames.height), kind(frames.width, frames.height)
            parts = frames.parts()
            painter.forget()
        elif chance.random() < 0.1:
            # Another program wrote to the terminal.
            screen.feed("\x1b[2;3Hbad")
            painter.forget()
            parts = frames.parts()
        else:
            parts = frames.change()


@settings(max_examples=share(80))
@given(st.integers(0, 1 << 32), st.booleans())
def test_screen_is_the_same_as_with_whole_frames(seed: int, can_erase: bool) -> None:
    play(seed, SURE_TEXTS + UNSURE_TEXTS, Screen, can_erase=can_erase)


@settings(max_examples=share(50))
@given(st.integers(0, 1 << 32), st.booleans())
def test_screen_is_the_same_in_an_independent_emulator(seed: int, can_erase: bool) -> None:
    play(seed, SURE_TEXTS, Pyte, can_erase=can_erase)


def written(painter: Painter, *rows: list[Segment], width: int = 40) -> str:
    """Return the output for a frame with these rows."""
    strips = [Strip(row).adjust_cell_length(width) for row in rows]
    return painter.paint(width, len(rows), [(y, 0, strip) for y, strip in enumerate(strips)], CONSOLES["256"])


def lines(*texts: str) -> list[list[Segment]]:
    return [[Segment(text)] for text in texts]


@settings(max_examples=share(200))
@given(
    st.lists(
        st.lists(st.lists(st.text("a 中❤👩🇩\u0600" + HIDDEN, max_size=6), max_size=4), min_size=3, max_size=3),
        min_size=2,
        max_size=4,
    )
)
def test_any_text_with_characters_without_width_is_painted(frames: list[list[list[str]]]) -> None:
    painter = Painter(erases_color=True)
    for rows in frames:
        styled = [[Segment(text, STYLES[index]) for index, text in enumerate(row)] for row in rows]
        written(painter, *styled, width=12)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_row_is_painted_over_a_token_of_only_a_character_without_width(hidden: str) -> None:
    painter = Painter(erases_color=True)
    written(painter, [Segment("x"), Segment(hidden, STYLES[4]), Segment(" = 1")])
    assert " = 2" in written(painter, [Segment("x"), Segment(hidden, STYLES[4]), Segment(" = 2")])


def test_accent_in_a_segment_of_its_own_is_written_with_its_letter() -> None:
    painter = Painter(erases_color=True)
    written(painter, [Segment("cafe"), Segment(" au lait")])
    accented = written(painter, [Segment("cafe"), Segment("\u0301", STYLES[4]), Segment(" au lait")])
    assert "e\u0301" in accented


def test_only_the_changed_cells_are_written() -> None:
    painter = Painter(erases_color=True)
    written(painter, *lines("⠋ waiting 1 s", "a"))
    assert written(painter, *lines("⠙ waiting 1 s", "a")) == "\x1b[1H⠙"
    assert written(painter, *lines("⠹ waiting 2 s", "a")) == "\x1b[1H⠹\x1b[9C2"
    assert written(painter, *lines("⠹ waiting 2 s", "a")) == ""


def test_rows_that_move_up_are_moved_by_the_terminal() -> None:
    painter = Painter(erases_color=True)
    rows = [f"row {number} of a long text" for number in range(9)]
    written(painter, *lines(*rows[:6], "status"))
    assert written(painter, *lines(*rows[2:8], "status")) == (
        "\x1b[1;6r\x1b[6H\n\n\x1b[r\x1b[5H\x1b[Krow 6 of a long text\r\n\x1b[Krow 7 of a long text"
    )
    assert written(painter, *lines(*rows[1:7], "status")).startswith("\x1b[1;6r\x1b[1H\x1bM\x1b[r\x1b[1H\x1b[Krow 1")


def test_new_row_is_cleared_and_only_its_text_is_written() -> None:
    def row(text: str) -> list[Segment]:
        return [Segment(" "), Segment(text.ljust(50), Style(bgcolor="#222222")), Segment("    ")]

    moved, gray = "\x1b[1;6r\x1b[6H\n\x1b[r\x1b[6H", "\x1b[48;5;234m"
    rows = [row(f"row {number} of a long text") for number in range(7)]
    rows.append([Segment("a      👍      b      ")])
    painter, plain = Painter(erases_color=True), Painter(erases_color=False)
    for item in (painter, plain):
        written(item, *rows[:6], width=60)
    assert written(painter, *rows[1:7], width=60) == f"{moved}\x1b[m\x1b[K {gray}row 6 of a long text\x1b[30X"
    # A terminal that erases without color gets the blanks of the block as text.
    assert written(plain, *rows[1:7], width=60) == f"{moved}\x1b[m\x1b[K {gray}row 6 of a long text{' ' * 30}"
    # From a character of uncertain width on, everything is written.
    assert written(painter, *rows[2:8], width=60) == f"{moved}\x1b[m\x1b[Ka      👍      b      \x1b[K"


def test_new_rows_of_a_block_are_cleared_together_before_their_text() -> None:
    def row(text: str) -> list[Segment]:
        return [Segment(" "), Segment(text.ljust(50), Style(bgcolor="#222222")), Segment("    ")]

    rows = [row(f"row {number} of a long text") for number in range(9)]
    painter = Painter(erases_color=True)
    written(painter, *rows[:6], width=60)
    output = written(painter, *rows[2:8], width=60)
    assert output == (
        "\x1b[1;6r\x1b[6H\n\n\x1b[r\x1b[5H\x1b[m\x1b[K\r\n\x1b[K"
        "\x1b[5;2H\x1b[48;5;234mrow 6 of a long text\x1b[30X\x1b[6;2Hrow 7 of a long text\x1b[30X"
    )


def test_row_is_written_from_a_character_on_whose_width_terminals_disagree() -> None:
    painter = Painter(erases_color=True)
    written(painter, *lines("ab 👍 count 1", "a"))
    assert written(painter, *lines("ab 👍 count 2", "a")) == "\x1b[1;4H👍 count 2\x1b[K"
    assert written(painter, *lines("aB 👍 count 2", "a")) == "\x1b[1;2HB"
    assert written(painter, *lines("aB no count 2", "a")) == "\x1b[1;4Hno count 2\x1b[K"


@pytest.mark.parametrize("hidden", ["\u200b", "\ufeff", "\u202e", "\u0301", "\ufe0f"])
def test_character_without_a_cell_in_a_style_of_its_own_is_written(hidden: str) -> None:
    def row(count: int) -> list[Segment]:
        return [Segment("x "), Segment(hidden, Style(bold=True)), Segment(f"= {count}")]

    painter = Painter(erases_color=True)
    assert "= 1" in written(painter, row(1), [Segment(hidden, Style(bold=True)), Segment("a")])
    assert "= 2" in written(painter, row(2), [Segment(hidden, Style(bold=True)), Segment("b")])


def test_wide_characters_are_written_whole() -> None:
    painter = Painter(erases_color=True)
    written(painter, *lines("漢字a", "a"))
    assert written(painter, *lines(" 漢a ", "a")) == "\x1b[1H 漢a "
    assert written(painter, *lines(" 字a ", "a")) == "\x1b[1;2H字"
    assert written(painter, *lines(" 漢a      c", "a")) == "\x1b[1;2H漢\x1b[7Cc"


def test_style_changes_are_written_as_differences() -> None:
    painter = Painter(erases_color=True)
    plain, bold = (
        Style(color="color(250)", bgcolor="color(16)"),
        Style(color="color(250)", bgcolor="color(16)", bold=True),
    )
    output = written(painter, [Segment("one ", plain), Segment("two", bold), Segment(" three", plain)], width=13)
    assert output == "\x1b[m\x1b[1H\x1b[38;5;250;48;5;16mone \x1b[1mtwo\x1b[22m three"
    # The next frame begins with the style in which this one ended.
    output = written(painter, [Segment("one ", plain), Segment("two", bold), Segment(" third", plain)], width=13)
    assert output == "\x1b[1;11Hird"


@pytest.mark.parametrize("erases", [True, False])
def test_colored_blanks_are_erased_only_in_terminals_that_color_them(erases: bool) -> None:
    painter = Painter(erases_color=erases)
    ground = Style(bgcolor="color(16)")
    output = written(painter, [Segment("a" + " " * 39, ground)])
    assert ("\x1b[K" in output, " " * 39 in output) == ((True, False) if erases else (False, True))


@pytest.mark.parametrize(
    ("env", "erases"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "screen-256color"}, False),
        ({"TERM": "screen-256color", "TMUX": "/tmp/x"}, True),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x"}, True),
        ({"TERM": "eterm-color"}, False),
        ({}, True),
    ],
)
def test_terminal_type_tells_whether_erased_cells_are_colored(env: dict[str, str], erases: bool) -> None:
    assert erases_color(env) is erases


def test_frame_that_failed_leaves_the_screen_unknown() -> None:
    class Broken(Strip):
        def __iter__(self) -> Iterator[Segment]:
            raise KeyError("broken")

    painter = Painter(erases_color=True)
    written(painter, *lines("one", "two"))
    with pytest.raises(KeyError):
        painter.paint(40, 2, [(0, 0, Broken([Segment("x" * 40)], 40))], CONSOLES["256"])
    assert not painter.knows(40, 2)


ACTIONS = ("f1", "pagedown", "pagedown", "pageup", "escape", "ctrl+home", "ctrl+end", "ctrl+f", "ctrl+p", "ctrl+l", "a")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reply", ["", "line\n\n" * 40], ids=["short", "long"])
def test_app_shows_its_own_screen_after_panels_and_scrolls(reply: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of the app, in an emulator, are the screen that the app has laid out."""
    screen = Screen(80, 24)

    async def test(run: Running) -> None:
        monkeypatch.setattr(HeadlessDriver, "is_headless", False)
        monkeypatch.setattr(HeadlessDriver, "write", lambda _, output: screen.feed(output))
        run.app.redraw()
        if reply:
            await run.send("one")
            await run.until_idle()
        keys = ["f1", "pagedown", "escape", *random.Random(reply).choices(ACTIONS, k=share(40))]
        for at, key in enumerate(keys, 1):
            await run.pilot.press(key)
            shown = "\n".join("".join(text for text, _, _ in row).rstrip() for row in screen.rows)
            assert shown == run.screen, keys[:at]

    drive(test, ScriptedConversation([*says(reply), ended()]))
