"""Errors in every worker of the app: nothing is lost, and the app continues or explains why not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.worker_manager import WorkerManager

from qcode.agent.context.clipboard import Clip
from qcode.agent.keys.connect import CheckedKey
from qcode.protocol.events import StepStarted
from qcode.protocol.reply import TextDelta
from qcode.protocol.tools import ToolOutcome
from qcode.tui.app import QcodeApp
from qcode.tui.prompt.prompt import Prompt
from qcode.tui.screens.connect import ConnectScreen
from tests.tui.connecting import ScriptedConnecting
from tests.tui.harness import Running, at_work, drive, make_app
from tests.tui.scripted import Gate, Script, ScriptedConversation, ended


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


class Waiting(ScriptedConnecting):
    """Waits before it checks a key and before it stores one."""

    async def check(self, name: str, typed: str) -> CheckedKey:
        await asyncio.sleep(0)
        return await super().check(name, typed)

    async def keep(self, name: str, checked: CheckedKey) -> tuple[str, ...]:
        await asyncio.sleep(0)
        return await super().keep(name, checked)


async def _send(pilot: Pilot[Any], text: str) -> None:
    app = pilot.app
    assert isinstance(app, QcodeApp)
    app.parts.prompt.insert(text)
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


def crash(group: str, at: int, capsys: pytest.CaptureFixture[str]) -> bool:
    """Make a worker fail and check the result; return whether it awaited that often."""
    gate = Gate()
    conversation = ScriptedConversation([gate] if group == "leave" else TURN)
    app = make_app(
        conversation,
        run_line=_line,
        read_clipboard=lambda: Clip(text="copied"),
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
        app.parts.prompt.clear()
        await _send(pilot, "again")
        while "again" not in conversation.prompts or app.turns.is_running:
            await pilot.pause()
        seen.append(app.parts.transcript.plain_text())
        app.exit(0)

    with breaking(group, at) as made:
        code = app.run(headless=True, size=(80, 24), auto_pilot=pilot)
    (worker,) = made
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if group == "leave":
        assert code == (1 if worker.has_broken else 0)
        assert ("qcode stopped: BrokeError" in said) is worker.has_broken
    else:
        assert code == 0
        told = "Internal error: BrokeError" in seen[0].replace("\n", " ")
        assert told is (worker.has_broken and group != "connect")
    return worker.has_broken


@pytest.mark.parametrize("group", WORKERS)
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
        run.app.parts.prompt.insert("my draft")
        await run.pilot.press("ctrl+z")
        await run.until(lambda: "Internal error: BrokeError: in a widget" in run.text)
        run.app.parts.prompt.post_message(events.Paste("lost"))
        await run.pilot.press("!")
        assert run.app.parts.prompt.text == "my draft!"
        assert run.app.turns.is_running
        gate.open()
        await run.until(lambda: "kept" in run.text)
        await run.until_idle()

    drive(test, ScriptedConversation([gate, *TURN]))


def test_endlessly_repeated_error_ends_the_app_and_keeps_the_draft(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(prompt: Prompt) -> None:
        prompt.call_later(prompt.action_undo)
        raise BrokeError("again and again")

    monkeypatch.setattr(Prompt, "action_undo", fail)
    app = make_app(ScriptedConversation(), history_file=tmp_path / "history.jsonl")

    async def pilot(pilot: Pilot[Any]) -> None:
        await at_work(app, pilot)
        app.parts.prompt.insert("my draft")
        await pilot.press("ctrl+z")

    assert app.run(headless=True, size=(80, 24), auto_pilot=pilot) == 1
    assert "qcode stopped: BrokeError: again and again" in capsys.readouterr().err
    (kept,) = (tmp_path / "drafts").iterdir()
    assert "my draft" in kept.read_text()


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
        with pytest.raises(BrokeError), run.app._lend():
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
                await at_work(app, pilot)
                app.exit(0)

        with breaking("opening", at) as made:
            code = app.run(headless=True, size=(80, 24), auto_pilot=pilot)
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert code == (1 if made[0].has_broken else 0)
        assert ("qcode stopped: BrokeError" in said) is made[0].has_broken
        return made[0].has_broken

    at = 1
    while run(at):
        at += 1
    assert at > 1
