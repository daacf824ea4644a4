"""The demo model's view of a request, and its reply as blocks within the output cap. No I/O.

A `Scene` is the prompt, the calls that ran, and the point where a truncated reply stopped. It is derived from the
request alone, so the same request gets the same reply. Messages of qcode, such as "continue", are recognized by words.
A script is a tuple of `Reasoning`, `Text` and `ToolCall` blocks. One token is `CHARS_PER_TOKEN` characters of output:
reasoning, text and the argument JSON of calls count, names and ids do not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from qcode.protocol.messages import Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.model import ModelRequest
from qcode.text.fences import fenced
from qcode.text.json import Json
from qcode.text.numbers import count_text
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

# Words of the messages in which qcode or the user asks to continue a truncated reply.
_CONTINUE = lazy_pattern(r"\b(continue|resume|go on|carry on|pick up)\b", re.IGNORECASE)
_TRUNCATED = lazy_pattern(r"\b(limit|cut|stopped|broke|broken|interrupted)\b", re.IGNORECASE)
_TYPED_CONTINUE = lazy_pattern(
    r"\W*(please\s+)?(continue|go on|keep going|carry on|resume)(\s+please)?\W*", re.IGNORECASE
)
_ANSWER_NOW = lazy_pattern(r"\banswer\b[^.\n]{0,40}\b(now|directly|straight away|right away|at once)\b", re.IGNORECASE)
_LIMIT_WORDS = lazy_pattern(r"\boutput[- ](token )?limit|\boutput tokens\b|\braw JSON\b", re.IGNORECASE)
# Texts that a message of qcode quotes, in tags or in code fences.
_TAGGED = lazy_pattern(r"<([A-Za-z][\w-]*)[^>\n]*>\n?(.*?)\n?</\1>", re.DOTALL)
_FENCED = lazy_pattern(r"^(`{3,}|~{3,})[^\n]*\n(.*?)\n\1", re.DOTALL | re.MULTILINE)
_MAX_QUOTING_CHARS = 20_000
"""Quotes are searched only in this many characters at the start of a message."""
MAX_PROMPT_CHARS = 2_000
"""Only this many characters at each end of a prompt are searched, because some patterns are slow on a long text."""
_LOW_EFFORTS = frozenset({"none", "minimal", "low"})
_ENDED_TURN = lazy_pattern(
    r"(Denied|Cancelled) by the user|Interrupted before it finished|Denied: the plan is not approved[^.]*\. Ask"
)
"""The results of calls with which the user ended the turn begin with this. Text in the same message is a new prompt."""
# The results of calls that did not run, or that continue in the background, as qcode words them for the model.
_PLAN_ONLY_READS = "plan mode only "
_NOT_INTERACTIVE = "not run:"
"""The start of the reason for a denial in a run without a user."""
_PLAN_CHANGE = lazy_pattern(r"Denied: the plan is not approved[^.]*\. The user says: (.*)", re.DOTALL)
_DENIED = lazy_pattern(r"Denied(?: by the user\.|: (.*))", re.DOTALL)
_IN_BACKGROUND = lazy_pattern(r"\[the user moved it to the background as job (\d+)\.[^\n]*\]\Z")
# The request for a compaction, and the prompts in it.
_SUMMARY = "Summarize this conversation."
_USER_LINE = lazy_pattern(r"^User: (.*\S)", re.MULTILINE)
INTRODUCTION = "I am the **built-in demo model** of qcode."


@dataclass(frozen=True, slots=True)
class DemoStep:
    """A call of this turn and its result."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Scene:
    """The parts of a request on which the reply depends."""

    prompt: str
    """The prompt of the user."""
    steps: tuple[DemoStep, ...] = ()
    steering: str = ""
    """The text that the user added during the turn."""
    partial: str | None = None
    """The text of the reply that the request continues, None if it asks for a new reply."""
    is_typed: bool = False
    """The user typed the request to continue, such as "keep going"."""
    tails: tuple[str, ...] = ()
    """Quotes from a truncated call, if the request asks for the missing part of the call as text."""
    skips_thinking: bool = False
    """The reply has no thinking."""
    number: int = 1
    """The number of the next call in the conversation, for its id."""
    is_introduced: bool = False
    """An earlier reply of the conversation contains the introduction."""

    @property
    def last(self) -> DemoStep | None:
        return self.steps[-1] if self.steps else None


