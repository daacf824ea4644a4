"""Puts rules, modes, trust, the path layer and the shell judge together: may this call run?

Order: what the path layer denies, rules that deny, then plan mode; what asks in every mode; trust; rules and modes that
allow. A policy is a value: `with_mode` and `with_allow` make another one. Nothing a model fills in changes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.json import JsonObject
from qcode.protocol.patch import PatchError, patch_paths
from qcode.safety.paths import Ground, anchored, home_of, is_inside, judge_on
from qcode.safety.proposals import propose_edit, propose_shell
from qcode.safety.rules import Rule, Rules, parse_rule
from qcode.safety.shell import judge_command, judge_inputs, judge_part
from qcode.safety.trail import follow
from qcode.safety.verdict import Access, Verdict, strictest
from qcode.safety.words import Command, NotPlain, Word, parse

READERS = frozenset({"read", "ls", "glob", "grep"})
WRITERS = frozenset({"write", "edit", "multi_edit", "notebook_edit"})
HARMLESS = frozenset({"todo", "ask_person"})

_WRAPPING = frozenset(
    {
        "timeout", "nice", "nohup", "time", "sudo", "doas", "env", "xargs", "command", "builtin", "exec", "eval",
        "bash", "sh", "dash", "zsh", "find", "setsid", "stdbuf",
    }
)  # fmt: skip
_AUTO = " (auto mode needs a sandbox, which there is none of here, so it asks like default mode)"

_Test: TypeAlias = Callable[[Rule], bool]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a session may do. `search_path` is the PATH that shell commands will run with.

    Untrusted: reading inside the workspace is allowed and everything else asks, whatever mode and rules say.
    """

    mode: ApprovalMode
    rules: Rules
    is_trusted: bool
    root: Path
    added: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    home: Path | None = None
    own: tuple[Path, ...] = ()
    search_path: str = ""
    _ground: Ground = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ground = Ground(self.root, self.added, self.read_only, self.home, self.own)
        object.__setattr__(self, "_ground", ground)

    def with_mode(self, mode: ApprovalMode) -> Policy:
        return replace(self, mode=mode)

    def with_trust(self) -> Policy:
        """Return this policy for a folder that the person trusts."""
        return replace(self, is_trusted=True)

    def with_allow(self, rule: str) -> Policy:
        """Return this policy with one more allow rule; raise `ValueError` where `rule` is none."""
        return replace(self, rules=replace(self.rules, allow=(*self.rules.allow, parse_rule(rule))))

    def judge(self, call_name: str, arguments: JsonObject) -> Verdict:
        """Return the verdict for a call. A malformed one asks: the tool itself says what is wrong with it."""
        if call_name == "shell":
            verdict = self._judge_text(arguments.get("command"), "command", self._judge_shell)
        elif call_name in READERS:
            verdict = self._judge_text(arguments.get("path") or ".", "path", lambda path: self.judge_file(path, "read"))
        elif call_name in WRITERS:
            verdict = self._judge_text(arguments.get("path"), "path", lambda path: self.judge_file(path, "write"))
        elif call_name == "apply_patch":
            verdict = self._judge_text(arguments.get("input"), "patch", self._judge_patch)
        elif call_name in HARMLESS:
            return Verdict("allow", "it touches nothing", "tool:harmless")
        elif call_name == "diagnostics":
            # What it stands for is judged, where that is known: see `Conversation.judge`.
            verdict = replace(self._judge_other("mcp", call_name, call_name), proposed_rule="")
        elif call_name == "fetch":
            verdict = self._judge_text(arguments.get("url"), "url", self._judge_fetch)
        else:
            verdict = self._judge_other("mcp", call_name, call_name)
        if self.mode == "auto" and verdict.verdict == "ask":
            return replace(verdict, reason=verdict.reason + _AUTO)
        return verdict

    def judge_file(self, path: str, access: Access) -> Verdict:
        """Return the verdict for a file tool that reads or writes `path`.

        Also what decides whether a search may show a file it came across.
        """
        layer = judge_on(self._ground, path, access)
        if layer.verdict == "deny":
            return layer
        if not is_inside(path, self._ground):
            hint = "outside the workspace; start qcode with --add-dir to work there"
            return Verdict("deny", hint, "path:outside")
        kind = "read" if access == "read" else "edit"
        points = follow(anchored(path, str(self.root), home_of(self._ground))).points
        denied = _first(self.rules.deny, kind, lambda rule: any(self._covers(rule, point, True) for point in points))
        if denied is not None:
            return _by(denied, "deny")
        if access == "write" and self.mode == "plan":
            return _PLAN
        asked = _first(self.rules.ask, kind, lambda rule: any(self._covers(rule, point, True) for point in points))
        if asked is not None and (self.mode != "bypass" or not self.is_trusted):
            return _by(asked, "ask")
        if layer.verdict == "ask" or access == "read":
            return layer
        return self._judge_write(points)

    def _judge_patch(self, patch: str) -> Verdict:
        """Return the strictest verdict of all files a patch names; a rule is proposed only where it would be enough."""
        try:
            verdicts = [self.judge_file(path, "write") for path in dict.fromkeys(patch_paths(patch))]
        except PatchError:
            return Verdict("ask", "the patch cannot be read", "call:malformed")
        verdict = strictest(verdicts[0], *verdicts[1:])
        asking = [one for one in verdicts if not one.is_allowed]
        return verdict if len(asking) <= 1 else replace(verdict, proposed_rule="")

    def _judge_write(self, points: tuple[str, ...]) -> Verdict:
        if not self.is_trusted:
            return _RESTRICTED
        if self.mode == "bypass":
            return _BYPASS
        if self.mode == "accept-edits":
            return Verdict("allow", "edits in the workspace are accepted", "mode:accept-edits")
        allowed = _first(self.rules.allow, "edit", lambda rule: all(self._covers(rule, point) for point in points))
        if allowed is not None:
            return _by(allowed, "allow")
        real, root = points[-1], os.path.realpath(self.root)
        is_direct = len(points) == 1 and real.startswith(f"{root}/")
        proposed = propose_edit(real.removeprefix(f"{root}/")) if is_direct else ""
        return Verdict("ask", "it changes a file", f"mode:{self.mode}", proposed)

    def _judge_shell(self, command: str) -> Verdict:
        try:
            parts = parse(command)
        except NotPlain as found:
            return self._judge_unclear(command, str(found))
        denied = _first(self.rules.deny, "shell", lambda rule: any(_reaches(rule, part) for part in parts))
        if denied is not None:
            return _by(denied, "deny")
        if self.mode == "plan":
            return _PLAN
        if not self.is_trusted:
            return _RESTRICTED
        if self.mode == "bypass":
            return _BYPASS
        asked = _first(self.rules.ask, "shell", lambda rule: any(_reaches(rule, part) for part in parts))
        if asked is not None:
            return _by(asked, "ask")
        verdict = judge_command(self._ground, command, self.search_path, self._reader())
        return verdict if verdict.is_allowed else self._judge_by_rules(parts, verdict)

    def _judge_by_rules(self, parts: tuple[Command, ...], verdict: Verdict) -> Verdict:
        """Allow where each part is allowed by a rule or only reads; else ask, proposing a rule for the one left."""
        left: list[Command] = []
        used: Rule | None = None
        for part in parts:
            rule = self._allowing(part)
            if rule is not None:
                used = rule
            elif not judge_part(self._ground, part, self.search_path, self._reader()).is_allowed:
                left.append(part)
        if not left and used is not None:
            return _by(used, "allow")
        return replace(verdict, proposed_rule=propose_shell(left[0]) if len(left) == 1 else "")

    def _allowing(self, part: Command) -> Rule | None:
        rule = _first(self.rules.allow, "shell", lambda rule: rule.matches_words(part.words))
        is_fed = judge_inputs(self._ground, part, self._reader()).is_allowed
        return rule if is_fed or (rule is not None and not rule.body) else None

    def _judge_unclear(self, command: str, why: str) -> Verdict:
        """Judge a command that was not understood: only a rule for every command can allow it."""
        for rule in self.rules.deny:
            if rule.kind == "shell" and (not rule.body or _mentions(command, rule)):
                return Verdict(
                    "deny", f"it may be what {rule.text} denies, and it was not understood: {why}", rule.text
                )
        if self.mode == "plan":
            return _PLAN
        if not self.is_trusted:
            return _RESTRICTED
        has_rules = any(rule.kind == "shell" for rule in self.rules.deny)
        if self.mode == "bypass" and not has_rules:
            return _BYPASS
        every = _first(self.rules.allow, "shell", lambda rule: not rule.body)
        is_asked = any(rule.kind == "shell" for rule in self.rules.ask)
        if every is not None and not has_rules and not is_asked:
            return _by(every, "allow")
        return Verdict("ask", why, "shell:not-plain")

    def _judge_fetch(self, url: str) -> Verdict:
        host = urlsplit(url).hostname if "://" in url else None
        if not host:
            return Verdict("ask", "the URL has no host", "fetch:malformed")
        return self._judge_other("fetch", host, host)

    def _judge_other(self, kind: str, name: str, shown: str) -> Verdict:
        denied = _first(self.rules.deny, kind, lambda rule: rule.matches_name(name))
        if denied is not None:
            return _by(denied, "deny")
        if self.mode == "plan":
            return _PLAN
        if not self.is_trusted:
            return _RESTRICTED
        if self.mode == "bypass":
            return _BYPASS
        asked = _first(self.rules.ask, kind, lambda rule: rule.matches_name(name))
        if asked is not None:
            return _by(asked, "ask")
        allowed = _first(self.rules.allow, kind, lambda rule: rule.matches_name(name))
        if allowed is not None:
            return _by(allowed, "allow")
        is_plain = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) is not None and ("/" in name) == (kind == "mcp")
        return Verdict("ask", f"{shown} is not known to only read", kind, f"{kind}({name})" if is_plain else "")

    def _judge_text(self, value: object, name: str, judge: Callable[[str], Verdict]) -> Verdict:
        if isinstance(value, str):
            return judge(value)
        return Verdict("ask", f"the call has no {name} that could be judged", "call:malformed")

    def _covers(self, rule: Rule, point: str, folds: bool = False) -> bool:
        root, home = os.path.normpath(self.root), home_of(self._ground)
        bases = (root, os.path.realpath(root))
        return any(rule.matches_path(point, base, home, folds=folds) for base in bases)

    def _reader(self) -> Callable[[str], Verdict] | None:
        """Return how the shell judge asks about a file; rules about reading are part of it where there are any."""
        if not any(rule.kind == "read" for rule in (*self.rules.deny, *self.rules.ask)):
            return None
        return lambda path: self.judge_file(path, "read")


