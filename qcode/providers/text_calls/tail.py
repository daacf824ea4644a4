"""The reader of calls that a server sent as text, at the very end of a reply. No I/O.

It is for models with native calls and needs no configuration, so it is strict. The reply must end normally and have no
native calls. Its end must be one or more complete calls of offered tools, in one form, outside code and thinking, with
arguments that match the schema. No user message and no tool result may contain the same text. All other text is shown.
`TailEvents` turns the calls into events; `streaming.TextCallWatch` creates it at the first mark of a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from qcode.protocol.model import ModelRequest
from qcode.protocol.reply import ReplyEnded, ReplyEvent, StopReason, TextCallsRecognized, ToolCallStarted
from qcode.protocol.tools import ToolSpec
from qcode.providers.blocks import HostCallFacts, MarkSearch
from qcode.providers.text_calls.candidate import JsonScanner
from qcode.providers.text_calls.forms import (
    CALL_KEYS,
    UnreadableError,
    WrittenCall,
    decode_prefix,
    read_named_call,
    read_parameters,
    schema_types,
)
from qcode.providers.text_calls.provider import CallEvents
from qcode.providers.text_calls.quotation import is_quoted
from qcode.providers.text_calls.scanner import (
    MAX_CALL_CHARS,
    CodeSpans,
    ExtractedCalls,
    RejectedCandidate,
    ScannedPart,
    TextCalls,
    VisibleText,
)
from qcode.text.json import Json, JsonObject

MAX_RELEASES = 50
"""After held text has turned out this many times not to be a call, no text is held."""
_MAX_UNDECIDED_CHARS = 400
"""The maximum length of held text whose form is not clear yet."""
_BARE_KEYS = CALL_KEYS | {"tool"}
"""An object without a mark counts as a call only if it has no other keys."""
_NAME = re.compile(r"[\w.\-]{1,128}")


class TailCalls:
    """An extractor of the calls at the end of one reply, with the interface of `TextCalls`.

    `search` is the search that found the first mark.
    """

    def __init__(self, request: ModelRequest, call_facts: HostCallFacts, search: MarkSearch) -> None:
        self.rejected_candidates: list[RejectedCandidate] = []
        self.ends_rejected = False
        self.form = ""
        """The form of the extracted calls, empty if there are none."""
        self.is_final = False
        """The reply ended normally, so that the held text is its end."""
        self._request = request
        self._call_facts = call_facts
        self._tools = {tool.name: tool for tool in request.tools if not tool.is_hosted}
        self._search = search
        self._code = CodeSpans()
        self._code_position = 0
        """The length of the text that `_code` has read."""
        self._held_texts: list[str] = []
        self._held_size = 0
        self._scanner: TextCalls | None = None
        """The scanner of the held text, if it is in a form of `TextCalls`."""
        self._objects: _ObjectScanner | None = None
        """The scanner of the held text, if it is JSON without a mark."""
        self._is_special = False
        """The held text is in another form, which is read at the end of the reply."""
        self._releases = 0
        """The number of times that held text was released because it was not a call."""
        self._is_disabled = False

    def feed(self, text: str) -> list[ScannedPart]:
        """Add text; return the text that is certainly not part of a call."""
        visible: list[str] = []
        while text:
            if self._is_disabled:
                visible.append(text)
                break
            if self._held_texts:
                text = self._follow(text, visible)
                continue
            searched = self._search.feed(text)
            visible.append(searched.passed)
            text = self._begin(searched.from_mark, visible) if searched.from_mark else ""
        return _visible("".join(visible))

    def flush(self, *, is_cut: bool = False) -> list[ScannedPart]:
        """Return the held text: as calls if it consists of calls and ends a complete reply, otherwise as text."""
        pending = "".join(self._held_texts)
        undecided = self._search.flush()
        self._held_texts.clear()
        may_be_calls = self.is_final and not is_cut and not self._is_disabled
        calls = self._read(pending) if pending and may_be_calls else []
        return [ExtractedCalls(pending, tuple(calls))] if calls else _visible(pending + undecided)

    def disable(self) -> None:
        """Treat all further text as plain text, because the reply has a native call."""
        self._is_disabled = True

    def _begin(self, from_mark: str, visible: list[str]) -> str:
        """Hold the text from a mark on, if a call may begin there; return the text to read next."""
        before = self._search.before
        self._code.feed(before[self._code_position :])
        self._code_position = len(before)
        is_object = _is_object(from_mark)
        is_refused_object = is_object and not self._call_facts.accepts_bare_json
        if is_refused_object or self._is_in_code(from_mark) or _is_thinking(before) or _is_in_block(before):
            return self._show_mark(from_mark, visible)
        self._objects = _ObjectScanner() if is_object else None
        self._scanner = None
        self._is_special = False
        return self._follow(from_mark, visible)

    def _is_in_code(self, from_mark: str) -> bool:
        """Return whether the mark at the start of a text is in code, or is a fence inside a line."""
        if from_mark[0] == "`":
            return self._code.is_in_fence or not self._code.is_at_line_start
        return self._code.is_inside()

    def _show_mark(self, from_mark: str, visible: list[str]) -> str:
        """Show the start of a mark that begins no call: its backticks, or one character. Return the text after it."""
        backticks = len(from_mark) - len(from_mark.lstrip("`"))
        size = max(backticks, 1)
        visible.append(from_mark[:size])
        self._search.add_text(from_mark[:size])
        return from_mark[size:]

    def _follow(self, text: str, visible: list[str]) -> str:
        """Hold more text, or release the held text if it can no longer be a call."""
        self._held_texts.append(text)
        self._held_size += len(text)
        if self._held_size <= MAX_CALL_CHARS and self._may_be_call(text):
            return ""
        pending = "".join(self._held_texts)
        self._held_texts.clear()
        self._held_size = 0
        self._releases += 1
        self._is_disabled = self._releases > MAX_RELEASES or len(pending) > MAX_CALL_CHARS
        return self._show_mark(pending, visible)

    def _may_be_call(self, text: str) -> bool:
        """Return whether the held text, which ends with `text`, can still be a call."""
        if self._objects is not None:
            return self._objects.feed(text)
        if self._is_special:
            return True
        if self._scanner is None:
            text = "".join(self._held_texts)
            match _kind_of(text):
                case "text":
                    return False
                case "undecided":
                    return True
                case "special":
                    self._is_special = True
                    return True
                case "scanned":
                    self._scanner = TextCalls(self._tools.values(), before="\n")
        parts = self._scanner.feed(text)
        # A rejected call at the end is held too, so that `_read` can report it.
        return self._scanner.ends_rejected or not _has_visible_text(parts)

    def _read(self, pending: str) -> list[WrittenCall]:
        """Return the calls in `pending`, empty if it is text. Text that is almost a call is recorded as rejected."""
        try:
            form, calls = self._parse(pending)
            for call in calls:
                _check_arguments(call, self._tools[call.name])
        except UnreadableError as error:
            if error.is_attempt and not is_quoted(pending, self._request):
                self.rejected_candidates.append(RejectedCandidate(pending[:200], str(error)))
                self.ends_rejected = True
            return []
        if not calls or not self._accepts_form(form) or is_quoted(pending, self._request):
            return []
        self.form = form
        return calls

    def _accepts_form(self, form: str) -> bool:
        """Return whether calls may have this form. JSON without a mark is often only an example."""
        is_marked = form not in ("json", "fence")
        if is_marked:
            return True
        is_whole_reply = not self._search.before.strip()
        had_call_before = self._call_facts.form == form
        return self._call_facts.accepts_bare_json and (is_whole_reply or had_call_before)

    def _parse(self, pending: str) -> tuple[str, list[WrittenCall]]:
        """Return the form of `pending` and its calls; raise `UnreadableError`."""
        if _is_object(pending):
            return "json", [_object_call(value, self._tools) for value in _values(pending)]
        if _kind_of(pending) != "scanned":
            return _read_special(pending, self._tools)
        scanner = TextCalls(self._tools.values(), before="\n")
        parts = [*scanner.feed(pending), *scanner.flush()]
        calls = [call for part in parts if isinstance(part, ExtractedCalls) for call in part.calls]
        if _has_visible_text(parts) or len(scanner.forms) != 1:
            rejected = scanner.rejected_candidates
            reason = rejected[-1].reason if rejected else "it is not a complete call"
            raise UnreadableError(reason, is_attempt=scanner.ends_rejected)
        return next(iter(scanner.forms)), calls


def _visible(text: str) -> list[ScannedPart]:
    return [VisibleText(text)] if text else []


def _has_visible_text(parts: Iterable[ScannedPart]) -> bool:
    return any(isinstance(part, VisibleText) and part.text.strip() for part in parts)


def _is_in_block(before: str) -> bool:
    """Return whether text after `before` is quoted (`> `), escaped, or indented like code."""
    above, _, line = before.rpartition("\n")
    if line.lstrip().startswith(">") or line.endswith("\\"):
        return True
    # A code block: four blanks after a blank line, which follows text.
    is_indented = not line.strip() and line.expandtabs(4).startswith("    ")
    is_after_blank_line = bool(above.strip()) and not above.rpartition("\n")[2].strip()
    return is_indented and is_after_blank_line


class TailEvents(CallEvents):
    """The events of a reply from the first mark of a call on."""

    def __init__(
        self,
        request: ModelRequest,
        call_facts: HostCallFacts,
        calls: TailCalls,
        blocks: set[int],
        text_block: int | None,
    ) -> None:
        """Continue a reply that has used the block numbers `blocks`.

        `text_block` is the number of the text block with the mark, None if no text of this block was emitted.
        """
        super().__init__(calls, tag=str(len(request.messages)), cap=request.max_tokens)
        self._is_recognized = True
        self._tail = calls
        self._call_facts = call_facts
        self._has_reported = False
        self._next_number = max(blocks, default=-1) + 1
        self._new_numbers = {block: block for block in blocks if block != text_block}
        if text_block is not None:
            self._source_blocks.add(text_block)
            self._source_block = self._text_block = text_block

    def feed(self, event: ReplyEvent) -> list[ReplyEvent]:
        if isinstance(event, ToolCallStarted):
            self._tail.disable()
            self._call_facts.note_native_call()
        elif isinstance(event, ReplyEnded):
            self._tail.is_final = event.stop in (StopReason.END_TURN, StopReason.TOOL_USE)
        events = super().feed(event)
        if not self._tail.form or self._has_reported:
            return events
        self._has_reported = True
        is_first = self._call_facts.form != self._tail.form
        self._call_facts.note_text_call(self._tail.form)
        return [TextCallsRecognized(self._tail.form, is_first=is_first), *events]


class _ObjectScanner:
    """A scanner of one or more JSON values that may be calls."""

    def __init__(self) -> None:
        self._scanner = JsonScanner()
        self._is_between = True

    def feed(self, text: str) -> bool:
        """Return whether the text so far may consist of calls."""
        position = 0
        while position < len(text):
            if self._is_between:
                value = text[position:].lstrip(" \t\r\n,;")
                position = len(text) - len(value)
                if not value:
                    return True
                if value[0] not in "{[":
                    return False
                self._scanner, self._is_between = JsonScanner(), False
            position += self._scanner.feed(text[position:])
            if self._scanner.is_broken or not _BARE_KEYS.issuperset(self._scanner.keys):
                return False
            self._is_between = self._scanner.is_closed
        return True


def _kind_of(text: str) -> Literal["scanned", "special", "undecided", "text"]:
    """Return the kind of call at the start of `text`.

    `scanned`: read by `TextCalls`; `special`: read by `_read_special`; `undecided`: more text is needed; `text`: no
    call.
    """
    if not text.startswith("<tool_call>"):
        is_scanned = text.startswith(("<function=", "<|python_tag|>", "[TOOL_CALLS]", "```"))
        return "scanned" if is_scanned else "special"
    body = text.removeprefix("<tool_call>").lstrip()
    if body and body[0] in "{[<":
        return "scanned"
    name = _NAME.match(body)
    after_name = body[name.end() :].lstrip() if name else body
    if not after_name:
        return "undecided" if len(text) <= _MAX_UNDECIDED_CHARS else "text"
    for mark in ("<arg_key>", "</tool_call>"):
        is_start_of_mark = mark.startswith(after_name)
        if after_name.startswith(mark) or is_start_of_mark:
            return "special"
    return "text"


def _is_object(text: str) -> bool:
    return text[0] in "{[" and not text.startswith("[TOOL_CALLS]")


def _is_thinking(before: str) -> bool:
    return before.lstrip().startswith("<think>") and "</think>" not in before


def _values(text: str) -> list[Json]:
    values: list[Json] = []
    while text := text.lstrip(" \t\r\n,;"):
        decoded = decode_prefix(text, is_attempt=False)
        values += decoded.value if isinstance(decoded.value, list) else [decoded.value]
        text = text[decoded.end :]
    return values


def _object_call(value: Json, tools: Mapping[str, ToolSpec]) -> WrittenCall:
    """Return the call in a bare object. Without a name and arguments, the object was not meant as a call."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    members = value if isinstance(value, dict) else {}
    names = [members[key] for key in ("name", "tool", "function") if isinstance(members.get(key), str)]
    values = [members[key] for key in ("arguments", "parameters") if key in members]
    if len(names) != 1 or len(values) != 1 or not isinstance(values[0], dict | str):
        raise UnreadableError("it has no tool name or no arguments", is_attempt=False)
    return read_named_call(str(names[0]), values[0], tools)


