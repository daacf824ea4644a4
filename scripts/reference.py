"""Fill the generated parts of the reference pages from the tables of the program.

`python -m scripts.reference` rewrites every part between `<!-- begin NAME -->` and `<!-- end NAME -->`. It also writes
the JSON Schemas of the configuration and of the output. A test in `tests/docs` checks that all are up to date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from qcode.agent.claude import agents
from qcode.agent.claude import commands as claude_commands
from qcode.agent.skills import skill
from qcode.cli.flags import SECTIONS
from qcode.config.definitions import AGENT_FIELDS, COMMAND_FIELDS
from qcode.config.json_schema import schema_text
from qcode.config.schema import KEYS, Key
from qcode.providers.registry import PROVIDERS
from qcode.tui import theme
from qcode.tui.commands.command import key_names
from qcode.tui.commands.help import PROMPT_KEYS
from qcode.tui.commands.table import COMMANDS
from qcode.tui.prompt.editing import EDITING_KEYS
from qcode.tui.prompt.vim.grammar import VIM_KEYS
from scripts import api_reference
from scripts.output_schema import schemas

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = ("guide/providers.md", "guide/agents.md", "guide/themes.md", "how-to/slash-commands.md", "how-to/skills.md")
PAGES = tuple(DOCS / name for name in ("command-line.md", "configuration.md", "keys.md", "python-api.md", *GUIDES))
SCHEMA = DOCS / "config.schema.json"
SCHEMAS = DOCS / "schemas"
CONFIG_TABLES = tuple(dict.fromkeys(key.path[0] for key in KEYS if len(key.path) > 1))
_NAMES = re.compile(r"\[[a-z]+\]|<[a-z]+>|[A-Z]+(?:_[A-Z]+)+|\b[a-z]+\.[a-z_]+\b")
"""Names of tables, tags, variables and keys in an explanation. The page shows them as code."""
_PART = re.compile(r"(<!-- begin ([\w-]+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)


def flags() -> str:
    """Return a table of flags for each section of `--help`. The last column is the config key that a flag sets."""
    keys = {key.meta.flag: key.name for key in KEYS if key.meta.flag}
    parts = []
    for title, section in SECTIONS.items():
        rows = []
        for flag in section:
            key = next((keys[name] for name in flag.names if name in keys), "")
            mark = "; pipe mode only" if flag.is_for_pipe else ""
            rows.append((f"`{flag.typed}`", flag.meaning.replace("\n", " ") + mark, _code([key] if key else [])))
        parts.append(f"### {title}\n\n{_table(('flag', 'effect', 'config key'), rows)}\n")
    return "".join(parts)


def commands() -> str:
    """Return the table of slash commands."""
    rows = [
        (
            _code(f"/{name}" for name in command.names),
            f"`{command.argument}`" if command.argument else "-",
            command.help,
        )
        for command in COMMANDS
        if command.names
    ]
    return _table(("command", "argument", "effect"), rows)


def keys() -> str:
    """Return the table of keys that can be changed."""
    rows = [(key_names(command.keys), f"`{command.id}`", command.help) for command in COMMANDS if command.keys]
    return _table(("key", "id", "effect"), rows)


def prompt_keys() -> str:
    """Return the table of keys with a fixed meaning in the prompt."""
    return _table(("key", "effect"), PROMPT_KEYS)


def editing_keys() -> str:
    """Return the table of keys that edit the prompt."""
    return _table(("key", "effect"), [(key_names(names.split(",")), meaning) for names, _, meaning in EDITING_KEYS])


def vim_keys() -> str:
    """Return the table of the keys of vim mode."""
    return _table(
        ("keys", "effect"),
        [(f"`` {names} ``" if "`" in names else f"`{names}`", meaning) for names, meaning in VIM_KEYS],
    )


def providers() -> str:
    """Return the table of known providers with their addresses and variables."""
    rows = []
    for spec in PROVIDERS.values():
        if spec.protocol == "demo":
            continue
        address = f"`{spec.base_url}`" if spec.base_url else "of the project" if spec.is_vertex else "-"
        if spec.base_url_variables:
            address += f" · {_code(spec.base_url_variables)}"
        chain = "the AWS chain, " if spec.protocol == "bedrock" else "Google credentials, " if spec.is_vertex else ""
        optional = "" if spec.needs_key or chain else " (optional)"
        rows.append((f"`{spec.name}/…`", spec.protocol, address, f"{chain}{_code(spec.key_variables)}{optional}"))
    return _table(("name", "protocol", "address · variable that replaces it", "key"), rows)


def settings(*tables: str) -> str:
    """Return the table of config keys under `tables`, by default of the keys outside any table."""
    keys = [key for key in KEYS if (key.path[0] in tables if tables else len(key.path) == 1)]
    rows = [(f"`{key.name}`", _values(key), _default(key), _meaning(key)) for key in keys]
    return _table(("key", "value", "default", "meaning"), rows)


def fields(*tables: Mapping[str, str]) -> str:
    """Return the table of the fields of a file."""
    return _table(("field", "effect"), [(f"`{name}`", use) for table in tables for name, use in table.items()])


def _values(key: Key) -> str:
    if key.choices:
        return ", ".join(f'`"{choice}"`' for choice in key.choices)
    return re.sub(r"^(?:an?|the) |: .*| \(.*", "", key.kind.expected)


def _default(key: Key) -> str:
    value = key.default
    if key.name == "providers.NAME.type":
        return "by name"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[]`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value:g}`"


def _meaning(key: Key) -> str:
    flag = f"; `{key.meta.flag}`" if key.meta.flag else ""
    # The page explains once for the whole table that a project file cannot set providers.
    is_refused = not key.meta.is_project_allowed and key.path[0] != "providers"
    meaning = _NAMES.sub(r"`\g<0>`", key.meta.meaning)
    return f"{meaning}{flag}{'; not in a project file' if is_refused else ''}"


PARTS: Mapping[str, Callable[[], str]] = {
    "flags": flags,
    "commands": commands,
    "keys": keys,
    "prompt-keys": prompt_keys,
    "editing-keys": editing_keys,
    "vim-keys": vim_keys,
    "providers": providers,
    "agent-fields": partial(fields, AGENT_FIELDS),
    "agent-front-matter": partial(fields, agents.FIELDS),
    "command-fields": partial(fields, COMMAND_FIELDS),
    "command-front-matter": partial(fields, claude_commands.FIELDS),
    "skill-front-matter": partial(fields, skill.FIELDS),
    "theme-keys": partial(fields, theme.KEYS),
    "theme-colors": partial(fields, theme.COLORS, theme.OPTIONAL_COLORS),
    "config-model": settings,
    **{f"config-{name}": partial(settings, name) for name in CONFIG_TABLES},
    **{name: partial(api_reference.part, name) for name in api_reference.GROUPS},
}


def rendered(text: str) -> str:
    """Return a page with its generated parts up to date; raise `KeyError` for a part that does not exist."""
    return _PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}{match[3]}", text)


def parts_of(text: str) -> list[str]:
    """Return the names of the generated parts of a page."""
    return [found[1] for found in _PART.findall(text)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def main() -> None:
    for page in PAGES:
        page.write_text(rendered(page.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    for name, content in schemas().items():
        (SCHEMAS / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
