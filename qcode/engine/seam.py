"""Where a continuation meets the text before it: a stream filter that takes the repetition away.

The start of a continuation is held back while it still matches something before it; what is released is final, so
nothing repeated ever shows and nothing shown is taken back. Every character is looked at a bounded number of times.
What counts as a repetition is in `overlap`, as a fence opened again in `fences`, as a lead-in in `lead_ins`.
"""

from __future__ import annotations

import re

from qcode.engine import fences, lead_ins, overlap

RESTART_MARK = "\n\n[…]\n\n"
"""Stands in the text where a continuation began the reply anew and went another way."""

_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")
_OWN_TO_LEAD_IN, _OWN_TO_HEADING = 2, 1
"""So many line breaks behind an opening belong to it; those beyond are part of the text."""


class Seam:
    """Filters one continuation of `before`. `feed` and `flush` return text to append; call `flush` once at its end.

    `is_json`: it is a piece of JSON, where no line break may be kept that is not part of it for certain.
    """

    def __init__(self, before: str, *, is_json: bool = False) -> None:
        self._before = before
        self._tail = before[-overlap.SEARCHED_TAIL :]
        self._is_json = is_json
        self._is_code = is_json or fences.open_fence(before) is not None
        self._is_inside_line = bool(before) and not before.endswith("\n")
        # A fence whose own line was cut is not opened again, it is finished.
        self._fence = fences.open_fence(before[: before.rfind("\n") + 1]) if self._is_code else None
        self._headers = () if self._is_code else overlap.replayed_header(self._tail)
        self._held: list[str] = []
        self._held_size = 0
        self._restarted = 0
        self._may_restart = bool(before)
        self._may_lead_in = bool(before)
        self._owned_breaks: int | None = None
        """Line breaks that belong to the opening just taken away, while what follows it is still blank."""
        self._blank = ""
        self._breaks = ""
        self._is_open = not before

    def renewed(self) -> Seam:
        """Return a fresh filter for another continuation of the same text."""
        return Seam(self._before, is_json=self._is_json)

    def feed(self, text: str) -> str:
        """Return what of the text so far is surely new; the rest stays held."""
        if self._is_open:
            return text
        self._held.append(text)
        self._held_size += len(text)
        if self._extends_restart(text):
            return ""
        return self._settle("".join(self._held), is_last=False)

    def flush(self) -> str:
        """Return what was still held, cleaned: the continuation has ended."""
        if self._is_open:
            return ""
        return self._settle("".join(self._held), is_last=True)

    def _extends_restart(self, text: str) -> bool:
        """Follow a replay of the reply from its very beginning without looking at what was matched before."""
        if not self._may_restart or not self._before.startswith(text, self._restarted):
            return False
        self._restarted += len(text)
        return self._restarted < len(self._before)

    def _settle(self, held: str, *, is_last: bool) -> str:
        """Take away what can be told to be an opening; then decide on the rest, or go on holding it."""
        if self._owned_breaks is not None:
            if not held.strip() and not is_last:
                return ""
            held = self._without_blank(held, self._owned_breaks)
        if not is_last and self._is_undecided(held):
            return ""
        rest = self._without_opening(held)
        if len(rest) < len(held):
            self._hold(rest)
            return self._settle(rest, is_last=is_last)
        cleaned = self._without_replay(rest)
        if cleaned != rest:
            self._blank = ""
        elif self._breaks and not self._blank and not self._is_code:
            is_new_line = overlap.needs_new_line(self._before, rest)
            if is_new_line is None and not is_last:
                return ""
            self._blank = self._breaks if is_new_line else ""
        self._is_open = True
        self._held = []
        return self._blank + cleaned

    def _without_blank(self, held: str, owned: int) -> str:
        """Take the blank behind an opening away; keep aside what of it may belong to the text."""
        found = _BLANK_LINES.match(held)
        blank = found.group() if found else ""
        ends = [index + 1 for index, char in enumerate(blank) if char == "\n"]
        self._blank = blank[ends[owned - 1] :] if owned and len(ends) > owned else blank if not owned else ""
        # A heading or a header row ended with a line break of its own.
        self._breaks = blank if ends else "" if owned == _OWN_TO_LEAD_IN else "\n"
        if self._is_json:
            self._blank = ""
        rest = held[len(blank) :] if blank else held.lstrip(" \t") if owned == _OWN_TO_LEAD_IN else held
        self._owned_breaks = None
        self._hold(rest)
        return rest

    def _hold(self, rest: str) -> None:
        """Begin anew with what follows an opening that was taken away."""
        self._held, self._held_size = [rest], len(rest)
        self._restarted = _common(self._before, rest)
        self._may_restart = self._restarted == len(rest)

    def _is_undecided(self, held: str) -> bool:
        if not held.strip():
            return len(held) < overlap.SEARCHED_TAIL
        if len(held) < len(self._tail) and held in self._tail:
            return True
        if self._may_lead_in and lead_ins.may_become_lead_in(held):
            return True
        stripped = held.lstrip()
        if stripped != held and len(stripped) < len(self._tail) and stripped in self._tail:
            return True
        if self._fence is not None:
            return fences.may_become_fence(held) or self._replays_behind_bare_fence(held, is_whole=True)
        return any(header.startswith(stripped) for header in self._headers)

    def _replays_behind_bare_fence(self, held: str, *, is_whole: bool) -> bool:
        """Say whether a fence without a language is followed by a replay: then it was opened again and closes nothing.

        `is_whole`: all that followed yet, so that there may be more of the replay.
        """
        length = fences.bare_fence(held, self._fence) if self._fence is not None else 0
        if not length:
            return False
        behind = held[length:]
        if is_whole:
            return len(behind) < len(self._tail) and behind in self._tail
        return overlap.repeated_tail(self._tail, behind) > 0

    def _without_opening(self, held: str) -> str:
        """Return `held` without the first opening found in it: a lead-in, a fence opened again, a replayed header."""
        if self._may_lead_in:
            self._may_lead_in = False
            length = lead_ins.lead_in(held)
            if length:
                self._owned_breaks = _OWN_TO_LEAD_IN
                return held[length:]
        if self._fence is not None:
            length = fences.reopened_fence(held, self._fence, is_inside_line=self._is_inside_line)
            if not length and self._replays_behind_bare_fence(held, is_whole=False):
                length = fences.bare_fence(held, self._fence)
            if length:
                self._fence = None
                self._blank = self._breaks = ""
                return held[length:]
        text = held.lstrip("\r\n")
        for header in self._headers:
            if text.startswith(header) and not self._restarts_beyond(header, text):
                self._headers = ()
                self._owned_breaks = 0 if header.startswith("|") else _OWN_TO_HEADING
                return text[len(header) :]
        return held

    def _restarts_beyond(self, header: str, text: str) -> bool:
        """Say whether `text` replays the reply from its beginning further than the header it may begin with."""
        common = _common(self._before, text)
        beyond = self._before[len(header) : common].strip()
        return self._before.startswith(header) and not overlap.is_short_coincidence(beyond)

    def _without_replay(self, text: str) -> str:
        replayed = overlap.repeated_tail(self._tail, text)
        if replayed:
            return text[replayed:]
        common = _common(self._before, text)
        if overlap.is_restart(self._before, common):
            rest = text[common:]
            return rest if common == len(self._before) or not rest.strip() else RESTART_MARK + rest
        stripped = text.lstrip()
        replayed = overlap.repeated_tail(self._tail, stripped) if len(stripped) < len(text) else 0
        return stripped[replayed:] if replayed >= overlap.CLEAR_CHARS else text


def _common(left: str, right: str) -> int:
    """Return the length of the common prefix, by halving: each comparison is one of slices."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
