"""Bypass mode without a sandbox refuses programs that may write protected files without naming them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from qcode.safety.verdict import Verdict
from tests.safety.policies import CLEAN, NO_SANDBOX, judge_shell

LINES = (Path(__file__).parent / "data/hidden_writes.txt").read_text("utf-8").splitlines()
REFUSED = [line[2:] for line in LINES if line.startswith("- ")]
RUN = [line[2:] for line in LINES if line.startswith("+ ")]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository in the home, with a folder for output, a link to the home, and links to protected files."""
    home = tmp_path / "home"
    for folder in ("repo/.git/hooks", "repo/src", "repo/build", "repo/farm", ".config", "docs"):
        (home / folder).mkdir(parents=True)
    (home / "repo/link").symlink_to(home)
    (home / ".bashrc").touch()
    (home / "repo/farm/plain").touch()
    links: dict[str, str | Path] = {
        "rc": home / ".bashrc",
        "my rc": home / ".bashrc",
        "hooks": "../.git/hooks",
        "up": home,
    }
    for name, target in links.items():
        (home / "repo/farm" / name).symlink_to(target)
    (home / "repo/farm/twin").hardlink_to(home / ".bashrc")
    return home / "repo"


def bypassed(command: str, repo: Path) -> Verdict:
    spelled = command.replace("{home}", str(repo.parent))
    return judge_shell(spelled, repo, NO_SANDBOX, mode="bypass", home=repo.parent)


@pytest.mark.parametrize("command", REFUSED)
def test_program_that_may_write_protected_files_unnamed_is_refused_in_bypass_mode(command: str, repo: Path) -> None:
    verdict = bypassed(command, repo)
    assert (verdict.verdict, verdict.check) == ("deny", "path:protected")
    assert judge_shell(command, repo, CLEAN, mode="bypass", home=repo.parent).confinement == "protect"


@pytest.mark.parametrize("command", RUN)
def test_other_commands_run_in_bypass_mode(command: str, repo: Path) -> None:
    assert bypassed(command, repo).is_allowed


PATCH = r"printf -- '--- a/.bashrc\n+++ b/.bashrc\n@@ -0,0 +1 @@\n+evil\n' > ../a"


@pytest.mark.parametrize(
    ("program", "preparation", "command"),
    [
        ("tar", "tar -cf ../a .bashrc", "tar -C ~ -xf a"),
        ("tar", "tar -cPf ../a --transform 's,.*,{home}/.bashrc,' .bashrc", "tar -xPf a -C build"),
        ("cpio", "echo .bashrc | cpio -o > ../a", "cpio -idu -D ~ < a"),
        ("cpio", "true", "cd src; echo .bashrc | cpio -pdu ~"),
        ("pax", "pax -wf ../a .bashrc", "cd ~; pax -rf repo/a"),
        ("unzip", "python3 -m zipfile -c ../a .bashrc", "unzip -oq a -d ~"),
        ("7z", "7z a ../a.7z .bashrc", "7z x -y a.7z -o$HOME"),
        ("rclone", "true", "rclone copy src ~"),
        ("rsync", "true", "rsync -rI src/ ~"),
        ("patch", PATCH, "patch -d ~ -p1 < a"),
        ("git", PATCH, "git -C build -C ../.. apply repo/a"),
        ("python3", "tar -cf ../a .bashrc", "python3 -m tarfile -e a ~"),
        ("python3", "python3 -m zipfile -c ../a .bashrc", "python3 -m zipfile -e a ~"),
    ],
)
def test_command_that_is_refused_writes_a_protected_file(
    program: str, preparation: str, command: str, repo: Path
) -> None:
    """Run a refused command without a judge, to prove the tables of programs."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    (repo / "src/.bashrc").write_text("evil\n")
    assert bypassed(command, repo).verdict == "deny"
    environment = {"HOME": str(repo.parent), "PATH": os.environ["PATH"]}
    for text, folder in ((preparation, repo / "src"), (command, repo)):
        spelled = text.replace("{home}", str(repo.parent))
        subprocess.run(["bash", "-c", spelled], cwd=folder, env=environment, check=True, capture_output=True)
    assert (repo.parent / ".bashrc").read_text() == "evil\n"


@pytest.mark.parametrize("command", ["git checkout -b x origin/x", "git switch x", "git branch -m main y"])
def test_branch_command_in_bypass_mode_sets_only_names_of_the_repository(command: str, repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    environment = {"HOME": str(repo.parent), "PATH": os.environ["PATH"]}
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 1"
    prepared = f"git init -q -b main ../origin && cd ../origin && {commit} && git branch x && cd ../repo && git init -q"
    prepared += " && git remote add origin ../origin && git fetch -q && git checkout -q -b main origin/main"
    branch_values = "git config --get-regexp '^branch' | cut -d ' ' -f 2"
    other_settings = "git config --local --list | grep -v '^branch'"

    def run(text: str) -> str:
        return subprocess.run(
            ["bash", "-c", text], cwd=repo, env=environment, check=True, capture_output=True, text=True
        ).stdout

    run(prepared)
    before = run(other_settings)
    assert bypassed(command, repo).is_allowed
    run(command)
    assert set(run(branch_values).split()) <= {"origin", "refs/heads/main", "refs/heads/x"}
    assert run(other_settings) == before


@pytest.mark.parametrize("target", ["~/$x$y", "~/${x}profile", "$HOME/$x", "{home}/$(ls a)"])
def test_unknown_name_in_a_home_without_protected_files_is_refused(target: str, repo: Path) -> None:
    (repo / "farm/twin").unlink()
    (repo.parent / ".bashrc").unlink()
    assert bypassed(f"x=.bash_; y=profile; tee -a {target} < a", repo).verdict == "deny"
    assert bypassed("tee -a ~/docs/$x < a", repo).is_allowed


def test_extraction_into_a_folder_outside_a_repository_runs_in_bypass_mode(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    assert bypassed("tar xf a.tar", repo).is_allowed
    assert bypassed("tar xf a.tar -C link", repo).verdict == "deny"


def test_folder_change_in_a_here_document_does_not_count(repo: Path) -> None:
    assert bypassed("cat <<E\ncd build\nE\ntar xf a.tar", repo).verdict == "deny"
    assert bypassed("cd build\ntar xf a.tar", repo).is_allowed


@pytest.mark.parametrize("pump", ["~/", "/a", "../", "a/*", "tar -C ~/", "cd /a;"])
def test_long_command_is_judged_quickly(pump: str, repo: Path) -> None:
    began = time.process_time()
    bypassed(f"echo {pump * 130_000}"[:130_000], repo)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "start",
    ["tar c", "tar -c", "tar xP", "cpio -t", "unzip -l", "pax -w", "cp -T", "wget -nH", "curl -O", "git push -u"],
)
def test_long_option_is_judged_quickly(start: str, repo: Path) -> None:
    began = time.process_time()
    bypassed(f"{start}{start[-1] * 120_000}%", repo)
    assert time.process_time() - began < 1


def test_command_that_is_too_long_to_run_is_refused_in_bypass_mode(repo: Path) -> None:
    assert bypassed(f"echo {'x' * 200_000}", repo).verdict == "deny"
