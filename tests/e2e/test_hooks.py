"""Every event of hooks in every mode and front end: when it fires, with what, and what an answer may do there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from qcode.agent.hooks.events import EVENTS
from qcode.agent.options import Options
from tests.acp.editor import Editor, InThread
from tests.e2e.running import KEY_VARIABLES, CliRunner
from tests.e2e.terminal import Answering, Terminal
from tests.fakes.replies import truncated
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn

KEY = "sk-canary-0123456789abcdef"
COMMON = {"session_id", "prompt_id", "transcript_path", "cwd", "permission_mode", "hook_event_name"}
CALLED = {"tool_name", "tool_input", "tool_use_id"}
FIELDS: dict[str, set[str]] = {
    "SessionStart": {"source", "model"},
    "UserPromptSubmit": {"prompt"},
    "PreToolUse": CALLED,
    "PermissionRequest": {*CALLED, "permission_suggestions"},
    "PostToolUse": {*CALLED, "duration_ms", "tool_response"},
    "PostToolUseFailure": {*CALLED, "duration_ms", "error", "is_interrupt"},
    "Notification": {"message", "title", "notification_type"},
    "SubagentStart": {"agent_id", "agent_type"},
    "SubagentStop": {"agent_id", "agent_type", "stop_hook_active", "last_assistant_message", "agent_transcript_path"},
    "Stop": {"stop_hook_active", "last_assistant_message", "background_tasks", "session_crons"},
    "StopFailure": {"error", "error_details", "last_assistant_message"},
    "PreCompact": {"trigger", "custom_instructions"},
    "PostCompact": {"trigger", "compact_summary"},
    "SessionEnd": {"reason"},
}
"""The fields that each event adds, by https://code.claude.com/docs/en/hooks."""
MODES = {
    "default": "default",
    "accept-edits": "acceptEdits",
    "plan": "plan",
    "auto": "auto",
    "bypass": "bypassPermissions",
}
ATTENDED = ("app", "acp")
FRONTS = (*ATTENDED, "pipe")


def answer(asked: ReceivedRequest) -> Turn:
    """Read, write, fail, start a sub-agent that reads, and say so."""
    if "You are a sub-agent" in asked.system:
        return Turn(text="Looked.") if asked.results else Turn(calls=[call("read", "s1", path="seen.txt")])
    if asked.results:
        return Turn(text="All done.")
    return Turn(
        calls=[
            call("read", "c1", path="seen.txt"),
            call("read", "c2", path="missing.txt"),
            call("write", "c3", path="a.txt", content="hello\n"),
            call("agent", "c4", description="look", prompt="Look.", kind="explore"),
        ]
    )


def call(name: str, call_id: str, **arguments: object) -> Call:
    return Call(name, json.dumps(arguments), call_id)


class Stage:
    """A folder with hooks that write down what they get."""

    def __init__(self, cli: CliRunner) -> None:
        self.cli = cli
        self.log = cli.home / "hooks.jsonl"
        (cli.work / "seen.txt").write_text("secret plan\n")
        # The end has a short limit, which a busy machine may miss.
        self.hooks: list[str] = [
            f"[[hooks.{event}]]\ncommand = 'cat >> {self.log}'\ntimeout_s = 30\n" for event in EVENTS
        ]

    def write(self, *more: str) -> None:
        config = self.cli.home / ".config/qcode"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text("\n".join((*more, *self.hooks)))

    @property
    def inputs(self) -> list[dict[str, Any]]:
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def play(
        self, front: str, script: Callable[[ReceivedRequest], Turn] | Sequence[Turn] = answer, *flags: str
    ) -> None:
        """Play one prompt in a front end, where each question is answered with yes."""
        with FakeServer("openai", script) as server:
            given = ("-m", "openai/test-model", "--base-url", server.base_url, *flags)
            {"app": self._app, "acp": self._acp, "pipe": self._pipe}[front](given)

    def _pipe(self, given: Sequence[str]) -> None:
        self.cli.run("-p", "go", *given, env={KEY_VARIABLES["openai"]: KEY})

    def _app(self, given: Sequence[str]) -> None:
        with Terminal(self.cli, *given, env={KEY_VARIABLES["openai"]: KEY}) as terminal:
            terminal.wait_for("test-model")
            terminal.press("go\r")
            terminal.wait_for(Answering(terminal, "All done."))
            # The hook of the end runs after the text is shown, and leaving would stop it.
            terminal.wait_for(lambda _: not self.log.exists() or '"Stop"' in self.log.read_text())
            terminal.press("\x04")
            terminal.wait_for_end()

    def _acp(self, given: Sequence[str]) -> None:
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in self.cli.environment({KEY_VARIABLES["openai"]: KEY}).items():
                patch.setenv(name, value)
            patch.delenv("QCODE_HOME", raising=False)
            flags = dict(zip(given[::2], given[1::2], strict=False))
            options = Options(
                model=flags["-m"],
                base_url=flags["--base-url"],
                trust="--trust" in given,
                permission_mode=flags.get("--permission-mode"),  # type: ignore[arg-type]  # checked by Options
            )
            editor: Editor = stack.enter_context(InThread(Editor(), options))
            editor.initialize()
            editor.prompt(editor.open(self.cli.work), "go")


