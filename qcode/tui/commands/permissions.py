"""The commands of permissions: mode, trust, plan mode and rules. A screen is loaded when it opens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from qcode.agent.sessions.replay import plans_in
from qcode.protocol.approvals import NO_OPTIONS, effective_mode, mode_label
from qcode.text.clean import quoted
from qcode.text.match import unknown_name_error
from qcode.tui.commands.command import Command, CommandContext
from qcode.tui.preferences import MODES, meaning_of

if TYPE_CHECKING:
    from qcode.agent.permissions import CheckedKind


def _mode(context: CommandContext, name: str) -> None:
    typed = name.lower()
    mode = next((mode for mode in MODES if typed in (mode, mode_label(mode))), None)
    if mode is not None:
        context.use_mode(mode)
        return
    if not name and context.app_view is not None:
        _pick_mode(context)
        return
    is_trusted = context.agent.trust.is_trusted
    flag_hint = "Start qcode with --permission-mode for auto or bypass."
    labels = [mode_label(mode) for mode in MODES]
    if typed in ("auto", "bypass"):
        context.refuse(f"Cannot switch to {typed} here. {flag_hint}")
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


PERMISSION_MODES: tuple[Command, ...] = (
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
)


def _trust(context: CommandContext, _argument: str) -> None:
    context.view.notify("info", context.agent.trust.accept())
    context.view.show_trust()


_SHOW = "show"


def _plan(context: CommandContext, prompt: str) -> None:
    if prompt == _SHOW:
        _show_plan(context)
        return
    context.use_mode("plan")
    if prompt:
        context.view.send(prompt, f"/plan {prompt}", NO_OPTIONS)
    else:
        context.view.notify(
            "info", "Plan mode: the model reads and proposes a plan. Nothing changes until you approve it."
        )


def _show_plan(context: CommandContext) -> None:
    """Show the last plan, with its state in the title."""
    plans = plans_in(context.agent.conversation.stored_messages)
    if not plans:
        context.view.notify("info", "No plan in this session yet. /plan TASK asks the model for one.")
        return
    plan = plans[-1]
    if context.app_view is None:
        context.view.show_panel(plan.heading, plan.text)
        return
    from qcode.tui.panels.preview import ApprovalDetail
    from qcode.tui.screens.pager import PagerScreen

    context.app_view.open_screen(
        PagerScreen(plan.heading, ApprovalDetail.of("markdown", plan.text).lines), lambda _: None
    )


def _permissions(context: CommandContext, argument: str) -> None:
    from qcode.tui.screens import permission_text

    permissions = context.agent.permissions
    action, _, operand = argument.partition(" ")
    operand = operand.strip()
    if not argument and context.app_view is not None:
        from qcode.tui.screens.permissions import PermissionsScreen

        context.required_app_view.open_screen(PermissionsScreen(permissions), lambda _: None)
    elif action in ("", "list"):
        context.view.show_panel("Permissions", permission_text.permissions_text(permissions))
    elif action == "check" and operand:
        kind, value = permission_text.parse_check(operand)
        context.view.run_later(_show_verdict(context, kind, value))
    elif action in (*permission_text.EFFECTS, *permission_text.REMOVE_WORDS, *permission_text.SAVE_WORDS) and operand:
        try:
            context.view.notify("info", permission_text.change_rules(permissions, action, operand))
        except ValueError as refusal:
            context.refuse(permission_text.refusal_text(refusal))
    else:
        usage = "Use /permissions [list | allow RULE | ask RULE | deny RULE | remove RULE | save RULE | check COMMAND]."
        context.refuse(usage)


async def _show_verdict(context: CommandContext, kind: CheckedKind, value: str) -> None:
    from qcode.tui.screens import permission_text

    verdict = await asyncio.to_thread(context.agent.permissions.check, kind, value)
    context.view.notify("info", permission_text.verdict_text(kind, value, verdict))


def _permission_choices(context: CommandContext) -> Sequence[str]:
    removable_rules = [rule for rule in context.agent.permissions.rules() if rule.number]
    remove = [f"remove {rule.text}" for rule in removable_rules]
    save = [f"save {rule.text}" for rule in removable_rules if rule.scope == "session"]
    return ("list", *remove, *save, "allow shell(…)", "ask shell(…)", "deny shell(…)", "check …")


PERMISSIONS: tuple[Command, ...] = (
    Command(
        "trust",
        "Trust this folder",
        "Trust this folder: use its settings and instructions, and apply your rules and modes in it.",
        _trust,
        names=("trust",),
    ),
    Command(
        "plan",
        "Plan first",
        "Switch to plan mode: nothing changes before you approve a plan. /plan show opens the last plan again.",
        _plan,
        names=("plan",),
        argument="[prompt | show]",
        choices=lambda context: (_SHOW,) if plans_in(context.agent.conversation.stored_messages) else (),
    ),
    Command(
        "permissions",
        "Permissions",
        "Show, add, remove, save and test permission rules; list this session's decisions.",
        _permissions,
        names=("permissions", "allowed-tools"),
        argument="[list | allow|ask|deny|remove|save|check …]",
        choices=_permission_choices,
    ),
)
