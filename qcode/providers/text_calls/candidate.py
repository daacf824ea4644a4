"""Follows one candidate for a call to its end, in pieces of text of any size; each character is read once. Pure.

It holds everything after the opening mark. The outcome is in `state`; the caller takes it out of the text or puts it
back, and `forms` reads the calls. `JsonScanner` follows one JSON object or list to its last bracket. It detects early
that text is not JSON (a line break inside a string, a word instead of a comma), so that nothing waits for an end that
cannot come. Whether a closed value is valid is for the strict parser to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from qcode.protocol.tools import ToolSpec
from qcode.providers.text_calls import forms
from qcode.providers.text_calls.forms import (
    CALL_KEYS,
    END_FUNCTION,
    END_PARAMETER,
    FUNCTION,
    MISTRAL_ARGUMENTS,
    PARAMETER,
    Form,
    WrittenCall,
    opens_call,
)
from qcode.values import dataclass

State: TypeAlias = Literal["open", "closed", "broken", "strange"]

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[\w.\-]{1,128}")
_PARAMETER_NAME = re.compile(r"[^<>\n]{1,128}")
_SEPARATOR = re.compile(r";[ \t\r\n]{0,32}")


@dataclass(slots=True)
class _Function:
    """A function of the tag forms: its arguments are JSON from `start` to `end`, or parameters by their places."""

    name: str
    parameters: list[tuple[str, int, int]] = field(default_factory=list)
    json: tuple[int, int] | None = None


class Candidate:
    """`opener` is the mark it began with. `state`: still `open`; `closed`, up to `end`; `broken`: it began like a
    call and is none; `strange`: it did not even begin like one.
    """

    def __init__(self, form: Form, opener: str) -> None:
        self.form = form
        self.opener = opener
        self.state: State = "open"
        self.end = 0
        self.size = 0
        self._held: list[str] = []
        self._rest = ""
        self._items: list[tuple[int, int] | _Function] = []
        self._scanner = JsonScanner()
        self._item_start = 0
        self._function: _Function | None = None
        self._parameter = ("", 0, 0)
        self._has_begun = False
        self._step: Callable[[], bool] = self._read_name if form.name == "function" else self._read_head

    @property
    def body(self) -> str:
        """All that came behind the opening mark."""
        self._held[:] = ["".join(self._held)]
        return self._held[0] + self._rest

    def feed(self, text: str) -> None:
        """Take more text; everything is held, also what turns out not to belong to it."""
        self._rest += text
        while self.state == "open" and self._step():
            pass

    def finish(self) -> None:
        """The reply has ended: a candidate that lacks nothing but its end is closed."""
        function = self._function
        if self._step == self._read_function_end and function is not None:
            self._end_item(function)
        if self._step == self._read_tail:
            self.state = "closed"
            if self._rest and any(end.startswith(self._rest) for end in self.form.ends):
                self.end = self.size + len(self._rest)

    def calls(self, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
        """Return the calls of a closed candidate; raise `UnreadableError`."""
        body = self.body
        return [call for item in self._items for call in self._read(item, body, tools)]

    def cut_calls(self, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
        """Return the calls of one that the output limit cut: whole ones, then the incomplete one."""
        calls = self.calls(tools)
        body, function = self.body, self._function
        if self._step == self._read_json:
            inside = body[self._item_start :]
            if function is None:
                return [*calls, *forms.read_cut_json(inside, tools)]
            forms.read_function(function.name, None, tools)
            return [*calls, WrittenCall(function.name, inside, is_complete=False)]
        if function is None:
            return [*calls, WrittenCall(forms.NO_NAME, "", is_complete=False)]
        forms.read_function(function.name, None, tools)
        given = [(name, body[start:end]) for name, start, end in function.parameters]
        name, start, end = self._parameter
        if self._step == self._read_after_value:
            given, name = [*given, (name, body[start:end])], ""
        elif self._step != self._read_value:
            name = ""
        return [*calls, forms.cut_parameters(function.name, given, name, body[start:], tools)]

    @property
    def is_attempt(self) -> bool:
        """It is meant as a call: its mark says so, or it has a name and arguments."""
        keys = set(self._scanner.keys)
        return self.form.is_marked or (
            "name" in keys and keys <= CALL_KEYS and bool(keys & {"arguments", "parameters"})
        )

    def _read(self, item: tuple[int, int] | _Function, body: str, tools: Mapping[str, ToolSpec]) -> list[WrittenCall]:
        if not isinstance(item, _Function):
            return forms.read_json(body[item[0] : item[1]], tools, needs_arguments=not self.form.is_marked)
        if item.json is not None:
            return [forms.read_function(item.name, forms.parse(body[item.json[0] : item.json[1]]), tools)]
        given = [(name, body[start:end]) for name, start, end in item.parameters]
        return [forms.read_parameters(item.name, given, tools)[0]]

    # Steps: each reads on from `_rest` and says whether there is more to do now

    def _take(self, count: int) -> None:
        self._held.append(self._rest[:count])
        self._rest = self._rest[count:]
        self.size += count

    def _skip_space(self) -> bool:
        """Move over white space; say whether anything follows."""
        space = _SPACE.match(self._rest)
        self._take(space.end() if space else 0)
        return bool(self._rest)

    def _give_up(self) -> bool:
        self.state = "broken" if self._has_begun else "strange"
        return False

    def _follows(self, mark: str) -> bool | None:
        """Say whether `mark` comes next; None where more text has to tell."""
        if self._rest.startswith(mark):
            return True
        return None if mark.startswith(self._rest) else False

    def _read_head(self) -> bool:
        if not self._skip_space():
            return False
        if self._rest[0] in "{[":
            return self._begin_json()
        if self.form.name == "tag":
            return self._begin_function()
        if self.form.name == "mistral":
            self._step = self._read_name
            return True
        return self._give_up()

    def _begin_json(self) -> bool:
        self._has_begun = True
        self._scanner = JsonScanner()
        self._item_start = self.size
        self._step = self._read_json
        return True

    def _begin_function(self) -> bool:
        follows = self._follows(FUNCTION)
        if follows:
            self._take(len(FUNCTION))
            self._step = self._read_name
            return True
        return self._give_up() if follows is False else False

    def _read_json(self) -> bool:
        self._take(self._scanner.feed(self._rest))
        if self._scanner.is_broken or not (self.form.is_marked or CALL_KEYS.issuperset(self._scanner.keys)):
            return self._give_up()
        if not self._scanner.is_closed:
            return False
        place = (self._item_start, self.size)
        if self._function is None:
            self._end_item(place)
        else:
            self._function.json = place
            self._step = self._end_mistral if self.form.name == "mistral" else self._read_function_end
        return True

    def _end_item(self, item: tuple[int, int] | _Function) -> None:
        self._items.append(item)
        self._function = None
        self.end = self.size
        self._step = self._read_tail

    def _read_name(self) -> bool:
        """Read a function's name, up to `>`, or to the arguments in Mistral's form."""
        found = _NAME.match(self._rest)
        length = found.end() if found else 0
        if length == len(self._rest):
            return False
        behind = self._rest[length:]
        if self.form.name == "mistral":
            if not behind.startswith("{") and not behind.startswith(MISTRAL_ARGUMENTS):
                return False if MISTRAL_ARGUMENTS.startswith(behind) and length else self._give_up()
            end = length + (0 if behind.startswith("{") else len(MISTRAL_ARGUMENTS))
        else:
            end = length + 1
        if not length or (self.form.name != "mistral" and behind[0] != ">"):
            return self._give_up()
        self._function = _Function(self._rest[:length])
        self._take(end)
        self._step = self._read_arguments
        return True

    def _read_arguments(self) -> bool:
        """Read what follows a function's name: JSON, parameters, or its end at once."""
        if not self._skip_space():
            return False
        if self._rest[0] == "{":
            return self._begin_json()
        if self.form.name == "mistral":
            return self._give_up()
        self._step = self._read_parameters
        return True

    def _read_parameters(self) -> bool:
        """Stand between two parameters: another one, or the end of the function."""
        if not self._skip_space():
            return False
        begins, ends = self._follows(PARAMETER), self._follows(END_FUNCTION)
        if begins:
            self._has_begun = True
            self._take(len(PARAMETER))
            self._step = self._read_parameter_name
            return True
        if ends:
            self._step = self._read_function_end
            return True
        return self._give_up() if begins is False and ends is False else False

    def _read_parameter_name(self) -> bool:
        found = _PARAMETER_NAME.match(self._rest)
        length = found.end() if found else 0
        if length == len(self._rest):
            return False
        if not length or self._rest[length] != ">":
            return self._give_up()
        name = self._rest[:length].strip()
        self._take(length + 1)
        self._parameter = (name, self.size, self.size)
        self._step = self._read_value
        return True

    def _read_value(self) -> bool:
        name, start, _ = self._parameter
        at = self._rest.find(END_PARAMETER)
        if at < 0:
            self._take(max(0, len(self._rest) - len(END_PARAMETER) + 1))
            return False
        self._parameter = (name, start, self.size + at)
        self._take(at + len(END_PARAMETER))
        self._step = self._read_after_value
        return True

    def _read_after_value(self) -> bool:
        """A value has ended only where another parameter or the function's end follows; its text may hold the tag."""
        if not self._skip_space():
            return False
        begins, ends = self._follows(PARAMETER), self._follows(END_FUNCTION)
        if begins or ends:
            assert self._function is not None
            self._function.parameters.append(self._parameter)
            self._step = self._read_parameters
            return True
        if begins is False and ends is False:
            self._step = self._read_value
            return True
        return False

    def _read_function_end(self) -> bool:
        if not self._skip_space():
            return False
        follows = self._follows(END_FUNCTION)
        if follows:
            assert self._function is not None
            self._has_begun = True
            self._take(len(END_FUNCTION))
            self._end_item(self._function)
            return True
        return self._give_up() if follows is False else False

    def _end_mistral(self) -> bool:
        assert self._function is not None
        self._end_item(self._function)
        return True

    def _read_tail(self) -> bool:
        """Stand behind a whole call: its end, another one in the same mark, or something else."""
        if not self._skip_space():
            return False
        follows = [self._follows(end) for end in self.form.ends]
        if True in follows:
            self._take(len(self.form.ends[follows.index(True)]))
            self.end, self.state = self.size, "closed"
            return False
        another = self._another()
        if another:
            return True
        begins = opens_call(self._rest)
        if begins:
            self.state = "closed"
        elif another is None or begins is None or None in follows:
            return False
        elif self.form.needs_end:
            return self._give_up()
        self.state = "closed"
        return False

    def _another(self) -> bool | None:
        """Begin another call in the same mark, if one comes next; None where more text has to tell."""
        match self.form.name:
            case "tag" if self._rest[0] in "{[":
                return self._begin_json()
            case "tag" if self._rest.startswith(FUNCTION):
                return self._begin_function()
            case "llama" if self._rest[0] == ";":
                between = _SEPARATOR.match(self._rest)
                length = between.end() if between else 0
                if length == len(self._rest):
                    return None
                if self._rest[length] == "{":
                    self._take(length)
                    return self._begin_json()
        return False


