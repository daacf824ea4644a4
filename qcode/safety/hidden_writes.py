"""The check of commands for writes to protected files, in bypass mode on a machine without a sandbox.

`protected_write_reason` searches the text of a command for protected names in every spelling. It also follows paths
that lead to a protected file through a link, a wildcard or a `cd`. Some programs, such as `tar -x`, write files that
the command does not name; they are judged by the folders that they can write to. This module reads folders and links,
and changes nothing. It is separate from `policy`, its only importer, because only the first unconfined command in
bypass mode loads it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice, pairwise, takewhile

from qcode.safety.paths import MAX_PATH, PathJudge, SessionFolders, absolute_path, home_of
from qcode.safety.protected_paths import CREDENTIALS, PROTECTED_CHECKS, STARTUP, fold, is_history, is_within
from qcode.values import dataclass

# The characters that bash removes from a word: quotes, backslashes, and line breaks after a backslash.
_QUOTES = re.compile(r"""\\\n|\$?['"]|\\""")
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
    rf"\bgit{_OPTIONS}branch\b{_WORDS}(?:-u|--set-up|--unset-up|--edit-d)",
    rf"\bgit{_OPTIONS}(?:branch|checkout|switch)\b{_WORDS}(?:-t\b|--track)",
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
    text = _EXPANSION.sub(_as_wildcard, _QUOTES.sub("", _ESCAPED.sub("*", command)))
    # The wildcards of find also match a leading dot: `find ~ -name '*rc'`.
    finds_hidden = _HOME.search(command) is not None and "find" in text
    for token in dict.fromkeys(_TOKEN.findall(text)):
        if _IN_GIT.search(token):
            return f"{token} may be inside .git"
        path = f"/{'/'.join(map(fold, token.split('/')))}/"
        protected = next((protected for protected in _DOTTED_PATHS if f"/{protected}/" in path), "")
        if protected:
            return f"{protected} is a protected location"
        name = next((part for part in token.split("/") if _may_be_protected(part, finds_hidden=finds_hidden)), "")
        if name:
            return f"{name} is a protected name"
    writes = _FolderWriteJudge.of(session_folders)
    return writes.unnamed_target_reason(command) or writes.indirect_target_reason(command)


def _readings(command: str) -> Iterator[str]:
    """Yield the text of a command without quotes, in each way in which bash may divide it into words."""
    yield _QUOTES.sub("", command)  # `bash -c "git config x y"`
    yield _EXPANSION.sub(" ", _QUOTES.sub("", command))  # `git${IFS}config x y`
    one_word = _QUOTED.sub(lambda quoted: re.sub(r"\s", "_", quoted[0]), _ESCAPED_BLANK.sub("_", command))
    yield _QUOTES.sub("", one_word)  # `git -c "user.name=A B" config x y`


def _as_wildcard(expansion: re.Match[str]) -> str:
    """Return a wildcard, followed by the expansion itself, which may be a command that contains protected names."""
    return f"* {expansion[0]} "


def _may_be_protected(part: str, *, finds_hidden: bool) -> bool:
    name = fold(part)
    if not set(name) & set("*?["):
        return name in _DOTTED_NAMES or is_history(name)
    is_hidden = name.startswith(".") or (finds_hidden and name != "*")
    return is_hidden and any(fnmatchcase(protected, name) for protected in (*_DOTTED_NAMES, ".git"))


_HOME_PATHS = (*CREDENTIALS, *STARTUP, ".ssh", ".config/qcode", ".local/state/qcode", ".local/share/qcode")
"""Protected paths in the home folder."""
_SEPARATORS = re.compile(r"[;&|\n(){}`]+")
# The start of an expansion or a wildcard, so of the unknown part of a path.
_UNKNOWN = re.compile(r"[$*?\[]")
# The start of a path that leads out of the current folder.
_LEAVES_FOLDER = re.compile(r"/|~|\$HOME\b|\.\.(?:/|$)")
# The start of a path in the home folder.
_IN_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?=/|$)")
_CHANGES_FOLDER = frozenset({"cd", "pushd"})
_UNPACKERS = {
    **dict.fromkeys(("tar", "bsdtar", "gtar", "jar"), ("-C", "--directory")),
    "cpio": ("-D", "--directory"),
    "patch": ("-d", "--directory"),
    "pax": ("-s",),
    "unar": ("-o", "--output-directory"),
    "unsquashfs": ("-d", "--dest"),
    "unzip": ("-d",),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "unrar"), ("-o",)),
}
"""Programs that write the files named in their input, with the options that set the target folder."""
_EXTRACTS_NOTHING = {
    **dict.fromkeys(("tar", "bsdtar", "gtar", "jar"), r"-?[A-Za-z]*[ctruAd][A-Za-z]*|--(?:create|list|append|update)"),
    "cpio": r"-[A-Za-z]*[to][A-Za-z]*|--(?:create|list)",
    "patch": r"--dry-run",
    "pax": r"-(?!r)[A-Za-z]*w[A-Za-z]*",
    "unzip": r"-[A-Za-z]*[ltvzZpc][A-Za-z]*",
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "unrar"), r"[adhiltuv][a-z]*"),
}
"""Patterns of the first argument with which such a program extracts nothing."""
_COPIERS = frozenset({"cp", "mv", "rsync", "install", "ln", "scp", "rclone"})
_CHANGERS = frozenset({"rm", "chmod", "chown", "chgrp", "shred"})
_REPEATERS = frozenset({"xargs", "parallel"})
_PROGRAMS = _COPIERS | _CHANGERS | _REPEATERS | _UNPACKERS.keys() | {"find", "git"}
_GIT_CREATES = frozenset({"init", "clone", "worktree", "checkout-index", "apply", "am", "read-tree"})
"""Commands of git that create a repository or files in a folder that is an argument."""
_FIND_CHANGES = ("-delete", "-exec", "-ok", "-fprint", "-fls")
_MAX_PROGRAMS = 20  # in one simple command
_MAX_JUDGED = 500
"""The maximum number of paths that are judged for one command."""
_MAX_COMPARED = 50_000
"""The maximum number of file names that are compared with wildcards for one command."""
_MAX_FOLDER_CHANGES = 20  # by `cd` in one command
_COST_OF_PATH = 10
"""The cost of resolving the links of one path, in comparisons of a name."""
_SEPARATORS_BUT_BRACES = re.compile(r"[;&|\n()`]+")
"""Like `_SEPARATORS`, but `{a,b}` stays whole."""
# A variable or a brace list: `$x`, `${x}`, `{a,b}`.
_PARAMETER = re.compile(r"\$\w+|\$?\{[^{}]*\}")
_HOME_PARAMETER = re.compile(r"\$HOME\b|\$\{HOME\}")
_QUOTED = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")
_ESCAPED_BLANK = re.compile(r"\\[ \t]")
# Links of the kernel to the root folder and to the current folder: `/proc/self/root/etc` is `/etc`.
_PROCESS_ROOT = re.compile(r"/proc/[^/\s]+(?:/task/[^/\s]+)?/root(?=/)")
_PROCESS_FOLDER = re.compile(r"/proc/[^/\s]+(?:/task/[^/\s]+)?/cwd(?=/)")
_UNUSED_NAME = "qcode-unused-name"
"""A name that no file has: the verdict on it is the verdict on any new file in a folder."""


