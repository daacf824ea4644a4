"""The files in which Claude Code, Codex, Gemini CLI, qwen-code and OpenCode keep their configuration.

A project's files are read only if the caller says that its folder is trusted. Forms: code.claude.com/docs/en/settings,
developers.openai.com/codex/config-reference, gemini-cli `docs/reference/configuration.md`,
qwen-code `docs/users/configuration/settings.md`, opencode.ai/docs/config.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from qcode.agent.imports.configuration.found import ForeignSetting, SettingsFile, read_settings, shown_path
from qcode.agent.imports.configuration.policies import codex_policy, gemini_policy
from qcode.agent.imports.configuration.prompts import (
    agent_found,
    agents_in,
    codex_prompt,
    command_found,
    commands_in,
    gemini_prompt,
    opencode_prompt,
)
from qcode.agent.imports.configuration.rules import claude_rules, gemini_rules, listed, opencode_rules
from qcode.agent.imports.configuration.servers import add_servers
from qcode.config.paths import MCP_FILE, may_exist
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

_MODEL = "set `model` in config.toml; qcode help model"
_READ = "read as it is"
_MAX_FILES = 100
_CLAUDE_HINTS = {
    "env": "qcode sets no variables; export them in your shell",
    "model": _MODEL,
    "apiKeyHelper": "set providers.NAME.api_key_env, or run qcode auth login",
}
_GEMINI_HINTS = {"model": _MODEL, "hooks": "hooks of another form do not run in qcode; qcode help hooks"}
_CODEX_HINTS = {
    "model": _MODEL,
    "model_provider": _MODEL,
    "model_providers": "set providers.NAME in config.toml",
    "model_reasoning_effort": "use --reasoning-effort",
    "approval_policy": "set permissions.mode",
    "sandbox_mode": "set permissions.mode and tools.sandbox",
    "hooks": "hooks of another form do not run in qcode; qcode help hooks",
    "projects": "trust is not taken over: qcode asks once for each folder",
}
_OPENCODE_HINTS = {
    "model": _MODEL,
    "small_model": "set `small_model` in config.toml",
    "provider": "set providers.NAME in config.toml",
    "instructions": "name the files in AGENTS.md, as @path",
    "plugin": "plugins of OpenCode do not run in qcode",
}


@dataclass(frozen=True, slots=True)
class ImportFolders:
    """The environment, and the project at `root`, whose files are read only if `reads_project`."""

    env: Mapping[str, str]
    root: Path
    reads_project: bool

    @property
    def home(self) -> str:
        return self.env.get("HOME", "")

    def own(self, variable: str, usual: str) -> Path:
        """Return the folder of a program: the value of its variable, otherwise `usual` in the home folder."""
        value = self.env.get(variable, "")
        return Path(value) if value else Path(self.home or "/nonexistent") / usual

    def folders(self, program_folder: Path, name: str) -> Iterator[tuple[Path, bool]]:
        """Yield the folders of a program, the user's first, and whether each belongs to the project."""
        yield program_folder, False
        if self.reads_project and (self.root / name).resolve() != program_folder.resolve():
            yield self.root / name, True

    def inside(self, *, is_project: bool) -> Path | None:
        return self.root if is_project else None

    def settings(self, path: Path, *, is_project: bool) -> SettingsFile | None:
        return read_settings(path, self.home, is_project=is_project)


def find(program: str, places: ImportFolders) -> Iterator[tuple[ForeignSetting, bool]]:
    """Yield what a program has, each with whether it belongs to the project."""
    return _FINDERS[program](places)


def _entries_of(file: SettingsFile) -> Iterator[tuple[ForeignSetting, bool]]:
    return ((found, file.is_project) for found in file.settings)


