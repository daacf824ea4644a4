"""How leniently a `SKILL.md` is read: the forms that real files have, each with its result."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qcode.agent.claude.markdown import MAX_BYTES
from qcode.agent.context.front_matter import FrontMatterError
from qcode.agent.skills.skill import Skill, read_skill
from tests.agent.skills.folders import put


def read(folder: Path) -> Skill:
    return read_skill(folder / "SKILL.md", f"{folder.name}/SKILL.md", "skills", is_from_project=False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# No front matter\n", "x/SKILL.md:1: no front matter"),
        ("", "x/SKILL.md:1: no front matter"),
        ("---\nname: x\n", "x/SKILL.md:1: the front matter has no second --- line"),
        ('---\nname: "x\n---\n', "x/SKILL.md:3: not YAML"),
        ("---\nname: x\n---\n", "x/SKILL.md:1: `description` is missing or empty"),
        ("---\nname: x\ndescription:\n---\n", "x/SKILL.md:3: `description` is missing or empty"),
        ("---\nname: x\ndescription: 123\n---\n", "x/SKILL.md:3: `description` must be a string; quote it"),
        ("---\nname: x\ndescription: [a]\n---\n", "x/SKILL.md:3: `description` must be a string, not a list"),
        ("---\nname: x\ndescription: &a b\n---\n", "x/SKILL.md:3: YAML anchors"),
    ],
)
def test_unusable_file_is_not_a_skill_and_reported_in_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(FrontMatterError) as raised:
        read(put(tmp_path, "x", text))
    assert str(raised.value).startswith(problem)


def test_file_over_256_kib_is_not_a_skill(tmp_path: Path) -> None:
    folder = put(tmp_path, "x", body="x" * MAX_BYTES)
    with pytest.raises(FrontMatterError, match="larger than 256 KiB"):
        read(folder)


def test_special_file_neither_blocks_nor_is_a_skill(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    os.mkfifo(tmp_path / "x/SKILL.md")
    with pytest.raises(FrontMatterError, match="not a regular file"):
        read(tmp_path / "x")


@pytest.mark.parametrize(
    ("folder", "name", "handle", "warning"),
    [
        ("pdf", "pdf", "pdf", ""),
        ("pdf", "", "pdf", "`name` is missing; used: pdf"),
        ("hook-development", "Hook Development", "hook-development", '"Hook Development" should be'),
        ("x", "PDF", "PDF", '"PDF" should be'),
        ("x", "code_explorer", "code_explorer", '"code_explorer" should be'),
        ("x", "a--b", "a--b", '"a--b" should be'),
        ("x", "y" * 65, "x", "should be"),
        ("react", "vercel-react", "vercel-react", '"vercel-react" differs from the folder "react"'),
        ("my skill", "", "my-skill", "`name` is missing; used: my-skill"),
        ("x", "123", "x", "`name` must be a string; quote it"),
        ("x", "[a]", "x", "`name` must be a string, not a list"),
    ],
)
def test_name_gives_the_handle_and_at_most_one_warning(
    tmp_path: Path, folder: str, name: str, handle: str, warning: str
) -> None:
    skill = read(put(tmp_path, folder, name=name))
    assert skill.handle == handle
    assert [warning in item for item in skill.warnings] == ([True] if warning else [])


def test_skill_without_a_name_that_can_be_typed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FrontMatterError, match="can be typed"):
        read(put(tmp_path, "技能", name="技能"))


def test_long_description_is_a_warning(tmp_path: Path) -> None:
    skill = read(put(tmp_path, "x", description="y" * 1_068))
    assert skill.warnings == ("x/SKILL.md:3: `description` is too long: 1,068 of at most 1,024 characters",)


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Read Grep Bash(git:*)", ("Read", "Grep", "Bash(git:*)")),
        ("Read, Bash(git log *)", ("Read", "Bash(git log *)")),
        ("[Read, Grep]", ("Read", "Grep")),
        ("\n  - Read\n  - Bash(git:*)", ("Read", "Bash(git:*)")),
    ],
)
def test_allowed_tools_are_a_text_or_a_list(tmp_path: Path, value: str, tools: tuple[str, ...]) -> None:
    skill = read(put(tmp_path, "x", allowed_tools=value))
    assert skill.allowed_tools == tools
    assert skill.warnings == ()


def test_fields_of_claude_code_are_used(tmp_path: Path) -> None:
    text = (
        "---\nname: x\ndescription: Does x.\nwhen_to_use: When asked.\nargument-hint: [file] [format]\n"
        "arguments: [file, format]\ndisable-model-invocation: yes\nuser-invocable: 0\nmodel: haiku\ncontext: fork\n"
        "agent: Explore\nmetadata:\n  version: 1.0\n---\nbody"
    )
    skill = read(put(tmp_path, "x", text))
    assert skill.description == "Does x. When asked."
    assert (skill.hint, skill.parameters) == ("[file] [format]", ("file", "format"))
    assert (skill.is_for_model, skill.is_for_user, skill.model) == (False, False, "haiku")
    assert (skill.forks, skill.agent) == (True, "Explore")
    assert (skill.warnings, skill.unknown_fields) == ((), ())


def test_unknown_fields_are_ignored_and_listed(tmp_path: Path) -> None:
    skill = read(put(tmp_path, "x", "---\nname: x\ndescription: y\nhooks: {a: b}\neffort: high\nversion: 1\n---\n"))
    assert skill.unknown_fields == ("hooks", "effort", "version")
    assert skill.warnings == ()


def test_optional_field_of_a_wrong_type_is_a_warning(tmp_path: Path) -> None:
    skill = read(put(tmp_path, "x", "---\nname: x\ndescription: y\nuser-invocable: maybe\nmodel: 1\n---\n"))
    assert skill.is_for_user
    assert [warning.partition(" ")[0] for warning in skill.warnings] == ["x/SKILL.md:4:", "x/SKILL.md:5:"]
