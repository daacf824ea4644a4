"""Escaping and cleaning of untrusted text, for example from a model: `visible` for approvals, `clean` otherwise.

`visible` hides nothing, because the user decides by the shown text. Every command, path, argument or diff shown for an
approval passes through it exactly once; a second pass would escape the backslashes of the first. A character without a
glyph becomes a Python escape, a line break `⏎`, a tab `⇥   `. Different texts never look equal, and no text can forge a
line. `clean` removes everything that a terminal would execute: escape sequences, control characters, bidi marks. Text
that is stored, piped or sent to a model is never changed here.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

from qcode.text.json import Json
from qcode.text.pattern import lazy_pattern

LINE_BREAK = "\u23ce"
"""Shown for a line break inside the text."""

_TAB = "\u21e5"
_TAB_SHOWN = _TAB + 3 * " "
_MAX_MARKS = 2
"""Zero-width combining marks shown on one letter. Real text seldom has more, and stacks of them hide other lines."""

_MAX_CLUSTER = 6
"""The maximum number of characters in a letter with all its combining marks; further marks are escaped."""

# Characters without a glyph that Unicode classifies as letters, symbols or marks: fillers, variation selectors.
_BLANK = lazy_pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_EMOJI_PARTS = "\ufe0f\u200d"
"""Variation selector 16 and the zero-width joiner."""
_KEYCAP = "\u20e3"
"""The last character of a keycap, such as `1\ufe0f\u20e3`."""
_OTHER_EMOJI_BASES = "\u203c\u2049\u2139\u3030"
"""Characters with an emoji form that are not symbols in Unicode, such as the letter of an information sign."""
_LIKE_ESCAPE = lazy_pattern(r"\\[xuU]")
"""Text that looks like one of qcode's escapes: its backslash is escaped too."""


def visible(text: str) -> str:
    """Return `text` on one line with everything visible; a trailing blank is escaped."""
    escaped = _escaped(text, _python_escape, is_json=False)
    ends_with_blank = escaped.endswith(" ") and not escaped.endswith(_TAB_SHOWN)
    return f"{escaped[:-1]}\\x20" if ends_with_blank else escaped


def quoted(text: str) -> str:
    """Return `text` in straight double quotes, with everything visible.

    For the names and values in a message that a user, a file or the model wrote.
    """
    return f'"{visible(text)}"'


def visible_lines(text: str) -> str:
    """Return a text of several lines, such as a command: each line break is shown as `⏎` and a line break."""
    return visible(text).replace(LINE_BREAK, f"{LINE_BREAK}\n")


def visible_rows(text: str) -> str:
    """Return rows that qcode laid out, such as a diff or a list: line breaks stay, without a mark.

    Only for text in which no untrusted part can contain a line break, or for prose that no approval depends on.
    """
    return "\n".join(_escaped(row, _python_escape, is_json=False) for row in text.split("\n"))


def visible_json(value: Json) -> str:
    """Return a value as indented JSON; invisible characters in its strings become JSON escapes."""
    rows = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    return "\n".join(_escaped(row, _json_escape, is_json=True) for row in rows)


def ensure_visible(text: str) -> str:
    """Return `text` unchanged if it has no hidden character, otherwise `visible_lines(text)`.

    A second check where an approval is painted: its text should already have passed through one of the functions above.
    """
    is_shown = all(char in ("\n", LINE_BREAK, _TAB) or not _is_hidden(char) for char in text)
    return text if is_shown else visible_lines(text)


def show_hidden(text: str) -> str:
    """Return a line with every character without a glyph as an escape, as in an approval; tabs stay.

    For text that no approval depends on: backslashes and visible text are not changed. A character that only joins or
    styles emoji stays as well, such as the U+FE0F of a warning sign.
    """
    if text.isprintable() and text.isascii():
        return text
    shown: list[str] = []
    for index, char in enumerate(text):
        is_shown = char == "\t" or not _is_hidden(char) or _is_in_emoji(text, index)
        shown.append(char if is_shown else _python_escape(char))
    return "".join(shown)


