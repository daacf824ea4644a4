"""Terminal features that Textual's driver lacks: title, bell, notifications, Alt+Enter, signals, hangup.

`TerminalApp` writes to the terminal only while the app has it, and takes it back even if the borrowing program fails.
It repaints the whole screen if the terminal may have changed it. `survive_hangup` ends the app if the terminal is
lost: in Textual 8.2, the first failed write ends the writer thread. The next write of the app then blocks forever, and
no signal is handled. `TerminalTitle` updates title and bell.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.driver import Driver

from qcode.protocol.errors import ExitCode
from qcode.text.clean import one_line
from qcode.tui.terminal.input import ReportParser
from qcode.tui.terminal.painter import RESET, Painter, erases_color
from qcode.tui.terminal.textual_internals import (
    PaintingApp,
    add_key_sequence,
    driver_of,
    has_writer,
    is_suspending_to_shell,
    use_parser,
    wrap_file,
)
from qcode.tui.transcript.line import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.dom import DOMNode
    from textual.screen import Screen

    from qcode.tui.turns import TurnState

SAVE_TITLE = "\x1b[22;0t"
RESTORE_TITLE = "\x1b[23;0t"
SUSPENDED = "qcode is suspended. Type fg to return.\n"


def notify(text: str) -> str:
    """Return the sequence (OSC 9) that shows `text`, sanitized, as a desktop notification."""
    # ConEmu reads `9;4;…` as a progress bar, so a text must not start with a number and a semicolon.
    return f"\x1b]9;{one_line(text, 120).lstrip('0123456789;')}\x07"


def set_title(title: str) -> str:
    """Return the sequence that sets the terminal's title to `title`, sanitized."""
    return f"\x1b]0;{one_line(title, 80)}\x07"


def has_browser(environ: Mapping[str, str], platform: str) -> bool:
    """Return whether a browser would open in a window on the user's screen, not in the terminal or on a remote host."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    names = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
    return platform in ("darwin", "win32") or any(environ.get(name) for name in names)


def has_job_control() -> bool:
    """Return whether a shell started qcode as a job, and can continue it. Otherwise qcode would stop for good.

    A shell gives each job a separate process group; `docker run` and a terminal that runs qcode alone do not.
    """
    return sys.platform != "win32" and os.getpgrp() != os.getsid(0)


def enable_alt_keys() -> None:
    """Make Textual recognize Alt+Enter and Alt+Backspace in terminals without the Kitty protocol.

    Such terminals send Escape before the key. Textual 8.2 reads that as Enter, which would send the prompt, and as
    Ctrl+W, which deletes more. Alt+Enter becomes Ctrl+J, which inserts a new line in every terminal.
    """
    add_key_sequence("\x1b\r", "ctrl+j")
    add_key_sequence("\x1b\x7f", "alt+backspace")
    if sys.platform != "darwin":
        # Textual reads `ESC 4` as Option+4 of a Mac and types a cent sign, also after a quick Escape and 4.
        for digit in "0123456789":
            add_key_sequence(f"\x1b{digit}", f"alt+{digit}")
        add_key_sequence("\x1b-", "alt+minus")
        add_key_sequence("\x1b=", "alt+equals_sign")


def prepare_input() -> None:
    """Enable the Alt keys, and make Textual's driver read pastes and reports through `ReportParser`."""
    enable_alt_keys()
    use_parser(ReportParser)


MAX_HOLD_S = 0.5
"""The maximum time for which input waits until the key before it has been handled, or a screen has opened."""
MAX_WORK_HOLD_S = 1.0
"""The maximum time for which input waits for work that prepares a screen, such as reading the files of `/diff`."""


