"""The probe on real repositories: their location, their settings, and the secrets that they contain."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qcode.safety import git_contents, protected_paths
from qcode.safety.git_repository import RepositoryProbe
from qcode.safety.probes import Repository, TrackedFiles
from qcode.safety.shell.ast import Word
from qcode.safety.shell.git import GitUse, Kind, classify_operands, read_git, repository_refusal, secrets_refusal
from tests.safety.shell.git_scratch import HARMLESS_SETTINGS, PATH, make_scratch, run_git
from tests.safety.shell.strace import observe, require_strace

SPELLINGS = (
    ".env", ".env.local", ".env~", ".env-old", ".env_1", ".ENV", ".Env.Prod", ".envrc", ".envrc.bak", "x.pem", "X.PEM",
    "server.key", "a.asc.key", "a.p12", "a.pfx", "a.ppk", "a.jks", "a.keystore", "a.kdbx", ".netrc", ".pgpass",
    ".pypirc", ".htpasswd", ".git-credentials", ".s3cfg", ".boto", "credentials.json", "Credentials.JSON", "id_rsa",
    "id_ed25519_sk", "id_rsa.bak", "id_deploy", "ID_RSA", ".env.", ".env. ", "x.pem.", ".e\u200bnv", ".env\u2060",
    "\u2060.env", ".\u017fenv.pem", "x.\u212aey", "id_r\u017fa", "x.pe\u00adm", "\ufeffid_rsa",
)  # fmt: skip
ORDINARY = (
    "a.py",
    ".env.example",
    ".env.sample",
    "id_rsa.pub",
    "environment.py",
    "keys.py",
    "pem.txt",
    "envrc",
    "é.txt",
)


def why_not(use: GitUse, repository: Repository) -> str:
    return repository_refusal(use, repository) or secrets_refusal(use, repository)


def probe(root: Path, *outside: Path, **env: str) -> RepositoryProbe:
    return RepositoryProbe(root, {"PATH": PATH, "HOME": str(root.parent), **env}, outside)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "work/repo")


def make_repository(root: Path) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    commit(root, "a.py")
    return root


def git(root: Path, *arguments: str) -> str:
    return run_git(root, root.parent, *arguments)


def commit(root: Path, *files: str, text: str = "text") -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} of {name}\n")
    git(root, "add", "-f", "--", *files)
    git(root, "commit", "-q", "-m", "files")


def secrets_of(found: RepositoryProbe) -> tuple[str, ...]:
    tracked = found().find_tracked()
    assert isinstance(tracked, TrackedFiles)
    return tracked.secrets


def reason(root: Path, command: str, found: RepositoryProbe | None = None) -> str:
    """Return why a command may not run unasked in the repository, or nothing."""
    use = read_git(tuple(Word(word) for word in command.split()), (str(root),))
    if isinstance(use, str):
        return use

    def kind(path: str) -> Kind:
        return "file" if (root / path).is_file() else "folder" if (root / path).is_dir() else ""

    return why_not(classify_operands(use, kind), (found or probe(root))())


def test_files_of_the_index_and_those_with_protected_names_are_listed(repo: Path) -> None:
    found = probe(repo)
    assert secrets_of(found) == ()
    commit(repo, "deploy/.env", "src/b.py")
    assert secrets_of(found) == ("deploy/.env",)
    git(repo, "rm", "-q", "--cached", "deploy/.env")
    assert secrets_of(found) == ()
    tracked = found().find_tracked()
    assert tracked is not None
    assert tracked.files == {"a.py", "src/b.py"}


def test_untracked_secret_is_not_listed(repo: Path) -> None:
    (repo / ".env").write_text("KEY=1\n")
    assert secrets_of(probe(repo)) == ()
    assert probe(repo)().find_history_secrets() == ()


def test_every_spelling_of_a_protected_name_is_found(repo: Path) -> None:
    protected = [name for name in SPELLINGS if protected_paths.is_secret(name) or protected_paths.is_key(name)]
    assert protected == list(SPELLINGS)
    assert not any(protected_paths.is_secret(name) or protected_paths.is_key(name) for name in ORDINARY)
    commit(repo, *(f"d/{name}" for name in (*SPELLINGS, *ORDINARY)))
    expected = tuple(sorted(f"d/{name}" for name in SPELLINGS))
    found = probe(repo)
    assert secrets_of(found) == expected
    assert found().find_history_secrets() == expected


@given(st.text(st.sampled_from("._-~ idrsaenvkypmIDRSAENVKYPM\u200b\u017f\u212aé\u00ad"), min_size=1, max_size=12))
@example("id_\u017f")
def test_name_is_searched_for_exactly_if_it_is_protected(name: str) -> None:
    is_protected = protected_paths.is_secret(name) or protected_paths.is_key(name)
    assert git_contents.is_secret_path(f"x/{name}") == is_protected
    assert git_contents.is_secret_path(f"x/{unicodedata.normalize('NFD', name)}") == is_protected


def in_a_merged_branch(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side")
    commit(root, ".env")
    git(root, "rm", "-q", ".env")
    git(root, "commit", "-q", "-m", "gone")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "-m", "merge", "side")
    git(root, "branch", "-q", "-D", "side")


def in_a_merge_that_drops_it(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side")
    commit(root, ".env")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "-s", "ours", "-m", "merge", "side")
    git(root, "branch", "-q", "-D", "side")


def in_the_merge_itself(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side")
    commit(root, "b.py")
    git(root, "checkout", "-q", "main")
    git(root, "merge", "-q", "--no-ff", "--no-commit", "side")
    (root / ".env").write_text("KEY=1\n")
    git(root, "add", "-f", ".env")
    git(root, "commit", "-q", "-m", "merge")
    git(root, "rm", "-q", ".env")
    git(root, "commit", "-q", "-m", "gone")


def in_another_branch(root: Path) -> None:
    git(root, "checkout", "-q", "-b", "side")
    commit(root, ".env")
    git(root, "checkout", "-q", "main")


def in_a_tag(root: Path) -> None:
    in_another_branch(root)
    git(root, "tag", "-a", "v1", "-m", "tag", "side")
    git(root, "branch", "-q", "-D", "side")
    shutil.rmtree(root / ".git/logs")


def in_the_reflog(root: Path) -> None:
    commit(root, ".env")
    git(root, "reset", "-q", "--hard", "HEAD~1")


def in_the_stash(root: Path) -> None:
    (root / "a.py").write_text("changed\n")
    (root / ".env").write_text("KEY=1\n")
    git(root, "stash", "-q", "-u")


def in_an_older_stash(root: Path) -> None:
    in_the_stash(root)
    (root / "a.py").write_text("changed again\n")
    git(root, "stash", "-q")


def in_what_was_fetched(root: Path) -> None:
    other = make_repository(root.parent / "other")
    commit(other, ".env")
    git(root, "fetch", "-q", str(other), "main")


def in_another_work_tree(root: Path) -> None:
    tree = root / "tree"
    git(root, "worktree", "add", "-q", "--detach", str(tree))
    commit(tree, ".env")
    git(root, "config", "core.logAllRefUpdates", "false")


def in_packed_refs(root: Path) -> None:
    in_another_branch(root)
    git(root, "pack-refs", "--all", "--prune")
    git(root, "gc", "-q")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "make",
    [
        in_a_merged_branch, in_a_merge_that_drops_it, in_the_merge_itself, in_another_branch, in_a_tag, in_the_reflog,
        in_the_stash, in_an_older_stash, in_what_was_fetched, in_another_work_tree, in_packed_refs,
    ],
)  # fmt: skip
def test_secret_in_any_commit_is_found_by_a_new_and_a_cached_probe(make: Callable[[Path], None], repo: Path) -> None:
    before = probe(repo)
    assert before().find_history_secrets() == ()
    make(repo)
    assert probe(repo)().find_history_secrets() == (".env",)
    assert before().find_history_secrets() == (".env",)


@pytest.mark.parametrize("is_annotated", [False, True])
def test_tag_of_a_blob_does_not_hide_its_name(repo: Path, is_annotated: bool) -> None:
    commit(repo, ".env")
    before = probe(repo)
    git(repo, "tag", *(("-a", "-m", "x") if is_annotated else ()), "note", "HEAD:.env")
    git(repo, "rm", "-q", ".env")
    git(repo, "commit", "-qm", "remove")
    assert before().find_history_secrets() == (".env",)
    git(repo, "tag", "-d", "note")
    assert before().find_history_secrets() == (".env",)


def test_tag_of_a_harmless_blob_does_not_ask(repo: Path) -> None:
    git(repo, "tag", "public-key", "HEAD:a.py")
    git(repo, "tag", "-a", "-m", "x", "v1")
    git(repo, "tag", "tree", "HEAD^{tree}")
    assert probe(repo)().find_history_secrets() == ()


@pytest.mark.parametrize("place", ["FETCH_HEAD", "logs/refs/tags/note"])
def test_secret_named_only_by_a_reflog_or_head_is_found(repo: Path, place: str) -> None:
    blob, head = git(repo, "rev-parse", "HEAD:a.py").strip(), git(repo, "rev-parse", "HEAD").strip()
    git(repo, "tag", "note")
    path = repo / ".git" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    line = f"{blob} {head} n <n@x> 1700000000 +0000\tx" if place.startswith("logs") else blob
    path.write_text(f"{line}\n")
    assert probe(repo)().find_history_secrets() == ("a file without a name",)


def test_history_that_was_searched_is_not_searched_again(repo: Path, tmp_path: Path) -> None:
    found = probe(repo, PATH=f"{counting_git(tmp_path)}:{PATH}")
    for _ in range(3):
        assert found().find_history_secrets() == ()
        assert secrets_of(found) == ()
    commands = (tmp_path / "commands").read_text().splitlines()
    assert len([line for line in commands if "rev-list" in line and "--no-walk" not in line]) == 1
    assert len([line for line in commands if "ls-files" in line]) == 1
    commit(repo, "b.py")
    assert found().find_history_secrets() == ()
    last = (tmp_path / "commands").read_text().splitlines()[-1]
    assert "rev-list" in last
    assert f"--not {git(repo, 'rev-parse', 'HEAD~1').strip()}" in last


def test_history_that_was_removed_is_searched_from_the_start(repo: Path) -> None:
    commit(repo, "b.py")
    found = probe(repo)
    assert found().find_history_secrets() == ()
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    commit(repo, ".env")
    assert found().find_history_secrets() == (".env",)


def test_slow_git_gives_no_answer(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = probe(repo)()
    monkeypatch.setattr(git_contents, "TIMEOUT_S", 0.0)
    assert found.find_tracked() is None
    assert found.find_history_secrets() is None
    assert found.find_linked_folder() == "a folder"
    monkeypatch.undo()
    assert found.find_history_secrets() is None  # it is not tried a second time
    assert found.find_tracked() is not None


def test_folder_of_tracked_files_that_became_a_link_is_found(repo: Path) -> None:
    commit(repo, "src/deep/b.py")
    found = probe(repo)
    assert found().find_linked_folder() == ""
    (repo / "src/deep").rename(repo / "moved")
    assert found().find_linked_folder() == ""
    (repo / "src/deep").symlink_to(repo.parent)
    assert found().find_linked_folder() == "src/deep"
    assert "src/deep" in reason(repo, "grep text")


def test_probe_starts_nothing_but_git_and_writes_nothing(tmp_path: Path) -> None:
    require_strace()
    scratch = make_scratch(tmp_path)
    script = (
        "from pathlib import Path\n"
        "from qcode.safety.git_repository import RepositoryProbe\n"
        f"found = RepositoryProbe(Path({str(scratch.repo)!r}), {{'PATH': {PATH!r}, 'HOME': {str(scratch.home)!r}}})()\n"
        "assert found.problem == '' and found.is_present\n"
        "assert found.find_tracked().secrets == ('deploy/.env',)\n"
        "assert found.find_history_secrets() == ('deploy/.env',), found.find_history_secrets()\n"
        "assert found.find_linked_folder() == ''\n"
    )
    env = {"PATH": PATH, "HOME": str(scratch.home), "PYTHONDONTWRITEBYTECODE": "1"}
    (run,) = observe([(sys.executable, "-c", script)], Path.cwd(), env)
    assert run.code == 0, run.errors.decode()
    assert {Path(program).name for program in run.executed[1:]} == {"git"}
    assert [change for change in run.changed if str(tmp_path) in change] == []
    assert run.connected == ()
    assert not any(scratch.traps.iterdir())
    inside = (f"{scratch.repo}/.git", f"{scratch.repo}/.gitmodules")
    strays = [
        item.real for item in run.read if item.real.startswith(str(tmp_path)) and not item.real.startswith(inside)
    ]
    assert strays == []


def test_repository_has_to_lie_in_the_workspace(repo: Path) -> None:
    assert probe(repo)().problem == ""
    inner = repo / "src"
    inner.mkdir()
    assert "outside the workspace" in probe(inner)().problem
    assert probe(inner, repo)().problem == ""
    assert probe(inner, repo)().top == str(repo)


def test_folder_without_a_repository_is_seen_until_there_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    found = probe(folder)
    assert not found().is_present
    assert "no repository" in reason(folder, "diff a b", found)
    (folder / ".git").mkdir()
    assert not found().is_present
    git(folder, "init", "-q")
    assert found().is_present


def test_git_file_that_points_to_another_repository_asks(repo: Path, tmp_path: Path) -> None:
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {repo}/.git\n")
    assert "outside the workspace" in probe(thief)().problem
    (thief / ".git").unlink()
    (thief / ".git").symlink_to(repo / ".git")
    assert "outside the workspace" in probe(thief)().problem
    tree = tmp_path / "tree"
    git(repo, "worktree", "add", "-q", str(tree))
    assert "outside the workspace" in probe(tree)().problem
    assert probe(tree, repo)().problem == ""


def test_common_folder_elsewhere_asks(repo: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "other")
    found = probe(other)
    assert found().problem == ""
    (other / ".git/commondir").write_text(f"{repo}/.git\n")
    assert found().problem


def test_borrowed_objects_ask_if_they_are_elsewhere(repo: Path, tmp_path: Path) -> None:
    borrower = tmp_path / "borrower"
    git(tmp_path, "clone", "-q", "--shared", str(repo), str(borrower))
    git(borrower, "config", "--unset", "remote.origin.url")
    assert "outside the workspace" in probe(borrower)().problem
    assert probe(borrower, repo)().problem == ""
    (repo / ".git/objects/info/alternates").write_text("# none\n../../../../elsewhere/objects\n")
    assert "elsewhere/objects" in probe(borrower, repo)().problem


@pytest.mark.parametrize(
    "name", ["objects", "refs", "index", "packed-refs", "logs", "info", "info/exclude", "objects/info/alternates"]
)
def test_part_of_a_repository_that_is_a_link_to_elsewhere_asks(name: str, repo: Path, tmp_path: Path) -> None:
    found = probe(repo)
    assert found().problem == ""
    place, away = repo / ".git" / name, tmp_path / "away"
    if place.exists():
        place.rename(away)
    else:
        away.write_text("")
    place.symlink_to(away)
    assert str(away) in found().problem


def test_link_that_cannot_be_read_asks(repo: Path) -> None:
    found = probe(repo)
    (repo / ".git/objects/info/alternates").write_text("/proc/1/root/objects\n")
    assert "outside the workspace" in found().problem
    (repo / ".git/objects/info/alternates").unlink()
    shutil.rmtree(repo / ".git/logs")
    (repo / ".git/logs").symlink_to("/proc/1/root/logs")
    assert "outside the workspace" in found().problem


def test_file_that_a_configuration_would_include_is_watched_before_it_exists(repo: Path) -> None:
    git(repo, "config", "include.path", "../later")
    git(repo, "config", "includeIf.onbranch:other.path", "../branch")
    found = probe(repo)
    assert found().problem == ""
    (repo / "later").write_text("[core]\nfsmonitor = ./run-me\n")
    assert "fsmonitor" in found().problem
    (repo / "later").unlink()
    assert found().problem == ""
    (repo / "branch").write_text("[diff]\nexternal = ./run-me\n")
    assert found().problem == ""
    git(repo, "checkout", "-q", "-b", "other")
    assert "diff.external" in found().problem


def test_change_that_keeps_size_and_time_of_the_configuration_is_seen(repo: Path) -> None:
    git(repo, "config", "color.ui", "/x/run-me")
    found = probe(repo)
    assert found().problem == ""
    config = repo / ".git/config"
    info = config.stat()
    config.write_text(config.read_text().replace("[color]\n\tui = /x/run-me", "[pager]\n\tdi = /x/run-me"))
    os.utime(config, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert config.stat().st_size == info.st_size
    assert "pager.di" in found().problem


def test_git_that_takes_no_settings_from_the_environment_asks(repo: Path, tmp_path: Path) -> None:
    """Before git 2.31 git would ignore the overrides."""
    old = tmp_path / "old"
    old.mkdir()
    (old / "git").write_text('#!/bin/sh\nunset GIT_CONFIG_COUNT\nexec /usr/bin/git "$@"\n')
    (old / "git").chmod(0o755)
    assert "2.31" in probe(repo, PATH=f"{old}:{PATH}")().problem


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("branch.sort", "describe"), ("tag.sort", "signature"), ("format.pretty", "%G?"), ("pretty.mine", "%G?"),
        ("mailmap.file", "/etc/passwd"), ("mailmap.blob", "HEAD:.env"), ("core.excludesFile", "/etc/passwd"),
        ("diff.orderFile", "/etc/passwd"), ("blame.ignoreRevsFile", "/etc/passwd"), ("blame.ignoreRevsFile", ".env"),
        ("trace2.normalTarget", "/tmp/x"), ("remote.origin.promisor", "true"), ("remote.origin.vcs", "x"),
        ("uploadpack.packObjectsHook", "x"), ("gpg.ssh.program", "x"), ("notes.displayRef", "refs/*"),
        ("pager.diff", "x"), ("core.fsmonitor", "true"), ("core.gitProxy", "x"), ("difftool.x.cmd", "x"),
        ("filter.lfs.clean", "x"), ("submodule.x.update", "!x"), ("url.x.insteadOf", "y"), ("man.viewer", "x"),
        ("extensions.partialClone", "origin"), ("core.alternateRefsCommand", "x"), ("log.showSignature", "true"),
        ("browser.x.cmd", "x"), ("sendemail.smtpServer", "/x"), ("diff.trap.xfuncname", "x"), ("ssh.variant", "x"),
    ],
)  # fmt: skip
def test_setting_that_is_not_known_to_be_harmless_asks(name: str, value: str, repo: Path) -> None:
    git(repo, "config", name, value)
    assert name.casefold() in probe(repo)().problem.casefold()


def test_common_settings_do_not_ask(repo: Path) -> None:
    more = (
        ("branch.feature/x.y.merge", "x"),
        ("remote.a.b.url", "x"),
        ("blame.ignoreRevsFile", ".git-blame-ignore-revs"),
    )
    for name, value in (*HARMLESS_SETTINGS, *more):
        git(repo, "config", name, value)
    assert probe(repo)().problem == ""


def test_list_of_ignored_commits_asks_if_it_is_a_link(repo: Path) -> None:
    git(repo, "config", "blame.ignoreRevsFile", ".git-blame-ignore-revs")
    found = probe(repo)
    assert found().problem == ""
    (repo / ".git-blame-ignore-revs").symlink_to("/etc/passwd")
    assert "ignorerevsfile" in found().problem


def test_diff_program_of_the_user_asks(repo: Path) -> None:
    for setting in ('[diff "x"]\ncommand = y\n', "[diff]\nexternal = y\n"):
        (repo.parent / ".gitconfig").write_text(setting)
        assert "diff." in probe(repo)().problem


@pytest.mark.parametrize(
    ("name", "value", "is_credential"),
    [
        ("remote.origin.url", "https://me:pw@host.example/x", True),
        ("remote.origin.url", "https://token@host.example/x", True),
        ("remote.origin.url", "ssh://me:pw@host.example/x", True),
        ("remote.origin.url", "ssh://git@host.example/x", False),
        ("remote.origin.url", "git@host.example:x", False),
        ("remote.origin.url", "https://host.example/@x", False),
        ("http.https://host.example/.extraHeader", "x", True),
        ("http.proxy", "http://me:pw@host.example", True),
        ("http.cookieFile", "x", True),
        ("user.name", "Me", False),
    ],
)
def test_credentials_are_distinguished_from_user_names(name: str, value: str, is_credential: bool, repo: Path) -> None:
    git(repo, "config", name, value)
    found = probe(repo)()
    assert (found.problem, found.has_credentials) == ("", is_credential)


def test_credentials_of_the_user_count_and_programs_that_ask_for_them_do_not(repo: Path) -> None:
    (repo.parent / ".gitconfig").write_text("[core]\naskPass = x\n")
    assert not probe(repo)().has_credentials
    (repo.parent / ".gitconfig").write_text("[sendemail]\nsmtpPass = x\n")
    assert probe(repo)().has_credentials


def test_tracked_secret_asks_before_it_could_be_shown_and_only_then(repo: Path) -> None:
    commit(repo, "deploy/.env", "src/b.py")
    for command in (
        "grep text", "grep -c text -- deploy", "grep text -- *env", "diff", "diff -- deploy", "show", "show HEAD",
        "show HEAD -- deploy", "log -p", "log -p -1", "log -S text", "diff HEAD~1", "diff HEAD~1 HEAD", "diff --cached",
        "grep text HEAD", "log -p -- .", "log --follow -p -- src/b.py",
    ):  # fmt: skip
        assert "deploy/.env" in reason(repo, command), command
    for command in (
        "grep text -- src", "grep text src/b.py", "grep text -- *.py", "diff src", "diff --stat", "log --stat",
        "status", "log -p -- src/b.py", "show --name-only HEAD", "show HEAD:src/b.py", "blame src/b.py",
        "log -- deploy/.env",
        "ls-files", "diff src/b.py",
    ):  # fmt: skip
        assert reason(repo, command) == "", command


def test_removed_secret_asks_only_for_commands_that_show_the_history(repo: Path) -> None:
    commit(repo, ".env")
    git(repo, "rm", "-q", ".env")
    git(repo, "commit", "-q", "-m", "gone")
    for command in ("show", "log -p", "diff HEAD~1", "grep text HEAD~1", "diff --cached", "show --stat abcd1234"):
        assert ".env" in reason(repo, command), command
    for command in ("grep text", "diff", "log", "show --stat", "log -p -- a.py", "status"):
        assert reason(repo, command) == "", command


def test_file_in_the_place_of_a_folder_of_secrets_does_not_open_its_history(repo: Path) -> None:
    commit(repo, "conf/.env")
    git(repo, "rm", "-q", "conf/.env")
    git(repo, "commit", "-q", "-m", "gone")
    (repo / "conf").write_text("made by the model\n")
    assert ".env" in reason(repo, "log -p -- conf")


@pytest.mark.parametrize("command", ["diff a b", "diff --stat a b", "diff a.py b.py", "grep x", "status", "log"])
def test_every_command_asks_outside_a_repository(command: str, tmp_path: Path) -> None:
    """git would compare any two files there."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "a.py").write_text("x\n")
    assert "no repository" in reason(folder, command)


def test_default_repository_is_harmless() -> None:
    use = read_git((Word("show"),), ())
    assert isinstance(use, GitUse)
    assert why_not(use, Repository()) == ""


def counting_git(folder: Path) -> Path:
    """Make a git that notes its arguments."""
    place = folder / "counting"
    place.mkdir()
    (place / "git").write_text(f'#!/bin/sh\necho "$@" >> {folder}/commands\nexec /usr/bin/git "$@"\n')
    (place / "git").chmod(0o755)
    return place


def test_links_that_cannot_be_followed_do_not_stop_the_probe(repo: Path) -> None:
    too_long = "n" * 300
    (repo.parent / ".git").symlink_to(too_long)
    (repo / ".gitmodules").symlink_to(too_long)
    found = probe(repo)()
    assert (found.problem, found.is_present) == ("", True)


def test_git_folder_that_cannot_be_read_is_not_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").symlink_to("n" * 300)
    found = probe(tmp_path)()
    assert (found.problem, found.is_present) == ("", False)
