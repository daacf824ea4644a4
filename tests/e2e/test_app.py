"""The app in a real pty: screen, keys, and the restored terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pexpect
import pytest

from qcode.protocol.reply import StopReason
from tests.e2e.running import HELLO, KEY, KEY_VARIABLES, PROTOCOLS, CliRunner
from tests.e2e.terminal import TRUST_QUESTION, Answering, Terminal
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.server_cli import SCENARIOS
from tests.fakes.turns import Faults, Turn

ALTERNATE_SCREEN_OFF = "\x1b[?1049l"
CURSOR_ON = "\x1b[?25h"


def at(server: FakeServer, protocol: ProtocolName, cli: CliRunner, *more: str) -> Terminal:
    flags = ("-m", f"{protocol}/test-model", "--base-url", server.base_url, *more)
    return Terminal(cli, *flags, env={KEY_VARIABLES[protocol]: KEY})


def is_restored(terminal: Terminal) -> bool:
    return ALTERNATE_SCREEN_OFF in terminal.raw and CURSOR_ON in terminal.raw


@pytest.mark.parametrize(
    "protocol", [PROTOCOLS[0], *(pytest.param(item, marks=pytest.mark.broad) for item in PROTOCOLS[1:])]
)
def test_edit_is_requested_approved_and_made(protocol: ProtocolName, cli: CliRunner) -> None:
    (cli.work / "hello.py").write_text(HELLO)
    with (
        FakeServer(protocol, SCENARIOS["docstring"].make_answer()) as server,
        at(server, protocol, cli, "--trust") as terminal,
    ):
        terminal.wait_for("test-model")
        terminal.press("add a docstring to hello.py\r")
        asked = terminal.wait_for("1 Yes (y)")
        assert "hello.py" in asked
        assert '+     """' in asked
        assert (cli.work / "hello.py").read_text() == HELLO
        terminal.wait_for(Answering(terminal, "Done:"))
        assert '"""' in (cli.work / "hello.py").read_text()
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
        assert server.complaints == []
        assert is_restored(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_prints_the_usage_and_how_to_resume(number: int, cli: CliRunner) -> None:
    with FakeServer("openai", [Turn(text="The last words.")]) as server, at(server, "openai", cli) as terminal:
        terminal.wait_for("test-model")
        terminal.press("hello\r")
        terminal.wait_for(Answering(terminal, "words."))
        terminal.send_signal(number)
        assert terminal.wait_for_end() == 143
        assert is_restored(terminal)
    after = terminal.raw.rpartition(ALTERNATE_SCREEN_OFF)[2].replace("\r\n", "\n")
    assert re.search(r"\d+ (?:s|min) · \d+ tokens · cost unknown\nResume with: qcode -c\n$", after), after


@pytest.mark.parametrize("keeps_reply", [False, True])
def test_exit_prints_the_usage_and_how_to_resume(cli: CliRunner, keeps_reply: bool) -> None:
    config = cli.home / ".config" / "qcode"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"[ui]\nkeep_last_reply = {str(keeps_reply).lower()}\n")
    with FakeServer("openai", [Turn(text="The **last** words.")]) as server, at(server, "openai", cli) as terminal:
        terminal.wait_for("test-model")
        terminal.press("hello\r")
        terminal.wait_for(Answering(terminal, "words."))
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
    after = terminal.raw.rpartition(ALTERNATE_SCREEN_OFF)[2].replace("\r\n", "\n")
    assert re.search(r"\d+ (?:s|min) · \d+ tokens · cost unknown\nResume with: qcode -c\n$", after), after
    assert ("The **last** words." in after) is keeps_reply


@pytest.mark.broad
def test_session_is_picked_on_a_screen_and_keeps_its_mode(cli: CliRunner) -> None:
    for prompt in ("the first one", "the second one"):
        with Terminal(cli, "-m", "demo/demo", "--trust", prompt) as terminal:
            terminal.wait_for(Answering(terminal, "── "))
            terminal.press("\x1b[Z")
            terminal.wait_for("accept edits · Shift+Tab")
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
    with Terminal(cli, "-r", "-m", "demo/demo", "--trust") as terminal:
        terminal.wait_for("Sessions of this folder  2")
        terminal.press("first")
        terminal.wait_for("1 of 2")
        terminal.press("\r")
        terminal.wait_for("as when you left this session")
        terminal.wait_for("accept edits · Shift+Tab")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
    listed = cli.run("-r", "-p", "x", "-m", "demo/demo")
    assert listed.code == 2
    assert "the first one" in listed.err
    assert "the second one" in listed.err


