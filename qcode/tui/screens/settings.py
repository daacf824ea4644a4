"""The settings screen: every setting with its value and source. Simple values can be changed here.

A change is written to the user's config file; `changed` then applies it to the app.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from qcode.agent.settings import AT_ONCE, Setting, SettingsService, outcome_text
from qcode.text.clean import one_line
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.picker import FIELD_KEYS, ListScreen
from qcode.tui.transcript.line import shorten
from qcode.tui.widgets import SteadyInput

_VALUE_CELLS = 28
_WRAP_CELLS = 8
_GROUPS = {
    "ui": "Screen and prompt",
    "permissions": "Permissions",
    "": "Model",
    "output": "Length of replies",
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
"""The headings of tables, the most wanted first."""

WORDS = {
    "ui.theme": "Theme",
    "ui.vim": "Vim keys in the prompt",
    "ui.show_thinking": "Thinking of the model",
    "ui.bell": "Bell and notification",
    "ui.title": "Title of the terminal",
    "ui.mouse": "Mouse",
    "ui.keep_last_reply": "Print last reply on exit",
    "ui.linear": "Lines instead of a screen",
    "ui.partial_redraw": "Redraw only what changed",
    "permissions.mode": "Mode at the start",
    "permissions.allow": "Runs without asking",
    "permissions.ask": "Always asks",
    "permissions.deny": "Never runs",
    "model": "Model",
    "small_model": "Small model",
    "fallback": "Fallback models",
    "fallback_on": "Also fall back on",
    "output.max_tokens": "Fixed output cap",
    "output.escalate": "Retry with a larger cap",
    "output.max_continuations": "Continuations of a reply",
    "output.policy": "Truncated text",
    "output.tool_call_repair": "Truncated tool call",
    "output.max_tool_repair_attempts": "Repairs of a tool call",
    "output.max_total_completion_tokens": "Most tokens of a reply",
    "output.max_total_output_chars": "Most characters of a reply",
    "output.min_escalation_gain": "Least gain of a retry",
    "output.learn_first_cap": "Learn the first cap",
    "tools.sandbox": "Sandbox",
    "tools.web_search": "Web search",
    "tools.agents": "Sub-agents",
    "tools.shell_timeout_s": "Seconds for a command",
    "tools.tool_timeout_s": "Seconds for other tools",
    "tools.max_output_chars": "Characters of a result",
    "tools.text_calls": "Tool calls as text",
    "after_edit.diagnostics": "Report new problems",
    "after_edit.format": "Format with",
    "after_edit.check": "Check with",
    "after_edit.test": "Test with",
    "after_edit.max_rounds": "Rounds of fixes",
    "sessions.retention_days": "Delete after days",
    "skills.foreign": "Skills of other programs",
    "skills.off": "Skills switched off",
    "skills.paths": "More folders of skills",
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
    "mcp.defer": "Search for their tools",
    "network.max_retries": "Retries",
    "network.connect_timeout_s": "Seconds to connect",
    "network.first_event_timeout_s": "Seconds until a reply",
    "network.idle_timeout_s": "Seconds of silence",
    "network.retry_after_max_s": "Longest requested wait",
    "network.wait_for_limit": "Wait at a rate limit",
}
"""The labels of the settings, in their order. The filter and the description also have the name of the key."""

UNSET = {
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
"""The effective value of a setting that is not set."""


class SettingsScreen(ListScreen[None]):
    """Shows the settings; `themes` are the installed themes.

    `changed` gets each changed setting and returns whether it applies immediately.
    """

    ENTER = "change"
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("←→", "next value"), ("Ctrl+X", "default"))
    COLUMNS = (Column("value", 2, is_number=False), Column("from", 1, is_number=False))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Previous value", show=False, priority=True),
        Binding("right", "turn(1)", "Next value", show=False, priority=True),
        Binding("ctrl+x", "unset", "Back to the default", show=False, priority=True),
    ]

    def __init__(
        self,
        configuring: SettingsService,
        themes: Sequence[str],
        changed: Callable[[Setting], bool],
        *,
        name: str = "",
    ) -> None:
        self._configuration = configuring
        self._themes = tuple(themes)
        self._on_change = changed
        self._edited_name = ""
        self._settings = {setting.name: setting for setting in configuring.settings()}
        super().__init__("Settings", self._build_rows(), highlighted=name)

    def compose_more(self) -> ComposeResult:
        yield SteadyInput(id="setting-field", compact=True)
        yield Static(id="setting-about", markup=False)

    def on_mount(self) -> None:
        # Textual also calls the handler of the list screen.
        self.query_one("#setting-field").display = False

    def show_row(self, row: PickerRow | None) -> None:
        if not self._edited_name:
            self._show_message("")

    def select(self, row: PickerRow) -> None:
        """Select the next value of a setting with choices; open a field for any other."""
        setting = self._settings[row.id]
        if setting.fixed_reason:
            self._show_message(f"{setting.name} is {setting.fixed_reason}.")
        elif self._choices(setting):
            self.action_turn(1)
        else:
            self._edit(setting)

    def keys(self) -> Sequence[tuple[str, str]]:
        return FIELD_KEYS if self._edited_name else super().keys()

    def title_note(self) -> str:
        return self._configuration.file

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the arrow keys to the field while the user types."""
        return not (self._edited_name and action in ("turn", "unset"))

    def action_turn(self, step: int) -> None:
        """Select the next value."""
        setting = self._highlighted
        choices = self._choices(setting) if setting is not None else ()
        if setting is None or setting.fixed_reason or not choices:
            return
        now = setting.typed_value or _plain(setting.value)
        at = choices.index(now) + step if now in choices else 0
        self._change(setting, choices[at % len(choices)])

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
    def _take_value(self, event: Input.Submitted) -> None:
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
        field.placeholder, field.value = "Enter without a value removes it from your file", setting.typed_value
        field.display = True
        field.focus()
        self.paint_frame()
        self._show_message(f"New value of {setting.name}:")

    def _stop_editing(self) -> None:
        self._edited_name = ""
        self.query_one("#setting-field").display = False
        self.finder.take_focus()
        self.paint_frame()

    def _change(self, setting: Setting, typed: str | None) -> bool:
        """Write the change; return whether that succeeded."""
        try:
            now = self._configuration.change(setting.name, typed)
            self._settings = {changed.name: changed for changed in self._configuration.settings()}
        except ValueError as refusal:
            self._show_message(str(refusal), is_wrong=True)
            return False
        self.set_rows(self._build_rows())
        self._show_message(outcome_text(now, is_now=self._on_change(now)))
        return True

    def _build_rows(self) -> list[PickerRow]:
        return [setting_row(setting) for setting in sorted(self._settings.values(), key=_sort_key)]

    def _show_message(self, text: str, *, is_wrong: bool = False) -> None:
        """Show a message, or the description of the highlighted setting."""
        setting = self._highlighted
        message = Content.styled(text, "$text-error" if is_wrong else "$text-success")
        if not text and setting is not None:
            message = about_setting(setting, self.size.width - 4)
        self.query_one("#setting-about", Static).update(message)


