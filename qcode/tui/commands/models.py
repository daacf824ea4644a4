"""The commands of the model: provider, model and effort. A picker is loaded when it opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qcode.protocol.model import EFFORTS, Effort
from qcode.text.clean import quoted
from qcode.text.match import unknown_name_error
from qcode.tui.commands.command import Command, CommandContext

if TYPE_CHECKING:
    from qcode.tui.screens.models import ModelChoice


AUTO = "auto"
"""The argument that resets the effort to the model's default."""

_EFFORT_MEANINGS: dict[Effort, str] = {
    "none": "no reasoning, if the model allows that",
    "minimal": "the least the model offers",
    "low": "quick answers",
    "medium": "a balance",
    "high": "longer reasoning, more tokens",
    "max": "the most the model offers",
}

_MAX_MODELS = 40


def _model(context: CommandContext, name: str) -> None:
    if name:
        if not context.model_use.use(name):
            context.keep_typed()
    elif context.app_view is not None:
        from qcode.tui.screens.models import ModelPicker

        picker = ModelPicker(context.agent.models, context.agent.conversation.model, context.model_use.requested_effort)
        context.required_app_view.open_screen(picker, lambda chosen: _use_choice(context, chosen))
    else:
        others = [other for other in context.agent.models.names() if other != context.agent.conversation.model]
        lines = [f"Model: {context.agent.conversation.model}", *(f"  {other}" for other in others[:_MAX_MODELS])]
        if len(others) > _MAX_MODELS:
            lines.append(f"  … {len(others) - _MAX_MODELS} more: `qcode models` lists them all")
        context.view.notify("info", "\n".join([*lines, "/model NAME switches the model from the next turn."]))


def _use_choice(context: CommandContext, chosen: ModelChoice | None) -> None:
    if chosen is None:
        return
    context.model_use.choose(chosen.model or context.agent.conversation.model, chosen.effort)
    if chosen.provider:
        _connect(context, chosen.provider)


def _effort(context: CommandContext, typed: str) -> None:
    level = next((candidate for candidate in EFFORTS if candidate == typed.lower()), None)
    if level is not None or typed.lower() == AUTO:
        context.model_use.use_effort(level)
    elif typed:
        choices = (AUTO, *EFFORTS)
        context.refuse(
            unknown_name_error(f"effort {quoted(typed)}", typed, choices, f"Choose from {', '.join(choices)}.")
        )
    elif context.app_view is not None:
        _pick_effort(context)
    else:
        lines = [f"  {level}: {meaning}" for level, meaning in _EFFORT_MEANINGS.items()]
        heading = f"Effort: {context.model_use.requested_effort or AUTO}"
        context.view.notify("info", "\n".join([heading, *lines, "/effort LEVEL sets it."]))


def _pick_effort(context: CommandContext) -> None:
    from qcode.tui.panels.picker_list import PickerRow
    from qcode.tui.screens.picker import Picker

    current = context.model_use.requested_effort
    rows = [PickerRow(AUTO, AUTO, "model default", is_current=current is None)]
    rows += [
        PickerRow(level, level, meaning, is_current=level == current) for level, meaning in _EFFORT_MEANINGS.items()
    ]
    is_supported = context.agent.conversation.supports_reasoning
    title = "Effort" if is_supported else "Effort (this model is not known to support reasoning)"

    def on_pick(level: str | None) -> None:
        if level is not None:
            _effort(context, level)

    context.required_app_view.open_screen(Picker(title, rows), on_pick)


def _connect(context: CommandContext, provider: str) -> None:
    names = context.agent.keys.names()
    if provider and provider not in names:
        context.refuse(unknown_name_error(f"provider {quoted(provider)}", provider, names, "/connect lists them."))
    else:
        context.required_app_view.connect(provider)


MODELS: tuple[Command, ...] = (
    Command(
        "model",
        "Switch the model",
        "Choose a model by context window, price and features, or switch by name.",
        _model,
        names=("model", "models"),
        argument="[name]",
        choices=lambda context: context.agent.models.names(),
        opens_picker=True,
    ),
    Command(
        "effort",
        "Set the effort",
        "Set the reasoning effort from the next turn.",
        _effort,
        names=("effort",),
        argument="[level]",
        choices=lambda _: (AUTO, *EFFORTS),
        opens_picker=True,
    ),
    Command(
        "connect",
        "Connect a provider",
        "Choose a provider, add its API key and switch to one of its models.",
        _connect,
        names=("connect",),
        argument="[provider]",
        choices=lambda context: context.agent.keys.names(),
        needs_app=True,
    ),
)
