"""Daily commands give the same output in the read-only sandbox as outside, in a real repository with real files."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.agent.sandbox import SessionSandbox
from qcode.agent.toolbox import Toolbox
from qcode.config.settings import Tools
from qcode.protocol.tools import ToolOutcome
from qcode.safety.paths import SandboxScope
from qcode.safety.sandbox.detection import Kind, find_sandbox
from qcode.safety.verdict import Level
from qcode.tools.workspace import Scratch

PATH = "/usr/local/bin:/usr/bin:/bin"
FILES = {
    "a.txt": "hello\n", "src/app.py": "x = 1  # TODO\n", "src/deep/b.py": "y = 2\n", "d.json": '{"k": 1}\n',
    "naïve file.txt": "ü\n", ".gitignore": ".env\n",
}  # fmt: skip
COMMANDS = (
    "git status", "git diff", "git log --oneline --stat", "git show --stat HEAD", "git branch -a",
    "git blame src/app.py", "git ls-files", "git grep TODO", "git rev-parse --show-toplevel", "ls -l src",
    "grep -rn TODO .", "rg -n TODO", "find . -name '*.py'", "cat a.txt 'naïve file.txt'",
    "sort a.txt | uniq -c", "which git", "jq .k d.json", "python3 --version", "stat -c '%n %U %s' a.txt",
    "du -s src", "pwd", 'for f in *.txt; do wc -l "$f"; done',
)  # fmt: skip
Run = Callable[..., ToolOutcome]


def make_workspace(root: Path) -> None:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    env = {"PATH": PATH, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for words in ("init -qb main", "add .", "-c user.name=n -c user.email=e commit -qm one"):
        subprocess.run(["git", *words.split()], cwd=root, env=env, check=True)
    (root / "a.txt").write_text("hello\nmore\n")
    (root / ".env").write_text("CANARY\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with settings that git and jq read if they may."""
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".gitconfig").write_text("[alias]\n\tst = status\n")
    (home / ".config/git/ignore").write_text("*.orig\n")
    (home / ".jq").write_text("def one: 1;\n")
    return home


@pytest.fixture(params=["bubblewrap", "landlock"])
def run(request: pytest.FixtureRequest, home: Path) -> Run:
    kind: Kind = request.param
    if find_sandbox(allows=(kind,)) is None:
        pytest.skip(f"{kind} does not work here")

    def run(root: Path, command: str, level: Level | None = "read-only", **more: object) -> ToolOutcome:
        scratch = Scratch()
        scope = SandboxScope(root, scratch=scratch.path, home=home, search_path=PATH)
        sandbox = SessionSandbox("auto", scope, lambda: find_sandbox(allows=(kind,)))
        env = {"PATH": PATH, "HOME": str(home), "LANG": "C.UTF-8"}
        toolbox = Toolbox(root, (), Tools(), env, scratch=scratch, sandbox=sandbox)
        arguments = {"command": command, **more}
        try:
            return asyncio.run(toolbox.run("shell", arguments, lambda text: None, level))  # type: ignore[arg-type]
        finally:
            toolbox.close()

    return run


@pytest.mark.sampled(6)
@pytest.mark.parametrize("place", ["work", "home/project", "a folder with spaces", "linked"])
def test_daily_commands_give_the_same_output_in_the_sandbox(run: Run, place: str, tmp_path: Path) -> None:
    root = tmp_path / place
    make_workspace(tmp_path / "real" if place == "linked" else root)
    if place == "linked":
        root.symlink_to(tmp_path / "real")
    together = "\n".join(f"echo '== {number}'\n{command} 2>&1" for number, command in enumerate(COMMANDS))
    outside = run(root, together, None).content
    assert "not found" not in outside or pytest.skip("a program is missing")
    assert run(root, together).content == outside


@pytest.mark.sampled(2)
def test_masked_file_reads_as_empty(run: Run, tmp_path: Path) -> None:
    make_workspace(tmp_path / "work")
    done = run(tmp_path / "work", "cat .env && grep -c . a.txt && grep -rn CANARY .; echo $?", "read-only")
    if "CANARY" in done.content:
        pytest.skip("this kind of sandbox masks nothing")
    assert done.content.startswith("2\n1\n")
    assert "denied" not in done.content
    assert "read as empty" not in done.content
    named = run(tmp_path / "work", "echo process.env .env.example")
    assert "read as empty" not in named.content
    listed = run(tmp_path / "work", "ls -a")
    assert "[secret files that read as empty in this sandbox: .env]" in listed.content


def test_result_says_where_the_command_ran(run: Run, tmp_path: Path) -> None:
    results = [run(tmp_path, "exit 3"), run(tmp_path, "true", None), run(tmp_path, "true", None, background=True)]
    assert [done.sandbox for done in results] == ["read-only", "outside", "outside"]
    assert run(tmp_path, " ").sandbox == ""


def test_git_works_if_its_configuration_is_masked(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "work"
    make_workspace(root)
    with (root / ".git/config").open("a") as config:
        config.write('[remote "origin"]\n\turl = https://me:CANARY@example.com/x\n')
    done = run(root, "git status --short && git remote -v")
    assert "M a.txt" in done.content
    assert not done.is_error


def test_folder_without_repository_and_denied_file_are_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/open.txt").write_text("TODO\n")
    (tmp_path / "work/locked.txt").write_text("TODO\n")
    (tmp_path / "work/locked.txt").chmod(0)
    done = run(tmp_path / "work", "grep -rn TODO .")
    assert "./open.txt:1:TODO" in done.content
    assert (tmp_path / "work/locked.txt").stat().st_mode & 0o777 == 0


@pytest.mark.sampled(2)
def test_processes_are_not_mentioned_if_none_is_left(run: Run, tmp_path: Path) -> None:
    texts = [run(tmp_path, "true").content for _ in range(10)]
    assert texts == ["[no output]\n[exit code 0]"] * 10


@pytest.mark.sampled(2)
def test_time_limit_ends_a_sandboxed_command(run: Run, tmp_path: Path) -> None:
    done = run(tmp_path, "echo begun; exec sleep 60", timeout_s=1)
    assert done.is_error
    assert "begun" in done.content
    assert "timed out" in done.content
    processes = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    assert not [line for line in processes if str(tmp_path).encode() in line and b"sleep" in line]