@dataclass(frozen=True, slots=True)
class _FolderWriteJudge:
    """The judge of programs that write files without naming them, by the folders that they can write to.

    Variables other than `$HOME` count as unknown.
    """

    session_folders: SessionFolders
    root: str
    folder: str | None
    """The folder in which a program runs, None if that is unknown."""
    folder_changes: int = 0
    """The number of `cd`s so far."""

    @staticmethod
    def of(session_folders: SessionFolders) -> _FolderWriteJudge:
        root = os.path.realpath(session_folders.root)
        return _FolderWriteJudge(session_folders, root, root)

    def unnamed_target_reason(self, command: str) -> str:
        """Return why a program may write a protected file that `command` does not name, empty if none may."""
        current = self
        for segment in _SEPARATORS.split(_QUOTES.sub("", command.replace("${HOME}", "$HOME"))):
            words = segment.split()
            starts = [index for index, word in enumerate(words) if word.rpartition("/")[2] in _PROGRAMS]
            if len(starts) > _MAX_PROGRAMS:
                return "it names very many programs that write files"
            for index in starts:
                name = words[index].rpartition("/")[2]
                if current._may_write(name, words[index + 1 :]):
                    return f"{name} may change protected files that the command does not name, such as .git/config"
            current = current._after_segment(words)
            if current.folder_changes > _MAX_FOLDER_CHANGES:
                return "it changes the folder very often"
        return ""

    def _after_segment(self, words: list[str]) -> _FolderWriteJudge:
        """Return the judge for the commands after this simple command, which may be a `cd`."""
        start = next((index for index, word in enumerate(words[:3]) if word in _CHANGES_FOLDER), None)
        if start is None:
            return self
        targets = [word for word in words[start + 1 :] if not word.startswith("-")]
        return replace(self, folder=self._path(targets[0] if targets else "~"), folder_changes=self.folder_changes + 1)

    def indirect_target_reason(self, command: str) -> str:
        """Return why a word may lead to a protected file through a link, a wildcard or a `cd`, empty if none may.

        Two examples name no protected file: `cp x farm/rc`, if `farm/rc` is a link to `~/.bashrc`, and
        `cd ~/.config; echo x > autostart/y`. An unknown value is treated as a wildcard.
        """
        judge = _FileJudge(self.session_folders, self.root)
        text = _HOME_PARAMETER.sub(
            lambda _: home_of(self.session_folders), _PROCESS_ROOT.sub("", _PROCESS_FOLDER.sub(".", command))
        )
        current = self
        for segment in _SEPARATORS_BUT_BRACES.split(_QUOTES.sub("", _ESCAPED_BLANK.sub("?", text))):
            tokens = (*_TOKEN.findall(_PARAMETER.sub("*", segment)), *_TOKEN.findall(segment))
            reason = judge.reason_against(current.folder, dict.fromkeys(tokens))
            if reason:
                return reason
            current = current._after_segment(segment.split())
        quoted = (first or second for first, second in _QUOTED.findall(text))
        return judge.reason_against(self.folder, dict.fromkeys(name for name in quoted if " " in name))

    def _may_write(self, name: str, words: list[str]) -> bool:
        """Return whether the program `name` with the arguments `words` may write a protected file."""
        if name in _UNPACKERS:
            return self._unpacking_may_write(name, words)
        if name == "git":
            folders = list(_values(words, "-C", "--work-tree", "--git-dir")) or [self.folder or "."]
            if not _GIT_CREATES.isdisjoint(words):
                folders += [word for word in words if _LEAVES_FOLDER.match(word)] + list(_values(words, "--prefix"))
            return any(self._reaches_protected(self._path(folder)) for folder in folders)
        if name in _REPEATERS:  # `ls ~ | xargs -I% cp x ~/%`
            return self._any_reaches_protected(
                [word.rpartition("/")[0] for word in words if word.startswith(("/", "~/", "$HOME/"))]
            )
        operands = [word for word in words if not word.startswith("-") and not set(word) & set("<>")]
        if name == "find":
            starts = list(takewhile(lambda word: not word.startswith("-"), words)) or ["."]
            return any(word.startswith(_FIND_CHANGES) for word in words) and self._any_reaches_protected(starts)
        if name in _CHANGERS:
            return _is_recursive(words) and self._any_reaches_protected(operands)
        return self._copy_may_write(name, words, operands)

    def _unpacking_may_write(self, name: str, words: list[str]) -> bool:
        """Return whether an unpacking program may write a protected file."""
        if words and re.fullmatch(_EXTRACTS_NOTHING.get(name, "(?!)"), words[0]):
            return False
        if name in ("tar", "bsdtar", "gtar") and any(re.match(r"--absolute|-?[A-Za-z]*P", word) for word in words[:1]):
            return True
        folders = list(_values(words, *_UNPACKERS[name]))
        if name == "cpio" and any(re.match(r"-[A-Za-z]*p|--pass", word) for word in words):
            folders = words[-1:]
        if name == "patch" and not folders and _names_patched_file(words):
            return False
        return any(self._reaches_protected(self._path(folder), counts_git=True) for folder in folders or ["."])

    def _copy_may_write(self, name: str, words: list[str], operands: list[str]) -> bool:
        """Return whether a copy, move or link may write a protected file."""
        copy = _Copy.of(name, words, operands)
        if copy.is_to_another_machine:
            return False
        if name in ("mv", "ln") and self._any_reaches_protected(copy.sources):
            return True
        location = self._path(copy.target)
        if location is None:
            return True
        if copy.goes_into_folder or (os.path.isdir(location) and not copy.is_exact):  # noqa: PTH112  # text
            return any(self._copy_may_write_in(location, copy, source) for source in copy.sources)
        if self._is_protected(location):
            return True
        return copy.is_recursive and self._reaches_protected(location, counts_git=copy.can_merge)

    def _copy_may_write_in(self, folder: str, copy: _Copy, source: str) -> bool:
        """Return whether the copy of `source` in `folder` may be, or contain, a protected file."""
        new_name = copy.name_in_folder(source)
        if not new_name:
            return self._reaches_protected(folder, counts_git=True)
        path = f"{folder}/{new_name}"
        real_path = _resolved(path)
        if real_path is None or self._is_protected(real_path):
            return True
        return copy.is_recursive and self._reaches_protected(path)

    def _any_reaches_protected(self, words: list[str]) -> bool:
        return any(
            self._reaches_protected(self._path(word))
            for word in words
            if not word.startswith("$") or _IN_HOME.match(word)
        )

    def _path(self, word: str) -> str | None:
        """Return the real path of a word up to its first unknown component, None if no component is known."""
        home = home_of(self.session_folders)
        word = _IN_HOME.sub(lambda _: home, word, count=1)
        known_part = word
        if unknown := _UNKNOWN.search(word):
            start = word[: unknown.start()]
            known_part = os.path.dirname(start) or ("." if start else "")  # noqa: PTH120  # text
        if not known_part or known_part.startswith("~") or (self.folder is None and not known_part.startswith("/")):
            return None
        if len(known_part) > MAX_PATH:
            return None
        return _resolved(absolute_path(known_part, self.folder or "/", home))

    def _protected_paths(self) -> Iterator[str]:
        home = os.path.realpath(home_of(self.session_folders))
        yield from (f"{home}/{name}".casefold() for name in _HOME_PATHS)
        yield from (os.path.realpath(path).casefold() for path in self.session_folders.qcode_folders)

    def _is_protected(self, path: str) -> bool:
        return any(is_within(path.casefold(), protected) for protected in self._protected_paths())

    def _reaches_protected(self, path: str | None, *, counts_git: bool = False) -> bool:
        """Return whether a folder is, contains or is inside a protected path.

        If `counts_git`, a folder that contains `.git` counts too.
        """
        if path is None:
            return True
        folded = path.casefold()
        if any(is_within(protected, folded) or is_within(folded, protected) for protected in self._protected_paths()):
            return True
        return counts_git and os.path.lexists(f"{path}/.git")


