"""Errors in every worker of the app: nothing is lost, and the app continues or explains why not."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.strip import Strip
from textual.worker_manager import WorkerManager

from qcode.agent.context.attachments import aside_block
from qcode.agent.context.clipboard import ClipboardContent
from qcode.agent.keys.connect import CheckedKey
from qcode.protocol.approvals import Deny, ToolApproval, TurnOptions
from qcode.protocol.events import ApprovalRequested, Retry, StepStarted
from qcode.protocol.reply import StopReason, TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.tui.app import QcodeApp
from qcode.tui.panels.approval import ApprovalPanel
from qcode.tui.prompt.history import PromptHistory
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.prompt.queue import Submission
from qcode.tui.screens.connect import ConnectScreen
from qcode.tui.screens.palette import PalettePicker
from qcode.tui.shared_widgets import HangingText
from qcode.tui.status import StatusLine
from qcode.tui.terminal.textual_internals import NOT_SHOWN
from qcode.tui.transcript.blocks import ProseView
from qcode.tui.transcript.chunks import Chunk
from qcode.tui.transcript.entries import PLAIN_LABEL
from qcode.tui.transcript.line import Line
from qcode.tui.transcript.transcript import Transcript
from tests.tui.harness import Running, drive, make_app, until_ready
from tests.tui.scripted import Gate, Script, ScriptedConversation, Step, UntilAnswered, call, ended, reply
from tests.tui.scripted_keys import ScriptedKeysService
from tests.tui.staged_app import WELCOME

pytestmark = pytest.mark.frames


class BrokeError(Exception):
    """The error that is thrown into a worker."""


class Breaking(Coroutine[Any, Any, Any]):
    """Runs a coroutine and throws an error into it at its `at`-th await."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int) -> None:
        self._work = work
        self._at = at
        self.waits = 0
        self.is_over = False

    @property
    def has_broken(self) -> bool:
        return self.waits >= self._at

    def send(self, value: Any) -> Any:
        return self._step(lambda: self._work.send(value))

    def throw(self, *given: Any) -> Any:
        return self._step(lambda: self._work.throw(*given))

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        value = None
        while True:
            try:
                waited = self.send(value)
            except StopIteration as end:
                return end.value
            try:
                value = yield waited
            except BaseException as error:  # noqa: BLE001  # passed on, as an await does
                try:
                    waited = self.throw(error)
                except StopIteration as end:
                    return end.value
                value = yield waited

    def _step(self, step: Callable[[], Any]) -> Any:
        try:
            waited = step()
            self.waits += 1
            if self.waits == self._at:
                if waited is not None:
                    waited._asyncio_future_blocking = False
                waited = self._work.throw(BrokeError(f"at wait {self._at}"))
        except BaseException:
            self.is_over = True
            raise
        return waited


@contextmanager
def breaking(group: str, at: int) -> Iterator[list[Breaking]]:
    """Make the first worker of a group fail at its `at`-th await."""
    made: list[Breaking] = []
    plain = WorkerManager._new_worker

    def new_worker(self: WorkerManager, work: Any, node: Any, **named: Any) -> Any:
        if named.get("group") == group and not made:
            # `@work` passes a function that creates the coroutine.
            work = Breaking(work() if callable(work) else work, at)
            made.append(work)
        return plain(self, work, node, **named)

    WorkerManager._new_worker = new_worker  # type: ignore[method-assign]  # for this one test
    try:
        yield made
    finally:
        WorkerManager._new_worker = plain  # type: ignore[method-assign]  # as it was


async def _line(line: str, output: Callable[[str], None]) -> ToolOutcome:
    output("begun\n")
    await asyncio.sleep(0)
    return ToolOutcome("begun\n[exit code 0]", summary="exit 0")


class Waiting(ScriptedKeysService):
    """Waits before it checks a key and before it stores one."""

    async def check_typed_key(self, name: str, typed: str) -> CheckedKey:
        await asyncio.sleep(0)
        return await super().check_typed_key(name, typed)

    async def save_key(self, name: str, checked: CheckedKey) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return await super().save_key(name, checked)


async def _send(pilot: Pilot[Any], text: str) -> None:
    app = pilot.app
    assert isinstance(app, QcodeApp)
    app.widgets.prompt.insert(text)
    await pilot.press("enter")


async def _paste(pilot: Pilot[Any], _: Gate) -> None:
    await pilot.press("ctrl+v")


