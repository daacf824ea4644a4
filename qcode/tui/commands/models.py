"""The commands for model and effort, and what changing them does.

The effort is the user's choice: it is kept when they switch to a model that is known to support reasoning, and is
never set on any other model without being asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qcode.protocol.events import Level
from qcode.protocol.model import EFFORTS, Effort
from qcode.text.match import nearest
from qcode.tui.commands.command import Command, CommandContext

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.conversation import Conversation
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
_MAX_LINES = 40


def _model(context: CommandContext, name: str) -> None:
    if name:
        context.model_use.use(name)
    elif context.app is not None:
        from qcode.tui.screens.models import ModelPicker

        picker = ModelPicker(context.agent.models, context.agent.conversation.model, context.model_use.wanted)
        context.screen.open_screen(picker, lambda chosen: _take(context, chosen))
    else:
        others = [other for other in context.agent.models.names() if other != context.agent.conversation.model]
        lines = [f"Model: {context.agent.conversation.model}", *(f"  {other}" for other in others[:_MAX_LINES])]
        if len(others) > _MAX_LINES:
            lines.append(f"  and {len(others) - _MAX_LINES} more: qcode models lists them all")
        context.view.say("info", "\n".join([*lines, "/model NAME switches, from the next turn on."]))


def _take(context: CommandContext, chosen: Chosen | None) -> None:
    if chosen is None:
        return
    context.model_use.choose(chosen.model or context.agent.conversation.model, chosen.effort)
    if chosen.provider:
        context.screen.connect(chosen.provider)


def _effort(context: CommandContext, typed: str) -> None:
    level = next((one for one in EFFORTS if one == typed.lower()), None)
    if level is not None or typed.lower() == AUTO:
        context.model_use.use_effort(level)
    elif typed:
        close = nearest(typed, (AUTO, *EFFORTS))
        hint = f"Did you mean {close}?" if close else f"There are {', '.join((AUTO, *EFFORTS))}."
        context.view.say("warning", f"There is no effort {typed!r}. {hint}")
    elif context.app is not None:
        _pick_effort(context)
    else:
        lines = [f"  {one}: {meaning}" for one, meaning in _MEANINGS.items()]
        head = f"Effort: {context.model_use.wanted or AUTO}"
        context.view.say("info", "\n".join([head, *lines, "/effort LEVEL sets it."]))


def _pick_effort(context: CommandContext) -> None:
    from qcode.tui.screens.picker import Picker, Row

    rows = [Row(AUTO, AUTO, "as the model likes", context.model_use.wanted is None)]
    rows += [Row(one, one, meaning, context.model_use.wanted == one) for one, meaning in _MEANINGS.items()]
    title = "Effort" if context.agent.conversation.thinks else "Effort (it is not known that this model thinks)"
    context.screen.open_screen(
        Picker(title, rows), lambda level: _effort(context, level) if level is not None else None
    )


MODELS: tuple[Command, ...] = (
    Command(
        "model",
        "Switch the model",
        "Choose a model by context, price and abilities, or switch to one by name.",
        _model,
        ("model", "models"),
        "[name]",
        lambda context: context.agent.models.names(),
        opens_picker=True,
    ),
    Command(
        "effort",
        "Set the effort",
        "Set how much the model thinks, from the next turn on.",
        _effort,
        ("effort",),
        "[level]",
        lambda _: (AUTO, *EFFORTS),
        opens_picker=True,
    ),
)


def shown_effort(conversation: Conversation) -> str:
    """Return the effort for the status line: where one is set and the model thinks."""
    return conversation.effort or "" if conversation.thinks else ""


class ModelUse:
    """`shown` is told whenever what the status line says of the model is another thing now."""

    def __init__(
        self,
        agent: Agent,
        *,
        say: Callable[[Level, str], None],
        shown: Callable[[], None],
    ) -> None:
        self._conversation = conversation = agent.conversation
        self._models = agent.models
        self._say = say
        self._shown = shown
        self._wanted: Effort | None = conversation.effort or agent.models.effort
        if conversation.thinks:
            conversation.effort = self._wanted

    @property
    def wanted(self) -> Effort | None:
        """The effort the person asked for, also where the model in use gets none."""
        return self._wanted

    def use(self, name: str) -> None:
        """Switch to a model from the next turn on; where there is none of that name, say so."""
        talk = self._conversation
        try:
            talk.set_model(name)
        except ValueError as refusal:
            self._say("error", str(refusal))
            return
        talk.effort = self._wanted if talk.thinks else None
        lines = [f"Model: {talk.model}, from the next turn on."]
        if talk.effort is not None:
            lines.append(f"Effort: {talk.effort}.")
        elif self._wanted is not None:
            lines.append(f"The effort ({self._wanted}) is not sent: it is not known that this model thinks.")
        if hindrance := self._models.keep_model(talk.model):
            lines.append(hindrance)
        self._shown()
        self._say("info", "\n".join(lines))

    def choose(self, name: str, effort: Effort | None) -> None:
        """Switch to what was chosen together: the effort goes with the model where it thinks, else waits for one."""
        talk = self._conversation
        if effort != self._wanted:
            self._keep(effort)
            if name == talk.model:
                talk.effort = effort if talk.thinks else None
                self._shown()
                held_back = "" if talk.thinks else " for models that are known to think"
                self._say("info", f"Effort: {effort or 'as the model likes'}, from the next turn on{held_back}.")
        if name != talk.model:
            self.use(name)

    def _keep(self, effort: Effort | None) -> None:
        self._wanted = effort
        self._models.keep_effort(effort)

    def use_effort(self, effort: Effort | None) -> None:
        """Have the model think so much from the next turn on; None: as much as it likes."""
        talk = self._conversation
        talk.effort = effort
        self._keep(effort)
        self._shown()
        if effort is not None and not talk.thinks:
            self._say("warning", f"Effort: {effort}. It is not known that {talk.model} thinks; its host may refuse it.")
        else:
            self._say("info", f"Effort: {effort or 'as the model likes'}, from the next turn on.")
