"""Programs whose arguments are a language of their own: find, test, printf, and scripts given as words. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from qcode.safety import names
from qcode.safety.shell import scripts
from qcode.safety.shell.forms import TELLING, Word
from qcode.safety.shell.usage import Role, Use, is_number

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
    **dict.fromkeys(("-newer", "-anewer", "-cnewer", "-samefile", "-newermm", "-newerma", "-newercm"), "file"),
    **dict.fromkeys(("-newermt", "-newerat", "-newerct"), "text"),
}  # fmt: skip

_TEST_FILE = frozenset(f"-{letter}" for letter in "efdsrwxLhbcpSgukOGN")
_TEST_FILES = frozenset({"-nt", "-ot", "-ef"})
_TEST_TEXT = frozenset({"=", "==", "!="})
_TEST_NUMBER = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_PS_VALUED = ("-o", "-p", "-u", "-C", "--sort", "--pid", "--ppid", "-eo", "-Ao", "-axo", "axo", "-efo")
_PS_OPTION = re.compile(r"(?=.)a?u?x?f?w{0,2}|-aux|-[eAfFlajHTLw]+|--sort=-?[%\w,+-]+|--no-headers?|--forest|\d+")
_PS_VALUE = re.compile(r"[A-Za-z0-9_%,:=+.-]+")
_PIP_OPTIONS = frozenset(
    {"--user", "--local", "--not-required", "--editable", "--format=columns", "--format=freeze", "--format=json"}
)
_TPUT = frozenset({"cols", "lines", "colors", "bold", "sgr0"})
_IP_WORDS = frozenset(
    {
        "a",
        "addr",
        "address",
        "l",
        "link",
        "r",
        "route",
        "n",
        "neigh",
        "show",
        "list",
        "-br",
        "-brief",
        "-4",
        "-6",
        "-c",
        "-j",
    }
)
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
    """Read `test` in its forms of one operator, perhaps behind a `!`; anything longer is not known."""
    if any(word.may_be_several for word in words):
        return "a test of what could become several words"
    if len(words) > 1 and words[0] == Word("!"):
        words = words[1:]
    if len(words) == 1 and not words[0].text.startswith("-"):
        return Use((), words), ("text",)
    if len(words) == 2 and words[0].text in ("-n", "-z"):
        return Use((), words[1:]), ("text",)
    if len(words) == 2 and words[0].text in _TEST_FILE:
        return Use((), words[1:]), ("file",)
    if len(words) == 3 and words[1].text in _TEST_TEXT:
        return Use((), (words[0], words[2])), ("text", "text")
    if len(words) == 3 and words[1].text in _TEST_NUMBER:
        return Use((), (words[0], words[2])), ("number", "number")
    if len(words) == 3 and words[1].text in _TEST_FILES:
        return Use((), (words[0], words[2])), ("file", "file")
    return "this form of test is not known"


def whole_double_bracket(words: tuple[Word, ...]) -> Whole | str:
    """Read `[[ ... ]]`, where a pattern may stand on the right."""
    if not words or words[-1].text != "]]":
        return "the bracket is not closed"
    inside = tuple(replace(word, unknown="text") if word.unknown == "words" else word for word in words[:-1])
    if len(inside) == 3 and inside[1].text in _TEST_TEXT and inside[2].has_glob:
        inside = (*inside[:2], replace(inside[2], has_glob=False))
    return whole_test(inside)


def whole_pip(words: tuple[Word, ...]) -> Whole | str:
    """Read `pip list` and `pip show` where they ask no index: what is installed is looked up."""
    command, *rest = words or (Word(""),)
    options = {word.text for word in rest if word.text.startswith("-")}
    is_known = command in (Word("list"), Word("show")) and not any(word.has_glob or word.is_home for word in rest)
    if not is_known or not options <= _PIP_OPTIONS or (command.text == "list" and len(options) < len(rest)):
        return "only lists of what is installed are known to only read"
    return Use((), ()), ()


def whole_ps(words: tuple[Word, ...]) -> Whole | str:
    """Read `ps` in its usual forms; a bare `e` among BSD options would show the environment of processes."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.text in _PS_VALUED and rest and not rest[0].has_glob:
            value = rest.pop(0).text
            is_known = _PS_VALUE.fullmatch(value) is not None and "environ" not in value
        else:
            is_known = _PS_OPTION.fullmatch(word.text) is not None
        if not is_known or word.has_glob:
            return f"the option {word.text} is not known to only read"
    return Use(), ()


