"""Reads branch and state of a repository, without letting the repository run anything.

The branch comes from a file. Only in a trusted folder git itself is asked, and only after its configuration was listed
(which runs nothing) and holds no setting of the repository that could start a program.
Facts: https://git-scm.com/docs/git-config, https://git-scm.com/docs/git-status.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qcode.runtime.briefing.project import git_folder, read_small

TIMEOUT_S = 1.0

_BRANCH = re.compile(r"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]+)\n?")
_COMMIT = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\n?")
_OVERRIDES = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("protocol.allow", "never"),
    ("status.submoduleSummary", "false"),
)
# What a repository may set without a program being started by `git status`. Everything else makes us not ask: a list of
# what is harmless fails towards not knowing the state, a list of what is dangerous would fail towards running it.
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|"
    r"eol|safecrlf|quotepath|abbrev|compression|loosecompression|bigfilethreshold|preloadindex|sparsecheckout|"
    r"sparsecheckoutcone|longpaths|protecthfs|protectntfs|trustctime|checkstat|splitindex|multipackindex|commitgraph|"
    r"whitespace|commentchar|hidedotfiles|sharedrepository|untrackedcache)"
    r"|extensions\.(?:worktreeconfig|objectformat|refstorage|relativeworktrees|noop)"
    r"|remote\..+\.(?:url|pushurl|fetch|push|prune|prunetags|tagopt|mirror|skipdefaultupdate|skipfetchall|gh-resolved)"
    r"|remote\.pushdefault|branch\..+|(?:user|author|committer)\.(?:name|email|signingkey)|submodule\..+\.(?:url|active)"
    r"|submodule\.(?:active|recurse)|include\.path|includeif\..+\.path"
    r"|(?:pull|fetch|rebase|rerere|advice|color|column|status|gc|maintenance|pack|index|feature|i18n|init|log|receive)\."
    r"[a-z]+(?:\.[a-z]+)?|push\.(?:default|autosetupremote|followtags)|(?:commit|tag)\.gpgsign"
    r"|merge\.(?:ff|conflictstyle|renamelimit)|lfs\.(?:repositoryformatversion|.+\.(?:access|locksverify))"
)


@dataclass(frozen=True, slots=True)
class GitState:
    """`changed` counts uncommitted changes, untracked files included; None where it was not or could not be asked.

    `why` says in words for a person why `changed` is None in a repository.
    """

    is_repository: bool = False
    branch: str = ""
    commit: str = ""
    changed: int | None = None
    why: str = ""

    @property
    def is_clean(self) -> bool | None:
        return None if self.changed is None else self.changed == 0


class _Unknown(Exception):  # noqa: N818  # control flow inside this module, never seen outside
    """The state cannot be told; the text says why."""


def read_git(root: Path, env: Mapping[str, str], *, is_trusted: bool, timeout: float = TIMEOUT_S) -> GitState:
    """Return what can be told of the repository at `root` within `timeout` seconds, never raising."""
    place = git_folder(root)
    if place is None:
        return GitState()
    head = read_small(place / "HEAD") or ""
    branch, commit = _BRANCH.fullmatch(head), _COMMIT.fullmatch(head)
    name = branch[1] if branch and branch[1] != ".invalid" else ""
    at = commit[1] if commit else ""
    if not is_trusted:
        return GitState(True, name, at, None, "the folder is not trusted, so git was not asked")
    try:
        return GitState(True, name, at, _Git(root, env, timeout).count_changes())
    except _Unknown as unknown:
        return GitState(True, name, at, None, str(unknown))


def find_program(name: str, path: str, outside: Path) -> str | None:
    """Return the absolute path of a program from the absolute parts of `path`, never one in or under `outside`.

    Neither the entry nor what its links lead to may be inside, or a workspace could provide its own git.
    """
    for folder in _safe_parts(path, outside):
        found = shutil.which(name, path=folder)
        if found is not None and not Path(found).resolve().is_relative_to(outside.resolve()):
            return found
    return None


def _safe_parts(path: str, outside: Path) -> list[str]:
    parts = (part for part in path.split(os.pathsep) if Path(part).is_absolute())
    return [part for part in parts if not Path(part).resolve().is_relative_to(outside.resolve())]


class _Git:
    """Asks the git program about one repository, all within one time limit."""

    def __init__(self, root: Path, env: Mapping[str, str], timeout: float) -> None:
        path = env.get("PATH", "")
        program = find_program("git", path, root)
        if program is None:
            raise _Unknown("no git outside the project was found")
        self._command = (program, "-C", str(root))
        self._env = _hardened(env, os.pathsep.join(_safe_parts(path, root)))
        self._deadline = time.monotonic() + timeout

    def count_changes(self) -> int:
        listed = self._run("config", "--list", "--show-scope", "--show-origin", "--name-only", "-z")
        risky = next(_risky(listed.split(b"\0")), None)
        if risky is not None:
            raise _Unknown(f"the repository's configuration sets {risky}, so git was not asked for its state")
        found = self._run("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all")
        return _count(found.split(b"\0"))

    def _run(self, *arguments: str) -> bytes:
        try:
            process = subprocess.Popen(
                (*self._command, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
            )
        except OSError as error:
            raise _Unknown(f"git could not be started: {error.strerror}") from None
        try:
            output, _ = process.communicate(timeout=max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise _Unknown("git took too long") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode != 0:
            raise _Unknown("git could not tell the state of this repository")
        return output


def _hardened(env: Mapping[str, str], path: str) -> dict[str, str]:
    """Return an environment in which nothing of ours or the repository's changes what git does."""
    kept = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME", "TMPDIR") if name in env}
    hard = {
        "PATH": path,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_PAGER": "cat",
        "GIT_CONFIG_COUNT": str(len(_OVERRIDES)),
    }
    for index, (name, value) in enumerate(_OVERRIDES):
        hard |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return kept | hard


def _risky(fields: Sequence[bytes]) -> Iterator[str]:
    """Yield the settings of the repository that are not known to be harmless; fields are scope, origin, name."""
    for scope, _, name in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        text = name.decode("utf-8", "replace")
        if scope in (b"local", b"worktree") and not _HARMLESS.fullmatch(text):
            yield text


def _count(fields: Sequence[bytes]) -> int:
    """Count the entries of `git status --porcelain -z`; a rename or copy has its old name as a field of its own."""
    count, is_old_name = 0, False
    for one in fields:
        if is_old_name or not one:
            is_old_name = False
            continue
        count += 1
        is_old_name = b"R" in one[:2] or b"C" in one[:2]
    return count
