"""Converts commands, prompts and agents of other programs to the Markdown files that qcode reads.

Text without a special meaning in the other program must not get a special meaning here: placeholders
of qcode are escaped, and a blank is inserted into text that would run as a command.
Formats: developers.openai.com/codex/custom-prompts, gemini-cli `docs/cli/custom-commands.md` and
`docs/core/subagents.md`, qwen-code `docs/users/features/commands.md` and `sub-agents.md`, opencode.ai/docs/commands and
/agents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from qcode.agent.claude.agents import agent_kind
from qcode.agent.claude.markdown import read_markdown
from qcode.agent.context.front_matter import FrontMatter, FrontMatterError, read_front_matter, unwrap_scalars
from qcode.agent.imports.configuration.findings import SourceSetting, WriteFile, shown_path
from qcode.agent.imports.configuration.rules import CLAUDE_TOOLS
from qcode.config.definitions import named_files
from qcode.config.load import parse_toml, read_config_text
from qcode.protocol.errors import ConfigError
from qcode.text.clean import single_spaced
from qcode.values import dataclass

# Text that qcode would run as a command: !`ls`, or a block that begins with ```!.
_COMMAND_START = re.compile(r"(?:(?<=\s)|^)!(?=`[^`\n]+`)|^```!(?=[ \t]*$)", re.MULTILINE)
_QCODE_PLACEHOLDER = re.compile(r"\$(?=ARGUMENTS|\d|\{[A-Z])")
_CODEX_PLACEHOLDER = re.compile(r"\$(?:(\$)|ARGUMENTS\b|([1-9])(?!\d)|([A-Z][A-Z0-9_]*)|(?=\d|\{[A-Z]))")
_OPENCODE_COMMAND = re.compile(r"!`([^`]+)`")
_EMBEDDED_START = re.compile(r"([!@])\{")
_NUMBER = re.compile(r"\$(\d{1,9})")
_ARGS = "{{args}}"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_INVALID_NAME = "a name has letters, digits, - and _, and starts with a letter"


@dataclass(frozen=True, slots=True)
class ConvertedPrompt:
    """The prompt of a command in qcode's format."""

    body: str
    arguments: tuple[str, ...] = ()
    """The names of the arguments, in order."""
    losses: tuple[str, ...] = ()
    """A line for each detail that works differently in qcode."""


def codex_prompt(text: str) -> ConvertedPrompt:
    """Convert a prompt of Codex: `$1` to `$9`, `$ARGUMENTS`, `$NAME` of `NAME=value`, and `$$` for a dollar."""
    names: dict[str, None] = {}

    def converted(match: re.Match[str]) -> str:
        if match[1]:
            following = text[match.end() :]
            return "\\$" if re.match(r"ARGUMENTS|\d|\{[A-Z]|[A-Z]", following) else "$"
        if match[3] and match[3] != "ARGUMENTS":
            names[match[3].lower()] = None
            return f"${match[3].lower()}"
        return match[0] if match[0] != "$" else "\\$"

    body = _escape_commands(_CODEX_PLACEHOLDER.sub(converted, text))
    losses = tuple(
        f"${name.upper()} is argument {index} in qcode, without {name.upper()}=" for index, name in enumerate(names, 1)
    )
    return ConvertedPrompt(body, tuple(names), losses)


def gemini_prompt(text: str) -> ConvertedPrompt:
    """Convert a prompt of Gemini CLI or qwen-code: `{{args}}`, `!{command}` and `@{path}`, with balanced braces."""
    parts: list[str] = []
    losses: list[str] = []
    end = 0
    for part in _embedded_parts(text):
        parts.append(_escape(text[end : part.start]).replace(_ARGS, "$ARGUMENTS"))
        space = "" if part.start == 0 or text[part.start - 1].isspace() else " "
        if part.sign == "@":
            parts.append(f"{space}@{part.content.strip()}")
        else:
            if _ARGS in part.content:
                losses.append("{{args}} inside !{...} is not quoted in qcode")
            parts.append(_command_markdown(_escape(part.content.strip()).replace(_ARGS, "$ARGUMENTS"), space))
        end = part.end
    parts.append(_escape(text[end:]).replace(_ARGS, "$ARGUMENTS"))
    return ConvertedPrompt("".join(parts), losses=tuple(dict.fromkeys(losses)))


def _escape(text: str) -> str:
    """Return `text` with everything escaped that qcode would read as a placeholder or a command."""
    return _escape_commands(_QCODE_PLACEHOLDER.sub(r"\\$", text))


def _escape_commands(text: str) -> str:
    return _COMMAND_START.sub(lambda match: "! " if match[0] == "!" else "``` !", text)


def _command_markdown(command: str, space: str) -> str:
    """Return an embedded command in qcode's format: inline, or as a block if it has a backtick or several lines.

    `space` separates an inline command from the text before it, as qcode requires.
    """
    if "`" in command or "\n" in command:
        return f"\n```!\n{command}\n```\n"
    return f"{space}!`{command}`"


