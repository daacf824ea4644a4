"""How rules meet calls: which rule is about a command, a URL, a name. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from qcode.safety.addresses import Target
from qcode.safety.rules import Rule, parse_rule
from qcode.safety.shell.forms import Command, Word
from qcode.safety.verdict import Verdict

_WRAPPING = frozenset(
    {
        "timeout", "nice", "nohup", "time", "sudo", "doas", "env", "xargs", "command", "builtin", "exec", "eval",
        "bash", "sh", "dash", "zsh", "find", "setsid", "stdbuf", "ionice", "fd", "fdfind",
    }
)  # fmt: skip


def first_rule(rules: Iterable[Rule], kind: str, test: Callable[[Rule], bool]) -> Rule | None:
    """Return the first rule of a kind that the test finds to be about a call."""
    return next((rule for rule in rules if rule.kind == kind and test(rule)), None)


def is_rule(text: str) -> bool:
    """Return whether a text can be read as a rule."""
    try:
        parse_rule(text)
    except ValueError:
        return False
    return True


def covers_target(rule: Rule, target: Target, restricts: bool) -> bool:
    """An allow rule is about a port, the usual one where it names none; one that restricts is about the whole host."""
    names = (*target.names, target.host) if restricts else target.names
    return any(rule.matches_name(name) for name in names)


def ruled(rule: Rule, verdict: str) -> Verdict:
    """Return the verdict that a rule gives."""
    if verdict == "deny":
        return Verdict("deny", f"the rule {rule.text} denies it", rule.text)
    if verdict == "ask":
        return Verdict("ask", f"the rule {rule.text} asks for it", rule.text)
    return Verdict("allow", f"the rule {rule.text} allows it", rule.text)


def reaches(rule: Rule, part: Command) -> bool:
    """Return whether a rule that restricts covers a command, also behind a wrapper or by the path of its program."""
    words = (replace(part.words[0], text=part.words[0].text.rsplit("/", 1)[-1], is_quoted=False), *part.words[1:])
    if rule.matches_words(words):
        return True
    return words[0].text in _WRAPPING and mentions(" ".join(word.text for word in words), rule)


def may_reach(rule: Rule, part: Command) -> bool:
    """Return whether a rule that restricts covers a command, or may: where words are not known, its program decides."""
    if not any(word.is_open for word in part.words):
        return reaches(rule, part)
    return not rule.words or any(word.text.rsplit("/", 1)[-1] == rule.words[0].text for word in part.words)


def mentions(command: str, rule: Rule) -> bool:
    """Return whether the fixed words of a rule stand in a command that was not understood, in order and together."""
    words = tuple(Word(text) for text in re.findall(r"[\w./@%+:=-]+", re.sub(r"['\"\\]", "", command)))
    plain = tuple(replace(word, text=word.text.rsplit("/", 1)[-1]) for word in words)
    return any(rule.matches_words(seen[start:]) for seen in (words, plain) for start in range(len(seen)))
