"""Agents in Claude Code's form become kinds of sub-agents that only take away."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from qcode import Agent, Notice
from qcode.agent.claude.agents import MAX_DESCRIPTION_CHARS, agent_kind, load_agents
from qcode.agent.definitions import kinds_of
from qcode.agent.options import Options, RunContext
from qcode.agent.subagent_kinds import MAX_STEPS
from qcode.config.paths import DefinitionFolder
from qcode.protocol.tools import ToolSpec
from qcode.testing import Call, Scripted

PLAIN = {"description": "reviews code", "prompt": "Review the diff."}


def offered(definition: dict[str, Any], *names: str) -> list[str]:
    kind = agent_kind("reviewer", {**PLAIN, **definition}).kind
    return [spec.name for spec in kind.select_tools(tuple(ToolSpec(name, "", {}) for name in names))]


def test_definition_without_tools_has_the_tools_of_the_conversation() -> None:
    assert offered({}, "read", "shell", "git__log") == ["read", "shell", "git__log"]


@pytest.mark.parametrize("tools", ["Read, Grep, Bash", "Read Grep Bash", ["Read", "Grep", "Bash(git log:*)"]])
def test_tools_are_named_in_a_text_or_a_list(tools: object) -> None:
    assert offered({"tools": tools}, "read", "grep", "shell", "write", "edit") == ["read", "grep", "shell"]


def test_one_edit_tool_in_a_definition_allows_all_edit_tools() -> None:
    assert offered({"tools": "Edit"}, "edit", "apply_patch", "write") == ["edit", "apply_patch"]
    assert offered({"tools": "apply_patch"}, "edit", "multi_edit", "write") == ["edit", "multi_edit"]
    assert offered({"disallowedTools": ["Edit", "Write"]}, "edit", "apply_patch", "write", "read") == ["read"]


def test_tools_of_servers_are_named_one_by_one_or_all() -> None:
    names = ("git__log", "git__push", "web__get", "read")
    assert offered({"tools": ["mcp__git__log"]}, *names) == ["git__log"]
    assert offered({"tools": ["mcp__git", "Read"]}, *names) == ["git__log", "git__push", "read"]
    assert offered({"disallowedTools": "mcp__git__*"}, *names) == ["web__get", "read"]


def test_other_fields_of_a_definition_are_mapped_or_listed_as_unused() -> None:
    found = agent_kind(
        "reviewer",
        {**PLAIN, "model": "haiku", "permissionMode": "plan", "maxTurns": 3, "color": "red", "hooks": None},
    )
    kind = found.kind
    assert (kind.model, kind.only_reads, kind.max_turns, found.unused_fields) == ("small", True, 3, ("color",))
    assert kind.prompt.endswith("\n\nReview the diff.")


@pytest.mark.parametrize("model", ["sonnet", "opus", "fable", "inherit", "claude-x", None])
def test_model_other_than_haiku_means_the_model_of_the_conversation(model: str | None) -> None:
    assert agent_kind("a", {**PLAIN, "model": model}).kind.model == "same"


def test_mode_that_would_add_permissions_is_ignored() -> None:
    found = agent_kind("a", {**PLAIN, "permissionMode": "bypassPermissions", "maxTurns": 1_000})
    assert (found.kind.only_reads, found.unused_fields, found.kind.max_turns) == (False, ("permissionMode",), MAX_STEPS)


def test_description_is_one_bounded_line() -> None:
    kind = agent_kind("a", {**PLAIN, "description": "When\n\\nto use <example>\x1b[31m" + "x" * 5_000}).kind
    assert kind.purpose.startswith("When to use <example>")
    assert len(kind.purpose) <= MAX_DESCRIPTION_CHARS
    assert kind.purpose.isprintable()


@pytest.mark.parametrize(
    ("name", "definition", "problem"),
    [
        ("a b", PLAIN, "name of an agent"),
        ("a", {"description": "x"}, "prompt is missing"),
        ("a", {"prompt": "x", "description": " "}, "description is missing"),
        ("a", {**PLAIN, "tools": "LSP, Monitor"}, "a sub-agent can use none of them"),
        ("a", {**PLAIN, "tools": []}, "a sub-agent can use none of them"),
        ("a", {**PLAIN, "tools": "Task, ExitPlanMode"}, r"a sub-agent can use none of them \(Task, ExitPlanMode\)"),
        ("a", {**PLAIN, "tools": 3}, "tools must be"),
        ("a", {**PLAIN, "model": 3}, "model must be"),
        ("a", {**PLAIN, "maxTurns": True}, "maxTurns must be"),
    ],
)
def test_unusable_definition_is_refused_in_one_line(name: str, definition: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        agent_kind(name, definition)


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


FORM = "---\nname: {name}\ndescription: Use it for {name}: always\n{fields}---\n\nYou review.\n"


def test_files_in_the_forms_of_real_agents_load(tmp_path: Path) -> None:
    fields = {
        "comma": "tools: Glob, Grep, LS, Read, NotebookRead, WebFetch, TodoWrite, WebSearch, KillShell, BashOutput\n",
        "list": 'tools: ["Read", "Bash(git log:*)"]\nmodel: sonnet\ncolor: green\n',
        "block": "tools:\n  - Read\n  - mcp__git\nmodel: inherit\nmaxTurns: 5\n",
        "none": "model: haiku\npermissionMode: plan\ndisallowedTools: Bash\n",
    }
    for name, text in fields.items():
        write(tmp_path, f"{name}.md", FORM.format(name=name, fields=text).replace("\n", "\r\n"))
    write(tmp_path, "README.md", "About these agents.")
    loaded = load_agents([DefinitionFolder(tmp_path)], ("explore",))
    found = {kind.name: kind for kind in loaded.kinds}
    assert loaded.problems == ()
    assert sorted(found["comma"].tools) == ["fetch", "glob", "grep", "ls", "read", "todo", "web_search"]
    assert sorted(found["list"].tools) == ["read", "shell"]
    assert (sorted(found["block"].tools), found["block"].max_turns) == (["git__", "read"], 5)
    assert (found["none"].model, found["none"].only_reads) == ("small", True)
    assert sorted(found["none"].excluded_tools) == ["shell"]
    assert found["none"].purpose == "Use it for none: always"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("You review.", "a.md:1: no front matter"),
        ("---\nname: a\n---\nx", "description is missing"),
        ("---\ndescription: 123\n---\nx", "a.md:2: `description` must be a string; quote it"),
        ("---\ndescription: x\ntools: LSP\n---\nx", "a.md:3: tools: a sub-agent can use none of them (LSP)"),
        ("---\ndescription: x\nmaxTurns: many\n---\nx", "a.md:3: `maxTurns` must be a whole number"),
        ("---\nname: a b\ndescription: x\n---\nx", "a.md:2: the name of an agent"),
        ("---\ndescription: x\n---\n", "the prompt is missing"),
        ("---\ndescription: x\n", "no second --- line"),
    ],
)
def test_unusable_file_is_one_line_and_the_others_load(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, "a.md", text)
    write(tmp_path, "b.md", FORM.format(name="b", fields=""))
    loaded = load_agents([DefinitionFolder(tmp_path)], ())
    assert [kind.name for kind in loaded.kinds] == ["b"]
    (reported,) = loaded.problems
    assert problem in reported
    assert "\n" not in reported


def test_agents_of_the_user_override_those_of_the_project(tmp_path: Path) -> None:
    own, project = tmp_path / "own", tmp_path / "project"
    write(own, "a.md", FORM.format(name="same", fields=""))
    write(project, "b.md", FORM.format(name="same", fields=""))
    write(project, "c.md", FORM.format(name="explore", fields=""))
    loaded = load_agents([DefinitionFolder(own), DefinitionFolder(project, project)], ("explore",))
    assert [kind.name for kind in loaded.kinds] == ["same"]
    assert [problem.partition(": ")[2] for problem in loaded.problems] == [
        "ignored, there is already a sub-agent same; rename it",
        "ignored, there is already a sub-agent explore; rename it",
    ]


def test_link_out_of_the_project_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "a.md", FORM.format(name="a", fields=""))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.md").symlink_to(tmp_path / "elsewhere" / "a.md")
    loaded = load_agents([DefinitionFolder(tmp_path / "project", tmp_path / "project")], ())
    assert loaded.kinds == ()
    assert "leads outside the project" in loaded.problems[0]


def test_special_and_huge_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    write(tmp_path, "huge.md", "---\ndescription: x\n---\n" + "x" * 300_000)
    loaded = load_agents([DefinitionFolder(tmp_path)], ())
    assert loaded.kinds == ()
    assert [problem.rpartition(": ")[2] for problem in loaded.problems] == [
        "the file is larger than 256 KiB",
        "not a regular file",
    ]


def test_folders_of_claude_code_are_read_after_those_of_qcode_and_of_a_project_after_trust(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    places = (tmp_path / "qcode" / "agents", home / ".claude/agents", work / ".qcode/agents", work / ".claude/agents")
    for number, place in enumerate(places):
        write(place, "a.md", FORM.format(name=f"kind{number}", fields=""))
    env = {"QCODE_HOME": str(tmp_path / "qcode"), "HOME": str(home)}

    def names(**options: Any) -> list[str]:
        found = kinds_of(RunContext.read(Options(cwd=work, **options), env))
        assert found.problems == ()
        return [kind.name for kind in found.kinds[2:]]

    assert names() == ["kind0", "kind1"]
    assert names(trust=True) == ["kind0", "kind1", "kind2", "kind3"]
    assert names(trust=True, setting_sources=["project"]) == ["kind2", "kind3"]
    assert names(trust=True, setting_sources=["user"]) == ["kind0", "kind1"]
    assert names(trust=True, user_config=False) == ["kind2", "kind3"]


BROKEN = """\
---
name: skill-reviewer
description: Use this agent when the user asks to "review my skill". Examples:

