"""The model catalog: public facts about a model on its host (window, output limit, price, abilities).

The data is `data/models.json` (made by `scripts/build_catalog.py`), overridden by `CORRECTIONS`, each with its reason.
It is loaded once, with the first lookup; no network, no SDK. A wrong limit is worse than an unknown one, so a name
without a clear match in the table has no facts. A model has many spellings (dates, `-latest`, vendor prefixes, Bedrock
regions); only affixes that hosts document are removed, so `gpt-5-mini` never becomes `gpt-5`. In this module, a host is
a provider by its name in the table, which several providers of qcode can share.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

from qcode.protocol.model import ModelFacts
from qcode.protocol.usage import Price
from qcode.text.pattern import lazy_pattern
from qcode.values import dataclass

DATA = Path(__file__).with_name("data") / "models.json"

BUILT_IN_PROVIDERS = ("anthropic", "openai", "gemini", "bedrock")
"""The providers that need no configuration, in the order in which credentials are searched for."""

_DEFAULT_MODELS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-sol",
    "gemini": "gemini-3.8-flash",
    "bedrock": "global.anthropic.claude-sonnet-5-5",
    "demo": "demo",
}

# The other names of a provider, with its name in the table.
_PROVIDER_ALIASES = {
    "openai-responses": "openai",
    "google": "gemini",
    "vertex": "gemini",
    "vertex-anthropic": "anthropic",
    "qwen": "dashscope",
    "kimi": "moonshot",
    "glm": "zai",
    "x-ai": "xai",
    "z-ai": "zai",
    "moonshotai": "moonshot",
    "mistralai": "mistral",
}
# Snapshots of these hosts have different limits, so a date or `-latest` is part of the model's name.
_SNAPSHOTS_DIFFER = frozenset({"dashscope"})

_DATE = lazy_pattern(r"[-@](?:20\d{6}|20\d{2}-\d{2}-\d{2})$|@default$")
_PREVIEW = lazy_pattern(r"-preview(?:-\d{2}-(?:\d{2}|\d{4}))?$")
_BEDROCK_REGION = lazy_pattern(r"^(us-gov|us|eu|apac|global|au|jp|in|ca|sa|me|af)\.(?=[a-z0-9]+\.)")
_BEDROCK_VERSION = lazy_pattern(r"-v\d+(?::\d+)?$")
_BEDROCK_ARN = lazy_pattern(r"^arn:aws[a-z-]*:bedrock:[^/]*:(?:foundation-model|inference-profile)/")


@dataclass(frozen=True, slots=True)
class _Vendor:
    """A vendor that alone serves its models, directly or through a relay. `vendor/model` is one model everywhere."""

    provider: str
    """The name of the vendor in the table."""
    prefixes: tuple[str, ...]
    """The starts of the names of its models. It may have other models that anyone may serve, such as `gpt-oss`."""


_VENDORS: Mapping[str, _Vendor] = {
    "anthropic": _Vendor("anthropic", ("claude-",)),
    "openai": _Vendor("openai", ("gpt-3", "gpt-4", "gpt-5", "gpt-6", "o1", "o3", "o4")),
    "google": _Vendor("gemini", ("gemini-",)),
    "x-ai": _Vendor("xai", ("grok-",)),
}
# OpenRouter's routing suffixes choose a host but do not change the model (its page on model variants).
_ROUTING = frozenset({"", "nitro", "floor", "exacto"})
_FREE = Price(Decimal(0), Decimal(0), cache_read=Decimal(0), cache_write=Decimal(0))


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """The parsed table of models."""

    source: str
    """The public table that the catalog was built from, with its version."""
    date: str
    """The date of that table."""
    facts: Mapping[str, Mapping[str, ModelFacts]]
    """The facts about a model, by provider and exact name."""
    exact_names: Mapping[str, Mapping[str, tuple[str, ...]]]
    """The exact names, by provider and plain name. A plain name has no date or similar affix (see `plain_name`)."""
    responses_only: frozenset[str]
    """The models of OpenAI that only the Responses API serves."""


def lookup(provider: str, model: str) -> ModelFacts | None:
    """Return the facts about `model` at `provider`, or None; never those of another model.

    An exact name wins. Otherwise date, `-latest`, `-preview`, Bedrock version and region are ignored, and all rows that
    then match must have the same facts. A relay (`openrouter/anthropic/claude-…`) has the limits of the vendor.
    OpenRouter also has the vendor's prices (according to its FAQ).
    """
    host = canonical_provider(provider)
    facts = _find(host, model)
    if facts is None and "/" in model:
        facts = _find_relayed(host, model)
    return facts


def default_model(provider: str) -> str:
    """Return the default model of a provider. Raise `LookupError` if it has none."""
    try:
        return _DEFAULT_MODELS[canonical_provider(provider)]
    except KeyError:
        raise LookupError(f"no default model is known for {provider}") from None


def full_names(name: str, providers: Collection[str] = BUILT_IN_PROVIDERS) -> tuple[str, ...]:
    """Return `provider/model` for each of `providers` that has the model `name`.

    A model that only the Responses API serves is a model of `openai-responses` if that is among the providers.
    """
    provider_of = _provider_of_hosts(providers)
    has_responses = "openai-responses" in providers
    exact = [host for host in provider_of if exact_name(host, name) in _rows(host)]
    hosts = exact or [host for host in provider_of if _find(host, name) is not None]
    return tuple(_qualified(provider_of[host], exact_name(host, name), has_responses=has_responses) for host in hosts)


def similar_full_names(name: str, providers: Collection[str] = BUILT_IN_PROVIDERS) -> tuple[str, ...]:
    """Return up to three `provider/model` names of `providers` that are most similar to `name`, best first."""
    from qcode.text.match import likeness

    wanted = name.strip().lower()
    models = {
        f"{provider}/{model}": model
        for host, provider in _provider_of_hosts(providers).items()
        for model in nearest(host, wanted)
    }
    ranked = sorted(models, key=lambda full_name: (-likeness(wanted, models[full_name]), full_name))
    return tuple(ranked[:3])


def _provider_of_hosts(providers: Collection[str]) -> dict[str, str]:
    """Return the first provider of each host: "openai" and "openai-responses" have the same models, so they are one."""
    provider_of: dict[str, str] = {}
    for provider in providers:
        provider_of.setdefault(canonical_provider(provider), provider)
    return provider_of


def nearest(provider: str, name: str) -> tuple[str, ...]:
    """Return up to three names of the table that are closest to `name`, best first."""
    from qcode.text.match import similar

    host = canonical_provider(provider)
    return similar(exact_name(host, name), list(_rows(host)))


def models() -> Iterator[tuple[str, ModelFacts]]:
    """Yield every model of the table as `provider/model` with its facts, sorted by name."""
    for provider, rows in sorted(read_table().facts.items()):
        for name, facts in sorted(rows.items()):
            yield f"{provider}/{name}", facts


def catalog_source() -> str:
    """Return the source and date of the table in one line, for `qcode models` and `qcode doctor`."""
    table = read_table()
    return f"{table.source}, {table.date}"


def _rows(provider: str) -> Mapping[str, ModelFacts]:
    if provider == "demo":
        from qcode.providers.demo.provider import DEMO_FACTS, DEMO_MODEL

        return {DEMO_MODEL: DEMO_FACTS}
    return read_table().facts.get(provider, {})


def _find(provider: str, model: str) -> ModelFacts | None:
    """Return the facts about a model in the rows of `provider`; see `lookup`."""
    rows = _rows(provider)
    name = exact_name(provider, model)
    if name in rows:
        return rows[name]
    plain = plain_name(provider, name)
    exact_names = read_table().exact_names.get(provider, {})
    facts = _shared_facts(rows, plain, exact_names.get(plain, ()))
    if facts is not None or provider != "bedrock":
        return facts
    base = without_region(plain)
    facts = _shared_facts(rows, base, exact_names.get(base, ()))
    return None if facts is None else replace(facts, price=None)  # prices differ between regions, limits do not


def _shared_facts(rows: Mapping[str, ModelFacts], plain: str, names: tuple[str, ...]) -> ModelFacts | None:
    """Return the facts of the plain name itself, or those shared by its exact names; None if they differ."""
    if plain in rows:
        return rows[plain]
    facts = {rows[name] for name in names}
    return facts.pop() if len(facts) == 1 else None


def _find_relayed(provider: str, model: str) -> ModelFacts | None:
    """Return the facts about `vendor/model` at a relay, from the rows of the vendor; None if they do not apply."""
    vendor_name, _, name_and_variant = model.strip().lower().partition("/")
    name, _, variant = name_and_variant.partition(":")
    vendor = _VENDORS.get(vendor_name)
    facts = _find(vendor.provider, name) if vendor is not None and name.startswith(vendor.prefixes) else None
    if facts is None:
        return None
    # The vendor's support for a prefill does not show that the relay passes it on.
    facts = replace(facts, can_prefill=False)
    if provider == "openrouter" and variant == "free":
        # A free variant has a different window and different limits (OpenRouter's page on the free variant).
        return replace(facts, price=_FREE, context_window=None, max_output_tokens=None)
    if variant not in _ROUTING:
        return None
    return facts if provider == "openrouter" else replace(facts, price=None)


def _qualified(provider: str, model: str, *, has_responses: bool) -> str:
    is_responses = has_responses and canonical_provider(provider) == "openai" and model in read_table().responses_only
    return f"openai-responses/{model}" if is_responses else f"{provider}/{model}"


@cache
def read_table() -> CatalogTable:
    """Return the table, with `CORRECTIONS` applied."""
    data = json.loads(DATA.read_bytes())
    facts: dict[str, dict[str, ModelFacts]] = {
        provider: {name: _facts(row) for name, row in rows.items()} for provider, rows in data["models"].items()
    }
    for (provider, name), correction in CORRECTIONS.items():
        rows = facts.setdefault(provider, {})
        rows[name] = correction.apply(rows.get(name))
    responses = {name for name, row in data["models"]["openai"].items() if row.get("api") == "responses"}
    exact_names = {provider: by_plain_name(provider, rows) for provider, rows in facts.items()}
    return CatalogTable(data["source"], data["date"], facts, exact_names, frozenset(responses))


def by_plain_name(provider: str, rows: Mapping[str, ModelFacts]) -> dict[str, tuple[str, ...]]:
    """Return the exact names in `rows` for each plain name."""
    exact_names: dict[str, tuple[str, ...]] = {}
    for name in rows:
        plain = plain_name(provider, name)
        exact_names[plain] = (*exact_names.get(plain, ()), name)
    return exact_names


def _facts(row: Mapping[str, object]) -> ModelFacts:
    return ModelFacts(
        context_window=_count(row.get("window")),
        max_output_tokens=_count(row.get("output")),
        price=_price(row.get("price")),
        can_prefill=row.get("prefill") is True,
        # The table lacks this flag for many models that support images, so a missing flag means unknown.
        can_read_images=True if row.get("images") is True else None,
        can_think=row.get("thinking") is True,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _price(values: object) -> Price | None:
    if not isinstance(values, list):
        return None
    # In the order of the fields of `Price`.
    input_price, output_price, cache_read, cache_write = (None if text is None else Decimal(text) for text in values)
    if input_price is None or output_price is None:
        return None
    return Price(input_price, output_price, cache_read, cache_write)


@dataclass(frozen=True, slots=True)
class Correction:
    """Facts that override the table; None keeps the value of the table."""

    reason: str
    """Why the table is wrong or incomplete."""
    max_output_tokens: int | None = None
    replacement: ModelFacts | None = None

    def apply(self, facts: ModelFacts | None) -> ModelFacts:
        """Return the corrected facts of a model, which may be missing from the table."""
        base = self.replacement or facts or ModelFacts()
        return replace(base, max_output_tokens=self.max_output_tokens or base.max_output_tokens)


def _claude_4(max_output_tokens: int, price: Price) -> ModelFacts:
    return ModelFacts(200_000, max_output_tokens, price, can_prefill=True, can_read_images=True, can_think=True)


_OPUS_4 = _claude_4(32_000, Price(Decimal(15), Decimal(75), cache_read=Decimal("1.5"), cache_write=Decimal("18.75")))
_SONNET_4 = _claude_4(64_000, Price(Decimal(3), Decimal(15), cache_read=Decimal("0.3"), cache_write=Decimal("3.75")))
_O1_PREVIEW = ModelFacts(context_window=128_000, max_output_tokens=32_768, can_think=True)
_O1_MINI = ModelFacts(context_window=128_000, max_output_tokens=65_536, can_think=True)
_RETIRED_ROW = "no longer in the public table, still served in places; figures of Anthropic's model page"
_GEMINI_2_5 = "the API counts the cap exclusively: it refuses 65,536 and accepts 65,535"
_O1_FIRST = "the first o1 models had smaller limits than o1 itself (OpenAI's model pages)"

CORRECTIONS: Mapping[tuple[str, str], Correction] = {
    ("openai", "gpt-4o"): Correction("the API refuses more than 16,384", max_output_tokens=16_384),
    ("openai", "o1-preview"): Correction(_O1_FIRST, replacement=_O1_PREVIEW),
    ("openai", "o1-mini"): Correction(_O1_FIRST, replacement=_O1_MINI),
    ("anthropic", "claude-opus-4-1"): Correction(_RETIRED_ROW, replacement=_OPUS_4),
    ("anthropic", "claude-opus-4"): Correction(_RETIRED_ROW, replacement=_OPUS_4),
    ("anthropic", "claude-opus-4-0"): Correction("Anthropic's alias of claude-opus-4", replacement=_OPUS_4),
    ("anthropic", "claude-sonnet-4"): Correction(_RETIRED_ROW, replacement=_SONNET_4),
    ("anthropic", "claude-sonnet-4-0"): Correction("Anthropic's alias of claude-sonnet-4", replacement=_SONNET_4),
    ("gemini", "gemini-2.5-pro"): Correction(_GEMINI_2_5, max_output_tokens=65_535),
    ("gemini", "gemini-2.5-flash"): Correction(_GEMINI_2_5, max_output_tokens=65_535),
    ("gemini", "gemini-2.5-flash-lite"): Correction(_GEMINI_2_5, max_output_tokens=65_535),
    ("deepseek", "deepseek-chat"): Correction("the API's range is 1 to 8,192", max_output_tokens=8_192),
}


def canonical_provider(name: str) -> str:
    """Return the name of a provider in the table; an unknown name is only stripped and put in lower case."""
    lowered = name.strip().lower()
    return _PROVIDER_ALIASES.get(lowered, lowered)


def exact_name(provider: str, model: str) -> str:
    """Return `model` as a host's model list spells it: lower case, without a resource path."""
    name = model.strip().lower()
    if provider == "gemini":
        return name.removeprefix("models/")
    if provider == "bedrock":
        return _BEDROCK_ARN.sub("", name)
    return name


def plain_name(provider: str, model: str) -> str:
    """Return the name without date, `-latest`, `-preview` and Bedrock version; a Bedrock region is kept.

    Dots in the version of a Claude model become hyphens. The names of `_SNAPSHOTS_DIFFER` are unchanged.
    """
    name = exact_name(provider, model)
    if provider in _SNAPSHOTS_DIFFER:
        return name
    if provider == "bedrock":
        name = _BEDROCK_VERSION.sub("", name)
    if "claude" in name:
        # `claude-sonnet-4.5` and `claude-sonnet-4-5` are one model.
        vendor, separator, version = name.rpartition("claude")
        name = vendor + separator + version.replace(".", "-")
    while True:
        shorter = _PREVIEW.sub("", _DATE.sub("", name)).removesuffix("-latest")
        if shorter == name or not shorter:
            return name
        name = shorter


def without_region(model: str) -> str:
    """Return a Bedrock id without the prefix of a cross-region inference profile."""
    return _BEDROCK_REGION.sub("", model)