async def _begin(_pilot: Pilot[Any], _: Gate) -> None:
    """The worker starts without a command."""


async def _check_key(pilot: Pilot[Any], _: Gate) -> None:
    await _send(pilot, "/connect openai")
    while not isinstance(pilot.app.screen, ConnectScreen):
        await pilot.pause()
    await pilot.pause()
    await pilot.press("x", "enter")


async def _leave(pilot: Pilot[Any], gate: Gate) -> None:
    await _send(pilot, "go")
    await gate.reached.wait()
    await _send(pilot, "/quit")


TURN: Script = [StepStarted(1), TextDelta(0, "kept "), ended()]
WORKERS: dict[str, Callable[[Pilot[Any], Gate], Awaitable[None]]] = {
    "turn": lambda pilot, _: _send(pilot, "go"),
    "shell": lambda pilot, _: _send(pilot, "!line"),
    "command": _paste,
    "warm-up": _begin,
    "connect": _check_key,
    "leave": _leave,
}
QUICK_WORKERS = ("turn", "shell")
"""The workers that `make test` breaks."""


def crash(group: str, at: int, capsys: pytest.CaptureFixture[str]) -> bool:
    """Make a worker fail and check the result; return whether it awaited that often."""
    gate = Gate()
    conversation = ScriptedConversation([gate] if group == "leave" else TURN)
    app = make_app(
        conversation,
        run_user_command=_line,
        read_clipboard=lambda: ClipboardContent(text="copied"),
        warm_up=lambda: None,
        connect=Waiting(),
    )
    seen: list[str] = []

    async def pilot(pilot: Pilot[Any]) -> None:
        while not app.is_ready:
            await pilot.pause()
        await WORKERS[group](pilot, gate)
        while app.is_running and not (made and made[0].is_over):
            await pilot.pause()
        if group == "leave":
            return
        await pilot.pause()
        while len(app.screen_stack) > 1:
            await pilot.press("escape")
            await pilot.pause()
        # The app still works: a prompt starts a turn.
        app.widgets.prompt.clear()
        await _send(pilot, "again")
        while "again" not in conversation.prompts or app.turns.is_running:
            await pilot.pause()
        seen.append(app.widgets.transcript.plain_text())
        app.exit(0)

    with breaking(group, at) as made:
        code = app.run(headless=True, size=(80, 24), auto_pilot=pilot)
    (worker,) = made
    stderr = capsys.readouterr().err
    assert "Traceback" not in stderr
    if group == "leave":
        assert code == (1 if worker.has_broken else 0)
        assert ("qcode stopped: BrokeError" in stderr) is worker.has_broken
    else:
        assert code == 0
        message = "Internal error: BrokeError" in seen[0].replace("\n", " ")
        assert message is worker.has_broken
    return worker.has_broken


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "group", [pytest.param(group, marks=() if group in QUICK_WORKERS else pytest.mark.broad) for group in WORKERS]
)
def test_error_at_any_await_of_a_worker_loses_nothing(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    at = 1
    while crash(group, at, capsys):
        at += 1
    # The last run, without an error, proves that the worker does its work.
    assert at > 1


def test_uncaught_errors_of_threads_and_tasks_are_reported() -> None:
    async def test(run: Running) -> None:
        def fail() -> None:
            raise BrokeError("in a thread")

        async def break_down() -> None:
            raise BrokeError("in a task")

        thread = threading.Thread(target=fail)
        thread.start()
        await asyncio.to_thread(thread.join)
        task = asyncio.ensure_future(break_down())
        await asyncio.wait({task})
        del task
        await run.until(lambda: "in a thread" in run.text and "in a task" in run.text)

    drive(test)


def test_error_in_a_widget_is_a_notice_and_keeps_draft_and_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Prompt) -> None:
        raise BrokeError("in a widget")

    monkeypatch.setattr(Prompt, "action_undo", fail)
    monkeypatch.setattr(Prompt, "on_paste", fail)
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        run.app.widgets.prompt.insert("my draft")
        await run.pilot.press("ctrl+z")
        await run.until(lambda: "Internal error: BrokeError: in a widget" in run.text)
        run.app.widgets.prompt.post_message(events.Paste("lost"))
        await run.pilot.press("!")
        assert run.app.widgets.prompt.text == "my draft!"
        assert run.app.turns.is_running
        gate.open()
        await run.until(lambda: "kept" in run.text)
        await run.until_idle()

    drive(test, ScriptedConversation([gate, *TURN]))


