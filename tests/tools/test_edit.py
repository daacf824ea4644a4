"""An edit changes the lines it is about and nothing else, or nothing at all."""

from __future__ import annotations

import codecs
import os
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.text.json import Json
from qcode.tools import text_file
from tests.tools.conftest import ToolRunner

ENDINGS = {"lf": ["\n", "\n"], "crlf": ["\r\n", "\r\n"], "cr": ["\r", "\r"], "mixed": ["\r\n", "\n"]}
MARKS = {
    "utf-8": (b"", "utf-8"),
    "utf-8-mark": (codecs.BOM_UTF8, "utf-8"),
    "utf-16-le": (codecs.BOM_UTF16_LE, "utf-16-le"),
    "utf-16-be": (codecs.BOM_UTF16_BE, "utf-16-be"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("endings", "mark", "has_final", "mode", "kind"),
    list(product(ENDINGS, MARKS, [True, False], [0o644, 0o755, 0o600], ["file", "link"])),
)
def test_edit_keeps_everything_but_the_changed_line(
    runner: ToolRunner, endings: str, mark: str, has_final: bool, mode: int, kind: str
) -> None:
    first, second = ENDINGS[endings]
    last = second if has_final else ""
    prefix, encoding = MARKS[mark]
    target = runner.add("real.txt", prefix + f"één{first}two{second}three{last}".encode(encoding))
    target.chmod(mode)
    path = "real.txt"
    if kind == "link":
        (runner.root / "link.txt").symlink_to("real.txt")
        path = "link.txt"
    assert not runner.run("read", path=path).is_error
    outcome = runner.run("edit", path=path, old_text="two", new_text="2")
    assert not outcome.is_error, outcome.content
    assert target.read_bytes() == prefix + f"één{first}2{second}three{last}".encode(encoding)
    assert target.stat().st_mode & 0o7777 == mode
    assert (runner.root / path).is_symlink() == (kind == "link")
    assert sorted(entry.name for entry in runner.root.iterdir()) == sorted({"real.txt", path})
    assert outcome.summary == "+1 -1 lines"


def test_new_lines_take_the_ending_of_their_neighbors(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "a\r\nb\r\nc\nd\n")
    runner.run("edit", path="a.txt", old_text="b\n", new_text="b\nb2\n")
    runner.run("edit", path="a.txt", old_text="d\n", new_text="d1\nd2\n")
    assert target.read_bytes() == b"a\r\nb\r\nb2\r\nc\nd1\nd2\n"


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "", "x y"]), st.sampled_from(["\n", "\r\n"])), max_size=12),
    st.integers(0, 12),
    st.lists(st.sampled_from(["new", "a", ""]), max_size=4),
)
def test_lines_outside_a_change_keep_their_endings(lines: list[tuple[str, str]], at: int, new: list[str]) -> None:
    """Unique lines go in at any place of any mixture of endings."""
    numbered = [f"{index}{line}{ending}" for index, (line, ending) in enumerate(lines)]
    document = text_file.from_text("".join(numbered))
    if text_file.encode(document) != "".join(numbered).encode():
        raise AssertionError("the document is not what it was made from")
    at = min(at, len(numbered))
    plain = [line.replace("\r\n", "\n") for line in numbered]
    changed = text_file.with_text(document, "".join([*plain[:at], *(f"+{line}\n" for line in new), *plain[at:]]))
    result = text_file.encode(changed).decode()
    assert result.startswith("".join(numbered[:at]))
    assert result.endswith("".join(numbered[at:]))


@given(st.text(alphabet=st.sampled_from("a\r\n\u2028\x85é\U0001f600\ufeff"), max_size=12), st.sampled_from(list(MARKS)))
def test_document_encodes_to_its_original_bytes(raw: str, mark: str) -> None:
    prefix, encoding = MARKS[mark]
    data = prefix + raw.encode(encoding)
    assert text_file.encode(text_file.decode(data, "x")) == data


def test_unread_file_is_refused(runner: ToolRunner) -> None:
    target = runner.add("a.txt", "one\n")
    for name, arguments in (("edit", {"old_text": "one", "new_text": "1"}), ("write", {"content": "1\n"})):
        outcome = runner.run(name, path="a.txt", **arguments)
        assert outcome.is_error
        assert "read it first" in outcome.content
    assert target.read_text() == "one\n"


