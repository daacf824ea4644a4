"""The flags that would have let denied calls run: found by asking the rules themselves, narrowest first. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from qcode.protocol.conversation import ApprovalMode
from qcode.protocol.json import JsonObject, parse_object
from qcode.protocol.messages import ToolCall
from qcode.safety.policy import Policy

_MODES: tuple[ApprovalMode, ...] = ("accept-edits", "bypass")


def flags_allowing(policy: Policy, calls: Sequence[ToolCall]) -> tuple[str, int]:
    """Return the flags, quoted for a shell, and how many of `calls` no flag would have allowed.

    A rule for exactly the call wins over a mode, and a mode over a broader one. Where a mode is needed anyway, the
    rules it makes superfluous are left out.
    """
    trusted = replace(policy, is_trusted=True)
    found = [_way(trusted, call.name, _arguments(call)) for call in calls]
    modes = [mode for mode in _MODES if mode in found]
    mode = modes[-1] if modes else None
    flags = [] if policy.is_trusted or not any(found) else ["--trust"]
    if mode is not None:
        flags += ["--permission-mode", mode]
    at_least = trusted if mode is None else trusted.with_mode(mode)
    for call, way in zip(calls, found, strict=True):
        is_rule = way not in ("", "trust", *_MODES)
        if is_rule and way not in flags and not at_least.judge(call.name, _arguments(call)).is_allowed:
            flags += ["--allowed-tools", way]
    return shlex.join(flags), found.count("")


def _way(trusted: Policy, name: str, arguments: JsonObject) -> str:
    """Return what lets a call run in a trusted folder: `trust` alone, a rule, a mode; empty where nothing does."""
    verdict = trusted.judge(name, arguments)
    if verdict.is_allowed:
        return "trust"
    rule = verdict.proposed_rule
    if rule and trusted.with_allow(rule).judge(name, arguments).is_allowed:
        return rule
    return next((mode for mode in _MODES if trusted.with_mode(mode).judge(name, arguments).is_allowed), "")


def _arguments(call: ToolCall) -> JsonObject:
    return parse_object(call.arguments) or {}
