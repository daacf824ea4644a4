"""The grammar of normal and visual mode: parses keys into a command. Pure.

`["\\"", "a", "2", "d", "3", "w"]` is `VimCommand("w", operator="d", count=6, register="a")`. Short commands become
their operator and motion: `x` becomes `dl`.
"""

from __future__ import annotations

from collections.abc import Sequence

from qcode.tui.prompt.vim.objects import OBJECTS
from qcode.values import dataclass

LINES = "lines"
"""The motion of a doubled operator, such as `dd`."""

SELECTION = "selection"
"""The motion of an operator on the selection of visual mode."""

_OPERATORS = frozenset({"d", "c", "y", ">", "<", "gu", "gU", "g~"})
_PLAIN_MOTIONS = frozenset({
    "h", "j", "k", "l", "w", "b", "e", "W", "B", "E", "0", "^", "_", "$", "gg", "ge", "gE", "G", "{", "}", "%", ";",
    ",", "+", "-",
})  # fmt: skip
_FINDS = frozenset("fFtT")
_ACTIONS = frozenset({"i", "a", "I", "A", "o", "O", "p", "P", "J", "~", "u", "ctrl+r", ".", "v", "V", "gv"})
_SHORT_COMMANDS = {
    "x": ("d", "l"),
    "X": ("d", "h"),
    "D": ("d", "$"),
    "C": ("c", "$"),
    "Y": ("y", LINES),
    "s": ("c", "l"),
    "S": ("c", LINES),
}
"""Commands of one key, with the operator and the motion for which they are short."""
_VISUAL_OPERATORS = {
    "d": "d", "x": "d", "c": "c", "s": "c", "y": "y", ">": ">", "<": "<", "u": "gu", "U": "gU", "~": "g~", "gu": "gu",
    "gU": "gU", "g~": "g~", "J": "J", "p": "p", "P": "P",
}  # fmt: skip
"""Keys of visual mode, with the operator that they perform on the selection."""
_VISUAL_LINE_OPERATORS = {"D": "d", "X": "d", "C": "c", "S": "c", "R": "c", "Y": "y"}
"""The same for keys that take the whole lines of the selection."""
_KEY_ALIASES = {
    "left": "h",
    "right": "l",
    "up": "k",
    "down": "j",
    "space": "l",
    " ": "l",
    "backspace": "h",
    "home": "0",
    "end": "$",
    "delete": "x",
}
"""Keys that mean the same as another key."""
_MAX_COUNT = 9_999

VIM_KEYS: tuple[tuple[str, str], ...] = (
    ("Esc", "Enter normal mode; in normal mode, cancel an unfinished command, otherwise interrupt the turn."),
    (
        "i a I A o O",
        "Type before or after the cursor, at the start or end of the line, or on a new line below or above.",
    ),
    ("v V", "Select characters or lines; o goes to the other end, gv selects again."),
    ("h j k l", "Move left, down, up, right; j on the last line and k on the first one recall prompts."),
    ("w b e ge, W B E gE", "Move by words, or by words between spaces."),
    (
        "0 ^ _ $, gg G, + -",
        "Move to the start, first character or end of the line; to the first or last line; a line down or up.",
    ),
    ("f F t T, ; ,", "Move to a character in the line, or right before it; repeat that, or repeat it backwards."),
    ("{ } %", "Move by paragraphs; move to the matching bracket."),
    (
        "d c y",
        "Delete, change or yank what a motion, a text object or the selection covers; doubled (dd), whole lines.",
    ),
    ("> < gu gU g~", "Indent, outdent, make lower case, make upper case or swap case, in the same way."),
    ("x X D C Y s S", "Short forms of dl dh d$ c$ yy cl cc."),
    (
        "iw aw, iW aW, ip ap",
        "Text objects: a word, a word between spaces, a paragraph; aw, aW and ap include the space around it.",
    ),
    (
        "i\" i' i`, i( i[ i{ i<, ib iB",
        "Text objects: the text between quotes or brackets; a instead of i (ab, aB) includes them.",
    ),
    ("p P", "Put after or before the cursor, or over a selection."),
    ("r ~ J", "Replace a character, swap its case, join lines."),
    (".", "Repeat the last change, with the text that was typed."),
    ("u, Ctrl+R", "Undo, redo."),
    ("2 10 …", "Repeat the command, operator or motion that follows this many times."),
    ('"a … "z, "0, "_', "Use this register for the next delete, yank or put; a capital letter appends to it."),
)
"""Keys of vim mode and their effects. The app's key list and the documentation are generated from it."""


@dataclass(frozen=True, slots=True)
class VimCommand:
    """A complete command."""

    name: str
    """A motion, a text object such as `iw`, or an action."""
    operator: str = ""
    """The operator that works on the range of the motion or text object; empty for none."""
    count: int | None = None
    """The typed count, None without one."""
    register: str = ""
    """The name of the register, empty for the unnamed one."""
    argument: str = ""
    """The character after `f` or `r`."""
    is_linewise: bool = False
    """An operator of visual mode takes the whole lines of the selection."""