class TerminalApp(PaintingApp, inherit_bindings=False):
    """An app that can lend the terminal to another program, and that handles keys and pastes in the order typed."""

    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (20, "-high")]  # type: ignore[misc]  # Textual has `ClassVar[…] | None`

    fold_keys: tuple[str, ...] = ("ctrl+o",)
    """The keys of the command `fold`, which show a long text in full. In the pager, they close it."""
    had_focus = False
    """A widget had the focus when the last key or paste arrived."""
    _is_lent = False
    """Another program has the terminal."""
    _is_holding = False
    """Input is held back, because a key is on its way to its binding, or a screen is opening."""
    _held_input: tuple[events.Key | events.Paste, ...] = ()
    """The keys and pastes that are held back."""
    _work_holds: frozenset[int] = frozenset()
    """The numbers of the holds whose work may still open a screen."""
    _hold_number = 0
    """The number of times that input was held back. The end of an earlier hold must not release input too soon."""

    @property
    def has_few_colors(self) -> bool:
        """Whether the terminal has only its palette of 16 colors, or NO_COLOR is set."""
        return self.no_color or self.console.color_system in ("standard", "windows")

    def get_default_screen(self) -> Screen[object]:
        # Most terminals have at least 20 rows. Textual adds the class after the first paint and then paints all again.
        screen = super().get_default_screen()
        screen.set_class(True, "-high", update=False)
        return screen

    def on_mount(self) -> None:
        # A scroll that takes time costs frames, and the next key would start from the middle of it.
        self.animation_level = "none"
        # After Ctrl+Z and `fg` the terminal's screen is empty.
        self.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self.screen_change_signal.subscribe(self, self._hold_for_screen, immediate=True)

    def redraw(self) -> None:
        """Write the whole screen again, because the terminal may show something else."""
        if self.painter is not None:
            self.painter.forget()
        self.refresh(repaint=True, layout=True)

    async def on_event(self, event: events.Event) -> None:
        """Hold back keys and pastes until the key before them has been handled, and the screen it opens has the focus.

        A key that the focused widget does not consume passes through the queue of each of its parents before its
        binding runs. In `Ctrl+U, paste` the paste would reach the prompt first, and Ctrl+U would delete it. After
        `/resume` and Enter, a name is meant for the list of sessions.
        """
        # A resize changes cells of the terminal, even if the terminal soon has its old size again. The driver also
        # posts this event when it takes the terminal back, whose screen is then empty.
        if isinstance(event, events.Resize) and self.painter is not None:
            was_known = self.painter.forget()
            if was_known:
                self.refresh()
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._is_holding:
            self._held_input += (event,)
        else:
            await self._handle_input(event)

    async def _handle_input(self, event: events.Key | events.Paste) -> None:
        """Handle a key or a paste. Hold back the input after a key that the focused widget does not consume."""
        self.had_focus = self.focused is not None
        target = self.focused or self.screen
        is_consumed = isinstance(event, events.Paste) or target.check_consume_key(event.key, event.character)
        await super().on_event(event)
        if not is_consumed:
            nodes = tuple(target.ancestors_with_self)
            if isinstance(event, events.Key) and event.key == "enter":
                # After the key, a message such as `Input.Submitted` passes through the same queues. Each widget may
                # answer it with another message, which is behind it in the same queue.
                each_twice = [node for node in nodes for _ in range(2)]
                nodes = (*each_twice, *each_twice)
            self._follow_key(nodes, self._begin_hold())

    def _hold_for_screen(self, screen: Screen[Any]) -> None:
        """Hold back input until the screen, which has just become the current one, has set the focus.

        Its `on_mount` does this through the queue of the app.
        """
        number = self._begin_hold()
        screen.call_later(self.call_later, self._handle_held_input, number)

    def hold_input_during(self, work: Coroutine[Any, Any, object]) -> Coroutine[Any, Any, None]:
        """Hold back input from now on until `work` has ended, for at most `MAX_WORK_HOLD_S`; return the work to run.

        The work may open a screen, which then gets the keys that were typed meanwhile.
        """
        number = self._begin_hold()
        self._work_holds |= {number}
        asyncio.get_running_loop().call_later(MAX_WORK_HOLD_S, self._end_work_hold, number)

        async def run() -> None:
            try:
                await work
            finally:
                self._end_work_hold(number)

        return run()

    def _end_work_hold(self, number: int) -> None:
        if number in self._work_holds:
            self._work_holds -= {number}
            if self.screen_stack:  # otherwise the app has ended
                self._hold_for_screen(self.screen)

    def _begin_hold(self) -> int:
        """Hold back input from now on, for at most `MAX_HOLD_S`; return the number of the hold."""
        self._is_holding = True
        self._hold_number += 1
        asyncio.get_running_loop().call_later(MAX_HOLD_S, self._release, self._hold_number)
        return self._hold_number

    def _follow_key(self, nodes: tuple[DOMNode, ...], number: int) -> None:
        """Pass through the queues of `nodes`, behind the key, and then handle the input that was held back."""
        for index, node in enumerate(nodes, 1):
            later_nodes = nodes[index:]
            # A widget that is being removed queues nothing, and handles nothing: the next one is tried.
            if later_nodes:
                is_queued = node.call_later(self._follow_key, later_nodes, number)
            else:
                is_queued = node.call_later(self._handle_held_input, number)
            if is_queued:
                return
        self._is_holding = False

    def _release(self, number: int) -> None:
        """Stop the hold `number` after `MAX_HOLD_S`.

        The handler of the key may itself wait, for example for a screen. Or the widget with the key in its queue may be
        removed, such as a screen that Escape closes. Input is not held for longer because of that.
        """
        if self._is_holding and number == self._hold_number:
            self.call_later(self._handle_held_input, number)

    async def _handle_held_input(self, number: int) -> None:
        """Handle the input that was held back, unless a hold later than `number`, or any work, has not ended."""
        if number != self._hold_number or self._work_holds:
            return
        self._is_holding = False
        held = self._held_input
        self._held_input = ()
        for index, event in enumerate(held, 1):
            # `on_event` of the subclass has seen the event already: before the agent is ready, it would queue it again,
            # behind newer events.
            await self._handle_input(event)
            if self._is_holding:
                self._held_input += held[index:]
                return

    @contextmanager
    def suspend_terminal(self) -> Iterator[None]:
        """Lend the terminal to another program, and write nothing to it until the block ends."""
        suspension = self.suspend()
        driver = driver_of(self)
        # The driver writes `SUSPENDED` when it suspends with an automatic restart, as after Ctrl+Z. Textual turns the
        # restart off only after it has suspended the driver, so it is turned off here.
        no_restart = driver.no_automatic_restart() if driver is not None else contextlib.nullcontext()
        with self.batch_update(), no_restart:
            suspension.__enter__()
            self._is_lent = True
            try:
                yield
            finally:
                self._is_lent = False
                # Textual 8.2 takes the terminal back only if no exception reaches it, so do not pass it one.
                suspension.__exit__(None, None, None)

    def write_sequence(self, sequence: str) -> None:
        """Write an escape sequence directly to the terminal; do nothing without a terminal or while it is lent."""
        driver = driver_of(self)
        if sequence and driver is not None and not self.is_headless and not self._is_lent:
            driver.write(sequence)


