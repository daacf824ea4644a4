"""What was cut from the prompt, to be put back: readline's kill ring. Pure."""

from __future__ import annotations

_KEPT = 30


class KillRing:
    """Kills in a row become one piece. `yank` gives the newest, `rotate` the ones before it, in turn."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._place = 0
        self._is_open = False

    def kill(self, text: str, *, is_backwards: bool) -> None:
        """Take a piece that was cut; backwards means that it stood before what was cut just now."""
        if not text:
            return
        if self._is_open and self._pieces:
            last = self._pieces[-1]
            self._pieces[-1] = text + last if is_backwards else last + text
        else:
            self._pieces = [*self._pieces[-_KEPT + 1 :], text]
        self._is_open = True
        self._place = len(self._pieces) - 1

    def rest(self) -> None:
        """Something else was done: the next kill is a piece of its own."""
        self._is_open = False

    def yank(self) -> str:
        """Return the newest piece, empty where nothing was cut."""
        self._place = len(self._pieces) - 1
        return self._pieces[-1] if self._pieces else ""

    def rotate(self) -> str:
        """Return the piece before the one given last, from the newest again after the oldest."""
        if not self._pieces:
            return ""
        self._place = (self._place - 1) % len(self._pieces)
        return self._pieces[self._place]