def test_exit_without_a_conversation_prints_nothing(cli: CliRunner) -> None:
    with FakeServer("openai", []) as server, at(server, "openai", cli) as terminal:
        terminal.wait_for("test-model")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
    assert "Resume with" not in terminal.raw


def test_truncated_reply_is_continued_on_screen(cli: CliRunner) -> None:
    script = [
        Turn(text="Lost part.", stop=StopReason.MAX_TOKENS),
        Turn(text="The story begins", stop=StopReason.MAX_TOKENS),
        Turn(text=" and ends here."),
    ]
    with FakeServer("openai", script) as server, at(server, "openai", cli) as terminal:
        terminal.wait_for("test-model")
        terminal.press("tell me a story\r")
        screen_text = terminal.wait_for("and ends here.")
        assert "continued 1/3" in screen_text
        assert "Lost part." not in screen_text
        assert server.caps == [8000, 64000, 64000]


def test_escape_interrupts_and_keeps_the_shown_text(cli: CliRunner) -> None:
    with (
        FakeServer("openai", [Turn(text=["One. ", "Two. ", "Three."], faults=Faults(stall_after=3))]) as server,
        at(server, "openai", cli) as terminal,
    ):
        terminal.wait_for("test-model")
        terminal.press("count\r")
        terminal.wait_for("Two.")
        terminal.press("\x1b")
        screen_text = terminal.wait_for(lambda text: "nterrupted" in text)
        assert "One. Two." in screen_text
        server.wait_until(lambda seen: seen.hangups == 1)
        assert len(server.requests) == 1


def test_app_without_a_key_opens_the_demo_and_says_how_to_add_one(cli: CliRunner) -> None:
    with Terminal(cli) as terminal:
        terminal.wait_for("Connect a model")
        terminal.press("\x1b")
        terminal.wait_for("Theme")
        terminal.press("\x1b")
        terminal.wait_for("? keys")
        terminal.press("/help demo\r")
        terminal.wait_for("run the tests")
        # The list is longer than its panel, which scrolls while the prompt has the keys.
        terminal.press("\x1b[6~")
        terminal.wait_for("a very long reply")
        terminal.press("\x1b")
        screen_text = terminal.wait_for("ANTHROPIC_API_KEY")
        assert "demo" in screen_text
        assert "/connect" in screen_text
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0


def test_first_prompt_is_sent_at_once(cli: CliRunner) -> None:
    with Terminal(cli, "list the folder", "-m", "demo/demo") as terminal:
        terminal.wait_for("glob")


