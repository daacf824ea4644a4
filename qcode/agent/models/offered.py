"""The models that the user can choose, by provider: from catalog, settings, learned limits and the lists of hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum, auto
from typing import NamedTuple

from qcode.agent.keys.connect import connect_and_check
from qcode.agent.models.client import facts_of
from qcode.agent.models.limits import LimitStore
from qcode.agent.models.selection import DEMO, address_of, default_of, known_specs, needs_key, source_text
from qcode.agent.options import RunContext
from qcode.config.paths import with_tilde
from qcode.config.saved_choices import Choices
from qcode.engine.model_facts import HostKnowledge
from qcode.protocol.errors import QcodeError
from qcode.protocol.model import Effort, ModelFacts
from qcode.providers.connection import is_local
from qcode.providers.registry import ProviderSpec, finds_credentials
from qcode.providers.sdk import run_in_thread
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class OfferedModel:
    """A model of one provider. In `provider/model`, `name` is the model."""

    name: str
    facts: ModelFacts


@dataclass(frozen=True, slots=True)
class OfferedProvider:
    """A provider with its known models, the most likely choice first."""

    name: str
    credential: str = ""
    """The credential in words (`OPENAI_API_KEY is set`), empty if none is needed or found."""
    is_ready: bool = True
    """The provider can be used without setup."""
    models: tuple[OfferedModel, ...] = ()
    may_list_more: bool = False
    """The host of the provider may list more models, see `ModelsService.list_host_models`."""


_OPENAI_PROVIDERS = ("openai", "openai-responses")
_NAME_PARTS = re.compile(r"(?P<number>\d+(?:\.\d+)?)|[^\W\d_]+|(?P<separator>[\W_]+)")
"""A number, a word, or the characters between them: `qwen3.8-max` is `qwen`, `3.8`, `-`, `max`."""
_MIN_DATE_DIGITS = 4
"""A number with so many digits is a date, as in `gpt-4-0613` or `claude-opus-4-20250514`."""
# Anthropic's names up to 3.7 have the version before the family: `claude-3-7-sonnet`.
_VERSION_BEFORE_FAMILY = re.compile(r"claude-(\d(?:-\d)?)-([a-z]+)")
_VERSION = re.compile(r"/v\d\w*$")
"""The version at the end of an address, such as `/v1` or `/v1beta`."""


class ModelsService:
    """The models that the app offers, according to the configuration read at startup."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._choices = Choices(context.paths.state_dir)
        self._limits = LimitStore(context.paths.state_dir)

    def providers(self, *, with_unready: bool = False) -> tuple[OfferedProvider, ...]:
        """Return the providers with the models that are known without a request; this may read files.

        Providers that cannot be used are returned without models, unless `with_unready`.
        """
        learned = self._limits.all_knowledge()
        specs = known_specs(self._context.settings).values()
        offered = [self._offered_provider(spec, learned, with_unready=with_unready) for spec in specs]
        return tuple(sorted(offered, key=lambda provider: provider.name == DEMO))

    def names(self) -> tuple[str, ...]:
        """Return every model of the providers that can be used, as `provider/model`."""
        return tuple(
            f"{provider.name}/{model.name}"
            for provider in self.providers()
            if provider.is_ready
            for model in provider.models
        )

    async def list_host_models(self, provider: str) -> tuple[OfferedModel, ...]:
        """Ask the host for its models; empty if it does not answer in time. Raises only if cancelled."""
        settings, keys = self._context.settings, self._context.keys
        spec = known_specs(settings)[provider]
        address = address_of(spec, settings, keys.env).value
        if is_local(address) and not keys.source_of(spec) and not spec.headers:
            from qcode.providers.local import list_models

            names = await list_models(address)
        else:
            # A slow keyring must not block the screen.
            await run_in_thread(lambda: keys.key_of(spec))
            names = (await connect_and_check(settings, keys, spec, None)).models
        learned = self._limits.all_knowledge()
        return tuple(self._model(spec, name, learned) for name in sorted(names, key=version_order, reverse=True))

    @property
    def recent(self) -> tuple[str, ...]:
        """The models chosen last as `provider/model`, the latest first."""
        return self._choices.recent_models

    @property
    def effort(self) -> Effort | None:
        """The effort chosen last, None for the default of the model."""
        return self._choices.effort

    def save_model(self, name: str) -> str:
        """Make this model the default of the next start, except the demo model.

        Return a line if a setting in a file or a variable will override the default, otherwise an empty string. A flag
        for the model hides that setting, so there is no line in a run with such a flag.
        """
        if name.partition("/")[0] == DEMO:
            return ""
        self._choices.save_model(name)
        settings = self._context.settings
        origin = settings.origin("model")
        if settings.model in (None, name) or origin.kind == "flag":  # a flag is for this run only
            return ""
        return f"The next start uses {settings.model} again, because {with_tilde(str(origin))} sets it."

    def save_effort(self, effort: Effort | None) -> None:
        self._choices.save_effort(effort)

    def _offered_provider(
        self, spec: ProviderSpec, learned: Mapping[tuple[str, str], HostKnowledge], *, with_unready: bool
    ) -> OfferedProvider:
        """Return a provider with its models; without models if it is not ready, unless `with_unready`."""
        settings, keys = self._context.settings, self._context.keys
        source = keys.source_of(spec)
        is_ready = bool(source) or not (finds_credentials(spec) or needs_key(spec, settings, keys.env))
        if not is_ready and not with_unready:
            return OfferedProvider(spec.name, is_ready=False)
        listed = _catalog_models(spec)
        names = dict.fromkeys((*self._configured_models(spec), *listed, *self._learned_models(spec, learned)))
        return OfferedProvider(
            spec.name,
            source_text(source) if source else "",
            is_ready,
            models=tuple(self._model(spec, name, learned) for name in names),
            may_list_more=not listed and not finds_credentials(spec),
        )

    def _configured_models(self, spec: ProviderSpec) -> Iterable[str]:
        """Yield the default model of a provider and the models that the configuration names."""
        settings = self._context.settings
        with suppress(QcodeError):
            yield default_of(spec, settings, "").model
        full_names = (name.partition("/") for name in settings.models)
        yield from (model for provider, _, model in full_names if provider == spec.name and model)

    def _learned_models(self, spec: ProviderSpec, learned: Mapping[tuple[str, str], HostKnowledge]) -> Iterable[str]:
        address = self._address(spec)
        return (model for host, model in sorted(learned) if address and _without_version(host) == address)

    def _model(self, spec: ProviderSpec, name: str, learned: Mapping[tuple[str, str], HostKnowledge]) -> OfferedModel:
        """Return a model with the facts that a request would use: learned limits override the catalog."""
        facts = facts_of(spec.name, name, self._context.settings.models.get(f"{spec.name}/{name}"))
        address = self._address(spec)
        matches = (
            knowledge
            for (host, model), knowledge in learned.items()
            if model == name and _without_version(host) == address
        )
        knowledge = next(matches, None)
        return OfferedModel(name, facts if knowledge is None else _with_learned(facts, knowledge))

    def _address(self, spec: ProviderSpec) -> str:
        return _without_version(address_of(spec, self._context.settings, self._context.keys.env).value)


