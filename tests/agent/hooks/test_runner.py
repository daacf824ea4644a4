"""Running hooks: real programs and functions, their limits, and the end of everything they started."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.hooks.answers import HookAnswer
from qcode.agent.hooks.events import EVENTS, Handler, Hook, HookCommand, HookInput, program_handler
from qcode.agent.hooks.listing import hook_lines
from qcode.agent.hooks.process import MAX_OUTPUT_BYTES
from qcode.agent.hooks.runner import HandlerStats, HookRunner
from qcode.agent.hooks.sources import UnusedHook
from qcode.protocol.events import HookEnded, HookStarted

BASH = HookInput({"tool_name": "Bash"}, ("Bash", "shell"), "t1")


def command(line: str, event: str = "PreToolUse", **fields: Any) -> Handler:
    form = EVENTS[event]
    given = {"matcher": "", "timeout_s": 20.0, "on_failure": form.on_failure, "origin": "own", **fields}
    run = given.pop("run", None) or HookCommand(line)
    return Handler(event=event, run=run, label=line, **given)


class Ran:
    """The result of running handlers, with the events that were emitted."""

    def __init__(self, folder: Path, handlers: Sequence[Handler], environment: dict[str, str] | None = None) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(folder)} if environment is None else environment
        self.runner = HookRunner(handlers, folder=folder, root=folder, environment=env)
        self.events: list[HookStarted | HookEnded] = []

    async def emit(self, event: HookStarted | HookEnded) -> None:
        self.events.append(event)

    def answer(self, event: str = "PreToolUse", *inputs: HookInput, whole: HookInput | None = None) -> HookAnswer:
        return asyncio.run(self.runner.run(event, inputs or (BASH,), self.emit, whole))


def test_input_arrives_only_on_stdin(tmp_path: Path) -> None:
    given = HookInput({"tool_input": {"command": "$(touch hacked); `id` '\n"}}, ("Bash",))
    assert Ran(tmp_path, [command("cat > seen; echo $# > count")]).answer("PreToolUse", given) == HookAnswer()
    assert json.loads((tmp_path / "seen").read_text()) == given.fields
    assert (tmp_path / "count").read_text() == "0\n"
    assert not (tmp_path / "hacked").exists()


def test_command_has_no_key_and_knows_the_project(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "k", "SLACK_URL": "s", "HOME": str(tmp_path)}
    named = HookCommand("env > seen", variables=("SLACK_URL", "ABSENT"))
    Ran(tmp_path, [command("", run=named)], env).answer()
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert seen["CLAUDE_PROJECT_DIR"] == seen["QCODE_PROJECT_DIR"] == str(tmp_path)
    assert (seen["QCODE"], seen["SLACK_URL"]) == ("1", "s")
    assert "OPENAI_API_KEY" not in seen


def test_project_hook_gets_no_further_variable(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "SLACK_URL": "s"}
    named = HookCommand("env > seen", variables=("SLACK_URL",))
    Ran(tmp_path, [command("", run=named, origin="project")], env).answer()
    assert "SLACK_URL" not in (tmp_path / "seen").read_text()


def test_argv_runs_without_a_shell(tmp_path: Path) -> None:
    words = HookCommand(argv=("touch", "a b", "$HOME"))
    Ran(tmp_path, [command("", run=words)]).answer()
    assert (tmp_path / "a b").exists()
    assert (tmp_path / "$HOME").exists()


def test_command_has_no_terminal_and_a_separate_session(tmp_path: Path) -> None:
    Ran(tmp_path, [command("ps -o sid= -p $$ > sid; (: < /dev/tty) 2> tty; echo $? > code")]).answer()
    assert int((tmp_path / "sid").read_text()) != os.getsid(0)
    assert (tmp_path / "code").read_text() != "0\n"


def test_unread_input_is_not_a_failure(tmp_path: Path) -> None:
    given = HookInput({"tool_input": {"content": "x" * 3_000_000}}, ("Write",))
    assert Ran(tmp_path, [command("exec true")]).answer("PreToolUse", given) == HookAnswer()


def test_large_input_arrives_whole(tmp_path: Path) -> None:
    given = HookInput({"tool_input": {"content": "é" * 1_000_000}}, ("Write",))
    Ran(tmp_path, [command("sleep 0.2; cat > seen")]).answer("PreToolUse", given)
    assert json.loads((tmp_path / "seen").read_text()) == given.fields


@pytest.mark.parametrize("argv", [("/nonexistent/check",), ("no-such-program-here",), ("/etc/passwd",), ("a\0b",)])
def test_program_that_cannot_start_is_a_failure(tmp_path: Path, argv: tuple[str, ...]) -> None:
    answer = Ran(tmp_path, [command("x", run=HookCommand(argv=argv))]).answer()
    assert answer.decision == "ask"
    assert "could not be started" in answer.failures[0]


def test_missing_folder_is_a_failure(tmp_path: Path) -> None:
    ran = Ran(tmp_path / "gone", [command("true")])
    assert ran.answer().decision == "ask"


def test_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("sleep 60 & echo $! > pid; sleep 60", timeout_s=0.3)])
    answer = ran.answer()
    assert answer.decision == "ask"
    assert "longer than 0.3 s" in answer.failures[0]
    assert not _is_running(int((tmp_path / "pid").read_text()))


def test_program_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done", timeout_s=0.3)])
    began = time.monotonic()
    ran.answer()
    assert 1.5 < time.monotonic() - began < 10
    assert not _is_running(int((tmp_path / "pid").read_text()))


def test_program_in_the_background_that_holds_the_pipe_does_not_delay(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("sleep 60 & echo $! > pid; echo no >&2; exit 2")])
    began = time.monotonic()
    answer = ran.answer()
    assert (answer.decision, answer.reason) == ("deny", "no")
    assert time.monotonic() - began < 10
    assert not _is_running(int((tmp_path / "pid").read_text()))


def test_program_that_left_the_group_and_holds_the_pipe_does_not_delay(tmp_path: Path) -> None:
    line = "setsid bash -c 'echo $$ > pid; exec sleep 60' & while [ ! -s pid ]; do sleep 0.01; done; exit 2"
    began = time.monotonic()
    try:
        assert Ran(tmp_path, [command(line)]).answer().decision == "deny"
        assert time.monotonic() - began < 10
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


def test_endless_output_is_truncated_to_a_limit(tmp_path: Path) -> None:
    line = "head -c 100000000 /dev/zero | tr '\\0' x; head -c 5000000 /dev/zero | tr '\\0' y >&2; exit 2"
    answer = Ran(tmp_path, [command(line)]).answer()
    assert answer.decision == "deny"
    assert len(answer.reason) == MAX_OUTPUT_BYTES


def test_cancelling_ends_the_program(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("echo $$ > pid; sleep 60")])

    async def work() -> None:
        task = asyncio.ensure_future(ran.runner.run("PreToolUse", [BASH], ran.emit))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert not _is_running(int((tmp_path / "pid").read_text()))


def test_at_most_eight_handlers_run_concurrently(tmp_path: Path) -> None:
    line = "touch running.$$; ls running.* | wc -l >> most; sleep 0.4; rm running.$$"
    handlers = [command(f"{line} # {number}") for number in range(10)]
    Ran(tmp_path, handlers).answer()
    most = [int(line) for line in (tmp_path / "most").read_text().split()]
    assert len(most) == 10
    assert 1 < max(most) <= 8


def test_same_handler_runs_once(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("echo x >> seen", matcher="Bash"), command("echo x >> seen", matcher="*")])
    ran.answer()
    assert (tmp_path / "seen").read_text() == "x\n"


def test_answers_are_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    slow = command("sleep 0.3; echo first", "SessionStart")
    fast = command("echo second", "SessionStart")
    assert Ran(tmp_path, [slow, fast]).answer("SessionStart", HookInput({})).context == ("first", "second")


def test_only_matching_handlers_of_the_event_run(tmp_path: Path) -> None:
    handlers = [
        command("touch bash", matcher="Bash"),
        command("touch edit", matcher="Edit"),
        command("touch s", "Stop"),
    ]
    Ran(tmp_path, handlers).answer()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bash"]


def test_broken_matcher_fails_like_a_hook(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("true", matcher="("), command("true", matcher="(", on_failure="go-on")])
    answer = ran.answer()
    assert answer.decision == "ask"
    assert len(answer.failures) == 2
    assert [noted.failures for noted in ran.runner.stats] == [1, 1]


def test_patch_is_one_input_for_a_matcher_that_names_it_and_one_per_file_for_others(tmp_path: Path) -> None:
    parts = [HookInput({"n": number}, ("Edit",), is_patch_part=True) for number in (1, 2)]
    whole = HookInput({"n": 0}, ("apply_patch",))
    named = command("cat >> whole", matcher="apply_patch|Edit")
    others = command("cat >> parts; true", matcher="Edit")
    Ran(tmp_path, [named, others]).answer("PreToolUse", *parts, whole=whole)
    assert (tmp_path / "whole").read_text() == '{"n": 0}\n'
    assert sorted((tmp_path / "parts").read_text().splitlines()) == ['{"n": 1}', '{"n": 2}']


def test_one_file_of_a_patch_cannot_be_replaced(tmp_path: Path) -> None:
    part = HookInput({}, ("Edit",), is_patch_part=True)
    output = json.dumps({"hookSpecificOutput": {"updatedInput": {"file_path": "/etc/passwd"}}})
    answer = Ran(tmp_path, [command(f"echo '{output}'")]).answer("PreToolUse", part)
    assert (answer.decision, answer.input) == ("ask", None)


def test_session_end_has_one_short_limit_for_all(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command(f"sleep 30 # {number}", "SessionEnd", timeout_s=1.5) for number in range(3)])
    began = time.monotonic()
    ran.answer("SessionEnd", HookInput({"reason": "other"}))
    assert time.monotonic() - began < 8


def test_session_end_hooks_that_wait_for_others_share_their_time(tmp_path: Path) -> None:
    handlers = [command(f"sleep 30 # {number}", "SessionEnd", timeout_s=0.2) for number in range(8)]
    ran = Ran(tmp_path, [*handlers, command("touch late", "SessionEnd", timeout_s=0.2)])
    answer = ran.answer("SessionEnd", HookInput({"reason": "other"}))
    assert "did not start" in answer.failures[-1]
    assert not (tmp_path / "late").exists()


def test_runs_and_failures_of_each_handler_are_counted(tmp_path: Path) -> None:
    ran = Ran(tmp_path, [command("exit 3"), command("exit 0 # other")])
    ran.answer()
    failing, fine = ran.runner.stats
    assert (failing.runs, failing.failures, failing.last_code, failing.last_failure) == (1, 1, 3, "exit code 3")
    assert (fine.runs, fine.failures, fine.last_code) == (1, 0, 0)
    ended = {event.command: event for event in ran.events if isinstance(event, HookEnded)}
    assert ended["exit 3"].decision == "ask"
    assert ended["exit 3"].tool_use_id == "t1"
    assert ended["exit 0 # other"].decision == "none"


def test_slow_hook_is_reported_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.agent.hooks.runner.SLOW_S", 0.05)
    ran = Ran(tmp_path, [command("sleep 0.5")])
    ran.answer()
    assert [type(event) for event in ran.events] == [HookStarted, HookEnded]


def test_handler_that_waits_for_a_free_slot_is_not_reported_as_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qcode.agent.hooks.runner.SLOW_S", 0.05)
    slots_may_end = asyncio.Event()

    async def wait(given: dict[str, Any], tool_use_id: str | None) -> None:
        await slots_may_end.wait()

    async def wait_as_ninth(given: dict[str, Any], tool_use_id: str | None) -> None:
        pass

    handlers = [*(_program(partial(wait)) for _ in range(8)), _program(wait_as_ninth)]
    ran = Ran(tmp_path, handlers)

    async def emit(event: HookStarted | HookEnded) -> None:
        ran.events.append(event)
        if len(ran.events) == 8:
            slots_may_end.set()

    asyncio.run(ran.runner.run("PreToolUse", (BASH,), emit))
    assert sum(isinstance(event, HookStarted) for event in ran.events) == 8


def _program(function: Any, **fields: Any) -> Handler:
    return program_handler("PreToolUse", Hook("shell", function, **fields))


def test_function_gets_the_input_and_the_id_of_the_call(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def check(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
        seen.append((given, tool_use_id))
        given.clear()
        return {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}

    answer = Ran(tmp_path, [_program(check)]).answer()
    assert (answer.decision, answer.reason) == ("deny", "no")
    assert seen == [({}, "t1")]
    assert BASH.fields == {"tool_name": "Bash"}


async def _raises(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    raise RuntimeError("broken")


async def _hangs(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    await asyncio.sleep(60)
    return {}


def _is_plain(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    return {}


async def _leaves(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    sys.exit(3)


async def _waits_for_cancelled(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
    lost: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    lost.cancel()
    return await lost


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (_raises, "RuntimeError: broken"),
        (_leaves, "SystemExit: 3"),
        (_waits_for_cancelled, "CancelledError"),
        (_hangs, "longer than"),
        (_is_plain, "not async"),
    ],
)
def test_function_that_fails_asks_or_blocks(tmp_path: Path, function: Any, why: str) -> None:
    asking = Ran(tmp_path, [_program(function, timeout=0.1)]).answer()
    assert asking.decision == "ask"
    assert why in asking.failures[0]
    assert Ran(tmp_path, [_program(function, timeout=0.1, on_failure="block")]).answer().decision == "deny"


def test_failing_functions_are_independent_of_others(tmp_path: Path) -> None:
    async def denies(given: dict[str, Any], tool_use_id: str | None) -> dict[str, Any]:
        return {"decision": "block", "reason": "no"}

    assert Ran(tmp_path, [_program(_raises), _program(denies)]).answer().decision == "deny"


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_listing_has_the_figures_of_a_session() -> None:
    hooks = [
        Handler("Stop", "", HookCommand("check"), 5, "go-on", "own", location="config.toml:3", label="check"),
        Handler("PreToolUse", "Bash", HookCommand("guard"), 600, "ask", "own", True, "config.toml:7", "guard"),
    ]
    noted = HandlerStats(2, 1, datetime(2026, 1, 2, tzinfo=UTC), 0.25, 7, "exit code 7")
    lines = hook_lines(hooks, [UnusedHook("Stop", "./x", "settings.json", "relative")], [noted, HandlerStats()])
    assert lines[0] == "Stop: check"
    assert lines[1].startswith("  config.toml:3 · 5 s · on failure: go-on · 2 runs, last 0.2 s at ")
    assert lines[1].endswith(", exit 7, 1 failure: exit code 7")
    assert lines[2] == "PreToolUse (Bash): guard"
    assert lines[3] == "  config.toml:7 · 600 s · on failure: ask · may allow · not run yet"
    assert lines[4] == "not run: Stop: ./x (settings.json): relative"


def test_listing_shortens_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/you")
    file = "/home/you/.config/qcode/config.toml"
    hook = Handler("Stop", "", HookCommand("check"), 5, "go-on", "own", location=f"{file}:3", label="check")
    lines = hook_lines([hook], [UnusedHook("Stop", "./x", f"{file}:4", "relative")])
    assert lines[1].startswith("  ~/.config/qcode/config.toml:3 · ")
    assert lines[2] == "not run: Stop: ./x (~/.config/qcode/config.toml:4): relative"
