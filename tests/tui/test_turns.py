"""The life of a turn in the app: failures, crashes, the first prompt, sanitized output."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from qcode.protocol.errors import ErrorInfo, ErrorKind
from qcode.protocol.events import Notice
from qcode.protocol.reply import Outcome, TextDelta
from qcode.tui.app import QcodeApp
from qcode.tui.prompt.queue import Submission
from tests.tui.harness import Running, drive, make_app
from tests.tui.scripted import Gate, ScriptedConversation, Step, ended, says


def test_crashed_turn_ends_in_a_notice_and_the_app_continues() -> None:
    conversation = ScriptedConversation(
        [TextDelta(0, "some"), RuntimeError("wires crossed\nbadly")], [*says("fine"), ended()]
    )

    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        assert "some" in run.text
        assert "Internal error: RuntimeError: wires crossed⏎badly" in run.text.replace("\n  ", " ")
        assert run.app.widgets.status.status.activity is None
        await run.send("two")
        await run.until_idle()
        assert "fine" in run.text

    drive(test, conversation)


def test_turn_without_its_end_event_is_reported_as_broken_off() -> None:
    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        assert "The turn stopped unexpectedly" in run.text.replace("\n", " ")

    drive(test, ScriptedConversation([TextDelta(0, "some")]))


def test_error_message_is_shown_unchanged() -> None:
    async def test(run: Running) -> None:
        await run.send("one")
        await run.until_idle()
        assert "No key for openai. [Set] OPENAI_API_KEY." in run.text

    drive(test, ScriptedConversation([ended(Outcome.ERROR, error="No key for openai. [Set] OPENAI_API_KEY.")]))


def test_first_failed_request_names_the_key_that_brings_the_prompt_back() -> None:
    failed = [ended(Outcome.ERROR, error="The server is down.")]

    async def test(run: Running) -> None:
        await run.send("say words")
        await run.until_idle()
        assert "The server is down." in run.text
        assert "Press Up to get your prompt back and send it again." in run.text
        await run.pilot.press("up")
        assert run.app.widgets.prompt.text == "say words"
        await run.pilot.press("enter")
        await run.until_idle()
        assert run.text.count("Press Up") == 1

    drive(test, ScriptedConversation(failed, failed))


def test_failed_reply_with_text_does_not_offer_the_prompt_again() -> None:
    async def test(run: Running) -> None:
        await run.send("say words")
        await run.until_idle()
        assert "The server is down." in run.text
        assert "Press Up" not in run.text

    drive(test, ScriptedConversation([TextDelta(0, "some"), ended(Outcome.ERROR, error="The server is down.")]))


def test_first_prompt_is_sent_once_the_screen_is_up() -> None:
    conversation = ScriptedConversation([*says("hello"), ended()])

    async def test(run: Running) -> None:
        await run.until(lambda: bool(conversation.prompts))
        await run.until_idle()
        assert conversation.prompts == ["begin"]
        assert "hello" in run.text

    drive(test, conversation, prompt="begin")


def test_warm_up_runs_in_a_separate_thread() -> None:
    seen: list[str] = []
    done = threading.Event()

    def warm_up() -> None:
        seen.append(threading.current_thread().name)
        done.set()
        raise ImportError("no such SDK")

    async def test(run: Running) -> None:
        await run.until(done.is_set)
        await run.pilot.pause()
        assert seen != [threading.main_thread().name]
        assert run.app.is_running

    drive(test, warm_up=warm_up)


def test_markup_and_escape_sequences_in_a_reply_are_text() -> None:
    text = "[bold]not bold[/bold] [/] [link=x] \x1b]0;title\x07 \x1b[2Jend"

    async def test(run: Running) -> None:
        await run.send("[red]hi[/red]")
        await run.until_idle()
        assert "[red]hi[/red]" in run.text
        assert "[bold]not bold[/bold] [/] [link=x]" in run.text
        rows = [strip.text for y in range(24) for strip in [run.app.screen._compositor.render_strips()[y]]]
        assert not any("\x1b" in row or "\x07" in row for row in rows)

    drive(test, ScriptedConversation([*says(text), ended()]))


def test_provider_that_never_waits_does_not_block_keys() -> None:
    apps: list[QcodeApp] = []
    sent: list[int] = []

    def flood() -> Iterator[Step]:
        """Streams text without a pause until a key was echoed."""
        while apps[0].widgets.prompt.text != "x" and len(sent) < 50_000:
            sent.append(len(sent))
            if len(sent) == 1:
                apps[0].post_message(events.Key("x", "x"))
            yield TextDelta(0, f"word{len(sent)}\n\n")
        yield ended()

    async def test(run: Running) -> None:
        apps.append(run.app)
        run.app.turns.submit(Submission("go", "go"))
        await run.until_idle()
        assert run.app.widgets.prompt.text == "x"
        assert 0 < len(sent) < 1_000

    drive(test, ScriptedConversation(flood()))


def test_second_escape_does_not_cancel_twice() -> None:
    gate = Gate()
    conversation = ScriptedConversation([gate, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.press("escape", "escape")
        await run.until_idle()
        assert conversation.cancels == 1

    drive(test, conversation)


def test_start_notices_and_a_missing_theme_are_shown() -> None:
    async def test(run: Running) -> None:
        assert "an old key" in run.text
        assert 'Unknown theme "solar"; using dark.' in run.text

    drive(test, notices=(Notice("warning", "an old key"),), theme="solar")


def test_crash_ends_with_one_line_and_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    app = make_app(ScriptedConversation())

    async def crash() -> None:
        def fail() -> None:
            secret = "sk-canary"
            raise ValueError(f"it broke after {len(secret)} steps")

        app.call_later(fail)

    async def pilot(_: object) -> None:
        await crash()

    assert app.run(headless=True, size=(80, 24), auto_pilot=pilot) == 1
    stderr = capsys.readouterr().err
    assert "qcode stopped: ValueError: it broke after 9 steps" in stderr
    assert "sk-canary" not in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.rglob("crash-*.txt"))


def test_run_returns_the_exit_code() -> None:
    app = make_app(ScriptedConversation())

    async def pilot(running: object) -> None:
        app.exit(143)
        await asyncio.Event().wait() if running is None else None

    assert app.run(headless=True, size=(80, 24), auto_pilot=pilot) == 143


def test_prompt_that_a_hook_blocks_is_back_in_the_prompt() -> None:
    error = ErrorInfo(ErrorKind.PROMPT_BLOCKED, "a hook blocked the prompt: no secrets")
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("my secret is 42")
        await gate.reached.wait()
        await run.type("next")
        gate.open()
        await run.until_idle()
        assert run.app.widgets.prompt.text == "my secret is 42\nnext"
        assert "no secrets" in run.text
        # Only once: the next turn that fails for another reason gives nothing back.
        await run.pilot.press("enter")
        await run.until_idle()
        assert run.app.widgets.prompt.text == ""

    blocked: list[Step] = [gate, replace(ended(Outcome.ERROR), error=error)]
    drive(test, ScriptedConversation(blocked, [ended(Outcome.ERROR)]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("command", ["/compact", "/undo", "/redo", "/rewind", "/clear", "/resume"])
def test_command_without_an_argument_that_cannot_run_during_a_turn_stays_in_the_prompt(command: str) -> None:
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("hi")
        await gate.reached.wait()
        await run.send(command)
        await run.until(lambda: "A turn is running." in run.text)
        assert run.app.widgets.prompt.text == command
        gate.open()
        await run.until_idle()

    drive(test, ScriptedConversation([gate, *says("hello"), ended()]))
