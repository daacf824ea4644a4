"""A repository full of traps, which reveal everything that git starts, writes or reads beyond the purpose of a command.

Every tracked file has a line `canary:PATH`, so that the output of a command reveals which files it shows.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from qcode.safety.git_repository import override_variables
from qcode.values import dataclass

PATH = "/usr/local/bin:/usr/bin:/bin"
HOOKS = (
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-pre-submit", "post-checkout", "post-index-change",
    "post-merge", "post-rewrite", "pre-auto-gc", "pre-commit", "pre-push", "query-watchman", "reference-transaction",
    "sendemail-validate", "update",
)  # fmt: skip
HARMLESS_SETTINGS = (
    ("status.submoduleSummary", "true"), ("diff.submodule", "log"), ("submodule.recurse", "true"),
    ("log.diffMerges", "remerge"), ("stash.showPatch", "true"), ("stash.showIncludeUntracked", "true"),
    ("diff.autoRefreshIndex", "true"), ("diff.ignoreSubmodules", "none"), ("core.untrackedCache", "true"),
    ("grep.fallbackToNoIndex", "true"), ("gc.auto", "1"), ("maintenance.auto", "true"), ("feature.manyFiles", "true"),
    ("index.threads", "2"), ("column.branch", "always"), ("log.mailmap", "true"), ("log.follow", "true"),
    ("rebase.updateRefs", "true"), ("http.postBuffer", "1000"), ("core.notesRef", "refs/notes/commits"),
    ("commit.gpgSign", "true"), ("user.signingKey", "A1"), ("push.default", "current"), ("diff.renames", "copies"),
)  # fmt: skip
"""Settings that a repository may have without a question, the worst value of each."""

_SIGNED = """tree {tree}
parent {parent}
author a <a@b.example> 1700000000 +0000
committer a <a@b.example> 1700000000 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 iQ==
 -----END PGP SIGNATURE-----

signed
"""


@dataclass(frozen=True, slots=True)
class GitScratch:
    """A repository, the home folder of its user, and the environment in which commands of git run unasked."""

    repo: Path
    home: Path
    traps: Path
    """A folder in which a program that was started by mistake leaves a file."""
    env: Mapping[str, str]


def make_scratch(folder: Path) -> GitScratch:
    """Make the repository below an empty folder."""
    home, repo, traps = folder / "home", folder / "repo", folder / "traps"
    for made in (home, repo, traps, folder / "outside"):
        made.mkdir()
    (home / ".ssh").mkdir()
    (home / ".ssh/id_rsa").write_text("canary:outside\n")
    (folder / "outside/passwd").write_text("canary:outside\n")
    env = {"PATH": PATH, "HOME": str(home), "LC_ALL": "C.UTF-8", **override_variables()}
    scratch = GitScratch(repo, home, traps, env)
    _commit_history(scratch)
    _leave_work(scratch)
    _set_traps(scratch)
    return scratch


def add_submodule(scratch: GitScratch) -> None:
    """Put another repository with dangerous settings into the repository, as an entry and as a submodule."""
    inner = scratch.repo / "inner"
    inner.mkdir()
    run_git(inner, scratch.home, "init", "-q", "-b", "main")
    write(inner, "x.txt", "one")
    run_git(inner, scratch.home, "add", ".")
    run_git(inner, scratch.home, "commit", "-q", "-m", "inner")
    run_git(inner, scratch.home, "config", "core.fsmonitor", str(_trap(scratch)))
    run_git(inner, scratch.home, "config", "diff.external", str(_trap(scratch)))
    (scratch.repo / ".gitmodules").write_text('[submodule "inner"]\n\tpath = inner\n\turl = ./inner\n\tignore = none\n')
    plain = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "advice.addEmbeddedRepo=false")
    run_git(scratch.repo, scratch.home, *plain, "add", ".gitmodules", "inner")
    run_git(scratch.repo, scratch.home, *plain, "commit", "-q", "-m", "submodule")
    write(inner, "x.txt", "two")


def run_git(root: Path, home: Path, *arguments: str, text: str | None = None) -> str:
    """Run git without any protection and return its output."""
    env = {"PATH": PATH, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
    dates = {"GIT_AUTHOR_DATE": "2023-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2023-01-01T00:00:00Z"}
    named = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    argv = ["git", "-C", str(root), *named, *arguments]
    done = subprocess.run(argv, env=env | dates, input=text, text=True, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def write(root: Path, name: str, text: str) -> None:
    """Write a file with its canary."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"canary:{name}\nneedle {text}\nint main(void)\n{{\n  return 0; \n}}\n")