class _EmbeddedPart(NamedTuple):
    """A part `!{...}` or `@{...}` of a text."""

    start: int
    end: int
    """The index after the last brace."""
    sign: str
    """`!` for a command, `@` for a file."""
    content: str


def _embedded_parts(text: str) -> Iterator[_EmbeddedPart]:
    """Yield each `!{...}` and `@{...}` with balanced braces."""
    position = 0
    while (match := _EMBEDDED_START.search(text, position)) is not None:
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        position = end
        if not depth:
            yield _EmbeddedPart(match.start(), end, match[1], text[match.end() : end - 1])


def opencode_prompt(text: str) -> ConvertedPrompt:
    """Convert a prompt of OpenCode, in which the highest of `$1`, `$2`, ... stands for all remaining arguments."""
    highest = max((int(number) for number in _NUMBER.findall(text)), default=0)
    losses = (f"${highest} is one word in qcode, not all remaining words",) if highest > 1 else ()
    body = text.replace("$1", "$ARGUMENTS") if highest == 1 and "$ARGUMENTS" not in text else text

    def converted(match: re.Match[str]) -> str:
        before = body[match.start() - 1 : match.start()]
        return _command_markdown(match[1], "" if not before or before.isspace() else " ")

    return ConvertedPrompt(_OPENCODE_COMMAND.sub(converted, body), losses=losses)


def markdown_file_text(fields: Mapping[str, object], body: str) -> str:
    """Return the text of a Markdown file with front matter; fields without a value are omitted."""
    filled = {name: value for name, value in fields.items() if value not in (None, "", (), [])}
    rows = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in filled.items()]
    header = "\n".join(["---", *rows, "---", ""]) if rows else ""
    return f"{header}{body.strip(chr(10))}\n"


_SUPPORTED_FIELDS = frozenset({"description", "argument-hint", "template", "prompt"})


def convert_command(
    name: str, fields: Mapping[str, object], text: str, location: str, convert: Callable[[str], ConvertedPrompt]
) -> SourceSetting:
    """Convert a command. A command without a prompt or with an invalid name becomes a finding with the reason."""
    if not all(_NAME.fullmatch(part) for part in name.split(":")):
        return SourceSetting("command", name, location, reason=_INVALID_NAME)
    if not text.strip():
        return SourceSetting("command", name, location, reason="it has no prompt")
    prompt = convert(text)
    header = {
        "description": single_spaced(str(fields.get("description") or ""), 1_000),
        "argument-hint": single_spaced(str(fields.get("argument-hint") or ""), 200),
        "arguments": list(prompt.arguments),
    }
    losses = [
        *prompt.losses,
        *(f"`{single_spaced(key, 60)}` has no effect" for key in fields if key not in _SUPPORTED_FIELDS),
    ]
    file = WriteFile("commands", name, markdown_file_text(header, prompt.body))
    return SourceSetting("command", name, location, (file,), losses=tuple(losses))


def read_commands(
    folder: Path,
    home: str,
    inside: Path | None,
    suffix: str,
    convert: Callable[[str], ConvertedPrompt],
    prefix: str = "",
) -> Iterator[SourceSetting]:
    """Yield the commands in the files of a folder whose names end with `suffix`; `prefix` precedes each name.

    `home` is the home folder, for the shown paths. Links out of the folder `inside` are not followed; None allows all.
    """
    problems: list[str] = []
    for stem, file in named_files(folder, problems, inside=inside, suffix=suffix):
        name, location = f"{prefix}{stem}", shown_path(file, home)
        try:
            if suffix == ".toml":
                table = parse_toml(read_config_text(file, must_exist=True) or "", file)
                yield convert_command(name, table, str(table.get("prompt") or ""), location, convert)
            else:
                front_matter = read_markdown(file)
                yield convert_command(name, _fields(front_matter), front_matter.body, location, convert)
        except (FrontMatterError, ConfigError) as problem:
            yield SourceSetting("command", name, location, reason=str(problem).removeprefix(f"{file}:").strip())
    yield from (SourceSetting("file", folder.name, shown_path(folder, home), reason=problem) for problem in problems)


def _fields(front_matter: FrontMatter) -> dict[str, object]:
    return {name: unwrap_scalars(field.value) for name, field in front_matter.fields.items()}


def read_agents(folder: Path, home: str, inside: Path | None, program: str) -> Iterator[SourceSetting]:
    """Yield the agents in the Markdown files of a folder; see `read_commands` for `home` and `inside`."""
    problems: list[str] = []
    for stem, file in named_files(folder, problems, inside=inside, suffix=".md"):
        location = shown_path(file, home)
        try:
            front_matter = read_markdown(file)
        except FrontMatterError as problem:
            yield SourceSetting("agent", stem, location, reason=str(problem).removeprefix(f"{file}:").strip())
            continue
        yield convert_agent(stem, _fields(front_matter), front_matter.body, location, program)
    yield from (SourceSetting("file", folder.name, shown_path(folder, home), reason=problem) for problem in problems)


