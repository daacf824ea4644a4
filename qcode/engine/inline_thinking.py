"""Thinking that a model writes as text: `<think>…</think>` at the start of what it says is reasoning, not answer.

A stream filter for models marked so. Tags may be split anywhere; what could still become a tag is held back. A cut
inside the thinking leaves only thinking, and each new attempt starts with a fresh filter.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "reasoning"]
Piece: TypeAlias = tuple[Kind, str]

_OPEN, _CLOSE = "<think>", "</think>"


class InlineThinking:
    """Feed it the text of one attempt; it tells reasoning from text. Call `flush` once at the end."""

    def __init__(self) -> None:
        self._state: Literal["start", "thinking", "behind", "text"] = "start"
        self._held = ""

    @property
    def is_settled(self) -> bool:
        """What follows is text, whatever stands in it."""
        return self._state == "text"

    def feed(self, text: str) -> list[Piece]:
        """Return what can be told apart by now, in order; no piece is empty."""
        pieces: list[Piece] = []
        held, self._held = self._held + text, ""
        if self._state == "start":
            rest = held.lstrip()
            if not rest.startswith(_OPEN):
                if _OPEN.startswith(rest):
                    self._held = held
                    return []
                self._state = "text"
                return _piece("text", held)
            self._state, held = "thinking", rest[len(_OPEN) :]
        if self._state == "thinking":
            thought, tag, rest = held.partition(_CLOSE)
            if not tag:
                kept = _tag_begun(held)
                self._held = held[len(held) - kept :]
                return _piece("reasoning", held[: len(held) - kept])
            pieces += _piece("reasoning", thought)
            self._state, held = "behind", rest
        if self._state == "behind":
            held = held.lstrip()
            if held:
                self._state = "text"
        return pieces + _piece("text", held)

    def flush(self) -> list[Piece]:
        """Return what was held: a tag that was begun and never finished belongs to the thinking."""
        held, self._held = self._held, ""
        return _piece("reasoning" if held.strip() else "text", held)


def _piece(kind: Kind, text: str) -> list[Piece]:
    return [(kind, text)] if text else []


def _tag_begun(text: str) -> int:
    """Return how many characters at the end of `text` may be the beginning of the closing tag."""
    for size in range(min(len(text), len(_CLOSE) - 1), 0, -1):
        if _CLOSE.startswith(text[-size:]):
            return size
    return 0