def new_painter(environ: Mapping[str, str]) -> Painter:
    """Return a painter for the terminal of `environ`."""
    return Painter(erases_color=erases_color(environ))


class HangupSafeFile:
    """A text file that passes output to `file`, and discards output after the first failed write.

    `on_lost` is called at this failure, from the writing thread.
    """

    def __init__(self, file: IO[str], on_lost: Callable[[], object]) -> None:
        self._file = file
        self._on_lost = on_lost
        self._is_lost = False

    def write(self, text: str) -> int:
        if not self._is_lost:
            try:
                self._file.write(text)
            except OSError:
                self._report_loss()
        return len(text)

    def flush(self) -> None:
        if not self._is_lost:
            try:
                self._file.flush()
            except OSError:
                self._report_loss()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _report_loss(self) -> None:
        self._is_lost = True
        # Buffered text is flushed at exit. With /dev/null in place of the dead terminal that flush succeeds.
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
        self._on_lost()


def print_after_app(text: str) -> None:
    """Print `text` to stdout after the app has ended; do nothing if the terminal is gone, as after SIGHUP."""
    stdout = HangupSafeFile(sys.stdout, lambda: None)
    stdout.write(text)
    stdout.flush()


def survive_hangup(driver: type[Driver], leave: Callable[[int], object]) -> type[Driver]:
    """Return a subclass of `driver` that calls `leave` with the exit code if the terminal goes away.

    It also resets the style before it gives the terminal back. The Windows driver writes to no file, so there the loss
    of the terminal is handled as in Textual.
    """

    class HangupSafeDriver(driver):  # type: ignore[misc,valid-type]  # the class is chosen at run time
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)
            self._event_loop = asyncio.get_running_loop()
            wrap_file(self, lambda file: HangupSafeFile(file, self._leave))

        def _leave(self) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._event_loop.call_soon_threadsafe(leave, ExitCode.TERMINATED)

        def run_input_thread(self) -> None:
            # Reading from a lost terminal fails. Textual would report that as a crash, with the exit code 1.
            try:
                super().run_input_thread()
            except OSError:
                self._leave()

        def stop_application_mode(self) -> None:
            # The painter leaves the style of its last cell set.
            if has_writer(self):
                self.write(RESET)
            super().stop_application_mode()

        def suspend_application_mode(self) -> None:
            super().suspend_application_mode()
            if is_suspending_to_shell(self) and sys.__stderr__ is not None:
                with contextlib.suppress(OSError):
                    sys.__stderr__.write(SUSPENDED)
                    sys.__stderr__.flush()

    return HangupSafeDriver


