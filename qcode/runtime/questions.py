"""What a person is asked about a call: whether it may run, whether it may run again, or what the call itself asks."""

from __future__ import annotations

from qcode.protocol.events import ApprovalRequested
from qcode.protocol.messages import ToolCall
from qcode.tools.tool import Preview


def question_about(
    call: ToolCall, preview: Preview, *, rule: str, repeats: int, is_question: bool, is_keepable: bool = False
) -> ApprovalRequested:
    """Return what to put to the person; `rule` is offered as "always" for a plain approval only."""
    if repeats:
        asked = f"The same {call.name} call has brought the same result {repeats} times in a row. Run it again?"
        return ApprovalRequested(call, asked, preview.detail or preview.refusal, kind="repeat")
    if preview.is_plan:
        return ApprovalRequested(call, preview.question, preview.detail, kind="plan")
    if is_question:
        return ApprovalRequested(call, preview.question, preview.detail, kind="question", choices=preview.choices)
    return ApprovalRequested(call, preview.question, preview.detail, rule, is_keepable=is_keepable and bool(rule))
