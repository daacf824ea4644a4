"""Messages between qcode's widgets: each has a handler that is found by its class."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

from textual import events
from textual.message import Message
from textual.message_pump import MessagePump

import qcode.tui

WITHOUT_HANDLER: dict[str, str] = {}
"""Messages without a handler, each with its reason."""


def modules() -> Iterator[str]:
    for found in pkgutil.walk_packages(qcode.tui.__path__, "qcode.tui."):
        importlib.import_module(found.name)
        yield found.name


def derived(base: type[Any]) -> set[type[Any]]:
    found = {base}
    subclasses: list[type[Any]] = base.__subclasses__()
    for subclass in subclasses:
        found |= derived(subclass)
    return found


def of_qcode(base: type[Any]) -> set[type[Any]]:
    names = set(modules())
    return {item for item in derived(base) if item.__module__ in names}


def test_every_message_has_a_handler_or_a_reason() -> None:
    handled: set[type] = set()
    for widget in of_qcode(MessagePump):
        handled.update(vars(widget).get("_decorated_handlers", ()))
    messages = of_qcode(Message)
    assert len(messages) > 10
    assert {message.__qualname__ for message in messages - handled} == set(WITHOUT_HANDLER)


def test_only_textual_events_are_handled_by_method_name() -> None:
    of_events = {item.handler_name for item in derived(events.Event) if issubclass(item, Message)} | {"on_event"}
    by_name = {
        f"{item.__qualname__}.{name}"
        for item in of_qcode(MessagePump)
        for name in vars(item)
        if name.startswith(("on_", "_on_")) and name.removeprefix("_") not in of_events
    }
    assert by_name == set()
