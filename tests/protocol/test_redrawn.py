"""Lines that a program drew several times show what a terminal shows."""

from __future__ import annotations

import time

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.text.redrawn import is_redrawn, redrawn, redrawn_cells


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("10%\r50%\r100%", "100%"),
        ("working\rdone", "doneing"),
        # pip and npm erase the line before they draw it again.
        ("working\r\x1b[Kdone", "done"),
        ("\x1b[2K\x1b[1Gworking\x1b[2K\x1b[1Gdone", "done"),
        ("working\r\x1b[K", ""),
        ("working\r\x1b[0m", "working"),
        ("|\x08/\x08-\x08done", "done"),
        ("日本\rx", "x 本"),
        ("a\tb\rZ", "Z       b"),
    ],
)
def test_line_that_was_redrawn_has_its_last_state(line: str, shown: str) -> None:
    assert is_redrawn(line)
    assert redrawn(f"before\n{line}\r\nafter") == f"before\n{shown}\nafter"


@pytest.mark.parametrize("line", ["", "plain", "windows\r", "windows\r\r", "\x1b[31mred\x1b[K\x1b[0m", "a\tb"])
def test_line_that_was_drawn_once_is_unchanged(line: str) -> None:
    assert not is_redrawn(line)
    assert redrawn(line) == line


def test_cells_have_their_positions_in_the_line() -> None:
    line = "\x1b[31mred\x1b[0m\r\x1b[32mg"
    assert [(char, line[at]) for char, at in redrawn_cells(line)] == [("g", "g"), ("e", "e"), ("d", "d")]


PIECES = st.lists(
    st.sampled_from(
        ["ab", "日", "x", "\r", "\x08", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[2D", "\x1b[3C", "\x1b[4G", "\x1b[1m"]
    )
)


@given(PIECES)
def test_redrawn_line_is_the_row_of_a_terminal(pieces: list[str]) -> None:
    line = "".join(pieces)
    screen = pyte.Screen(400, 1)
    pyte.Stream(screen).feed(line)
    shown = "".join(char for char, _ in redrawn_cells(line))
    assert shown.rstrip() == screen.display[0].rstrip()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sequence", ["\r", "\rx", "\x1b[2K", "\x1b[1K", "\x1b[900Cx\r"])
def test_redrawn_line_takes_linear_time(sequence: str) -> None:
    def seconds(count: int) -> float:
        line = "a" * (20 * count) + sequence * count
        times = []
        for _ in range(3):
            before = time.process_time()
            redrawn(line)
            times.append(time.process_time() - before)
        return min(times)

    assert seconds(8_000) < 10 * seconds(2_000) + 0.02
