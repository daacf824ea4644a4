"""Restores the permission mode and the model of a resumed session, for the app. See docs/guide/sessions.md.

Only a mode that asks is restored, or accept-edits mode in a trusted folder. A resumed session must not run commands
without approval because an earlier run did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from qcode.agent.models.selection import DEMO
from qcode.protocol.approvals import ApprovalMode, mode_label
from qcode.protocol.events import Notice
from qcode.text.clean import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qcode.agent.conversation import Conversation
    from qcode.agent.options import Options

_ALWAYS_RESTORED = frozenset({"plan", "default"})
_NEEDS_TRUST = "accept-edits"
_NEEDS_FLAG = frozenset({"auto", "bypass"})


def restore_session(conversation: Conversation, options: Options) -> tuple[Notice, ...]:
    """Restore mode and model, unless a flag in `options` sets them; return notices for the user."""
    history = conversation.session.history
    notices: list[Notice] = []
    if options.permission_mode is None:
        notices += _restore_mode(conversation, history.mode)
    else:
        conversation.session.record_mode(conversation.mode)
    return (*notices, *_restore_model(conversation, history.current_model, is_chosen=options.model is not None))


def _restore_mode(conversation: Conversation, recorded: str) -> Iterator[Notice]:
    current = conversation.mode
    if recorded in ("", current):
        return
    label = mode_label(recorded)
    current_mode_text = f"The mode is {mode_label(current)}."
    if recorded in _ALWAYS_RESTORED or (recorded == _NEEDS_TRUST and conversation.permissions.is_trusted):
        conversation.set_mode(cast(ApprovalMode, recorded))
        yield Notice("info", f"Mode: {label}, as when you left this session. /mode switches it.")
    elif recorded == _NEEDS_TRUST:
        # The current mode is not recorded: after the folder is trusted, the next resume restores the recorded mode.
        yield Notice(
            "info", f"You left this session in {label} mode, which needs a trusted folder. {current_mode_text}"
        )
    elif recorded in _NEEDS_FLAG:
        conversation.session.record_mode(current)
        flag = f"To use it again, start qcode with --permission-mode {recorded}."
        text = f"You left this session in {label} mode, which is not restored. {current_mode_text} {flag}"
        yield Notice("info", text)


def _restore_model(conversation: Conversation, recorded: str, *, is_chosen: bool) -> Iterator[Notice]:
    current = conversation.model
    if recorded in ("", current):
        return
    if is_chosen:
        conversation.session.record_model(current)
        return
    if recorded.startswith(f"{DEMO}/"):
        conversation.session.record_model(current)
        yield Notice("info", f"This session used the demo model. Continuing with {current}.")
        return
    try:
        conversation.set_model(recorded)
    except ValueError as refusal:
        conversation.session.record_model(current)
        reason = one_line(str(refusal), 200).rstrip(".")
        text = f"This session used {one_line(recorded, 80)}, which cannot be used now: {reason}."
        yield Notice("warning", f"{text} Continuing with {current}.")
    else:
        yield Notice("info", f"Model: {conversation.model}, as when you left this session.")
