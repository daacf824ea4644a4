"""The characters of a command: which are ordinary outside quotes, and which could deceive the reader. Pure.

In the locales UTF-8 and C, bash gives a meaning only to ASCII characters, so any other character is part of a word.
Letters, digits and marks of all scripts, some punctuation and pictographs are therefore treated like ASCII letters.
All other characters need approval outside quotes, such as those that look like shell syntax. Invisible characters and
unusual spaces need approval inside quotes too.
"""

from __future__ import annotations

import re
import string
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from qcode.safety.protected_paths import is_invisible
from qcode.safety.shell.ast import UnsupportedSyntax
from qcode.safety.verdict import joined_reasons

BARE = frozenset(string.ascii_letters + string.digits + "_@%+=:,./^-")
"""ASCII characters without a meaning for bash outside quotes."""

_BARE_TEXT = re.compile(r"[\w@%+=:,./^-]+", re.ASCII)
_VISIBLE_ASCII = re.compile(r"[\n\t -~]*")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PUNCTUATION = frozenset("…–—«»·•§¶¡¿°€£¥¢©®™×±№←→、。・「」『』【】")
_DASHES = frozenset("–—")
"""Punctuation that looks like the start of an option at the start of a word: `ls –la`."""
_PICTOGRAPHS = re.compile("[\u2600-\u2757\u2761-\u27bf\U0001f1e6-\U0001f1ff\U0001f300-\U0001f675\U0001f679-\U0001faff]")
"""The blocks of pictographs, without the quotes and bars among them."""
_EMOJI_STYLE = frozenset("\ufe0e\ufe0f")
"""Characters that select how the symbol before them is drawn."""

_LOOKALIKES = {
    char: ascii_char
    for ascii_char, chars in {
        "'": "‘’‚‛′´ʹʻʼʽʾʿˈˊ՚׳Ꞌꞌ",
        '"': "“”„‟″ʺˮ״",
        "`": "ˋ‵",
        "|": "¦ǀ│┃∣❘ㅣ丨",
        "<": "‹〈⟨˂",
        ">": "›〉⟩˃",
        "/": "∕⁄⧸╱〳丿",
        "\\": "∖⧵⧹╲丶",
        "*": "∗⁎✱",
        "-": "‐‑−–—",
        "~": "∼〜˜",
        "#": "♯",
        ":": "ːꓽ",
        ".": "ꓸ",
    }.items()
    for char in chars
}
"""Characters that look like syntax of the shell, besides those that Unicode itself calls compatible (`；`)."""

_URL = re.compile(r"(?:-[^:=]*=)?[A-Za-z][A-Za-z0-9+.-]*://|-[^:=]*[A-Za-z][0-9+.-]*://")
"""A scheme at the start of a word, or in an option: `--url=https://` or `-xhttp://`. In an option without `=`, the
first part also matches all letters of the scheme but the last: two adjacent repetitions of letters take quadratic time.
"""
_NETWORK_PROGRAMS = frozenset({"curl", "wget", "ssh", "ping", "dig", "nslookup", "host", "telnet", "nc", "ftp"})
_COPY_PROGRAMS = frozenset({"scp", "sftp", "rsync"})
_QUOTES = ("'", '"', "`")
_MAX_MARKS = 6  # combining marks on one letter
IS_UTF8 = sys.getfilesystemencoding() == "utf-8"
"""Whether commands are passed to bash in UTF-8. In another encoding, a letter may contain the byte of an operator."""


class DisallowedCharacter(UnsupportedSyntax):
    """A command has the character `char` outside quotes, where it needs approval."""

    def __init__(self, char: str) -> None:
        super().__init__(f"it has {_disallowed_reason(char)}")
        self.char = char


def has_hidden(text: str) -> bool:
    """Return whether a command has an invisible or misleading character, even inside quotes."""
    return _VISIBLE_ASCII.fullmatch(text) is None and any(_hidden_reasons(text))


def is_plain(text: str, index: int) -> bool:
    """Return whether the character at `index`, outside quotes, is read by bash and by people as a part of a word."""
    char = text[index]
    if char.isascii():
        return char in BARE
    if char in _DASHES and (index == 0 or text[index - 1] in " \t\n"):
        return False
    return IS_UTF8 and _is_word_character(char) and not _hidden_reason(text, index)


def is_bare_text(text: str) -> bool:
    """Return whether bash leaves `text` unchanged outside quotes. It has no blank, wildcard, brace, quote or `~`."""
    if text.isascii():
        return _BARE_TEXT.fullmatch(text) is not None
    return all(is_plain(text, index) for index in range(len(text)))


