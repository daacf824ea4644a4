"""Kinds of sub-agents from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.subagent_kinds import custom_kind
from qcode.config.definitions import CustomAgent, CustomAgents, load_custom_agents
from qcode.protocol.tools import EXPLORE
from qcode.tools.registry import specs

WHOLE = 'description = "Reviews."\nprompt = "Look."\nonly_reads = true\ntools = ["read"]\nmodel = "small"\n'
MINIMAL = 'description = "Reviews."\nprompt = "Look."\n'


def load(base: Path, own: dict[str, str], project: dict[str, str], *, is_trusted: bool = True) -> CustomAgents:
    for folder, files in ((base / "config/agents", own), (base / "work/.qcode/agents", project)):
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / f"{name}.toml").write_text(text)
    return load_custom_agents(base / "config", base / "work", reads_project=is_trusted, used_names=(EXPLORE,))


def test_agent_file_defines_a_kind_of_sub_agent(tmp_path: Path) -> None:
    found = load(tmp_path, {"reviewer": WHOLE}, {"writer": MINIMAL})
    assert found.agents == (
        CustomAgent("reviewer", "Reviews.", "Look.", only_reads=True, tools=("read",), model="small"),
        CustomAgent("writer", "Reviews.", "Look."),
    )
    assert found.problems == ()


def test_untrusted_project_has_no_kinds(tmp_path: Path) -> None:
    assert load(tmp_path, {}, {"writer": MINIMAL}, is_trusted=False).agents == ()


def test_user_kind_replaces_a_project_kind_of_the_same_name(tmp_path: Path) -> None:
    found = load(tmp_path, {"reviewer": WHOLE, EXPLORE: MINIMAL}, {"reviewer": MINIMAL})
    assert [agent.model for agent in found.agents] == ["small"]
    assert len(found.problems) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt = 'x'", "description must be"),
        ("description = 'x'", "prompt must be"),
        (f"{MINIMAL}mode = 'bypass'", ":3: unknown key mode; the nearest is model"),
        (f"{MINIMAL}model = 'opus'", "same or small"),
        (f"{MINIMAL}tools = 'read'", "list of tool names"),
        (f"{MINIMAL}only_reads = 1", "true or false"),
        (f"{MINIMAL}output = 1", ":3: output must be a table"),
        (f"{MINIMAL}[output]\nmax_token = 9", ":4: unknown key output.max_token; the nearest is output.max_tokens"),
        (f"{MINIMAL}[output]\nmax_tokens = 0", ":4: output.max_tokens must be"),
        ("no toml", "bad.toml"),
    ],
)
def test_invalid_agent_file_is_reported_with_its_path(tmp_path: Path, text: str, message: str) -> None:
    found = load(tmp_path, {"bad": text}, {})
    assert found.agents == ()
    assert message in found.problems[0]
    assert "\n" not in found.problems[0]


def test_custom_agent_has_only_the_tools_that_its_file_names() -> None:
    kind = custom_kind(CustomAgent("x", "p", "Look.", only_reads=True, tools=("read", "agent", "nothing")))
    assert [spec.name for spec in kind.select_tools(specs())] == ["read"]
    assert kind.prompt.endswith("Look.")
