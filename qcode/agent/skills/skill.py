"""One skill, read leniently from its `SKILL.md`, because many real files violate the format and must still work.

The strict rules of the format are in `strict`, for `qcode skills check`. Formats: https://agentskills.io/specification
and https://code.claude.com/docs/en/skills.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qcode.text.clean import one_line, single_spaced
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.context.front_matter import FrontMatter

FILE_NAMES = ("SKILL.md", "skill.md")
# In characters, from the specification of the format.
MAX_NAME = 64
MAX_DESCRIPTION = 1_024

_HANDLE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_INVALID_CHARS = lazy_pattern(r"[^A-Za-z0-9_-]+")
_STRICT_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
FIELDS: Mapping[str, str] = {
    "name": "the name of the skill, if it has only letters, digits, `-` and `_`; otherwise the folder gives the name",
    "description": "required: tells the model when to load the skill",
    "when_to_use": "tells the model more about when to load the skill, after the description",
    "argument-hint": "a hint for the text after `/name`, shown while you type it",
    "arguments": "names for the words after `/name`: with `arguments: [file]`, `$file` is the first word",
    "disable-model-invocation": "`true` hides the skill from the model, so only you run it",
    "user-invocable": "`false` removes `/name`, so only the model loads the skill",
    "context": "`fork` runs the skill in a sub-agent",
    "agent": "the kind of the sub-agent, with `context: fork`",
    "model": "the PROVIDER/MODEL that answers `/name`, if the skill is in a folder outside the project; with "
    "`context: fork`, `haiku` stands for the `small_model` of your configuration",
    "allowed-tools": "is shown to you, but grants no permission",
    "license": "is shown to you",
    "compatibility": "is shown to you",
    "metadata": "has no effect",
}
"""The supported fields, with their meaning for the reference."""
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Skill:
    """A valid skill, without its text."""

    handle: str
    """The name in the catalog, and after the slash."""
    description: str
    file: Path
    """The `SKILL.md`."""
    folder: Path
    """The folder of the file, with links resolved."""
    folder_label: str
    """The folder of skills that contains the folder of the skill, for display."""
    is_from_project: bool = False
    warnings: tuple[str, ...] = ()
    hint: str = ""
    """A hint about the arguments, shown while the user types them."""
    parameters: tuple[str, ...] = ()
    """The names of the arguments, in order."""
    is_for_model: bool = True
    """The catalog lists the skill, so that the model can load it."""
    is_for_user: bool = True
    """`/name` runs the skill."""
    model: str = ""
    """The model that the file requests, as written."""
    forks: bool = False
    """The file requests that the skill runs in a sub-agent of the kind `agent`."""
    agent: str = ""
    allowed_tools: tuple[str, ...] = ()
    """Shown to the user; grants nothing."""
    license: str = ""
    compatibility: str = ""
    unknown_fields: tuple[str, ...] = ()
    """The fields of the file that qcode does not know (`FIELDS`)."""
    size: int = 0
    """The size of the text in bytes."""
    is_command: bool = False
    """The skill is a command in a Markdown file, which only the user can start."""

    @property
    def tokens(self) -> int:
        """The estimated number of tokens of the text."""
        return self.size // 4


@dataclass(frozen=True, slots=True)
class MarkdownCommands:
    """The commands in Markdown files, each of which runs as a skill."""

    commands: tuple[Skill, ...] = ()
    problems: tuple[str, ...] = ()
    """A line for each file that is not used."""


def skill_file(folder: Path) -> Path | None:
    """Return the `SKILL.md` of a folder, None if it has none."""
    return next((folder / name for name in FILE_NAMES if os.path.lexists(folder / name)), None)


def read_skill(file: Path, label: str, folder_label: str, *, is_from_project: bool) -> Skill:
    """Read a skill; raise `FrontMatterError` if it is invalid. Errors call the file `label`."""
    from qcode.agent.claude.markdown import read_markdown  # not needed for cached skills
    from qcode.agent.context.front_matter import FrontMatterError

    front_matter = read_markdown(file, label)
    description = _description(front_matter)
    warnings: list[str] = []

    def read_or_warn(read: Callable[[], ValueT], default: ValueT) -> ValueT:
        try:
            return read()
        except FrontMatterError as error:
            warnings.append(str(error))
            return default

    name = read_or_warn(lambda: front_matter.text("name"), None)
    handle = _handle(name, file.parent.name)
    if not handle:
        problem = "neither `name` nor the name of the folder can be typed: use letters, digits and -"
        raise front_matter.error("name", problem)
    warnings += _name_warnings(front_matter, name, handle, file.parent.name)
    if len(description) > MAX_DESCRIPTION:
        length = f"{len(description):,} of at most {MAX_DESCRIPTION:,} characters"
        warnings.append(str(front_matter.error("description", f"`description` is too long: {length}")))
    when = read_or_warn(lambda: front_matter.text("when_to_use"), None)
    context = read_or_warn(lambda: front_matter.text("context"), None)
    return Skill(
        handle,
        single_spaced(" ".join(filter(None, (description, when)))),
        file,
        Path(os.path.realpath(file)).parent,
        folder_label,
        is_from_project,
        hint=front_matter.source("argument-hint") or "",
        parameters=read_or_warn(lambda: front_matter.names("arguments") or (), ()),
        is_for_model=not read_or_warn(lambda: front_matter.switch("disable-model-invocation", default=False), False),
        is_for_user=read_or_warn(lambda: front_matter.switch("user-invocable", default=True), True),
        model=read_or_warn(lambda: front_matter.text("model"), None) or "",
        forks=context == "fork",
        agent=read_or_warn(lambda: front_matter.text("agent"), None) or "",
        allowed_tools=read_or_warn(lambda: front_matter.names("allowed-tools") or (), ()),
        license=front_matter.source("license") or "",
        compatibility=front_matter.source("compatibility") or "",
        unknown_fields=tuple(one_line(field, MAX_NAME) for field in front_matter.fields if field not in FIELDS),
        size=len(front_matter.body.encode("utf-8", "replace")),
        warnings=tuple(warnings),
    )


def _description(front_matter: FrontMatter) -> str:
    if not front_matter.is_present:
        raise front_matter.error("", "no front matter: the file must begin with a --- line")
    description = front_matter.text("description")
    if description is None:
        raise front_matter.error(
            "description", "`description` is missing or empty; say what the skill does and when to use it"
        )
    return description


def _handle(name: str | None, folder: str) -> str:
    """Return the handle of a skill: its `name` if that is valid, otherwise the name of its folder.

    Invalid characters in the name of the folder become `-`. The handle is empty if no valid character remains.
    """
    if name is not None and _HANDLE.fullmatch(name):
        return name
    handle = _INVALID_CHARS.sub("-", folder).strip("-_")[:MAX_NAME]
    return handle if _HANDLE.fullmatch(handle) else ""


def _name_warnings(front_matter: FrontMatter, name: str | None, handle: str, folder: str) -> list[str]:
    """Return a warning if the name is missing or breaks the rules of the format, otherwise an empty list."""
    if name is None:
        # A name that is present but cannot be read already has a warning.
        is_present = "name" in front_matter.fields and bool(front_matter.fields["name"].source)
        warning = "" if is_present else f"`name` is missing; used: {handle}"
    elif _STRICT_NAME.fullmatch(name) is None or len(name) > MAX_NAME:
        allowed = f"at most {MAX_NAME} lower-case letters, digits and single hyphens"
        used = "" if handle == name else f"; used: {handle}"
        warning = f'`name` "{name}" should be {allowed}{used}'
    else:
        warning = "" if name == folder else f'`name` "{name}" differs from the folder "{folder}"'
    return [str(front_matter.error("name", warning))] if warning else []
