"""The path layer: sample paths with their verdicts, and properties of every other path."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.safety.paths import PathJudge, SessionFolders, follow, judge_path
from qcode.safety.verdict import Access, Verdict

ROWS = [json.loads(line) for line in (Path(__file__).parent / "data/paths.jsonl").read_text("utf-8").splitlines()]


@dataclass(frozen=True)
class Machine:
    """A workspace and a home on the real disk, with the judge bound to them."""

    root: Path
    home: Path

    def judge(self, path: str, access: Access = "read", **more: Any) -> Verdict:
        folders = {"added_folders": tuple(more.pop("added", ())), **more}
        return judge_path(SessionFolders(self.root, home=self.home, **folders), path, access)

    def verdicts(self, path: str, **more: Any) -> tuple[str, str]:
        return self.judge(path, "read", **more).verdict, self.judge(path, "write", **more).verdict

    def add(self, name: str, text: str = "x\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    root, home = tmp_path / "repo", tmp_path / "home/u"
    (root / "src").mkdir(parents=True)
    home.mkdir(parents=True)
    (root / "src/app.py").write_text("print()\n")
    return Machine(root, home)


def _set_up(machine: Machine, setup: str) -> None:
    if setup.startswith("ln -s "):
        _, _, target, link = setup.split()
        (machine.root / link.removeprefix("/repo/")).symlink_to(target)
    elif "->" in setup:
        names = setup.split("->")
        for link, target in pairwise(names):
            (machine.root / link).symlink_to(target)
    else:
        assert not setup, f"unknown setup {setup!r}"


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_path_of_each_sample_gets_its_verdicts(row: dict[str, str], machine: Machine) -> None:
    _set_up(machine, row["setup"])
    path = row["path"]
    if path.startswith("/repo/"):
        path = f"{machine.root}{path.removeprefix('/repo')}"
    assert machine.verdicts(path) == (row["read"], row["write"]), row["why"]


@pytest.mark.parametrize(
    ("path", "read", "write"),
    [
        (".", "allow", "deny"),
        ("src/..", "allow", "deny"),
        (".git", "allow", "deny"),
        (".git/HEAD", "allow", "deny"),
        (".git/hooks/pre-commit", "allow", "deny"),
        (".git/config", "ask", "deny"),
        (".GIT/Config", "ask", "deny"),
        (".git./config", "ask", "deny"),
        (".g\u200cit/config", "ask", "deny"),
        ("sub/.git/modules/x/config", "ask", "deny"),
        ("git~2/HEAD", "ask", "deny"),
        (".git::$INDEX_ALLOCATION/config", "ask", "deny"),
        (".gitignore", "allow", "allow"),
        (".gitattributes", "allow", "ask"),
        (".env", "ask", "ask"),
        ("deep/down/.ENV.Local", "ask", "ask"),
        (".envrc", "ask", "ask"),
        (".env~", "ask", "ask"),
        ("certs/server.pem", "ask", "ask"),
        ("certs/server.KEY", "ask", "ask"),
        ("deploy/id_ed25519", "ask", "ask"),
        ("deploy/id_ed25519.pub", "allow", "allow"),
        ("id_rsa", "ask", "ask"),
        ("src/ID_ed25519_work", "ask", "ask"),
        ("src/id_rsa.pub", "allow", "allow"),
        ("src/id_generator", "allow", "allow"),
        ("no/folder/id_rsa", "allow", "allow"),
        ("src/id_generator.py", "allow", "allow"),
        ("environment.py", "allow", "allow"),
        ("AGENTS.md", "allow", "ask"),
        ("docs/claude.md", "allow", "ask"),
        ("AGENTS.override.md", "allow", "ask"),
        (".zed/tasks.json", "allow", "ask"),
        (".opencode/plugin/x.ts", "allow", "ask"),
        (".idea/workspace.xml", "allow", "ask"),
        (".github/ISSUE_TEMPLATE/bug.md", "allow", "allow"),
        ("node_modules/left-pad/index.js", "allow", "ask"),
        ("two\nlines", "ask", "ask"),
        ("latin-\udce91.txt", "ask", "ask"),
        ("half-\ud83d.txt", "deny", "deny"),
        ("\x1b]0;x\x07", "deny", "deny"),
        ("https://example.org/x", "deny", "deny"),
        ("file:///etc/passwd", "deny", "deny"),
        ("~/.ssh/config", "ask", "deny"),
        ("~/.ssh/deploy", "deny", "deny"),
        ("~/.ssh/id_rsa.pub", "ask", "deny"),
        ("~/.BashRC", "ask", "deny"),
        ("~/.gitconfig", "ask", "deny"),
        ("~/.local/bin/ls", "ask", "deny"),
        ("~/.aws/credentials", "deny", "deny"),
        ("~/.npmrc", "deny", "deny"),
        ("~/.config/gh/hosts.yml", "deny", "deny"),
        ("~/.python_history", "deny", "deny"),
        ("~/.config/qcode/credentials.toml", "deny", "deny"),
        ("~/.local/state/qcode/trust.json", "deny", "deny"),
        ("~/notes.txt", "ask", "ask"),
        ("/etc/passwd", "ask", "deny"),
        ("/etc/shadow", "deny", "deny"),
        ("/usr/local/bin/x", "ask", "deny"),
        ("/home/somebody-else/x", "deny", "deny"),
        ("/", "ask", "deny"),
    ],
)
def test_protected_names_and_paths_get_their_verdicts(path: str, read: str, write: str, machine: Machine) -> None:
    if path.startswith("deploy/"):
        machine.add(path)
    assert machine.verdicts(path) == (read, write)


def test_protected_paths_apply_if_the_workspace_is_the_home(machine: Machine) -> None:
    at_home = Machine(machine.home, machine.home)
    assert at_home.verdicts(".ssh/id_rsa") == ("deny", "deny")
    assert at_home.verdicts(".bashrc") == ("ask", "deny")
    assert at_home.verdicts("project/main.py") == ("allow", "allow")


def test_stricter_verdict_of_a_link_and_its_target_counts(machine: Machine) -> None:
    machine.add(".env")
    (machine.root / "innocent.txt").symlink_to(".env")
    (machine.root / "AGENTS.md").symlink_to("src/app.py")
    (machine.root / "inside").symlink_to("src/app.py")
    assert machine.verdicts("innocent.txt") == ("ask", "ask")
    assert machine.verdicts("AGENTS.md") == ("allow", "ask")
    assert machine.verdicts("inside") == ("allow", "allow")


def test_link_through_proc_is_denied_even_if_it_ends_inside(machine: Machine) -> None:
    (machine.root / "way").symlink_to("/proc/self/root")
    assert machine.verdicts(f"way{machine.root}/src/app.py") == ("deny", "deny")


def test_path_through_a_loop_of_links_is_denied(machine: Machine) -> None:
    (machine.root / "a").symlink_to("b")
    (machine.root / "b").symlink_to("a")
    assert machine.verdicts("a/x") == ("deny", "deny")


def test_file_with_several_hard_links_asks(machine: Machine) -> None:
    os.link(machine.root / "src/app.py", machine.root / "second.py")
    assert machine.verdicts("second.py") == ("ask", "ask")


def test_read_only_files_ask_before_a_write(machine: Machine) -> None:
    machine.add("fixed.txt").chmod(0o444)
    assert machine.verdicts("fixed.txt") == ("allow", "ask")


def test_pipes_and_sockets_are_denied(machine: Machine) -> None:
    os.mkfifo(machine.root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(machine.root)  # the address of a socket has a short limit
        try:
            listener.bind("sock")
        finally:
            os.chdir(here)
    assert machine.verdicts("pipe") == ("deny", "deny")
    assert machine.verdicts("sock") == ("deny", "deny")


def test_private_key_is_recognized_by_its_content(machine: Machine) -> None:
    machine.add("notes.txt", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    machine.add("backup.txt", "AGE-SECRET-KEY-1QQQQ\n")
    machine.add("about.md", "A file that says -----BEGIN OPENSSH PRIVATE KEY----- somewhere.\n")
    assert machine.verdicts("notes.txt") == ("ask", "ask")
    assert machine.verdicts("backup.txt") == ("ask", "ask")
    assert machine.verdicts("about.md") == ("allow", "allow")


def test_added_folders_are_judged_like_the_workspace(machine: Machine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert machine.verdicts(f"{other}/x.py") == ("ask", "ask")
    assert machine.verdicts(f"{other}/x.py", added=(other,)) == ("allow", "allow")
    assert machine.verdicts(f"{other}/x.py", read_only=(other,)) == ("allow", "ask")
    assert machine.verdicts(f"{other}/.env", added=(other,)) == ("ask", "ask")


def test_workspace_may_be_named_through_a_link(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "short").symlink_to(machine.root)
    linked = Machine(tmp_path / "short", machine.home)
    assert linked.verdicts("src/app.py") == ("allow", "allow")
    assert linked.verdicts(f"{machine.root}/src/app.py") == ("allow", "allow")
    assert linked.verdicts(f"{tmp_path}/short/src/app.py") == ("allow", "allow")


def test_qcode_folders_outside_the_home_are_protected(machine: Machine) -> None:
    qcode_folders = machine.root / "home-of-qcode"
    assert machine.verdicts("home-of-qcode/config.toml", qcode_folders=(qcode_folders,)) == ("ask", "deny")
    assert machine.verdicts("home-of-qcode/state/keys.json", qcode_folders=(qcode_folders,)) == ("deny", "deny")


PIECES = st.sampled_from(
    ["..", ".", "src", "app.py", ".git", "config", "~", "", " ", "\n", "\x1b", "\u202e", "\0", "//", "$HOME", "nul"]
) | st.text(max_size=8)


@given(st.lists(PIECES, max_size=8).map("/".join), st.sampled_from(["read", "write"]))
def test_any_path_has_a_verdict_and_none_outside_is_allowed(path: str, access: Access) -> None:
    root = Path("/nowhere/repo")
    verdict = judge_path(SessionFolders(root, home=Path("/nowhere/home")), path, access)
    assert verdict.verdict in ("allow", "ask", "deny")
    assert verdict.reason
    if verdict.is_allowed:
        lexical = os.path.normpath(path if path.startswith("/") else f"{root}/{path}")
        assert lexical == str(root) or lexical.startswith(f"{root}/")


PARTS = st.sampled_from(["a", "b", "f", "to_a", "to_f", "out", "loop", "gone", ".", "..", ""])


@given(st.lists(st.tuples(st.booleans(), st.lists(PARTS, min_size=1, max_size=5)), min_size=1, max_size=8))
def test_cached_folder_resolution_gives_the_same_paths(
    tmp_path_factory: pytest.TempPathFactory, paths: list[tuple[bool, list[str]]]
) -> None:
    root = tmp_path_factory.getbasetemp() / "followed"
    if not root.exists():
        (root / "a/b").mkdir(parents=True)
        (root / "a/f").write_text("x\n")
        for folder in (root, root / "a"):
            for name, target in (("to_a", root / "a"), ("to_f", "a/f"), ("out", ".."), ("loop", "loop")):
                (folder / name).symlink_to(target)
    judge = PathJudge(SessionFolders(root))
    for is_absolute, parts in paths:
        path = f"{root}/{'/'.join(parts)}" if is_absolute else "/".join(parts) or "."
        expected = follow(path if path.startswith("/") else f"{root}/{path}")
        resolved = judge.resolve(path)
        assert (resolved.chain, resolved.target, resolved.is_loop) == (
            expected.chain,
            expected.target,
            expected.is_loop,
        )
