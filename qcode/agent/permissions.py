"""The rules in force with the origin of each, and a record of every call of the session.

`Permissions` owns the current policy of a conversation. A change applies from the next call on. Rules of the settings
are never changed here, and a model cannot change any rule. `config.folder_rules` stores the rules that the user saved
for a folder. `flags_allowing` finds the flags that would have allowed denied calls.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from qcode.agent.options import RunContext
from qcode.config.folder_rules import FolderRule, FolderRules
from qcode.config.settings import Origin, Settings
from qcode.protocol.approvals import RULE_EFFECTS, ApprovalMode, RuleEffect
from qcode.protocol.errors import ConfigError
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ToolSpec, command_path
from qcode.safety.paths import SENSITIVE_FILE
from qcode.safety.policy import Policy
from qcode.safety.probes import Probes, Repository
from qcode.safety.rules import Rules, exact_shell_rule, is_rule, parse_rule, read_rules, why_not_allow
from qcode.safety.verdict import RESTRICTED, SHELL_NOT_READ_ONLY, Verdict
from qcode.text.json import JsonObject, parse_object
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.sessions.session import Session

RuleScope: TypeAlias = Literal["settings", "session", "folder"]
CallDecision: TypeAlias = Literal[
    "ran", "refused", "allowed", "session", "folder", "denied", "answered", "approved", "unanswered"
]
"""The decision about a call. `ran`: the rules allowed it. `refused`: the rules denied it. The others are decisions of
the user: `allowed` once, for the `session` or in the `folder`; `answered` is for a question, `approved` for a plan."""
CheckedKind: TypeAlias = Literal["shell", "read", "write", "fetch"]
CHECKED_KINDS: tuple[CheckedKind, ...] = ("shell", "read", "write", "fetch")
"""The kinds of values that `Permissions.check` judges: a command, a path to read or write, a URL."""
NO_RULES = "none: qcode asks before each call that the mode does not allow"
"""The text instead of a list of rules if there are no rules."""


@dataclass(frozen=True, slots=True)
class RuleInForce:
    """A rule that applies now."""

    effect: RuleEffect
    text: str
    origin: str  # the source of the rule, for the user
    scope: RuleScope = "settings"
    """`settings`: a file or a flag; `session`: this session only; `folder`: saved for this folder."""
    number: int = 0
    """Identifies a rule of a session or folder, to remove it; 0 for rules of the settings."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """The record of one call."""

    timestamp: float
    """In seconds since 1970."""
    call: ToolCall
    decision: CallDecision
    reason: str = ""
    """The reason from the policy or the user."""
    rule: str = ""
    """The rule or the check that decided, or the rule that the answer added."""


MAX_DECISIONS = 2_000
_MAX_SUMMARY_CHARS = 80


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of the configured rules and of the initial mode, and the rules saved for the folder."""

    rule_origins: Mapping[RuleEffect, tuple[str | Origin, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The origin of each rule, by effect, in the order of the rules."""
    mode_origin: str | Origin = ""
    stored_rules: FolderRules | None = None
    """None if no rule can be saved."""
    is_attended: bool = False  # whether a user can switch the mode


@dataclass(frozen=True, slots=True)
class _UserRule:
    """A rule that the user added."""

    number: int
    effect: RuleEffect
    text: str
    scope: RuleScope
    timestamp: float
    added_for: str = ""
    """The call that the rule was added for, empty if the rule was typed."""
    is_sandboxed: bool = False  # whether the rule allows commands only in the workspace sandbox


class Permissions:
    """The rules of one session; a change applies from the next call on.

    `policy` is the policy of the settings; `clock` returns seconds since 1970.
    """

    def __init__(self, policy: Policy, origins: Origins | None = None, clock: Callable[[], float] = time.time) -> None:
        self._configured_policy = policy
        self._origins = origins or Origins()
        self._mode_origin = self._origins.mode_origin
        self._clock = clock
        self._numbers = count(1)
        self._decisions: list[CallRecord] = []
        self._user_rules = self._stored_rules()
        self.policy = policy
        self._record_mode: Callable[[str], None] | None = None
        self._rebuild_policy()

    @property
    def mode(self) -> ApprovalMode:
        return self.policy.mode

    @property
    def mode_origin(self) -> str:
        return str(self._mode_origin)

    @property
    def is_trusted(self) -> bool:
        return self.policy.is_trusted

    @property
    def can_save_rules(self) -> bool:
        """Whether a rule can be saved for this folder, which must be trusted."""
        return self._origins.stored_rules is not None and self.is_trusted

    def set_mode(self, mode: ApprovalMode) -> None:
        if mode != self.mode:
            self._mode_origin = f"chosen at {_time_of_day(self._clock())}"
        self._configured_policy = self._configured_policy.with_mode(mode)
        self._rebuild_policy()
        if self._record_mode is not None:
            self._record_mode(mode)

    def record_mode_in(self, session: Session) -> None:
        """Record each change of the mode in `session` from now on; in a new session, also record the current mode.

        Does nothing if no user attends the run.
        """
        if self._origins.is_attended:
            self._record_mode = session.record_mode
            if not session.history.stored:
                session.record_mode(self.mode)

    def set_never_asks(self, never_asks: bool) -> None:
        """From the next call on, deny calls that would ask; with False, let them ask again."""
        self._configured_policy = replace(self._configured_policy, never_asks=never_asks)
        self._rebuild_policy()

    def trust_folder(self) -> None:
        """Apply rules and modes from the next call on, because the user trusts the folder."""
        self._configured_policy = self._configured_policy.with_trust()
        self._rebuild_policy()

    def use_folders(self, added: tuple[Path, ...]) -> None:
        """Replace the folders that are treated like the root, from the next call on."""
        self._configured_policy = replace(self._configured_policy, added_folders=added)
        self._rebuild_policy()

    def make_readable(self, folder: Path) -> None:
        """Let the model read a folder without asking, from the next call on. Writing there still asks or is denied."""
        policy = self._configured_policy
        if folder not in policy.read_only:
            self._configured_policy = replace(policy, read_only=(*policy.read_only, folder))
            self._rebuild_policy()

    def follow_session(self, session: Session, *, is_copy: bool) -> None:
        """Continue with another session. A copy (`is_copy`) keeps the rules and records of the previous session."""
        if not is_copy:
            self._user_rules = [rule for rule in self._user_rules if rule.scope == "folder"]
            self._decisions.clear()
            self._rebuild_policy()
        self.record_mode_in(session)

    def record(self, call: ToolCall, decision: CallDecision, reason: str = "", rule: str = "") -> None:
        """Record the decision about a call."""
        self._decisions.append(CallRecord(self._clock(), call, decision, reason, rule))
        del self._decisions[:-MAX_DECISIONS]

    def allow_always(self, rule: str, call: ToolCall, *, is_saved: bool) -> str:
        """Allow calls that match `rule` from now on; with `is_saved`, also in later sessions. Record `call` as allowed.

        Return a warning if the rule could not be saved, otherwise an empty string.
        """
        user_rule = self._add_rule("allow", rule, _call_summary(call))
        warning = ""
        # A call that a saved rule allows still asks if a hook requires it.
        if is_saved and user_rule.scope != "folder":
            try:
                self.save_rule(user_rule.number)
            except ValueError as problem:
                warning = f"{rule} applies to this session only: {problem}"
        self.record(call, "folder" if is_saved and not warning else "session", rule=rule)
        return warning

    def allow_sandboxed(self, rule: str, call: ToolCall) -> None:
        """For the rest of the session, run commands that match `rule` in the workspace sandbox without asking.

        `call` is recorded as allowed.
        """
        self.record(call, "session", "in the sandbox", rule)
        self._add_rule("allow", rule, _call_summary(call), is_sandboxed=True)

    def rules(self) -> tuple[RuleInForce, ...]:
        """Return every rule in force: rules that deny, then rules that ask, then rules that allow."""
        rows: list[RuleInForce] = []
        for effect in RULE_EFFECTS:
            rules = getattr(self._configured_policy.rules, effect)
            origins = self._origins.rule_origins.get(effect, ())
            for index, rule in enumerate(rules):
                origin = origins[index] if index < len(origins) else "settings"
                rows.append(RuleInForce(effect, rule.text, str(origin)))
            rows += [self._rule_in_force(user_rule) for user_rule in self._user_rules if user_rule.effect == effect]
        return tuple(rows)

    def decisions(self) -> tuple[CallRecord, ...]:
        """Return the records of this session, the oldest first."""
        return tuple(self._decisions)

    def add(self, effect: RuleEffect, text: str) -> RuleInForce:
        """Add a rule for this session; raise `ValueError` with one line if it cannot be added."""
        rule = parse_rule(text)
        why_not = why_not_allow(rule) if effect == "allow" else ""
        if why_not:
            raise ValueError(f"{rule.text} was not added: {why_not}")
        in_settings = (existing.text for existing in getattr(self._configured_policy.rules, effect))
        # A rule that applies only in the sandbox does not count: the new rule allows more.
        by_user = (added.text for added in self._user_rules if added.effect == effect and not added.is_sandboxed)
        if rule.text in (*in_settings, *by_user):
            raise ValueError(f"{effect} {rule.text} is already in force")
        return self._rule_in_force(self._add_rule(effect, rule.text))

    def remove(self, number: int) -> None:
        """Remove a rule that the user added; raise `ValueError` if it cannot be removed."""
        user_rule = self._user_rule(number)
        if user_rule.scope == "folder" and self._origins.stored_rules is not None:
            try:
                self._origins.stored_rules.remove(_folder_rule(user_rule))
            except OSError as error:
                raise ValueError(f"cannot remove it from {self._origins.stored_rules.path}: {error.strerror}") from None
        self._user_rules.remove(user_rule)
        self._rebuild_policy()

    def save_rule(self, number: int) -> None:
        """Save a rule of the session for this folder; raise `ValueError` if it cannot be saved."""
        user_rule = self._user_rule(number)
        stored = self._origins.stored_rules
        if user_rule.scope == "folder":
            raise ValueError(f"{user_rule.text} is already saved for this folder")
        if user_rule.is_sandboxed:
            raise ValueError(f"{user_rule.text} in the sandbox applies to this session only")
        if stored is None:
            raise ValueError("rules cannot be saved in this run")
        if not self.is_trusted:
            raise ValueError("rules are saved only for trusted folders; type /trust to trust this one")
        try:
            stored.add(_folder_rule(user_rule))
        except OSError as error:
            raise ValueError(f"cannot write {stored.path}: {error.strerror}") from None
        self._user_rules[self._user_rules.index(user_rule)] = replace(user_rule, scope="folder")

    def check(self, kind: CheckedKind, value: str) -> Verdict:
        """Return the verdict on a command, path or address. Runs nothing; may block."""
        return verdict_on(self.policy, kind, value)

    def _user_rule(self, number: int) -> _UserRule:
        user_rule = next((candidate for candidate in self._user_rules if candidate.number == number), None)
        if user_rule is None:
            raise ValueError("this rule is in your settings; change it there")
        return user_rule

    def _add_rule(self, effect: RuleEffect, text: str, added_for: str = "", *, is_sandboxed: bool = False) -> _UserRule:
        """Add a rule for the session, and return it; return the existing rule if there is an equal one."""
        for existing in self._user_rules:
            if (existing.effect, existing.text, existing.is_sandboxed) == (effect, text, is_sandboxed):
                return existing
        number = next(self._numbers)
        user_rule = _UserRule(number, effect, text, "session", self._clock(), added_for, is_sandboxed)
        self._user_rules.append(user_rule)
        self._rebuild_policy()
        return user_rule

    def _stored_rules(self) -> list[_UserRule]:
        """Return the valid rules that are saved for the folder."""
        stored = self._origins.stored_rules
        return [
            _UserRule(next(self._numbers), rule.effect, rule.text, "folder", rule.timestamp, rule.added_for)
            for rule in (stored.read() if stored is not None else ())
            if is_rule(rule.text)
        ]

    def _rebuild_policy(self) -> None:
        """Rebuild the policy from the rules of the settings and the rules that the user added."""
        base = self._configured_policy.rules
        unsandboxed = [user_rule for user_rule in self._user_rules if not user_rule.is_sandboxed]
        added = {
            effect: tuple(parse_rule(user_rule.text) for user_rule in unsandboxed if user_rule.effect == effect)
            for effect in RULE_EFFECTS
        }
        rules = Rules(base.allow + added["allow"], base.ask + added["ask"], base.deny + added["deny"])
        sandboxed = tuple(parse_rule(user_rule.text) for user_rule in self._user_rules if user_rule.is_sandboxed)
        self.policy = replace(self._configured_policy, rules=rules, sandbox_rules=sandboxed)

    def _rule_in_force(self, user_rule: _UserRule) -> RuleInForce:
        cause = f"your answer to {user_rule.added_for}" if user_rule.added_for else "added"
        if user_rule.scope == "folder":
            day = _day(user_rule.timestamp)
            # "your answer to shell ls, 2026-11-28" or "added 2026-11-28"
            separator = ", " if user_rule.added_for else " "
            origin = f"saved for this folder, {cause}{separator}{day}"
            return RuleInForce(user_rule.effect, user_rule.text, origin, "folder", user_rule.number)
        cause = f"in the sandbox, {cause}" if user_rule.is_sandboxed else cause
        origin = f"{cause} at {_time_of_day(user_rule.timestamp)}"
        return RuleInForce(user_rule.effect, user_rule.text, origin, "session", user_rule.number)


def _folder_rule(user_rule: _UserRule) -> FolderRule:
    return FolderRule(user_rule.effect, user_rule.text, user_rule.timestamp, user_rule.added_for)


def _time_of_day(timestamp: float) -> str:
    return f"{datetime.fromtimestamp(timestamp).astimezone():%H:%M}"


def _day(timestamp: float) -> str:
    return f"{datetime.fromtimestamp(timestamp).astimezone():%Y-%m-%d}"


def _call_summary(call: ToolCall) -> str:
    """Return a call in a few words: its tool and its first text argument."""
    arguments = parse_object(call.arguments) or {}
    first = next((value for value in arguments.values() if isinstance(value, str) and value.strip()), "")
    line = " ".join(f"{call.name} {first}".split())
    return line if len(line) <= _MAX_SUMMARY_CHARS else f"{line[: _MAX_SUMMARY_CHARS - 1]}…"


_ALLOWING_MODES: tuple[ApprovalMode, ...] = ("accept-edits", "bypass")
"""The modes that `flags_allowing` may propose, the narrowest first."""
_TRUST_ALONE = "trust"


@dataclass(frozen=True, slots=True)
class AllowingFlags:
    """The flags that would have allowed denied calls."""

    text: str
    """The flags, quoted for a shell; empty if there are none."""
    unallowable_count: int
    """The number of calls that no flag can allow."""


def flags_allowing(policy: Policy, calls: Sequence[ToolCall], spec_of: Callable[[str], ToolSpec]) -> AllowingFlags:
    """Return the flags that would have allowed `calls`.

    `spec_of` returns the spec of a tool by its name. A rule for exactly the call is preferred to a mode, and a narrow
    mode to a broad one. If a mode is needed anyway, rules that it makes superfluous are omitted.
    """
    trusted = replace(policy, is_trusted=True)
    grants = [_grant_for(trusted, spec_of(call.name), _arguments(call)) for call in calls]
    flags = ["--trust"] if any(grants) and not policy.is_trusted else []
    needed_modes = [mode for mode in _ALLOWING_MODES if mode in grants]
    if needed_modes:
        broadest = needed_modes[-1]
        flags += ["--permission-mode", broadest]
        trusted = trusted.with_mode(broadest)
    rules: list[str] = []
    for call, grant in zip(calls, grants, strict=True):
        if not grant or grant == _TRUST_ALONE or grant in (*_ALLOWING_MODES, *rules):
            continue
        if not trusted.judge(spec_of(call.name), _arguments(call)).is_allowed:
            rules.append(grant)
    for rule in rules:
        flags += ["--allowed-tools", rule]
    return AllowingFlags(shlex.join(flags), grants.count(""))


def _grant_for(trusted: Policy, spec: ToolSpec, arguments: JsonObject) -> str:
    """Return the narrowest grant that would allow a call: `trust` alone, a rule or a mode; empty if none would.

    `trusted` is the policy if the folder were trusted.
    """
    verdict = trusted.judge(spec, arguments)
    if verdict.is_allowed:
        return _TRUST_ALONE
    rule = verdict.proposed_rule
    if rule and trusted.with_allow(rule).judge(spec, arguments).is_allowed:
        return rule
    command = arguments.get("command") if spec.name == "shell" else None
    exact = exact_shell_rule(command) if isinstance(command, str) else ""
    if exact and trusted.with_allow(exact).judge(spec, arguments).is_allowed:
        return exact
    return next((mode for mode in _ALLOWING_MODES if trusted.with_mode(mode).judge(spec, arguments).is_allowed), "")


def _arguments(call: ToolCall) -> JsonObject:
    return parse_object(call.arguments) or {}


def verdict_on(policy: Policy, kind: CheckedKind, value: str) -> Verdict:
    """Return the verdict of a policy on a command, path or address. Runs nothing; may block."""
    match kind:
        case "shell":
            return policy.judge_command(value)
        case "fetch":
            return policy.judge_url(value)
        case _:
            return policy.judge_file(value, kind)


def why_not_read(policy: Policy, path: Path) -> str:
    """Return why the model may not read `path` without asking; empty if the model may read it."""
    verdict = policy.judge_file(str(path), "read")
    return "" if verdict.is_allowed else verdict.reason


def holds_secrets(policy: Policy, path: str) -> bool:
    """Return whether the contents of this file must not be shown without asking."""
    return policy.judge_file(path, "read").check == SENSITIVE_FILE


def is_planning(policy: Policy) -> bool:
    """Return whether plan mode holds: for the conversation, or for a sub-agent that only reads."""
    return policy.mode == "plan" or (policy.limit is not None and is_planning(policy.limit))


def policy_of(context: RunContext) -> Policy:
    """Return the policy that a session starts with; raise `ConfigError` for an invalid rule."""
    permissions = context.settings.permissions
    rules = configured_rules(context.settings)
    qcode_folders = (context.paths.config_dir, context.paths.state_dir)
    project_folders = (context.folder, context.root, *context.added_folders)
    search_path = command_path(context.env)
    return Policy(
        mode=permissions.mode,
        rules=rules,
        is_trusted=context.is_trusted,
        root=context.folder,
        added_folders=context.added_folders,
        qcode_folders=qcode_folders,
        search_path=search_path,
        probes=_probes(context, search_path, project_folders),
        never_asks=context.options.never_asks,
    )


def judge_with_hook(policy: Policy, spec: ToolSpec, arguments: JsonObject, hook: Verdict | None) -> Verdict:
    """Return the verdict of the rules, combined with the verdict of the hooks if there is one.

    A hook can always make a verdict stricter. A hook can allow a call that asks only because of the mode: an edit,
    a tool of a server, a URL, or a command that auto mode would sandbox. A hook cannot allow a call that asks because
    of a rule, a protected file or an untrusted folder.
    """
    verdict = policy.judge(spec, arguments)
    if hook is None or verdict.verdict == "deny":
        return verdict
    if hook.verdict == "ask":
        reason = hook.reason if verdict.is_allowed else f"{hook.reason}; {verdict.reason}"
        check = RESTRICTED if verdict.check == RESTRICTED else hook.check
        all_reasons = (hook.reason, *verdict.all_reasons) if verdict.all_reasons else ()
        asking = Verdict("ask", reason, check, all_reasons=all_reasons)
        return asking.ask_or_deny(never_asks=policy.never_asks)
    if verdict.is_allowed or not policy.is_trusted:
        return verdict
    # No rule covers the call: an edit in this mode, a tool of a server, a URL.
    if verdict.check.startswith("mode:") or verdict.check in ("mcp", "fetch"):
        return hook
    if verdict.check == SHELL_NOT_READ_ONLY:
        sandboxed = policy.with_mode("auto").judge(spec, arguments)
        if sandboxed.is_allowed and sandboxed.confinement == "workspace":
            return replace(hook, confinement="workspace")
    return verdict


def _probes(context: RunContext, search_path: str, project_folders: tuple[Path, ...]) -> Probes:
    """Return the probes that start programs; their modules load when a probe is first used.

    A program in one of `project_folders` is never started, because the model could have written it.
    """

    @cache
    def bash_syntax() -> Callable[[str], str]:
        from qcode.safety.launcher import BashSyntax

        return BashSyntax(search_path, project_folders)

    @cache
    def repository_probe() -> Callable[[], Repository]:
        from qcode.safety.git_repository import RepositoryProbe

        return RepositoryProbe(context.folder, context.env, project_folders)

    # The inner call creates the probe, once; the outer call runs it.
    return Probes(lambda command: bash_syntax()(command), lambda: repository_probe()())


def configured_rules(settings: Settings) -> Rules:
    """Return the rules of the configuration; raise `ConfigError` with file and line for an invalid rule."""
    permissions = settings.permissions
    rules = {effect: getattr(permissions, effect) for effect in RULE_EFFECTS}
    try:
        return read_rules(**rules)
    except ValueError:
        pass
    for effect in RULE_EFFECTS:
        origins = settings.item_origins.get(f"permissions.{effect}", ())
        for rule, origin in zip(rules[effect], origins, strict=False):
            try:
                read_rules(**{effect: (rule,)})
            except ValueError as error:
                raise ConfigError(f"{origin}: permissions.{effect}: {error}") from None
    raise AssertionError("a list of rules is valid if each of them is")


def origins_of(context: RunContext) -> Origins:
    """Return the origins of the rules and the mode of this run, and the store of the rules for this folder."""
    settings = context.settings
    mode = settings.origin("permissions.mode")
    return Origins(
        {effect: settings.item_origins.get(f"permissions.{effect}", ()) for effect in RULE_EFFECTS},
        "the default" if mode.kind == "default" else mode,
        FolderRules(context.paths.state_dir, context.folder) if context.options.user_config else None,
        context.is_attended,
    )


def permissions_of(context: RunContext) -> Permissions:
    """Return the rules that a session here would start with; raise `ConfigError` for an invalid rule."""
    return Permissions(policy_of(context), origins_of(context))
