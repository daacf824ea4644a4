"""Policies of Codex (`rules/*.rules`) and Gemini CLI (`policies/*.toml`) as `[permissions]` of qcode.

Nothing is evaluated: in the Starlark files of Codex, only calls with literal values and named literals are read. In
Gemini CLI the rule with the highest priority decides; in qcode a denial always wins. The module `rules` converts the
formats that several programs share; each format here belongs to one program. Sources: `openai/codex`
codex-rs/execpolicy/README.md, `google-gemini/gemini-cli` docs/reference/policy-engine.md.
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from qcode.agent.imports.configuration.findings import AddRule, NotConvertibleError, SettingsFile, SourceSetting
from qcode.agent.imports.configuration.rules import CLAUDE_TOOLS, PROJECT_CANNOT_ALLOW, add_rule
from qcode.protocol.approvals import RuleEffect
from qcode.safety.rules import is_rule
from qcode.text.clean import single_spaced
from qcode.values import dataclass

MAX_RULES = 100
"""The maximum number of rules for one `prefix_rule` of Codex: each combination of its alternatives becomes a rule."""

_MAX_VALUE = 10_000
"""The maximum length of two values joined by `+`, in characters of a text or in items of a list."""
_CODEX_EFFECTS: Mapping[str, RuleEffect] = {"allow": "allow", "prompt": "ask", "forbidden": "deny", "deny": "deny"}
_GEMINI_EFFECTS: Mapping[str, RuleEffect] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
_NOT_LITERAL = "only calls with plain values are converted; write it as a rule in [permissions]"


def add_codex_policy(file: SettingsFile) -> None:
    """Add the rules in a file of Codex; a statement that cannot be converted becomes a finding with its line."""
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        location = f"{file.label}:{line}" if line else file.label
        is_lost_denial = "forbidden" in file.text
        reason = "the file is not valid Starlark"
        file.add(SourceSetting("file", file.path.name, location, reason=reason, is_lost_denial=is_lost_denial))
        return
    names: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a bare string is a comment
        try:
            if isinstance(statement, ast.Assign):
                _assign(statement, names)
            else:
                _add_call(statement, names, file)
        except NotConvertibleError as problem:
            source = ast.get_source_segment(file.text, statement) or ""
            name = single_spaced(source, 60)
            is_lost_denial = "forbidden" in source
            location = _location(file, statement)
            file.add(SourceSetting("rule", name, location, reason=str(problem), is_lost_denial=is_lost_denial))


def _location(file: SettingsFile, node: ast.stmt) -> str:
    return f"{file.label}:{node.lineno}"


def _assign(statement: ast.Assign, names: dict[str, Any]) -> None:
    """Store the value of a variable in `names`; raise `NotConvertibleError`."""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        raise NotConvertibleError(_NOT_LITERAL)
    names.pop(target.id, None)  # the old value must not be used if the new one cannot be read
    names[target.id] = _value(statement.value, names)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:  # noqa: ANN401  # text, or lists of values
    """Return the value of a literal; raise `NotConvertibleError` for everything that Starlark would compute."""
    match node:
        case ast.Constant(value=str() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, names) for item in items]
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _value(left, names), _value(right, names)
            if type(first) is type(second) and first is not None and len(first) + len(second) <= _MAX_VALUE:
                return first + second
    raise NotConvertibleError(_NOT_LITERAL)


def _add_call(statement: ast.stmt, names: Mapping[str, Any], file: SettingsFile) -> None:
    """Add the rules of a call such as `prefix_rule(...)`; raise `NotConvertibleError`."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise NotConvertibleError(_NOT_LITERAL)
    parameters = {
        "prefix_rule": ("pattern", "decision", "match", "not_match", "justification"),
        "network_rule": ("host", "protocol", "decision", "justification"),
    }
    if call.func.id == "host_executable":
        raise NotConvertibleError("has no equivalent: a rule matches the name of a program as typed, not its path")
    fields = parameters.get(call.func.id, ())
    arguments = [(name, value) for name, value in zip(fields, call.args, strict=False)]
    arguments += [(word.arg or "", word.value) for word in call.keywords]
    if not fields or len(call.args) > len(fields) or any(name not in fields for name, _ in arguments):
        raise NotConvertibleError(_NOT_LITERAL)
    # The examples in `match` are tests of Codex: they are not read.
    values = {name: _value(value, names) for name, value in arguments if name not in ("match", "not_match")}
    effect = _CODEX_EFFECTS.get(str(values.get("decision") or "allow"))
    if effect is None:
        raise NotConvertibleError("its decision is not allow, prompt or forbidden")
    if call.func.id == "network_rule":
        _add_network_rule(values, effect, file, _location(file, statement))
    else:
        _add_prefix_rule(values, effect, file, _location(file, statement))


