"""Where a continuation meets the text before it: a stream filter that takes the repetition away.

The start of a continuation is held back while it still matches something before it; what is released is final, so
nothing repeated ever shows and nothing shown is taken back. Every character is looked at a bounded number of times.
Read `overlap` for what counts as a repetition.
"""

from __future__ import annotations

from qcode.engine import overlap

RESTART_MARK = "\n\n[…]\n\n"
"""Stands in the text where a continuation began the reply anew and went another way."""


class Seam:
    """Filters one continuation of `before`. `feed` and `flush` return text to append; call `flush` once at its end."""

    def __init__(self, before: str) -> None:
        self._before = before
        self._tail = before[-overlap.SEARCHED_TAIL :]
        self._fence = overlap.open_fence(before)
        self._headers = overlap.replayed_header(self._tail) if self._fence is None else ()
        self._held: list[str] = []
        self._held_size = 0
        self._restarted = 0
        self._may_restart = bool(before)
        self._may_lead_in = bool(before)
        self._skips_blank_lines = False
        self._is_open = not before

    def renewed(self) -> Seam:
        """Return a fresh filter for another continuation of the same text."""
        return Seam(self._before)

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
        if self._skips_blank_lines and held.startswith("\n"):
            held = held.lstrip("\n")
            self._hold(held)
        if not is_last and self._is_undecided(held):
            return ""
        rest = self._without_opening(held)
        if len(rest) < len(held):
            self._hold(rest)
            return self._settle(rest, is_last=is_last)
        self._is_open = True
        self._held = []
        return self._without_replay(rest)

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
        if self._may_lead_in and overlap.may_become_lead_in(held):
            return True
        stripped = held.lstrip()
        if stripped != held and len(stripped) < len(self._tail) and stripped in self._tail:
            return True
        if self._fence is not None:
            return overlap.may_become_fence(held)
        return any(header.startswith(stripped) for header in self._headers)

    def _without_opening(self, held: str) -> str:
        """Return `held` without the first opening found in it: a lead-in, a fence opened again, a replayed header."""
        if self._may_lead_in:
            self._may_lead_in = False
            length = overlap.lead_in(held)
            if length:
                self._skips_blank_lines = True
                return held[length:]
        if self._fence is not None:
            length = overlap.reopened_fence(held)
            if length:
                self._fence = None
                return held[length:]
        text = held.lstrip("\n")
        for header in self._headers:
            if text.startswith(header) and not self._restarts_beyond(header, text):
                self._headers = ()
                self._skips_blank_lines = True
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
