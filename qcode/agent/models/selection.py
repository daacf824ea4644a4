"""The selection of provider and model from flags, settings and keys.

Nothing is sent to a provider; only local servers are probed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from qcode.agent.keys.keys import Keys
from qcode.agent.options import CHOOSE, LATEST, RunContext
from qcode.config.paths import with_tilde
from qcode.config.settings import ProviderSettings, Settings
from qcode.protocol.errors import (
    CredentialError,
    ErrorKind,
    ExitCode,
    ProviderError,
    QcodeError,
    SessionError,
    UsageError,
)
from qcode.providers import registry
from qcode.providers.connection import Sourced, is_command, is_local
from qcode.providers.openai.quirks import MaxTokensField
from qcode.providers.registry import PROVIDERS, ProviderSpec, WireProtocol
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.protocol.provider import Provider

REPLAYS: Mapping[str, bool] = {"replay": False, "replay-timed": True}
"""The providers that play back a recording (`replay/FILE`), and whether they use its recorded times."""
DEMO = "demo"
RESUMED = "the model of this session"
NO_CREDENTIAL_TEXT = (
    "no model available: no key is set or stored, and no local server responds\n  store a key with qcode auth "
    "login PROVIDER, or set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or an AWS credential, or start a "
    "local server such as Ollama\n  to try qcode without a key: qcode -m demo/demo"
)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selected model, and how to connect to it."""

    spec: ProviderSpec
    """How to connect to the provider; not used if `provider` is set."""
    model: str
    """The name of the model at its host."""
    note: str
    """The reason for the choice."""
    is_last_resort: bool = False
    """The model was chosen only because nothing was configured or found."""
    provider: Provider | None = None
    """A provider that the program supplies or that plays back a recording."""
    is_replay: bool = False
    """A recording is played back, so nothing is learned about the host."""

    @property
    def name(self) -> str:
        return f"{self.spec.name}/{self.model}"


def known_specs(settings: Settings) -> dict[str, ProviderSpec]:
    """Return every provider by name, including those of the configuration with a supported type."""
    specs = dict(PROVIDERS)
    for name, configured in settings.providers.items():
        if configured.type in registry.PROTOCOLS:
            specs[name] = _configured(name, configured, specs.get(name))
    return specs


ALL_PROVIDERS_HINT = "qcode auth status lists all providers"


def unknown_provider_text(name: str, known_names: Iterable[str]) -> str:
    """Return the error about a provider that does not exist, with the nearest name."""
    from qcode.text.match import nearest_hint, suggestion

    names = tuple(known_names)
    hint = suggestion(name, names, f"{nearest_hint(name, names)}; {ALL_PROVIDERS_HINT}")
    return f'unknown provider "{name}"; {hint}'


def _configured(name: str, provider: ProviderSettings, spec: ProviderSpec | None) -> ProviderSpec:
    """Return the specification of a provider in the configuration. A built-in provider (`spec`) keeps its protocol."""
    protocol = cast(WireProtocol, provider.type)
    if spec is not None and name in PROVIDERS:
        protocol = spec.protocol
    return registry.custom_provider(
        name,
        protocol,
        provider.base_url or "",
        api_key_env=provider.api_key_env or "",
        has_key_command=provider.api_key_command is not None,
        is_vertex=provider.project is not None or provider.location is not None,
        headers=provider.headers,
        max_tokens_field=cast("MaxTokensField | None", provider.max_tokens_field),
        reasoning_field=provider.reasoning_field or "",
    )


