"""Programs that write files which a command does not name, judged by the folders that they can write to.

`tar -x` writes the files of its archive, and `cp -r x ~` merges whole folders. `FolderWriteJudge` reads the words of a
command without understanding its structure, so it assumes the worst where it is unsure. Only `hidden_writes` uses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, takewhile

from qcode.safety.paths import MAX_PATH, SessionFolders, absolute_path, home_of
from qcode.safety.protected_paths import CREDENTIALS, STARTUP, is_within
from qcode.values import dataclass

HOME_PATHS = (*CREDENTIALS, *STARTUP, ".ssh", ".config/qcode", ".local/state/qcode", ".local/share/qcode")
"""Protected paths in the home folder."""
QUOTES = re.compile(r"""\\\n|\$?['"]|\\""")
"""The characters that bash removes from a word: quotes, backslashes, and line breaks after a backslash."""
UNKNOWN = re.compile(r"[$*?\[]")
"""The start of an expansion or a wildcard, so of the unknown part of a path."""
_SEPARATORS = re.compile(r"([;&|\n(){}`]+)")
# The start of a path that leads out of the current folder.
_LEAVES_FOLDER = re.compile(r"/|~|\$HOME\b|\.\.(?:/|$)")
# The start of a path in the home folder.
_IN_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?=/|$)")
# A `cd` inside quotes or a comment does not run. A structure may skip it, or end its effect.
_HIDES_WORDS = re.compile(r"['\"\\#]|<<")
_STRUCTURES = re.compile(r"[(){}`|]|\b(?:if|for|while|until|select|case|function|then|do|else)\b")
_UNCLEAR = "$unclear"
"""The value of an option that cannot be read. Like every unknown value, it may be any path."""

_MAX_PROGRAMS = 20  # in one simple command
_MAX_FOLDER_CHANGES = 20  # by `cd` in one command


@dataclass(frozen=True, slots=True)
class _TargetOptions:
    """The options of a program that set the folder to which it writes."""

    names: tuple[str, ...]
    valued: str | None = None
    """The letters of all short options with a value. None if letters cannot be joined, as in `-xC`."""
    is_dashless: bool = False
    """The first word may have letters without a dash: `tar xCf`."""

    @property
    def flag(self) -> str:
        """A pattern of the letter of one option without a value."""
        return rf"(?:(?![{self.valued}])[A-Za-z0-9])"

    def values(self, words: list[str]) -> Iterator[str]:
        """Yield the values of the options: `-C x`, `-Cx`, `--directory=x`, `--directory x`."""
        for index, word in enumerate(words):
            following = words[index + 1] if index + 1 < len(words) else _UNCLEAR
            if word in self.names:
                yield following
            else:
                yield from self._values_in(word, following, is_first=index == 0)

    def _values_in(self, word: str, following: str, *, is_first: bool) -> Iterator[str]:
        """Yield the values in a word that is not exactly an option."""
        name, equals, value = word.partition("=")
        for option in self.names:
            if option.startswith("--"):
                if len(name) > 2 and option.startswith(name):  # the start of a long option is enough: `--dir`
                    yield value if equals else following
            elif word.startswith(option):
                yield word.removeprefix(option)
            elif self._joins(option[1], word, is_first=is_first):
                yield _UNCLEAR

    def _joins(self, letter: str, word: str, *, is_first: bool) -> bool:
        """Return whether the letter of an option is among others in `word`: `-xC`, or `xC` in the first word of tar."""
        if is_first and self.is_dashless and word.isalpha() and letter in word:
            return True
        return self.valued is not None and re.match(rf"-{self.flag}+{letter}", word) is not None


