"""May a shell command run without asking, because it surely only reads? Everything not surely understood asks.

The command is read by `words`, each simple command is looked up in `programs`, and every file it names goes through the
path layer. Nothing is run. git always asks here: a repository's own configuration can make a reading git command run
programs, and nobody has looked at it yet.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from qcode.safety import names
from qcode.safety.paths import Ground, anchored, home_of, judge_on
from qcode.safety.places import is_within
from qcode.safety.programs import PROGRAMS, VERSIONS, WRAPPERS
from qcode.safety.usage import Program, Role, Use, is_number, read_use
from qcode.safety.verdict import Verdict, strictest
from qcode.safety.words import Command, NotPlain, Word, parse

_MOST_MATCHES = 300
_MOST_ENTRIES = 20_000


Reader: TypeAlias = Callable[[str], Verdict]
"""Says whether a path may be read."""


class _Complaint(Exception):  # noqa: N818  # a finding, not a failure
    """Why a command has to be asked for."""


def judge_shell(
    command: str,
    root: Path,
    added: Iterable[Path] = (),
    *,
    home: Path | None = None,
    own: Iterable[Path] = (),
    read_only: Iterable[Path] = (),
    search_path: str = "",
) -> Verdict:
    """Return `allow` for a command that only reads what may be read, else `ask` with the reason. Never `deny`.

    The command is taken to run by `bash -c` in `root`. `search_path` is the PATH it will run with: a program found in
    the workspace first asks.
    """
    return judge_command(Ground(root, tuple(added), tuple(read_only), home, tuple(own)), command, search_path)


def judge_command(ground: Ground, command: str, search_path: str = "", reader: Reader | None = None) -> Verdict:
    """`judge_shell` with its folders in one value; `reader` replaces the path layer's answer for reading."""
    try:
        parts = parse(command)
    except NotPlain as found:
        return Verdict("ask", str(found), "shell:not-plain")
    return strictest(*(judge_part(ground, part, search_path, reader) for part in parts))


def judge_part(ground: Ground, part: Command, search_path: str = "", reader: Reader | None = None) -> Verdict:
    """Judge one simple command of a pipe or list."""
    try:
        _Check(ground, search_path, reader).command(part)
    except _Complaint as found:
        return Verdict("ask", str(found), "shell:not-read-only")
    return Verdict("allow", "it only reads", "shell:read-only")


def judge_inputs(ground: Ground, part: Command, reader: Reader | None = None) -> Verdict:
    """Judge only the files that a simple command reads through `<`."""
    try:
        for word in part.inputs:
            _Check(ground, "", reader).file(word)
    except _Complaint as found:
        return Verdict("ask", str(found), "shell:input")
    return Verdict("allow", "its input may be read", "shell:input")


