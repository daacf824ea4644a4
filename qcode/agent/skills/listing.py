"""The skills as text for the user: the list, and the details of one skill. Every front end uses these texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qcode.agent.claude.markdown import read_markdown
from qcode.agent.context.front_matter import FrontMatterError
from qcode.agent.context.placeholders import counts_from_one
from qcode.agent.skills.discovery import FOLDER
from qcode.agent.skills.library import SkillLibrary, file_names
from qcode.agent.skills.skill import Skill
from qcode.config.paths import with_tilde
from qcode.text.clean import cut, one_line, visible, visible_line
from qcode.text.columns import padded, width_of
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text

if TYPE_CHECKING:
    from qcode.agent.options import RunContext

_MAX_DESCRIPTION_CHARS = 240
_MAX_VALUE_CHARS = 1_200
_NO_SKILLS = (
    "No skills. A skill is a folder with a SKILL.md in {}, ~/.claude/skills, ~/.agents/skills or .qcode/skills. A new "
    "one is found when qcode starts."
)
"""`{}` stands for the user's folder of skills."""
_RESTRICTED = "This folder is not trusted, so its own skills are not read; /trust trusts it."
_TURNED_OFF = "No skills: --no-skills was given."


def no_skills_text(context: RunContext) -> str:
    """Return why this run has no skills, and which folders may contain skills."""
    if context.options.no_skills:
        return _TURNED_OFF
    return _no_skills(context) if context.is_trusted else f"{_no_skills(context)} {_RESTRICTED}"


def _no_skills(context: RunContext) -> str:
    return _NO_SKILLS.format(visible(with_tilde(str(context.paths.config_dir / FOLDER))))


def list_text(skills: SkillLibrary, context: RunContext) -> str:
    """Return all skills with folder, size and state, and the problems of their files."""
    return "\n".join(_rows(skills)) or _no_skills(context)


def _shown_folder(skill: Skill) -> str:
    return visible(f"{skill.folder_label}/{skill.folder.name}")


def list_rows(skills: SkillLibrary) -> list[JsonObject]:
    """Return all skills as JSON objects."""
    return [
        {
            "name": skill.handle,
            "description": skill.description,
            "file": str(skill.file),
            "tokens": skill.tokens,
            "is_off": skills.is_off(skill),
            "is_for_model": skill.is_for_model,
            "is_for_user": skill.is_for_user,
            "warnings": list(skill.warnings),
        }
        for skill in sorted(skills.discovered.skills, key=lambda listed: listed.handle)
    ]


def _rows(skills: SkillLibrary) -> Iterator[str]:
    discovered = skills.discovered
    width = max((width_of(skill.handle) for skill in discovered.skills), default=0)
    for skill in sorted(discovered.skills, key=lambda listed: listed.handle):
        state = _state(skills, skill)
        description = cut(one_line(skill.description), _MAX_DESCRIPTION_CHARS)
        yield f"{padded(skill.handle, width)}  {visible(skill.folder_label)}, {skill.tokens:,} tokens{state}"
        yield f"    {description}"
    for clash in discovered.name_clashes:
        hidden, used = _shown_folder(clash.hidden), _shown_folder(clash.used)
        yield f"not used: {hidden}, because {used} has the name {clash.hidden.handle}"
    warnings = [warning for skill in discovered.skills for warning in skill.warnings]
    for line in (*discovered.problems, *warnings, skills.catalog.note):
        if line:
            yield visible(line)


def _state(skills: SkillLibrary, skill: Skill) -> str:
    if skills.is_off(skill):
        return ", off (skills.off)"
    audience = ""
    if skill.is_for_model != skill.is_for_user:
        audience = ", for the model only" if skill.is_for_model else ", for you only"
    return f"{audience}{', as a sub-agent' if skills.runs_in_subagent(skill) else ''}"


def detail_text(skills: SkillLibrary, skill: Skill) -> str:
    """Return one skill with its fields, warnings and files."""
    tools = ", ".join(skill.allowed_tools)
    rows: list[tuple[str, str]] = [
        ("Description", skill.description),
        ("File", str(skill.file)),
        ("Size", f"about {skill.tokens:,} tokens{_state(skills, skill)}"),
        ("Arguments", _arguments(skill)),
        ("Sub-agent", skills.kind_of(skill) if skills.runs_in_subagent(skill) else ""),
        ("Model", skill.model),
        ("Allowed tools", f"{tools} (shown only: they grant nothing)" if tools else ""),
        ("License", skill.license),
        ("Needs", skill.compatibility),
        ("Without effect", ", ".join(skill.unknown_fields)),
    ]
    lines = [f"{name}: {visible_line(text, _MAX_VALUE_CHARS)}" for name, text in rows if text]
    lines += [f"Warning: {visible(warning)}" for warning in skill.warnings]
    names = file_names(skill.folder)
    if names:
        lines += [f"{count_text(len(names), 'file')} beside it:", *(f"  {visible(name)}" for name in names)]
    return "\n".join(lines)


def _arguments(skill: Skill) -> str:
    try:
        body = read_markdown(skill.file).body
    except FrontMatterError:
        return skill.hint
    first = "$0 is the first" if "$0" in body else ""
    if counts_from_one(body):
        first = "$1 is the first"
    return "; ".join(filter(None, (skill.hint, " ".join(skill.parameters), first)))
