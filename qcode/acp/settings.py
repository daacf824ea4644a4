"""Modes and options of a session for the client: permission mode, model, effort, with their values.

A client may choose any mode but `bypass`, which only the command line can enable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from qcode.acp.wire import invalid
from qcode.protocol.approvals import ApprovalMode, effective_mode
from qcode.protocol.model import EFFORTS
from qcode.text.clean import one_line
from qcode.text.json import Json, JsonObject

if TYPE_CHECKING:
    from qcode.agent.agent import Agent
    from qcode.agent.models.client import ModelClient
    from qcode.agent.models.offered import OfferedProvider

MAX_MODELS = 200
DEFAULT_EFFORT = "auto"
_MODES: dict[ApprovalMode, tuple[str, str]] = {
    "plan": ("Plan", "Reads only, and proposes a plan"),
    "default": ("Ask", "Asks before it changes anything"),
    "accept-edits": ("Accept edits", "Edits inside the folder run without asking"),
    "auto": ("Auto", "Commands run without asking in the sandbox"),
    "bypass": ("Bypass", "Runs everything without asking"),
}
_NEEDS_TRUST = ", once this folder is trusted (/trust)"


class SessionSettings:
    """The settings of one session. `models` are the models to offer; `has_sandbox`: a sandbox works on this machine."""

    def __init__(self, agent: Agent, models: Sequence[OfferedProvider], *, has_sandbox: bool) -> None:
        self._agent = agent
        self._providers = [
            (provider.name, [model.name for model in provider.models]) for provider in models if provider.is_ready
        ]
        self._has_sandbox = has_sandbox
        self._may_bypass = agent.conversation.mode == "bypass"

    @property
    def mode(self) -> ApprovalMode:
        """The mode in effect."""
        agent = self._agent
        return effective_mode(agent.conversation.mode, is_trusted=agent.permissions.is_trusted)

    def modes(self) -> JsonObject:
        return {
            "currentModeId": self.mode,
            "availableModes": self._mode_rows("id"),
        }

    def options(self) -> list[Json]:
        """Return every option with its current value."""
        conversation = self._agent.conversation
        modes = self._mode_rows("value")
        options: list[Json] = [
            _select_option("mode", "Permission mode", "mode", self.mode, modes),
            _select_option("model", "Model", "model", conversation.model, self._model_groups()),
        ]
        if conversation.supports_reasoning:
            levels: list[Json] = [{"value": DEFAULT_EFFORT, "name": "Model default"}]
            levels += [{"value": level, "name": level.capitalize()} for level in EFFORTS]
            current = conversation.effort or DEFAULT_EFFORT
            options.append(_select_option("effort", "Effort", "thought_level", current, levels))
        return options

    def set_mode(self, mode_id: str) -> None:
        """Switch the permission mode; raise `WireError` for a mode that is not offered or needs a trusted folder."""
        mode = next((mode for mode in self._offered_modes() if mode == mode_id), None)
        if mode is None:
            raise invalid(f'the mode "{one_line(mode_id, 80)}" is not available')
        if effective_mode(mode, is_trusted=self._agent.permissions.is_trusted) != mode:
            raise invalid(f'the mode "{mode}" needs a trusted folder; type /trust to see what this one contains')
        self._agent.conversation.set_mode(mode)

    def connect_model(self, model: str) -> ModelClient | None:
        """Return a client for a model, None for the current model. Raise `WireError` if it cannot be used.

        It blocks, because it may wait for the keyring.
        """
        if model == self._agent.conversation.model:
            return None
        try:
            return self._agent.connect_model(model)
        except ValueError as refusal:
            raise invalid(one_line(str(refusal), 1_000)) from None

    def set_option(self, option: str, value: str) -> None:
        """Set an option other than the model; raise `WireError` for an unknown option or value."""
        match option:
            case "mode":
                self.set_mode(value)
            case "effort":
                level = next((level for level in EFFORTS if level == value), None)
                if level is None and value != DEFAULT_EFFORT:
                    raise invalid(f'the effort "{one_line(value, 80)}" is not available')
                self._agent.conversation.effort = level
            case _:
                raise invalid(f'there is no option "{one_line(option, 80)}"')

    def _offered_modes(self) -> list[ApprovalMode]:
        hidden = {"auto": not self._has_sandbox, "bypass": not self._may_bypass}
        return [mode for mode in get_args(ApprovalMode) if mode == self.mode or not hidden.get(mode, False)]

    def _mode_rows(self, key: str) -> list[Json]:
        """Return the offered modes as objects with a name; `key` is the field of the mode's id."""
        is_trusted = self._agent.permissions.is_trusted
        rows: list[Json] = []
        for mode in self._offered_modes():
            name, description = _MODES[mode]
            needs_trust = effective_mode(mode, is_trusted=is_trusted) != mode
            rows.append({key: mode, "name": name, "description": description + (_NEEDS_TRUST if needs_trust else "")})
        return rows

    def _model_groups(self) -> list[Json]:
        """Return the models by provider, the current one always among them."""
        current = self._agent.conversation.model
        provider, _, name = current.partition("/")
        groups = {owner: list(models) for owner, models in self._providers}
        current_group = groups.pop(provider, [])
        groups = {provider: [name, *(model for model in current_group if model != name)], **groups}
        rows: list[Json] = []
        remaining = MAX_MODELS
        for owner, models in groups.items():
            listed = models[:remaining]
            remaining -= len(listed)
            if listed:
                values: list[Json] = [{"value": f"{owner}/{model}", "name": one_line(model, 200)} for model in listed]
                rows.append({"group": owner, "name": owner, "options": values})
        return rows


def _select_option(option: str, name: str, category: str, current: str, values: list[Json]) -> JsonObject:
    return {
        "id": option,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": values,
    }
