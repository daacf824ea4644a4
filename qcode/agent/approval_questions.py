"""The approval of a call as the user sees it: its question, details, reason and offers. Secrets are masked.

Separate from `approvals` because it loads with the first call that asks, or that changes a file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from qcode.agent.permissions import holds_secrets
from qcode.engine.effects import AskApproval
from qcode.protocol.approvals import (
    CallApproval,
    ImpossibleCall,
    PlanApproval,
    Question,
    RepeatedCall,
    Scope,
    ToolApproval,
)
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ChangedFile, CommandExecution, ToolSpec
from qcode.safety.policy import Policy
from qcode.safety.verdict import RESTRICTED, Verdict
from qcode.text.clean import visible, visible_line, visible_lines, visible_rows
from qcode.tools.tool import Preview

_MAX_SHOWN_NAME_CHARS = 80


def approval_of(call: ToolCall, preview: Preview, *, repeats: int, is_question: bool) -> CallApproval:
    """Return the approval of a call that has returned the same result `repeats` times; the caller adds its offers."""
    detail = visible_rows(preview.detail.removesuffix("\n")) if preview.is_diff else preview.detail
    if repeats:
        name = visible(call.name)
        again = f"Run it again {preview.options}".rstrip()
        question = f"The same {name} call has returned the same result {repeats} times in a row. {again}?"
        return RepeatedCall(call, question, detail or visible_lines(preview.refusal))
    if preview.is_plan:
        return PlanApproval(call, preview.question, detail)
    if is_question:
        return Question(call, preview.question, detail, preview.choices, is_multi_select=preview.is_multi_select)
    return ToolApproval(call, preview.question, detail)


def masked_preview(policy: Policy, preview: Preview) -> Preview:
    """Return the preview with the contents of secret files hidden."""
    if not preview.is_diff:
        return preview
    from qcode.text.diff import mask_diff

    return replace(preview, detail=mask_diff(preview.detail, partial(holds_secrets, policy)))


def approval_kind(spec: ToolSpec, preview: Preview) -> Literal["edit", "command", "other"]:
    """Return the kind of a call, which decides how its approval is shown; see `ToolApproval.kind`."""
    if preview.is_diff:
        return "edit"
    return "command" if isinstance(spec.safety, CommandExecution) and spec.safety.command_argument else "other"


def showable_changes(policy: Policy, changes: tuple[ChangedFile, ...]) -> tuple[ChangedFile, ...]:
    """Return the changes of files whose contents may be shown; the other files are only in the masked diff."""
    return tuple(change for change in changes if not holds_secrets(policy, change.path))


def approval_reason(verdict: Verdict, kind: str, location: str) -> str:
    """Return in a line why a call asks, and its `location`; empty for a file edit that no rule refers to."""
    if kind == "edit" and (verdict.is_allowed or verdict.check.startswith("mode:")):
        return ""
    lead = "A hook asks: " if verdict.check.startswith("hook:") else "Asks because "
    # A call that the user edited asks again even if it is allowed, for example because it only reads.
    reason = "you edited it" if verdict.is_allowed else visible(verdict.reason)
    return " · ".join(filter(None, (f"{lead}{reason}", location)))


def offered_scopes(verdict: Verdict, *, accepts_edits: bool) -> tuple[Scope, ...]:
    """Return the scopes that the verdict offers besides `once`, `session` and `folder`."""
    if verdict.check == RESTRICTED:
        return ("trust",)
    offers: list[Scope] = ["edits"] if accepts_edits else []
    offers += ["prefix"] if verdict.prefix_rule else []
    offers += ["sandbox"] if verdict.sandboxed_rule else []
    return tuple(offers)


def impossible_call(request: AskApproval) -> ImpossibleCall:
    """Return the approval that lets the model try again after calls that cannot run."""
    name = visible_line(request.call.name, _MAX_SHOWN_NAME_CHARS)
    question = (
        f"The model keeps making tool calls that cannot run, the last one of {name} ({visible(request.obstacle)}). "
        "Let it try again?"
    )
    return ImpossibleCall(request.call, question, visible_lines(request.call.arguments))