def setting_row(setting: Setting) -> PickerRow:
    """Return a row: the key in words or within its table, its value and the value's source."""
    table, _, key = setting.name.partition(".")
    group = _GROUPS.get(table if key else "", capitalized(table).replace("_", " "))
    command = key.removeprefix("keys.")
    label = f"Keys of {command}" if table == "ui" and command != key else WORDS.get(setting.name, key)
    cells = (shorten(value_text(setting), _VALUE_CELLS), shorten(setting.owner, 16))
    return PickerRow(
        setting.name,
        label or setting.name,
        cells=cells,
        also=f"{setting.name} {setting.meaning}",
        group=group,
        is_dim=bool(setting.fixed_reason),
    )


def value_text(setting: Setting) -> str:
    """Return the value in plain words, and what applies if it is not set. The mode is that of the status line."""
    if setting.name == "permissions.mode" and setting.value == "default":
        return "ask"
    if setting.value is None and setting.name in UNSET:
        return UNSET[setting.name]
    if setting.name == "sessions.retention_days" and not setting.value:
        return "never"
    text = setting.display
    if text[:1] == text[-1:] == '"' and len(text) > 2 and "\\" not in text:
        return text[1:-1]
    return "none" if text in ("[]", "{}") else text


def _sort_key(setting: Setting) -> tuple[int, int]:
    """Return the position of a setting; those that are equal keep their order."""
    table = setting.name.partition(".")[0] if "." in setting.name else ""
    groups, words = list(_GROUPS), list(WORDS)
    group = groups.index(table) if table in groups else len(groups)
    return group, words.index(setting.name) if setting.name in words else len(words)


def about_setting(setting: Setting, width: int) -> Content:
    """Return the description of a setting, the source of its value, and when a change applies."""
    moment = "immediately" if setting.name in AT_ONCE else "after a restart"
    when = setting.fixed_reason or f"changes apply {moment}"
    origin = f"from {setting.origin}" if setting.origin != "default" else "the default"
    facts = shorten(one_line(f"{setting.name} · {origin} · {when}"), max(20, width))
    # Two of the three rows, which words do not always fill.
    meaning = shorten(one_line(setting.meaning or setting.name), max(20, 2 * width - _WRAP_CELLS))
    return Content.styled(f"{meaning}\n{facts}", "$muted")


def _plain(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
