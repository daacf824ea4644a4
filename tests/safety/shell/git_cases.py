"""Commands of git that are made from the rows of the table: each option alone, in each position, and in pairs.

This module has the data that a row cannot express: operands with which a command succeeds, a value of each option, and
the options that work only with others.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from qcode.safety.shell.ast import Word
from qcode.safety.shell.git import GitUse, read_git
from qcode.safety.shell.table import OptionSpec, ProgramSpec, git_commands
from qcode.values import dataclass

_WALKS = ((), ("HEAD",), ("main...topic",), ("v1..HEAD", "--", "a.txt"), ("--", "src"))
_TREES = (("HEAD~1", "HEAD"), ("HEAD",), ("HEAD", "--", "src"))

OPERANDS: Mapping[str, Sequence[Sequence[str]]] = {
    "status": ((), ("src",), ("--", "*.c")),
    "diff": ((), ("HEAD",), ("v1", "HEAD"), ("topic...main",), ("a.txt",), ("HEAD", "--", "a.txt"), ("--", "src")),
    "log": (*_WALKS, ("a.txt",)),
    "show": ((), ("HEAD",), ("v2",), ("HEAD~1", "--", "a.txt"), ("HEAD:a.txt",), (":src/c.c",), ("stash@{0}",)),
    "whatchanged": _WALKS,
    "reflog": ((), ("HEAD",), ("show", "HEAD")),
    "stash/list": ((),),
    "rev-list": (("HEAD",), ("main...topic",), ("v1..HEAD", "--", "a.txt")),
    "shortlog": (("HEAD",), ("v1..HEAD", "--", "a.txt")),
    "stash/show": ((), ("stash@{0}",)),
    "diff-tree": _TREES,
    "branch": ((), ("--list", "ma*")),
    "tag": ((), ("--list", "v*")),
    "for-each-ref": ((), ("refs/heads",)),
    "show-ref": ((), ("main",)),
    "blame": (("a.txt",), ("HEAD", "--", "a.txt"), ("src/c.c",)),
    "grep": (("needle",), ("needle", "src"), ("needle", "HEAD"), ("needle", "--", "*.txt")),
    "ls-files": ((), ("src",), ("--", "*.c")),
    "ls-tree": (("HEAD",), ("HEAD", "src"), ("HEAD", "--", "a.txt")),
    "rev-parse": (("HEAD",), ()),
    "describe": ((), ("HEAD~1",)),
    "merge-base": (("main", "topic"),),
    "name-rev": (("HEAD",),),
    "cherry": ((), ("topic",), ("topic", "main")),
    "cat-file": (("commit", "HEAD"), ("blob", "HEAD:a.txt")),
    "count-objects": ((),),
    "check-ignore": (("build/x.o",), ("--", "a.txt", "x.o")),
    "check-attr": (("diff", "a.txt"), ("diff", "--", "a.txt", "image.bin")),
    "symbolic-ref": (("HEAD",), ("refs/remotes/origin/HEAD",)),
    "worktree/list": ((),),
    "notes/list": ((), ("HEAD~1",)),
    "notes/show": (("HEAD~1",),),
    "remote": ((),),
    "remote/get-url": (("origin",),),
    "config": (("remote.origin.url",),),
    "version": ((),),
}
"""Operands with which each command succeeds; the first are those to which options are added."""

_VALUES = {
    "--diff-filter": "AM", "--diff-algorithm": "patience", "--ws-error-highlight": "all", "--stat": "80",
    "-X": "files", "--dirstat": "files", "--color": "never", "-M": "50%", "--find-renames": "50%", "-C": "50%",
    "--find-copies": "50%", "-B": "50%", "--break-rewrites": "50%", "--word-diff": "plain", "--color-moved": "zebra",
    "--ignore-submodules": "all", "--color-words": "[a-z]+", "--date": "iso", "--encoding": "UTF-8", "-S": "needle",
    "-G": "need.e", "--since": "2005-01-01", "--after": "2005-01-01", "--until": "2100-01-01", "--before": "2100-01-01",
    "--since-as-filter": "2005-01-01", "--author": "a@b", "--committer": "a@b", "--grep": "second", "--glob": "heads/*",
    "--exclude": "refs/x*", "--branches": "*", "--tags": "*", "--remotes": "*", "--no-walk": "unsorted",
    "--diff-merges": "first-parent", "--decorate": "short", "--decorate-refs": "refs/*",
    "--decorate-refs-exclude": "refs/x*", "--grep-reflog": "o", "-L": "1,1", "--pretty": "%h %an", "--format": "%h %s",
    "--porcelain": "v2", "-u": "no", "--untracked-files": "no", "--ignored": "matching", "--column": "always",
    "--sort": "-refname", "--contains": "HEAD~2", "--no-contains": "HEAD", "--merged": "main", "--no-merged": "v1",
    "--points-at": "v1", "--group": "author", "-w": "76,4,8", "--ignore-rev": "v1", "-e": "needle", "-x": "*.o",
    "--match": "v*", "--refs": "refs/*", "--short": "8", "--abbrev-ref": "strict", "--path-format": "relative",
    "--show-object-format": "storage", "--type": "path", "--threads": "1", "--max-depth": "2",
}  # fmt: skip
_VALUES_BY_COMMAND = {
    ("log", "-L"): "1,2:a.txt", ("blame", "-C"): "20", ("blame", "-M"): "20", ("branch", "--format"): "%(refname)",
    ("tag", "--format"): "%(refname:short) %(subject)", ("for-each-ref", "--format"): "%(objectname) %(contents)",
    ("ls-files", "--format"): "%(path)", ("ls-tree", "--format"): "%(objectname)", ("ls-files", "--exclude"): "*.o",
    ("describe", "--exclude"): "x*", ("name-rev", "--exclude"): "x*", ("grep", "-C"): "3",
    ("grep", "-B"): "3",
}  # fmt: skip

_NEEDS: Mapping[tuple[str, str], Sequence[Sequence[str]]] = {
    ("diff", "--merge-base"): (("HEAD~1",),),
    ("log", "-L"): ((),),
    ("log", "--follow"): (("a.txt",),),
    ("show", "--follow"): (("HEAD", "--", "a.txt"),),
    ("describe", "--contains"): (("v1",),),
    ("log", "--left-only"): (("main...topic",),),
    ("status", "--ahead-behind"): ((),),
    ("show-ref", "--verify"): (("refs/heads/main",),),
    ("ls-files", "-i"): (("-o", "--exclude-standard"),),
    ("ls-files", "--ignored"): (("-o", "--exclude-standard"),),
    ("merge-base", "--independent"): (("main", "topic"),),
    ("merge-base", "--is-ancestor"): (("v1", "main"),),
    ("merge-base", "--fork-point"): (("main", "main"),),
    ("name-rev", "--all"): ((),),
    ("branch", "-l"): ((),),
    ("check-attr", "-a"): (("a.txt",),),
    ("check-attr", "--all"): (("a.txt",),),
    ("check-attr", "--cached"): (("diff", "a.txt"),),
    ("grep", "-e"): ((), ("src",)),
    ("grep", "--and"): (("-e", "needle"),),
    ("grep", "--or"): (("-e", "needle"),),
    ("grep", "--not"): (("-e", "needle"),),
    ("describe", "--exact-match"): (("v2",),),
    ("rev-parse", "--glob"): ((),),
    ("config", "--get-regexp"): (("^remote",),),
    ("config", "--bool"): (("core.filemode",),),
}
"""Operands or further options for an option that does not work with the first operands of its command."""

_BEFORE: Mapping[tuple[str, str], Sequence[str]] = {
    ("grep", "--and"): ("-e", "one"),
    ("grep", "--or"): ("-e", "one"),
    ("log", "--grep-reflog"): ("-g",),
    ("rev-list", "--grep-reflog"): ("-g",),
    ("check-ignore", "-n"): ("-v",),
    ("check-ignore", "--non-matching"): ("-v",),
    ("check-ignore", "-q"): (),
    ("ls-files", "--no-empty-directory"): ("-o", "--directory"),
    ("ls-files", "--directory"): ("-o",),
    ("branch", "--abbrev"): ("-v",),
    ("config", "--show-origin"): ("-l",),
    ("config", "--name-only"): ("-l",),
    ("rev-list", "--left-only"): ("--left-right",),
    ("worktree/list", "-z"): ("--porcelain",),
}
"""Options that have to be given as well."""

_ONLY_SYMMETRIC = frozenset({"--cherry", "--cherry-mark", "--cherry-pick", "--left-only", "--right-only"})
_WITHOUT_OPERANDS = frozenset(
    {
        ("config", "-l"), ("config", "--list"), ("config", "--show-origin"), ("config", "--name-only"),
        ("cat-file", "-p"), ("cat-file", "-t"), ("cat-file", "-s"), ("cat-file", "-e"),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One command: the options added to it, and the words after `git`."""

    command: str
    options: tuple[str, ...]
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(("git", *self.words))

    def use(self, root: str) -> GitUse | str:
        """Return the command as the table reads it, run in the folder `root`."""
        return read_git(tuple(Word(word) for word in self.words), (root,))


