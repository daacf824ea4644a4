"""What a sub-agent came to, as the result of its call: its last reply, bounded, or one line that says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qcode.protocol.events import TurnEnded
from qcode.protocol.stops import Outcome
from qcode.protocol.tools import ToolOutcome
from qcode.tools.output import Collector
from qcode.tools.tool import failed


def outcome_of(ended: TurnEnded, *, most: int, folder: Callable[[], Path]) -> ToolOutcome:
    """Return the result; more than `most` characters are shortened in the middle, with the whole in a file."""
    why = _shortfall(ended)
    summary = f"{summary_of(ended)}: {why}" if why else summary_of(ended)
    if not ended.text.strip():
        return failed(f"The sub-agent gave no answer: {why or 'its last reply had no text.'}", summary)
    collector = Collector(most, folder)
    collector.feed(ended.text.encode("utf-8", "replace"))
    text = collector.close()
    if not why:
        return ToolOutcome(text, summary=summary)
    return ToolOutcome(f"[Not a finished answer: {why}]\n\n{text}", is_error=True, summary=summary)


def summary_of(ended: TurnEnded) -> str:
    """Return in a few words how much it took."""
    steps = "1 step" if ended.replies == 1 else f"{ended.replies} steps"
    tokens = (ended.usage.input or 0) + (ended.usage.output or 0)
    return f"{steps}, {tokens:,} tokens" if tokens else steps


def _shortfall(ended: TurnEnded) -> str:
    """Return why there is no finished answer, empty where there is one."""
    match ended.outcome:
        case Outcome.END_TURN:
            return ""
        case Outcome.MAX_TOKENS:
            return "the output limit cut it, also after going on."
        case Outcome.MAX_TURN_REQUESTS:
            return f"a limit was reached ({ended.limit})."
        case Outcome.REFUSAL:
            return "the provider refused it or filtered it."
        case Outcome.CANCELLED:
            return "it was cancelled."
        case Outcome.ERROR:
            error = ended.error
            return " ".join(error.message.split()) if error is not None else "it failed."
