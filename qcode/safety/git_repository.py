"""The probe of a git repository: whether its settings are harmless, and where its folders are.

`git config --list` and `git rev-parse` run no other program. If the repository has a setting that is not in the list
of harmless ones, reading commands need approval. A gap in this list costs one approval; a gap in a list of dangerous
settings would let a program run. The user's own configuration is trusted. Sources: https://git-scm.com/docs/git-config
and git's source. `git_contents` lists the protected files of the repository; the result types are in `probes`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from qcode.safety.git_contents import Identity, RepositoryContents, git_folder_links, identity_of
from qcode.safety.launcher import ProgramResult, ProgramUnavailable, find_program, run, safe_parts
from qcode.safety.paths import read_file_start
from qcode.safety.probes import Repository
from qcode.values import dataclass

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
    ("grep.fallbackToNoIndex", "false"),
    ("log.diffMerges", "separate"),
    ("log.follow", "false"),
    ("log.showSignature", "false"),
    ("stash.showPatch", "false"),
    ("submodule.recurse", "false"),
    ("safe.bareRepository", "explicit"),
)
"""Settings that prevent reading commands from starting programs and writing files, as far as settings can."""

_HARDENED_VARIABLES = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_TRACE2": "0",
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
}
"""Variables that prevent git from asking, fetching, paging, writing locks and writing trace files."""
_HARMLESS_SETTINGS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|"
    r"eol|safecrlf|quotepath|abbrev|compression|loosecompression|bigfilethreshold|preloadindex|sparsecheckout|"
    r"sparsecheckoutcone|longpaths|protecthfs|protectntfs|trustctime|checkstat|splitindex|multipackindex|commitgraph|"
    r"whitespace|commentchar|hidedotfiles|sharedrepository|untrackedcache|notesref|deltabasecachelimit|"
    r"packedgitlimit|packedgitwindowsize|fsync|fsyncmethod|fsyncobjectfiles)"
    r"|extensions\.(?:worktreeconfig|objectformat|refstorage|relativeworktrees|noop)"
    r"|remote\..+\.(?:url|pushurl|fetch|push|prune|prunetags|tagopt|mirror|skipdefaultupdate|skipfetchall|gh-resolved)"
    r"|remote\.pushdefault|branch\..+\.[a-z0-9-]+|branch\.(?:autosetupmerge|autosetuprebase)"
    r"|(?:user|author|committer)\.(?:name|email|signingkey)|submodule\..+\.(?:url|active)"
    r"|submodule\.(?:active|recurse)|include\.path|includeif\..+\.path|(?:http|gui|gitflow)\..+"
    r"|(?:pull|fetch|rebase|rerere|advice|color|column|status|gc|maintenance|pack|index|feature|i18n|init|receive)\."
    r"[a-z]+(?:\.[a-z]+)?|log\.(?!showsignature)[a-z]+|push\.(?:default|autosetupremote|followtags)"
    r"|diff\.(?:renames|renamelimit|algorithm|mnemonicprefix|noprefix|colormoved|colormovedws|context|interhunkcontext|"
    r"indentheuristic|wordregex|wserrorhighlight|suppressblankempty|statgraphwidth|statnamewidth|dirstat|relative|"
    r"autorefreshindex|ignoresubmodules|submodule|tool|guitool)"
    r"|grep\.(?:linenumber|column|patterntype|extendedregexp|threads|fullname|fallbacktonoindex)"
    r"|blame\.(?:date|showemail|showroot|blankboundary|coloring|markunblamablelines|markignoredlines)"
    r"|stash\.(?:showpatch|showstat|showincludeuntracked)|(?:commit|tag)\.gpgsign"
    r"|merge\.(?:ff|conflictstyle|renamelimit|tool|guitool)|lfs\.(?:repositoryformatversion|.+\.(?:access|locksverify))"
)
"""Settings that name no program and no file to read, and never make git fetch; also settings in `OVERRIDES`.

