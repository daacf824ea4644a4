"""The model picker: the models of every configured provider, their prices and abilities, and the reasoning effort.

Providers without a built-in list of models are queried while the screen is open; their models are added to the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static
from textual.worker import Worker

from qcode.agent.keys.connect import provider_hint
from qcode.agent.models.offered import ModelsService, OfferedModel, OfferedProvider
from qcode.protocol.model import EFFORTS, Effort, ModelFacts
from qcode.protocol.usage import Price
from qcode.text.numbers import dollars_text, tokens_text
from qcode.tui.panels.picker_list import Column, PickerRow
from qcode.tui.screens.picker import ListScreen, UnlistedRow
from qcode.values import dataclass

CONNECT = "/connect "
"""Prefix of the id of a row that connects a provider without a key."""
_MIN_MODELS = 12
"""A shorter list needs no groups of recent and recommended models."""
_MIN_WIDE_CELLS = 60
"""On a narrower screen, the facts about a model may take three rows."""
_NOT_READY_GROUP = "no key: Enter to connect"
_EFFORT_LEVELS: tuple[Effort | None, ...] = (None, *EFFORTS)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The result: a model, or a provider to connect; and the effort."""

    model: str = ""
    """The chosen model as `provider/model`; empty for a provider to connect."""
    provider: str = ""
    """The provider to connect; empty for a model."""
    effort: Effort | None = None


class ModelPicker(ListScreen[ModelChoice]):
    """Picks a model and an effort. A model that is not listed can be typed in full, as `provider/model`.

    Left and Right change the effort.
    """

    ENTER = "select"
    FILLS_SCREEN = True
    KEYS: ClassVar[tuple[tuple[str, str], ...]] = (("←→", "effort"),)
    MIN_LABEL = 36
    """A model name with its provider and date: `anthropic/claude-sonnet-4-5-20250929`."""
    COLUMNS = (
        Column("context", weight=5),
        Column("output", weight=2),
        Column("$/M in", weight=4),
        Column("out", weight=3),
        Column("", weight=1, is_number=False),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "effort(-1)", "Less effort", priority=True, show=False),
        Binding("right", "effort(1)", "More effort", priority=True, show=False),
    ]

    def __init__(self, models_service: ModelsService, current: str, effort: Effort | None) -> None:
        self._models_service = models_service
        self._current = current
        self._recent = models_service.recent
        self._providers = {provider.name: provider for provider in models_service.providers()}
        self._pending_providers = {name for name, provider in self._providers.items() if provider.may_list_more}
        self._effort_index = _EFFORT_LEVELS.index(effort)
        empty = "No provider is set up. /connect adds one."
        super().__init__("Model", self._build_rows(), empty=empty)
        self.finder.unlisted_row = self._typed_row
        self.finder.no_match = "No known model matches. Use PROVIDER/MODEL for any other."

    @property
    def effort(self) -> Effort | None:
        return _EFFORT_LEVELS[self._effort_index]

    def rows_below(self) -> int:
        effort, margin = 1, 1
        if self.is_low:  # the facts are hidden
            return effort
        facts = 2 if self.size.width >= _MIN_WIDE_CELLS else 3
        return margin + facts + effort

    def compose_more(self) -> ComposeResult:
        yield Static(id="model-facts", markup=False)
        yield Static(id="model-effort", markup=False)

    def on_mount(self) -> None:
        self._paint_effort()
        for name in self._pending_providers:
            self._load_models(name)

    def show_row(self, row: PickerRow | None) -> None:
        facts = self._facts(row.id) if row is not None else None
        text = facts_text(facts) if facts is not None else ""
        if row is not None and row.is_dim:
            text = row.id  # the command that connects the provider
        self.query_one("#model-facts", Static).update(Content.styled(text, "$muted"))
        self._paint_effort()

    def select(self, row: PickerRow) -> None:
        if row.id.startswith(CONNECT):
            self.dismiss(ModelChoice(provider=row.id.removeprefix(CONNECT), effort=self.effort))
        else:
            self.dismiss(ModelChoice(row.id, effort=self.effort))

    def is_counted(self, row: PickerRow) -> bool:
        return not row.id.startswith(CONNECT)

    def title_note(self) -> str:
        return f"loading {', '.join(sorted(self._pending_providers))}" if self._pending_providers else ""

    def action_effort(self, step: int) -> None:
        self._effort_index = max(0, min(self._effort_index + step, len(_EFFORT_LEVELS) - 1))
        self._paint_effort()

    @work(exit_on_error=False, group="models")
    async def _load_models(self, name: str) -> None:
        try:
            host_models = await self._models_service.list_host_models(name)
        finally:
            self._pending_providers.discard(name)
        provider = self._providers[name]
        listed_names = {model.name for model in provider.models}
        models = (*provider.models, *(model for model in host_models if model.name not in listed_names))
        self._providers[name] = replace(provider, models=models)
        self.set_rows(self._build_rows())

    @on(Worker.StateChanged)
    def _end_failed_worker(self, event: Worker.StateChanged) -> None:
        """Raise the error of a failed worker here, so that the app reports it and continues."""
        if event.worker.error is not None:
            self.show_title_and_keys()  # without the provider whose models were being loaded
            raise event.worker.error

    def _build_rows(self) -> list[PickerRow]:
        providers = tuple(self._providers.values())
        # The current provider comes first, then the others in the order in which they were offered.
        current_provider, _, current_model = self._current.partition("/")
        ready_providers = sorted(
            (provider for provider in providers if provider.is_ready),
            key=lambda provider: provider.name != current_provider,
        )
        rows = [model_row(provider, model, self._current) for provider in ready_providers for model in provider.models]
        if len(rows) >= _MIN_MODELS:
            rows = recommended_first(rows, self._recent, default_models(ready_providers))
        rows += [connect_row(provider) for provider in providers if not provider.is_ready]
        if all(row.id != self._current for row in rows):
            # The current model was typed in full, or its provider has no list of models.
            provider_rows = (row for row in rows if row.id.startswith(f"{current_provider}/"))
            group = next((row.group for row in provider_rows), current_provider)
            rows.insert(0, PickerRow(self._current, current_model, is_current=True, group=group))
        return rows

    def _facts(self, name: str) -> ModelFacts | None:
        """Return the facts of the model `provider/model`, None if it is not listed."""
        provider_name, _, model_name = name.partition("/")
        provider = self._providers.get(provider_name)
        models = provider.models if provider is not None else ()
        return next((model.facts for model in models if model.name == model_name), None)

    def _typed_row(self, typed: str, rows: Sequence[PickerRow]) -> UnlistedRow | None:
        """Return a row for a model that is typed in full and not listed; return None for any other text.

        The row is the first one unless the typed text is part of a listed name.
        """
        provider, slash, model = typed.partition("/")
        if not (slash and model) or provider not in self._providers or any(row.id == typed for row in rows):
            return None
        is_first = not any(typed.lower() in row.id.lower() for row in rows)
        return UnlistedRow(PickerRow(typed, typed, group="as typed"), is_first)

    def _paint_effort(self) -> None:
        row = self.finder.row
        facts = self._facts(row.id) if row is not None and not row.is_dim else None
        name = self.effort or "model default"
        less = "‹" if self._effort_index else " "
        more = "›" if self._effort_index < len(_EFFORT_LEVELS) - 1 else " "
        line = Content.assemble(("Effort ", "bold"), (f"{less} {name} {more}", "$text-accent"))
        if self.effort is not None and facts is not None and not facts.can_think:
            line = Content.assemble(line, ("  not sent: this model is not known to support reasoning", "$muted"))
        self.query_one("#model-effort", Static).update(line)