def failing(when: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
    """Return a method that raises if `when` holds for its arguments, for a method that returns nothing otherwise."""

    def fail(*given: Any) -> Any:
        if when(*given):
            raise BrokeError("in a widget")

    return fail


async def _works(run: Running, gate: Gate) -> None:
    """The error became a notice, the draft is kept, and the turn continues to its end."""
    await run.until(lambda: "Internal error: BrokeError: in a widget" in run.text)
    assert run.app.widgets.prompt.text == "my draft"
    assert run.app.turns.is_running
    gate.open()
    await run.until(lambda: "kept" in run.text)
    await run.until_idle()
    assert "kept" in run.screen


def _while_working(break_it: Callable[[Running], Awaitable[None]], *steps: Step) -> None:
    gate = Gate()

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        run.app.widgets.prompt.insert("my draft")
        await break_it(run)
        await _works(run, gate)

    drive(test, ScriptedConversation([*steps, gate, *TURN]), may_hide=True)


def test_widget_that_cannot_be_painted_says_so_in_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_it(run: Running) -> None:
        monkeypatch.setattr(StatusLine, "render", failing())
        run.app.widgets.status.change(hint="now")
        await run.until(lambda: run.screen.rstrip().endswith(NOT_SHOWN) and "> go" in run.screen)

    _while_working(break_it)


def test_row_that_cannot_be_painted_leaves_the_other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Transcript.render_line

    def render_line(transcript: Transcript, y: int) -> Strip:
        if y == 5:
            raise BrokeError("in a widget")
        return plain(transcript, y)

    async def break_it(run: Running) -> None:
        monkeypatch.setattr(Transcript, "render_line", render_line)
        run.app.widgets.transcript.refresh()
        await run.until(lambda: run.screen.split("\n")[5].strip() == NOT_SHOWN)
        assert run.screen.count(NOT_SHOWN) == 1

    _while_working(break_it)


def test_widget_that_cannot_be_measured_leaves_the_other_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def break_it(run: Running) -> None:
        monkeypatch.setattr(HangingText, "get_content_height", failing())
        await run.pilot.press("f1")
        await run.until(lambda: "Keys" in run.screen)
        await run.pilot.press("escape")

    _while_working(break_it)


@pytest.mark.parametrize("method", ["compose", "on_mount"])
def test_screen_that_cannot_be_built_is_closed(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(PalettePicker, method, failing(), raising=False)

    async def break_it(run: Running) -> None:
        await run.pilot.press("ctrl+p")
        await run.until(lambda: "Internal error" in run.text and len(run.app.screen_stack) == 1)

    _while_working(break_it)


def test_callback_that_fails_is_reported() -> None:
    async def break_it(run: Running) -> None:
        run.app.widgets.transcript.call_next(failing())

    _while_working(break_it)


def test_reply_that_cannot_be_laid_out_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ProseView.render

    def render(view: ProseView, chunk: Chunk, *, is_live: bool) -> list[Line]:
        if any("poison" in line for line in chunk.lines):
            raise BrokeError("in a widget")
        return plain(view, chunk, is_live=is_live)

    monkeypatch.setattr(ProseView, "render", render)

    async def break_it(run: Running) -> None:
        await run.until(lambda: PLAIN_LABEL in run.screen and "some *poison* here" in run.screen)
        await run.pilot.resize_terminal(60, 24)
        assert PLAIN_LABEL in run.text
        assert run.text.count("Internal error") == 1

    _while_working(
        break_it, StepStarted(1), TextDelta(0, "fine\n\nsome *poison* here\n\nand ever"), TextDelta(0, "more")
    )


def test_event_that_cannot_be_shown_does_not_end_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transcript, "add_mark", failing(lambda _, text: "continued" in text))

    async def break_it(_: Running) -> None:
        """The retry has broken it."""

    _while_working(break_it, StepStarted(1), TextDelta(0, "so far "), Retry(True, "max_tokens", 1, 64_000))


def test_question_that_cannot_be_shown_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ApprovalPanel, "ask", failing())
    edit = call("edit", '{"path": "a.py"}', "c1")
    question = ToolApproval(edit, "Edit a.py?", "", "edit(a.py)", True)
    steps: list[Step] = [StepStarted(1), reply("", edit, stop=StopReason.TOOL_USE), ApprovalRequested(question)]

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until_idle()
        (answered,) = run.conversation.answers
        assert answered == ("c1", Deny("qcode could not show this question to the user."))
        assert "Internal error: BrokeError: in a widget" in run.text

    drive(test, ScriptedConversation([*steps, UntilAnswered("c1"), ended()]))


