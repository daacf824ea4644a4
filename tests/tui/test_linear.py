"""The linear mode: its lines and their order, numbered answers, and a real terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pexpect
import pytest

from qcode.agent.agent import Agent
from qcode.agent.hooks.events import Handler, HookCommand
from qcode.agent.hooks.runner import HookRunner
from qcode.agent.hooks.session import SessionFacts, SessionHooks
from qcode.agent.sessions.history import StoredMessage
from qcode.agent.sessions.shown import ShownItem
from qcode.protocol.approvals import (
    AcceptPlan,
    Allow,
    Answer,
    Choice,
    Decision,
    Deny,
    Draft,
    PlanApproval,
    Question,
    Revise,
    ToolApproval,
)
from qcode.protocol.events import (
    ApprovalRequested,
    CallState,
    OutputEscalated,
    PartialRestored,
    Retry,
    StepStarted,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Waiting,
)
from qcode.protocol.messages import Message
from qcode.protocol.reply import Outcome, ReasoningDelta, StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.tui.linear.app import LinearApp
from qcode.tui.linear.terminal import LineTerminal
from qcode.tui.opening import start_session
from tests.agent.context.folders import make_executable
from tests.fakes.conversation import talk as real_talk
from tests.fakes.scripted import Call, call_reply, calls_reply, text_reply
from tests.tui.harness import make_agent
from tests.tui.sample_project import Project
from tests.tui.scripted import FixedClock, Script, ScriptedConversation, UntilAnswered, call, ended, reply, said, says
from tests.tui.staged_app import WELCOME
from tests.tui.test_todos import listed

ROOT = Path(__file__).resolve().parents[2]


class Typed(LineTerminal):
    """A terminal with lines typed in advance, which records the output."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = list(lines)
        self.said: list[str] = []
        self.dropped = 0
        self.width = 0

    def columns(self) -> int:
        return self.width

    def write_line(self, text: str) -> None:
        self.said.append(text)

    def forget_typed(self) -> None:
        self.dropped += 1

    async def ask(self, label: str) -> str | None:
        self.said.append(label)
        return self._lines.pop(0) if self._lines else None


def linear(agent: Agent, typed: Typed) -> LinearApp:
    return LinearApp(agent, WELCOME, typed, commands=start_session(agent).commands, clock=FixedClock())


def talk(conversation: ScriptedConversation, *lines: str, width: int = 0, **given: Any) -> list[str]:
    """Return all lines after the greeting."""
    typed = Typed(lines)
    typed.width = width
    app = linear(make_agent(conversation, **given), typed)
    assert asyncio.run(app.run()) == 0
    start = typed.said.index("User: ")
    return [line for text in typed.said[start:] for line in text.split("\n")]


def test_each_event_is_printed_once_and_in_order() -> None:
    read = call("read", '{"path": "a.py"}')
    script: Script = [
        StepStarted(1),
        TextDelta(0, "I will read"),
        TextDelta(0, " it.\nNow"),
        reply("", read, stop=StopReason.TOOL_USE),
        ToolStarted(read),
        ToolFinished(read, ToolOutcome("one\ntwo\n", summary="2 lines"), "done"),
        StepStarted(2),
        TextDelta(0, "Done."),
        reply("Done."),
        ended(),
    ]
    assert talk(ScriptedConversation(script), "look") == [
        "User: ",
        "Assistant:",
        "I will read it.",
        "Now",
        "Read: a.py",
        "Read finished: 2 lines",
        "  one",
        "  two",
        "Assistant:",
        "Done.",
        "(turn ended)",
        "User: ",
    ]


def test_prose_is_wrapped_between_words_and_code_is_not() -> None:
    script: Script = [TextDelta(0, "some words of prose\n```\ncode = in_one_long_line()\n```\n"), reply(""), ended()]
    assert talk(ScriptedConversation(script), "x", width=12)[:7] == [
        "User: ",
        "Assistant:",
        "some words",
        "of prose",
        "```",
        "code = in_one_long_line()",
        "```",
    ]


