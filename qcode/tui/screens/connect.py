"""The connect screen, which asks for a provider, an API key, a model if none is obvious, and a theme.

Esc goes back from the step of the API key and skips any other step. The theme step appears only at the first start.
`KeysService` checks and stores the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, TypeAlias

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from qcode.agent.keys.connect import CheckedKey, KeysService, ProviderChoice, ProviderGroup
from qcode.agent.keys.pasted_key import owner_of_pasted_key
from qcode.safety.secret import Secret
from qcode.text.clean import one_line
from qcode.text.numbers import count_text
from qcode.text.sentences import capitalized
from qcode.tui.panels.picker_list import PickerRow
from qcode.tui.screens.picker import NO_MATCH, Finder
from qcode.tui.shared_widgets import SteadyInput, key_hints
from qcode.values import dataclass

Step: TypeAlias = Literal["provider", "key", "model", "theme"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_S = 0.1
_TITLES: dict[Step, str] = {
    "provider": "Connect a model",
    "key": "API key for {name}",
    "model": "Choose a model of {name}",
    "theme": "Theme",
}
_KEY_HINTS: dict[Step, tuple[tuple[str, str], ...]] = {
    "provider": (("Enter", "select"), ("Esc", "close"), ("↑↓", "move")),
    "key": (("Enter", "check"), ("Esc", "back")),
    "model": (("Enter", "select"), ("Esc", "skip"), ("↑↓", "move")),
    "theme": (("Enter", "select"), ("Esc", "skip"), ("↑↓", "preview")),
}
_ASK_OWNER = "Which provider is this key for? Select it; the key is filled in next."
_ENDED_STATES = frozenset({WorkerState.SUCCESS, WorkerState.CANCELLED, WorkerState.ERROR})
_HEADINGS: dict[ProviderGroup, str] = {"popular": "Popular", "local": "Local servers", "other": "Other"}


@dataclass(frozen=True, slots=True)
class ConnectResult:
    """The result of the connect screen. The name of a model or theme is empty if none was chosen."""

    model: str = ""
    """The chosen model as `provider/model`."""
    theme: str = ""
    lines: tuple[str, ...] = ()
    """Lines for the transcript."""


class KeyField(SteadyInput):
    """A field whose text is never shown, copied or suggested."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(password=True, placeholder="paste or type the key", compact=True, id=id)

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        # Insert the first line that is not blank, such as `OPENAI_API_KEY=…` of an `.env` file; `KeysService` reads it.
        lines = (line.strip() for line in event.text.splitlines())
        self.insert_text_at_cursor(next((line for line in lines if line), ""))

    def action_copy(self) -> None:
        return

    def action_cut(self) -> None:
        self.delete_selection()


def _sentence(message: str) -> str:
    """Return a message about a key as a sentence, without advice to set a key: the field for it is above."""
    text = capitalized(message.removesuffix("; set a valid one"))
    return text if text.endswith((".", "?")) else f"{text}."


