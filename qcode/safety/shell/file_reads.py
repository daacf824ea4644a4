"""Checks whether the files that a command names may be read without approval. Lists folders to expand wildcards."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.safety.paths import PathJudge, absolute_path, is_ctime_final, real_path
from qcode.safety.probes import WorkspaceContents
from qcode.safety.shell.ast import Word
from qcode.safety.shell.characters import is_bare_text
from qcode.safety.verdict import SHELL_NOT_READ_ONLY, SHELL_PATH, Verdict
from qcode.values import dataclass

MAX_MATCHES = 300
"""The maximum number of files that a wildcard may match without approval."""
MAX_WALKED = 20_000
"""The maximum number of files that are compared with the user's rules for one searched folder."""
_WILD = re.compile(r"[*?]")

ReadJudge: TypeAlias = Callable[[str], Verdict]
"""A function that returns the verdict for reading a path."""

LeadingWildcards: TypeAlias = Literal["none", "ending", "any"]
"""Wildcards that are accepted at the start of a word: none, those with an ending (`*.py`, `*/`), or any (`*`)."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Paths in one folder."""

    prefix: str
    """The common part of the paths, up to the last slash; empty if they have no slash."""
    names: list[str]

    @property
    def paths(self) -> list[str]:
        return [f"{self.prefix}{name}" for name in self.names]


class NeedsApproval(Exception):  # noqa: N818  # a finding, not a failure
    """The reason why a command needs approval. `check` becomes the `check` of the verdict."""

    check = SHELL_NOT_READ_ONLY


class PathNeedsApproval(NeedsApproval):
    """The reason why reading a file that the command names needs approval, whichever program reads it."""

    check = SHELL_PATH