def select_model(name: str, settings: Settings, note: str, keys: Keys | None = None) -> Selection:
    """Return the selection for `provider/model`, a model name that only one provider has, or a short name.

    A provider has the models of the catalog and those that the configuration names. A short name such as `sonnet`
    selects the first host with a credential; without `keys`, the first host. `note` is the reason for the choice. Raise
    `QcodeError` if the name is unknown or ambiguous, or if no host of a short name has a credential.
    """
    specs = known_specs(settings)
    provider, slash, model = name.partition("/")
    if provider in REPLAYS and model and provider not in settings.providers:
        return _replay_selection(Path(model), specs, is_timed=REPLAYS[provider])
    if provider == "vertex" and model.startswith("claude"):
        provider = "vertex-anthropic"  # the protocol differs, but for the user it is the same provider
    if slash and provider in specs:
        if not model:
            return default_of(specs[provider], settings, note)
        return Selection(specs[provider], model, note)
    if provider in settings.providers and provider not in specs:
        kind = settings.providers[provider].type
        raise QcodeError(
            f'provider "{provider}" has the type "{kind}", which this version does not support', ExitCode.BAD_CONFIG
        )
    if slash:
        raise UsageError(unknown_provider_text(provider, specs))
    if provider in specs and provider != DEMO:
        return default_of(specs[provider], settings, note)
    if name == DEMO:
        return Selection(specs[DEMO], DEMO, note)
    return _select_bare_name(name, settings, note, keys, specs)


def _select_bare_name(
    name: str, settings: Settings, note: str, keys: Keys | None, specs: Mapping[str, ProviderSpec]
) -> Selection:
    """Select the model that a name without a provider means: a short name, or a model of exactly one provider."""
    from qcode.agent.models.aliases import NoCredentialError, resolve_alias
    from qcode.providers import catalog

    try:
        full_name = resolve_alias(name, lambda host: keys is None or _has_access(specs[host], settings, keys))
    except NoCredentialError as error:
        if settings.small_model and name.lower() == "haiku":
            return select_model(settings.small_model, settings, note)
        raise CredentialError(f"{error}; {_nearest_usable(specs, settings, keys)}") from None
    matches = (full_name,) if full_name else catalog.full_names(name, specs)
    if len(matches) != 1:
        matches = _named_by_config(name, settings, specs) or matches
    if len(matches) == 1:
        provider, _, model = matches[0].partition("/")
        return Selection(specs[provider], model, note)
    if matches:
        raise UsageError(f'"{name}" is a model of several providers; name one of {", ".join(matches)}')
    raise UsageError(_unknown_model(name, specs, settings.providers))


def _named_by_config(name: str, settings: Settings, specs: Container[str]) -> tuple[str, ...]:
    """Return `provider/model` if the configuration names a model `name` of exactly one provider, otherwise nothing."""
    full_names = {full_name for full_name in settings.models if full_name.partition("/")[2] == name}
    full_names |= {f"{host}/{name}" for host, provider in settings.providers.items() if provider.default_model == name}
    known = [full_name for full_name in full_names if full_name.partition("/")[0] in specs]
    return tuple(known) if len(known) == 1 else ()


def _unknown_model(name: str, specs: Mapping[str, ProviderSpec], own_providers: Iterable[str]) -> str:
    """Return the error about a model name that no provider has.

    The models of `own_providers` are not known, so a name that begins like one of them, such as `local-2`, may be its.
    """
    from qcode.agent.models.aliases import SHORT_NAMES
    from qcode.providers import catalog
    from qcode.text.match import did_you_mean, nearest_list, suggestion

    own = [f"{provider}/{name}" for provider in own_providers if name.startswith(provider)]
    hint = nearest_list(catalog.similar_full_names(name, specs)) or did_you_mean(own)
    hint = hint or suggestion(name, (*SHORT_NAMES, *specs), "name it as PROVIDER/MODEL")
    return f'unknown model "{name}"; {hint}'


def is_usable(spec: ProviderSpec, settings: Settings, keys: Keys) -> bool:
    """Return whether a request to this provider can be sent: there is a credential, or none is needed."""
    return bool(keys.credential_of(spec)) or not needs_key(spec, settings, keys.env)


def _has_access(spec: ProviderSpec, settings: Settings, keys: Keys) -> bool:
    """Return whether a host has a credential or needs none.

    Bedrock searches for credentials later, so it counts as a host without one.
    """
    return bool(keys.credential_of(spec)) or (spec.needs_key and not needs_key(spec, settings, keys.env))