def _claude(places: ImportFolders) -> Iterator[tuple[ForeignSetting, bool]]:
    program_folder = places.own("CLAUDE_CONFIG_DIR", ".claude")
    for folder, is_project in places.folders(program_folder, ".claude"):
        for name in ("settings.json", "settings.local.json"):
            file = places.settings(folder / name, is_project=is_project)
            if file is not None:
                claude_rules(file, "project" if is_project else "user")
                whose = "project" if is_project else "own"
                hints = {**_CLAUDE_HINTS, "hooks": f'they run with hooks.claude = "{whose}" in your config.toml'}
                listed(file, frozenset({"permissions"}), hints)
                yield from _entries_of(file)
        names = ("commands", "agents", "skills", "rules", "CLAUDE.md")
        yield from ((found, is_project) for found in _read(places, folder, names))
    state = (
        program_folder.parent / ".claude.json" if program_folder.name == ".claude" else program_folder / ".claude.json"
    )
    file = places.settings(state, is_project=False)
    if file is not None:
        add_servers(file, "claude", ("mcpServers",))
        _claude_projects(file, places.root)
        yield from _entries_of(file)
    if places.reads_project:
        yield from ((found, True) for found in _read(places, places.root, (MCP_FILE, "CLAUDE.md", "CLAUDE.local.md")))


def _claude_projects(file: SettingsFile, root: Path) -> None:
    """Add the servers that the user has for this project only; those of other projects are named."""
    for name in file.table("projects"):
        if not file.table("projects", name, "mcpServers"):
            continue
        if name == str(root):
            add_servers(file, "claude", ("projects", name, "mcpServers"))
        else:
            why = "servers of another project; run qcode import in its folder"
            file.add(ForeignSetting("setting", single_spaced(name, 200), file.location("projects", name), why=why))


def _read(places: ImportFolders, folder: Path, names: tuple[str, ...]) -> Iterator[ForeignSetting]:
    """Yield the files and folders that qcode reads without an import."""
    for name in names:
        if may_exist(folder / name):
            yield ForeignSetting("file", name, shown_path(folder / name, places.home), why=_READ, is_read=True)


def _unread(places: ImportFolders, folder: Path, name: str, why: str) -> Iterator[ForeignSetting]:
    """Yield a file that is not converted, if it exists."""
    if may_exist(folder / name):
        yield ForeignSetting("file", name, shown_path(folder / name, places.home), why=why)


def _policies(
    places: ImportFolders,
    folder: Path,
    pattern: str,
    convert: Callable[[SettingsFile], None],
    denies: str,
    *,
    is_project: bool,
) -> Iterator[tuple[ForeignSetting, bool]]:
    """Yield the rules in the files that match; one that cannot be read and has the word `denies` may lose a denial."""
    for number, path in enumerate(sorted(folder.glob(pattern))):
        label = shown_path(path, places.home)
        if number == _MAX_FILES:
            why = f"more than {_MAX_FILES} files; this and the following ones are not read"
            yield ForeignSetting("file", path.name, label, why=why, is_unenforced=True), is_project
            return
        file = places.settings(path, is_project=is_project)
        if file is None:
            continue
        if file.settings:
            is_lost = denies in file.text or not file.text
            file.settings[:] = [replace(problem, is_unenforced=is_lost) for problem in file.settings]
        else:
            convert(file)
        yield from _entries_of(file)


_COPY = "copy it to AGENTS.md in the folder that qcode config path names, if it is to apply here"


def _codex(places: ImportFolders) -> Iterator[tuple[ForeignSetting, bool]]:
    program_folder = places.own("CODEX_HOME", ".codex")
    for folder, is_project in places.folders(program_folder, ".codex"):
        file = places.settings(folder / "config.toml", is_project=is_project)
        if file is not None:
            add_servers(file, "codex", ("mcp_servers",))
            listed(file, frozenset({"mcp_servers"}), _CODEX_HINTS)
            yield from _entries_of(file)
        for item in _unread(places, folder, "hooks.json", _CODEX_HINTS["hooks"]):
            yield item, is_project
        yield from _policies(places, folder, "rules/*.rules", codex_policy, "forbidden", is_project=is_project)
    inside = places.inside(is_project=False)
    found = commands_in(program_folder / "prompts", places.home, inside, ".md", codex_prompt, "prompts:")
    yield from ((item, False) for item in found)
    yield from ((item, False) for item in _unread(places, program_folder, "AGENTS.md", _COPY))


