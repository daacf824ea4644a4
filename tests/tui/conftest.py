"""Makes a pilot wait until the event loop of the app is idle, and paints immediately.

Textual's own way takes an app for idle once the process has used little time for 20 ms. That costs 20 ms and more for
each pause and each key, and on a busy machine an app that only waits for its turn looks idle too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from inspect import CO_VARARGS, CO_VARKEYWORDS, ismethod, signature
from typing import Any

import pytest
from textual import _callback
from textual._compositor import Compositor
from textual._context import active_app
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen

TICK_S = 0.001
"""Time that threads and files get before the loop counts as idle."""


async def wait_for_idle(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """Wait until the loop has been idle twice in a row, with time for threads in between."""
    loop: Any = asyncio.get_running_loop()  # asyncio has no public way to ask whether callbacks are ready
    end = loop.time() + max_sleep
    calm = 0
    while calm < 3 and loop.time() < end:
        await asyncio.sleep(TICK_S if calm else 0)
        if not loop._ready:
            paint()
        calm = 0 if loop._ready else calm + 1


def paint() -> None:
    """Do the work of the next frame now: resize, and repaint as `Pilot.pause` does at its end."""
    with suppress(LookupError):
        app = active_app.get()
        if app._resize_event is not None:
            app._check_resize()
        for screen in app.screen_stack[-1:]:
            assert isinstance(screen, Screen)
            screen._on_timer_update()


@pytest.fixture(scope="session", autouse=True)
def exact_pilot() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("textual.app.wait_for_idle", wait_for_idle)
        patch.setattr("textual.pilot.wait_for_idle", wait_for_idle)
        patch.setenv("COLORTERM", "truecolor")  # snapshots show the themes as a terminal of 16 million colors does
        yield


@pytest.fixture(autouse=True)
def without_frames(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out without painting, unless the test is marked `frames`.

    No terminal shows the frames of a test, which are a quarter of its time. A screenshot and `Running.screen` paint
    what they return, and `running` paints the last state of an app, so an error of painting shows.
    """
    if request.node.get_closest_marker("frames") is not None:
        return
    paint = Compositor.render_update

    def paint_whole(compositor: Compositor, full: bool = False, **given: Any) -> Any:
        return paint(compositor, full=True, **given) if full else compositor._dirty_regions.clear()

    monkeypatch.setattr(Compositor, "render_update", paint_whole)


@pytest.fixture(scope="session", autouse=True)
def remembered_handlers() -> Iterator[None]:
    """Look up once which messages a class does not handle, and count parameters without a signature.

    Textual searches all base classes for each message, and builds the signature of each partial function.
    """
    unhandled: dict[tuple[type, type, str], bool] = {}
    find = MessagePump._get_dispatch_methods

    def find_quickly(pump: MessagePump, method_name: str, message: Message) -> Iterable[Any]:
        key = (type(pump), type(message), method_name)
        if key not in unhandled:
            unhandled[key] = not has_handler(*key)
        return () if unhandled[key] else find(pump, method_name, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MessagePump, "_get_dispatch_methods", find_quickly)
        patch.setattr(_callback, "_count_parameters", count_parameters)
        patch.setattr(RuleSet, "__hash__", object.__hash__)  # Textual's is the same, in Python
        yield


def count_parameters(function: Any) -> int:
    """Return the number of parameters that a call may pass, as `inspect.signature` counts them."""
    if hasattr(function, "__wrapped__") or hasattr(function, "__signature__") or not hasattr(function, "__code__"):
        return len(signature(function).parameters)
    code = function.__code__
    stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    counted: int = code.co_argcount + code.co_kwonlyargcount + stars - ismethod(function)
    return counted


def has_handler(pump: type, message: type, method_name: str) -> bool:
    """Return whether any class of `pump` has a method for `message`, by `@on` or by name."""
    names = {method_name, f"_{method_name}"}
    return any(
        names & vars(cls).keys() or vars(cls).get("_decorated_handlers", {}).keys() & set(message.__mro__)
        for cls in pump.__mro__
    )


@pytest.fixture(scope="session", autouse=True)
def shared_style_rules() -> Iterator[None]:
    """Parse each stylesheet once for all apps with the same variables: the rules do not change."""
    found: dict[object, list[RuleSet]] = {}
    parse = Stylesheet._parse_rules

    def parse_once(sheet: Stylesheet, *given: Any, **named: Any) -> list[RuleSet]:
        key = (frozenset(sheet._variables.items()), given, frozenset(named.items()))
        if key not in found:
            found[key] = parse(sheet, *given, **named)
        return found[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield
