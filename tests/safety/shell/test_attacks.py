"""Commands that would leave the workspace or read a secret through the files of a hostile folder: each of them asks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.tools import spec_of
from tests.safety.shell.fuzz import make_repository, policy_of
from tests.safety.shell.scratch import Scratch
from tests.safety.shell.test_daily import lines

KEY = "-----BEGIN RSA PRIVATE KEY-----\nabc\n"
HARMLESS = (
    "cat case/c*", "wc -l many/*.txt", "sort many/*.txt", "grep -n x many/*.txt",
    "stat -c %s many/n*.txt", "ls -la many/*", "du -sh many/*", "cd many && du -sh *", "cd many && ls *",
    "cd many && wc -l *.txt", "for f in many/*.txt; do head -1 $f; done", "du -ah many",
)  # fmt: skip


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """Return a repository with folders of ordinary files, each with something among them that no command may read."""
    scratch = make_repository(Path(os.path.realpath(tmp_path_factory.mktemp("attacks"))))
    root, outside = scratch.workspace, scratch.workspace.parent / "outside.txt"
    outside.write_text("outside\n")
    for folder, name in (
        ("keys", "k{}.txt"), ("links", "l{}.txt"), ("hard", "h{}.txt"), ("case", "c{}.txt"), ("mix", "m{}.py"),
        ("many", "n{}.txt"), ("dash", "d{}.txt"), ("options", "o{}"), ("trees/a", "f{}"), ("trees/b", "f{}"),
    ):  # fmt: skip
        (root / folder).mkdir(parents=True)
        for number in range(6):
            (root / folder / name.format(number)).write_text("x\n")
    (root / "keys/k3.txt").write_text(KEY)
    (root / "links/l9.txt").symlink_to(outside)
    os.link(outside, root / "hard/h9.txt")
    for name in ("C.PEM", "ID_RSA", ".ENV", "Credentials.JSON", "server.Key."):
        (root / "case" / name).write_text("secret\n")
    (root / "dash/-la").write_text("x\n")
    (root / "options/--files0-from=names").write_text("x\n")
    (root / "trees/a/g").symlink_to(outside)
    (root / "trees/b/f0").unlink()
    (root / "trees/b/f0").symlink_to(outside)
    os.mkfifo(root / "mix/pipe.py")
    (root / "to_home").symlink_to(scratch.home)
    (root / "links/home").symlink_to(scratch.home)
    (root / "to_up").symlink_to("..")
    return scratch


def test_attacks_through_the_files_of_a_folder_ask(scratch: Scratch) -> None:
    policy = policy_of(scratch)
    verdicts = {command: policy.judge(spec_of("shell"), {"command": command}) for command in lines("attacks.txt")}
    assert len(verdicts) > 170
    assert [command for command, verdict in verdicts.items() if verdict.verdict == "allow"] == []


@pytest.mark.parametrize("command", HARMLESS)
def test_same_commands_run_unasked_on_ordinary_files(scratch: Scratch, command: str) -> None:
    verdict = policy_of(scratch).judge(spec_of("shell"), {"command": command})
    assert verdict.is_allowed, verdict.reason
