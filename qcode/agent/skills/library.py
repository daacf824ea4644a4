"""The skills of a session: those that apply, their catalog, and the text of a loaded skill.

A skill of a project is compared with its pins at each use. A changed skill is not used until the user has reviewed the
difference. Loading a skill makes its folder readable, never writable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from qcode.agent.options import RunContext
from qcode.agent.skills.catalog import SkillCatalog, catalog_of
from qcode.agent.skills.discovery import CACHE_NAME, DiscoveredSkills, SkillCache, find_skills, skill_folders
from qcode.agent.skills.skill import FILE_NAMES, MarkdownCommands, Skill
from qcode.agent.trust.store import TrustStore
from qcode.config import state_file
from qcode.config.paths import COMMANDS_FOLDER
from qcode.protocol.approvals import Spans, TurnOptions, TurnPrompt
from qcode.protocol.tools import EXPLORE, GENERAL, SAME_MODEL, SMALL_MODEL, Refused
from qcode.text.clean import cut, visible
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.tools.workspace import printable
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.context.placeholders import PromptPart
    from qcode.config.definitions import CustomCommands

STATE_NAME = "skill_uses.json"
MAX_FILES = 50
"""The maximum number of files of a skill that are listed for the model."""

_MAX_NAMED = 5
"""The maximum number of skills or files that a message names."""
_SMALL_MODELS = ("haiku",)
"""The models of Claude Code for which the small model is used."""
_KINDS = {"general-purpose": GENERAL, "explore": EXPLORE, "plan": EXPLORE}
"""The built-in sub-agents of Claude Code, and the corresponding kinds of qcode."""


@dataclass(frozen=True, slots=True)
class LoadedSkill:
    """The text of a skill for the model."""

    text: str
    external_spans: Spans = ()
    """The spans of the text that the user did not write."""


RunCommand = Callable[[str], Awaitable[str]]
"""Runs a command of a skill and returns its output; raises an exception if the command fails or may not run."""


@dataclass(frozen=True, slots=True)
class TypedSkill:
    """A skill that the user typed as a command."""

    skill: Skill
    arguments: str


class SkillLibrary:
    """The skills of a session. `make_readable` lets the model read a folder from the next call on.

    `kinds` are the available kinds of sub-agents; without any, no skill runs in a sub-agent.
    """

    def __init__(
        self,
        context: RunContext,
        make_readable: Callable[[Path], None] = lambda folder: None,
        session_id: Callable[[], str] = lambda: "",
        kinds: Sequence[str] = (),
    ) -> None:
        self._context = context
        self._make_readable = make_readable
        self._session_id = session_id
        self._kinds = tuple(kinds)
        self.discovered = DiscoveredSkills() if context.options.no_skills else _find_skills(context)
        markdown_commands = self._find_commands()
        self.commands, self._command_problems = markdown_commands.commands, markdown_commands.problems
        self._off = frozenset(context.settings.skills.off)
        names = context.program_skills
        self._program_skills = None if names is None else frozenset(name.lower() for name in names)
        self._uses = _read_uses(context.paths.state_dir)
        self.catalog = SkillCatalog()

    def _find_commands(self) -> MarkdownCommands:
        folders = self._context.definition_folders(COMMANDS_FOLDER)
        if not folders:
            return MarkdownCommands()
        from qcode.agent.claude.commands import find_commands

        return find_commands(folders, {skill.handle.lower() for skill in self.discovered.skills})

    @property
    def enabled(self) -> tuple[Skill, ...]:
        """The skills that are not switched off."""
        return tuple(skill for skill in self.discovered.skills if skill.handle not in self._off)

    @property
    def for_model(self) -> tuple[Skill, ...]:
        """The skills that the model may load, in the order of the catalog."""
        skills = (skill for skill in self.enabled if skill.is_for_model and not self._is_hidden_by_program(skill))
        return tuple(sorted(skills, key=lambda skill: skill.handle))

    @property
    def for_user(self) -> tuple[Skill, ...]:
        """The skills and Markdown commands that `/name` runs."""
        return (*(skill for skill in self.enabled if skill.is_for_user), *self.commands)

    def match_typed(self, typed: str) -> TypedSkill | None:
        """Return the skill that `/name arguments` or `/skills name arguments` runs; None for any other text."""
        if not typed.startswith("/"):
            return None
        skills = self.for_user
        name, _, arguments = typed[1:].partition(" ")
        if name.strip().lower() == "skills":
            skills = self.enabled  # also those that `/name` does not run
            name, _, arguments = arguments.strip().partition(" ")
        handle = name.strip().lower()
        skill = next((skill for skill in skills if skill.handle.lower() == handle), None)
        return None if skill is None else TypedSkill(skill, arguments.strip())

    def without_hidden(self, custom: CustomCommands) -> CustomCommands:
        """Return `custom` without commands of the project that have the name of a skill; each adds a problem."""
        skills = {skill.handle.lower() for skill in self.for_user if not skill.is_command}
        hidden = [command for command in custom.commands if command.is_from_project and command.name.lower() in skills]
        problems = (
            f"{command.file}: /{command.name} is ignored, it is the name of a skill; rename the file"
            for command in hidden
        )
        commands = tuple(command for command in custom.commands if command not in hidden)
        return replace(custom, commands=commands, problems=(*custom.problems, *problems))

    def is_off(self, skill: Skill) -> bool:
        return skill.handle in self._off

    def _is_hidden_by_program(self, skill: Skill) -> bool:
        """Return whether the program that opened the agent hides a skill from the model."""
        return self._program_skills is not None and skill.handle.lower() not in self._program_skills

    def make_catalog(self, window: int | None) -> str:
        """Build and return the section of the system prompt for the session; `window` is the context window."""
        self.catalog = catalog_of(self.for_model, window, self._uses)
        return self.catalog.text

    def notices(self) -> tuple[str, ...]:
        """Return lines for the user at startup, about invalid files."""
        return (*self.discovered.problems, *self._command_problems)

    def clash_note(self) -> str:
        """Return which skills are not used because another one has the same name; empty if there are none."""
        clashes = self.discovered.name_clashes
        if not clashes:
            return ""
        names = ", ".join(
            f"{clash.hidden.handle} in {clash.hidden.folder_label} (used: the one in {clash.used.folder_label})"
            for clash in clashes[:_MAX_NAMED]
        )
        more = f" and {len(clashes) - _MAX_NAMED} more" if len(clashes) > _MAX_NAMED else ""
        count = count_text(len(clashes), "skill")
        return f"{count} not used, because another one has the same name: {names}{more}"

    def find(self, name: str) -> Skill:
        """Return the skill with this name; raise `Refused` if there is none or it is switched off."""
        skill = self.find_discovered(name)
        if self.is_off(skill):
            raise Refused(f"skill: {skill.handle} is switched off (skills.off)")
        return skill

    def find_discovered(self, name: str) -> Skill:
        """Return the skill with this name, even if it is switched off; raise `Refused` if there is none."""
        skill = next(
            (candidate for candidate in self.discovered.skills if candidate.handle.lower() == name.lower()), None
        )
        if skill is None:
            from qcode.text.match import nearest_hint

            names = [enabled.handle for enabled in self.enabled]
            hint = f"; {nearest_hint(name, names)}" if names else ""
            raise Refused(f"skill: unknown skill {visible(cut(name, 80))}{hint}")
        return skill

    def kind_of(self, skill: Skill) -> str:
        """Return the kind of sub-agent that a skill requests, or the general kind if that kind is not available."""
        name = _KINDS.get(skill.agent.lower(), skill.agent)
        return next((kind for kind in self._kinds if kind.lower() == name.lower()), GENERAL)

    def runs_in_subagent(self, skill: Skill) -> bool:
        """Return whether a skill runs in a sub-agent: it requests that, and this conversation can start sub-agents."""
        return skill.forks and GENERAL in self._kinds

    def agent_model(self, skill: Skill) -> str:
        """Return the model for a sub-agent of this skill, empty for the default of its kind."""
        if not skill.model:
            return ""
        has_small_model = self._context.settings.small_model is not None
        if has_small_model and not skill.is_from_project and skill.model.lower() in _SMALL_MODELS:
            return SMALL_MODEL
        return SAME_MODEL

    def load(self, skill: Skill, arguments: str = "") -> LoadedSkill:
        """Read a skill for the model; commands in it are not run. Raise `Refused`."""
        loaded = _join_parts(self._prompt_parts(skill, arguments, runs_commands=False), is_file_external=True)
        self._record_use(skill)
        return loaded

    async def prompt(self, skill: Skill, arguments: str, run: RunCommand) -> TurnPrompt:
        """Return the prompt for a skill that the user started.

        The commands of the skill run first, in order. Raise `Refused`, and the exceptions of `run`.
        """
        parts = self._prompt_parts(skill, arguments, runs_commands=True)
        expanded = [
            replace(part, text=await run(part.text), kind="output") if part.kind == "command" else part
            for part in parts
        ]
        self._record_use(skill)
        loaded = _join_parts([*self._subagent_request(skill), *expanded], is_file_external=skill.is_from_project)
        # Names without a provider, such as `opus`, are models of Claude Code, and have no effect here.
        model = skill.model if "/" in skill.model and not skill.is_from_project else ""
        shown_prompt = f"/{skill.handle} {arguments}".rstrip()
        options = TurnOptions(model, external_spans=loaded.external_spans, shown_prompt=shown_prompt)
        return TurnPrompt(loaded.text, options)

    def _subagent_request(self, skill: Skill) -> tuple[PromptPart, ...]:
        """Return the instruction that precedes a skill that runs in a sub-agent; empty for any other skill."""
        if not self.runs_in_subagent(skill):
            return ()
        arguments = f"kind {self.kind_of(skill)} and the whole text of the skill as its prompt"
        from qcode.agent.context.placeholders import PromptPart

        text = f"Let a sub-agent carry out this skill: call the `agent` tool with {arguments}. Then tell me its answer."
        return (PromptPart(f"{text}\n\n", "typed"),)

    def _prompt_parts(self, skill: Skill, arguments: str, *, runs_commands: bool) -> list[PromptPart]:
        """Return the text of a skill with its arguments, in a `<skill>` tag; raise `Refused` if it may not be used."""
        self._check_unchanged(skill)
        from qcode.agent.claude.markdown import read_markdown  # loads with the first skill in use, as the next two do
        from qcode.agent.context.front_matter import FrontMatterError
        from qcode.agent.context.placeholders import PromptPart, expand, has_commands

        try:
            body = read_markdown(skill.file).body
        except FrontMatterError as problem:
            raise Refused(f"skill: {problem}") from None
        if skill.is_command:
            variables = self._variables(skill)
            return [*expand(body.strip(), arguments, skill.parameters, variables, runs_commands=runs_commands)]
        self._make_readable(skill.folder)
        body = _TAG.sub("&lt;", body).strip()
        source = ' from="project"' if skill.is_from_project else ""
        head = f'<skill name="{skill.handle}" dir="{_attribute(skill.folder)}"{source}>\n'
        parts = expand(body, arguments, skill.parameters, self._variables(skill), runs_commands=runs_commands)
        tail = "\n</skill>"
        if has_commands(body) and not runs_commands:
            tail += "\nThe commands marked with ! in this skill were not run; run those that you need."
        if names := file_names(skill.folder):
            tail += "\nFiles of the skill:\n" + "\n".join(f"- {name}" for name in names)
        return [PromptPart(head), *parts, PromptPart(tail)]

    def _variables(self, skill: Skill) -> Mapping[str, str]:
        folder = str(skill.folder)
        return {
            "CLAUDE_SKILL_DIR": folder,
            "QCODE_SKILL_DIR": folder,
            "CLAUDE_PROJECT_DIR": str(self._context.root),
            "CLAUDE_SESSION_ID": self._session_id(),
        }

    def _check_unchanged(self, skill: Skill) -> None:
        """Raise `Refused` if the skill was moved, or differs from the version that the user trusted."""
        if Path(os.path.realpath(skill.file)).parent != skill.folder:
            raise Refused(f"skill: {skill.handle} now points to another folder; restart qcode to use it")
        if not skill.is_from_project:
            return
        context = self._context
        store = TrustStore(context.paths.state_dir, context.folder)
        names = [change.name for change in store.changes_below(context.root, skill.folder)]
        if names:
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            changed = ", ".join(visible(name) for name in names[:_MAX_NAMED])
            raise Refused(
                f"skill: {skill.handle} has changed since this folder was trusted ({changed}{more}); it cannot be used "
                "until the user reviews the change with /trust"
            )

    def _record_use(self, skill: Skill) -> None:
        """Count a use. A catalog that exceeds its budget keeps the descriptions of the most used skills."""
        if skill.is_command:
            return
        state_dir = self._context.paths.state_dir
        uses = _read_uses(state_dir)
        self._uses = {**uses, skill.handle: uses.get(skill.handle, 0) + 1}
        if self._context.options.no_session:
            return
        with suppress(OSError):
            state_file.save_json(state_dir / STATE_NAME, {"uses": dict(self._uses)})


def _find_skills(context: RunContext) -> DiscoveredSkills:
    """Read the skills that apply to a run."""
    settings = context.settings.skills
    home = context.env.get("HOME", "")
    cache = SkillCache(None if context.options.no_session else context.paths.state_dir / CACHE_NAME)
    return find_skills(
        skill_folders(
            context.user_folder,
            Path(home) if home.startswith("/") else None,
            context.folder,
            context.root,
            reads_project=context.reads_project,
            reads_other_programs=settings.foreign,
            configured_paths=settings.paths,
        ),
        cache,
    )


_TAG = lazy_pattern(r"<(?=/?skill\b)", re.IGNORECASE)
_UNLISTED = frozenset({".git", "node_modules", "__pycache__"})
_MAX_WALKED_FOLDERS = 500


def file_names(folder: Path) -> list[str]:
    """Return the paths of at most `MAX_FILES` files of a skill, relative to `folder`, without the `SKILL.md`."""
    paths: list[str] = []
    for folder_count, (current, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if name not in _UNLISTED)
        for name in sorted(names):
            path = Path(current, name).relative_to(folder).as_posix()
            if path not in FILE_NAMES:
                paths.append(printable(path))
        if len(paths) > MAX_FILES or folder_count == _MAX_WALKED_FOLDERS:
            return [*paths[:MAX_FILES], "..."]
    return paths


def _join_parts(parts: Sequence[PromptPart], *, is_file_external: bool) -> LoadedSkill:
    """Join the parts. The output of commands is external, typed text is not; the text of the file may be."""
    external_kinds = {"output", "file"} if is_file_external else {"output"}
    spans: list[tuple[int, int]] = []
    start = 0
    for part in parts:
        end = start + len(part.text)
        if part.kind in external_kinds:
            spans.append((start, end))
        start = end
    return LoadedSkill("".join(part.text for part in parts), tuple(spans))


def _read_uses(state_dir: Path) -> Mapping[str, int]:
    uses = state_file.load_json(state_dir / STATE_NAME).get("uses")
    rows = uses.items() if isinstance(uses, dict) else ()
    return {name: count for name, count in rows if isinstance(count, int)}


def _attribute(path: Path) -> str:
    return printable(str(path)).replace('"', "&quot;")
