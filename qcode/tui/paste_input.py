"""Takes bracketed pastes out of what the terminal sends, whole and as they are, before keys are read from it.

Textual 8.2 reads a paste letter by letter, and an escape character in it turns the rest into key presses: a line end
would send the prompt. https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Bracketed-Paste-Mode
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

START, _END = "\x1b[200~", "\x1b[201~"


class PasteParser(XTermParser):
    """Textual's parser, which sees of a paste only where it begins and ends."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._before = ""
        self._pasted: list[str] | None = None

    @property
    def is_pasting(self) -> bool:
        """Whether a paste has begun and not ended."""
        return self._pasted is not None

    def feed(self, data: str) -> Iterable[Message]:
        """Yield what the terminal said; a paste, and each of the two marks around it, may come in pieces."""
        if not data:
            yield from super().feed(data)
            return
        while data:
            data = yield from self._rest_of_paste(data) if self._pasted is not None else self._keys(data)

    def _keys(self, data: str) -> Generator[Message, None, str]:
        """Read keys up to where a paste begins; return what follows."""
        known = len(self._before)
        at = (self._before + data).find(START)
        end = len(data) if at < 0 else at + len(START) - known
        yield from super().feed(data[:end])
        self._before = (self._before + data)[-len(START) + 1 :]
        if at >= 0:
            self._before, self._pasted = "", []
        return data[end:]

    def _rest_of_paste(self, data: str) -> Generator[Message, None, str]:
        """Take text up to where the paste ends; return what follows."""
        pasted = self._pasted
        assert pasted is not None
        tail = pasted.pop() if pasted else ""
        at = (tail + data).find(_END)
        if at < 0:
            whole = tail + data
            # The last letters are kept apart, for they may be the beginning of the mark.
            pasted += [whole[: -len(_END) + 1], whole[-len(_END) + 1 :]]
            return ""
        pasted.append((tail + data)[:at])
        self._pasted = None
        for message in super().feed(_END):
            if not isinstance(message, events.Paste):
                yield message
        yield events.Paste("".join(pasted).replace("\0", ""))
        return (tail + data)[at + len(_END) :]
