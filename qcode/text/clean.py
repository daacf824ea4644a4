"""Foreign text (of a model, a tool, a file) made safe to show: `visible` for decisions, `clean` for all the rest.

`visible` hides nothing, because what is approved and what runs are compared by eye. Every command, path, argument or
diff that is shown for a decision passes through it exactly once: a second pass escapes the backslashes of the first.
A character without a glyph becomes a Python escape, a line break `⏎`, a tab `⇥   `; two different texts are never
shown equal, and no text forges a line. `clean` removes what a terminal would act on: escape sequences, controls,
bidi marks. Only for showing: what is stored, piped or sent to a model is never changed here.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable

from qcode.text.json import Json

LINE_BREAK = "\u23ce"
"""Stands for a line break of the text itself."""

_TAB = "\u21e5"
_TAB_SHOWN = _TAB + 3 * " "
_MAX_MARKS = 2
"""Marks without a width of their own that are shown on one letter. Writing seldom needs more; stacks cover words."""

_MAX_CLUSTER = 6

# Characters without a glyph that Unicode counts as letters, symbols or marks: fillers, blanks, variation selectors.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
_LIKE_ESCAPE = re.compile(r"\\[xuU]")


def visible(text: str) -> str:
    """Return `text` on one line; a blank at its end is escaped."""
    shown = _escaped(text, _python_escape, is_quoted=False)
    return f"{shown[:-1]}\\x20" if shown.endswith(" ") and not shown.endswith(_TAB_SHOWN) else shown


def visible_lines(text: str) -> str:
    """Return a text of several lines, such as a command: each line break of it is `⏎` and a real line break."""
    return visible(text).replace(LINE_BREAK, f"{LINE_BREAK}\n")


def visible_rows(text: str) -> str:
    """Return rows that qcode laid out, such as a diff or a list: real line breaks stay, and have no mark.

    Only for text in which no foreign part can hold a line break, or for prose that decides nothing.
    """
    return "\n".join(_escaped(row, _python_escape, is_quoted=False) for row in text.split("\n"))


def visible_json(value: Json) -> str:
    """Return a value as indented JSON; what cannot be seen in its strings is escaped as JSON escapes it."""
    rows = json.dumps(value, indent=2, ensure_ascii=False).split("\n")
    return "\n".join(_escaped(row, _json_escape, is_quoted=True) for row in rows)


def ensure_visible(text: str) -> str:
    """Return text that was made visible before as it is, and any other as `visible_lines` does.

    The last line of defence of what paints a question; the text itself comes from the functions above.
    """
    is_shown = all(char in ("\n", LINE_BREAK, _TAB) or not _is_hidden(char) for char in text)
    return text if is_shown else visible_lines(text)


def _escaped(text: str, escape: Callable[[str], str], *, is_quoted: bool) -> str:
    """Escape what cannot be seen in `text`. `is_quoted`: it is JSON, in which backslashes are escaped already."""
    if text.isascii() and text.isprintable() and (is_quoted or _LIKE_ESCAPE.search(text) is None):
        return text
    shown: list[str] = []
    cluster = ""  # the letter before, with the marks on it, as long as they are shown
    for place, char in enumerate(text):
        if char.isascii() and char.isprintable():
            is_escape = char == "\\" and not is_quoted and text[place + 1 : place + 2] in ("x", "u", "U")
            shown.append(escape(char) if is_escape else char)
            cluster = char if char.isalpha() else ""
        elif char in "\n\t" and not is_quoted:
            shown.append(LINE_BREAK if char == "\n" else _TAB_SHOWN)
            cluster = ""
        elif _is_hidden(char) or (char in (LINE_BREAK, _TAB) and not is_quoted):
            shown.append(escape(char))
            cluster = ""
        elif unicodedata.category(char)[0] == "M":
            fits = _fits(char, cluster)
            shown.append(char if fits else escape(char))
            cluster = cluster + char if fits else ""
        else:
            # Two letters may be the same as one, as those of Korean are: only one spelling is shown as it is.
            is_same = bool(cluster) and not unicodedata.is_normalized("NFC", cluster + char)
            shown.append(escape(char) if is_same else char)
            cluster = char if char.isalpha() and not is_same else ""
    return "".join(shown)


def _fits(mark: str, cluster: str) -> bool:
    """Whether a combining mark is shown on the letter and marks before it: few, and not the same as another letter."""
    if not 0 < len(cluster) < _MAX_CLUSTER or unicodedata.category(mark) == "Me":
        return False
    marks = sum(unicodedata.category(char) == "Mn" for char in cluster)
    return marks < _MAX_MARKS and unicodedata.is_normalized("NFC", cluster + mark)


def _is_hidden(char: str) -> bool:
    """Whether a character has no glyph of its own: blanks, controls, fillers, and doubles of other characters.

    A double is what Unicode defines as the same as another character: U+037E looks like a semicolon and is none.
    """
    if char.isascii():
        return not char.isprintable()
    return not char.isprintable() or _BLANK.match(char) is not None or not unicodedata.is_normalized("NFC", char)


def _python_escape(char: str) -> str:
    point = ord(char)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]


_C0 = r"\x00-\x08\x0b-\x1f\x7f"
_C1 = r"\x80-\x9f"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SURROGATES = "\ud800-\udfff"

_UNWANTED = re.compile(f"[{_C0}{_C1}{_BIDI}{_SURROGATES}]")

# Sequences as in ECMA-48. A terminal swallows a string (OSC, DCS, SOS, PM, APC) up to its terminator; one that has none
# is taken to the end of its line only, so that a stray introducer cannot hide the rest of a text.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x18\x1a\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)


def clean(text: str) -> str:
    """Return `text` without anything a terminal would act on; newline and tab stay, CRLF becomes LF.

    Removed: escape sequences (terminated or not), C0 and C1 controls, DEL, bidi controls, surrogates. Applying it
    twice changes nothing more. A sequence split between two calls leaves its harmless rest as plain characters.
    """
    if _UNWANTED.search(text) is None:
        return text
    return _UNWANTED.sub("", _SEQUENCE.sub("", text))


_BREAK_MARKS = str.maketrans({"\n": "⏎", "\t": "⇥"})


def one_line(text: str, limit: int = 400) -> str:
    """Return cleaned `text` on one line of at most `limit` characters, breaks shown as marks."""
    return cut(clean(text.strip()).translate(_BREAK_MARKS), limit)


def single_spaced(text: str) -> str:
    """Return cleaned `text` on one line, each run of white space as one space."""
    return " ".join(clean(text).split())


def shown_line(text: str, limit: int = 400) -> str:
    """Return `text` on one line of at most `limit` characters, with nothing in it invisible.

    For what ran or may run; `one_line` leaves out what cannot be seen.
    """
    return cut(visible(text.strip()), limit)


def cut(line: str, limit: int) -> str:
    """Return `line` in at most `limit` characters, with an ellipsis if something was left out."""
    return line if len(line) <= limit else line[: limit - 1] + "…"