_Expected: TypeAlias = Literal["value", "value or end", "key", "key or end", "colon", "comma or end"]

_STRING_RUN = re.compile(r'[^"\\\x00-\x1f]*')
_ATOM_RUN = re.compile(r"[-+.0-9A-Za-z]+")
_ATOM = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_ESCAPED = '"\\/bfnrtu'
_MAX_DEPTH = 200
_MAX_ATOM = 400


class JsonScanner:
    """Fed from the opening bracket on.

    `keys` are those of the outermost object, or of the objects in the outermost list, without their escapes.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self.is_broken = False
        self.keys: list[str] = []
        self._stack: list[str] = []
        self._expected: _Expected = "value"
        self._is_in_string = self._is_escaped = self._is_key = False
        self._word = ""

    def feed(self, text: str) -> int:
        """Return how many characters of `text` belong to the value: all, unless it closed or broke in them."""
        at = 0
        while at < len(text) and not self.is_closed and not self.is_broken:
            at = self._read_string(text, at) if self._is_in_string else self._read_structure(text, at)
        return at

    def _read_string(self, text: str, at: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            self.is_broken = text[at] not in _ESCAPED
            return at + (not self.is_broken)
        run = _STRING_RUN.match(text, at)
        end = run.end() if run else at
        if self._is_key and len(self._word) < _MAX_ATOM:
            self._word += text[at:end]
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
            self._expected = "comma or end"
            return
        if len(self._stack) == (1 if self._stack[0] == "{" else 2):
            self.keys.append(self._word)
        self._word, self._is_key, self._expected = "", False, "colon"

    def _read_structure(self, text: str, at: int) -> int:
        atom = _ATOM_RUN.match(text, at)
        if atom:
            if self._word == "" and self._expected not in ("value", "value or end"):
                self.is_broken = True
                return at
            self._word += atom.group()
            self.is_broken = len(self._word) > _MAX_ATOM
            return atom.end()
        if self._word:
            self.is_broken = not self._stack or _ATOM.fullmatch(self._word) is None
            self._word, self._expected = "", "comma or end"
            return at
        space = _SPACE.match(text, at)
        if space and space.end() > at:
            return space.end()
        self._read_mark(text[at])
        return at + (not self.is_broken)

    def _read_mark(self, mark: str) -> None:
        expected = self._expected
        if mark in "{[" and expected in ("value", "value or end"):
            self._stack.append(mark)
            self._expected = "key or end" if mark == "{" else "value or end"
            self.is_broken = len(self._stack) > _MAX_DEPTH
        elif mark == '"' and self._stack and expected in ("value", "value or end", "key", "key or end"):
            self._is_in_string = True
            self._is_key = expected.startswith("key")
        elif mark == ":" and expected == "colon":
            self._expected = "value"
        elif mark == "," and expected == "comma or end":
            self._expected = "key" if self._stack[-1] == "{" else "value"
        elif mark in "}]" and expected.endswith("or end") and self._stack[-1] == ("{" if mark == "}" else "["):
            self._stack.pop()
            self._expected = "comma or end"
            self.is_closed = not self._stack
        else:
            self.is_broken = True
