"""The path layer: verdicts on reading or writing a file, based on the text of a path and on its real target.

It inspects links, file types and the first bytes of a file, and changes nothing. A verdict holds in every approval
mode: `ask` means that the user is asked, `deny` that no approval is possible. `follow` resolves the components of a
path in the same order as the kernel, link by link. `protected_paths` has the tables of names and locations.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path

from qcode.safety import protected_paths
from qcode.safety.verdict import Access, Verdict, strictest
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

SENSITIVE_FILE = "path:secret"
"""The check whether a file has the name or the first bytes of a secret."""

_URL = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ESCAPE = lazy_pattern(r"[\x1b\x80-\x9f]")
_KEY_START = lazy_pattern(rb"\s*-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File-|\s*AGE-SECRET-KEY-")
_KEY_START_BYTES = 128
_identity_of = attrgetter("st_dev", "st_ino", "st_nlink", "st_size", "st_ctime_ns")
files_without_key: set[tuple[int, ...]] = set()
"""Identities of files with one hard link that do not start like a key.

Programs cannot set the ctime of a file, so a changed file has another identity.
"""
_MAX_FILES_WITHOUT_KEY = 10_000  # then the cache is cleared
TICK_NS, _COARSE_TICK_NS = 20_000_000, 2_000_000_000
"""The maximum time between two ticks of a file system's clock: for timestamps with fractions, and for whole seconds."""
MAX_PATH = 4_096
"""The maximum length of a path on Linux. Resolving the links of a longer one would take quadratic time."""
_MAX_LINKS = 40
"""The maximum number of links in a path; with more, it counts as a loop, as on Linux (path_resolution(7))."""
_QCODE_FOLDERS = (".config/qcode", ".local/state/qcode", ".local/share/qcode", ".cache/qcode")
"""The default folders of qcode, relative to the home folder."""
_UNUSED_NAME = "qcode-unused-name"
"""An ordinary name that no file has: it stands for every ordinary name in a folder."""
_MIN_NAMES = 4
"""The minimum number of names in a folder for which judging the folder first is faster."""


@dataclass(frozen=True, slots=True)
class SessionFolders:
    """The folders of a session, for the path layer."""

    root: Path
    added_folders: tuple[Path, ...] = ()
    """These folders are treated like the root."""
    read_only: tuple[Path, ...] = ()
    """Writing to these folders needs approval."""
    home: Path | None = None
    """The home folder; None for the home folder of the user who runs qcode."""
    qcode_folders: tuple[Path, ...] = ()
    """The folders of qcode besides the default ones in `home`."""


@dataclass(frozen=True, slots=True)
class SandboxScope:
    """The folders of a session, for its sandbox."""

    root: Path
    added_folders: tuple[Path, ...] = ()
    """These folders are treated like the root."""
    scratch: Path | None = None
    """A folder for temporary files, private to the session."""
    home: Path | None = None
    qcode_folders: tuple[Path, ...] = ()
    """The folders of qcode, which no command needs."""
    search_path: str = ""
    """The PATH of the session's shell commands."""
    readable: tuple[Path, ...] = ()
    """Further folders that a command may read, such as those of loaded skills."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The real paths of the root and the added folders."""
        return tuple(dict.fromkeys(os.path.realpath(path) for path in (self.root, *self.added_folders)))

    @property
    def home_path(self) -> str:
        return "" if self.home is None else os.path.realpath(self.home)

    @property
    def scratch_path(self) -> str:
        return "" if self.scratch is None else os.path.realpath(self.scratch)


def judge_path(session_folders: SessionFolders, path: str, access: Access) -> Verdict:
    """Return the verdict for reading or writing `path`, which is relative to the root, absolute, or below `~/`.

    Variables such as `${HOME}` are not expanded.
    """
    return PathJudge(session_folders).judge(path, access)


