"""The app without a screen: lines in order, each printed once, and questions with numbered answers.

For screen readers, logs and simple terminals (`ui.linear`, TERM=dumb). It draws nothing and moves no cursor. The
presenter interprets events; `linear_view` has the texts. `LineTerminal` reads and writes lines without blocking the
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qcode.agent.outcomes import UNEXPECTED_END
from qcode.agent.settings import Setting
from qcode.protocol.approvals import (
    NO_OPTIONS,
    Answer,
    Decision,
    Deny,
    Draft,
    Question,
    Revise,
    ToolApproval,
    TurnApproval,
    TurnOptions,
    effective_mode,
    mode_label,
    trusts_folder,
)
from qcode.protocol.errors import ExitCode
from qcode.protocol.events import Level, ToolFinished, TurnEnded, TurnEvent
from qcode.text.clean import ensure_visible
from qcode.text.numbers import count_text
from qcode.tools.dialog import TodoItem
from qcode.tui.commands.command import (
    Command,
    CommandContext,
    find,
    split_command,
    unexpected_argument,
    unknown_command,
)
from qcode.tui.commands.table import COMMANDS
from qcode.tui.failures import Failures, report_failure
from qcode.tui.linear_view import LinearView
from qcode.tui.opening import open_agent, read_commands
from qcode.tui.panels.aside import AsideTalk
from qcode.tui.panels.choices import (
    BACK,
    Form,
    Option,
    choice_line,
    confirmation_form,
    form_of,
    option_of,
    question_line,
    question_with_asker,
    risk_line,
)
from qcode.tui.panels.jobs import JobWatch, commands_of, leaving_question
from qcode.tui.panels.todos import changes, is_over, todo_lines, todo_summary, todos_in, todos_of
from qcode.tui.preferences import MODES, ModelUse
from qcode.tui.presenter import Presenter
from qcode.tui.shell_lines import ShellLines
from qcode.tui.terminal.driver import BELL
from qcode.tui.transcript.replay import is_shown_by_resume, replay, show_resumed
from qcode.tui.turns import close_events
from qcode.tui.welcome import Welcome

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.models.selection import Selection
    from qcode.agent.options import RunContext
    from qcode.protocol.events import Notice
    from qcode.tools.jobs import Job


class LinearCommandView:
    """The `View` of the linear mode."""

    def __init__(self, app: LinearApp) -> None:
        self._app = app
        self.is_turn_running = False

    @property
    def todos(self) -> tuple[TodoItem, ...]:
        return self._app.todos

    def toggle_todos(self) -> bool:
        """Print the to-do list, because it cannot be opened here."""
        if self.todos:
            self.show_panel("Todos", todo_lines(self.todos))
        return bool(self.todos)

    def notify(self, level: Level, text: str) -> None:
        self._app.view.add_notice(level, text)

    def show_panel(self, title: str, text: str) -> None:
        self._app.write_line(f"{title}:\n{text}")

    def show_mode(self) -> None:
        agent = self._app.agent
        mode = effective_mode(agent.conversation.mode, is_trusted=agent.trust.is_trusted)
        self.notify("info", f"Mode: {mode_label(mode)}.")

    def show_trust(self) -> None:
        """Print nothing: `/trust` reports the change."""

    def show_new_session(self) -> None:
        self._app.todos = ()
        self.notify("info", "New session.")

    def apply_setting(self, setting: Setting) -> bool:
        mode = next((mode for mode in MODES if mode == setting.value), None)
        if setting.name == "permissions.mode" and mode is not None:
            self._app.context.use_mode(mode)
            return True
        return False

    def copy_reply(self) -> None:
        self.notify("info", "The reply is above; select it in the terminal to copy it.")

    def send(self, text: str, typed: str, options: TurnOptions) -> None:
        self._app.waiting = (text, replace(options, shown_prompt=typed))

    def run_later(self, work: Coroutine[Any, Any, None]) -> None:
        self._app.following.append(Failures(self._app.agent.report_crash, self.notify).guard(work))

    @property
    def jobs(self) -> JobWatch:
        return self._app.jobs

    @property
    def aside(self) -> AsideTalk:
        return self._app.aside

    def ask_aside(self, question: str) -> None:
        self.run_later(self._app.ask_aside(question))

    def leave(self) -> None:
        self._app.following.append(self._app.leave())


EDIT_LETTER = "e"
_EDIT_LINE = f"Type {EDIT_LETTER} to edit it in your editor before it runs."


class LinearApp:
    """One conversation in lines. `notices` are printed below the `welcome`."""

    def __init__(
        self,
        agent: Agent,
        welcome: Welcome,
        lines: LineTerminal,
        *,
        commands: tuple[Command, ...] = COMMANDS,
        notices: tuple[Notice, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.agent = agent
        self.write_line = lines.write_line
        self._settings = settings = agent.context.settings
        self.view = LinearView(lines.write_line, settings.ui.show_thinking, clock, lines.columns)
        self._welcome = welcome
        self._notices = notices
        self.is_over = False
        self.todos: tuple[TodoItem, ...] = ()
        self._lines = lines
        self._clock = clock
        self._commands = LinearCommandView(self)
        self.jobs = JobWatch(agent, clock, say=self._commands.notify)
        self.aside = AsideTalk(agent)
        self._ended_jobs: list[Job] = []
        agent.toolbox.jobs.watcher = self._watch_job
        offered = tuple(command for command in commands if not command.needs_screen)
        model_use = ModelUse(agent, say=self._commands.notify, on_change=lambda: None)
        self.context = CommandContext(agent, offered, model_use, self._commands)
        self._questions: list[TurnApproval] = []
        self._is_cancelling = False
        self.waiting: tuple[str, TurnOptions] | None = None
        self.following: list[Coroutine[Any, Any, None]] = []
        self._shell = ShellLines(agent, self.view, spawn=self.following.append)
        max_continuations = settings.output.max_continuations
        self._presenter = Presenter(self.view, self.view, self, clock, max_continuations=max_continuations)

    async def run(self) -> int:
        """Run until the user quits; return the exit code."""
        self._show_start()
        first_prompt = self.agent.context.options.prompt or ""
        if first_prompt.strip():
            self.view.add_user(first_prompt)
            await self._turn(first_prompt)
        while not self.is_over:
            text = await self._prompt()
            if text is None:
                await self.leave()
            elif text.strip():
                await self._take(text)
        return 0

    async def leave(self) -> None:
        """Leave; ask first if that stops background jobs. The end of the input leaves."""
        running = self.jobs.running
        if running:
            answer = await self._lines.ask(f"{leaving_question(running)} {commands_of(running)} (y/n): ")
            if answer is not None and answer.strip().lower() not in ("y", "yes"):
                return
        self.is_over = True

    def leaving_note(self) -> str:
        """Return the hint after the first Ctrl+C."""
        running = len(self.jobs.running)
        jobs = f" and stop {count_text(running, 'background job')}" if running else ""
        return f"Press Ctrl+C again to leave{jobs}."

    async def ask_aside(self, question: str) -> None:
        """Print the answer to an aside."""
        max_continuations = self._settings.output.max_continuations
        await self.aside.ask(
            question, Presenter(self.view, self.view, self, self._clock, max_continuations=max_continuations)
        )
        if self.aside.has_answer:
            self.view.add_mark("not part of the conversation; /btw without a question adds it to your next message")

    def _watch_job(self, job: Job) -> None:
        """Report the start of a job at once, and its end before the next prompt: a line must not split typed text."""
        if job.is_running:
            self.jobs.change(job)
        else:
            self._ended_jobs.append(job)

    def stop(self) -> bool:
        """Interrupt a shell line, an aside, or the turn and deny its open questions; return False if neither runs."""
        if self._shell.stop() or self.aside.stop():
            return True
        if not self._commands.is_turn_running or self._is_cancelling:
            return False
        self._is_cancelling = True
        self.agent.conversation.cancel()
        return True

    def ask(self, approval: TurnApproval, position: str) -> None:
        """Keep the question until its event has been shown."""
        self._questions.append(approval)

    def withdraw(self, approval_id: str) -> bool:
        before = len(self._questions)
        self._questions = [approval for approval in self._questions if approval.id != approval_id]
        return len(self._questions) < before

    def show_steering(self, text: str) -> None:
        self.view.add_user(text)

    def _show_start(self) -> None:
        first, *rest = self._welcome.lines()
        lines = [line for line in rest if line and not line.startswith("·")]
        self.write_line(
            "\n".join([first, *lines, "Type a message and press Enter. /help lists the commands, /quit leaves."])
        )
        if self.agent.conversation.mode == "bypass" and self.agent.trust.is_trusted:
            self.view.add_notice("warning", "Bypass mode: tools run without asking.")
        for notice in self._notices:
            if not is_shown_by_resume(self.agent.conversation, notice.text):
                self.view.add_notice(notice.level, notice.text)
        if self.agent.conversation.messages:
            replay(self.agent.conversation.stored_messages, self.view, self._clock)
            show_resumed(self.agent.conversation, self.view)
        self.todos = todos_in(self.agent.conversation.messages)
        if not is_over(self.todos):
            self.view.add_mark(f"todos: {todo_summary(self.todos)}")

    async def _prompt(self) -> str | None:
        """Return the typed text. A backslash at the end of a line continues it on the next one."""
        while self._ended_jobs:
            self.jobs.change(self._ended_jobs.pop(0))
        lines: list[str] = []
        while True:
            line = await self._lines.ask("User: " if not lines else "")
            if line is None:
                return None
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                return "\n".join(lines)

    async def _take(self, text: str) -> None:
        typed = split_command(text)
        if text.startswith("!"):
            await self._run_line(text[1:].strip())
            return
        if typed is None:
            await self._turn(text)
            return
        name, argument = typed
        command = find(name.lower(), self.context.commands)
        if command is None and ":" in name and self.agent.servers is not None:
            await self._turn(text)  # a prompt of a tool server, which may start only now
        elif command is None:
            self.view.add_notice("warning", unknown_command(name, self.context.commands))
        elif problem := unexpected_argument(name, argument, command):
            self.view.add_notice("warning", problem)
        else:
            command.run(self.context, argument)
            while self.following:
                await self.following.pop()
            if self.waiting is not None:
                (text, options), self.waiting = self.waiting, None
                await self._turn(text, options)

    async def _run_line(self, line: str) -> None:
        """Run a line in the shell and wait for its end."""
        if line:
            self._shell.start(line)
        while self.following:
            await self.following.pop()

    async def _turn(self, text: str, options: TurnOptions = NO_OPTIONS) -> None:
        self._commands.is_turn_running = True
        self._is_cancelling = False
        try:
            await self._show(self.agent.conversation.submit(text, options=options))
        except Exception as failure:  # noqa: BLE001  # the app's edge: after any error the session continues
            self._presenter.abandon(report_failure(failure, self.agent.report_crash))
        finally:
            self._commands.is_turn_running = False
            self._questions.clear()
        if self._settings.ui.bell:
            self.write_line(BELL)

    async def _show(self, events: AsyncIterator[TurnEvent]) -> None:
        try:
            async for event in events:
                self._presenter.present(event)
                self._show_todo_changes(event)
                while self._questions:
                    await self._answer(self._questions[0])
                if isinstance(event, TurnEnded):
                    return
                await asyncio.sleep(0)
        finally:
            await close_events(events)
        self._presenter.abandon(UNEXPECTED_END)

    def _show_todo_changes(self, event: TurnEvent) -> None:
        """Print the changes to the model's list; its card only shows that there was a call."""
        items = todos_of(event.call) if isinstance(event, ToolFinished) and event.state == "done" else None
        if items is not None:
            if text := changes(self.todos, items):
                self.write_line(f"Todos: {text}")
            self.todos = items

    async def _answer(self, approval: TurnApproval) -> None:
        """Ask a question with numbered choices until the user types one of them."""
        decision: Decision = Deny()
        if not self._is_cancelling:
            self.view.pause()
            form = form_of(approval)
            choices = [choice_line(number, option) for number, option in enumerate(form.options, 1)]
            self._lines.forget_typed()
            detail = ensure_visible(approval.detail)
            if form.format in ("text", "markdown"):
                # The model's text is indented, so that a line such as `1. Allow` in it cannot pass for a choice.
                detail = "\n".join(f"  {line}" for line in detail.split("\n"))
            is_of_model = isinstance(approval, Question) and not approval.server
            question = question_line(approval) if is_of_model else question_with_asker(approval)
            risk = risk_line(detail) if form.format == "command" else ""
            context = [line for line in (risk, form.why) if line]
            draft = approval.draft if isinstance(approval, ToolApproval) else None
            choices += [_EDIT_LINE] if draft is not None else []
            self.write_line("\n".join([f"Question: {question}", detail, *context, *choices]))
            decision = await self._decide(form, draft)
        self.withdraw(approval.id)
        if trusts_folder(decision):
            self.view.add_notice("info", self.agent.trust.accept())
        self.agent.conversation.answer(approval.id, decision)
        if decision == Deny() and not (isinstance(approval, Question) and approval.server):
            self.stop()

    async def _choose(self, options: tuple[Option, ...], draft: Draft | None = None) -> Option | Revise | None:
        while not self._is_cancelling:
            line = await self._lines.ask(f"Answer (1 to {len(options)}): ")
            if line is None:
                return None
            typed = line.strip().lower()
            option = option_of(typed, options)
            if option is not None:
                return option
            if typed == EDIT_LETTER and draft is not None and (revised := await self._edit_call(draft)) is not None:
                return revised
            letters = ", ".join(option.letter for option in options if option.letter)
            self.write_line(f"Type 1 to {len(options)}" + (f", or a letter: {letters}." if letters else "."))
        return None

    async def _edit_call(self, draft: Draft) -> Revise | None:
        """Let the user edit a call in their editor; None if it stays as it is."""
        from qcode.tui.prompt.editor import EditorError, edit_text, editor_command

        try:
            edited = await asyncio.to_thread(edit_text, draft.text, editor_command(os.environ), draft.file_name)
        except EditorError as problem:
            self.view.add_notice("warning", f"{problem}; the call is unchanged")
            return None
        if edited == draft.text:
            self.view.add_notice("info", "The call is unchanged.")
            return None
        return Revise(edited)

    async def _decide(self, form: Form, draft: Draft | None = None) -> Decision:
        option = await self._choose(form.options, draft)
        if isinstance(option, Option) and option.warning:
            confirmation = confirmation_form(option, form)
            choices = [choice_line(number, choice) for number, choice in enumerate(confirmation.options, 1)]
            self.write_line("\n".join([confirmation.why, *choices]))
            option = await self._choose(confirmation.options)
        if isinstance(option, Revise):
            return option
        if option is BACK:
            choices = [choice_line(number, choice) for number, choice in enumerate(form.options, 1)]
            self.write_line("\n".join(choices))
            return await self._decide(form, draft)
        if option is None:
            return Deny()
        if option.decision is not None:
            return option.decision
        label = "Your answer: " if form.text_decision is Answer else "Why not, or what to do instead? "
        reason = (await self._lines.ask(label) or "").strip()
        return form.text_decision(reason) if reason else Deny()