class InvalidKeysError(ValueError):
    """The keys are not, and cannot become, a command."""


class _Keys:
    """The keys of a command, read one by one. Its methods return None if the command needs more keys."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._index = 0

    def next_key(self) -> str | None:
        if self._index == len(self._keys):
            return None
        self._index += 1
        return self._keys[self._index - 1]

    def next_name(self) -> str | None:
        """Return the next command name: a key, or `g` together with the key after it."""
        key = self.next_key()
        if key != "g":
            return None if key is None else _KEY_ALIASES.get(key, key)
        after = self.next_key()
        return None if after is None else f"g{after}"

    def next_count(self) -> int | None:
        """Read the digits of a count; return None if there are none. A `0` at the start is a motion, not a count."""
        number: int | None = None
        while self._index < len(self._keys):
            key = self._keys[self._index]
            if not (key.isascii() and key.isdecimal()) or (key == "0" and number is None):
                break
            number = min((number or 0) * 10 + int(key), _MAX_COUNT)
            self._index += 1
        return number


def parse(keys: Sequence[str], *, is_visual: bool) -> VimCommand | None:
    """Return the command, None if it needs more keys; raise `InvalidKeysError` if no command begins with `keys`."""
    reader = _Keys(keys)
    count = reader.next_count()
    register = ""
    name = reader.next_name()
    while name == '"':  # the key after it names a register
        key = reader.next_key()
        if key is None:
            return None
        is_letter = key.isascii() and key.isalpha() and len(key) == 1
        if key not in '"_0' and not is_letter:
            raise InvalidKeysError(key)
        register = key
        count = _product(count, reader.next_count())
        name = reader.next_name()
    if name is None:
        return None
    if is_visual:
        return _visual_command(reader, name, count, register)
    if name in _SHORT_COMMANDS:
        operator, motion = _SHORT_COMMANDS[name]
        return VimCommand(motion, operator, count, register)
    if name not in _OPERATORS:
        return _simple_command(reader, name, count, register)
    return _operator_command(reader, name, count, register)


def _product(count: int | None, other: int | None) -> int | None:
    """Return the count of a command with two counts: `2d3w` deletes 6 words."""
    if count is None or other is None:
        return count if other is None else other
    return min(count * other, _MAX_COUNT)


def _operator_command(reader: _Keys, operator: str, count: int | None, register: str) -> VimCommand | None:
    count = _product(count, reader.next_count())
    name = reader.next_name()
    if name is None:
        return None
    if name in (operator, operator[1:], "_"):  # `dd`, `guu` for `gugu`, `d_`
        return VimCommand(LINES, operator, count, register)
    if name in _FINDS:
        argument = reader.next_key()
        return None if argument is None else VimCommand(name, operator, count, register, _character(argument))
    if name in ("i", "a"):
        return _object_command(reader, name, operator, count, register)
    if name in _PLAIN_MOTIONS:
        return VimCommand(name, operator, count, register)
    raise InvalidKeysError(name)


def _object_command(reader: _Keys, prefix: str, operator: str, count: int | None, register: str) -> VimCommand | None:
    name = reader.next_key()
    if name is None:
        return None
    if name not in OBJECTS:
        raise InvalidKeysError(name)
    return VimCommand(prefix + name, operator, count, register)


def _simple_command(reader: _Keys, name: str, count: int | None, register: str) -> VimCommand | None:
    if name in _FINDS or name == "r":
        argument = reader.next_key()
        if argument is None:
            return None
        return VimCommand(name, count=count, register=register, argument=_character(argument))
    if name in _PLAIN_MOTIONS or name in _ACTIONS:
        return VimCommand(name, count=count, register=register)
    raise InvalidKeysError(name)


def _visual_command(reader: _Keys, name: str, count: int | None, register: str) -> VimCommand | None:
    if name in _VISUAL_OPERATORS:
        return VimCommand(SELECTION, _VISUAL_OPERATORS[name], count, register)
    if name in _VISUAL_LINE_OPERATORS:
        return VimCommand(SELECTION, _VISUAL_LINE_OPERATORS[name], count, register, is_linewise=True)
    if name == "r":
        argument = reader.next_key()
        return None if argument is None else VimCommand(SELECTION, "r", count, register, _character(argument))
    if name in ("i", "a"):
        return _object_command(reader, name, "", count, register)
    if name in ("o", "O"):
        return VimCommand("o")
    if name in ("v", "V", "gv") or name in _PLAIN_MOTIONS or name in _FINDS:
        return _simple_command(reader, name, count, register)
    raise InvalidKeysError(name)


def _character(key: str) -> str:
    """Return the character that a key types; raise `InvalidKeysError` for a key that types none."""
    character = {"space": " ", "tab": "\t", "enter": "\n"}.get(key, key)
    if len(character) != 1:
        raise InvalidKeysError(key)
    return character
