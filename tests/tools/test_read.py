"""File content as the model sees it."""

from __future__ import annotations

import codecs

import pytest

from qcode.tools.files import read
from tests.tools.conftest import ToolRunner


def test_lines_are_numbered(runner: ToolRunner) -> None:
    runner.add("a.txt", "one\n\n  three\n")
    outcome = runner.run("read", path="a.txt")
    assert outcome.content == "     1\tone\n     2\t\n     3\t  three"
    assert (outcome.summary, outcome.is_error) == ("3 lines", False)


def test_partial_read_states_its_range_and_the_next_offset(runner: ToolRunner) -> None:
    runner.add("a.txt", "".join(f"{n}\n" for n in range(1, 11)))
    assert runner.run("read", path="a.txt", offset=4, limit=2).content == (
        "     4\t4\n     5\t5\n[lines 4-5 of 10; continue with offset 6]"
    )
    assert runner.run("read", path="a.txt", offset=10).content == "    10\t10\n[lines 10-10 of 10]"
    assert "has 10 lines" in runner.run("read", path="a.txt", offset=11).content


def test_all_parts_together_are_the_file(runner: ToolRunner) -> None:
    lines = [f"line {n} {'x' * (n % 97)}" for n in range(1, 6_001)]
    runner.add("a.txt", "\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        content = runner.run("read", path="a.txt", offset=len(seen) + 1).content
        seen += [line.partition("\t")[2] for line in content.split("\n") if not line.startswith("[")]
    assert seen == lines


def test_long_lines_and_large_files_are_bounded(runner: ToolRunner) -> None:
    runner.add("long.txt", "x" * 5_000 + "\nend\n")
    content = runner.run("read", path="long.txt").content
    assert "[3,000 more characters on this line]\n     2\tend" in content
    runner.add("large.txt", ("y" * 1_900 + "\n") * 1_000)
    content = runner.run("read", path="large.txt").content
    assert len(content.encode()) < read.MAX_BYTES + 200
    assert "continue with offset" in content
    runner.add("many.txt", "z\n" * 3_000)
    assert runner.run("read", path="many.txt").content.endswith("[lines 1-2000 of 3000; continue with offset 2001]")


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + "é\r\nb\r\n".encode(),
        codecs.BOM_UTF16_LE + "é\r\nb\r\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "é\nb".encode("utf-16-be"),
        "é\rb\r".encode(),
    ],
)
def test_encodings_and_line_endings_are_not_shown(runner: ToolRunner, data: bytes) -> None:
    runner.add("a.txt", data)
    assert runner.run("read", path="a.txt").content == "     1\té\n     2\tb"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x7fELF\0\1", "binary file"),
        (b"\xe9\x01\x02", "neither UTF-8 nor UTF-16"),
        (codecs.BOM_UTF32_LE + "ab".encode("utf-32-le"), "UTF-32"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8x", "neither UTF-8 nor UTF-16"),
    ],
)
def test_binary_file_is_refused_with_a_reason(runner: ToolRunner, data: bytes, message: str) -> None:
    runner.add("a.bin", data)
    outcome = runner.run("read", path="a.bin")
    assert outcome.is_error
    assert message in outcome.content


def test_missing_file_is_refused_with_a_hint(runner: ToolRunner) -> None:
    runner.add("src/config.py")
    assert "did you mean src/config.py?" in runner.run("read", path="src/confg.py").content
    assert "did you mean src/config.py?" in runner.run("read", path="src/config.pyi").content
    # Only the suffix is alike.
    assert "did you mean" not in runner.run("read", path="src/fog.py").content
    assert "is a folder; list it with ls" in runner.run("read", path="src").content
    assert runner.run("read", path="src/config.py/x").is_error
    assert runner.run("read", path="x" * 300).is_error


def test_empty_file_is_reported_as_empty(runner: ToolRunner) -> None:
    runner.add("a.txt", "")
    assert runner.run("read", path="a.txt").content == "[a.txt is empty]"


def test_link_loop_is_refused(runner: ToolRunner) -> None:
    (runner.root / "a").symlink_to("b")
    (runner.root / "b").symlink_to("a")
    assert runner.run("read", path="a").is_error


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        ("café\n".encode("latin-1"), "     1\tcafé", "not UTF-8 and is shown as Latin-1"),
        ("one\r\ntwo\r\n".encode("utf-16-le"), "     1\tone\n     2\ttwo", "UTF-16 without a byte order mark"),
        ("one two\n".encode("utf-16-be"), "     1\tone two", "UTF-16 without a byte order mark"),
    ],
)
def test_text_in_another_encoding_is_shown_with_a_note_and_not_edited(
    runner: ToolRunner, data: bytes, text: str, note: str
) -> None:
    target = runner.add("a.txt", data)
    content = runner.run("read", path="a.txt").content
    assert content.startswith(text + "\n[")
    assert note in content
    assert runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error
    assert runner.run("write", path="a.txt", content="x").is_error
    assert target.read_bytes() == data


def test_file_too_large_to_hold_is_read_in_parts(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.tools.files.read.MAX_FILE_BYTES", 1_000)
    monkeypatch.setattr("qcode.tools.disk.MAX_FILE_BYTES", 1_000)
    runner.add("big.log", "".join(f"line {n}\r\n" for n in range(1, 1_001)))
    content = runner.run("read", path="big.log", offset=500, limit=2).content
    assert content.startswith("   500\tline 500\n   501\tline 501\n[lines 500-501 of a file of 9,893 bytes")
    assert "continue with offset 502" in content
    assert "continue with" not in runner.run("read", path="big.log", offset=1_000).content
    assert "fewer than 1,001 lines" in runner.run("read", path="big.log", offset=1_001).content
    assert runner.run("edit", path="big.log", old_text="line 1\n", new_text="x").is_error
    runner.add("big.bin", b"\0" * 2_000)
    assert "binary file (2,000 bytes)" in runner.run("read", path="big.bin").content