@pytest.fixture
def stage(cli: CliRunner) -> Iterator[Stage]:
    yield Stage(cli)


def expected(front: str, mode: str, *, is_trusted: bool) -> list[str]:
    """Return the events, each with the id of its call, that a play has."""
    asks = mode == "default" or (not is_trusted and mode != "plan")
    written = []
    if asks:
        written = ["PermissionRequest c3", *(["Notification", "PostToolUse c3"] if front in ATTENDED else [])]
    elif mode != "plan":
        written = ["PostToolUse c3"]
    return [
        "SessionStart", "UserPromptSubmit",
        "PreToolUse c1", "PostToolUse c1", "PreToolUse c2", "PostToolUseFailure c2",
        "PreToolUse c3", *written,
        "PreToolUse c4", "SubagentStart", "PreToolUse s1", "PostToolUse s1", "SubagentStop", "PostToolUse c4",
        "Stop", "SessionEnd",
    ]  # fmt: skip


ROWS = [(front, mode, trusted) for front in FRONTS for mode in MODES for trusted in (True, False)]
SAMPLE = {("app", "default", True), ("acp", "accept-edits", True), ("pipe", "default", False), ("pipe", "plan", True)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("front", "mode", "is_trusted"),
    [row if row in SAMPLE else pytest.param(*row, marks=pytest.mark.broad) for row in ROWS],
)
def test_each_event_fires_with_its_fields(stage: Stage, front: str, mode: str, is_trusted: bool) -> None:
    stage.write()
    stage.play(front, answer, "--permission-mode", mode, *(["--trust"] if is_trusted else []))
    inputs = stage.inputs
    seen = [f"{item['hook_event_name']} {item.get('tool_use_id', '')}".strip() for item in inputs]
    # Notifications run beside the turn.
    wanted = expected(front, mode, is_trusted=is_trusted)
    assert [item for item in seen if item != "Notification"] == [item for item in wanted if item != "Notification"]
    assert seen.count("Notification") == wanted.count("Notification")
    for item in inputs:
        event = item["hook_event_name"]
        is_inside = {"agent_id", "agent_type"} <= item.keys()
        assert set(item) == COMMON | FIELDS[event] | ({"agent_id", "agent_type"} if is_inside else set()), event
        assert item["permission_mode"] == MODES[mode]
        assert is_inside is (event.startswith("Subagent") or item.get("tool_use_id") == "s1")
    assert inputs[-1]["reason"] == ("prompt_input_exit" if front == "app" else "other")
    assert (stage.cli.work / "a.txt").exists() is ("PostToolUse c3" in seen)


PERMISSION = (
    '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "DECISION", '
    '"permissionDecisionReason": "hook says so"}}'
)
ANSWERS = [(answer, may, mode) for answer in ("allow", "ask", "deny", "") for may in (True, False) for mode in MODES]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("decision", "may_allow", "mode"),
    [row if row[2] == "default" else pytest.param(*row, marks=pytest.mark.broad) for row in ANSWERS],
)
def test_answer_of_a_hook_narrows_and_only_a_right_allows(
    stage: Stage, decision: str, may_allow: bool, mode: str
) -> None:
    output = PERMISSION.replace("DECISION", decision) if decision else ""
    (stage.cli.home / "answer.json").write_text(output)
    right = "may_allow = true\n" if may_allow else ""
    hook = f'[[hooks.PreToolUse]]\nmatcher = "Write"\ncommand = "cat {stage.cli.home}/answer.json"\n{right}'
    stage.write(hook)
    stage.play("pipe", answer, "--trust", "--permission-mode", mode)
    runs = mode in ("accept-edits", "auto", "bypass")
    expected = {"allow": runs or (may_allow and mode == "default"), "ask": False, "deny": False, "": runs}[decision]
    assert (stage.cli.work / "a.txt").exists() is expected


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("first", "second", "runs"),
    [("allow", "deny", False), ("allow", "ask", False), ("ask", "deny", False), ("allow", "allow", True)],
)
def test_answers_of_several_hooks_are_merged_strictest_first(stage: Stage, first: str, second: str, runs: bool) -> None:
    for name in (first, second):
        (stage.cli.home / f"{name}.json").write_text(PERMISSION.replace("DECISION", name))
    stage.write(*(
        f'[[hooks.PreToolUse]]\nmatcher = "Write"\nargv = ["cat", "{stage.cli.home}/{name}.json"]\nmay_allow = true\n'
        f"timeout_s = {number + 10}\n"
        for number, name in enumerate((first, second))
    ))  # fmt: skip
    stage.play("pipe", answer, "--trust")
    assert (stage.cli.work / "a.txt").exists() is runs