def _nearest_usable(specs: Mapping[str, ProviderSpec], settings: Settings, keys: Keys | None) -> str:
    """Return advice if a short name has no host with a credential: the nearest usable model, or how to store a key."""
    from qcode.providers import catalog

    if keys is not None:
        for host in catalog.BUILT_IN_PROVIDERS:
            if host in specs and keys.credential_of(specs[host]):
                return f"the nearest model with a key is {default_of(specs[host], settings, note='').name}"
    return "store one with qcode auth login, or name another model with -m PROVIDER/MODEL"


def _replay_selection(path: Path, specs: Mapping[str, ProviderSpec], *, is_timed: bool) -> Selection:
    """Return the recorded model with the recorded replies; raise `QcodeError` if the recording is unusable."""
    from qcode.agent.models.recording import RecordingContent, ReplayProvider

    recorded = RecordingContent.read(path)
    provider, _, model = recorded.model.partition("/")
    spec = specs.get(provider) or ProviderSpec(provider, "demo", needs_key=False)  # the protocol is not used
    played = ReplayProvider(recorded, is_timed=is_timed)
    return Selection(spec, model, f"replayed from {path}", provider=played, is_replay=True)


def default_of(spec: ProviderSpec, settings: Settings, note: str) -> Selection:
    """Return the default model of a provider, with the reason `note`; raise `QcodeError` if none is known."""
    configured = settings.providers.get(spec.name)
    if configured is not None and configured.default_model:
        return Selection(spec, configured.default_model, note)
    from qcode.providers import catalog

    try:
        return Selection(spec, catalog.default_model(spec.name), note)
    except LookupError:
        raise UsageError(f"no model was named for {spec.name}: use -m {spec.name}/MODEL") from None


def address_of(spec: ProviderSpec, settings: Settings, env: Mapping[str, str]) -> Sourced:
    """Return the address of a provider and its source (a variable or setting), as `registry.connect` expects them."""
    configured = settings.providers.get(spec.name)
    if spec.is_vertex:
        return _vertex_address(spec, settings, env)
    if configured is not None and configured.base_url:
        return Sourced(configured.base_url, with_tilde(str(settings.origin(f"providers.{spec.name}.base_url"))))
    return registry.base_url_of(spec, env)


def _vertex_address(spec: ProviderSpec, settings: Settings, env: Mapping[str, str]) -> Sourced:
    from qcode.providers.vertex.address import vertex_address

    configured = settings.providers.get(spec.name, ProviderSettings())
    names = {
        "project": configured.project or "",
        "location": configured.location or "",
        "host": configured.base_url or "",
    }
    address = vertex_address(env, **names)
    return Sourced(address.value, address.source or with_tilde(str(settings.origin(f"providers.{spec.name}.project"))))


def _select_with_key(settings: Settings, keys: Keys, base_url: str | None) -> Selection | None:
    """Return the default model of the first provider with a credential, None if no provider has one.

    Raise `UsageError` if a `base_url` is set, because its provider is unknown.
    """
    from qcode.providers import catalog

    specs = known_specs(settings)
    if base_url is not None:
        raise UsageError("--base-url needs to know the provider and the model: add -m openai/MODEL, or another one")
    for name in catalog.BUILT_IN_PROVIDERS:
        spec = specs.get(name)
        source = keys.credential_of(spec) if spec is not None else ""
        if spec is not None and source:
            return default_of(spec, settings, source_text(source))
    return None


async def _select_without_key(settings: Settings, keys: Keys, *, has_demo: bool) -> Selection:
    """Return the model of a local server, otherwise the demo model if `has_demo`; raise `QcodeError` without either."""
    from qcode.providers.local import find_local_server

    specs, local = known_specs(settings), await find_local_server()
    if local is not None:
        spec = local.spec
        return Selection(specs.get(spec.name, spec), local.model, f"a local server responds at {spec.base_url}")
    if has_demo:
        note = "no key is set or stored, and no local server responds"
        return Selection(specs[DEMO], DEMO, note, is_last_resort=True)
    raise QcodeError("\n".join((NO_CREDENTIAL_TEXT, *keys.problems)), ExitCode.NO_CREDENTIAL)


def source_text(source: str) -> str:
    """Return a text about the source of a credential: a variable that is set, or the command that returns a key."""
    return f"a key is stored ({source})" if is_command(source) else f"{source} is set"