def whole_ip(words: tuple[Word, ...]) -> Whole | str:
    """Read `ip` in its forms that show."""
    is_known = bool(words) and all(word.text in _IP_WORDS and not word.has_glob for word in words)
    return (Use(), ()) if is_known else "this form of ip is not known to only show"


def whole_openssl(words: tuple[Word, ...]) -> Whole | str:
    return (Use(), ()) if words in ((Word("version"),), (Word("version"), Word("-a"))) else "only its version is known"


def whole_bracket(words: tuple[Word, ...]) -> Whole | str:
    """Read `[ ... ]`."""
    if not words or words[-1].text != "]":
        return "the bracket is not closed"
    return whole_test(words[:-1])


def whole_printf(words: tuple[Word, ...]) -> Whole | str:
    """Read bash's `printf`, which can assign with `-v` and with `%n`."""
    if not words or not words[0].is_known or words[0].text.startswith("-") or _STORING_FORMAT.search(words[0].text):
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


def check_globs(use: Use) -> str:
    """A search may be told to look where it would not, and only there."""
    globs = use.values("-g", "--glob", "--iglob", "--include")
    looks_for = any(names.is_secret(glob.rsplit("/", 1)[-1]) for glob in globs if not glob.startswith("!"))
    return "it looks for files that hold secrets" if looks_for else ""


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


def check_yq(use: Use) -> str:
    is_fine = bool(use.operands) and re.fullmatch(r'\.[\w.\[\]"-]*', use.operands[0].text) is not None
    return "" if is_fine else "this yq expression is not known to only print"


def check_unpacker(use: Use) -> str:
    """gzip and its kin replace files unless they list, test, or are told to write to the output."""
    decompresses = use.has("-d", "--decompress")
    is_output = use.has("-c", "--stdout", "--to-stdout") and decompresses
    # The last of -l, -t and -d counts for xz and zstd.
    is_look = use.has("-l", "--list", "-t", "--test") and not decompresses
    return "" if is_output or is_look else "it would replace files"


def check_gunzip(use: Use) -> str:
    """gunzip replaces files unless it lists, tests, or is told to write to the output."""
    return "" if use.has("-c", "--stdout", "--to-stdout", "-l", "--list", "-t", "--test") else "it would replace files"


def check_printenv(use: Use) -> str:
    names = [word.text for word in use.operands]
    return "" if names and TELLING.issuperset(names) else "it may show secrets"


def check_netstat(use: Use) -> str:
    return "" if use.has("-n") else "it would ask the network for names"


def check_tput(use: Use) -> str:
    return "" if use.operands and use.operands[0].text in _TPUT else "this capability is not known to only print"


def check_dpkg(use: Use) -> str:
    return "" if use.options else "it is not told to list"


def check_unzip(use: Use) -> str:
    return "" if use.has("-l", "-v", "-Z", "-p", "-c") else "it would unpack files"


def check_tar(use: Use) -> str:
    """tar lists with `t` alone, and takes `host:file` for a file on another machine."""
    short = next((name for name, _ in use.options if not name.startswith("-")), "")
    files = use.values("-f", "--file") or tuple(word.text for word in use.operands[:1] if short)
    if not (use.has("-t", "--list") or short) or (short and use.options[0][0] != short):
        return "it is not told to list"
    if any(word is not None and word.has_glob for _, word in use.options) or any(
        word.has_glob for word in use.operands
    ):
        return "a wildcard among its files"
    return "" if not any(":" in file for file in files) else "the archive may be on another machine"


def roles_of_tar(use: Use) -> tuple[Role, ...]:
    """The old form without a dash takes the archive as its first operand."""
    is_old = any(not name.startswith("-") and name.endswith("f") for name, _ in use.options)
    return ("file", "text") if is_old else ("text",)


def check_ls(use: Use) -> str:
    """Links inside a listing may lead anywhere: told about one level deep, but not entered."""
    is_entering = use.has("-R", "--recursive") and use.has("-L", "--dereference")
    return "it follows links to wherever they lead" if is_entering else ""


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
