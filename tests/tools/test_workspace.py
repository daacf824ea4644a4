"""Tools reach paths inside the workspace and no others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from qcode.protocol.tools import Refused
from qcode.tools.workspace import Access, Workspace
from tests.tools.conftest import ToolRunner


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../outside.txt", "src/../../outside.txt", "~/x", "out/x", "file-out", "/proc/self/environ",
     "/sys/kernel", "/dev/null", "/dev/zero", "", "  ", "a\0b", "kernel/environ"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["read", "write", "grep"])
def test_path_outside_the_workspace_is_refused(runner: ToolRunner, tmp_path: Path, path: str, name: str) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    (runner.root / "out").symlink_to(tmp_path)
    (runner.root / "file-out").symlink_to(tmp_path / "outside.txt")
    (runner.root / "kernel").symlink_to("/proc/self")
    arguments = {"read": {}, "write": {"content": "x"}, "grep": {"pattern": "secret"}}[name]
    outcome = runner.run(name, path=path, **arguments)
    assert outcome.is_error
    assert (tmp_path / "outside.txt").read_text() == "secret"
    assert not (tmp_path / "x").exists()


def test_common_prefix_is_not_containment(runner: ToolRunner, tmp_path: Path) -> None:
    evil = tmp_path / "repo-evil"
    evil.mkdir()
    (evil / "x").write_text("x")
    assert runner.run("read", path=f"{evil}/x").is_error
    assert runner.run("read", path="../repo-evil/x").is_error


def test_links_are_judged_by_the_target_that_the_kernel_resolves(runner: ToolRunner, tmp_path: Path) -> None:
    runner.add("src/app.py")
    (tmp_path / "far").mkdir()
    (runner.root / "dirlink").symlink_to(tmp_path / "far")
    assert runner.run("read", path="dirlink/../src/app.py").is_error
    (runner.root / "inside").symlink_to("src")
    assert not runner.run("read", path="inside/../src/app.py").is_error


def test_absolute_paths_and_links_to_the_root_are_inside(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to(real)
    workspace = Workspace(tmp_path / "link")
    for path in ("a.txt", str(real / "a.txt"), str(tmp_path / "link/a.txt")):
        assert workspace.resolve(path).label == "a.txt"


def test_added_folders_are_inside_and_shown_with_full_paths(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("x")
    workspace = Workspace(tmp_path / "root", (other,))
    assert workspace.resolve(f"{other}/a.txt", "write").label == f"{other}/a.txt"


def test_scratch_folder_is_private_read_only_for_the_model_and_removed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    scratch = workspace.scratch
    assert scratch.stat().st_mode & 0o777 == 0o700
    assert workspace.resolve(f"{scratch}/x").path == scratch / "x"
    with pytest.raises(Refused):
        workspace.resolve(f"{scratch}/x", "write")
    workspace.close()
    workspace.close()
    assert not scratch.exists()


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/pre-commit", "sub/.GIT/HEAD", ".git.", ".", "new/"])
def test_git_files_and_folders_are_not_written(runner: ToolRunner, path: str) -> None:
    (runner.root / ".git").mkdir()
    outcome = runner.run("write", path=path, content="x")
    assert outcome.is_error
    assert [str(entry.relative_to(runner.root)) for entry in runner.root.rglob("*")] == [".git"]


@dataclass
class Opinion:
    verdict: str
    reason: str = "because"
    check: str = ""


def test_path_denied_by_the_policy_is_refused_with_its_reason(tmp_path: Path) -> None:
    def judge(path: str, access: Access) -> Opinion:
        return Opinion("deny" if access == "write" or "secret" in path else "allow")

    workspace = Workspace(tmp_path, judge=judge)
    assert workspace.resolve("a.txt").label == "a.txt"
    for path, access in (("a.txt", "write"), ("secret", "read")):
        with pytest.raises(Refused, match="because"):
            workspace.resolve(path, access)  # type: ignore[arg-type]  # a plain string in a table


def test_pipe_is_refused_and_does_not_block(runner: ToolRunner) -> None:
    os.mkfifo(runner.root / "pipe")
    assert "not a file" in runner.run("read", path="pipe").content
    assert runner.run("write", path="pipe", content="x").is_error
    assert runner.run("grep", pattern="x", path="pipe").is_error


def test_folder_swapped_for_a_link_is_not_followed(runner: ToolRunner, tmp_path: Path) -> None:
    """The link appears between the check and the write."""
    runner.add("src/app.py")
    (tmp_path / "far").mkdir()
    place = runner.workspace.resolve("src/new.py", "write")
    (runner.root / "src").rename(runner.root / "moved")
    (runner.root / "src").symlink_to(tmp_path / "far")
    with pytest.raises(Refused):
        runner.workspace.write(place, b"x", None)
    assert list((tmp_path / "far").iterdir()) == []


def test_names_are_shown_on_one_line(runner: ToolRunner) -> None:
    assert "\n" not in runner.run("read", path="a\nb\x1b[2J").content
