"""Changes of the permission mode, the model, the effort and the settings, in the app and in the linear mode.

The requested effort is remembered across models. A model that is not known to support reasoning gets it only if the
user sets it while that model is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qcode.protocol.approvals import ApprovalMode, effective_mode, mode_label
from qcode.protocol.events import Level
from qcode.protocol.model import Effort
from qcode.text.sentences import capitalized
from qcode.tui.theme import AUTO

if TYPE_CHECKING:
    from pathlib import Path

    from qcode.agent.agent import Agent
    from qcode.agent.conversation import Conversation
    from qcode.agent.settings import Setting
    from qcode.tui.main_widgets import MainWidgets
    from qcode.tui.terminal.driver import TerminalTitle

MODES: dict[ApprovalMode, str] = {
    "plan": "reads only",
    "default": "asks before it changes anything",
    "accept-edits": "edits in the folder run without asking",
}
"""The modes that Shift+Tab cycles through, in order. `auto` and `bypass` can only be set by flags."""
_NEEDS_TRUST = "once you trust this folder (/trust)"


def meaning_of(mode: ApprovalMode, *, is_trusted: bool) -> str:
    """Return the meaning of a mode of `MODES`. In an untrusted folder, add that some modes need `/trust`."""
    is_effective = effective_mode(mode, is_trusted=is_trusted) == mode
    return MODES[mode] if is_effective else f"{MODES[mode]}, after /trust"


def pending_mode_notice(mode: ApprovalMode, *, is_trusted: bool) -> str:
    """Return the notice that a chosen mode has no effect yet; empty if the mode has an effect."""
    if effective_mode(mode, is_trusted=is_trusted) == mode:
        return ""
    return f"Mode {mode_label(mode)} applies {_NEEDS_TRUST}. Until then qcode asks before each change."


def shown_effort(conversation: Conversation) -> str:
    """Return the effort for the status line; empty if none is set or the model does not support reasoning."""
    effort = conversation.effort if conversation.supports_reasoning else None
    return "effort none" if effort == "none" else effort or ""  # `none` alone would be ambiguous


class ModelUse:
    """The user's choice of model and effort.

    `notify` shows a notice. `on_change` is called when the status line must be updated.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        notify: Callable[[Level, str], None],
        on_change: Callable[[], None],
    ) -> None:
        self._conversation = conversation = agent.conversation
        self._models = agent.models
        self._notify = notify
        self._on_change = on_change
        self._requested_effort: Effort | None = conversation.effort or agent.models.effort
        if conversation.supports_reasoning:
            conversation.effort = self._requested_effort

    @property
    def requested_effort(self) -> Effort | None:
        """The effort that the user asked for, even if the current model does not support it."""
        return self._requested_effort

    @property
    def _start(self) -> str:
        """When a change starts, for a notice; empty if it applies now, because no turn runs."""
        return ", from the next turn" if self._conversation.is_busy else ""

    def use(self, name: str) -> bool:
        """Switch to a model from the next turn on; show an error and return False if it does not exist."""
        conversation = self._conversation
        try:
            conversation.set_model(name)
        except ValueError as refusal:
            reason = capitalized(str(refusal).rstrip("."))
            self._notify("warning", reason if reason.endswith("?") else f"{reason}.")
            return False
        conversation.effort = self._requested_effort if conversation.supports_reasoning else None
        lines = [f"Model: {conversation.model}{self._start}."]
        if conversation.effort is not None:
            lines.append(f"Effort: {conversation.effort}.")
        elif self._requested_effort is not None:
            lines.append(f"Effort {self._requested_effort} is not sent: this model is not known to support reasoning.")
        if override_note := self._models.save_model(conversation.model):
            lines.append(override_note)
        self._on_change()
        self._notify("info", "\n".join(lines))
        return True

    def choose(self, name: str, effort: Effort | None) -> None:
        """Switch model and effort together.

        If the model does not support reasoning, keep the effort for the next model that does.
        """
        conversation = self._conversation
        if effort != self._requested_effort:
            self._save_effort(effort)
            if name == conversation.model:
                conversation.effort = effort if conversation.supports_reasoning else None
                self._on_change()
                condition = "" if conversation.supports_reasoning else " for models known to support reasoning"
                self._notify("info", f"Effort: {effort or 'model default'}{self._start}{condition}.")
        if name != conversation.model:
            self.use(name)

    def _save_effort(self, effort: Effort | None) -> None:
        self._requested_effort = effort
        self._models.save_effort(effort)

    def use_effort(self, effort: Effort | None) -> None:
        """Set the effort from the next turn on; None restores the model's default."""
        conversation = self._conversation
        conversation.effort = effort
        self._save_effort(effort)
        self._on_change()
        if effort is not None and not conversation.supports_reasoning:
            doubt = f"{conversation.model} is not known to support reasoning; the provider may reject it."
            self._notify("warning", f"Effort: {effort}. {doubt}")
        else:
            self._notify("info", f"Effort: {effort or 'model default'}{self._start}.")


def apply_setting(
    setting: Setting,
    terminal_title: TerminalTitle,
    widgets: MainWidgets,
    state_dir: Path,
    *,
    apply_theme: Callable[[str], None],
    use_mode: Callable[[ApprovalMode], None],
) -> bool:
    """Apply a setting to the running app; return False if only the next start reads it."""
    value = setting.value
    match setting.name:
        case "ui.theme":
            from qcode.config.saved_choices import Choices

            apply_theme(value if isinstance(value, str) else Choices(state_dir).theme or AUTO)
        case "ui.bell":
            terminal_title.has_bell = value if isinstance(value, bool) else None
        case "ui.title":
            terminal_title.use_title(value is True)
        case "ui.show_thinking" if value == "folded" or value == "expanded" or value == "hidden":
            widgets.transcript.show_thinking(value)
        case "ui.vim":
            widgets.prompt.use_vim(value is True)
        case "permissions.mode" if any(value == mode for mode in MODES):
            use_mode(next(mode for mode in MODES if mode == value))
        case _:
            return False
    return True
