"""Permission mode and model of a session that the app resumes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from qcode.agent.agent import Agent
from qcode.agent.models.selection import select_for_resume, select_model
from qcode.agent.options import LATEST, RunContext
from qcode.agent.sessions.resumption import restore_session
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from qcode.protocol.approvals import ApprovalMode
from qcode.protocol.events import Notice
from qcode.tui.opening import open_agent


class Folder:
    """A folder with its sessions. `run` opens an agent on the demo model, says something, and leaves it in a mode."""

    def __init__(self, base: Path) -> None:
        self.home, self.work = base / "home", base / "work"
        self.home.mkdir()
        self.work.mkdir()

    def context(self, *flags: str, is_attended: bool = True) -> RunContext:
        return run_context(parse(flags), self.work, is_attended=is_attended, ask_trust=lambda _: "restricted")

    def open(self, *flags: str, is_attended: bool = True) -> Agent:
        context = self.context(*flags, is_attended=is_attended)
        return open_agent(context, select_model("demo/demo", context.settings, "a test"))

    def run(self, *flags: str, then: ApprovalMode | None = None, is_attended: bool = True) -> None:
        agent = self.open("--trust", *flags, is_attended=is_attended)

        async def talk() -> None:
            async for _ in agent.conversation.submit("hello"):
                pass
            if then is not None:
                agent.conversation.set_mode(then)
            await agent.conversation.close()

        asyncio.run(talk())

    def resume(self, *flags: str) -> tuple[ApprovalMode, list[Notice]]:
        """Return the mode after `qcode -c`, and the notices."""
        agent = self.open("-c", *flags)
        notices = list(restore_session(agent.conversation, agent.context.options))
        agent.conversation.release()
        return agent.conversation.mode, notices

    def records(self) -> list[dict[str, str]]:
        (file,) = self.home.rglob("*.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    folder = Folder(tmp_path)
    monkeypatch.setenv("QCODE_HOME", str(folder.home))
    return folder


@pytest.mark.parametrize("mode", ["plan", "accept-edits"])
def test_mode_of_a_session_is_restored_and_named(mode: ApprovalMode, folder: Folder) -> None:
    folder.run(then=mode)
    restored, (notice,) = folder.resume("--trust")
    assert restored == mode
    assert notice == Notice("info", f"Mode: {mode}, as when you left this session. /mode switches it.")


def test_mode_of_a_session_replaces_the_configured_one(folder: Folder) -> None:
    folder.run("--permission-mode", "plan", then="default")
    (folder.home / "config.toml").write_text('[permissions]\nmode = "accept-edits"\n')
    restored, notices = folder.resume("--trust")
    assert restored == "default"
    assert [notice.text for notice in notices] == ["Mode: ask, as when you left this session. /mode switches it."]


def test_mode_that_was_never_changed_is_not_recorded(folder: Folder) -> None:
    folder.run()
    assert "mode" not in [record["kind"] for record in folder.records()]
    assert folder.resume("--trust") == ("default", [])


def test_accept_edits_is_not_restored_in_a_restricted_folder(folder: Folder) -> None:
    folder.run(then="accept-edits")
    restored, (notice,) = folder.resume()
    assert restored == "default"
    assert "accept-edits mode, which needs a trusted folder. The mode is ask." in notice.text
    assert folder.resume("--trust")[0] == "accept-edits"


@pytest.mark.parametrize("mode", ["auto", "bypass"])
def test_mode_that_runs_without_asking_is_never_restored(mode: ApprovalMode, folder: Folder) -> None:
    folder.run("--permission-mode", mode)
    restored, (notice,) = folder.resume("--trust")
    assert restored == "default"
    assert f"{mode} mode, which is not restored. The mode is ask." in notice.text
    assert f"--permission-mode {mode}" in notice.text
    assert folder.resume("--trust") == ("default", [])


def test_flag_decides_the_mode_and_is_recorded(folder: Folder) -> None:
    folder.run(then="accept-edits")
    assert folder.resume("--trust", "--permission-mode", "plan") == ("plan", [])
    assert folder.resume("--trust")[0] == "plan"


def test_unattended_run_neither_records_nor_restores_the_mode(folder: Folder) -> None:
    folder.run("--permission-mode", "accept-edits", is_attended=False)
    assert "mode" not in [record["kind"] for record in folder.records()]
    folder.run("-c", then="plan")
    agent = folder.open("-c", "--trust", is_attended=False)
    assert agent.conversation.mode == "default"
    agent.conversation.release()


def test_mode_is_recorded_with_the_first_message(folder: Folder) -> None:
    agent = folder.open("--trust")
    agent.conversation.set_mode("plan")
    agent.conversation.set_mode("accept-edits")
    agent.conversation.release()
    assert not list(folder.home.rglob("*.jsonl"))
    folder.run("--permission-mode", "plan")
    assert [record["kind"] for record in folder.records()][:3] == ["session", "mode", "message"]


def write_session(folder: Folder, model: str) -> None:
    folder.run()
    (file,) = folder.home.rglob("*.jsonl")
    header, *rest = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(header), "model": model}, separators=(",", ":")), *rest, ""]))


def test_resumed_session_keeps_its_model(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-2")
    write_session(folder, "openai/gpt-4o")
    selection = select_for_resume(folder.context("-c"))
    assert (selection.name, selection.note) == ("openai/gpt-4o", "the model of this session")
    assert select_for_resume(folder.context("-c", "-m", "anthropic/claude-x")).name == "anthropic/claude-x"


def test_resumed_session_whose_model_has_no_key_says_so(folder: Folder) -> None:
    write_session(folder, "openai/gpt-4o")
    assert select_for_resume(folder.context("-c", "-m", "demo/demo")).name == "demo/demo"
    _, (notice,) = folder.resume("--trust")
    assert notice.text.startswith("This session used openai/gpt-4o, which cannot be used now: ")
    assert "Continuing with demo/demo." in notice.text
    assert folder.resume("--trust")[1] == []


def test_resumed_demo_session_names_the_missing_key_as_a_new_one_does(folder: Folder) -> None:
    folder.run()
    selection = select_for_resume(folder.context("-c"))
    assert (selection.name, selection.is_last_resort) == ("demo/demo", True)


def test_demo_session_continues_with_a_model_that_has_a_key(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.run()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-2")
    context = folder.context("-c", "--trust")
    assert context.options.resume == LATEST
    agent = open_agent(context, select_for_resume(context))
    (notice,) = restore_session(agent.conversation, context.options)
    agent.conversation.release()
    assert notice.text == f"This session used the demo model. Continuing with {agent.conversation.model}."
