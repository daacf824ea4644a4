"""The configuration files of Claude Code, Codex, Gemini CLI, qwen-code and OpenCode, and how each is converted.

A project's files are read only if the caller says that its folder is trusted. Formats:
code.claude.com/docs/en/settings, developers.openai.com/codex/config-reference, gemini-cli
`docs/reference/configuration.md`, qwen-code `docs/users/configuration/settings.md`, opencode.ai/docs/config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from qcode.agent.imports.configuration.findings import SettingsFile, SourceSetting, read_settings, shown_path
from qcode.agent.imports.configuration.opencode import add_opencode_rules
from qcode.agent.imports.configuration.policies import add_codex_policy, add_gemini_policy
from qcode.agent.imports.configuration.prompts import (
    codex_prompt,
    convert_agent,
    convert_command,
    gemini_prompt,
    opencode_prompt,
    read_agents,
    read_commands,
)
from qcode.agent.imports.configuration.rules import (
    add_claude_rules,
    add_gemini_rules,
    add_other_keys,
)
from qcode.agent.imports.configuration.servers import add_servers
from qcode.config.paths import MCP_FILE, exists_or_unknown
from qcode.text.clean import single_spaced
from qcode.values import dataclass

PROGRAMS: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "qwen": "qwen-code",
    "opencode": "OpenCode",
}
"""The programs by the name on the command line."""

_MODEL_HINT = "set `model` in config.toml; qcode help model"
_READ_HINT = "read as it is"
_MAX_FILES = 100
_CLAUDE_HINTS = {
    "env": "qcode sets no variables; export them in your shell",
    "model": _MODEL_HINT,
    "apiKeyHelper": "set providers.NAME.api_key_env, or run qcode auth login",
}
_GEMINI_HINTS = {"model": _MODEL_HINT, "hooks": "hooks of another form do not run in qcode; qcode help hooks"}
_CODEX_HINTS = {
    "model": _MODEL_HINT,
    "model_provider": _MODEL_HINT,
    "model_providers": "set providers.NAME in config.toml",
    "model_reasoning_effort": "use --reasoning-effort",
    "approval_policy": "set permissions.mode",
    "sandbox_mode": "set permissions.mode and tools.sandbox",
    "hooks": "hooks of another form do not run in qcode; qcode help hooks",
    "projects": "trust is not imported: qcode asks once for each folder",
}
_OPENCODE_HINTS = {
    "model": _MODEL_HINT,
    "small_model": "set `small_model` in config.toml",
    "provider": "set providers.NAME in config.toml",
    "instructions": "name the files in AGENTS.md, as @path",
    "plugin": "plugins of OpenCode do not run in qcode",
}


@dataclass(frozen=True, slots=True)
class ImportLocations:
    """The places in which the configuration of a program may be.

    The files of the project at `root` are read only if `reads_project`.
    """

    env: Mapping[str, str]
    root: Path
    reads_project: bool

    @property
    def home(self) -> str:
        return self.env.get("HOME", "")

    def user_folder(self, variable: str, default: str) -> Path:
        """Return the folder of a program: the value of its variable, otherwise `default` in the home folder."""
        value = self.env.get(variable, "")
        return Path(value) if value else self.home_folder(default)

    def home_folder(self, name: str) -> Path:
        return Path(self.home or "/nonexistent") / name

    def folders(self, program_folder: Path, name: str) -> Iterator[tuple[Path, bool]]:
        """Yield the folders of a program, the user's first, and whether each belongs to the project."""
        yield program_folder, False
        if self.reads_project and (self.root / name).resolve() != program_folder.resolve():
            yield self.root / name, True

    def link_boundary(self, *, is_project: bool) -> Path | None:
        """Return the folder that links must not leave; None for the user's own files."""
        return self.root if is_project else None

    def settings(self, path: Path, *, is_project: bool) -> SettingsFile | None:
        return read_settings(path, self.home, is_project=is_project)


class FoundSetting(NamedTuple):
    """A finding, and whether it belongs to the project."""

    setting: SourceSetting
    is_project: bool


def find_settings(program: str, locations: ImportLocations) -> Iterator[FoundSetting]:
    """Yield the findings about a program of `PROGRAMS`."""
    return _FINDERS[program](locations)


def _findings_in(file: SettingsFile) -> Iterator[FoundSetting]:
    return _found(file.findings, is_project=file.is_project)


def _found(settings: Iterable[SourceSetting], *, is_project: bool) -> Iterator[FoundSetting]:
    return (FoundSetting(setting, is_project) for setting in settings)


