"""Puts rules, modes, trust, the path layer and the shell judge together: may this call run?

Order: what the path layer denies, rules that deny, then plan mode; what asks in every mode; trust; rules and modes that
allow. A policy is a value: `with_mode` and `with_allow` make another one. Nothing a model fills in changes it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.json import JsonObject
from qcode.protocol.patch import PatchError, patch_paths
from qcode.safety.addresses import read_url
from qcode.safety.calls import HARMLESS, READERS, WRITERS
from qcode.safety.covering import covers_target, first_rule, is_rule, may_reach, mentions, reaches, ruled
from qcode.safety.paths import Ground, anchored, home_of, judge_on
from qcode.safety.proposals import propose_edit, propose_shell
from qcode.safety.rules import Rule, Rules, parse_rule
from qcode.safety.shell.forms import NotPlain, Word
from qcode.safety.shell.grammar import read_script
from qcode.safety.shell.judge import ALLOWED, Looks, Repository, judge_inputs, judge_part, resolve
from qcode.safety.shell.reads import PATH, Walked
from qcode.safety.shell.script import Part, parts_of
from qcode.safety.trail import follow
from qcode.safety.verdict import Access, Verdict, strictest
from qcode.safety.walled import SEEING, walled, without_walls

_PROTECTED = frozenset({"path:git", "path:credentials", "path:start-up", "path:own", "path:history"})


@dataclass(frozen=True, slots=True)
class Policy:
    """What a session may do. `search_path` is the PATH that shell commands will run with.

    `looks` is how processes are asked what no table knows; `limit` is a policy that has to agree.
    `search_url` is the service that `web_search` asks, judged like a page that is fetched.

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
    looks: Looks = field(default_factory=Looks, repr=False)
    limit: Policy | None = None
    search_url: str = ""
    _ground: Ground = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ground = Ground(self.root, self.added, self.read_only, self.home, self.own)
        object.__setattr__(self, "_ground", ground)

    def with_mode(self, mode: ApprovalMode) -> Policy:
        return replace(self, mode=mode)

    def with_trust(self) -> Policy:
        """Return this policy for a folder that the person trusts."""
        return replace(self, is_trusted=True)

    def limited_by(self, other: Policy) -> Policy:
        """Return the least of two policies, as a sub-agent gets it: of each two verdicts the stricter one."""
        return replace(self, limit=other if self.limit is None else self.limit.limited_by(other))

    def with_allow(self, rule: str) -> Policy:
        """Return this policy with one more allow rule; raise `ValueError` where `rule` is none."""
        return replace(self, rules=replace(self.rules, allow=(*self.rules.allow, parse_rule(rule))))

    def judge(self, call_name: str, arguments: JsonObject) -> Verdict:
        """Return the verdict for a call. A malformed one asks: the tool itself says what is wrong with it."""
        verdict = self._judge(call_name, arguments)
        return verdict if self.limit is None else strictest(verdict, self.limit.judge(call_name, arguments))

    def _judge(self, call_name: str, arguments: JsonObject) -> Verdict:
        if call_name == "shell":
            verdict = self._judge_text(arguments.get("command"), "command", self._judge_shell)
        elif call_name in READERS:
            verdict = self._judge_text(arguments.get("path") or ".", "path", lambda path: self.judge_file(path, "read"))
        elif call_name in WRITERS:
            verdict = self._judge_text(arguments.get("path"), "path", lambda path: self.judge_file(path, "write"))
        elif call_name == "apply_patch":
            verdict = self._judge_text(arguments.get("input"), "patch", self._judge_patch)
        elif call_name in HARMLESS:
            return Verdict("allow", "it touches nothing but what the session itself made", "tool:harmless")
        elif call_name == "diagnostics":
            # What it stands for is judged, where that is known: see `Conversation.judge`.
            verdict = replace(self._judge_other("mcp", call_name, call_name), proposed_rule="")
        elif call_name == "web_search" and self.search_url:
            verdict = self._judge_fetch(self.search_url)
        elif call_name == "fetch":
            verdict = self._judge_text(arguments.get("url"), "url", self._judge_fetch)
        else:
            # A tool of a server is called `server__tool`; no name of a server holds two underscores.
            name = call_name.replace("__", "/", 1)
            verdict = self._judge_other("mcp", name, name)
        if call_name == "shell":
            return self._walled(verdict, arguments)
        return without_walls(verdict) if self.mode == "auto" and not self._has_walls else verdict

    def _walled(self, verdict: Verdict, arguments: JsonObject) -> Verdict:
        """Return the verdict with the walls its command runs behind; what wants out of them asks."""
        command, wants_out = arguments.get("command"), arguments.get("unconfined") is True
        if verdict.verdict == "deny" or not isinstance(command, str):
            return verdict
        sees = verdict.is_allowed and verdict.rule == ALLOWED and self._sees_processes(command)
        return walled(verdict, self.mode, self.looks.levels, wants_out=wants_out, sees_processes=sees)

    def _sees_processes(self, command: str) -> bool:
        """Whether the answer of a command is about processes, of which it would see none behind walls."""
        names = (part.command.words[0].text.rsplit("/", 1)[-1] for part in self._parts(command) if part.command.words)
        return not SEEING.isdisjoint(names)

    @property
    def _has_walls(self) -> bool:
        return "workspace" in self.looks.levels()

    def only_reads(self, command: str) -> bool:
        """Return whether the tables know a command to only read, were the configuration of git harmless.

        Such a command runs with the settings that keep git from starting anything.
        """
        looks = replace(self.looks, repository=Repository)
        try:
            parts = self._parts(command)
        except NotPlain:
            return False
        walked: Walked = {}
        return all(self._reads(part, looks, walked).is_allowed for part in parts)

    @property
    def lets_host_search(self) -> bool:
        """Whether the host of the model may search the web itself: where nobody can be asked, what asks is denied."""
        is_ruled = any(rule.kind == "fetch" and not rule.body for rule in (*self.rules.deny, *self.rules.ask))
        return self.is_trusted and not is_ruled and (self.limit is None or self.limit.lets_host_search)

    def judge_file(self, path: str, access: Access) -> Verdict:
        """Return the verdict for a file tool that reads or writes `path`.

        Also what decides whether a search may show a file it came across.
        """
        verdict = self._judge_file(path, access)
        return verdict if self.limit is None else strictest(verdict, self.limit.judge_file(path, access))

    def _judge_file(self, path: str, access: Access) -> Verdict:
        layer = judge_on(self._ground, path, access)
        if layer.verdict == "deny":
            return layer
        kind = "read" if access == "read" else "edit"
        points = follow(anchored(path, str(self.root), home_of(self._ground))).points
        denied = first_rule(
            self.rules.deny, kind, lambda rule: any(self._covers(rule, point, True) for point in points)
        )
        if denied is not None:
            return ruled(denied, "deny")
        if access == "write" and self.mode == "plan":
            return _PLAN
        asked = first_rule(self.rules.ask, kind, lambda rule: any(self._covers(rule, point, True) for point in points))
        if asked is not None and (self.mode != "bypass" or not self.is_trusted):
            return ruled(asked, "ask")
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
        if self.mode == "accept-edits" or (self.mode == "auto" and self._has_walls):
            return Verdict("allow", "edits in the workspace are accepted", f"mode:{self.mode}")
        allowed = first_rule(self.rules.allow, "edit", lambda rule: all(self._covers(rule, point) for point in points))
        if allowed is not None:
            return ruled(allowed, "allow")
        real, root = points[-1], os.path.realpath(self.root)
        is_direct = len(points) == 1 and real.startswith(f"{root}/")
        proposed = propose_edit(real.removeprefix(f"{root}/")) if is_direct else ""
        return Verdict("ask", "it changes a file", f"mode:{self.mode}", proposed)

    def _parts(self, command: str) -> tuple[Part, ...]:
        return parts_of(read_script(command), str(self.root))

    def _judge_shell(self, command: str) -> Verdict:
        try:
            parts = self._parts(command)
        except NotPlain as found:
            return self._judge_unclear(command, str(found))
        commands = [part.command for part in parts]
        if any(word.is_open for command in commands for word in command.words):
            return self._judge_open(command, parts)
        denied = first_rule(self.rules.deny, "shell", lambda rule: any(reaches(rule, one) for one in commands))
        if denied is not None:
            return ruled(denied, "deny")
        if self.mode == "bypass" and self.is_trusted:
            return self._unless_protected(parts, _BYPASS)
        asked = first_rule(self.rules.ask, "shell", lambda rule: any(reaches(rule, one) for one in commands))
        if asked is not None:
            return _PLAN if self.mode == "plan" else ruled(asked, "ask")
        return self._checked_by_bash(command, self._judge_parts(parts))

    def _judge_open(self, command: str, parts: tuple[Part, ...]) -> Verdict:
        """Judge a command of which some words are not known: a rule that may be about it cannot be held against it."""
        unclear = self._judge_unclear(command, "it depends on what is not known before it runs")
        rules = [rule for rule in (*self.rules.deny, *self.rules.ask) if rule.kind == "shell"]
        is_ruled = any(may_reach(rule, part.command) for rule in rules for part in parts)
        if is_ruled or unclear.is_allowed or any(part.command.outputs for part in parts):
            return unclear
        verdict, walked = _READS, Walked()
        for part in parts:
            asked = self._reads(part, self.looks, walked)
            rule = self._allowing(part, asked) if unclear.rule == "shell:not-plain" else None
            if not asked.is_allowed and (rule is None or any(word.is_open for word in part.command.words)):
                return replace(unclear, reason=asked.reason, rule=asked.rule) if unclear.verdict == "ask" else unclear
            verdict = verdict if asked.is_allowed or rule is None else ruled(rule, "allow")
        return self._checked_by_bash(command, verdict)

    def _judge_parts(self, parts: tuple[Part, ...]) -> Verdict:
        """Allow where each part is allowed by a rule or only reads; else ask, proposing a rule for the one left."""
        left: list[tuple[Part, Verdict]] = []
        used: Rule | None = None
        walked: Walked = {}
        for part in parts:
            verdict = self._reads(part, self.looks, walked)
            if verdict.is_allowed:
                continue
            rule = self._allowing(part, verdict) if self.is_trusted and self.mode != "plan" else None
            if rule is None:
                left.append((part, verdict))
            used = rule or used
        if not left:
            verdict = _READS if used is None else ruled(used, "allow")
            covers_all = used is not None and not used.body
            return self._unless_protected(parts, verdict) if covers_all else self._with_outputs(parts, verdict)
        if self.mode == "plan":
            return replace(_PLAN_SHELL, reason=f"{_PLAN_SHELL.reason}: {left[0][1].reason}")
        if not self.is_trusted:
            return _RESTRICTED
        writes = any(part.command.outputs for part in parts)
        is_proposed = len(left) == 1 and not writes and left[0][1].rule != PATH
        proposed = propose_shell(left[0][0].command) if is_proposed else ""
        # A secret among what is left is what has to be asked about, whatever else there is.
        verdict = next((one for _, one in left if one.rule == PATH), left[0][1])
        return replace(verdict, proposed_rule=proposed)

    def _reads(self, part: Part, looks: Looks, walked: Walked) -> Verdict:
        # A folder that is not trusted is not looked into by git either.
        seen = looks if self.is_trusted else Looks(looks.syntax)
        return judge_part(self._ground, part, self.search_path, self._reader(), seen, walked)

    def _with_outputs(self, parts: tuple[Part, ...], verdict: Verdict) -> Verdict:
        """Return the verdict with that of every file the parts write to; a shell may be asked for more than a tool."""
        found = [verdict]
        for word, path in self._outputs(parts):
            one = self.judge_file(path, "write")
            is_layer = one.verdict == "deny" and one.rule.startswith("path:") and one.rule not in _PROTECTED
            decision = "ask" if is_layer or (word.has_glob and one.is_allowed) else one.verdict
            found.append(Verdict(decision, f"it writes to {word.text}: {one.reason}", one.rule))
        return strictest(*found)

    def _unless_protected(self, parts: tuple[Part, ...], verdict: Verdict) -> Verdict:
        """Return the verdict unless a part writes where nothing may: that holds in every mode and for every rule."""
        for word, path in self._outputs(parts):
            one = judge_on(self._ground, path, "write")
            if one.verdict == "deny" and one.rule in _PROTECTED:
                return Verdict("deny", f"it writes to {word.text}: {one.reason}", one.rule)
        return verdict

    def _outputs(self, parts: tuple[Part, ...]) -> list[tuple[Word, str]]:
        found = [(word, part.places) for part in parts for word in part.command.outputs]
        return [(word, path) for word, places in found for path in resolve(self._ground, word, places)]

    def _checked_by_bash(self, command: str, verdict: Verdict) -> Verdict:
        """Allow only what bash itself can read: the tree alone takes some broken commands for whole ones."""
        complaint = self.looks.syntax(command) if verdict.is_allowed else ""
        return Verdict("ask", complaint, "shell:syntax") if complaint else verdict

    def _allowing(self, part: Part, verdict: Verdict) -> Rule | None:
        # A rule is about the workspace folder: the same words below it may run something else.
        if part.places != {str(self.root)}:
            return None
        # `shell(cat *)` is about the program; that a file holds secrets asks in every mode.
        is_path = verdict.rule == PATH
        words = part.command.words
        rule = first_rule(
            self.rules.allow,
            "shell",
            lambda rule: rule.matches_words(words) and not (is_path and rule.body and rule.is_open),
        )
        is_fed = judge_inputs(self._ground, part, self._reader()).is_allowed
        return rule if is_fed or (rule is not None and not rule.body) else None

    def _judge_unclear(self, command: str, why: str) -> Verdict:
        """Judge a command that was not understood: only a rule for every command can allow it."""
        for rule in self.rules.deny:
            if rule.kind == "shell" and (not rule.body or mentions(command, rule)):
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
        every = first_rule(self.rules.allow, "shell", lambda rule: not rule.body)
        is_asked = any(rule.kind == "shell" for rule in self.rules.ask)
        if every is not None and not has_rules and not is_asked:
            return ruled(every, "allow")
        return Verdict("ask", why, "shell:not-plain")

    def _judge_fetch(self, url: str) -> Verdict:
        found = read_url(url)
        if isinstance(found, str):
            return Verdict("deny", found, "fetch:refused")
        if not found.is_public:
            # A rule for every host says nothing about this machine: only ports that the person listed are reached.
            is_listed = any(rule.kind == "fetch" and rule.body in found.names for rule in self.rules.allow)
            if not (found.is_loopback and is_listed):
                hint = f"; the rule fetch({found.name}) would allow it" if found.is_loopback else ""
                return Verdict("deny", f"{found.host} is not a public address{hint}", "fetch:address")
        return self._judge_other(
            "fetch", found.name, found.host, lambda rule, strict: covers_target(rule, found, strict)
        )

    def _judge_other(
        self, kind: str, name: str, shown: str, covers: Callable[[Rule, bool], bool] | None = None
    ) -> Verdict:
        """`covers` says whether a rule is about this call, more widely where the flag says that it restricts."""
        covered = covers or (lambda rule, _: rule.matches_name(name))
        denied = first_rule(self.rules.deny, kind, lambda rule: covered(rule, True))
        if denied is not None:
            return ruled(denied, "deny")
        if self.mode == "plan":
            return _PLAN
        if not self.is_trusted:
            return _RESTRICTED
        if self.mode == "bypass":
            return _BYPASS
        asked = first_rule(self.rules.ask, kind, lambda rule: covered(rule, True))
        if asked is not None:
            return ruled(asked, "ask")
        allowed = first_rule(self.rules.allow, kind, lambda rule: covered(rule, False))
        if allowed is not None:
            return ruled(allowed, "allow")
        proposed = f"{kind}({name})"
        why = f"nobody allowed {shown} yet" if kind == "fetch" else f"{shown} is not known to only read"
        return Verdict("ask", why, kind, proposed if is_rule(proposed) else "")

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


_READS = Verdict("allow", "it only reads", ALLOWED)
_PLAN_SHELL = Verdict("deny", "plan mode runs only commands that are known to read", "mode:plan")
_PLAN = Verdict("deny", "plan mode only reads; leave it to change files or run commands", "mode:plan")
_BYPASS = Verdict("allow", "approvals are bypassed", "mode:bypass")
_RESTRICTED = Verdict("ask", "this folder is not trusted, so everything but reading in it asks", "trust:restricted")
