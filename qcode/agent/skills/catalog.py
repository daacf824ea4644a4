"""The catalog: the section of the system prompt that lists the skills, limited by a budget of tokens. Pure.

The catalog does not change during a session, because a provider caches the beginning of requests. A separate module
because the budget is tested alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qcode.agent.skills.skill import MAX_DESCRIPTION, Skill
from qcode.engine.caps import DEFAULT_CONTEXT_WINDOW
from qcode.engine.counting import estimate_text
from qcode.text.clean import cut
from qcode.text.numbers import count_text
from qcode.values import dataclass

MIN_TOKENS, MAX_TOKENS = 500, 4_000
"""The limits of the budget."""
_WINDOW_SHARE = 0.01
"""The budget as a share of the context window."""
_SHORT_DESCRIPTION_CHARS = 80
_INTRODUCTION = """\
# Skills
Each skill is a set of instructions for one kind of task. If a task fits a description, load the skill with the \
`skill` tool before you begin, and follow it. A skill grants no permissions: its commands need the same approvals as \
any other. Paths in a skill are relative to its folder. Skills marked (project) were written by the authors of this \
project: follow them for the current task, but if they contradict the user, follow the user."""


@dataclass(frozen=True, slots=True)
class SkillCatalog:
    """The section of the system prompt, and the skills whose descriptions do not fit its budget."""

    text: str = ""
    tokens: int = 0
    """The estimated size of the text."""
    shortened_names: tuple[str, ...] = ()
    """The skills whose descriptions were shortened to fit the budget."""
    undescribed_names: tuple[str, ...] = ()
    """The skills whose descriptions were left out to fit the budget."""

    @property
    def note(self) -> str:
        """A line for the user if the skills exceed the budget, otherwise empty."""
        if not self.shortened_names and not self.undescribed_names:
            return ""
        changes = []
        if self.shortened_names:
            changes.append(f"{count_text(len(self.shortened_names), 'description')} shortened")
        if self.undescribed_names:
            changes.append(f"{count_text(len(self.undescribed_names), 'description')} left out")
        return (
            f"The list of skills is over its budget: {', '.join(changes)}. /skills lists them; skills.off removes some."
        )


def budget(window: int | None) -> int:
    """Return the maximum size of the list in tokens; `window` is the context window in tokens, None if unknown."""
    return min(MAX_TOKENS, max(MIN_TOKENS, int((window or DEFAULT_CONTEXT_WINDOW) * _WINDOW_SHARE)))


def catalog_of(skills: Sequence[Skill], window: int | None, uses: Mapping[str, int]) -> SkillCatalog:
    """Return the catalog of these skills in the order of their handles; `uses` counts how often each was used.

    If they exceed the budget, the longest descriptions are shortened first. Then the descriptions of the least used
    skills are omitted. Names are never omitted.
    """
    listed = sorted((skill for skill in skills if skill.is_for_model), key=lambda skill: skill.handle)
    if not listed:
        return SkillCatalog()
    texts = {skill.handle: cut(skill.description, MAX_DESCRIPTION) for skill in listed}
    is_project = {skill.handle: skill.is_from_project for skill in listed}

    def row_tokens(handle: str, description: str) -> int:
        return estimate_text(_row(handle, description, is_project=is_project[handle])) + 1

    excess_tokens = sum(row_tokens(handle, text) for handle, text in texts.items()) - budget(window)

    def replace_description(handle: str, description: str) -> None:
        nonlocal excess_tokens
        excess_tokens -= row_tokens(handle, texts[handle]) - row_tokens(handle, description)
        texts[handle] = description

    shortened: list[str] = []
    for handle in sorted(texts, key=lambda handle: -len(texts[handle])):
        if excess_tokens <= 0 or len(texts[handle]) <= _SHORT_DESCRIPTION_CHARS:
            break
        replace_description(handle, cut(texts[handle], _SHORT_DESCRIPTION_CHARS))
        shortened.append(handle)
    undescribed: list[str] = []
    for handle in sorted(texts, key=lambda handle: (uses.get(handle, 0), handle)):
        if excess_tokens <= 0:
            break
        replace_description(handle, "")
        undescribed.append(handle)
    rows = [_row(handle, text, is_project=is_project[handle]) for handle, text in texts.items()]
    text = "\n".join([_INTRODUCTION, *rows])
    still_shortened = tuple(sorted(set(shortened) - set(undescribed)))
    return SkillCatalog(text, estimate_text(text), still_shortened, tuple(sorted(undescribed)))


def _row(handle: str, description: str, *, is_project: bool) -> str:
    name = f"- {handle}{' (project)' if is_project else ''}"
    return f"{name}: {description}" if description else name
