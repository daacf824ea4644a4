"""Commands in Markdown files, of qcode and of Claude Code: the user starts `commands/git/commit.md` as `/git:commit`.

A command runs as a skill that only the user starts, with the same placeholders. Front matter is optional. Format:
https://code.claude.com/docs/en/slash-commands. A separate module because few runs have such files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from qcode.agent.claude.markdown import markdown_files, read_markdown
from qcode.agent.context.front_matter import FrontMatterError
from qcode.agent.skills.skill import MarkdownCommands, Skill
from qcode.config.paths import DefinitionFolder, with_tilde
from qcode.text.clean import single_spaced

_MAX_DESCRIPTION_CHARS = 200
FIELDS: Mapping[str, str] = {
    "description": "the line that the menu and `/help` show; default: the first line of the text",
    "argument-hint": "a hint for the text after the name, shown while you type it",
    "arguments": "names for the words after the command: with `arguments: [file]`, `$file` is the first word",
    "model": "the PROVIDER/MODEL that answers this command; has an effect in your own folders only",
    "allowed-tools": "has no effect: a command grants no permission",
    "disable-model-invocation": "has no effect: the model never starts a command",
}
"""The known fields, with their meaning for the reference."""
ValueT = TypeVar("ValueT")


def find_commands(folders: Iterable[DefinitionFolder], used_names: Collection[str]) -> MarkdownCommands:
    """Return the commands in these folders. If several files have the same name, only the first is used.

    `used_names` are the names of skills, in lower case.
    """
    commands: dict[str, Skill] = {}
    problems: list[str] = []
    for folder in folders:
        for name, file in markdown_files(folder, problems):
            lower = name.lower()
            if lower in used_names or lower in commands:
                owner = "a skill" if lower in used_names else with_tilde(str(commands[lower].file))
                problems.append(f"{file}: /{name} is ignored, {owner} already has this name; rename the file")
                continue
            try:
                commands[lower] = _read_command(name, file, folder)
            except FrontMatterError as problem:
                problems.append(str(problem))
    return MarkdownCommands(tuple(commands.values()), tuple(map(with_tilde, problems)))


def _read_command(name: str, file: Path, folder: DefinitionFolder) -> Skill:
    front_matter = read_markdown(file)
    body = front_matter.body.strip()
    if not body:
        raise FrontMatterError(f"{file}:{front_matter.body_line}: the command has no prompt")
    warnings: list[str] = []

    def read_or_warn(read: Callable[[], ValueT], default: ValueT) -> ValueT:
        try:
            return read()
        except FrontMatterError as problem:
            warnings.append(str(problem))
            return default

    description = read_or_warn(lambda: front_matter.text("description"), None)
    if description is None:
        description = body.split("\n", 1)[0].lstrip("# ")
    return Skill(
        name,
        single_spaced(description, _MAX_DESCRIPTION_CHARS),
        file,
        folder=Path(os.path.realpath(file)).parent,
        folder_label="this project" if folder.project is not None else "yours",
        is_from_project=folder.project is not None,
        hint=front_matter.source("argument-hint") or "",
        parameters=read_or_warn(lambda: front_matter.names("arguments") or (), ()),
        is_for_model=False,
        model=read_or_warn(lambda: front_matter.text("model") or "", ""),
        unknown_fields=tuple(field for field in front_matter.fields if field not in FIELDS),
        size=len(body.encode("utf-8", "replace")),
        warnings=tuple(warnings),
        is_command=True,
    )
