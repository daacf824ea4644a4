"""The linear mode: the app without a screen. It prints each line once, in order, and numbers the answers to questions.

It is for screen readers, logs and simple terminals (`ui.linear`, TERM=dumb), and never moves the cursor. The presenter
interprets events; `view` has the texts.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qcode.agent.outcomes import UNEXPECTED_END, stops_turn
from qcode.agent.settings import Setting
from qcode.protocol.approvals import (
    NO_OPTIONS,
    Deny,
    Question,
    TurnApproval,
    TurnOptions,
    effective_mode,
    mode_label,
    trusts_folder,
)
from qcode.protocol.errors import ExitCode
from qcode.protocol.events import Level, ToolFinished, TurnEnded, TurnEvent
from qcode.text.clean import quoted
from qcode.text.numbers import count_text
from qcode.tools.dialog import TodoItem
from qcode.tui.commands.command import (
    API_KEY_HELD_BACK,
    Command,
    CommandContext,
    find_command,
    split_command,
    unexpected_argument,
    unknown_command,
)
from qcode.tui.commands.table import COMMANDS
from qcode.tui.failures import Failures, report_failure
from qcode.tui.linear.questions import LinearQuestions
from qcode.tui.linear.terminal import LineTerminal
from qcode.tui.linear.view import LinearView
from qcode.tui.opening import open_agent, start_session
from qcode.tui.panels.aside import AsideTalk
from qcode.tui.panels.jobs import JobWatch, commands_of, quit_question
from qcode.tui.panels.todos import are_all_done, todo_changes, todo_lines, todo_summary, todos_in, todos_of
from qcode.tui.preferences import MODES, ModelUse
from qcode.tui.presenter import Presenter
from qcode.tui.shell_lines import ShellLines
from qcode.tui.transcript.replay import is_shown_by_resume, replay, show_resumed
from qcode.tui.turns import close_events
from qcode.tui.welcome import Welcome, resume_hint
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.models.selection import Selection
    from qcode.agent.options import RunContext
    from qcode.protocol.events import Notice
    from qcode.tools.jobs import Job


_ALTERNATIVES = {
    "compact": "qcode compacts when the context is nearly full.",
    "connect": "`qcode auth login PROVIDER` stores a key; /model NAME then switches to a model.",
    "mcp": "`!qcode mcp list` lists the tool servers.",
    "resume": "`!qcode sessions list` lists the sessions; `qcode -r ID` resumes one.",
}
"""Advice for commands that need a screen: another way to do the same."""


class LinearCommandView:
    """The actions of commands in the linear mode. It implements the protocol `commands.command.View`."""

    def __init__(self, app: LinearApp) -> None:
        self._app = app
        self.is_turn_running = False
        self.failures = Failures(app.agent.report_crash, self.notify)

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
        self._app.view.print_table(f"{title}:\n{text}")

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
        self._app.prompt_to_send = PromptToSend(text, replace(options, shown_prompt=typed))

    def run_later(self, work: Coroutine[Any, Any, object], *, may_open_screen: bool = False) -> None:
        self._app.pending_work.append(self.failures.guard(work))

    @property
    def jobs(self) -> JobWatch:
        return self._app.jobs

    @property
    def aside(self) -> AsideTalk:
        return self._app.aside

    def ask_aside(self, question: str) -> None:
        self.run_later(self._app.ask_aside(question))

    def leave(self) -> None:
        self._app.pending_work.append(self._app.leave())


@dataclass(frozen=True, slots=True)
class PromptToSend:
    """A prompt that a command sends."""

    text: str
    options: TurnOptions


class LinearApp:
    """One conversation in lines. `notices` are printed below the `welcome`."""

    def __init__(
        self,
        agent: Agent,
        welcome: Welcome,
        terminal: LineTerminal,
        *,
        commands: tuple[Command, ...] = COMMANDS,
        notices: tuple[Notice, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.agent = agent
        self._settings = settings = agent.context.settings
        self.view = LinearView(terminal.write_line, settings.ui.show_thinking, clock, terminal.columns)
        self._questions = LinearQuestions(self.view, terminal, lambda: self._is_cancelling)
        agent.use_output_columns(self.view.output_columns)
        self._welcome = welcome
        self._notices = notices
        self.is_over = False
        self.todos: tuple[TodoItem, ...] = ()
        self._terminal = terminal
        self._clock = clock
        self._command_view = LinearCommandView(self)
        self.jobs = JobWatch(agent, clock, notify=self._command_view.notify)
        self.aside = AsideTalk(agent)
        self._ended_jobs: list[Job] = []
        agent.toolbox.jobs.watcher = self._watch_job
        offered = (*(command for command in commands if not command.needs_app), self._output_command())
        model_use = ModelUse(agent, notify=self._command_view.notify, on_change=lambda: None)
        self.context = CommandContext(agent, offered, model_use, self._command_view)
        self._open_approvals: list[TurnApproval] = []
        self._is_cancelling = False
        self.prompt_to_send: PromptToSend | None = None
        """The prompt that the current command sends after it has run."""
        self.pending_work: list[Coroutine[Any, Any, None]] = []
        """The work that the current command or shell line has started; awaited before the next prompt."""
        guard = self._command_view.failures.guard
        self._shell = ShellLines(agent, self.view, spawn=lambda work: self.pending_work.append(guard(work)))
        self._presenter = self._new_presenter()

    def _new_presenter(self) -> Presenter:
        max_continuations = self._settings.output.max_continuations
        return Presenter(self.view, self.view, self, self._clock, max_continuations=max_continuations)

    async def run(self) -> int:
        """Run until the user quits; return the exit code."""
        self._show_start()
        first_prompt = self.agent.context.options.prompt or ""
        if first_prompt.strip():
            self.view.add_user(first_prompt)
            await self._run_turn(first_prompt)
        while not self.is_over:
            text = await self._read_prompt()
            if text is None:
                await self.leave()
            elif text.strip():
                await self._run_input(text)
        return 0

    def print_resume_hint(self) -> None:
        """Print the command that resumes the session, if it is stored."""
        if self.agent.conversation.messages and not self.agent.context.options.no_session:
            self.view.print_text(resume_hint(self.agent.conversation.session_id, self.agent.sessions.latest()))

    async def leave(self) -> None:
        """Leave; ask first if that stops background jobs. The end of the input (Ctrl+D) counts as a yes."""
        running = self.jobs.running
        if running:
            self.view.print_text(f"{quit_question(running)} {commands_of(running)}")
            answer = await self._terminal.ask("Answer (y/n): ")
            if answer is not None and answer.strip().lower() not in ("y", "yes"):
                return
        self.is_over = True

    def quit_hint(self) -> str:
        """Return the hint that is shown after the first Ctrl+C."""
        running = len(self.jobs.running)
        jobs = f" and stop {count_text(running, 'background job')}" if running else ""
        return f"Press Ctrl+C again to quit{jobs}."

    async def ask_aside(self, question: str) -> None:
        """Print the answer to a side question."""
        await self.aside.ask(question, self._new_presenter())
        if self.aside.has_answer:
            self.view.add_mark("not part of the conversation; /btw without a question attaches it to your next message")

    def _output_command(self) -> Command:
        """Return the command that prints a truncated result in full; the app shows it in its card."""

        def show(_context: CommandContext, argument: str) -> None:
            text = None
            if not argument:
                text = self.view.last_truncated_result()
            elif argument.isdecimal():
                text = self.view.truncated_result(int(argument))
            if text is not None:
                self.view.print_verbatim(text)
            elif argument:
                self.view.add_notice("warning", f"No truncated result number {quoted(argument)}.")
            else:
                self.view.add_notice("warning", "No truncated result yet.")

        title, meaning = "Show a whole result", "Print all lines of a truncated result, by default the last."
        return Command("output", title, meaning, show, names=("output",), argument="[number]")

    def _watch_job(self, job: Job) -> None:
        """Report the start of a job at once, and its end before the next prompt: a line must not split typed text."""
        if job.is_running:
            self.jobs.report_change(job)
        else:
            self._ended_jobs.append(job)

    def stop(self) -> bool:
        """Interrupt the shell line, side question or turn that runs; return False if there is none to interrupt."""
        if self._shell.stop() or self.aside.stop():
            return True
        if not self._command_view.is_turn_running or self._is_cancelling:
            return False
        self._is_cancelling = True
        self.view.print_open_line()  # the caller prints next that it interrupts
        self.agent.conversation.cancel()
        return True

    def ask(self, approval: TurnApproval, position: str) -> None:
        """Queue the question, which is asked once the event is printed. The position is not printed."""
        self._open_approvals.append(approval)

    def withdraw(self, approval_id: str) -> bool:
        is_open = any(approval.id == approval_id for approval in self._open_approvals)
        self._open_approvals = [approval for approval in self._open_approvals if approval.id != approval_id]
        return is_open

    def show_steering(self, text: str) -> None:
        self.view.add_user(text)

    def _show_start(self) -> None:
        # The tips of the welcome are about keys of the app.
        facts = [line for line in self._welcome.lines() if line and not line.startswith("·")]
        self.view.print_table(
            "\n".join([*facts, "Type a message and press Enter. /help lists the commands, /quit ends qcode."])
        )
        if self.agent.conversation.mode == "bypass" and self.agent.trust.is_trusted:
            self.view.add_notice("warning", "Bypass mode: tools run without asking. /mode leaves it.")
        for notice in self._notices:
            if not is_shown_by_resume(self.agent.conversation, notice.text):
                self.view.add_notice(notice.level, notice.text)
        if self.agent.conversation.messages:
            stored = self.agent.conversation.stored_messages
            replay(stored, self.view, self._clock, max_continuations=self._settings.output.max_continuations)
            show_resumed(self.agent.conversation, self.view)
        self.todos = todos_in(self.agent.conversation.messages)
        if not are_all_done(self.todos):
            self.view.add_mark(f"todos: {todo_summary(self.todos)}")

    async def _read_prompt(self) -> str | None:
        """Report the jobs that have ended, and return the text that the user types, None at the end of the input."""
        while self._ended_jobs:
            self.jobs.report_change(self._ended_jobs.pop(0))
        return await self._terminal.ask_text("User: ")

    async def _run_input(self, text: str) -> None:
        """Send a prompt, run a `/command`, or run a `!line` in the shell."""
        name_and_argument = split_command(text)
        if text.startswith("!"):
            await self._run_shell_line(text[1:].strip())
        elif name_and_argument is not None:
            await self._run_command(text, *name_and_argument)
        elif self.context.api_key_guard.holds_back(text):
            self.view.add_notice("warning", API_KEY_HELD_BACK.format(advice="qcode auth login PROVIDER stores a key"))
        else:
            await self._run_turn(text)

    async def _run_command(self, text: str, name: str, argument: str) -> None:
        """Run the command of a typed line `text`, or say why it cannot run."""
        command = find_command(name, self.context.commands)
        if command is None:
            if ":" in name and self.agent.servers is not None:
                await self._run_turn(text)  # a prompt such as `/docs:review`, whose tool server may not run yet
            else:
                self.view.add_notice("warning", self._missing_command(name))
            return
        problem = unexpected_argument(name, argument, command)
        if problem:
            self.view.add_notice("warning", problem)
            return
        with self._command_view.failures.report_errors():
            command.run(self.context, argument)
        await self._finish_pending_work()
        prompt = self.prompt_to_send
        self.prompt_to_send = None
        if prompt is not None:
            await self._run_turn(prompt.text, prompt.options)

    def _missing_command(self, name: str) -> str:
        """Return the message for a command that the linear mode does not have."""
        screen_command = find_command(name, COMMANDS)
        if screen_command is None:
            return unknown_command(name, self.context.commands)
        alternative = _ALTERNATIVES.get(screen_command.id, "/help lists the commands.")
        return f"/{name} is not available in the linear mode. {alternative}"

    async def _run_shell_line(self, line: str) -> None:
        """Run a line in the shell and wait for its end."""
        if line:
            self._shell.start(line)
        await self._finish_pending_work()

    async def _finish_pending_work(self) -> None:
        while self.pending_work:
            await self.pending_work.pop(0)

    async def _run_turn(self, text: str, options: TurnOptions = NO_OPTIONS) -> None:
        self._command_view.is_turn_running = True
        self._is_cancelling = False
        try:
            await self._show_turn(self.agent.conversation.submit(text, options=options))
        except Exception as failure:  # noqa: BLE001  # the app's edge: after any error the session continues
            self._presenter.abandon(report_failure(failure, self.agent.report_crash))
        finally:
            self._command_view.is_turn_running = False
            self._open_approvals.clear()
        if self._settings.ui.bell:
            self._terminal.ring()

    async def _show_turn(self, events: AsyncIterator[TurnEvent]) -> None:
        try:
            async for event in events:
                if isinstance(event, TurnEnded):
                    self.view.begin_turn_end()
                self._presenter.present(event)
                self._show_todo_changes(event)
                while self._open_approvals:
                    await self._ask_user(self._open_approvals[0])
                if isinstance(event, TurnEnded):
                    self.view.end_turn()
                    return
                await asyncio.sleep(0)  # let Ctrl+C be handled, even if the provider yields events without ever waiting
        finally:
            await close_events(events)
        self._presenter.abandon(UNEXPECTED_END)

    def _show_todo_changes(self, event: TurnEvent) -> None:
        """Print the changes to the model's to-do list, which the result of the call does not list."""
        items = todos_of(event.call) if isinstance(event, ToolFinished) and event.state == "done" else None
        if items is not None:
            if text := todo_changes(self.todos, items):
                self.view.print_text(f"Todos: {text}")
            self.todos = items

    async def _ask_user(self, approval: TurnApproval) -> None:
        """Ask a question and pass the decision to the conversation."""
        decision = Deny() if self._is_cancelling else await self._questions.decide(approval)
        self.withdraw(approval.id)
        if trusts_folder(decision):
            self.view.add_notice("info", self.agent.trust.accept())
        # A No without a reason stops the turn; to a question of a tool server, it declines only that question.
        is_of_server = isinstance(approval, Question) and bool(approval.server)
        is_stop = decision == Deny() and not is_of_server
        if stops_turn(approval, decision):
            self.stop()  # before the answer, which would end the turn with an error
        self.agent.conversation.answer(approval.id, decision)
        if is_stop:
            self.stop()


def run_linear(context: RunContext, selection: Selection, welcome: Welcome) -> int:
    """Run the linear mode in the terminal of this process; return the exit code: 0, or 143 after a signal.

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
    start = start_session(agent)

    async def talk() -> int:
        terminal = LineTerminal()
        app = LinearApp(agent, welcome, terminal, commands=start.commands, notices=start.notices)
        terminal.on_interrupt(app.stop, app.quit_hint)
        with terminal.end_at_signals((signal.SIGTERM, signal.SIGHUP)):
            code = await terminal.run_until_signal(app.run())
            if code in (0, ExitCode.TERMINATED):
                app.print_resume_hint()
            return code

    return asyncio.run(talk())
