"""The texts that qcode sends to a model: "continue", "answer now", "finish the call", and rejections of calls.

A text that asks the model for something exists only in one request and is never stored. Rejections are stored as tool
results, because each call needs exactly one result. The functions `…_notice` return texts for the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from qcode.protocol.messages import PLACEHOLDER_KEY, ToolCall
from qcode.protocol.tools import ToolOutcome
from qcode.text.json import DuplicateKeyError, JsonObject, parse_arguments, parse_object
from qcode.text.numbers import count_text

RESUME_TAIL_CHARS = 1_200
"""How much of the end of a text is quoted in a request to continue the text."""
CALL_TAIL_CHARS = 2_000
"""How much of the end of a call's arguments is quoted in a request to continue them."""

_TAG = "text_so_far"
_CALL_TAG = "json_so_far"


def resume_text(text_so_far: str) -> str:
    """Ask for the rest of a text that the output limit truncated; quotes its last `RESUME_TAIL_CHARS` characters."""
    tail = _escape_tag(text_so_far[-RESUME_TAIL_CHARS:], _TAG)
    return (
        "The output limit cut your reply off; nothing is wrong with it. Continue exactly where the text stops, with "
        "the very next character: no recap, no apology, no introduction, nothing that is already there. If the cut "
        "fell inside a word, a line or a code block, continue inside it and do not open a new block. If a lot is left, "
        "write it in smaller pieces. If you meant to call a tool, make one complete call only. Your text ends with:\n"
        f"<{_TAG}>\n{tail}\n</{_TAG}>"
    )


def broken_stream_text(text_so_far: str) -> str:
    """Ask for the rest of a text whose connection broke."""
    tail = _escape_tag(text_so_far[-RESUME_TAIL_CHARS:], _TAG)
    return (
        "The connection broke while you were writing. Continue exactly where the text stops, with the very next "
        "character: no recap, no apology, no introduction. If you meant to call a tool, make one complete call only. "
        f"Your text ends with:\n<{_TAG}>\n{tail}\n</{_TAG}>"
    )


ANSWER_NOW = (
    "Your thinking used up the whole output limit before any answer was written. Do not think further: write the "
    "answer now, as briefly as possible, or make one complete tool call."
)

ONE_WELL_FORMED_CALL = (
    "Your last tool call could not be parsed. Make one complete, well-formed call, or answer in plain text."
)


def limits_note(*, calls: int | None, replies: int | None, money: Decimal | None) -> str:
    """Return the note with the remaining calls, replies and US dollars for the model; empty if all are None.

    None: the user did not set this limit.
    """
    remaining = []
    if calls is not None:
        remaining.append(count_text(calls, "tool call"))
    if replies is not None:
        remaining.append(f"{count_text(replies, 'reply', 'replies')} (this one included)")
    if money is not None:
        remaining.append(f"${money:.4f}")
    return f"[Limits of this task: {', '.join(remaining)} left. Finish within them.]" if remaining else ""


def text_call_notice(model: str) -> str:
    """Return the notice for the user that a host sends tool calls as text."""
    return (
        f"The server of {model} sent a tool call as text. qcode treats such text as a call; tools.text_calls = false "
        "turns this off."
    )


def unreadable_call_notice(detail: str) -> str:
    """Return the notice for the user that a reply ends in text that looks like a call."""
    return (
        f"The reply ended in text that looks like a tool call ({detail}). It did not run; the model may try once more."
    )


def resumed_call_text(name: str, raw: str) -> str:
    """Ask for the rest of the argument JSON of a truncated call."""
    tail = _escape_tag(raw[-CALL_TAIL_CHARS:], _CALL_TAG)
    return (
        f"The output limit cut the arguments of your `{name}` call. Send only the raw JSON text that follows directly "
        "after the end shown below, beginning with the very next character, until the JSON object is closed: no "
        "explanation, no code fence, no repetition, no tool call.\n"
        f"<{_CALL_TAG}>\n{tail}\n</{_CALL_TAG}>"
    )


def placeholder_arguments(raw: str) -> str:
    """Return valid JSON that replaces truncated or malformed arguments in the stored call; it keeps a leading path."""
    path = _leading_path(raw)
    kept: JsonObject = {"path": path} if path else {}
    return json.dumps({PLACEHOLDER_KEY: True, **kept, "received_characters": len(raw)})


def split_guidance(name: str, raw: str, cap: int, rejections: int, append_tool: str = "edit") -> str:
    """Return the result of a truncated write or edit: the rejection, and instructions to split the call.

    `rejections` is the number of calls in a row that were rejected for this reason, including this call. `append_tool`
    is the name of a tool that can append to a file.
    """
    text = (
        f"Rejected: the output limit of {cap} tokens cut this `{name}` call before its arguments were complete. It was "
        f"not run and nothing was written. {_progress(raw)} You MUST split it: write a skeleton of the file first, "
        f"then add the rest part by part with `{append_tool}` calls, each well below the limit. Do not send the same "
        "call again."
    )
    if rejections >= 3:
        text += (
            f" Such a call was rejected {rejections} times in a row: stop and change the approach. Make much smaller "
            "calls, or tell the user what blocks you."
        )
    return text


