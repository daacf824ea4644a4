"""`Agent.begin`: facts of the model, the session, rules that follow the mode, limits."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from qcode import Hook, tool
from qcode.agent.agent import Agent
from qcode.agent.models.client import facts_of
from qcode.agent.models.selection import select_model
from qcode.agent.options import RunContext
from qcode.agent.sandbox import SessionSandbox
from qcode.agent.trust.store import TrustStore
from qcode.cli import context as cli_context
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from qcode.config.settings import ModelSettings
from qcode.protocol.errors import QcodeError, UsageError
from qcode.protocol.events import Notice, TurnEnded, TurnEvent
from qcode.protocol.usage import Price
from qcode.tools.workspace import Scratch
from tests.fakes.tools import spec_of


class Here:
    """A temporary home and folder, and runs in them."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.work = base / "work"
        self.home.mkdir()
        self.work.mkdir()

    def context(self, *argv: str, is_attended: bool = True) -> RunContext:
        return run_context(parse([*argv, "--trust"] if is_attended else argv), self.work, is_attended=is_attended)

    def open(self, *argv: str, is_attended: bool = True) -> Agent:
        context = self.context(*argv, is_attended=is_attended)
        return Agent.begin(context, select_model("demo/demo", context.settings, "a test"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    here = Here(tmp_path)
    monkeypatch.setenv("QCODE_HOME", str(here.home))
    monkeypatch.delenv("QCODE_MAX_OUTPUT_TOKENS", raising=False)
    monkeypatch.delenv("QWEN_CODE_MAX_OUTPUT_TOKENS", raising=False)
    return here


def play(agent: Agent, prompt: str) -> list[TurnEvent]:
    async def run() -> list[TurnEvent]:
        events = [event async for event in agent.conversation.submit(prompt)]
        await agent.conversation.close()
        return events

    return asyncio.run(run())


def test_configured_model_facts_override_the_catalog() -> None:
    known = facts_of("openai", "gpt-4o", None)
    price = Price(Decimal(1), Decimal(2))
    given = facts_of("openai", "gpt-4o", ModelSettings(max_output_tokens=99, images=False, price=price))
    assert known.can_read_images
    assert known.price not in (None, price)
    assert given == replace(known, max_output_tokens=99, can_read_images=False, price=price)


def test_unknown_model_has_only_configured_facts() -> None:
    assert facts_of("lab", "x", None).context_window is None
    facts = facts_of("lab", "x", ModelSettings(context_window=1000, prefill=True, inline_thinking=True))
    assert (facts.context_window, facts.can_prefill, facts.has_inline_thinking, facts.can_read_images) == (
        1000,
        True,
        True,
        None,
    )


def test_tool_rules_follow_the_mode(here: Here) -> None:
    agent = here.open("--permission-mode", "plan")
    conversation, workspace = agent.conversation, agent.toolbox.workspace
    with pytest.raises(Exception, match="plan mode"):
        workspace.resolve("new.txt", "write")
    conversation.set_mode("accept-edits")
    assert workspace.resolve("new.txt", "write").parts == ("new.txt",)
    conversation.set_mode("plan")
    with pytest.raises(Exception, match="plan mode"):
        workspace.resolve("new.txt", "write")


def test_long_output_is_in_a_private_folder_that_is_readable_and_deleted_at_the_end(here: Here) -> None:
    agent = here.open()
    scratch, policy = agent.toolbox.workspace.scratch, agent.conversation.policy
    assert scratch.stat().st_mode & 0o777 == 0o700
    (scratch / "shell-1.txt").write_text("all of it")
    assert policy.judge(spec_of("read"), {"path": f"{scratch}/shell-1.txt"}).verdict == "allow"
    assert policy.judge(spec_of("write"), {"path": f"{scratch}/shell-1.txt"}).verdict == "ask"
    agent.conversation.release()
    assert not scratch.exists()


def test_private_folder_that_was_not_released_is_deleted_with_its_owner(here: Here) -> None:
    agent = here.open()
    scratch = agent.toolbox.workspace.scratch
    agent.conversation.release()
    owner = Scratch()
    path = owner.path
    del owner
    gc.collect()
    assert not scratch.exists()
    assert not path.exists()


def test_commands_are_judged_with_the_path_variable_they_run_with(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "bin:/usr/bin::/bin")
    agent = here.open()
    assert agent.conversation.policy.search_path == "/usr/bin:/bin"
    agent.conversation.release()


def test_mode_instructions_follow_the_mode(here: Here) -> None:
    context = here.context("--permission-mode", "plan")
    agent = Agent.begin(context, select_model("demo/demo", context.settings, ""))
    agent.release()
    assert "Plan mode" in agent.prompts.system("demo/demo", "plan")
    assert "Plan mode" not in agent.prompts.system("demo/demo", "default")


def test_session_is_resumed_and_a_fork_leaves_it_unchanged(here: Here) -> None:
    first = here.open()
    play(first, "hello")
    stored = first.conversation.messages
    copy = here.open("-c", "--fork-session")
    assert copy.conversation.messages == stored
    assert copy.conversation.session_id != first.conversation.session_id
    copy.conversation.release()
    again = here.open("-r", first.conversation.session_id)
    assert again.conversation.session_id == first.conversation.session_id
    again.conversation.release()


def test_resumed_session_that_is_not_saved_stays_in_memory(here: Here) -> None:
    first = here.open()
    play(first, "hello")
    (file,) = here.home.rglob("*.jsonl")
    before = file.read_bytes()
    second = here.open("-c", "--no-session")
    assert second.conversation.messages == first.conversation.messages
    play(second, "and on")
    assert list(here.home.rglob("*.jsonl")) == [file]
    assert file.read_bytes() == before


def test_missing_session_to_resume_is_reported(here: Here) -> None:
    agent = here.open("-c")
    assert len(agent.notices) == 1
    assert "starting a new one" in agent.notices[0]
    agent.conversation.release()


def test_mention_that_cannot_be_attached_is_reported(here: Here) -> None:
    (here.work / "bad.bin").write_bytes(b"\0")
    events = play(here.open(), "look at @bad.bin")
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert "bad.bin" in notice.text
    assert isinstance(events[-1], TurnEnded)


def test_prompt_in_pipe_mode_has_a_size_limit_and_no_mentions(here: Here) -> None:
    (here.work / "a.txt").write_text("inside")
    agent = here.open(is_attended=False)
    events = play(agent, "look at @a.txt")
    assert agent.conversation.messages[0].text == "look at @a.txt"
    assert isinstance(events[-1], TurnEnded)


@pytest.mark.parametrize(("typed", "index"), [("", 0), ("2", 1), ("1", 0)])
def test_session_is_chosen_from_a_list(typed: str, index: int, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    for prompt in ("the first\x1b[2J one", "the second one"):
        play(here.open(), prompt)
    texts: list[str] = []

    def answering(text: str) -> str:
        texts.append(text)
        return typed

    monkeypatch.setattr(cli_context, "ask", answering)
    chosen = Agent.begin(cli_context.with_chosen_session(here.context("-r", "-m", "demo/demo")))
    (text,) = texts
    ids = [line.split()[1] for line in text.splitlines()[:-1]]
    assert len(ids) == 2
    assert "\x1b" not in text
    assert chosen.conversation.session_id == ids[index]
    chosen.conversation.release()


def test_session_cannot_be_chosen_without_a_user(here: Here) -> None:
    with pytest.raises(QcodeError, match="-c for the latest") as raised:
        cli_context.with_chosen_session(here.context("-p", "x", "-r", "-m", "demo/demo", is_attended=False))
    assert raised.value.exit_code == 2


def test_budget_needs_a_price_for_the_first_model_and_for_the_next(here: Here) -> None:
    agent = here.open("--max-budget-usd", "1")
    with pytest.raises(ValueError, match=r'price in \[models."ollama/x"\]'):
        agent.conversation.set_model("ollama/x")
    agent.conversation.release()
    with pytest.raises(QcodeError, match="needs a price") as raised:
        context = here.context("--max-budget-usd", "1")
        Agent.begin(context, select_model("ollama/x", context.settings, ""))
    assert raised.value.exit_code == 2


def test_invalid_flag_is_a_usage_error_and_an_invalid_file_a_config_error(here: Here) -> None:
    with pytest.raises(QcodeError, match="closing bracket") as raised:
        here.context("--disallowed-tools", "shell(rm")
    assert raised.value.exit_code == 2
    (here.home / "config.toml").write_text('[permissions]\ndeny = ["shell(rm"]\n')
    with pytest.raises(QcodeError, match="closing bracket") as raised:
        here.open()
    assert raised.value.exit_code == 52


def test_missing_required_sandbox_prevents_the_start(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionSandbox, "sandbox", None)
    (here.home / "config.toml").write_text('[tools]\nsandbox = "required"\n')
    with pytest.raises(QcodeError, match=r"config.toml:2: tools.sandbox") as raised:
        here.open()
    assert raised.value.exit_code == 52


def test_added_folders_become_absolute_paths(here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(here.work)
    context = here.context("--add-dir", "../other")
    assert [path.resolve() for path in context.added_folders] == [tmp_path / "other"]
    assert all(path.is_absolute() for path in context.added_folders)


def test_pipe_mode_trusts_only_remembered_folders(here: Here) -> None:
    (here.work / "AGENTS.md").write_text("Say moo.")
    unknown = here.open(is_attended=False)
    assert (unknown.conversation.policy.is_trusted, unknown.prompts.instructions.files) == (False, ())
    unknown.conversation.release()
    TrustStore(here.home / "state").remember(here.work)
    known = here.open(is_attended=False)
    assert known.conversation.policy.is_trusted
    assert [file.label for file in known.prompts.instructions.files] == ["AGENTS.md"]
    known.conversation.release()


def test_secret_header_is_not_stored_in_a_session(here: Here) -> None:
    (here.home / "config.toml").write_text(
        '[providers.lab]\ntype = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
        'headers = { Authorization = "Bearer canary-0123", X-Team = "production" }\n'
    )
    agent = here.open()
    play(agent, "hello canary-0123 of production")
    (file,) = here.home.rglob("*.jsonl")
    assert "canary-0123" not in file.read_text()
    assert "production" in file.read_text()


def test_failed_opening_leaves_no_file_open(here: Here) -> None:
    async def no_answer(facts: dict[str, Any], call_id: str | None) -> None:
        """Never called."""

    first = here.open()
    play(first, "hello")
    session_id = first.conversation.session_id
    context = here.context("-r", session_id, "--debug-log", str(here.home / "log.jsonl"))
    selection = select_model("demo/demo", context.settings, "a test")
    taken_name = tool(name="read")(lambda: "")
    with pytest.raises(UsageError, match="is already used"):
        Agent.begin(context, selection, tools=[taken_name])
    with pytest.raises(UsageError, match="unknown hook event"):
        Agent.begin(context, selection, hooks={"Nope": [Hook("", no_answer)]})
    assert not logging.getLogger("qcode").handlers
    resumed = here.open("-r", session_id)  # no lock is left
    assert resumed.conversation.messages
    resumed.conversation.release()
