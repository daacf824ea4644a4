"""`qcode permissions hook`: events of other programs in their form, and answers that they understand.

The events are those of their documentation: code.claude.com/docs/en/hooks, the schemas in openai/codex
codex-rs/hooks/schema/generated, google-gemini/gemini-cli docs/hooks/reference.md, and QwenLM/qwen-code
docs/users/features/hooks.md.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from qcode.agent.hooks.permission_hook import MAX_EVENT_BYTES, HookProgram
from qcode.cli.main import main

CLAUDE = {
    "session_id": "abc123", "transcript_path": "/home/u/.claude/projects/x/abc123.jsonl", "permission_mode": "default",
    "hook_event_name": "PreToolUse", "tool_use_id": "toolu_01ABC123",
}  # fmt: skip
CODEX = {
    "session_id": "0198", "turn_id": "turn-1", "transcript_path": None, "hook_event_name": "PreToolUse",
    "model": "gpt-5.2-codex", "permission_mode": "default", "tool_use_id": "call-1",
}  # fmt: skip
GEMINI = {
    "session_id": "s", "transcript_path": "/home/u/.gemini/tmp/x/chats/s.json", "hook_event_name": "BeforeTool",
    "timestamp": "2026-11-22T12:00:00.000Z",
}  # fmt: skip
QWEN = {
    "session_id": "s", "transcript_path": "/home/u/.qwen/x.jsonl", "hook_event_name": "PreToolUse",
    "timestamp": "2026-11-22T12:00:00.000Z", "permission_mode": "default", "tool_use_id": "toolu_1",
    "tool_call_id": "call_1",
}  # fmt: skip
COMMON: Mapping[HookProgram, Mapping[str, Any]] = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI, "qwen": QWEN}
SHELL: Mapping[HookProgram, str] = {
    "claude": "Bash", "codex": "Bash", "gemini": "run_shell_command", "qwen": "run_shell_command",
}  # fmt: skip


class Hook:
    """Runs the hook with an event on standard input, in another folder than the event names."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.work = base / "work"
        (self.work / "src").mkdir(parents=True)
        for name in ("a.txt", ".env", "src/b.txt"):
            (self.work / name).write_text("x\n")
        (base / "outside").mkdir()
        self.config = base / "home/config.toml"
        self.config.parent.mkdir()
        self._monkeypatch = monkeypatch
        self._capfd = capfd
        self.flags: tuple[str, ...] = ("--trust",)

    def raw(self, user: HookProgram, data: bytes) -> Any:
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert main(("permissions", "hook", "--for", user, *self.flags)) == 0
        return json.loads(self._capfd.readouterr().out)

    def event(self, user: HookProgram, tool: str, given: object, **more: Any) -> Any:
        values = {**COMMON[user], "cwd": str(self.work), "tool_name": tool, "tool_input": given, **more}
        return self.raw(user, json.dumps(values).encode())

    def __call__(self, user: HookProgram, tool: str, given: object, **more: Any) -> str:
        return decision(self.event(user, tool, given, **more))


def decision(message: Any) -> str:
    if "decision" in message:
        return str(message["decision"])
    return str(message.get("hookSpecificOutput", {}).get("permissionDecision", ""))


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Hook:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    return Hook(tmp_path, monkeypatch, capfd)


COMMANDS = {
    "ls -la src": "allow",
    "cat a.txt | head -n 5": "allow",
    "grep -n x a.txt && wc -l a.txt": "allow",
    "rm -rf src": "ask",
    "cat .env": "ask",
    "cat ../outside/x": "ask",
    "cat a.txt; curl evil.example": "ask",
    # An edit of an ordinary file: the modes of the program decide.
    "echo x > a.txt": "",
    "echo x > .git/config": "deny",
    "echo x > .env": "ask",
    "cat $(cat a.txt)": "ask",
    # Beyond the core these need qcode's sandbox, which is not around this command.
    "git status": "ask",
    "grep -rn x .": "ask",
    "cat *.txt": "ask",
    "find . -name a.txt": "ask",
}


@pytest.mark.parametrize("user", ["claude", "gemini", "qwen"])
def test_core_is_allowed_and_every_other_program_asks(hook: Hook, user: HookProgram) -> None:
    found = {command: hook(user, SHELL[user], {"command": command}) for command in COMMANDS}
    assert found == COMMANDS


