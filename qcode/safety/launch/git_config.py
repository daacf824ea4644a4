"""What the configuration of a repository could make git run, and the settings that stop the rest.

`git config --list` runs nothing. A setting of the repository that is not known to be harmless makes reading commands
ask: a list of what is harmless fails towards asking, a list of what is dangerous would fail towards running it.
The person's own configuration is the person's. Facts: https://git-scm.com/docs/git-config.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from qcode.safety.launch.process import Unavailable, find_program, run, safe_parts
from qcode.safety.shell.judge import Repository

OVERRIDES = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("status.submoduleSummary", "false"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.autoRefreshIndex", "false"),
    ("log.showSignature", "false"),
    ("submodule.recurse", "false"),
    ("safe.bareRepository", "explicit"),
)
"""Settings under which a reading command starts no program, as far as a setting can say so."""

_HARD = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
}
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|"
    r"eol|safecrlf|quotepath|abbrev|compression|loosecompression|bigfilethreshold|preloadindex|sparsecheckout|"
    r"sparsecheckoutcone|longpaths|protecthfs|protectntfs|trustctime|checkstat|splitindex|multipackindex|commitgraph|"
    r"whitespace|commentchar|hidedotfiles|sharedrepository|untrackedcache)"
    r"|extensions\.(?:worktreeconfig|objectformat|refstorage|relativeworktrees|noop)"
    r"|remote\..+\.(?:url|pushurl|fetch|push|prune|prunetags|tagopt|mirror|skipdefaultupdate|skipfetchall|gh-resolved)"
    r"|remote\.pushdefault|branch\..+|(?:user|author|committer)\.(?:name|email|signingkey)|submodule\..+\.(?:url|active)"
    r"|submodule\.(?:active|recurse)|include\.path|includeif\..+\.path"
    r"|(?:pull|fetch|rebase|rerere|advice|color|column|status|gc|maintenance|pack|index|feature|i18n|init|receive)\."
    r"[a-z]+(?:\.[a-z]+)?|log\.(?!showsignature)[a-z]+|push\.(?:default|autosetupremote|followtags)"
    r"|diff\.(?:renames|renamelimit|algorithm|mnemonicprefix|noprefix|colormoved|context|interhunkcontext)"
    r"|(?:commit|tag)\.gpgsign|merge\.(?:ff|conflictstyle|renamelimit)|lfs\.(?:repositoryformatversion|.+\.(?:access|locksverify))"
)
# No reading command runs a hook while the override is in force, and tools such as husky set the folder of hooks.
_OVERRIDDEN = re.compile(r"core\.hookspath")
_TIMEOUT_S = 3.0
_CREDENTIALS = re.compile(rb"://[^/\s@]+@(?!$)")
_CREDENTIAL_NAMES = re.compile(r"extraheader|token|password|secret", re.IGNORECASE)
_LINKED = b"\x00\x00\xe0\x00"
"""The mode of an entry that is another repository, as the index keeps it (https://git-scm.com/docs/index-format)."""

_SMALL = 4096

Identity = tuple[tuple[str, tuple[int, int, int, int] | None], ...]


def numbered(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return settings as the environment variables that git reads them from."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (name, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return found


def overrides() -> dict[str, str]:
    """Return the environment under which reading commands of git run."""
    return {**_HARD, **numbered(OVERRIDES)}


def hardened(env: Mapping[str, str], path: str, more: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """Return an environment in which nothing of ours or the repository's changes what git does."""
    kept = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME", "TMPDIR") if name in env}
    fixed = {"PATH": path, "LC_ALL": "C"}
    return kept | fixed | _HARD | numbered((*OVERRIDES, *more))


def risky(fields: Sequence[bytes]) -> Iterator[str]:
    """Yield the settings of the repository that are not known to be harmless; fields are scope, origin, name.

    A name may have its value behind a new line.
    """
    for scope, _, entry in _settings(fields):
        name = entry.partition(b"\n")[0].decode("utf-8", "replace")
        if scope in (b"local", b"worktree") and not (_HARMLESS.fullmatch(name) or _OVERRIDDEN.fullmatch(name)):
            yield name


def _settings(fields: Sequence[bytes]) -> Iterator[tuple[bytes, bytes, bytes]]:
    yield from zip(fields[::3], fields[1::3], fields[2::3], strict=False)


class GitConfig:
    """Call it for what a look at the repository of `root` says now. A look is kept until a file it rests on changes."""

    def __init__(self, root: Path, env: Mapping[str, str], outside: Sequence[Path] = ()) -> None:
        forbidden = (root, *outside)
        path = env.get("PATH", "")
        self._root, self._env = root, env
        self._git = find_program("git", path, forbidden)
        self._path = os.pathsep.join(safe_parts(path, *forbidden))
        self._watched: tuple[str, ...] = ()
        self._identity: Identity | None = None
        self._seen = Repository()

    def __call__(self) -> Repository:
        if self._git is None:
            return Repository("no git outside the workspace was found")
        if self._identity is None or self._identity != _identity(self._watched):
            self._watched, self._seen = self._look(self._git)
            self._identity = _identity(self._watched)
        return self._seen

    def _look(self, git: str) -> tuple[tuple[str, ...], Repository]:
        watched = tuple(_places(self._root, self._env))
        before = _identity(watched)
        argv = (git, "-C", str(self._root), "config", "--list", "--show-scope", "--show-origin", "-z")
        try:
            code, output = run(argv, hardened(self._env, self._path), _TIMEOUT_S)
        except Unavailable as unavailable:
            return watched, Repository(f"the configuration could not be listed: git {unavailable}")
        if code != 0:
            return watched, Repository("the configuration of the repository could not be listed")
        fields = output.split(b"\0")
        origins = {origin.partition(b":")[2] for _, origin, _ in _settings(fields) if origin.startswith(b"file:")}
        watched += tuple(str(self._root / os.fsdecode(origin)) for origin in sorted(origins))
        if before != _identity(watched[: len(before)]):
            return watched, Repository("the configuration changed while it was looked at")
        return watched, self._judged(fields)

    def _judged(self, fields: Sequence[bytes]) -> Repository:
        found = next(risky(fields), None)
        # A diff program asks even where it is the person's own: no setting can turn it off.
        if found is None and any(entry.startswith(b"diff.external\n") for _, _, entry in _settings(fields)):
            found = "diff.external"
        complaint = f"the repository's configuration sets {found}" if found is not None else ""
        entries = [entry for _, _, entry in _settings(fields)]
        has_credentials = any(
            _CREDENTIALS.search(entry) or _CREDENTIAL_NAMES.search(entry.partition(b"\n")[0].decode("utf-8", "replace"))
            for entry in entries
        )
        return Repository(complaint, has_submodules=_holds_others(self._root), has_credentials=has_credentials)


def _holds_others(root: Path) -> bool:
    """Return whether the index of the repository around `root` names other repositories, or a list of them exists."""
    for folder in (root, *root.parents):
        if (folder / ".gitmodules").exists():
            return True
        git = _git_folder(folder)
        if git is None:
            continue
        for index in (git / "index", *git.glob("sharedindex.*")):
            try:
                if _LINKED in index.read_bytes():
                    return True
            except OSError:
                continue
        return False
    return False


def _places(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield every file that decides what git reads here, whether it is there or not."""
    for folder in (root, *root.parents):
        yield str(folder / ".git")
        yield str(folder / ".gitmodules")
        git = _git_folder(folder)
        if git is not None:
            common = _pointed(git / "commondir", git) or git
            for place in (git, common):
                yield from (str(place / name) for name in ("config", "config.worktree", "HEAD", "index"))
            break
    home = env.get("HOME", "")
    yield from (f"{home}/.gitconfig", f"{env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config")


def _git_folder(folder: Path) -> Path | None:
    place = folder / ".git"
    if place.is_dir():
        return place
    return _pointed(place, folder, "gitdir:")


def _pointed(file: Path, base: Path, prefix: str = "") -> Path | None:
    try:
        with file.open("rb") as opened:
            text = opened.read(_SMALL).decode("utf-8", "replace").strip()
    except OSError:
        return None
    return base / text.removeprefix(prefix).strip() if text.startswith(prefix) else None


def _identity(paths: Sequence[str]) -> Identity:
    found: list[tuple[str, tuple[int, int, int, int] | None]] = []
    for path in paths:
        try:
            info = os.stat(path)  # noqa: PTH116  # plain text
            found.append((path, (info.st_mtime_ns, info.st_ino, info.st_dev, info.st_size)))
        except (OSError, ValueError):
            found.append((path, None))
    return tuple(found)
