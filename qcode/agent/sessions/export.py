"""Exports the turns of a session as Markdown, JSON or an HTML page, to a new file.

All formats contain the prompts, the replies, each call with its result, notes about truncated replies, tokens, cost and
models. Only JSON contains control characters. The module is imported at the first export; `page` writes the HTML.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from qcode import __version__
from qcode.agent.sessions.records import attempt_to_json, message_to_json, usage_to_json
from qcode.agent.sessions.shown import ShownResult
from qcode.agent.sessions.turns import (
    CallView,
    PromptParts,
    SessionStep,
    SessionTurn,
    select_turns,
    total_cost,
    usage_facts,
    view_of,
)
from qcode.protocol.messages import Image, Message, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.usage import Usage
from qcode.text.clean import clean, quoted, single_spaced
from qcode.text.fences import fenced, longest_run
from qcode.text.json import Json, JsonObject
from qcode.text.numbers import count_text
from qcode.values import dataclass

ExportFormat: TypeAlias = Literal["md", "json", "html"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = ("md", "json", "html")
EXPORT_USAGE = "[md|json|html] [path] [--turns 3-7] [--no-tools]"


@dataclass(frozen=True, slots=True)
class ExportHeading:
    """The heading of an export."""

    session_id: str
    title: str
    model: str
    """The last model of the session."""

    @property
    def heading(self) -> str:
        return single_spaced(self.title) or self.session_id


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """The arguments of an export."""

    format: ExportFormat
    path: str = ""
    """The path as typed; empty for a default name."""
    turns: str = ""
    """A range of turns such as `3-7`; empty for all."""
    has_tools: bool = True
    """The export contains the calls."""


_OPTION = re.compile(r"(?:^|\s)(?:(?P<none>--no-tools)|--turns[= ]\s*(?P<turns>\S+))(?=\s|$)")
_OTHER_FORMATS = frozenset({"markdown", "text", "txt", "pdf", "xml", "yaml", "jsonl", "htm", "csv", "docx"})
"""Words that are meant as a format, not as the name of a file."""


def export_request(typed: str) -> ExportRequest:
    """Parse the argument of `/export`: a format, a path, `--turns 3-7` and `--no-tools`, the options anywhere.

    Raise `ValueError` with one line for the user.
    """
    options = list(_OPTION.finditer(typed))
    format_and_path = _OPTION.sub(" ", typed).strip()
    if unknown := re.search(r"(?:^|\s)(--\S*)", format_and_path):
        raise ValueError(f"Cannot use {unknown[1]} here. Type /export {EXPORT_USAGE}.")
    first, _, after_first = format_and_path.partition(" ")
    typed_format = next((name for name in EXPORT_FORMATS if name == first), None)
    path = after_first.strip() if typed_format else format_and_path
    if typed_format is None and first in _OTHER_FORMATS:
        remedy = f"Choose md, json or html, or type ./{first} for a file of that name."
        raise ValueError(f"Unknown format {quoted(first)}. {remedy}")
    turns = next((option["turns"] for option in options if option["turns"]), "")
    return ExportRequest(typed_format or format_of(path), path, turns, not any(option["none"] for option in options))


def format_of(path: str) -> ExportFormat:
    """Return the format for the extension of a path; Markdown for any other extension."""
    extension = path.rpartition(".")[2].lower()
    return next((name for name in EXPORT_FORMATS if name == extension), "md")


def export_turns(turns: Sequence[SessionTurn], heading: ExportHeading, request: ExportRequest) -> str:
    """Return the requested turns in the requested format, ending with a newline.

    Raise `ValueError` with one line for the user if there are no such turns.
    """
    if request.turns:
        turns = select_turns(turns, request.turns)
    has_tools = request.has_tools
    match request.format:
        case "json":
            return _as_json(turns, heading, has_tools=has_tools)
        case "md":
            return clean("\n".join(_markdown(turns, heading, has_tools=has_tools))) + "\n"
        case "html":
            from qcode.agent.sessions.html_page import html_page

            return html_page(turns, heading.heading, facts(turns, heading), has_tools=has_tools)


def facts(turns: Sequence[SessionTurn], heading: ExportHeading) -> tuple[str, ...]:
    """Return the date, the models, the number of turns, their tokens and their cost."""
    models = dict.fromkeys(model for turn in turns for model in turn.models)
    used = usage_facts(sum((turn.usage for turn in turns), Usage()), total_cost(turns))
    known = (*(models or (heading.model,)), count_text(len(turns), "turn"), *used)
    date = turns[0].steps[0].entry.timestamp[:10] if turns else ""
    return (date, *known) if date else known


def _as_json(turns: Iterable[SessionTurn], heading: ExportHeading, *, has_tools: bool) -> str:
    messages: list[Json] = []
    summaries: list[Json] = []
    for turn in turns:
        for step in turn.steps:
            message = step.entry.message if has_tools else _without_tools(step.entry.message)
            if message.blocks:
                messages.append({"turn": turn.number, **_message_json(step, message, has_tools=has_tools)})
        summary: JsonObject = {"number": turn.number, "models": [*turn.models], "usage": usage_to_json(turn.usage)}
        if turn.cost is not None:
            summary["cost_usd"] = float(turn.cost)
        if turn.ended is not None:
            summary["outcome"] = turn.ended.outcome
            if turn.ended.seconds is not None:
                summary["seconds"] = round(turn.ended.seconds, 3)
        if turn.ending_note:
            summary["note"] = turn.ending_note
        summaries.append(summary)
    document: JsonObject = {
        "qcode": __version__,
        "session_id": heading.session_id,
        "title": heading.title,
        "model": heading.model,
        "turns": summaries,
        "messages": messages,
    }
    # A lone surrogate cannot be encoded in UTF-8, so it is written as an escape.
    text = json.dumps(document, ensure_ascii=False, indent=1)
    return (text if text.isascii() or _is_encodable(text) else json.dumps(document, indent=1)) + "\n"


def _message_json(step: SessionStep, message: Message, *, has_tools: bool) -> JsonObject:
    entry: JsonObject = {"at": step.entry.timestamp, **message_to_json(message)}
    if step.entry.note:
        entry["note"] = step.entry.note
    if step.recovery:
        entry["recovery"] = step.recovery
    if step.entry.attempts:
        entry["model"] = step.model
        entry["attempts"] = [attempt_to_json(attempt) for attempt in step.entry.attempts]
    if has_tools and step.shown_results:
        entry["shown"] = {call_id: _shown_json(shown) for call_id, shown in step.shown_results.items()}
    if has_tools and step.agents:
        entry["agents"] = {
            call_id: [message_to_json(message) for message in messages] for call_id, messages in step.agents.items()
        }
    return entry


def _shown_json(result: ShownResult) -> JsonObject:
    row: JsonObject = {
        "state": result.state,
        "summary": result.summary,
        "diff": result.diff,
        "seconds": result.seconds,
        "problems": result.problems,
        "sandbox": result.sandbox,
    }
    return {name: value for name, value in row.items() if value or name == "state"}


def _without_tools(message: Message) -> Message:
    return Message(
        message.role, tuple(block for block in message.blocks if not isinstance(block, ToolCall | ToolResult))
    )


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _markdown(turns: Sequence[SessionTurn], heading: ExportHeading, *, has_tools: bool) -> Iterator[str]:
    yield f"# {heading.heading}\n"
    yield f"Session `{heading.session_id}` · {' · '.join(facts(turns, heading))}\n"
    for turn in turns:
        yield f"## Turn {turn.number}\n"
        speaker = ""
        for step in turn.steps:
            parts = list(_markdown_step(turn, step, has_tools=has_tools))
            author = "You" if step.entry.message.role == "user" else "Assistant"
            if parts and author != speaker:
                speaker = author
                yield f"### {speaker}\n"
            yield from parts
        if turn.facts:
            yield f"*{' · '.join(turn.facts)}*\n"


def _markdown_step(turn: SessionTurn, step: SessionStep, *, has_tools: bool) -> Iterator[str]:
    message = step.entry.message
    if message.role == "user":
        yield from _markdown_prompt(step.prompt)
    else:
        for block in message.blocks:
            match block:
                case Text(text=text) if text.strip():
                    yield text.strip("\n") + "\n"
                case Reasoning(text=text) if text.strip():
                    yield _quoted(text)
                case ToolCall() if has_tools:
                    yield from _markdown_call(turn.view(step, block))
                    yield from _markdown_agent(step.agents.get(block.call_id, ()))
                case _:
                    pass
    for note in (step.recovery, step.entry.note, step.ending_note):
        if note:
            yield f"*{' '.join(note.split())}*\n"


def _markdown_prompt(prompt: PromptParts) -> Iterator[str]:
    if prompt.typed_text:
        yield f"{prompt.typed_text}\n"
    yield from map(_markdown_image, prompt.images)
    for attachment in prompt.attached:
        content = fenced(attachment.content.strip("\n"))
        yield f"Attached {attachment.kind} `{attachment.name}`:\n\n{content}\n"


def _markdown_call(view: CallView) -> Iterator[str]:
    notes = " · ".join(view.notes)
    argument = "" if view.plan else _code_span(view.argument)
    yield f"**{view.title}** {argument}{f' ({notes})' if notes else ''}".rstrip() + "\n"
    if view.plan:
        yield _quoted(view.plan)
    if view.diff:
        yield fenced(view.diff.rstrip("\n"), "diff") + "\n"
    else:
        for detail in view.details:
            yield f"{_code_span(single_spaced(detail.name))}:\n\n{fenced(detail.text, detail.language)}\n"
    if view.output:
        yield fenced(view.output.strip("\n")) + "\n"
    yield from map(_markdown_image, view.images)


def _markdown_agent(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the work of a sub-agent as a quotation."""
    results = {
        result.call_id: result for message in messages for result in message.blocks if isinstance(result, ToolResult)
    }
    for message in messages:
        for block in message.blocks:
            if isinstance(block, ToolCall):
                yield _quoted("\n".join(_markdown_call(view_of(block, results.get(block.call_id)))))
            elif isinstance(block, Text) and block.text.strip():
                yield _quoted(block.text)