def character_reason(text: str, char: str = "") -> str:
    """Return which characters of a command need approval, in one line. `char` is one of them, if it is known."""
    known = (_disallowed_reason(char),) if char else ()
    return f"it has {joined_reasons((*_hidden_reasons(text), *known, *_disallowed_reasons(text)))}"


def name_of(char: str) -> str:
    """Return a visible character with its code point, another one with its name: `é (U+00E9)`."""
    code = f"U+{ord(char):04X}"
    if char.isprintable() and not (is_invisible(char) or unicodedata.category(char).startswith("M")):
        return f"{char} ({code})"
    name = unicodedata.name(char, "").lower()
    return f"{name} ({code})" if name else code


def names_character(reason: str) -> bool:
    """Return whether a reason names a character by its code point."""
    return "U+" in reason


def foreign_characters(text: str) -> str:
    """Return the characters of a name that are not ASCII, empty if there are none."""
    return ", ".join(name_of(char) for char in dict.fromkeys(text) if not char.isascii())


def foreign_host(program: str, text: str) -> str:
    """Return the host with non-ASCII characters that a word names, empty if there is none.

    Example: `https://exаmple.com` with a Cyrillic `а`. A word of a network program may be a host without a scheme, also
    before a path: `scp HOST:PATH .`.
    """
    if text.isascii():
        return ""
    scheme = _URL.match(text)
    authority = re.split(r"[/?#]", text[scheme.end() :] if scheme else text, maxsplit=1)[0]
    is_remote_path = program in _COPY_PROGRAMS and ":" in authority
    if scheme is None and not is_remote_path and (program not in _NETWORK_PROGRAMS or text.startswith("-")):
        return ""
    host = authority.rpartition("@")[2].partition(":")[0]
    return "" if host.isascii() else host


@lru_cache(maxsize=4_096)
def _is_word_character(char: str) -> bool:
    if char in _PUNCTUATION or char in _EMOJI_STYLE:
        return True
    return (unicodedata.category(char)[0] in "LNM" or _is_pictograph(char)) and not _lookalike(char)


def _is_pictograph(char: str) -> bool:
    return _PICTOGRAPHS.fullmatch(char) is not None and unicodedata.category(char) in ("So", "Sk")


def _lookalike(char: str) -> str:
    """Return the ASCII character of shell syntax that `char` resembles, empty if there is none."""
    compatible = unicodedata.normalize("NFKC", char)
    is_syntax = len(compatible) == 1 and compatible.isascii() and not compatible.isalnum()
    return compatible if is_syntax else _LOOKALIKES.get(char) or _LOOKALIKES.get(compatible, "")


def _hidden_reasons(text: str) -> Iterator[str]:
    """Yield the reason for each character that is invisible or misleading."""
    return filter(None, (_hidden_reason(text, index) for index in range(len(text))))


def _hidden_reason(text: str, index: int) -> str:
    """Return why the character at `index` is invisible or misleading, empty if it is neither."""
    char = text[index]
    if char in "\n\t" or " " <= char <= "~":
        return ""
    category = unicodedata.category(char)
    before = text[index - 1] if index else " "
    if category in _HIDDEN_CATEGORIES:
        return f"the {_HIDDEN_CATEGORIES[category]} U+{ord(char):04X}"
    if category.startswith("Z"):
        return f"{name_of(char)}, which is not an ordinary space"
    if char in _EMOJI_STYLE and unicodedata.category(before) == "So":
        return ""
    if is_invisible(char) or char in _SELECTORS:
        return f"{name_of(char)}, which is invisible"
    if category.startswith("M") and unicodedata.category(before)[0] not in "LNM":
        return f"{name_of(char)} without a letter before it"
    marks = text[max(0, index - _MAX_MARKS) : index + 1]
    if len(marks) > _MAX_MARKS and all(unicodedata.category(mark).startswith("M") for mark in reversed(marks)):
        # A terminal may draw them over other lines.
        return f"more than {_MAX_MARKS} marks on one letter"
    return ""


_HIDDEN_CATEGORIES = {
    "Cc": "control character",
    "Cs": "invalid character",
    "Co": "private character",
    "Cn": "unassigned character",
}
_SELECTORS = frozenset(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


def _disallowed_reasons(text: str) -> Iterator[str]:
    """Yield a reason for each character outside quotes that needs approval."""
    outside = _QUOTED.sub("''", text)
    for index, char in enumerate(outside):
        if not (char.isascii() or is_plain(outside, index) or _hidden_reason(outside, index)):
            yield _disallowed_reason(char)


def _disallowed_reason(char: str) -> str:
    lookalike = _lookalike(char)
    shown = "a quote" if lookalike in _QUOTES else repr(lookalike)
    return f"{name_of(char)} outside quotes{f', which looks like {shown}' if lookalike else ''}"
