"""Converts definitions of sub-agents for Claude Code to kinds of sub-agents of qcode.

Definitions come from Markdown files, or from `initialize.agents` of a host program. A definition only restricts: its
tools are a subset of the tools of the conversation, and no field grants a permission or chooses another provider. See
code.claude.com/docs/en/sub-agents. A separate module because few runs have such definitions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from qcode.agent.claude.markdown import markdown_files, read_markdown
from qcode.agent.claude.tool_names import MCP_PREFIX, qcode_name
from qcode.agent.context.front_matter import FrontMatterError, split_names, unwrap_scalars
from qcode.agent.options import split_rules
from qcode.agent.subagent_kinds import MAX_STEPS, SubagentKind, SubagentKinds, with_common_prompt
from qcode.config.paths import DefinitionFolder, with_tilde
from qcode.protocol.tools import SAME_MODEL, SMALL_MODEL
from qcode.text.clean import single_spaced
from qcode.tools.registry import all_names
from qcode.values import dataclass

MAX_DESCRIPTION_CHARS = 1_024
"""The maximum number of characters of a description; a longer description is truncated."""
MAX_NAME_CHARS = 64
_NAME = re.compile(r"[A-Za-z0-9][\w:.-]*")
FIELDS: Mapping[str, str] = {
    "name": "the name of the kind; default: the name of the file",
    "description": "required: tells the model when to use the agent",
    "prompt": "the instructions, only in a definition that an SDK sends; in a file, the text below the front matter is "
    "the instructions",
    "tools": "the only tools that the agent gets: a list, or a string with commas; names are those of Claude Code or "
    "qcode, and `mcp__server` stands for all tools of a server",
    "disallowedTools": "tools that the agent does not get, in the form of `tools`",
    "model": "`haiku` and `small` use the `small_model` of your configuration; any other value uses the model of the "
    "conversation",
    "maxTurns": "the agent ends after this many replies, at most 60",
    "permissionMode": "`plan` has the effect of `only_reads = true`; other modes have no effect",
    "skills": "skills that are loaded before the task of the agent: a list, or a string with commas",
}
"""The fields that have an effect, with their meaning for the reference."""
_SMALL_MODELS = frozenset({"haiku", SMALL_MODEL})
_NEVER_OFFERED = frozenset({"agent", "ask_person", "exit_plan_mode"})
"""Tools that no sub-agent is offered, whatever its definition names."""


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A converted definition."""

    kind: SubagentKind
    unused_fields: tuple[str, ...] = ()
    """The fields of the definition that have no effect in qcode."""


def agent_kind(name: str, definition: Mapping[str, object], prompt: str | None = None) -> AgentDefinition:
    """Convert a definition to a kind of sub-agent; raise `ValueError` with one line for an invalid definition.

    `prompt` is the body of a Markdown file, None for a definition with a field `prompt`.
    """
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
        raise ValueError(
            "the name of an agent must start with a letter or digit; use letters, digits, - and _, "
            f"at most {MAX_NAME_CHARS}"
        )
    instructions = definition.get("prompt") if prompt is None else prompt
    if not isinstance(instructions, str) or not instructions.strip():
        raise ValueError("the prompt is missing")
    purpose = definition.get("description")
    if not isinstance(purpose, str) or not purpose.strip():
        raise ValueError("description is missing: say when to use the agent")
    tools = _parse_tools(definition, "tools")
    excluded_tools = _parse_tools(definition, "disallowedTools") or frozenset()
    unused = [field for field, value in definition.items() if field not in FIELDS and value not in (None, [], {})]
    mode = definition.get("permissionMode")
    if mode not in (None, "plan", "default"):
        unused.append("permissionMode")
    kind = SubagentKind(
        name,
        single_spaced(purpose.replace("\\n", " "), MAX_DESCRIPTION_CHARS),
        instructions,
        only_reads=mode == "plan",
        tools=tools or frozenset(),
        model=_parse_model(definition),
        excluded_tools=excluded_tools,
        max_turns=_parse_max_turns(definition),
        skills=_parse_skills(definition),
    )
    return AgentDefinition(with_common_prompt(kind), tuple(unused))


