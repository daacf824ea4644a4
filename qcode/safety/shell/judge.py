"""May a shell command run without asking, because it surely only reads? Everything not surely understood asks.

Each simple command is looked up in `programs` or `git`, and every file it names goes through the path layer. Nothing is
run here: what needs a process, whether bash takes the command at all and what the configuration of the repository sets,
is asked of `Looks`, which the caller brings.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from qcode.safety.paths import Ground, anchored, home_of, judge_on
from qcode.safety.places import is_within
from qcode.safety.shell import git
from qcode.safety.shell.programs import PROGRAMS, VERSIONS, WRAPPERS
from qcode.safety.shell.script import Part, Places, target_of_cd
from qcode.safety.shell.trees import Sieve, Tree
from qcode.safety.shell.usage import Program, Role, Use, is_number, read_use
from qcode.safety.shell.words import Word
from qcode.safety.verdict import Verdict

_MOST_MATCHES = 300
_VERSION_FILES = (
    ".python-version", ".ruby-version", ".node-version", ".nvmrc", ".tool-versions", ".java-version", ".go-version",
    ".perl-version", ".php-version", "mise.toml", ".mise.toml", ".mise", ".config/mise.toml", "mise.local.toml",
)  # fmt: skip
"""Files by which pyenv, asdf, mise and their kin let a folder choose what a shim runs."""
_WILD = re.compile(r"[*?]")


Reader: TypeAlias = Callable[[str], Verdict]
"""Says whether a path may be read."""

ALLOWED = "shell:read-only"
PATH = "shell:path"


@dataclass(frozen=True, slots=True)
class Repository:
    """What a look at a repository found. `complaint` says why git may not be run there unasked, empty where it may."""

    complaint: str = ""
    has_submodules: bool = False
    has_credentials: bool = False


def _unchecked(_: str) -> str:
    return "bash was not asked whether it understands the command"


def _unseen() -> Repository:
    return Repository("git can run programs that the configuration of the repository names, and nobody looked at it")


@dataclass(frozen=True, slots=True)
class Looks:
    """What only a process can say. `syntax` returns why bash does not take a command, empty where it does.

    The default has looked at nothing, so that no command is allowed unasked. `repository` is about the workspace.
    """

    syntax: Callable[[str], str] = _unchecked
    repository: Callable[[], Repository] = _unseen


class Complaint(Exception):  # noqa: N818  # a finding, not a failure
    """Why a command has to be asked for; `rule` names what decided."""

    rule = "shell:not-read-only"


class _PathComplaint(Complaint):
    """A file it names may not be read unasked, whatever the program."""

    rule = PATH


def judge_part(
    ground: Ground, part: Part, search_path: str = "", reader: Reader | None = None, looks: Looks | None = None
) -> Verdict:
    """Judge one simple command of a pipe or list, taken to run by bash in one of its folders, without its outputs.

    Return `allow` for one that only reads what may be read, else `ask` with the reason. `search_path` is the PATH it
    will run with: a program found in the workspace first asks. `reader` replaces the path layer's answer for reading.
    """
    try:
        for place in sorted(part.places):
            Check(ground, search_path, reader, looks or Looks(), place, len(part.places) == 1).command(part)
    except Complaint as found:
        return Verdict("ask", str(found), found.rule)
    return Verdict("allow", "it only reads", ALLOWED)


def judge_inputs(ground: Ground, part: Part, reader: Reader | None = None) -> Verdict:
    """Judge only the files that a simple command reads through `<`."""
    try:
        for place in part.places:
            for word in part.command.inputs:
                Check(ground, "", reader, Looks(), place).file(word)
    except Complaint as found:
        return Verdict("ask", str(found), "shell:input")
    return Verdict("allow", "its input may be read", "shell:input")


def resolve(ground: Ground, word: Word, places: Places) -> tuple[str, ...]:
    """Return the absolute paths that a word without wildcards may mean."""
    path = f"./{word.text}" if word.text.startswith("~") and not word.is_home else word.text
    return tuple(anchored(path, place, home_of(ground)) for place in sorted(places))


@dataclass(frozen=True, slots=True)
class Check:
    """Raises `Complaint` for what is not surely harmless in the folder `place`."""

    ground: Ground
    search_path: str
    reader: Reader | None
    looks: Looks
    place: str
    is_certain: bool = True
    roots: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        folders = (self.ground.root, *self.ground.added)
        object.__setattr__(self, "roots", tuple(os.path.realpath(folder) for folder in folders))

    def command(self, part: Part) -> None:
        command = part.command
        for word in command.inputs:
            self.file(word)
        if command.words[0] == Word("cd"):
            self._cd(target_of_cd(command))
            return
        words = command.words
        while True:
            name = words[0].text
            if words[0] != Word(name):
                raise Complaint("the name of the program is quoted or spelled in an unusual way")
            self._origin(name)
            wrapper = WRAPPERS.get(name)
            if wrapper is None:
                break
            words = self._unwrapped(name, wrapper, words[1:])
        self._program(name, words[1:])

    def _cd(self, target: str | None) -> None:
        """Allow a `cd` to a folder inside, without links on the way: bash and the kernel differ on `..` after one."""
        if target is None:
            raise Complaint("this form of cd is not understood")
        path = os.path.normpath(f"{'' if target.startswith('/') else self.place}/{target}")
        spelled = (*self.roots, *(os.path.normpath(folder) for folder in (self.ground.root, *self.ground.added)))
        base = max((folder for folder in spelled if is_within(path, folder)), key=len, default="")
        if not base or os.path.realpath(path) != os.path.normpath(f"{os.path.realpath(base)}/{path[len(base) :]}"):
            raise Complaint(f"{target}: it leaves the workspace")
        self._readable(path)

    def _unwrapped(self, name: str, wrapper: Program, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """Return what a wrapper such as timeout runs."""
        use = read_use(replace(wrapper, is_ordered=True), words)
        if isinstance(use, str):
            raise Complaint(f"{name}: {use}")
        self._words(name, [(word, wrapper.values[option]) for option, word in use.options if word is not None])
        inner = use.operands
        if wrapper.operands[0] == "number":
            self._words(name, [(word, "number") for word in inner[:1]])
            inner = inner[1:]
        if not inner:
            raise Complaint(f"{name} has nothing to run")
        return inner

    def _program(self, name: str, words: tuple[Word, ...]) -> None:
        if len(words) == 1 and words[0] == Word(words[0].text) and words[0].text in VERSIONS.get(name, ()):
            return
        if name == "git":
            self._git(words)
            return
        known = PROGRAMS.get(name)
        if known is None:
            raise Complaint(f"{name!r} is not in the list of programs that only read")
        for helper in known.helpers:
            self._origin(helper)
        self._apply(name, known, words)

    def _apply(self, name: str, known: Program, words: tuple[Word, ...]) -> Use:
        use: Use | str
        if known.whole is not None:
            whole = known.whole(words)
            if isinstance(whole, str):
                raise Complaint(f"{name}: {whole}")
            use, roles = whole
        else:
            use = read_use(known, words)
            if isinstance(use, str):
                raise Complaint(f"{name}: {use}")
            roles = known.roles_of(use)
        complaint = known.check(use) if known.check is not None else ""
        if complaint:
            raise Complaint(f"{name}: {complaint}")
        read: list[tuple[Word, Role]] = [(word, known.values[option]) for option, word in use.options if word]
        is_open = Word("--") in words
        read += zip(use.operands, roles, strict=True)
        if "tree" in known.all_roles(use) and "tree" not in roles:
            read.append((Word("."), "tree"))
        self._words(name, read, use, may_lead=known.is_mild or is_open)
        return use

    def _git(self, words: tuple[Word, ...]) -> None:
        here = (os.path.normpath(self.ground.root), self.roots[0])
        if self.place not in here or not self.is_certain:
            raise Complaint("git: the configuration of another folder than the workspace was not looked at")
        asked = git.asked_by(words, here)
        if isinstance(asked, str):
            raise Complaint(f"git: {asked}")
        self._apply(f"git {asked.name}", asked.program, asked.words)
        if asked.reads == "nothing":
            return
        seen = self.looks.repository()
        if seen.complaint:
            raise Complaint(f"git: {seen.complaint}")
        if asked.reads == "work tree" and seen.has_submodules:
            raise Complaint("git: the repository holds others, whose configuration was not looked at")
        if asked.reads == "configuration" and seen.has_credentials:
            raise Complaint("git: the configuration holds credentials")

    def _words(self, name: str, words: list[tuple[Word, Role]], use: Use | None = None, may_lead: bool = False) -> None:
        for word, role in words:
            if role == "number" and not is_number(word.text):
                raise Complaint(f"{name}: {word.text!r} is no number")
            if role in ("text", "number") and word.has_glob:
                raise Complaint(f"{name}: a wildcard could become other arguments")
            if role == "tracked":
                self._tracked(name, word)
            if role in ("file", "tree"):
                for path in self.file(word, may_lead=may_lead):
                    if role == "tree":
                        self._tree(path, Sieve.of(name, use or Use()))

    def file(self, word: Word, *, may_lead: bool = False) -> list[str]:
        """Return the paths that `word` means, all of which may be read."""
        if word.text == "-" or word == Word("/dev/null"):
            return []
        path = word.text
        if path.startswith("~") and not word.is_home:
            path = f"./{path}"
        paths = self._matches(path, may_lead=may_lead) if word.has_glob else [path]
        for one in paths:
            self._readable(one)
        return paths

    def _tracked(self, name: str, word: Word) -> None:
        """Judge a revision or path: git reads no file outside the repository, unless it is told to by such a path."""
        if word.has_glob or word.is_home:
            raise Complaint(f"{name}: a wildcard or home folder could become other arguments")
        revision, colon, below = word.text.rpartition(":")
        path = git.without_magic(word.text) if word.text.startswith(":") else below if colon else word.text
        del revision
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            raise Complaint(f"{name}: {word.text!r} may be outside the workspace")
        if path:
            self._readable(f"./{path}")

    def _readable(self, path: str) -> None:
        verdict = self._verdict(path)
        if not verdict.is_allowed:
            raise _PathComplaint(f"{path}: {verdict.reason}")

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
        if pattern.startswith("-") or (is_leading and not (may_lead and len(ending) > 1)):
            raise Complaint("a wildcard at the start of a word could become an option")
        if any(part.startswith(".") and _WILD.search(part) for part in parts) or "**" in pattern:
            raise Complaint("a wildcard whose meaning is not certain")
        start = anchored(pattern, glob.escape(self.place), glob.escape(home_of(self.ground)))
        matches = glob.iglob(start)  # noqa: PTH207  # bash's rules for dots, not pathlib's
        found = list(islice(matches, _MOST_MATCHES + 1))
        if len(found) > _MOST_MATCHES:
            raise Complaint("a wildcard with very many matches")
        if is_leading and any(os.path.basename(one).startswith("-") for one in found):  # noqa: PTH119  # plain text
            raise Complaint("a wildcard that becomes an option")
        return found or [pattern]

    def _absolute(self, path: str) -> str:
        return anchored(path, self.place, home_of(self.ground))

    def _origin(self, name: str) -> None:
        """Raise where bash would take `name` from the workspace, or from a shim that lets a project choose."""
        if "/" in name:
            raise Complaint("a program named by its path")
        for folder in self.search_path.split(":") if self.search_path else ():
            here = Path(folder or ".") / name
            if not here.is_file() or not os.access(here, os.X_OK):
                continue
            reals = (os.path.realpath(here), os.path.realpath(here.parent))
            is_own = any(is_within(real, root) for real in reals for root in self.roots)
            if is_own or not folder.startswith("/"):
                raise Complaint(f"{name} would be the workspace's own {here}")
            if here.parent.name == "shims" and self._chooses_versions():
                raise Complaint(f"a file of the project chooses which {name} runs")
            return

    def _chooses_versions(self) -> bool:
        folders = (Path(self.place), *Path(self.place).parents)
        return any(os.path.lexists(folder / name) for folder in folders for name in _VERSION_FILES)

    def _tree(self, path: str, sieve: Sieve) -> None:
        reason = Tree(self._verdict, sieve, judges_all=self.reader is not None).why_not(self._absolute(path))
        if reason:
            raise _PathComplaint(reason)
