"""The settings screen: every setting with its value and source. Simple values can be changed here.

A change is written to the user's config file, then applied to the running app if it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from qcode.agent.settings import APPLIED_AT_ONCE, Setting, SettingsService, outcome_text
from qcode.config.paths import with_tilde
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.picker import FIELD_KEYS, ListScreen
from qcode.tui.shared_widgets import SteadyInput
from qcode.tui.transcript.line import shorten_to_rows, shorten_to_words

_MAX_VALUE_CELLS = 28
_MAX_SOURCE_CELLS = 16
_GROUP_HEADINGS = {
    "ui": "Screen and prompt",
    "permissions": "Permissions",
    "": "Model",
    "output": "Output limits",
    "tools": "Tools",
    "after_edit": "After an edit",
    "sessions": "Sessions",
    "skills": "Skills",
    "hooks": "Hooks",
    "mcp": "Tool servers",
    "mcp_servers": "Tool servers",
    "network": "Network",
    "providers": "Providers",
    "models": "Models",
}
"""The headings of the config tables, in the order of the screen."""

LABELS = {
    "ui.theme": "Theme",
    "ui.vim": "Vim keys in the prompt",
    "ui.show_thinking": "Show thinking",
    "ui.bell": "Bell and notifications",
    "ui.title": "Terminal title",
    "ui.mouse": "Mouse",
    "ui.keep_last_reply": "Print last reply on exit",
    "ui.linear": "Linear mode",
    "ui.partial_redraw": "Redraw only what changed",
    "permissions.mode": "Initial mode",
    "permissions.allow": "Runs without asking",
    "permissions.ask": "Always asks",
    "permissions.deny": "Never runs",
    "model": "Model",
    "small_model": "Small model",
    "fallback": "Fallback models",
    "fallback_on": "Also fall back on",
    "output.max_tokens": "Fixed output cap",
    "output.escalate": "Retry with a larger cap",
    "output.max_continuations": "Continuations per reply",
    "output.policy": "Truncated text",
    "output.tool_call_repair": "Truncated tool call",
    "output.max_tool_repair_attempts": "Tool call repairs",
    "output.max_total_completion_tokens": "Max tokens per reply",
    "output.max_total_output_chars": "Max characters per reply",
    "output.min_escalation_gain": "Min gain of a retry",
    "output.learn_first_cap": "Learn the first output cap",
    "tools.sandbox": "Sandbox",
    "tools.web_search": "Web search",
    "tools.agents": "Sub-agents",
    "tools.shell_timeout_s": "Command timeout (s)",
    "tools.tool_timeout_s": "Tool timeout (s)",
    "tools.max_output_chars": "Characters per result",
    "tools.text_calls": "Tool calls as text",
    "after_edit.diagnostics": "Report new problems",
    "after_edit.format": "Format with",
    "after_edit.check": "Check with",
    "after_edit.test": "Test with",
    "after_edit.max_rounds": "Max rounds of fixes",
    "sessions.retention_days": "Delete after (days)",
    "skills.foreign": "Skills of other programs",
    "skills.off": "Disabled skills",
    "skills.paths": "Extra skill folders",
    "hooks.enabled": "Run hooks",
    "hooks.claude": "Hooks of Claude Code",
    "hooks.SessionStart": "When a session begins",
    "hooks.UserPromptSubmit": "When you send a prompt",
    "hooks.PreToolUse": "Before a tool runs",
    "hooks.PermissionRequest": "Before qcode asks you",
    "hooks.PostToolUse": "After a tool ran",
    "hooks.PostToolUseFailure": "After a tool failed",
    "hooks.Notification": "When qcode waits for you",
    "hooks.SubagentStart": "When a sub-agent begins",
    "hooks.SubagentStop": "When a sub-agent is done",
    "hooks.Stop": "When the model is done",
    "hooks.StopFailure": "When a turn failed",
    "hooks.PreCompact": "Before compaction",
    "hooks.PostCompact": "After compaction",
    "hooks.SessionEnd": "When a session ends",
    "mcp.defer": "Load tools on demand",
    "network.max_retries": "Retries",
    "network.connect_timeout_s": "Connect timeout (s)",
    "network.first_event_timeout_s": "First event timeout (s)",
    "network.idle_timeout_s": "Idle timeout (s)",
    "network.retry_after_max_s": "Max Retry-After (s)",
    "network.wait_for_limit": "Wait at a rate limit",
}
"""The labels of the settings, in the order of the screen. The filter also matches the name of the key."""

UNSET_VALUES = {
    "model": "last choice",
    "small_model": "the current model",
    "output.max_tokens": "8,000, then more",
    "output.max_total_completion_tokens": "4 × the cap",
    "output.max_total_output_chars": "120,000 or more",
    "tools.max_output_chars": "per tool",
    "tools.tool_timeout_s": "per tool",
    "ui.theme": "last choice, or auto",
    "ui.bell": "while not in focus",
}
"""The words shown for a setting that is not set: the value that applies then."""


class SettingsScreen(ListScreen[None]):
    """Shows the settings; the row of the setting `name` is highlighted first."""

    ENTER = "change"
    FILLS_SCREEN = True
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("←→", "next value"), ("Ctrl+X", "default"))
    MIN_LABEL = 22
    """Such as `Bell and notifications`."""
    COLUMNS = (Column("value", weight=2, is_number=False, min_width=9), Column("from", weight=1, is_number=False))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "cycle(-1)", "Previous value", show=False, priority=True),
        Binding("right", "cycle(1)", "Next value", show=False, priority=True),
        Binding("ctrl+x", "unset", "Back to the default", show=False, priority=True),
    ]

    def __init__(
        self,
        settings_service: SettingsService,
        themes: Sequence[str],
        on_change: Callable[[Setting], bool],
        *,
        name: str = "",
    ) -> None:
        self._settings_service = settings_service
        self._themes = tuple(themes)
        """The names of the installed themes."""
        self._on_change = on_change
        """Applies a changed setting; returns whether the change took effect immediately."""

        self._edited_name = ""
        self._settings = {setting.name: setting for setting in settings_service.settings()}
        super().__init__("Settings", self._build_rows(), highlighted=name)

    def rows_below(self) -> int:
        margin, about = 0 if self.is_low else 1, 3
        return margin + about + (1 if self._edited_name else 0)

    def compose_more(self) -> ComposeResult:
        yield SteadyInput(id="setting-field", compact=True)
        yield Static(id="setting-about", markup=False)

    def on_mount(self) -> None:
        # Textual also calls the `on_mount` of the base class.
        self.query_one("#setting-field").display = False

    def on_resize(self) -> None:
        # Textual also calls the `on_resize` of the base class.
        if not self._edited_name:
            self.show_row(self.row)

    def show_row(self, row: PickerRow | None) -> None:
        if not self._edited_name:
            self._show_message("")

    def select(self, row: PickerRow) -> None:
        """Select the next value of a setting with choices; open a field for any other."""
        setting = self._settings[row.id]
        if setting.fixed_reason:
            self._show_message(f"{setting.name} is {setting.fixed_reason}.")
        elif self._choices(setting):
            self.action_cycle(1)
        else:
            self._edit(setting)

    def keys(self) -> Sequence[tuple[str, str]]:
        return FIELD_KEYS if self._edited_name else super().keys()

    def title_note(self) -> str:
        return self._settings_service.file

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the arrow keys to the field while the user types."""
        return not (self._edited_name and action in ("cycle", "unset"))

    def action_cycle(self, step: int) -> None:
        """Select the next value, or the previous one if `step` is -1."""
        setting = self._highlighted
        choices = self._choices(setting) if setting is not None else ()
        if setting is None or setting.fixed_reason or not choices:
            return
        current = setting.typed_value or _config_text(setting.value)
        position = (choices.index(current) + step) if current in choices else 0
        self._change(setting, choices[position % len(choices)])

    def action_unset(self) -> None:
        """Remove the setting from the user's file."""
        setting = self._highlighted
        if setting is None or setting.fixed_reason:
            return
        if setting.typed_value:
            self._change(setting, None)
        else:
            self._show_message(f"{setting.name} is not set in your file.")

    def action_leave(self) -> None:
        if self._edited_name:
            self._stop_editing()
            self._show_message("")
        else:
            super().action_leave()

    @on(Input.Submitted, "#setting-field")
    def _change_typed(self, event: Input.Submitted) -> None:
        event.stop()
        setting = self._settings[self._edited_name]
        if self._change(setting, event.value if event.value.strip() else None):
            self._stop_editing()

    @property
    def _highlighted(self) -> Setting | None:
        return self._settings.get(self.row.id) if self.row is not None else None

    def _choices(self, setting: Setting) -> tuple[str, ...]:
        return (*self._themes, "auto") if setting.name == "ui.theme" else setting.choices

    def _edit(self, setting: Setting) -> None:
        self._edited_name = setting.name
        field = self.query_one("#setting-field", Input)
        field.placeholder = "Enter without a value removes it from your file"
        field.value = setting.typed_value
        field.display = True
        field.focus()
        self.show_title_and_keys()
        self._show_message(f"New value of {setting.name}:")

    def _stop_editing(self) -> None:
        self._edited_name = ""
        self.query_one("#setting-field").display = False
        self.finder.take_focus()
        self.show_title_and_keys()

    def _change(self, setting: Setting, typed: str | None) -> bool:
        """Write the typed value to the user's file, or remove the setting if it is None; return False on an error."""
        try:
            updated = self._settings_service.change(setting.name, typed)
            self._settings = {listed.name: listed for listed in self._settings_service.settings()}
        except ValueError as refusal:
            self._show_message(str(refusal), is_error=True)
            return False
        self.set_rows(self._build_rows())
        self._show_message(outcome_text(updated, is_now=self._on_change(updated)))
        return True

    def _build_rows(self) -> list[PickerRow]:
        return [setting_row(setting) for setting in sorted(self._settings.values(), key=_sort_key)]

    def _show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show `text`; if it is empty, show the description of the highlighted setting."""
        setting = self._highlighted
        message = Content.styled(text, "$text-error" if is_error else "$text-success")
        if not text and setting is not None:
            message = about_setting(setting, self.size.width - 4)
        self.query_one("#setting-about", Static).update(message)


def setting_row(setting: Setting) -> PickerRow:
    """Return the row of a setting: its label (the key if it has none), its value and the source of the value."""
    table, _, key = setting.name.partition(".")
    group = _GROUP_HEADINGS.get(table if key else "", capitalized(table).replace("_", " "))
    command = key.removeprefix("keys.")
    label = f"Keys of {command}" if table == "ui" and command != key else LABELS.get(setting.name, key)
    cells = (
        shorten_to_words(value_text(setting), _MAX_VALUE_CELLS),
        shorten_to_words(setting.owner, _MAX_SOURCE_CELLS),
    )
    return PickerRow(
        setting.name,
        label or setting.name,
        cells=cells,
        search_text=f"{setting.name} {setting.meaning}",
        group=group,
        is_dim=bool(setting.fixed_reason),
    )


def value_text(setting: Setting) -> str:
    """Return the value of a setting in words; if it is not set, the words for the value that applies."""
    if setting.name == "permissions.mode" and setting.value == "default":
        return "ask"
    if setting.value is None and setting.name in UNSET_VALUES:
        return UNSET_VALUES[setting.name]
    if setting.name == "sessions.retention_days" and not setting.value:
        return "never"
    text = setting.display
    if text.startswith('"') and text.endswith('"') and len(text) > 2 and "\\" not in text:
        return text[1:-1]  # a TOML string, readable without its quotes
    return "none" if text in ("[]", "{}") else text


def _sort_key(setting: Setting) -> tuple[int, int]:
    """Return the position of the setting's group, and that of the setting in the group."""
    table, dot, _ = setting.name.partition(".")
    return _position(table if dot else "", _GROUP_HEADINGS), _position(setting.name, LABELS)


def _position(name: str, names: Iterable[str]) -> int:
    """Return the position of `name` in `names`; an unknown name comes after all of them."""
    ordered = list(names)
    return ordered.index(name) if name in ordered else len(ordered)


def about_setting(setting: Setting, width: int) -> Content:
    """Return the description of a setting, the source of its value, and when a change applies."""
    moment = "immediately" if setting.name in APPLIED_AT_ONCE else "after a restart"
    when = setting.fixed_reason or f"changes apply {moment}"
    origin = f"from {with_tilde(setting.origin)}" if setting.origin != "default" else "the default"
    facts = shorten_to_rows(f"{setting.name} · {origin} · {when}", width, 1)
    meaning = shorten_to_rows(setting.meaning or setting.name, width, 2)
    return Content.styled(f"{meaning}\n{facts}", "$muted")


def _config_text(value: object) -> str:
    """Return a value as it is written in the config file and listed in `Setting.choices`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
