"""The commands of the conversation: new session, interrupt, quit.

Also the prompt's editor, history and paste, the to-do list, side questions and background jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from qcode.text.clean import quoted
from qcode.tui.commands.command import TURN_RUNS, Command, CommandContext, find_command, is_prompt_empty
from qcode.tui.panels.todos import todo_lines, todo_summary

if TYPE_CHECKING:
    from qcode.tools.jobs import Job


def _clear(context: CommandContext, _argument: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
    else:
        had_messages = bool(context.agent.conversation.messages)
        context.agent.conversation.clear()
        context.view.show_new_session()
        if had_messages:
            context.view.notify("info", "New session. /resume brings the previous one back.")


CHAT: tuple[Command, ...] = (
    Command("clear", "New session", "Start a new session. The current one is saved.", _clear, names=("clear", "new")),
)


def _escape(context: CommandContext, _argument: str) -> None:
    rewind = find_command("rewind", context.commands)
    can_rewind = rewind is not None and rewind.when(context) and bool(context.agent.conversation.messages)
    rewind_now = partial(rewind.run, context, "") if rewind is not None and can_rewind else None
    context.required_app_view.cancel_keys.escape(rewind_now)


INTERRUPTS: tuple[Command, ...] = (
    Command(
        "escape",
        "Interrupt",
        "Interrupt the turn and keep the partial reply.",
        _escape,
        keys=("escape",),
        needs_app=True,
    ),
    Command(
        "interrupt",
        "Interrupt, clear, quit",
        "Interrupt the turn, or clear the prompt. Press it twice to quit.",
        lambda context, _: context.required_app_view.cancel_keys.interrupt(context.view.leave),
        keys=("ctrl+c",),
        needs_app=True,
    ),
    Command("quit", "Quit", "Quit qcode.", lambda context, _: context.view.leave(), names=("quit", "exit")),
    Command(
        "quit-empty",
        "Quit",
        "Quit if the prompt is empty.",
        lambda context, _: context.view.leave(),
        keys=("ctrl+d",),
        when=is_prompt_empty,
        needs_app=True,
    ),
)


def _is_writing_prompt(context: CommandContext) -> bool:
    return context.required_app_view.is_prompt_focused


def _is_typing_prompt(context: CommandContext) -> bool:
    """Return whether keys are typed into the prompt, not in vim's normal mode, in which Ctrl+R is redo."""
    return context.required_app_view.is_prompt_focused and not context.required_app_view.prompt.is_commanding


def _is_editable(context: CommandContext) -> bool:
    """Return whether there is a text for the user's editor: the prompt, an answer, or the call to approve."""
    app_view = context.required_app_view
    return app_view.is_prompt_focused or app_view.is_writing_answer or app_view.is_asking_about_draft


PROMPT: tuple[Command, ...] = (
    Command(
        "editor",
        "Write in your editor",
        "Edit the prompt, an answer or the call to approve in your editor (VISUAL, EDITOR).",
        lambda context, _: context.required_app_view.open_editor(),
        names=("editor",),
        keys=("ctrl+g",),
        when=_is_editable,
        needs_app=True,
    ),
    Command(
        "history-search",
        "Search the history",
        "Search earlier prompts. Press it again for the next older match.",
        lambda context, _: context.required_app_view.prompt.search_history(),
        keys=("ctrl+r",),
        when=_is_typing_prompt,
        needs_app=True,
    ),
    Command(
        "paste",
        "Paste from the clipboard",
        "Paste an image or text from the clipboard.",
        lambda context, _: context.required_app_view.paste(),
        keys=("ctrl+v", "alt+v"),
        when=_is_writing_prompt,
        needs_app=True,
    ),
)


_NO_TODOS = "No to-do list yet. The model makes one for longer tasks."