class PathJudge:
    """The judge of paths for one tool call. It caches folders and their links, so it must not outlive the call."""

    def __init__(self, session_folders: SessionFolders) -> None:
        self.session_folders = session_folders
        self.home = home_of(session_folders)
        homes, read_only = _with_real_paths((Path(self.home),)), _with_real_paths(session_folders.read_only)
        self._homes, self._read_only = homes, read_only
        self.root_paths = _with_real_paths((session_folders.root,))
        self.roots = tuple(dict.fromkeys((*self.root_paths, *_with_real_paths(session_folders.added_folders))))
        self._qcode_folders = (
            *_with_real_paths(session_folders.qcode_folders),
            *(f"{home}/{name}" for home in homes for name in _QCODE_FOLDERS),
        )
        self._folders: dict[str, ResolvedPath] = {}
        special = (*homes, *read_only, *self.roots, *self._qcode_folders)
        self._special_names = frozenset(folder.rpartition("/")[2].casefold() for folder in special)
        """The names of these folders: a folder with one of these names may be one of them."""

    def judge(self, path: str, access: Access) -> Verdict:
        """Return the verdict for reading or writing `path`."""
        problem = _text_problem(path)
        if problem:
            return Verdict("deny", problem, "path:malformed")
        resolved = self.resolve(path)
        if resolved.is_loop:
            return Verdict("deny", "its symbolic links form a loop", "path:loop")
        verdict = strictest(Verdict("allow", "in the workspace", "path:workspace"), *self._objections(resolved, access))
        if protected_paths.has_unclear_characters(path) or protected_paths.has_unclear_characters(resolved.target):
            verdict = strictest(verdict, Verdict("ask", "its name contains invisible characters", "path:unclear"))
        if verdict.is_allowed and resolved.info is not None and _starts_like_a_key(resolved.target, resolved.info):
            return Verdict("ask", "it contains a private key", SENSITIVE_FILE)
        return verdict

    def names_to_judge(self, prefix: str, names: list[str]) -> list[str]:
        """Return the names that must be judged one by one with `judge(f"{prefix}{name}", "read")`.

        All other names may be read; this check is many times cheaper than `judge`. `prefix` is empty or ends with a
        slash. The folder is judged once, with an unused ordinary name. If the verdict is `allow`, it also holds for
        every subfolder and every regular file with an ordinary name. The file must have one hard link and contain no
        private key.
        """
        unused = f"{prefix}{_UNUSED_NAME}"
        if len(names) < _MIN_NAMES or not self.judge(unused, "read").is_allowed:
            return names
        folder = self._folders.get(absolute_path(unused, str(self.session_folders.root), self.home).rpartition("/")[0])
        if folder is None:
            return names
        try:
            descriptor = os.open(folder.target, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return names
        ordinary = list(filter(protected_paths.is_ordinary_name, names))
        if not self._special_names.isdisjoint(map(str.casefold, ordinary)):
            ordinary = [name for name in ordinary if name.casefold() not in self._special_names]
        try:
            existing, infos = _stat_all(ordinary, descriptor)
            if len(existing) == len(names) and files_without_key.issuperset(map(_identity_of, infos)):
                return []  # the usual case: every name is ordinary, and its file was read before
            pairs = zip(existing, infos, strict=True)
            readable = {name for name, info in pairs if _is_readable(name, info, descriptor)}
        finally:
            os.close(descriptor)
        return [name for name in names if name not in readable]

    def resolve(self, path: str) -> ResolvedPath:
        """Resolve `path`. Its folder is resolved once and cached."""
        absolute = absolute_path(path, str(self.session_folders.root), self.home)
        folder, _, name = absolute.rpartition("/")
        if name in ("", ".", "..") or not folder:
            return follow(absolute)
        if folder not in self._folders:
            self._folders[folder] = follow(folder)
        parent = self._folders[folder]
        target = f"{parent.target.rstrip('/')}/{name}"
        info = _stat(target)
        if parent.is_loop or (info is not None and stat.S_ISLNK(info.st_mode)):
            return follow(absolute)
        return ResolvedPath(tuple(f"{linked.rstrip('/')}/{name}" for linked in parent.chain), target, info)

    def _objections(self, resolved: ResolvedPath, access: Access) -> Iterator[Verdict]:
        """Yield a verdict for each reason against the access, in the order of the path's symlink chain.

        The location outside the workspace comes last: an equally strict reason, such as a secret name, says more.
        """
        is_folder = resolved.info is not None and stat.S_ISDIR(resolved.info.st_mode)
        for path in resolved.chain:
            yield from self._judge_path(path, access, is_folder=is_folder)
        yield from _judge_file_kind(resolved, access)
        yield from _judge_existing(resolved)
        for path in resolved.chain:
            if not self._folders_with(path) and not any(self._protected_locations(path)):
                yield _verdict_for(protected_paths.judge_outside_path(path, self._homes), access)

    def _folders_with(self, path: str) -> list[str]:
        """Return the folders of the workspace that contain `path`."""
        return [folder for folder in (*self.roots, *self._read_only) if protected_paths.is_within(path, folder)]

    def _judge_path(self, path: str, access: Access, *, is_folder: bool) -> Iterator[Verdict]:
        for protected in self._protected_locations(path):
            yield _verdict_for(protected, access)
        containing_folders = self._folders_with(path)
        folder = max(containing_folders, key=len, default="")
        parts = tuple(part for part in path.removeprefix(folder).split("/") if part)
        yield from _judge_names(parts, access, is_folder=is_folder)
        if access == "write" and containing_folders and not parts:
            yield Verdict("deny", "it is the workspace folder itself", "path:root")
        if access == "write" and folder in self._read_only and folder not in self.roots:
            yield Verdict("ask", "the folder was added as read-only", "path:read-only")

    def _protected_locations(self, path: str) -> Iterator[protected_paths.LocationVerdict]:
        """Return the verdicts of the tables on the location of `path`."""
        verdicts = [protected_paths.judge_kernel_path(path)]
        verdicts += [
            protected_paths.judge_home_path(path.removeprefix(home).strip("/"))
            for home in self._homes
            if path != home and protected_paths.is_within(path, home)
        ]
        # A folder of qcode that the session may read, such as a skill of the user, is not protected like the others.
        folders = (folder for folder in self._read_only if protected_paths.is_within_any(folder, self._qcode_folders))
        if not protected_paths.is_within_any(path, folders):
            verdicts.append(protected_paths.judge_qcode_path(path, self._qcode_folders))
        return (protected for protected in verdicts if protected is not None)


def absolute_path(path: str, root: str, home: str) -> str:
    """Return `path` as an absolute path: `~` stands for the home folder, other relative paths start at `root`."""
    if path == "~" or path.startswith("~/"):
        return f"{home}{path[1:]}"
    return path if path.startswith("/") else f"{root}/{path}"


def _text_problem(path: str) -> str:
    """Return why the text cannot be used as a path, empty if it can."""
    if not path.strip():
        return "the path is empty"
    if "\0" in path:
        return "the path contains a NUL character"
    if not _can_be_encoded(path):
        return "the path contains half of a character (a lone surrogate)"
    if len(path) > MAX_PATH:
        return "the path is longer than any path that can be opened"
    if _ESCAPE.search(path):
        return "the path contains a terminal escape sequence"
    if _URL.match(path):
        return "this is a URL, not a path"
    return ""


def _can_be_encoded(path: str) -> bool:
    """Return whether a file can have this name. `\\udc80` to `\\udcff` stand for bytes that are not valid UTF-8."""
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _judge_names(parts: tuple[str, ...], access: Access, *, is_folder: bool) -> Iterator[Verdict]:
    """Judge the names of the components of a path, without the workspace folder that contains it.

    Other systems read a backslash as a separator, and a colon as the start of a stream's name.
    """
    names = [name.partition(":")[0] for part in parts for name in part.split("\\")]
    folded = [protected_paths.fold(name) for name in names]
    if any(map(protected_paths.is_git_look_alike, names)):
        look_alike = protected_paths.LocationVerdict("ask", "deny", "it is a look-alike of .git", "path:git")
        yield _verdict_for(look_alike, access)
    if ".git" in folded:
        is_config = folded[-1] in ("config", "config.worktree")
        reason = "git's configuration can run programs" if is_config else "only git may write in .git"
        if is_config or access == "write":
            yield _verdict_for(protected_paths.LocationVerdict("ask", "deny", reason, "path:git"), access)
    if parts and not is_folder and protected_paths.is_secret(parts[-1]):
        yield Verdict("ask", "files with this name contain secrets", SENSITIVE_FILE)
    if access == "write" and protected_paths.is_control_path(parts):
        yield Verdict("ask", protected_paths.control_path_reason(parts), "path:steering")
    if access == "write" and any(map(protected_paths.is_dependency_folder, parts)):
        yield Verdict("ask", "it is part of an installed dependency", "path:dependency")


def _judge_file_kind(resolved: ResolvedPath, access: Access) -> Iterator[Verdict]:
    if resolved.info is None or stat.S_ISDIR(resolved.info.st_mode):
        return
    if not stat.S_ISREG(resolved.info.st_mode):
        yield Verdict("deny", "it is a device, pipe or socket", "path:kernel")
    elif resolved.info.st_nlink > 1:
        yield Verdict("ask", "the file has several hard links, so it also exists elsewhere", "path:hard-link")
    elif access == "write" and not resolved.info.st_mode & 0o222:
        yield Verdict("ask", "the file is read-only", "path:read-only")


def _judge_existing(resolved: ResolvedPath) -> Iterator[Verdict]:
    """Judge names that matter only for existing files, or for new files in existing folders."""
    is_file = resolved.info is not None and stat.S_ISREG(resolved.info.st_mode)
    names = [path.rsplit("/", 1)[-1] for path in resolved.chain]
    is_new = resolved.info is None and os.path.isdir(os.path.dirname(resolved.target))  # noqa: PTH112, PTH120  # text, as in `follow`
    if (is_file and any(map(protected_paths.is_key, names))) or (
        is_new and any(map(protected_paths.is_ssh_key, names))
    ):
        yield Verdict("ask", "files with this name contain private keys", SENSITIVE_FILE)


def _starts_like_a_key(path: str, info: os.stat_result, folder: int | None = None) -> bool:
    """Return whether a file starts with a private key. `path` may be relative to an open `folder`."""
    if not stat.S_ISREG(info.st_mode) or _identity_of(info) in files_without_key:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    try:
        start_ns, opened = time.time_ns(), os.fstat(descriptor)
        if _KEY_START.match(os.read(descriptor, _KEY_START_BYTES)) is not None:
            return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    if stat.S_ISREG(opened.st_mode) and is_ctime_final(opened, start_ns):
        if len(files_without_key) >= _MAX_FILES_WITHOUT_KEY:
            files_without_key.clear()
        if opened.st_nlink == 1:
            files_without_key.add(_identity_of(opened))
    return False


def is_ctime_final(info: os.stat_result, now_ns: int) -> bool:
    """Return whether each change of a file or folder after `now_ns` is certain to give it another ctime."""
    tick_ns = _COARSE_TICK_NS if info.st_ctime_ns % 1_000_000_000 == 0 else TICK_NS
    return info.st_ctime_ns < now_ns - tick_ns


def _stat_all(names: list[str], folder: int) -> tuple[list[str], list[os.stat_result]]:
    """Return the names that exist in an open folder, and the status of each."""
    try:
        return names, [os.stat(name, dir_fd=folder, follow_symlinks=False) for name in names]
    except OSError:
        if len(names) == 1:
            return [], []
        half = len(names) // 2
        (first, infos), (second, more) = _stat_all(names[:half], folder), _stat_all(names[half:], folder)
        return first + second, infos + more


def _is_readable(name: str, info: os.stat_result, folder: int) -> bool:
    """Return whether a file or subfolder with an ordinary name may certainly be read if its folder may be read."""
    if _identity_of(info) in files_without_key:
        return True
    if stat.S_ISREG(info.st_mode):
        return info.st_nlink == 1 and not _starts_like_a_key(name, info, folder)
    return stat.S_ISDIR(info.st_mode)


def _verdict_for(location: protected_paths.LocationVerdict, access: Access) -> Verdict:
    return Verdict(location.read if access == "read" else location.write, location.reason, location.check)


def home_of(session_folders: SessionFolders) -> str:
    """Return the user's home folder."""
    home = session_folders.home
    if home is None:
        home = Path(os.path.expanduser("~"))  # noqa: PTH111  # never raises
    return str(home)


def _with_real_paths(folders: Iterable[Path]) -> tuple[str, ...]:
    """Return each folder as given and with its links resolved, because a path may use either form."""
    paths: list[str] = []
    for folder in folders:
        paths += [os.path.normpath(folder), os.path.realpath(folder)]
    return tuple(dict.fromkeys(paths))


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A path and its resolution."""

    chain: tuple[str, ...]
    """The normalized path as given, and after each resolved symlink."""
    target: str
    """The path with every link resolved."""
    info: os.stat_result | None
    """The status of the target, None if it does not exist."""
    is_loop: bool = False


def real_path(path: str) -> str:
    """Return the absolute `path` with its links resolved, like `os.path.realpath`, but never raise an exception.

    A link that the system does not let this process read, such as `/proc/1/root`, stays in the path.
    """
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return follow(path).target


def follow(path: str) -> ResolvedPath:
    """Resolve the absolute `path` link by link; missing components are kept as given. Never raises an exception."""
    chain = [os.path.normpath(path)]
    pending = deque(path.split("/"))
    current, links = "/", 0
    while pending:
        part = pending.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            current = os.path.dirname(current)  # noqa: PTH120  # plain text, and pathlib would fold the root's parent
            continue
        step = f"{current.rstrip('/')}/{part}"
        link = _link_at(step)
        if link is None:
            current = step
            continue
        links += 1
        if links > _MAX_LINKS:
            return ResolvedPath(tuple(chain), step, None, is_loop=True)
        if link.startswith("/"):
            current = "/"
        pending.extendleft(reversed(link.split("/")))
        chain.append(os.path.normpath("/".join([current, *pending])))
    chain.append(current)
    return ResolvedPath(tuple(dict.fromkeys(chain)), current, _stat(current))


def _link_at(path: str) -> str | None:
    info = _stat(path)
    if info is None or not stat.S_ISLNK(info.st_mode):
        return None
    try:
        return os.readlink(path)  # noqa: PTH115  # the text of the link, unchanged
    except OSError:
        return None


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def read_file_start(path: Path, max_bytes: int = -1) -> bytes | None:
    """Return the first bytes of a file, -1 for all; None if it cannot be read, or is a pipe or device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)
