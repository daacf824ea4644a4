"""Lines that a program drew several times show what a terminal shows."""

from __future__ import annotations

import time
from unittest.mock import patch

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.text.redrawn import RedrawnStream, is_redrawn, redrawn, redrawn_cells


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


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\r" + "x" * 1_500 + "\ty", "x" * 1_500 + "y"),
        ("\r" + "x" * 1_500 + "\x1b[Ky", "x" * 1_500 + "y"),
        ("\r" + "x" * 1_500 + "\x1b[2Cy", "x" * 1_500 + "y"),
        ("\r" + "x" * 1_500 + "\x1b[1401Gy", "x" * 1_400 + "y" + "x" * 99),
        ("\rx\x1b[9999Cy", "x" + " " * 999 + "y"),
    ],
)
def test_movement_forward_never_goes_back_in_a_long_line(line: str, shown: str) -> None:
    assert redrawn(line) == shown


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


@given(PIECES, st.sampled_from([1, 8, 4_096]))
def test_output_in_pieces_has_the_same_lines(pieces: list[str], size: int) -> None:
    pieces = [*pieces, "\n", *pieces]
    stream = RedrawnStream()
    with patch("qcode.text.redrawn._MIN_REDUCED", size):
        found = "".join(map(stream.add, pieces)) + stream.end()
    expected = redrawn("".join(pieces))
    assert [line.rstrip(" ") for line in found.split("\n")] == [line.rstrip(" ") for line in expected.split("\n")]


@pytest.mark.parametrize("piece", ["x" * 1_000, "\r10% of the files", "\x08/", "\r\x1b[Kdone"])
def test_endless_line_is_reduced_in_linear_time_and_bounded_memory(piece: str) -> None:
    stream, started, size = RedrawnStream(), time.process_time(), 0
    for _ in range(20_000):
        size = max(size, len(stream.add(piece)))
    assert max(size, len(stream.end())) <= 130_000
    assert time.process_time() - started < 5
