"""Programs that check the workspace: what they see and cannot do, in each kind of sandbox that works here."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.sandbox import SessionSandbox
from qcode.safety.paths import SandboxScope
from qcode.safety.sandbox.detection import find_sandbox
from tests.safety.sandbox.running import Box, Done, run_launch


def read(box: Box, command: str) -> Done:
    cache = box.scratch / "cache"
    cache.mkdir(exist_ok=True)
    launch = box.session.launch_reader(["/bin/bash", "--noprofile", "--norc", "-c", command], cache)
    return run_launch(launch, box.work, box.environment)


@pytest.mark.parametrize("command", ["echo x > file.txt", "echo x > new", "rm file.txt", "echo x > .git/config"])
def test_reader_cannot_change_the_workspace(box: Box, command: str) -> None:
    before = (box.work / ".git/config").read_text()
    assert read(box, command).code != 0
    assert sorted(path.name for path in box.work.iterdir()) == [".env", ".git", "file.txt", "src"]
    assert (box.work / "file.txt").read_text() == "seen\n"
    assert (box.work / ".git/config").read_text() == before


def test_reader_sees_no_secrets_and_no_network(box: Box) -> None:
    done = read(box, "cat ~/.ssh/id_ed25519 ~/.netrc; (echo > /dev/tcp/127.0.0.1/22) 2>&1; cat file.txt")
    assert "CANARY" not in done.text
    assert "seen" in done.text


def test_reader_sees_packages_in_the_home_and_writes_only_its_cache(bubble: Box) -> None:
    done = read(bubble, f"cat ~/notes.txt .env; echo kept > {bubble.scratch}/cache/x; echo x > {bubble.scratch}/y")
    assert "CANARY-notes" in done.text  # a package manager may have put it there
    assert "CANARY-env" not in done.text
    assert (bubble.scratch / "cache/x").read_text() == "kept\n"
    assert not (bubble.scratch / "y").exists()


def test_reader_sees_a_workspace_in_a_temporary_folder(tmp_path: Path) -> None:
    sandbox = find_sandbox(allows=("bubblewrap",))
    if sandbox is None:
        pytest.skip("bubblewrap does not work here")
    work, cache = tmp_path / "work", tmp_path / "scratch" / "cache"
    work.mkdir()
    cache.mkdir(parents=True)
    (work / "file.txt").write_text("seen\n")
    session = SessionSandbox("auto", SandboxScope(work, (), tmp_path / "scratch"), lambda: sandbox)
    command = f"cat file.txt; echo x > file.txt; echo kept > {cache}/x"
    launch = session.launch_reader(["/bin/bash", "--noprofile", "--norc", "-c", command], cache)
    assert run_launch(launch, work, {"PATH": "/usr/bin:/bin"}).text.startswith("seen\n")
    assert (work / "file.txt").read_text() == "seen\n"
    assert (cache / "x").read_text() == "kept\n"


def test_reader_sees_a_toolchain_of_the_search_path_in_a_temporary_folder(tmp_path: Path) -> None:
    sandbox = find_sandbox(allows=("bubblewrap",))
    if sandbox is None:
        pytest.skip("bubblewrap does not work here")
    work, cache, tools = tmp_path / "work", tmp_path / "scratch/cache", tmp_path / "go"
    for folder in (work, cache, tools / "bin", tools / "src", tmp_path / "other"):
        folder.mkdir(parents=True)
    (tools / "src/fmt.go").write_text("package fmt\n")
    (tmp_path / "other/file").write_text("CANARY")
    search_path = f"/usr/bin:/tmp:{tools}/bin:{tmp_path}/none:relative"
    scope = SandboxScope(work, (), tmp_path / "scratch", search_path=search_path)
    command = f"cat {tools}/src/fmt.go; cat {tmp_path}/other/file; echo x > {tools}/src/fmt.go"
    argv = ["/bin/bash", "--noprofile", "--norc", "-c", command]
    done = run_launch(SessionSandbox("auto", scope, lambda: sandbox).launch_reader(argv, cache), work, {})
    assert done.text.startswith("package fmt\n")
    assert "CANARY" not in done.text
    assert (tools / "src/fmt.go").read_text() == "package fmt\n"