def choose_model(
    settings: Settings, keys: Keys, flag: str | None, base_url: str | None, *, has_demo: bool, last_used: str = ""
) -> Selection:
    """Return the model to start with: the first that exists in the following order.

    1. The configured model, from `flag`, the environment or a file.
    2. `last_used`, the model that the app used last, if it can be used.
    3. The default model of the first provider with a key.
    4. A model of a local server.
    5. The demo model, if `has_demo`.
    """
    if settings.model:
        origin = settings.origin("model")
        return select_model(settings.model, settings, f"named by {'-m' if flag else with_tilde(str(origin))}", keys)
    if last_used and base_url is None and (selection := _select_last_used(last_used, settings, keys)) is not None:
        return selection
    with_key = _select_with_key(settings, keys, base_url)
    if with_key is not None:
        return with_key
    import asyncio  # not needed if a key was found

    return asyncio.run(_select_without_key(settings, keys, has_demo=has_demo))


def _select_last_used(name: str, settings: Settings, keys: Keys) -> Selection | None:
    try:
        selection = select_model(name, settings, "chosen in the app")
    except QcodeError:
        return None
    return selection if is_usable(selection.spec, settings, keys) else None


def needs_key(spec: ProviderSpec, settings: Settings, env: Mapping[str, str]) -> bool:
    """Return whether a request to this provider needs a key. A server in the local network never needs one."""
    return spec.needs_key and not is_local(address_of(spec, settings, env).value)


def select_at_start(context: RunContext, *, has_demo: bool = False) -> Selection:
    """Return the model to start with, from the flags, settings and keys of this run; see `choose_model`.

    Raise `QcodeError` if there is no model.
    """
    options, last_used = context.options, ""
    if options.model is not None and not isinstance(options.model, str):
        name = options.model.name
        spec = ProviderSpec(name, "demo", needs_key=False)  # the protocol is not used
        return Selection(spec, name, "given by the program", provider=options.model)
    if not context.settings.model:
        from qcode.config.saved_choices import Choices

        last_used = Choices(context.paths.state_dir).model
    with provider_failures(context.keys):
        return choose_model(
            context.settings,
            context.keys,
            options.model_name or None,
            options.base_url,
            has_demo=has_demo,
            last_used=last_used,
        )


def select_for_resume(context: RunContext) -> Selection:
    """Return the model for an app that resumes a session: the model of the session, unless a flag names another.

    If that model is not usable, return the result of `select_at_start`. The demo model, a placeholder for a missing
    key, is resumed only if the key is still missing. Raise `QcodeError`.
    """
    recorded = "" if context.options.model is not None or context.options.base_url else _recorded_model(context)
    is_demo = recorded.partition("/")[0] == DEMO
    if recorded and not is_demo:
        try:
            selection = select_model(recorded, context.settings, RESUMED, context.keys)
        except QcodeError:
            pass
        else:
            if is_usable(selection.spec, context.settings, context.keys):
                return selection
    selection = select_at_start(context, has_demo=True)
    if is_demo and selection.spec.name == DEMO:
        return replace(selection, note=RESUMED)
    return selection


def _recorded_model(context: RunContext) -> str:
    """Return the last model of the session to resume, empty if there is none or it cannot be read."""
    from qcode.agent.sessions.store import SessionStore

    store = SessionStore(context.paths.state_dir, context.root)
    requested = store.latest() if context.options.resume == LATEST else context.options.resume
    try:
        return store.model_of(requested) if requested not in (None, CHOOSE) else ""
    except SessionError:
        return ""  # the error is reported when the session is opened


@contextmanager
def provider_failures(keys: Keys) -> Iterator[None]:
    """Convert provider errors to `QcodeError`; if a key is missing, add the problems of the stored keys."""
    try:
        yield
    except ProviderError as error:
        if error.kind in (ErrorKind.NO_CREDENTIAL, ErrorKind.AUTH):
            raise CredentialError("\n".join(dict.fromkeys((error.message, *keys.problems)))) from None
        raise UsageError(error.message) from None
