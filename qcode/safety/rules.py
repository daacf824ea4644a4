"""Rules of the person: `shell(git log *)`, `edit(src/**)`, `read(...)`, `fetch(host)`, `mcp(server/tool)`. Pure.

A bare name (`shell`) or a `*` covers every call of its kind; `edit` is every tool that changes files. Shell rules
compare words after unquoting; a last ` *` is any further words. Paths use the patterns of gitignore, relative to the
workspace; `./x` is x at its top, `/x` and `~/x` are places on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field

from qcode.protocol.values import dataclass
from qcode.safety.shell.forms import NotPlain, Word
from qcode.safety.shell.words import split_words

KINDS = ("shell", "edit", "read", "fetch", "mcp")

_HOST = re.compile(
    r"((\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?"
)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_/-]")
_TOOL = re.compile(r"[\w.-]+/(\*|[\w.-]+)")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `body` is what stands between the brackets, empty where the rule covers all of its kind."""

    kind: str
    body: str
    text: str
    words: tuple[Word, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether a shell rule leaves words open, to be anything."""
        return any(word.has_glob for word in self.words)

    def matches_words(self, words: tuple[Word, ...]) -> bool:
        """Return whether a shell rule covers a simple command of these words."""
        if not self.body:
            return True
        is_open = self.words[-1] == _ANY
        wanted = self.words[:-1] if is_open else self.words
        is_long_enough = len(words) >= len(wanted) if is_open else len(words) == len(wanted)
        return is_long_enough and all(_is_like(want, word) for want, word in zip(wanted, words, strict=False))

    def matches_path(self, path: str, root: str, home: str, *, folds: bool = False) -> bool:
        """Return whether a path rule covers the absolute, normal `path`; `folds` also compares without case."""
        if not self.body:
            return True
        pattern, base = self._based(root, home)
        if not path.startswith(f"{base.rstrip('/')}/"):
            return False
        below = path[len(base.rstrip("/")) + 1 :]
        return _is_covered(pattern, below) or (folds and _is_covered(pattern.casefold(), below.casefold()))

    def matches_name(self, name: str) -> bool:
        """Return whether a fetch rule covers a host, or an mcp rule a `server/tool`."""
        if not self.body or self.body == name:
            return True
        if self.kind == "fetch":
            return self.body.startswith("*.") and name.endswith(self.body[1:])
        if self.body.endswith("/*"):
            return name.startswith(self.body[:-1])
        # A tool is called by its name in the form that every provider takes; a rule may say the server's own.
        return _NOT_IN_NAMES.sub("_", self.body) == name

    def _based(self, root: str, home: str) -> tuple[str, str]:
        if self.body.startswith("~/"):
            return self.body[1:], home
        if self.body.startswith("/"):
            return self.body, "/"
        return (self.body[1:] if self.body.startswith("./") else self.body), root


_ANY = Word("*", has_glob=True)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the person decided beforehand; deny is stronger than ask, ask than allow."""

    allow: tuple[Rule, ...] = field(default=())
    ask: tuple[Rule, ...] = field(default=())
    deny: tuple[Rule, ...] = field(default=())

    @staticmethod
    def of(allow: Iterable[str] = (), ask: Iterable[str] = (), deny: Iterable[str] = ()) -> Rules:
        """Return the rules that the texts say; raise `ValueError` with one line for the first bad one."""
        return Rules(*(tuple(parse_rule(text) for text in texts) for texts in (allow, ask, deny)))


def parse_rule(text: str) -> Rule:
    """Return the rule that `text` says; raise `ValueError` with one line naming what is wrong and where."""
    rule = text.strip()
    kind, bracket, rest = rule.partition("(")
    if kind not in KINDS:
        hint = "edit(...) covers every tool that changes files" if kind in ("write", "apply_patch") else _names()
        raise _bad(text, 0, f"{kind!r} is not a kind of rule; {hint}")
    if not bracket:
        return Rule(kind, "", rule)
    if not rest.endswith(")"):
        raise _bad(text, len(text.rstrip()), "the closing bracket is missing")
    body, at = rest[:-1].strip(), text.index("(") + 1
    if not body:
        raise _bad(text, at, f"nothing stands between the brackets; {kind} alone covers everything")
    if body == "*" or (body == "**" and kind in ("edit", "read")):
        return Rule(kind, "", rule)
    if kind == "shell":
        return Rule(kind, body, rule, _words_of(text, body, at))
    _check_body(text, kind, body, at)
    return Rule(kind, body, rule)


def _words_of(text: str, body: str, at: int) -> tuple[Word, ...]:
    try:
        words = split_words(body)
    except NotPlain as found:
        raise _bad(text, at, f"{found}; a rule is the words of one command, quoted where they mean more") from None
    if words[0].has_glob:
        raise _bad(text, at, "the name of the program must be written out")
    return words


def _check_body(text: str, kind: str, body: str, at: int) -> None:
    if kind == "fetch" and _HOST.fullmatch(body) is None:
        raise _bad(text, at, "a host such as docs.python.org, *.python.org or localhost:8000 is expected")
    if kind == "mcp" and _TOOL.fullmatch(body) is None:
        raise _bad(text, at, "server/tool or server/* is expected")
    if kind in ("edit", "read"):
        if body.startswith(("!", "#")):
            raise _bad(text, at, f"a pattern cannot begin with {body[0]!r}")
        if ".." in body.split("/"):
            raise _bad(text, at + body.index(".."), "a pattern cannot hold '..'")
        try:
            _is_covered(body, "x")
        except ValueError:
            raise _bad(text, at, "the pattern is not valid") from None


def _bad(text: str, position: int, what: str) -> ValueError:
    return ValueError(f"bad rule {text!r} at position {position + 1}: {what}")


def _names() -> str:
    return f"there are {', '.join(KINDS)}"


def _is_like(want: Word, word: Word) -> bool:
    if not want.has_glob:
        return want.text == word.text and want.is_home == word.is_home
    pattern = re.escape(want.text).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(pattern, word.text, re.DOTALL) is not None


def _is_covered(pattern: str, path: str) -> bool:
    from pathspec import GitIgnoreSpec  # loaded with the first rule about a path, not at start

    return GitIgnoreSpec.from_lines([pattern]).match_file(path)
