"""Makes tests of the app fast: a pilot waits until the event loop is idle, and Textual repeats no work for each app.

Textual itself regards an app as idle once the process has used little time for 20 ms. Each pause and each key would
take 20 ms or more, and on a busy machine an app that waits for the processor would count as idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from inspect import CO_VARARGS, CO_VARKEYWORDS, ismethod, signature
from pathlib import Path
from typing import Any

import pytest
from textual import _callback
from textual._compositor import Compositor
from textual._context import active_app
from textual.app import ScreenStackError
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.design import ColorSystem
from textual.message import Message
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.screen import Screen
from textual.theme import Theme

from qcode.tui import theme
from qcode.tui.panels import draft

TICK_S = 0.001
"""Seconds that threads and files get before the loop counts as idle."""
ask_widgets = Pilot._wait_for_screen
MIN_TURNS = 300
"""The iterations of the loop before a wait gives up, even if they take longer than `max_sleep` on a busy machine."""


async def wait_for_idle(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until the loop was idle three times in a row, with time for threads in between."""
    loop: Any = asyncio.get_running_loop()  # asyncio has no public way to ask whether callbacks are ready
    end = loop.time() + max_sleep
    calm = turns = 0
    while calm < 3 and (turns < MIN_TURNS or loop.time() < end):
        turns += 1
        await asyncio.sleep(TICK_S if calm else 0)
        if not loop._ready:
            paint()
        calm = 0 if loop._ready else calm + 1


def is_idle(pump: MessagePump) -> bool:
    """Return whether a widget or app has handled all its messages and waits for the next one."""
    arrived: Any = pump._message_queue.ready_event
    return not arrived.is_set() and bool(arrived._waiters)