def _parse_tools(definition: Mapping[str, object], field: str) -> frozenset[str] | None:
    """Return qcode's names of the tools in a field; None if the field is absent, or `tools` is `*`.

    `mcp__server` becomes the prefix `server__`. Raise `ValueError` if the field is invalid, or if `tools` names nothing
    that a sub-agent can use.
    """
    value = definition.get(field)
    if value is None:
        return None
    if not isinstance(value, str) and not (
        isinstance(value, Sequence) and all(isinstance(item, str) for item in value)
    ):
        raise ValueError(f"{field} must be a string with commas, or a list of names")
    names = split_rules([value] if isinstance(value, str) else list(value))
    if "*" in names:
        return None if field == "tools" else frozenset(all_names())
    known_tools = {*all_names(), "skill"}
    named_tools = [_tool_of_name(name) for name in names]
    tools = {tool for tool in named_tools if tool in known_tools or "__" in tool}
    if field == "tools" and not tools - _NEVER_OFFERED:
        listed = single_spaced(", ".join(names), 100) or "nothing"
        raise ValueError(f"tools: a sub-agent can use none of them ({listed}); name at least one other tool")
    return frozenset(tools)


def _tool_of_name(name: str) -> str:
    """Return qcode's name of the tool, or the prefix of the server, that a name in a definition selects."""
    base = name.partition("(")[0].strip()
    if base.startswith(MCP_PREFIX):
        server, _, tool = base.removeprefix(MCP_PREFIX).partition("__")
        return qcode_name(base) if tool and "*" not in tool else f"{server}__"
    return qcode_name(base)


def _parse_skills(definition: Mapping[str, object]) -> tuple[str, ...]:
    value = definition.get("skills") or ()
    names = split_names(value) if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise ValueError("skills must be a string with commas, or a list of names")
    return tuple(dict.fromkeys(names))


def _parse_model(definition: Mapping[str, object]) -> str:
    value = definition.get("model")
    if value is not None and not isinstance(value, str):
        raise ValueError("model must be a string")
    return SMALL_MODEL if value is not None and value.strip().lower() in _SMALL_MODELS else SAME_MODEL


def _parse_max_turns(definition: Mapping[str, object]) -> int:
    value = definition.get("maxTurns")
    if value is None:
        return MAX_STEPS
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("maxTurns must be a whole number of at least 1")
    return min(value, MAX_STEPS)


def load_agents(folders: Iterable[DefinitionFolder], used_names: Collection[str]) -> SubagentKinds:
    """Return the kinds that Markdown files define.

    If several files define the same name, only the first is used. `used_names` are not available to files.
    """
    kinds: dict[str, SubagentKind] = {}
    problems: list[str] = []
    for folder in folders:
        for _, file in markdown_files(folder, problems):
            try:
                kind = _read_agent(file, problems)
            except FrontMatterError as error:
                problems.append(str(error))
                continue
            if kind.name in used_names or kind.name in kinds:
                problems.append(f"{file}: ignored, there is already a sub-agent {kind.name}; rename it")
            else:
                kinds[kind.name] = kind
    return SubagentKinds(tuple(kinds.values()), tuple(map(with_tilde, problems)))


def _read_agent(file: Path, problems: list[str]) -> SubagentKind:
    """Return the kind in a file; raise `FrontMatterError`. Add a warning to `problems` if lines are ignored."""
    front_matter = read_markdown(file, is_lenient=True)
    if not front_matter.is_present:
        raise FrontMatterError(f"{file}:1: no front matter; begin the file with a --- line, then name and description")
    definition = {field: unwrap_scalars(value.value) for field, value in front_matter.fields.items()}
    name = front_matter.text("name") or file.stem
    definition["description"] = front_matter.text("description")
    limit = front_matter.number("maxTurns")
    if limit is not None:
        definition["maxTurns"] = limit
    for field in ("tools", "disallowedTools", "skills"):
        names = front_matter.names(field)
        definition[field] = None if names is None else list(names)
    try:
        kind = agent_kind(name, definition, front_matter.body).kind
    except ValueError as error:
        # The message begins with the field, such as `maxTurns must be a whole number`.
        field = next((field for field in definition if str(error).startswith(field)), "name")
        raise front_matter.error(field, str(error)) from None
    problems += [front_matter.warning] if front_matter.warning else []
    return kind
