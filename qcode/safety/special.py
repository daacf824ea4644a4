"""Programs whose arguments are a language of their own: find, test, printf, and scripts given as words. Pure."""

from __future__ import annotations

import re

from qcode.safety import scripts
from qcode.safety.usage import Role, Use, is_number
from qcode.safety.words import Word

_FIND_ALONE = frozenset(
    {
        "(", ")", "!", ",", "-a", "-and", "-o", "-or", "-not", "-print", "-print0", "-ls", "-prune", "-quit", "-depth",
        "-d", "-mount", "-xdev", "-daystart", "-empty", "-true", "-false", "-readable", "-writable", "-executable",
        "-nouser", "-nogroup", "-noleaf", "-ignore_readdir_race", "-nowarn", "-warn",
    }
)  # fmt: skip
_FIND_VALUED: dict[str, Role] = {
    **dict.fromkeys(
        (
            "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype",
            "-lname", "-ilname", "-type", "-xtype", "-size", "-perm", "-user", "-group", "-fstype", "-printf",
        ),
        "text",
    ),
    **dict.fromkeys(
        (
            "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-maxdepth", "-mindepth", "-links", "-inum",
            "-uid", "-gid", "-used",
        ),
        "number",
    ),
    **dict.fromkeys(("-newer", "-anewer", "-cnewer", "-samefile"), "file"),
}  # fmt: skip

_TEST_FILE = frozenset(f"-{letter}" for letter in "efdsrwxLhbcpSgukOGN")
_TEST_TEXT = frozenset({"=", "==", "!="})
_TEST_NUMBER = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_STORING_FORMAT = re.compile(r"%[^%a-zA-Z(]*[hljLtz]*n")

Whole = tuple[Use, tuple[Role, ...]]


def whole_find(words: tuple[Word, ...]) -> Whole | str:
    """Read `find`: starting points, then an expression of tests and of actions that only print."""
    rest = list(words)
    operands: list[Word] = []
    while rest and rest[0].text == "-P":
        rest.pop(0)
    while rest and not rest[0].text.startswith("-") and rest[0].text not in ("(", ")", "!", ","):
        operands.append(rest.pop(0))
    roles: list[Role] = ["file"] * len(operands)
    while rest:
        word = rest.pop(0)
        if word.has_glob:
            return "a wildcard that could become an action of find"
        if word.text in _FIND_ALONE:
            continue
        role = _FIND_VALUED.get(word.text)
        if role is None or not rest:
            return f"the test or action {word.text} of find is not known to only read"
        operands.append(rest.pop(0))
        if operands[-1].has_glob:
            return "a wildcard that could become an action of find"
        roles.append(role)
    return Use((), tuple(operands)), tuple(roles)


def whole_test(words: tuple[Word, ...]) -> Whole | str:
    """Read `test` in its forms of one operator; anything longer is not known."""
    if any(word.has_glob for word in words):
        return "a wildcard in a test"
    if len(words) == 2 and words[0].text in ("-n", "-z"):
        return Use((), words[1:]), ("text",)
    if len(words) == 2 and words[0].text in _TEST_FILE:
        return Use((), words[1:]), ("file",)
    if len(words) == 3 and words[1].text in _TEST_TEXT:
        return Use((), (words[0], words[2])), ("text", "text")
    if len(words) == 3 and words[1].text in _TEST_NUMBER:
        return Use((), (words[0], words[2])), ("number", "number")
    return "this form of test is not known"


def whole_bracket(words: tuple[Word, ...]) -> Whole | str:
    """Read `[ ... ]`."""
    if not words or words[-1].text != "]":
        return "the bracket is not closed"
    return whole_test(words[:-1])


def whole_printf(words: tuple[Word, ...]) -> Whole | str:
    """Read bash's `printf`, which can assign with `-v` and with `%n`."""
    if not words or words[0].text.startswith("-") or _STORING_FORMAT.search(words[0].text):
        return "this form of printf is not known to only print"
    return Use((), words), _texts(words)


def whole_text(words: tuple[Word, ...]) -> Whole | str:
    """Read a builtin such as `echo` that only prints its words."""
    return Use((), words), _texts(words)


def _texts(words: tuple[Word, ...]) -> tuple[Role, ...]:
    return tuple("text" for _ in words)


def roles_of_grep(use: Use) -> tuple[Role, ...]:
    """The first operand of grep is the pattern unless an option brought it; files follow, or whole folders."""
    place: Role = "tree" if use.has("-r", "--recursive") else "file"
    return (place,) if use.has("-e", "-f", "--regexp", "--file") else ("text", place)


def roles_of_rg(use: Use) -> tuple[Role, ...]:
    return ("tree",) if use.has("-e", "-f", "--regexp", "--file", "--files") else ("text", "tree")


def roles_of_diff(_: Use) -> tuple[Role, ...]:
    """diff reads the files of a folder that it is given, with `-r` and without."""
    return ("tree", "tree")


def roles_of_script(use: Use) -> tuple[Role, ...]:
    """The first operand of sed is its script unless `-e` brought it."""
    return ("file",) if use.has("-e", "--expression") else ("text", "file")


def check_sed(use: Use) -> str:
    given = use.values("-e", "--expression") or tuple(word.text for word in use.operands[:1])
    is_fine = bool(given) and all(scripts.is_reading_sed(script) for script in given)
    return "" if is_fine else "this sed script is not known to only print"


def check_awk(use: Use) -> str:
    if not use.operands or not scripts.is_reading_awk(use.operands[0].text):
        return "this awk program is not known to only print"
    if any("=" in word.text for word in use.operands[1:]):
        return "an assignment among the files of awk"
    names = [value.partition("=")[0] for value in use.values("-v", "--assign")]
    return "" if all(re.fullmatch(r"[a-z_]\w*", name) for name in names) else "an assignment of awk"


def check_jq(use: Use) -> str:
    is_fine = bool(use.operands) and scripts.is_reading_jq(use.operands[0].text)
    return "" if is_fine else "this jq filter is not known to only print"


def check_date(use: Use) -> str:
    return "" if all(word.text.startswith("+") for word in use.operands) else "date could set the clock"


def check_sleep(use: Use) -> str:
    is_short = len(use.operands) == 1 and re.fullmatch(r"(10|\d)(\.\d+)?s?", use.operands[0].text) is not None
    return "" if is_short else "a long sleep"


def check_numbers(use: Use) -> str:
    return "" if use.operands and all(is_number(word.text) for word in use.operands) else "an operand is no number"


def check_lookup(use: Use) -> str:
    """`command` looks a name up with `-v` and runs it without."""
    return "" if use.has("-v", "-V") else "command runs what follows"
