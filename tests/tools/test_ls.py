"""The output of `ls`."""

from __future__ import annotations

import pytest

from qcode.tools.files import listing
from tests.tools.conftest import ToolRunner


@pytest.fixture
def tree(runner: ToolRunner) -> ToolRunner:
    runner.add(".gitignore", "*.log\n/build/\n")
    runner.add(".git/config", "x")
    runner.add("a.py", "x" * 1_234)
    runner.add("src/b.py")
    runner.add("src/deep/c.py")
    runner.add("src/x.log")
    runner.add("build/out.o")
    runner.add("x.log")
    (runner.root / "link").symlink_to("src")
    return runner


def test_folder_is_shown_as_a_tree_without_ignored_files(tree: ToolRunner) -> None:
    outcome = tree.run("ls")
    assert outcome.content.split("\n") == [
        f"{tree.root}/",
        "  src/",
        "    deep/  (1 entry)",
        "    b.py  2",
        "  .gitignore  14",
        "  a.py  1,234",
        "  link -> src",
        "[3 ignored by git; set all to list them]",
    ]
    assert outcome.summary == "6 entries"


def test_depth_and_ignored_files_are_arguments(tree: ToolRunner) -> None:
    assert tree.run("ls", depth=1).content.split("\n")[1] == "  src/  (3 entries)"
    assert "      c.py  2" in tree.run("ls", depth=3).content
    everything = tree.run("ls", all=True).content
    assert "  build/  (1 entry)  [ignored]" in everything
    assert "    x.log  2  [ignored]" in everything
    assert ".git/" not in everything
    assert tree.run("ls", path="build").content == "build/\n  out.o  2"


def test_large_folder_is_bounded_by_dropping_leaves_first(runner: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_ENTRIES", 5)
    for index in range(6):
        runner.add(f"deep/{index}.txt")
    runner.add("top.txt")
    lines = runner.run("ls").content.split("\n")
    assert lines[1:3] == ["  deep/", "    0.txt  2"]
    assert lines[-2:] == ["  top.txt  2", "[3 more entries; name a folder with path, or use glob]"]


def test_path_that_is_not_a_folder_is_refused_and_names_cannot_forge_lines(runner: ToolRunner) -> None:
    runner.add("a.txt")
    assert "a.txt is not a folder" in runner.run("ls", path="a.txt").content
    assert "does not exist" in runner.run("ls", path="nowhere").content
    assert "outside the workspace" in runner.run("ls", path="..").content
    runner.add("evil\n  fake.py")
    assert "  evil\\n  fake.py  2" in runner.run("ls").content.split("\n")
    (runner.root / "empty").mkdir()
    assert runner.run("ls", path="empty").content == "empty/\n[empty is empty]"
