"""Standard input: read to its end with a time and size limit, and refused if it is binary."""

from __future__ import annotations

import os
import pty
import threading
from pathlib import Path
from typing import TextIO

import pytest

from qcode.cli import terminal
from qcode.cli.pipe import join_prompt
from qcode.cli.terminal import read_standard_input
from qcode.protocol.errors import InputError


def read(stream: TextIO | None, notes: list[str] | None = None) -> str:
    return read_standard_input(stream, note=(notes if notes is not None else []).append)


def piped(data: bytes) -> TextIO:
    """Return the read end of a pipe that a thread fills with `data` and closes."""
    read_end, write_end = os.pipe()

    def fill() -> None:
        with os.fdopen(write_end, "wb") as file:
            try:
                file.write(data)
            except BrokenPipeError:
                return

    threading.Thread(target=fill).start()
    return os.fdopen(read_end)


def test_pipe_is_read_to_its_end() -> None:
    with piped(b"one\n" * 50_000) as stream:
        assert read(stream) == "one\n" * 50_000


def test_silent_pipe_is_reported_once_and_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "SILENCE_S", 0.01)
    notes: list[str] = []
    read_end, write_end = os.pipe()
    writer = os.fdopen(write_end, "w")

    def note(text: str) -> None:
        notes.append(text)
        writer.write("late\n")
        writer.close()

    with os.fdopen(read_end) as stream:
        assert read_standard_input(stream, note=note) == "late\n"
    assert len(notes) == 1
    assert "--no-stdin" in notes[0]


def test_empty_input_adds_no_text() -> None:
    notes: list[str] = []
    with Path(os.devnull).open() as stream:
        assert read(stream, notes) == ""
    assert notes == []


def test_terminal_and_a_missing_input_are_not_read() -> None:
    main, other = pty.openpty()
    with os.fdopen(main), os.fdopen(other) as stream:
        assert read(stream) == ""
    assert read(None) == ""


def test_endless_input_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "MAX_INPUT_BYTES", 100_000)
    with piped(b"x" * 1_000_000) as stream, pytest.raises(InputError, match="too large"):
        read(stream)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"a\0b", b"\x80"])
def test_binary_input_is_refused(data: bytes) -> None:
    with piped(data) as stream, pytest.raises(InputError, match="standard input is not text"):
        read(stream)


def test_byte_order_mark_of_the_input_is_removed() -> None:
    with piped(b"\xef\xbb\xbfhi") as stream:
        assert read(stream) == "hi"
    with piped("hé".encode("utf-16")) as stream:
        assert read(stream) == "hé"


@pytest.mark.parametrize(
    ("before", "typed", "whole"),
    [("log\n\n", "why?", "log\n\nwhy?"), ("", "why?", "why?"), (" \n", "why?", "why?"), ("log\n", None, "log\n")],
)
def test_piped_text_is_the_context_of_the_prompt(before: str, typed: str | None, whole: str) -> None:
    assert join_prompt(before, typed) == whole