def convert_agent(stem: str, fields: Mapping[str, object], body: str, location: str, program: str) -> SourceSetting:
    """Convert an agent. An agent that would be invalid in qcode becomes a finding with the reason."""
    name = str(fields.get("name") or stem.rpartition(":")[2])
    agent = _Agent(dict(fields))
    agent.convert(program)
    text = markdown_file_text({"name": name, **agent.header}, body)
    if not _NAME.fullmatch(name):
        return SourceSetting("agent", name, location, reason=_INVALID_NAME)
    try:
        front_matter = read_front_matter(text, location)
        agent_kind(name, _fields(front_matter) | agent.limits, front_matter.body)
    except ValueError as problem:
        return SourceSetting("agent", name, location, reason=str(problem).removeprefix(f"{location}:").strip())
    return SourceSetting("agent", name, location, (WriteFile("agents", name, text),), losses=tuple(agent.losses))


class _Agent:
    """The front matter of an agent during conversion."""

    def __init__(self, entry: dict[str, object]) -> None:
        self._entry = entry
        """The fields of the other program that are not read yet."""
        self.header: dict[str, object] = {
            "description": single_spaced(str(entry.pop("description", None) or ""), 1_000)
        }
        """The front matter in qcode's format."""
        self.limits: dict[str, Any] = {}
        """The numeric fields of `header` as numbers. Fields that are read from a file are text."""
        self.losses: list[str] = []
        """A line for each field that is not converted."""
        entry.pop("name", None)

    def convert(self, program: str) -> None:
        """Convert the fields of an agent of `program` to `header`, `limits` and `losses`."""
        entry = self._entry
        tools = entry.pop("tools", None)
        if isinstance(tools, Mapping):
            self._convert_tool_switches(tools)
        elif tools is not None:
            self._convert_tools("tools", tools)
        if "disallowedTools" in entry:
            self._convert_tools("disallowedTools", entry.pop("disallowedTools"))
        self._convert_turns(entry.pop("max_turns", None) or entry.pop("maxTurns", None))
        if program == "opencode":
            self._convert_permission(entry.pop("permission", None))
            if entry.pop("mode", "subagent") == "primary":
                self.losses.append("`mode: primary`: it is a sub-agent in qcode")
        elif entry.get("approvalMode") == "plan":
            entry.pop("approvalMode")
            self.header["permissionMode"] = "plan"
        if entry.get("model") in ("inherit", "haiku"):
            self.header["model"] = entry.pop("model")
        if entry.get("kind") == "local":
            entry.pop("kind")
        self.losses += [f"`{single_spaced(str(key), 60)}` has no effect" for key in entry]

    def _convert_tools(self, field: str, value: object) -> None:
        names = value if isinstance(value, list) else str(value).replace(",", " ").split()
        if "*" in names:
            return
        converted = [_claude_tool(str(name)) for name in names]
        unknown = [str(name) for name, tool in zip(names, converted, strict=True) if not tool]
        self.losses += [f"qcode has no tool {single_spaced(name, 60)}" for name in unknown]
        # An empty list would mean all tools, so unknown names remain and become an error.
        self.header[field] = list(dict.fromkeys(filter(None, converted))) or [str(name) for name in names] or ["none"]

    def _convert_tool_switches(self, tools: Mapping[str, object]) -> None:
        """Convert OpenCode's `tools: {write: false}`."""
        on = [name for name, value in tools.items() if _is_enabled(value) and name != "*"]
        off = [name for name, value in tools.items() if not _is_enabled(value) and name != "*"]
        if not _is_enabled(tools.get("*", True)):
            self._convert_tools("tools", on)
        elif off:
            self._convert_tools("disallowedTools", off)

    def _convert_permission(self, value: object) -> None:
        """Convert `permission` of OpenCode: tools that it denies completely."""
        for tool, effect in value.items() if isinstance(value, Mapping) else ():
            name = _claude_tool(str(tool))
            if effect == "deny" and name:
                denied = self.header.setdefault("disallowedTools", [])
                assert isinstance(denied, list)
                denied += [name] if name not in denied else []
            elif effect != "allow":
                self.losses.append(f"`permission.{single_spaced(str(tool), 60)}`: the rules of the conversation apply")

    def _convert_turns(self, value: object) -> None:
        if value is None:
            return
        text = str(value)
        # `int` refuses a text of 5,000 digits.
        if text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0:
            self.header["maxTurns"] = self.limits["maxTurns"] = int(text)
        else:
            self.losses.append("`max_turns` is not a valid number of turns")


def _is_enabled(value: object) -> bool:
    return value is True or str(value).lower() in ("true", "yes", "on", "1")


def _claude_tool(name: str) -> str:
    """Return Claude Code's name of a tool, empty if Claude Code does not have the tool."""
    claude_tool = CLAUDE_TOOLS.get(name.lower())
    if claude_tool is not None or name in CLAUDE_TOOLS.values():
        return claude_tool or name
    return name if name.startswith("mcp__") else ""