def test_wrapped_path_stays_whole_and_wide_characters_may_part() -> None:
    script: Script = [
        TextDelta(0, "see /a/long/path/name.py now\n\u6f22\u5b57\u6f22\u5b57\u6f22\u5b57\n"),
        reply(""),
        ended(),
    ]
    assert talk(ScriptedConversation(script), "x", width=8)[2:6] == [
        "see",
        "/a/long/path/name.py now",
        "\u6f22\u5b57\u6f22\u5b57",
        "\u6f22\u5b57",
    ]


def test_long_word_with_accents_stays_whole() -> None:
    path = "/re\u0301sume\u0301s/e\u0301te\u0301.md"
    script: Script = [TextDelta(0, f"see {path} now\n"), reply(""), ended()]
    assert talk(ScriptedConversation(script), "x", width=6)[2:5] == ["see", path, "now"]


def test_problems_of_an_edit_are_printed_below_its_diff_with_visible_characters() -> None:
    edit = call(name="edit", arguments='{"path": "a.py"}')
    summary, problems = "+1 -0 lines, 1 new problem", "a.py:1:1: error: x"
    outcome = ToolOutcome("Edited.", summary=summary, diff="+ne\u200bw\n", problems=problems)
    script: Script = [reply("", edit, stop=StopReason.TOOL_USE), ToolStarted(edit), ToolFinished(edit, outcome, "done")]
    lines = talk(ScriptedConversation([*script, ended()]), "x")
    at = lines.index("Edit finished: +1 -0 lines, 1 new problem")
    assert lines[at + 1 : at + 3] == ["  +ne\\u200bw", "  a.py:1:1: error: x"]


def test_output_never_moves_the_cursor() -> None:
    script: Script = [*says("a \x1b[31mred\x1b[0m\x07 word\x1b]0;title\x07"), ended()]
    text = "\n".join(talk(ScriptedConversation(script), "x"))
    assert "a red word" in text
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["1"], Allow()),
        (["2"], Allow("session")),
        (["3"], Deny()),
        (["N"], Deny()),
        (["a"], Allow("session")),
        (["4", "use rg"], Deny("use rg")),
        (["t", ""], Deny()),
        (["yes", "0", "9", "1"], Allow()),
    ],
)
def test_approval_is_answered_by_number(typed: list[str], decision: Decision) -> None:
    shell = call("shell", '{"command": "ls"}')
    script: Script = [
        StepStarted(1),
        reply("", shell),
        ApprovalRequested(ToolApproval(shell, "Run ls?", "ls \u200b-la", "shell(ls)")),
        UntilAnswered("c1"),
        ended(),
    ]
    conversation = ScriptedConversation(script)
    lines = talk(conversation, "go", *typed)
    at = lines.index("Question: Run ls?")
    assert lines[at + 1 : at + 6] == [
        "ls \\u200b-la",
        "1. Yes (y)",
        '2. Yes, and stop asking for exactly "ls" (this session) (a): shell(ls)',
        "3. No (n): stops the turn",
        "4. No, and say why (t)",
    ]
    assert conversation.answers == [("c1", decision)]
    assert conversation.cancels == (decision == Deny())


def test_approval_of_a_command_states_risk_and_reason_and_can_trust_the_folder() -> None:
    shell = call("shell", '{"command": "rm -rf x"}')
    approval = ToolApproval(
        shell,
        "Run this command?",
        "rm -rf x",
        kind="command",
        reason="Asks because rm writes · the command runs outside",
        offers=("trust",),
    )
    conversation = ScriptedConversation([ApprovalRequested(approval), UntilAnswered("c1"), ended()])
    lines = talk(conversation, "go", "2", trust=lambda: "Folder trusted.")
    at = lines.index("Question: Run this command?")
    assert lines[at + 1 : at + 4] == [
        "rm -rf x",
        "Careful: rm -rf",
        "Asks because rm writes · the command runs outside",
    ]
    assert "2. Yes, and trust this folder" in lines
    assert conversation.answers == [("c1", Allow("trust"))]
    assert "Note: Folder trusted." in lines


