"""The commands of sessions: rewind, undo, resume, fork, export, context and cost.

The functions at the end format `/context` and `/cost`; they are pure.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from qcode.protocol.events import ApiCalls
from qcode.protocol.usage import Usage, cache_hit_rate
from qcode.text.clean import one_line
from qcode.text.numbers import cost_text, count_text, tokens_text
from qcode.tui.commands.command import Command, CommandContext
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from qcode.agent.checkpoints.rewind import OwnMessage, RewindPlan, What
    from qcode.agent.reports import ContextReport, RecoveryMetrics, TurnUsage

_RUNNING = "A turn is running. Press Esc to interrupt it first."


def _step(context: CommandContext, planning: Coroutine[Any, Any, RewindPlan]) -> None:
    context.view.run_later(_take_step(context, planning))


async def _take_step(context: CommandContext, planning: Coroutine[Any, Any, RewindPlan]) -> None:
    """Plan an undo or redo, ask about files that were changed outside qcode, and perform it."""
    try:
        plan = await planning
    except ValueError as refusal:
        context.view.say("info", str(refusal))
        return
    if not plan.doubtful:
        await _perform(context, plan, ())
        return

    def answered(answer: str | None) -> None:
        if answer is None:
            context.view.say("info", "Nothing was changed.")
            return
        chosen = plan.doubtful if answer == "overwrite" else ()
        context.view.run_later(_perform(context, plan, tuple(file.path for file in chosen)))

    from qcode.tui.screens.rewind import DoubtPicker

    context.screen.open_screen(DoubtPicker(plan), answered)


async def _perform(context: CommandContext, plan: RewindPlan, overwrite: tuple[str, ...]) -> None:
    try:
        report = await context.agent.conversation.rewinds.perform(plan, overwrite)
    except ValueError as refusal:
        context.view.say("warning", str(refusal))
        return
    context.screen.show_conversation()
    context.view.say("info", report.text)
    left = [file.path for file in plan.doubtful if file.path not in overwrite]
    if left:
        context.view.say("warning", f"Not changed: {one_line(', '.join(left), 400)}")
    for problem in report.problems:
        context.view.say("warning", one_line(problem, 300))
    if report.prompt:
        context.screen.put_in_prompt(report.prompt)


def _rewind(context: CommandContext, _argument: str) -> None:
    if context.view.is_turn_running:
        context.view.say("warning", _RUNNING)
        return
    messages = context.agent.conversation.rewinds.own_messages()
    if not messages:
        context.view.say("info", "Nothing to rewind: this session has no messages yet.")
        return

    def picked(number: str | None) -> None:
        message = next((one for one in messages if str(one.number) == number), None)
        if message is not None:
            _ask_what(context, message)

    from qcode.tui.screens.rewind import RewindPicker

    context.screen.open_screen(RewindPicker(messages), picked)


def _ask_what(context: CommandContext, message: OwnMessage) -> None:
    def picked(what: str | None) -> None:
        if what is not None:
            _step(context, context.agent.conversation.rewinds.plan_rewind(message.number, cast("What", what)))

    from qcode.tui.screens.rewind import WhatPicker

    context.screen.open_screen(WhatPicker(message), picked)


def _undo(context: CommandContext, _argument: str) -> None:
    _step(context, context.agent.conversation.rewinds.plan_undo())


def _redo(context: CommandContext, _argument: str) -> None:
    _step(context, context.agent.conversation.rewinds.plan_redo())


def _diff(context: CommandContext, _argument: str) -> None:
    async def show() -> None:
        try:
            changes = await context.agent.conversation.rewinds.file_changes()
        except ValueError as refusal:
            context.view.say("info", str(refusal))
            return
        if changes:
            from qcode.tui.screens.pager import PagerScreen
            from qcode.tui.screens.rewind import changes_lines

            head = f"Changed in this session: {count_text(len(changes), 'file')}"
            context.screen.open_screen(PagerScreen(head, partial(changes_lines, changes)), lambda _: None)
        else:
            context.view.say("info", "No file differs from the start of this session.")

    context.view.run_later(show())


def _compact(context: CommandContext, focus: str) -> None:
    if context.view.is_turn_running:
        context.view.say("warning", _RUNNING)
    else:
        context.screen.turns.compact(focus)


def _resume(context: CommandContext, wanted: str) -> None:
    if context.view.is_turn_running:
        context.view.say("warning", _RUNNING)
    elif wanted:
        _open(context, wanted)
    else:
        from qcode.tui.screens.sessions import SessionPicker

        picker = SessionPicker(context.agent.sessions, time.time)
        context.screen.open_screen(picker, lambda chosen: _open(context, chosen) if chosen is not None else None)


def _open(context: CommandContext, session_id: str) -> None:
    try:
        notices = context.agent.sessions.resume(session_id)
    except ValueError as refusal:
        context.view.say("warning", str(refusal))
        return
    context.screen.show_conversation()
    for notice in notices:
        context.view.say("warning", notice)


def _fork(context: CommandContext, _argument: str) -> None:
    try:
        copy = context.agent.sessions.fork()
    except ValueError as refusal:
        context.view.say("warning", str(refusal))
        return
    context.view.say("info", f"Forked to {copy}. The original session is unchanged; /resume lists both.")


def _rename(context: CommandContext, title: str) -> None:
    library = context.agent.sessions
    try:
        library.rename(context.agent.conversation.session_id, title)
    except ValueError as refusal:
        context.view.say("warning", str(refusal))
        return
    context.view.say("info", f"Session renamed to {library.title!r}.")


def _export(context: CommandContext, argument: str) -> None:
    from qcode.agent.sessions.export import export_request, save_export

    try:
        request = export_request(argument)
        text = context.agent.sessions.export(request)
        name = request.path or f"qcode-{context.agent.conversation.session_id}.{request.form}"
        where = save_export(context.agent.context.folder, name, text)
    except ValueError as refusal:
        context.view.say("warning", str(refusal))
        return
    context.view.say("info", f"Exported to {one_line(where)}.")


SESSIONS: tuple[Command, ...] = (
    Command(
        "rewind",
        "Rewind",
        "Go back to before one of your messages: conversation, files or both.",
        _rewind,
        ("rewind", "checkpoints"),
        needs_screen=True,
    ),
    Command(
        "undo",
        "Undo the last turn",
        "Undo the last turn and its file changes.",
        _undo,
        ("undo",),
        needs_screen=True,
    ),
    Command("redo", "Redo", "Redo what the last undo or rewind took back.", _redo, ("redo",), needs_screen=True),
    Command("diff", "Show changes", "Show the file changes of this session.", _diff, ("diff",), needs_screen=True),
    Command(
        "compact",
        "Compact the conversation",
        "Replace older messages with a summary; FOCUS names what to keep.",
        _compact,
        ("compact", "compress"),
        "[focus]",
        needs_screen=True,
    ),
    Command(
        "context",
        "Show the context window",
        "Show what fills the context window.",
        lambda context, _: context.view.show_panel("Context", context_text(context.agent.conversation.context())),
        ("context",),
    ),
    Command(
        "cost",
        "Show usage and cost",
        "Show tokens, API calls and cost of this session.",
        lambda context, _: context.view.show_panel(
            "Usage", cost_text_of(context.agent.conversation.usage(), context.agent.conversation.metrics)
        ),
        ("cost", "usage", "stats"),
    ),
    Command(
        "resume",
        "Resume a session",
        "Resume another session of this folder.",
        _resume,
        ("resume", "sessions"),
        "[id]",
        opens_picker=True,
        needs_screen=True,
    ),
    Command("rename", "Rename the session", "Give this session a name.", _rename, ("rename",), "name"),
    Command("fork", "Fork the session", "Continue in a copy of this session.", _fork, ("fork",)),
    Command(
        "export",
        "Export the session",
        "Export this session to a file: md, json or html.",
        _export,
        ("export",),
        "[md|json|html] [path] [--turns 3-7] [--no-tools]",
        lambda _: ("md", "json", "html", "--turns", "--no-tools"),
    ),
)


_BAR = 20
_TURNS = 8


def context_text(report: ContextReport) -> str:
    """Return the parts of the context window with a bar, shares and advice."""
    rows = [
        ("System prompt", report.system),
        ("Instructions", report.instructions),
        ("Tools", report.tools),
        ("Messages", report.messages),
        ("Tool output", report.tool_output),
        ("Reply reserve", report.reserve),
        ("Free", report.free),
    ]
    filled = min(_BAR, round(report.used * _BAR / report.window)) if report.window else 0
    known = "" if report.is_window_known else " (assumed: the window of this model is unknown)"
    counted = "counted by the provider" if report.is_counted else "estimated"
    lines = [
        f"{'█' * filled}{'░' * (_BAR - filled)}  {tokens_text(report.used)} of {tokens_text(report.window)} tokens, "
        f"{_percent(report.used, report.window)}, {counted}{known}",
        "",
        *(f"{name:<14} {tokens_text(size):>6}  {_percent(size, report.window):>4}" for name, size in rows),
        "",
        *advice(report),
    ]
    return "\n".join(lines)


def advice(report: ContextReport) -> list[str]:
    """Return suggestions for the user, the most useful first."""
    said = [f"qcode compacts automatically at {report.compacts_at:.0%}."]
    share = report.used / report.window if report.window else 0
    if share >= 0.5:
        said.append("/compact frees space now; /clear starts a new session.")
    if report.tool_output > report.used / 2 and report.tool_output > report.window / 10:
        said.append("Most of this is tool output: ask for narrower reads and searches.")
    if report.instructions > report.window / 10:
        said.append("Instruction files use over a tenth of the window: shorten them (/memory).")
    if report.tools > report.window / 5:
        said.append("Tool descriptions use over a fifth of the window: disable some MCP servers.")
    return said


def cost_text_of(turns: Sequence[TurnUsage], metrics: RecoveryMetrics | None = None) -> str:
    """Return the usage of the session: in total, by model, and of its last turns; and what recovery did since start."""
    if not turns:
        return "No requests yet."
    usage, calls = Usage(), ApiCalls()
    for turn in turns:
        usage = usage + turn.usage
        calls = _added(calls, turn.api_calls)
    discarded = sum(turn.discarded_output_tokens for turn in turns)
    lines = [
        f"Cost        {_cost(turns)}",
        f"Input       {_tokens(usage.input)}  (cache read {_tokens(usage.cache_read)}, "
        f"written {_tokens(usage.cache_write)}{_hit_rate(usage)})",
        f"Output      {_tokens(usage.output)}  (reasoning {_tokens(usage.reasoning)}, "
        f"discarded {tokens_text(discarded)})",
        f"API calls   {calls.total} ({_calls(calls)})",
    ]
    lines += recovery_lines(metrics) if metrics is not None else []
    models = list(dict.fromkeys(turn.model for turn in turns))
    if len(models) > 1:
        lines += ["", "By model"]
        lines += [_model_line(model, [turn for turn in turns if turn.model == model]) for model in models]
    lines += ["", f"Last turns of {len(turns)}" if len(turns) > _TURNS else "Turns"]
    lines += [_turn_line(turn) for turn in turns[-_TURNS:]]
    return "\n".join(lines)


def recovery_lines(metrics: RecoveryMetrics) -> list[str]:
    """Return what the small output caps saved, and how often replies were continued."""
    lines = []
    if metrics.saved_output_tokens > 0:
        whole = metrics.reserved_output_tokens + metrics.saved_output_tokens
        saved = f"{tokens_text(metrics.saved_output_tokens)} of {tokens_text(whole)} reserved output tokens"
        lines.append(f"Saved       by adaptive caps: {saved}")
    if total := sum(metrics.continuations.values()):
        lines.append(f"Continued   {count_text(total, 'time')}")
    return lines


def _turn_line(turn: TurnUsage) -> str:
    sizes = f"{_tokens(turn.usage.input):>6} in {_tokens(turn.usage.output):>6} out"
    return f"  {shorten(turn.prompt, 30):<30} {sizes}  {_cost([turn])}"


def _model_line(model: str, turns: Sequence[TurnUsage]) -> str:
    usage = Usage()
    for turn in turns:
        usage = usage + turn.usage
    return f"  {shorten(model, 34):<34} {_tokens(usage.input)} in, {_tokens(usage.output)} out, {_cost(turns)}"


def _cost(turns: Sequence[TurnUsage]) -> str:
    known = [turn.cost for turn in turns if turn.cost is not None]
    if not known:
        return "unknown (no price for this model)"
    text = cost_text(sum(known, Decimal(0)))
    return text if len(known) == len(turns) else f"{text}, without turns of unknown price"


def _hit_rate(usage: Usage) -> str:
    rate = cache_hit_rate(usage)
    return "" if rate is None else f", {_percent(usage.cache_read or 0, usage.input or 0)} from the cache"


def _calls(calls: ApiCalls) -> str:
    parts = [
        (calls.initial, "reply"),
        (calls.escalations, "escalation"),
        (calls.continuations, "continuation"),
        (calls.repairs, "repair"),
        (calls.retries, "retry"),
        (calls.compactions, "compaction"),
    ]
    plural = {"reply": "replies", "retry": "retries"}
    said = [
        f"{count} {plural[noun]}" if count > 1 and noun in plural else count_text(count, noun)
        for count, noun in parts
        if count
    ]
    return ", ".join(said) or "none"


def _added(left: ApiCalls, right: ApiCalls) -> ApiCalls:
    return ApiCalls(
        left.initial + right.initial,
        left.escalations + right.escalations,
        left.continuations + right.continuations,
        left.repairs + right.repairs,
        left.retries + right.retries,
        left.compactions + right.compactions,
    )


def _tokens(count: int | None) -> str:
    return "?" if count is None else tokens_text(count)


def _percent(part: int, whole: int) -> str:
    if not whole or not part:
        return "0%"
    return f"{part / whole:.0%}" if part * 100 >= whole else "<1%"
