"""The policy of a session: the verdict on a call, from rules, mode, trust, the path layer and the shell judge.

The checks run in this order: denials of the path layer; deny rules; plan mode; reasons to ask in every mode; trust;
modes and rules that allow. A policy is immutable: `with_mode` and `with_allow` return a new one. The model cannot
change it. The shell judge and `addresses` load with the first command and the first URL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.tools import CommandExecution, FileAccess, NetworkAccess, ToolSpec
from qcode.safety.paths import PathJudge, SessionFolders, judge_path
from qcode.safety.probes import Probes
from qcode.safety.protected_paths import PROTECTED_CHECKS
from qcode.safety.rules import (
    Rule,
    Rules,
    contains_rule_words,
    covers_command,
    covers_target,
    first_rule,
    is_rule,
    may_restrict,
    parse_rule,
    propose_edit,
    propose_prefix,
    propose_sandboxed,
    propose_shell,
    restricts,
    verdict_of_rule,
)
from qcode.safety.shell.ast import UnsupportedSyntax, Word
from qcode.safety.verdict import (
    NO_SANDBOX_TO_WRITE,
    PLAN,
    PLAN_RUNS,
    RESTRICTED_FOLDER,
    SANDBOXED,
    SHELL_NOT_READ_ONLY,
    SHELL_PATH,
    SHELL_READS,
    Access,
    Level,
    Verdict,
    output_reason,
    strictest,
)
from qcode.text.json import JsonObject
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.safety.shell.flow import Flow, FlowPart, JudgedPart
    from qcode.safety.shell.judge import Judge


@dataclass(frozen=True, slots=True)
class Policy:
    """The permissions of a session.

    In an untrusted folder, reading inside the workspace is allowed and everything else needs approval, in every mode.
    """

    mode: ApprovalMode
    rules: Rules
    is_trusted: bool
    """The user trusts the folder `root`."""
    # See `SessionFolders` for the next five fields.
    root: Path
    added_folders: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    home: Path | None = None
    qcode_folders: tuple[Path, ...] = ()
    search_path: str = ""
    """The PATH of the session's shell commands."""
    probes: Probes = field(default_factory=Probes, repr=False)
    """The source of facts that need a process or the disk."""
    limit: Policy | None = None
    """Another policy that must also allow a call."""
    search_url: str = ""
    """The URL of the service of `web_search`, which is judged like a fetched page."""
    sandbox_rules: tuple[Rule, ...] = ()
    """Match commands that may run in the workspace sandbox without approval."""
    never_asks: bool = False
    """Calls that need approval are denied."""
    _session_folders: SessionFolders = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        session_folders = SessionFolders(self.root, self.added_folders, self.read_only, self.home, self.qcode_folders)
        object.__setattr__(self, "_session_folders", session_folders)

    def with_mode(self, mode: ApprovalMode) -> Policy:
        return replace(self, mode=mode)

    def with_trust(self) -> Policy:
        """Return this policy for a trusted folder."""
        return replace(self, is_trusted=True)

    def limited_by(self, other: Policy) -> Policy:
        """Return the intersection of two policies, for a sub-agent: the stricter of two verdicts applies."""
        return replace(self, limit=other if self.limit is None else self.limit.limited_by(other))

    def with_allow(self, rule: str) -> Policy:
        """Return this policy with one more allow rule; raise `ValueError` if `rule` is not a valid rule."""
        return replace(self, rules=replace(self.rules, allow=(*self.rules.allow, parse_rule(rule))))

    def judge(self, spec: ToolSpec, arguments: JsonObject) -> Verdict:
        """Return the verdict for a call of a tool. A malformed call asks; the tool then reports the error."""
        verdict = self._judge(spec, arguments).ask_or_deny(never_asks=self.never_asks)
        return verdict if self.limit is None else strictest(verdict, self.limit.judge(spec, arguments))

    def judge_command(self, command: str) -> Verdict:
        """Return the verdict for a shell command."""
        return self.judge(_SHELL_TOOL, {"command": command})

    def judge_url(self, url: str) -> Verdict:
        """Return the verdict for fetching a URL."""
        return self.judge(_FETCH_TOOL, {"url": url})

    def _judge(self, spec: ToolSpec, arguments: JsonObject) -> Verdict:
        safety = spec.safety
        if safety == "harmless":
            return Verdict("allow", "it only affects what this session created", "tool:harmless")
        if isinstance(safety, CommandExecution) and safety.command_argument:
            command = arguments.get(safety.command_argument)
            verdict = self._judge_string(command, "command", self._judge_shell)
            wants_unconfined = arguments.get(safety.unconfined_argument) is True
            return self._with_confinement(verdict, command, wants_unconfined=wants_unconfined)
        if isinstance(safety, FileAccess):
            verdict = self._judge_files(safety, arguments)
        elif isinstance(safety, NetworkAccess) and (safety.url_argument or self.search_url):
            url = arguments.get(safety.url_argument) if safety.url_argument else self.search_url
            verdict = self._judge_string(url, "url", self._judge_fetch)
        else:
            # A tool of a server is called `server__tool`; the name of a server never contains two underscores.
            name = spec.name.replace("__", "/", 1)
            verdict = self._judge_by_rules("mcp", name, name)
            if isinstance(safety, CommandExecution):
                # If the equivalent shell command is known, that is judged instead: see `Toolbox.resolve_call`.
                verdict = replace(verdict, proposed_rule="")
        return _explain_missing_sandbox(verdict) if self.mode == "auto" and not self._has_workspace_sandbox else verdict

    def _with_confinement(self, verdict: Verdict, command: object, *, wants_unconfined: bool) -> Verdict:
        """Return the verdict on a shell command, with the sandbox in which it runs.

        A command that only reads runs in the read-only sandbox, or in the workspace sandbox if it also redirects output
        to permitted files. In auto mode, a command on which neither the user nor a rule decided runs in the workspace
        sandbox. In bypass mode protected files are mounted read-only. A command that the user or a rule allowed runs
        unconfined. If `wants_unconfined`, the call asks to run outside the sandbox, which can only make the verdict
        stricter.
        """
        if verdict.verdict == "deny" or not isinstance(command, str):
            return verdict
        levels = self.probes.sandbox().levels
        if verdict.check == _BYPASS.check:
            return replace(verdict, confinement="protect") if "protect" in levels else verdict
        if verdict.is_allowed and verdict.check == SHELL_READS:
            if wants_unconfined:
                return Verdict("ask", "it asks to run outside the sandbox", "sandbox:outside")
            writes_output = self._flow(command).has_outputs
            level: Level = "workspace" if writes_output else "read-only"
            if level in levels:
                return replace(verdict, confinement=level)
            return NO_SANDBOX_TO_WRITE if writes_output else verdict
        if not self.is_trusted or wants_unconfined or not verdict.is_undecided_command:
            return verdict
        if verdict.check == SHELL_NOT_READ_ONLY and self._is_sandboxed(command):
            reason = "it runs in the workspace sandbox, as you chose"
            return Verdict("allow", reason, SANDBOXED, confinement="workspace")
        if self.mode != "auto":
            return verdict
        if "workspace" not in levels:
            return _explain_missing_sandbox(verdict)
        return Verdict("allow", "it runs in the workspace sandbox", "mode:auto", confinement="workspace")

    @property
    def _has_workspace_sandbox(self) -> bool:
        return "workspace" in self.probes.sandbox().levels

    def only_reads(self, command: str) -> bool:
        """Return whether the table of programs lists a command as read-only.

        Such a command runs with settings that prevent git from starting programs.
        """
        try:
            flow = self._flow(command)
        except UnsupportedSyntax:
            return False
        return _only_reads(flow)

    @property
    def allows_provider_search(self) -> bool:
        """Whether the provider may search the web itself. qcode cannot ask then, so an ask rule forbids it too."""
        is_forbidden = any(rule.kind == "fetch" and not rule.body for rule in (*self.rules.deny, *self.rules.ask))
        return self.is_trusted and not is_forbidden and (self.limit is None or self.limit.allows_provider_search)

    def judge_file(self, path: str, access: Access) -> Verdict:
        """Return the verdict for a file tool that reads or writes `path`.

        Searches use it for every file that they may show.
        """
        verdict = self._judge_file(path, access, PathJudge(self._session_folders))
        verdict = verdict.ask_or_deny(never_asks=self.never_asks)
        return verdict if self.limit is None else strictest(verdict, self.limit.judge_file(path, access))

    def _judge_file(self, path: str, access: Access, paths: PathJudge) -> Verdict:
        """Return the verdict of the path layer, the rules and the mode on one file."""
        path_verdict = paths.judge(path, access)
        if path_verdict.verdict == "deny":
            return path_verdict
        kind = "read" if access == "read" else "edit"
        chain = paths.resolve(path).chain

        # A rule that restricts covers a file if it covers the path or the target of one of its links.
        def is_covered(rule: Rule) -> bool:
            return any(_covers_path(rule, linked_path, paths, folds=True) for linked_path in chain)

        denied = first_rule(self.rules.deny, kind, is_covered)
        if denied is not None:
            return verdict_of_rule(denied, "deny")
        if access == "write" and self.mode == "plan":
            return _PLAN
        asked = first_rule(self.rules.ask, kind, is_covered)
        if asked is not None and (self.mode != "bypass" or not self.is_trusted):
            return verdict_of_rule(asked, "ask")
        if path_verdict.verdict == "ask" or access == "read":
            return path_verdict
        return self._judge_write(chain, paths)

    def _judge_files(self, files: FileAccess, arguments: JsonObject) -> Verdict:
        """Return the strictest verdict on the files of a call. A rule is proposed only if it allows the whole call."""
        paths = files.paths_of(arguments)
        if isinstance(paths, str):
            return Verdict("ask", paths, "call:malformed")
        verdicts = [self.judge_file(path, files.access) for path in paths]
        verdict = strictest(*verdicts)
        asking = [other for other in verdicts if not other.is_allowed]
        return verdict if len(asking) <= 1 else replace(verdict, proposed_rule="")

    def _judge_write(self, chain: tuple[str, ...], paths: PathJudge) -> Verdict:
        if not self.is_trusted:
            return RESTRICTED_FOLDER
        if self.mode == "bypass":
            return _BYPASS
        if self.mode == "accept-edits" or (self.mode == "auto" and self._has_workspace_sandbox):
            return Verdict("allow", "edits in the workspace are accepted", f"mode:{self.mode}")

        # A rule that allows must cover the path and the target of each of its links.
        def is_covered(rule: Rule) -> bool:
            return all(_covers_path(rule, linked_path, paths) for linked_path in chain)

        allowed = first_rule(self.rules.allow, "edit", is_covered)
        if allowed is not None:
            return verdict_of_rule(allowed, "allow")
        real, root = chain[-1], os.path.realpath(self.root)
        is_direct = len(chain) == 1 and real.startswith(f"{root}/")
        proposed = propose_edit(real.removeprefix(f"{root}/")) if is_direct else ""
        return Verdict("ask", "it changes a file", f"mode:{self.mode}", proposed)

    def _flow(self, command: str) -> Flow:
        from qcode.safety.shell.judge import read_flow

        return read_flow(command, str(self.root))

    def _judge_shell(self, command: str) -> Verdict:
        try:
            flow = self._flow(command)
        except UnsupportedSyntax as error:
            return self._judge_unclear(command, str(error))
        if any(word.may_differ for part in flow.parts for word in part.command.words):
            return self._judge_unresolved(command, flow)

        def restricts_part(rule: Rule) -> bool:
            return any(restricts(rule, part.command) for part in flow.parts)

        denied = first_rule(self.rules.deny, "shell", restricts_part)
        if denied is not None:
            return verdict_of_rule(denied, "deny")
        if self.mode == "bypass" and self.is_trusted:
            return self._judge_in_bypass(command, flow)
        asked = first_rule(self.rules.ask, "shell", restricts_part)
        if asked is not None:
            return _PLAN if self.mode == "plan" else _with_dangers(command, verdict_of_rule(asked, "ask"))
        return self._checked_by_bash(command, self._judge_parts(flow))

    def _judge_in_bypass(self, command: str, flow: Flow | None, why: str = "it runs an unknown program") -> Verdict:
        """Allow a command in bypass mode unless it may write a protected file.

        If no sandbox protects these files, a command is denied if its text contains a protected name in any spelling.
        A command that only reads is not denied. `why` is the end of the reason for such a denial.
        """
        verdict = _BYPASS if flow is None else self._deny_protected_outputs(flow.parts, _BYPASS)
        if not verdict.is_allowed or "protect" in self.probes.sandbox().levels:
            return verdict
        if flow is not None and _only_reads(flow) and not flow.has_outputs:
            return verdict
        from qcode.safety.hidden_writes import protected_write_reason

        reason = protected_write_reason(command, self._session_folders)
        return Verdict("deny", f"{reason}, and {why}", "path:protected") if reason else verdict

    def _judge_unresolved(self, command: str, flow: Flow) -> Verdict:
        """Judge a command with unresolved words, such as `rm $FILE`; a deny rule that might match makes it ask."""
        unclear = self._judge_unclear(command, "it depends on values that are known only when it runs")
        rules = [rule for rule in (*self.rules.deny, *self.rules.ask) if rule.kind == "shell"]
        is_maybe_restricted = any(may_restrict(rule, part.command) for rule in rules for part in flow.parts)
        if unclear.is_allowed or is_maybe_restricted or flow.has_outputs:
            return unclear
        judge = self._judge_of(flow)
        verdicts = [(part, judge.judge_part(part)) for part in flow.parts]
        undecided = [(part, verdict) for part, verdict in verdicts if not verdict.is_allowed]
        if not undecided:
            return self._checked_by_bash(command, _READS)
        if unclear.check not in ("shell:not-plain", "rule:unclear"):  # plan mode, no trust, or a deny rule
            return unclear
        allowed = _READS
        for part, verdict in undecided:
            is_resolved = not any(word.may_differ for word in part.command.words)
            rule = self._allowing_rule(part, verdict, judge) if is_resolved else None
            if rule is None:
                return _with_dangers(command, replace(unclear, check=verdict.check), [other for _, other in undecided])
            allowed = verdict_of_rule(rule, "allow")
        unsafe_parts = self._parts_only_safe_in_sandbox(flow)
        return unsafe_parts[0].verdict if unsafe_parts else self._checked_by_bash(command, allowed)

    def _judge_parts(self, flow: Flow) -> Verdict:
        """Allow if each part only reads or a rule allows it; otherwise ask, and propose a rule for a single part."""
        from qcode.safety.shell.flow import JudgedPart

        undecided: list[JudgedPart] = []
        allowing_rule: Rule | None = None  # the last one
        judge = self._judge_of(flow)
        uses_rules = self.is_trusted and self.mode != "plan"
        for part in flow.parts:
            verdict = judge.judge_part(part)
            if verdict.is_allowed:
                continue
            rule = self._allowing_rule(part, verdict, judge) if uses_rules else None
            if rule is None:
                undecided.append(JudgedPart(part, verdict))
            else:
                allowing_rule = rule
        allows_every_command = allowing_rule is not None and not allowing_rule.body  # the rule `shell`
        if allowing_rule is not None and not allows_every_command and not undecided:
            undecided = self._parts_only_safe_in_sandbox(flow)
        if undecided:
            return self._ask_about_parts(flow, undecided)
        verdict = _READS if allowing_rule is None else verdict_of_rule(allowing_rule, "allow")
        if allows_every_command:
            return self._deny_protected_outputs(flow.parts, verdict)
        return self._with_output_verdicts(flow.parts, verdict)

    def _ask_about_parts(self, flow: Flow, undecided: Sequence[JudgedPart]) -> Verdict:
        """Return the verdict that asks because of the `undecided` parts, with rules that would allow the command."""
        if self.mode == "plan":
            return Verdict("deny", f"{PLAN_RUNS}: {undecided[0].verdict.reason}", PLAN)
        from qcode.safety.shell.dangers import with_dangers_of_parts

        if not self.is_trusted:
            return with_dangers_of_parts(RESTRICTED_FOLDER, undecided, is_restricted=True)
        parts = flow.parts
        is_proposed = len(undecided) == 1 and not flow.has_outputs and undecided[0].verdict.check != SHELL_PATH
        proposed = self._effective_rule(propose_shell(undecided[0].part.command) if is_proposed else "", flow)
        is_single_command = is_proposed and len(parts) == 1 and parts[0].folders == {str(self.root)}
        prefix = self._effective_rule(propose_prefix(parts[0].command) if is_single_command else "", flow)
        sandboxed = propose_sandboxed(parts[0].command) if is_single_command and self._can_sandbox else ""
        # A secret file decides the check of the verdict, because a rule with a wildcard does not allow reading it.
        verdicts = [judged.verdict for judged in undecided]
        verdict = next((verdict for verdict in verdicts if verdict.check == SHELL_PATH), verdicts[0])
        verdict = with_dangers_of_parts(verdict, undecided, is_restricted=False)
        return replace(verdict, proposed_rule=proposed, prefix_rule=prefix, sandboxed_rule=sandboxed)

    def _effective_rule(self, proposed: str, flow: Flow) -> str:
        """Return a proposed rule if it would allow the command, otherwise an empty string.

        It would not after `cd docs &&`, where no rule applies, or if another part is allowed only in the sandbox.
        """
        if not proposed or any(rule.text == proposed for rule in self.rules.allow):
            return ""
        return proposed if self.with_allow(proposed)._judge_parts(flow).is_allowed else ""

    @property
    def _can_sandbox(self) -> bool:
        """Whether the workspace sandbox can be offered for a command. Auto mode uses it for all commands anyway."""
        return self.mode in ("default", "accept-edits") and self._has_workspace_sandbox

    def _is_sandboxed(self, command: str) -> bool:
        """Return whether a rule of the user lets `command` run without approval in the workspace sandbox."""
        if not self.sandbox_rules or not self._can_sandbox:
            return False
        parts = self._flow(command).parts
        if len(parts) != 1 or parts[0].command.outputs or parts[0].folders != {str(self.root)}:
            return False
        return any(covers_command(rule, parts[0].command.words) for rule in self.sandbox_rules)

    def _parts_only_safe_in_sandbox(self, flow: Flow) -> list[JudgedPart]:
        """Return the parts that are read-only only inside a sandbox.

        They matter if a rule allows another part, because the whole command then runs without a sandbox.
        """
        from qcode.safety.shell.flow import JudgedPart

        judge = self._judge_of(flow)
        unsafe_parts: list[JudgedPart] = []
        for part in flow.parts:
            if judge.judge_part(part).is_allowed:
                verdict = judge.judge_unconfined_part(part)
                if not verdict.is_allowed and self._allowing_rule(part, verdict, judge) is None:
                    unsafe_parts.append(JudgedPart(part, verdict))
        return unsafe_parts

    def _judge_of(self, flow: Flow) -> Judge:
        """Return the judge of simple commands.

        In an untrusted folder, it does not run git to probe the repository. A command that writes runs in a sandbox
        that does not mask files of the workspace, so masking does not count for it.
        """
        from qcode.safety.shell.judge import Judge

        probes = self.probes
        if not self.is_trusted:
            probes = replace(probes, repository=Probes().repository)
        if flow.has_outputs:
            support = replace(probes.sandbox(), masks=False)
            probes = replace(probes, sandbox=lambda: support)
        return Judge.of(flow, self._session_folders, probes, self.search_path, self._read_judge())

    def _with_output_verdicts(self, parts: tuple[FlowPart, ...], verdict: Verdict) -> Verdict:
        """Return the strictest of `verdict` and the verdicts on output files.

        A path that the path layer denies to file tools only asks here, unless its check is in `PROTECTED_CHECKS`.
        """
        verdicts = [verdict]
        for word, path in self._outputs(parts):
            output_verdict = self._judge_file(path, "write", PathJudge(self._session_folders))
            is_denied_path = output_verdict.verdict == "deny" and output_verdict.check.startswith("path:")
            only_asks = is_denied_path and output_verdict.check not in PROTECTED_CHECKS
            is_any_match = word.has_glob and output_verdict.is_allowed  # the wildcard may match another file
            decision = "ask" if only_asks or is_any_match else output_verdict.verdict
            # The reason of a mode says only that a file is changed.
            reason = output_reason(word.text, output_verdict)
            verdicts.append(Verdict(decision, reason, output_verdict.check, rule=output_verdict.rule))
        return strictest(*verdicts)

    def _deny_protected_outputs(self, parts: tuple[FlowPart, ...], verdict: Verdict) -> Verdict:
        """Return `verdict`, or a denial if a part writes to a protected file; the denial holds in every mode."""
        for word, path in self._outputs(parts):
            output_verdict = judge_path(self._session_folders, path, "write")
            if output_verdict.verdict == "deny" and output_verdict.check in PROTECTED_CHECKS:
                return Verdict("deny", f"it writes to {word.text}: {output_verdict.reason}", output_verdict.check)
        return verdict

    def _outputs(self, parts: tuple[FlowPart, ...]) -> list[tuple[Word, str]]:
        """Return each file to which a redirection writes, with the word that names it."""
        from qcode.safety.shell.judge import resolve

        outputs = [(word, part.folders) for part in parts for word in part.command.outputs]
        return [(word, path) for word, folders in outputs for path in resolve(self._session_folders, word, folders)]

    def _checked_by_bash(self, command: str, verdict: Verdict) -> Verdict:
        """Allow only commands that bash can parse, because tree-sitter accepts some incomplete ones."""
        problem = self.probes.syntax(command) if verdict.is_allowed else ""
        return _with_dangers(command, Verdict("ask", problem, "shell:syntax")) if problem else verdict

    def _allowing_rule(self, part: FlowPart, verdict: Verdict, judge: Judge) -> Rule | None:
        """Return the first allow rule that covers a part, None if there is none or it must not decide."""
        # A rule applies in the workspace folder: in a subfolder, the same words may run a different program.
        if part.folders != {str(self.root)}:
            return None
        # `shell(cat *)` allows the program, but reading a secret file needs approval in every mode.
        reads_secret = verdict.check == SHELL_PATH

        def covers(rule: Rule) -> bool:
            is_too_wide = reads_secret and bool(rule.body) and rule.has_wildcard
            return not is_too_wide and covers_command(rule, part.command.words)

        rule = first_rule(self.rules.allow, "shell", covers)
        if rule is None:
            return None
        allows_every_command = not rule.body
        return rule if allows_every_command or judge.judge_inputs(part).is_allowed else None

    def _judge_unclear(self, command: str, why: str) -> Verdict:
        """Judge a command that cannot be analyzed: only a rule for every command can allow it."""
        for rule in self.rules.deny:
            if rule.kind == "shell" and (not rule.body or contains_rule_words(command, rule)):
                reason = f"it could not be fully analyzed ({why}) and may match the deny rule {rule.text}"
                return Verdict("deny", reason, rule=rule.text)
        if self.mode == "plan":
            return _PLAN
        if not self.is_trusted:
            return _with_dangers(command, replace(RESTRICTED_FOLDER, reason=why), is_restricted=True)
        has_rules = any(rule.kind == "shell" for rule in self.rules.deny)
        if self.mode == "bypass" and not has_rules:
            return self._judge_in_bypass(command, None, why)
        if has_rules or any(rule.kind == "shell" for rule in self.rules.ask):
            # A sandbox does not enforce rules, so auto mode asks too: `$'\\x72m' x` may be the `rm` of a deny rule.
            return _with_dangers(command, Verdict("ask", why, "rule:unclear"))
        general_rule = first_rule(self.rules.allow, "shell", lambda rule: not rule.body)
        if general_rule is None:
            return _with_dangers(command, Verdict("ask", why, "shell:not-plain"))
        return verdict_of_rule(general_rule, "allow")

    def _judge_fetch(self, url: str) -> Verdict:
        from qcode.safety.addresses import read_url

        target = read_url(url)
        if isinstance(target, str):
            return Verdict("deny", target, "fetch:refused")
        if not target.is_public:
            # A rule for every host does not include this machine: the user must list each port.
            is_listed = any(rule.kind == "fetch" and rule.body in target.names for rule in self.rules.allow)
            if not (target.is_loopback and is_listed):
                hint = f"; the rule fetch({target.name}) would allow it" if target.is_loopback else ""
                return Verdict("deny", f"{target.host} is not a public address{hint}", "fetch:address")
        return self._judge_by_rules(
            "fetch", target.name, target.host, lambda rule, allows: covers_target(rule, target, allows=allows)
        )

    def _judge_by_rules(
        self, kind: str, name: str, label: str, covers: Callable[[Rule, bool], bool] | None = None
    ) -> Verdict:
        """Return the verdict of the mode and the rules. `covers(rule, is_allow_rule)` replaces the test of the name."""
        is_covered = covers or (lambda rule, _: rule.matches_name(name))
        denied = first_rule(self.rules.deny, kind, lambda rule: is_covered(rule, False))
        if denied is not None:
            return verdict_of_rule(denied, "deny")
        if self.mode == "plan":
            return _PLAN
        if not self.is_trusted:
            return RESTRICTED_FOLDER
        if self.mode == "bypass":
            return _BYPASS
        asked = first_rule(self.rules.ask, kind, lambda rule: is_covered(rule, False))
        if asked is not None:
            return verdict_of_rule(asked, "ask")
        allowed = first_rule(self.rules.allow, kind, lambda rule: is_covered(rule, True))
        if allowed is not None:
            return verdict_of_rule(allowed, "allow")
        proposed = f"{kind}({name})"
        why = f"{label} has not been allowed yet" if kind == "fetch" else f"{label} may do more than read"
        return Verdict("ask", why, kind, proposed if is_rule(proposed) else "")

    def _judge_string(self, value: object, name: str, judge: Callable[[str], Verdict]) -> Verdict:
        if isinstance(value, str):
            return judge(value)
        return Verdict("ask", f"the call has no valid {name}", "call:malformed")

    def _read_judge(self) -> Callable[[str], Verdict] | None:
        """Return the function that judges files that a command reads; None if no rule is about reading."""
        if not any(rule.kind == "read" for rule in (*self.rules.deny, *self.rules.ask)):
            return None
        paths = PathJudge(self._session_folders)

        def judge(path: str) -> Verdict:
            verdict = self._judge_file(path, "read", paths)
            return verdict if self.limit is None else strictest(verdict, self.limit.judge_file(path, "read"))

        return judge


