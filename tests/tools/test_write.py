"""A write puts a whole file in place, or leaves everything as it was."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qcode.protocol.tools import Refused
from tests.tools.conftest import ToolRunner


def test_new_file_gets_its_folders_and_the_default_mode(runner: ToolRunner) -> None:
    outcome = runner.run("write", path="deep/down/new.txt", content="one\ntwo\n")
    target = runner.root / "deep/down/new.txt"
    assert outcome.content == "Created deep/down/new.txt (2 lines)."
    assert outcome.summary == "+2 -0 lines"
    assert outcome.diff == "--- /dev/null\n+++ b/deep/down/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert target.read_bytes() == b"one\ntwo\n"
    mask = os.umask(0)
    os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert [entry.name for entry in target.parent.iterdir()] == ["new.txt"]


def test_new_file_is_written_as_given(runner: ToolRunner) -> None:
    runner.run("write", path="a.txt", content="a\r\nb")
    assert (runner.root / "a.txt").read_bytes() == b"a\r\nb"
    assert "No newline at end of file" in runner.preview("write", path="b.txt", content="a").detail


def test_new_file_can_be_edited_at_once(runner: ToolRunner) -> None:
    runner.run("write", path="a.txt", content="one\n")
    assert not runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "a\nB\n", b"a\r\nB\r\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nC\n", b"a\r\nb\nC\r\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        ("\ufeffa\n".encode("utf-16-le"), "é\n", "\ufeffé\n".encode("utf-16-le")),
        (b"a\nb\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"a\nb\n", "a\nb", b"a\nb"),
        (b"", "a\n", b"a\n"),
        (b"a\n", "", b""),
    ],
)
def test_encoding_and_line_endings_of_an_existing_file_are_kept(
    runner: ToolRunner, before: bytes, content: str, after: bytes
) -> None:
    target = runner.have_read("a.txt", before)
    outcome = runner.run("write", path="a.txt", content=content)
    assert not outcome.is_error, outcome.content
    assert target.read_bytes() == after
    assert outcome.diff


def test_change_of_only_line_endings_is_shown(runner: ToolRunner) -> None:
    runner.have_read("a.txt", "a\n")
    assert "-a\n+a\u240d\n" in runner.preview("write", path="a.txt", content="a\r\n").detail


def test_same_content_is_not_a_change(runner: ToolRunner) -> None:
    runner.have_read("a.txt", "a\n")
    assert "already has exactly this content" in runner.run("write", path="a.txt", content="a\n").content


def test_binary_file_is_not_overwritten(runner: ToolRunner) -> None:
    target = runner.add("a.bin", b"\0\1")
    assert runner.run("write", path="a.bin", content="x").is_error
    assert target.read_bytes() == b"\0\1"


def test_folder_is_not_overwritten(runner: ToolRunner) -> None:
    (runner.root / "folder").mkdir()
    assert "is a folder" in runner.run("write", path="folder", content="x").content
    runner.add("file")
    assert "not a folder" in runner.run("write", path="file/x", content="x").content


def test_file_that_appears_before_the_write_is_not_replaced(runner: ToolRunner) -> None:
    place = runner.workspace.resolve("a.txt", "write")
    runner.add("a.txt", "somebody else's\n")
    with pytest.raises(Refused, match="created by another program"):
        runner.workspace.write(place, b"mine", None)
    assert (runner.root / "a.txt").read_text() == "somebody else's\n"
    assert [entry.name for entry in runner.root.iterdir()] == ["a.txt"]


def test_new_file_is_written_without_hard_link_support(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **keywords: object) -> None:
        raise OSError(errno.EPERM, "no")

    monkeypatch.setattr(os, "link", fail)
    assert not runner.run("write", path="a.txt", content="x").is_error
    assert [entry.name for entry in runner.root.iterdir()] == ["a.txt"]
    place = runner.workspace.resolve("a.txt", "write")
    with pytest.raises(Refused, match="created by another program"):
        runner.workspace.write(place, b"mine", None)


def test_file_changed_before_the_write_is_not_replaced(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    place = runner.workspace.resolve("a.txt", "write")
    loaded = runner.workspace.load(place)
    target.write_text("two\n")
    with pytest.raises(Refused, match="changed by another program"):
        runner.workspace.write(place, b"mine", loaded)
    target.unlink()
    with pytest.raises(Refused, match="deleted by another program"):
        runner.workspace.write(place, b"mine", loaded)
    assert list(runner.root.iterdir()) == []


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_failing_disk_leaves_the_old_file_and_no_temporary_file(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    target = runner.have_read("a.txt", "one\n")

    def fail(*arguments: object, **keywords: object) -> None:
        raise OSError(code, "no")

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        outcome = runner.run("write", path="a.txt", content="two\n")
    assert outcome.is_error
    assert outcome.content.startswith("a.txt ")
    assert outcome.content.endswith("Nothing was changed")
    assert target.read_text() == "one\n"
    assert [entry.name for entry in runner.root.iterdir()] == ["a.txt"]


_STOPPING = """
import os, sys, time
from pathlib import Path
from qcode.tools.workspace import Workspace

def stop(*arguments, **keywords):
    print("here", flush=True)
    time.sleep(60)

workspace = Workspace(Path(sys.argv[1]))
place = workspace.resolve("a.txt", "write")
loaded = workspace.load(place)
setattr(os, sys.argv[2], stop)
workspace.write(place, b"new\\n" * 100_000, loaded)
"""


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_killed_write_keeps_the_old_file(runner: ToolRunner, call: str) -> None:
    target = runner.add("a.txt", b"old\n" * 100_000)
    argv = [sys.executable, "-c", _STOPPING, str(runner.root), call]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    assert target.read_bytes() == b"old\n" * 100_000
