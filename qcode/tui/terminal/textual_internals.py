"""Every use of a private member of Textual, with its reason. Checked against Textual 8.2.

No other module of qcode.tui uses a private member. `tests/tui/test_textual_internals.py` enforces that and tests each
use, so it fails with a Textual release that changes one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from rich.console import Console, RenderableType
from rich.segment import Segment
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual._context import active_message_pump
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.binding import BindingsMap
from textual.box_model import BoxModel
from textual.driver import Driver
from textual.geometry import Region, Size, Spacing
from textual.keys import _character_to_key
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import TextArea
from textual.worker import WorkerFailed

from qcode.tui.terminal.painter import Painter, Part

if TYPE_CHECKING:
    from textual.widgets.text_area import EditResult, Location

__all__ = [
    "CrashApp",
    "KeyDeletingArea",
    "KeyParser",
    "PaintingApp",
    "add_key_sequence",
    "driver_of",
    "guard_widgets",
    "has_writer",
    "is_closing",
    "is_mounted",
    "is_suspending_to_shell",
    "key_of_character",
    "refresh_ansi_colors",
    "repaint_moved_widgets",
    "set_bindings",
    "set_local_clipboard",
    "use_parser",
    "wrap_file",
]


def add_key_sequence(sequence: str, key: str) -> None:
    """Read `sequence` from the terminal as `key`. Textual has no public way to add one."""
    keys = (SimpleNamespace(value=key),)  # the parser reads only `value` of a key
    ANSI_SEQUENCES_KEYS[sequence] = keys  # type: ignore[index]  # a dict, typed as a read-only Mapping


def key_of_character(character: str) -> str:
    """Return the key of a character as Textual reports it: `question_mark` for `?`. Only the reverse is public."""
    return _character_to_key(character)


def use_parser(parser: type[XTermParser]) -> None:
    """Make the driver of Linux and macOS read its input through `parser`.

    The driver finds its parser by a global name of its module, so it is enough to replace that name.
    """
    if sys.platform != "win32":
        from textual.drivers import linux_driver

        linux_driver.XTermParser = parser  # type: ignore[attr-defined]  # not exported there


class KeyParser(XTermParser):
    """Textual's parser of terminal input. Public here: the incomplete sequence, and the reading of Alt with a key."""

    @property
    def is_waiting(self) -> bool:
        """Whether the input so far may be the start of a sequence, such as a lone Escape."""
        return self._timeout_time is not None

    def give_up(self) -> Iterable[Message]:
        """Read the start of an incomplete sequence as keys, without waiting for more input."""
        if self.is_waiting:
            self._timeout_time = 0  # `tick` gives up a sequence after this time
            yield from super().tick()

    def alt_keys(self, character: str) -> Iterable[Message]:
        """Return the key events of Alt with `character`, for which a terminal sends `ESC` and the character.

        Textual reads Alt with punctuation as the punctuation alone, which would be typed.
        """
        for event in self._sequence_to_key_events(character, alt=True):
            yield event if event.key.startswith("alt+") else events.Key(f"alt+{event.key}", event.character)

    @staticmethod
    def is_known(sequence: str) -> bool:
        """Return whether Textual has a key for `sequence`."""
        return sequence in ANSI_SEQUENCES_KEYS


def driver_of(app: App[int]) -> Driver | None:
    """Return the driver of `app`, None before it runs. Its `write` accepts any escape sequence."""
    return app._driver


def wrap_file(driver: Driver, wrap: Callable[[IO[str]], object]) -> None:
    """Replace the file that `driver` writes to by `wrap(file)`. The Windows driver has no file and is left unchanged.

    The file that `wrap` returns must not raise an error: it would end the thread that writes, and the next write of the
    app would block forever.
    """
    file = getattr(driver, "_file", None)
    if file is not None:
        driver._file = wrap(file)  # type: ignore[attr-defined]  # an attribute of the drivers that have a file


def has_writer(driver: Driver) -> bool:
    """Return whether `driver` has a writer thread. While another program has the terminal, it has none."""
    return getattr(driver, "_writer_thread", None) is not None


def is_suspending_to_shell(driver: Driver) -> bool:
    """Return whether `driver` gives the terminal to the shell (Ctrl+Z), and not to a program that the app runs."""
    return driver._auto_restart


def set_bindings(app: App[int], bindings: BindingsMap) -> None:
    """Replace all bindings of `app`. Its keys are known only after settings and commands are loaded."""
    app._bindings = bindings


def is_mounted(app: App[int]) -> bool:
    """Return whether `app` handles messages. Widgets have a public property for this, apps do not."""
    return app._is_mounted


def is_closing(app: App[int]) -> bool:
    """Return whether `app` is shutting down and would never run a callback scheduled now."""
    return app._closing


