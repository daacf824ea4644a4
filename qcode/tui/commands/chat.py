"""The commands of the conversation: provider, model, effort, mode, new session, trust, interrupt, quit.

Also the prompt's editor, history and paste, the to-do list and background jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from qcode.protocol.approvals import effective_mode, mode_label
from qcode.protocol.model import EFFORTS, Effort
from qcode.text.clean import quoted
from qcode.text.match import unknown_name_error
from qcode.tui.commands.command import TURN_RUNS, Command, CommandContext, find_command, is_prompt_empty
from qcode.tui.panels.todos import todo_lines, todo_summary
from qcode.tui.preferences import MODES, meaning_of

if TYPE_CHECKING:
    from qcode.tools.jobs import Job
    from qcode.tui.screens.models import ModelChoice


AUTO = "auto"
"""The argument that resets the effort to the model's default."""
_EFFORT_MEANINGS: dict[Effort, str] = {
    "none": "no reasoning, if the model allows that",
    "minimal": "the least the model offers",
    "low": "quick answers",
    "medium": "a balance",
    "high": "longer reasoning, more tokens",
    "max": "the most the model offers",
}
_MAX_MODELS = 40


def _model(context: CommandContext, name: str) -> None:
    if name:
        if not context.model_use.use(name):
            context.keep_typed()
    elif context.app_view is not None:
        from qcode.tui.screens.models import ModelPicker

        picker = ModelPicker(context.agent.models, context.agent.conversation.model, context.model_use.requested_effort)
        context.required_app_view.open_screen(picker, lambda chosen: _use_choice(context, chosen))
    else:
        others = [other for other in context.agent.models.names() if other != context.agent.conversation.model]
        lines = [f"Model: {context.agent.conversation.model}", *(f"  {other}" for other in others[:_MAX_MODELS])]
        if len(others) > _MAX_MODELS:
            lines.append(f"  … {len(others) - _MAX_MODELS} more: `qcode models` lists them all")
        context.view.notify("info", "\n".join([*lines, "/model NAME switches the model from the next turn."]))


def _use_choice(context: CommandContext, chosen: ModelChoice | None) -> None:
    if chosen is None:
        return
    context.model_use.choose(chosen.model or context.agent.conversation.model, chosen.effort)
    if chosen.provider:
        _connect(context, chosen.provider)


def _effort(context: CommandContext, typed: str) -> None:
    level = next((candidate for candidate in EFFORTS if candidate == typed.lower()), None)
    if level is not None or typed.lower() == AUTO:
        context.model_use.use_effort(level)
    elif typed:
        choices = (AUTO, *EFFORTS)
        context.refuse(
            unknown_name_error(f"effort {quoted(typed)}", typed, choices, f"Choose from {', '.join(choices)}.")
        )
    elif context.app_view is not None:
        _pick_effort(context)
    else:
        lines = [f"  {level}: {meaning}" for level, meaning in _EFFORT_MEANINGS.items()]
        heading = f"Effort: {context.model_use.requested_effort or AUTO}"
        context.view.notify("info", "\n".join([heading, *lines, "/effort LEVEL sets it."]))


def _pick_effort(context: CommandContext) -> None:
    from qcode.tui.panels.picker_list import PickerRow
    from qcode.tui.screens.picker import Picker

    current = context.model_use.requested_effort
    rows = [PickerRow(AUTO, AUTO, "model default", is_current=current is None)]
    rows += [
        PickerRow(level, level, meaning, is_current=level == current) for level, meaning in _EFFORT_MEANINGS.items()
    ]
    is_supported = context.agent.conversation.supports_reasoning
    title = "Effort" if is_supported else "Effort (this model is not known to support reasoning)"
    context.required_app_view.open_screen(
        Picker(title, rows), lambda level: _effort(context, level) if level is not None else None
    )


MODELS: tuple[Command, ...] = (
    Command(
        "model",
        "Switch the model",
        "Choose a model by context window, price and features, or switch by name.",
        _model,
        names=("model", "models"),
        argument="[name]",
        choices=lambda context: context.agent.models.names(),
        opens_picker=True,
    ),
    Command(
        "effort",
        "Set the effort",
        "Set the reasoning effort from the next turn.",
        _effort,
        names=("effort",),
        argument="[level]",
        choices=lambda _: (AUTO, *EFFORTS),
        opens_picker=True,
    ),
)


def _mode(context: CommandContext, name: str) -> None:
    mode = next((mode for mode in MODES if name in (mode, mode_label(mode))), None)
    if mode is not None:
        context.use_mode(mode)
        return
    if not name and context.app_view is not None:
        _pick_mode(context)
        return
    is_trusted = context.agent.trust.is_trusted
    flag_hint = "Start qcode with --permission-mode for auto or bypass."
    labels = [mode_label(mode) for mode in MODES]
    if name in ("auto", "bypass"):
        context.refuse(f"Cannot switch to {name} here. {flag_hint}")
    elif name:
        choices = f"Choose from {', '.join(labels)}."
        context.refuse(unknown_name_error(f"mode {quoted(name)}", name, labels, choices))
    else:
        lines = [f"  {mode_label(mode)}: {meaning_of(mode, is_trusted=is_trusted)}" for mode in MODES]
        heading = f"Mode: {mode_label(effective_mode(context.agent.conversation.mode, is_trusted=is_trusted))}"
        context.view.notify("info", "\n".join([heading, *lines, flag_hint]))


