"""A patch is applied completely, each hunk at its own lines, or not at all."""

from __future__ import annotations

import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.text.patch import AddedFile, DeletedFile, PatchError, UpdatedFile, parse_patch, patch_paths
from qcode.tools import disk
from tests.tools.conftest import ToolRunner

SHAPES = (
    "class Square:\n    def area(self):\n        return 0\n\n\nclass Circle:\n    def area(self):\n        return 0\n"
)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def update(path: str, *lines: str) -> str:
    return patch(f"*** Update File: {path}", *lines)


def test_patch_adds_changes_moves_and_deletes_files(runner: ToolRunner) -> None:
    changed = runner.have_read("src/a.py", "one\ntwo\nthree\n")
    moved = runner.have_read("old.sh", "#!/bin/sh\necho hi\n")
    moved.chmod(0o755)
    gone = runner.add("gone.txt", "bye\n")
    text = patch(
        "*** Add File: new/deep/b.py",
        "+import os",
        "+",
        "+x = 1",
        "*** Update File: src/a.py",
        "@@",
        " one",
        "-two",
        "+2",
        " three",
        "*** Update File: old.sh",
        "*** Move to: bin/new.sh",
        "@@",
        "-echo hi",
        "+echo ho",
        "*** Delete File: gone.txt",
    )
    preview = runner.preview("apply_patch", input=text)
    assert preview.question == "Edit 5 files?"
    for part in ("+++ b/new/deep/b.py", "-two\n+2\n", "rename from old.sh\nrename to bin/new.sh", "-bye\n"):
        assert part in preview.detail
    assert changed.read_text() == "one\ntwo\nthree\n"
    outcome = runner.run("apply_patch", input=text)
    assert outcome.content == "A new/deep/b.py\nM src/a.py\nR old.sh -> bin/new.sh\nD gone.txt"
    assert outcome.summary == "+5 -3 lines"
    assert outcome.diff == preview.detail
    assert (runner.root / "new/deep/b.py").read_text() == "import os\n\nx = 1\n"
    assert changed.read_text() == "one\n2\nthree\n"
    target = runner.root / "bin/new.sh"
    assert target.read_text() == "#!/bin/sh\necho ho\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert not moved.exists()
    assert not gone.exists()


