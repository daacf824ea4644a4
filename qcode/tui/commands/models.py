"""The commands of the model: which one, and how much it thinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.protocol.model import EFFORTS, Effort
from qcode.tui.commands.command import Command, CommandHost, nearest

if TYPE_CHECKING:
    from qcode.tui.screens.models import Chosen

AUTO = "auto"
"""The word for no effort of one's own: the model thinks as much as it likes."""
_MEANINGS: dict[Effort, str] = {
    "none": "no thinking, where it can be switched off",
    "minimal": "as little as there is",
    "low": "quick answers",
    "medium": "a balance",
    "high": "longer thought, more tokens",
    "max": "all it has",
}
_MOST_LINES = 40


def _model(host: CommandHost, name: str) -> None:
    if name:
        host.use_model(name)
    elif host.has_screens and host.setup.offering is not None:
        from qcode.tui.screens.models import ModelPicker

        picker = ModelPicker(host.setup.offering, host.conversation.model, host.effort)
        host.open_screen(picker, lambda chosen: _take(host, chosen))
    else:
        others = [other for other in host.model_names if other != host.conversation.model]
        lines = [f"Model: {host.conversation.model}", *(f"  {other}" for other in others[:_MOST_LINES])]
        if len(others) > _MOST_LINES:
            lines.append(f"  and {len(others) - _MOST_LINES} more: qcode models lists them all")
        host.say("info", "\n".join([*lines, "/model NAME switches, from the next turn on."]))


def _take(host: CommandHost, chosen: Chosen | None) -> None:
    if chosen is None:
        return
    host.choose_model(chosen.model or host.conversation.model, chosen.effort)
    if chosen.provider:
        host.connect(chosen.provider)


def _effort(host: CommandHost, typed: str) -> None:
    level = next((one for one in EFFORTS if one == typed.lower()), None)
    if level is not None or typed.lower() == AUTO:
        host.use_effort(level)
    elif typed:
        close = nearest(typed, (AUTO, *EFFORTS))
        hint = f"Did you mean {close}?" if close else f"There are {', '.join((AUTO, *EFFORTS))}."
        host.say("warning", f"There is no effort {typed!r}. {hint}")
    elif host.has_screens:
        _pick_effort(host)
    else:
        lines = [f"  {one}: {meaning}" for one, meaning in _MEANINGS.items()]
        host.say("info", "\n".join([f"Effort: {host.effort or AUTO}", *lines, "/effort LEVEL sets it."]))


def _pick_effort(host: CommandHost) -> None:
    from qcode.tui.screens.picker import Picker, Row

    rows = [Row(AUTO, AUTO, "as the model likes", host.effort is None)]
    rows += [Row(one, one, meaning, host.effort == one) for one, meaning in _MEANINGS.items()]
    title = "Effort" if host.conversation.thinks else "Effort (it is not known that this model thinks)"
    host.open_screen(Picker(title, rows), lambda level: _effort(host, level) if level is not None else None)


MODELS: tuple[Command, ...] = (
    Command(
        "model",
        "Switch the model",
        "Choose a model by context, price and abilities, or switch to one by name.",
        _model,
        ("model", "models"),
        "[name]",
        lambda host: host.model_names,
        has_screen=True,
    ),
    Command(
        "effort",
        "Set the effort",
        "Set how much the model thinks, from the next turn on.",
        _effort,
        ("effort",),
        "[level]",
        lambda _: (AUTO, *EFFORTS),
        has_screen=True,
    ),
)
