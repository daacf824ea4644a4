"""Public collections of skills, read from clones: all of them load, with exactly these warnings.

`QCODE_FIXTURES=DIR` names the folder of the clones, `DIR/OWNER+NAME`, at the commits below or later ones with as many
skills. Without it the test is skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qcode.agent.context.front_matter import FrontMatterError
from qcode.agent.skills.skill import FILE_NAMES, Skill, read_skill

pytestmark = pytest.mark.broad
REPOSITORIES = [
    # name, commit, skills, names that warn, long descriptions, texts and lists in allowed-tools
    ("anthropics/skills", "9d2f1ae", 18, 1, 1, 0),
    ("anthropics/claude-code", "5cfc0a1", 10, 8, 0, 0),
    ("anthropics/claude-plugins-official", "340e33a", 31, 1, 0, 8),
    ("vercel-labs/agent-skills", "b9c8ee0", 7, 4, 0, 0),
    ("trailofbits/skills", "293fb74", 80, 0, 0, 34),
    ("google-gemini/gemini-cli", "5411f11", 25, 2, 0, 0),
    ("openai/skills", "f6b8344", 10, 0, 0, 0),
    ("obra/superpowers", "44c9b2d", 14, 0, 0, 0),
    ("cloudflare/skills", "73070f8", 2, 0, 0, 0),
]


def skills_of(folder: Path) -> list[Skill]:
    files = sorted(file for name in FILE_NAMES for file in folder.rglob(name) if ".git" not in file.parts)
    found: list[Skill] = []
    for file in files:
        try:
            found.append(read_skill(file, str(file), str(folder), is_from_project=False))
        except FrontMatterError as problem:
            pytest.fail(f"no skill: {problem}")
    return found


@pytest.mark.parametrize(("name", "commit", "count", "names", "long", "tools"), REPOSITORIES)
def test_every_public_skill_loads(name: str, commit: str, count: int, names: int, long: int, tools: int) -> None:
    fixtures = os.environ.get("QCODE_FIXTURES")
    if not fixtures:
        pytest.skip("QCODE_FIXTURES names no folder of clones")
    skills = skills_of(Path(fixtures) / name.replace("/", "+"))
    warnings = [warning for skill in skills for warning in skill.warnings]
    assert len(skills) == count, f"expected the clone at {commit}"
    assert sum("`name`" in warning for warning in warnings) == names
    assert sum("is too long" in warning for warning in warnings) == long
    assert len(warnings) == names + long
    assert sum(bool(skill.allowed_tools) for skill in skills) == tools