def set_local_clipboard(app: App[int], text: str) -> None:
    """Set `app.clipboard`. The public `copy_to_clipboard` would also write to the terminal."""
    app._clipboard = text


def refresh_ansi_colors(app: App[int]) -> None:
    """Update the ANSI color filter to the theme. Setting the theme through the public property parses the CSS twice."""
    app._refresh_truecolor_filter(app.ansi_theme)


class CrashApp(App[int], inherit_bindings=False):
    """An app that continues after an error in a widget, or reports an unhandled exception through `report_crash`.

    Textual would print a traceback with the values of local variables, which may contain API keys. With the Textual
    feature `debug` it still does.
    """

    _fatal: Exception | None = None
    """The exception that ends the app, None so far. Textual may report it again in another message pump."""

    def survives(self, error: Exception) -> bool:
        """Report `error` of a widget and return True; return False if the app must end. Subclasses override this."""
        return False

    def report_crash(self, error: Exception) -> None:
        """Keep the message about `error` for after the app has ended; may be called several times."""
        raise NotImplementedError

    def continues_after(self, error: Exception, pump: MessagePump | None) -> bool:
        """Handle `error` in `pump` and return whether the app continues. A screen that could not be composed is closed.

        `pump` is None for an error in painting or measuring, after which no screen is closed.
        """
        if error is self._fatal:
            return False
        # A worker handles the errors that it expects. After any other, its result would be missing, so the app ends.
        if isinstance(error, WorkerFailed) or not self.survives(error):
            self._fatal = error
            return False
        if isinstance(pump, Widget) and not pump.is_mounted:
            self.call_later(self._close_screen, pump if isinstance(pump, Screen) else pump.screen)
        return True

    def _close_screen(self, screen: Screen[Any]) -> None:
        if screen is self.screen and len(self.screen_stack) > 1:
            self.pop_screen()

    def _handle_exception(self, error: Exception) -> None:
        if "debug" in self.features:
            super()._handle_exception(error)
            return
        if self.continues_after(error, active_message_pump.get(None)):
            return
        # As in Textual: set the exit code, and keep the first error for tests that run the app.
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self.report_crash(error)
        self.panic()


class PaintingApp(CrashApp, inherit_bindings=False):
    """An app that writes its frames through `painter`."""

    painter: Painter | None = None
    """None: Textual writes whole rows itself."""

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if self.painter is not None and isinstance(renderable, LayoutUpdate | ChopsUpdate):
            renderable = cast("RenderableType", _PaintedUpdate(self.painter, screen, renderable))
        super()._display(screen, renderable)


class _PaintedUpdate(CompositorUpdate):
    """A frame that is written through a painter.

    Textual calls `render_segments` only if it writes the result: not in a batch update, nor while suspended. The
    painter relies on that, because it stores the cells on screen.
    """

    def __init__(self, painter: Painter, screen: Screen[object], update: LayoutUpdate | ChopsUpdate) -> None:
        self._painter = painter
        self._screen = screen
        self._update = update

    def render_segments(self, console: Console) -> str:
        compositor, update = self._screen._compositor, self._update
        width, height = compositor.size
        # If the painter does not know what is on screen, as after a resize, it needs the whole frame.
        if isinstance(update, ChopsUpdate) and not self._painter.knows(width, height):
            stack = self._screen.app._background_screens
            full_update = compositor.render_update(full=True, screen_stack=stack)
            assert isinstance(full_update, LayoutUpdate)
            update = full_update
        return self._painter.paint(width, height, _parts(update), console)


def _parts(update: LayoutUpdate | ChopsUpdate) -> list[Part]:
    """Return the parts of a frame that Textual would write for `update`, as in `render_segments` of both classes.

    A part is returned whole even if only some of its columns changed, because it was rendered whole.
    """
    parts: list[Part] = []
    if isinstance(update, ChopsUpdate):
        for y, start, end in update.spans:
            for part_end, (x, part) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if part is not None and x < end and part_end > start:
                    parts.append((y, x, part))
        return parts
    for y, line in enumerate(update.strips, update.region.y):
        x = update.region.x
        for strip in line:
            parts.append((y, x, strip))
            x += strip.cell_length
    return parts


_TEXTUAL_FULL_MAP = cast("property", Compositor.full_map)


def repaint_moved_widgets() -> None:
    """Paint every region that a widget has left; Textual misses some if the layout changes after a scroll.

    After a scroll, Textual's map of all widgets is stale. If any code then reads the region of a widget, Textual
    rebuilds the map from the new layout, and later finds no difference to paint. Example: PgDn in the list of keys,
    then Esc, left the bars of the list on the transcript.
    """
    Compositor.full_map = property(_full_map)  # type: ignore[assignment,method-assign]  # Textual has no hook


