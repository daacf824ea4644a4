"""The user's answer to a plan, in the form for the model.

Separate from `calls` because it loads with the first plan.
"""

from __future__ import annotations

from qcode.engine.effects import ApprovalAnswered
from qcode.protocol.approvals import ApprovalMode, effective_mode

_AFTER_A_PLAN: tuple[ApprovalMode, ...] = ("default", "accept-edits")
_MODE_MEANINGS: dict[ApprovalMode, str] = {
    "default": "the user is asked before each change",
    "accept-edits": "edits inside the folder run without asking, everything else asks",
}
_SUMMARIES: dict[ApprovalMode, str] = {
    "default": "Plan approved · qcode asks before each change",
    "accept-edits": "Plan approved · edits run without asking",
}
_APPROVED = "The user approved the plan and ended plan mode. The mode is now {mode}: {meaning}. Carry out the plan."
_KEEP_PLANNING = "the plan is not approved and plan mode continues; change nothing"
_STILL_PLANNING = "plan mode continues"


def mode_after_plan(chosen: ApprovalMode, *, is_trusted: bool) -> ApprovalMode:
    """Return the mode in which an approved plan is carried out. Only a trusted folder accepts edits."""
    return effective_mode(chosen, is_trusted=is_trusted) if chosen in _AFTER_A_PLAN else "default"


def approval_of_plan(call_id: str, mode: ApprovalMode) -> ApprovalAnswered:
    """Return the approval of a plan, with a text for the model about the mode in which it must carry out the plan."""
    text = _APPROVED.format(mode=mode, meaning=_MODE_MEANINGS[mode])
    return ApprovalAnswered(call_id, is_allowed=True, text=text, summary=_SUMMARIES[mode])


def rejection_of_plan(call_id: str, feedback: str) -> ApprovalAnswered:
    """Return the denial of a plan. The model gets an instruction, the user sees only the `feedback`."""
    instruction = f"The user says: {feedback}" if feedback else "Ask what to change, or end your reply"
    reason = f"{_KEEP_PLANNING}. {instruction}"
    return ApprovalAnswered(call_id, is_allowed=False, reason=reason, summary=feedback or _STILL_PLANNING)
