"""Checks a skill against the rules of the format, for `qcode skills check`.

The messages are those of the reference checker, `skills-ref` 0.1.1. Separate from `skill`, which reads leniently.
Rules: https://agentskills.io/specification
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from qcode.agent.claude.markdown import read_markdown
from qcode.agent.context.front_matter import FrontMatter, FrontMatterError
from qcode.agent.skills.skill import MAX_DESCRIPTION, MAX_NAME, skill_file

MAX_COMPATIBILITY = 500
_FIELDS = ("allowed-tools", "compatibility", "description", "license", "metadata", "name")


def check_folder(folder: Path) -> list[str]:
    """Return the problems of a skill, one line each; an empty list if it follows the format."""
    if not folder.exists():
        return [f"Path does not exist: {folder}"]
    if not folder.is_dir():
        return [f"Not a directory: {folder}"]
    file = skill_file(folder)
    if file is None:
        return ["Missing required file: SKILL.md"]
    try:
        front_matter = read_markdown(file, file.name)
    except FrontMatterError as problem:
        return [_unreadable(str(problem))]
    if not front_matter.is_present:
        return ["SKILL.md must start with YAML frontmatter (---)"]
    return [
        *_field_problems(front_matter),
        *_name_problems(front_matter, folder),
        *_description_problems(front_matter),
        *_compatibility_problems(front_matter),
    ]


def _unreadable(problem: str) -> str:
    """Return the message of the reference checker for an error of `read_markdown`."""
    if "no second --- line" in problem:
        return "SKILL.md frontmatter not properly closed with ---"
    if "must be lines of the form" in problem:
        return "SKILL.md frontmatter must be a YAML mapping"
    return f"Invalid YAML in frontmatter: {problem}"


def _field_problems(front_matter: FrontMatter) -> list[str]:
    extra = sorted(set(front_matter.fields) - set(_FIELDS))
    if not extra:
        return []
    return [f"Unexpected fields in frontmatter: {', '.join(extra)}. Only {list(_FIELDS)} are allowed."]


def _required_text(front_matter: FrontMatter, field: str) -> tuple[str, list[str]]:
    """Return the text of a required field, or an empty text and the problem."""
    if field not in front_matter.fields:
        return "", [f"Missing required field in frontmatter: {field}"]
    try:
        text = front_matter.text(field)
    except FrontMatterError as problem:
        return "", [str(problem)]
    return (text, []) if text is not None else ("", [f"Field '{field}' must be a non-empty string"])


def _name_problems(front_matter: FrontMatter, folder: Path) -> list[str]:
    """Return the problems of the field `name`, which must equal the name of the folder."""
    value, problems = _required_text(front_matter, "name")
    if problems:
        return problems
    name = unicodedata.normalize("NFKC", value)
    if len(name) > MAX_NAME:
        problems.append(f"Skill name '{name}' exceeds {MAX_NAME} character limit ({len(name)} chars)")
    if name != name.lower():
        problems.append(f"Skill name '{name}' must be lowercase")
    if name.startswith("-") or name.endswith("-"):
        problems.append("Skill name cannot start or end with a hyphen")
    if "--" in name:
        problems.append("Skill name cannot contain consecutive hyphens")
    if not all(char.isalnum() or char == "-" for char in name):
        problem = "contains invalid characters. Only letters, digits, and hyphens are allowed."
        problems.append(f"Skill name '{name}' {problem}")
    if unicodedata.normalize("NFKC", folder.name) != name:
        problems.append(f"Directory name '{folder.name}' must match skill name '{name}'")
    return problems


def _description_problems(front_matter: FrontMatter) -> list[str]:
    text, problems = _required_text(front_matter, "description")
    if len(text) > MAX_DESCRIPTION:
        problems.append(f"Description exceeds {MAX_DESCRIPTION} character limit ({len(text)} chars)")
    return problems


def _compatibility_problems(front_matter: FrontMatter) -> list[str]:
    if "compatibility" not in front_matter.fields:
        return []
    try:
        text = front_matter.text("compatibility") or ""
    except FrontMatterError:
        return ["Field 'compatibility' must be a string"]
    if len(text) <= MAX_COMPATIBILITY:
        return []
    return [f"Compatibility exceeds {MAX_COMPATIBILITY} character limit ({len(text)} chars)"]
