"""File name patterns (`*`, `?`, `[a-z]`, `{a,b}`, `**`) as regular expressions over relative paths. Pure."""

from __future__ import annotations

import re

from qcode.protocol.tools import Refused

_MAX_ALTERNATIVES = 256
_MAGIC = re.compile(r"[*?\[{]")
_FOLDERS = "(?:[^/]+/)*"
_INNER_BRACES = re.compile(r"\{([^{},]*+,[^{}]*+)\}")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a regular expression that fully matches the relative paths (with `/`) matched by `pattern`."""
    pattern = re.sub(r"^(\./)+", "", pattern)
    return re.compile("|".join(_translate(alternative) for alternative in _expand_braces(pattern)), re.DOTALL)


def split_fixed(pattern: str) -> tuple[str, str]:
    """Split `pattern` into leading folders without a wildcard and the other parts: `src` and `*.py` for `src/*.py`."""
    parts = pattern.split("/")
    fixed = 0
    while fixed < len(parts) - 1 and not _MAGIC.search(parts[fixed]):
        fixed += 1
    return "/".join(parts[:fixed]) or ("/" if fixed else ""), "/".join(parts[fixed:])


def _expand_braces(pattern: str) -> list[str]:
    """Return the expansions of `{a,b}`; an unbalanced brace is an ordinary character."""
    expanded, pending = [], [pattern]
    while pending:
        current = pending.pop()
        braces = _INNER_BRACES.search(current)
        if braces is None:
            expanded.append(current)
        else:
            pending += [current[: braces.start()] + option + current[braces.end() :] for option in braces[1].split(",")]
        if len(expanded) + len(pending) > _MAX_ALTERNATIVES:
            raise Refused(f"the pattern has more than {_MAX_ALTERNATIVES} alternatives")
    return expanded


def _translate(pattern: str) -> str:
    r"""Translate a pattern without braces: `a/**/b*.py` becomes `(?:a/(?:[^/]+/)*b[^/]*\.py)`.

    Literal text between two wildcards matches at its first position and never backtracks. This does not change the
    result, but matching a long name cannot take forever.
    """
    groups: list[list[str]] = [[]]  # the translated folders before, between and after each `**`
    parts = pattern.split("/")
    for part in parts[:-1]:
        if part != "**":
            groups[-1].append(f"{_translate_part(part)}/")
        elif groups[-1] or len(groups) == 1:  # `**/**` is the same as `**`
            groups.append([])
    last = ".*" if parts[-1] == "**" else _translate_part(parts[-1])
    first, *others = ["".join(group) for group in groups]
    if not others:
        return f"(?:{first}{last})"
    middle = "".join(f"(?>{_FOLDERS}?{group})" for group in others[:-1])
    return f"(?:{first}{middle}{_FOLDERS}{others[-1]}{last})"


def _translate_part(part: str) -> str:
    """Translate one component: `a*b?.py` becomes `a[^/]*b[^/]\\.py`."""
    literals = [""]  # the translated text before, between and after the `*`
    index = 0
    while index < len(part):
        char = part[index]
        end = part.find("]", index + 2) if char == "[" else -1
        if char == "*":
            if literals[-1] or len(literals) == 1:  # `**` in a name is the same as `*`
                literals.append("")
        elif char == "?":
            literals[-1] += "[^/]"
        elif end > 0:
            literals[-1] += _translate_class(part[index + 1 : end])
            index = end
        else:
            literals[-1] += re.escape(char)
        index += 1
    first, *others = literals
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{literal})" for literal in others[:-1])
    return f"{first}{middle}[^/]*{others[-1]}"


def _translate_class(inside: str) -> str:
    """Translate a character class; only `-` between two characters, and `!` or `^` at the start, are special."""
    is_negated = inside[0] in "!^"
    chars = inside[1:] if is_negated else inside
    escaped = "".join(char if char.isalnum() or char == "-" else f"\\{char}" for char in chars)
    escaped = escaped.replace("--", "-\\-")  # `--` is reserved for set differences
    text = f"[{'^/' if is_negated else ''}{escaped}]"
    try:
        re.compile(text)
    except re.error as error:
        raise Refused(f"the pattern has a bad character class [{inside}]: {error}") from None
    return text