_PLAN = Verdict("deny", "plan mode only reads; leave it to change files or run commands", "mode:plan")
_BYPASS = Verdict("allow", "approvals are bypassed", "mode:bypass")
_RESTRICTED = Verdict("ask", "this folder is not trusted, so everything but reading in it asks", "trust:restricted")


def _first(rules: Iterable[Rule], kind: str, test: _Test) -> Rule | None:
    return next((rule for rule in rules if rule.kind == kind and test(rule)), None)


def _by(rule: Rule, verdict: str) -> Verdict:
    if verdict == "deny":
        return Verdict("deny", f"the rule {rule.text} denies it", rule.text)
    if verdict == "ask":
        return Verdict("ask", f"the rule {rule.text} asks for it", rule.text)
    return Verdict("allow", f"the rule {rule.text} allows it", rule.text)


def _reaches(rule: Rule, part: Command) -> bool:
    """Return whether a rule that restricts covers a command, also behind a wrapper or by the path of its program."""
    words = (replace(part.words[0], text=part.words[0].text.rsplit("/", 1)[-1], is_quoted=False), *part.words[1:])
    if rule.matches_words(words):
        return True
    return words[0].text in _WRAPPING and _mentions(" ".join(word.text for word in words), rule)


def _mentions(command: str, rule: Rule) -> bool:
    """Return whether the fixed words of a rule stand in a command that was not understood, in order and together."""
    words = tuple(Word(text) for text in re.findall(r"[\w./@%+:=-]+", re.sub(r"['\"\\]", "", command)))
    plain = tuple(replace(word, text=word.text.rsplit("/", 1)[-1]) for word in words)
    return any(rule.matches_words(seen[start:]) for seen in (words, plain) for start in range(len(seen)))