async def wait_for_screen(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
    """Wait until the app and each widget on the screen have handled their messages.

    Textual itself sends a message to each of them. That wakes up dozens of tasks for each key, so it is done only if
    one of them is at work.
    """
    with suppress(ScreenStackError):
        if all(map(is_idle, (pilot.app, *pilot.app.screen.walk_children(with_self=True)))):
            return True
    return await ask_widgets(pilot, timeout)


def paint() -> None:
    """Do the work of the next frame now: resize and repaint, as `Pilot.pause` does at its end."""
    with suppress(LookupError):
        app = active_app.get()
        if app._resize_event is not None:
            app._check_resize()
        for screen in app.screen_stack[-1:]:
            assert isinstance(screen, Screen)
            screen._on_timer_update()


@pytest.fixture(autouse=True)
def _letters_answer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a letter answer a question at once. Tests of the pause before that set `HOLD_SECONDS` themselves.

    The keys of a test come as fast as those of a paste, so a test of a pasted text sets `BURST_SECONDS`, too.
    """
    monkeypatch.setattr(draft, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(draft, "BURST_SECONDS", 0.0)


@pytest.fixture(scope="session", autouse=True)
def exact_pilot() -> Iterator[None]:
    """Let a pilot wait with `wait_for_idle` of this module, in a terminal with 16 million colors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.app.wait_for_idle", wait_for_idle)
        patch.setattr("textual.pilot.wait_for_idle", wait_for_idle)
        patch.setattr(Pilot, "_wait_for_screen", wait_for_screen)
        patch.setenv("COLORTERM", "truecolor")
        yield


@pytest.fixture(autouse=True)
def without_frames(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out without painting, unless the test is marked `frames`.

    No terminal shows the frames of a test, and painting them is a quarter of its time. A screenshot and
    `Running.screen` paint the screen that they return. `running` paints the last state of the app, so that a widget
    that cannot be painted fails the test.
    """
    if request.node.get_closest_marker("frames") is not None:
        return
    paint = Compositor.render_update

    def paint_whole(compositor: Compositor, full: bool = False, **given: Any) -> Any:
        return paint(compositor, full=True, **given) if full else compositor._dirty_regions.clear()

    monkeypatch.setattr(Compositor, "render_update", paint_whole)


Handlers = dict[tuple[type, type, str], list[tuple[type, str]] | None]


@pytest.fixture(scope="session", autouse=True)
def remembered_handlers() -> Iterator[Handlers]:
    """Find the handlers of each kind of message once, and count parameters without building a signature.

    Textual itself searches all base classes for each message, and builds the signature of each partial function.
    """
    known: Handlers = {}
    find = MessagePump._get_dispatch_methods

    def find_quickly(pump: MessagePump, method_name: str, message: Message) -> Iterable[Any]:
        key = (type(pump), type(message), method_name)
        if key not in known:
            known[key] = named_handlers(*key)
        handlers = known[key]
        return find(pump, method_name, message) if handlers is None else bind(handlers, pump, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MessagePump, "_get_dispatch_methods", find_quickly)
        patch.setattr(_callback, "_count_parameters", count_parameters)
        patch.setattr(RuleSet, "__hash__", object.__hash__)  # Textual's own returns the same, but is Python code
        yield known


@pytest.fixture(autouse=True)
def forgotten_handlers(remembered_handlers: Handlers) -> None:
    """Forget the handlers before each test, which may replace some."""
    remembered_handlers.clear()


def named_handlers(pump: type, message: type, method_name: str) -> list[tuple[type, str]] | None:
    """Return each class with a method named as a handler of `message`, and that name; None if a class uses `@on`."""
    handlers = []
    for cls in pump.__mro__:
        if vars(cls).get("_decorated_handlers", {}).keys() & set(message.__mro__):
            return None
        names = (f"_{method_name}", method_name)
        handlers += [(cls, name) for name in names if name in vars(cls)][:1]
    return handlers


def bind(handlers: list[tuple[type, str]], pump: MessagePump, message: Message) -> Iterator[Any]:
    """Return the handlers as methods of `pump`, in order, until one of them prevents the others."""
    for cls, name in handlers:
        if message._no_default_action:
            return
        method = vars(cls).get(name)
        if method is not None and not getattr(method, "_textual_on", None):
            yield cls, method.__get__(pump, cls)


def count_parameters(function: Any) -> int:
    """Return the number of parameters that a call may pass, as `inspect.signature` counts them."""
    if hasattr(function, "__wrapped__") or hasattr(function, "__signature__") or not hasattr(function, "__code__"):
        return len(signature(function).parameters)
    code = function.__code__
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    counted: int = code.co_argcount + code.co_kwonlyargcount + stars - ismethod(function)
    return counted


@pytest.fixture(scope="session", autouse=True)
def shared_style_rules() -> Iterator[None]:
    """Parse each stylesheet once for all apps with the same variables."""
    parsed: dict[object, list[RuleSet]] = {}
    numbers: dict[frozenset[tuple[str, str]], int] = {}
    parse, set_variables = Stylesheet._parse_rules, Stylesheet.set_variables

    def number_variables(sheet: Stylesheet, variables: dict[str, str]) -> None:
        set_variables(sheet, variables)
        vars(sheet)["number"] = numbers.setdefault(frozenset(variables.items()), len(numbers))

    def parse_once(sheet: Stylesheet, *given: Any, **named: Any) -> list[RuleSet]:
        if "number" not in vars(sheet):
            number_variables(sheet, sheet._variables)
        key = (vars(sheet)["number"], given, *named.items())
        if key not in parsed:
            parsed[key] = parse(sheet, *given, **named)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "set_variables", number_variables)
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_themes() -> Iterator[None]:
    """Read each theme of qcode and compute the colors of each theme once for all apps."""
    builtin_folder, read = theme.builtin_folder(), theme.read_theme
    themes: dict[Path, Theme] = {}
    colors: dict[object, dict[str, str]] = {}
    generate = ColorSystem.generate

    def read_once(path: Path) -> Theme:
        if path.parent != builtin_folder:
            return read(path)
        if path not in themes:
            themes[path] = read(path)
        return themes[path]

    def generate_once(system: ColorSystem) -> dict[str, str]:
        key = tuple(frozenset(x.items()) if isinstance(x, dict) else x for x in vars(system).values())
        if key not in colors:
            colors[key] = generate(system)
        return dict(colors[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theme, "read_theme", read_once)
        patch.setattr(ColorSystem, "generate", generate_once)
        yield
