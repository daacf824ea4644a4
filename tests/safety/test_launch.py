"""The checks that run bash and git, with the real programs and repositories that try to run something."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from qcode.safety.git_repository import RepositoryProbe, override_variables
from qcode.safety.launcher import BashSyntax, ProgramUnavailable, find_program, run, safe_parts
from qcode.safety.probes import Repository
from tests.safety.policies import CLEAN, judge_shell, policy_for

PATH = "/usr/local/bin:/usr/bin:/bin"


def _git(root: Path, *arguments: str) -> None:
    env = {"PATH": PATH, "HOME": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", "-C", str(root), *named, *arguments], env=env, check=True, capture_output=True, timeout=60)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    _git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\n")
    _git(root, "add", ".")
    _git(root, "commit", "-q", "-m", "first")
    return root


def _look(root: Path, **env: str) -> RepositoryProbe:
    return RepositoryProbe(root, {"PATH": PATH, "HOME": str(root.parent), **env})


@pytest.mark.parametrize("command", ["ls", "ls | wc", "cat <<'E'\n$x\nE", "if true; then ls; fi", "echo 'a\nb'"])
def test_bash_accepts_complete_commands(command: str) -> None:
    assert BashSyntax(PATH, ())(command) == ""


@pytest.mark.parametrize("command", ["ls &&", "ls |", "echo 'x", "if true; then ls", "ls )", "((", "case x in"])
def test_bash_refuses_incomplete_commands(command: str) -> None:
    assert "syntax" in BashSyntax(PATH, ())(command)


def test_syntax_check_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    assert BashSyntax(PATH, ())(f"touch {mark}; $(touch {mark})") == ""
    assert not mark.exists()


def test_bash_of_the_workspace_is_not_run_and_a_missing_bash_asks(tmp_path: Path) -> None:
    own = tmp_path / "bin"
    own.mkdir()
    mark = tmp_path / "mark"
    (own / "bash").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (own / "bash").chmod(0o755)
    assert BashSyntax(f"{own}:relative:{PATH}", (tmp_path,))("ls") == ""
    assert not mark.exists()
    assert "not found" in BashSyntax("", (Path("/"),))("ls")


def test_loop_of_links_in_the_search_path_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = f"{tmp_path}/loop:{PATH}"
    assert safe_parts(path, tmp_path / "work") == path.split(":")
    assert find_program("bash", path, tmp_path / "work") == find_program("bash", PATH, ())
    assert find_program("bash", path, tmp_path / "loop") is not None


def test_hanging_program_is_killed() -> None:
    with pytest.raises(ProgramUnavailable, match="too long"):
        run(("/bin/sleep", "60"), {"PATH": PATH}, 0.05)


def test_plain_repository_is_clean(repo: Path) -> None:
    _git(repo, "config", "remote.origin.url", "https://host.example/x.git")
    _git(repo, "config", "core.hooksPath", ".husky")
    seen = _look(repo)()
    assert (seen.problem, seen.has_submodules, seen.has_credentials) == ("", False, False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.fsmonitor", "./x"), ("core.pager", "x"), ("core.sshCommand", "x"), ("diff.external", "x"),
        ("diff.x.command", "x"), ("diff.x.textconv", "x"), ("filter.x.clean", "x"), ("filter.x.process", "x"),
        ("filter.x.smudge", "x"), ("alias.log", "!x"), ("interactive.diffFilter", "x"), ("gpg.program", "x"),
        ("credential.helper", "x"), ("remote.origin.uploadpack", "x"), ("protocol.ext.allow", "always"),
        ("core.editor", "x"), ("sequence.editor", "x"), ("merge.x.driver", "x"), ("core.alternateRefsCommand", "x"),
        ("trailer.x.command", "x"), ("log.showSignature", "true"), ("core.attributesFile", "x"),
        ("extensions.partialClone", "x"), ("core.worktree", "/"), ("pager.log", "x"), ("something.new", "x"),
    ],
)  # fmt: skip
def test_setting_that_could_start_a_program_makes_git_ask(name: str, value: str, repo: Path) -> None:
    look = _look(repo)
    assert look().problem == ""
    _git(repo, "config", name, value)
    assert name.casefold() in look().problem.casefold()
    assert not policy_for(repo, type(CLEAN)(CLEAN.syntax, look)).judge_command("git status").is_allowed
    _git(repo, "config", "--unset-all", name)
    assert look().problem == ""


def test_included_file_counts_and_its_change_is_detected(repo: Path) -> None:
    (repo / "more").write_text("[user]\nname = a\n")
    _git(repo, "config", "include.path", "../more")
    look = _look(repo)
    assert look().problem == ""
    (repo / "more").write_text("[core]\nfsmonitor = ./run-me\n")
    assert "fsmonitor" in look().problem


def test_diff_program_of_the_user_asks(repo: Path) -> None:
    (repo.parent / ".gitconfig").write_text("[diff]\nexternal = difft\n[core]\npager = delta\n")
    assert "diff.external" in _look(repo)().problem
    (repo.parent / ".gitconfig").write_text('[core]\npager = delta\n[filter "lfs"]\nclean = git-lfs clean -- %f\n')
    assert _look(repo)().problem == ""


def test_credentials_in_the_configuration_are_found(repo: Path) -> None:
    _git(repo, "config", "remote.origin.url", "https://me:pass@host.example/x.git")
    assert _look(repo)().has_credentials


@pytest.mark.parametrize("name", [".git", ".git/commondir", ".git/index", ".git/objects/info/alternates"])
def test_pipe_in_the_place_of_a_file_of_git_does_not_hang_the_probe(name: str, repo: Path) -> None:
    path = repo / name
    if path.exists():
        path.rename(repo.parent / "moved")
    os.mkfifo(path)
    found: list[Repository] = []
    probe = threading.Thread(target=lambda: found.append(_look(repo)()), daemon=True)
    probe.start()
    probe.join(30)
    assert len(found) == 1


def test_nested_repositories_are_found(repo: Path) -> None:
    inner = repo / "inner"
    inner.mkdir()
    _git(inner, "init", "-q")
    _git(inner, "commit", "-q", "--allow-empty", "-m", "x")
    _git(repo, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    assert _look(repo)().has_submodules


def test_probe_result_is_cached_until_a_file_changes(repo: Path, tmp_path: Path) -> None:
    counter = tmp_path / "bin"
    counter.mkdir()
    (counter / "git").write_text(f'#!/bin/sh\necho x >> {tmp_path}/count\nexec /usr/bin/git "$@"\n')
    (counter / "git").chmod(0o755)
    look = RepositoryProbe(repo, {"PATH": f"{counter}:{PATH}", "HOME": str(tmp_path)})
    look()
    once = (tmp_path / "count").read_text()
    for _ in range(5):
        look()
    first = (tmp_path / "count").read_text()
    assert first == once
    _git(repo, "config", "user.name", "b")
    look()
    look()
    assert (tmp_path / "count").read_text() == first * 2


def test_git_of_the_workspace_is_never_run(repo: Path) -> None:
    (repo / "git").write_text(f"#!/bin/sh\ntouch {repo}/mark\n")
    (repo / "git").chmod(0o755)
    assert RepositoryProbe(repo, {"PATH": str(repo), "HOME": "/"})().problem
    assert RepositoryProbe(repo, {"PATH": f"{repo}:{PATH}", "HOME": str(repo.parent)})().problem == ""
    assert not (repo / "mark").exists()


@pytest.mark.parametrize("name", ["core.fsmonitor", "core.hooksPath", "core.pager"])
def test_overrides_apply_to_a_configuration_changed_after_the_probe(name: str, repo: Path) -> None:
    trap = repo / "trap"
    trap.mkdir()
    for hook in ("run", "post-index-change", "fsmonitor-watchman"):
        (trap / hook).write_text(f"#!/bin/sh\ntouch {repo.parent}/sprung\n")
        (trap / hook).chmod(0o755)
    _git(repo, "config", name, str(trap if name == "core.hooksPath" else trap / "run"))
    os.utime(repo / "a.txt", (1, 1))
    env = {"PATH": PATH, "HOME": str(repo.parent), **override_variables()}
    for command in (["status"], ["diff"], ["log", "-p"]):
        done = subprocess.run(["git", *command], cwd=repo, env=env, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
    assert not (repo.parent / "sprung").exists()
    assert not judge_shell("git status", repo, type(CLEAN)(CLEAN.syntax, _look(repo))).is_allowed or name.endswith(
        "Path"
    )
