"""Which names of files a command prints, one a line or each with a NUL behind it. Pure.

Only what surely prints such names and nothing else is known: `find`, listings of git, of `rg`, `grep` and `ls`,
perhaps through programs that leave whole lines out or change their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from qcode.safety.shell.forms import Bounds, Command, Found, Piping, Script, Word

_SILENT = frozenset(
    {
        "(", ")", "!", ",", "-a", "-and", "-o", "-or", "-not", "-print", "-print0", "-prune", "-depth", "-d", "-mount",
        "-xdev", "-daystart", "-empty", "-readable", "-writable", "-executable", "-true", "-false", "-quit",
    }
)  # fmt: skip
_TESTS = frozenset(
    {
        "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype", "-type",
        "-size", "-perm", "-user", "-group", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-maxdepth",
        "-mindepth", "-newer", "-anewer", "-cnewer", "-newermt", "-links",
    }
)  # fmt: skip
_BRANCHING = frozenset({"(", ")", "!", ",", "-o", "-or", "-not", "-prune"})
_FILTERS: Mapping[str, re.Pattern[str]] = {
    "head": re.compile(r"|-n ?\d+|-\d+"),
    "tail": re.compile(r"|-n ?\+?\d+|-\d+"),
    "sort": re.compile(r"|-[bdfgiMhnRrVsu]+( -[bdfgiMhnRrVsu]+)*"),
    "uniq": re.compile(r"|-[du]"),
    "tac": re.compile(r""),
    "shuf": re.compile(r"|-n ?\d+"),
}
_GREP = frozenset({"-v", "-i", "-E", "-F", "-w", "-x", "-P", "-vE", "-iv", "-vi", "-Ev", "-vF", "-e"})


def feed_of(scripts: tuple[Script, ...]) -> Found | None:
    """Return the names that a pipe of `scripts` prints, None where it may print anything else."""
    if len(scripts) == 1 and isinstance(scripts[0], Piping):
        scripts = scripts[0].parts
    first, *filters = scripts or (None,)
    found = _printed(first) if isinstance(first, Command) else None
    if found is None or (found.bounds == "nul" and filters):
        return None
    return found if all(isinstance(one, Command) and _keeps_lines(one) for one in filters) else None


def _printed(command: Command) -> Found | None:
    words = command.words
    name = words[0].text
    if words[0] != Word(name) or any(word.holes or word.has_glob or word.is_home for word in words) or command.outputs:
        return None
    printer = _PRINTERS.get(name)
    return printer(tuple(word.text for word in words[1:])) if printer is not None else None


def _keeps_lines(command: Command) -> bool:
    """Return whether a filter prints some of the lines it gets, whole."""
    name, *words = command.words
    if command.inputs or command.texts or command.outputs or any(word.holes for word in words):
        return False
    if name.text == "grep":
        plain = [word.text for word in words if not (word.text.startswith("-") and word.text in _GREP)]
        return len(plain) == 1 and not plain[0].startswith("-")
    known = _FILTERS.get(name.text)
    return known is not None and known.fullmatch(" ".join(word.text for word in words)) is not None


def find_of(words: tuple[str, ...]) -> Found | None:
    """Return the names that `find` prints, or hands on at the end of `words`; None where it prints more about them."""
    rest = list(words)
    starts: list[str] = []
    while rest and not rest[0].startswith("-") and rest[0] not in _BRANCHING:
        starts.append(rest.pop(0))
    names: list[str] = []
    is_plain = False
    # A test leaves names out only where nothing else is tried in its place, and nothing was printed before.
    is_straight = not _BRANCHING & set(rest)
    while rest:
        word = rest.pop(0)
        if word in _TESTS and rest:
            value = rest.pop(0)
            is_plain = is_plain or (is_straight and word == "-type" and value == "f")
            names += [value] if is_straight and word == "-name" and not set(value) & set("[\\") else []
        elif word not in _SILENT:
            return None
        is_straight = is_straight and not word.startswith("-print")
    if {"-print", "-print0"} <= set(words):
        return None
    bounds: Bounds = "nul" if "-print0" in words else "line"
    return Found(tuple(starts) or (".",), tuple(names), is_plain, bounds=bounds)


def _git(words: tuple[str, ...]) -> Found | None:
    """Names are of files in the folder, or in that of the repository. Of older commits they could be anything."""
    match words:
        case ("ls-files", *rest) if _are_known(rest, r"-[zmocdk]+|--(others|modified|cached|deleted|exclude-standard)"):
            is_apart = any(re.fullmatch(r"-\w*z\w*", word) for word in rest)
        case ("diff", *rest) if "--name-only" in rest and set(rest) <= {"--name-only", "--cached", "--staged"}:
            is_apart = False
        case _:
            return None
    return Found((".",), is_bare=True, bounds="nul" if is_apart else "line")


def _listing(flags: str, valued: frozenset[str], needed: str, apart: str) -> Callable[[tuple[str, ...]], Found | None]:
    """Return how the words of a search are read that prints the names of files where an option asks for them."""

    def read(words: tuple[str, ...]) -> Found | None:
        options, rest = list[str](), list(words)
        while rest:
            word = rest.pop(0)
            if word in valued and rest and not rest[0].startswith("-"):
                rest.pop(0)
            elif word.startswith("-"):
                options.append(word)
            elif word.startswith(("/", "~")) or ".." in word.split("/"):
                return None
        if not _are_known(options, flags) or not any(re.fullmatch(needed, word) for word in options):
            return None
        is_apart = any(re.fullmatch(apart, word) for word in options)
        return Found((".",), is_bare=True, bounds="nul" if is_apart else "line")

    return read


def _ls(words: tuple[str, ...]) -> Found | None:
    return Found((".",), is_bare=True) if all(re.fullmatch(r"-[1trSAaUcX]+", word) for word in words) else None


def _are_known(words: list[str], options: str) -> bool:
    return all(re.fullmatch(options, word) for word in words if word.startswith("-"))


_PRINTERS: Mapping[str, Callable[[tuple[str, ...]], Found | None]] = {
    "find": find_of,
    "git": _git,
    "grep": _listing(r"-[rlLiEFwvsnZP]+|--(include|exclude|exclude-dir)=.*", frozenset(), r"-\w*[lL]\w*", r"-\w*Z\w*"),
    "rg": _listing(
        r"-[liFwvsSn0]+|--files|--null|--files-with-matches",
        frozenset({"-g", "--glob", "-t", "--type", "-T", "--type-not"}),
        r"-[a-zA-Z0]*l[a-zA-Z0]*|--files|--files-with-matches",
        r"-[a-zA-Z]*0[a-zA-Z0]*|--null",
    ),
    "ls": _ls,
}
