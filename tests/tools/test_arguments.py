"""Invalid arguments give results that name the error and the expected value; nothing raises."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.text.json import Json
from qcode.tools.registry import BUILTIN, specs
from tests.fakes.examples import share
from tests.tools.conftest import TOOLS, ToolRunner


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("read", {}, 'missing argument "path" (expected: path (string), offset (integer, optional)'),
        ("read", {"file_path": "x"}, 'unknown argument "file_path"; did you mean "path"?'),
        ("read", {"path": 5}, 'argument "path" must be a string, not an integer'),
        ("read", {"path": None}, 'argument "path" must be a string, not null'),
        ("read", {"path": "x", "offset": "3"}, 'argument "offset" must be an integer, not a string'),
        ("read", {"path": "x", "offset": True}, "must be an integer, not a boolean"),
        ("read", {"path": "x", "offset": 0}, 'argument "offset" must be at least 1, not 0'),
        ("edit", {"path": "x", "old_text": "a"}, 'missing argument "new_text"'),
        ("edit", {"path": "x", "old_text": "a", "new_text": "b", "replace_all": "yes"}, "must be a boolean"),
        ("write", {"path": "x", "content": "\ud83d"}, "lone surrogate"),
        ("write", {"path": "x", "content": ["a"]}, "must be a string, not an array"),
        ("grep", {"pattern": "x", "output": "json"}, 'must be one of "content", "files", "count", not "json"'),
        ("shell", {"command": "ls", "timeout_s": 0}, "must be at least 1"),
        ("shell", {"command": " "}, "the command is empty"),
        ("shell", {"command": "a\0b"}, "NUL"),
    ],
)
def test_invalid_arguments_are_named(runner: ToolRunner, name: str, arguments: dict[str, Json], message: str) -> None:
    outcome = runner.run(name, **arguments)
    assert outcome.is_error
    assert message in outcome.content
    assert runner.preview(name, **arguments).refusal == outcome.content
    assert list(runner.root.iterdir()) == []


def test_null_for_an_optional_argument_counts_as_missing(runner: ToolRunner) -> None:
    runner.add("a.txt", "one\n")
    assert runner.run("read", path="a.txt", offset=None, limit=None).content == "     1\tone"
    assert runner.run("read", path="a.txt", offset=1.0).content == "     1\tone"


VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
NAMES = st.sampled_from(
    [
        "path",
        "content",
        "old_text",
        "new_text",
        "pattern",
        "glob",
        "offset",
        "limit",
        "output",
        "x",
        "edits",
        "input",
        "cell",
        "source",
        "mode",
        "paths",
        "items",
        "question",
        "choices",
        "depth",
        "pages",
    ]
)


@settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(set(TOOLS) - {"shell"})), st.dictionaries(NAMES, VALUES, max_size=4))
def test_tool_never_raises_for_any_arguments(runner: ToolRunner, name: str, arguments: dict[str, Json]) -> None:
    assert isinstance(runner.run(name, **arguments).content, str)
    assert isinstance(runner.preview(name, **arguments).question, str)


def test_registry_has_every_tool_once_with_a_description() -> None:
    assert [spec.name for spec in specs()] == [
        "read",
        "write",
        "edit",
        "multi_edit",
        "notebook_edit",
        "ls",
        "glob",
        "grep",
        "shell",
        "jobs",
        "diagnostics",
        "todo",
        "ask_person",
    ]
    every = [tool.spec for tool in BUILTIN]
    assert set(TOOLS) == {tool.spec.name for tool in BUILTIN}
    assert {spec.name for spec in every if spec.is_read_only} == {"read", "ls", "glob", "grep", "jobs", "todo"}
    assert {spec.name for spec in every if spec.writes_files} == {
        "write",
        "edit",
        "multi_edit",
        "apply_patch",
        "notebook_edit",
    }
    for spec in every:
        properties = spec.parameters["properties"]
        assert isinstance(properties, dict)
        assert set(spec.required) <= set(properties)
        assert spec.parameters["additionalProperties"] is False
        assert all(isinstance(schema, dict) and schema["description"] for schema in properties.values())


@pytest.mark.parametrize(
    ("model", "patches"),
    [
        ("gpt-5.1-codex", True), ("gpt-4o", True), ("o3", True), ("o4-mini", True), ("codex-mini-latest", True),
        ("openai/gpt-oss-120b", True), ("chatgpt-4o-latest", True), ("azure:gpt-4.1", True), ("us.openai.gpt-5", True),
        ("claude-sonnet-4-5", False), ("gemini-2.5-pro", False), ("qwen3-coder", False), ("olmo-2", False),
        ("deepseek-r1", False), ("llama-3-chatgpt-like", False), ("demo", False), ("", False), ("phi-o1", False),
    ],
)  # fmt: skip
def test_model_gets_the_edit_tool_it_was_trained_on(model: str, patches: bool) -> None:
    names = {spec.name for spec in specs(model)}
    assert ("apply_patch" in names) is patches
    assert ("edit" in names, "multi_edit" in names) == (not patches, not patches)
    assert {"read", "write", "shell"} <= names
