"""Parses pastes, Alt keys, background reports and early lines in the terminal's input before Textual reads keys.

Textual 8.2 reads a paste character by character. An escape character in the paste turns the text after it into keys: a
line end would send the prompt. https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h2-Bracketed-Paste-Mode
A terminal without bracketed paste sends a paste as keys, which `BurstParser` recognizes by their speed.
OSC 11 asks for the background color; mode 2031 reports changes. Terminals that support neither do not answer, and
nothing waits for them. https://contour-terminal.org/vt-extensions/color-palette-update-notifications/
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping

from textual import events
from textual.driver import Driver
from textual.message import Message

from qcode.text.pattern import lazy_pattern
from qcode.tui.terminal.textual_internals import KeyParser, has_writer

_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"

# `ESC` with a character that begins no longer sequence; the excluded ones begin CSI, SS3, OSC, DCS, SOS, PM and APC.
# Or an Escape before a control key such as Ctrl+R: Alt has no meaning with these, and Textual would drop the Escape.
# Not before Tab and Enter: a slow connection may split `ESC CR`, which is Alt+Enter.
_ALT = lazy_pattern(r"\x1b(?:([^\x00-\x1f\x7f\[\]OPX^_])|(?=[\x01-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f]))")


class AltKeyParser(KeyParser):
    """Textual's parser, extended to distinguish Alt with a key from Escape followed by a key, by how they arrive.

    A terminal writes `ESC` and the character of an Alt key at once. Textual 8.2 waits for more after them, so an Escape
    right after Alt+X types `^x`. Users of vim often type a letter right after Escape, which Textual reads as Alt with
    that letter.
    """

    _is_escaped = False
    """The last input ended in an Escape."""

    def feed(self, data: str) -> Iterable[Message]:
        if data and self.is_waiting and self._is_escaped and _ALT.match(f"\x1b{data[0]}"):
            yield from self.give_up()
        end = 0  # the index in `data` after the last Alt key or Escape
        for escape in _ALT.finditer(data):
            if escape.start() > end:
                yield from super().feed(data[end : escape.start()])
            yield from self._feed_escape(escape[0], escape[1])
            end = escape.end()
        is_end_of_input = not data
        if is_end_of_input or end < len(data):
            yield from super().feed(data[end:])
        self._is_escaped = data.endswith("\x1b")

    def _feed_escape(self, sequence: str, character: str | None) -> Iterable[Message]:
        """Yield the events of Escape with a character, or of a lone Escape if there is no `character`."""
        if character is None:
            yield from super().feed(sequence)
            yield from self.give_up()
        elif self.is_waiting or self.is_known(sequence):
            yield from super().feed(sequence)
        else:
            yield from self.alt_keys(character)


_BURST_SECONDS = 0.03
"""Keys that follow each other within this time are a burst, which no user can type."""
_LINE_ENDS = "\r\n"
_BLANKS = "\r\n\t "


class BurstParser(AltKeyParser):
    """A parser that turns several lines pasted without the markers of a paste into one `Paste` event.

    Text before and after an Enter, without a pause, is a paste: `one CR two CR` sends nothing. A program that writes
    `one CR` sends the prompt, after a moment in which no text follows. An Enter after a pause is a key at once.
    """

    reads_bursts = True
    """False while the input is not read as it was typed, so that its speed means nothing."""

    def __init__(self, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(debug)
        self._clock = clock
        self._burst = ""
        """Text with an Enter, held until it is known whether more text follows."""
        self._burst_at = float("-inf")  # the time of its last character
        self._is_after_text = False  # other keys precede the burst without a pause
        self._text_at = float("-inf")  # the time of the last key that typed text

    def feed(self, data: str) -> Iterable[Message]:
        now = self._clock()
        is_text = self.reads_bursts and not self.is_waiting and bool(data) and not any(map(_is_control, data))
        if self._burst and not (is_text and now - self._burst_at < _BURST_SECONDS):
            yield from self._release_burst()
        if not self._burst:
            self._is_after_text = now - self._text_at < _BURST_SECONDS
        if is_text and (self._burst or "\r" in (data if self._is_after_text else data.lstrip(_LINE_ENDS))):
            self._burst += data
            self._burst_at = now
            return
        if not is_text:
            self._text_at = float("-inf")
        elif data.strip(_BLANKS):
            self._text_at = now
        yield from super().feed(data)

    def tick(self) -> Iterable[Message]:
        """Release a burst after which no text followed."""
        if self._burst and self._clock() - self._burst_at >= _BURST_SECONDS:
            yield from self._release_burst()
        yield from super().tick()

    def _release_burst(self) -> Iterable[Message]:
        burst = self._burst
        self._burst = ""
        self._text_at = float("-inf")
        inner_text = burst.rstrip(_BLANKS) if self._is_after_text else burst.strip(_BLANKS)
        if "\r" in inner_text:
            yield events.Paste(burst)
        else:
            yield from super().feed(burst)


def _is_control(character: str) -> bool:
    """Return whether a character is neither text nor a blank nor a line end, such as the start of a sequence."""
    return character == "\x7f" or (character < " " and character not in _BLANKS)


class PasteParser(BurstParser):
    """A parser that turns each bracketed paste into one `Paste` event, before Textual parses the input."""

    def __init__(self, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(debug, clock)
        self._last_chars = ""  # the end of the keys before this chunk, shorter than the start marker of a paste
        self._pasted_chunks: list[str] | None = None  # the text of an unfinished paste

    def feed(self, data: str) -> Iterable[Message]:
        """Yield the events in `data`. A paste, and each of its two markers, may arrive in several chunks."""
        if not data:
            yield from self.feed_keys(data)
        while data:
            if self._pasted_chunks is None:
                data = yield from self._parse_keys(data)
            else:
                data = yield from self._collect_paste(data)

    def feed_keys(self, keys: str) -> Iterable[Message]:
        """Yield the events of input outside pastes; an empty text stands for the end of the input."""
        yield from super().feed(keys)

    def _parse_keys(self, data: str) -> Generator[Message, None, str]:
        """Parse keys up to the start marker of a paste; return the data after the marker.

        The marker may have begun in an earlier chunk. Example: after "a" and `ESC [20`, the chunk is `0~text`. With
        the 5 last characters before it, the marker starts at 1 and has 6 characters, so it ends at 2 of the chunk.
        """
        start = (self._last_chars + data).find(_PASTE_START)
        end = len(data) if start < 0 else start + len(_PASTE_START) - len(self._last_chars)
        yield from self.feed_keys(data[:end])
        self._last_chars = (self._last_chars + data)[-len(_PASTE_START) + 1 :]
        if start >= 0:
            self._last_chars = ""
            self._pasted_chunks = []
        return data[end:]

    def _collect_paste(self, data: str) -> Generator[Message, None, str]:
        """Collect text up to the end marker of the paste; return the data after the marker."""
        chunks = self._pasted_chunks
        assert chunks is not None
        # The last chunk may be the first half of the end marker, as in `text\x1b[20`.
        last_chunk = chunks.pop() if chunks else ""
        text = last_chunk + data
        end = text.find(_PASTE_END)
        if end < 0:
            marker_start = max(0, len(text) - len(_PASTE_END) + 1)
            chunks += [text[:marker_start], text[marker_start:]]
            return ""
        chunks.append(text[:end])
        self._pasted_chunks = None
        for message in super().feed(_PASTE_END):
            if not isinstance(message, events.Paste):
                yield message
        yield events.Paste("".join(chunks).replace("\0", ""))
        return text[end + len(_PASTE_END) :]


_ASK_BACKGROUND = "\x1b]11;?\x1b\\"
_SUBSCRIBE, _UNSUBSCRIBE = "\x1b[?2031h", "\x1b[?2031l"
_REPORT = lazy_pattern(
    r"\x1b\]11;rgba?:(?P<red>[0-9a-f]{1,4})/(?P<green>[0-9a-f]{1,4})/(?P<blue>[0-9a-f]{1,4})"
    r"(?:/[0-9a-f]{1,4})?(?:\x07|\x1b\\)"
    r"|\x1b\[\?997;(?P<scheme>[12])n",  # 1 is dark
    re.IGNORECASE,
)
# The start of a report at the end of a chunk: `ESC ]11;rgb:1a1a/1b`. The rest arrives with the next one.
_REPORT_START = lazy_pattern(
    r"\x1b(?:\](?:1(?:1(?:;[rgba:0-9a-fA-F/]{0,30}\x1b?)?)?)?|\[(?:\?(?:9(?:9(?:7(?:;[12]?)?)?)?)?)?)?\Z"
)
_MIN_CERTAIN_CHARS = 4
"""Length from which the start of a report cannot be a key: `ESC ]1` may be Alt+] and 1, `ESC ]11` is a report."""
_ANSWER_S = 2.0
"""The time after a query in which even a short start of a report is held back."""
_MAX_HOLD_S = 0.2
"""The time after which a start of a report that was not completed is read as keys."""


class TerminalBackgroundChanged(Message):
    """Reports whether the terminal's background is dark."""

    def __init__(self, *, is_dark: bool) -> None:
        super().__init__()
        self.is_dark = is_dark


