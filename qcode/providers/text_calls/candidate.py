"""The incremental parser of one text that may be a call, in chunks of any size. Each character is read once. Pure.

A `Candidate` holds all text after the opening mark. By its `state`, the caller extracts the call or shows the text, and
`forms` reads the calls. `JsonScanner` follows one JSON object or list to its last bracket. It detects text that is not
JSON early, by a line break inside a string or a word instead of a comma, so that such text is shown soon. The strict
parser decides later whether a complete value is valid.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import field
from typing import Literal, NamedTuple, TypeAlias

from qcode.protocol.tools import ToolSpec
from qcode.providers.text_calls import forms
from qcode.providers.text_calls.forms import (
    CALL_KEYS,
    END_FUNCTION,
    END_PARAMETER,
    FUNCTION,
    MISTRAL_ARGUMENTS,
    PARAMETER,
    CallForm,
    WrittenCall,
    opens_call,
)
from qcode.values import dataclass

State: TypeAlias = Literal["open", "closed", "broken", "unrelated"]
_Position: TypeAlias = Literal["json", "keywords", "value", "after value", "end of function", "tail", "other"]
"""The place in the grammar at which the cursor is. It tells what is missing if the reply ends there."""

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[\w.\-]{1,128}")
_PARAMETER_NAME = re.compile(r"[^<>\n]{1,128}")
_SEPARATOR = re.compile(r";[ \t\r\n]{0,32}")
_KEYWORD = re.compile(r"[A-Za-z_]\w{0,127}")


class _Range(NamedTuple):
    """A part of the text of a candidate, after the opening mark."""

    start: int
    end: int

    def of(self, body: str) -> str:
        return body[self.start : self.end]


class _Parameter(NamedTuple):
    """A parameter in the tag forms."""

    name: str
    value: _Range


@dataclass(slots=True)
class _Function:
    """A call with a name outside JSON. Its arguments are JSON, or keywords as in Python, or parameters in tags."""

    name: str
    parameters: list[_Parameter] = field(default_factory=list)
    json: _Range | None = None
    keywords: _Range | None = None


class _NoCallError(Exception):
    """The text read so far is not a call."""


class _Cursor:
    """A position in a text that arrives in chunks. A generator method yields when it needs more text."""

    def __init__(self) -> None:
        self.position = 0
        """The number of characters before the cursor."""
        self.remaining = ""
        """The text after the cursor."""
        self._consumed_texts: list[str] = []

    @property
    def whole_text(self) -> str:
        self._consumed_texts[:] = ["".join(self._consumed_texts)]
        return self._consumed_texts[0] + self.remaining

    def consume(self, count: int) -> None:
        self._consumed_texts.append(self.remaining[:count])
        self.remaining = self.remaining[count:]
        self.position += count

    def skip_space(self) -> Iterator[None]:
        """Skip white space up to the next character."""
        while True:
            space = _SPACE.match(self.remaining)
            self.consume(space.end() if space else 0)
            if self.remaining:
                return
            yield

    def next_of(self, *marks: str, offset: int = 0) -> Generator[None, None, str]:
        """Return the mark that starts `offset` characters ahead, or an empty text. Waits for text that decides."""
        while True:
            text = self.remaining[offset:]
            next_mark = next((mark for mark in marks if text.startswith(mark)), "")
            if next_mark or not any(mark.startswith(text) for mark in marks):
                return next_mark
            yield

    def run_of(self, pattern: re.Pattern[str]) -> Generator[None, None, int]:
        """Return how many of the next characters match `pattern`, at least one. Waits for the character after them."""
        while True:
            match = pattern.match(self.remaining)
            length = match.end() if match else 0
            if length < len(self.remaining):
                break
            yield
        if not length:
            raise _NoCallError
        return length


class Candidate:
    """Text that may become a call, from its mark on.

    The generator methods, from `_read_all` on, implement the grammar; each yields when it needs more text.
    """

    def __init__(self, form: CallForm, opener: str) -> None:
        self.form = form
        self.opener = opener
        """The mark at which the text begins."""
        self.state: State = "open"
        """`open`: undecided. `closed`: it is a call. `broken`: it starts like a call, but is not a call.

        `unrelated`: it does not start like a call.
        """
        self.end = 0
        """The end of a call that is `closed`."""
        self._cursor = _Cursor()
        self._items: list[_Range | _Function] = []
        """The calls so far: their JSON, or a function."""
        self._scanner = JsonScanner()
        self._item_start = 0
        self._function: _Function | None = None
        """The function that is being read."""
        self._parameter = _Parameter("", _Range(0, 0))
        """The latest parameter. While its value is being read, its range is empty and marks only the start."""
        self._has_begun = False
        """The text certainly starts like a call."""
        self._position: _Position = "other"
        self._reader = self._read_all()

    @property
    def body(self) -> str:
        """The text after the opening mark."""
        return self._cursor.whole_text

    @property
    def size(self) -> int:
        """The number of characters of `body` that the grammar has consumed."""
        return self._cursor.position

    def feed(self, text: str) -> None:
        """Add text. All of it is held, even the text after the call."""
        self._cursor.remaining += text
        if self.state != "open":
            return
        try:
            next(self._reader)
        except StopIteration:
            self.state = "closed"
        except _NoCallError:
            self.state = "broken" if self._has_begun else "unrelated"

    def finish(self) -> None:
        """Handle the end of the reply: close the candidate if only its end mark is missing."""
        if self._position == "end of function" and self._function is not None:
            self._end_item(self._function)
        if self._position == "tail":
            self.state = "closed"
            if self._cursor.remaining and any(end.startswith(self._cursor.remaining) for end in self.form.ends):
                self.end = self.size + len(self._cursor.remaining)

    def calls(self, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
        """Return the calls of a closed candidate; raise `UnreadableError`."""
        body = self.body
        return [call for item in self._items for call in self._calls_of(item, body, tools)]

    def cut_calls(self, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
        """Return the calls of a candidate that the output limit truncated. The last call is incomplete."""
        calls = self.calls(tools)
        body, function = self.body, self._function
        if self._position == "json" and function is None:
            return [*calls, *forms.read_cut_json(body[self._item_start :], tools)]
        if function is None:
            return [*calls, WrittenCall(forms.NO_NAME, "", is_complete=False)]
        forms.read_named_call(function.name, None, tools)
        if self._position == "keywords":  # they are not JSON, so the whole call must be sent again
            return [*calls, WrittenCall(function.name, "", is_complete=False)]
        if self._position == "json":
            return [*calls, WrittenCall(function.name, body[self._item_start :], is_complete=False)]
        parameters = [(name, value.of(body)) for name, value in function.parameters]
        name, value = self._parameter
        if self._position == "after value":
            parameters.append((name, value.of(body)))
        open_name = name if self._position == "value" else ""
        return [*calls, forms.read_cut_parameters(function.name, parameters, open_name, body[value.start :], tools)]

    @property
    def is_attempt(self) -> bool:
        """Whether the text is meant as a call: its mark is unambiguous, or it has a name and arguments."""
        if self.form.is_marked:
            return True
        keys = set(self._scanner.keys)
        has_arguments = bool(keys & {"arguments", "parameters"})
        return "name" in keys and has_arguments and keys <= CALL_KEYS

    def _calls_of(self, item: _Range | _Function, body: str, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
        if isinstance(item, _Range):
            return forms.read_json(item.of(body), tools, needs_arguments=not self.form.is_marked)
        if item.json is not None:
            return [forms.read_named_call(item.name, forms.parse(item.json.of(body)), tools)]
        if item.keywords is not None:
            return [forms.read_keywords(item.name, item.keywords.of(body), tools)]
        parameters = [(name, value.of(body)) for name, value in item.parameters]
        return [forms.read_parameters(item.name, parameters, tools)]

    def _read_all(self) -> Iterator[None]:
        """Read one or more calls in the form of the candidate, and the end mark."""
        if self.form.name == "function":
            yield from self._read_function()
        else:
            yield from self._cursor.skip_space()
            if self._cursor.remaining[0] in "{[":
                yield from self._read_object()
            elif self.form.name == "tag":
                yield from self._read_marked_function()
            elif self.form.name == "mistral":
                yield from self._read_function()
            elif self.form.name == "llama":
                yield from self._read_python_call()
            else:
                raise _NoCallError
        yield from self._read_tail()

    def _read_object(self) -> Iterator[None]:
        self._end_item((yield from self._read_json()))

    def _read_json(self) -> Generator[None, None, _Range]:
        """Read one JSON object or list; return its part of `body`."""
        self._has_begun, self._position = True, "json"
        self._scanner, self._item_start = JsonScanner(), self.size
        while True:
            self._cursor.consume(self._scanner.feed(self._cursor.remaining))
            if self._scanner.is_broken or not (self.form.is_marked or CALL_KEYS.issuperset(self._scanner.keys)):
                raise _NoCallError
            if self._scanner.is_closed:
                self._position = "other"
                return _Range(self._item_start, self.size)
            yield

    def _end_item(self, item: _Range | _Function) -> None:
        self._items.append(item)
        self._function = None
        self.end = self.size
        self._position = "tail"

    def _read_marked_function(self) -> Iterator[None]:
        self._position = "other"
        if not (yield from self._cursor.next_of(FUNCTION)):
            raise _NoCallError
        self._cursor.consume(len(FUNCTION))
        yield from self._read_function()

    def _read_function(self) -> Iterator[None]:
        """Read a name and `>`, then JSON or parameters, then the end tag; in Mistral's form only a name and JSON."""
        is_mistral = self.form.name == "mistral"
        length = yield from self._cursor.run_of(_NAME)
        name_ends = ("{", MISTRAL_ARGUMENTS) if is_mistral else (">",)
        name_end = yield from self._cursor.next_of(*name_ends, offset=length)
        if not name_end:
            raise _NoCallError
        self._function = function = _Function(self._cursor.remaining[:length])
        # A brace belongs to the JSON, which is read next.
        self._cursor.consume(length + len(name_end.removeprefix("{")))
        yield from self._cursor.skip_space()
        if self._cursor.remaining[0] == "{":
            function.json = yield from self._read_json()
        elif is_mistral:
            raise _NoCallError
        else:
            yield from self._read_parameters(function)
        if not is_mistral:
            self._position = "end of function"
            yield from self._cursor.skip_space()
            if not (yield from self._cursor.next_of(END_FUNCTION)):
                raise _NoCallError
            self._has_begun = True
            self._cursor.consume(len(END_FUNCTION))
        self._end_item(function)

    def _read_python_call(self) -> Iterator[None]:
        """Read `name.call(key="value")`, as Llama writes calls of built-in tools; some models omit `.call`.

        `print("x")`, which has no keyword, is code and not a call.
        """
        length = yield from self._cursor.run_of(_NAME)
        if not (yield from self._cursor.next_of("(", offset=length)):
            raise _NoCallError
        function = _Function(self._cursor.remaining[:length].removesuffix(".call"))
        self._cursor.consume(length + 1)
        yield from self._cursor.skip_space()
        start = self.size
        if self._cursor.remaining[0] != ")":
            length = yield from self._cursor.run_of(_KEYWORD)
            self._cursor.consume(length)
            yield from self._cursor.skip_space()
            if self._cursor.remaining[0] != "=":
                raise _NoCallError
        self._has_begun, self._position, self._function = True, "keywords", function
        scanner = KeywordScanner()
        while not scanner.is_closed:
            self._cursor.consume(scanner.feed(self._cursor.remaining))
            if scanner.is_broken:
                raise _NoCallError
            if not scanner.is_closed:
                yield
        function.keywords = _Range(start, self.size)
        self._cursor.consume(len(")"))
        self._end_item(function)

    def _read_parameters(self, function: _Function) -> Iterator[None]:
        """Read parameters up to the end tag of the function."""
        while True:
            yield from self._cursor.skip_space()
            mark = yield from self._cursor.next_of(PARAMETER, END_FUNCTION)
            if mark == END_FUNCTION:
                return
            if not mark:
                raise _NoCallError
            self._has_begun = True
            self._cursor.consume(len(PARAMETER))
            length = yield from self._cursor.run_of(_PARAMETER_NAME)
            if self._cursor.remaining[length] != ">":
                raise _NoCallError
            name = self._cursor.remaining[:length].strip()
            self._cursor.consume(length + 1)
            yield from self._read_value(name)
            function.parameters.append(self._parameter)

    def _read_value(self, name: str) -> Iterator[None]:
        """Read a value up to the next parameter or the end of the function. The value may contain `</parameter>`."""
        start = self.size
        self._parameter, self._position = _Parameter(name, _Range(start, start)), "value"
        while True:
            position = self._cursor.remaining.find(END_PARAMETER)
            if position < 0:
                self._cursor.consume(max(0, len(self._cursor.remaining) - len(END_PARAMETER) + 1))
                yield
                continue
            self._parameter = _Parameter(name, _Range(start, self.size + position))
            self._position = "after value"
            self._cursor.consume(position + len(END_PARAMETER))
            yield from self._cursor.skip_space()
            if (yield from self._cursor.next_of(PARAMETER, END_FUNCTION)):
                self._position = "other"
                return
            self._position = "value"

    def _read_tail(self) -> Iterator[None]:
        """Read the end mark after a complete call, or further calls under the same opening mark."""
        while True:
            yield from self._cursor.skip_space()
            end = next((end for end in self.form.ends if self._cursor.remaining.startswith(end)), "")
            if end:
                self._cursor.consume(len(end))
                self.end = self.size
                return
            remaining = self._cursor.remaining
            # Several calls in Llama's form are separated by a semicolon: `{…}; {…}`.
            separator = _SEPARATOR.match(remaining) if self.form.name == "llama" else None
            after_separator = remaining[separator.end() :] if separator else ""
            if self.form.name == "tag" and remaining[0] in "{[":
                yield from self._read_object()
            elif self.form.name == "tag" and remaining.startswith(FUNCTION):
                yield from self._read_marked_function()
            elif separator and after_separator.startswith("{"):
                self._cursor.consume(separator.end())
                yield from self._read_object()
            elif self._needs_more_text(remaining) or (separator and not after_separator):
                yield
            elif self.form.needs_end and not opens_call(remaining):
                raise _NoCallError
            else:
                return

    def _needs_more_text(self, remaining: str) -> bool:
        """Return whether the text after a call may be the start of an end mark or of another call."""
        may_be_end = any(end.startswith(remaining) for end in self.form.ends)
        return may_be_end or opens_call(remaining) is None


