"""The commands of sessions: going back and forth, other sessions, what fills the window and what it cost."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any, cast

from qcode.protocol.library import EXPORT_FORMS, ExportForm
from qcode.protocol.rewinding import OwnMessage, RewindPlan, What
from qcode.tui.commands.command import Command, CommandHost
from qcode.tui.report_text import context_text, cost_text_of
from qcode.tui.text import one_line

_RUNNING = "A turn is running. Press Esc to interrupt it first."


def _step(host: CommandHost, planning: Coroutine[Any, Any, RewindPlan]) -> None:
    host.run_later(_take_step(host, planning))


async def _take_step(host: CommandHost, planning: Coroutine[Any, Any, RewindPlan]) -> None:
    """Work a step out, ask about files that are not as qcode left them, and take it."""
    try:
        plan = await planning
    except ValueError as refusal:
        host.say("info", str(refusal))
        return
    if not plan.doubtful:
        await _perform(host, plan, ())
        return

    def answered(answer: str | None) -> None:
        if answer is None:
            host.say("info", "Nothing was changed.")
            return
        chosen = plan.doubtful if answer == "overwrite" else ()
        host.run_later(_perform(host, plan, tuple(file.path for file in chosen)))

    from qcode.tui.screens.rewind import DoubtPicker

    host.open_screen(DoubtPicker(plan), answered)


async def _perform(host: CommandHost, plan: RewindPlan, overwrite: tuple[str, ...]) -> None:
    try:
        report = await host.conversation.rewinds.perform(plan, overwrite)
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.show_conversation()
    host.say("info", report.text)
    left = [file.path for file in plan.doubtful if file.path not in overwrite]
    if left:
        host.say("warning", f"Left as they are: {one_line(', '.join(left), 400)}")
    for problem in report.problems:
        host.say("warning", one_line(problem, 300))
    if report.prompt:
        host.put_in_prompt(report.prompt)


def _rewind(host: CommandHost, _argument: str) -> None:
    if host.is_turn_running:
        host.say("warning", _RUNNING)
        return
    messages = host.conversation.rewinds.own_messages()
    if not messages:
        host.say("info", "There is nothing to rewind: nothing was said yet.")
        return

    def picked(number: str | None) -> None:
        message = next((one for one in messages if str(one.number) == number), None)
        if message is not None:
            _ask_what(host, message)

    from qcode.tui.screens.rewind import RewindPicker

    host.open_screen(RewindPicker(messages), picked)


def _ask_what(host: CommandHost, message: OwnMessage) -> None:
    def picked(what: str | None) -> None:
        if what is not None:
            _step(host, host.conversation.rewinds.plan_rewind(message.number, cast("What", what)))

    from qcode.tui.screens.rewind import WhatPicker

    host.open_screen(WhatPicker(message), picked)


def _undo(host: CommandHost, _argument: str) -> None:
    _step(host, host.conversation.rewinds.plan_undo())


def _redo(host: CommandHost, _argument: str) -> None:
    _step(host, host.conversation.rewinds.plan_redo())


def _diff(host: CommandHost, _argument: str) -> None:
    async def show() -> None:
        try:
            changes = await host.conversation.rewinds.file_changes()
        except ValueError as refusal:
            host.say("info", str(refusal))
            return
        if changes:
            from qcode.tui.screens.changes import ChangesScreen

            host.open_screen(ChangesScreen(changes), lambda _: None)
        else:
            host.say("info", "This session changed no files that are still changed.")

    host.run_later(show())


def _compact(host: CommandHost, focus: str) -> None:
    if host.is_turn_running:
        host.say("warning", _RUNNING)
    else:
        host.compact(focus)


def _resume(host: CommandHost, wanted: str) -> None:
    if host.is_turn_running:
        host.say("warning", _RUNNING)
    elif wanted:
        _open(host, wanted)
    else:
        from qcode.tui.screens.sessions import SessionPicker

        picker = SessionPicker(host.conversation.library, time.time)
        host.open_screen(picker, lambda chosen: _open(host, chosen) if chosen is not None else None)


def _open(host: CommandHost, session_id: str) -> None:
    try:
        notices = host.conversation.library.resume(session_id)
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.show_conversation()
    for notice in notices:
        host.say("warning", notice)


def _fork(host: CommandHost, _argument: str) -> None:
    try:
        copy = host.conversation.library.fork()
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.say("info", f"This goes on in a copy, {copy}; the session before it stays as it was. /resume lists both.")


def _rename(host: CommandHost, title: str) -> None:
    library = host.conversation.library
    try:
        library.rename(host.conversation.session_id, title)
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.say("info", f"This session is called {library.title!r} now.")


def _export(host: CommandHost, argument: str) -> None:
    first, _, rest = argument.partition(" ")
    form: ExportForm = "md"
    if first in EXPORT_FORMS:
        form, path = first, rest.strip()
    else:
        path = argument
        ending = path.rpartition(".")[2].lower()
        form = ending if ending in EXPORT_FORMS else "md"
    save = host.setup.save
    if save is None:
        host.say("warning", "There is nowhere to export to in this run.")
        return
    name = path or f"qcode-{host.conversation.session_id}.{form}"
    try:
        where = save(name, host.conversation.library.export(form))
    except ValueError as refusal:
        host.say("warning", str(refusal))
        return
    host.say("info", f"Exported to {one_line(where)}.")


SESSIONS: tuple[Command, ...] = (
    Command(
        "rewind",
        "Rewind",
        "Go back to before one of your messages: conversation, files or both.",
        _rewind,
        ("rewind", "checkpoints"),
    ),
    Command("undo", "Undo the last turn", "Take back the last turn, its changes of files too.", _undo, ("undo",)),
    Command("redo", "Redo", "Take the last undo or rewind back.", _redo, ("redo",)),
    Command("diff", "Show changes", "Show what this session changed in files.", _diff, ("diff",)),
    Command(
        "compact",
        "Compact the conversation",
        "Put a summary in the place of older messages; a focus says what matters.",
        _compact,
        ("compact", "compress"),
        "[focus]",
    ),
    Command(
        "context",
        "Show the context window",
        "Show what fills the context window.",
        lambda host, _: host.show_panel("Context", context_text(host.conversation.reports.context())),
        ("context",),
    ),
    Command(
        "cost",
        "Show usage and cost",
        "Show tokens, API calls and cost of this session.",
        lambda host, _: host.show_panel("Usage", cost_text_of(host.conversation.reports.usage())),
        ("cost", "usage", "stats"),
    ),
    Command(
        "resume",
        "Resume a session",
        "Go on with another session of this folder.",
        _resume,
        ("resume", "sessions"),
        "[id]",
        has_screen=True,
    ),
    Command("rename", "Rename the session", "Give this session a name.", _rename, ("rename",), "name"),
    Command("fork", "Fork the session", "Go on in a copy of this session.", _fork, ("fork",)),
    Command(
        "export",
        "Export the session",
        "Write this session to a file: md, json or html.",
        _export,
        ("export",),
        "[md|json|html] [path]",
        lambda _: EXPORT_FORMS,
    ),
)
