"""Recognises small sed, awk and jq programs that can only read their input and print. Pure.

Each is a white list: what is not recognised is not wrong, only not known to be harmless.
"""

from __future__ import annotations

import re

_CLASS = r"\[(?:\[:[a-z]+:\]|[^{mark}\]\\\n\[])+\]"
_ADDRESS = rf"(\d+(~\d+)?|\$|/([^/\\\n\[\]]|\\[^\n]|{_CLASS.replace('{mark}', '/')})+/I?)"
_RANGE = rf"({_ADDRESS}(,({_ADDRESS}|\+\d+))?!?)?"
_SUBSTITUTE = "|".join(
    rf"s{mark}([^{mark}\\\n\[\]]|\\[^\n]|{_CLASS.replace('{mark}', mark)})*"
    rf"{mark}([^{mark}\\\n]|\\[^\n])*{mark}[gpiI\d]*"
    for mark in ("/", "#", ",", r"\|", "@", ":")
)
_SED_COMMAND = rf"\s*{_RANGE}\s*([pdqDNnPhHgGx=]|q\d+|{_SUBSTITUTE})\s*"
_SED_GROUP = rf"\s*{_RANGE}\s*\{{{_SED_COMMAND}(;({_SED_COMMAND}))*;?\s*\}}\s*"
_SED = re.compile(rf"({_SED_COMMAND}|{_SED_GROUP})(;({_SED_COMMAND}|{_SED_GROUP}))*;?\s*")

_AWK_STRING = r'"(?:[^"\\\n]|\\[^\n])*"'
_AWK_REGEX = r"/(?:[^/\\\n\[]|\\[^\n]|\[(?!\^?\])[^\]/\\\n\[]+\])+/"
_AWK_LITERALS = re.compile(rf"{_AWK_STRING}|(?P<before>(?:^|[({{,;!~\n}}]|&&|\|\|)[ \t]*){_AWK_REGEX}")
_AWK_KNOWN = frozenset(
    {
        "BEGIN", "END", "if", "else", "for", "in", "while", "do", "break", "continue", "next", "exit", "delete",
        "print", "printf", "length", "substr", "split", "sub", "gsub", "match", "sprintf", "tolower", "toupper",
        "int", "index", "sqrt", "exp", "log", "NR", "NF", "FS", "OFS", "ORS", "RS", "FNR", "FILENAME", "RSTART",
        "RLENGTH", "SUBSEP", "rand", "srand", "sin", "cos", "atan2", "gensub", "strtonum", "strftime",
        "systime",
    }
)  # fmt: skip
_AWK_VARIABLE = re.compile(r"[a-z_]\w{0,20}")
# After a number, an index or a variable a slash divides; anywhere else, after a round bracket too, it may be a pattern.
_AWK_DIVISION = re.compile(
    rf"(?:(?<![\w.])(?!(?:{'|'.join(_AWK_KNOWN - {'NR', 'NF', 'FNR'})})\b)[\w.]+|\])[ \t]*/(?![=/])"
)
_AWK_UNKNOWN = re.compile(r"[@#\\`'\"]|\bgetline\b|(?<!\|)\|(?!\|)")

_JQ_PLAIN = re.compile(r"[\w.\[\]|,:;@$\s(){}?<>=!+*/%-]*")
_JQ_PIECES = re.compile(r'"(?:[^"\\\n]|\\["\\/bfnrt])*(?P<opens>"|\\\()|[()]|[^"()]+')
_JQ_AFTER = re.compile(r'(?:[^"\\\n]|\\["\\/bfnrt])*(?P<opens>"|\\\()')
_JQ_REACHES_OUT = re.compile(
    r"\b(env|include|import|input|inputs|input_filename|debug|stderr|halt|halt_error|modulemeta|"
    r"get_search_list|ENV|__prog_args)\b"
)


def is_reading_sed(script: str) -> bool:
    """Return whether a GNU sed script only selects, deletes and substitutes lines on their way to the output."""
    return len(script) < 2_000 and _SED.fullmatch(script) is not None


def is_reading_awk(script: str) -> bool:
    """Return whether an awk program only reads its input and prints to the output."""
    if len(script) > 2_000 or not script.replace("\n", " ").isprintable():
        return False
    bare = _AWK_LITERALS.sub(lambda found: f"{found['before'] or ''} 0 ", script)
    if _AWK_UNKNOWN.search(bare) or "/" in _AWK_DIVISION.sub(" ", bare):
        return False
    for found in re.finditer(r"[A-Za-z_]\w*", bare):
        name, follower = found[0], bare[found.end() :].lstrip()[:1]
        is_name = _AWK_VARIABLE.fullmatch(name) is not None and follower != "("
        if name not in _AWK_KNOWN and not is_name:
            return False
    return not _redirects(bare)


def is_reading_jq(script: str) -> bool:
    """Return whether a jq filter reaches nothing but its input."""
    bare = _jq_code(script) if len(script) < 2_000 else None
    return bare is not None and _JQ_PLAIN.fullmatch(bare) is not None and _JQ_REACHES_OUT.search(bare) is None


def _jq_code(script: str) -> str | None:
    """Return a filter without the text of its strings but with what is computed inside them; None if it is unclear."""
    at, code, rounds = 0, list[str](), [0]
    while at < len(script):
        is_back = rounds[-1] == 0 and len(rounds) > 1 and script[at] == ")"
        found = (_JQ_AFTER if is_back else _JQ_PIECES).match(script, at + is_back)
        if found is None:
            return None
        at = found.end()
        if is_back:
            rounds.pop()
        if found["opens"] is not None:
            code.append(" ")
            rounds += [0] if found["opens"] != '"' else []
            continue
        code.append(found[0])
        rounds[-1] += (found[0] == "(") - (found[0] == ")")
        if rounds[-1] < 0:
            return None
    return "".join(code) if len(rounds) == 1 else None


def _redirects(bare: str) -> bool:
    """Return whether a `>` stands inside an action and outside round brackets, where it may name a file."""
    depth = rounds = 0
    for char in bare:
        depth += (char == "{") - (char == "}")
        rounds += (char == "(") - (char == ")")
        if depth < 0 or rounds < 0 or (char in "{}" and rounds) or (char == ">" and depth > 0 and not rounds):
            return True
    return False