def test_file_that_changed_since_it_was_read_is_refused(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    target.write_text("one\nand more\n")
    outcome = runner.run("edit", path="a.txt", old_text="one", new_text="1")
    assert outcome.is_error
    assert "changed since it was read (4 bytes when it was read, 13 now)" in outcome.content
    assert target.read_text() == "one\nand more\n"
    assert runner.preview("edit", path="a.txt", old_text="one", new_text="1").refusal == outcome.content
    assert "Changes:\n--- as read\n+++ now\n@@ -1,2 +1,3 @@\n one\n+and more\n" in outcome.content
    target.write_text("eno\n")  # as many bytes as were read
    assert "changed since it was read" in runner.run("edit", path="a.txt", old_text="eno", new_text="1").content
    target.write_bytes(b"one\r\n")
    assert "Only line endings" in runner.run("edit", path="a.txt", old_text="one", new_text="1").content


def test_touched_file_with_the_same_content_is_not_stale(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    os.utime(target, (1, 1))
    assert not runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error


def test_consecutive_edits_need_no_second_read(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\ntwo\n")
    assert not runner.run("edit", path="a.txt", old_text="one", new_text="1").is_error
    assert not runner.run("edit", path="a.txt", old_text="two", new_text="2").is_error
    assert not runner.run("write", path="a.txt", content="3\n").is_error
    assert target.read_text() == "3\n"


def test_ambiguous_passage_is_refused_with_its_lines(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "x = 1\ny\nx = 1\n")
    outcome = runner.run("edit", path="a.txt", old_text="x = 1", new_text="x = 2")
    assert outcome.is_error
    assert "occurs 2 times in a.txt, at lines 1, 3" in outcome.content
    assert target.read_text() == "x = 1\ny\nx = 1\n"
    outcome = runner.run("edit", path="a.txt", old_text="x = 1", new_text="x = 2", replace_all=True)
    assert "in 2 places" in outcome.content
    assert target.read_text() == "x = 2\ny\nx = 2\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a  \nb\t\nc\n", "a\nb\n", "a\nB\n", "a  \nB\nc\n"),
        ("\tif x:\n\t\tgo()\n", "    if x:\n        go()", "    if x:\n        stop()", "\tif x:\n\t\tstop()\n"),
        ("  if x:\n    go()\n", "\tif x:\n\t\tgo()", "\tif x:\n\t\tgo()\n\t\tgo()", "  if x:\n    go()\n    go()\n"),
        ("a\r\nb \r\nc\r\n", "a\r\nb\r\n", "a\r\nB\r\n", "a\r\nB\r\nc\r\n"),
        ("a\nb  ", "b\n", "B\n", "a\nB"),
        ("\tx\n", "  x", "    y\n  x", "\t\ty\n\tx\n"),
    ],
)
def test_blank_tab_and_line_ending_differences_are_tolerated_with_a_note(
    runner: ToolRunner, before: str, old: str, new: str, after: str
) -> None:
    target = runner.have_read("a.txt", before)
    outcome = runner.run("edit", path="a.txt", old_text=old, new_text=new)
    assert not outcome.is_error, outcome.content
    assert target.read_bytes().decode() == after
    assert "Note: matched ignoring" in outcome.content


def test_tolerant_match_must_be_unique_too(runner: ToolRunner) -> None:
    runner.have_read("a.txt", "a  \nb\na\t\n")
    assert (
        "occurs 2 times in a.txt, at lines 1, 3"
        in runner.run("edit", path="a.txt", old_text="a\n", new_text="A\n").content
    )


def test_missing_passage_error_names_the_nearest_one(runner: ToolRunner) -> None:
    target = runner.have_read("a.py", "import os\n\n\ndef add(a, b):\n    return a + b\n\n\nx = 1\n")
    outcome = runner.run("edit", path="a.py", old_text="def add(a, b):\n    return a - b\n", new_text="pass\n")
    assert outcome.is_error
    assert "nearest passage is at lines 4-5" in outcome.content
    assert "-    return a - b\n+    return a + b" in outcome.content
    assert "def add" in target.read_text()
    assert "nor anything similar" in runner.run("edit", path="a.py", old_text="%%%%", new_text="").content


@pytest.mark.parametrize(("old", "new", "message"), [("", "x", "old_text is empty"), ("one", "one", "identical")])
def test_edit_without_a_change_is_refused(runner: ToolRunner, old: str, new: str, message: str) -> None:
    runner.have_read("a.txt", "one\n")
    assert message in runner.run("edit", path="a.txt", old_text=old, new_text=new).content


def test_empty_old_text_creates_a_file_and_never_overwrites_one(runner: ToolRunner) -> None:
    assert runner.run("edit", path="new/a.txt", old_text="", new_text="one\n").content == "Created new/a.txt."
    assert (runner.root / "new/a.txt").read_text() == "one\n"
    assert runner.run("edit", path="new/a.txt", old_text="", new_text="two\n").is_error
    assert (runner.root / "new/a.txt").read_text() == "one\n"


