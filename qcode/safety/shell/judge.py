"""May a shell command run without asking, because it surely only reads? Everything not surely understood asks.

Each simple command is looked up in `programs` or `git`, and every file it names goes through the path layer. Nothing is
run here: what needs a process, whether bash takes the command at all and what the configuration of the repository sets,
is asked of `Looks`, which the caller brings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from qcode.safety.paths import Ground, anchored, home_of
from qcode.safety.places import is_within
from qcode.safety.shell import git, running
from qcode.safety.shell.forms import MARK, Found, Word
from qcode.safety.shell.programs import PROGRAMS, VERSIONS, WRAPPERS
from qcode.safety.shell.reads import Complaint, Reader, Reads, Walked
from qcode.safety.shell.script import Part, Places, target_of_cd
from qcode.safety.shell.trees import Sieve
from qcode.safety.shell.usage import Program, Role, Use, is_number, read_use
from qcode.safety.verdict import Level, Verdict

_VERSION_FILES = (
    ".python-version", ".ruby-version", ".node-version", ".nvmrc", ".tool-versions", ".java-version", ".go-version",
    ".perl-version", ".php-version", "mise.toml", ".mise.toml", ".mise", ".config/mise.toml", "mise.local.toml",
)  # fmt: skip
"""Files by which pyenv, asdf, mise and their kin let a folder choose what a shim runs."""

ALLOWED = "shell:read-only"


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
    `levels` are the walls that work here, none unless somebody tried them.
    """

    syntax: Callable[[str], str] = _unchecked
    repository: Callable[[], Repository] = _unseen
    levels: Callable[[], tuple[Level, ...]] = tuple


def judge_part(
    ground: Ground,
    part: Part,
    search_path: str = "",
    reader: Reader | None = None,
    looks: Looks | None = None,
    walked: Walked | None = None,
) -> Verdict:
    """Judge one simple command of a pipe or list, taken to run by bash in one of its folders, without its outputs.

    Return `allow` for one that only reads what may be read, else `ask` with the reason. `search_path` is the PATH it
    will run with: a program found in the workspace first asks. `reader` replaces the path layer's answer for reading.
    `walked` is what the judging of other parts of the same command found out about folders; more is added to it.
    """
    try:
        for place in sorted(part.places):
            Check(ground, search_path, reader, looks or Looks(), place, {} if walked is None else walked).command(part)
    except Complaint as found:
        return Verdict("ask", str(found), found.rule)
    return Verdict("allow", "it only reads", ALLOWED)