def _commit_history(scratch: GitScratch) -> None:
    def git(*arguments: str, text: str | None = None) -> str:
        return run_git(scratch.repo, scratch.home, *arguments, text=text)

    def commit(message: str) -> None:
        git("add", "-A", "-f")
        git("commit", "-q", "-m", message)

    repo = scratch.repo
    git("init", "-q", "-b", "main")
    for name in ("a.txt", "src/b.c", "old/gone.txt", "deploy/.env"):
        write(repo, name, "one")
    (repo / "image.bin").write_bytes(b"\0\1canary:image.bin\n\2")
    (repo / "link").symlink_to("a.txt")
    (repo / "away").symlink_to("../outside/passwd")
    (repo / ".gitattributes").write_text("*.bin diff=trap filter=trap\n*.txt diff=trap merge=trap\n*.c diff=cpp\n")
    (repo / ".gitignore").write_text("*.o\nbuild/\n")
    (repo / ".mailmap").write_text("A <a@b.example>\n")
    commit("first")
    git("tag", "v1")
    git("branch", "topic")
    write(repo, "a.txt", "two")
    (repo / "old/gone.txt").unlink()
    git("mv", "src/b.c", "src/c.c")
    commit("second")
    git("tag", "-a", "v2", "-m", "tag")
    git("checkout", "-q", "topic")
    write(repo, "topic.txt", "one")
    write(repo, "a.txt", "three")
    commit("topic")
    git("checkout", "-q", "main")
    git("merge", "-q", "-s", "ours", "-m", "merge", "topic")
    git("notes", "add", "-m", "note", "HEAD")
    tree, parent = git("rev-parse", "HEAD^{tree}").strip(), git("rev-parse", "HEAD").strip()
    signed = git("hash-object", "-t", "commit", "-w", "--stdin", text=_SIGNED.format(tree=tree, parent=parent))
    git("reset", "-q", "--hard", signed.strip())
    git("update-ref", "refs/remotes/origin/main", "HEAD~1")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git("config", "remote.origin.url", "ext::sh -c true")
    git("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    git("config", "branch.main.remote", "origin")
    git("config", "branch.main.merge", "refs/heads/main")


def _leave_work(scratch: GitScratch) -> None:
    """Leave a stash, staged and other changes, and entries of the index that git would like to refresh."""
    repo = scratch.repo
    write(repo, "topic2.txt", "stashed")
    write(repo, "a.txt", "stashed")
    run_git(repo, scratch.home, "stash", "-q", "-u")
    write(repo, "a.txt", "staged")
    write(repo, "deploy/.env", "staged")
    run_git(repo, scratch.home, "add", "a.txt", "deploy/.env")
    write(repo, "a.txt", "changed")
    write(repo, "deploy/.env", "changed")
    write(repo, "new.txt", "untracked")
    write(repo, ".env", "untracked")
    write(repo, "build/x.o", "ignored")
    for name in ("src/c.c", "image.bin", ".gitignore"):
        os.utime(repo / name, (1, 1))


def _set_traps(scratch: GitScratch) -> None:
    trap = _trap(scratch)
    hooks = scratch.repo / ".githooks"
    hooks.mkdir()
    for folder in (hooks, scratch.repo / ".git/hooks"):
        for name in HOOKS:
            (folder / name).write_text(trap.read_text())
            (folder / name).chmod(0o755)
    run_git(scratch.repo, scratch.home, "config", "core.hooksPath", ".githooks")
    for name, value in HARMLESS_SETTINGS:
        run_git(scratch.repo, scratch.home, "config", name, value)


def _trap(scratch: GitScratch) -> Path:
    trap = scratch.traps.parent / "trap"
    trap.write_text(f'#!/bin/sh\ntouch {scratch.traps}/"$$"\n')
    trap.chmod(0o755)
    return trap