def test_project_hook_never_allows_and_runs_only_after_trust(stage: Stage) -> None:
    stage.hooks.clear()
    stage.write()
    project = stage.cli.work / ".qcode"
    project.mkdir()
    (project / "answer.json").write_text(PERMISSION.replace("DECISION", "allow"))
    hooks = f"[[hooks.PreToolUse]]\ncommand = 'cat >> {stage.log}; cat .qcode/answer.json'\n"
    (project / "config.toml").write_text(hooks)
    stage.play("pipe")
    assert stage.inputs == []
    stage.play("pipe", answer, "--trust")
    assert stage.inputs
    assert not (stage.cli.work / "a.txt").exists()


FAILURES = {
    "hangs": ("sleep 60", "timeout_s = 0.5"),
    "writes much": ("head -c 10000000 /dev/zero", ""),
    "leaves a daemon": ("(setsid sleep 60 &) ; echo oops; exit 7", ""),
    "dies by a signal": ("kill -9 $$", ""),
    "is not JSON": ("echo '{not json}'", ""),
    "cannot start": ("/nonexistent/hook", ""),
    "fails": ("exit 1", ""),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "on_failure"),
    [
        pytest.param(kind, on_failure, marks=() if kind == "fails" or on_failure == "block" else pytest.mark.broad)
        for kind in FAILURES
        for on_failure in ("", "ask", "block", "go-on")
    ],
)
def test_failing_hook_asks_unless_it_says_otherwise(stage: Stage, kind: str, on_failure: str) -> None:
    command, limit = FAILURES[kind]
    rule = f'on_failure = "{on_failure}"\n' if on_failure else ""
    hook = f"[[hooks.PreToolUse]]\nmatcher = 'Write'\ncommand = {json.dumps(command)}\n{limit}\n{rule}"
    stage.hooks.clear()
    stage.write(hook)
    stage.play("pipe", answer, "--trust", "--permission-mode", "accept-edits")
    runs = on_failure == "go-on" or kind == "writes much"  # long text is neither an answer nor a failure
    assert (stage.cli.work / "a.txt").exists() is runs


def test_failed_turn_has_its_event(stage: Stage) -> None:
    stage.write()
    stage.play("pipe", [truncated("Half")] * 2, "--max-continuations", "0")
    last = [item for item in stage.inputs if item["hook_event_name"] == "StopFailure"]
    assert [set(item) for item in last] == [COMMON | FIELDS["StopFailure"]]
    assert last[0]["error"] == "max_output_tokens"


def end_hooks(cli: CliRunner, command: str) -> None:
    folder = cli.home / ".config/qcode"
    folder.mkdir(parents=True, exist_ok=True)
    hooks = (f'[[hooks.{event}]]\ncommand = "{command} # {event}"\n' for event in ("StopFailure", "SessionEnd"))
    (folder / "config.toml").write_text("".join(hooks))


def test_hooks_after_the_turn_have_their_lines_before_the_result(cli: CliRunner) -> None:
    end_hooks(cli, "exit 0")
    with FakeServer("openai", []) as server:
        done = cli.ask(server, "-p", "hi", "-o", "stream-json")
    lines = [line for line in done.lines if line.get("subtype") == "hook"]
    assert [line["hook_event_name"] for line in lines] == ["StopFailure", "SessionEnd"]
    assert done.result["error"]["status"] == 400


@pytest.mark.parametrize("is_stream", [False, True], ids=["text", "stream input"])
def test_failed_hook_at_the_end_of_the_session_is_reported(cli: CliRunner, is_stream: bool) -> None:
    end_hooks(cli, "exit 3")
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "hi"}}).encode()
    stream = ("--input-format", "stream-json", "-o", "stream-json")
    with FakeServer("openai", [Turn(text="Hello.")]) as server:
        done = cli.ask(server, "-p", *stream, stdin=line) if is_stream else cli.ask(server, "-p", "hi")
    assert done.code == 0
    assert done.err == "qcode: the SessionEnd hook `exit 3 # SessionEnd` failed: exit code 3\n"


def test_text_of_a_start_hook_that_cannot_block_is_shown(cli: CliRunner) -> None:
    folder = cli.home / ".config/qcode"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[[hooks.SessionStart]]\ncommand = "echo no index >&2; exit 2"\n')
    with FakeServer("openai", [Turn(text="Hello.")]) as server:
        done = cli.ask(server, "-p", "hi")
    assert (done.code, done.out) == (0, "Hello.\n")
    assert "no index" in done.err
