"""A scripted service of models, which records the chosen model."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from qcode.agent.models.offered import ModelsService, OfferedModel, OfferedProvider
from qcode.protocol.model import Effort, ModelFacts
from qcode.protocol.usage import Price


def facts(window: int, output: int, price: tuple[str, str] | None, *, thinks: bool, sees: bool | None) -> ModelFacts:
    given = Price(Decimal(price[0]), Decimal(price[1])) if price is not None else None
    return ModelFacts(window, output, given, can_think=thinks, can_read_images=sees)


DEMO = OfferedProvider("demo", models=(OfferedModel("scripted", ModelFacts()), OfferedModel("other", ModelFacts())))
ANTHROPIC = OfferedProvider(
    "anthropic",
    "ANTHROPIC_API_KEY is set",
    models=(
        OfferedModel("claude-sonnet-4-5", facts(200_000, 64_000, ("3", "15"), thinks=True, sees=True)),
        OfferedModel("claude-3-5-haiku-20241022", facts(200_000, 8_192, ("0.8", "4"), thinks=False, sees=None)),
    ),
)
ROUTER = OfferedProvider("openrouter", "OPENROUTER_API_KEY is set", may_list_more=True)
GROQ = OfferedProvider("groq", is_ready=False)
FULL = (ANTHROPIC, ROUTER, DEMO, GROQ)


class ScriptedModelsService(ModelsService):
    """Offers the providers in `offered`; a query for more models waits until `answered` is set."""

    effort: Effort | None = None
    recent_names: tuple[str, ...] = ()

    def __init__(self, *offered: OfferedProvider, effort: Effort | None = None, override_note: str = "") -> None:
        self.offered = offered or (DEMO,)
        self.effort = effort
        self.override_note = override_note
        self.saved_models: list[str] = []
        self.queried_providers: list[str] = []
        """The providers whose hosts were asked for more models."""
        self.answered = asyncio.Event()

    @property
    def recent(self) -> tuple[str, ...]:
        return self.recent_names

    def providers(self, *, with_unready: bool = False) -> tuple[OfferedProvider, ...]:
        return self.offered

    async def list_host_models(self, provider: str) -> tuple[OfferedModel, ...]:
        self.queried_providers.append(provider)
        await self.answered.wait()
        return (OfferedModel("qwen/[b]coder", ModelFacts(context_window=131_072)),)

    def save_model(self, name: str) -> str:
        self.saved_models.append(name)
        return self.override_note

    def save_effort(self, effort: Effort | None) -> None:
        self.effort = effort