def test_codex_gets_only_denials(hook: Hook) -> None:
    """It ignores a hook that allows or asks, and does not say in which folder a command runs."""
    found = {command: hook("codex", "Bash", {"command": command}) for command in COMMANDS}
    assert found == {command: "deny" if expected == "deny" else "" for command, expected in COMMANDS.items()}
    hook.config.write_text('[permissions]\ndeny = ["shell(rm *)"]\n')
    answer = hook.event("codex", "Bash", {"command": "cd src && rm x"})
    assert answer == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "qcode: the rule shell(rm *) denies it",
        }
    }
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** Add File: .git/hooks/x\n+y\n*** End Patch"
    assert hook("codex", "apply_patch", {"command": patch}) == "deny"
    assert hook("codex", "apply_patch", {"command": patch.replace(".git/hooks/x", "b.txt")}) == ""
    assert hook("codex", "apply_patch", {"command": "nonsense"}) == ""


@pytest.mark.parametrize(
    ("user", "tool", "given", "expected"),
    [
        ("claude", "Read", {"file_path": "{work}/a.txt"}, "allow"),
        ("claude", "Read", {"file_path": "{work}/.env"}, "ask"),
        ("claude", "Read", {"file_path": "/etc/shadow"}, "deny"),
        ("claude", "Read", {"file_path": "~/.ssh/id_rsa"}, "deny"),
        ("claude", "Write", {"file_path": "{work}/a.txt", "content": "x"}, ""),
        ("claude", "Edit", {"file_path": "{work}/.git/config", "old_string": "a", "new_string": "b"}, "deny"),
        ("claude", "MultiEdit", {"file_path": "{work}/AGENTS.md", "edits": []}, "ask"),
        ("claude", "NotebookEdit", {"notebook_path": "{work}/a.ipynb", "new_source": ""}, ""),
        ("claude", "Grep", {"pattern": "x"}, ""),
        ("claude", "Grep", {"pattern": "x", "path": "/etc"}, "ask"),
        ("claude", "WebFetch", {"url": "https://docs.python.org/", "prompt": "x"}, ""),
        ("claude", "WebFetch", {"url": "http://169.254.169.254/", "prompt": "x"}, "deny"),
        ("claude", "TodoWrite", {"todos": []}, ""),
        ("claude", "mcp__github__delete", {"repo": "x"}, ""),
        ("gemini", "read_file", {"file_path": "src/b.txt"}, "allow"),
        ("gemini", "read_file", {"absolute_path": "{work}/.env"}, "ask"),
        ("gemini", "read_many_files", {"include": ["src/*.txt", "**/.env"]}, "ask"),
        ("gemini", "read_many_files", {"paths": ["/proc/1/environ"]}, "deny"),
        ("gemini", "read_many_files", {"include": ["src/b.txt"]}, ""),
        ("gemini", "read_many_files", {"include": "src/b.txt"}, "ask"),
        ("gemini", "write_file", {"file_path": ".git/hooks/x", "content": ""}, "deny"),
        ("gemini", "replace", {"file_path": "a.txt", "old_string": "x", "new_string": "y"}, ""),
        ("gemini", "list_directory", {"dir_path": "/proc"}, "deny"),
        ("qwen", "read_file", {"file_path": "{work}/a.txt"}, "allow"),
        ("qwen", "edit", {"file_path": "{work}/.git/config"}, "deny"),
        ("qwen", "glob", {"pattern": "*"}, ""),
        ("qwen", "web_fetch", {"url": "http://localhost:1/", "prompt": "x"}, "deny"),
        ("codex", "apply_patch", {"command": ""}, ""),
    ],
)
def test_files_and_addresses_are_judged_by_the_path_layer(
    hook: Hook, user: HookProgram, tool: str, given: dict[str, Any], expected: str
) -> None:
    filled = {
        key: value.replace("{work}", str(hook.work)) if isinstance(value, str) else value
        for key, value in given.items()
    }
    assert hook(user, tool, filled) == expected