def test_test_runner_rule_is_confirmed_after_its_warning() -> None:
    shell = call("shell", '{"command": "pytest"}')
    approval = ToolApproval(
        shell, "Run this command?", "pytest", kind="command", offers=("prefix",), prefix_rule="shell(pytest *)"
    )
    script: Script = [ApprovalRequested(approval), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)
    lines = talk(conversation, "go", "2", "1")
    assert any(line.startswith('Careful: any "pytest …" will run without asking') for line in lines)
    assert conversation.answers == [("c1", Allow("prefix"))]
    back = ScriptedConversation(script)
    talk(back, "go", "2", "n", "1")
    assert back.answers == [("c1", Allow())]


def test_call_can_be_edited_before_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = make_executable(tmp_path / "ed", 'grep -q one "$1" && echo "touch two" > "$1"; true')
    monkeypatch.setenv("VISUAL", str(editor))
    first = ToolApproval(call(), "Run this command?", "touch one", draft=Draft("touch one", "command.sh"))
    second = replace(first, detail="touch two", draft=Draft("touch two", "command.sh"), is_revised=True)
    script: Script = [ApprovalRequested(first), UntilAnswered("c1"), ApprovalRequested(second), ended()]
    conversation = ScriptedConversation(script)
    lines = talk(conversation, "go", "e", "e", "1")
    assert conversation.answers == [("c1", Revise("touch two")), ("c1", Allow())]
    assert lines.count("Type e to edit it in your editor before it runs.") == 2
    assert "Note: The call is unchanged." in lines
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    lines = talk(ScriptedConversation([ApprovalRequested(first), UntilAnswered("c1"), ended()]), "go", "e", "1")
    assert any(line.endswith("; the call is unchanged.") for line in lines)


def test_invalid_answer_is_answered_with_the_valid_choices() -> None:
    script: Script = [ApprovalRequested(ToolApproval(call(), "Run?", "ls")), UntilAnswered("c1"), ended()]
    conversation = ScriptedConversation(script)
    lines = talk(conversation, "go", "d", "", "1")
    assert '"d" is not one of the choices. Type 1 to 3, or a letter: y, n, t.' in lines
    assert lines.count("Type 1 to 3, or a letter: y, n, t.") == 1
    assert conversation.answers == [("c1", Allow())]


def test_text_typed_before_an_approval_does_not_answer_it() -> None:
    shell = call("shell")
    script: Script = [ApprovalRequested(ToolApproval(shell, "Run?", "ls")), UntilAnswered("c1"), ended()]
    typed = Typed(["go", "2"])
    app = LinearApp(make_agent(ScriptedConversation(script)), WELCOME, typed, clock=FixedClock())
    asyncio.run(app.run())
    assert typed.dropped == 1


def test_end_of_input_at_an_approval_denies_and_quits() -> None:
    shell = call("shell")
    conversation = ScriptedConversation(
        [ApprovalRequested(ToolApproval(shell, "Run?", "ls")), UntilAnswered("c1"), ended()]
    )
    talk(conversation, "go")
    assert conversation.answers == [("c1", Deny())]