Examples of excluded settings: `branch.sort` and `tag.sort` (a key may start a program), `format.pretty` and `pretty.*`
(signatures), `mailmap.*` and `core.excludesFile` (they show lines of other files), `diff.orderFile`, `core.worktree`.
"""

# Tools such as husky set the folder of hooks. `OVERRIDES` replaces it, so no reading command runs a hook.
_OVERRIDDEN = re.compile(r"core\.hookspath")
_REVISIONS_FILE = ".git-blame-ignore-revs"
"""The only permitted value of a setting of `git blame`: an error of git would show a line of any other file."""
_REVISIONS_FILE_ENTRY = f"blame.ignorerevsfile\n{_REVISIONS_FILE}".encode()

_CONFIG_TIMEOUT_S = 3.0
# A URL with a user name, which may be a token, and a URL of any scheme with a password. ssh needs a user name.
_CREDENTIALS = re.compile(
    rb"(?i)(?<![a-z0-9+.-])(?!(?:git\+)?ssh://)[a-z][a-z0-9+.-]*://[^/\s@]+@|://[^/\s:@]*:[^/\s@]+@"
)
_CREDENTIAL_NAMES = re.compile(r"extraheader|token|(?<!ask)pass|secret|oauth|api-?key|cookie", re.IGNORECASE)
_SUBMODULE_MODE = b"\x00\x00\xe0\x00"
"""The mode of an index entry that is another repository (https://git-scm.com/docs/index-format)."""

_MAX_POINTER_BYTES = 4096


def setting_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the environment variables that pass these settings to git."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (name, value) in enumerate(settings):
        variables |= {f"GIT_CONFIG_KEY_{index}": name, f"GIT_CONFIG_VALUE_{index}": value}
    return variables


def override_variables() -> dict[str, str]:
    """Return the environment under which reading commands of git run."""
    return {**_HARDENED_VARIABLES, **setting_variables(OVERRIDES)}


def hardened_environment(env: Mapping[str, str], path: str, settings: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """Return an environment in which neither qcode's variables nor the repository change the behavior of git.

    `settings` are added to `OVERRIDES`.
    """
    allowed = {name: env[name] for name in ("HOME", "XDG_CONFIG_HOME", "TMPDIR") if name in env}
    fixed = {"PATH": path, "LC_ALL": "C"}
    return allowed | fixed | _HARDENED_VARIABLES | setting_variables((*OVERRIDES, *settings))


def risky_settings(fields: Sequence[bytes]) -> Iterator[str]:
    """Yield the names of the repository's settings that are not in the list of harmless ones.

    `fields` is the split output of `git config --list --show-scope --show-origin -z`: scope, origin, and name with
    value, for each setting in turn.
    """
    return _risky_names(_settings(fields))


class _Setting(NamedTuple):
    """One setting in the output of `git config --list`."""

    scope: bytes
    origin: bytes
    entry: bytes
    """The name, a newline and the value."""

    @property
    def name(self) -> bytes:
        return self.entry.partition(b"\n")[0]


def _settings(fields: Sequence[bytes]) -> Iterator[_Setting]:
    """Return the settings; three fields in turn are one setting."""
    return map(_Setting, fields[::3], fields[1::3], fields[2::3])


def _risky_names(settings: Iterable[_Setting]) -> Iterator[str]:
    for setting in settings:
        name = setting.name.decode("utf-8", "replace")
        is_harmless = _HARMLESS_SETTINGS.fullmatch(name) or _OVERRIDDEN.fullmatch(name)
        if setting.scope in (b"local", b"worktree") and not is_harmless:
            yield name


@dataclass(frozen=True, slots=True)
class _Location:
    """The location of a folder's repository, as absolute paths with links resolved."""

    top: Path
    """The folder of the work tree."""
    git: Path
    """The `.git` folder."""
    common: Path
    """The `.git` folder that all work trees of the repository share; usually the same as `git`."""


class _ProbeResult(NamedTuple):
    """The state of a repository at one time."""

    watched_files: tuple[str, ...]
    """The files on which `repository` depends. A probe is needed again when one of them changes."""
    repository: Repository


class RepositoryProbe:
    """A probe of the repository of `root`. It caches the state until a file changes.

    `added_folders` are further folders of the session; the repository must be in one of them or in `root`.
    """

    def __init__(self, root: Path, env: Mapping[str, str], added_folders: Sequence[Path] = ()) -> None:
        folders = (root, *added_folders)
        path = env.get("PATH", "")
        self._root, self._env = root, env
        self._folders = tuple(folder.resolve() for folder in folders)
        self._git = find_program("git", path, folders)
        self._path = os.pathsep.join(safe_parts(path, *folders))
        self._watched_files: tuple[str, ...] = ()
        self._identity: Identity | None = None
        self._location: _Location | None = None
        self._contents: RepositoryContents | None = None
        self._location_of_contents: _Location | None = None
        self._repository = Repository()

    def __call__(self) -> Repository:
        """Return the current state of the repository."""
        if self._git is None:
            return Repository("no git outside the workspace was found")
        if self._identity is None or self._identity != identity_of(self._watched_files):
            self._location = None
            self._watched_files, self._repository = self._probe()
            self._identity = identity_of(self._watched_files)
        if self._location is not None and not self._repository.problem:
            outside_path = next(self._outside_paths(self._location), "")
            if outside_path:
                return Repository(f"the repository uses {outside_path}, which is outside the workspace")
        return self._repository

    def _run(self, *arguments: str, timeout: float = _CONFIG_TIMEOUT_S) -> ProgramResult:
        argv = (self._git or "git", "-C", str(self._root), *arguments)
        return run(argv, hardened_environment(self._env, self._path), timeout)

    def _probe(self) -> _ProbeResult:
        watched = tuple(_config_files(self._root, self._env))
        before = identity_of(watched)
        try:
            listed = self._run("config", "--list", "--show-scope", "--show-origin", "-z")
            location = self._run("rev-parse", "--path-format=absolute", *_LOCATION_OPTIONS)
        except ProgramUnavailable as unavailable:
            return _ProbeResult(watched, Repository(f"the git configuration could not be listed: git {unavailable}"))
        if listed.exit_code != 0:
            return _ProbeResult(watched, Repository("the git configuration could not be listed"))
        settings = tuple(_settings(listed.output.split(b"\0")))
        watched += tuple(self._origins(settings))
        if before != identity_of(watched[: len(before)]):
            return _ProbeResult(watched, Repository("the git configuration changed while it was checked"))
        repository = self._repository_of(settings, location.output if location.exit_code == 0 else b"")
        return _ProbeResult(watched, repository)

    def _origins(self, settings: Sequence[_Setting]) -> Iterator[str]:
        """Yield the configuration files and the files that they include, whether they exist or not."""
        for setting in settings:
            if not setting.origin.startswith(b"file:"):
                continue
            file = self._root / os.fsdecode(setting.origin.removeprefix(b"file:"))
            yield str(file)
            name, _, value = setting.entry.partition(b"\n")
            if name == b"include.path" or (name.startswith(b"includeif.") and name.endswith(b".path")):
                target = os.fsdecode(value)
                home = self._env.get("HOME", "")
                yield f"{home}{target[1:]}" if target.startswith("~/") else str(file.parent / target)

    def _repository_of(self, settings: Sequence[_Setting], output: bytes) -> Repository:
        """Return the result for these settings and the output of `git rev-parse`, empty outside a repository."""
        if not any(setting.scope == b"command" and setting.entry == b"core.fsmonitor\nfalse" for setting in settings):
            return Repository("this version of git cannot read settings from its environment; update to 2.31 or later")
        lines = output.removesuffix(b"\n").split(b"\n")
        if len(lines) != len(_LOCATION_OPTIONS):
            return Repository(is_present=False)
        location = _Location(*(Path(os.path.realpath(os.fsdecode(line))) for line in lines))
        problem = _risky_setting_problem(settings, location.top) or self._location_problem(location)
        if problem:
            return Repository(problem)
        if self._contents is None or self._location_of_contents != location:
            self._contents = RepositoryContents(self._run_for_contents, location.top, location.git, location.common)
            self._location_of_contents = location
        self._location = location
        contents = self._contents
        return Repository(
            has_submodules=_has_submodules(location),
            has_credentials=any(_is_credential(setting) for setting in settings if setting.scope != b"command"),
            top=str(location.top),
            find_tracked=contents.tracked_files,
            find_history_secrets=contents.history_secrets,
            find_linked_folder=contents.linked_folder,
        )

    def _run_for_contents(self, timeout: float, *arguments: str) -> bytes | None:
        try:
            result = self._run(*arguments, timeout=timeout)
        except ProgramUnavailable:
            return None
        return result.output if result.exit_code == 0 else None

    def _location_problem(self, location: _Location) -> str:
        """Return the reason why git needs approval: a folder outside the workspace; empty if all are inside."""
        for folder in (location.top, location.git, location.common):
            if not self._is_inside(folder):
                return f"the git repository is {folder}, outside the workspace"
        return ""

    def _outside_paths(self, location: _Location) -> Iterator[str]:
        """Yield paths outside the workspace that the repository uses, through a link or as borrowed objects."""
        for target in git_folder_links(location.git, location.common):
            if not self._is_inside(Path(target)):
                yield target

    def _is_inside(self, path: Path) -> bool:
        return any(path.is_relative_to(folder) for folder in self._folders)


_LOCATION_OPTIONS = ("--show-toplevel", "--git-dir", "--git-common-dir")


def _risky_setting_problem(settings: Sequence[_Setting], top: Path) -> str:
    """Return the reason why a setting makes reading commands need approval, empty if no setting does."""
    # If the permitted file is a link, git reads another file.
    is_link = (top / _REVISIONS_FILE).is_symlink()
    checked = (setting for setting in settings if is_link or setting.entry != _REVISIONS_FILE_ENTRY)
    name = next(_risky_names(checked), None)
    # The user's own diff program also needs approval, because no setting can turn it off.
    if name is None:
        names = (setting.name for setting in settings)
        name = next((os.fsdecode(other) for other in names if _DIFF_PROGRAM.fullmatch(other)), None)
    return f"the git configuration sets {name}, which may run a program" if name is not None else ""


_DIFF_PROGRAM = re.compile(rb"diff\.(?:external|.+\.command)")


def _is_credential(setting: _Setting) -> bool:
    name = setting.name.decode("utf-8", "replace")
    return _CREDENTIALS.search(setting.entry) is not None or _CREDENTIAL_NAMES.search(name) is not None


def _has_submodules(location: _Location) -> bool:
    """Return whether the index contains submodules, or `.gitmodules` exists."""
    if os.path.exists(location.top / ".gitmodules"):  # noqa: PTH110  # `Path.exists` raises for a link with a long name
        return True
    indexes = (location.git / "index", *location.git.glob("sharedindex.*"))
    return any(_SUBMODULE_MODE in (read_file_start(index) or b"") for index in indexes)


def _config_files(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Yield every file that determines the configuration of git in `root`, whether it exists or not."""
    for folder in (root, *root.parents):
        yield str(folder / ".git")
        yield str(folder / ".gitmodules")
        git = _git_folder(folder)
        if git is not None:
            common = _pointer_target(git / "commondir", git) or git
            yield str(git / "commondir")
            for candidate in (git, common):
                yield from (str(candidate / name) for name in ("config", "config.worktree", "HEAD", "index"))
            yield str(folder / _REVISIONS_FILE)
            break
    home = env.get("HOME", "")
    yield from (f"{home}/.gitconfig", f"{env.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config")


def _git_folder(folder: Path) -> Path | None:
    """Return the git folder of the work tree `folder`, which may be named in a `.git` file; None if it has none."""
    git_folder_path = folder / ".git"
    if os.path.exists(git_folder_path / "HEAD"):  # noqa: PTH110  # `Path.exists` raises for a folder of another user
        return git_folder_path
    return _pointer_target(git_folder_path, folder, "gitdir:")


def _pointer_target(file: Path, base: Path, prefix: str = "") -> Path | None:
    """Return the path in a file such as the `.git` of a linked work tree: `gitdir: ../x`, relative to `base`.

    Return None if the file cannot be read or its text lacks the prefix.
    """
    data = read_file_start(file, _MAX_POINTER_BYTES)
    if data is None:
        return None
    text = data.decode("utf-8", "replace").strip()
    return base / text.removeprefix(prefix).strip() if text.startswith(prefix) else None
