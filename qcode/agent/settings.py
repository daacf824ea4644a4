"""Settings as a front end shows and changes them: value, origin, and the reason why a setting cannot be changed.

Only the user's file is ever changed. `outcome_text` describes the result of a change, and what overrides it.
"""

from __future__ import annotations

from collections.abc import Mapping

from qcode.agent.options import RunContext
from qcode.config.kinds import BOOLEAN_VALUES
from qcode.config.lines import parse_key
from qcode.config.load import file_layer, load
from qcode.config.paths import with_tilde
from qcode.config.saved_choices import Choices
from qcode.config.schema import Key, find_key
from qcode.config.settings import Origin, Settings
from qcode.config.show import SettingRow, setting_rows
from qcode.protocol.errors import ConfigError
from qcode.values import dataclass

APPLIED_AT_ONCE = frozenset({"ui.theme", "ui.bell", "ui.title", "ui.show_thinking", "ui.vim", "permissions.mode"})
"""Settings that apply at once if they are changed in the app; all others apply after a restart."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting and its current value."""

    name: str
    display: str
    """The value in TOML."""
    value: object
    """The parsed value; None if the setting has no value, or for a table whose keys the user chooses."""
    origin: str
    """The full source of the value."""
    owner: str
    """The source of the value in a word, such as `yours`, `project` or `default`."""
    meaning: str = ""
    typed_value: str = ""
    """The value in the user's file as the user would type it; empty if the file does not set it."""
    choices: tuple[str, ...] = ()
    """The allowed values, if they can be listed."""
    fixed_reason: str = ""
    """Why the setting cannot be changed here; empty if it can."""
    overridden_by: str = ""
    """The source that overrides the user's file; empty if no source does."""


def outcome_text(setting: Setting, *, is_now: bool) -> str:
    """Return a sentence about a changed setting: its value, or the source that overrides it.

    `is_now`: it applies now.
    """
    if setting.overridden_by:
        unchanged = f"{setting.name} is still {setting.display}."
        return f"Saved, but {setting.overridden_by} takes precedence over your file: {unchanged}"
    moment = "now" if is_now else "after a restart"
    if setting.value is None:
        return f"{setting.name} is no longer set; the default applies {moment}."
    return f"{setting.name} = {setting.display}; it applies {moment}."


class SettingsService:
    """The settings of a run, and the saved `choices`.

    Every call reads the files, because another program may have changed them.
    """

    def __init__(self, context: RunContext) -> None:
        self.choices = Choices(context.paths.state_dir)
        self._context = context
        self._file = context.paths.config_file

    @property
    def file(self) -> str:
        """The path of the user's file for display."""
        return with_tilde(str(self._file))

    def settings(self) -> tuple[Setting, ...]:
        """Return all settings; raise `ValueError` with one line if a file cannot be read."""
        try:
            settings = self._load()
            user_values = self._user_values()
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return tuple(self._setting(row, settings, user_values) for row in setting_rows(settings))

    def change(self, name: str, typed: str | None) -> Setting:
        """Write the typed value to the user's file, or remove the setting if None; return the new setting.

        Raise `ValueError` with one line if the value is invalid or cannot be written.
        """
        from qcode.config.edit import change, is_changeable, read_typed

        path = parse_key(name)
        key = find_key(path)
        if key is None or not is_changeable(key):
            raise ValueError(f"{name} cannot be changed here; edit {self.file}.")
        try:
            change(self._file, path, read_typed(key, typed) if typed is not None else None)
        except ConfigError as error:
            raise ValueError(f"{error}.") from None
        return next(setting for setting in self.settings() if setting.name == name)

    def _load(self) -> Settings:
        """Load the settings of the session again from their files."""
        context = self._context
        options = context.options
        return load(
            context.paths,
            context.env,
            options.flags(),
            context.root,
            context.is_trusted,
            further_settings=options.further_settings,
            user_config=options.user_config,
            reads_project=options.reads_project,
        )

    def _user_values(self) -> Mapping[tuple[str, ...], object]:
        """Return the values of the user's own file by their path."""
        user_layer = file_layer(self._file, "user")
        return {path: entry.value for path, entry in user_layer.values.items()}

    def _setting(self, row: SettingRow, settings: Settings, user_values: Mapping[tuple[str, ...], object]) -> Setting:
        from qcode.config.edit import is_changeable

        path = parse_key(row.key)
        key = find_key(path)
        assert key is not None
        can_change = is_changeable(key)
        user_value = user_values.get(path)
        return Setting(
            row.key,
            display=row.value,
            value=_value(settings, path) if "*" not in key.path else None,
            origin=str(row.origin),
            owner=self._owner(row.origin),
            meaning=key.meta.meaning,
            typed_value=_typed(user_value) if can_change and user_value is not None else "",
            choices=_choices(key),
            fixed_reason="" if can_change else self._edit_hint(key),
            overridden_by=self._overriding_source(row.origin),
        )

    def _owner(self, origin: Origin) -> str:
        if origin.kind != "file":
            return origin.where or origin.kind
        if origin.is_project:
            return "project"
        return "yours" if self._is_in_user_file(origin) else "--settings"

    def _overriding_source(self, origin: Origin) -> str:
        return "" if origin.kind == "default" or self._is_in_user_file(origin) else with_tilde(origin.where)

    def _is_in_user_file(self, origin: Origin) -> bool:
        return origin.where.startswith(f"{self._file}:")

    def _edit_hint(self, key: Key) -> str:
        return f"{'a table' if '*' in key.path else 'a list'}: edit it in {self.file}"


def _value(settings: Settings, path: tuple[str, ...]) -> object:
    value: object = settings
    for part in path:
        value = getattr(value, part)
    return value


def _typed(value: object) -> str:
    """Return a value as the user would type it: `true`, and `30` for the number 30.0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _choices(key: Key) -> tuple[str, ...]:
    is_boolean = key.kind.expected == BOOLEAN_VALUES
    return ("true", "false") if is_boolean else key.choices