def _is_in_emoji(text: str, index: int) -> bool:
    """Return whether the character at `index` belongs to an emoji: it chooses a form, joins two emoji, or is a new one.

    An emoji that is newer than the Unicode tables of Python has no category yet. The tags of flags such as that of
    Scotland stay hidden, because they can spell any text.
    """
    char = text[index]
    before, after = text[index - 1 : index], text[index + 1 : index + 2]
    match char:
        case "\ufe0f":
            is_symbol = before != "" and (unicodedata.category(before) in ("So", "Sm") or before in _OTHER_EMOJI_BASES)
            return is_symbol or _is_new_emoji(before) or (after == _KEYCAP and before in tuple("0123456789#*"))
        case "\u200d":
            joins_emoji = before != "" and (before in _EMOJI_PARTS or unicodedata.category(before) in ("So", "Sk"))
            is_before_emoji = after != "" and (unicodedata.category(after) == "So" or _is_new_emoji(after))
            return (joins_emoji or _is_new_emoji(before)) and is_before_emoji
        case "\u20e3":
            return before == "\ufe0f" and _is_in_emoji(text, index - 1)
        case _:
            return _is_new_emoji(char)


def _is_new_emoji(char: str) -> bool:
    """Return whether a character is unassigned in a block that Unicode reserves for emoji."""
    return "\U0001f6d0" <= char <= "\U0001faff" and unicodedata.category(char) == "Cn"


def _escaped(text: str, escape: Callable[[str], str], *, is_json: bool, keeps_emoji: bool = False) -> str:
    """Escape the invisible characters of `text`. If `is_json`, its backslashes are already escaped.

    `keeps_emoji`: the invisible characters of emoji stay.
    """
    if text.isascii() and text.isprintable() and (is_json or _LIKE_ESCAPE.search(text) is None):
        return text
    result: list[str] = []
    cluster = ""  # the letter before and the combining marks shown on it
    for index, char in enumerate(text):
        if char.isascii() and char.isprintable():
            is_escape = char == "\\" and not is_json and text[index + 1 : index + 2] in ("x", "u", "U")
            result.append(escape(char) if is_escape else char)
            cluster = char if char.isalpha() else ""
        elif char in "\n\t" and not is_json:
            result.append(LINE_BREAK if char == "\n" else _TAB_SHOWN)
            cluster = ""
        elif keeps_emoji and _is_in_emoji(text, index):
            result.append(char)
            cluster = ""
        elif _is_hidden(char) or (char in (LINE_BREAK, _TAB) and not is_json):
            result.append(escape(char))
            cluster = ""
        elif unicodedata.category(char)[0] == "M":
            fits = _fits(char, cluster)
            result.append(char if fits else escape(char))
            cluster = cluster + char if fits else ""
        else:
            # Two letters may be equivalent to one, as in Korean: only the normalized spelling is shown unescaped.
            composes = bool(cluster) and not unicodedata.is_normalized("NFC", cluster + char)
            result.append(escape(char) if composes else char)
            cluster = char if char.isalpha() and not composes else ""
    return "".join(result)


def _fits(mark: str, cluster: str) -> bool:
    """Return whether `mark` may be shown unescaped after `cluster`, a letter with the combining marks shown on it.

    A mark is escaped if `cluster` is empty or full, if the mark encloses the letter, or if one character is equivalent
    to both.
    """
    has_room = bool(cluster) and len(cluster) < _MAX_CLUSTER
    is_enclosing = unicodedata.category(mark) == "Me"
    if not has_room or is_enclosing:
        return False
    marks = sum(unicodedata.category(char) == "Mn" for char in cluster)
    return marks < _MAX_MARKS and unicodedata.is_normalized("NFC", cluster + mark)


def _is_hidden(char: str) -> bool:
    """Return whether a character has no distinct glyph: blanks, controls, fillers, and duplicates.

    A duplicate is canonically equivalent to another character: U+037E looks like a semicolon but is not one.
    """
    if char.isascii():
        return not char.isprintable()
    return not char.isprintable() or _BLANK.match(char) is not None or not unicodedata.is_normalized("NFC", char)


def _python_escape(char: str) -> str:
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


_C0 = r"\x00-\x08\x0b-\x1f\x7f"
_C1 = r"\x80-\x9f"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SURROGATES = "\ud800-\udfff"

_UNWANTED = lazy_pattern(f"[{_C0}{_C1}{_BIDI}{_SURROGATES}]")

# Escape sequences of ECMA-48. A terminal consumes a string (OSC, DCS, SOS, PM, APC) up to its terminator. Without
# a terminator, only the line is removed to its end, so that a stray introducer cannot hide all later text.
_SEQUENCE = lazy_pattern(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x18\x1a\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)


def clean(text: str) -> str:
    """Return `text` without anything that a terminal would execute; newline and tab stay, CRLF becomes LF.

    Removes escape sequences (terminated or not), C0 and C1 controls, DEL, bidi controls and surrogates. Idempotent. If
    a sequence is split between two calls, its second half remains as harmless characters.
    """
    if text.isprintable() or _UNWANTED.search(text) is None:  # most lines need no pattern
        return text
    return _UNWANTED.sub("", _SEQUENCE.sub("", text))