def _find_claude(locations: ImportLocations) -> Iterator[FoundSetting]:
    program_folder = locations.user_folder("CLAUDE_CONFIG_DIR", ".claude")
    for folder, is_project in locations.folders(program_folder, ".claude"):
        for name in ("settings.json", "settings.local.json"):
            file = locations.settings(folder / name, is_project=is_project)
            if file is not None:
                add_claude_rules(file, "project" if is_project else "user")
                value = "project" if is_project else "own"
                hints = {**_CLAUDE_HINTS, "hooks": f'they run with hooks.claude = "{value}" in your config.toml'}
                add_other_keys(file, frozenset({"permissions"}), hints)
                yield from _findings_in(file)
        names = ("commands", "agents", "skills", "rules", "CLAUDE.md")
        yield from _found(_files_read_anyway(locations, folder, names), is_project=is_project)
    # `~/.claude.json` is beside the folder `~/.claude`, but in a folder that `CLAUDE_CONFIG_DIR` names.
    state_folder = program_folder.parent if program_folder.name == ".claude" else program_folder
    file = locations.settings(state_folder / ".claude.json", is_project=False)
    if file is not None:
        add_servers(file, "claude", ("mcpServers",))
        _add_claude_projects(file, locations.root)
        yield from _findings_in(file)
    if locations.reads_project:
        root_names = (MCP_FILE, "CLAUDE.md", "CLAUDE.local.md")
        yield from _found(_files_read_anyway(locations, locations.root, root_names), is_project=True)


def _add_claude_projects(file: SettingsFile, root: Path) -> None:
    """Add the user's servers for this project only; servers for other projects become findings with a hint."""
    for name in file.table("projects"):
        if not file.table("projects", name, "mcpServers"):
            continue
        if name == str(root):
            add_servers(file, "claude", ("projects", name, "mcpServers"))
        else:
            reason = "servers of another project; run qcode import in its folder"
            file.add(SourceSetting("setting", single_spaced(name, 200), file.location("projects", name), reason=reason))


def _files_read_anyway(locations: ImportLocations, folder: Path, names: tuple[str, ...]) -> Iterator[SourceSetting]:
    """Yield the files and folders that qcode reads without an import."""
    for name in names:
        if exists_or_unknown(folder / name):
            yield SourceSetting(
                "file", name, shown_path(folder / name, locations.home), reason=_READ_HINT, is_read=True
            )


def _unconverted(locations: ImportLocations, folder: Path, name: str, reason: str) -> Iterator[SourceSetting]:
    """Yield a file that is not converted, if it exists."""
    if exists_or_unknown(folder / name):
        yield SourceSetting("file", name, shown_path(folder / name, locations.home), reason=reason)


def _policies(
    locations: ImportLocations,
    folder: Path,
    pattern: str,
    convert: Callable[[SettingsFile], None],
    denial_word: str,
    *,
    is_project: bool,
) -> Iterator[FoundSetting]:
    """Yield the rules in the files that match. A file that is not valid is unenforced if `denial_word` is in it."""
    for number, path in enumerate(sorted(folder.glob(pattern))):
        label = shown_path(path, locations.home)
        if number == _MAX_FILES:
            reason = f"more than {_MAX_FILES} files; this and the following ones are not read"
            yield FoundSetting(SourceSetting("file", path.name, label, reason=reason, is_lost_denial=True), is_project)
            return
        file = locations.settings(path, is_project=is_project)
        if file is None:
            continue
        if file.findings:
            is_lost_denial = denial_word in file.text or not file.text
            file.findings[:] = [replace(finding, is_lost_denial=is_lost_denial) for finding in file.findings]
        else:
            convert(file)
        yield from _findings_in(file)


_COPY_HINT = "to use it in qcode, copy it to AGENTS.md in the folder that qcode config path names"


def _find_codex(locations: ImportLocations) -> Iterator[FoundSetting]:
    program_folder = locations.user_folder("CODEX_HOME", ".codex")
    for folder, is_project in locations.folders(program_folder, ".codex"):
        file = locations.settings(folder / "config.toml", is_project=is_project)
        if file is not None:
            add_servers(file, "codex", ("mcp_servers",))
            add_other_keys(file, frozenset({"mcp_servers"}), _CODEX_HINTS)
            yield from _findings_in(file)
        hooks = _unconverted(locations, folder, "hooks.json", _CODEX_HINTS["hooks"])
        yield from _found(hooks, is_project=is_project)
        yield from _policies(locations, folder, "rules/*.rules", add_codex_policy, "forbidden", is_project=is_project)
    inside = locations.link_boundary(is_project=False)
    commands = read_commands(program_folder / "prompts", locations.home, inside, ".md", codex_prompt, "prompts:")
    yield from _found(commands, is_project=False)
    yield from _found(_unconverted(locations, program_folder, "AGENTS.md", _COPY_HINT), is_project=False)