@dataclass(frozen=True, slots=True)
class _Check:
    """Raises `_Complaint` for what is not surely harmless."""

    ground: Ground
    search_path: str
    reader: Reader | None

    def command(self, command: Command) -> None:
        for word in command.inputs:
            self.file(word)
        words = command.words
        while True:
            name = words[0].text
            if words[0] != Word(name):
                raise _Complaint("the name of the program is quoted or spelled in an unusual way")
            self._origin(name)
            wrapper = WRAPPERS.get(name)
            if wrapper is None:
                break
            words = self._unwrapped(name, wrapper, words[1:])
        self._program(name, words[1:])

    def _unwrapped(self, name: str, wrapper: Program, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """Return what a wrapper such as timeout runs."""
        use = read_use(replace(wrapper, is_ordered=True), words)
        if isinstance(use, str):
            raise _Complaint(f"{name}: {use}")
        self._words(name, [(word, wrapper.values[option]) for option, word in use.options if word is not None])
        inner = use.operands
        if wrapper.operands[0] == "number":
            self._words(name, [(word, "number") for word in inner[:1]])
            inner = inner[1:]
        if not inner:
            raise _Complaint(f"{name} has nothing to run")
        return inner

    def _program(self, name: str, words: tuple[Word, ...]) -> None:
        if len(words) == 1 and words[0].text in VERSIONS.get(name, ()):
            return
        if name == "git":
            raise _Complaint("git can run programs that the configuration of the repository names")
        known = PROGRAMS.get(name)
        if known is None:
            raise _Complaint(f"{name!r} is not in the list of programs that only read")
        use: Use | str
        if known.whole is not None:
            whole = known.whole(words)
            if isinstance(whole, str):
                raise _Complaint(f"{name}: {whole}")
            use, roles = whole
        else:
            use = read_use(known, words)
            if isinstance(use, str):
                raise _Complaint(f"{name}: {use}")
            roles = known.roles_of(use)
        complaint = known.check(use) if known.check is not None else ""
        if complaint:
            raise _Complaint(f"{name}: {complaint}")
        read: list[tuple[Word, Role]] = [(word, known.values[option]) for option, word in use.options if word]
        read += zip(use.operands, roles, strict=True)
        if "tree" in known.all_roles(use) and "tree" not in roles:
            read.append((Word("."), "tree"))
        self._words(name, read, use)

    def _words(self, name: str, words: list[tuple[Word, Role]], use: Use | None = None) -> None:
        for word, role in words:
            if role == "number" and not is_number(word.text):
                raise _Complaint(f"{name}: {word.text!r} is no number")
            if role in ("text", "number") and word.has_glob:
                raise _Complaint(f"{name}: a wildcard could become other arguments")
            if role in ("file", "tree"):
                for path in self.file(word):
                    if role == "tree":
                        self._tree(path, _Sieve.of(name, use or Use()))

    def file(self, word: Word) -> list[str]:
        """Return the paths that `word` means, all of which may be read."""
        if word.text == "-" or word == Word("/dev/null"):
            return []
        path = word.text
        if path.startswith("~") and not word.is_home:
            path = f"./{path}"
        paths = self._matches(path) if word.has_glob else [path]
        for one in paths:
            self._readable(one)
        return paths

    def _readable(self, path: str) -> None:
        verdict = judge_on(self.ground, path, "read") if self.reader is None else self.reader(path)
        if not verdict.is_allowed:
            raise _Complaint(f"{path}: {verdict.reason}")

    def _matches(self, pattern: str) -> list[str]:
        """Return what bash would make of a pattern with `*` and `?`: its matches, or itself where there are none."""
        parts = pattern.split("/")
        if any(char in parts[0] for char in "*?") or pattern.startswith("-"):
            raise _Complaint("a wildcard at the start of a word could become an option")
        if any(part.startswith(".") and any(char in part for char in "*?") for part in parts) or "**" in pattern:
            raise _Complaint("a wildcard whose meaning is not certain")
        start = anchored(pattern, glob.escape(str(self.ground.root)), glob.escape(home_of(self.ground)))
        matches = glob.iglob(start)  # noqa: PTH207  # bash's rules for dots, not pathlib's
        found = list(islice(matches, _MOST_MATCHES + 1))
        if len(found) > _MOST_MATCHES:
            raise _Complaint("a wildcard with very many matches")
        return found or [pattern]

    def _absolute(self, path: str) -> str:
        return anchored(path, str(self.ground.root), home_of(self.ground))

    def _origin(self, name: str) -> None:
        """Raise where bash would take `name` from the workspace, or from a shim that lets a project choose."""
        if "/" in name:
            raise _Complaint("a program named by its path")
        roots = [os.path.realpath(folder) for folder in (self.ground.root, *self.ground.added)]
        for folder in self.search_path.split(":") if self.search_path else ():
            here = Path(folder or ".") / name
            if not here.is_file() or not os.access(here, os.X_OK):
                continue
            reals = (os.path.realpath(here), os.path.realpath(here.parent))
            is_own = any(is_within(real, root) for real in reals for root in roots)
            if is_own or not folder.startswith("/") or here.parent.name == "shims":
                raise _Complaint(f"{name} would be the workspace's own {here}")
            return

    def _tree(self, path: str, sieve: _Sieve) -> None:
        """Raise where reading everything below `path` would, by name, read something that needs asking."""
        pending, left = [os.path.realpath(self._absolute(path))], _MOST_ENTRIES
        while pending:
            try:
                entries = list(islice(os.scandir(pending.pop()), left + 1))
            except OSError:
                continue
            left -= len(entries)
            if left < 0:
                raise _Complaint("it reads more files than can be looked at before")
            for entry in entries:
                if entry.is_symlink() or sieve.is_skipped(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending += [] if sieve.is_left_out(entry.name) else [entry.path]
                elif sieve.is_searched(entry.name):
                    self._entry(entry)

    def _entry(self, entry: os.DirEntry[str]) -> None:
        info = entry.stat(follow_symlinks=False)
        is_plain = stat.S_ISREG(info.st_mode) and info.st_nlink == 1
        is_named = names.is_secret(entry.name) or names.is_key(entry.name) or entry.name in _GIT_CONFIG
        if not is_plain or is_named or self.reader is not None:
            self._readable(entry.path)


_GIT_CONFIG = ("config", "config.worktree")


@dataclass(frozen=True, slots=True)
class _Sieve:
    """Which files below a folder a search looks at."""

    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    skips_hidden: bool = False

    @staticmethod
    def of(name: str, use: Use) -> _Sieve:
        if name == "rg":
            # A glob of rg brings hidden files back.
            is_all = use.has("-.", "--hidden", "-u", "--unrestricted", "--no-ignore", "-g", "--glob", "--iglob")
            return _Sieve(skips_hidden=not is_all)
        return _Sieve(use.values("--include"), use.values("--exclude-dir"))

    def is_skipped(self, name: str) -> bool:
        return self.skips_hidden and name.startswith(".")

    def is_left_out(self, folder: str) -> bool:
        """Return whether a folder holds nothing of the person: packages somebody published, or not searched at all."""
        return names.is_dependency_folder(folder) or folder in self.excludes

    def is_searched(self, name: str) -> bool:
        return not self.includes or any(fnmatchcase(name, pattern) for pattern in self.includes)
