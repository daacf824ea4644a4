"""A person's own kinds of sub-agents: files that describe one, read into values. A file that cannot be used is a line.

`agents/reviewer.toml` is the kind `reviewer`. A project's are read only where the caller says that its folder is
trusted. Nothing in such a file gives a right: it can only take some away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qcode.config.custom_commands import is_same_folder, named_files, nearest_name
from qcode.config.errors import ConfigError
from qcode.config.paths import PROJECT_FOLDER
from qcode.protocol.values import dataclass

FOLDER = "agents"
MODELS = ("same", "small")
_KEYS = ("description", "prompt", "only_reads", "tools", "model")


@dataclass(frozen=True, slots=True)
class CustomAgent:
    """`description` is for the model that chooses among kinds; `tools` are the only ones it gets where not empty."""

    name: str
    description: str
    prompt: str
    only_reads: bool = False
    tools: tuple[str, ...] = ()
    model: str = "same"


@dataclass(frozen=True, slots=True)
class CustomAgents:
    """What was found. `problems` are lines for a person, each naming its file."""

    agents: tuple[CustomAgent, ...] = ()
    problems: tuple[str, ...] = ()


def load_custom_agents(
    config_dir: Path, project_root: Path, *, is_trusted: bool, taken: Sequence[str] = ()
) -> CustomAgents:
    """Read the agents of the person and, in a trusted folder, of the project; a name in `taken` cannot be used."""
    found: dict[str, CustomAgent] = {}
    problems: list[str] = []
    folders: list[tuple[Path, Path | None]] = [(config_dir / FOLDER, None)]
    project = project_root / PROJECT_FOLDER / FOLDER
    if is_trusted and not is_same_folder(project, folders[0][0]):
        folders.append((project, project_root))
    for folder, inside in folders:
        for name, file in named_files(folder, problems, inside=inside):
            if name in taken or name in found:
                problems.append(f"{file}: is not used, there is another sub-agent {name}; rename the file")
                continue
            try:
                found[name] = _read(name, file)
            except ConfigError as error:
                problems.append(str(error))
    return CustomAgents(tuple(sorted(found.values(), key=lambda one: one.name)), tuple(problems))


def _read(name: str, file: Path) -> CustomAgent:
    from qcode.config.layers import parse_toml, read_toml_text
    from qcode.config.lines import find_lines

    text = read_toml_text(file, is_needed=True) or ""
    table = parse_toml(text, file)
    lines: Mapping[tuple[str, ...], int] = find_lines(text)

    def fail(key: str, message: str) -> ConfigError:
        return ConfigError(message, file=file, line=lines.get((key,), 1))

    for key in table:
        if key not in _KEYS:
            raise fail(key, f"unknown key {key}; the nearest is {nearest_name(key, _KEYS)}")
    description = table.get("description")
    if not isinstance(description, str) or not description.strip() or not description.isprintable():
        raise fail("description", "description must be one line of text: when the model is to use it")
    prompt = table.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise fail("prompt", "prompt must be text: what the sub-agent is told")
    only_reads, tools, model = _limits(table, fail)
    return CustomAgent(name, description.strip(), prompt, only_reads, tools, model)


def _limits(table: Mapping[str, object], fail: Callable[[str, str], ConfigError]) -> tuple[bool, tuple[str, ...], str]:
    """Return `only_reads`, `tools` and `model`."""
    only_reads, tools, model = table.get("only_reads", False), table.get("tools", []), table.get("model", MODELS[0])
    if not isinstance(only_reads, bool):
        raise fail("only_reads", "only_reads must be true or false")
    if not isinstance(tools, list) or not all(isinstance(tool, str) and tool for tool in tools):
        raise fail("tools", 'tools must be a list of names of tools, such as ["read", "grep"]')
    if not isinstance(model, str) or model not in MODELS:
        raise fail("model", "model must be same or small")
    return only_reads, tuple(tools), model