def model_row(provider: OfferedProvider, model: OfferedModel, current: str) -> PickerRow:
    name, facts = f"{provider.name}/{model.name}", model.facts
    group = f"{provider.name} · {provider.credential}" if provider.credential else provider.name
    return PickerRow(name, model.name, is_current=name == current, cells=cells_of(facts), search_text=name, group=group)


def default_models(providers: Sequence[OfferedProvider]) -> tuple[str, ...]:
    """Return the default model of each provider, which is its first one, as `provider/model`."""
    return tuple(
        f"{provider.name}/{provider.models[0].name}"
        for provider in providers
        if provider.models and provider.name != "demo"
    )


def recommended_first(rows: Sequence[PickerRow], recent: Sequence[str], defaults: Sequence[str]) -> list[PickerRow]:
    """Return the rows with recent and then recommended models first, in groups; each model is listed once."""
    rows_by_name = {row.id: row for row in rows}
    groups = {name: "recent" for name in recent if name in rows_by_name}
    groups.update((name, "recommended") for name in defaults if name in rows_by_name and name not in groups)
    moved = [replace(rows_by_name[name], label=name, group=group) for name, group in groups.items()]
    return [*moved, *(row for row in rows if row.id not in groups)]


def connect_row(provider: OfferedProvider) -> PickerRow:
    command = f"{CONNECT}{provider.name}"
    # Typing `claude` also finds the providers of Claude models without a key, whose models are not listed yet.
    hint = provider_hint(provider.name)
    return PickerRow(command, command, search_text=hint, group=_NOT_READY_GROUP, is_dim=True)


def cells_of(facts: ModelFacts) -> tuple[str, ...]:
    """Return the columns: context window, output limit, price of input and output, abilities.

    Unknown facts are empty.
    """
    price = facts.price
    abilities = ("think" if facts.can_think else "", "img" if facts.can_read_images else "")
    return (
        tokens_text(facts.context_window) if facts.context_window else "",
        tokens_text(facts.max_output_tokens) if facts.max_output_tokens else "",
        dollars_text(price.input) if price is not None else "",
        dollars_text(price.output) if price is not None else "",
        " ".join(filter(None, abilities)),
    )


def facts_text(facts: ModelFacts) -> str:
    """Return all known facts as text."""
    parts = (
        f"context {facts.context_window:,}" if facts.context_window else "",
        f"output {facts.max_output_tokens:,}" if facts.max_output_tokens else "",
        _price_text(facts.price) if facts.price is not None else "",
        _images_text(facts.can_read_images),
        "thinks" if facts.can_think else "",
        "writes tool calls as text" if facts.has_text_tool_calls else "",
    )
    return " · ".join(part for part in parts if part) or "Limits and price unknown."


def _images_text(can_read_images: bool | None) -> str:
    if can_read_images is None:
        return ""
    return "accepts images" if can_read_images else "no images"


def _price_text(price: Price) -> str:
    if price.input == price.output == 0:
        return "free"
    return f"${dollars_text(price.input)} in, ${dollars_text(price.output)} out per million tokens"
