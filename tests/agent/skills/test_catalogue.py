"""The list of skills in the system prompt, and the descriptions that exceed its budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qcode.agent.skills.catalog import MAX_TOKENS, MIN_TOKENS, SkillCatalog, budget, catalog_of
from qcode.agent.skills.skill import Skill
from qcode.engine.counting import estimate_text


def skill(handle: str, description: str = "Does it.", **more: Any) -> Skill:
    return Skill(handle, description, Path("/s/SKILL.md"), Path("/s"), "skills", **more)


def test_budget_is_one_percent_within_bounds() -> None:
    assert [budget(window) for window in (8_000, 100_000, 1_000_000)] == [MIN_TOKENS, 1_000, MAX_TOKENS]


def test_catalog_lists_names_in_order_with_their_descriptions() -> None:
    skills = [skill("b"), skill("a", "First.", is_from_project=True), skill("c", is_for_model=False)]
    found = catalog_of(skills, None, {})
    assert found.text.splitlines()[-2:] == ["- a (project): First.", "- b: Does it."]
    assert found.tokens == estimate_text(found.text)
    assert found.note == ""


def test_no_skill_for_the_model_gives_no_section() -> None:
    assert catalog_of([skill("c", is_for_model=False)], None, {}) == SkillCatalog()


def test_longest_descriptions_are_shortened_first() -> None:
    skills = [skill("long", "word " * 600), skill("other", "y" * 950), skill("short", "y" * 100)]
    found = catalog_of(skills, 50_000, {})
    assert (found.shortened_names, found.undescribed_names) == (("long",), ())
    assert f"- long: {('word ' * 16)[:79]}…" in found.text
    assert f"- short: {'y' * 100}" in found.text
    assert "1 description shortened" in found.note


def test_descriptions_of_the_least_used_are_left_out_and_names_stay() -> None:
    skills = [skill(f"s{number:03}", "word " * 30) for number in range(100)]
    uses = {"s000": 5, "s099": 9}
    found = catalog_of(skills, 50_000, uses)
    assert all(f"- s{number:03}" in found.text for number in range(100))
    rows = dict(row[2:].partition(":")[::2] for row in found.text.splitlines() if row.startswith("- "))
    assert rows["s000"]
    assert rows["s099"]
    assert not rows["s001"]
    assert "left out" in found.note
    listed = "\n".join(row for row in found.text.splitlines() if row.startswith("- "))
    assert estimate_text(listed) <= MIN_TOKENS


def test_catalog_is_the_same_for_the_same_skills() -> None:
    skills = [skill(f"s{number}", "word " * 50) for number in range(60)]
    assert catalog_of(skills, 50_000, {}) == catalog_of(skills[::-1], 50_000, {})