def judge_inputs(ground: Ground, part: Part, reader: Reader | None = None) -> Verdict:
    """Judge only the files that a simple command reads through `<`."""
    try:
        for place in part.places:
            Check(ground, "", reader, Looks(), place, {}).inputs(part.command.inputs)
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
    walked: Walked
    roots: tuple[str, ...] = field(init=False)
    reads: Reads = field(init=False)

    def __post_init__(self) -> None:
        folders = (self.ground.root, *self.ground.added)
        object.__setattr__(self, "roots", tuple(os.path.realpath(folder) for folder in folders))
        object.__setattr__(self, "reads", Reads(self.ground, self.reader, self.place, self.walked))

    def command(self, part: Part) -> None:
        command = part.command
        self.inputs(command.inputs)
        if command.words[0] in (Word("cd"), Word("pushd")):
            self._cd(target_of_cd(command))
        elif command.words != (Word("popd"),):
            self._simple(command.words, part.feed)

    def inputs(self, words: tuple[Word, ...]) -> None:
        for word in words:
            if word.may_be_several:
                raise Complaint("the name of its input is not known")
            self.reads.file(word)

    def _simple(self, words: tuple[Word, ...], feed: Found | None) -> None:
        """Judge one program with its arguments, or what it runs with them."""
        while True:
            name = words[0].text
            if words[0] != Word(name):
                raise Complaint("the name of the program is quoted or spelled in an unusual way")
            self._origin(name)
            wrapper = WRAPPERS.get(name)
            if wrapper is None:
                break
            words = self._unwrapped(name, wrapper, words[1:])
        if name == "xargs":
            self._started(name, running.read_xargs(words[1:], feed))
        elif name == "find" and any(word.text == "-exec" for word in words):
            self._find(words[1:])
        else:
            self._program(name, words[1:])

    def _started(self, name: str, words: tuple[Word, ...] | str) -> None:
        """Judge what a program starts with names that it was given."""
        if isinstance(words, str):
            raise Complaint(f"{name}: {words}")
        if words[0].text in ("xargs", "find"):
            raise Complaint(f"{name}: what it runs runs something else")
        self._simple(words, None)

    def _find(self, words: tuple[Word, ...]) -> None:
        rest, started = running.split_find(words)
        self._program("find", rest)
        for inner in started:
            self._started("find", inner)

    def _cd(self, target: str | None) -> None:
        """Allow a `cd` to a folder inside, without links on the way: bash and the kernel differ on `..` after one."""
        if target is None:
            raise Complaint("this form of cd is not understood")
        path = os.path.normpath(os.path.join(self.place, target))  # noqa: PTH118  # plain text, as bash joins it
        spelled = (*self.roots, *(os.path.normpath(folder) for folder in (self.ground.root, *self.ground.added)))
        base = max((folder for folder in spelled if is_within(path, folder)), key=len, default="")
        if not base or os.path.realpath(path) != os.path.normpath(f"{os.path.realpath(base)}/{path[len(base) :]}"):
            raise Complaint(f"{target}: it leaves the workspace")
        self.reads.folder(path)

    def _unwrapped(self, name: str, wrapper: Program, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """Return what a wrapper such as timeout runs."""
        use = read_use(replace(wrapper, is_ordered=True), words)
        if isinstance(use, str):
            raise Complaint(f"{name}: {use}")
        self._words(name, wrapper, [(word, wrapper.values[option]) for option, word in use.options if word is not None])
        inner = use.operands
        if wrapper.operands[0] == "number":
            self._words(name, wrapper, [(word, "number") for word in inner[:1]])
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

    def _apply(self, name: str, known: Program, words: tuple[Word, ...]) -> None:
        use: Use | str
        if known.whole is not None:
            if not known.is_inert and not all(word.is_known for word in words):
                raise Complaint(f"{name}: what is not known could become other arguments")
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
        is_open = any(word.text == "--" for word in words)
        read: list[tuple[Word, Role]] = [(word, known.values[option]) for option, word in use.options if word]
        read += zip(use.operands, roles, strict=True)
        if "tree" in known.all_roles(use) and "tree" not in roles:
            read.append((Word("."), "tree"))
        self._words(name, known, read, use, may_lead=known.is_mild or known.is_tame or is_open)

    def _git(self, words: tuple[Word, ...]) -> None:
        here = (os.path.normpath(self.ground.root), self.roots[0])
        if self.place not in here and not self._is_plain_folder(here):
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

    def _is_plain_folder(self, roots: tuple[str, ...]) -> bool:
        """Return whether git takes the repository of the workspace in this folder below it, for it meets no other."""
        root = next((one for one in roots if is_within(self.place, one)), "")
        if not root or not os.path.isdir(self.place):  # noqa: PTH112  # plain text
            return False
        below = Path(self.place).relative_to(root).parts
        folders = [Path(root, *below[: depth + 1]) for depth in range(len(below))]
        # A folder with these names in it is a repository of its own to git, whatever it is called.
        return not any(os.path.lexists(folder / name) for folder in folders for name in (".git", "HEAD", "gitdir"))

    def _words(
        self,
        name: str,
        known: Program,
        words: list[tuple[Word, Role]],
        use: Use | None = None,
        *,
        may_lead: bool = False,
    ) -> None:
        for word, role in words:
            if role == "number" and not is_number(word.text) and not (word.unknown == "number" and word.text == MARK):
                raise Complaint(f"{name}: {word.text!r} is no number")
            if role in ("text", "number") and word.has_glob and not (word.is_one and known.is_inert):
                raise Complaint(f"{name}: a wildcard could become other arguments")
            if role == "text" and not word.is_known and not known.is_inert:
                raise Complaint(f"{name}: it depends on text that is not known")
            if role == "tracked":
                self.reads.tracked(name, word)
            if role == "file":
                self.reads.file(word, may_lead=may_lead)
            if role == "tree":
                self.reads.tree(word, Sieve.of(name, use or Use()), may_lead=may_lead)

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