def _add_prefix_rule(values: Mapping[str, Any], effect: RuleEffect, file: SettingsFile, location: str) -> None:
    pattern = values.get("pattern")
    # A token is one word, or a list of alternative words.
    tokens = [[token] if isinstance(token, str) else token for token in pattern or ()]
    if not isinstance(pattern, list) or not tokens or not all(map(_is_list_of_words, tokens)):
        raise NotConvertibleError("its pattern is not a list of words")
    choices = list(itertools.islice(itertools.product(*tokens), MAX_RULES + 1))
    if len(choices) > MAX_RULES:
        raise NotConvertibleError(f"its alternatives would become more than {MAX_RULES} rules")
    losses = ("its justification is left out",) if values.get("justification") and effect != "allow" else ()
    for words in choices:
        name, rule = f"{effect} {single_spaced(' '.join(words), 120)}", f"shell({shlex.join(words)} *)"
        if file.is_project and effect == "allow":
            file.add(SourceSetting("rule", name, location, reason=PROJECT_CANNOT_ALLOW))
        elif not is_rule(rule):
            reason = "the words cannot be written as a rule"
            file.add(SourceSetting("rule", name, location, reason=reason, is_lost_denial=effect == "deny"))
        else:
            file.add(SourceSetting("rule", name, location, (AddRule(effect, rule),), losses=losses))


def _is_list_of_words(token: object) -> bool:
    return isinstance(token, list) and bool(token) and all(isinstance(word, str) for word in token)


def _add_network_rule(values: Mapping[str, Any], effect: RuleEffect, file: SettingsFile, location: str) -> None:
    rule = f"fetch({values.get('host')})"
    name = f"{effect} host {single_spaced(str(values.get('host')), 100)}"
    if effect == "allow" or not is_rule(rule):
        reason = "hosts cannot be allowed for commands; see tools.sandbox" if effect == "allow" else "is not a host"
        file.add(SourceSetting("rule", name, location, reason=reason, is_lost_denial=effect == "deny"))
        return
    losses = ("only the tool fetch is covered, not commands",)
    file.add(SourceSetting("rule", name, location, (AddRule(effect, rule),), losses=losses))


_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*\"?rule\"?[ \t]*\]\]", re.MULTILINE)
_KNOWN_KEYS = frozenset(
    {"toolName", "mcpName", "commandPrefix", "commandRegex", "argsPattern", "decision", "priority", "allowRedirection"}
)
_MODES_EXCEPT_PLAN = frozenset({"default", "autoEdit", "yolo"})
"""The modes of Gemini CLI other than plan mode. A rule for all of them is converted as a rule for every mode:
plan mode of qcode permits no changes, whatever the rules allow."""
_REGEX_CHARS = re.compile(r"[\\^$.|?*+()\[\]{}]")
_SERVER_TOOL = re.compile(r"mcp_([^_*]+)_(.+)")


@dataclass(frozen=True, slots=True)
class _Policy:
    """One `[[rule]]` of Gemini CLI."""

    values: Mapping[str, Any]
    effect: RuleEffect
    priority: float
    unsupported: tuple[str, ...]
    """The keys without an equivalent in qcode, most of them conditions."""

    def strings(self, key: str) -> tuple[str, ...]:
        """Return the strings of a key, whose value may be one string or a list."""
        value = self.values.get(key)
        values = value if isinstance(value, list) else [value]
        return tuple(text for text in values if isinstance(text, str) and text)


def add_gemini_policy(file: SettingsFile) -> None:
    """Add the rules in a file of Gemini CLI; a rule that cannot be converted becomes a finding with its line."""
    rows = file.values.get("rule", [])
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    lines = [file.text.count("\n", 0, match.end()) + 1 for match in _HEADER.finditer(file.text)]
    locations = [f"{file.label}:{line}" for line in lines] if len(lines) == len(rows) else [file.label] * len(rows)
    policies = [_read_policy(row) for row in rows]
    restrictive_priorities = [policy.priority for policy in policies if policy is not None and policy.effect != "allow"]
    for row, policy, location in zip(rows, policies, locations, strict=True):
        name = single_spaced(_display_name(row), 120)
        if policy is None:
            is_lost_denial = row.get("decision") == "deny"
            file.add(
                SourceSetting("rule", name, location, reason="it is not a valid rule", is_lost_denial=is_lost_denial)
            )
            continue
        try:
            rules = list(dict.fromkeys(_claude_rules(policy)))
        except NotConvertibleError as problem:
            is_lost_denial = policy.effect == "deny"
            file.add(SourceSetting("rule", name, location, reason=str(problem), is_lost_denial=is_lost_denial))
            continue
        losses = [f"`{key}` has no equivalent: the rule applies without it" for key in policy.unsupported]
        if policy.effect == "allow" and any(priority < policy.priority for priority in restrictive_priorities):
            losses.append("its priority has no equivalent: a rule that denies or asks decides first")
        for rule in rules:
            # These rules have no paths, so those of a user and of a project are converted alike.
            add_rule(
                file, policy.effect, text=rule, rule=rule, source="project", location=location, losses=tuple(losses)
            )
    for key in file.values:
        if key != "rule":
            file.add(SourceSetting("setting", single_spaced(key, 80), file.location(key), reason="has no equivalent"))


