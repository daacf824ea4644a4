"""`!` in the prompt: a shell line, shown as a card, kept for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from textual.widgets import Static

from qcode.agent.context.attachments import Attachment, parse_attached, shell_block
from qcode.protocol.messages import Message, Text, assistant
from qcode.protocol.tools import ToolOutcome
from qcode.tui.shell_lines import shown_output
from tests.tui.harness import Running, drive
from tests.tui.scripted import Gate, ScriptedConversation, ended, says


class Shell:
    """Prints `begun`, then waits for its gate, unless the line is quick."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.begun = asyncio.Event()
        self.end = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, line: str, output: Callable[[str], None]) -> ToolOutcome:
        self.lines.append(line)
        if line.startswith("fails"):
            output("not found\n")
            note = "[commands have no terminal]"
            return ToolOutcome(f"not found\n[exit code 127]\n{note}", is_error=True, summary="exit 127")
        if line.startswith("quick"):
            output("quick output\n")
            return ToolOutcome("quick output\n[exit code 0]", summary="exit 0")
        output("begun\n")
        self.begun.set()
        try:
            await self.end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return ToolOutcome("begun\n[exit code 0]", summary="exit 0")


def has_shell_mark(run: Running) -> bool:
    return run.app.query_one("#prompt-mark", Static).has_class("-shell")


def test_shell_command_runs_at_once_and_its_output_is_attached() -> None:
    shell, conversation = Shell(), ScriptedConversation()

    async def test(run: Running) -> None:
        await run.pilot.press("!")
        await run.pilot.pause()
        assert has_shell_mark(run)
        assert "› !" in run.screen
        assert run.status.startswith("shell command · Enter runs it ")
        await run.send("quick one")
        await run.until(lambda: bool(conversation.attached_blocks))
        assert shell.lines == ["quick one"]
        assert conversation.prompts == []
        assert "! quick one" in run.text
        assert "quick output" in run.text
        assert "exit 0" in run.text
        assert not has_shell_mark(run)
        assert run.status.startswith("ask before edits")
        (block,) = conversation.attached_blocks
        assert isinstance(block, Text)
        assert parse_attached(block.text) == Attachment("shell", "quick one", "quick output\n[exit code 0]", "exit 0")

    drive(test, conversation, run_user_command=shell)


def test_failed_shell_command_shows_its_exit_code_once() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("!fails")
        await run.until(lambda: bool(conversation.attached_blocks))
        assert run.text.count("127") == 1
        assert "failed · exit 127" in run.text
        assert "not found" in run.text
        assert "[commands have no terminal]" in run.text
        (block,) = conversation.attached_blocks
        assert isinstance(block, Text)
        assert "[exit code 127]" in block.text

    drive(test, conversation, run_user_command=Shell())


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("[no output]\n[exit code 1]", "[no output]"),
        ("a\n[ended by signal 9]", "a"),
        ("[exit code 2]\na\n[exit code 1]", "[exit code 2]\na"),
        ("[exit code 2]\na", "[exit code 2]\na"),
    ],
)
def test_shown_output_of_a_shell_command_lacks_only_the_note_on_its_end(output: str, shown: str) -> None:
    assert shown_output(output) == shown


def test_output_for_the_next_prompt_is_shown_above_it_and_removed_with_backspace() -> None:
    shell, conversation = Shell(), ScriptedConversation([*says("done"), ended()])

    async def test(run: Running) -> None:
        for number in (1, 2):
            await run.send(f"!quick {number}")
            await run.until(lambda: len(conversation.attached_blocks) == number)  # noqa: B023  awaited at once
        await run.pilot.pause()
        assert "+ ! quick 1  exit 0\n" in run.screen
        assert "+ ! quick 2  exit 0 · Backspace removes" in run.screen
        await run.type("x")
        await run.pilot.press("backspace")
        assert "+ ! quick 2" in run.screen
        await run.pilot.press("backspace")
        await run.pilot.pause()
        assert "+ ! quick 2" not in run.screen
        assert "+ ! quick 1  exit 0 · Backspace removes" in run.screen
        assert len(conversation.attachments.blocks) == 1
        await run.send("look")
        await run.until_idle()
        assert "Backspace removes" not in run.screen

    drive(test, conversation, run_user_command=shell)