def test_patched_file_can_be_patched_again(runner: ToolRunner) -> None:
    runner.run("apply_patch", input=patch("*** Add File: a.txt", "+one"))
    assert not runner.run("apply_patch", input=update("a.txt", "-one", "+two")).is_error
    runner.run("apply_patch", input=patch("*** Update File: a.txt", "*** Move to: b.txt"))
    assert not runner.run("apply_patch", input=update("b.txt", "-two", "+three")).is_error
    assert (runner.root / "b.txt").read_text() == "three\n"


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        (SHAPES, ["@@ class Circle:", "     def area(self):", "-        return 0", "+        return 3"],
         SHAPES.removesuffix("0\n") + "3\n"),
        (SHAPES, ["@@ class Circle:", "@@     def area(self):", "-        return 0", "+        return 3"],
         SHAPES.removesuffix("0\n") + "3\n"),
        (SHAPES, ["@@ class Square:", "     def area(self):", "-        return 0", "+        return 1",
                  "@@ class Circle:", "     def area(self):", "-        return 0", "+        return 2"],
         SHAPES.replace("0", "1", 1).replace("0", "2")),
        (SHAPES, ["@@ class Circle:", "+    sides = 0"], SHAPES.replace("Circle:\n", "Circle:\n    sides = 0\n")),
        ("a\nb\n", ["+c"], "a\nb\nc\n"),
        ("a\nb", ["+c"], "a\nb\nc"),
        ("", ["+c"], "c\n"),
        ("a\nb\na\nb\n", ["-b", "+c", "*** End of File"], "a\nb\na\nc\n"),
        ("a\nb\nc\n", ["-b"], "a\nc\n"),
        ("a\nb\nc\n", [" a", "-b", "-c"], "a\n"),
        ("a\nb\nc\n", [" b", "+", "+x"], "a\nb\n\nx\nc\n"),
        ("a\nb\n", ["-b", "+"], "a\n\n"),
        ("a\r\nb\r\nc\r\n", [" a", "-b", "+B", " c"], "a\r\nB\r\nc\r\n"),
        ("a  \nb\nc\n", [" a", "-b", "+B", " c"], "a  \nB\nc\n"),
        ("\tif x:\n\t\tgo()\n", ["     if x:", "-        go()", "+        stop()"], "\tif x:\n\t\tstop()\n"),
        ("say(“a”)\nb\n", [' say("a")', "-b", "+c"], "say(“a”)\nc\n"),
        ("a\n\nb\nc\n", [" a", "", " b", "-c", "+d"], "a\n\nb\nd\n"),
        ("a\nb\nc\nd\n", ["@@ -1,2 +1,2 @@", " a", "-b", "+B", "@@ -3,2 +3,2 @@ d", "-d", "+D"], "a\nB\nc\nD\n"),
        ("a\nb\nc\nd\n", ["@@", "-d", "+D", "@@", "-a", "+A"], "A\nb\nc\nD\n"),
        ("def f():\n    x\ndef g():\n    x\n", ["@@ def g", "-    x", "+    y"], "def f():\n    x\ndef g():\n    y\n"),
        ("xfoo\nfoo\n", ["-foo", "+bar"], "xfoo\nbar\n"),
        ("a\nb\n", [" a", "-b", "+c", ""], "a\nc\n"),
    ],
)  # fmt: skip
def test_hunk_is_applied_at_its_lines(runner: ToolRunner, before: str, lines: list[str], after: str) -> None:
    target = runner.have_read("a.txt", before)
    outcome = runner.run("apply_patch", input=update("a.txt", *lines))
    assert not outcome.is_error, outcome.content
    assert target.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["-        return 0", "+        return 1"], "2 passages, at lines 3, 8"),
        (["-        return 7 * 6", "+x"], "The hunk for a.txt: the hunk was not found in a.txt"),
        (["@@ class Square:", "-        return 0", "+        return 9", "@@", "-nowhere at all", "+x"], "Hunk 2 of 2"),
        (["@@ class Triangle:", "+    sides = 3"], "after @@"),
    ],
)
def test_hunk_without_exactly_one_match_is_refused(runner: ToolRunner, lines: list[str], message: str) -> None:
    target = runner.have_read("a.txt", SHAPES)
    outcome = runner.run("apply_patch", input=update("a.txt", *lines))
    assert outcome.is_error
    assert message in outcome.content
    assert target.read_text() == SHAPES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'must begin with the line "*** Begin Patch"'),
        ("*** Begin Patch\n*** Update File: a.txt\n-one\n+two", "may have been cut"),
        (patch(), "names no file"),
        (patch("*** Update File: a.txt"), "has no hunk"),
        (update("a.txt", "@@", " one"), "no line that begins with + or -"),
        (update("a.txt", "@@", "", "@@ x", " one", "@@ y", "-a", "+b"), "no line that begins with + or -"),
        (update("a.txt", "one"), "patch line 3: a line of a hunk must begin with"),
        (patch("*** Add File: b.txt", "one"), "patch line 3: every line of the new file b.txt must begin with +"),
        (patch("*** Change File: a.txt"), "patch line 2: expected '*** Add File: '"),
        (patch("*** Delete File: a.txt", "-one"), "the section '*** Delete File: a.txt' must have no lines"),
        (update("b.txt", "-one", "+two"), "b.txt does not exist"),
        (patch("*** Add File: a.txt", "+one"), "a.txt already exists"),
        (patch("*** Update File: a.txt", "*** Move to: c.txt"), "c.txt already exists"),
        (patch("*** Delete File: a.txt", "*** Update File: a.txt", "-one", "+two"), "two sections for a.txt"),
        (update("c.txt", "-one", "+two"), "c.txt has not been read yet"),
        (update("../x", "-one", "+two"), "outside the workspace"),
    ],
)
def test_patch_that_cannot_be_applied_changes_no_file(runner: ToolRunner, text: str, message: str) -> None:
    runner.have_read("a.txt", "one\n")
    runner.add("c.txt", "one\n")
    whole = (
        text.replace("*** Begin Patch\n", "*** Begin Patch\n*** Add File: first.txt\n+x\n") if "File:" in text else text
    )
    for item in (text, whole):
        outcome = runner.run("apply_patch", input=item)
        assert outcome.is_error
        if item == text:
            assert message in outcome.content
            assert runner.preview("apply_patch", input=item).refusal == outcome.content
    assert sorted(path.name for path in runner.root.iterdir()) == ["a.txt", "c.txt"]
    assert (runner.root / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    "wrapped",
    ["{}", "```\n{}\n```", "\n\n{}\n", "apply_patch <<'EOF'\n{}\nEOF", "<<EOF\n{}\nEOF\n", "```diff\n{}\n```\n"],
)
def test_text_around_a_patch_is_ignored(wrapped: str) -> None:
    text = wrapped.format(patch("*** Delete File: a.txt", "*** Add File: b c.txt", "+x"))
    assert parse_patch(text) == (DeletedFile("a.txt"), AddedFile("b c.txt", "x\n"))
    assert parse_patch(text.replace("\n", "\r\n")) == parse_patch(text)
    assert patch_paths(text) == ("a.txt", "b c.txt")