def test_recovery_is_reported_in_sentences() -> None:
    script: Script = [
        StepStarted(1),
        TextDelta(0, "half of a rep"),
        Retry(False, "max_tokens", 1, 64_000),
        OutputEscalated(8_000, 64_000),
        TextDelta(0, "half of a reply and more"),
        Retry(True, "max_tokens", 1, 64_000),
        TextDelta(0, " to the end"),
        Waiting(5.0, "rate limited.", 2, max_retries=5),
        PartialRestored("half", ""),
        reply("half"),
        ended(Outcome.MAX_TOKENS),
    ]
    lines = talk(ScriptedConversation(script), "x")
    assert "half of a rep" in lines
    assert "Restarting the reply: truncated at 8,000 tokens; retrying with 64,000 tokens." in lines
    assert "(continued 1/3)" in lines
    assert "rate limited, retry 2 of 5 in 5 s" in lines
    assert any(line.startswith("Warning: The reply is still truncated") for line in lines)


@pytest.mark.parametrize(
    ("show", "expected"),
    [("hidden", []), ("folded", ["Thinking."]), ("expanded", ["Thinking:", "because", "so"])],
)
def test_thinking_is_printed_as_configured(show: str, expected: list[str]) -> None:
    script: Script = [StepStarted(1), ReasoningDelta(0, "because\nso"), TextDelta(1, "Yes."), reply("Yes."), ended()]
    lines = talk(ScriptedConversation(script), "x", show_thinking=show)
    assert lines[1 : lines.index("Assistant:")] == expected


def test_output_that_was_redrawn_is_printed_in_its_last_state() -> None:
    shell = call("shell", '{"command": "make"}')
    finished = ToolFinished(shell, ToolOutcome("10%\r50%\r100%\nok\n"), "done")
    outputs = [ToolOutput("c1", "10%\r50%\r"), ToolOutput("c1", "100%\nok\n")]
    lines = talk(ScriptedConversation([ToolStarted(shell), *outputs, finished, ended()]), "go")
    assert lines[lines.index("  100%") + 1] == "  ok"
    assert not any("10%" in line for line in lines)


def test_tool_output_is_printed_at_its_end_and_shortened_if_long() -> None:
    shell = call()
    script: Script = [ToolStarted(shell), *(ToolOutput("c1", f"line {n}\n") for n in range(100))]
    finished = ToolFinished(shell, ToolOutcome("", summary="exit 0"), "done")
    lines = talk(ScriptedConversation([*script, finished, ended()]), "x")
    assert "Run finished: exit 0" in lines
    assert "  (60 lines left out; /output 1 shows all)" in lines
    assert lines.index("  line 0") > lines.index("Run finished: exit 0")


def test_undo_and_redo_restore_files_except_those_that_the_user_changed(tmp_path: Path) -> None:
    writes = calls_reply(
        Call("write", {"path": "a.txt", "content": "new\n"}, "c1"),
        Call("write", {"path": "b.txt", "content": "b\n"}, "c2"),
    )
    it = real_talk(tmp_path, writes, text_reply("Written."), mode="bypass")
    asyncio.run(it.play("write it"))
    (it.work / "b.txt").write_text("mine\n")
    typed = Typed(["/undo", "/redo"])
    assert asyncio.run(linear(make_agent(it.conversation), typed).run()) == 0
    lines = [line for text in typed.said for line in text.split("\n")]
    undone = lines.index("Note: Undone: 1 turn removed, 1 file deleted. /redo reverts this.")
    assert lines[undone + 1 : undone + 3] == ["Warning: Not changed: b.txt", "Note: The removed message: write it"]
    assert "Note: Redone: 1 turn back, 1 file restored. /undo reverts this." in lines
    assert ((it.work / "a.txt").read_text(), (it.work / "b.txt").read_text()) == ("new\n", "mine\n")


def test_no_to_another_try_of_calls_that_cannot_run_is_an_interruption(tmp_path: Path) -> None:
    it = real_talk(tmp_path, *(call_reply("fly", {"to": "moon"}) for _ in range(4)), is_attended=True)
    typed = Typed(["go", "n"])
    assert asyncio.run(linear(make_agent(it.conversation), typed).run()) == 0
    assert "The turn has ended" not in "\n".join(typed.said)
    assert '"outcome":"cancelled"' in (it.store.folder / f"{it.conversation.session_id}.jsonl").read_text()


