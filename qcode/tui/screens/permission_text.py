"""Permission rules and decisions as sanitized text, for the screen of `/permissions` and for the linear mode.

It is separate because the screen uses it, and so does `commands.permissions`, which opens the screen.
"""

from __future__ import annotations

from datetime import datetime

from qcode.agent.call_titles import main_argument
from qcode.agent.permissions import (
    CHECKED_KINDS,
    NO_RULES,
    CallDecision,
    CallRecord,
    CheckedKind,
    Permissions,
    RuleInForce,
)
from qcode.config.paths import with_tilde
from qcode.protocol.approvals import RuleEffect, effective_mode, mode_label
from qcode.safety.rules import KINDS
from qcode.safety.verdict import Verdict
from qcode.text.clean import cut, one_line, visible
from qcode.text.sentences import capitalized

EFFECTS: tuple[RuleEffect, ...] = ("allow", "ask", "deny")
REMOVE_WORDS = ("remove", "undo")
SAVE_WORDS = ("save", "keep")
"""The words of `/permissions` that remove and save a rule; the second of each is its name in earlier versions."""

_DECISION_LABELS: dict[CallDecision, str] = {
    "ran": "ran",
    "allowed": "allowed once",
    "session": "allowed for this session",
    "folder": "allowed in this folder",
    "denied": "declined",
    "answered": "answered",
    "approved": "plan approved",
    "unanswered": "not answered",
}
_VERDICTS = {"allow": "runs without asking", "ask": "asks first", "deny": "denied"}
_MAX_DECISIONS = 20
_MAX_CALL_CHARS = 100_000


def rule_line(rule: RuleInForce) -> str:
    """Return a rule with its effect, such as `allow shell(make test)`."""
    return visible(f"{rule.effect} {rule.text}")


def decision_label(record: CallRecord) -> str:
    """Return the decision on a call in a few words, such as `allowed once`."""
    if record.decision == "refused":
        return _denial_label(record)
    return _DECISION_LABELS[record.decision]


def _denial_label(record: CallRecord) -> str:
    """Return whether a rule, a hook, the mode or a built-in check denied a call."""
    # `fetch` may be a rule for every URL or the built-in check of URLs; the reason names the rule.
    if "(" in record.rule or f"rule {record.rule} " in record.reason:
        return "denied by rule"
    match record.rule.partition(":")[0]:
        case "hook":
            return "denied by a hook"
        case "mode":
            return "denied by the mode"
        case _:
            return "denied by a built-in check"


def call_text(record: CallRecord, limit: int = 200) -> str:
    """Return the call in at most `limit` characters, with invisible characters made visible."""
    return cut(f"{visible(record.call.name)} {main_argument(record.call, limit)}".strip(), limit)


def _clock_text(timestamp: float) -> str:
    """Return a time in seconds since 1970 as local time, such as `14:03:59`."""
    return f"{datetime.fromtimestamp(timestamp).astimezone():%H:%M:%S}"


def decision_text(record: CallRecord) -> str:
    """Return a decision in full: call, time, reason and rule."""
    outcome = {"ran": "ran without asking", "denied": "declined by you"}.get(record.decision, decision_label(record))
    reason = f": {visible(record.reason)}" if record.reason else ""
    rule = _rule_note(record.rule, record.reason)
    return f"{_clock_text(record.timestamp)} {call_text(record, _MAX_CALL_CHARS)}\n{outcome}{reason}{rule}"


def _rule_note(decided_by: str, reason: str) -> str:
    """Return the rule or the hook that decided, in parentheses; empty if `reason` says it already.

    `decided_by` may also be a built-in check, such as `path:workspace`, for which the reason is enough.
    """
    if decided_by in reason:
        return ""
    if decided_by.startswith("hook:"):
        return f" (a {visible(decided_by.removeprefix('hook:'))} hook)"
    return f" (rule {visible(decided_by)})" if "(" in decided_by else ""


def mode_line(permissions: Permissions) -> str:
    mode = effective_mode(permissions.mode, is_trusted=permissions.is_trusted)
    trust = "" if permissions.is_trusted else " (restricted folder: allow rules do not apply)"
    return f"mode {mode_label(mode)}{trust}"


