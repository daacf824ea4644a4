"""The output of `ls`."""

from __future__ import annotations

import pytest

from qcode.tools.files import listing
from tests.tools.conftest import Bench


@pytest.fixture
def tree(bench: Bench) -> Bench:
    bench.add(".gitignore", "*.log\n/build/\n")
    bench.add(".git/config", "x")
    bench.add("a.py", "x" * 1_234)
    bench.add("src/b.py")
    bench.add("src/deep/c.py")
    bench.add("src/x.log")
    bench.add("build/out.o")
    bench.add("x.log")
    (bench.root / "link").symlink_to("src")
    return bench


def test_folder_is_shown_as_a_tree_without_ignored_files(tree: Bench) -> None:
    outcome = tree.run("ls")
    assert outcome.content.split("\n") == [
        f"{tree.root}/",
        "  src/",
        "    deep/  (1 entry)",
        "    b.py  2",
        "  .gitignore  14",
        "  a.py  1,234",
        "  link -> src",
        "[3 ignored by git left out; all shows them]",
    ]
    assert outcome.summary == "6 entries"


def test_depth_and_ignored_files_are_arguments(tree: Bench) -> None:
    assert tree.run("ls", depth=1).content.split("\n")[1] == "  src/  (3 entries)"
    assert "      c.py  2" in tree.run("ls", depth=3).content
    everything = tree.run("ls", all=True).content
    assert "  build/  (1 entry)  [ignored]" in everything
    assert "    x.log  2  [ignored]" in everything
    assert ".git/" not in everything
    assert tree.run("ls", path="build").content == "build/\n  out.o  2"


def test_large_folder_is_bounded_by_dropping_leaves_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_ENTRIES", 5)
    for index in range(6):
        bench.add(f"deep/{index}.txt")
    bench.add("top.txt")
    lines = bench.run("ls").content.split("\n")
    assert lines[1:3] == ["  deep/", "    0.txt  2"]
    assert lines[-2:] == ["  top.txt  2", "[3 more entries; name a folder with path, or use glob]"]


def test_path_that_is_not_a_folder_is_refused_and_names_cannot_forge_lines(bench: Bench) -> None:
    bench.add("a.txt")
    assert "a.txt is not a folder" in bench.run("ls", path="a.txt").content
    assert "does not exist" in bench.run("ls", path="nowhere").content
    assert "outside the workspace" in bench.run("ls", path="..").content
    bench.add("evil\n  fake.py")
    assert "  evil\\n  fake.py  2" in bench.run("ls").content.split("\n")
    (bench.root / "empty").mkdir()
    assert bench.run("ls", path="empty").content == "empty/\n[empty is empty]"