def test_context_window_is_printed_without_a_bar() -> None:
    lines = talk(ScriptedConversation(), "/context")
    (total,) = [line for line in lines if " of 100k tokens" in line]
    assert total == "2k of 100k tokens, 2%, estimated"
    assert not any("░" in line for line in lines)


def test_result_of_a_command_says_that_it_ran_outside_the_sandbox() -> None:
    finished = ToolFinished(call(), ToolOutcome("", summary="exit 0", sandbox="outside"), "done")
    lines = talk(ScriptedConversation([ToolStarted(call()), finished, ended()]), "x")
    assert "Run finished: exit 0, outside the sandbox" in lines


@pytest.mark.parametrize("typed", ["/output", "/output 1"])
def test_output_command_prints_a_truncated_result_whole(typed: str) -> None:
    shell = call()
    script: Script = [ToolStarted(shell), *(ToolOutput("c1", f"line {n}\n") for n in range(100))]
    finished = ToolFinished(shell, ToolOutcome("", summary="exit 0"), "done")
    lines = talk(ScriptedConversation([*script, finished, ended()]), "x", typed, "/output 9", "/output all")
    assert [line for line in lines if line.startswith("line ")] == [f"line {n}" for n in range(100)]
    assert 'Warning: No truncated result number "9".' in lines
    assert 'Warning: No truncated result number "all".' in lines


def test_cancelled_call_is_reported() -> None:
    shell = call()
    lines = talk(ScriptedConversation([ToolStarted(shell), ended(Outcome.CANCELLED)]), "x")
    assert lines[-3:] == ["Run was cancelled.", "(turn ended: interrupted)", "User: "]


def test_resumed_session_is_printed_from_its_start() -> None:
    typed = Typed([])
    app = LinearApp(make_agent(ScriptedConversation(messages=said("hi there"))), WELCOME, typed, clock=FixedClock())
    asyncio.run(app.run())
    at = typed.said.index("User: hello")
    assert typed.said[at : at + 3] == ["User: hello", "Assistant:", "hi there"]


def test_resumed_session_counts_continuations_up_to_the_configured_number() -> None:
    class Continued(ScriptedConversation):
        """A session whose reply was continued once."""

        @property
        def stored_messages(self) -> tuple[StoredMessage, ...]:
            asked, replied = super().stored_messages
            replied.shown_events.append(ShownItem(Retry(True, "max_tokens", 1, 8_000), offset=3))
            return asked, replied

    agent = make_agent(Continued(messages=said("one two")))
    output = replace(agent.context.settings.output, max_continuations=5)
    agent.context = replace(agent.context, settings=replace(agent.context.settings, output=output))
    typed = Typed([])
    asyncio.run(linear(agent, typed).run())
    assert "(continued 1/5)" in typed.said


def test_commands_without_a_screen_work_and_others_are_unavailable() -> None:
    conversation = ScriptedConversation()
    lines = talk(
        conversation, "/model demo/other", "/mode plan", "/theme light", "/themee", "/help", "/quit", "never sent"
    )
    assert (conversation.model, conversation.mode) == ("demo/other", "plan")
    assert any("/theme is not available in the linear mode." in line for line in lines)
    assert any("Unknown command /themee." in line for line in lines)
    assert any(line.startswith("/model [name]") for line in lines)
    assert conversation.prompts == []


@pytest.mark.parametrize(
    ("messages", "no_session", "last"),
    [
        (said("hi there"), False, "Resume with: qcode -c"),
        (said("hi there"), True, "User: "),
        ((), False, "User: "),
    ],
)
def test_leaving_says_how_to_resume_a_stored_session(
    messages: tuple[Message, ...], no_session: bool, last: str
) -> None:
    agent = make_agent(ScriptedConversation(messages=messages))
    agent.context = replace(agent.context, options=replace(agent.context.options, no_session=no_session))
    typed = Typed(["/quit"])
    app = linear(agent, typed)
    asyncio.run(app.run())
    app.print_resume_hint()
    assert typed.said[-1] == last


