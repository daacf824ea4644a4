"""Unsaved texts of an editor: which text counts, and how one is changed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from qcode.protocol.tools import ToolOutcome
from qcode.text.json import JsonObject
from qcode.tools.buffers import Buffers
from qcode.tools.editing.edit import Edit, Write
from qcode.tools.files.read import Read
from qcode.tools.tool import Tool, ToolRunContext
from qcode.tools.workspace import Workspace


class Buffer:
    """An editor with one text for every file, or none; `write` saves it unless `is_stubborn`."""

    def __init__(self, text: str | None = None, *, is_stubborn: bool = False) -> None:
        self.text = text
        self.is_stubborn = is_stubborn
        self.written: list[str] = []

    def text_of(self, path: Path) -> str | None:
        return self.text

    def write(self, path: Path, text: str) -> bool:
        if self.is_stubborn:
            return False
        self.written.append(text)
        self.text = text
        path.write_text(text, newline="")
        return True


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    return path


def workspace(file: Path, buffer: Buffer) -> Workspace:
    found = Workspace(file.parent)
    found.buffers = Buffers(buffer)
    return found


def run(tool: Tool, space: Workspace, **arguments: object) -> ToolOutcome:
    given: JsonObject = {"path": "a.txt", **arguments}  # type: ignore[dict-item]  # texts of the test
    return asyncio.run(tool.run(given, space, ToolRunContext(lambda _: None)))


def read(space: Workspace) -> str:
    return run(Read(), space).content


def test_unsaved_text_is_read_and_named(file: Path) -> None:
    content = read(workspace(file, Buffer("one\ntwo\nthree\n")))
    assert "three" in content
    assert "unsaved changes" in content


def test_unsaved_notebook_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    file.write_text('{"nbformat": 4, "cells": []}\n')
    text = '{"nbformat": 4, "cells": [{"cell_type": "raw", "source": "three"}]}\n'
    outcome = run(Read(), workspace(file, Buffer(text)), path=file.name)
    assert outcome.content == "[cell 1: raw]\nthree\n[these are unsaved changes in the user's editor]"


@pytest.mark.parametrize("text", ["one\ntwo\n", "one\r\ntwo\r\n", "one\rtwo\r", None, ""])
def test_file_is_read_from_disk_if_the_buffer_is_saved_or_does_not_answer(text: str | None, file: Path) -> None:
    content = read(workspace(file, Buffer(text)))
    assert "two" in content
    assert "unsaved" not in content


def test_edit_of_an_unsaved_text_is_written_by_the_editor(file: Path) -> None:
    buffer = Buffer("one\ntwo\nthree\n")
    space = workspace(file, buffer)
    read(space)
    outcome = run(Edit(), space, old_text="two", new_text="2")
    assert not outcome.is_error
    assert buffer.written == ["one\n2\nthree\n"]
    assert file.read_text() == "one\n2\nthree\n"
    assert not run(Edit(), space, old_text="three", new_text="3").is_error
    assert file.read_text() == "one\n2\n3\n"


def test_unsaved_text_that_changes_again_must_be_read_again(file: Path) -> None:
    buffer = Buffer("one\ntwo\nthree\n")
    space = workspace(file, buffer)
    read(space)
    buffer.text = "one\ntwo\nfour\n"
    outcome = run(Edit(), space, old_text="two", new_text="2")
    assert outcome.is_error
    assert "read it again" in outcome.content
    assert buffer.written == []


def test_editor_that_does_not_save_changes_nothing(file: Path) -> None:
    space = workspace(file, Buffer("one\ntwo\nthree\n", is_stubborn=True))
    read(space)
    outcome = run(Write(), space, content="new\n")
    assert outcome.is_error
    assert "unsaved changes" in outcome.content
    assert file.read_text() == "one\ntwo\n"


def test_buffer_that_missed_a_change_of_the_file_is_ignored(file: Path) -> None:
    buffer = Buffer("one\ntwo\n")
    space = workspace(file, buffer)
    read(space)
    file.write_text("changed by a command\n")
    for _ in range(3):
        assert "changed by a command" in read(space)
    buffer.text = "changed by a command\nand by the user\n"
    assert "and by the user" in read(space)


def test_buffer_that_missed_a_change_of_qcode_is_ignored(file: Path) -> None:
    buffer = Buffer("one\ntwo\n")
    space = workspace(file, buffer)
    read(space)
    assert not run(Edit(), space, old_text="two", new_text="2").is_error
    assert not run(Edit(), space, old_text="one", new_text="1").is_error
    assert file.read_text() == "1\n2\n"
    assert buffer.written == []


def test_buffer_text_is_outdated_if_the_file_changed_meanwhile(file: Path) -> None:
    buffer = Buffer("one\ntwo\nunsaved\n")
    space = workspace(file, buffer)
    assert "unsaved" in read(space)
    file.write_text("changed by a command\n")
    for _ in range(3):
        assert "changed by a command" in read(space)


def test_encoding_and_endings_of_the_file_are_kept(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    buffer = Buffer("one\ntwo\nthree\n")
    space = workspace(file, buffer)
    loaded = space.load(space.resolve("a.txt"))
    assert loaded.data == b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    assert loaded.is_unsaved


def test_binary_and_large_files_are_read_from_disk(file: Path) -> None:
    space = workspace(file, Buffer("text"))
    file.write_bytes(b"\0\1\2")
    assert not space.load(space.resolve("a.txt")).is_unsaved
    file.write_bytes(os.urandom(16) + b"x" * 5_000_000)
    assert not space.load(space.resolve("a.txt")).is_unsaved