def _gemini_like(places: ImportFolders, program: str, memory: str) -> Iterator[tuple[ForeignSetting, bool]]:
    program_folder = places.own("", f".{program}")
    for folder, is_project in places.folders(program_folder, f".{program}"):
        file = places.settings(folder / "settings.json", is_project=is_project)
        if file is not None:
            off = file.texts("mcp", "excluded")
            add_servers(file, program, ("mcpServers",), off)
            gemini_rules(file)
            if program == "qwen":
                claude_rules(file, "project")
            handled = {"mcpServers", "excludeTools", "allowedTools", "tools.exclude", "tools.allowed", "mcp.excluded"}
            listed(file, frozenset({*handled, *(("permissions",) if program == "qwen" else ())}), _GEMINI_HINTS)
            yield from _entries_of(file)
        inside = places.inside(is_project=is_project)
        for suffix in (".toml", ".md") if program == "qwen" else (".toml",):
            commands = commands_in(folder / "commands", places.home, inside, suffix, gemini_prompt)
            yield from ((found, is_project) for found in commands)
        yield from ((item, is_project) for item in agents_in(folder / "agents", places.home, inside, program))
        yield from _policies(places, folder, "policies/*.toml", gemini_policy, "deny", is_project=is_project)
    yield from ((found, False) for found in _unread(places, program_folder, memory, _COPY))


def _gemini(places: ImportFolders) -> Iterator[tuple[ForeignSetting, bool]]:
    return _gemini_like(places, "gemini", "GEMINI.md")


def _qwen(places: ImportFolders) -> Iterator[tuple[ForeignSetting, bool]]:
    return _gemini_like(places, "qwen", "QWEN.md")


def _opencode(places: ImportFolders) -> Iterator[tuple[ForeignSetting, bool]]:
    config = places.env.get("XDG_CONFIG_HOME", "")
    program_folder = Path(config) / "opencode" if config else places.own("", ".config/opencode")
    for folder, is_project in places.folders(program_folder, ".opencode"):
        roots = [folder, places.root] if is_project else [folder]
        for path in (root / name for root in roots for name in ("opencode.json", "opencode.jsonc")):
            file = places.settings(path, is_project=is_project)
            if file is not None:
                add_servers(file, "opencode", ("mcp",))
                opencode_rules(file)
                _opencode_tables(file)
                listed(file, frozenset({"mcp", "permission", "command", "agent"}), _OPENCODE_HINTS)
                yield from _entries_of(file)
        inside = places.inside(is_project=is_project)
        for name in ("command", "commands"):
            commands = commands_in(folder / name, places.home, inside, ".md", opencode_prompt)
            yield from ((found, is_project) for found in commands)
        for name in ("agent", "agents"):
            agents = agents_in(folder / name, places.home, inside, "opencode")
            yield from ((found, is_project) for found in agents)
    yield from ((found, False) for found in _unread(places, program_folder, "AGENTS.md", _COPY))


def _opencode_tables(file: SettingsFile) -> None:
    """Add the commands and agents that a file of OpenCode defines itself."""
    for name in file.table("command"):
        values = dict(file.table("command", name))
        text = str(values.get("template") or "")
        file.add(command_found(name, values, text, file.location("command", name), opencode_prompt))
    for name in file.table("agent"):
        values, location = dict(file.table("agent", name)), file.location("agent", name)
        prompt = str(values.pop("prompt", "") or "")
        if prompt.startswith("{file:"):
            file.add(
                ForeignSetting(
                    "agent", name, location, why="its prompt is in another file; write it as an agent in Markdown"
                )
            )
        else:
            file.add(agent_found(name, values, prompt, location, "opencode"))


_FINDERS: Mapping[str, Callable[[ImportFolders], Iterator[tuple[ForeignSetting, bool]]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "opencode": _opencode,
}