_TAR = _TargetOptions(("-C", "--directory", "--one-top-level"), valued="bfgCFHIKLNTVX", is_dashless=True)
_CPIO = _TargetOptions(("-D", "--directory"), valued="CDEFHIMOR")
_UNZIP = _TargetOptions(("-d",), valued="PdIOx")
_UNPACKERS: Mapping[str, _TargetOptions] = {
    **dict.fromkeys(("tar", "bsdtar", "gtar", "jar"), _TAR),
    "cpio": _CPIO,
    "patch": _TargetOptions(("-d", "--directory"), valued="BDFdgioprVxYz"),
    "pax": _TargetOptions(()),
    "unar": _TargetOptions(("-o", "--output-directory"), valued="opeEk"),
    "unsquashfs": _TargetOptions(("-d", "-dest", "--dest")),
    "unzip": _UNZIP,
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "unrar"), _TargetOptions(("-o",))),
    **dict.fromkeys(("python -m tarfile", "python -m zipfile"), _TargetOptions(())),
}
"""Programs that write the files named in their input."""
_MODULES = ("tarfile", "zipfile")
"""Modules of Python that unpack archives."""
_TAR_LISTS = rf"-{_TAR.flag}{{0,20}}[ctruAd][A-Za-z]*|[A-Za-z]{{0,20}}[ctruAd][A-Za-z]*|--(?:create|list|append|update)"
_EXTRACTS_NOTHING: Mapping[str, str] = {
    **dict.fromkeys(("tar", "bsdtar", "gtar", "jar"), _TAR_LISTS),
    "cpio": rf"-{_CPIO.flag}{{0,20}}[to][A-Za-z]*|--(?:create|list)",
    "patch": r"--dry-run",
    "pax": r"-[A-Za-z]{0,20}w[A-Za-z]*",
    "unzip": rf"-{_UNZIP.flag}{{0,20}}[ltvzZpc][A-Za-z]*",
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "unrar"), r"[adhiltuv][a-z]*"),
    **dict.fromkeys(("python -m tarfile", "python -m zipfile"), r"-[lct]|--(?:list|create|test)"),
}
"""Patterns of the first argument with which such a program extracts nothing."""
_EXTRACTS_ANYWAY: Mapping[str, str] = {
    "pax": r"-[A-Za-z]*r",  # copies files
    "unzip": r"-.*-",  # a second dash revokes an option: `unzip -l --l`
}
"""Patterns of an argument that cancels `_EXTRACTS_NOTHING`."""
_WRITES_ANYWHERE: Mapping[str, str] = {
    **dict.fromkeys(("tar", "bsdtar", "gtar", "jar"), rf"--abs|-{_TAR.flag}*P"),
    **dict.fromkeys(("pax", "python -m tarfile"), ""),
}
"""Patterns of an argument with which an unpacking program writes absolute paths of its input. Empty: always."""


@dataclass(frozen=True, slots=True)
class _Downloader:
    """A program that writes files whose names come from a URL or a server."""

    target: _TargetOptions
    settings: _TargetOptions
    """Options with settings, which may name any output file."""
    names_file: str
    """A pattern of an argument after which the name of the file comes from the URL or the server. Empty: always."""
    names_folders: str
    """A pattern of an argument with which folders such as `.git` are created too."""
    first_argument: str = "(?!)"
    """A pattern of the first argument with which the command names the output file."""