_Expected: TypeAlias = Literal["value", "value or end", "key", "key or end", "colon", "comma or end"]

_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_ATOM_RUN = re.compile(r"[-+.0-9A-Za-z]+")
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_ESCAPED = '"\\/bfnrtu'
_MAX_DEPTH = 200
"""The maximum number of open brackets."""
_MAX_ATOM_CHARS = 400
"""The maximum length of a number or literal, and of the stored part of a key."""


class JsonScanner:
    """An incremental scanner of JSON text from its opening bracket to the closing one."""

    def __init__(self) -> None:
        self.is_closed = False
        self.is_broken = False
        self.keys: list[str] = []
        """The keys of the outermost object, or of the objects in the outermost list. Escapes in keys are dropped."""
        self._stack: list[str] = []
        """The open brackets."""
        self._expected_next: _Expected = "value"
        self._is_in_string = self._is_escaped = self._is_key = False
        self._word = ""
        """The number, literal or key that is being read."""

    def feed(self, text: str) -> int:
        """Return the number of characters of `text` that belong to the value: all, unless the value ends."""
        position = 0
        while position < len(text) and not self.is_closed and not self.is_broken:
            read = self._read_string if self._is_in_string else self._read_structure
            position = read(text, position)
        return position

    def _read_string(self, text: str, position: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            self.is_broken = text[position] not in _ESCAPED
            return position if self.is_broken else position + 1
        run = _STRING_RUN.match(text, position)
        end = run.end() if run else position
        if self._is_key and len(self._word) < _MAX_ATOM_CHARS:
            self._word += text[position:end]
        if end == len(text):
            return end
        match text[end]:
            case '"':
                self._end_string()
            case "\\":
                self._is_escaped = True
            case _:
                self.is_broken = True
                return end
        return end + 1

    def _end_string(self) -> None:
        self._is_in_string = False
        if not self._is_key:
            self._expected_next = "comma or end"
            return
        depth_of_calls = 1 if self._stack[0] == "{" else 2
        if len(self._stack) == depth_of_calls:
            self.keys.append(self._word)
        self._word, self._is_key, self._expected_next = "", False, "colon"

    def _read_structure(self, text: str, position: int) -> int:
        atom = _ATOM_RUN.match(text, position)
        if atom:
            if self._word == "" and self._expected_next not in ("value", "value or end"):
                self.is_broken = True
                return position
            self._word += atom.group()
            self.is_broken = len(self._word) > _MAX_ATOM_CHARS
            return atom.end()
        if self._word:  # it ends here
            self.is_broken = not self._stack or _ATOM.fullmatch(self._word) is None
            self._word, self._expected_next = "", "comma or end"
            return position
        space = _SPACE.match(text, position)
        if space and space.end() > position:
            return space.end()
        self._read_punctuation(text[position])
        return position if self.is_broken else position + 1

    def _read_punctuation(self, mark: str) -> None:
        expected = self._expected_next
        if mark in "{[" and expected in ("value", "value or end"):
            self._stack.append(mark)
            self._expected_next = "key or end" if mark == "{" else "value or end"
            self.is_broken = len(self._stack) > _MAX_DEPTH
        elif mark == '"' and self._stack and expected in ("value", "value or end", "key", "key or end"):
            self._is_in_string = True
            self._is_key = expected.startswith("key")
        elif mark == ":" and expected == "colon":
            self._expected_next = "value"
        elif mark == "," and expected == "comma or end":
            self._expected_next = "key" if self._stack[-1] == "{" else "value"
        elif mark in "}]" and expected.endswith("or end") and self._stack[-1] == ("{" if mark == "}" else "["):
            self._stack.pop()
            self._expected_next = "comma or end"
            self.is_closed = not self._stack
        else:
            self.is_broken = True


_OUTSIDE_RUN = re.compile(r"[\w \t\r\n=,.:+-]+")


class KeywordScanner:
    """An incremental scanner of keyword arguments as in Python, up to the parenthesis that closes them."""

    def __init__(self) -> None:
        self.is_closed = False
        """The next character is the closing parenthesis."""
        self.is_broken = False
        self._depth = 0
        """The number of open brackets."""
        self._is_in_string = self._is_escaped = False

    def feed(self, text: str) -> int:
        """Return the number of characters of `text` before the closing parenthesis: all, unless it is reached."""
        position = 0
        while position < len(text) and not self.is_broken:
            if self._is_escaped:
                self._is_escaped = False
                position += 1
                continue
            run = (_STRING_RUN if self._is_in_string else _OUTSIDE_RUN).match(text, position)
            if run is not None and run.end() > position:
                position = run.end()
                continue
            if text[position] == ")" and not self._is_in_string and self._depth == 0:
                self.is_closed = True
                return position
            self._read_sign(text[position])
            position += 1
        return position

    def _read_sign(self, sign: str) -> None:
        """Read a quote, a backslash or a bracket. Any other character is broken, such as a line break in a string."""
        if sign == '"':
            self._is_in_string = not self._is_in_string
        elif self._is_in_string:
            self._is_escaped = sign == "\\"
            self.is_broken = not self._is_escaped
        elif sign in "[{":
            self._depth += 1
            self.is_broken = self._depth > _MAX_DEPTH
        elif sign in "]}" and self._depth > 0:
            self._depth -= 1
        else:
            self.is_broken = True