def _full_map(compositor: Compositor) -> object:
    if compositor.root is None or not compositor._full_map_invalidated:
        return _TEXTUAL_FULL_MAP.__get__(compositor)
    # After a scroll, the map of visible widgets has the regions on screen; the map of all widgets is older.
    old_map = compositor._full_map if compositor._visible_map is None else compositor._visible_map
    old_placements = {(widget, placement.region, placement.clip) for widget, placement in old_map.items()}
    new_map = _TEXTUAL_FULL_MAP.__get__(compositor)
    if compositor.size.region not in compositor._dirty_regions:
        new_placements = {(widget, placement.region, placement.clip) for widget, placement in new_map.items()}
        # The placements in only one of the maps: where a widget was, and where it is now.
        regions = (clip.intersection(region) for _, region, clip in old_placements ^ new_placements)
        compositor._dirty_regions.update(filter(None, regions))
    return new_map


_TEXTUAL_DISPATCH = MessagePump._dispatch_message
_TEXTUAL_RENDER_LINES = Widget.render_lines
_TEXTUAL_BOX_MODEL = Widget._get_box_model
_reported_errors: WeakKeyDictionary[Widget, set[type[Exception]]] = WeakKeyDictionary()
"""The errors of painting and measuring that were reported for each widget. The next frame raises the same error again,
and one report is enough."""
NOT_SHOWN = "! An internal error hides this part."
"""The text that replaces rows that cannot be painted."""


def guard_widgets() -> None:
    """Pass each error of a widget to `CrashApp.survives`. In Textual, such an error ends the widget and then the app.

    This covers message handlers, painting and measuring. A widget that cannot be painted shows `NOT_SHOWN` in its rows;
    the other widgets are painted as usual.
    """
    MessagePump._dispatch_message = _dispatch_guarded  # type: ignore[method-assign,assignment]  # no hook
    Widget.render_lines = _render_guarded  # type: ignore[method-assign,assignment]  # as above
    Widget._get_box_model = _box_model_guarded  # type: ignore[method-assign,assignment]  # as above


async def _dispatch_guarded(pump: MessagePump, message: Message) -> None:
    try:
        await _TEXTUAL_DISPATCH(pump, message)
    except Exception as error:
        if not (isinstance(pump.app, CrashApp) and pump.app.continues_after(error, pump)):
            raise


def _survive_in_widget(widget: Widget, error: Exception) -> bool:
    """Return whether the app continues after `error` in painting or measuring `widget`; report a type of error once."""
    reported = _reported_errors.setdefault(widget, set())
    if type(error) in reported:
        return True
    if not (isinstance(widget.app, CrashApp) and widget.app.continues_after(error, pump=None)):
        return False
    reported.add(type(error))
    return True


def _render_guarded(widget: Widget, crop: Region) -> list[Strip]:
    try:
        return _TEXTUAL_RENDER_LINES(widget, crop)
    except Exception as error:
        if not _survive_in_widget(widget, error):
            raise
    return _paintable_rows(widget, crop)


def _paintable_rows(widget: Widget, crop: Region) -> list[Strip]:
    """Return the rows of `widget`. `NOT_SHOWN` replaces each group of rows that cannot be painted."""
    rows: list[Strip] = []
    text = NOT_SHOWN
    for y in crop.line_range:
        try:
            rows += _TEXTUAL_RENDER_LINES(widget, Region(crop.x, y, crop.width, 1))
        except Exception as error:
            if not _survive_in_widget(widget, error):
                raise
            rows.append(Strip([Segment(text[: crop.width].ljust(crop.width))], crop.width))
            text = ""
        else:
            text = NOT_SHOWN
    return rows


def _box_model_guarded(
    widget: Widget,
    container: Size,
    viewport: Size,
    width_fraction: Fraction,
    height_fraction: Fraction,
    constrain_width: bool = False,
    greedy: bool = True,
) -> BoxModel:
    try:
        return _TEXTUAL_BOX_MODEL(widget, container, viewport, width_fraction, height_fraction, constrain_width, greedy)
    except Exception as error:
        if not _survive_in_widget(widget, error):
            raise
        return BoxModel(width=Fraction(container.width), height=Fraction(1), margin=Spacing())


class KeyDeletingArea(TextArea, inherit_bindings=False):
    """A text area that sends every deletion by a key through `delete_by_key`; Textual has no public hook for it."""

    def delete_by_key(self, start: Location, end: Location) -> EditResult | None:
        """Delete a range, unless the text is read-only. The public `delete` does not move the cursor as the keys do."""
        return super()._delete_via_keyboard(start, end)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        return self.delete_by_key(start, end)
