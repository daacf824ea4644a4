"""The folders of skills, their order, and the files that are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qcode.agent.skills import discovery
from qcode.agent.skills.skill import read_skill
from tests.agent.skills.folders import Places, put


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_folders_are_read_in_their_order(places: Places, tmp_path: Path) -> None:
    named = tmp_path / "named"
    for number, folder in enumerate(
        [
            places.config / "skills",
            places.home / ".agents/skills",
            places.home / ".claude/skills",
            named,
            places.root / "a/.qcode/skills",
            places.root / "a/.agents/skills",
            places.root / "a/.claude/skills",
            places.root / ".qcode/skills",
            places.root / ".agents/skills",
            places.root / ".claude/skills",
        ]
    ):
        put(folder, f"skill-{number}")
    found = places.find("a", configured_paths=[str(named)])
    assert [skill.handle for skill in found.skills] == [f"skill-{number}" for number in range(10)]
    assert [skill.is_from_project for skill in found.skills] == [False] * 4 + [True] * 6
    assert (found.problems, found.name_clashes) == ((), ())
    at_root = [skill.handle for skill in places.find().skills]
    assert at_root == ["skill-0", "skill-1", "skill-2", "skill-7", "skill-8", "skill-9"]


def test_untrusted_project_has_no_skills(places: Places) -> None:
    put(places.root / ".qcode/skills", "evil")
    put(places.home / ".claude/skills", "mine")
    assert [skill.handle for skill in places.find(is_trusted=False).skills] == ["mine"]


def test_folders_of_other_programs_can_be_left_out(places: Places) -> None:
    for folder in (places.config / "skills", places.root / ".qcode/skills"):
        put(folder, f"own-{folder.parent.name.strip('.')}")
    for folder in (places.home / ".agents/skills", places.home / ".claude/skills", places.root / ".claude/skills"):
        put(folder, "foreign")
    assert [skill.handle for skill in places.find(reads_other_programs=False).skills] == ["own-config", "own-qcode"]


def test_skill_of_the_user_hides_one_of_a_project(places: Places) -> None:
    mine = put(places.home / ".claude/skills", "pdf")
    put(places.root / ".claude/skills", "pdf")
    found = places.find()
    assert [skill.folder for skill in found.skills] == [mine.resolve()]
    (clash,) = found.name_clashes
    assert (clash.hidden.folder_label, clash.used.folder_label) == (".claude/skills", "~/.claude/skills")


def test_folder_of_the_configuration_is_shown_relative_to_the_home_folder(places: Places) -> None:
    config = places.home / ".config/qcode"
    (first, *_) = discovery.skill_folders(config, places.home, places.root, places.root, reads_project=False)
    assert first.label == "~/.config/qcode/skills"
    (first, *_) = discovery.skill_folders(places.config, places.home, places.root, places.root, reads_project=False)
    assert first.label == str(places.config / "skills")


def test_linked_skill_is_one_skill(places: Places) -> None:
    put(places.root / ".agents/skills", "x")
    (places.root / ".claude/skills").mkdir(parents=True)
    (places.root / ".claude/skills/x").symlink_to("../../.agents/skills/x")
    found = places.find()
    assert [skill.folder_label for skill in found.skills] == [".agents/skills"]
    assert (found.problems, found.name_clashes) == ((), ())


def test_links_of_a_project_must_stay_inside(places: Places, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "x")
    folder = places.root / ".claude/skills"
    folder.mkdir(parents=True)
    (folder / "x").symlink_to(outside)
    (folder / "y").mkdir()
    (folder / "y/SKILL.md").symlink_to(outside / "SKILL.md")
    (places.root / ".agents").mkdir()
    (places.root / ".agents/skills").symlink_to(outside.parent)
    found = places.find()
    assert found.skills == ()
    assert len(found.problems) == 3
    assert all(problem.endswith("leads outside the project and is not read") for problem in found.problems)
    (places.home / ".claude").mkdir()
    (places.home / ".claude/skills").symlink_to(outside.parent)
    assert [skill.handle for skill in places.find().skills] == ["x"]


def test_folders_inside_a_skill_or_too_deep_are_not_skills(places: Places) -> None:
    base = places.home / ".claude/skills"
    put(base, "a")
    put(base, "a/inner")
    put(base, "group/b")
    put(base, "group/deeper/c")
    put(base, "group/deeper/still/d")
    put(base, ".git/e")
    put(base, "node_modules/f")
    assert [skill.handle for skill in places.find().skills] == ["a", "b", "c"]


def test_named_folder_may_itself_be_a_skill(places: Places) -> None:
    put(places.home, "own/pdf")
    assert [skill.handle for skill in places.find(configured_paths=["~/own/pdf"]).skills] == ["pdf"]
    assert [skill.handle for skill in places.find(configured_paths=["own"]).skills] == ["pdf"]


def test_lower_case_file_name_is_read(places: Places) -> None:
    folder = put(places.home / ".claude/skills", "x")
    (folder / "SKILL.md").rename(folder / "skill.md")
    assert [skill.handle for skill in places.find().skills] == ["x"]


def test_circular_links_end(places: Places) -> None:
    base = places.home / ".claude/skills"
    put(base, "x")
    (base / "loop").symlink_to(base)
    (base / "self").symlink_to("self")
    found = places.find()
    assert [skill.handle for skill in found.skills] == ["x"]
    assert found.problems == ("~/.claude/skills/self: a link to self, which cannot be read",)


def test_link_to_a_missing_folder_is_reported(places: Places) -> None:
    put(places.home / ".agents/skills", "x")
    (places.home / ".agents/skills/gone").symlink_to("/none/pdf")
    (places.home / ".agents/skills/note.txt").touch()
    (places.home / ".claude").mkdir()
    (places.home / ".claude/skills").symlink_to("/none")
    (inside := places.root / ".qcode/skills").mkdir(parents=True)
    (inside / "old").symlink_to("../none")
    found = places.find()
    assert [skill.handle for skill in found.skills] == ["x"]
    assert found.problems == (
        "~/.agents/skills/gone: a link to /none/pdf, which cannot be read",
        "~/.claude/skills: a link to /none, which cannot be read",
        ".qcode/skills/old: a link to ../none, which cannot be read",
    )


@pytest.mark.parametrize("limit", ["MAX_SKILLS", "MAX_FOLDERS"])
def test_limits_are_reported_once(places: Places, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(discovery, limit, 3)
    for number in range(6):
        put(places.home / ".claude/skills", f"x{number}")
    found = places.find()
    assert len(found.skills) == 3
    (problem,) = found.problems
    assert "more than 3" in problem


def test_broken_file_leaves_the_others(places: Places) -> None:
    put(places.home / ".claude/skills", "a", "nothing")
    put(places.home / ".claude/skills", "b")
    found = places.find()
    assert [skill.handle for skill in found.skills] == ["b"]
    assert [problem.partition(": ")[0] for problem in found.problems] == ["~/.claude/skills/a/SKILL.md:1"]


def test_missing_and_unreadable_folders_are_empty(places: Places) -> None:
    (places.home / ".claude").write_text("a file")
    (places.root / ".claude").symlink_to("x" * 300)  # it cannot be searched, as a folder of another user
    assert places.find() == discovery.DiscoveredSkills()


def cached(places: Places, *, reads: list[Path]) -> discovery.DiscoveredSkills:
    folders = discovery.skill_folders(places.config, places.home, places.root, places.root, reads_project=True)
    read = read_skill

    def counted(file: Path, *rest: Any, **more: Any) -> Any:
        reads.append(file)
        return read(file, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discovery, "read_skill", counted)
        patch.setattr(discovery, "is_ctime_final", lambda state, now_ns: True)
        return discovery.find_skills(folders, discovery.SkillCache(places.config / "state/skill_cache.json"))


def test_unchanged_file_is_read_once_and_a_changed_one_again(places: Places) -> None:
    base = places.home / ".claude/skills"
    put(base, "a", allowed_tools="[Read, Grep]", context="fork", name="A")
    put(base, "b")
    reads: list[Path] = []
    first = cached(places, reads=reads)
    assert len(reads) == 2
    assert cached(places, reads=reads) == first
    assert len(reads) == 2
    put(base, "b", description="Changed text.")
    changed = cached(places, reads=reads)
    assert reads[2:] == [base / "b/SKILL.md"]
    assert changed.skills[1].description == "Changed text."


@pytest.mark.parametrize("content", ["", "[]", '{"files": 1}', "CUT", "WRONG", "MISSING", "UNKNOWN"])
def test_unusable_cache_is_ignored_and_replaced(places: Places, content: str) -> None:
    put(places.home / ".claude/skills", "a")
    reads: list[Path] = []
    first = cached(places, reads=reads)
    file = places.config / "state/skill_cache.json"
    text = file.read_text()
    spoiled = {
        "CUT": text[:-20],
        "WRONG": text.replace('"Does a."', "5"),
        "MISSING": text.replace('"handle": "a",', ""),
        "UNKNOWN": text.replace('"handle": "a"', '"handle": "a", "later": 1'),
    }
    assert spoiled.get(content) != text
    file.write_text(spoiled.get(content, content))
    assert cached(places, reads=reads) == first
    assert len(reads) == 2
    assert cached(places, reads=reads) == first
    assert len(reads) == 2


def test_cache_notices_added_removed_and_replaced_skills(places: Places) -> None:
    base = places.home / ".claude/skills"
    for name in "abc":
        put(base, name)
    reads: list[Path] = []
    cached(places, reads=reads)
    put(base, "d")
    (base / "a/SKILL.md").unlink()
    put(places.home / "elsewhere", "b", description="Another one.")
    (base / "b").rename(places.home / "old")
    (places.home / "elsewhere/b").rename(base / "b")
    found = cached(places, reads=reads)
    assert [(skill.handle, skill.description) for skill in found.skills] == [
        ("b", "Another one."),
        ("c", "Does c."),
        ("d", "Does d."),
    ]
    assert reads[3:] == [base / "b/SKILL.md", base / "d/SKILL.md"]


def test_cached_skill_behind_a_link_has_its_real_folder(places: Places) -> None:
    base = places.home / ".claude/skills"
    base.mkdir(parents=True)
    for version in ("1", "2"):
        put(places.home / f"store/{version}", "a", description=f"Version {version}.")
    (base / "a").symlink_to(places.home / "store/1/a")
    reads: list[Path] = []
    first = cached(places, reads=reads)
    assert first.skills[0].folder == places.home / "store/1/a"
    assert cached(places, reads=reads) == first
    assert len(reads) == 1
    (base / "a").unlink()
    (base / "a").symlink_to(places.home / "store/2/a")
    (skill,) = cached(places, reads=reads).skills
    assert (skill.description, skill.folder) == ("Version 2.", places.home / "store/2/a")


def test_cache_that_others_can_write_is_ignored(places: Places) -> None:
    put(places.home / ".claude/skills", "a")
    reads: list[Path] = []
    cached(places, reads=reads)
    (places.config / "state/skill_cache.json").chmod(0o666)
    cached(places, reads=reads)
    assert len(reads) == 2
