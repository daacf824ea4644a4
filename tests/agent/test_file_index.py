"""The file index: listed by git in a trusted repository, otherwise by walking, and refreshed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from qcode.agent.context.file_index import FileIndex
from tests.agent.context.folders import HOME_ENV, git, make_executable, make_repository, write


class Indexed:
    """An index of a folder with a controlled clock; `listed` waits for the thread."""

    def __init__(self, folder: Path, *, root: Path | None = None, is_trusted: bool = True) -> None:
        self.now = 0.0
        env = {**HOME_ENV, "HOME": str(folder.parent), "PATH": os.environ["PATH"]}
        self.index = FileIndex(folder, root or folder, env, lambda: is_trusted, clock=lambda: self.now)

    def listed(self, query: str = "") -> list[str]:
        is_over = threading.Event()

        def changed() -> None:
            if self.index.find("").is_complete:
                is_over.set()

        self.index.refresh(changed)
        assert is_over.wait(60)
        return self.paths(query)

    def paths(self, query: str = "") -> list[str]:
        return sorted(match.path for match in self.index.find(query, limit=100_000).matches)


def fill(folder: Path) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "built/out.js", "my dir/d e.txt"):
        write(folder / name, "x")
    write(folder / ".gitignore", "built/\n*.log\n")
    write(folder / "noise.log", "x")
    write(folder / "src/.gitignore", "!keep.log\n")
    write(folder / "src/keep.log", "x")


SEEN = [
    ".gitignore",
    "a.py",
    "my dir/",
    "my dir/d e.txt",
    "src/",
    "src/.gitignore",
    "src/b.py",
    "src/deep/",
    "src/deep/c.py",
    "src/keep.log",
]


@pytest.mark.parametrize("is_trusted", [True, False])
def test_ignored_files_are_not_listed(tmp_path: Path, is_trusted: bool) -> None:
    root = make_repository(tmp_path / "r")
    for path in root.iterdir():
        if path.name != ".git":
            path.unlink()
    fill(root)
    assert Indexed(root, is_trusted=is_trusted).listed() == SEEN


def test_folder_without_git_is_walked(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    fill(tmp_path / "r")
    assert Indexed(tmp_path / "r").listed() == SEEN


def test_deleted_files_are_left_out_and_submodules_are_folders(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "r")
    write(root / "gone.txt", "x")
    git(root, "add", "gone.txt")
    git(root, "commit", "-m", "more")
    (root / "gone.txt").unlink()
    inner = make_repository(root / "lib/inner")
    assert inner.exists()
    paths = Indexed(root).listed()
    assert "gone.txt" not in paths
    assert "lib/inner/" in paths
    assert not any(path.startswith("lib/inner/") and path != "lib/inner/" for path in paths)


def test_subfolder_lists_only_its_own_files(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "r")
    fill(root)
    for is_trusted in (True, False):
        paths = Indexed(root / "src", root=root, is_trusted=is_trusted).listed()
        assert paths == [".gitignore", "b.py", "deep/", "deep/c.py", "keep.log"]


def test_links_are_not_followed_and_loops_end(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    write(folder / "a.py", "x")
    write(tmp_path / "outside/secret.txt", "x")
    (folder / "loop").symlink_to(folder)
    (folder / "out").symlink_to(tmp_path / "outside")
    paths = Indexed(folder).listed()
    assert not any("secret" in path or path.startswith(("loop/", "out/")) for path in paths)


def test_names_with_control_characters_or_invalid_utf_8_are_left_out(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "r")
    for name in (b"new\nline", b"esc\x1b[31m", b"bad\xff", "ünï ✓".encode()):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("x")
    for is_trusted in (True, False):
        assert [path for path in Indexed(root, is_trusted=is_trusted).listed() if path != "a.txt"] == ["ünï ✓"]


def test_git_is_not_run_in_an_untrusted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path / "r")
    monkeypatch.setattr("subprocess.Popen", None)
    assert Indexed(root, is_trusted=False).listed() == ["a.txt"]


def test_repository_that_configures_a_program_is_walked(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "r")
    trap = make_executable(tmp_path / "trap", f"touch {tmp_path}/ran")
    git(root, "config", "filter.x.clean", str(trap))
    git(root, "config", "core.excludesFile", str(write(tmp_path / "ignored", "new.txt\n")))
    write(root / ".gitattributes", "* filter=x\n")
    write(root / "new.txt", "x")
    assert Indexed(root).listed() == [".gitattributes", "a.txt", "new.txt"]
    assert not (tmp_path / "ran").exists()


def test_index_is_refreshed_only_when_stale(tmp_path: Path) -> None:
    write(tmp_path / "r/a.py", "x")
    it = Indexed(tmp_path / "r")
    assert it.listed() == ["a.py"]
    write(tmp_path / "r/b.py", "x")
    it.now += 1.0
    it.index.refresh(lambda: pytest.fail("too early"))
    assert it.paths() == ["a.py"]
    it.now += 5.0
    assert it.listed() == ["a.py", "b.py"]


def test_index_is_empty_and_does_not_block_before_the_first_listing(tmp_path: Path) -> None:
    found = Indexed(tmp_path).index.find("a")
    assert (found.matches, found.is_complete) == ((), False)


def test_recent_paths_may_be_absolute(tmp_path: Path) -> None:
    for name in ("a.py", "z.py"):
        write(tmp_path / "r" / name, "x")
    it = Indexed(tmp_path / "r")
    it.listed()
    recent = [str(tmp_path / "r/z.py"), "/elsewhere/a.py"]
    assert [match.path for match in it.index.find("", recent).matches] == ["z.py", "a.py"]