class _NamePartKind(IntEnum):
    """The kind of a part of a name, in the order in which different parts at the same place are sorted.

    `WORD` is a word after a separator, or a date; `SUFFIX` a word without a separator before it, as in `gpt-4o`.
    Example: after `gpt-4`, the parts of `gpt-4-mini`, `gpt-4`, `gpt-4o` and `gpt-4-1` are in ascending order.
    """

    WORD = auto()
    END = auto()
    SUFFIX = auto()
    VERSION = auto()


class _NamePart(NamedTuple):
    """A number or a text in a name, or the end of the name. The fields are compared in order."""

    kind: _NamePartKind
    number: float = 0.0
    """The value of a version number, 0 for other parts."""
    text: str = ""


def version_order(name: str) -> list[_NamePart]:
    """Return a sort key for the names of models: reversed, later versions come first, and a name before its variants.

    Example: `qwen10`, `qwen3.8-max`, `qwen3`, `qwen3-max`, `qwen-turbo`.
    """
    parts = []
    is_separated = True
    for match in _NAME_PARTS.finditer(_VERSION_BEFORE_FAMILY.sub(r"claude-\2-\1", name)):
        if match["separator"]:
            is_separated = True
            continue
        number = match["number"] or ""
        if number and len(number.partition(".")[0]) < _MIN_DATE_DIGITS:
            parts.append(_NamePart(_NamePartKind.VERSION, float(number)))
        else:
            kind = _NamePartKind.WORD if is_separated or number else _NamePartKind.SUFFIX
            parts.append(_NamePart(kind, text=match[0]))
        is_separated = False
    return [*parts, _NamePart(_NamePartKind.END)]


def _catalog_models(spec: ProviderSpec) -> list[str]:
    """Return the catalog's models of a provider, the highest version of each family first.

    For `openai` and `openai-responses`, return only the models that the catalog assigns to that protocol.
    """
    if spec.name == DEMO:
        return [DEMO]
    from qcode.providers import catalog
    from qcode.providers.catalog import canonical_provider

    provider = canonical_provider(spec.name)
    full_names = (name.partition("/") for name, _ in catalog.models())
    names = sorted((name for host, _, name in full_names if host == provider), key=version_order, reverse=True)
    if spec.name in _OPENAI_PROVIDERS:
        return [name for name in names if catalog.full_names(name, _OPENAI_PROVIDERS) == (f"{spec.name}/{name}",)]
    return names


def _with_learned(facts: ModelFacts, learned: HostKnowledge) -> ModelFacts:
    return replace(
        facts,
        context_window=learned.window or facts.context_window,
        max_output_tokens=learned.output or facts.max_output_tokens,
        can_read_images=False if learned.refuses_images else facts.can_read_images,
        has_text_tool_calls=facts.has_text_tool_calls or bool(learned.text_calls),
    )


def _without_version(address: str) -> str:
    """Return an address without a version such as `/v1`, which some clients add, so that limits and settings match."""
    return _VERSION.sub("", address.rstrip("/"))