def forms_of(program: ProgramSpec, name: str) -> list[tuple[str, ...]]:
    """Return the ways to spell an option, with and without a value, attached and as the next word."""
    option = program.options[name]
    value = value_of(program, name)
    joined = f"{name}={value}" if name.startswith("--") else f"{name}{value}"
    if option.arity == "none":
        return [(name,)]
    if option.arity == "optional":
        bare = [] if (program.name, name) in _NEVER_BARE else [(name,)]
        return [*bare, (joined,)]
    return [(joined,), (name, value)]


_NEVER_BARE = frozenset(
    {
        (command, name)
        for command, names in {
            "log show whatchanged reflog stash/list rev-list diff-tree": "--format --min-parents --max-parents",
            "rev-parse": "--path-format --glob --since --after --until --before",
        }.items()
        for command in command.split()
        for name in names.split()
    }
)
"""Options that need an attached value; git does not take the next word for it."""


def value_of(program: ProgramSpec, name: str) -> str:
    """Return a value with which the option succeeds."""
    option: OptionSpec = program.options[name]
    default = "HEAD" if option.role == "revision" else "3" if option.role == "number" else "x"
    return _VALUES_BY_COMMAND.get((program.name, name), _VALUES.get(name, default))


def single_cases(program: ProgramSpec) -> Iterator[Case]:
    """Yield each option in each of its forms, before and after the operands."""
    for operands in OPERANDS[program.name]:
        yield _case(program, (), (), operands)
    for name in sorted(program.options):
        for form in forms_of(program, name):
            for index, operands in enumerate(operands_for(program, name)):
                yield _case(program, (name,), form, operands)
                if index == 0 or len(operands) == 1:
                    yield _case(program, (name,), form, operands, is_last=True)
    if program.has_number_option:
        yield _case(program, ("-NUMBER",), ("-2",), OPERANDS[program.name][0])