def _read_policy(row: Mapping[str, Any]) -> _Policy | None:
    effect, priority = _GEMINI_EFFECTS.get(str(row.get("decision"))), row.get("priority", 0)
    if effect is None or not isinstance(priority, int | float):
        return None
    modes = row.get("modes")
    holds_in_all_modes = not modes or (isinstance(modes, list) and set(map(str, modes)) >= _MODES_EXCEPT_PLAN)
    unknown = [key for key in row if key not in _KNOWN_KEYS and not (key == "modes" and holds_in_all_modes)]
    return _Policy(row, effect, priority, tuple(unknown))


def _display_name(row: Mapping[str, Any]) -> str:
    words = [
        str(row[key]) for key in ("decision", "mcpName", "toolName", "commandPrefix", "commandRegex") if key in row
    ]
    return " ".join(words) or "rule"


def _claude_rules(policy: _Policy) -> Iterator[str]:
    """Yield a policy as rules of Claude Code, which `add_rule` converts; raise `NotConvertibleError`."""
    narrowing = [key for key in policy.unsupported if key != "denyMessage"]
    if policy.effect == "allow" and narrowing:
        raise NotConvertibleError(
            f"`{single_spaced(narrowing[0], 60)}` has no equivalent, and without it more is allowed"
        )
    if "argsPattern" in policy.values:
        raise NotConvertibleError("`argsPattern` has no equivalent")
    tools, servers = policy.strings("toolName"), policy.strings("mcpName")
    prefixes, regex = policy.strings("commandPrefix"), policy.values.get("commandRegex")
    if servers:
        for server, tool in itertools.product(servers, tools or ("*",)):
            yield _server_rule(server, tool)
    elif prefixes or regex is not None:
        if tools and set(tools) != {"run_shell_command"}:
            raise NotConvertibleError("a command belongs to the tool run_shell_command")
        yield from (f"Bash({prefix.strip()}:*)" for prefix in prefixes or (_prefix_of(str(regex), policy.effect),))
    elif not tools:
        raise NotConvertibleError("it names no tool")
    else:
        yield from (_tool_rule(tool, policy.effect) for tool in tools)


def _prefix_of(regex: str, effect: RuleEffect) -> str:
    """Return the words at the beginning of every command that `regex` matches: `git push` for `git push --f(orce)?`.

    Raise `NotConvertibleError` if there are none.
    """
    special_char = _REGEX_CHARS.search(regex)
    if special_char is None:
        return regex
    if effect == "allow":
        raise NotConvertibleError("a regular expression cannot be allowed")
    if _has_alternatives(regex):
        raise NotConvertibleError("the regular expression has alternatives; write a rule for each")
    is_previous_optional = special_char[0] in "?*{"  # `git ?push` also matches `gitpush`
    literal_end = special_char.start() - 1 if is_previous_optional else special_char.start()
    whole_words, space, _ = regex[: max(0, literal_end)].rpartition(" ")
    if not space or not whole_words.strip():
        raise NotConvertibleError("the regular expression does not begin with a program")
    return whole_words


def _has_alternatives(regex: str) -> bool:
    """Return whether a `|` outside groups and classes separates whole alternatives, as in `git (log|show)|rm .*`."""
    depth, is_in_class, is_escaped = 0, False, False
    for char in regex:
        if is_escaped or char == "\\":
            is_escaped = not is_escaped
        elif is_in_class:
            is_in_class = char != "]"
        elif char == "[":
            is_in_class = True
        elif char == "|" and depth == 0:
            return True
        elif char in "()":
            depth += 1 if char == "(" else -1
    return False


def _server_rule(server: str, tool: str) -> str:
    if server == "*":
        raise NotConvertibleError("a rule for all servers has no equivalent; name each")
    return f"mcp__{server}" if tool == "*" else f"mcp__{server}__{tool}"


def _tool_rule(tool: str, effect: RuleEffect) -> str:
    match = _SERVER_TOOL.fullmatch(tool)
    if match is not None:
        return _server_rule(match[1], match[2])
    if "*" in tool:
        raise NotConvertibleError("a rule for several tools by wildcard has no equivalent; name each")
    name = CLAUDE_TOOLS.get(tool.lower(), tool)
    if effect == "ask" and name in ("Bash", "Edit", "Write", "WebFetch"):
        raise NotConvertibleError("not needed: qcode asks, except for commands that only read")
    return name
