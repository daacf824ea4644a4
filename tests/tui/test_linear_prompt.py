"""Shell lines and custom commands in the linear mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qcode.agent.toolbox import Toolbox
from qcode.config.definitions import CustomCommand
from qcode.config.settings import Tools
from qcode.protocol.approvals import TurnOptions
from qcode.protocol.tools import ToolOutcome
from tests.tui.scripted import ScriptedConversation
from tests.tui.test_linear import talk


async def shell(line: str, output: Callable[[str], None]) -> ToolOutcome:
    output("a.py\n")
    return ToolOutcome("a.py", summary="exit 0")


def test_shell_command_is_run_printed_and_kept() -> None:
    conversation = ScriptedConversation()
    output = "\n".join(talk(conversation, "!ls", run_user_command=shell))
    assert "Shell: ls" in output
    assert "a.py" in output
    assert "exit 0" in output
    assert conversation.prompts == []
    assert len(conversation.kept) == 1


@pytest.mark.parametrize(("width", "columns"), [(90, "88"), (0, "unset")])
def test_shell_command_gets_the_width_of_the_terminal_without_the_indent(
    width: int, columns: str, tmp_path: Path
) -> None:
    toolbox = Toolbox(tmp_path, (), Tools(), {"PATH": "/usr/bin:/bin"})
    try:
        output = talk(ScriptedConversation(), "!echo ${COLUMNS-unset}", width=width, toolbox=toolbox)
        assert f"  {columns}" in output
    finally:
        toolbox.close()


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        ("/connect openai", "`qcode auth login PROVIDER` stores a key"),
        ("/resume", "`!qcode sessions list` lists the sessions; `qcode -r ID` resumes one."),
        ("/compress", "qcode compacts when the context is nearly full"),
        ("/mcp", "`!qcode mcp list` lists the tool servers"),
        ("/rewind", "/help lists the commands."),
    ],
)
def test_command_that_needs_a_screen_names_another_way(typed: str, instead: str) -> None:
    output = " ".join(" ".join(talk(ScriptedConversation(), typed)).split())
    assert f"{typed.split()[0]} is not available in the linear mode. {instead}" in output


def test_custom_command_sends_its_prompt_with_its_options() -> None:
    conversation = ScriptedConversation()
    review = CustomCommand("review", "Review {{args}}.", Path("r.toml"), output={"max_tokens": 9})
    talk(conversation, "/review src", commands=(review,))
    assert conversation.prompts == ["Review src."]
    assert conversation.options == [TurnOptions("", {"max_tokens": 9}, shown_prompt="/review src")]


def test_api_key_is_held_back_until_it_is_sent_again() -> None:
    conversation = ScriptedConversation()
    key = "sk-" + "a1B2" * 8
    output = "\n".join(talk(conversation, key, "hello"))
    assert "This looks like an API key, so it was not sent to the model. qcode login PROVIDER stores a key" in output
    assert conversation.prompts == ["hello"]
    talk(conversation, key, key)
    assert conversation.prompts == ["hello", key]
