"""Checks the examples a rule carries, so that one which says less or more than meant is found at start. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from qcode.protocol.rules import WrittenRule
from qcode.safety.addresses import read_url
from qcode.safety.rules import Rule, Rules, parse_rule
from qcode.safety.shell.forms import NotPlain
from qcode.safety.shell.grammar import read_script
from qcode.safety.shell.script import parts_of

_ROOT, _HOME = "/workspace", "/home/person"
_Written: TypeAlias = "Iterable[str | WrittenRule]"


def read_rules(allow: _Written = (), ask: _Written = (), deny: _Written = ()) -> Rules:
    """Return the rules as they were written; raise `ValueError` with one line for one that is bad.

    One is bad too where its examples do not bear it out.
    """
    return Rules(*(tuple(_read(one) for one in written) for written in (allow, ask, deny)))


def _read(written: str | WrittenRule) -> Rule:
    rule = parse_rule(str(written))
    if isinstance(written, WrittenRule):
        _check(rule, written)
    return rule


def _check(rule: Rule, written: WrittenRule) -> None:
    for example in written.examples:
        if not covers(rule, example):
            raise ValueError(f"the rule {rule.text!r} does not cover its example {example!r}")
    for example in written.counterexamples:
        if covers(rule, example):
            raise ValueError(f"the rule {rule.text!r} covers its counterexample {example!r}")


def covers(rule: Rule, example: str) -> bool:
    """Return whether a rule covers a command, path, URL or tool.

    Of a command with several parts it is all of them; a path is relative to the workspace, absolute, or below `~/`.
    """
    if rule.kind == "shell":
        try:
            parts = parts_of(read_script(example), _ROOT)
        except NotPlain:
            return not rule.body
        return all(rule.matches_words(part.command.words) for part in parts)
    if rule.kind in ("edit", "read"):
        anchored = f"{_HOME}{example[1:]}" if example.startswith("~/") else example
        path = anchored if anchored.startswith("/") else f"{_ROOT}/{anchored}"
        return rule.matches_path(path, _ROOT, _HOME)
    if rule.kind == "fetch":
        target = read_url(example if "://" in example else f"https://{example}/")
        return not isinstance(target, str) and any(rule.matches_name(name) for name in target.names)
    return rule.matches_name(example)
