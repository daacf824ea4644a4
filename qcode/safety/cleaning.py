"""The one cleaner for foreign text (model, tools, file names, errors, titles) on its way to a terminal.

What it returns cannot move a cursor, set a title, reach the clipboard or reorder what is read. It is for showing only:
what is stored, piped or sent to a model is never cleaned here.
"""

from __future__ import annotations

import re

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