def test_endless_errors_of_events_end_the_turn_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transcript, "append_text", failing())

    async def test(run: Running) -> None:
        await run.send("go")
        await run.until(lambda: not run.app.turns.is_running)
        assert "The partial reply is kept" in run.text.replace("\n", " ")
        await run.send("again")
        await run.until(lambda: run.conversation.prompts == ["go", "again"])

    drive(test, ScriptedConversation([StepStarted(1), *[TextDelta(0, "x")] * 20, ended()]))


def test_endlessly_repeated_error_ends_the_app_and_keeps_the_draft(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(prompt: Prompt) -> None:
        prompt.call_later(prompt.action_undo)
        raise BrokeError("again and again")

    monkeypatch.setattr(Prompt, "action_undo", fail)
    app = make_app(ScriptedConversation(), history_file=tmp_path / "history.jsonl")

    async def pilot(pilot: Pilot[Any]) -> None:
        await until_ready(app, pilot)
        app.widgets.prompt.insert("my draft")
        await pilot.press("ctrl+z")

    assert app.run(headless=True, size=(80, 24), auto_pilot=pilot) == 1
    assert "qcode stopped: BrokeError: again and again" in capsys.readouterr().err
    (kept_file,) = (tmp_path / "drafts").iterdir()
    assert "my draft" in kept_file.read_text()


def test_run_without_session_reads_the_history_and_stores_no_prompt_and_no_draft(tmp_path: Path) -> None:
    history_file, abandoned = tmp_path / "history.jsonl", tmp_path / "drafts" / f"{2**40}.json"
    PromptHistory(history_file, WELCOME.folder).add("earlier")
    abandoned.parent.mkdir()
    abandoned.write_text(json.dumps({"folder": WELCOME.folder, "text": "a draft of another run"}))
    before = files_of(tmp_path)

    async def test(run: Running) -> None:
        assert run.app.widgets.prompt.text == ""
        await run.send("my secret plan")
        await run.until_idle()
        await run.type("my draft")
        run.app.widgets.prompt.save_draft()
        assert files_of(tmp_path) == before
        assert run.app.widgets.prompt.prompt_history.entries == ("earlier", "my secret plan")

    drive(test, ScriptedConversation([ended()]), history_file=history_file, no_session=True)
    assert files_of(tmp_path) == before


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_queued_prompts_of_a_killed_process_are_restored_below_the_draft_and_not_sent(tmp_path: Path) -> None:
    gate, drafts = Gate(), tmp_path / "drafts"

    def stored() -> str:
        return "".join(json.loads(path.read_text())["text"] for path in drafts.glob("*.json"))

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        await run.send("second")
        await run.send("third")
        await run.type("my draft")
        run.app.widgets.prompt.save_draft()
        assert stored() == "my draft\n\nsecond\n\nthird"
        shutil.copytree(drafts, tmp_path / "killed")
        run.app.turns.show_steering("second")
        assert stored() == "my draft\n\nthird"
        gate.open()
        await run.until_idle()

    async def next_start(run: Running) -> None:
        await run.until(lambda: "Restored the prompt that was not sent before qcode ended." in run.text)
        assert run.app.widgets.prompt.text == "my draft\n\nsecond\n\nthird"
        assert run.conversation.prompts == []

    drive(test, ScriptedConversation([gate, ended()]), history_file=tmp_path / "history.jsonl")
    shutil.rmtree(drafts)
    drafts.mkdir()
    (killed,) = (tmp_path / "killed").iterdir()
    killed.rename(drafts / f"{2**40}.json")  # no process has this id
    drive(next_start, ScriptedConversation(), history_file=tmp_path / "history.jsonl")


@pytest.mark.parametrize("typed", ["and why?", ""])
def test_side_question_in_the_draft_of_a_killed_process_is_attached_again(tmp_path: Path, typed: str) -> None:
    drafts = tmp_path / "drafts"

    async def test(run: Running) -> None:
        prompt = run.app.widgets.prompt
        await run.type(prompt.asides.label("which file?", aside_block("which file?", "cart.py")) + f" {typed}")
        prompt.save_draft()
        shutil.copytree(drafts, tmp_path / "killed")

    async def next_start(run: Running) -> None:
        await run.until(lambda: "Restored 1 side question that was not sent." in run.text)
        assert run.app.widgets.prompt.text.strip() == typed
        (block,) = run.conversation.attachments.blocks
        assert block == aside_block("which file?", "cart.py")

    drive(test, history_file=tmp_path / "history.jsonl")
    shutil.rmtree(drafts)
    drafts.mkdir()
    (killed,) = (tmp_path / "killed").iterdir()
    killed.rename(drafts / f"{2**40}.json")  # no process has this id
    drive(next_start, history_file=tmp_path / "history.jsonl")


def test_text_in_the_field_of_a_question_is_stored_like_a_draft_until_it_is_sent(tmp_path: Path) -> None:
    drafts = tmp_path / "drafts"
    request = ToolApproval(call(), "Run this command?", "ls -la", "")
    steps: Script = [reply("I look.", call()), ApprovalRequested(request), UntilAnswered("c1"), ended()]

    def stored() -> list[str]:
        return [json.loads(path.read_text())["text"] for path in drafts.glob("*.json")]

    async def test(run: Running) -> None:
        await run.send("go")
        approval = run.app.widgets.approval
        await run.until(lambda: approval.shown_approval is not None)
        assert approval.open_text_field()
        approval.write("a long reason")
        await run.until(lambda: approval.field_text == "a long reason")
        await run.until(lambda: stored() == ["a long reason"])
        await run.pilot.press("enter")
        await run.until(lambda: run.conversation.answers == [("c1", Deny("a long reason"))])
        await run.until(lambda: stored() == [])

    drive(test, ScriptedConversation(steps), history_file=tmp_path / "history.jsonl")


def test_queued_command_is_stored_as_typed_so_that_it_gets_its_options_again(tmp_path: Path) -> None:
    gate, drafts = Gate(), tmp_path / "drafts"

    async def test(run: Running) -> None:
        await run.send("go")
        await gate.reached.wait()
        prompt = run.app.widgets.prompt
        log = prompt.pastes.labels.add("[Pasted text #1 +12 lines]", "the log")
        options = TurnOptions(model="demo/other", shown_prompt=f"/release {log}")
        run.app.turns.submit(Submission("Write the notes of a release.\nthe log", f"/release {log}", options=options))
        prompt.save_draft()
        (stored,) = drafts.glob("*.json")
        assert json.loads(stored.read_text())["text"] == "/release the log"
        gate.open()
        await run.until_idle()

    drive(test, ScriptedConversation([gate, ended()], [ended()]), history_file=tmp_path / "history.jsonl")


def test_failing_command_is_reported_and_the_app_continues() -> None:
    def trust() -> str:
        raise BrokeError("no trust")

    async def test(run: Running) -> None:
        await run.send("/trust")
        await run.until(lambda: "Internal error: BrokeError: no trust" in run.text)
        await run.send("hello")
        await run.until_idle()
        assert run.conversation.prompts == ["hello"]

    drive(test, trust=trust)


def test_terminal_is_restored_after_any_error_in_an_external_program(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_back: list[bool] = []

    @contextmanager
    def suspend(_: QcodeApp) -> Iterator[None]:
        yield
        taken_back.append(True)

    monkeypatch.setattr(QcodeApp, "suspend", suspend)

    async def test(run: Running) -> None:
        with pytest.raises(BrokeError), run.app.suspend_terminal():
            raise BrokeError
        assert taken_back == [True]

    drive(test)


def test_error_at_any_await_of_the_start_is_one_line_in_a_restored_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(at: int) -> bool:
        app = make_app(ScriptedConversation())

        async def pilot(pilot: Pilot[Any]) -> None:
            while app.is_running and not (made and made[0].is_over):
                await pilot.pause()
            if app.is_running and not made[0].has_broken:
                await until_ready(app, pilot)
                app.exit(0)

        with breaking("opening", at) as made:
            code = app.run(headless=True, size=(80, 24), auto_pilot=pilot)
        stderr = capsys.readouterr().err
        assert "Traceback" not in stderr
        assert code == (1 if made[0].has_broken else 0)
        assert ("qcode stopped: BrokeError" in stderr) is made[0].has_broken
        return made[0].has_broken

    at = 1
    while run(at):
        at += 1
    assert at > 1
