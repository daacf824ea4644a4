"""Ctrl+B moves a running command to the background."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import pytest

from qcode.agent.context.attachments import parse_attached
from qcode.agent.sessions.history import HistoryEntry, StoredMessage
from qcode.agent.sessions.shown import ShownResult, StoredJob
from qcode.protocol.events import ToolStarted
from qcode.protocol.messages import Message, Text, assistant
from qcode.tui.screens.jobs import QuitPicker
from qcode.tui.transcript.replay import replay
from qcode.tui.transcript.transcript import Transcript
from tests.fakes.conversation import talk
from tests.fakes.scripted import call_reply, text_reply
from tests.tui.harness import Running, drive, running
from tests.tui.scripted import FixedClock, Gate, ScriptedConversation, call, ended
from tests.tui.test_replay import replayed_rows


def test_long_running_command_shows_the_background_key_which_moves_it() -> None:
    gate = Gate()
    conversation = ScriptedConversation([ToolStarted(call(), is_backgroundable=True), gate, ended()])
    conversation.background.calls = ("c0", "c1")

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        assert "background" not in run.text
        run.clock.now += 4
        run.app.widgets.transcript.content.tick()
        assert "running 4 s \u00b7 Ctrl+B to run in background" in run.text
        await run.pilot.press("ctrl+b")
        await run.until(lambda: bool(conversation.background.moved))
        assert conversation.background.moved == ["c1"]
        gate.open()
        await run.until_idle()
        assert "Ctrl+B to run in background" not in run.text

    drive(test, conversation)


def test_call_that_cannot_be_moved_shows_no_background_key() -> None:
    gate = Gate()
    conversation = ScriptedConversation([ToolStarted(call("read")), gate, ended()])

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        run.clock.now += 4
        run.app.widgets.transcript.content.tick()
        assert "running 4 s" in run.text
        assert "background" not in run.text

    drive(test, conversation)


def test_background_key_moves_the_cursor_and_bg_reports_that_nothing_can_be_moved() -> None:
    async def test(run: Running) -> None:
        await run.type("ab")
        await run.pilot.press("ctrl+b")
        assert run.app.widgets.prompt.cursor_location == (0, 1)
        await run.pilot.press("ctrl+e", "ctrl+u")
        await run.send("/bg")
        await run.pilot.pause()
        assert "No running command can move to the background." in run.text

    drive(test)


def test_background_refusal_reports_reason() -> None:
    gate = Gate()
    conversation = ScriptedConversation([ToolStarted(call(), is_backgroundable=True), gate, ended()])
    conversation.background.calls, conversation.background.refusal = ("c1",), "Too many."

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.pilot.press("ctrl+b")
        await run.until(lambda: "Too many." in run.text)

    drive(test, conversation)


def test_background_key_makes_a_job_of_the_users_own_command(tmp_path: Path) -> None:
    async def body() -> None:
        it = talk(tmp_path, text_reply("I see."), is_attended=True)
        pipe = it.work / "pipe"
        os.mkfifo(pipe)
        async with running(it.conversation, toolbox=it.toolbox) as run:
            await run.send("!echo begun; read line < pipe; echo got $line")
            await run.until(lambda: "│ begun" in run.text)
            run.clock.now += 4
            run.app.widgets.transcript.content.tick()
            assert "running 4 s · Esc to interrupt · Ctrl+B to run in background" in run.text
            await run.pilot.press("ctrl+b")
            await run.until(lambda: "1 job " in run.status)
            await run.until(lambda: "in background, /jobs 1 shows its output" in run.text)
            run.clock.now += 8
            run.app.widgets.transcript.content.tick()
            assert "● ! echo begun" in run.text
            assert "running 12 s · in background" in run.text
            assert "the user moved it" not in run.text
            assert "Esc to interrupt" not in run.status
            await run.send("look")
            await run.until_idle()
            block = it.provider.requests[0].messages[-1].blocks[0]
            assert isinstance(block, Text)
            sent = parse_attached(block.text)
            assert sent is not None
            assert sent.result == "running in the background (job 1)"
            assert re.fullmatch(r"begun\n\[the user moved it to the background as job 1\. .*\]", sent.content)
            await run.send("/quit")
            await run.until(lambda: isinstance(run.app.screen, QuitPicker))
            await run.pilot.press("escape")
            (job,) = it.toolbox.jobs.all
            pipe.write_text("it\n")
            await run.until(lambda: "Job 1 ended (exit 0)" in run.text)
            assert job.latest() == "begun\ngot it\n"
            assert "✓ ! echo begun" in run.text
            assert "exit 0, /jobs 1 shows its output · 12 s" in run.text
            assert "│ got it" in run.text
            assert not run.app.widgets.transcript.content.has_running
        await it.conversation.close()

    asyncio.run(body())


@pytest.mark.parametrize("width", [100, 72])
def test_command_gets_the_width_of_its_card(width: int, tmp_path: Path) -> None:
    line = 'printf "%0${COLUMNS}d\\n" 0'
    begin_job = call_reply("shell", {"command": f"{line}; read line < pipe", "background": True})

    async def body() -> None:
        it = talk(tmp_path, call_reply("shell", {"command": line}), begin_job, text_reply("Done."), mode="bypass")
        os.mkfifo(it.work / "pipe")
        async with running(it.conversation, toolbox=it.toolbox, size=(width, 24)) as run:
            output = "0" * (run.app.widgets.transcript.text_width - len("  │ "))
            await run.send(f"!{line}")
            await run.until(lambda: "exit 0" in run.text)
            await run.send("go")
            await run.until_idle()
            assert run.text.split("\n").count(f"  │ {output}") == 2
            (job,) = it.toolbox.jobs.all
            await run.until(lambda: job.latest() == f"{output}\n")
        await it.conversation.close()

    asyncio.run(body())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("ending", "row", "output"),
    [
        ("exit 0", "✓  exit 0", "│ got it"),
        ("exit 4", "✗  failed · exit 4", "│ got it"),
        ("stopped", "–  stopped", "│ begun"),
        ("quit", "–  stopped when qcode ended", "│ begun"),
        ("killed", "–  stopped when qcode ended", "│ begun"),
    ],
)
@pytest.mark.parametrize("is_call", [False, True])
def test_resumed_session_shows_how_a_job_ended(
    is_call: bool, ending: str, row: str, output: str, tmp_path: Path
) -> None:
    command = "sh serve.sh"

    async def first_run() -> str:
        replies = (call_reply("shell", {"command": command}), text_reply("It runs.")) if is_call else ()
        it = talk(tmp_path, *replies, text_reply("I see."), mode="bypass", is_attended=True)
        pipe = it.work / "pipe"
        os.mkfifo(pipe)
        code = ending.removeprefix("exit ")
        (it.work / "serve.sh").write_text(f"echo begun; read line < pipe; echo got $line; exit {code}\n")
        async with running(it.conversation, toolbox=it.toolbox) as run:
            await run.send("start it" if is_call else f"!{command}")
            await run.until(lambda: "│ begun" in run.text)
            run.app.agent.conversation.background.move(run.app.agent.conversation.background.calls[0])
            await run.until(lambda: "1 job " in run.status)
            if is_call:
                await run.until_idle()
            if ending.startswith("exit"):
                pipe.write_text("it\n")
                await run.until(lambda: f"Job 1 ended ({ending})" in run.text)
            elif ending == "stopped":
                await run.app.view.jobs.stop(it.toolbox.jobs.all[0])
            await run.send("look")  # after the end of the job, which no message had followed
            await run.until_idle()
        file = it.store.folder / f"{it.conversation.session_id}.jsonl"
        written = file.read_bytes()
        if ending == "quit":  # the loop of an app that ends cancels every task
            task = it.toolbox.jobs.all[0].task
            assert task is not None
            task.cancel()
            await asyncio.wait([task])
        await it.conversation.close()
        if ending == "killed":
            file.write_bytes(written)
        return it.conversation.session_id

    async def resumed_run(session_id: str) -> None:
        it = talk(tmp_path, resumes=session_id, is_attended=True)
        async with running(it.conversation, toolbox=it.toolbox) as run:
            title = f"{row[0]} {'Run    ' if is_call else '! '}sh serve.sh{row[1:]}"
            (found,) = [line for line in run.text.split("\n") if line.startswith(title)]
            assert not found.removeprefix(title) or re.fullmatch(r" · \d+ s", found.removeprefix(title))
            assert output in run.text
            assert "in the background" not in run.text
        await it.conversation.close()

    asyncio.run(resumed_run(asyncio.run(first_run())))


def test_conversation_shown_again_while_a_job_runs_does_not_say_that_it_ended(tmp_path: Path) -> None:
    replies = call_reply("shell", {"command": "read line < pipe", "background": True}), text_reply("It runs.")

    async def body() -> None:
        it = talk(tmp_path, *replies, mode="bypass", is_attended=True)
        os.mkfifo(it.work / "pipe")
        async with running(it.conversation, toolbox=it.toolbox) as run:
            await run.send("start it")
            await run.until_idle()
            run.app.view.show_conversation()
            assert "running in the background (job 1)" in run.text
            it.sessions.fork()
            run.app.view.show_conversation()
            assert "running in the background (job 1)" in run.text
        await it.conversation.close()

    asyncio.run(body())


@pytest.mark.parametrize("comes_back", ["before the end", "after the end", "in a new process"])
def test_job_of_a_session_that_was_left_is_shown_as_it_ended(comes_back: str, tmp_path: Path) -> None:
    replies = call_reply("shell", {"command": "read line < pipe; echo $line", "background": True}), text_reply("Runs.")

    async def body() -> list[str]:
        it = talk(tmp_path, *replies, mode="bypass", is_attended=True)
        pipe, first = it.work / "pipe", it.conversation.session_id
        os.mkfifo(pipe)
        await it.play("start it")
        it.conversation.clear()
        if comes_back == "before the end":
            it.sessions.resume(first)
            assert "running in the background" in "\n".join(replayed_rows(it))
        pipe.write_text("ready\n")
        (job,) = it.toolbox.jobs.all
        while job.is_running:
            await job.readable.wait()
            job.read()
        await asyncio.sleep(0)
        if comes_back == "after the end":
            it.sessions.resume(first)
        rows = replayed_rows(it) if it.conversation.session_id == first else []
        await it.conversation.close()
        again = talk(tmp_path, resumes=first, is_attended=True)
        resumed = replayed_rows(again)
        await again.conversation.close()
        assert rows in ([], resumed)
        return resumed

    rows = "\n".join(asyncio.run(body()))
    assert "when qcode ended" not in rows
    if comes_back == "in a new process":
        assert "outcome unknown: it was running when you left the session" in " ".join(rows.split())
        assert "ready" not in rows
    else:
        assert "exit 0" in rows
        assert "│ ready" in rows


def test_job_shows_its_duration_after_a_resume(tmp_path: Path) -> None:
    job = StoredJob(1, 1, "exit 0", "built", 75.0)
    started = call("shell", '{"command": "make"}')
    stored = StoredMessage(HistoryEntry(assistant(started)), is_turn_start=False)
    stored.shown_results[started.call_id] = ShownResult("done", "running in the background (job 1)", seconds=5.0)
    stored.jobs[1] = job
    transcript = Transcript(clock=FixedClock())
    replay([stored], transcript, FixedClock(), max_continuations=3)
    assert "✓ Run    make  exit 0 · 1 min 20 s" in transcript.plain_text()


def test_resumed_session_shows_the_output_of_a_moved_command_without_the_note_to_the_model() -> None:
    note = "[the user moved it to the background as job 1. This is its output so far; read more with jobs (read, 1).]"
    head = '<shell line="make" result="running in the background (job 1)">'
    messages = tuple(
        Message("user", (Text(f"{head}\n{output}\n{note}\n</shell>"), Text("and?")))
        for output in ("building", "[no output so far]")
    )

    async def test(run: Running) -> None:
        assert run.text.count("– ! make  stopped when qcode ended") == 2
        assert "building" in run.text
        assert "no output" not in run.text
        assert "the user moved it" not in run.text

    drive(test, ScriptedConversation(messages=(*messages, assistant(Text("I see.")))))