def test_internal_error_of_a_shell_command_does_not_end_the_session() -> None:
    async def broken(line: str, output: object) -> ToolOutcome:
        raise RuntimeError("boom")

    conversation = ScriptedConversation([ended()])
    lines = talk(conversation, "!make", "next", run_user_command=broken)
    assert "Shell failed: internal error" in lines
    assert any(line.startswith("Error: Internal error: ") for line in lines)
    assert conversation.prompts == ["next"]


def test_backslash_continues_the_line() -> None:
    conversation = ScriptedConversation()
    talk(conversation, "one\\", "two")
    assert conversation.prompts == ["one\ntwo"]


def test_crashed_turn_is_reported_and_the_linear_session_continues() -> None:
    conversation = ScriptedConversation([RuntimeError("odd")], [*says("fine"), ended()])
    lines = talk(conversation, "one", "two")
    assert any("Internal error: RuntimeError: odd" in line for line in lines)
    assert "fine" in lines


def test_crashed_command_is_reported_and_the_linear_session_continues() -> None:
    class Unreadable(ScriptedConversation):
        def usage(self) -> NoReturn:
            raise RuntimeError("odd")

    lines = talk(Unreadable([*says("fine"), ended()]), "/cost", "two")
    assert any("Internal error: RuntimeError: odd" in line for line in lines)
    assert "fine" in lines


SCRIPT = """
import sys
from dataclasses import replace
from qcode.tui.linear.app import run_linear_with
from qcode.protocol.approvals import ToolApproval
from qcode.protocol.events import ApprovalRequested
from qcode.protocol.messages import Text, assistant
from qcode.protocol.reply import TextDelta
from tests.tui.harness import make_agent
from tests.tui.scripted import Gate, ScriptedConversation, UntilAnswered, call, ended, says
from tests.tui.staged_app import WELCOME

ask = ApprovalRequested(ToolApproval(call(), "Run ls?", "ls", "shell(ls)"))
conversation = ScriptedConversation(
    [*says("a reply"), ended()],
    [ask, UntilAnswered("c1"), ended()],
    [TextDelta(0, "half\\n"), Gate()],
    messages=(assistant(Text("stored")),) if "resumed" in sys.argv else (),
)
agent = make_agent(conversation)
options = replace(agent.context.options, no_session="resumed" not in sys.argv)
agent.context = replace(agent.context, options=options)
code = run_linear_with(agent, WELCOME)
print("code", code, conversation.prompts, conversation.answers, conversation.cancels, flush=True)
sys.exit(code)
"""


def spawn(folder: Path, *arguments: str) -> Any:
    path = folder / "start.py"
    path.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    return pexpect.spawn(
        sys.executable, [str(path), *arguments], env=env, cwd=str(ROOT), timeout=30, encoding="utf-8", echo=False
    )