def _todos(context: CommandContext, scope: str) -> None:
    if scope not in ("", "all"):
        context.refuse(f"Unknown argument {quoted(scope)}. Type /todos or /todos all.")
    elif scope == "all":
        items = context.view.todos
        context.view.show_panel("Todos", todo_lines(items) if items else _NO_TODOS)
    elif not context.view.toggle_todos():
        items = context.view.todos
        text = f"To-do list: {todo_summary(items)}. /todos all shows it." if items else _NO_TODOS
        context.view.notify("info", text)


def _background(context: CommandContext, _argument: str) -> None:
    running_call_ids = context.agent.conversation.background.calls
    if not running_call_ids:
        context.view.notify("info", "No running command can move to the background.")
        return
    try:
        context.agent.conversation.background.move(running_call_ids[-1])
    except ValueError as refusal:
        context.refuse(str(refusal))


def _btw(context: CommandContext, question: str) -> None:
    if question:
        context.view.ask_aside(question)
    else:
        context.view.notify("info", context.view.aside.attach_answer())


def _attach_aside(context: CommandContext, _argument: str) -> None:
    confirmation = context.view.aside.attach_answer()
    context.required_app_view.close_aside()
    context.required_app_view.hint(confirmation)


def _jobs(context: CommandContext, argument: str) -> None:
    action, _, number = argument.rpartition(" ")
    action = action.strip()
    jobs, view = context.view.jobs, context.view
    if not argument:
        if context.app_view is not None and jobs.all:
            from qcode.tui.screens.jobs import JobsScreen

            context.app_view.open_screen(JobsScreen(jobs), lambda _: None)
        else:
            view.show_panel("Background jobs", jobs.listing())
        return
    if argument in ("stop", "send"):
        context.refuse(f"Name the job: /jobs {argument} NUMBER. /jobs lists them.")
        return
    try:
        job = jobs.find(number)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    match action:
        case "":
            _show_job(context, job)
        case "stop":
            view.run_later(jobs.stop(job))
        case "send":
            try:
                view.notify("info", jobs.send(job))
            except ValueError as refusal:
                view.notify("warning", str(refusal))
        case _:
            context.refuse(
                f"Unknown action {quoted(action)}. Type /jobs NUMBER, /jobs stop NUMBER or /jobs send NUMBER."
            )


def _show_job(context: CommandContext, job: Job) -> None:
    if context.app_view is None:
        context.view.show_panel(f"Job {job.number}", context.view.jobs.details(job))
        return
    from qcode.tui.screens.jobs import JobOutput

    context.app_view.open_screen(JobOutput(context.app_view.jobs, job), lambda _: None)


def _job_choices(context: CommandContext) -> Sequence[str]:
    jobs = context.view.jobs
    return [
        *(str(job.number) for job in jobs.all),
        *(f"stop {job.number}" for job in jobs.running),
        *(f"send {job.number}" for job in jobs.all),
    ]


TASKS: tuple[Command, ...] = (
    Command(
        "todos",
        "Todos",
        "Show or hide the model's to-do list; /todos all shows every item.",
        _todos,
        names=("todos",),
        argument="[all]",
        choices=lambda _: ("all",),
        keys=("ctrl+t",),
    ),
    Command(
        "btw",
        "Ask an aside",
        "Ask about the conversation without adding to it. Without a question: attach the last answer to your message.",
        _btw,
        names=("btw",),
        argument="[question]",
    ),
    Command(
        "add-aside",
        "Attach the aside",
        "Attach the question and answer of /btw to the prompt, and close the answer.",
        _attach_aside,
        keys=("ctrl+s",),
        when=lambda context: context.required_app_view.can_add_aside,
        needs_app=True,
    ),
    Command(
        "background",
        "Move to the background",
        "Move the running command to the background.",
        _background,
        names=("background", "bg"),
        keys=("ctrl+b",),
        when=lambda context: bool(context.agent.conversation.background.calls),
        needs_app=True,
    ),
    Command(
        "jobs",
        "Background jobs",
        "Show background jobs and their output, stop a job, or attach its output to your next message.",
        _jobs,
        names=("jobs",),
        argument="[stop|send] [number]",
        choices=_job_choices,
        opens_picker=True,
    ),
)
