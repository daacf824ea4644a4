"""The rules that count now with where each comes from, and what was decided about every call of the session.

Owns the live policy of a conversation. What a person answers or changes holds from the next call on; rules of the
settings are never changed here, and no model reaches anything here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from datetime import datetime
from itertools import count
from types import MappingProxyType

from qcode.protocol.controls import Decided, Decision, RuleEffect, RuleInForce, RuleScope, Tried, TriedKind
from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.json import parse_object
from qcode.protocol.messages import ToolCall
from qcode.protocol.values import dataclass
from qcode.runtime.kept_rules import KeptRule, KeptRules
from qcode.safety.policy import Policy
from qcode.safety.proposals import why_not_allow
from qcode.safety.rules import Rules, parse_rule

MOST_DECISIONS = 2_000
_EFFECTS: tuple[RuleEffect, ...] = ("deny", "ask", "allow")
_LONGEST_CALL = 80


@dataclass(frozen=True, slots=True)
class Origins:
    """Where what a session begins with was written: of each list of rules, in its order, and of the mode.

    `kept` are the rules that the person keeps for this folder, None where none can be kept.
    """

    rules: Mapping[RuleEffect, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    mode: str = ""
    kept: KeptRules | None = None


@dataclass(frozen=True, slots=True)
class _Own:
    """A rule that an answer or the person made. `why` is the call it came from, empty where it was typed."""

    number: int
    effect: RuleEffect
    text: str
    scope: RuleScope
    at: float
    why: str = ""


class Permissions:
    """The real `protocol.controls.Permissions`. `policy` is the one of the settings; `clock` is seconds since 1970."""

    def __init__(self, policy: Policy, origins: Origins | None = None, clock: Callable[[], float] = time.time) -> None:
        self._base = policy
        self._origins = origins or Origins()
        self._mode_origin = self._origins.mode
        self._clock = clock
        self._numbers = count(1)
        self._decisions: list[Decision] = []
        self._own = [self._of_folder(rule) for rule in self._origins.kept.read()] if self._origins.kept else []
        self.policy = policy
        self._compose()

    @property
    def mode(self) -> ApprovalMode:
        return self.policy.mode

    @property
    def mode_origin(self) -> str:
        return self._mode_origin

    @property
    def is_trusted(self) -> bool:
        return self.policy.is_trusted

    @property
    def can_keep(self) -> bool:
        """Whether a rule can be kept for this folder: somebody who does not trust it allows nothing there for good."""
        return self._origins.kept is not None and self.is_trusted

    def set_mode(self, mode: ApprovalMode) -> None:
        if mode != self.mode:
            self._mode_origin = f"chosen at {self._now_text()}"
        self._base = self._base.with_mode(mode)
        self._compose()

    def trust_folder(self) -> None:
        """Let rules and modes hold from the next call on: the person trusts the folder."""
        self._base = self._base.with_trust()
        self._compose()

    def forget_session(self) -> None:
        """Another session begins: what was answered in the one before says nothing about it."""
        self._own = [rule for rule in self._own if rule.scope == "folder"]
        self._decisions.clear()
        self._compose()

    def note(self, call: ToolCall, decided: Decided, reason: str = "", rule: str = "") -> None:
        """Remember what became of a call."""
        self._decisions.append(Decision(self._clock(), call, decided, reason, rule))
        del self._decisions[:-MOST_DECISIONS]

    def always(self, rule: str, call: ToolCall, *, is_kept: bool) -> str:
        """Add the rule a person answered "always" with; return a warning where it could not be kept."""
        own = self._added("allow", rule, _short(call))
        if not is_kept:
            return ""
        try:
            self.keep(own.number)
        except ValueError as problem:
            return f"{rule} holds for this session only: {problem}"
        return ""

    def rules(self) -> tuple[RuleInForce, ...]:
        rows: list[RuleInForce] = []
        for effect in _EFFECTS:
            written, origins = getattr(self._base.rules, effect), self._origins.rules.get(effect, ())
            for place, rule in enumerate(written):
                origin = origins[place] if place < len(origins) else "settings"
                rows.append(RuleInForce(effect, rule.text, origin))
            rows += [self._row(own) for own in self._own if own.effect == effect]
        return tuple(rows)

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(self._decisions)

    def add(self, effect: RuleEffect, text: str) -> RuleInForce:
        rule = parse_rule(text)
        why_not = why_not_allow(rule) if effect == "allow" else ""
        if why_not:
            raise ValueError(f"{rule.text} is not added: {why_not}")
        if any(one.effect == effect and one.text == rule.text for one in self.rules()):
            raise ValueError(f"{effect} {rule.text} is in force already")
        return self._row(self._added(effect, rule.text))

    def remove(self, number: int) -> None:
        own = self._found(number)
        if own.scope == "folder" and self._origins.kept is not None:
            try:
                self._origins.kept.remove(_kept(own))
            except OSError as error:
                raise ValueError(f"it cannot be taken out of {self._origins.kept.path}: {error.strerror}") from None
        self._own.remove(own)
        self._compose()

    def keep(self, number: int) -> None:
        own, kept = self._found(number), self._origins.kept
        if own.scope == "folder":
            raise ValueError(f"{own.text} is kept for this folder already")
        if kept is None:
            raise ValueError("rules cannot be kept in this run")
        if not self.is_trusted:
            raise ValueError("rules are kept only for a folder you trust: /trust")
        try:
            kept.add(_kept(own))
        except OSError as error:
            raise ValueError(f"{kept.path} cannot be written: {error.strerror}") from None
        self._own[self._own.index(own)] = replace(own, scope="folder")

    def check(self, kind: TriedKind, value: str) -> Tried:
        policy = self.policy
        if kind == "shell":
            verdict = policy.judge("shell", {"command": value})
        elif kind == "fetch":
            verdict = policy.judge("fetch", {"url": value})
        else:
            verdict = policy.judge_file(value, kind)
        proposed = verdict.proposed_rule if verdict.verdict == "ask" else ""
        return Tried(verdict.verdict, verdict.reason, verdict.rule, proposed)

    def _found(self, number: int) -> _Own:
        own = next((one for one in self._own if one.number == number), None)
        if own is None:
            raise ValueError("this rule is written in your settings; change it there")
        return own

    def _added(self, effect: RuleEffect, text: str, why: str = "") -> _Own:
        own = next((one for one in self._own if (one.effect, one.text) == (effect, text)), None)
        if own is None:
            own = _Own(next(self._numbers), effect, text, "session", self._clock(), why)
            self._own.append(own)
            self._compose()
        return own

    def _of_folder(self, rule: KeptRule) -> _Own:
        return _Own(next(self._numbers), rule.effect, rule.text, "folder", rule.at, rule.why)

    def _compose(self) -> None:
        """Make the policy anew: the settings' rules, then the person's own."""
        base = self._base.rules
        more = {effect: tuple(parse_rule(own.text) for own in self._own if own.effect == effect) for effect in _EFFECTS}
        rules = Rules(base.allow + more["allow"], base.ask + more["ask"], base.deny + more["deny"])
        self.policy = replace(self._base, rules=rules)

    def _row(self, own: _Own) -> RuleInForce:
        what = f"answered to {own.why}" if own.why else "added"
        if own.scope == "folder":
            origin = f"kept for this folder, {what}, {_day(own.at)}"
            return RuleInForce(own.effect, own.text, origin, "folder", own.number)
        at = datetime.fromtimestamp(own.at).astimezone()
        return RuleInForce(own.effect, own.text, f"{what} at {at:%H:%M}", "session", own.number)

    def _now_text(self) -> str:
        return f"{datetime.fromtimestamp(self._clock()).astimezone():%H:%M}"


def _kept(own: _Own) -> KeptRule:
    return KeptRule(own.effect, own.text, own.at, own.why)


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"


def _short(call: ToolCall) -> str:
    """Return a call in a few words: its tool and the first thing it was given."""
    arguments = parse_object(call.arguments) or {}
    first = next((value for value in arguments.values() if isinstance(value, str) and value.strip()), "")
    line = " ".join(f"{call.name} {first}".split())
    return line if len(line) <= _LONGEST_CALL else f"{line[: _LONGEST_CALL - 1]}…"
