"""Pastes and Alt keys are separated from the terminal input, with any content and any split."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from qcode.tui.terminal.input import BurstParser, PasteParser
from tests.tui.scripted import FixedClock

START, END = "\x1b[200~", "\x1b[201~"
PIECES = st.text(st.sampled_from(list("ab\r\n\t\x1b[201~\x07é")), max_size=40).filter(lambda text: END not in text)


def read(data: str, sizes: list[int]) -> list[str]:
    """Return the keys and pastes in `data`, received in chunks of these sizes in turn."""
    parser, seen, at, turn = PasteParser(), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        for message in parser.feed(data[at : at + size]):
            if isinstance(message, events.Paste):
                seen.append(f"paste {message.text}")
            elif isinstance(message, events.Key):
                seen.append(message.key)
        at, turn = at + size, turn + 1
    return seen


@given(PIECES, PIECES, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_two_pastes_and_the_keys_around_them_keep_their_order(one: str, two: str, sizes: list[int]) -> None:
    # A paste that contains the end marker ends there, even if the marker starts in the paste and ends in the real one.
    if (one + END).find(END) != len(one) or (two + END).find(END) != len(two):
        return
    seen = read(f"x{START}{one}{END}y{START}{two}{END}\x1b[A", sizes)
    assert seen == ["x", f"paste {one}", "y", f"paste {two}", "up"]


def test_escape_sequence_in_a_paste_does_not_become_keys() -> None:
    assert read(f"{START}\x1b[31mred and more than thirty characters\x1b[0m\r{END}", [4096]) == [
        "paste \x1b[31mred and more than thirty characters\x1b[0m\r"
    ]


def test_keys_without_a_paste_are_unchanged() -> None:
    assert read("a\r\x1b[1;5D\x1b[13;2u", [1]) == ["a", "enter", "ctrl+left", "shift+enter"]


@pytest.mark.parametrize(
    ("chunks", "keys"),
    [
        (["\x1bq\x1b"], ["alt+q", "escape"]),
        (["\x1bq", "\x1b"], ["alt+q", "escape"]),
        (["\x1bQ\x1bq"], ["alt+shift+q", "alt+q"]),
        (["\x1bi hello"], ["alt+i", "space", *"hello"]),
        (["\x1b!\x1b$"], ["alt+exclamation_mark", "alt+dollar_sign"]),
        (["\x1bf\x1bb"], ["ctrl+right", "ctrl+left"]),
        (["\x1b", "dd"], ["escape", "d", "d"]),
        (["\x1b", "\x1b", "x"], ["escape", "escape", "x"]),
        (["\x1b", "\x12"], ["escape", "ctrl+r"]),
        (["\x1b\x12x"], ["escape", "ctrl+r", "x"]),
        (["\x1b", "[A"], ["up"]),
        (["\x1b[1;", "5D"], ["ctrl+left"]),
        (["\x1bO", "P"], ["f1"]),
        ([f"\x1bq{START}\x1bq{END}\x1bq"], ["alt+q", "paste \x1bq", "alt+q"]),
    ],
)
def test_alt_is_one_piece_of_input_and_escape_another(chunks: list[str], keys: list[str]) -> None:
    parser = PasteParser()
    seen = [message for chunk in chunks for message in parser.feed(chunk)]
    seen += parser.give_up()
    said = [item.key if isinstance(item, events.Key) else f"paste {getattr(item, 'text', '')}" for item in seen]
    assert said == keys


def test_nul_is_left_out() -> None:
    assert read(f"{START}a\0b{END}", [3]) == ["paste ab"]


def read_timed(*chunks: tuple[float, str]) -> list[str]:
    """Return the keys and pastes in chunks that each arrive so many seconds after the one before, and a pause."""
    clock, seen = FixedClock(), []
    parser = BurstParser(clock=clock)

    def read(messages: Iterable[object]) -> None:
        for message in messages:
            if isinstance(message, events.Paste):
                seen.append(f"paste {message.text}")
            elif isinstance(message, events.Key):
                seen.append(message.key)

    for pause, chunk in chunks:
        clock.now += pause
        read(parser.tick())
        read(parser.feed(chunk))
    clock.now += 0.1
    read(parser.tick())
    return seen


@pytest.mark.parametrize(
    "chunks",
    [
        [(1, "one\rtwo\r\rthree\r")],
        [(1, "one\rtwo\r"), (0.001, "\rthree\r")],
        [(1, "one\rtwo"), (0.001, "\r\rthr"), (0.001, "ee"), (0.001, "\r")],
        [(1, "one\r"), (0.01, "two\r"), (0.01, "\r"), (0.01, "three\r")],
    ],
)
def test_lines_that_arrive_without_a_pause_are_one_paste(chunks: list[tuple[float, str]]) -> None:
    assert read_timed(*chunks) == ["paste one\rtwo\r\rthree\r"]


def test_lines_that_arrive_by_single_characters_send_nothing() -> None:
    chunks = [(0.001, character) for character in "ab\rc\td\r"]
    assert read_timed(*chunks) == ["a", "b", "paste \rc\td\r"]


@pytest.mark.parametrize(
    ("chunks", "keys"),
    [
        ([(1, "hi\r")], ["h", "i", "enter"]),
        ([(1, "h"), (0.001, "i"), (0.001, "\r")], ["h", "i", "enter"]),
        ([(1, "hi\r"), (0.1, "ho\r")], ["h", "i", "enter", "h", "o", "enter"]),
        ([(1, "a"), (0.05, "\r"), (0.001, "b")], ["a", "enter", "b"]),
        ([(1, "\rhi\r")], ["enter", "h", "i", "enter"]),
        ([(1, "hi\r"), (0.001, "\x1b[A")], ["h", "i", "enter", "up"]),
        ([(1, "hi\x15\rho")], ["h", "i", "ctrl+u", "enter", "h", "o"]),
        ([(1, "a\x1b[13;2ub\r")], ["a", "shift+enter", "b", "enter"]),
        ([(1, "hi\r"), (0.001, f"{START}a\rb{END}\r")], ["h", "i", "enter", "paste a\rb", "enter"]),
    ],
)
def test_other_enter_keys_are_keys_in_their_order(chunks: list[tuple[float, str]], keys: list[str]) -> None:
    assert read_timed(*chunks) == keys


def test_enter_after_a_pause_is_a_key_at_once() -> None:
    clock = FixedClock()
    parser = BurstParser(clock=clock)
    seen: list[object] = []
    for pause, key in ((0.05, "h"), (0.05, "i"), (0.05, "\r"), (0.01, "\r"), (0.01, "\r")):
        clock.now += pause
        seen += [message.key for message in parser.feed(key) if isinstance(message, events.Key)]
    assert seen == ["h", "i", "enter", "enter", "enter"]