_BREAK_MARKS = str.maketrans({"\n": "⏎", "\t": "⇥"})


def one_line(text: str, limit: int = 400) -> str:
    """Return cleaned `text` on one line of at most `limit` characters, with marks for line breaks and tabs."""
    return cut(clean(text.strip()).translate(_BREAK_MARKS), limit)


def visible_line(text: str, limit: int = 400) -> str:
    """Return cleaned `text` as `visible` does, in at most `limit` characters.

    Not `visible(one_line(text))`: that would escape the marks of line breaks, as if the text contained them.
    """
    return cut(visible(clean(text.strip())), limit)


def quoted_line(text: str, limit: int = 400) -> str:
    """Return `visible_line` in straight double quotes."""
    return f'"{visible_line(text, limit)}"'


def single_spaced(text: str, limit: int | None = None) -> str:
    """Return cleaned `text` on one line, of at most `limit` characters, each run of white space as one space."""
    if limit is None:
        return " ".join(clean(text).split())
    # Only the start that can be shown is cleaned: an error may contain a web page of several megabytes.
    return cut(single_spaced(text[: 8 * limit]), limit)


_FENCE = lazy_pattern(r"\s*(?:```|~~~)")
_BLOCK_MARK = lazy_pattern(r"\s*+(?:#{1,6} |>++ ?|[-*+] (?=\S))++")
_CODE_SPAN = lazy_pattern(r"``((?:[^`]|`(?!`))+)``|`([^`]+)`")
_INLINE_MARKS = (
    (lazy_pattern(r"!?\[([^\[\]\n]*+)\]\([^()\s]*+\)"), r"\1"),
    (lazy_pattern(r"(?<![0-9A-Za-z_*])(\*{2,3})(?=[^\s*])(.*?[^\s*/])\1(?![0-9A-Za-z_*/])"), r"\2"),
    (lazy_pattern(r"(?<![0-9A-Za-z_*/])\*(?=\w)([^*]*?[^\s*])\*(?![0-9A-Za-z_*/])"), r"\1"),
)


def plain_line(text: str, limit: int) -> str:
    """Return Markdown as one line of text of at most `limit` characters: a prompt or reply in a list.

    Marks of headings, lists, quotes, code, bold and links are dropped; the lines of a code block are unchanged.
    `## The **plan**` becomes `The plan`, and `a * b` and `__init__` stay.
    """
    lines: list[str] = []
    is_code = False
    for line in clean(text[: 8 * limit]).split("\n"):
        if _FENCE.match(line):
            is_code = not is_code
        else:
            lines.append(line if is_code else _without_marks(line))
    return single_spaced("\n".join(lines), limit) or single_spaced(text, limit)


def _without_marks(line: str) -> str:
    """Return a line of Markdown without its marks; the content of code spans is unchanged."""
    mark = _BLOCK_MARK.match(line)
    line = line[mark.end() :] if mark is not None else line
    # A NUL stands for each code span, so that the marks in code stay: cleaned text has no other NUL.
    codes = [match[1] or match[2] for match in _CODE_SPAN.finditer(line)]
    line = _CODE_SPAN.sub("\0", line)
    for pattern, replacement in _INLINE_MARKS:
        line = pattern.sub(replacement, line)
    for code in codes:
        line = line.replace("\0", code, 1)
    return line


def shown_line(text: str, limit: int = 400) -> str:
    """Return `text` on one line of at most `limit` characters, with everything visible.

    For commands that ran or may run; `one_line` drops invisible characters instead.
    """
    return cut(visible(text.strip()), limit)


def title_line(text: str, limit: int = 400) -> str:
    """Return `text` as `shown_line` does, but with emoji as they are, for a title that no approval depends on."""
    return cut(_escaped(text.strip(), _python_escape, is_json=False, keeps_emoji=True), limit)


def cut(line: str, limit: int) -> str:
    """Return `line` in at most `limit` characters, with an ellipsis if it was cut."""
    return line if len(line) <= limit else line[: limit - 1] + "…"


def first_chars(text: str, limit: int, detail: str = "") -> str:
    """Return the first `limit` characters of a text, with the number of the others, and `detail` about them."""
    return text if len(text) <= limit else text[:limit] + more_chars(len(text) - limit, detail)


def more_chars(count: int, detail: str = "") -> str:
    """Return the mark at the end of a text that was cut."""
    return f"… [{count:,} more characters{detail}]"


def omit_middle(text: str, limit: int) -> str:
    """Return `text`, with its middle omitted if it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = max(limit // 2 - 30, 1)
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters omitted ...]\n{text[-half:]}"