def _pick_mode(context: CommandContext) -> None:
    from qcode.tui.panels.picker_list import PickerRow
    from qcode.tui.screens.picker import Picker

    is_trusted = context.agent.trust.is_trusted
    current = effective_mode(context.agent.conversation.mode, is_trusted=is_trusted)
    rows = [
        PickerRow(mode, mode_label(mode), meaning_of(mode, is_trusted=is_trusted), is_current=mode == current)
        for mode in MODES
    ]
    if current not in MODES:
        rows.insert(0, PickerRow(current, mode_label(current), "chosen at the start", is_current=True))

    def on_pick(name: str | None) -> None:
        mode = next((mode for mode in MODES if mode == name), None)
        if mode is not None:
            context.use_mode(mode)

    context.required_app_view.open_screen(Picker("Permission mode", rows), on_pick)


def _next_mode(context: CommandContext, _argument: str) -> None:
    is_trusted = context.agent.trust.is_trusted
    modes = [mode for mode in MODES if effective_mode(mode, is_trusted=is_trusted) == mode]
    mode = effective_mode(context.agent.conversation.mode, is_trusted=is_trusted)
    if context.app_view is not None and context.app_view.has_question and mode != "plan":
        modes.remove("plan")  # it would deny the call that the question is about
    next_mode = modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else "default"
    # While a question about a plan is open, leaving plan mode approves the plan.
    if context.app_view is not None and next_mode != "plan" and context.app_view.accept_plan(next_mode):
        return
    context.use_mode(next_mode)
    if context.app_view is not None and not is_trusted:
        # In a restricted folder, the mode after `default` is skipped.
        context.app_view.hint("/trust enables accept edits" if mode == "default" else "")


def _is_not_writing_answer(context: CommandContext) -> bool:
    """Return whether Shift+Tab switches the mode. In the text field of a question, it returns to the choices."""
    return context.app_view is None or not context.app_view.is_writing_answer


def _clear(context: CommandContext, _argument: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
    else:
        had_messages = bool(context.agent.conversation.messages)
        context.agent.conversation.clear()
        context.view.show_new_session()
        if had_messages:
            context.view.notify("info", "New session. /resume brings the previous one back.")


def _connect(context: CommandContext, provider: str) -> None:
    names = context.agent.keys.names()
    if provider and provider not in names:
        context.refuse(unknown_name_error(f"provider {quoted(provider)}", provider, names, "/connect lists them."))
    else:
        context.required_app_view.connect(provider)


def _trust(context: CommandContext, _argument: str) -> None:
    context.view.notify("info", context.agent.trust.accept())
    context.view.show_trust()


CHAT: tuple[Command, ...] = (
    Command(
        "connect",
        "Connect a provider",
        "Choose a provider, add its API key and switch to one of its models.",
        _connect,
        names=("connect",),
        argument="[provider]",
        choices=lambda context: context.agent.keys.names(),
        needs_app=True,
    ),
    Command(
        "mode",
        "Change permission mode",
        "Show the permission modes, or switch to one.",
        _mode,
        names=("mode",),
        argument="[name]",
        choices=lambda _: tuple(map(mode_label, MODES)),
        opens_picker=True,
    ),
    Command(
        "next-mode",
        "Next permission mode",
        "Switch mode: ask, accept edits, plan.",
        _next_mode,
        keys=("shift+tab",),
        when=_is_not_writing_answer,
    ),
    Command("clear", "New session", "Start a new session. The current one is saved.", _clear, names=("clear", "new")),
    Command(
        "trust",
        "Trust this folder",
        "Trust this folder: qcode uses its files, and applies your rules and modes in it.",
        _trust,
        names=("trust",),
    ),
)


def _escape(context: CommandContext, _argument: str) -> None:
    rewind = find_command("rewind", context.commands)
    is_possible = rewind is not None and rewind.when(context) and bool(context.agent.conversation.messages)
    context.required_app_view.cancel_keys.escape(
        partial(rewind.run, context, "") if rewind is not None and is_possible else None
    )


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
    """Return whether there is a text for the user's editor: the prompt, an answer, or the call of a question."""
    app_view = context.required_app_view
    return app_view.is_prompt_focused or app_view.is_writing_answer or app_view.is_asking_about_draft


PROMPT: tuple[Command, ...] = (
    Command(
        "editor",
        "Write in your editor",
        "Edit the prompt, an answer or the call of a question in your editor (VISUAL, EDITOR).",
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
            view.notify("info", jobs.send(job))
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
        "Attach the question and answer of /btw to the prompt, as a label, and close it.",
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
