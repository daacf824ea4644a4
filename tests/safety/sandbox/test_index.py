"""The index of a workspace finds secrets and protected files by name, and detects every change."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from qcode.safety import paths
from qcode.safety.probes import WorkspaceContents
from qcode.safety.sandbox import index
from qcode.safety.sandbox.index import WorkspaceIndex


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "work"
    root.mkdir()
    return root


def made(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")


def look(root: Path) -> WorkspaceContents:
    return WorkspaceIndex([str(root)]).refresh()


def below(root: Path, paths: tuple[str, ...]) -> list[str]:
    return [path.removeprefix(f"{root}/") for path in paths]


def test_secrets_are_found_by_name_in_every_folder_and_case(root: Path) -> None:
    made(root, ".env", "a/.ENV.local", "a/b/Server.KEY", "id_ed25519", "id_work", "node_modules/x/a.pem", ".envrc")
    made(root, ".env.example", "key.pub", "a/env", "readme.md", ".git/objects/ab/.env", "src/.netrc", "u/.En\u200bv")
    expected = [".env", ".envrc", "a/.ENV.local", "a/b/Server.KEY", "id_ed25519", "id_work", "node_modules/x/a.pem"]
    assert below(root, look(root).secrets) == [*expected, "src/.netrc", "u/.En\u200bv"]


def test_folder_named_like_a_secret_is_searched_and_not_a_secret(root: Path) -> None:
    made(root, "certs.key/readme.md", ".env.d/.env")
    assert below(root, look(root).secrets) == [".env.d/.env"]


def test_link_with_the_name_of_a_secret_may_lead_to_a_link_that_cannot_be_read(root: Path) -> None:
    made(root, "id_work")
    (root / ".env").symlink_to("/proc/1/root/etc/hosts")
    assert below(root, look(root).secrets) == [".env", "id_work"]


def test_hard_links_and_link_targets_of_a_secret_are_secrets(root: Path) -> None:
    made(root, ".env", "plain.txt")
    os.link(root / ".env", root / "copy")
    (root / "a").mkdir()
    (root / "a/.env").symlink_to("../plain.txt")
    contents = look(root)
    assert below(root, contents.secrets) == [".env", "a/.env", "copy", "plain.txt"]


def test_git_configuration_with_credentials_is_a_secret(root: Path) -> None:
    made(root, ".git/config")
    found = WorkspaceIndex([str(root)])
    assert found.refresh().secrets == ()
    (root / ".git/config").write_text("[remote]\nurl = https://me:token@example.com\n")
    assert below(root, found.refresh().secrets) == [".git/config"]
    (root / ".git/config").write_text("[remote]\nurl = https://example.com\n")
    assert found.refresh().secrets == ()


def test_protected_names_are_found_at_any_depth_but_not_in_dependency_folders(root: Path) -> None:
    made(
        root,
        "AGENTS.md",
        "a/b/Claude.MD",
        ".vscode/tasks.json",
        ".github/workflows/ci.yml",
        "workflows/x",
        ".env.local",
    )
    made(root, "node_modules/x/AGENTS.md", "venv/.vscode/a", "a/.mcp.json", ".env.example")
    found = below(root, look(root).control_paths)
    assert found == [".env.local", ".github/workflows", ".vscode", "AGENTS.md", "a/.mcp.json", "a/b/Claude.MD"]


def test_git_control_files_are_found_in_modules_and_worktrees(root: Path) -> None:
    made(root, ".git/config", ".git/hooks/x", ".git/info/exclude", ".git/HEAD", ".git/commondir", "sub/.git")
    made(
        root, ".git/modules/m/config", ".git/modules/m/hooks/x", ".git/worktrees/w/config.worktree", ".git/logs/config"
    )
    contents = look(root)
    expected = [
        "commondir",
        "config",
        "hooks",
        "info",
        "modules/m/config",
        "modules/m/hooks",
        "worktrees/w/config.worktree",
    ]
    assert below(root, contents.git_control_paths) == [*(f".git/{name}" for name in expected), "sub/.git"]
    assert set(contents.git_control_paths) <= set(contents.control_paths)


def test_hard_links_of_protected_files_are_found_in_dependency_folders(root: Path) -> None:
    made(root, "AGENTS.md", "node_modules/x/y")
    os.link(root / "AGENTS.md", root / "node_modules/x/z")
    found = WorkspaceIndex([str(root)])
    assert below(root, found.refresh().control_path_links) == ["node_modules/x/z"]
    os.link(root / "AGENTS.md", root / "w")
    assert below(root, found.refresh().control_path_links) == ["node_modules/x/z", "w"]


def test_every_change_is_in_the_next_index(root: Path) -> None:
    made(root, "a/b/c/file")
    found = WorkspaceIndex([str(root)])
    assert found.refresh().secrets == ()
    for number in range(30):  # without a pause, within one tick of the clock of the file system
        made(root, f"a/b/c/.env.{number}")
        assert len(found.refresh().secrets) == number + 1
    (root / "a/b").rename(root / "moved")
    assert all(path.startswith(f"{root}/moved/c/") for path in found.refresh().secrets)
    subprocess.run(["rm", "-r", str(root / "moved")], check=True)
    assert found.refresh().secrets == ()


def test_unchanged_tree_is_not_scanned_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(root, "a/.env", "b/file")
    found = WorkspaceIndex([str(root)])
    old = time.time_ns() + paths.TICK_NS
    while time.time_ns() < old:  # a folder that changed just now is scanned once more
        found.refresh()
    before = found.refresh()
    monkeypatch.setattr(os, "scandir", lambda path: pytest.fail(f"scanned {path}"))
    assert found.refresh() is before


def test_large_tree_is_checked_every_two_seconds_unless_forced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LARGE_TREE_FOLDERS", 3)
    now = [0.0]
    for number in range(5):
        (root / str(number)).mkdir()
    found = WorkspaceIndex([str(root)], lambda: now[0])
    found.refresh()
    made(root, "1/.env")
    assert found.refresh().secrets == ()
    assert len(found.refresh(is_forced=True).secrets) == 1
    made(root, "2/.env")
    now[0] += index.LARGE_TREE_REFRESH_S
    assert len(found.refresh().secrets) == 2


def test_walk_past_its_time_limit_is_marked_incomplete(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        (root / str(number)).mkdir()
    ticks = iter(range(10**9))
    found = WorkspaceIndex([str(root)], lambda: float(next(ticks)))
    monkeypatch.setattr(index, "MAX_WALK_S", 1.0)
    assert not found.refresh().is_complete
    monkeypatch.setattr(index, "MAX_WALK_S", 1_000.0)
    assert found.refresh(is_forced=True).is_complete


def test_walk_past_its_time_limit_is_continued_although_no_folder_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        made(root, f"{number}/.env")
    monkeypatch.setattr(index, "is_ctime_final", lambda info, now: True)
    ticks = iter(range(10**9))
    found = WorkspaceIndex([str(root)], lambda: float(next(ticks)))
    monkeypatch.setattr(index, "MAX_WALK_S", 1.0)
    assert len(found.refresh().secrets) < 200
    monkeypatch.setattr(index, "MAX_WALK_S", 1_000.0)
    contents = found.refresh(is_forced=True)
    assert (contents.is_complete, len(contents.secrets)) == (True, 200)


def test_links_are_not_followed_and_each_folder_is_walked_once(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    made(outside, ".env")
    (root / "out").symlink_to(outside)
    (root / "loop").symlink_to(".")
    made(root, "inner/.env")
    found = WorkspaceIndex([str(root), str(root / "inner")])
    assert below(root, found.refresh().secrets) == ["inner/.env"]


def test_secrets_of_a_folder_include_its_subfolders(root: Path) -> None:
    made(root, "a/.env", "a/b/.env", "a-b/.env", "a.key", "ab/.env")
    contents = look(root)
    assert below(root, contents.secrets_below(f"{root}/a")) == ["a/.env", "a/b/.env"]
    assert contents.secrets_below(f"{root}/a/.env") == (f"{root}/a/.env",)
    assert contents.secrets_below(f"{root}/none") == ()
    assert contents.secrets_below("/") == contents.secrets


def test_several_threads_may_index_while_the_tree_changes(root: Path) -> None:
    found = WorkspaceIndex([str(root)])
    problems: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(30):
                found.refresh()
        except BaseException as error:  # noqa: BLE001  # the test reports any exception
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(60):
        made(root, f"{number % 7}/{number}/.env")
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(found.refresh().secrets) == 60
