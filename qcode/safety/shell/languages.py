"""Checks of arguments that `commands.toml` cannot describe: sed, awk and jq scripts, and builtins of bash. Pure.

Each check is an allowlist: it accepts what is known to only read input and print, and anything else needs approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from qcode.safety.protected_paths import is_secret
from qcode.safety.shell.ast import SAFE_VARIABLES, Word
from qcode.safety.shell.table import ParsedArguments, Role

# Every repetition is possessive (`++`), because backtracking would take exponential time: for `; ; ;…`, a pattern would
# try all ways to divide the blanks between two repetitions. Each script still matches, because no part can begin with a
# character that the repetition before it consumes. `{mark}` stands for the delimiter: the `/` of `/a/` and `s/a/b/`.
_SED_CLASS = r"\[(?:\[:[a-z]++:\]|[^{mark}\]\\\n\[])++\]"
_SED_ADDRESS = rf"(?:\d++(?:~\d++)?+|\$|/(?:[^/\\\n\[\]]|\\[^\n]|{_SED_CLASS.replace('{mark}', '/')})++/I?+)"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|\+\d++))?+!?+)?+"
_SED_SUBSTITUTE = "|".join(
    rf"s{mark}(?:[^{mark}\\\n\[\]]|\\[^\n]|{_SED_CLASS.replace('{mark}', mark)})*+"
    rf"{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}[gpiI\d]*+"
    for mark in ("/", "#", ",", r"\|", "@", ":")
)
_SED_START = rf"\s*+{_SED_RANGE}\s*+"
_SED_VERB = rf"(?:[pdDNnPhHgGx=]|q\d*+|{_SED_SUBSTITUTE})\s*+"
_SED_GROUP = rf"\{{{_SED_START}{_SED_VERB}(?:;{_SED_START}{_SED_VERB})*+;?+\s*+\}}\s*+"
_SED_COMMAND = rf"{_SED_START}(?:{_SED_VERB}|{_SED_GROUP})"
_SED = re.compile(rf"{_SED_COMMAND}(?:;{_SED_COMMAND})*+;?+\s*+")

MAX_SCRIPT = 2_000
"""The maximum length of a script that is read, in characters."""

# A string without an end is matched as a whole and refused. Otherwise each escaped quote would be tried as a start.
_AWK_STRING = r'"(?:[^"\\\n]|\\[^\n])*+(?P<end>"?)'
_AWK_REGEX = r"/(?:[^/\\\n\[]|\\[^\n]|\[(?!\^?\])[^\]/\\\n\[]++\])++/"
# A slash starts a pattern only at the start of a line, after one of these characters or operators, or after `|`.
_AWK_LITERALS = re.compile(rf"{_AWK_STRING}|(?P<before>(?:^|[({{,;!~\n}}]|&&|\|\|)[ \t]*){_AWK_REGEX}")
_AWK_ALLOWED_NAMES = frozenset(
    {
        "BEGIN", "END", "if", "else", "for", "in", "while", "do", "break", "continue", "next", "exit", "delete",
        "print", "printf", "length", "substr", "split", "sub", "gsub", "match", "sprintf", "tolower", "toupper",
        "int", "index", "sqrt", "exp", "log", "NR", "NF", "FS", "OFS", "ORS", "RS", "FNR", "FILENAME", "RSTART",
        "RLENGTH", "SUBSEP", "rand", "srand", "sin", "cos", "atan2", "gensub", "strtonum", "strftime",
        "systime",
    }
)  # fmt: skip
_AWK_NAME = re.compile(r"([A-Za-z_]\w*+)(?=\s*+(\S?))")
_AWK_VARIABLE = re.compile(r"[a-z_]\w{0,20}")
# A slash after a number, an index or a variable is a division. Anywhere else, even after `)`, it may start a pattern.
_AWK_DIVISION = re.compile(
    rf"(?:(?<![\w.])(?!(?:{'|'.join(_AWK_ALLOWED_NAMES - {'NR', 'NF', 'FNR'})})\b)[\w.]+|\])[ \t]*/(?![=/])"
)
_AWK_STRUCTURE = re.compile(r"\bprint|[{}()>]")
_AWK_REFUSED = re.compile(r"[@#\\`'\"]|\bgetline\b|(?<!\|)\|(?!\|)")

# The characters of a jq filter outside strings.
_JQ_PLAIN = re.compile(r"[\w.\[\]|,:;@$\s(){}?<>=!+*/%-]*")
# A string up to its end (`"`) or up to an expression in it (`\(`), a parenthesis, or other text.
_JQ_PARTS = re.compile(r'"(?:[^"\\\n]|\\["\\/bfnrt])*(?P<stop>"|\\\()|[()]|[^"()]+')
# The rest of a string after an expression in it, up to its end or the next expression.
_JQ_STRING_REST = re.compile(r'(?:[^"\\\n]|\\["\\/bfnrt])*(?P<stop>"|\\\()')
_PARENTHESES, _BRACES = {"(": 1, ")": -1}, {"{": 1, "}": -1}
"""The change of the depth at each bracket."""
# Names that read more than the input.
_JQ_OUTSIDE_NAMES = re.compile(
    r"\b(env|include|import|input|inputs|input_filename|debug|stderr|halt|halt_error|modulemeta|"
    r"get_search_list|ENV|__prog_args)\b"
)


def is_reading_sed(script: str) -> bool:
    """Return whether a GNU sed script only selects, deletes and changes the lines that it prints."""
    return len(script) < MAX_SCRIPT and _SED.fullmatch(script) is not None


def is_reading_awk(script: str) -> bool:
    """Return whether an awk program only reads its input and prints to the output."""
    if len(script) > MAX_SCRIPT or not script.replace("\n", " ").isprintable():
        return False
    bare = _AWK_LITERALS.sub(_awk_literal_as_number, script)
    has_unclear_slash = "/" in _AWK_DIVISION.sub(" ", bare)
    if has_unclear_slash or _AWK_REFUSED.search(bare):
        return False
    for match in _AWK_NAME.finditer(bare):
        name, next_character = match[1], match[2]
        is_variable = _AWK_VARIABLE.fullmatch(name) is not None and next_character != "("
        if name not in _AWK_ALLOWED_NAMES and not is_variable:
            return False
    return not _awk_redirects(bare)


def _awk_literal_as_number(literal: re.Match[str]) -> str:
    """Return a 0 in place of a string or pattern; for a string without an end a quote, which `_AWK_REFUSED` matches."""
    if literal["end"] == "":
        return '"'
    return f"{literal['before'] or ''} 0 "


def is_reading_jq(script: str) -> bool:
    """Return whether a jq filter reads only its input."""
    bare = _jq_code(script) if len(script) < MAX_SCRIPT else None
    return bare is not None and _JQ_PLAIN.fullmatch(bare) is not None and _JQ_OUTSIDE_NAMES.search(bare) is None


def _jq_code(script: str) -> str | None:
    """Return a filter without the text of its strings but with the expressions in them, None if its syntax is unclear.

    `"a \\(.x) b"` becomes ` .x `.
    """
    position = 0
    code: list[str] = []
    # The number of open parentheses: of the filter, then of each expression around `position`, the innermost last.
    open_parentheses = [0]
    while position < len(script):
        is_in_expression = len(open_parentheses) > 1
        if is_in_expression and open_parentheses[-1] == 0 and script[position] == ")":
            # The expression ends, and the string around it continues.
            open_parentheses.pop()
            part = _JQ_STRING_REST.match(script, position + 1)
        else:
            part = _JQ_PARTS.match(script, position)
        if part is None:
            return None
        position = part.end()
        match part["stop"]:
            case '"':
                code.append(" ")
            case r"\(":
                code.append(" ")
                open_parentheses.append(0)
            case None:  # not a string
                code.append(part[0])
                open_parentheses[-1] += _PARENTHESES.get(part[0], 0)
        if open_parentheses[-1] < 0:
            return None
    is_complete = len(open_parentheses) == 1
    return "".join(code) if is_complete else None


def _awk_redirects(bare: str) -> bool:
    """Return whether a program may redirect to a file: with a `>` inside an action and outside parentheses.

    A print statement in the parentheses of `for` may redirect as well, so it counts too.
    """
    braces = parentheses = 0
    for match in _AWK_STRUCTURE.finditer(bare):
        symbol = match[0]
        if symbol == "print" and parentheses:
            return True
        braces += _BRACES.get(symbol, 0)
        parentheses += _PARENTHESES.get(symbol, 0)
        if braces < 0 or parentheses < 0 or (symbol in "{}" and parentheses):
            return True
        if symbol == ">" and braces > 0 and not parentheses:
            return True
    return False


Roles = tuple[tuple[Word, Role], ...]
"""Words with the role of each; `list`, for example, is a file whose metadata is read."""

_NUMBER = re.compile(r"[+-]?\d{1,12}", re.ASCII)
_TEST_OF_FILE = frozenset(f"-{letter}" for letter in "efdsrwxLhbcpSgukOGN")
_TEST_OF_FILES = frozenset({"-nt", "-ot", "-ef"})
_TEST_OF_TEXT = frozenset({"=", "==", "!="})
_TEST_OF_NUMBER = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_STORING_FORMAT = re.compile(r"%[^%a-zA-Z(]*[hljLtz]*n")


def roles_of_test(name: str, words: tuple[Word, ...]) -> Roles | str:
    """Return the words of `test`, `[ … ]` or `[[ … ]]` with their roles, or why the test is not understood."""
    closing = {"[": Word("]"), "[[": Word("]]")}.get(name)
    if closing is None:
        return _test(words)
    if words[-1:] != (closing,):
        return "the bracket is not closed"
    return _test(words[:-1]) if name == "[" else _double_bracket(words[:-1])


def script_refusal(name: str, arguments: ParsedArguments) -> str:
    """Return why a script or another argument of this program may do more than read; empty if all only read."""
    for role, only_reads in _SCRIPT_CHECKS.items():
        for script in arguments.by_role(role):
            is_literal = script.is_known and not script.has_glob and not script.is_home
            if not is_literal or not only_reads(script.text):
                return f"this {role} script may do more than read"
    refusal_of = _ARGUMENT_CHECKS.get(name)
    return refusal_of(arguments) if refusal_of is not None else ""


_SCRIPT_CHECKS: Mapping[Role, Callable[[str], bool]] = {
    "sed": is_reading_sed,
    "awk": is_reading_awk,
    "jq": is_reading_jq,
}


def _search_refusal(arguments: ParsedArguments) -> str:
    """Refuse globs of secrets: `rg -g .env x` searches files that it would otherwise skip."""
    globs = arguments.values("-g", "--glob", "--iglob", "--include")
    names = [glob.rsplit("/", 1)[-1] for glob in globs if not glob.startswith("!")]
    return "it looks for files that contain secrets" if any(map(is_secret, names)) else ""


def _awk_refusal(arguments: ParsedArguments) -> str:
    """Refuse assignments among operands, as in `awk '…' x=1 file`, and special variables, as in `-v FS=x`."""
    files = [word.text for word, role in arguments.operands if role == "read"]
    if any("=" in name for name in files):
        return "it sets a variable of awk"
    names = [value.partition("=")[0] for value in arguments.values("-v", "--assign")]
    are_ordinary = all(re.fullmatch(r"[a-z_]\w*", name) for name in names)
    return "" if are_ordinary else "qcode cannot check this assignment of awk"


def _printenv_refusal(arguments: ParsedArguments) -> str:
    """Refuse variables that may hold a secret, and `printenv` alone, which prints all."""
    names = [word.text for word, _ in arguments.operands]
    return "" if names and SAFE_VARIABLES.issuperset(names) else "an environment variable may hold a secret"


def _printf_refusal(arguments: ParsedArguments) -> str:
    """Refuse the forms that assign variables in bash: `-v` and `%n`."""
    template, _ = arguments.operands[0]
    only_prints = (
        template.is_known and not template.text.startswith("-") and _STORING_FORMAT.search(template.text) is None
    )
    return "" if only_prints else "this form of printf may do more than print"


def _command_refusal(arguments: ParsedArguments) -> str:
    """Accept `command -v NAME`, which looks up a name; `command NAME` runs it."""
    return "" if arguments.has("-v", "-V") else "command runs the program that follows it"


_ARGUMENT_CHECKS = {
    **dict.fromkeys(("awk", "gawk", "mawk"), _awk_refusal),
    **dict.fromkeys(("rg", "grep"), _search_refusal),
    "command": _command_refusal,
    "printenv": _printenv_refusal,
    "printf": _printf_refusal,
}


def _test(words: tuple[Word, ...]) -> Roles | str:
    """Return the roles in a test with one operator, optionally negated."""
    if any(word.may_be_several for word in words):
        return "a value in the test could become several words"
    if len(words) > 1 and words[0] == Word("!"):
        words = words[1:]
    match words:
        case (operand,) if not operand.text.startswith("-"):
            return ((operand, "text"),)
        case (operator, operand) if operator.text in ("-n", "-z"):
            return ((operand, "text"),)
        case (operator, operand) if operator.text in _TEST_OF_FILE:
            return ((operand, "list"),)
        case (left, operator, right) if operator.text in _TEST_OF_TEXT:
            return (left, "text"), (right, "text")
        case (left, operator, right) if operator.text in _TEST_OF_FILES:
            return (left, "list"), (right, "list")
        # Only literal numbers: `[[ a[$(x)] -eq 1 ]]` evaluates its operands, so it would run x.
        case (left, operator, right) if operator.text in _TEST_OF_NUMBER and _is_number(left) and _is_number(right):
            return ()
    return "it has a test that qcode cannot check"


def _double_bracket(words: tuple[Word, ...]) -> Roles | str:
    """Return the roles in `[[ … ]]`, which does not split words and accepts a pattern on the right."""
    # `[[ -f $x ]]` has one operand even if $x contains a blank.
    words = tuple(replace(word, unknown="text") if word.unknown == "words" else word for word in words)
    match words:
        case (left, operator, pattern) if operator.text in _TEST_OF_TEXT:
            # The `*` of `[[ $x == a* ]]` does not expand to files.
            words = (left, operator, replace(pattern, has_glob=False))
    return _test(words)


def _is_number(word: Word) -> bool:
    return word.unknown == "number" or (word.is_known and _NUMBER.fullmatch(word.text) is not None)
