"""Project files have the rights of the model: an `@path` in one of them never reads a secret."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from qcode.agent.agent import Agent
from qcode.agent.models.selection import select_model
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from qcode.config.definitions import CustomCommand, load_custom_commands
from qcode.protocol.approvals import TurnOptions
from qcode.protocol.events import Notice, TurnEvent
from qcode.tui.prompt.queue import Submission
from tests.e2e.running import CliRunner
from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn
from tests.safety.hostile.canaries import MARK, CanaryFolders, make_canaries

# The prompt of a project command, and the arguments that the user types after its name.
LEADING_OUT = {
    "@~/.ssh/id_rsa": "",
    "see @~/.ssh/id_rsa.": "now",
    '@"~/.ssh/id_rsa"': "",
    "@~/.ssh/id_rsa:1-2": "",
    "@~/.ssh/": "",
    "@.env": "",
    "@certs/site.key": "",
    "@notes/plain.txt": "",
    "@farm/key": "",
    "@farm/env": "",
    "@../outside/data.txt": "",
    "@~/documents/letter.txt": "",
    "@~/.ssh/{{args}}": "id_rsa",
    "@{{args}}": "~/.ssh/id_rsa",
    "{{args}}/../.ssh/id_rsa": "@~/documents",
    "{{args}}": "see this\n@{{args}} @nothing",
}


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CanaryFolders:
    canaries = make_canaries(tmp_path / "canaries")
    monkeypatch.setenv("HOME", str(canaries.home))
    monkeypatch.setenv("QCODE_HOME", str(canaries.home / ".config/qcode"))
    return canaries


def opened(canaries: CanaryFolders) -> Agent:
    context = run_context(parse(["--trust"]), canaries.work, is_attended=True)
    return Agent.begin(context, select_model("demo/demo", context.settings, "a test"))


def command_of(canaries: CanaryFolders, prompt: str) -> CustomCommand:
    """Write a command of the project and read it as the app does."""
    (canaries.work / ".qcode/commands/go.toml").write_text(f"prompt = {json.dumps(prompt)}\n")
    found = load_custom_commands(canaries.home / ".config/qcode", canaries.work, reads_project=True)
    (command,) = found.commands
    return command


def sent(canaries: CanaryFolders, command: CustomCommand, typed: str) -> tuple[str, list[str]]:
    """Send a command as the app does; return the text that the model got, and the complaints about attachments."""
    ready = opened(canaries)

    async def run() -> list[TurnEvent]:
        options = TurnOptions(external_spans=command.project_ranges(typed))
        events = [event async for event in ready.conversation.submit(command.expand(typed), options=options)]
        await ready.conversation.close()
        return events

    events = asyncio.run(run())
    guidance = repr(ready.conversation.messages)
    notices = [event.text for event in events if isinstance(event, Notice)]
    return guidance, [text for text in notices if "not attached" in text]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prompt", LEADING_OUT)
def test_project_command_attaches_no_file_that_the_model_may_not_read(prompt: str, canaries: CanaryFolders) -> None:
    guidance, warnings = sent(canaries, command_of(canaries, prompt), LEADING_OUT[prompt])
    assert f"{MARK}-" not in guidance
    assert "<file" not in guidance
    assert "<folder" not in guidance
    assert any("mentioned in text of the project or a tool server" in text for text in warnings) == (
        prompt != "{{args}}"
    )


def test_project_command_attaches_files_of_the_workspace(canaries: CanaryFolders) -> None:
    text, warnings = sent(canaries, command_of(canaries, "see @docs/guide.md and @src/"), "")
    assert "# Guide" in text
    assert '<folder path="src/">' in text
    assert warnings == []


def test_arguments_of_a_project_command_are_user_text(canaries: CanaryFolders) -> None:
    text, _ = sent(canaries, command_of(canaries, "Compare {{args}} with @~/.ssh/id_rsa"), "@~/documents/letter.txt")
    assert (canaries.home / "documents/letter.txt").read_text().strip() in text
    assert f"{MARK}-ssh" not in text


def test_user_command_attaches_any_file_that_the_user_may_read(canaries: CanaryFolders) -> None:
    own = CustomCommand("mine", "See @~/documents/letter.txt", Path("mine.toml"))
    text, _ = sent(canaries, own, "")
    assert (canaries.home / "documents/letter.txt").read_text().strip() in text


def test_project_command_is_never_queued_as_user_text(canaries: CanaryFolders) -> None:
    command = command_of(canaries, "@~/.ssh/id_rsa")
    options = TurnOptions(command.model, command.output, command.project_ranges(""))
    assert not Submission(command.expand(""), "/go", options=options).is_steering


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prompt", ["@~/.ssh/id_rsa", "@.env", "@farm/key", "@~/.ssh/{{args}}"])
def test_pipe_mode_refuses_forbidden_files_of_a_project_command(prompt: str, tmp_path: Path) -> None:
    cli = CliRunner(tmp_path)
    canaries = make_canaries(tmp_path)
    (canaries.work / ".qcode/commands/go.toml").write_text(f"prompt = {json.dumps('see ' + prompt)}\n")
    with FakeServer("anthropic", [Turn(text="Done.")]) as server:
        done = cli.ask(server, "-p", "/go id_rsa", "--trust")
        results = json.dumps([asked.body for asked in server.requests])
    assert done.code == 0
    assert "see @" in results
    assert f"{MARK}-" not in results
    assert "mentioned in text of the project or a tool server" in done.err


AGENTS = (
    "@~/.ssh/id_rsa",
    "@.env",
    "@deploy/id_ed25519",
    "@notes/plain.txt",
    "@farm/key",
    "@farm/env",
    "@second-name.txt",
)


@pytest.mark.parametrize("line", AGENTS)
def test_project_instructions_import_no_secret(line: str, canaries: CanaryFolders) -> None:
    (canaries.work / "AGENTS.md").write_text(f"Be brief. {line}\n")
    found = opened(canaries).memory.read()
    assert f"{MARK}-" not in found.text
    assert found.notices != ()


@pytest.mark.parametrize("target", [".env", "notes/plain.txt", "../home/.ssh/id_rsa", "certs/site.key"])
def test_instructions_linked_to_a_secret_are_not_read(target: str, canaries: CanaryFolders) -> None:
    (canaries.work / "AGENTS.md").unlink()
    (canaries.work / "AGENTS.md").symlink_to(target)
    found = opened(canaries).memory.read()
    assert f"{MARK}-" not in found.text
    assert found.files == ()


def test_user_rules_apply_to_imports(canaries: CanaryFolders) -> None:
    (canaries.home / ".config/qcode").mkdir(parents=True, exist_ok=True)
    (canaries.home / ".config/qcode/config.toml").write_text(
        '[permissions]\ndeny = ["read(docs/**)"]\nask = ["read(src/**)"]\n'
    )
    (canaries.work / "AGENTS.md").write_text("@docs/guide.md @src/app.py @locked.txt\n")
    found = opened(canaries).memory.read()
    assert [file.label for file in found.files] == ["AGENTS.md", "locked.txt"]


def test_project_sub_agent_attaches_no_file_through_its_prompt(canaries: CanaryFolders) -> None:
    (canaries.work / ".qcode/agents").mkdir()
    text = 'description = "Reviews."\nprompt = "Review. @~/.ssh/id_rsa @.env"\n'
    (canaries.work / ".qcode/agents/reviewer.toml").write_text(text)
    ready = opened(canaries)
    system = ready.prompts.subagent_system(ready.conversation.model, "Review. @~/.ssh/id_rsa @.env")
    assert "@~/.ssh/id_rsa" in system
    assert f"{MARK}-" not in system