<example>
Context: User just created a new skill
user: "I've created a PDF skill"
assistant: "Great! Let me review: the skill."
</example>

model: inherit
color: cyan
tools: ["Read", "Grep"]
skills: [pdf, xlsx]
---

You review skills.
"""
"""The form of `agents/skill-reviewer.md` of the plugin `plugin-dev` in `anthropics/claude-code`, which is not YAML."""


def test_agent_whose_front_matter_is_not_yaml_is_read_by_lines_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(BROKEN)
    loaded = load_agents([DefinitionFolder(tmp_path)], ())
    (kind,), (warning,) = loaded.kinds, loaded.problems
    assert (kind.name, sorted(kind.tools), kind.skills) == ("skill-reviewer", ["grep", "read"], ("pdf", "xlsx"))
    assert kind.purpose == 'Use this agent when the user asks to "review my skill". Examples:'
    assert kind.prompt.endswith("You review skills.")
    assert warning.startswith(f"{tmp_path}/a.md:3: not YAML")
    assert warning.endswith("only its lines of the form `name: value` are used")


@pytest.mark.parametrize(
    ("tools", "known"),
    [
        ("tools:\n  - Read", {"read"}),
        ("tools:\n- Read\n- Grep", {"read", "grep"}),
        ("tools: [Read,\n  Grep]", None),
        ("tools:\n  - Read\n  bad: : [", None),
    ],
)
def test_agent_whose_front_matter_is_not_yaml_never_gets_more_tools(
    tmp_path: Path, tools: str, known: set[str] | None
) -> None:
    (tmp_path / "a.md").write_text(f"---\nname: a\ndescription: x\n<b>\n{tools}\nend: a: b\n---\nDo.\n")
    loaded = load_agents([DefinitionFolder(tmp_path)], ())
    assert [set(kind.tools) for kind in loaded.kinds] == ([] if known is None else [known])
    assert len(loaded.problems) == 1


def test_skills_of_an_agent_are_loaded_before_its_task(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    for name, text in {
        ".claude/agents/packer.md": "---\nname: packer\ndescription: packs\nskills: pack, nowhere\n---\nYou pack.\n",
        ".claude/skills/pack/SKILL.md": "---\nname: pack\ndescription: packs boxes\n---\nFold the box twice.\n",
    }.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    model = Scripted([Call("agent", description="d", prompt="Pack it.", kind="packer"), "packed", "done"])
    events: list[Any] = []

    async def play() -> None:
        context = RunContext.read(
            Options(cwd=work, model=model, trust=True),
            {**os.environ, "HOME": str(home), "QCODE_HOME": str(tmp_path / "q")},
        )
        async with Agent.open(context) as agent, agent.stream("go") as stream:
            events.extend([event async for event in stream])

    asyncio.run(play())
    (task,) = [request.messages[0].text for request in model.requests if "You pack." in request.system]
    assert task.index("Fold the box twice.") < task.index("Pack it.")
    notices = [event.event.text for event in events if hasattr(event, "event") and isinstance(event.event, Notice)]
    notices += [event.text for event in events if isinstance(event, Notice)]
    assert any("sub-agent packer: " in text and "nowhere" in text for text in notices)


def test_folders_of_claude_code_can_be_left_out(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    for name, folder in {
        "one": home / ".claude/agents",
        "two": work / ".claude/agents",
        "own": work / ".qcode/agents",
    }.items():
        folder.mkdir(parents=True)
        (folder / f"{name}.md").write_text(f"---\nname: {name}\ndescription: x\n---\nDo.\n")
    env = {**os.environ, "HOME": str(home), "QCODE_HOME": str(tmp_path / "q")}
    names = [
        {
            kind.name
            for kind in kinds_of(RunContext.read(Options(cwd=work, trust=True, settings={"skills": given}), env)).kinds
        }
        for given in ({}, {"foreign": False})
    ]
    assert names[0] - names[1] == {"one", "two"}
    assert "own" in names[1]