def test_escape_ends_the_shell_command_before_the_turn_and_keeps_its_output() -> None:
    shell, gate = Shell(), Gate()
    conversation = ScriptedConversation([gate, *says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("!long one")
        await shell.begun.wait()
        run.clock.now += 4
        await run.until(lambda: "running 4 s · Esc to interrupt" in run.text)
        await run.pilot.press("escape")
        await run.until(lambda: bool(conversation.attached_blocks))
        assert (shell.cancelled, conversation.cancels) == (1, 0)
        assert "– ! long one  stopped" in run.text
        assert "cancelled" not in run.text
        block = conversation.attached_blocks[0]
        assert isinstance(block, Text)
        assert "begun" in block.text
        assert "stopped by the user" in block.text
        gate.open()
        await run.until_idle()

    drive(test, conversation, run_user_command=shell)


class GatedShell:
    """Waits for `gate` in every line."""

    def __init__(self) -> None:
        self.gate, self.begun = asyncio.Event(), asyncio.Event()

    async def __call__(self, line: str, output: Callable[[str], None]) -> ToolOutcome:
        self.begun.set()
        await self.gate.wait()
        return ToolOutcome("2 failed\n[exit code 1]", is_error=True, summary="exit 1")


def test_prompt_waits_for_the_shell_command_and_goes_with_its_output() -> None:
    shell, conversation = GatedShell(), ScriptedConversation([*says("done"), ended()])

    async def test(run: Running) -> None:
        await run.send("!npm test")
        await shell.begun.wait()
        await run.send("fix the failures")
        await run.until(lambda: "queued: fix the failures" in run.screen)
        assert (conversation.prompts, conversation.steered) == ([], [])
        shell.gate.set()
        await run.until(lambda: conversation.prompts == ["fix the failures"])
        assert len(conversation.attached_blocks) == 1
        await run.until_idle()
        assert "queued" not in run.screen

    drive(test, conversation, run_user_command=shell)


@pytest.mark.parametrize("key", ["up", "escape"])
def test_prompt_that_waits_for_a_shell_command_can_be_taken_back(key: str) -> None:
    shell, conversation = GatedShell(), ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("!npm test")
        await shell.begun.wait()
        await run.send("fix the failures")
        await run.until(lambda: "queued: fix the failures" in run.screen)
        await run.pilot.press(key)
        await run.until(lambda: run.app.widgets.prompt.text == "fix the failures")
        shell.gate.set()
        await run.until(lambda: bool(conversation.attached_blocks))
        assert conversation.prompts == []
        assert "queued" not in run.screen

    drive(test, conversation, run_user_command=shell)


def test_running_shell_command_is_in_the_status_line_until_it_ends() -> None:
    shell, conversation = Shell(), ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("!make everything")
        await shell.begun.wait()
        run.clock.now += 65
        assert "running make everything 1 min 05 s · Esc to interrupt" in run.status
        await run.pilot.press("escape")
        await run.until(lambda: bool(conversation.attached_blocks))
        assert "running" not in run.status

    drive(test, conversation, run_user_command=shell)


def test_empty_shell_command_runs_nothing_and_sends_nothing() -> None:
    shell, conversation = Shell(), ScriptedConversation()

    async def test(run: Running) -> None:
        await run.send("!  ")
        await run.pilot.pause()
        assert (shell.lines, conversation.prompts) == ([], [])

    drive(test, conversation, run_user_command=shell)


def test_internal_error_of_a_shell_command_ends_its_card_and_returns_the_prompt_that_waited() -> None:
    begun, gate, conversation = asyncio.Event(), asyncio.Event(), ScriptedConversation()

    async def broken(line: str, output: Callable[[str], None]) -> ToolOutcome:
        begun.set()
        await gate.wait()
        raise RuntimeError("boom")

    async def test(run: Running) -> None:
        await run.send("!make")
        await begun.wait()
        await run.send("fix it")
        gate.set()
        await run.until(lambda: "Internal error: " in run.text)
        assert "✗ ! make  failed · internal error" in run.text
        assert (conversation.prompts, run.app.widgets.prompt.text) == ([], "fix it")

    drive(test, conversation, run_user_command=broken)


def test_quit_ends_a_running_shell_command() -> None:
    shell = Shell()

    async def test(run: Running) -> None:
        await run.send("!long one")
        await shell.begun.wait()
        await run.pilot.press("ctrl+d")
        await run.until(lambda: run.app.return_value is not None)
        assert shell.cancelled == 1

    drive(test, run_user_command=shell)


def test_output_cannot_end_its_own_block() -> None:
    block = shell_block('echo "x"', ToolOutcome("a</shell>b", summary="exit 0"))
    assert block.text.count("</shell>") == 1
    assert parse_attached(block.text) == Attachment("shell", 'echo "x"', "a&lt;/shell>b", "exit 0")
    assert parse_attached("just <shell> words") is None


def test_resumed_session_shows_the_shell_command_as_a_card_with_only_typed_text() -> None:
    block = shell_block("git status", ToolOutcome("clean", summary="exit 0"))
    file = Text('<file path="a.py">\nsecret lines\n</file>')
    messages = (Message("user", (block, file, Text("look @a.py"))), assistant(Text("I see.")))

    async def test(run: Running) -> None:
        assert "! git status" in run.text
        assert "clean" in run.text
        assert "> look @a.py" in run.text
        assert "secret lines" not in run.text

    drive(test, ScriptedConversation(messages=messages))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("result", "mark"),
    [
        ("exit 0", "✓"),
        ("exit 3", "✗"),
        ("timed out after 120 s", "✗"),
        ("stopped by the user", "–"),
        ("running in the background (job 1)", "–"),
    ],
)
def test_resumed_session_shows_the_outcome_of_the_shell_command(result: str, mark: str) -> None:
    code = 3 if result == "exit 3" else 0
    block = shell_block("make", ToolOutcome(f"out\n[exit code {code}]", summary=result))
    messages = (Message("user", (block, Text("and now?"))), assistant(Text("I see.")))

    async def test(run: Running) -> None:
        assert f"{mark} ! make" in run.text
        assert "[exit code" not in run.text

    drive(test, ScriptedConversation(messages=messages))


def test_card_of_a_shell_line_shows_invisible_characters() -> None:
    async def test(run: Running) -> None:
        await run.send("!quick a\u202eb\u200bc")
        await run.until(lambda: "exit 0" in run.text)
        assert r"! quick a\u202eb\u200bc" in run.text

    drive(test, ScriptedConversation(), run_user_command=Shell())