class ConnectScreen(Screen[ConnectResult]):
    """Runs the steps in order. If the user skips a step or closes the screen, the result has the choices so far."""

    CSS = """
    ConnectScreen { layout: vertical; overflow: hidden; }
    #connect { height: 1fr; padding: 1 2; }
    #connect-title { height: 1; text-style: bold; color: $text-primary; }
    #connect-text { height: auto; margin: 0 0 1 0; }
    #connect-key { height: 1; margin: 0 0 1 0; padding: 0 1; border: none; background: $surface; }
    #connect-key:focus { background-tint: transparent; }
    #connect-list, #connect-list PickerList { height: 1fr; }
    #connect-note { height: auto; max-height: 6; margin: 1 0 0 0; }
    #connect-foot { height: auto; padding: 0 2; }
    .-low #connect { padding: 0 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", show=False, priority=True),
        Binding("ctrl+c,ctrl+d", "leave", show=False, priority=True),
    ]

    def __init__(
        self,
        keys_service: KeysService,
        clock: Callable[[], float],
        *,
        theme_notes: Mapping[str, str],
        theme: str,
        preview_theme: Callable[[str], None],
        current_model: str = "",
        provider: str = "",
    ) -> None:
        super().__init__()
        self._keys_service = keys_service
        self._clock = clock
        self._theme_notes = theme_notes
        self._theme = theme
        self._apply_preview = preview_theme
        self._current_model = current_model
        self._initial_provider = provider
        self._choices = {choice.name: choice for choice in keys_service.choices()}
        self._choice = ProviderChoice("")
        self._pasted_key: Secret | None = None  # pasted into the filter; its provider is not known yet
        # The row that is highlighted after a key was pasted into the filter: an Enter right after it must not pick it.
        self._unconfirmed_row = ""
        self._local_models: Mapping[str, str] | None = None  # None until the search for local servers has ended
        self._lines: list[str] = []  # for the transcript
        self._model = ""
        self._check_worker: Worker[None] | None = None
        self._is_storing = False
        self._spinner_timer: Timer | None = None
        self._check_start = 0.0
        self.step: Step = "provider"

    def compose(self) -> ComposeResult:
        with Vertical(id="connect"):
            yield Static(id="connect-title", markup=False)
            yield Static(id="connect-text", markup=False)
            yield KeyField(id="connect-key")
            yield Finder(id="connect-list")
            yield Static(id="connect-note", markup=False)
        yield Static(id="connect-foot", markup=False)

    def on_mount(self) -> None:
        if self._initial_provider in self._choices:
            self._choose_provider(self._initial_provider)
        else:
            self._ask_provider()

    @property
    def note(self) -> str:
        """The line below the step: progress or an error."""
        content = self.query_one("#connect-note", Static).content
        return content.plain if isinstance(content, Content) else str(content)

    @on(Finder.Picked)
    def _use_picked(self, event: Finder.Picked) -> None:
        match self.step:
            case "provider" if event.row.id == self._unconfirmed_row:
                self._unconfirmed_row = ""
            case "provider":
                self._choose_provider(event.row.id)
            case "model":
                self._switch_to(f"{self._choice.name}/{event.row.id}")
            case _:
                self._end(event.row.id)

    @on(Finder.Filtered)
    def _move_pasted_key(self) -> None:
        """Remove a key from the filter, where it is readable; ask for its provider unless the format reveals it."""
        text = self.query_one(Finder).filter_text
        if self.step != "provider" or not text:
            return
        finder = self.query_one(Finder)
        owner = owner_of_pasted_key(text)
        if owner is None:
            self._unconfirmed_row = ""
            return
        self._pasted_key = Secret(text)
        finder.clear_filter()
        if owner in self._choices:
            self._choose_provider(owner)
        else:
            self._unconfirmed_row = finder.all_rows[0].id
            self._show_note(_ASK_OWNER, "$text-warning")

    @on(Finder.Highlighted)
    def _react_to_highlight(self, event: Finder.Highlighted) -> None:
        row_id = event.row.id if event.row is not None else ""
        if row_id not in ("", self._unconfirmed_row):
            self._unconfirmed_row = ""
        if self.step == "theme" and self.is_current and row_id:
            self._apply_preview(row_id)

    @on(Input.Submitted)
    def _check_typed_key(self, event: Input.Submitted) -> None:
        event.stop()
        if self._check_worker is None:
            self._begin_check(event.value)

    def on_key(self, event: events.Key) -> None:
        """Continue with Enter if the step has no input field."""
        if event.key == "enter" and self.step == "key" and not self._choice.accepts_key and self._check_worker is None:
            event.stop()
            self._begin_check("")

    def action_back(self) -> None:
        """Clear the filter; without one, go back or skip the step."""
        match self.step:
            case "provider" | "model" | "theme" if self.query_one(Finder).clear_filter():
                return
            case "key" if self._check_worker is not None:
                if not self._is_storing:
                    self._check_worker.cancel()
            case "key" if not self._initial_provider:
                self._ask_provider()
            case "model":
                self._skip_model()
            case "theme":
                self._end("")
            case _:
                self._ask_theme()

    def action_leave(self) -> None:
        """Close at once; stored keys and settings stay."""
        if self._check_worker is not None:
            self._check_worker.cancel()
        self._end("")

    def _ask_provider(self) -> None:
        text = "qcode needs an API key for a provider, or a local server."
        if self._keys_service.is_first:
            text += " Without one you get the demo model; /connect opens this screen again."
        self._show_step("provider", text, self._provider_rows(), highlighted=self._choice.name)
        if self._local_models is None:
            self._find_local_servers()

    def _provider_rows(self) -> list[PickerRow]:
        """Return the rows in their groups, with the local servers that answered before the others of their group."""
        found = self._local_models or {}
        groups = list(dict.fromkeys(choice.group for choice in self._choices.values()))
        choices = sorted(
            self._choices.values(), key=lambda choice: (groups.index(choice.group), choice.name not in found)
        )
        return [provider_row(choice, self._local_models) for choice in choices]

    @work(exit_on_error=False, group="local-servers")
    async def _find_local_servers(self) -> None:
        """Show which local servers answer."""
        self._show_local_servers(await self._keys_service.local_models())

    def _show_local_servers(self, models: Mapping[str, str]) -> None:
        self._local_models = models
        if self.step == "provider":
            self.query_one(Finder).set_rows(self._provider_rows())

    def _choose_provider(self, name: str) -> None:
        self._choice = choice = self._choices[name]
        text = f"{capitalized(choice.state)}. " if choice.state else ""
        if not choice.accepts_key:
            text += "Enter uses it."
        elif choice.is_keyless:
            text += "Enter without a key uses it. If your server requires a key, paste it (it stays hidden)."
        else:
            if choice.key_page and not choice.is_ready:
                text += f"Create a key at {choice.key_page}\n"
            text += "Paste your API key (it stays hidden). qcode checks it with one small request, then stores it."
            text += " Enter without a key uses the current one." if choice.is_ready else ""
        field = self.query_one("#connect-key", KeyField)
        field.value = ""
        self._show_step("key", text, None)
        field.display = choice.accepts_key
        self.set_focus(field if choice.accepts_key else None)
        if choice.accepts_key and self._pasted_key is not None:
            field.insert_text_at_cursor(self._pasted_key.reveal())
        self._pasted_key = None

    def _begin_check(self, typed: str) -> None:
        self._check_start = self._clock()
        self._show_busy()
        self._spinner_timer = self.set_interval(_FRAME_S, self._show_busy)
        self._show_key_hints()
        self._check_worker = self._check_and_save(typed)

    @work(exit_on_error=False, group="connect")
    async def _check_and_save(self, typed: str) -> None:
        name = self._choice.name
        try:
            checked = await self._keys_service.check_typed_key(name, typed)
            # From here on Esc does nothing: interrupted storing could leave a partial key.
            self._is_storing = True
            self._lines += await self._keys_service.save_key(name, checked)
        except ValueError as refusal:
            self._stop_spinner()
            self._show_note(_sentence(str(refusal)), "$text-error")
            return
        finally:
            self._is_storing = False
        self._stop_spinner()
        # The stored key must not stay in the field.
        self.query_one("#connect-key", KeyField).value = ""
        self._after_check(checked)

    @on(Worker.StateChanged)
    def _end_worker(self, event: Worker.StateChanged) -> None:
        """End the check of a key. Raise the error of a failed worker here, so that the app reports it and continues."""
        if event.worker is self._check_worker and event.state in _ENDED_STATES:
            self._check_worker = None
            self._stop_spinner()
            if event.state is WorkerState.CANCELLED:
                self._show_note("Cancelled. Nothing was stored.", "$muted")
            elif event.state is WorkerState.ERROR:
                error_name = type(event.worker.error).__name__
                self._show_note(f"The check failed (internal error: {error_name}). Enter checks again.", "$text-error")
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            if event.worker.group == "local-servers":
                self._show_local_servers({})
            raise event.worker.error

    def _after_check(self, checked: CheckedKey) -> None:
        name = self._choice.name
        if self._current_model.partition("/")[0] == name:
            self._switch_to(self._current_model)
            return
        model = self._keys_service.model_of(name, checked.models)
        if model:
            self._switch_to(model)
        elif checked.models:
            text = f"{count_text(len(checked.models), 'model')} found. /model switches later."
            self._show_step("model", text, [PickerRow(model, model) for model in checked.models])
        else:
            self._skip_model()

    def _skip_model(self) -> None:
        """Continue without a model, and add to the transcript how to choose one."""
        self._lines.append(f"/model {self._choice.name}/MODEL switches to a model of {self._choice.name}.")
        self._ask_theme()

    def _switch_to(self, model: str) -> None:
        self._model = model
        self._ask_theme()

    def _ask_theme(self) -> None:
        if not (self._keys_service.is_first and self._keys_service.wants_theme) or len(self._theme_notes) < 2:
            self._end("")
            return
        # The transcript, which has all lines, is hidden until the theme is chosen.
        result = [*self._lines[:1], *([f"Model: {self._model}"] if self._model else [])]
        text = " ".join(map(_sentence, result))
        text += "\n\n" if text else ""
        text += "The highlighted theme is previewed. /theme switches later."
        rows = [PickerRow(name, name, note) for name, note in self._theme_notes.items()]
        self._show_step("theme", text, rows, highlighted=self._theme)

    def _end(self, theme: str) -> None:
        if self.step == "theme":
            self._apply_preview(theme or self._theme)
        self._keys_service.finish(self._model)
        self.dismiss(ConnectResult(self._model, theme, tuple(map(_sentence, self._lines))))

    def _show_step(self, step: Step, text: str, rows: list[PickerRow] | None, *, highlighted: str = "") -> None:
        self.step = step
        title = _TITLES[step].format(name=self._choice.title or self._choice.name)
        self.query_one("#connect-title", Static).update(Content(title))
        self.query_one("#connect-text", Static).update(Content(text))
        self._show_key_hints()
        self._show_note("")
        finder = self.query_one(Finder)
        finder.display = rows is not None
        self.query_one("#connect-key", KeyField).display = rows is None
        if rows is not None:
            finder.needs_word_start = step == "provider"
            finder.no_match = "No provider matches. Esc clears the filter." if step == "provider" else NO_MATCH
            finder.reset(rows, highlighted)
            finder.take_focus()

    @on(Finder.Filtered)
    def _show_key_hints(self) -> None:
        enter, (_, back), *others = _KEY_HINTS[self.step]
        if self.step == "provider" and self._keys_service.is_first:
            back = "skip"
        if self.step != "key" and self.query_one(Finder).filter_text:
            back = "clear"
        hints = [enter, ("Esc", back), *others] if self._spinner_timer is None else [("Esc", "cancel")]
        keys = key_hints(hints, self.size.width - 4)
        self.query_one("#connect-foot", Static).update(keys)

    def on_resize(self) -> None:
        self._show_key_hints()

    def _show_note(self, text: str, style: str = "") -> None:
        note = self.query_one("#connect-note", Static)
        note.display = bool(text)
        note.update(Content.styled(one_line(text, 600), style))

    def _show_busy(self) -> None:
        seconds = self._clock() - self._check_start
        mark = _FRAMES[int(seconds / _FRAME_S) % len(_FRAMES)]
        self._show_note(f"{mark} checking with {self._choice.name}, {int(seconds)} s", "$text-accent")

    def _stop_spinner(self) -> None:
        if self._spinner_timer is not None:
            self._spinner_timer.stop()
            self._spinner_timer = None
            self._show_key_hints()


def provider_row(choice: ProviderChoice, local_models: Mapping[str, str] | None) -> PickerRow:
    """Return the row of a provider.

    `local_models` has the model of each local server that answered, by provider; it is None during the search.
    """
    state = choice.state
    if choice.group == "local":
        model = (local_models or {}).get(choice.name, "")
        state = f"found: {model}" if model else ""
    detail = " · ".join(filter(None, (choice.hint, state)))
    heading = _heading(choice, local_models)
    return PickerRow(choice.name, choice.title or choice.name, detail, search_text=choice.name, group=heading)


def _heading(choice: ProviderChoice, local_models: Mapping[str, str] | None) -> str:
    if choice.group != "local":
        return _HEADINGS[choice.group]
    if local_models is None:
        return f"{_HEADINGS['local']}: searching…"
    if not local_models:
        return f"{_HEADINGS['local']}: none found"
    return f"{_HEADINGS['local']}: found {len(local_models)}"
