"""`qcode skills check` agrees with the reference checker: cases of `skills-ref` 0.1.1 (Apache-2.0), its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.skills.strict import check_folder

FIELDS = "['allowed-tools', 'compatibility', 'description', 'license', 'metadata', 'name']"
CASES = [
    ("my-skill", "name: my-skill\ndescription: A test skill", []),
    ("MySkill", "name: MySkill\ndescription: d", ["Skill name 'MySkill' must be lowercase"]),
    ("a" * 70, f"name: {'a' * 70}\ndescription: d", [f"Skill name '{'a' * 70}' exceeds 64 character limit (70 chars)"]),
    ("-my-skill", "name: -my-skill\ndescription: d", ["Skill name cannot start or end with a hyphen"]),
    ("my--skill", "name: my--skill\ndescription: d", ["Skill name cannot contain consecutive hyphens"]),
    (
        "my_skill",
        "name: my_skill\ndescription: d",
        ["Skill name 'my_skill' contains invalid characters. Only letters, digits, and hyphens are allowed."],
    ),
    (
        "wrong-name",
        "name: correct-name\ndescription: d",
        ["Directory name 'wrong-name' must match skill name 'correct-name'"],
    ),
    (
        "x",
        "name: x\ndescription: d\nunknown_field: v\nother: v",
        [f"Unexpected fields in frontmatter: other, unknown_field. Only {FIELDS} are allowed."],
    ),
    ("x", "name: x\ndescription: d\nlicense: MIT\nmetadata:\n  author: Test", []),
    ("x", "name: x\ndescription: d\nallowed-tools: Bash(jq:*) Bash(git:*)", []),
    ("技能", "name: 技能\ndescription: d", []),
    ("мой-навык", "name: мой-навык\ndescription: d", []),
    ("НАВЫК", "name: НАВЫК\ndescription: d", ["Skill name 'НАВЫК' must be lowercase"]),
    ("x", f"name: x\ndescription: {'x' * 1100}", ["Description exceeds 1024 character limit (1100 chars)"]),
    ("x", "name: x\ndescription: d\ncompatibility: Requires Python 3.11+", []),
    (
        "x",
        f"name: x\ndescription: d\ncompatibility: {'x' * 550}",
        ["Compatibility exceeds 500 character limit (550 chars)"],
    ),
    ("café", "name: cafe\u0301\ndescription: d", []),
    ("x", "description: d", ["Missing required field in frontmatter: name"]),
    ("x", "name: x", ["Missing required field in frontmatter: description"]),
    ("x", 'name: ""\ndescription: d', ["Field 'name' must be a non-empty string"]),
    ("x", 'name: x\ndescription: ""', ["Field 'description' must be a non-empty string"]),
]


@pytest.mark.parametrize(("folder", "fields", "expected"), CASES)
def test_problem_has_the_message_of_the_reference_checker(
    tmp_path: Path, folder: str, fields: str, expected: list[str]
) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "SKILL.md").write_text(f"---\n{fields}\n---\nBody\n")
    assert check_folder(tmp_path / folder) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no front matter", "SKILL.md must start with YAML frontmatter (---)"),
        ("---\nname: x\n", "SKILL.md frontmatter not properly closed with ---"),
        ("---\n- a\n---\n", "SKILL.md frontmatter must be a YAML mapping"),
        ('---\nname: "x\n---\n', "Invalid YAML in frontmatter: SKILL.md:3: not YAML: found unexpected end of stream"),
    ],
)
def test_unreadable_file_has_the_message_of_the_reference_checker(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/SKILL.md").write_text(text)
    assert check_folder(tmp_path / "x") == [expected]


def test_folder_without_a_skill_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert check_folder(tmp_path / "none") == [f"Path does not exist: {tmp_path}/none"]
    assert check_folder(tmp_path / "file") == [f"Not a directory: {tmp_path}/file"]
    assert check_folder(tmp_path) == ["Missing required file: SKILL.md"]
