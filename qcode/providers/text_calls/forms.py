"""The ways in which models write a call as text, and finding where one may begin. Pure data and patterns.

Sources: the chat templates that models are published with (Qwen and Hermes, Qwen-Coder, Llama 3, Mistral).
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from qcode.protocol.values import dataclass

FormName: TypeAlias = Literal["tag", "function", "llama", "mistral", "fence"]

TAG, END_TAG = "<tool_call>", "</tool_call>"
FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER, END_PARAMETER = "<parameter=", "</parameter>"
LLAMA, LLAMA_ENDS = "<|python_tag|>", ("<|eom_id|>", "<|eot_id|>")
MISTRAL, MISTRAL_ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"

CALL_KEYS = frozenset({"name", "arguments", "parameters", "id", "type", "function"})
"""What an object in a fence may hold and still be a call."""

_FENCE_INFOS = ("json", "tool_call", "tool_calls")
_OPENERS: dict[str, FormName] = {TAG: "tag", FUNCTION: "function", LLAMA: "llama", MISTRAL: "mistral"}
_MARKS = (*_OPENERS, END_TAG, END_FUNCTION)
_LONGEST_FENCE = 48
_MIN_CUT_MARK = 5
_FENCE = r"(?<!`)(?P<ticks>`{3,16})[ \t]{0,8}(?P<info>(?i:json|tool_calls?))[ \t]{0,8}\r?\n"
_MARK = re.compile("|".join([*map(re.escape, _MARKS), _FENCE]))
_FENCE_BEGUN = re.compile(r"`+[ \t]{0,8}(?P<info>[A-Za-z_]{0,10})[ \t]{0,8}\r?\Z")


@dataclass(frozen=True, slots=True)
class Form:
    """How one candidate is written. `is_marked`: nothing but a call begins like this.

    `ends` close it, `needs_end` unless the reply or another call ends it. `broken_end` is where it ends when it
    turns out to be no call, empty where only another call or the end of the reply tells.
    """

    name: FormName
    is_marked: bool = True
    ends: tuple[str, ...] = ()
    needs_end: bool = False
    broken_end: str = ""


_FORMS = {
    TAG: Form("tag", ends=(END_TAG,), needs_end=True, broken_end=END_TAG),
    FUNCTION: Form("function", ends=(END_TAG,), broken_end=END_FUNCTION),
    LLAMA: Form("llama", ends=LLAMA_ENDS),
    MISTRAL: Form("mistral"),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark found in text, from `start` to `end`; `form` is None for one that only ends a call."""

    start: int
    end: int
    form: Form | None
    is_fence: bool = False


def find_mark(text: str, at: int) -> Mark | None:
    """Return the first mark in `text` from `at` on."""
    found = _MARK.search(text, at)
    if found is None:
        return None
    ticks = found["ticks"]
    if ticks is None:
        return Mark(found.start(), found.end(), _FORMS.get(found.group()))
    is_marked = found["info"].lower() != "json"
    form = Form("fence", is_marked=is_marked, ends=(ticks,), needs_end=True)
    return Mark(found.start(), found.end(), form, is_fence=True)


def opens_call(text: str) -> bool | None:
    """Say whether `text` begins with the mark of a call; None where more text has to tell."""
    if text.startswith(tuple(_OPENERS)):
        return True
    return None if any(mark.startswith(text) for mark in _OPENERS) else False


def undecided(text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of a mark."""
    # A mark has its first character nowhere else.
    begins = (text.rfind(first) for first in "<[")
    for at in sorted(begin for begin in begins if begin >= 0):
        if any(mark.startswith(text[at:]) for mark in _MARKS):
            return len(text) - at
    if "`" not in text[-_LONGEST_FENCE:]:
        return 0
    begun = _FENCE_BEGUN.search(text[-_LONGEST_FENCE:])
    if begun is None or not any(info.startswith(begun["info"].lower()) for info in _FENCE_INFOS):
        return 0
    return len(begun.group())


def is_mark_begun(text: str) -> bool:
    """Say whether `text` is enough of a call's mark to be nothing else."""
    return len(text) >= _MIN_CUT_MARK and any(mark.startswith(text) for mark in _OPENERS)
