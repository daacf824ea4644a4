"""Tool names and inputs of Claude Code: the table in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from qcode.agent.claude.tool_names import (
    ClaudeCall,
    UntranslatableError,
    claude_input,
    claude_name,
    claude_names,
    from_claude,
    qcode_name,
    to_claude,
)
from qcode.tools.registry import all_names

FOLDER = "/work/repo"

BOTH_WAYS: tuple[tuple[str, dict[str, Any], str, dict[str, Any]], ...] = (
    ("shell", {"command": "ls", "timeout_s": 20}, "Bash", {"command": "ls", "timeout": 20_000}),
    ("shell", {"command": "ls", "timeout_s": 0.25}, "Bash", {"command": "ls", "timeout": 250}),
    (
        "shell",
        {"command": "ls", "background": True, "unconfined": True},
        "Bash",
        {"command": "ls", "run_in_background": True, "dangerouslyDisableSandbox": True},
    ),
    ("read", {"path": "/a/b", "offset": 3, "limit": 9}, "Read", {"file_path": "/a/b", "offset": 3, "limit": 9}),
    ("write", {"path": "/a/b", "content": "x"}, "Write", {"file_path": "/a/b", "content": "x"}),
    (
        "edit",
        {"path": "/a", "old_text": "x", "new_text": "y", "replace_all": True},
        "Edit",
        {"file_path": "/a", "old_string": "x", "new_string": "y", "replace_all": True},
    ),
    (
        "multi_edit",
        {"path": "/a", "edits": [{"old_text": "x", "new_text": "y"}]},
        "MultiEdit",
        {"file_path": "/a", "edits": [{"old_string": "x", "new_string": "y"}]},
    ),
    (
        "notebook_edit",
        {"path": "/a.ipynb", "cell": "c1", "source": "1", "mode": "insert", "cell_type": "code"},
        "NotebookEdit",
        {"notebook_path": "/a.ipynb", "cell_id": "c1", "new_source": "1", "edit_mode": "insert", "cell_type": "code"},
    ),
    ("ls", {"path": "src", "depth": 2}, "LS", {"path": "src", "depth": 2}),
    ("glob", {"pattern": "*.py", "path": "src"}, "Glob", {"pattern": "*.py", "path": "src"}),
    (
        "grep",
        {"pattern": "x", "output": "files", "ignore_case": True},
        "Grep",
        {"pattern": "x", "output_mode": "files_with_matches", "-i": True},
    ),
    ("grep", {"pattern": "x", "output": "count"}, "Grep", {"pattern": "x", "output_mode": "count"}),
    ("fetch", {"url": "https://a.example"}, "WebFetch", {"url": "https://a.example"}),
    ("web_search", {"query": "x"}, "WebSearch", {"query": "x"}),
    (
        "todo",
        {"items": [{"task": "a", "state": "done"}, {"task": "b", "state": "pending"}]},
        "TodoWrite",
        {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]},
    ),
    (
        "agent",
        {"description": "d", "prompt": "p", "kind": "explore"},
        "Agent",
        {"description": "d", "prompt": "p", "subagent_type": "explore"},
    ),
    ("exit_plan_mode", {"plan": "1. x"}, "ExitPlanMode", {"plan": "1. x"}),
    ("skill", {"name": "pdf", "arguments": "a b"}, "Skill", {"skill": "pdf", "args": "a b"}),
    ("jobs", {"action": "list"}, "jobs", {"action": "list"}),
    ("diagnostics", {}, "diagnostics", {}),
    ("files__read_file", {"path": "a"}, "mcp__files__read_file", {"path": "a"}),
    (
        "ask_person",
        {"question": "Which color is it?", "choices": [{"label": "red", "detail": "warm"}]},
        "AskUserQuestion",
        {
            "questions": [
                {
                    "question": "Which color is it?",
                    "header": "Which color",
                    "options": [{"label": "red", "description": "warm"}],
                    "multiSelect": False,
                }
            ]
        },
    ),
    (
        "ask_person",
        {"question": "Which?", "choices": [{"label": "red"}, {"label": "blue"}], "multi_select": True},
        "AskUserQuestion",
        {
            "questions": [
                {
                    "question": "Which?",
                    "header": "Which?",
                    "options": [{"label": "red", "description": ""}, {"label": "blue", "description": ""}],
                    "multiSelect": True,
                }
            ]
        },
    ),
)


@pytest.mark.parametrize(("name", "arguments", "theirs", "values"), BOTH_WAYS)
def test_call_is_translated_both_ways(
    name: str, arguments: dict[str, Any], theirs: str, values: dict[str, Any]
) -> None:
    assert to_claude(name, arguments, FOLDER) == (ClaudeCall(theirs, values),)
    assert from_claude(theirs, values) == (name, arguments)


def test_every_built_in_tool_is_in_the_table() -> None:
    own_names = {"jobs", "diagnostics", "apply_patch"}
    assert {name for name in all_names() if claude_name(name) == name} == own_names


@pytest.mark.parametrize(("name", "field"), [("read", "file_path"), ("notebook_edit", "notebook_path")])
def test_relative_path_becomes_absolute_and_keeps_parent_steps(name: str, field: str) -> None:
    (call,) = to_claude(name, {"path": "./src/../a"}, FOLDER)
    assert call.input[field] == "/work/repo/src/../a"


def test_home_folder_is_expanded_as_in_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert claude_input("read", {"path": "~/.ssh/id"}, FOLDER) == {"file_path": "/home/me/.ssh/id"}
    assert claude_input("read", {"path": "~other/x"}, FOLDER) == {"file_path": "/work/repo/~other/x"}


def test_task_of_claude_code_means_the_agent_tool() -> None:
    assert qcode_name("Task") == qcode_name("Agent") == "agent"
    assert claude_names("agent") == ("Agent", "Task", "agent")


def test_name_of_a_server_tool_is_the_one_the_server_gave() -> None:
    known = {"files__read_file_2": "read.file/2"}
    assert claude_name("files__read_file_2", known) == "mcp__files__read.file/2"
    assert qcode_name("mcp__files__read.file/2") == "files__read_file_2"


@pytest.mark.parametrize("name", ["__x", "x__", "mcp__x", "mcp__", "Unheard", ""])
def test_name_that_is_not_one_of_claude_is_unchanged(name: str) -> None:
    assert qcode_name(name) == name


PATCH = """*** Begin Patch
*** Add File: new.py
+print()
*** Update File: old.py
*** Move to: /elsewhere/.env
@@
-a
+b
*** Delete File: gone.py
*** End Patch"""


def test_patch_becomes_one_call_per_file_and_shows_the_target_of_a_move() -> None:
    calls = to_claude("apply_patch", {"input": PATCH}, FOLDER)
    assert [(call.name, call.input["file_path"]) for call in calls] == [
        ("Write", "/work/repo/new.py"),
        ("Edit", "/work/repo/old.py"),
        ("Write", "/elsewhere/.env"),
        ("Edit", "/work/repo/gone.py"),
    ]
    assert all(call.is_patch_part for call in calls)
    assert calls[0].input["patch"] == "*** Add File: new.py\n+print()"
    assert calls[1].input["patch"] == "*** Update File: old.py\n*** Move to: /elsewhere/.env\n@@\n-a\n+b"


def test_whole_patch_has_the_form_of_codex_both_ways() -> None:
    assert claude_input("apply_patch", {"input": PATCH}, FOLDER) == {"command": PATCH}
    assert from_claude("apply_patch", {"command": PATCH}) == ("apply_patch", {"input": PATCH})


@pytest.mark.parametrize("arguments", [{}, {"input": 3}, {"input": "no patch"}])
def test_unreadable_patch_is_one_call(arguments: dict[str, Any]) -> None:
    (call,) = to_claude("apply_patch", arguments, FOLDER)
    assert call.name == "apply_patch"
    assert not call.is_patch_part


def test_active_form_of_a_todo_is_left_out() -> None:
    todos: dict[str, Any] = {"todos": [{"content": "a", "status": "in_progress", "activeForm": "doing a"}]}
    assert from_claude("TodoWrite", todos) == ("todo", {"items": [{"task": "a", "state": "in_progress"}]})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("AskUserQuestion", {"questions": [{"question": "a"}, {"question": "b"}]}),
        ("AskUserQuestion", {"questions": []}),
        ("AskUserQuestion", {"questions": "x"}),
        ("AskUserQuestion", {"questions": [{"question": "a", "options": ["b"]}]}),
        ("Write", {"file_path": "/allowed", "path": "/other", "content": ""}),
    ],
)
def test_call_without_an_equivalent_is_refused(name: str, values: dict[str, Any]) -> None:
    with pytest.raises(UntranslatableError):
        from_claude(name, values)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Bash", {"command": 3, "timeout": "soon"}),
        ("Bash", {"timeout": True}),
        ("Read", {"file_path": None}),
        ("MultiEdit", {"edits": "x"}),
        ("MultiEdit", {"edits": [3]}),
        ("TodoWrite", {"todos": None}),
        ("TodoWrite", {"todos": [None]}),
        ("Grep", {"output_mode": []}),
    ],
)
def test_values_of_other_types_are_kept_for_the_schema_to_refuse(name: str, values: dict[str, Any]) -> None:
    ours, arguments = from_claude(name, values)
    assert to_claude(ours, arguments, FOLDER) == (ClaudeCall(name, values),)


@pytest.mark.parametrize("timeout", [float("inf"), 10**400])
def test_timeout_without_an_equivalent_does_not_raise(timeout: float) -> None:
    name, arguments = from_claude("Bash", {"command": "make", "timeout": timeout})
    assert name == "shell"
    assert arguments == {"command": "make", "timeout_s": timeout}