def read_scene(
    request: ModelRequest, *, may_resume: bool = True, starts_scenario: Callable[[str], bool] = lambda text: False
) -> Scene:
    """Return the scene of `request`. If `may_resume` is False, read its last message as a new prompt.

    A text behind results may be steering, or the prompt after a turn that ended at a limit. It is a prompt if
    `starts_scenario`.
    """
    messages = list(request.messages)
    latest = _message_text(messages[-1]) if messages else ""
    tails = () if request.allows_calls and request.tools else _quoted(latest)
    partial = _pop_partial(messages, is_repair=bool(tails)) if may_resume else _Partial()
    start = len(messages) - 1
    while start > 0 and not (_is_prompt(messages[start]) or starts_scenario(_added_text(messages[start]))):
        start -= 1
    turn = messages[max(start, 0) :]
    return Scene(
        prompt=_ends_of(_request_text(turn[0])) if turn else "",
        steps=_steps(turn),
        steering=_added_text(turn[-1]) if len(turn) > 1 else "",
        partial=partial.text,
        is_typed=partial.is_typed,
        tails=tails,
        skips_thinking=request.effort in _LOW_EFFORTS or bool(_ANSWER_NOW.search(latest)),
        number=sum(len(message.calls) for message in messages) + 1,
        is_introduced=any(INTRODUCTION in message.text for message in messages[:start] if message.role == "assistant"),
    )