def pair_cases(program: ProgramSpec, chance: random.Random, count: int) -> Iterator[Case]:
    """Yield `count` commands with two or more options in any order and with any operands."""
    names = sorted(program.options)
    if not names:
        return
    for _ in range(count):
        chosen = [chance.choice(names) for _ in range(chance.choice((2, 2, 2, 3, 4)))]
        forms: list[tuple[str, ...]] = [chance.choice(forms_of(program, name)) for name in chosen]
        operands = chance.choice([*operands_for(program, chosen[0]), *OPERANDS[program.name]])
        words = [word for form in forms for word in form]
        yield _case(program, tuple(chosen), words, operands, is_last=chance.random() < 0.3)


def operands_for(program: ProgramSpec, name: str) -> Sequence[Sequence[str]]:
    """Return operands with which an option may succeed."""
    if (program.name, name) in _WITHOUT_OPERANDS:
        return ((),) if program.name == "config" else (("HEAD",), ("HEAD:a.txt",))
    if (program.name, name) in _NEEDS:
        return _NEEDS[program.name, name]
    if name in _ONLY_SYMMETRIC:
        return (("main...topic",),)
    return OPERANDS[program.name][:3]


def _case(
    program: ProgramSpec, names: tuple[str, ...], form: Sequence[str], operands: Sequence[str], *, is_last: bool = False
) -> Case:
    before = [word for name in names for word in _BEFORE.get((program.name, name), ())]
    own = list(operands)
    leading = own[:1] if program.name == "reflog" and own[:1] == ["show"] else []
    own = own[len(leading) :]
    cut = own.index("--") if "--" in own else len(own)
    middle = [*own[:cut], *before, *form] if is_last else [*before, *form, *own[:cut]]
    return Case(program.name, names, (*program.name.split("/"), *leading, *middle, *own[cut:]))


def all_commands() -> list[ProgramSpec]:
    """Return the rows in a fixed order."""
    return [git_commands()[name] for name in sorted(git_commands())]