def send_again_text(name: str, cap: int) -> str:
    """Return the result of a truncated call if the next request has a larger cap."""
    return (
        f"The output limit of {cap} tokens cut this `{name}` call before its arguments were complete. It was not run. "
        "Send it again: the limit is higher now."
    )


def cut_call_text(name: str, cap: int) -> str:
    """Return the result of a truncated call that neither writes or edits a file nor is sent again with a larger cap."""
    return (
        f"Rejected: the output limit of {cap} tokens cut this `{name}` call before its arguments were complete. It was "
        "not run. Make one complete call only, with shorter arguments and no text before it."
    )


_LEADING_PATH = re.compile(r'\s*\{\s*"path"\s*:\s*("(?:[^"\\]|\\.){1,1000}")')


def _leading_path(raw: str) -> str:
    """Return the `path` with which truncated arguments begin, empty if there is none."""
    match = _LEADING_PATH.match(raw)
    try:
        return str(json.loads(match[1])) if match is not None else ""
    except ValueError:
        return ""


def rejection_notice(state: str, cap: int) -> str:
    """Return the reason for the user why a call with this `ArgumentState` was rejected; `cap` is its output limit."""
    match state:
        case "incomplete":
            return f"truncated by the output limit of {cap:,} tokens"
        case "damaged":
            return "part of the arguments was lost in transit"
        case _:
            return "the arguments are not valid JSON"


def broken_call_text(name: str, state: str, raw: str, cap: int) -> str:
    """Return the result of a call with this `ArgumentState`, which must be sent again."""
    match state:
        case "incomplete":
            return cut_call_text(name, cap)
        case "damaged":
            return (
                f"Part of the arguments of this `{name}` call was lost in transit, so it was not run. Send the same "
                "call again."
            )
        case _:
            return malformed_call_text(name, raw)


def malformed_call_text(name: str, raw: str) -> str:
    """Return the result of a call whose arguments are invalid but not truncated."""
    try:
        parse_arguments(raw)  # raises for a duplicate key only; other invalid JSON is None
    except DuplicateKeyError as error:
        return (
            f"The arguments of this `{name}` call contain the key {json.dumps(error.key)} twice, so it was not run. "
            "Send the call again with each key only once."
        )
    return (
        f"The arguments of this `{name}` call are not valid JSON, so it was not run. Send the call again with one JSON "
        "object as its arguments; escape quotes, backslashes and newlines inside strings."
    )


def _progress(raw: str) -> str:
    """Describe how much of the arguments arrived, with the last complete line of the text to be written."""
    # `raw` is JSON: a line of the text ends with the two characters `\n`, but `\\n` is a backslash and an n. The last
    # line may be incomplete.
    lines = [line.replace("\0\0", "\\\\") for line in raw.replace("\\\\", "\0\0").split("\\n")]
    if len(lines) < 2:
        return f"It got as far as {len(raw)} characters of arguments."
    last = _unescaped(lines[-2])[-160:].strip()
    hint = f"; the last complete one was: {last}" if last else ""
    return f"It got as far as {count_text(len(lines) - 1, 'complete line')} ({len(raw)} characters){hint}\n"


def _unescaped(fragment: str) -> str:
    """Return the string at the end of truncated arguments, decoded: `{"text": "a\\tb` as `a`, a tab and `b`.

    A string that cannot be decoded is returned as received, without its key.
    """
    start = re.search(r'"\w+"\s*:\s*"((?:[^"\\]|\\.)*)$', fragment)
    body = start.group(1) if start else fragment
    try:
        value = json.loads(f'"{body}"', strict=False)
    except ValueError:
        return body
    return str(value)


def _escape_tag(text: str, tag: str) -> str:
    """Escape every `tag` inside `text`, so that the text cannot close the tag around it: `</x>` becomes `<\\/x>`."""
    return re.sub(rf"<(\s*+/?+\s*+{tag})", r"<\\\1", text, flags=re.IGNORECASE)


def outcome_of_revised(sent: ToolCall, ran: ToolCall, outcome: ToolOutcome, editor: str = "user") -> ToolOutcome:
    """Return the outcome of a call that was edited before it ran, with a note for the model about the edit.

    An edit may change nothing, such as a relative path instead of the same absolute one. Then there is no note.
    """
    changes = list(_revised_arguments(parse_object(sent.arguments) or {}, parse_object(ran.arguments) or {}))
    if not changes:
        return outcome
    text = "\n".join(
        [
            f"{'A hook' if editor == 'hook' else 'The user'} edited this call before it ran. It ran with:",
            *changes,
            "The result:",
        ]
    )
    # The user sees no note.
    return replace(outcome, content=f"{text}\n{outcome.content}", shown=outcome.shown_text)


def _revised_arguments(before: JsonObject, after: JsonObject) -> Iterator[str]:
    """Yield a line or more for each argument that differs: a long text as a diff, anything else as its new value."""
    from qcode.text.diff import unified_diff  # loads with the first call that was edited

    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if name not in after:
            yield f"- `{name}` was removed."
        elif name in before and old == new:
            continue
        elif isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
            yield f"- `{name}` with these changes:"
            diff = list(unified_diff(old.split("\n"), new.split("\n"), "sent", "ran"))
            yield from diff[2:]  # without the two header lines, `--- sent` and `+++ ran`
        else:
            yield f"- `{name}`: {new if isinstance(new, str) else json.dumps(new)}"