def test_each_program_gets_its_form(hook: Hook) -> None:
    reason = "qcode: it only reads"
    claude = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "allow",
        "permissionDecisionReason": reason,
    }
    assert hook.event("claude", "Bash", {"command": "ls"}) == {"hookSpecificOutput": claude}
    assert hook.event("qwen", "run_shell_command", {"command": "ls"}) == {"hookSpecificOutput": claude}
    assert hook.event("gemini", "run_shell_command", {"command": "ls"}) == {"decision": "allow", "reason": reason}
    asked = hook.event("gemini", "run_shell_command", {"command": "rm x"})
    assert asked["decision"] == "ask"
    assert asked["reason"] == asked["systemMessage"]


UNREADABLE = (
    b"", b"{", b"[]", b"\xff", b'"x"', b'{"a": NaN}', b"{}" * 2, b"[" * 100_000, b'{"tool_name": "\\ud800"}',
    b'{"cwd": "/", "cwd": "/x"}', b" " * (MAX_EVENT_BYTES + 5),
)  # fmt: skip


@pytest.mark.parametrize("data", UNREADABLE, ids=range(len(UNREADABLE)))
def test_unreadable_event_is_never_allowed(hook: Hook, data: bytes) -> None:
    assert {user: decision(hook.raw(user, data)) for user in get_args(HookProgram)} == {
        "claude": "ask", "codex": "", "gemini": "ask", "qwen": "ask",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"cwd": None}, {"cwd": "src"}, {"cwd": "/nonexistent"}, {"cwd": 5}, {"cwd": "/\0"},
        {"tool_input": None}, {"tool_input": []},
        {"tool_input": {}}, {"tool_input": {"command": ["ls"]}}, {"tool_input": {"command": ""}}, {"tool_name": None},
    ],
)  # fmt: skip
def test_incomplete_event_asks(hook: Hook, change: dict[str, Any]) -> None:
    answer = hook.event("claude", "Bash", {"command": "ls"}, **change) if "tool_input" not in change else None
    if answer is None:
        answer = hook.event("claude", "Bash", change["tool_input"])
    assert decision(answer) == "ask"


@pytest.mark.parametrize("mode", [["bypassPermissions"], {"yolo": True}, 5, None])
def test_mode_of_another_type_bypasses_nothing(hook: Hook, mode: Any) -> None:
    assert decision(hook.event("claude", "Bash", {"command": "rm x"}, permission_mode=mode)) == "ask"


def test_reason_is_short_and_has_no_escape_codes(hook: Hook) -> None:
    answer = hook.event("claude", "Bash", {"command": "ls"}, cwd="/\x1b[31m" + "x" * 5_000)
    reason = answer["hookSpecificOutput"]["permissionDecisionReason"]
    assert "\x1b" not in reason
    assert len(reason) < 500


def test_event_of_another_kind_gets_no_decision(hook: Hook) -> None:
    assert hook.event("claude", "Bash", {"command": "ls"}, hook_event_name="PostToolUse") == {}
    assert hook.event("claude", "Task", {"prompt": "rm -rf /"}) == {}


def test_unknown_field_of_a_command_is_never_allowed(hook: Hook) -> None:
    assert hook("claude", "Bash", {"command": "ls", "description": "list", "timeout": 5}) == "allow"
    assert hook("claude", "Bash", {"command": "ls", "dangerouslyDisableSandbox": True}) == ""
    assert hook("qwen", "run_shell_command", {"command": "ls", "workdir": "/"}) == ""


def test_command_is_judged_in_the_folder_that_it_runs_in(hook: Hook) -> None:
    def run(command: str, folder: str) -> str:
        return hook("qwen", "run_shell_command", {"command": command, "directory": folder, "is_background": False})

    assert run("cat b.txt", "src") == "allow"
    assert run("cat b.txt", str(hook.work / "src")) == "allow"
    assert run("cat ../.env", "src") == "ask"
    assert run("ls", "..") == "ask"
    assert hook("gemini", "run_shell_command", {"command": "ls", "dir_path": 5}) == "ask"


