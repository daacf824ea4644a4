"""May the files that a word names be read unasked? Looks at the disk: at what wildcards match and folders hold."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from qcode.protocol.values import dataclass
from qcode.safety.paths import Ground, anchored, home_of, judge_on
from qcode.safety.shell import git
from qcode.safety.shell.forms import Found, Word
from qcode.safety.shell.trees import Sieve, Tree
from qcode.safety.verdict import Verdict

PATH = "shell:path"
"""The rule of a verdict that a file decided, whatever the program."""

_MOST_MATCHES = 300
_WILD = re.compile(r"[*?]")
_PLAIN_NAME = re.compile(r"[\w@%+=:,./^-]+", re.ASCII)
_SPLITTING = {"nul": "\0", "line": "\n\\", "word": " \t\n\\'\"*?["}
"""Characters of a name that would end it or change it where it is read."""

Reader: TypeAlias = Callable[[str], Verdict]
"""Says whether a path may be read."""


Walked: TypeAlias = dict[tuple[object, ...], str]


class Complaint(Exception):  # noqa: N818  # a finding, not a failure
    """Why a command has to be asked for; `rule` names what decided."""

    rule = "shell:not-read-only"


class PathComplaint(Complaint):
    """A file it names may not be read unasked, whatever the program."""

    rule = PATH


@dataclass(frozen=True, slots=True)
class Reads:
    """Raises `Complaint` for files that may not be read, as a command names them that runs in the folder `place`."""

    ground: Ground
    reader: Reader | None
    place: str
    walked: Walked
    """What was said of folders already, for as long as one command is judged."""

    def file(self, word: Word, *, may_lead: bool = False) -> list[str]:
        """Return the paths that `word` means, all of which may be read."""
        if word.found is not None:
            self._found(word.found, Sieve(word.found.names, skips_links=word.found.is_plain))
            return []
        if word.unknown:
            raise Complaint("it reads a file whose name is not known")
        if word.text == "-" or (word.text == "/dev/null" and not word.has_glob):
            return []
        path = word.text
        if path.startswith("~") and not word.is_home:
            path = f"./{path}"
        paths = self._matches(path, may_lead=may_lead) if word.has_glob else [path]
        if word.is_split and not all(_PLAIN_NAME.fullmatch(one) for one in paths):
            raise Complaint("a name without quotes that could become other arguments")
        for one in paths:
            self._readable(one)
        return paths

    def tree(self, word: Word, sieve: Sieve, *, may_lead: bool = False) -> None:
        """Check everything below the folders that `word` means."""
        if word.found is not None:
            # What is in a folder that was found was not looked for by its name.
            narrowed = Sieve(word.found.names, skips_links=True) if word.found.is_plain else Sieve()
            self._found(word.found, narrowed, enters_links=True)
            return
        for path in self.file(word, may_lead=may_lead):
            self._walk(Tree(self._verdict, sieve, judges_all=self.reader is not None), self._absolute(path))

    def tracked(self, name: str, word: Word) -> None:
        """Judge a revision or path: git reads no file outside the repository, unless it is told to by such a path."""
        if word.has_glob or word.is_home or not word.is_known:
            raise Complaint(f"{name}: what is not known could become other arguments")
        _, colon, below = word.text.rpartition(":")
        path = git.without_magic(word.text) if word.text.startswith(":") else below if colon else word.text
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise Complaint(f"{name}: {word.text!r} may be outside the workspace")
        if path:
            self._readable(f"./{path}")

    def folder(self, path: str) -> None:
        """Check that a folder may be looked into."""
        self._readable(path)

    def _found(self, found: Found, sieve: Sieve, *, enters_links: bool = False) -> None:
        """Check what may be among names that another command prints: everything that is there now."""
        if found.starts and found.place not in ("", self.place):
            raise Complaint("names of files from another folder")
        for start in found.starts:
            self._readable(start)
            folder = self._absolute(start)
            if not os.path.isdir(folder):  # noqa: PTH112  # plain text
                if os.path.isfile(folder):  # noqa: PTH113  # plain text
                    continue
                raise Complaint(f"{start}: nobody can say which files are there")
            tree = Tree(
                self._verdict,
                sieve,
                judges_all=self.reader is not None,
                follows=True,
                enters=enters_links,
                splitting=_SPLITTING[found.bounds],
            )
            self._walk(tree, folder)
            if found.is_bare and any(name.startswith("-") for name in os.listdir(folder)):  # noqa: PTH208  # plain text
                raise Complaint(f"{start}: a name there could become an option")

    def _walk(self, tree: Tree, folder: str) -> None:
        asked = (tree.sieve, tree.follows, tree.enters, tree.splitting, folder)
        if asked not in self.walked:
            self.walked[asked] = tree.why_not(folder)
        if self.walked[asked]:
            raise PathComplaint(self.walked[asked])

    def _readable(self, path: str) -> None:
        verdict = self._verdict(path)
        if not verdict.is_allowed:
            raise PathComplaint(f"{path}: {verdict.reason}")

    def _verdict(self, path: str) -> Verdict:
        # The path layer takes paths relative to the root; a command may run below it.
        if self.place != str(self.ground.root):
            path = self._absolute(path)
        return judge_on(self.ground, path, "read") if self.reader is None else self.reader(path)

    def _matches(self, pattern: str, *, may_lead: bool) -> list[str]:
        """Return what bash would make of a pattern with `*` and `?`: its matches, or itself where there are none.

        A pattern at the start of a word could become an option, unless options mean nothing here; then it must at least
        say how the names end.
        """
        parts = pattern.split("/")
        is_leading = _WILD.search(parts[0]) is not None
        ending = re.split(_WILD, pattern)[-1]
        says_enough = len(ending) > 1 or ending == "/"
        if pattern.startswith("-") or (is_leading and not (may_lead and says_enough)):
            raise Complaint("a wildcard at the start of a word could become an option")
        if any(part.startswith(".") and _WILD.search(part) for part in parts) or "**" in pattern:
            raise Complaint("a wildcard whose meaning is not certain")
        start = anchored(pattern, glob.escape(self.place), glob.escape(home_of(self.ground)))
        matches = glob.iglob(start)  # noqa: PTH207  # bash's rules for dots, not pathlib's
        found = list(islice(matches, _MOST_MATCHES + 1))
        if len(found) > _MOST_MATCHES:
            raise Complaint("a wildcard with very many matches")
        if is_leading and any(os.path.relpath(one, self.place).startswith("-") for one in found):
            raise Complaint("a wildcard that becomes an option")
        return found or [pattern]

    def _absolute(self, path: str) -> str:
        return anchored(path, self.place, home_of(self.ground))