_SHELL_TOOL = ToolSpec("shell", "", {}, safety=CommandExecution(command_argument="command"))
_FETCH_TOOL = ToolSpec("fetch", "", {}, safety=NetworkAccess(url_argument="url"))
_READS = Verdict("allow", "it only reads", SHELL_READS)
_PLAN = Verdict("deny", "plan mode only reads; leave it to change files or run commands", PLAN)
_BYPASS = Verdict("allow", "approvals are bypassed", "mode:bypass")


def _covers_path(rule: Rule, path: str, paths: PathJudge, *, folds: bool = False) -> bool:
    return any(rule.matches_path(path, root, paths.home, folds=folds) for root in paths.root_paths)


def _with_dangers(
    command: str, verdict: Verdict, verdicts: Sequence[Verdict] = (), *, is_restricted: bool = False
) -> Verdict:
    """Return a verdict that asks, with the dangers of the command first; see `with_dangers`."""
    from qcode.safety.shell.dangers import with_dangers

    return with_dangers(verdict, command, verdicts, is_restricted=is_restricted)


def _only_reads(flow: Flow) -> bool:
    """Return whether the table of programs lists each command as read-only."""
    from qcode.safety.shell.judge import is_table_command

    return all(is_table_command(part.command.words) for part in flow.parts)


def _explain_missing_sandbox(verdict: Verdict) -> Verdict:
    """Add to a verdict of auto mode the reason why it asks like default mode: there is no sandbox."""
    if verdict.verdict != "ask":
        return verdict
    why = " (auto mode needs a workspace sandbox, which is not available here, so it asks like default mode)"
    return replace(verdict, reason=verdict.reason + why)