@dataclass(frozen=True, slots=True)
class ReadChecker:
    """The check of the files that a command reads. Its methods raise `NeedsApproval`."""

    paths: PathJudge
    read_judge: ReadJudge | None
    """Replaces `paths` if the user has rules about reading, and judges by them too; otherwise None."""
    folder: str
    """The folder in which the command runs."""
    contents: Callable[[], WorkspaceContents]
    """Returns the protected files of the workspace."""
    masks: bool
    """The sandbox hides the protected files from the command."""

    def check_files(self, *words: Word, leading: LeadingWildcards = "none") -> list[_Group]:
        """Check the paths that the words name, and return them."""
        groups: list[_Group] = []
        try:
            for word in words:
                groups += self._named_files(word, leading=leading)
        finally:  # If a word raised, the words before it are still checked; an error about them replaces that error.
            for path in self._paths_to_judge(groups):
                self.check_path(path)
        return groups

    def _named_files(self, word: Word, *, leading: LeadingWildcards) -> list[_Group]:
        """Return the paths that a word may name, with wildcards expanded; raise if they are not certain."""
        if not word.is_known:
            raise NeedsApproval("it reads a file whose name is known only when it runs")
        if word.text == "-" or (word.text == "/dev/null" and not word.has_glob):
            return []
        # `'~/a'` in quotes is a file in a folder named `~`. With `./`, the path layer does not expand it.
        path = f"./{word.text}" if word.text.startswith("~") and not word.is_home else word.text
        groups = self._matches(path, leading=leading) if word.has_glob else [_split_path(path)]
        texts = chain.from_iterable((group.prefix, *group.names) for group in groups)
        if word.is_split and not is_bare_text("".join(texts)):
            raise NeedsApproval("an unquoted name could become several arguments")
        return groups

    def check_plain_files(self, word: Word) -> None:
        """Check that `word` names permitted files and no folder: the program would follow the links in a folder."""
        for path in _paths(self.check_files(word)):
            if os.path.isdir(self._absolute(path)):  # noqa: PTH112  # plain text
                raise NeedsApproval(f"it would follow the symbolic links in {path}")

    def check_tree(self, word: Word, *, leading: LeadingWildcards = "none") -> None:
        """Check everything below the folders that `word` names, without following links."""
        for path in _paths(self.check_files(word, leading=leading)):
            folder = real_path(self._absolute(path))
            if not os.path.isdir(folder):  # noqa: PTH112  # plain text
                continue
            self._check_secrets_below(folder)
            if self.read_judge is not None:
                self._check_rules_below(folder)

    def check_path(self, path: str) -> None:
        """Raise `PathNeedsApproval` if reading a path needs approval."""
        verdict = self._verdict(path)
        if not verdict.is_allowed:
            # For the file tools, a deny rule about reading is final. For a command that reads, the user decides.
            is_denied_by_rule = verdict.verdict == "deny" and bool(verdict.rule)
            reason = f"the rule {verdict.rule} denies it to the file tools" if is_denied_by_rule else verdict.reason
            raise PathNeedsApproval(f"it reads {self._from_root(path)}: {reason}")

    def _check_secrets_below(self, folder: str) -> None:
        contents = self.contents()
        if not contents.is_complete:
            raise NeedsApproval("it searches a folder with too many files to check first")
        secrets = contents.secrets_below(folder)
        if secrets and not (self.masks and contents.can_be_masked):
            raise PathNeedsApproval(
                f"it would search {secrets[0]}, which contains secrets, and the sandbox cannot hide it"
            )

    def _check_rules_below(self, folder: str) -> None:
        """Check every file below a folder against the user's rules."""
        count = 0
        for base, _, names in os.walk(folder):
            count += len(names)
            if count > MAX_WALKED:
                raise NeedsApproval("it searches too many files to check against the read rules")
            for name in names:
                self.check_path(str(Path(base, name)))

    def _paths_to_judge(self, groups: list[_Group]) -> list[str]:
        """Return the paths that must be checked one by one, in order."""
        by_prefix: dict[str, list[str]] = {}
        for group in groups:
            by_prefix.setdefault(group.prefix, []).extend(group.names)
        if self.read_judge is None:  # without rules, most names in a folder have the verdict of the folder
            filter_names = self.paths.names_to_judge
            by_prefix = {prefix: filter_names(self._from_root(prefix), names) for prefix, names in by_prefix.items()}
        if not any(by_prefix.values()):
            return []
        to_judge = {prefix: frozenset(names) for prefix, names in by_prefix.items()}
        return [f"{group.prefix}{name}" for group in groups for name in group.names if name in to_judge[group.prefix]]

    def _verdict(self, path: str) -> Verdict:
        path = self._from_root(path)
        return self.paths.judge(path, "read") if self.read_judge is None else self.read_judge(path)

    def _from_root(self, path: str) -> str:
        """Return a path for the path layer, which starts at the root: absolute if the command runs elsewhere."""
        return path if self.folder == str(self.paths.session_folders.root) else self._absolute(path)

    def _matches(self, pattern: str, *, leading: LeadingWildcards) -> list[_Group]:
        """Return the expansion of a pattern with `*` and `?`: its matches, or the pattern itself if there are none.

        A match that begins with a dash would be an option: `sort *` with a file called `-o`. So no match may begin with
        a dash. Such a file may also appear before the command runs, so `leading` limits the patterns as well.
        """
        parts = pattern.split("/")
        is_leading = _WILD.search(parts[0]) is not None
        # `*n` could match a file named `-n`, which is an option.
        ending = re.split(_WILD, pattern)[-1]
        has_ending = len(ending) > 1 or ending == "/"
        accepts_wildcard = leading == "any" or (leading == "ending" and has_ending)
        if pattern.startswith("-") or (is_leading and not accepts_wildcard):
            raise NeedsApproval("a wildcard at the start of a word could become an option")
        if any(part.startswith(".") and _WILD.search(part) for part in parts) or "**" in pattern:
            raise NeedsApproval("it has a wildcard that qcode cannot check")
        # In a single-byte locale such as C, `??` matches one letter of two bytes. So `?` is checked like `*`.
        groups = self._expanded(pattern.replace("?", "*"))
        if sum(len(group.names) for group in groups) > MAX_MATCHES:
            raise NeedsApproval("a wildcard matches very many files")
        if is_leading and any(self._begins_with_dash(group, has_folder=len(parts) > 1) for group in groups):
            raise NeedsApproval("a wildcard matches a name that would be read as an option")
        return groups or [_split_path(pattern)]

    def _begins_with_dash(self, group: _Group, *, has_folder: bool) -> bool:
        """Return whether the program gets a match that begins with a dash: as its name, or as its first folder."""
        # The prefixes of matches are absolute. The program gets the part after `self.folder`.
        starts = [group.prefix[len(self.folder) + 1 :]] if has_folder else group.names
        return any(start.startswith("-") for start in starts)

    def _expanded(self, pattern: str) -> list[_Group]:
        """Return the absolute paths that match, in groups by folder. As in bash, `*` matches no hidden name.

        bash lists every folder that the parts before the last one match, and follows links there. So reading the
        targets of these links must be permitted.
        """
        parts = self._absolute(pattern).split("/")
        first = next(index for index, part in enumerate(parts) if _WILD.search(part))
        folders = ["/".join(parts[:first])]
        for part in parts[first:-1]:
            folders = [f"{folder}/{name}" for folder in folders for name in _matching_names(folder, part)]
            if len(folders) > MAX_MATCHES:
                raise NeedsApproval("a wildcard matches very many files")
            for folder in filter(os.path.islink, folders):
                self.check_path(folder)
        groups = [_Group(f"{folder}/", _matching_names(folder, parts[-1])) for folder in folders]
        return [group for group in groups if group.names]

    def _absolute(self, path: str) -> str:
        return absolute_path(path, self.folder, self.paths.home)


def _matching_names(folder: str, part: str) -> list[str]:
    """Return the names in a folder that one part of a pattern matches; an empty part matches the folder itself."""
    if not _WILD.search(part):
        return [part] if os.path.lexists(f"{folder}/{part}") and (part or os.path.isdir(folder)) else []  # noqa: PTH112  # text
    try:
        info = os.stat(folder or "/")  # noqa: PTH116  # text
        # A folder that changed a moment ago may change again without another ctime, so its names are not cached.
        listed = _matching_entries if is_ctime_final(info, time.time_ns()) else _matching_entries.__wrapped__
        return listed(folder or "/", part, (info.st_dev, info.st_ino, info.st_ctime_ns))
    except OSError:
        return []


@lru_cache(maxsize=64)
def _matching_entries(folder: str, part: str, _identity: tuple[int, ...]) -> list[str]:
    """Return the names that one part of a pattern matches, up to one more than `MAX_MATCHES`. No hidden names match.

    Programs cannot set a ctime, so a folder with the same identity contains the same names.
    """
    matches = re.compile(rf"(?!\.){fnmatch.translate(part)}").match
    return list(islice(filter(matches, os.listdir(folder)), MAX_MATCHES + 1))  # noqa: PTH208  # names


def _split_path(path: str) -> _Group:
    folder, slash, name = path.rpartition("/")
    return _Group(f"{folder}{slash}", [name])


def _paths(groups: Iterable[_Group]) -> list[str]:
    return [path for group in groups for path in group.paths]
