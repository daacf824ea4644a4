"""The probe of a git repository: whether its settings are harmless, and which protected files it contains.

`git config --list` and `git rev-parse` run no other program. If the repository has a setting that is not in the list
of harmless ones, reading commands need approval. A gap in this list costs one approval; a gap in a list of dangerous
settings would let a program run. The user's own configuration is trusted. Sources: https://git-scm.com/docs/git-config
and git's source. `RepositoryContents` lists protected names in the index and in the history, and caches them until the
index or a ref changes. The result types are in `probes`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

from qcode.safety import protected_paths
from qcode.safety.launcher import ProgramUnavailable, find_program, run, safe_parts
from qcode.safety.paths import read_file_start, real_path
from qcode.safety.probes import Repository, TrackedFiles
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

    def _run(self, *arguments: str, timeout: float = _CONFIG_TIMEOUT_S) -> tuple[int, bytes]:
        argv = (self._git or "git", "-C", str(self._root), *arguments)
        return run(argv, hardened_environment(self._env, self._path), timeout)

    def _probe(self) -> tuple[tuple[str, ...], Repository]:
        """Return the files on which the result depends, and the result."""
        watched = tuple(_config_files(self._root, self._env))
        before = identity_of(watched)
        try:
            code, output = self._run("config", "--list", "--show-scope", "--show-origin", "-z")
            location_code, location = self._run("rev-parse", "--path-format=absolute", *_LOCATION_OPTIONS)
        except ProgramUnavailable as unavailable:
            return watched, Repository(f"the git configuration could not be listed: git {unavailable}")
        if code != 0:
            return watched, Repository("the git configuration could not be listed")
        settings = tuple(_settings(output.split(b"\0")))
        watched += tuple(self._origins(settings))
        if before != identity_of(watched[: len(before)]):
            return watched, Repository("the git configuration changed while it was checked")
        return watched, self._repository_of(settings, location if location_code == 0 else b"")

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
            code, output = self._run(*arguments, timeout=timeout)
        except ProgramUnavailable:
            return None
        return output if code == 0 else None

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
    if (location.top / ".gitmodules").exists():
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
    if (git_folder_path / "HEAD").exists():
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


Identity: TypeAlias = tuple[tuple[str, tuple[int, ...] | None], ...]
"""Each path with its modification time, change time, inode, device and size; None if it does not exist."""
RunGit: TypeAlias = Callable[..., bytes | None]
"""Runs git with a time limit in seconds and arguments; returns its output, or None if it failed or timed out."""

TIMEOUT_S = 2.0
_MAX_REF_FOLDERS = 2_000  # folders below `refs`
_MAX_TIPS = 2_000
"""The maximum number of tips (the last commits of all refs) of one search that the next search excludes."""
_MAX_EXCLUDED_REFS = 100
"""The maximum number of refs to files. A search excludes each of them."""
_MAX_ALTERNATES_BYTES = 64 * 1024
_MAX_ALTERNATES_DEPTH = 5
"""The maximum nesting of alternates, as in git: a repository borrows objects from one that borrows objects."""

_LINKABLE = (
    "HEAD", "config", "config.worktree", "index", "packed-refs", "shallow", "commondir", "gitdir", "objects", "refs",
    "logs", "info", "worktrees", "reftable", "refs/heads", "refs/remotes", "refs/tags", "objects/info",
    "objects/info/alternates", "objects/pack", "info/exclude", "info/attributes", "info/grafts",
    "info/sparse-checkout",
)  # fmt: skip
"""Parts of a repository that git reads and that could be links.

