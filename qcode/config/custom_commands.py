"""A person's own commands: files that hold a prompt, read into values. A file that cannot be used is a line of text.

`commands/review.toml` is `/review`, `commands/git/commit.toml` is `/git:commit`. A project's are read only where the
caller says that its folder is trusted. Nothing here runs anything or knows the commands of the app.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from qcode.config.errors import ConfigError
from qcode.config.paths import PROJECT_FOLDER
from qcode.protocol.values import dataclass

FOLDER = "commands"
ARGS = "{{args}}"

_KEYS = ("description", "prompt", "argument", "model", "output")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TYPED = re.compile(r"/([A-Za-z][\w:-]*)(?:\s+(.*))?", re.DOTALL)
_MOST = 500
_DEEPEST = 4
_LONGEST_HINT = 40

_Fail: TypeAlias = "Callable[[tuple[str, ...], str], ConfigError]"


@dataclass(frozen=True, slots=True)
class CustomCommand:
    """A command from a file. `output` holds keys of `[output]` with the values they have for its turn only."""

    name: str
    prompt: str
    file: Path
    description: str = ""
    argument: str = ""
    model: str = ""
    output: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    is_from_project: bool = False

    def expand(self, arguments: str) -> str:
        """Return the prompt for these arguments: in the place of each `{{args}}`, or below it where it has none."""
        arguments = arguments.strip()
        if ARGS in self.prompt:
            return self.prompt.replace(ARGS, arguments)
        return f"{self.prompt.rstrip()}\n\n{arguments}" if arguments else self.prompt


@dataclass(frozen=True, slots=True)
class CustomCommands:
    """What was found. `problems` are lines for a person, each naming its file."""

    commands: tuple[CustomCommand, ...] = ()
    problems: tuple[str, ...] = ()

    def typed(self, text: str) -> tuple[CustomCommand, str] | None:
        """Return the command that `text` invokes and its arguments, None where it invokes none."""
        match = _TYPED.fullmatch(text.strip())
        if match is None:
            return None
        command = next((one for one in self.commands if one.name == match[1]), None)
        return None if command is None else (command, match[2] or "")


def load_custom_commands(
    config_dir: Path, project_root: Path, *, is_trusted: bool, taken: Sequence[str] = ()
) -> CustomCommands:
    """Read the commands of the person and, in a trusted folder, of the project.

    Where two have one name the person's own wins over the project's, and a name in `taken` (a command of the app)
    over both; each that loses is a problem.
    """
    found: dict[str, CustomCommand] = {}
    problems: list[str] = []
    folders = [(config_dir / FOLDER, False)]
    project = project_root / PROJECT_FOLDER / FOLDER
    if is_trusted and not is_same_folder(project, folders[0][0]):
        folders.append((project, True))
    for folder, is_project in folders:
        for name, file in named_files(folder, problems, inside=project_root if is_project else None):
            if name in taken or name in found:
                owner = "a command of qcode" if name in taken else f"your own {found[name].file}"
                problems.append(f"{file}: /{name} is not used, {owner} has this name; rename the file")
                continue
            try:
                found[name] = _read(name, file, is_project=is_project)
            except ConfigError as error:
                problems.append(str(error))
    return CustomCommands(tuple(sorted(found.values(), key=lambda one: one.name)), tuple(problems))


def named_files(folder: Path, problems: list[str], *, inside: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield name and file of each definition below `folder`, in order; `inside` is what links may not leave."""
    pending: list[tuple[tuple[str, ...], Path]] = [((), folder)]
    count = 0
    while pending:
        prefix, current = pending.pop()
        for entry in _entries(current):
            path = Path(entry.path)
            stem = path.stem if entry.name.endswith(".toml") else entry.name
            is_folder = _is_folder(entry)
            if entry.name.startswith(".") or not (is_folder or entry.name.endswith(".toml")):
                continue
            if inside is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside)):
                problems.append(f"{path}: is not used, for it leads outside the project")
            elif not _NAME.fullmatch(entry.name if is_folder else stem):
                problems.append(f"{path}: is not used: a name has letters, digits, - and _, a letter first")
            elif is_folder:
                if len(prefix) < _DEEPEST:
                    pending.append(((*prefix, entry.name), path))
            else:
                count += 1
                if count > _MOST:
                    problems.append(f"{folder}: holds more than {_MOST} files; the rest is not read")
                    return
                yield ":".join((*prefix, stem)), path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle, too long, or to a place that may not be looked into
        return False


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _read(name: str, file: Path, *, is_project: bool) -> CustomCommand:
    from qcode.config.layers import checked, parse_toml, read_toml_text
    from qcode.config.lines import find_lines
    from qcode.config.schema import find_key

    text = read_toml_text(file, is_needed=True) or ""
    table = parse_toml(text, file)
    lines: Mapping[tuple[str, ...], int] = find_lines(text)

    def fail(path: tuple[str, ...], message: str) -> ConfigError:
        return ConfigError(message, file=file, line=lines.get(path, lines.get(path[:1], 1)))

    for key in table:
        if key not in _KEYS:
            raise fail((key,), f"unknown key {key}; the nearest is {nearest_name(key, _KEYS)}")
    output = table.get("output", {})
    if not isinstance(output, dict):
        raise fail(("output",), "output must be a table of the keys of [output]")
    given: dict[str, object] = {}
    for key, value in output.items():
        known = find_key(("output", key))
        if known is None:
            raise fail(
                ("output", key), f"unknown key output.{key}; the nearest is output.{nearest_name(key, _outputs())}"
            )
        try:
            given[key] = checked(known, ("output", key), value)
        except ConfigError as error:
            raise fail(("output", key), str(error)) from None
    texts = {key: _text(table, key, fail) for key in ("description", "argument", "model")}
    if len(texts["argument"]) > _LONGEST_HINT:
        raise fail(("argument",), f"argument must be a hint of at most {_LONGEST_HINT} characters, such as [path]")
    prompt = table.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise fail(("prompt",), "prompt must be text: what is sent when the command is typed")
    return CustomCommand(
        name, prompt.strip("\n"), file, **texts, output=MappingProxyType(given), is_from_project=is_project
    )


def _text(table: Mapping[str, object], key: str, fail: _Fail) -> str:
    value = table.get(key, "")
    if not isinstance(value, str) or (key in table and not value.strip()) or not value.isprintable():
        raise fail((key,), f"{key} must be one line of text")
    return value.strip()


def _outputs() -> tuple[str, ...]:
    from qcode.config.schema import KEYS

    return tuple(key.path[1] for key in KEYS if key.path[0] == "output")


def nearest_name(name: str, names: Sequence[str]) -> str:
    """Return which of `names` is most like `name`."""
    from difflib import SequenceMatcher

    return max(names, key=lambda one: SequenceMatcher(None, name, one).ratio())


def is_same_folder(left: Path, right: Path) -> bool:
    """Return whether both are one folder that is there."""
    try:
        return left.samefile(right)
    except OSError:
        return False
