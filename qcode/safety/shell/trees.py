"""What a search through a folder would read: looked at by name, and at git's own configuration by what is in it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import islice

from qcode.protocol.values import dataclass
from qcode.safety import names
from qcode.safety.shell.usage import Use
from qcode.safety.verdict import Verdict

_MOST_ENTRIES = 20_000
_MOST_OF_CONFIG = 64 * 1024
_GIT_CONFIG = ("config", "config.worktree")
_CREDENTIALS = re.compile(rb"://[^/\s]*@|extraheader|token|password|secret|oauth", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sieve:
    """Which files below a folder a search looks at."""

    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    skips_hidden: bool = False
    skips_links: bool = False

    @staticmethod
    def of(name: str, use: Use) -> Sieve:
        """Return what the options of `grep`, `rg` or another program leave out."""
        if name == "rg":
            # A glob of rg brings hidden files back.
            is_all = use.has("-.", "--hidden", "-u", "--unrestricted", "--no-ignore", "-g", "--glob", "--iglob")
            return Sieve(skips_hidden=not is_all)
        return Sieve(use.values("--include"), use.values("--exclude-dir"))

    def is_skipped(self, name: str) -> bool:
        return self.skips_hidden and name.startswith(".")

    def is_left_out(self, folder: str) -> bool:
        """Return whether a folder holds nothing of the person: packages somebody published, or not searched at all."""
        return names.is_dependency_folder(folder) or folder in self.excludes

    def is_searched(self, name: str) -> bool:
        return not self.includes or any(fnmatchcase(name, pattern) for pattern in self.includes)


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below a folder. `judges_all`: `judge` has to be asked about every file.

    `follows`: a link may be read as well, and `enters`: so may all that is in a folder it leads to. Nothing is left out
    then: packages somebody published hold links too. `splitting` are characters no name may hold.
    """

    judge: Callable[[str], Verdict]
    sieve: Sieve
    judges_all: bool = False
    follows: bool = False
    enters: bool = False
    splitting: str = ""

    def why_not(self, folder: str) -> str:
        """Return why reading all of the absolute `folder` needs asking, empty where it does not."""
        pending, left = [os.path.realpath(folder)], _MOST_ENTRIES
        while pending:
            try:
                with os.scandir(pending.pop()) as scanned:
                    entries = list(islice(scanned, left + 1))
            except OSError:
                continue
            left -= len(entries)
            if left < 0:
                return "it reads more files than can be looked at before"
            for entry in entries:
                if self.splitting and not set(self.splitting).isdisjoint(entry.name):
                    return f"{entry.path!r}: a name that could become other arguments"
                if self.sieve.is_skipped(entry.name):
                    continue
                if entry.is_symlink():
                    if self.follows and not self.sieve.skips_links and (reason := self._why_not_link(entry)):
                        return reason
                elif entry.is_dir(follow_symlinks=False):
                    pending += [] if not self.follows and self.sieve.is_left_out(entry.name) else [entry.path]
                elif self.sieve.is_searched(entry.name) and (reason := self._why_not_entry(entry)):
                    return reason
        return ""

    def _why_not_link(self, entry: os.DirEntry[str]) -> str:
        if self.enters and os.path.isdir(entry.path):  # noqa: PTH112  # takes links in a circle, unlike the entry
            return f"{entry.path}: a link to a folder"
        verdict = self.judge(entry.path)
        return "" if verdict.is_allowed or not self.sieve.is_searched(entry.name) else f"{entry.path}: {verdict.reason}"

    def _why_not_entry(self, entry: os.DirEntry[str]) -> str:
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            return ""
        is_plain = stat.S_ISREG(info.st_mode) and info.st_nlink == 1
        is_config = entry.name in _GIT_CONFIG
        is_named = names.is_secret(entry.name) or names.is_key(entry.name) or is_config
        if is_plain and not is_named and not self.judges_all:
            return ""
        verdict = self.judge(entry.path)
        if verdict.is_allowed or (is_config and verdict.rule == "path:git" and _is_without_credentials(entry.path)):
            return ""
        return f"{entry.path}: {verdict.reason}"


def _is_without_credentials(path: str) -> bool:
    """Return whether a configuration of git says nothing that a search could not show: it asks for what it can hide."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        data = os.read(descriptor, _MOST_OF_CONFIG + 1)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return len(data) <= _MOST_OF_CONFIG and _CREDENTIALS.search(data) is None