def test_every_path_of_a_patch_is_named_including_move_targets() -> None:
    text = patch("*** Update File: a", "*** Move to: .git/hooks/post-commit", "*** Update File: b", "-x", "+y")
    assert patch_paths(text) == ("a", ".git/hooks/post-commit", "b")


LINES = [
    "*** Add File: a", "*** Update File: b", "*** Move to: c", "*** Delete File: d", "@@", "@@ x", "+x", "-x", " x", "",
    "*** End of File", "?", "*** End Patch",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=9))
def test_any_text_is_a_patch_or_a_patch_error(lines: list[str]) -> None:
    try:
        sections = parse_patch(patch(*lines))
    except PatchError:
        return
    for section in sections:
        assert not isinstance(section, UpdatedFile) or section.hunks or section.moved_to


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_patch_that_fails_midway_is_rolled_back(
    runner: ToolRunner, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    runner.have_read("a.txt", "one\n").chmod(0o600)
    runner.have_read("b.txt", "two\n")
    count = 0
    place = disk.replace_file

    def fail(folder: int, name: str, *arguments: object, **keywords: object) -> object:
        nonlocal count
        count += 1
        if count == failing:
            raise OSError(28, "no space")
        return place(folder, name, *arguments, **keywords)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(disk, "replace_file", fail)
    text = patch(
        "*** Update File: a.txt", "-one", "+1", "*** Update File: b.txt", "*** Move to: x/c.txt", "@@", "-two", "+2",
        "*** Add File: y/d.txt", "+d",
    )  # fmt: skip
    outcome = runner.run("apply_patch", input=text)
    assert "the disk is full. Nothing was changed" in outcome.content
    assert sorted(path.name for path in runner.root.iterdir() if not path.is_dir()) == ["a.txt", "b.txt"]
    assert (runner.root / "a.txt").read_text() == "one\n"
    assert (runner.root / "b.txt").read_text() == "two\n"
    assert stat.S_IMODE((runner.root / "a.txt").stat().st_mode) == 0o600
    assert not runner.run("apply_patch", input=text).is_error


def test_concurrent_change_stops_the_whole_patch(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.have_read("a.txt", "one\n")
    other = runner.have_read("b.txt", "two\n")
    remove = disk.remove_file

    def remove_after_other_write(folder: int, name: str, old: disk.LoadedFile, shown: str) -> None:
        other.write_text("theirs\n")
        remove(folder, name, old, shown)

    monkeypatch.setattr(disk, "remove_file", remove_after_other_write)
    text = patch("*** Update File: a.txt", "-one", "+1", "*** Delete File: b.txt")
    assert "changed by another program" in runner.run("apply_patch", input=text).content
    assert (runner.root / "a.txt").read_text() == "one\n"
    assert other.read_text() == "theirs\n"


def test_deleted_file_need_not_be_read_but_must_be_unchanged_if_it_was(runner: ToolRunner) -> None:
    runner.add("a.bin", b"\0\1")
    assert "[a binary file of 2 bytes]" in runner.preview("apply_patch", input=patch("*** Delete File: a.bin")).detail
    assert runner.run("apply_patch", input=patch("*** Delete File: a.bin")).content == "D a.bin"
    target = runner.have_read("b.txt", "one\n")
    target.write_text("theirs\n")
    assert "changed since it was read" in runner.run("apply_patch", input=patch("*** Delete File: b.txt")).content
    assert target.exists()


def test_link_is_neither_deleted_nor_moved_in_place_of_its_target(runner: ToolRunner) -> None:
    target = runner.have_read("real.txt", "x\n")
    (runner.root / "link.txt").symlink_to("real.txt")
    for text in (patch("*** Delete File: link.txt"), patch("*** Update File: link.txt", "*** Move to: b.txt")):
        assert "link.txt is a link to real.txt" in runner.run("apply_patch", input=text).content
    assert target.read_text() == "x\n"
    assert not runner.run("apply_patch", input=update("link.txt", "-x", "+y")).is_error
    assert target.read_text() == "y\n"
    assert (runner.root / "link.txt").is_symlink()