@dataclass(frozen=True, slots=True)
class _Copy:
    """A command that copies, moves or links files."""

    program: str
    sources: list[str]
    target: str
    has_target_option: bool
    """The target is the value of `-t`, so it is a folder."""
    is_exact: bool
    """The target is the new name, never a folder to copy into (`-T`)."""
    is_recursive: bool
    """Whole folders are written."""

    @staticmethod
    def of(program: str, words: list[str], operands: list[str]) -> _Copy:
        """Return the copy of a program with the arguments `words`; `operands` are those that are not options."""
        target_folders = list(_values(words, "-t", "--target-directory"))
        paths = [word for word in operands if word not in target_folders]
        if target_folders:
            sources, target = paths, target_folders[0]
        else:
            sources, target = paths[:-1], paths[-1] if paths else "."
        return _Copy(
            program,
            sources,
            target,
            has_target_option=bool(target_folders),
            is_exact=any(re.fullmatch(r"-[A-Za-z]*T[A-Za-z]*|--no-target-directory", word) for word in words),
            is_recursive=program in ("mv", "rsync", "rclone") or _is_recursive(words),
        )

    @property
    def is_to_another_machine(self) -> bool:
        return self.program in ("scp", "rsync", "rclone") and re.match(r"[^/]+:", self.target) is not None

    @property
    def goes_into_folder(self) -> bool:
        """Whether the words alone say that the target is a folder that gets the sources."""
        is_folder = self.has_target_option or len(self.sources) > 1 or self.target.endswith("/")
        return is_folder and not self.is_exact

    @property
    def can_merge(self) -> bool:
        """Whether the content of a source folder may go into the target folder: `rsync -r a/ b`."""
        return self.program in ("rsync", "rclone") or self.is_exact

    def name_in_folder(self, source: str) -> str:
        """Return the name of a source in the target folder, empty if its content is merged or its name is unknown."""
        if self.can_merge and source.endswith("/"):
            return ""
        name = os.path.basename(source.rstrip("/"))  # noqa: PTH119  # text
        return "" if name in (".", "..") or name.startswith("$") else name


