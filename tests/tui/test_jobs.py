"""Background jobs for the user: counted, listed, stopped, sent to the model, and asked about before leaving."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from rich.cells import cell_len

from qcode.agent.context.attachments import Attachment, job_block, parse_attached, shell_block
from qcode.protocol.events import ToolFinished, ToolStarted, TurnEvent
from qcode.protocol.messages import Message, Text, assistant
from qcode.protocol.tools import Launch, ToolOutcome
from qcode.tools.jobs import Job, Jobs
from qcode.tools.shell import started_outcome
from qcode.tui.panels.jobs import JobWatch, command_of, commands_of
from qcode.tui.screens.jobs import JobOutput, JobsScreen, QuitPicker
from tests.tui.harness import Running, drive, make_agent
from tests.tui.scripted import FixedClock, ScriptedConversation, call, ended, says
from tests.tui.staged_app import StagedAgent
from tests.tui.test_linear import Typed, linear
from tests.tui.test_shell_lines import Shell


def start(jobs: Jobs, command: str, folder: Path) -> Job:
    """Start a real command."""
    return jobs.start(
        Launch(("/bin/sh", "-c", command)),
        command,
        cwd=folder,
        environment=dict(os.environ),
        scratch=folder,
        limit=2_000,
    )


WAITING = "echo begun; read line < pipe; echo got $line; exit 3"
"""Prints, then waits until a line is written to the pipe in its folder."""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


async def begun(run: Running, command: str, folder: Path) -> Job:
    """Start a command and wait for its first output."""
    job = start(run.app.agent.toolbox.jobs, command, folder)
    await run.until(lambda: bool(job.recent))
    return job


async def pressed(run: Running, *keys: str) -> None:
    await run.pilot.press(*keys)
    await run.pilot.pause()


def test_running_jobs_are_counted_and_each_end_is_reported(pipe: Path) -> None:
    async def test(run: Running) -> None:
        assert "job" not in run.status
        await begun(run, WAITING, pipe.parent)
        other = start(run.app.agent.toolbox.jobs, "exit 0", pipe.parent)
        await run.until(lambda: not other.is_running and "1 job " in run.status)
        assert '• Job 2 ended (exit 0): "exit 0". /jobs 2 shows its output.' in run.text
        pipe.write_text("it\n")
        await run.until(lambda: "job" not in run.status)
        assert '! Job 1 ended (exit 3): "echo begun; read line' in " ".join(run.text.split())

    drive(test)


@pytest.mark.parametrize(("has_bell", "is_focused", "rings"), [(None, True, 0), (None, False, 2), (False, False, 0)])
def test_end_of_a_shell_line_or_a_job_rings_while_the_terminal_is_unfocused(
    has_bell: bool | None, is_focused: bool, rings: int, tmp_path: Path
) -> None:
    async def test(run: Running) -> None:
        bells: list[None] = []
        run.app.bell = lambda: bells.append(None)  # type: ignore[method-assign]
        await run.send("!waits")
        await shell.begun.wait()
        run.app.app_focus = is_focused
        shell.end.set()
        await run.until(lambda: bool(conversation.attached_blocks))
        start(run.app.agent.toolbox.jobs, "exit 0", tmp_path)
        await run.until(lambda: "Job 1 ended" in run.text)
        assert len(bells) == rings

    shell, conversation = Shell(), ScriptedConversation()
    drive(test, conversation, has_bell=has_bell, run_user_command=shell)


@pytest.mark.parametrize(
    ("ending", "row"),
    [
        ("write", "✗ Run    serve  failed · exit 3, /jobs 1 shows its output"),
        ("stop", "– Run    serve  stopped · /jobs 1"),
    ],
)
def test_card_of_a_background_call_shows_that_it_runs_and_how_it_ended(pipe: Path, ending: str, row: str) -> None:
    serve = call("shell", '{"command": "serve", "background": true}')
    script: list[TurnEvent] = [ToolStarted(serve)]

    async def test(run: Running) -> None:
        job = await begun(run, WAITING, pipe.parent)
        script.extend([ToolFinished(serve, started_outcome(job), "done"), *says("It runs."), ended()])
        await run.send("start the server")
        await run.until_idle()
        assert "● Run    serve  running 0 s · in background, /jobs 1 shows its output" in run.text
        if ending == "write":
            pipe.write_text("it\n")
        else:
            await run.app.view.jobs.stop(job)
        await run.until(lambda: row in run.text)
        assert "│ begun" in run.text

    drive(test, ScriptedConversation(script))


def test_list_shows_live_output_and_stops_the_highlighted_job(pipe: Path) -> None:
    async def test(run: Running) -> None:
        first = await begun(run, WAITING, pipe.parent)
        run.clock.now += 125
        await run.send("/jobs")
        await run.until(lambda: isinstance(run.app.screen, JobsScreen))
        await run.until(lambda: "begun" in run.screen)
        assert "running 2 min" in run.screen
        assert "Enter show output  ·  Esc close  ·  Ctrl+X stop  ·  Ctrl+S attach to message" in run.screen
        first.add_output(b"\x1b[31mmore\x1b[0m \x07output")
        await run.until(lambda: "more output" in run.screen)
        await pressed(run, "ctrl+x")
        await run.until(lambda: "stopped" in run.screen)
        assert first.state == "stopped"
        await pressed(run, "ctrl+x")
        await run.until(lambda: "Job 1 has already ended (stopped)." in run.screen)
        assert "Esc close  ·  Ctrl+S attach to message" in run.screen, "the job has ended"
        await pressed(run, "escape")
        assert "Job 1" not in run.text, "the list has shown it"

    drive(test)


def test_output_of_a_stopped_job_has_no_key_to_stop_it(pipe: Path) -> None:
    async def test(run: Running) -> None:
        job = start(run.app.agent.toolbox.jobs, "read line < pipe", pipe.parent)
        await run.send("/jobs 1")
        await run.until(lambda: isinstance(run.app.screen, JobOutput) and "(no output yet)" in run.screen)
        assert "Ctrl+X stop" in run.screen
        await pressed(run, "ctrl+x")
        await run.until(lambda: "(no output)" in run.screen)
        assert not job.is_running
        assert "Ctrl+X stop" not in run.screen
        await pressed(run, "ctrl+x")
        assert "Job 1 has already ended (stopped)." in run.screen
        await pressed(run, "escape")
        assert "Job 1 " not in run.text

    drive(test)


def test_time_of_a_job_includes_that_before_it_moved_to_the_background() -> None:
    async def test(run: Running) -> None:
        job = Job(1, "make", None, 100, earlier_s=40)
        run.app.view.jobs.report_change(job)
        run.clock.now += 25
        assert run.app.view.jobs.state_of(job) == "running 1 min"

    drive(test)


def test_full_output_view_follows_the_end_and_closes_with_escape(pipe: Path) -> None:
    async def test(run: Running) -> None:
        job = await begun(run, "seq 60; read line < pipe; seq 100 130", pipe.parent)
        await run.send("/jobs 1")
        await run.until(lambda: isinstance(run.app.screen, JobOutput) and "\n 60" in run.screen)
        assert "Job 1  running 0 s  seq 60" in run.screen
        assert " 12\n" not in run.screen
        pipe.write_text("\n")
        await run.until(lambda: "130" in run.screen and "exit 0" in run.screen)
        # A page up holds at once, also if output arrives before the next frame.
        run.app.screen.query_one("#pager-scroll").scroll_page_up()
        job.add_output(b"more\n")
        await run.until(lambda: run.app.screen.query_one("#pager-text").size.height == job.recent.count("\n"))
        await run.pilot.pause()
        assert "more" not in run.screen
        await pressed(run, "home")
        await run.until(lambda: run.screen.split("\n")[1].strip() == "1")
        job.add_output(b"late\n")
        await pressed(run, "ctrl+s")
        await run.until(lambda: "Attached the output of job 1" in run.screen)
        assert "late" not in run.screen
        await pressed(run, "escape")
        assert not isinstance(run.app.screen, JobOutput)

    drive(test)


def test_sent_output_is_attached_to_the_next_message_once(pipe: Path) -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        job = await begun(run, WAITING, pipe.parent)
        assert job.read()  # the model has read it, which must not hide it from the user
        await run.send("/jobs send 1")
        await run.until(lambda: "Attached the output of job 1 (1 line) to your next message." in run.text)
        await run.send("/jobs send 1")
        await run.until(lambda: "Job 1 has no new output since you attached it." in run.text)
        (block,) = conversation.attached_blocks
        assert isinstance(block, Text)
        assert parse_attached(block.text) == Attachment("job", WAITING, "begun\n", "job 1: running")
        await run.send("/jobs stop 1")
        await run.until(lambda: "Job 1 ended (stopped)" in run.text)

    drive(test, conversation)


def test_row_of_attached_output_shows_that_its_job_has_ended(pipe: Path) -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        await begun(run, WAITING, pipe.parent)
        moved = shell_block("make", ToolOutcome("begun", summary="running in the background (job 1)"))
        conversation.attachments.attach((moved,))
        await run.send("/jobs send 1")
        await run.until(lambda: "! make  background job 1: running" in run.screen)
        await run.until(lambda: "job 1: running  echo begun" in run.screen)
        await run.send("/jobs stop 1")
        await run.until(lambda: "! make  background job 1: stopped" in run.screen)
        await run.until(lambda: "job 1: running, now stopped  echo begun" in run.screen)

    drive(test, conversation)


def test_restored_output_of_a_job_has_no_state_of_a_job_of_this_run(pipe: Path) -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        moved = shell_block("make", ToolOutcome("begun", summary="running in the background (job 1)"))
        sent = job_block(Job(1, "npm run dev", None, 100, recent="built\n", total=6))
        run.app.widgets.prompt.restore_attached((moved.text, sent.text))
        await begun(run, WAITING, pipe.parent)
        await run.until(lambda: "+ ! make  stopped when qcode ended" in run.screen)
        await run.until(lambda: "+ earlier job 1: stopped when qcode ended  npm run dev" in run.screen)
        assert "make  stopped" in run.text
        assert "Jobs   npm run dev  earlier job 1: stopped when qcode ended" in run.text
        await run.send("/jobs stop 1")
        await run.until(lambda: "Job 1 ended (stopped)" in run.text)

    drive(test, conversation)


def test_narrow_row_of_attached_output_keeps_the_state_of_its_command() -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        conversation.attachments.attach((shell_block("npm test", ToolOutcome("no", is_error=True, summary="exit 1")),))
        await run.until(lambda: "+ ! npm test  exit 1 · Backspace removes" in run.screen)
        await run.pilot.resize_terminal(36, 20)
        await run.until(lambda: "Backspace" not in run.screen)
        assert "+ ! npm test  exit 1" in run.screen

    drive(test, conversation)


def test_long_output_is_sent_with_its_end_and_a_note_about_the_rest(tmp_path: Path) -> None:
    conversation = ScriptedConversation()

    async def test(run: Running) -> None:
        job = await begun(run, "seq 2000", tmp_path)
        await run.until(lambda: not job.is_running)
        await run.send("/jobs send 1")
        await run.until(lambda: bool(conversation.attached_blocks))
        (block,) = conversation.attached_blocks
        assert isinstance(block, Text)
        assert "characters omitted; all of it in" in block.text
        assert block.text.endswith("1999\n2000\n\n</job>")
        assert len(block.text) < 2_500

    drive(test, conversation)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/jobs 7", "There is no job 7. Jobs: 1."),
        ("/jobs stop it", "There is no job it. Jobs: 1."),
        ("/jobs halt 1", 'Unknown action "halt".'),
    ],
)
def test_wrong_argument_of_jobs_names_the_valid_ones(tmp_path: Path, typed: str, answer: str) -> None:
    async def test(run: Running) -> None:
        start(run.app.agent.toolbox.jobs, "true", tmp_path)
        await run.send(typed)
        await run.until(lambda: answer in run.text)

    drive(test)


def test_jobs_command_without_jobs_says_how_to_start_one() -> None:
    async def test(run: Running) -> None:
        await run.send("/jobs")
        await run.until(lambda: "No background jobs." in run.screen)
        await run.send("/jobs 1")
        await run.until(lambda: "No background jobs." in run.text)
        assert "Ctrl+B moves a running command" in " ".join(run.text.split())

    drive(test)


def test_jobs_command_of_the_linear_mode_names_no_key(tmp_path: Path) -> None:
    output = talk(tmp_path, "/jobs", "/quit")
    assert "No background jobs. The model starts them.\n" in output
    assert "Ctrl+B" not in output


def test_jobs_command_without_a_number_asks_for_one(tmp_path: Path) -> None:
    output = talk(tmp_path, "/jobs stop", "/quit")
    assert "Name the job: /jobs stop NUMBER. /jobs lists them." in output


@pytest.mark.parametrize("keys", [("ctrl+d",), ("ctrl+c", "ctrl+c"), ("/", "e", "x", "i", "t", "enter")])
def test_quit_asks_while_jobs_run_and_can_be_declined(pipe: Path, keys: tuple[str, ...]) -> None:
    async def test(run: Running) -> None:
        job = await begun(run, WAITING, pipe.parent)
        await pressed(run, *keys)
        await run.until(lambda: isinstance(run.app.screen, QuitPicker))
        assert "Quit and stop 1 background job?\n" in run.screen
        assert "Type to filter" not in run.screen
        assert "echo begun" in run.screen
        await pressed(run, "escape")
        assert run.app.return_value is None
        assert job.is_running
        await pressed(run, *keys)
        await run.until(lambda: isinstance(run.app.screen, QuitPicker))
        await pressed(run, "enter")  # the safe answer is highlighted
        await run.until(lambda: not isinstance(run.app.screen, QuitPicker))
        assert run.app.return_value is None
        assert job.is_running
        await pressed(run, *keys)
        await run.until(lambda: isinstance(run.app.screen, QuitPicker))
        await pressed(run, "down", "enter")
        await run.until(lambda: run.app.return_value is not None)
        run.app.agent.toolbox.jobs.end_all()

    drive(test)


def test_letters_answer_the_question_whether_to_quit(pipe: Path) -> None:
    async def test(run: Running) -> None:
        await begun(run, WAITING, pipe.parent)
        for letter in "ny":
            await pressed(run, "ctrl+d")
            await run.until(lambda: isinstance(run.app.screen, QuitPicker))
            assert "Stop and quit (y)" in run.screen
            assert run.app.return_value is None
            await pressed(run, letter)
            await run.until(lambda: not isinstance(run.app.screen, QuitPicker))
        await run.until(lambda: run.app.return_value is not None)
        run.app.agent.toolbox.jobs.end_all()

    drive(test)


def test_quit_does_not_ask_after_the_last_job_ended(tmp_path: Path) -> None:
    async def test(run: Running) -> None:
        job = start(run.app.agent.toolbox.jobs, "true", tmp_path)
        await run.until(lambda: not job.is_running)
        await pressed(run, "ctrl+d")
        await run.until(lambda: run.app.return_value is not None)

    drive(test)


class Typing(Typed):
    """Types each line when `agent` is ready for it: a callable before a line is run first."""

    def __init__(self, agent: StagedAgent, folder: Path, lines: list[str]) -> None:
        super().__init__(lines)
        self._jobs = agent.toolbox.jobs
        self._folder = folder

    async def ask(self, label: str) -> str | None:
        line = await super().ask(label)
        if line == "START":
            job = start(self._jobs, WAITING, self._folder)
            while not job.recent:
                await job.readable.wait()
            return ""
        if line == "END":
            job = self._jobs.all[-1]
            (self._folder / "pipe").write_text("it\n")
            assert job.task is not None
            await asyncio.wait({job.task})
            return ""
        return line


def talk(folder: Path, *lines: str) -> str:
    """Return all lines that the linear mode printed."""
    conversation = ScriptedConversation([*says("ok")])
    agent = make_agent(conversation)
    typed = Typing(agent, folder, list(lines))
    assert asyncio.run(linear(agent, typed).run()) == 0
    return "\n".join(typed.said)


def test_linear_mode_lists_shows_sends_and_reports_the_end(pipe: Path) -> None:
    output = talk(pipe.parent, "START", "/jobs", "/jobs 1", "/jobs send 1", "/jobs send 1", "END", "/quit")
    assert "Background jobs:\n1  running 0 s  echo begun; read line < pipe; echo got $line; exit 3" in output
    assert "/jobs NUMBER shows the output" in output
    assert "Job 1:\nrunning 0 s: echo begun" in output
    assert "\n\nbegun" in output
    assert "Note: Attached the output of job 1 (1 line) to your next message." in output
    assert "Warning: Job 1 has no new output since you attached it." in output
    assert "Warning: Job 1 ended (exit 3)" in output
    assert "Quit and stop" not in output


def test_linear_mode_asks_before_quitting_stops_a_job(pipe: Path) -> None:
    output = talk(pipe.parent, "START", "/quit", "n", "/jobs", "/quit", "y", "never read")
    assert output.count("Quit and stop 1 background job?") == 2
    assert "1  running" in output
    assert output.endswith("(y/n): ")


def test_notice_about_a_job_quotes_its_command_also_if_it_is_cut() -> None:
    notices: list[str] = []
    watch = JobWatch(make_agent(ScriptedConversation()), FixedClock(), notify=lambda _, text: notices.append(text))
    watch.report_change(Job(1, "make " * 20, None, 0, problem="failed"))
    watch.report_change(Job(2, "make", None, 0, problem="failed"))
    commands = [text.partition(": ")[2].partition(" /jobs")[0] for text in notices]
    assert [(command[:5], command[-4:]) for command in commands] == [('"make', 'e…".'), ('"make', 'ke".')]


def test_command_of_a_job_is_cut_to_cells_of_the_terminal() -> None:
    wide, plain = Job(1, "echo " + "日本語" * 30, None, 100), Job(2, "echo " + "abc" * 30, None, 100)
    assert cell_len(command_of(wide)) <= 60
    assert command_of(wide).endswith("語…")
    assert len(command_of(plain)) == 60
    assert cell_len(commands_of([wide] * 9)) <= 240


def test_resumed_session_shows_sent_output_as_a_card() -> None:
    conversation = ScriptedConversation()
    block = job_block(Job(2, "make watch", None, 100, recent="built\n", total=6))
    conversation.messages = (Message("user", (block, Text("look at this"))), assistant(Text("I see.")))

    async def test(run: Running) -> None:
        await run.until(lambda: "I see." in run.text)
        assert "Jobs   make watch  job 2: running" in run.text
        assert "<job" not in run.text

    drive(test, conversation)
