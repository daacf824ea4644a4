"""The `initialize` request: the options that it sets, and the answer to it. Pure; it loads before `qcode.agent`.

A host may set prompts, a schema, and servers. It can neither trust a folder nor set keys, endpoints or rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from qcode.text.clean import one_line, shown_line
from qcode.text.json import Json, JsonObject, parse_object
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.options import Options, PathText
    from qcode.agent.skills.skill import Skill
    from qcode.agent.subagent_kinds import SubagentKind
    from qcode.config.definitions import CustomCommand

_COMPACT = "Replace older messages by a summary."
_USED_FIELDS = {
    "subtype", "hooks", "agents", "sdkMcpServers", "systemPrompt", "appendSystemPrompt", "jsonSchema", "title",
    "forwardSubagentText", "skills", "planModeInstructions",
}  # fmt: skip
_HARMLESS_FIELDS = {
    "sdkMcpServerConfigs", "sdkMcpServerManifests", "sdkMcpServerManifestsOrigin", "systemPromptSnapshot",
    "supportedDialogKinds", "perTaskStopAffordance", "promptSuggestions", "agentProgressSummaries",
    "rapidFollowupPreempt", "excludeDynamicSections",
}  # fmt: skip
"""Fields that an SDK always sends. Ignoring them loses nothing, so no notice names them."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """The request that begins host mode."""

    request_id: Json
    hooks: JsonObject = field(default_factory=dict)
    agents: JsonObject = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    system_prompt: str | None = None
    append_system_prompt: str = ""
    schema: JsonObject | None = None
    title: str = ""
    """The title of a new session."""
    forwards_subagent_text: bool = False
    """The host also gets the text of sub-agents."""
    skills: tuple[str, ...] | None = None
    """The names of the skills to enable; None enables all."""
    plan_instructions: str = ""
    """Instructions to the model for plan mode."""
    ignored_fields: tuple[str, ...] = ()
    """The names of the fields without effect."""

    @classmethod
    def read(cls, request_id: Json, request: JsonObject) -> Handshake:
        """Read a request. A field with a wrong type counts as ignored."""
        known = _USED_FIELDS | _HARMLESS_FIELDS
        ignored = [name for name, value in request.items() if name not in known and value]
        return cls(
            request_id,
            hooks=_object(request, "hooks", ignored) or {},
            agents=_object(request, "agents", ignored) or {},
            servers=_texts(request, "sdkMcpServers", ignored) or (),
            system_prompt=_joined(_texts(request, "systemPrompt", ignored)),
            append_system_prompt=_joined(_texts(request, "appendSystemPrompt", ignored)) or "",
            schema=_object(request, "jsonSchema", ignored),
            title=_joined(_texts(request, "title", ignored)) or "",
            forwards_subagent_text=request.get("forwardSubagentText") is True,
            skills=_texts(request, "skills", ignored),
            plan_instructions=_joined(_texts(request, "planModeInstructions", ignored)) or "",
            ignored_fields=tuple(ignored),
        )

    def applied_to(self, options: Options) -> Options:
        """Return the options of the command line combined with those of the request."""
        mcp_config, _ = _split_host_servers(options.mcp_config)
        added = "\n\n".join(filter(None, (options.append_system_prompt, self.append_system_prompt)))
        schema = options.json_schema if self.schema is None else json.dumps(self.schema)
        return replace(
            options,
            system_prompt=options.system_prompt if self.system_prompt is None else self.system_prompt,
            append_system_prompt=added or None,
            json_schema=schema,
            mcp_config=mcp_config,
        )

    def server_names(self, options: Options) -> tuple[str, ...]:
        """Return the names of the servers inside the host: those of the request and of `--mcp-config`."""
        _, configured = _split_host_servers(options.mcp_config)
        return tuple(dict.fromkeys((*self.servers, *configured)))

    def kinds(self) -> tuple[tuple[SubagentKind, ...], tuple[str, ...]]:
        """Return the sub-agents that the host defines, and a line for each problem with one."""
        if not self.agents:
            return (), ()
        from qcode.agent.claude.agents import agent_kind

        kinds: list[SubagentKind] = []
        problems: list[str] = []
        for name, definition in self.agents.items():
            try:
                agent = agent_kind(name, definition if isinstance(definition, dict) else {})
            except ValueError as problem:
                problems.append(f"the agent {shown_line(name, 80)} is left out: {problem}")
                continue
            kinds.append(agent.kind)
            if agent.unused_fields:
                problems.append(f"fields of the agent {name} without effect here: {', '.join(agent.unused_fields)}")
        return tuple(kinds), tuple(problems)

    @property
    def notice(self) -> str:
        """The fields without effect, in one line; empty if there are none."""
        if not self.ignored_fields:
            return ""
        return (
            f"fields of the initialize request without effect here: {shown_line(', '.join(self.ignored_fields), 300)}"
        )


def _split_host_servers(configs: Sequence[PathText]) -> tuple[tuple[PathText, ...], tuple[str, ...]]:
    """Return the values of `--mcp-config` without the servers inside the host, and the names of these."""
    paths: list[PathText] = []
    names: list[str] = []
    for path in configs:
        values = parse_object(str(path)) if str(path).startswith("{") else None
        servers = values.get("mcpServers") if values is not None else None
        if not isinstance(servers, dict):
            paths.append(path)
            continue
        host_servers = [
            name for name, config in servers.items() if isinstance(config, dict) and config.get("type") == "sdk"
        ]
        names += host_servers
        others = {name: config for name, config in servers.items() if name not in host_servers}
        if others:
            paths.append(json.dumps({"mcpServers": others}))
    return tuple(paths), tuple(names)


def _object(request: JsonObject, name: str, ignored: list[str]) -> JsonObject | None:
    """Return the object in a field, None without one. The name of an invalid field is added to `ignored`."""
    value = request.get(name)
    if value is not None and not isinstance(value, dict):
        ignored.append(name)
    return value if isinstance(value, dict) else None


def _texts(request: JsonObject, name: str, ignored: list[str]) -> tuple[str, ...] | None:
    """Return the texts in a field that is a string or a list of strings. Otherwise like `_object`."""
    value = request.get(name)
    if value is None:
        return None
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        ignored.append(name)
        return None
    return tuple(text for text in values if isinstance(text, str))


def _joined(texts: Sequence[str] | None) -> str | None:
    return None if texts is None else "\n\n".join(texts)


def success_response(request_id: Json, answer: JsonObject) -> JsonObject:
    """Return the line that answers a control request."""
    response: JsonObject = {"subtype": "success", "request_id": request_id, "response": answer}
    return {"type": "control_response", "response": response}


def handshake_answer(
    commands: Sequence[CustomCommand],
    skills: Sequence[Skill],
    kinds: Sequence[SubagentKind],
    model: str,
    small_model: str | None,
) -> JsonObject:
    """Return the answer to the request: the choices for its user. `model` is the first model."""
    rows: list[Json] = [{"name": "compact", "description": _COMPACT, "argumentHint": "[what to keep]"}]
    for command in commands:
        description = command.description or command.prompt.strip().split("\n", 1)[0]
        row: JsonObject = {"name": command.name, "description": one_line(description, 200)}
        rows.append({**row, "argumentHint": one_line(command.argument, 100)})
    names = {command.name.lower() for command in commands}
    for skill in skills:
        if skill.handle.lower() not in names:
            row = {"name": skill.handle, "description": one_line(skill.description, 200)}
            rows.append({**row, "argumentHint": one_line(skill.hint, 100)})
    models = {"default": model}
    if small_model:
        models[small_model] = small_model
    return {
        "commands": rows,
        "agents": [{"name": kind.name, "description": kind.purpose} for kind in kinds],
        "models": [{"value": value, "displayName": name, "description": name} for value, name in models.items()],
        "output_style": "default",
        "available_output_styles": ["default"],
        "account": {},
        "hook_on_failure_supported": True,
        "pending_permission_requests": [],
    }