def _check_arguments(call: WrittenCall, tool: ToolSpec) -> None:
    """Raise `UnreadableError` unless the arguments have every required key, no unknown one, and the right types."""
    arguments: JsonObject = json.loads(call.arguments)
    properties = tool.parameters.get("properties")
    known_properties = properties if isinstance(properties, dict) else None
    wrong = [name for name in tool.required if name not in arguments]
    if known_properties is not None and not tool.parameters.get("additionalProperties"):
        wrong.extend(name for name in arguments if name not in known_properties)
    for name, value in arguments.items():
        types = schema_types(known_properties.get(name)) if known_properties is not None else set()
        if types and not types & _types_of(value):
            wrong.append(name)
    if wrong:
        listed = ", ".join(map(repr, wrong[:5]))
        raise UnreadableError(f"missing, unknown or wrong arguments of `{call.name}`: {listed}")


def _types_of(value: Json) -> set[str]:
    match value:
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number", "integer"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case dict():
            return {"object"}
        case None:
            return {"null"}


def _read_special(text: str, tools: Mapping[str, ToolSpec]) -> tuple[str, list[WrittenCall]]:
    """Read the forms of DeepSeek, GLM, MiniMax, Kimi, gpt-oss and a Mistral mark without brackets."""
    reader = _FormReader(text, tools)
    for mark, form, read in (
        ("<tool_call>", "glm", reader.read_glm),
        ("<｜tool▁call", "deepseek", reader.read_deepseek),
        ("<｜DSML｜", "dsml", reader.read_dsml),
        ("<minimax:tool_call>", "minimax", reader.read_minimax),
        ("<|tool_call", "kimi", reader.read_kimi),
        ("<|channel|>", "harmony", reader.read_harmony),
        ("<|start|>", "harmony", reader.read_harmony),
        ("TOOL_CALLS", "mistral", reader.read_mistral),
    ):
        if text.startswith(mark):
            calls = read()
            reader.skip_space()
            if reader.remaining:
                raise UnreadableError("text follows the call", is_attempt=False)
            return form, calls
    raise UnreadableError("no known form", is_attempt=False)