def _markdown_image(image: Image) -> str:
    return f"[image, {image.media_type}, {len(image.data) * 3 // 4:,} bytes]\n"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.rstrip().split("\n")) + "\n"


def _code_span(text: str) -> str:
    """Return one line as a code span; a text with a backtick gets a longer fence."""
    if not text:
        return ""
    fence = "`" * (longest_run(text) + 1)
    padding = " " if len(fence) > 1 else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def new_export_name(folder: Path, session_id: str, suffix: str) -> str:
    """Return a free file name for an export without a path: `qcode-ID.md`, or `qcode-ID-2.md` if that exists."""
    names = (f"qcode-{session_id}{number}.{suffix}" for number in ("", *(f"-{index}" for index in range(2, 1_000))))
    return next((name for name in names if not (folder / name).exists()), f"qcode-{session_id}.{suffix}")


def save_export(folder: Path, name: str, text: str) -> str:
    """Write `text` to the new file `name`, relative to `folder`, and return its path. Existing files are not replaced.

    Raise `ValueError` with one line for the user.
    """
    try:
        path = folder / Path(name).expanduser()
        # Readable by the owner only, because it contains the whole conversation.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise ValueError(f"{name} already exists. Choose another file name.") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ValueError(f"Cannot write {name}: {reason}.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ValueError(f"Cannot write {name}: {error.strerror}.") from None
    return str(path)
