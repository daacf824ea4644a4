"""Choices that the app saves between runs: theme, model, effort, recent commands, and whether setup is done.

The choices are stored in one small file of the state folder. If the file cannot be read or written, the app asks again.
The configuration takes precedence over these choices.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from qcode.config import state_file
from qcode.protocol.model import EFFORTS, Effort
from qcode.text.json import Json, JsonObject, text_in
from qcode.values import dataclass

FILE_NAME = "choices.json"
_MAX_RECENT_COMMANDS = 12
_MAX_RECENT_MODELS = 5
_SET_UP_KEY = "acquainted"  # the key in existing files: with a new key, setup would run again


@dataclass(frozen=True, slots=True)
class Choices:
    """The file of choices. Every call reads it, because another process may have changed it."""

    state_dir: Path

    @property
    def path(self) -> Path:
        return self.state_dir / FILE_NAME

    @property
    def theme(self) -> str:
        """The theme chosen last, empty if the user chose none."""
        return text_in(self._load().get("theme"))

    @property
    def model(self) -> str:
        """The model (`provider/model`) chosen last, empty if the user chose none."""
        return text_in(self._load().get("model"))

    @property
    def recent_models(self) -> tuple[str, ...]:
        """The models chosen last, the latest first."""
        return self._texts("models")

    @property
    def effort(self) -> Effort | None:
        """The effort chosen last, None for the model's default."""
        effort = self._load().get("effort")
        return next((level for level in EFFORTS if level == effort), None)

    @property
    def recent_commands(self) -> tuple[str, ...]:
        """The ids of recently used commands, the latest first."""
        return self._texts("recent")

    @property
    def is_set_up(self) -> bool:
        """Whether the setup of the first start was finished or skipped."""
        return self._load().get(_SET_UP_KEY) is True

    def save_theme(self, name: str) -> None:
        self._save("theme", name)

    def save_model(self, name: str) -> None:
        """Save the model for the next start, and put it first in the list of recent models."""
        self._save("model", name)
        recent: list[Json] = [name, *(recent_model for recent_model in self.recent_models if recent_model != name)]
        self._save("models", recent[:_MAX_RECENT_MODELS])

    def save_effort(self, effort: Effort | None) -> None:
        self._save("effort", effort or "")

    def save_recent_command(self, command_id: str) -> None:
        """Put a command first in the list of recent commands."""
        recent: list[Json] = [command_id, *(other for other in self.recent_commands if other != command_id)]
        self._save("recent", recent[:_MAX_RECENT_COMMANDS])

    def save_set_up(self) -> None:
        self._save(_SET_UP_KEY, True)

    def _texts(self, name: str) -> tuple[str, ...]:
        items = self._load().get(name)
        return tuple(item for item in items if isinstance(item, str)) if isinstance(items, list) else ()

    def _load(self) -> JsonObject:
        return state_file.load_json(self.path)

    def _save(self, name: str, value: Json) -> None:
        stored = self._load()
        if stored.get(name) == value:
            return
        with contextlib.suppress(OSError):
            state_file.save_json(self.path, {**stored, name: value})
