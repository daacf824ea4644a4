"""One skill, read leniently from its `SKILL.md`: many real files break the format, and must still work.

The strict rules of the format are in `strict`, for `qcode skills check`. Formats: https://agentskills.io/specification
and https://code.claude.com/docs/en/skills.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qcode.text.clean import one_line, single_spaced
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.context.front_matter import FrontMatter

FILE_NAMES = ("SKILL.md", "skill.md")
MAX_FILE_BYTES = 256 * 1024
MAX_NAME = 64
MAX_DESCRIPTION = 1_024

_HANDLE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_UNFIT = lazy_pattern(r"[^A-Za-z0-9_-]+")
_STRICT_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
FIELDS: Mapping[str, str] = {
    "name": "the name, if it has letters, digits, `-` and `_`; otherwise the name of the folder",
    "description": "required: in the list that the model sees",
    "when_to_use": "in that list, behind the description",
    "argument-hint": "shown while you type the arguments",
    "arguments": "names for the words after `/name`",
    "disable-model-invocation": "`true`: not in the list, only you run it",
    "user-invocable": "`false`: no `/name`, only the model loads it",
    "context": "`fork`: it runs in a sub-agent",
    "agent": "the kind of that sub-agent",
    "model": "in your own folders: PROVIDER/MODEL for `/name`; `haiku` is the small model of a sub-agent",
    "allowed-tools": "shown, grants nothing",
    "license": "shown",
    "compatibility": "shown",
    "metadata": "read, without effect",
}
"""The known fields, with their meaning for the reference."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that can be used. `handle` is its name in the catalog and after the slash.

    `file` is its `SKILL.md` and `folder` its real folder; `folder_label` is the displayed name of the skill folder.
    `hint` describes its arguments, `parameters` names them. `is_for_model`: it is in the catalog; `is_for_user`:
    `/name` runs it. `forks`: it runs as a sub-agent of the kind `agent`. `unknown_fields` are fields without an effect.
    `is_command`: it is a command in Markdown, one file with a prompt, which only the user starts.
    """

    handle: str
    description: str
    file: Path
    folder: Path
    folder_label: str
    is_from_project: bool = False
    warnings: tuple[str, ...] = ()
    hint: str = ""
    parameters: tuple[str, ...] = ()
    is_for_model: bool = True
    is_for_user: bool = True
    model: str = ""
    forks: bool = False
    agent: str = ""
    allowed_tools: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
    unknown_fields: tuple[str, ...] = ()
    size: int = 0
    is_command: bool = False

    @property
    def tokens(self) -> int:
        """An estimate of the tokens of its text."""
        return self.size // 4


def skill_file(folder: Path) -> Path | None:
    """Return the `SKILL.md` of a folder, None if it has none."""
    return next((folder / name for name in FILE_NAMES if os.path.lexists(folder / name)), None)


def read_skill_file(file: Path, label: str) -> FrontMatter:
    """Read a `SKILL.md`; raise `FrontMatterError`. Never blocks on a special file."""
    from qcode.agent.context.front_matter import FrontMatterError, read_front_matter  # not needed for cached skills

    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FrontMatterError(one_line(f"{label}:1: not a regular file"))
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise FrontMatterError(one_line(f"{label}:1: cannot read the file: {error.strerror}")) from None
    if len(data) > MAX_FILE_BYTES:
        raise FrontMatterError(one_line(f"{label}:1: the file is larger than {MAX_FILE_BYTES // 1024} KiB"))
    return read_front_matter(data, label)


def read_skill(file: Path, label: str, place_label: str, *, is_from_project: bool) -> Skill:
    """Read a skill for use; raise `FrontMatterError` if it has no description or cannot be read."""
    from qcode.agent.context.front_matter import FrontMatterError

    matter = read_skill_file(file, label)
    description = _description(matter)
    warnings: list[str] = []

    def lenient(read: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return read()
        except FrontMatterError as problem:
            warnings.append(str(problem))
            return otherwise

    name = lenient(lambda: matter.text("name"), None)
    handle = _handle(name, file.parent.name)
    if not handle:
        raise matter.error("name", "neither `name` nor the name of the folder can be typed: use letters, digits and -")
    warnings += _name_warnings(matter, name, handle, file.parent.name)
    if len(description) > MAX_DESCRIPTION:
        length = f"{len(description):,} of at most {MAX_DESCRIPTION:,} characters"
        warnings.append(str(matter.error("description", f"`description` is too long: {length}")))
    when = lenient(lambda: matter.text("when_to_use"), None)
    context = lenient(lambda: matter.text("context"), None)
    tools = lenient(lambda: matter.names("allowed-tools"), None)
    parameters = lenient(lambda: matter.names("arguments"), None)
    return Skill(
        handle,
        single_spaced(" ".join(filter(None, (description, when)))),
        file,
        Path(os.path.realpath(file)).parent,
        place_label,
        is_from_project,
        hint=matter.source("argument-hint") or "",
        parameters=parameters or (),
        is_for_model=not lenient(lambda: matter.switch("disable-model-invocation", default=False), False),
        is_for_user=lenient(lambda: matter.switch("user-invocable", default=True), True),
        model=lenient(lambda: matter.text("model"), None) or "",
        forks=context == "fork",
        agent=lenient(lambda: matter.text("agent"), None) or "",
        allowed_tools=tools or (),
        license=matter.source("license") or "",
        compatibility=matter.source("compatibility") or "",
        unknown_fields=tuple(one_line(field, MAX_NAME) for field in matter.fields if field not in FIELDS),
        size=len(matter.body.encode("utf-8", "replace")),
        warnings=tuple(warnings),
    )


def _description(matter: FrontMatter) -> str:
    if not matter.is_present:
        raise matter.error("", "no front matter: the file must begin with a --- line")
    description = matter.text("description")
    if description is None:
        raise matter.error(
            "description", "`description` is missing or empty; say what the skill does and when to use it"
        )
    return description


def _handle(name: str | None, folder: str) -> str:
    """Return the handle of a skill: its `name` if it can be typed, otherwise the name of its folder."""
    if name is not None and _HANDLE.fullmatch(name):
        return name
    fitting = _UNFIT.sub("-", folder).strip("-_")[:MAX_NAME]
    return fitting if _HANDLE.fullmatch(fitting) else ""


def _name_warnings(matter: FrontMatter, name: str | None, handle: str, folder: str) -> list[str]:
    """Return a warning if the name breaks the rules of the format, otherwise an empty list."""
    if name is None:
        warning = (
            "" if "name" in matter.fields and matter.fields["name"].source else f"`name` is missing; used: {handle}"
        )
    elif _STRICT_NAME.fullmatch(name) is None or len(name) > MAX_NAME:
        allowed = f"at most {MAX_NAME} lower-case letters, digits and single hyphens"
        used = "" if handle == name else f"; used: {handle}"
        warning = f'`name` "{name}" should be {allowed}{used}'
    else:
        warning = "" if name == folder else f'`name` "{name}" differs from the folder "{folder}"'
    return [str(matter.error("name", warning))] if warning else []
