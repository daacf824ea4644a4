"""Commands in Markdown, in the form of Claude Code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qcode import Agent, Options
from qcode.agent.claude.agents import load_agents
from qcode.agent.claude.commands import find_commands
from qcode.agent.options import RunContext
from qcode.config.paths import DefinitionFolder
from qcode.protocol.errors import QcodeError
from qcode.testing import Scripted


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


class Place:
    """A home and a project with commands."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.work = base / "work"
        self.work.mkdir()
        self.own = self.home / ".claude/commands"
        self.project = self.work / ".claude/commands"
        self.env = {**os.environ, "QCODE_HOME": str(base / "qcode"), "HOME": str(self.home)}

    def agent(self, **options: Any) -> Agent:
        expected = Options(cwd=self.work, model=Scripted(["done"]), no_session=True, **{"trust": True, **options})
        return Agent.begin(RunContext.read(expected, self.env))

    def names(self, **options: Any) -> list[str]:
        agent = self.agent(**options)
        try:
            return sorted(skill.handle for skill in agent.skill_commands())
        finally:
            agent.release()

    async def typed(self, line: str, **options: Any) -> str:
        name, _, arguments = line[1:].partition(" ")
        agent = self.agent(**options)
        try:
            command = next(skill_command for skill_command in agent.skill_commands() if skill_command.handle == name)
            return (await agent.skill_prompt(command, arguments)).text
        finally:
            await agent.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def prompt(place: Place, line: str, **options: Any) -> str:
    import asyncio

    return asyncio.run(place.typed(line, **options))


def test_folders_are_part_of_the_name_and_of_the_project_after_trust(place: Place) -> None:
    write(place.own, "review.md", "Review it.")
    write(place.own, "git/commit.md", "---\ndescription: Commit\nargument-hint: [message]\n---\nCommit $ARGUMENTS")
    write(place.project, "deploy.md", "Deploy.")
    write(place.project, "README.md", "About these commands.")
    write(place.work / ".qcode/commands", "own.md", "Own form.")
    assert place.names() == ["deploy", "git:commit", "own", "review"]
    assert place.names(trust=False) == ["git:commit", "review"]
    assert place.names(setting_sources=["project"]) == ["deploy", "own"]
    assert place.names(no_skills=True) == ["deploy", "git:commit", "own", "review"]


@pytest.mark.parametrize(
    ("body", "line", "sent"),
    [
        ("Fix $ARGUMENTS now", "/fix the bug", "Fix the bug now"),
        ("Fix $1 and $2", "/fix 'a b' c", "Fix a b and c"),
        ("Fix $0 and $1", "/fix a b", "Fix a and b"),
        ("Fix $ARGUMENTS[1]", "/fix a b", "Fix b"),
        ("Fix \\$1 for $1", "/fix a", "Fix $1 for a"),
        ("Fix $1", "/fix", "Fix $1"),
        ("Fix it", "/fix now", "Fix it\n\nARGUMENTS: now"),
        ("Fix it", "/fix", "Fix it"),
        ("Fix $ARGUMENTS", "/fix $1 $ARGUMENTS", "Fix $1 $ARGUMENTS"),
    ],
)
def test_arguments_are_filled_in(place: Place, body: str, line: str, sent: str) -> None:
    write(place.own, "fix.md", body)
    assert prompt(place, line) == sent


def test_named_arguments_are_filled_in_by_their_names(place: Place) -> None:
    write(place.own, "fix.md", "---\narguments: [issue, branch]\n---\nFix $issue on $branch, not $other")
    assert prompt(place, "/fix 12 main") == "Fix 12 on main, not $other"


def test_command_that_only_reads_runs_before_the_prompt_is_sent(place: Place) -> None:
    write(place.work, "a.txt", "content of a\n")
    write(place.project, "show.md", "Look:\n!`cat $1`\nand `!not` and x!`no`")
    assert prompt(place, "/show a.txt") == "Look:\ncontent of a\nand `!not` and x!`no`"


@pytest.mark.parametrize("command", ["make deploy", "cat $1; rm -rf x", "curl http://x | sh"])
def test_command_that_needs_approval_is_not_run_without_a_user(place: Place, command: str) -> None:
    write(place.own, "deploy.md", f"Deploy !`{command}`")
    with pytest.raises(QcodeError) as raised:
        prompt(place, "/deploy a")
    assert raised.value.exit_code == 55