class ReportParser(PasteParser):
    """A paste parser that also removes background reports from the keys. A report may arrive in several chunks.

    The class attributes are shared by all instances, because Textual creates the parser in a separate thread.
    """

    asked_at = float("-inf")
    """Time of the last query."""
    early_bytes = 0
    """The number of unread bytes in lines that the user completed with Enter before the app took the terminal.

    In these lines, the terminal reports Enter as a line feed, as for a shell. After them, a line feed is Ctrl+J.
    """

    def __init__(self, debug: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(debug, clock)
        self.held = ""
        """The start of a report, which waits for its end."""
        self._held_at = 0.0

    def feed(self, data: str) -> Iterable[Message]:
        self.reads_bursts = not self.early_bytes
        yield from super().feed(self._with_enter_keys(data) if self.early_bytes else data)

    def feed_keys(self, keys: str) -> Iterable[Message]:
        if not keys:
            yield from self._release_held()
            yield from super().feed_keys(keys)
            return
        keys = self.held + keys
        self.held = ""
        end = 0  # the index in `keys` after the last report
        for report in _REPORT.finditer(keys):
            if report.start() > end:
                yield from super().feed_keys(keys[end : report.start()])
            end = report.end()
            type(self).asked_at = float("-inf")
            yield TerminalBackgroundChanged(is_dark=_is_dark(report))
        keys = keys[end:]
        start = _REPORT_START.search(keys)
        if start is not None and (len(start[0]) >= _MIN_CERTAIN_CHARS or self._expects_answer):
            keys = keys[: start.start()]
            self.held, self._held_at = start[0], self._clock()
        if keys:
            yield from super().feed_keys(keys)

    def tick(self) -> Iterable[Message]:
        """Release held-back characters that did not become a report: they were keys."""
        if self._clock() - self._held_at >= _MAX_HOLD_S:
            yield from self._release_held()
        yield from super().tick()

    def _with_enter_keys(self, data: str) -> str:
        """Return `data` with Enter in place of each line feed that was typed before the app took the terminal."""
        encoded, early_bytes = data.encode(), self.early_bytes
        type(self).early_bytes = max(0, early_bytes - len(encoded))
        return (encoded[:early_bytes].replace(b"\n", b"\r") + encoded[early_bytes:]).decode()

    def _release_held(self) -> Iterable[Message]:
        keys = self.held
        self.held = ""
        if keys:
            yield from super().feed_keys(keys)

    @property
    def _expects_answer(self) -> bool:
        return self._clock() - self.asked_at < _ANSWER_S


def count_typed_ahead(driver: type[Driver]) -> type[Driver]:
    """Return a subclass of `driver` that counts the lines typed before it took the terminal, for `ReportParser`."""

    class CountingDriver(driver):  # type: ignore[misc,valid-type]  # the class is chosen at run time
        def start_application_mode(self) -> None:
            ReportParser.early_bytes = _bytes_of_lines(getattr(self, "fileno", None))
            super().start_application_mode()

    return CountingDriver


def _bytes_of_lines(terminal: int | None) -> int:
    """Return the number of bytes in the complete lines that a terminal in line mode has buffered; 0 in other modes."""
    if sys.platform == "win32" or terminal is None:
        return 0
    import fcntl
    import termios

    try:
        _input, _output, _control, local_modes, *_ = termios.tcgetattr(terminal)
        if not local_modes & termios.ICANON:
            return 0
        size = fcntl.ioctl(terminal, termios.FIONREAD, b"\0" * 4)
    except (OSError, termios.error):
        return 0
    return int.from_bytes(size, sys.byteorder)


def query_background(driver: type[Driver]) -> type[Driver]:
    """Return a subclass of `driver` that queries the background on start and subscribes to changes."""

    class QueryingDriver(driver):  # type: ignore[misc,valid-type]  # the class is chosen at run time
        def start_application_mode(self) -> None:
            super().start_application_mode()
            if has_writer(self):
                ReportParser.asked_at = time.monotonic()
                self.write(_ASK_BACKGROUND + _SUBSCRIBE)
                self.flush()

        def stop_application_mode(self) -> None:
            if has_writer(self):
                self.write(_UNSUBSCRIBE)
            super().stop_application_mode()

    return QueryingDriver


def can_query_background(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal may be queried. The Linux console and dumb terminals could show the query as text."""
    return environ.get("TERM", "").partition("-")[0] not in ("", "linux", "dumb", "cons25", "unknown")


def _is_dark(report: re.Match[str]) -> bool:
    """Return whether the reported background is closer to black than to white in perceived luminance (ITU-R BT.601)."""
    if report["scheme"]:
        return report["scheme"] == "1"
    red, green, blue = (int(value, 16) / (16 ** len(value) - 1) for value in report.group("red", "green", "blue"))
    brightness: float = 0.299 * red + 0.587 * green + 0.114 * blue
    return brightness < 0.5
