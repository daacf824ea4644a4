"""May the files that a command names be read unasked? Looks at the disk for matches of wildcards and folders."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from qcode.safety.paths import PathJudge, anchored
from qcode.safety.probes import WorkspaceContents
from qcode.safety.shell.ast import UNSPLIT, Word
from qcode.safety.verdict import SHELL_PATH, SHELL_UNKNOWN, Verdict
from qcode.values import dataclass

MAX_MATCHES = 300
MAX_WALKED = 20_000
_WILD = re.compile(r"[*?]")

Reader: TypeAlias = Callable[[str], Verdict]
"""Returns the verdict for reading a path."""


class NeedsApproval(Exception):  # noqa: N818  # a finding, not a failure
    """Why a command must ask; `rule` names what decided."""

    rule = SHELL_UNKNOWN


class PathComplaint(NeedsApproval):
    """A file that the command names may not be read unasked, whatever the program."""

    rule = SHELL_PATH


@dataclass(frozen=True, slots=True)
class Reads:
    """Raises `NeedsApproval` for files that may not be read unasked by a command that runs in `folder`.

    `contents` is what is known of the workspace; `masks`: protected files in it are hidden from the command.
    """

    paths: PathJudge
    reader: Reader | None
    folder: str
    contents: Callable[[], WorkspaceContents]
    masks: bool

    def files(self, word: Word, *, may_lead: bool = False) -> list[str]:
        """Return the paths that `word` names, all of which may be read.

        `may_lead`: a wildcard may stand at the start of the word, because no option of the program does harm.
        """
        if not word.is_known:
            raise NeedsApproval("it reads a file whose name is unknown")
        if word.text == "-" or (word.text == "/dev/null" and not word.has_glob):
            return []
        path = f"./{word.text}" if word.text.startswith("~") and not word.is_home else word.text
        paths = self._matches(path, may_lead=may_lead) if word.has_glob else [path]
        if word.is_split and not all(UNSPLIT.fullmatch(one) for one in paths):
            raise NeedsApproval("an unquoted name that could expand to other arguments")
        for one in paths:
            self.check(one)
        return paths

    def plain_files(self, word: Word) -> None:
        """Check the paths that `word` names; of a folder the program would read everything, through links too."""
        for path in self.files(word):
            if os.path.isdir(self._absolute(path)):  # noqa: PTH112  # plain text
                raise NeedsApproval(f"{path}: a folder in which it follows symbolic links")

    def tree(self, word: Word, *, may_lead: bool = False) -> None:
        """Check everything below the folders that `word` names, links not followed."""
        for path in self.files(word, may_lead=may_lead):
            folder = os.path.realpath(self._absolute(path))
            if not os.path.isdir(folder):  # noqa: PTH112  # plain text
                continue
            self._check_tree(folder)
            if self.reader is not None:
                self._walk(folder)

    def check(self, path: str) -> None:
        """Raise if a path may not be read."""
        verdict = self._verdict(path)
        if not verdict.is_allowed:
            raise PathComplaint(f"{path}: {verdict.reason}")

    def _check_tree(self, folder: str) -> None:
        contents = self.contents()
        if not contents.is_complete:
            raise NeedsApproval("it searches a folder with too many files to check first")
        secrets = contents.secrets_below(folder)
        if secrets and not (self.masks and contents.can_be_masked):
            raise PathComplaint(f"{secrets[0]}: it would be searched, and the sandbox cannot hide it")

    def _walk(self, folder: str) -> None:
        """Ask the rules of the user about every file below a folder."""
        left = MAX_WALKED
        for base, _, names in os.walk(folder):
            left -= len(names)
            if left < 0:
                raise NeedsApproval("it searches too many files to check against the read rules")
            for name in names:
                self.check(str(Path(base, name)))

    def _verdict(self, path: str) -> Verdict:
        # The path layer takes paths relative to the root; a command may run below it.
        if self.folder != str(self.paths.ground.root):
            path = self._absolute(path)
        return self.paths.judge(path, "read") if self.reader is None else self.reader(path)

    def _matches(self, pattern: str, *, may_lead: bool) -> list[str]:
        """Return what bash makes of a pattern with `*` and `?`: its matches, or itself if there are none.

        A match that begins with a dash would be an option: `sort *` with a file called `-o`. So a pattern at the start
        of a word has to say how the names end (`*.py`, `*/`), and none of its matches may begin with a dash.
        """
        parts = pattern.split("/")
        is_leading = _WILD.search(parts[0]) is not None
        ending = re.split(_WILD, pattern)[-1]
        says_enough = len(ending) > 1 or ending == "/"
        if pattern.startswith("-") or (is_leading and not (may_lead and says_enough)):
            raise NeedsApproval("a wildcard at the start of a word could become an option")
        if any(part.startswith(".") and _WILD.search(part) for part in parts) or "**" in pattern:
            raise NeedsApproval("an ambiguous wildcard")
        # In a locale of bytes, `??` matches one letter that is two bytes; so `?` is checked as a `*`.
        start = anchored(pattern.replace("?", "*"), glob.escape(self.folder), glob.escape(self.paths.home))
        matches = glob.iglob(start)  # noqa: PTH207  # the rules of bash for dots, not those of pathlib
        found = list(islice(matches, MAX_MATCHES + 1))
        if len(found) > MAX_MATCHES:
            raise NeedsApproval("a wildcard with very many matches")
        if is_leading and any(os.path.relpath(one, self.folder).startswith("-") for one in found):
            raise NeedsApproval("a wildcard that becomes an option")
        return found or [pattern]

    def _absolute(self, path: str) -> str:
        return anchored(path, self.folder, self.paths.home)