_WGET = _TargetOptions(("-P", "--directory-prefix"), valued="aABDeiIlnoOPQRtTUwX")
_CURL = _TargetOptions(("--output-dir",), valued="AbcCdDeEFhHKmoPQrtTuUwxXyYz")
_DOWNLOADERS: Mapping[str, _Downloader] = {
    # `wget -P ~ URL/%2ebashrc` writes `~/.bashrc`, and `wget -r -nH URL` writes `.git/config`.
    "wget": _Downloader(
        _WGET,
        replace(_WGET, names=("-e", "--execute", "--config")),
        names_file="",
        names_folders=r"-(?=[A-Za-z]*n)[A-Za-z]*H|--no-h",
        first_argument=rf"-{_WGET.flag}*O|--output-d",
    ),
    # The server names the file of `curl -OJ`. A part of a URL names the file of `curl -o '#1'`.
    "curl": _Downloader(
        _CURL,
        replace(_CURL, names=("-K", "--config")),
        names_file=rf"-{_CURL.flag}*[OJ]|--remote-[nh]|.*#\d",
        names_folders=r"--create-d",
    ),
}
_HARMLESS_SETTING = "robots=off"
_COPIES_TO = _TargetOptions(("-t", "--target-directory"), valued="gmotS")
_COPIERS = frozenset({"cp", "mv", "rsync", "install", "ln", "scp", "rclone"})
_CHANGERS = frozenset({"rm", "chmod", "chown", "chgrp", "shred"})
_REPEATERS = frozenset({"xargs", "parallel"})
_PROGRAMS = _COPIERS | _CHANGERS | _REPEATERS | _UNPACKERS.keys() | _DOWNLOADERS.keys() | {"find", "git"}
_GIT_CHANGES_FOLDER = _TargetOptions(("-C",))
_GIT_FOLDERS = _TargetOptions(("--work-tree", "--git-dir"))
_GIT_PREFIX = _TargetOptions(("--prefix",))
_GIT_CREATES = frozenset({"init", "clone", "worktree", "checkout-index", "apply", "am", "read-tree"})
"""Commands of git that create a repository or files in a folder that is an argument."""
_ENV_FOLDER = _TargetOptions(("-C", "--chdir"), valued="CSu")
_CHANGES_FOLDER = frozenset({"cd", "pushd"})
_FIND_CHANGES = ("-delete", "-exec", "-ok", "-fprint", "-fls")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a command between separators such as `;`, usually a simple command."""

    before: str
    """The separator before it; empty at the start of the command."""
    text: str
    after: str
    """The separator after it; empty at the end of the command."""


def segments(text: str, separators: re.Pattern[str]) -> Iterator[Segment]:
    """Yield the parts of a command. `separators` has one group around the whole pattern."""
    parts = ["", *separators.split(text), ""]
    for index in range(1, len(parts), 2):
        yield Segment(parts[index - 1], parts[index], parts[index + 1])


class PossibleFolders:
    """The folders in which the next simple command may run: a `cd` may fail, not run, or end with its subshell."""

    def __init__(self, judge: FolderWriteJudge, command: str) -> None:
        self.judges: tuple[FolderWriteJudge, ...] = (judge,)
        """A judge for each folder."""
        self._others: tuple[FolderWriteJudge, ...] = ()
        """Further possible folders after the `&&` chain of a `cd`."""
        self._seen: tuple[FolderWriteJudge, ...] = self.judges
        self._changes = 0
        self._has_hidden_words = _HIDES_WORDS.search(command) is not None
        self._has_structures = _STRUCTURES.search(command) is not None

    @property
    def are_too_many(self) -> bool:
        return max(self._changes, len(self.judges)) > _MAX_FOLDER_CHANGES

    def pass_segment(self, segment: Segment) -> None:
        """Note the end of a simple command, which may be a `cd`."""
        words = segment.text.split()
        start = next((index for index, word in enumerate(words) if word in _CHANGES_FOLDER), None)
        if start is not None:
            self._change(segment, words[start + 1 :], is_command=start == 0)
        if "popd" in words:
            self.judges = self._seen
        if segment.after != "&&":
            self.judges = tuple(dict.fromkeys((*self.judges, *self._others)))
            self._others = ()

    def _change(self, segment: Segment, arguments: list[str], *, is_command: bool) -> None:
        """Add the target of a `cd`. Keep the folders before it unless it certainly runs, and runs in this shell."""
        self._changes += 1
        target = next((word for word in arguments if not word.startswith("-")), "~")
        old = self.judges
        new = tuple(dict.fromkeys(judge.moved_to(target) for judge in old))
        self._seen = tuple(dict.fromkeys((*self._seen, *new)))
        may_be_hidden = bool(segment.before) and self._has_hidden_words
        is_certainly_cd = is_command and not may_be_hidden and "-" not in arguments
        if not is_certainly_cd:
            self.judges = tuple(dict.fromkeys((*old, *new)))
            return
        self.judges = new
        is_unconditional = set(segment.before) <= set(";\n")
        ends_normally = segment.after == "&&" or set(segment.after) <= set(";\n")
        exists = all(judge.folder is not None and os.path.isdir(judge.folder) for judge in new)  # noqa: PTH112  # text
        always_succeeds = is_unconditional and ends_normally and exists and not self._has_structures
        if not always_succeeds:
            self._others = (*self._others, *old)


@dataclass(frozen=True, slots=True)
class FolderWriteJudge:
    """The judge of programs that run in one folder. Variables other than `$HOME` count as unknown."""

    session_folders: SessionFolders
    folder: str | None
    """The folder in which a program runs, None if that is unknown."""

    @staticmethod
    def of(session_folders: SessionFolders) -> FolderWriteJudge:
        return FolderWriteJudge(session_folders, os.path.realpath(session_folders.root))

    def moved_to(self, target: str) -> FolderWriteJudge:
        """Return the judge for the folder after `cd target`."""
        return replace(self, folder=self._path(target))

    def unnamed_target_reason(self, command: str) -> str:
        """Return why a program may write a protected file that `command` does not name, empty if none may."""
        folders = PossibleFolders(self, command)
        for segment in segments(QUOTES.sub("", command.replace("${HOME}", "$HOME")), _SEPARATORS):
            words = segment.text.split()
            names = [(index, _program_name(words, index)) for index in range(len(words))]
            programs = [(index, name) for index, name in names if name in _PROGRAMS]
            if len(programs) > _MAX_PROGRAMS:
                return "it names very many programs that write files"
            for index, name in programs:
                if any(judge._may_write_after(words[:index], name, words[index + 1 :]) for judge in folders.judges):
                    return f"{name} may change protected files that the command does not name, such as .git/config"
            if any(judge._sets_work_tree(words) for judge in folders.judges):
                return "git may change protected files in the folder of GIT_WORK_TREE"
            folders.pass_segment(segment)
            if folders.are_too_many:
                return "it changes the folder very often"
        return ""

    def _sets_work_tree(self, words: list[str]) -> bool:
        """Return whether words set the folder of git to one with protected files: `GIT_WORK_TREE=~ git checkout x`."""
        values = (word.removeprefix("GIT_WORK_TREE=") for word in words if word.startswith("GIT_WORK_TREE="))
        return any(self._reaches_protected(self._path(value)) for value in values)

    def _may_write_after(self, before: list[str], name: str, words: list[str]) -> bool:
        """Return whether a program may write a protected file, also in the folder of an `env -C` before it."""
        folders = _ENV_FOLDER.values(before) if "env" in before else ()
        return any(judge._may_write(name, words) for judge in (self, *map(self.moved_to, folders)))

    def _may_write(self, name: str, words: list[str]) -> bool:
        """Return whether the program `name` with the arguments `words` may write a protected file."""
        if name in _UNPACKERS:
            return self._unpacking_may_write(name, words)
        if name in _DOWNLOADERS:
            return self._download_may_write(_DOWNLOADERS[name], words)
        if name == "git":
            return self._git_may_write(words)
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

    def _git_may_write(self, words: list[str]) -> bool:
        """Return whether git may write a protected file.

        Each `-C` is relative to the one before it. A word such as `-C` may also be a part of a quoted value, so every
        combination of the changes counts.
        """
        changed: dict[FolderWriteJudge, None] = {}
        for value in _GIT_CHANGES_FOLDER.values(words):
            changed |= dict.fromkeys(judge.moved_to(value) for judge in (self, *changed))
            if len(changed) > _MAX_FOLDER_CHANGES:
                return True
        if any(judge._reaches_protected(judge.folder) for judge in changed or (self,)):
            return True
        named = list(_GIT_FOLDERS.values(words))
        if not _GIT_CREATES.isdisjoint(words):
            named += [word for word in words if _LEAVES_FOLDER.match(word)] + list(_GIT_PREFIX.values(words))
        return any(judge._reaches_protected(judge._path(word)) for judge in (self, *changed) for word in named)

    def _download_may_write(self, downloader: _Downloader, words: list[str]) -> bool:
        """Return whether a download may write a protected file."""
        if any(setting != _HARMLESS_SETTING for setting in downloader.settings.values(words)):
            return True
        if not words or re.match(downloader.first_argument, words[0]):
            return False
        if not any(re.match(downloader.names_file, word) for word in words):
            return False
        counts_git = any(re.match(downloader.names_folders, word) for word in words)
        folders = list(downloader.target.values(words)) or ["."]
        return any(self._reaches_protected(self._path(folder), counts_git=counts_git) for folder in folders)

    def _unpacking_may_write(self, name: str, words: list[str]) -> bool:
        """Return whether an unpacking program may write a protected file."""
        if self._extracts_nothing(name, words):
            return False
        if _writes_anywhere(name, words):
            return True
        folders = list(_UNPACKERS[name].values(words))
        if name == "cpio" and _passes_files(words):
            folders = words[-1:]
        if name == "unrar":
            folders += [word for word in words if word.endswith("/")]
        if name == "python -m zipfile":
            folders = [word for word in words if not word.startswith("-")]
        if name == "patch" and not folders and _names_patched_file(words):
            return False
        return any(self._reaches_protected(self._path(folder), counts_git=True) for folder in folders or ["."])

    @staticmethod
    def _extracts_nothing(name: str, words: list[str]) -> bool:
        """Return whether an unpacking program only lists or creates an archive, or tests it."""
        if not words or not re.fullmatch(_EXTRACTS_NOTHING.get(name, "(?!)"), words[0]):
            return False
        return not any(re.match(_EXTRACTS_ANYWAY.get(name, "(?!)"), word) for word in words)

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
        real_path = resolved_path(path)
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
        if unknown := UNKNOWN.search(word):
            start = word[: unknown.start()]
            known_part = os.path.dirname(start) or ("." if start else "")  # noqa: PTH120  # text
        if not known_part or known_part.startswith("~") or (self.folder is None and not known_part.startswith("/")):
            return None
        if len(known_part) > MAX_PATH:
            return None
        return resolved_path(absolute_path(known_part, self.folder or "/", home))

    def _protected_paths(self) -> Iterator[str]:
        home = os.path.realpath(home_of(self.session_folders))
        yield from (f"{home}/{name}".casefold() for name in HOME_PATHS)
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
        # `-t` of rsync has another meaning.
        target_folders = list(_COPIES_TO.values(words)) if program in ("cp", "mv", "install", "ln") else []
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
            is_exact=any(re.fullmatch(r"-(?=[A-Za-z]*T)[A-Za-z]*|--no-t[a-z-]*", word) for word in words),
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
        if self.program == "rclone" or (self.can_merge and source.endswith("/")):
            return ""
        name = os.path.basename(source.rstrip("/"))  # noqa: PTH119  # text
        return "" if name in (".", "..") or name.startswith("$") else name


def _program_name(words: list[str], index: int) -> str:
    """Return the name of the program that a word may start: `tar` for `/bin/tar`, `python -m tarfile` for a module."""
    word = words[index]
    option = f"{words[index - 1]}{word}" if index and word in _MODULES else word
    module = next((name for name in _MODULES if option.startswith("-") and option.endswith(f"m{name}")), None)
    return word.rpartition("/")[2] if module is None else f"python -m {module}"


def _writes_anywhere(name: str, words: list[str]) -> bool:
    """Return whether an unpacking program may write absolute paths that its input contains."""
    if name == "cpio":
        return not _passes_files(words) and not any(word.startswith("--no-abs") for word in words)
    if _UNPACKERS[name].is_dashless and words and words[0].isalpha() and "P" in words[0]:
        return True
    pattern = _WRITES_ANYWHERE.get(name)
    return pattern is not None and any(re.match(pattern, word) for word in (*words, ""))


def _passes_files(words: list[str]) -> bool:
    """Return whether cpio copies files into the folder that is its last argument."""
    return any(re.match(r"-[A-Za-z]*p|--pass", word) for word in words)


def resolved_path(path: str) -> str | None:
    """Return the real path, None if the system does not let this process read a link in it, such as `/proc/1/root`."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return None


def _is_recursive(words: list[str]) -> bool:
    return any(re.match(r"-[A-Za-z]*[rRa]|--(?:rec|ar|r$)", word) for word in words)


def _names_patched_file(words: list[str]) -> bool:
    """Return whether an argument of `patch` names the file to change."""
    operands = [
        word
        for before, word in pairwise(["", *words])
        if not word.startswith(("-", "<", ">")) and before not in ("-i", "<", "-p", "--input")
    ]
    return bool(operands) and UNKNOWN.search(operands[0]) is None
