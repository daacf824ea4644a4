"""The screen of `/permissions`: the rules in effect and the decision on each call. Rules can be added, saved, removed.

Tab switches between the list of rules and the list of decisions. `Permissions` makes every change, or refuses it with a
reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from qcode.agent.permissions import CallRecord, Permissions, RuleInForce, RuleScope
from qcode.config.paths import with_tilde
from qcode.text.clean import one_line, visible
from qcode.tui.panels.picker_list import PickerRow
from qcode.tui.screens import permission_text
from qcode.tui.screens.pager import PagerScreen, hanging_lines
from qcode.tui.screens.picker import Picker
from qcode.tui.shared_widgets import SteadyInput

_FieldPurpose: TypeAlias = Literal["", "add", "check"]
_HINTS: dict[_FieldPurpose, str] = {
    "add": "allow shell(make test), ask …, deny …",
    "check": "make test, read PATH, write PATH, fetch URL …",
}
_RULE_KEYS: Mapping[RuleScope, tuple[tuple[str, str], ...]] = {
    "settings": (),
    "session": (("Ctrl+X", "remove"), ("Ctrl+S", "save")),
    "folder": (("Ctrl+X", "remove"),),
}
"""The keys for a rule of each scope. A rule of the settings is changed in its file; one of the folder is saved already.
"""
_MIN_MESSAGE_ROWS, _MAX_MESSAGE_ROWS = 3, 8


class PermissionsScreen(Picker):
    """Shows the permissions of one session. A change applies from the next call."""

    ENTER = "close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,shift+tab", "switch_list", "Rules or decisions", priority=True, show=False),
        Binding("ctrl+x", "remove", "Remove", priority=True, show=False),
        Binding("ctrl+s", "save", "Save", priority=True, show=False),
        Binding("ctrl+a", "open_field('add')", "Add", priority=True, show=False),
        Binding("ctrl+t", "open_field('check')", "Check", priority=True, show=False),
    ]

    def __init__(self, permissions: Permissions) -> None:
        self._permissions = permissions
        self._field_purpose: _FieldPurpose = ""
        self._shows_decisions = False
        self._message_row_id = ""
        self._decisions: dict[str, CallRecord] = {}  # the listed decisions, by the ids of their rows
        super().__init__(self._title, self._rule_rows(), empty="No decisions in this session yet.")

    def compose_more(self) -> ComposeResult:
        yield SteadyInput(id="permission-field", compact=True)
        yield Static(id="picker-message", markup=False)

    def rows_below(self) -> int:
        margin, field = 1, 1
        return margin + self._max_message_rows + (margin + field if self._field_purpose else 0)

    @property
    def _max_message_rows(self) -> int:
        """The maximum height of the text below the list, in which a long command may fill many rows."""
        return max(_MIN_MESSAGE_ROWS, min(_MAX_MESSAGE_ROWS, self.size.height // 4))

    def show_title_and_keys(self) -> None:
        self.query_one("#picker-message").styles.max_height = self._max_message_rows
        super().show_title_and_keys()

    def on_mount(self) -> None:
        # Textual also calls the `on_mount` of the base class.
        self.query_one("#permission-field").display = False

    def keys(self) -> Sequence[tuple[str, str]]:
        if self._field_purpose:
            return (("Enter", self._field_purpose), ("Esc", "cancel"))
        *main_keys, arrow_keys = super().keys()
        if self._shows_decisions and self.row is not None:
            main_keys = [("Enter", "show all"), *(hint for hint in main_keys if hint[0] != "Enter")]
        tab, rule = ("Tab", "rules" if self._shows_decisions else "decisions"), self._highlighted_rule
        rule_keys = _RULE_KEYS[rule.scope] if rule is not None else ()
        return (*main_keys, tab, ("Ctrl+A", "add"), *rule_keys, ("Ctrl+T", "check"), arrow_keys)

    def show_row(self, row: PickerRow | None) -> None:
        self.show_title_and_keys()
        # This event may arrive after a message about the row was shown, which must stay visible.
        if row is not None and row.id == self._message_row_id:
            return
        self._message_row_id = ""
        self._show_text(self._row_detail(row.id) if row is not None else "", "$muted")

    def select(self, row: PickerRow) -> None:
        """Show a decision in full above the list, so that Esc returns to the list; on a rule, close the screen."""
        decision = self._decisions.get(row.id) if self._shows_decisions else None
        if decision is None:
            super().select(row)
            return
        text = permission_text.decision_text(decision)
        title = f"Decision: {permission_text.decision_label(decision)}"
        self.app.push_screen(PagerScreen(title, lambda width: hanging_lines(text, width)))

    def action_switch_list(self) -> None:
        """Switch between rules and decisions."""
        self._shows_decisions = not self._shows_decisions
        self._reload()

    def action_remove(self) -> None:
        self._change(permission_text.remove_rule)

    def action_save(self) -> None:
        self._change(permission_text.save_rule)

    def action_open_field(self, purpose: _FieldPurpose) -> None:
        """Open the field for a new rule, or for a call to check."""
        field = self.query_one("#permission-field", Input)
        self._field_purpose, field.display = purpose, True
        field.value, field.placeholder = "", _HINTS[purpose]
        field.focus()
        self._message_row_id = ""
        self._show_text("", "")
        self.show_title_and_keys()

    def action_leave(self) -> None:
        if self._field_purpose:
            self._close_field()
            self._message_row_id = ""
            self.show_row(self.row)
        else:
            super().action_leave()

    @on(Input.Submitted, "#permission-field")
    def _submit_field(self, event: Input.Submitted) -> None:
        event.stop()
        text = event.value.strip()
        if not text:
            self._close_field()
        elif self._field_purpose == "check":
            self._check_call(text)
        else:
            self._add(text)

    def _add(self, text: str) -> None:
        effect, _, rule = text.partition(" ")
        if effect not in permission_text.EFFECTS:
            effect, rule = "allow", text
        try:
            message = permission_text.change_rules(self._permissions, effect, rule.strip())
        except ValueError as refusal:
            self._show_message(permission_text.refusal_text(refusal))
            return
        self._close_field()
        self._shows_decisions = False
        self._reload()
        self._show_message(f"{message} Ctrl+S saves it for this folder.")

    @work(exclusive=True)
    async def _check_call(self, text: str) -> None:
        kind, value = permission_text.parse_check(text)
        # A verdict may read the disk and run bash or git.
        try:
            verdict = await asyncio.to_thread(self._permissions.check, kind, value)
        except (OSError, ValueError, RuntimeError) as problem:
            self._show_message(f"The check failed: {one_line(str(problem))}")
            return
        self._show_message(permission_text.verdict_text(kind, value, verdict))

    def _change(self, change: Callable[[Permissions, RuleInForce], str]) -> None:
        rule = self._highlighted_rule
        if rule is None:
            self._show_message(self._no_rule_reason())
            return
        try:
            message = change(self._permissions, rule)
        except ValueError as refusal:
            self._show_message(permission_text.refusal_text(refusal))
            return
        self._reload()
        self._show_message(message)

    def _no_rule_reason(self) -> str:
        """Return why no rule is highlighted, and what to do instead."""
        if self._shows_decisions:
            return "A decision cannot be changed. Tab shows the rules."
        if self.row is not None and self.row.id == "mode":
            return "This is the mode, not a rule. Shift+Tab and /mode change it."
        return "No rule matches. Esc clears the filter."

    @property
    def _highlighted_rule(self) -> RuleInForce | None:
        return self._rules().get(self.row.id) if self.row is not None else None

    def _rules(self) -> dict[str, RuleInForce]:
        """Return the rules by the ids of their rows."""
        return {f"rule:{index}:{rule.text}": rule for index, rule in enumerate(self._permissions.rules())}

    def describe(self, row: PickerRow) -> str:
        return ""  # `_row_detail` has more

    def _row_detail(self, row_id: str) -> str:
        """Return the text below the list for the highlighted row: the mode, a rule or a decision."""
        if row_id == "mode":
            return "Shift+Tab and /mode change it, permissions.mode in your config.toml sets it for the next start."
        rule = self._rules().get(row_id)
        if rule is not None:
            return f"{permission_text.rule_line(rule)}\n{visible(with_tilde(rule.origin))}"
        decision = self._decisions.get(row_id)
        return permission_text.decision_text(decision) if decision is not None else ""

    @property
    def _title(self) -> str:
        list_name = "decisions, latest first" if self._shows_decisions else "rules"
        return f"Permissions: {list_name}"

    def _reload(self) -> None:
        self.heading = self._title
        self.set_rows(self._decision_rows() if self._shows_decisions else self._rule_rows())

    def _rule_rows(self) -> list[PickerRow]:
        mode = PickerRow(
            "mode",
            permission_text.mode_line(self._permissions),
            with_tilde(self._permissions.mode_origin),
            is_summary=True,
        )
        rules = self._rules().items()
        return [
            mode,
            *(
                PickerRow(row_id, permission_text.rule_line(rule), visible(with_tilde(rule.origin)))
                for row_id, rule in rules
            ),
        ]

    def _decision_rows(self) -> list[PickerRow]:
        records = self._permissions.decisions()
        # An index would name another decision once the oldest ones are dropped.
        self._decisions = {
            f"call:{record.timestamp}:{record.call.call_id}:{record.decision}": record for record in records
        }
        rows = []
        for row_id, record in self._decisions.items():
            reason = f": {visible(record.reason)}" if record.reason else ""
            label = f"{permission_text.decision_label(record)}{reason}"
            rows.append(PickerRow(row_id, permission_text.call_text(record), label))
        return rows[::-1]

    def _close_field(self) -> None:
        self._field_purpose = ""
        self.query_one("#permission-field").display = False
        self.finder.take_focus()
        self.show_title_and_keys()

    def _show_message(self, text: str) -> None:
        """Show a message until another row is highlighted."""
        self._message_row_id = self.row.id if self.row is not None else ""
        self._show_text(text, "")

    def _show_text(self, text: str, style: str) -> None:
        self.query_one("#picker-message", Static).update(Content.styled(text, style))