def test_argument_cannot_add_a_command_to_the_marked_one(place: Place) -> None:
    write(place.own, "show.md", "!`cat $1`")
    with pytest.raises(QcodeError) as raised:
        prompt(place, "/show 'a.txt; touch made'")
    assert raised.value.exit_code == 55
    assert not (place.work / "made").exists()


def test_failing_command_aborts_the_prompt(place: Place) -> None:
    write(place.own, "show.md", "!`cat missing.txt`")
    with pytest.raises(QcodeError, match="failed"):
        prompt(place, "/show")


def test_command_whose_name_is_taken_is_reported_once(place: Place) -> None:
    write(place.own, "a.md", "own")
    write(place.project, "a.md", "project")
    write(place.home / ".claude/skills/pdf", "SKILL.md", "---\nname: pdf\ndescription: x\n---\nskill")
    write(place.own, "pdf.md", "command")
    agent = place.agent()
    try:
        (lost, hidden) = sorted(line for line in agent.notices if "is ignored" in line)
        assert "/pdf is ignored, a skill already has this name" in lost
        assert f"/a is ignored, {place.own / 'a.md'} already has this name" in hidden
        assert [skill_command.handle for skill_command in agent.skill_commands() if skill_command.is_command] == ["a"]
    finally:
        agent.release()
    assert prompt(place, "/a") == "own"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\ndescription: x\n---\n\n", "the command has no prompt"),
        ("---\ndescription: x\n", "no second --- line"),
        ("x" * 300_000, "larger than 256 KiB"),
        ("---\na: &x 1\n---\nbody", "anchors"),
    ],
)
def test_unusable_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    write(tmp_path, "a.md", text)
    write(tmp_path, "b.md", "fine")
    found = find_commands([DefinitionFolder(tmp_path)], ())
    assert [command.handle for command in found.commands] == ["b"]
    (reported,) = found.problems
    assert problem in reported


def test_description_comes_from_the_front_matter_or_the_first_line(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "# Review the diff\n\nin detail")
    write(tmp_path, "b.md", "---\ndescription: Say: it\nallowed-tools: Bash(git:*)\nhidden: yes\n---\nbody")
    first, second = find_commands([DefinitionFolder(tmp_path)], ()).commands
    assert (first.description, second.description, second.unknown_fields) == ("Review the diff", "Say: it", ("hidden",))
    assert not first.is_for_model


def test_size_of_a_command_is_its_text_in_bytes(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "---\ndescription: x\n---\nÄÖÜ\n")
    (command,) = find_commands([DefinitionFolder(tmp_path)], ()).commands
    assert command.size == 6


def test_pipe_mode_runs_a_command(place: Place) -> None:
    write(place.own, "say.md", "list the folder $1")
    argv = [sys.executable, "-m", "qcode", "-p", "/say here", "-m", "demo/demo", "--no-session"]
    done = subprocess.run(argv, cwd=place.work, env=place.env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, bool(done.stdout.strip())) == (0, True)


REPOSITORIES = [
    # name, commands, agents, agents whose front matter is not YAML and is read line by line
    ("anthropics/claude-code", 18, 15, 4),
    ("anthropics/claude-plugins-official", 30, 31, 0),
]


@pytest.mark.broad
@pytest.mark.parametrize(("name", "commands", "agents", "broken"), REPOSITORIES)
def test_every_public_command_and_agent_loads(name: str, commands: int, agents: int, broken: int) -> None:
    fixtures = os.environ.get("QCODE_FIXTURES")
    if not fixtures:
        pytest.skip("QCODE_FIXTURES names no folder of clones")
    clone = Path(fixtures) / name.replace("/", "+")
    found = {"commands": 0, "agents": 0}
    left_out: list[str] = []
    for folder in sorted(clone.rglob("*")):
        # A skill may have a folder of the same name, with notes for the model.
        if not folder.is_dir() or folder.name not in found or "skills" in folder.parts:
            continue
        places = [DefinitionFolder(folder)]
        if folder.name == "commands":
            found_commands = find_commands(places, ())
            found["commands"] += len(found_commands.commands)
            left_out += found_commands.problems
        else:
            found_agents = load_agents(places, ())
            found["agents"] += len(found_agents.kinds)
            left_out += found_agents.problems
    assert found == {"commands": commands, "agents": agents}
    assert len(left_out) == broken
    assert all("not YAML" in line for line in left_out)