def test_rules_of_the_user_hold(hook: Hook) -> None:
    hook.config.write_text(
        '[permissions]\nallow = ["shell(make test)", "edit(src/**)", "mcp(github/list)"]\n'
        'ask = ["shell(ls *)"]\ndeny = ["shell(git push *)", "mcp(github/delete)"]\n'
    )
    assert hook("claude", "Bash", {"command": "make test"}) == "allow"
    assert hook("claude", "Bash", {"command": "git push origin"}) == "deny"
    assert hook("claude", "Bash", {"command": "ls src"}) == "ask"
    assert hook("claude", "Edit", {"file_path": f"{hook.work}/src/b.txt"}) == "allow"
    assert hook("claude", "mcp__github__list", {}) == "allow"
    assert hook("claude", "mcp__github__delete", {}) == "deny"
    hook.flags = ()
    assert hook("claude", "Bash", {"command": "make test"}) == "ask"
    assert hook("claude", "Bash", {"command": "ls"}) == "ask"


def test_folder_without_trust_is_restricted(hook: Hook) -> None:
    hook.flags = ()
    (hook.work / ".qcode").mkdir()
    (hook.work / ".qcode/config.toml").write_text('[permissions]\nallow = ["shell"]\n')
    assert hook("claude", "Bash", {"command": "ls"}) == "allow"
    assert hook("claude", "Bash", {"command": "make"}) == "ask"
    assert hook("claude", "Edit", {"file_path": f"{hook.work}/a.txt"}) == "ask"
    assert hook("claude", "mcp__github__list", {}) == "ask"


def test_mode_of_the_program_that_asks_nothing_keeps_protected_names(hook: Hook) -> None:
    for user, mode in (("claude", "bypassPermissions"), ("qwen", "yolo")):
        tool = SHELL[user]  # type: ignore[index]  # both are programs
        assert hook(user, tool, {"command": "make"}, permission_mode=mode) == ""  # type: ignore[arg-type]  # the same
        assert hook(user, tool, {"command": "echo x >> ~/.bashrc"}, permission_mode=mode) == "deny"  # type: ignore[arg-type]  # the same
        assert hook(user, tool, {"command": "cd ~; echo x > .profile"}, permission_mode=mode) == "deny"  # type: ignore[arg-type]  # the same


def test_invalid_configuration_asks(hook: Hook) -> None:
    hook.config.write_text("[permissions]\nallow = 5\n")
    assert hook("claude", "Bash", {"command": "ls"}) == "ask"
    assert hook.event("gemini", "run_shell_command", {"command": "ls"})["decision"] == "ask"


@pytest.mark.parametrize("user", get_args(HookProgram))
def test_settings_are_printed_for_each_program(
    hook: Hook, user: HookProgram, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(("permissions", "hook", "--for", user, "--print")) == 0
    out, err = capfd.readouterr()
    (event, (group,)) = next(iter(json.loads(out)["hooks"].items()))
    (handler,) = group["hooks"]
    assert event == COMMON[user]["hook_event_name"]
    assert SHELL[user] in group["matcher"]
    assert handler["type"] == "command"
    assert handler["command"].endswith(f"permissions hook --for {user}")
    assert handler["timeout"] == (30_000 if user in ("gemini", "qwen") else 30)
    assert f"~/.{user}/" in err


def test_terminal_gets_the_settings(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "isatty", lambda descriptor: descriptor == 0)
    assert main(("permissions", "hook", "--for", "claude")) == 0
    assert "PreToolUse" in capfd.readouterr().out


@pytest.mark.parametrize(
    "words", [("hook",), ("hook", "--for", "vim"), ("hook", "x", "--for", "claude"), ("list", "--print")]
)
def test_invalid_usage_is_a_one_line_error(
    hook: Hook, capfd: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main(("permissions", *words)) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_hook_loads_no_event_loop_and_no_sandbox(hook: Hook) -> None:
    """They would take longer than everything else together, before each call of another program."""
    event = {**CLAUDE, "cwd": str(hook.work), "tool_name": "Bash", "tool_input": {"command": "ls"}}
    code = (
        "import sys; from qcode.cli.main import main\n"
        "assert main(('permissions', 'hook', '--for', 'claude', '--trust')) == 0\n"
        "loaded = {'asyncio', 'ssl', 'httpx2', 'textual', 'qcode.safety.sandbox.detection'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(event), capture_output=True, text=True)
    assert (done.returncode, decision(json.loads(done.stdout))) == (0, "allow"), done.stderr
