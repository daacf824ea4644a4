"""The form for the arguments of a tool server's prompt, used if several are missing.

A single missing argument is typed into the prompt instead. A separate module, because it loads when a form first opens.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from qcode.agent.mcp.mentions import ServerPrompt
from qcode.text.clean import clean, one_line, single_spaced
from qcode.tui.shared_widgets import SteadyInput, key_hints

_MAX_DESCRIPTION_CHARACTERS = 200
_KEYS = (("Enter", "next"), ("Esc", "back"), ("Shift+Tab", "previous"))


class ArgumentsForm(ModalScreen[str]):
    """A field for each argument of a prompt. The result is the text to send, or "" if the user closed the form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "dismiss('')", "Back", priority=True, show=False),
    ]

    def __init__(self, prompt: ServerPrompt, values: Mapping[str, str]) -> None:
        super().__init__(classes="picker-screen")
        self._prompt = prompt
        self._values = dict(values)
        """The typed values, by the names of the arguments."""
        self._arguments = prompt.prompt.arguments

    def compose(self) -> ComposeResult:
        with Vertical(id="arguments"):
            title = Content.assemble((f"/{self._prompt.handle}", "bold"), (f"  {self._prompt.description}", "$muted"))
            yield Static(title, id="arguments-title", markup=False)
            with VerticalScroll(id="arguments-fields", can_focus=False):
                for number, argument in enumerate(self._arguments):
                    suffix = "" if argument.is_required else " (optional)"
                    description = single_spaced(clean(argument.description), _MAX_DESCRIPTION_CHARACTERS)
                    label = Content.assemble(f"{one_line(argument.name)}{suffix}", (f"  {description}", "$muted"))
                    yield Static(label, classes="argument-label", markup=False)
                    value = self._values.get(argument.name, "")
                    yield SteadyInput(value, id=f"argument-{number}", classes="argument-field", compact=True)
            yield Static(id="arguments-foot", markup=False)

    def on_mount(self) -> None:
        self._focus_missing()

    def on_resize(self) -> None:
        self._show_foot("")

    @on(SteadyInput.Changed)
    def _store_value(self, event: SteadyInput.Changed) -> None:
        self._values[self._arguments[_argument_number(event.input)].name] = event.value

    @on(SteadyInput.Submitted)
    def _submit_field(self, event: SteadyInput.Submitted) -> None:
        """Move to the next field. After the last one, send, or move to the first required field that is empty."""
        event.stop()
        number = _argument_number(event.input)
        if number + 1 < len(self._arguments):
            self.query_one(f"#argument-{number + 1}", SteadyInput).focus()
        elif self._focus_missing():
            self._show_foot("This argument is required.")
        else:
            self.dismiss(typed_prompt(self._prompt, self._values))

    def _focus_missing(self) -> bool:
        """Move to the first required field that is empty; return False if there is none."""
        for number, argument in enumerate(self._arguments):
            if argument.is_required and not self._values.get(argument.name, "").strip():
                self.query_one(f"#argument-{number}", SteadyInput).focus()
                return True
        return False

    def _show_foot(self, problem: str) -> None:
        keys = key_hints(_KEYS, max(1, self.size.width - 4 - len(problem)))
        foot = Content.assemble((f"{problem}  ", "$text-warning"), keys) if problem else keys
        self.query_one("#arguments-foot", Static).update(foot)


def _argument_number(field: Input) -> int:
    """Return the index of the argument of a field, from its id, such as `argument-2`."""
    return int((field.id or "").rpartition("-")[2])


def typed_prompt(prompt: ServerPrompt, values: Mapping[str, str]) -> str:
    """Return a prompt with its arguments as the user would type it: `/docs:review code='a b.py'`."""
    pairs = ((argument.name, values.get(argument.name, "")) for argument in prompt.prompt.arguments)
    words = (f"{name}={shlex.quote(value)}" for name, value in pairs if value.strip())
    return " ".join((f"/{prompt.handle}", *words))
