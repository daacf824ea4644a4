"""The panels of `/context` and `/cost` as text: figures in columns, and what to do about them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from qcode.protocol.events import ApiCalls
from qcode.protocol.reports import ContextReport, TurnUsage
from qcode.protocol.usage import Usage, cache_hit_rate
from qcode.tui.figures import cost_text, count_text, tokens_text
from qcode.tui.text import shorten

_BAR = 20
_TURNS = 8


def context_text(report: ContextReport) -> str:
    """Return what fills the window, part by part, with a bar, shares, and advice where there is some."""
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
    known = "" if report.is_window_known else " (assumed: the window of this model is not known)"
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
    """Return what a person can do, the most useful first."""
    said = [f"qcode compacts by itself at {report.compacts_at:.0%}."]
    share = report.used / report.window if report.window else 0
    if share >= 0.5:
        said.append("/compact makes room now; /clear begins a new session.")
    if report.tool_output > report.used / 2 and report.tool_output > report.window / 10:
        said.append("Most of it is tool output: ask for narrower reads and searches.")
    if report.instructions > report.window / 10:
        said.append("Instruction files take a tenth of the window: shorten them (/memory shows them).")
    if report.tools > report.window / 5:
        said.append("Tool descriptions take a fifth of the window: fewer MCP servers help.")
    return said


def cost_text_of(turns: Sequence[TurnUsage]) -> str:
    """Return what the session used: in all, by model, and its last turns."""
    if not turns:
        return "Nothing was sent yet."
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
    models = list(dict.fromkeys(turn.model for turn in turns))
    if len(models) > 1:
        lines += ["", "By model"]
        lines += [_model_line(model, [turn for turn in turns if turn.model == model]) for model in models]
    lines += ["", f"Last turns of {len(turns)}" if len(turns) > _TURNS else "Turns"]
    lines += [_turn_line(turn) for turn in turns[-_TURNS:]]
    return "\n".join(lines)


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
        return "unknown (no price is known for this model)"
    text = cost_text(sum(known, Decimal(0)))
    return text if len(known) == len(turns) else f"{text} and turns of unknown price"


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