def run_linear(context: RunContext, selection: Selection, welcome: Welcome) -> int:
    """Run in this process's terminal to the end; return the exit code: 0, or 143 after a signal.

    Raise `QcodeError` if the agent cannot be opened.
    """
    agent = open_agent(context, selection)
    code: int | None = None
    try:
        code = run_linear_with(agent, welcome)
    finally:
        agent.release("prompt_input_exit" if code == 0 else "other")
    return code


def run_linear_with(agent: Agent, welcome: Welcome) -> int:
    """Run the linear mode with an open agent; the caller closes it."""
    commands, notices = read_commands(agent)

    async def talk() -> int:
        terminal = LineTerminal()
        app = LinearApp(agent, welcome, terminal, commands=commands, notices=notices)
        terminal.on_interrupt(app.stop, app.leaving_note)
        with terminal.end_at_signals((signal.SIGTERM, signal.SIGHUP)):
            return await terminal.run_until_signal(app.run())

    return asyncio.run(talk())


_AGAIN_SECONDS = 2.0


class LineTerminal:
    """Standard input and output as lines, with the terminal's own line editing."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending_bytes = b""
        self._stop: Callable[[], bool] = lambda: False
        self._leaving_note: Callable[[], str] = lambda: ""
        self._exit_code: asyncio.Future[int] = self._loop.create_future()
        self._last_press = float("-inf")
        self._waiting: asyncio.Future[bool] | None = None

    def write_line(self, text: str) -> None:
        """Write `text` and a line end."""
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(text if text == "\x07" else text.rstrip("\n") + "\n")
            sys.stdout.flush()

    def columns(self) -> int:
        """Return the width of the terminal, 0 if the output goes elsewhere."""
        with contextlib.suppress(OSError, ValueError):
            return os.get_terminal_size(sys.stdout.fileno()).columns
        return 0

    async def ask(self, label: str) -> str | None:
        """Show `label` and return the next line, None at the end of input or if Ctrl+C interrupts the turn."""
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.write(label)
            sys.stdout.flush()
        while b"\n" not in self._pending_bytes:
            data = await self._read()
            if not data:
                rest, self._pending_bytes = self._pending_bytes, b""
                return rest.decode("utf-8", "replace") if rest else None
            self._pending_bytes += data
        line, _, self._pending_bytes = self._pending_bytes.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")

    def forget_typed(self) -> None:
        """Discard text typed before now: it was not an answer to the next question."""
        import termios

        self._pending_bytes = b""
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def on_interrupt(self, stop: Callable[[], bool], note: Callable[[], str]) -> None:
        """Call `stop` on Ctrl+C; if it returns False, a second Ctrl+C within two seconds quits, as `note` says."""
        self._stop = stop
        self._leaving_note = note
        self._loop.add_signal_handler(signal.SIGINT, self._interrupt)

    @contextlib.contextmanager
    def end_at_signals(self, numbers: Sequence[signal.Signals]) -> Iterator[None]:
        """End `run_until_signal` with 143 when one of the signals arrives."""
        for number in numbers:
            self._loop.add_signal_handler(number, self._set_exit_code, ExitCode.TERMINATED)
        try:
            yield
        finally:
            for number in (*numbers, signal.SIGINT):
                self._loop.remove_signal_handler(number)

    async def run_until_signal(self, work: Coroutine[Any, Any, int]) -> int:
        """Return the result of `work`. If a signal arrives first, cancel `work` and return the signal's exit code."""
        task = asyncio.ensure_future(work)
        await asyncio.wait({task, self._exit_code}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return self._exit_code.result()

    def _set_exit_code(self, code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    def _interrupt(self) -> None:
        if self._stop():
            is_asking = self._waiting is not None
            self.write_line("\nInterrupting." if is_asking else "Interrupting.")
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_result(False)
            return
        now = self._loop.time()
        if now - self._last_press <= _AGAIN_SECONDS:
            self._set_exit_code(0)
        self._last_press = now
        self.write_line(self._leaving_note())

    async def _read(self) -> bytes:
        """Wait for input and return it; return nothing at its end or if Ctrl+C interrupts the turn."""
        number = sys.stdin.fileno()
        ready: asyncio.Future[bool] = self._loop.create_future()

        def tell() -> None:
            if not ready.done():
                ready.set_result(True)

        self._loop.add_reader(number, tell)
        self._waiting = ready
        try:
            if not await ready:
                return b""
        finally:
            self._waiting = None
            self._loop.remove_reader(number)
        try:
            return os.read(number, 65_536)
        except OSError:
            # The terminal was closed.
            return b""
