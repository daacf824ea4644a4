"""The report on the context window as text, for `/context` of every front end."""

from __future__ import annotations

from qcode.agent.reports import ContextReport, percent_text
from qcode.text.numbers import tokens_text

_BAR_CELLS = 20
_NAME_CELLS = 14


def context_text(report: ContextReport, *, has_bar: bool = True) -> str:
    """Return the tokens of the context window by use, with advice; `has_bar` is False for a screen reader."""
    rows = [
        ("System prompt", report.system),
        ("Instructions", report.instructions),
        ("Tools", report.tools),
        *((f"  {name}"[:_NAME_CELLS], tokens) for name, tokens in report.servers),
        ("Messages", report.messages),
        ("Tool output", report.tool_output),
        ("Reply reserve", report.reserve),
        ("Free", report.free),
    ]
    filled = min(_BAR_CELLS, round(report.used * _BAR_CELLS / report.window)) if report.window else 0
    filled_bar = "█" * filled or ("▏" if report.used and report.window else "")
    bar = f"{filled_bar}{'░' * (_BAR_CELLS - len(filled_bar))}  " if has_bar else ""
    note = "" if report.is_window_known else " (assumed: the window of this model is unknown)"
    counted = "counted by the provider" if report.is_counted else "estimated"
    lines = [
        f"{bar}{tokens_text(report.used)} of {tokens_text(report.window)} tokens, "
        f"{percent_text(report.used, report.window)}, {counted}{note}",
        "",
        *(
            f"{name:<{_NAME_CELLS}} {tokens_text(tokens):>6}  {percent_text(tokens, report.window):>4}"
            for name, tokens in rows
        ),
        "",
        *advice(report),
    ]
    return "\n".join(lines)


def advice(report: ContextReport) -> list[str]:
    """Return suggestions for the user, the most useful first."""
    lines = [f"qcode compacts automatically at {report.compacts_at:.0%}."]
    if report.first_cap is not None:
        learned = report.first_cap
        lines.append(
            f"Requests ask for {report.reserve:,} tokens of output instead of 8,000, because {learned.longer} of the "
            f"last {learned.replies} replies of this model were longer. output.learn_first_cap = false turns this off."
        )
    share = report.used / report.window if report.window else 0
    if share >= 0.5:
        lines.append("/compact frees space now; /clear starts a new session.")
    if report.tool_output > report.used / 2 and report.tool_output > report.window / 10:
        lines.append("Most of this is tool output: ask for narrower reads and searches.")
    if report.instructions > report.window / 10:
        lines.append("Instruction files use over a tenth of the window: shorten them (/memory).")
    if report.tools > report.window / 5:
        lines.append("Tool descriptions use over a fifth of the window: disable some MCP servers, or set mcp.defer.")
    return lines
