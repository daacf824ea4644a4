"""The hooks of a run as text, for `/hooks` and `qcode hooks list`. A separate module because no session needs it."""

from __future__ import annotations

from collections.abc import Sequence

from qcode.agent.hooks.events import Handler
from qcode.agent.hooks.runner import HandlerStats, shown_command
from qcode.agent.hooks.sources import UnusedHook
from qcode.config.paths import with_tilde
from qcode.text.clean import visible_line
from qcode.text.json import JsonObject
from qcode.text.numbers import count_text

NO_HOOKS = (
    'No hooks. Add [[hooks.PreToolUse]] with command = "..." to config.toml; `qcode help hooks.EVENT` shows the keys.'
)
_MAX_SHOWN_CHARS = 200


def hook_lines(
    handlers: Sequence[Handler], unused: Sequence[UnusedHook], stats: Sequence[HandlerStats] | None = None
) -> list[str]:
    """Return two lines for each hook, in the order in which they run, and one line for each hook that does not run.

    With `stats`, in the order of `handlers`, the second line also has the runs in this session.
    """
    lines = []
    for index, handler in enumerate(handlers):
        if handler.refusal:  # it is in `unused`
            continue
        matcher = f" ({visible_line(handler.matcher, _MAX_SHOWN_CHARS)})" if handler.matcher else ""
        lines.append(f"{handler.event}{matcher}: {shown_command(handler)}")
        details = [
            with_tilde(str(handler.location)) or "the program",
            f"{handler.timeout_s:g} s",
            f"on failure: {handler.on_failure}",
        ]
        condition = visible_line(" or ".join(handler.condition), _MAX_SHOWN_CHARS)
        details += [f"if {condition}"] if condition else []
        details += ["may allow"] if handler.can_allow else []
        details += [] if stats is None else [_run_summary(stats[index])]
        lines.append(f"  {' · '.join(details)}")
    for hook in unused:
        command = visible_line(hook.label, _MAX_SHOWN_CHARS)
        lines.append(f"not run: {hook.event}: {command} ({with_tilde(hook.location)}): {hook.reason}")
    return lines


def _run_summary(stats: HandlerStats) -> str:
    if stats.last_at is None:
        return "not run yet"
    last = f"{stats.last_seconds:.1f} s at {stats.last_at.astimezone():%H:%M:%S}"
    code = "" if stats.last_code is None else f", exit {stats.last_code}"
    failures = f", {count_text(stats.failures, 'failure')}: {stats.last_failure}" if stats.failures else ""
    return f"{count_text(stats.runs, 'run')}, last {last}{code}{failures}"


def hook_rows(handlers: Sequence[Handler], unused: Sequence[UnusedHook]) -> list[JsonObject]:
    """Return the hooks as JSON; `why_not_run` is null for hooks that run."""
    rows: list[JsonObject] = [
        {
            "event": handler.event,
            "matcher": handler.matcher,
            "command": handler.label,
            "origin": handler.origin,
            "where": str(handler.location),
            "timeout_s": handler.timeout_s,
            "on_failure": handler.on_failure,
            "may_allow": handler.can_allow,
            "if": list(handler.condition),
            "why_not_run": None,
        }
        for handler in handlers
        if not handler.refusal
    ]
    rows.extend(
        {"event": hook.event, "command": hook.label, "where": hook.location, "why_not_run": hook.reason}
        for hook in unused
    )
    return rows
