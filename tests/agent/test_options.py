from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.agent import Agent
from qcode.agent.options import Options, RunContext
from qcode.agent.trust.store import TrustStore
from qcode.protocol.errors import InputError, QcodeError, UsageError
from qcode.protocol.events import TurnEnded
from tests.fakes.scripted import ScriptedProvider, text_reply


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "work").mkdir()
    return {"QCODE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


def read(home: dict[str, str], **options: object) -> RunContext:
    work = Path(home["HOME"]) / "work"
    return RunContext.read(Options(cwd=work, **options), home)  # type: ignore[arg-type]


def test_context_needs_no_command_line(home: dict[str, str]) -> None:
    context = read(home, model="demo/demo", max_output_tokens=500)
    assert context.folder == Path(home["HOME"]) / "work"
    assert (context.settings.model, context.settings.output.max_tokens) == ("demo/demo", 500)
    assert not context.is_attended


@pytest.mark.parametrize("name", [".git", ".qcode", ".claude"])
def test_project_with_a_folder_that_cannot_be_searched_can_be_opened(home: dict[str, str], name: str) -> None:
    work = Path(home["HOME"]) / "work"
    (work / name).symlink_to("x" * 300)  # as a folder of another user
    context = read(home)
    assert (context.root, context.is_trusted, context.settings.warnings) == (work.resolve(), False, ())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("reasoning_effort", "zz", "reasoning_effort must be one of none, minimal, low, medium, high, max, not 'zz'"),
        ("timeout", 0, "timeout must be a number of seconds greater than 0, not 0"),
        ("wait_for_limit", -1, "wait_for_limit must be a number of seconds, not -1"),
        ("max_turns", 0, "max_turns must be a whole number of at least 1, not 0"),
    ],
)
def test_invalid_option_is_reported_by_the_name_of_its_field(
    home: dict[str, str], field: str, value: object, message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        read(home, **{field: value})
    assert str(raised.value) == message


@pytest.mark.parametrize("field", ["allowed_tools", "add_dir", "fallback_model", "mcp_config"])
def test_none_for_a_list_is_reported_by_the_name_of_its_field(field: str) -> None:
    with pytest.raises(TypeError, match=rf"Options\({field}=\.\.\.\) takes a list"):
        Options(**{field: None})  # type: ignore[arg-type]  # the wrong type is the subject


def test_provider_as_the_model_answers_a_turn_without_a_key_or_a_server(home: dict[str, str]) -> None:
    provider = ScriptedProvider([text_reply("hello there")])

    async def run() -> str:
        async with Agent.open(read(home, model=provider, no_session=True)) as agent:
            assert agent.conversation.model == "scripted/scripted"
            events = [event async for event in agent.conversation.submit("hi")]
        assert isinstance(events[-1], TurnEnded)
        return events[-1].text

    assert asyncio.run(run()) == "hello there"
    assert not provider.closed


def test_folder_is_trusted_by_option_earlier_run_or_answer(home: dict[str, str]) -> None:
    plain = read(home)
    assert not plain.is_trusted
    assert read(home, trust=True).is_trusted
    asked: list[Path] = []

    def judge(folder: Path, root: Path, state_dir: Path) -> bool:
        asked.extend((folder, root, state_dir))
        return True

    options = Options(cwd=plain.folder)
    assert RunContext.read(options, home, judge_trust=judge).is_trusted
    assert asked == [plain.folder, plain.root, plain.paths.state_dir]
    TrustStore(plain.paths.state_dir).remember(plain.root)
    assert read(home).is_trusted


def test_invalid_option_is_reported_before_the_trust_question(home: dict[str, str]) -> None:
    def judge(folder: Path, root: Path, state_dir: Path) -> bool:
        raise AssertionError("asked")

    with pytest.raises(InputError, match="--add-dir"):
        RunContext.read(Options(cwd=Path(home["HOME"]), add_dir=(Path("/nowhere/at/all"),)), home, judge_trust=judge)
    with pytest.raises(QcodeError, match="closing bracket") as raised:
        read(home, disallowed_tools=("shell(rm",))
    assert raised.value.exit_code == 2


def test_schema_adds_its_instructions_to_the_prompt(home: dict[str, str]) -> None:
    context = read(home, json_schema='{"type": "object"}', append_system_prompt="Be brief.")
    assert context.schema is not None
    assert (context.options.append_system_prompt or "").startswith("Be brief.\n\n")
    with pytest.raises(InputError, match="--json-schema"):
        read(home, json_schema="no schema")


def test_path_that_no_file_can_have_is_an_error_in_words(home: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"File name too long|does not exist"):
        read(home, add_dir=("x" * 5_000,))


@pytest.mark.parametrize("odd", ["a\0b", "\ud83d", Path("\ud83d")], ids=ascii)
@pytest.mark.parametrize(
    "name", ["cwd", "settings", "system_prompt_file", "exit_tools", "debug_log", "record", "add_dir", "mcp_config"]
)
def test_path_with_an_impossible_character_is_one_error(name: str, odd: str | Path) -> None:
    value: Any = [odd] if name in ("add_dir", "mcp_config") else odd
    with pytest.raises(UsageError, match=rf"Options\({name}=...\): '.*' has a character that no path can have"):
        Options(**{name: value})


def test_json_text_in_place_of_a_path_may_have_any_character() -> None:
    text = '{"mcpServers": {"\ud83d": {}}}'
    assert Options(mcp_config=[text], settings=text).mcp_config == (text,)