def test_app_survives_a_resize_while_streaming(cli: CliRunner) -> None:
    script = [Turn(text=[f"line {number}\n\n" for number in range(100)], faults=Faults(stall_after=60))]
    with FakeServer("openai", script) as server, at(server, "openai", cli, "write 100 lines") as terminal:
        terminal.wait_for("line 55")
        terminal.resize(40, 15)
        server.release()
        terminal.resize(120, 40)
        terminal.wait_for("line 99")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
        assert is_restored(terminal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signal_ends_the_app_with_the_terminal_restored(number: int, cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo") as terminal:
        terminal.wait_for("demo/demo")
        terminal.send_signal(number)
        terminal.wait_for_end()
        assert is_restored(terminal)


@pytest.mark.broad
def test_signal_ends_the_app_while_an_editor_ignores_it(cli: CliRunner) -> None:
    editor = cli.home / "editor"
    editor.write_text("#!/bin/sh\ntrap '' TERM HUP INT\necho editing $$\nwhile :; do sleep 60; done\n")
    editor.chmod(0o755)
    with Terminal(cli, "-m", "demo/demo", env={"EDITOR": str(editor)}) as terminal:
        terminal.wait_for("demo/demo")
        terminal.press("a draft")
        terminal.wait_for("a draft")
        terminal.press("\x07")
        shown = terminal.wait_for(lambda text: bool(re.search(r"editing \d+", text)))
        terminal.send_signal(signal.SIGTERM)
        assert terminal.wait_for_end() == 143
        assert is_restored(terminal)
    assert not Path("/proc", *re.findall(r"editing (\d+)", shown), "exe").exists()
    assert [draft for draft in cli.home.rglob("drafts/*") if "a draft" in draft.read_text("utf-8")]


def test_failure_to_open_is_one_line_in_an_unchanged_terminal(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--resume", "no-such-session") as terminal:
        assert terminal.wait_for_end() == 42
        assert "\x1b[?1049" not in terminal.raw
        assert "no-such-session" in terminal.raw
        assert "Traceback" not in terminal.raw


def test_keys_pressed_while_the_app_starts_are_not_lost(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust") as terminal:
        terminal.wait_for("qcode")
        terminal.press("hello\r")
        terminal.wait_for("For a real model, type ")


def test_line_typed_before_the_app_takes_the_terminal_is_sent(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo", "--trust", typed_before="hello\rdraft") as terminal:
        terminal.wait_for(lambda text: "For a real model, type " in text and "› draft" in text)


def test_line_typed_before_the_trust_question_answers_nothing(cli: CliRunner) -> None:
    (cli.work / "AGENTS.md").write_text("Say moo.")
    with Terminal(cli, "-m", "demo/demo", typed_before="hello\r") as terminal:
        terminal.wait_for(lambda text: TRUST_QUESTION in text and "next message: hello" in text)
        terminal.answer_trust("1")
        terminal.wait_for(lambda text: "Reads " in text and "› hello" in text)


def test_unknown_folder_asks_for_trust_once(cli: CliRunner) -> None:
    (cli.work / "AGENTS.md").write_text("Say moo.")
    with Terminal(cli, "-m", "demo/demo", about_folder=None) as terminal:
        terminal.wait_for(TRUST_QUESTION)
        terminal.press("hi")  # typed before the question is read, so it belongs to the prompt
        terminal.wait_for("next message: hi")  # a key that the app reads together with others answers nothing
        asked = terminal.answer_trust("1")
        assert "AGENTS.md" in asked
        assert "moo" not in asked
        screen_text = terminal.wait_for(lambda text: "Reads " in text and "› hi" in text)
        assert "AGENTS.md" in screen_text
        assert "restricted" not in screen_text
        terminal.press("\x15\x04")
        assert terminal.wait_for_end() == 0
    with Terminal(cli, "-m", "demo/demo", about_folder=None) as terminal:
        terminal.wait_for("Reads ")


def test_folder_without_project_files_is_trusted_by_a_command(cli: CliRunner) -> None:
    with Terminal(cli, "-m", "demo/demo") as terminal:
        terminal.wait_for("Restricted folder")
        terminal.press("/trust\r")
        terminal.wait_for("Folder trusted")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
    with Terminal(cli, "-m", "demo/demo") as terminal:
        assert "restricted" not in terminal.wait_for("demo/demo")


def test_enter_keeps_a_folder_restricted_and_ctrl_d_exits(cli: CliRunner) -> None:
    (cli.work / "AGENTS.md").write_text("Say moo.")
    with Terminal(cli, "-m", "demo/demo", about_folder="\r") as terminal:
        screen_text = terminal.wait_for("Restricted folder")
        assert "Reads " not in screen_text
    with Terminal(cli, "-m", "demo/demo", about_folder=None) as terminal:
        terminal.answer_trust("\x04")
        assert terminal.wait_for_end() == 130
        assert is_restored(terminal)
        assert "Traceback" not in terminal.text


def test_file_of_the_command_line_is_attached_to_the_first_prompt(cli: CliRunner) -> None:
    (cli.work / "notes.txt").write_text("The cow says moo.")
    with (
        FakeServer("openai", [Turn(text="I read it.")]) as server,
        at(server, "openai", cli, "-f", "notes.txt", "trust this folder?") as terminal,
    ):
        terminal.wait_for("I read it.")
        assert "The cow says moo." in server.requests[0].messages[-1].text


def test_session_lock_is_removed_on_exit(cli: CliRunner) -> None:
    with (
        FakeServer("openai", SCENARIOS["plain"].make_answer()) as server,
        at(server, "openai", cli, "hi") as terminal,
    ):
        terminal.wait_for("fake host.")
        (lock,) = cli.home.rglob("*.lock")
        terminal.press("\x04")
        assert terminal.wait_for_end() == 0
        assert not lock.exists()


def test_resumed_session_is_shown_again(cli: CliRunner) -> None:
    cli.run("-p", "hello", "-m", "demo/demo")
    with Terminal(cli, "-c", "-m", "demo/demo") as terminal:
        terminal.wait_for("For a real model")


@pytest.mark.parametrize("is_writing", [True, False])
def test_app_exits_if_its_terminal_disappears(cli: CliRunner, is_writing: bool) -> None:
    terminal = Terminal(cli, "--model", "demo/demo", about_folder=None)
    with terminal:
        terminal.wait_for("demo/demo")
        if is_writing:
            terminal.press("write a long answer\r")
            terminal.wait_for("Esc")
        assert terminal.hang_up() == 143


def test_app_exits_if_its_terminal_disappears_without_a_signal(cli: CliRunner) -> None:
    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (24, 80))
    # A new session without a controlling terminal gets no SIGHUP: only reading and writing fail.
    app = subprocess.Popen(
        cli.command("--model", "demo/demo"),
        cwd=cli.work,
        env=cli.environment({"TERM": "xterm-256color"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while b"? keys" not in shown:
        shown += os.read(ours, 65_536)
    os.close(ours)
    assert app.wait(20) == 143


@pytest.mark.broad
@pytest.mark.parametrize("ending", ["quit", "kill"])
def test_output_of_a_command_that_was_not_sent_is_restored_at_the_next_start(cli: CliRunner, ending: str) -> None:
    flags = ("--model", "demo/demo", "--trust")
    with Terminal(cli, *flags) as terminal:
        terminal.wait_for("? keys")
        terminal.press("!echo kept-$((40 + 2))\r")
        terminal.wait_for("exit 0 · Backspace removes")
        if ending == "quit":
            terminal.press("\x04")
            assert terminal.wait_for_end() == 0
        else:
            terminal.send_signal(signal.SIGKILL)
            terminal.wait_for_end()
    with Terminal(cli, *flags) as terminal:
        terminal.wait_for("Restored the output of 1 command that was not sent.")
        assert "│ kept-42" in terminal.text
        assert "exit 0 · Backspace removes" in terminal.text
        terminal.press("hello\r")
        terminal.wait_for(lambda text: "needs no key." in text and "Backspace removes" not in text)
    with Terminal(cli, *flags) as terminal:
        terminal.wait_for("? keys")
        terminal.press("hi\r")
        terminal.wait_for("demo model")
        assert "kept-42" not in terminal.text


@pytest.mark.broad
def test_linear_mode_has_every_command_without_a_screen(cli: CliRunner) -> None:
    exported = cli.work / "talk.md"
    typed = {
        "hello": "built-in demo model",
        "/context": "Reply reserve",
        "/cost": r"API calls   1 \(1 first attempt\)",
        "/rename a good name": 'Session renamed to "a good name"',
        f"/export {exported.name}": r"Exported to\s",
        "/fork": "Forked to ",
        "/theme light": "/theme is not available in the linear mode",
    }
    child = pexpect.spawn(
        sys.executable,
        cli.command("--model", "demo")[1:],
        env=cli.environment({"TERM": "dumb"}),
        cwd=str(cli.work),
        timeout=30,
        encoding="utf-8",
        echo=False,
    )
    child.expect("User: ")
    for line, answer in typed.items():
        child.sendline(line)
        child.expect(answer)
        child.expect("User: ")
    child.sendline("/quit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert exported.read_text(encoding="utf-8").startswith("# a good name")
