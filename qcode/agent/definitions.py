"""Definitions in files that apply to a run: the kinds of sub-agents, and whether there are skills or commands.

`subagent_kinds` has the built-in kinds; `agent.claude.agents` and `config.definitions` read the files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from qcode.agent.options import RunContext
from qcode.agent.subagent_kinds import KINDS, SubagentKinds, custom_kind
from qcode.config.paths import (
    AGENTS_FOLDER,
    COMMANDS_FOLDER,
    OTHER_SKILL_FOLDERS,
    SKILL_FOLDERS,
    exists_or_unknown,
)


def kinds_of(context: RunContext) -> SubagentKinds:
    """Return the kinds of sub-agents of this run.

    A kind that the calling program defines (`program_agents`) replaces the kind of the same name.
    """
    if not context.settings.tools.agents:
        return SubagentKinds()
    loaded = _load_kinds(context)
    program_names = {kind.name for kind in context.program_agents}
    others = (kind for kind in loaded.kinds if kind.name not in program_names)
    return replace(loaded, kinds=(*others, *context.program_agents))


def _load_kinds(context: RunContext) -> SubagentKinds:
    """Return the built-in kinds, and those that files of the user and the project define."""
    folders = context.definition_folders(AGENTS_FOLDER)
    if not folders:
        return SubagentKinds(KINDS)
    from qcode.agent.claude.agents import load_agents
    from qcode.config.definitions import load_custom_agents

    used_names = tuple(kind.name for kind in KINDS)
    custom = load_custom_agents(
        context.user_folder, context.root, reads_project=context.reads_project, used_names=used_names
    )
    kinds = (*KINDS, *map(custom_kind, custom.agents))
    markdown = load_agents(folders, {kind.name for kind in kinds})
    return SubagentKinds((*kinds, *markdown.kinds), (*custom.problems, *markdown.problems))


def may_have_skills(context: RunContext) -> bool:
    """Return whether a folder of skills or commands exists. If none does, the package for skills is not loaded."""
    settings = context.settings.skills
    if context.definition_folders(COMMANDS_FOLDER):
        return True
    if context.options.no_skills:
        return False
    if settings.paths:
        return True
    folders: list[Path] = []
    if context.user_folder is not None:
        folders.append(context.user_folder / "skills")
        if settings.foreign:
            folders += [Path(context.env.get("HOME") or "/", name) for name in OTHER_SKILL_FOLDERS]
    if context.reads_project:
        folder = context.folder.resolve()
        root = context.root.resolve()
        parents_in_project = (path for path in (folder, *folder.parents) if path.is_relative_to(root))
        folders += [path / name for path in parents_in_project for name in SKILL_FOLDERS]
    return any(map(exists_or_unknown, folders))