def _find_gemini_like(locations: ImportLocations, program: str, instructions_file: str) -> Iterator[FoundSetting]:
    """Yield the findings about Gemini CLI, or about qwen-code, its fork."""
    program_folder = locations.home_folder(f".{program}")
    for folder, is_project in locations.folders(program_folder, f".{program}"):
        file = locations.settings(folder / "settings.json", is_project=is_project)
        if file is not None:
            disabled = file.strings("mcp", "excluded")
            add_servers(file, program, ("mcpServers",), disabled)
            add_gemini_rules(file)
            if program == "qwen":
                add_claude_rules(file, "project")
            handled = {"mcpServers", "excludeTools", "allowedTools", "tools.exclude", "tools.allowed", "mcp.excluded"}
            add_other_keys(file, frozenset({*handled, *(("permissions",) if program == "qwen" else ())}), _GEMINI_HINTS)
            yield from _findings_in(file)
        inside = locations.link_boundary(is_project=is_project)
        for suffix in (".toml", ".md") if program == "qwen" else (".toml",):
            commands = read_commands(folder / "commands", locations.home, inside, suffix, gemini_prompt)
            yield from _found(commands, is_project=is_project)
        agents = read_agents(folder / "agents", locations.home, inside, program)
        yield from _found(agents, is_project=is_project)
        yield from _policies(locations, folder, "policies/*.toml", add_gemini_policy, "deny", is_project=is_project)
    yield from _found(_unconverted(locations, program_folder, instructions_file, _COPY_HINT), is_project=False)


def _find_gemini(locations: ImportLocations) -> Iterator[FoundSetting]:
    return _find_gemini_like(locations, "gemini", "GEMINI.md")


def _find_qwen(locations: ImportLocations) -> Iterator[FoundSetting]:
    return _find_gemini_like(locations, "qwen", "QWEN.md")


def _find_opencode(locations: ImportLocations) -> Iterator[FoundSetting]:
    config = locations.env.get("XDG_CONFIG_HOME", "")
    program_folder = Path(config) / "opencode" if config else locations.home_folder(".config/opencode")
    for folder, is_project in locations.folders(program_folder, ".opencode"):
        roots = [folder, locations.root] if is_project else [folder]
        for path in (root / name for root in roots for name in ("opencode.json", "opencode.jsonc")):
            file = locations.settings(path, is_project=is_project)
            if file is not None:
                add_servers(file, "opencode", ("mcp",))
                add_opencode_rules(file)
                _add_opencode_tables(file)
                add_other_keys(file, frozenset({"mcp", "permission", "tools", "command", "agent"}), _OPENCODE_HINTS)
                yield from _findings_in(file)
        inside = locations.link_boundary(is_project=is_project)
        for name in ("command", "commands"):
            commands = read_commands(folder / name, locations.home, inside, ".md", opencode_prompt)
            yield from _found(commands, is_project=is_project)
        for name in ("agent", "agents"):
            agents = read_agents(folder / name, locations.home, inside, "opencode")
            yield from _found(agents, is_project=is_project)
    yield from _found(_unconverted(locations, program_folder, "AGENTS.md", _COPY_HINT), is_project=False)


def _add_opencode_tables(file: SettingsFile) -> None:
    """Add the commands and agents that are defined in a settings file of OpenCode."""
    for name in file.table("command"):
        values = dict(file.table("command", name))
        text = str(values.get("template") or "")
        file.add(convert_command(name, values, text, file.location("command", name), opencode_prompt))
    for name in file.table("agent"):
        values, location = dict(file.table("agent", name)), file.location("agent", name)
        prompt = str(values.pop("prompt", "") or "")
        if prompt.startswith("{file:"):
            file.add(
                SourceSetting(
                    "agent", name, location, reason="its prompt is in another file; write it as an agent in Markdown"
                )
            )
        else:
            file.add(convert_agent(name, values, prompt, location, "opencode"))


_FINDERS: Mapping[str, Callable[[ImportLocations], Iterator[FoundSetting]]] = {
    "claude": _find_claude,
    "codex": _find_codex,
    "gemini": _find_gemini,
    "qwen": _find_qwen,
    "opencode": _find_opencode,
}
