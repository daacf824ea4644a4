"""The check of commands for writes to protected files, in bypass mode on a machine without a sandbox.

`protected_write_reason` searches the text of a command for protected names in every spelling, then follows paths that
lead to a protected file through a link, a wildcard or a `cd`. `folder_writes` judges programs that write files which
the command does not name, such as `tar -x`. Folders and links are read, and nothing is changed. This module is separate
from `policy`, its only importer, because only the first unconfined command in bypass mode loads it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice

from qcode.safety.folder_writes import (
    HOME_PATHS,
    QUOTES,
    UNKNOWN,
    FolderWriteJudge,
    PossibleFolders,
    resolved_path,
    segments,
)
from qcode.safety.paths import MAX_PATH, PathJudge, SessionFolders, absolute_path, home_of
from qcode.safety.protected_paths import CREDENTIALS, PROTECTED_CHECKS, STARTUP, fold, is_history, is_within

# A string with escapes: `$'\\x2e'`.
_ESCAPED = re.compile(r"\$'(?:[^'\\]|\\.)*'?", re.DOTALL)
_EXPANSION = re.compile(r"\$\w+|\$?\{[^}]*\}?|\$\([^)]*\)?|`[^`]*`?")
# A word, or its part between braces, commas, colons and equals signs.
_TOKEN = re.compile(r"[^\s;&|<>()`=,{}:]+")
# A redirection to a file whose name only bash knows: `> $file`.
_UNKNOWN_TARGET = re.compile(r"(?:>[>|&]?|&>>?)\s*[^\s;&|<>]*[$`*?\[{]")
_PROTECTED_NAMES = (*(name.rsplit("/", 1)[-1] for name in (*CREDENTIALS, *STARTUP)), ".ssh")
_DOTTED_NAMES = frozenset(name for name in _PROTECTED_NAMES if name.startswith("."))
_DOTTED_PATHS = tuple(location for location in (*CREDENTIALS, *STARTUP) if location.startswith(".") and "/" in location)
# A path inside `.git` (or its short name, `git~1`), or an option of git that prints such a path.
_IN_GIT = re.compile(
    r"(?:^|/)(?:\.git[. ]*|git~\d+)(?:/|$)|^(?:--git-(?:common-)?dir|--git-path|GIT_DIR)$", re.IGNORECASE
)
# Options between a program and its command, with their values: `-C x` in `git -C x config`.
_OPTIONS = r"(?:\s+-\S+(?:\s+[^-\s]\S*)?){0,20}\s+"
# More words of the same simple command.
_WORDS = r"[^;&|\n]{0,200}?\s"
_READS_GIT_CONFIG = r"(?:--show-scope\s+(?:-\S+\s+){0,5})?(?:--get|--list|-l\b|--show-origin\b)"
_SETTINGS_WRITERS = (
    # `git config core.hooksPath x`. With `--no-list`, `git config --list` sets a value.
    rf"\bgit{_OPTIONS}config\s+(?!{_READS_GIT_CONFIG})",
    rf"\bgit{_OPTIONS}config\b{_WORDS}--no-[gl]",
    rf"\bgit{_OPTIONS}remote{_OPTIONS}(?:add|remove|rename|rm|set-\w+)\b",
    rf"\bgit{_OPTIONS}(?:credential|for-each-repo|scalar)\b",
    rf"\bgit{_OPTIONS}(?:lfs\s+install|maintenance\s+(?:start|stop|(?:un)?register))",
    rf"\bgit{_OPTIONS}(?:sparse-checkout\s+(?!list\b|check)|submodule{_OPTIONS}(?!status\b|summary\b))",
    # A new repository takes its hooks from a template; an alias may be any command.
    rf"\bgit\b{_WORDS}(?:-c\s*|--config-env[= ])(?:alias\.|(?i:init\.templatedir))|\bGIT_TEMPLATE_DIR=",
    rf"\bgit{_OPTIONS}(?:init|clone|apply)\b{_WORDS}--(?:template|separate-git-dir|unsafe-paths|config)\b",
    rf"\bgit{_OPTIONS}clone\b{_WORDS}-c",
    # Settings of a branch, such as its upstream.
    rf"\bgit{_OPTIONS}(?:branch|push)\b{_WORDS}(?:-[A-Za-z]{{0,20}}u|--(?:se|uns|ed))",
    rf"\bgit{_OPTIONS}(?:fetch|pull)\b{_WORDS}--(?:set|fil)",
    rf"\bgit{_OPTIONS}(?:branch|checkout|switch|worktree)\b{_WORDS}(?:-[A-Za-z]{{0,20}}t\b|--tr)",
    # Settings that may name any output file.
    r"\b(?:WGETRC|CURL_HOME)=",
    # npm accepts the start of the word `config`.
    rf"\b(?:npm|pnpm|yarn|pip3?){_OPTIONS}(?:c(?:on?f?i?g?)?{_OPTIONS}(?:set|edit|unset|del(?:ete)?|rm|fix)|set)\b",
    # Jobs that run later.
    rf"\bcrontab\b(?!\s+-l\b)|\bcrontab\b{_WORDS}-[er]",
    r"\bat\s+(?:-q\s*\w\s+)?(?:-[fmt]|now|noon|midnight|teatime|tomorrow|\d)",
    rf"\bsystemctl\b{_WORDS}(?:(?:re)?enable|disable|edit|link|mask|unmask|preset|revert|set-|add-)",
    # Logins and keys.
    r"\bssh-keygen\b(?!\s+-[lF])",
    r"\b(?:gh|glab)\s+(?:auth\s+(?!status\b|token\b)|(?:alias|config)\s+(?:set|import|delete)\b)",
    r"\b(?:docker|podman|npm|pnpm|yarn|cargo|gcloud|az|vault)\s+(?:log(?:in|out)|adduser)\b",
    r"\b(?:aws|gcloud|poetry|conda)\s+(?:configure|config|auth)\b",
    rf"\bkubectl{_OPTIONS}config\s+(?!view\b|get-|current-)",
    rf"\bgpg2?\b{_WORDS}--(?:import|gen|full-gen|quick|edit|delete|recv)",
)
"""Commands that write a protected file without naming it."""
_WRITES_SETTINGS = re.compile("|".join(_SETTINGS_WRITERS))
# A command that may name the home folder.
_HOME = re.compile(r"(?:^|[\s=:'\"])~|\bHOME\b|/home/|/Users/|/root\b|\bcd\s*(?:$|[;&|])")
_MAX_JUDGED = 500
"""The maximum number of paths that are judged for one command."""
_MAX_COMPARED = 50_000
"""The maximum number of file names that are compared with wildcards for one command."""
_COST_OF_PATH = 10
"""The cost of resolving the links of one path, in comparisons of a name."""
_SEPARATORS_BUT_BRACES = re.compile(r"([;&|\n()`]+)")
"""Separators of simple commands, without braces: `{a,b}` stays whole."""
# A variable, a brace list, or the `$` of a substitution at the end of a segment: `$x`, `${x}`, `{a,b}`, `$(`.
_PARAMETER = re.compile(r"\$\w+|\$?\{[^{}]*\}|\$\Z")
_HOME_PARAMETER = re.compile(r"\$HOME\b|\$\{HOME\}")
_QUOTED = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")
_ESCAPED_BLANK = re.compile(r"\\[ \t]")
# Files of a repository that can make git run a program. An unknown value may be `.git`: `$x/config`.
_GIT_CONTROL = re.compile(r"/\.git/(?:config(?:\.worktree)?|hooks)(?:/|$)")
# Links of the kernel to the root folder and to the current folder: `/proc/self/root/etc` is `/etc`.
_PROCESS_ROOT = re.compile(r"/proc/[^/\s]+(?:/task/[^/\s]+)?/root(?=/)")
_PROCESS_FOLDER = re.compile(r"/proc/[^/\s]+(?:/task/[^/\s]+)?/cwd(?=/)")
_UNUSED_NAME = "qcode-unused-name"
"""A name that no file has: the verdict on it is the verdict on any new file in a folder."""

MAX_COMMAND = 131_071
"""The maximum length of a command: Linux starts no program with a longer argument (execve(2))."""


def protected_write_reason(command: str, session_folders: SessionFolders) -> str:
    """Return the reason why `command` may write a protected file, empty if there is none.

    Every word is compared without quotes, component by component and as a wildcard: `~/.ba?hrc` and `"$HOME"/.bash"rc"`
    both match `.bashrc`.
    """
    if len(command) > MAX_COMMAND:
        return "it is longer than a command can be"
    if _UNKNOWN_TARGET.search(command):
        return "the file it writes to is unknown before it runs"
    if any(_WRITES_SETTINGS.search(reading) for reading in _readings(command)):
        return "it changes settings in a protected file"
    # The value of an expansion is unknown; as part of a name it is a wildcard.
    text = _EXPANSION.sub(_as_wildcard, QUOTES.sub("", _ESCAPED.sub("*", command)))
    # Unlike those of bash, the wildcards of find match names that begin with a dot: `find ~ -name '*rc'`.
    finds_hidden = "find" in text and _HOME.search(command) is not None
    for token in dict.fromkeys(_TOKEN.findall(text)):
        if _IN_GIT.search(token):
            return f"{token} may be inside .git"
        names = token.split("/")
        folded_path = f"/{'/'.join(map(fold, names))}/"
        for protected in _DOTTED_PATHS:
            if f"/{protected}/" in folded_path:
                return f"{protected} is a protected location"
        for name in names:
            if _may_be_protected(name, finds_hidden=finds_hidden):
                return f"{name} is a protected name"
    judge = FolderWriteJudge.of(session_folders)
    return judge.unnamed_target_reason(command) or _indirect_target_reason(judge, command)


def _readings(command: str) -> Iterator[str]:
    """Yield the text of a command without quotes, in each way in which bash may divide it into words."""
    yield QUOTES.sub("", command)  # `bash -c "git config x y"`
    yield _EXPANSION.sub(" ", QUOTES.sub("", command))  # `git${IFS}config x y`
    one_word = _QUOTED.sub(lambda quoted: re.sub(r"\s", "_", quoted[0]), _ESCAPED_BLANK.sub("_", command))
    yield QUOTES.sub("", one_word)  # `git -c "user.name=A B" config x y`


def _as_wildcard(expansion: re.Match[str]) -> str:
    """Return a wildcard, followed by the expansion itself, which may be a command that contains protected names."""
    return f"* {expansion[0]} "


def _may_be_protected(part: str, *, finds_hidden: bool) -> bool:
    """Return whether a component of a path is a protected name, or a wildcard that may match one.

    A wildcard matches hidden files only if it begins with a dot or is an argument of find (`finds_hidden`). A `*` alone
    does not count there, because it matches everything.
    """
    name = fold(part)
    is_wildcard = any(character in name for character in "*?[")
    if not is_wildcard:
        return name in _DOTTED_NAMES or is_history(name)
    matches_hidden = name.startswith(".") or (finds_hidden and name != "*")
    return matches_hidden and any(fnmatchcase(protected, name) for protected in (*_DOTTED_NAMES, ".git"))


def _indirect_target_reason(start: FolderWriteJudge, command: str) -> str:
    """Return why a word may lead to a protected file through a link, a wildcard or a `cd`, empty if none may.

    Two examples name no protected file: `cp x farm/rc`, if `farm/rc` is a link to `~/.bashrc`, and
    `cd ~/.config; echo x > autostart/y`. An unknown value is treated as a wildcard.
    """
    judge = _FileJudge(start.session_folders)
    text = _HOME_PARAMETER.sub(
        lambda _: home_of(start.session_folders), _PROCESS_ROOT.sub("", _PROCESS_FOLDER.sub(".", command))
    )
    folders = PossibleFolders(start, command)
    for segment in segments(QUOTES.sub("", _ESCAPED_BLANK.sub("?", text)), _SEPARATORS_BUT_BRACES):
        # Both the word and its parts: `farm/{rc,x}` is one path with a wildcard, `rc` may be another path.
        tokens = (*_TOKEN.findall(_PARAMETER.sub("*", segment.text)), *_TOKEN.findall(segment.text))
        for possible in folders.judges:
            reason = judge.reason_against(possible.folder, dict.fromkeys(tokens))
            if reason:
                return reason
        folders.pass_segment(segment)
        if folders.are_too_many:
            return "it changes the folder very often"
    quoted = (first or second for first, second in _QUOTED.findall(text))
    return judge.reason_against(start.folder, dict.fromkeys(name for name in quoted if " " in name))


class _FileJudge:
    """The judge of the files that the words of one command may name. It gives up after a maximum number of files."""

    def __init__(self, session_folders: SessionFolders) -> None:
        self._paths = PathJudge(session_folders)
        self._root = os.path.realpath(session_folders.root)
        self._remaining_paths = _MAX_JUDGED
        self._remaining_comparisons = _MAX_COMPARED
        self._names: dict[str, frozenset[str]] = {}

    def reason_against(self, folder: str | None, tokens: Collection[str]) -> str:
        """Return why a token that is used in `folder` may name a protected file, empty if none may."""
        if folder is None:
            return ""
        is_inside = is_within(folder, self._root)
        if folder != self._root and tokens and self._is_protected(f"{folder}/{_UNUSED_NAME}"):
            return f"{folder} is a protected folder"
        for token in tokens:
            names = [token]
            if re.match(r"-[^-]", token):
                names.append(token[2:])  # `-o.bashrc` contains the value of the option -o
            for name in names:
                for path in self._expanded(folder, name, is_inside=is_inside):
                    self._remaining_paths -= 1
                    if self._remaining_paths > 0 and self._is_protected(path):
                        return f"{token} leads to a protected file"
                if min(self._remaining_paths, self._remaining_comparisons) <= 0:
                    return "it names very many files"
        return ""

    def _expanded(self, folder: str, name: str, *, is_inside: bool) -> Iterator[str]:
        """Yield the paths that `name` may stand for in `folder`, except for paths that can be judged by their text.

        `is_inside`: `folder` is in the workspace, where only links lead to protected files without a protected name.
        """
        is_pattern = UNKNOWN.search(name) is not None
        if not name or len(name) > MAX_PATH or (is_inside and not is_pattern and self._is_below_new_name(folder, name)):
            return
        path = os.path.normpath(absolute_path(name, folder, self._paths.home))
        self._remaining_comparisons -= _COST_OF_PATH
        if is_pattern:
            yield from self._matches(path)
        elif not is_inside or self._may_be_link(path):
            yield path

    def _is_below_new_name(self, folder: str, path: str) -> bool:
        """Return whether a relative path begins with a name that `folder` does not contain, so no link is in it."""
        if path.startswith(("/", "~")):
            return False
        first_name = path.partition("/")[0]
        return first_name not in (".", "..") and first_name not in self._names_in(folder)

    def _matches(self, pattern: str) -> Iterator[str]:
        """Return the paths that a pattern matches: of existing files, and of protected files that a command may create.

        Other paths in the workspace are left out, because they can be judged by their text.
        """
        paths = [""]
        for part in pattern.split("/")[1:]:
            if UNKNOWN.search(part) is None:
                paths = [f"{path}/{part}" for path in paths]
                continue
            pairs = ((path, name) for path in paths for name in self._names_in(path or "/"))
            compared = list(islice(pairs, max(self._remaining_comparisons, 0)))
            self._remaining_comparisons -= len(compared)
            paths = [f"{path}/{name}" for path, name in compared if fnmatchcase(name, part)]
        return (
            path
            for path in paths
            if not is_within(path, self._root) or _GIT_CONTROL.search(path) or self._may_be_link(path)
        )

    def _may_be_link(self, path: str) -> bool:
        """Return whether a path without a protected name may be a protected file, through a symbolic or hard link."""
        return resolved_path(path) != path or _has_links(path)

    def _names_in(self, folder: str) -> frozenset[str]:
        """Return the names in a folder, with those of protected files that may not exist yet: `.bashrc` in the home."""
        if folder not in self._names:
            start = f"{folder.rstrip('/')}/"
            protected = (f"{self._paths.home}/{name}" for name in HOME_PATHS)
            names = {path.removeprefix(start).partition("/")[0] for path in protected if path.startswith(start)}
            with suppress(OSError):
                names.update(os.listdir(folder))  # noqa: PTH208  # names
            self._names[folder] = frozenset(names)
        return self._names[folder]

    def _is_protected(self, path: str) -> bool:
        verdict = self._paths.judge(path, "write")
        if verdict.verdict == "deny":
            return verdict.check in PROTECTED_CHECKS
        return _has_links(path) and _identity(path) in self._protected_identities()

    def _protected_identities(self) -> set[tuple[int, int]]:
        """Return the device and inode numbers of protected files; a hard link in the workspace has the same."""
        paths = (*(f"{self._paths.home}/{name}" for name in HOME_PATHS), f"{self._root}/.git/config")
        return {identity for location in paths if (identity := _identity(location)) is not None}


def _has_links(path: str) -> bool:
    """Return whether a path names a file with several hard links."""
    try:
        info = os.stat(path)  # noqa: PTH116  # text
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(info.st_mode) and info.st_nlink > 1


def _identity(path: str) -> tuple[int, int] | None:
    try:
        info = os.stat(path)  # noqa: PTH116  # text
    except (OSError, ValueError):
        return None
    return info.st_dev, info.st_ino