class _FormReader:
    """A cursor over the end of a reply. Each `read_…` method reads calls of one form or raises `UnreadableError`."""

    def __init__(self, text: str, tools: Mapping[str, ToolSpec]) -> None:
        self.remaining = text
        self._tools = tools

    def skip_space(self) -> None:
        self.remaining = self.remaining.lstrip()

    def read_glm(self) -> list[WrittenCall]:
        calls = []
        while self._skip_mark("<tool_call>"):
            name, pairs = self._read_name(), []
            while self._skip_mark("<arg_key>"):
                key = self._read_until("</arg_key>").strip()
                self._expect("<arg_value>")
                pairs.append((key, self._read_until("</arg_value>")))
            self._expect("</tool_call>")
            calls.append(read_parameters(name, pairs, self._tools))
        return calls

    def read_deepseek(self) -> list[WrittenCall]:
        has_frame = self._skip_mark("<｜tool▁calls▁begin｜>")
        calls = []
        while self._skip_mark("<｜tool▁call▁begin｜>"):
            name = self._read_until("<｜tool▁sep｜>").strip()
            if name == "function":
                name = self._read_until("\n").strip()
                self._expect("```json")
                arguments = self._read_json()
                self._expect("```")
            else:
                arguments = self._read_json()
            self._expect("<｜tool▁call▁end｜>")
            calls.append(read_named_call(name, arguments, self._tools))
        if has_frame:
            self._expect("<｜tool▁calls▁end｜>")
        return calls

    def read_dsml(self) -> list[WrittenCall]:
        self._expect("<｜DSML｜")
        frame = self._read_until(">")
        if frame not in ("function_calls", "tool_calls"):
            raise UnreadableError("its outer tag is unknown")
        calls = self._read_invocations("<｜DSML｜", "</｜DSML｜")
        self._expect(f"</｜DSML｜{frame}>")
        return calls

    def read_minimax(self) -> list[WrittenCall]:
        self._expect("<minimax:tool_call>")
        calls = self._read_invocations("<", "</")
        self._expect("</minimax:tool_call>")
        return calls

    def read_kimi(self) -> list[WrittenCall]:
        has_frame = self._skip_mark("<|tool_calls_section_begin|>")
        calls = []
        while self._skip_mark("<|tool_call_begin|>"):
            numbered = self._read_until("<|tool_call_argument_begin|>").strip()
            name = re.sub(r":\d+$", "", numbered.removeprefix("functions."))
            arguments = self._read_json()
            self._expect("<|tool_call_end|>")
            calls.append(read_named_call(name, arguments, self._tools))
        if has_frame:
            self._expect("<|tool_calls_section_end|>")
        return calls

    def read_harmony(self) -> list[WrittenCall]:
        """Read `<|channel|>commentary to=functions.N <|constrain|>json<|message|>{…}<|call|>`, once or more often.

        The recipient may also be in the role, `<|start|>assistant to=functions.N<|channel|>commentary json<|message|>`.
        Servers remove the last mark, which ends the reply.
        """
        calls = []
        while self.remaining:
            self._skip_mark("<|start|>assistant")
            self._skip_one_of("<|channel|>commentary", "<|channel|>analysis")
            self._expect("to=")
            if "<|message|>" not in self.remaining:
                raise UnreadableError("it is not complete", is_attempt=False)
            recipient = self._read_until("<|message|>").partition("<|")[0].split()
            if not recipient:
                raise UnreadableError("it names no tool")
            arguments = self._read_json()
            self._skip_mark("<|call|>")
            self.skip_space()
            calls.append(read_named_call(recipient[0].removeprefix("functions."), arguments, self._tools))
        return calls

    def read_mistral(self) -> list[WrittenCall]:
        calls = []
        while self._skip_mark("TOOL_CALLS"):
            name = self._read_name()
            self._skip_one_of("[ARGS]", "ARGS")
            calls.append(read_named_call(name, self._read_json(), self._tools))
        return calls

    def _read_invocations(self, opener: str, closer: str) -> list[WrittenCall]:
        """Read `<invoke name="N"><parameter name="K">V</parameter></invoke>`, once or more often."""
        calls = []
        while self._skip_mark(f'{opener}invoke name="'):
            name, pairs = self._read_until('"'), []
            self._expect(">")
            while self._skip_mark(f'{opener}parameter name="'):
                key = self._read_until('"')
                self._read_until(">")
                pairs.append((key, self._read_until(f"{closer}parameter>")))
            self._expect(f"{closer}invoke>")
            calls.append(read_parameters(name, pairs, self._tools))
        return calls

    def _skip_mark(self, mark: str) -> bool:
        """Skip white space, and then `mark` if it is next; return whether it was."""
        self.skip_space()
        is_next = self.remaining.startswith(mark)
        self.remaining = self.remaining.removeprefix(mark)
        return is_next

    def _skip_one_of(self, *marks: str) -> None:
        """Skip the first of `marks` that is next, if any is."""
        for mark in marks:
            if self._skip_mark(mark):
                return

    def _expect(self, mark: str) -> None:
        """Skip `mark`; raise `UnreadableError` if it is not next."""
        if not self._skip_mark(mark):
            raise UnreadableError("it is not complete")

    def _read_until(self, mark: str) -> str:
        text, separator, self.remaining = self.remaining.partition(mark)
        if not separator:
            raise UnreadableError("it is not complete")
        return text

    def _read_name(self) -> str:
        self.skip_space()
        match = _NAME.match(self.remaining)
        if match is None:
            raise UnreadableError("it names no tool")
        self.remaining = self.remaining[match.end() :]
        return match.group()

    def _read_json(self) -> Json:
        self.skip_space()
        decoded = decode_prefix(self.remaining)
        self.remaining = self.remaining[decoded.end :]
        return decoded.value


def begin_tail(
    request: ModelRequest, call_facts: HostCallFacts, search: MarkSearch, blocks: set[int], text_block: int | None
) -> TailEvents:
    """Return the reader of a reply from the first mark of a call on. `search` has found this mark.

    See `TailEvents` for `blocks` and `text_block`.
    """
    return TailEvents(request, call_facts, TailCalls(request, call_facts, search), blocks, text_block)