def test_linear_session_works_in_a_real_dumb_terminal(tmp_path: Path) -> None:
    child = spawn(tmp_path)
    child.expect("User: ")
    child.sendline("hello")
    child.expect("Assistant:\r\na reply\r\n")
    child.expect("User: ")
    child.sendline("run it")
    child.expect(r"Answer \(1 to 4\): ")
    child.sendline("1")
    child.expect("User: ")
    child.sendline("more")
    child.expect("half\r\n")
    child.sendintr()
    child.expect("Interrupting.")
    child.expect("User: ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "code 0 ['hello', 'run it', 'more']" in child.before
    assert "Allow(" in child.before
    assert "\x1b" not in child.before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("leave", ["sendintr", "sendeof"])
def test_ctrl_c_and_ctrl_d_at_a_question_return_to_the_prompt(leave: str, tmp_path: Path) -> None:
    child = spawn(tmp_path)
    child.expect("User: ")
    child.sendline("hello")
    child.expect("User: ")
    child.sendline("run it")
    child.expect(r"Answer \(1 to 4\): ")
    getattr(child, leave)()
    child.expect("User: ")
    child.sendline("more")
    child.expect("half\r\n")
    child.sendintr()
    child.expect("User: ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "code 0 ['hello', 'run it', 'more']" in child.before
    assert "Deny(" in child.before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_session_with_its_exit_code_and_says_how_to_resume(number: int, tmp_path: Path) -> None:
    child = spawn(tmp_path, "resumed")
    child.expect("User: ")
    child.kill(number)
    child.expect("Resume with: qcode -c")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 143


def test_second_ctrl_c_quits_and_says_how_to_resume(tmp_path: Path) -> None:
    child = spawn(tmp_path, "resumed")
    child.expect("User: ")
    child.sendintr()
    child.expect("again to quit")
    child.sendintr()
    child.expect("Resume with: qcode -c")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_first_ctrl_c_at_the_prompt_asks_for_the_message_again(tmp_path: Path) -> None:
    child = spawn(tmp_path)
    child.expect("User: ")
    child.send("half a message")
    child.sendintr()
    child.expect("\r\nPress Ctrl\\+C again to quit.\r\nUser: ")
    child.sendline("hello")
    child.expect("Assistant:\r\na reply\r\n\\(turn ended\\)\r\nUser: ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert "code 0 ['hello']" in child.before


def test_changes_of_the_to_do_list_are_described() -> None:
    begun = listed(("read", "in_progress"), ("fix", "pending"))
    gone_on = listed(("read", "done"), ("fix", "in_progress"))
    output = talk(ScriptedConversation([begun, gone_on, gone_on, *says("Done."), ended()]), "go", "/todos")
    at = output.index("Todos: 0/2 · doing: read")
    assert output[at + 1 : at + 3] == ["now: read", "to do: fix"]
    at = output.index("Todos: 1/2 · doing: fix")
    assert output[at + 1 : at + 3] == ["done: read", "now: fix"]
    assert len([line for line in output if line.startswith("Todos: 1/2")]) == 1
    assert output[output.index("Todos:") + 1] == "1/2 · doing: fix"


def test_plan_is_approved_by_number_with_its_mode() -> None:
    asks = call("exit_plan_mode", '{"plan": "# Cache"}')
    request = ApprovalRequested(PlanApproval(asks, "Continue with it?", "# Cache\n\n1. add it"))
    conversation = ScriptedConversation([reply("", asks), request, UntilAnswered("c1"), ended()])
    lines = talk(conversation, "plan it", "2")
    at = lines.index("Question: Continue with it?")
    assert lines[at + 1 : at + 5] == ["  # Cache", "  ", "  1. add it", "1. Yes, and ask before each edit (y)"]
    assert "2. Yes, and accept edits (a): edits in this folder run without asking" in lines
    assert conversation.answers == [("c1", AcceptPlan("accept-edits"))]


def test_blank_lines_inside_a_streamed_reply_are_kept_and_those_at_its_end_are_not() -> None:
    pieces = [TextDelta(0, "One.\n\n"), TextDelta(0, "Two.\n"), TextDelta(0, "\nThree.\n\n")]
    lines = talk(ScriptedConversation([*pieces, ended()]), "go")
    at = lines.index("One.")
    assert lines[at : at + 6] == ["One.", "", "Two.", "", "Three.", "(turn ended)"]


@pytest.mark.parametrize(
    ("state", "summary", "title"),
    [("done", "Plan approved · asks", "Plan approved · asks"), ("denied", "declined", "Plan was declined: use `sum`")],
)
def test_plan_is_written_once_live_and_after_a_resume(state: CallState, summary: str, title: str) -> None:
    plan = "# Cache\n\n1. add `it`"
    asks = call("exit_plan_mode", json.dumps({"plan": plan}))
    finished = ToolFinished(asks, ToolOutcome("Denied: use `sum`", summary=summary), state)
    request = ApprovalRequested(PlanApproval(asks, "Carry out this plan?", plan))
    live = talk(ScriptedConversation([reply("", asks), request, UntilAnswered("c1"), finished, ended()]), "go", "y")
    assert [line.strip() for line in live].count("# Cache") == 1
    assert title in live
    replayed: Script = [reply("", asks), ToolStarted(asks), finished, ended()]
    lines = talk(ScriptedConversation(replayed), "go")
    at = lines.index(title)
    assert lines[at + 1 : at + 4] == ["  # Cache", "  ", "  1. add `it`"]
    assert not any(line.startswith("Plan: ") for line in lines), "its first line is not written a second time"


def test_plan_in_a_restricted_folder_is_approved_with_trust() -> None:
    asks = call("exit_plan_mode", '{"plan": "# Cache"}')
    request = ApprovalRequested(PlanApproval(asks, "Continue with it?", "# Cache", is_trusted=False))
    conversation = ScriptedConversation([reply("", asks), request, UntilAnswered("c1"), ended()])
    lines = talk(conversation, "plan it", "2", trust=lambda: "Folder trusted.")
    assert "2. Yes, trust this folder and accept edits: edits in it run without asking" in lines
    assert "Note: Folder trusted." in lines
    assert conversation.answers == [("c1", AcceptPlan("accept-edits", trusts_folder=True))]


def test_choice_answers_the_question_of_the_model_with_its_label() -> None:
    asks = call("ask_person", '{"question": "Where?"}')
    request = ApprovalRequested(Question(asks, "Where?", choices=(Choice("here"), Choice("there"))))
    conversation = ScriptedConversation([reply("", asks), request, UntilAnswered("c1"), ended()])
    talk(conversation, "go", "2")
    assert conversation.answers == [("c1", Answer("there"))]
    own = ScriptedConversation([reply("", asks), request, UntilAnswered("c1"), ended()])
    talk(own, "go", "3", "elsewhere")
    assert own.answers == [("c1", Answer("elsewhere"))]


def test_hooks_are_listed_with_their_runs(tmp_path: Path) -> None:
    own = ScriptedConversation()
    none = "\n".join(talk(own, "/hooks"))
    assert "No hooks. Add [[hooks.PreToolUse]]" in none
    assert "`" not in none
    stop = Handler(
        "Stop", "", HookCommand("make test"), 5, "go-on", "own", location="~/config.toml:3", label="make test"
    )
    own = ScriptedConversation()
    own.hooks = SessionHooks(
        HookRunner([stop], folder=tmp_path, root=tmp_path, environment={}),
        lambda: SessionFacts("s", "default", "m"),
        state_dir=tmp_path,
        folder=tmp_path,
        scratch=lambda: tmp_path,
        redact=str,
        source="startup",
    )
    text = "\n".join(talk(own, "/hooks"))
    assert "Stop: make test" in text
    assert "~/config.toml:3 · 5 s · on failure: go-on · not run yet" in text


def test_rules_tools_instructions_and_findings_are_printed_as_lines(tmp_path: Path) -> None:
    project = Project(tmp_path)
    typed = ("/permissions", "/permissions check make doc", "/tools", "/memory", "/memory both", "/doctor")
    text = "\n".join(talk(ScriptedConversation(), *typed, project=project))
    assert "  deny read(private/**)  (~/config.toml:5)" in text
    assert "declined: shell make doc (build it later)" in text
    assert "shell make doc: asks first" in text
    assert "Write: asks first (built in, " in text
    assert "AGENTS.md: for this project; does not exist yet" in text
    assert "Choose the file" in text
    assert "bubblewrap" in text
    talk(ScriptedConversation(), "/memory project: be brief", project=project)
    assert (project.work / "AGENTS.md").read_text() == "- be brief\n"