Loose objects and refs are not listed: git rejects a file without their format, so a link to another file shows nothing.
"""

_CANDIDATE = re.compile(
    rb"(?i)\.(?:env|pem|key|p12|pfx|ppk|jks|keystore|kdbx|netrc|pgpass|pypirc|htpasswd|git-credentials|s3cfg|boto)"
    rb"|credentials|id_|[^\n -~]"
)
"""Matches a part of every protected name. `[^\\n -~]` matches look-alikes, which contain a character outside ASCII."""


@dataclass(frozen=True, slots=True)
class _Ref:
    name: str
    object_id: bytes
    types: frozenset[bytes]
    """The type of the object, and of the tagged object if it is a tag."""


class RepositoryContents:
    """The protected files in the index and the history of a repository. `run` runs git in the workspace folder."""

    def __init__(self, run: RunGit, top: Path, git: Path, common: Path) -> None:
        self._run_git, self._top, self._git, self._common = run, top, git, common
        self._index_identity: Identity | None = None
        self._tracked_files: TrackedFiles | None = None
        self._folders: tuple[str, ...] = ()
        """The folders of the tracked files."""
        self._refs_identity: Identity | None = None
        self._history: tuple[str, ...] | None = ()
        self._checked_tips: tuple[str, ...] = ()
        self._has_timed_out = False

    def tracked_files(self) -> TrackedFiles | None:
        """Return the files in the index, or None if git could not list them in time."""
        identity = identity_of((f"{self._git}/index",))
        if self._tracked_files is None or identity != self._index_identity:
            self._tracked_files = self._list_index()
            self._index_identity = identity
        return self._tracked_files

    def linked_folder(self) -> str:
        """Return a folder with tracked files that is a link, empty if there is none.

        If the index cannot be listed, return "a folder", because one of its folders may be a link.
        """
        if self.tracked_files() is None:
            return "a folder"
        for folder in self._folders:
            try:
                if stat.S_ISLNK(os.lstat(f"{self._top}/{folder}").st_mode):
                    return folder
            except OSError:
                continue
        return ""

    def history_secrets(self) -> tuple[str, ...] | None:
        """Return the files with protected names in any commit that a ref or reflog reaches; None after a timeout.

        After a timeout, the history is not searched again.
        """
        identity = self._identity_of_refs()
        if self._has_timed_out or identity is None:
            return None
        if identity != self._refs_identity:
            self._history = self._search_history()
            self._has_timed_out = self._history is None
            self._refs_identity = identity
        return self._history

    def _list_index(self) -> TrackedFiles | None:
        listed = self._run_git(TIMEOUT_S, "ls-files", "--full-name", "-z", "--", ":/")
        if listed is None:
            return None
        files = frozenset(os.fsdecode(name) for name in listed.split(b"\0") if name)
        self._folders = tuple(sorted(_folders_of(files)))
        return TrackedFiles(files, tuple(sorted(file for file in files if is_secret_path(file))))

    def _search_history(self) -> tuple[str, ...] | None:
        """Return protected names among all objects. After the first search, git lists only new objects.

        `rev-list --objects` prints each object once, with one of its paths. It prints a file that a ref names directly
        without a path, so refs to files are excluded.
        """
        refs = self._list_refs()
        refs_to_files = [ref.name for ref in refs or () if b"blob" in ref.types]
        if refs is None or len(refs_to_files) > _MAX_EXCLUDED_REFS:
            return None
        excluded = [f"--exclude={name}" for name in refs_to_files]
        arguments = ("rev-list", "--objects", "--ignore-missing", *excluded, "--all", "--reflog", *self._heads())
        # Only the objects at which the search starts: commits, and trees and files that a reflog names directly.
        starts = self._run_git(TIMEOUT_S, *arguments, "--no-walk", "--filter=tree:0", "--")
        if starts is None:
            return None
        tags = {ref.object_id for ref in refs if b"tag" in ref.types}
        if any(b" " in line and line.partition(b" ")[0] not in tags for line in starts.splitlines()):
            return ("a file without a name",)
        tips = tuple(dict.fromkeys(ref.object_id.decode() for ref in refs if not ref.types & {b"blob", b"tree"}))
        excluded_tips = ("--not", *self._checked_tips) if self._checked_tips else ()
        listed = self._run_git(TIMEOUT_S, *arguments, *excluded_tips, "--")
        if listed is None and self._checked_tips:
            # A commit of the last search may have been removed.
            listed = self._run_git(TIMEOUT_S, *arguments, "--")
        if listed is None:
            return None
        paths = (line.partition(b" ")[2] for line in _lines_with(_CANDIDATE, listed))
        secrets = {path for path in map(os.fsdecode, paths) if path and is_secret_path(path)}
        # A longer list of tips does not fit on a command line, so the next search covers everything again.
        self._checked_tips = tips if len(tips) <= _MAX_TIPS else ()
        return tuple(sorted(secrets | set(self._history or ())))

    def _heads(self) -> list[str]:
        """Return names of commits outside `refs`, such as `FETCH_HEAD`."""
        try:
            return sorted(name for name in os.listdir(self._git) if re.fullmatch(r"[A-Z_]+_HEAD", name))  # noqa: PTH208  # names
        except OSError:
            return []

    def _list_refs(self) -> list[_Ref] | None:
        """Return all refs, None if git could not list them in time."""
        listed = self._run_git(
            TIMEOUT_S, "for-each-ref", "--format=%(objectname) %(objecttype) %(*objecttype) %(refname)"
        )
        if listed is None:
            return None
        fields = (line.split(b" ", 3) for line in listed.splitlines())
        return [
            _Ref(os.fsdecode(name), object_id, frozenset((object_type, tagged_type)))
            for object_id, object_type, tagged_type, name in fields
        ]

    def _identity_of_refs(self) -> Identity | None:
        """Return the identity of every file that names commits; None if there are too many."""
        folders = list(islice(_ref_folders(self._git, self._common), _MAX_REF_FOLDERS + 1))
        if len(folders) > _MAX_REF_FOLDERS:
            return None
        files = ["HEAD", "packed-refs", "shallow", "logs/HEAD", "logs/refs/stash", "reftable/tables.list"]
        files += self._heads()
        heads = sorted(str(head) for head in (self._common / "worktrees").glob("*/HEAD"))
        paths = {str(base / name) for base in (self._git, self._common) for name in files}
        return identity_of((*sorted(paths), *heads, *folders))


def git_folder_links(git: Path, common: Path) -> Iterator[str]:
    """Yield the real paths of the linked parts of a repository, and the folders from which it borrows objects."""
    for base in dict.fromkeys((str(git), str(common))):
        for name in _LINKABLE:
            path = f"{base}/{name}"
            if os.path.islink(path):  # noqa: PTH114  # plain text; this runs before each command
                yield real_path(path)
    yield from _alternates(f"{common}/objects", _MAX_ALTERNATES_DEPTH)


def identity_of(paths: Iterable[str]) -> Identity:
    """Return a value that differs if one of these files or folders was changed or replaced."""
    states: list[tuple[str, tuple[int, ...] | None]] = []
    for path in paths:
        try:
            info = os.stat(path)  # noqa: PTH116  # plain text
            states.append((path, (info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev, info.st_size)))
        except (OSError, ValueError):
            states.append((path, None))
    return tuple(states)


def _alternates(objects: str, depth: int) -> Iterator[str]:
    """Yield the folders of other repositories whose objects are used (https://git-scm.com/docs/gitrepository-layout)."""
    for line in (read_file_start(Path(f"{objects}/info/alternates"), _MAX_ALTERNATES_BYTES) or b"").splitlines():
        if line and not line.startswith(b"#"):
            folder = real_path(os.path.join(objects, os.fsdecode(line)))  # noqa: PTH118  # plain text
            yield folder
            if depth:
                yield from _alternates(folder, depth - 1)


def _ref_folders(git: Path, common: Path) -> Iterator[str]:
    """Yield the folders of refs. Git replaces the file of a ref, which changes its folder."""
    for base in dict.fromkeys((git, common)):
        for folder, _, _ in os.walk(base / "refs"):
            yield folder


def _folders_of(files: Iterable[str]) -> set[str]:
    """Return all parent folders of the files."""
    folders: set[str] = set()
    for file in files:
        folder = file.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def is_secret_path(path: str) -> bool:
    """Return whether a file in a repository has the name of a secret or a private key."""
    name = path.rpartition("/")[2]
    return _CANDIDATE.search(os.fsencode(name)) is not None and (
        protected_paths.is_secret(name) or protected_paths.is_key(name)
    )


def _lines_with(pattern: re.Pattern[bytes], text: bytes) -> Iterator[bytes]:
    """Yield the lines of a long text that match a pattern."""
    end = 0
    while (match := pattern.search(text, end)) is not None:
        start = text.rfind(b"\n", 0, match.start()) + 1
        end = text.find(b"\n", match.end())
        if end < 0:
            end = len(text)
        yield text[start:end]