class _FileJudge:
    """The judge of the files that the words of one command may name. It gives up after a maximum number of files."""

    def __init__(self, session_folders: SessionFolders, root: str) -> None:
        self._paths = PathJudge(session_folders)
        self._root = root
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
            # The value of an option may be in the same word: `-o.bashrc`.
            for candidate in (token, token[2:] if re.match(r"-[^-]", token) else ""):
                for path in self._expanded(folder, candidate, is_inside=is_inside):
                    self._remaining_paths -= 1
                    if self._remaining_paths > 0 and self._is_protected(path):
                        return f"{token} leads to a protected file"
                if min(self._remaining_paths, self._remaining_comparisons) <= 0:
                    return "it names very many files"
        return ""

    def _expanded(self, folder: str, token: str, *, is_inside: bool) -> Iterator[str]:
        """Yield the paths that a token may name, except for paths that can be judged by their text."""
        if len(token) > MAX_PATH:
            return
        path = os.path.normpath(absolute_path(token, folder, self._paths.home)) if token else folder
        first = token.partition("/")[0]
        is_relative = not token.startswith(("/", "~"))
        is_wild = _UNKNOWN.search(token) is not None
        is_new = is_relative and first not in (".", "..") and not is_wild and first not in self._names_in(folder)
        if not token or (is_inside and is_new):
            return
        self._remaining_comparisons -= _COST_OF_PATH
        if is_wild:
            yield from self._matches(path)
        elif not is_inside or self._may_be_link(path):
            yield path

    def _matches(self, pattern: str) -> Iterator[str]:
        """Return the existing paths that a pattern matches, except for those that can be judged by their text."""
        paths = [""]
        for part in pattern.split("/")[1:]:
            if _UNKNOWN.search(part) is None:
                paths = [f"{path}/{part}" for path in paths]
                continue
            pairs = ((path, name) for path in paths for name in self._names_in(path or "/"))
            compared = list(islice(pairs, max(self._remaining_comparisons, 0)))
            self._remaining_comparisons -= len(compared)
            paths = [f"{path}/{name}" for path, name in compared if fnmatchcase(name, part)]
        return (path for path in paths if not is_within(path, self._root) or self._may_be_link(path))

    def _may_be_link(self, path: str) -> bool:
        """Return whether a path without a protected name may be a protected file, through a symbolic or hard link."""
        return _resolved(path) != path or _has_links(path)

    def _names_in(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            self._names[folder] = frozenset()
            with suppress(OSError):
                self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208  # names
        return self._names[folder]

    def _is_protected(self, path: str) -> bool:
        verdict = self._paths.judge(path, "write")
        if verdict.verdict == "deny":
            return verdict.check in PROTECTED_CHECKS
        return _has_links(path) and _identity(path) in self._protected_identities()

    def _protected_identities(self) -> set[tuple[int, int]]:
        """Return the device and inode numbers of protected files; a hard link in the workspace has the same."""
        paths = (*(f"{self._paths.home}/{name}" for name in _HOME_PATHS), f"{self._root}/.git/config")
        return {identity for location in paths if (identity := _identity(location)) is not None}


def _resolved(path: str) -> str | None:
    """Return the real path, None if the system does not let this process read a link in it, such as `/proc/1/root`."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


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


def _values(words: list[str], *options: str) -> Iterator[str]:
    """Yield the values of options: `-C x`, `-Cx`, `--directory=x`, `--directory x`; `$unknown` for an unclear value."""
    for index, word in enumerate(words):
        for option in options:
            if word == option:
                yield words[index + 1] if index + 1 < len(words) else "$unknown"
            elif option.startswith("--") and word.startswith(f"{option}="):
                yield word.partition("=")[2]
            elif not option.startswith("--") and word.startswith(option):
                yield word[len(option) :]
            # In the first word, the letter may be among others: `tar xCf`.
            elif not option.startswith("--") and re.fullmatch(rf"-?[A-Za-z]+{option[1]}[A-Za-z]*", word) and index == 0:
                yield "$unknown"


def _is_recursive(words: list[str]) -> bool:
    return any(re.match(r"-[A-Za-z]*[rRa]|--(?:recursive|archive)", word) for word in words)


def _names_patched_file(words: list[str]) -> bool:
    """Return whether an argument of `patch` names the file to change."""
    operands = [
        word
        for before, word in pairwise(["", *words])
        if not word.startswith(("-", "<", ">")) and before not in ("-i", "<", "-p", "--input")
    ]
    return bool(operands) and _UNKNOWN.search(operands[0]) is None
