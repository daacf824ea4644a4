"""What the settings screen asks of the outside: the settings with their origins, and to change one. The root answers.

Only the person's own file is ever changed.
"""

from __future__ import annotations

from typing import Protocol

from qcode.protocol.values import dataclass

AT_ONCE = frozenset({"ui.theme", "ui.bell", "ui.title", "ui.show_thinking", "permissions.mode"})
"""The settings that hold at once when they are changed in the app; all others hold from the next start on."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as it is now.

    `shown` is its value as TOML writes it, `value` the value itself; `own` what the person's file says, as it would be
    typed, empty where it says nothing. `origin` is where the value comes from, in full; `whose` in one word.
    `choices` are the only values there are, where that is so. `fixed` says why it cannot be changed here, empty where
    it can. `above` is what goes before the person's file, empty where nothing does.
    """

    name: str
    shown: str
    value: object
    origin: str
    whose: str
    meaning: str = ""
    own: str = ""
    choices: tuple[str, ...] = ()
    fixed: str = ""
    above: str = ""


class Configuring(Protocol):
    """The settings of this run."""

    @property
    def file(self) -> str:
        """The file that is changed, as it is shown."""
        ...

    def settings(self) -> tuple[Setting, ...]:
        """Return all of them as they are now; raise `ValueError` with one line where a file cannot be read."""
        ...

    def change(self, name: str, typed: str | None) -> Setting:
        """Put what was typed into the person's file, or take it out; return the setting as it is now.

        Raise `ValueError` with one line where it is no value for this setting or cannot be written.
        """
        ...


def outcome_text(setting: Setting, *, is_now: bool) -> str:
    """Return what came of a change, and what stands against it."""
    if setting.above:
        return f"Written, but {setting.above} goes before your file: {setting.name} is still {setting.shown}."
    return f"{setting.name} = {setting.shown}, {'now' if is_now else 'from the next start on'}."