_TITLE_MARKS: dict[TurnState, str] = {"idle": "", "working": "… ", "asking": "? "}
_BELL_TEXTS: dict[TurnState, str] = {"idle": "qcode: the turn has ended", "asking": "qcode: a question waits for you"}
_TITLE_CELLS = 50


class TerminalTitle:
    """The terminal's title and bell, which follow the state of the turn if `has_title` and `has_bell` allow it.

    `write` sends a sequence to the terminal. `ring_bell` rings, and shows its text as a notification if the terminal is
    unfocused. If `has_bell` is None, `ring_bell` must ring only then.
    """

    def __init__(
        self,
        folder: str,
        write: Callable[[str], None],
        ring_bell: Callable[[str], None],
        *,
        has_title: bool,
        has_bell: bool | None,
    ) -> None:
        self.has_title = has_title
        self.has_bell = has_bell
        self._folder = one_line(folder).rstrip("/").rpartition("/")[2]
        self._write = write
        self._ring_bell = ring_bell
        self._state: TurnState = "idle"
        self._title = ""
        self._countdown = ""

    def begin(self) -> None:
        """Save the terminal's title and set ours."""
        if self.has_title:
            self._write(SAVE_TITLE)
        self.write_title()

    def end(self) -> None:
        """Restore the terminal's title."""
        if self.has_title:
            self._write(RESTORE_TITLE)

    def use_title(self, has_title: bool) -> None:
        """Turn the title on or off."""
        if has_title is not self.has_title:
            # Only one of these has an effect: `end` if the title was on, `begin` if it is on now.
            self.end()
            self.has_title = has_title
            self.begin()

    def announce(self, state: TurnState) -> None:
        """Show the state in the title, and ring if qcode now waits for the user."""
        self._state = state
        self.write_title()
        if state != "working":
            self.ring(_BELL_TEXTS[state])

    def ring(self, text: str) -> None:
        """Ring, and notify with `text`, if the settings and the focus allow it."""
        if self.has_bell is not False:
            self._ring_bell(text)

    def count_down(self, remaining: str) -> None:
        """Show the remaining time of a wait; empty if the turn does not wait."""
        self._countdown = remaining
        self.write_title()

    def show_session_title(self, title: str) -> None:
        """Show the title of the session; empty if it has none yet."""
        if title != self._title:
            self._title = title
            self.write_title()

    def write_title(self) -> None:
        """Write the title, if it is on. An editor or the shell that had the terminal may have set its own title."""
        if self.has_title:
            name = shorten(self._title, _TITLE_CELLS) if self._title else "qcode"
            texts = filter(None, (self._countdown, name, self._folder))
            self._write(set_title(_TITLE_MARKS[self._state] + " · ".join(texts)))
