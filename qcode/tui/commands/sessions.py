"""The commands of sessions: rewind, undo, resume, fork, export, context and cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, cast

from qcode.agent.context.window import context_text
from qcode.agent.sessions.library import OpenElsewhere, UnknownSession
from qcode.agent.usage import usage_report_text
from qcode.text.clean import one_line, quoted
from qcode.tui.commands.command import TURN_RUNS, Command, CommandContext

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import RewindPlan, RewindPoint, RewindScope, SessionFileDiff
    from qcode.agent.checkpoints.turn_changes import TurnChanges
    from qcode.tui.screens.changes import ChangePart


def _start_rewind(
    context: CommandContext, planning: Coroutine[Any, Any, RewindPlan], go_back: Callable[[], None] | None = None
) -> None:
    context.view.run_later(_run_rewind(context, planning, go_back), may_open_screen=True)


async def _run_rewind(
    context: CommandContext, planning: Coroutine[Any, Any, RewindPlan], go_back: Callable[[], None] | None
) -> None:
    """Plan a rewind, an undo or a redo, ask about files that were changed outside qcode, and perform the plan.

    Esc at that question calls `go_back`, which opens the previous question. Without `go_back`, Esc cancels. The linear
    mode does not ask, and does not change those files.
    """
    try:
        plan = await planning
    except ValueError as refusal:
        context.view.notify("info", str(refusal))
        return
    if not plan.doubtful or context.app_view is None:
        await _perform(context, plan, overwritten_paths=())
        return

    def on_answer(answer: str | None) -> None:
        if answer is None:
            if go_back is not None:
                go_back()
            else:
                context.view.notify("info", "Nothing was changed.")
            return
        overwritten_files = plan.doubtful if answer == "overwrite" else ()
        context.view.run_later(_perform(context, plan, tuple(file.path for file in overwritten_files)))

    from qcode.tui.screens.rewind import OutsideChangesPicker

    context.required_app_view.open_screen(OutsideChangesPicker(plan, can_go_back=go_back is not None), on_answer)


async def _perform(context: CommandContext, plan: RewindPlan, overwritten_paths: tuple[str, ...]) -> None:
    """Perform the plan and report it. `overwritten_paths`: files with outside changes that are restored, too."""
    conversation = context.agent.conversation
    try:
        report = await conversation.checkpoints.perform(plan, overwritten_paths)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    if plan.is_redo:  # the undo attached the output of commands again, which the conversation now contains
        conversation.attachments.remove([block for message in conversation.messages for block in message.blocks])
    conversation.attach(report.attached)
    if context.app_view is not None:
        context.app_view.show_conversation()
    context.view.notify("info", report.text)
    unchanged = [file.path for file in plan.doubtful if file.path not in overwritten_paths]
    if unchanged:
        names = one_line(", ".join(unchanged), 400)
        if context.app_view is None:
            context.view.notify("warning", f"Not changed: {names}")
        else:  # the user has chosen this
            context.view.notify("info", f"Kept as {'it is' if len(unchanged) == 1 else 'they are'}: {names}")
    for problem in report.problems:
        context.view.notify("warning", one_line(problem, 300))
    if report.prompt and context.app_view is not None:
        context.app_view.put_in_prompt(report.prompt)
    elif report.prompt:
        context.view.notify("info", f"The removed message: {one_line(report.prompt, 1_000)}")


def _rewind(context: CommandContext, _argument: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
        return
    messages = context.agent.conversation.checkpoints.rewind_points()
    if not messages:
        context.view.notify("info", "Nothing to rewind: this session has no messages yet.")
        return
    _pick_message(context, messages)


def _pick_message(context: CommandContext, messages: Sequence[RewindPoint], highlighted: str = "") -> None:
    def on_pick(number: str | None) -> None:
        removed = [message for message in messages if number is not None and message.number >= int(number)]
        if removed:
            _pick_rewind_scope(context, messages, removed)

    from qcode.tui.screens.rewind import RewindPicker

    context.required_app_view.open_screen(RewindPicker(messages, highlighted), on_pick)


def _pick_rewind_scope(
    context: CommandContext, messages: Sequence[RewindPoint], removed: Sequence[RewindPoint]
) -> None:
    """Ask for the scope of the rewind. Esc returns to the list of `messages`.

    `removed` are the messages that the rewind removes: the picked one and those after it.
    """
    number = removed[0].number

    def on_pick(scope: str | None) -> None:
        if scope is None:
            _pick_message(context, messages, str(number))
            return
        planning = context.agent.conversation.checkpoints.plan_rewind(number, cast("RewindScope", scope))
        _start_rewind(context, planning, lambda: _pick_rewind_scope(context, messages, removed))

    from qcode.tui.screens.rewind import RewindScopePicker

    context.required_app_view.open_screen(RewindScopePicker(removed), on_pick)


def _undo(context: CommandContext, _argument: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
    else:
        _start_rewind(context, context.agent.conversation.checkpoints.plan_undo())


def _redo(context: CommandContext, _argument: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
    else:
        _start_rewind(context, context.agent.conversation.checkpoints.plan_redo())


def _diff(context: CommandContext, _argument: str) -> None:
    context.view.run_later(_show_changes(context), may_open_screen=True)


async def _show_changes(context: CommandContext) -> None:
    """Show the changes of each turn: on a screen, or as text in the linear mode."""
    checkpoints = context.agent.conversation.checkpoints

    async def read() -> tuple[Sequence[SessionFileDiff], Sequence[TurnChanges]]:
        return await checkpoints.file_changes(), await checkpoints.turn_changes()

    async def undo(part: ChangePart) -> str:
        if context.view.is_turn_running:
            raise ValueError("A turn is running. Undo this once it has ended.")
        plan = await checkpoints.plan_partial_undo(part.prompt_number, part.file.real_path, part.hunk)
        report = await checkpoints.perform(plan)
        if report.problems:
            raise ValueError("; ".join(report.problems))
        context.view.notify("info", report.text)
        return report.text

    try:
        changes, turns = await read()
    except ValueError as refusal:
        context.view.notify("info", str(refusal))
        return
    from qcode.agent.checkpoints.turn_changes import NO_CHANGES, changes_text

    if not changes and not turns:
        context.view.notify("info", NO_CHANGES)
    elif context.app_view is None:
        context.view.show_panel("Changes", changes_text(turns))
    else:
        from qcode.tui.screens.changes import ChangesScreen, ChangesSource

        context.required_app_view.open_screen(ChangesScreen(changes, turns, ChangesSource(undo, read)), lambda _: None)


def _compact(context: CommandContext, focus: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
    else:
        context.required_app_view.turns.compact(focus)


def _resume(context: CommandContext, requested: str) -> None:
    if context.view.is_turn_running:
        context.refuse(TURN_RUNS)
    elif requested:
        _open_session(context, requested)
    else:
        _choose_session(context)


def resume_at_start(context: CommandContext, session_id: str, on_open: Callable[[], None]) -> None:
    """Resume the session `session_id`, or let the user choose one if the id is empty.

    `on_open` is called once a session is open: the chosen one, a copy of it, or a new one.
    """
    if session_id:
        _open_session(context, session_id, on_open, at_start=True)
    else:
        _choose_session(context, on_open)


def _choose_session(
    context: CommandContext, on_open: Callable[[], None] = lambda: None, highlighted: str = "", *, filter_text: str = ""
) -> None:
    """Let the user choose a session. `highlighted` is an id; `filter_text` also searches the messages."""

    def on_pick(chosen: str | None) -> None:
        if chosen is not None:
            _open_session(context, chosen, on_open)
        else:
            on_open()

    from qcode.tui.screens.sessions import SessionPicker

    context.required_app_view.open_screen(
        SessionPicker(context.agent.sessions, time.time, highlighted, filter_text=filter_text), on_pick
    )


def _open_session(
    context: CommandContext, session_id: str, on_open: Callable[[], None] = lambda: None, *, at_start: bool = False
) -> None:
    """Continue with a session. If another process has it open, ask whether to continue in a copy.

    If `session_id` is not the id of a session, search for that text in all sessions. At the start, refuse it.
    """
    try:
        notices = context.agent.sessions.resume(session_id)
    except OpenElsewhere as refusal:
        _offer_copy(context, refusal, on_open, at_start=at_start)
        return
    except UnknownSession as refusal:
        if not at_start:
            _choose_session(context, on_open, filter_text=session_id)
            return
        context.refuse(str(refusal))
    except ValueError as refusal:
        context.refuse(str(refusal))
    else:
        _show_opened(context, notices)
    on_open()


def _offer_copy(
    context: CommandContext, refusal: OpenElsewhere, on_open: Callable[[], None], *, at_start: bool
) -> None:
    """Ask how to continue with a session that another process has open."""
    session_id, sessions = refusal.session_id, context.agent.sessions
    info = next((info for info in sessions.sessions() if info.session_id == session_id), None)

    def on_pick(answer: str | None) -> None:
        if answer == "list":
            _choose_session(context, on_open, highlighted=session_id)
            return
        if answer == "copy":
            _fork(context, session_id)
        on_open()

    from qcode.tui.screens.sessions import OpenElsewherePicker

    title = info.title if info is not None and info.title else session_id
    context.required_app_view.open_screen(OpenElsewherePicker(title, refusal.holder, at_start=at_start), on_pick)


def _show_opened(context: CommandContext, notices: Sequence[str] = ()) -> None:
    """Show the session that the conversation continues with."""
    from qcode.agent.sessions.resumption import restore_session
    from qcode.tui.transcript.replay import is_shown_by_resume

    restored = restore_session(context.agent.conversation, context.agent.context.options)
    context.required_app_view.show_conversation()
    for notice in restored:
        context.view.notify(notice.level, notice.text)
    for text in notices:
        if not is_shown_by_resume(context.agent.conversation, text):
            context.view.notify("warning", text)


def _fork(context: CommandContext, session_id: str) -> None:
    """Continue in a copy of a session; an empty id means the open session."""
    try:
        copy = context.agent.sessions.fork(session_id)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    if session_id:
        _show_opened(context)
    context.view.notify("info", f"Forked to {copy}. The original session is unchanged; /resume lists both.")


def _rename(context: CommandContext, title: str) -> None:
    library = context.agent.sessions
    try:
        library.rename(context.agent.conversation.session_id, title)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    context.view.notify("info", f"Session renamed to {quoted(library.title)}.")


def _export(context: CommandContext, argument: str) -> None:
    from qcode.agent.sessions.export import export_request, new_export_name, save_export

    folder, session_id = context.agent.context.folder, context.agent.conversation.session_id
    try:
        request = export_request(argument)
        text = context.agent.sessions.export(request)
        name = request.path or new_export_name(folder, session_id, request.format)
        save_export(folder, name, text)
    except ValueError as refusal:
        context.refuse(str(refusal))
        return
    context.view.notify("info", f"Exported to {one_line(name)}.")


SESSIONS: tuple[Command, ...] = (
    Command(
        "rewind",
        "Rewind",
        "Go back to the state before one of your messages: conversation, files or both.",
        _rewind,
        names=("rewind", "checkpoints"),
        needs_app=True,
    ),
    Command(
        "undo",
        "Undo the last turn",
        "Undo the last turn and its file changes.",
        _undo,
        names=("undo",),
    ),
    Command("redo", "Redo", "Revert the last undo or rewind.", _redo, names=("redo",)),
    Command(
        "diff", "Show changes", "Show the file changes of each turn, and undo a file or a hunk.", _diff, names=("diff",)
    ),
    Command(
        "compact",
        "Compact the conversation",
        "Replace older messages with a summary; FOCUS names what to keep.",
        _compact,
        names=("compact", "compress"),
        argument="[focus]",
        needs_app=True,
    ),
    Command(
        "context",
        "Show the context window",
        "Show what fills the context window.",
        lambda context, _: context.view.show_panel(
            "Context",
            context_text(context.agent.conversation.context_report(), has_bar=context.app_view is not None),
        ),
        names=("context",),
    ),
    Command(
        "cost",
        "Show usage and cost",
        "Show tokens, API calls and cost of this session.",
        lambda context, _: context.view.show_panel(
            "Usage", usage_report_text(context.agent.conversation.usage(), context.agent.conversation.metrics)
        ),
        names=("cost", "usage", "stats"),
    ),
    Command(
        "resume",
        "Resume a session",
        "Resume another session of this folder; WORDS search its messages.",
        _resume,
        names=("resume", "sessions"),
        argument="[id | words]",
        opens_picker=True,
        needs_app=True,
    ),
    Command("rename", "Rename the session", "Give this session a name.", _rename, names=("rename",), argument="name"),
    Command("fork", "Fork the session", "Continue in a copy of this session.", _fork, names=("fork",)),
    Command(
        "export",
        "Export the session",
        "Export this session to a file in Markdown, JSON or HTML.",
        _export,
        names=("export",),
        argument="[md|json|html] [path] [--turns 3-7] [--no-tools]",
        choices=lambda _: ("md", "json", "html", "--turns", "--no-tools"),
    ),
)
