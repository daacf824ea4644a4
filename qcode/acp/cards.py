"""Builds the cards of tool calls: kind, title, file locations, content and status. Pure.

`Cards` tracks the calls of one turn and creates the ids of their cards: `<turn>.<step>.<number>`, the same in a replay.
If a reply is requested again, its calls reuse the cards of the earlier attempt that have the same tool.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from qcode.agent.call_titles import DEFAULT_ARGUMENTS, verb
from qcode.protocol.events import CallState
from qcode.protocol.messages import ToolCall
from qcode.protocol.tools import ChangedFile, ToolOutcome
from qcode.text.clean import clean, first_chars, shown_line
from qcode.text.diff import diff_lines
from qcode.text.json import Json, JsonObject, parse_object
from qcode.values import dataclass

_KINDS = {
    "read": ("read", "ls"),
    "search": ("glob", "grep"),
    "edit": ("write", "edit", "multi_edit", "apply_patch", "notebook_edit"),
    "execute": ("shell", "jobs", "diagnostics"),
    "fetch": ("fetch", "web_search"),
    "think": ("agent",),
    "switch_mode": ("exit_plan_mode",),
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
_TITLE_ARGUMENTS = ("command", "description", "path", "pattern", "query", "url", "question", "name")
_MAX_TITLE = 200
"""The maximum length of a title in characters, as in the limits below."""
_MAX_TEXT = 200_000
"""The maximum length of a text, and of a file whose whole text is sent as a diff."""
_MAX_VALUE = 100_000
"""The maximum length of an argument, and of a result."""
_MAX_TAIL = 8_000
"""The maximum length of output; only its end is sent."""
_MAX_DIFF_CHARS = 400_000
"""The maximum length of all diffs of one card."""
TRUNCATED_CALL = "not run: the reply was truncated"
_PATCHED_FILE = re.compile(r"\*\*\* (?:Add|Update|Delete) File: *(.*\S)")
_FILE_HEADER = re.compile(r"(?P<side>---|\+\+\+) (?:[ab]/)?(?P<path>.*)")


def kind_of(name: str) -> str:
    """Return the kind of a tool in the words of the protocol."""
    return _KIND_OF.get(name, "other")


def title_of(name: str, arguments: JsonObject | None) -> str:
    """Return the title of a call on one line, such as `Edit src/a.py`, with hidden characters escaped.

    `arguments` is None if the model is still writing them.
    """
    if arguments is None:
        argument = ""
    elif name == "apply_patch":
        argument = ", ".join(_PATCHED_FILE.findall(str(arguments.get("input", ""))))
    else:
        values = (arguments[key] for key in _TITLE_ARGUMENTS if key in arguments)
        default = DEFAULT_ARGUMENTS.get(name, "")
        argument = next((value for value in values if isinstance(value, str) and value.strip()), default)
    return shown_line(f"{verb(name)} {argument}".rstrip(), _MAX_TITLE)


def locations_of(name: str, arguments: JsonObject, folder: str, changes: Sequence[ChangedFile] = ()) -> list[Json]:
    """Return the absolute paths that a call reads or edits, with the first line if it is known."""
    if changes:
        return [{"path": change.path, "line": first_changed_line(change)} for change in changes]
    path = arguments.get("path")
    if kind_of(name) not in ("read", "edit", "search") or not isinstance(path, str) or not path or "\0" in path:
        return []
    location: JsonObject = {"path": os.path.join(folder, path)}  # noqa: PTH118  # text only
    line = arguments.get("offset")
    # The protocol has unsigned 32-bit line numbers, and the model may send any number.
    if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 2**32:
        location["line"] = line
    return [location]


def first_changed_line(change: ChangedFile) -> int:
    """Return the number of the first line that a change touches, from 1."""
    old_lines, new_lines = (change.old_text or "").split("\n"), change.new_text.split("\n")
    for number, (old, new) in enumerate(zip(old_lines, new_lines, strict=False), start=1):
        if old != new:
            return number
    return min(len(old_lines), len(new_lines))


def change_content(changes: Sequence[ChangedFile], diff: str, folder: str) -> list[Json]:
    """Return the diffs of changed files: their whole texts, or their hunks in `diff` if the texts are too large."""
    # Both texts of a file together may be twice as long as one text.
    small = [change for change in changes if len(change.old_text or "") + len(change.new_text) <= 2 * _MAX_TEXT]
    diffs: list[Json] = [
        {"type": "diff", "path": change.path, "oldText": change.old_text, "newText": change.new_text}
        for change in small
    ]
    small_paths = {change.path for change in small}
    diffs += [entry for entry in hunks(diff, folder) if entry["path"] not in small_paths]
    content: list[Json] = []
    size = 0
    for entry in diffs:
        size += len(json.dumps(entry, ensure_ascii=False))
        if size > _MAX_DIFF_CHARS:
            omitted = len(diffs) - len(content)
            content.append(text_content(f"[{omitted} more changes are too large to be shown here]"))
            break
        content.append(entry)
    return content


def hunks(diff: str, folder: str) -> Iterator[JsonObject]:
    """Yield one diff entry for each hunk of a unified diff."""
    path = ""
    is_new_file = False
    old: list[str] = []
    new: list[str] = []

    def end_hunk() -> Iterator[JsonObject]:
        """Yield the entry of the hunk that has ended, if there is one."""
        if old or new:
            yield {
                "type": "diff",
                "path": os.path.join(folder, path),  # noqa: PTH118  # text only
                "oldText": None if is_new_file else "".join(f"{line}\n" for line in old),
                "newText": "".join(f"{line}\n" for line in new),
            }
        old.clear()
        new.clear()

    for line in diff_lines(diff.split("\n")):
        match line.kind:
            case "outside":
                yield from end_hunk()
                header = _FILE_HEADER.match(line.text)
                if header is not None and header["side"] == "---":
                    path = header["path"]
                    is_new_file = path == "/dev/null"
                elif header is not None and header["path"] != "/dev/null":
                    path = header["path"]
            case "hunk":
                yield from end_hunk()
            case "add":
                new.append(line.text[1:])
            case "remove":
                old.append(line.text[1:])
            case "same" if line.text:
                old.append(line.text[1:])
                new.append(line.text[1:])
            case _:
                pass
    yield from end_hunk()


def text_content(text: str) -> JsonObject:
    return {"type": "content", "content": {"type": "text", "text": first_chars(text, _MAX_TEXT)}}


def output_content(text: str) -> list[Json]:
    """Return the end of an output as content of a card."""
    text = clean(text)
    if not text.strip():
        return []
    return [text_content(text if len(text) <= _MAX_TAIL else f"[...]\n{text[-_MAX_TAIL:]}")]


def raw_input(arguments: JsonObject) -> JsonObject:
    """Return the arguments of a call, always an object, with long values shortened."""
    return {key: _shortened_value(value) for key, value in arguments.items()}


def raw_output(outcome: ToolOutcome) -> JsonObject:
    output: JsonObject = {"output": first_chars(outcome.content, _MAX_VALUE)}
    if outcome.summary:
        output["summary"] = outcome.summary
    if outcome.exit_code is not None:
        output["exitCode"] = outcome.exit_code
    if outcome.sandbox:
        output["sandbox"] = outcome.sandbox
    return output


def _shortened_value(value: Json) -> Json:
    if isinstance(value, str):
        return first_chars(value, _MAX_VALUE)
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_VALUE else f"[truncated: {len(text):,} characters]"


@dataclass(slots=True)
class CallCard:
    """The card of one call."""

    card_id: str
    """The id for the client."""
    call_id: str
    """The id from the model."""
    name: str
    """The name of the tool."""
    is_over: bool = False
    """The last update of the card was sent."""
    is_shown: bool = False
    """The first update of the card was sent."""
    output: list[str] = field(default_factory=list)
    """The unsent output for a terminal, or the end of all output for a card without a terminal."""
    output_chars: int = 0

    def add_output(self, text: str) -> None:
        """Append to the output and drop its start if it is too long."""
        self.output.append(text)
        self.output_chars += len(text)
        # Dropping joins all parts, so it happens only after every `2 * _MAX_TAIL` characters.
        if self.output_chars > 4 * _MAX_TAIL:
            tail = "".join(self.output)[-2 * _MAX_TAIL :]
            self.output, self.output_chars = [tail], len(tail)


@dataclass(frozen=True, slots=True)
class CardsOfReply:
    """The cards at the end of a reply."""

    cards: list[CallCard]
    """The card of each call, in the order of the calls."""
    unused: list[CallCard]
    """The cards of calls that began but are not in the reply."""


class Cards:
    """The cards of the calls of one turn."""

    def __init__(self, turn: int | str) -> None:
        self._turn = turn
        self._step = 0
        self._count = 0
        self._cards: list[CallCard] = []
        """The cards of the current reply."""
        self._reusable: list[CallCard] = []
        """The cards of an earlier attempt of the reply, for the calls of the next attempt."""
        self._by_call: dict[str, list[CallCard]] = {}
        """The cards of the calls in finished replies, by the id from the model. Several calls may have the same id."""
        self._committed: list[CallCard] = []
        """The cards of the calls in finished replies."""

    def begin_step(self, step: int) -> None:
        """Begin another reply."""
        self._step, self._count = step, 0
        self._cards, self._reusable = [], []

    def announce(self, call_id: str, name: str) -> CallCard | None:
        """Return the card of a call if it is new, so that it must be shown; None if the call gets an existing card."""
        cards_in_use = [card for card in self._cards if card not in self._reusable]
        if any(card.call_id == call_id for card in cards_in_use):
            return None
        for card in self._reusable:
            if card.name == name:
                self._reusable.remove(card)
                card.call_id = call_id
                return None
        return self._create(call_id, name)

    def start_over(self) -> None:
        """Keep the cards of this reply for the calls of the next attempt."""
        self._reusable = [card for card in self._cards if not card.is_over]

    def commit(self, calls: Iterable[ToolCall]) -> CardsOfReply:
        """Give each call of the finished reply a card."""
        unused = [card for card in self._cards if not card.is_over]
        used: list[CallCard] = []
        for call in calls:
            same_id = (card for card in unused if card.call_id == call.call_id)
            same_name = (card for card in unused if card.name == call.name)
            card = next(same_id, None) or next(same_name, None) or self._create(call.call_id, call.name)
            if card in unused:
                unused.remove(card)
            card.call_id = call.call_id
            self._commit_card(card)
            used.append(card)
        self._reusable = []
        return CardsOfReply(used, unused)

    def find(self, call_id: str) -> CallCard | None:
        """Return the card of a call that has no result yet."""
        return next((card for card in self._by_call.get(call_id, ()) if not card.is_over), None)

    def add_subagent_call(self, call: ToolCall) -> tuple[CallCard, str]:
        """Return a new card for a call of a sub-agent, and the id of the card of the sub-agent."""
        outer_id, _, _ = call.call_id.rpartition("/")  # such as `toolu_1` in `toolu_1/toolu_2`
        outer_cards = self._by_call.get(outer_id)
        parent_id = outer_cards[-1].card_id if outer_cards else outer_id
        number = sum(call_id.startswith(f"{outer_id}/") for call_id in self._by_call) + 1
        card = CallCard(f"{parent_id}/{number}", call.call_id, call.name)
        self._commit_card(card)
        return card, parent_id

    def unfinished(self) -> list[CallCard]:
        """Return the cards without a result, also those of an unfinished reply."""
        pending = [card for card in self._cards if card not in self._committed]
        return [card for card in (*self._committed, *pending) if not card.is_over]

    def _commit_card(self, card: CallCard) -> None:
        self._by_call.setdefault(card.call_id, []).append(card)
        self._committed.append(card)

    def _create(self, call_id: str, name: str) -> CallCard:
        self._count += 1
        card = CallCard(f"{self._turn}.{self._step}.{self._count}", call_id, name)
        self._cards.append(card)
        return card


def announcement(card: CallCard, arguments: JsonObject | None, folder: str, **extra: Json) -> JsonObject:
    """Return the update that shows a card for the first time. `arguments` is None if the model still writes them."""
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": card.card_id,
        "name": clean(card.name),
        "title": title_of(card.name, arguments),
        "kind": kind_of(card.name),
        "status": "pending",
        "rawInput": raw_input(arguments or {}),
        "locations": locations_of(card.name, arguments or {}, folder),
        **extra,
    }


def arguments_update(card: CallCard, arguments: JsonObject, folder: str) -> JsonObject:
    """Return the update with the complete arguments of a call that was announced without them."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": card.card_id,
        "title": title_of(card.name, arguments),
        "rawInput": raw_input(arguments),
        "locations": locations_of(card.name, arguments, folder),
    }


def finished_update(
    card: CallCard, call: ToolCall, outcome: ToolOutcome, state: CallState, folder: str, *, has_terminal: bool
) -> JsonObject:
    """Return the last update of a card. `has_terminal`: a terminal already shows the output."""
    update: JsonObject = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": card.card_id,
        "status": "completed" if state == "done" else "failed",
        "rawOutput": {**raw_output(outcome), "state": state},
    }
    if outcome.changes or outcome.diff:
        problems = output_content(outcome.problems) if outcome.problems else []
        update["content"] = [*change_content(outcome.changes, outcome.diff, folder), *problems]
        arguments = parse_object(call.arguments) or {}
        update["locations"] = locations_of(call.name, arguments, folder, outcome.changes)
    elif not has_terminal:
        text = outcome.shown if outcome.shown is not None else outcome.content
        update["content"] = output_content(text)
    return update


def dropped_update(card: CallCard, text: str) -> JsonObject:
    """Return the last update of a card whose call never ran."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": card.card_id,
        "status": "failed",
        "content": [text_content(text)],
    }
