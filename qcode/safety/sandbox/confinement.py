"""The paths that a confined command may see and write, for each level and the folders of a session.

`Confinement` describes the confinement of one command, independent of the kind of sandbox. `confinement_for` derives
it from the folders of the session (`paths.SandboxScope`) and the names that `index` found. `program_folders` returns
the folders of the home that programs on the search path need. This module reads the disk and changes nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import qcode
from qcode.safety.paths import SandboxScope
from qcode.safety.probes import MAX_MASKED, WorkspaceContents
from qcode.safety.protected_paths import CREDENTIALS, STARTUP, is_history, is_system_secret, is_within, is_within_any
from qcode.safety.verdict import Level
from qcode.values import dataclass

EMPTY_FILE = str(Path(qcode.__file__).resolve().parent / "py.typed")
"""An empty file that always exists. Not /dev/null: it cannot be opened on a mount without devices (`grep -r` fails)."""


class PathLink(NamedTuple):
    """A symbolic link."""

    path: str
    target: str
    """The text of the link, which may be relative."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The confinement of one command. All paths are absolute, without links, and exist.

    If two paths are nested, the inner one applies, provided that it is in the same field or a later one.
    """

    level: Level
    readable: tuple[str, ...] = ()
    """Folders and files that a `read-only` command sees.

    A `workspace` command sees everything except temporary folders. In temporary folders it sees these paths, read-only.
    """
    links: tuple[PathLink, ...] = ()
    """Links on the way to the folders of the session."""
    empty_folders: tuple[str, ...] = ()
    """Folders that exist for a `read-only` command, empty except for readable paths below."""
    writable: tuple[str, ...] = ()
    """Folders in which a `workspace` command may write."""
    pinned_folders: tuple[str, ...] = ()
    """Folders that cannot be moved or removed, because a protected path is below them."""
    protected_paths: tuple[str, ...] = ()
    """Paths that are read-only although they are below a writable one."""
    hidden_paths: tuple[str, ...] = ()
    """Secrets outside the workspace: files that read as empty, folders that look empty."""
    masked_files: tuple[str, ...] = ()
    """Secret files in the workspace, which read as empty if the kind of sandbox supports it."""


SYSTEM_FOLDERS = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap",
)  # fmt: skip
"""Folders of the system that every command sees, if they exist."""
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108  # nothing is written there
# A home folder that contains one of these is not hidden.
_PROGRAM_FOLDERS = (*SYSTEM_FOLDERS, "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin")
_LIBRARY_FOLDERS = ("lib", "lib64", "libexec", "share")  # beside the `bin` of a prefix
_SHARED_PREFIXES = (".local",)
"""Prefixes in the home whose `share` contains data of all programs, including keyrings."""


def program_folders(search_path: str, home: str) -> tuple[str, ...]:
    """Return real paths, outside the system folders, of the programs on `search_path` and their libraries.

    For `PREFIX/bin` these are this folder and the libraries beside it. A virtual environment is shown with its base
    interpreter, and a folder of shims with everything that its manager installed. No path contains credentials or the
    home folder itself.
    """
    folders: list[str] = []
    for part in search_path.split(":"):
        if part.startswith("/"):
            folders += _program_paths(os.path.realpath(part), home)
    return tuple(dict.fromkeys(path for path in folders if _may_be_shown(path, home)))


def toolchain_folders(scope: SandboxScope) -> tuple[str, ...]:
    """Return the toolchains on the search path that lie in a temporary folder, which a sandbox hides.

    For `PREFIX/bin` it is the whole prefix, because a compiler reads more than libraries there: Go reads its sources.
    """
    toolchains: list[str] = []
    for part in scope.search_path.split(":"):
        folder = os.path.realpath(part) if part.startswith("/") else ""
        if not is_within_any(folder, TEMPORARY_FOLDERS) or folder in TEMPORARY_FOLDERS:
            continue
        prefix, name = os.path.split(folder)
        is_whole = name in ("bin", "sbin") and prefix not in TEMPORARY_FOLDERS
        toolchains.append(prefix if is_whole and not is_within(str(scope.root), prefix) else folder)
    return tuple(dict.fromkeys(path for path in toolchains if _may_be_shown(path, scope.home_path)))


def _program_paths(folder: str, home: str) -> Iterator[str]:
    """Yield the paths that the programs in one folder of the search path need; none for a folder of the system."""
    is_in_home = bool(home) and is_within(folder, home)  # the home may be in a system folder: /opt/jenkins
    is_system = not is_in_home and any(is_within(folder, system) for system in SYSTEM_FOLDERS)
    if is_system or not os.path.isdir(folder):  # noqa: PTH112  # text
        return
    prefix, name = os.path.split(folder)
    if name == "shims" and _may_be_shown(prefix, home):
        yield prefix
    elif os.path.exists(f"{prefix}/pyvenv.cfg") and _may_be_shown(prefix, home):  # noqa: PTH110  # text
        yield prefix
        base = os.path.dirname(os.path.realpath(f"{folder}/python"))  # noqa: PTH120  # text
        if not is_within(base, prefix):
            yield from _program_paths(base, home)
    else:
        yield folder
        if name in ("bin", "sbin") and prefix not in ("/", home):
            is_shared = any(prefix == f"{home}/{shared}" for shared in _SHARED_PREFIXES)
            for part in _LIBRARY_FOLDERS:
                is_excluded = os.path.islink(f"{prefix}/{part}") or (is_shared and part == "share")  # noqa: PTH114  # text
                if not is_excluded:
                    yield f"{prefix}/{part}"


def _may_be_shown(path: str, home: str) -> bool:
    """Return whether a path exists and contains neither the home folder nor credentials; never the root folder."""
    contains_home = path == "/" or (bool(home) and is_within(home, path))
    if contains_home or not os.path.lexists(path):
        return False
    return not any(is_within(f"{home}/{name}", path) for name in CREDENTIALS)


_MAX_LINKS = 40
"""The maximum number of links in a path on Linux (path_resolution(7))."""


def links_to(paths: Sequence[str], visible: Sequence[str]) -> tuple[PathLink, ...]:
    """Return the links on these paths outside the `visible` folders, in the order in which they are followed."""
    links: dict[str, str] = {}
    for path in paths:
        pending, current, count = path.split("/")[1:], "", 0
        while pending and count < _MAX_LINKS:
            part = pending.pop(0)
            step = f"{current}/{part}"
            if not os.path.islink(step):  # noqa: PTH114  # text
                current = step
                continue
            count += 1
            target = os.readlink(step)  # noqa: PTH115  # the text of the link, unchanged
            if not any(is_within(step, folder) for folder in visible):
                links[step] = target
            if target.startswith("/"):
                current = ""
            pending = [*(component for component in target.split("/") if component not in ("", ".")), *pending]
    return tuple(PathLink(path, target) for path, target in links.items())


MAX_PROTECTED = 200
"""The maximum number of protected paths that are mounted read-only. `guard` reverts changes of the others."""

_SYSTEM_SECRETS = (
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/security/opasswd", "/etc/krb5.keytab", "/etc/ssl/private",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MachineView:
    """The paths outside the workspace that a `read-only` command of a session sees. They rarely change."""

    readable: tuple[str, ...]
    links: tuple[PathLink, ...]
    hidden_paths: tuple[str, ...]


def machine_view(scope: SandboxScope) -> MachineView:
    """Return the current view for `scope` on this machine."""
    home = _home_to_hide(scope)
    system = tuple(entry for path in SYSTEM_FOLDERS for entry in _without_home(path, home))
    folders = _folders(scope)
    programs = program_folders(scope.search_path, scope.home_path)
    visible = [path for path in system if not os.path.islink(path)]  # noqa: PTH114  # text
    visible += [path for path in programs if not is_within_any(path, folders)]
    readable = tuple(path for path in visible if not is_within_any(path, set(visible) - {path}))
    paths = [*system, *_unresolved_roots(scope), *_absolute_parts(scope.search_path)]
    return MachineView(readable, links_to(paths, (*readable, *folders)), tuple(_system_secrets()))


def _home_to_hide(scope: SandboxScope) -> str:
    """Return the home folder, empty if there is none.

    Also return an empty string if the home contains system programs: the home of a daemon may be `/usr/sbin`.
    """
    home = scope.home_path
    return "" if not home or any(is_within(folder, home) for folder in _PROGRAM_FOLDERS) else home


def _without_home(folder: str, home: str) -> Iterator[str]:
    """Yield a folder if it exists. If the home is below it (`/opt/jenkins`), yield its entries except the home."""
    has_home = bool(home) and is_within(home, folder)
    if not has_home:
        if os.path.lexists(folder):
            yield folder
    elif folder != home:
        for name in _names_in(folder):
            yield from _without_home(f"{folder}/{name}", home)


def confinement_for(
    level: Level,
    scope: SandboxScope,
    contents: WorkspaceContents,
    *,
    view: MachineView | None = None,
) -> Confinement:
    """Return the confinement of a command of the session.

    `contents` are the protected files of the workspace. A git configuration without credentials stays readable.
    `view` is a recent result of `machine_view`.
    """
    if level == "read-only":
        return _read_only(scope, view or machine_view(scope), contents.secrets)
    folders = _folders(scope)
    if level == "workspace":
        protected = _real_targets((*contents.control_paths, *contents.control_path_links))
        protected_inside = [path for path in protected if is_within_any(path, folders)][:MAX_PROTECTED]
        return Confinement(
            level,
            links=links_to(_unresolved_roots(scope), folders),
            writable=folders,
            pinned_folders=_parents(protected_inside, folders),
            protected_paths=tuple(protected_inside),
            hidden_paths=_without_parents_of(folders, _secrets(scope)),
        )
    found_paths = (*contents.git_control_paths, *contents.control_path_links, *protected_outside(scope))
    protected = _real_targets(found_paths)[:MAX_PROTECTED]
    return Confinement(level, pinned_folders=_parents(protected, ("/",)), protected_paths=protected)


def checker_confinement(
    scope: SandboxScope, contents: WorkspaceContents, programs: Sequence[str], cache: str
) -> Confinement:
    """Return the confinement of a program that checks the workspace: it sees packages in the home, but no secrets.

    The program can write only to `cache`. `programs` are folders that it needs, even if they would be hidden.
    """
    folders = (*_folders(scope), *programs)
    return Confinement(
        "workspace",
        readable=tuple(dict.fromkeys(folders)),
        links=links_to(_unresolved_roots(scope), folders),
        writable=(cache,),
        hidden_paths=_without_parents_of(folders, _secrets(scope)),
        masked_files=tuple(path for path in contents.secrets if _is_file(path))[:MAX_PROTECTED],
    )


def _read_only(scope: SandboxScope, view: MachineView, masked: tuple[str, ...]) -> Confinement:
    folders = _folders(scope)
    real_paths = (os.path.realpath(path) for path in scope.readable)
    further = [path for path in real_paths if os.path.isdir(path) and not is_within_any(path, folders)]  # noqa: PTH112  # text
    readable = (*(path for path in view.readable if not is_within_any(path, folders)), *folders, *further)
    files = dict.fromkeys(path for path in masked if _is_file(path))
    hidden = [path for path in (*_secrets(scope), *view.hidden_paths) if is_within_any(path, readable)]
    if len(files) > MAX_MASKED:
        # Too many files to mask one by one: cover their parent folders instead, except for the folders of the session.
        parents = (os.path.dirname(path) for path in files)  # noqa: PTH120  # text
        hidden += [path for path in dict.fromkeys(parents) if path not in folders]
        files = dict.fromkeys(path for path in files if not is_within_any(path, hidden))
    home = scope.home_path
    return Confinement(
        "read-only",
        readable=readable,
        links=view.links,
        empty_folders=(home,) if home and not is_within_any(home, readable) else (),
        hidden_paths=_without_parents_of(folders, hidden),
        masked_files=tuple(files),
    )


def _without_parents_of(folders: Sequence[str], paths: Iterable[str]) -> tuple[str, ...]:
    """Return `paths` without those that are one of `folders`, or contain one."""
    return tuple(path for path in paths if not any(is_within(folder, path) for folder in folders))


def protected_outside(scope: SandboxScope) -> tuple[str, ...]:
    """Return the existing files outside the workspace that are read-only in every mode."""
    home = scope.home_path
    paths = [os.path.realpath(path) for path in scope.qcode_folders if path.exists()]
    if home:
        paths += [f"{home}/{name}" for name in (*STARTUP, *CREDENTIALS, ".ssh")]
        paths += [f"{home}/{name}" for name in _names_in(home) if is_history(name)]
    return tuple(dict.fromkeys(path for path in paths if os.path.lexists(path)))


def _unresolved_roots(scope: SandboxScope) -> list[str]:
    """Return the root and the added folders as the session names them, with their links."""
    return [str(scope.root), *map(str, scope.added_folders)]


def _folders(scope: SandboxScope) -> tuple[str, ...]:
    """Return the folders of the session, without folders that are inside another one."""
    folders = dict.fromkeys(scope.roots)
    if scope.scratch_path:
        folders[scope.scratch_path] = None
    return tuple(path for path in folders if not is_within_any(path, folders.keys() - {path}))


def _secrets(scope: SandboxScope) -> Iterator[str]:
    """Yield the folders of qcode and the existing credentials in the home folder, as real paths."""
    yield from (os.path.realpath(path) for path in scope.qcode_folders if path.is_dir())
    home = scope.home_path
    if not home:
        return
    names = _names_in(home)
    existing = {name.casefold() for name in names}
    # One listing instead of a system call for each path. The entries of `CREDENTIALS` are in lower case.
    credentials = [name for name in (*CREDENTIALS, ".ssh") if not names or name.partition("/")[0] in existing]
    paths = (f"{home}/{name}" for name in (*credentials, *filter(is_history, names)))
    yield from (os.path.realpath(path) for path in paths if os.path.exists(path))  # noqa: PTH110  # text


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208  # text
    except OSError:
        return []


def _system_secrets() -> Iterator[str]:
    """Yield the secrets of the system that this process can read. Most users can read none."""
    keys = [f"/etc/ssh/{name}" for name in _names_in("/etc/ssh")]
    for path in (*_SYSTEM_SECRETS, *filter(is_system_secret, keys)):
        if os.access(path, os.R_OK):
            yield os.path.realpath(path)


def _real_targets(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the real paths of the existing files; a link is replaced by its target."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))  # noqa: PTH110  # text


def _parents(paths: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """Return every folder between these paths and the innermost of `folders`, outer ones first."""
    parents: set[str] = set()
    for path in paths:
        base = max((folder for folder in folders if is_within(path, folder)), key=len)
        parent = os.path.dirname(path)  # noqa: PTH120  # text
        while len(parent) > len(base):
            parents.add(parent)
            parent = os.path.dirname(parent)  # noqa: PTH120  # text
    return tuple(sorted(parents))


def _absolute_parts(search_path: str) -> list[str]:
    return [part for part in search_path.split(":") if part.startswith("/")]


def depth(path: str) -> int:
    """Return the depth of a path. Mounts are made in order of depth, because a later mount would cover its children."""
    return path.count("/")


def _is_file(path: str) -> bool:
    """Return whether a path is a file, and not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False
