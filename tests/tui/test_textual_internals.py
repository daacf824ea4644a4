"""The private members of Textual that qcode uses: each behaves as expected, which tests/arch checks of all others."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable
from importlib.metadata import version
from typing import ClassVar

import pytest
from rich.style import Style
from rich.terminal_theme import MONOKAI, TerminalTheme
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._compositor import LayoutUpdate
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingsMap, BindingType
from textual.color import Color
from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread
from textual.drivers.headless_driver import HeadlessDriver
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import ANSIToTruecolor
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea
from textual.widgets.text_area import EditResult, Location

from qcode.tui.terminal import textual_internals as internals
from qcode.tui.terminal.painter import Painter
from tests.tui.emulators import Screen

pytestmark = pytest.mark.frames

TESTED = "8.2"
INTERNALS = internals.__name__


class Plain(App[int]):
    pass


def keys(given: Iterable[Message]) -> list[str]:
    return [message.key for message in given if isinstance(message, events.Key)]


def test_textual_has_the_version_whose_private_members_were_checked() -> None:
    assert version("textual").startswith(f"{TESTED}."), "read the new version's members, then change TESTED"
    assert f"Textual {TESTED}." in (internals.__doc__ or "")


def test_added_sequence_is_read_as_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSI_SEQUENCES_KEYS, "\x1b\x0e", ())  # removed after the test
    internals.add_key_sequence("\x1b\x0e", "alt+backspace")
    assert keys(internals.KeyParser().feed("\x1b\x0e")) == ["alt+backspace"]


def test_character_has_the_key_that_textual_reports() -> None:
    assert [internals.key_of_character(character) for character in "?a/"] == ["question_mark", "a", "slash"]


def test_parser_is_fed_text_and_ticks() -> None:
    parser = internals.KeyParser()
    assert keys([*parser.feed("a\x1b[A"), *parser.tick()]) == ["a", "up"]


def test_parser_says_whether_it_waits_and_gives_up() -> None:
    parser = internals.KeyParser()
    waited = []
    assert keys(parser.feed("\x1b[1;")) == []
    waited.append(parser.is_waiting)
    assert keys(parser.give_up()) == ["left_square_bracket", "1", "semicolon"]
    assert [*waited, parser.is_waiting] == [True, False]
    assert keys(parser.alt_keys("!")) == ["alt+exclamation_mark"]
    assert parser.is_known("\x1bf")
    assert not parser.is_known("\x1bq")


def test_driver_uses_the_given_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    class Parser(internals.KeyParser):
        pass

    monkeypatch.setattr(linux_driver, "XTermParser", internals.KeyParser)
    internals.use_parser(Parser)
    assert vars(linux_driver)["XTermParser"] is Parser
    assert "XTermParser" in LinuxDriver.run_input_thread.__code__.co_names


def test_app_has_its_driver_while_it_runs() -> None:
    async def run() -> None:
        app = Plain()
        assert internals.driver_of(app) is None
        async with app.run_test():
            assert isinstance(internals.driver_of(app), HeadlessDriver)

    asyncio.run(run())


class Upper(io.StringIO):
    def __init__(self, _file: object) -> None:
        super().__init__()

    def write(self, text: str) -> int:
        return super().write(text.upper())


def test_driver_writes_to_the_given_file_in_a_separate_thread() -> None:
    async def run() -> None:
        driver = LinuxDriver(Plain())
        wrapped: list[Upper] = []

        def wrap(file: object) -> Upper:
            wrapped.append(Upper(file))
            return wrapped[0]

        assert not internals.has_writer(driver)
        internals.wrap_file(driver, wrap)
        # `start_application_mode` does the same before it uses the terminal.
        thread = driver._writer_thread = WriterThread(wrapped[0])
        file: object = driver._file
        assert file is wrapped[0]
        assert internals.has_writer(driver)
        thread.start()
        driver.write("text")
        driver.close()
        thread.stop()
        assert wrapped[0].getvalue() == "TEXT"

    asyncio.run(run())


def test_driver_without_a_file_is_unchanged() -> None:
    async def run() -> None:
        driver = HeadlessDriver(Plain())
        internals.wrap_file(driver, Upper)
        assert not hasattr(driver, "_file")
        assert not internals.has_writer(driver)

    asyncio.run(run())


def test_bindings_set_while_the_app_runs_apply() -> None:
    class Bound(Plain):
        count = 0

        def action_add(self) -> None:
            self.count += 1

    async def run() -> None:
        app = Bound()
        async with app.run_test() as pilot:
            await pilot.press("f9")
            internals.set_bindings(app, BindingsMap([Binding("f9", "add", "Add")]))
            await pilot.press("f9")
            assert app.count == 1

    asyncio.run(run())


def test_app_is_mounted_while_it_runs_and_closing_at_its_end() -> None:
    async def run() -> None:
        app = Plain()
        states = [(internals.is_mounted(app), internals.is_closing(app))]
        async with app.run_test() as pilot:
            await pilot.pause()
            states.append((internals.is_mounted(app), internals.is_closing(app)))
        states.append((internals.is_mounted(app), internals.is_closing(app)))
        assert [states[0], states[1], states[2][1]] == [(False, False), (True, False), True]

    asyncio.run(run())


def test_local_clipboard_is_set_and_nothing_is_written() -> None:
    async def run() -> None:
        app = Plain()
        async with app.run_test():
            internals.set_local_clipboard(app, "text")
            assert app.clipboard == "text"

    asyncio.run(run())


def test_ansi_color_filter_follows_the_theme() -> None:
    class Themed(Plain):
        @property
        def ansi_theme(self) -> TerminalTheme:
            return MONOKAI

    app = Themed()
    (at,) = (index for index, one in enumerate(app._filters) if isinstance(one, ANSIToTruecolor))
    before = app._filters[at]
    internals.refresh_ansi_colors(app)
    after = app._filters[at]
    assert after is not before
    assert isinstance(after, ANSIToTruecolor)
    style = after.truecolor_style(Style(color="red"), Color(0, 0, 0).rich_color)
    assert style.color is not None
    assert style.color.triplet == MONOKAI.ansi_colors[1]


@pytest.mark.parametrize("is_debugging", [False, True])
def test_error_is_reported_instead_of_its_traceback(is_debugging: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL", "debug" if is_debugging else "")

    class Breaking(internals.CrashApp):
        reported: tuple[Exception, ...] = ()

        def report_crash(self, error: Exception) -> None:
            self.reported += (error,)

        def on_key(self) -> None:
            raise KeyError("broken")

    async def run() -> Breaking:
        app = Breaking()
        with pytest.raises(KeyError, match="broken"):
            async with app.run_test() as pilot:
                await pilot.press("a")
        return app

    app = asyncio.run(run())
    assert [str(error) for error in app.reported] == ([] if is_debugging else ["'broken'"])
    assert app.return_code == 1


class Painting(internals.PaintingApp):
    """An app with a driver that keeps the output, as if it had a terminal."""

    CSS = "#side { dock: right; width: 10; } #a { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.painter: Painter = Painter(erases_color=True)

    @property
    def is_headless(self) -> bool:
        return False

    def compose(self) -> ComposeResult:
        yield Static("first", id="a")
        yield Static("second")
        yield Static("side", id="side")

    def report_crash(self, error: Exception) -> None:
        raise error


def test_frames_are_written_through_the_painter() -> None:
    async def run() -> None:
        app = Painting()
        screen, expected = Screen(30, 6), Screen(30, 6)
        async with app.run_test(size=(30, 6)) as pilot:
            driver = internals.driver_of(app)
            assert driver is not None
            driver.write = app.written.append  # type: ignore[method-assign,assignment]  # the headless driver discards

            async def compare() -> int:
                """Feed the output; return its length after checking the result against a whole frame."""
                await pilot.pause()
                output = "".join(app.written)
                app.written.clear()
                screen.feed(output)
                stack = app._background_screens
                whole = app.screen._compositor.render_update(full=True, screen_stack=stack)
                assert isinstance(whole, LayoutUpdate)
                expected.feed(whole.render_segments(app.console))
                assert screen.rows == expected.rows
                return len(output)

            app.painter.forget()
            app.refresh()
            whole = await compare()
            app.query_one("#a", Static).update("third")
            assert 0 < await compare() < whole * 2 / 3
            # A frame of one widget is written as a whole screen if the screen is not known.
            app.painter.forget()
            app.query_one("#a", Static).update("fourth")
            assert await compare() > whole * 2 / 3
            await app.push_screen(ModalScreen())
            await compare()
            await app.pop_screen()
            await compare()
            with app.batch_update():
                app.query_one("#a", Static).update("fifth")
                app.screen._compositor_refresh()
                assert app.written == []
            await compare()

    asyncio.run(run())


@pytest.mark.parametrize("is_surviving", [False, True])
def test_error_in_a_handler_ends_neither_the_widget_nor_a_resilient_app(is_surviving: bool) -> None:
    internals.guard_widgets()

    class Fragile(Static, can_focus=True):
        keys = ""

        def on_key(self, event: events.Key) -> None:
            if event.key == "x":
                raise KeyError("broken")
            self.keys += event.key

    class Surviving(internals.CrashApp):
        def compose(self) -> ComposeResult:
            yield Fragile()

        def survives(self, error: Exception) -> bool:
            return is_surviving

        def report_crash(self, error: Exception) -> None:
            pass

    async def run() -> str:
        app = Surviving()
        async with app.run_test() as pilot:
            app.query_one(Fragile).focus()
            await pilot.press("a", "x", "b")
            return app.query_one(Fragile).keys

    if is_surviving:
        assert asyncio.run(run()) == "ab"
    else:
        with pytest.raises(KeyError, match="broken"):
            asyncio.run(run())


@pytest.mark.parametrize("key", ["backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+x"])
def test_every_key_that_deletes_can_be_changed(key: str) -> None:
    class Kept(internals.KeyDeletingArea):
        asked = 0
        BINDINGS: ClassVar[list[BindingType]] = TextArea.BINDINGS

        def delete_by_key(self, start: Location, end: Location) -> EditResult | None:
            self.asked += 1
            return super().delete_by_key(start, end) if self.asked > 1 else None

    class Area(Plain):
        def compose(self) -> ComposeResult:
            yield Kept("one two")

    async def run() -> None:
        app = Area()
        async with app.run_test() as pilot:
            area = app.query_one(Kept)
            area.focus()
            area.move_cursor((0, 3))
            await pilot.press(key)
            assert (area.asked, area.text) == (1, "one two")
            await pilot.press(key)
            assert area.asked == 2
            assert area.text != "one two"

    asyncio.run(run())