def permissions_text(permissions: Permissions) -> str:
    """Return mode, rules and the latest decisions as lines."""
    rules = [f"  {rule_line(rule)}  ({visible(with_tilde(rule.origin))})" for rule in permissions.rules()]
    decisions = []
    for record in permissions.decisions()[-_MAX_DECISIONS:]:
        reason = f" ({visible(record.reason)})" if record.reason else ""
        decisions.append(f"  {_clock_text(record.timestamp)} {decision_label(record)}: {call_text(record)}{reason}")
    return "\n".join(
        [
            f"{mode_line(permissions)}  ({visible(with_tilde(permissions.mode_origin))})",
            "",
            "Rules",
            *(rules or [f"  {NO_RULES}"]),
            "",
            "Decisions of this session",
            *(decisions or ["  none yet"]),
        ]
    )


def parse_check(text: str) -> tuple[CheckedKind, str]:
    """Split the argument of `/permissions check`, such as `read src`, into kind and value.

    Without a kind, a URL is a `fetch` and any other text a `shell` command.
    """
    text = text.strip()
    kind, _, value = text.partition(" ")
    if kind in CHECKED_KINDS and value.strip():
        return kind, value.strip()
    if text.startswith(("http://", "https://")):
        return "fetch", text
    return "shell", text


def verdict_text(kind: CheckedKind, value: str, verdict: Verdict) -> str:
    """Return a verdict in words. If qcode would ask, also name the rule that would allow the call."""
    rule = _rule_note(verdict.decided_by, verdict.reason)
    text = f"{kind} {visible(value)}: {_VERDICTS[verdict.verdict]}, {visible(verdict.reason)}{rule}"
    if verdict.verdict == "ask" and verdict.proposed_rule:
        text += f"\nTo allow it: {visible(verdict.proposed_rule)}"
    return text


def change_rules(permissions: Permissions, action: str, text: str) -> str:
    """Add, remove or save the rule `text`; return a sentence for the user. Raise `ValueError` with a one-line reason.

    `action` is one of `EFFECTS`, which adds the rule, or a word of `REMOVE_WORDS` or `SAVE_WORDS`. To remove or save a
    rule, `text` may name its effect before the rule: `deny shell(make)`.
    """
    if action in EFFECTS:
        rule = permissions.add(action, text)
        return f"{rule_line(rule)} applies to this session from the next call."
    effect, _, rule_after_effect = text.partition(" ")
    rule_text = rule_after_effect.strip() if effect in EFFECTS else text
    effects = (effect,) if effect in EFFECTS else EFFECTS
    matches = [active for active in permissions.rules() if active.text == rule_text and active.effect in effects]
    if not matches:
        raise ValueError(f"No active rule {rule_text}. /permissions list shows the rules.")
    # A rule of the settings has no number and cannot be changed here; prefer the same rule of the session.
    chosen = next((active for active in matches if active.number), matches[0])
    if action in REMOVE_WORDS:
        return remove_rule(permissions, chosen)
    return save_rule(permissions, chosen)


def remove_rule(permissions: Permissions, rule: RuleInForce) -> str:
    """Remove a rule; return a sentence for the user. Raise `ValueError` for a rule of the settings."""
    if not rule.number:
        raise ValueError(f"{rule.text} is set in {with_tilde(rule.origin)}; change it there.")
    permissions.remove(rule.number)
    return f"Removed: {rule_line(rule)}. It no longer applies from the next call."


def save_rule(permissions: Permissions, rule: RuleInForce) -> str:
    """Save a rule for this folder; return a sentence for the user. Raise `ValueError` for a rule of the settings."""
    if not rule.number:
        raise ValueError(f"{rule.text} is set in {with_tilde(rule.origin)} and already applies to every session.")
    permissions.save_rule(rule.number)
    return f"Saved for this folder: {rule_line(rule)}. /permissions removes it."


def refusal_text(refusal: ValueError) -> str:
    """Return why a rule was not changed as a sentence; a rule at its beginning keeps its case."""
    text = one_line(str(refusal)).removesuffix(".")
    begins_with_rule = text.partition("(")[0].partition(" ")[0] in KINDS
    return f"{text if begins_with_rule else capitalized(text)}."
