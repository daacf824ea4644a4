"""Every private member of Textual that qcode uses, with its reason. Checked against Textual 8.2.

No other module of qcode.tui uses one. `tests/tui/test_textual_internals.py` enforces that and tests each of them, so a
Textual release that changes one fails there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, cast

from rich.console import Console, RenderableType
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import BindingsMap
from textual.driver import Driver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widgets import TextArea

from qcode.tui.terminal.painter import Painter, Part

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.widgets.text_area import EditResult, Location

__all__ = [
    "CrashApp",
    "KeyDeletingArea",
    "PaintingApp",
    "XTermParser",
    "add_key_sequence",
    "driver_of",
    "guard_handlers",
    "has_writer",
    "is_closing",
    "is_mounted",
    "refresh_ansi_colors",
    "set_bindings",
    "set_local_clipboard",
    "use_parser",
    "wrap_file",
]


def add_key_sequence(sequence: str, key: str) -> None:
    """Read `sequence` from the terminal as `key`. Textual has no public way to add one."""
    keys = (SimpleNamespace(value=key),)  # the parser reads only `value` of a key
    ANSI_SEQUENCES_KEYS[sequence] = keys  # type: ignore[index]  # a dict, typed as a read-only Mapping


def use_parser(parser: type[XTermParser]) -> None:
    """Make the driver of Linux and macOS read its input through `parser`. The driver imports its parser by name."""
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        linux_driver.XTermParser = parser  # type: ignore[attr-defined]  # not exported there


def driver_of(app: App[int]) -> Driver | None:
    """Return the driver of `app`, None before it runs. It accepts sequences that Textual has no call for."""
    return app._driver


def wrap_file(driver: Driver, wrap: Callable[[IO[str]], object]) -> None:
    """Replace the file that `driver` writes to by `wrap(file)`. The Windows driver has no file and is left unchanged.

    A failed write ends the thread that writes, after which the next write of the app blocks forever.
    """
    file = getattr(driver, "_file", None)
    if file is not None:
        driver._file = wrap(file)  # type: ignore[attr-defined]  # an attribute of the drivers that have a file


def has_writer(driver: Driver) -> bool:
    """Whether `driver` has the terminal: without its writer thread, `write` fails."""
    return getattr(driver, "_writer_thread", None) is not None


def set_bindings(app: App[int], bindings: BindingsMap) -> None:
    """Replace all bindings of `app`. Its keys are known only after settings and commands are loaded."""
    app._bindings = bindings


def is_mounted(app: App[int]) -> bool:
    """Whether `app` handles messages. Widgets have a public property for this, apps do not."""
    return app._is_mounted


def is_closing(app: App[int]) -> bool:
    """Whether `app` is shutting down and would never run a callback scheduled now."""
    return app._closing


def set_local_clipboard(app: App[int], text: str) -> None:
    """Set `app.clipboard`. The public `copy_to_clipboard` would also write to the terminal."""
    app._clipboard = text


def refresh_ansi_colors(app: App[int]) -> None:
    """Update the ANSI color filter to the theme. Setting the theme through the public property parses the CSS twice."""
    app._refresh_truecolor_filter(app.ansi_theme)


class CrashApp(App[int], inherit_bindings=False):
    """An app that reports an unhandled exception through `report_crash`.

    Textual prints a traceback with the values of local variables, which may contain API keys. With the feature `debug`
    it still does.
    """

    def survives(self, error: Exception) -> bool:
        """Whether the app continues after `error` in a message handler. If so, it has been reported."""
        return False

    def report_crash(self, error: Exception) -> None:
        """Keep the message about `error` for after the app has ended; may be called several times."""
        raise NotImplementedError

    def _handle_exception(self, error: Exception) -> None:
        if "debug" in self.features:
            super()._handle_exception(error)
            return
        # As in Textual: set the exit code, and keep the first error for tests that run the app.
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self.report_crash(error)
        self.panic()


class PaintingApp(CrashApp, inherit_bindings=False):
    """An app that writes its frames through `painter`, as Textual does if there is none."""

    painter: Painter | None = None

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self.painter is not None and isinstance(renderable, LayoutUpdate | ChopsUpdate):
            renderable = cast("RenderableType", _PaintedUpdate(self.painter, screen, renderable))
        super()._display(screen, renderable)


class _PaintedUpdate(CompositorUpdate):
    """A frame that is written through a painter.

    Textual renders it only if it writes it, which the painter relies on: not in a batch update, nor while suspended.
    """

    def __init__(self, painter: Painter, screen: Screen[object], update: LayoutUpdate | ChopsUpdate) -> None:
        self._painter = painter
        self._screen = screen
        self._update = update

    def render_segments(self, console: Console) -> str:
        compositor, update = self._screen._compositor, self._update
        width, height = compositor.size
        if isinstance(update, ChopsUpdate) and not self._painter.knows(width, height):
            stack = self._screen.app._background_screens
            whole = compositor.render_update(full=True, screen_stack=stack)
            assert isinstance(whole, LayoutUpdate)
            update = whole
        return self._painter.paint(width, height, _parts(update), console)


def _parts(update: LayoutUpdate | ChopsUpdate) -> list[Part]:
    """Return what Textual would write for `update`, as `render_segments` of both classes does it.

    A part is returned whole even if only some of its columns changed, because it was rendered whole.
    """
    if isinstance(update, ChopsUpdate):
        return [
            (y, x, part)
            for y, start, end in update.spans
            for part_end, (x, part) in zip(update.chop_ends[y], update.chops[y].items(), strict=False)
            if part is not None and x < end and part_end > start
        ]
    parts: list[Part] = []
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            parts.append((y, x, strip))
            x += strip.cell_length
    return parts


async def _dispatch_guarded(pump: MessagePump, message: Message) -> None:
    try:
        await _PLAIN_DISPATCH(pump, message)
    except Exception as error:
        # A widget that was not composed or mounted completely cannot continue.
        is_complete = not isinstance(message, events.Compose | events.Mount)
        if not (is_complete and isinstance(pump.app, CrashApp) and pump.app.survives(error)):
            raise


_PLAIN_DISPATCH = MessagePump._dispatch_message


def guard_handlers() -> None:
    """Offer each error of a message handler to `CrashApp.survives`. In Textual it ends the widget and then the app."""
    MessagePump._dispatch_message = _dispatch_guarded  # type: ignore[method-assign,assignment]  # no hook


class KeyDeletingArea(TextArea, inherit_bindings=False):
    """A text area that sends every deletion by a key through `delete_by_key`; Textual has no public hook for it."""

    def delete_by_key(self, start: Location, end: Location) -> EditResult | None:
        """Delete a range, unless the text is read-only. The public `delete` does not move the cursor as the keys do."""
        return super()._delete_via_keyboard(start, end)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        return self.delete_by_key(start, end)