def test_edits_of_one_call_apply_in_order_and_atomically(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\ntwo\n")
    edits: list[Json] = [{"old_text": "one", "new_text": "1"}, {"old_text": "1\n", "new_text": "I\n"}]
    outcome = runner.run("multi_edit", path="a.txt", edits=edits)
    assert outcome.content == "Made 2 edits in a.txt.\n1. at line 1.\n2. at line 1."
    assert target.read_text() == "I\ntwo\n"
    outcome = runner.run("multi_edit", path="a.txt", edits=[*edits, {"old_text": "two", "new_text": "2"}])
    assert "Edit 1 of 3: old_text was not found in a.txt" in outcome.content
    outcome = runner.run("multi_edit", path="a.txt", edits=[{"old_text": "two", "new_text": "2"}, edits[0]])
    assert outcome.content.startswith("Edit 2 of 2 (applied to the text after edit 1): ")
    assert outcome.content.endswith("None of the edits was made.")
    assert target.read_text() == "I\ntwo\n"


def test_edits_may_be_a_json_string(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    assert not runner.run("multi_edit", path="a.txt", edits='[{"old_text": "one", "new_text": "1"}]').is_error
    assert target.read_text() == "1\n"
    assert "must be an array, not a string" in runner.run("multi_edit", path="a.txt", edits="one").content
    assert "at least 1" in runner.run("multi_edit", path="a.txt", edits=[]).content
    assert '"edits[0].new_text"' in runner.run("multi_edit", path="a.txt", edits=[{"old_text": "x"}]).content


def test_missing_file_is_not_edited(runner: ToolRunner) -> None:
    assert "use write to create it" in runner.run("edit", path="a.txt", old_text="a", new_text="b").content


def test_hard_links_are_refused(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    os.link(target, runner.root / "b.txt")
    outcome = runner.run("edit", path="a.txt", old_text="one", new_text="1")
    assert outcome.is_error
    assert "2 hard links" in outcome.content
    assert (runner.root / "b.txt").read_text() == "one\n"


def test_read_only_file_is_refused(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one\n")
    target.chmod(0o444)
    outcome = runner.run("edit", path="a.txt", old_text="one", new_text="1")
    assert "read-only (mode 0444)" in outcome.content
    assert target.read_text() == "one\n"


def test_preview_is_the_diff_of_the_edit(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "".join(f"{n}\n" for n in range(20)))
    arguments = {"path": "a.txt", "old_text": "7\n8\n", "new_text": "seven\n"}
    preview = runner.preview("edit", **arguments)
    before = target.read_bytes()
    assert preview.refusal == ""
    assert preview.question == "Edit a.txt?"
    outcome = runner.run("edit", **arguments)
    assert before != target.read_bytes()
    assert preview.detail == outcome.diff
    assert "--- a/a.txt\n+++ b/a.txt\n@@ -5,8 +5,7 @@\n 4\n 5\n 6\n-7\n-8\n+seven\n 9\n" in outcome.diff


def test_large_files_are_edited_in_reasonable_time(runner: ToolRunner) -> None:
    lines = [f"line {n % 50}" for n in range(40_000)]
    target = runner.have_read("a.txt", "\r\n".join(lines) + "\nlast\n")
    assert not runner.run("edit", path="a.txt", old_text="line 49\nlast", new_text="end").is_error
    assert target.read_bytes().endswith(b"line 48\r\nend\n")
    assert runner.run("edit", path="a.txt", old_text="line x\nline y\n", new_text="z").is_error


def test_file_replaced_by_a_link_before_the_write_is_not_followed(runner: ToolRunner, tmp_path: Path) -> None:
    target = runner.have_read("a.txt", "one\n")
    place = runner.workspace.resolve("a.txt", "write")
    loaded = runner.workspace.load(place)
    target.unlink()
    target.symlink_to(tmp_path / "far.txt")
    from qcode.protocol.tools import Refused

    with pytest.raises(Refused):
        runner.workspace.write(place, b"x", loaded)
    assert not (tmp_path / "far.txt").exists()


def test_missing_passage_in_one_long_line_is_reported_in_reasonable_time(runner: ToolRunner) -> None:
    runner.have_read("a.js", "ab " * 300_000)
    outcome = runner.run("edit", path="a.js", old_text="ab " * 5_000 + "c", new_text="x")
    assert outcome.is_error
    assert "Nothing was changed" in outcome.content


@pytest.mark.broad
def test_many_occurrences_are_replaced_in_reasonable_time(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "a\n" * 200_000)
    outcome = runner.run("edit", path="a.txt", old_text="a", new_text="b", replace_all=True)
    assert not outcome.is_error
    assert target.read_bytes() == b"b\n" * 200_000


def test_passage_with_any_number_of_blanks_between_words_is_found(runner: ToolRunner) -> None:
    target = runner.have_read("a.txt", "one  \t two\nx  three\tfour   y three four z\n")
    outcome = runner.run("edit", path="a.txt", old_text="three  four", new_text="five", replace_all=True)
    assert not outcome.is_error
    assert target.read_text() == "one  \t two\nx  five   y five z\n"