def paragraphs(text: str) -> list[str]:
    return [paragraph.strip() for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


class _Partial(NamedTuple):
    """The unfinished reply at the end of a conversation."""

    text: str | None = None
    """None if there is none."""
    is_typed: bool = False
    """The user typed the request to continue it."""


def _pop_partial(messages: list[Message], *, is_repair: bool) -> _Partial:
    """Remove the unfinished assistant text, and the message that asks to continue it, from the end of `messages`.

    If `is_repair`, the message asks for the missing part of a truncated call.
    """
    partial: str | None = None
    is_typed = False
    if messages and messages[-1].role == "assistant":
        partial = messages.pop().text
    while len(messages) > 1 and _is_text_reply(messages[-2]) and _is_prompt(messages[-1]):
        request_text = _message_text(messages[-1])
        is_typed_continue = bool(_TYPED_CONTINUE.fullmatch(request_text))
        is_resume_message = _CONTINUE.search(request_text) and _TRUNCATED.search(request_text)
        if not (is_typed_continue or is_repair or is_resume_message):
            break
        is_typed = is_typed or is_typed_continue
        partial = messages[-2].text + (partial or "")
        del messages[-2:]
        is_repair = False
    return _Partial(partial, is_typed)


def _is_text_reply(message: Message) -> bool:
    return message.role == "assistant" and not message.calls and bool(message.text)


def _is_prompt(message: Message) -> bool:
    """Return whether `message` is a prompt or a resume message, rather than the results of calls.

    A prompt after an interrupted turn is in one message with the results of the calls that did not run.
    """
    if message.role != "user":
        return False
    results = [block for block in message.blocks if isinstance(block, ToolResult)]
    has_ended = any(_ENDED_TURN.match(result.content) for result in results) and bool(_message_text(message).strip())
    return not results or has_ended


def _added_text(message: Message) -> str:
    """Return the text that the user added to the results in `message`."""
    return _typed_text(_message_text(message)) if message.role == "user" else ""


def _steps(turn: list[Message]) -> tuple[DemoStep, ...]:
    calls = {call.call_id: call for message in turn for call in message.calls}
    results = [block for message in turn for block in message.blocks if isinstance(block, ToolResult)]
    return tuple(DemoStep(calls[result.call_id], result) for result in results if result.call_id in calls)


def _message_text(message: Message) -> str:
    return "\n\n".join(block.text for block in message.blocks if isinstance(block, Text))


def _request_text(message: Message) -> str:
    return _typed_text(_message_text(message)) or _message_text(message)


def _ends_of(text: str) -> str:
    """Return the start and the end of a long `text`, as two paragraphs: piped input comes before or after a prompt."""
    if len(text) <= 2 * MAX_PROMPT_CHARS:
        return text
    return f"{text[:MAX_PROMPT_CHARS]}\n\n{text[-MAX_PROMPT_CHARS:]}"


def _typed_text(text: str) -> str:
    """Return the paragraphs of `text` before the first one that qcode itself must have written."""
    result: list[str] = []
    for paragraph in paragraphs(text):
        if _LIMIT_WORDS.search(paragraph) or _ANSWER_NOW.search(paragraph):
            break
        result.append(paragraph)
    return "\n\n".join(result)


def _quoted(text: str) -> tuple[str, ...]:
    """Return the texts that a message of qcode quotes, in tags or code fences."""
    start = text[:_MAX_QUOTING_CHARS]
    return tuple(match[2] for pattern in (_TAGGED, _FENCED) for match in pattern.finditer(start) if match[2].strip())


CHARS_PER_TOKEN = 4
ScriptBlock: TypeAlias = Reasoning | Text | ToolCall
Script: TypeAlias = tuple[ScriptBlock, ...]

_TAIL_CHARS = 120
"""The number of characters at the end of a partial text that are searched in the script."""
_MAX_WORD_CHARS = 24
"""The maximum number of characters by which a chunk exceeds its size, to end after a space."""


def tokens_of(characters: int) -> int:
    """Return the number of tokens in `characters`, rounded up."""
    return math.ceil(characters / CHARS_PER_TOKEN)


def body_of(block: ScriptBlock) -> str:
    """Return the part of `block` that counts as output."""
    return block.arguments if isinstance(block, ToolCall) else block.text


def size_of(script: Script) -> int:
    """Return the characters of output in `script`."""
    return sum(len(body_of(block)) for block in script)


def cut_at(script: Script, cap: int) -> Script:
    """Return the part of `script` that fits in `cap` tokens. The last block may be cut at any character."""
    remaining = cap * CHARS_PER_TOKEN
    result: list[ScriptBlock] = []
    for block in script:
        body = body_of(block)
        if remaining == 0 and body:
            break
        result.append(_cut_block(block, remaining) if len(body) > remaining else block)
        remaining -= min(remaining, len(body))
    return tuple(result)


def script_after(script: Script, partial: str) -> Script | None:
    """Return the part of `script` after the text `partial`, None if the script does not contain that text.

    The part has all calls, but no thinking. If the script does not start with `partial`, only the end of `partial` is
    searched in it.
    """
    text = "".join(block.text for block in script if isinstance(block, Text))
    start = len(partial) if text.startswith(partial) else end_of(partial, text)
    if start is None:
        return None
    remaining_blocks: list[ScriptBlock] = []
    for block in script:
        if isinstance(block, Text):
            if start < len(block.text):
                remaining_blocks.append(Text(block.text[start:]))
            start = max(0, start - len(block.text))
        elif isinstance(block, ToolCall):
            remaining_blocks.append(block)
    return tuple(remaining_blocks)


def end_of(partial: str, whole: str) -> int | None:
    """Return the position in `whole` after the last characters of `partial`, None if they do not occur."""
    needle = partial[-_TAIL_CHARS:]
    position = whole.find(needle) if needle.strip() else -1
    return None if position < 0 else position + len(needle)


def slices(text: str, size: int) -> Iterator[str]:
    """Yield `text` in chunks of about `size` characters, split after a space if one is near."""
    start = 0
    while start < len(text):
        end = start + size
        space = text.find(" ", end, end + _MAX_WORD_CHARS)
        end = space + 1 if space >= 0 else end
        yield text[start:end]
        start = end


def _cut_block(block: ScriptBlock, length: int) -> ScriptBlock:
    if isinstance(block, ToolCall):
        return replace(block, arguments=block.arguments[:length])
    return replace(block, text=block.text[:length])


_FILE = lazy_pattern(r"`([^`\s]*[./][^`\s]*)`|(?<![\w/.-])((?:[\w~.-]+/)*[\w-]*\.?[\w-]+\.[A-Za-z][A-Za-z0-9]{0,7})\b")
_MAX_SHOWN_LINES = 12
_MAX_LISTED = 20  # prompts in a summary
_MAX_LISTED_CHARS = 80  # of one prompt


def reply(text: str) -> Script:
    """Return a reply of one text."""
    return (Text(text),)


def call(scene: Scene, text: str, name: str, **arguments: Json) -> Script:
    """Return a reply of a text and one call of the tool `name`."""
    encoded = json.dumps(arguments, ensure_ascii=False)
    return (Text(f"{text}\n"), ToolCall(f"demo_{scene.number}", name, encoded))


def summary_of(request: ModelRequest) -> str:
    """Return the summary that a compaction requests, empty for any other request."""
    text = _message_text(request.messages[-1]) if request.messages else ""
    if request.tools or _SUMMARY not in text:
        return ""
    prompts = _USER_LINE.findall(text)
    listed = "\n".join(f"- {shortened_line(line)}" for line in prompts[-_MAX_LISTED:])
    return (
        f"Task: try out qcode with its demo model.\n\nState: {count_text(len(prompts), 'request')} so far:\n{listed}\n"
    )


def shortened_line(line: str) -> str:
    return line if len(line) <= _MAX_LISTED_CHARS else f"{line[:_MAX_LISTED_CHARS]}…"


def unfinished_reply(step: DemoStep) -> Script:
    """Return a reply about a command that failed or continues in the background, empty for any other."""
    moved = _IN_BACKGROUND.search(step.result.content)
    if moved is not None:
        return reply(f"The command continues in the background as job {moved[1]}. `/jobs` shows its output.\n")
    return failure_reply(step)


def requested_plan_changes(scene: Scene) -> list[str]:
    """Return the changes that the user asked for in the plans of this turn."""
    matches = (_PLAN_CHANGE.match(step.result.content) for step in scene.steps if step.result.is_error)
    return [match[1].strip() for match in matches if match is not None]


def failure_reply(step: DemoStep) -> Script:
    """Return a reply about a call that failed or was denied, empty for any other call."""
    if not step.result.is_error:
        return ()
    denial = _DENIED.match(step.result.content)
    if denial is None:
        return reply(f"The `{step.call.name}` call failed. Its result says:\n\n{shortened(step.result.content)}\n")
    reason = denial[1] or ""
    if reason.startswith(_PLAN_ONLY_READS):
        hint = "Ask me to *make a plan*, or leave plan mode with Shift+Tab."
        return reply(f"Plan mode only reads, so the `{step.call.name}` call did not run. {hint}\n")
    if reason.startswith(_NOT_INTERACTIVE):
        hint = "The message on standard error says how to allow it."
        return reply(
            f"The `{step.call.name}` call did not run: it needs approval, and this run is not interactive. {hint}\n"
        )
    if reason:
        # A rule, a hook and the mode deny with a reason too: "Denied: this run denies everything that would ask".
        hint = "I follow a script, so I cannot act on it. Ask again to repeat it."
        return reply(f"The `{step.call.name}` call was denied, so it did not run. The reason: {reason}\n\n{hint}\n")
    return reply(f"You declined the `{step.call.name}` call, so it did not run. Ask again to repeat it.\n")


_GREETING = lazy_pattern(r"\W*(hello|hi|hey|good (morning|afternoon|evening))\b.{0,20}", re.IGNORECASE)
_THANKS = lazy_pattern(r"\W*(thanks|thank you|cool|great|ok|okay|nice)\b.{0,20}", re.IGNORECASE)
_ABILITIES = lazy_pattern(
    r"\bhelp\b|\bwhat (can|do) you\b|\bwho are you\b|\bhow do(es)? (you|this|qcode)\b", re.IGNORECASE
)
REAL_MODEL = (
    "For a real model, type `/connect` in the app, or set `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or `GEMINI_API_KEY` "
    "before you start qcode. "
    "A local server (Ollama, LM Studio, llama.cpp, vLLM) needs no key.\n"
)


def short_help(scene: Scene) -> Script:
    """Return a short reply to a prompt that matches no scenario.

    Return an empty script if the introduction has not been shown yet, or if the prompt asks for help.
    """
    if not scene.is_introduced or _ABILITIES.search(scene.prompt):
        return ()
    is_polite = _GREETING.fullmatch(scene.prompt) or _THANKS.fullmatch(scene.prompt)
    answer = "I am still here." if is_polite else "I follow a script and do not understand your message."
    return reply(
        f"{answer} Try *run ls*, *add a docstring to hello.py* or *think about something*. `/help demo` lists all "
        "prompts, and `/connect` adds a real model.\n"
    )


def introduction(prompt: str) -> str:
    """Return the first paragraph of the introduction."""
    is_greeting = _GREETING.fullmatch(prompt)
    is_understood = is_greeting or _THANKS.fullmatch(prompt) or _ABILITIES.search(prompt)
    return (
        f"{'Hello! ' if is_greeting else ''}{INTRODUCTION} I run a script on your machine, without a network or an API "
        f"key, to show how qcode works.{'' if is_understood else ' I do not understand your message.'}"
    )


def shortened(text: str) -> str:
    """Return the first lines of `text` in a code fence."""
    lines = text.strip("\n").split("\n")
    left_out = len(lines) - _MAX_SHOWN_LINES
    more = [f"... and {count_text(left_out, 'more line')}"] if left_out > 0 else []
    return fenced("\n".join([*lines[:_MAX_SHOWN_LINES], *more]))


def file_in(prompt: str, default: str) -> str:
    """Return the file that `prompt` names, or `default`."""
    match = last_match(_FILE, prompt)
    return str(match[1] or match[2]) if match else default


def last_match(pattern: re.Pattern[str], prompt: str) -> re.Match[str] | None:
    """Return the first match in the last paragraph of `prompt` that has one. Piped input comes before the prompt."""
    parts = reversed(paragraphs(prompt[-MAX_PROMPT_CHARS:]))
    return next((match for part in parts if (match := pattern.search(part))), None)
