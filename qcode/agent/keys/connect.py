"""The setup of a provider: checking and storing a key, and the source of each provider's credential.

`check_key` validates a key with one small request: for the list of models, or for a path that
requires a valid key. No message contains any part of a key.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.agent.crash import redact_in_crash_reports
from qcode.agent.keys.keys import Keys
from qcode.agent.keys.pasted_key import read_key
from qcode.agent.keys.store import KeyLocation, StoredKey
from qcode.agent.models.selection import DEMO, Selection, address_of, default_of, known_specs, needs_key, source_text
from qcode.agent.options import RunContext
from qcode.config.paths import with_tilde
from qcode.config.saved_choices import Choices
from qcode.config.settings import DEFAULT, Settings
from qcode.protocol.errors import ErrorKind, KeyStoreError, ProviderError, QcodeError
from qcode.protocol.provider import Provider
from qcode.providers import registry
from qcode.providers.connection import Sourced, Timeouts, is_local
from qcode.providers.openai.client import OpenAISdkProvider
from qcode.providers.registry import ProviderSpec
from qcode.providers.sdk import run_in_thread
from qcode.providers.streaming import SdkProvider
from qcode.safety.secret import Secret
from qcode.values import dataclass

CredentialSource: TypeAlias = Literal[
    "environment", "command", "keyring", "file", "config", "aws", "google", "none", "not needed"
]


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """The credential of a provider, as `qcode auth` lists it."""

    provider: str
    source: CredentialSource
    name: str = ""
    """The variable, setting or command that gives the credential."""
    shadowed: KeyLocation | None = None
    """The location of a stored key that is not used, because `source` takes precedence."""
    status: str = ""
    """Without a credential: how to add one."""

    @property
    def is_ready(self) -> bool:
        return self.source != "none"

    @property
    def text(self) -> str:
        """The source of the credential for the user, and a stored key that is not used."""
        match self.source:
            case "environment":
                description = f"environment variable {self.name}"
            case "command":
                description = f"the command in {self.name}"
            case "aws" | "google":
                chain = "AWS chain" if self.source == "aws" else "Google credentials"
                description = f"{chain} ({self.name} is set)"
            case "keyring" | "file":
                description = f"stored in the {'keyring' if self.source == 'keyring' else 'key file'}"
            case "config":
                description = f"headers in the configuration ({with_tilde(self.name)})"
            case "not needed":
                description = "needs no key"
            case _:
                description = f"no key; {self.status}"
        if self.shadowed is None:
            return description
        location = "keyring" if self.shadowed == "keyring" else "key file"
        return f"{description}; the key in the {location} is not used"

    def as_json(self) -> dict[str, object]:
        row = {"provider": self.provider, "source": self.source, "name": self.name, "shadowed": self.shadowed}
        return {**row, "ready": self.is_ready}


def credential_rows(settings: Settings, keys: Keys) -> list[CredentialRow]:
    """Return a row for every provider except the demo; providers of the configuration come last."""
    return [credential_row(spec, settings, keys) for name, spec in known_specs(settings).items() if name != DEMO]


def credential_row(spec: ProviderSpec, settings: Settings, keys: Keys) -> CredentialRow:
    """Return the row of one provider. A key in the keyring is read, to check that it exists."""
    variable = registry.credential_of(spec, keys.env)
    stored = keys.location_of(spec)
    if variable:
        chain: CredentialSource = "google" if spec.is_vertex else "aws"
        is_chain = registry.finds_credentials(spec) and variable not in spec.key_variables
        return CredentialRow(spec.name, chain if is_chain else "environment", variable, stored)
    if setting := keys.setting_of(spec):
        return CredentialRow(spec.name, "command", setting, stored)
    if stored is not None and keys.key_of(spec).value:
        return CredentialRow(spec.name, stored, registry.login_command(spec))
    if spec.protocol == "bedrock":
        return CredentialRow(
            spec.name, "none", status="set AWS_PROFILE or AWS_ACCESS_KEY_ID; credentials come from the AWS chain"
        )
    if spec.is_vertex:
        return CredentialRow(
            spec.name, "none", status="run gcloud auth application-default login, and set GOOGLE_CLOUD_PROJECT"
        )
    if spec.headers:
        prefix = f"providers.{spec.name}.headers."
        origins = [origin for name, origin in settings.origins.items() if name.startswith(prefix)]
        return CredentialRow(spec.name, "config", str(origins[0] if origins else DEFAULT))
    if not needs_key(spec, settings, keys.env):
        return CredentialRow(spec.name, "not needed")
    variables = " or ".join(spec.key_variables)
    remedy = f"run {registry.login_command(spec)}"
    if variables:
        remedy = f"set {variables}, or {remedy}"
    return CredentialRow(spec.name, "none", status=remedy)


ProviderGroup: TypeAlias = Literal["popular", "local", "other"]


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """A provider in the list of the setup screen."""

    name: str
    state: str = ""
    """The state of the credential, such as `needs no key`; empty without a credential."""
    accepts_key: bool = True
    """False: the provider finds its credential without a key, such as Amazon Bedrock."""
    is_ready: bool = False
    """The provider works without entering a key."""
    is_keyless: bool = False
    """No key is set or stored, and no key is needed, such as for a local server."""
    title: str = ""
    """The name for display."""
    hint: str = ""
    """A line about the provider."""
    key_page: str = ""
    """The address of the web page to create a key, empty if unknown."""
    group: ProviderGroup = "other"


@dataclass(frozen=True, slots=True)
class _ProviderText:
    """The texts of a provider in the setup; see `ProviderChoice`."""

    title: str
    hint: str
    key_page: str = ""


_PROVIDER_TEXTS: Mapping[str, _ProviderText] = {
    "anthropic": _ProviderText("Anthropic", "Claude models", "https://console.anthropic.com/settings/keys"),
    "openai": _ProviderText("OpenAI", "GPT models", "https://platform.openai.com/api-keys"),
    "gemini": _ProviderText("Google Gemini", "Gemini models, with a free tier", "https://aistudio.google.com/apikey"),
    "openrouter": _ProviderText("OpenRouter", "models of many providers with one key", "https://openrouter.ai/keys"),
    "ollama": _ProviderText("Ollama", "models on this machine"),
    "lmstudio": _ProviderText("LM Studio", "models on this machine"),
    "llamacpp": _ProviderText("llama.cpp", "the server of llama.cpp"),
    "vllm": _ProviderText("vLLM", "a vLLM server"),
    "sglang": _ProviderText("SGLang", "an SGLang server"),
    "openai-responses": _ProviderText(
        "OpenAI Responses", "GPT models, newer API", "https://platform.openai.com/api-keys"
    ),
    "vertex": _ProviderText("Vertex AI", "Gemini in your Google Cloud project"),
    "vertex-anthropic": _ProviderText("Vertex AI (Claude)", "Claude in your Google Cloud project"),
    "bedrock": _ProviderText("Amazon Bedrock", "Claude and others in your AWS account"),
    "azure": _ProviderText("Azure OpenAI", "GPT models in your Azure account", "https://portal.azure.com"),
    "deepseek": _ProviderText("DeepSeek", "DeepSeek models", "https://platform.deepseek.com/api_keys"),
    "mistral": _ProviderText("Mistral AI", "Mistral and Codestral", "https://console.mistral.ai/api-keys"),
    "groq": _ProviderText("Groq", "open models, fast", "https://console.groq.com/keys"),
    "xai": _ProviderText("xAI", "Grok models", "https://console.x.ai"),
    "together": _ProviderText("Together AI", "open models", "https://api.together.ai/settings/api-keys"),
    "qwen": _ProviderText("Alibaba Qwen", "Qwen models", "https://bailian.console.alibabacloud.com/?apiKey=1"),
    "kimi": _ProviderText("Moonshot Kimi", "Kimi models", "https://platform.moonshot.ai/console/api-keys"),
    "glm": _ProviderText("Z.AI", "GLM models", "https://z.ai/manage-apikey/apikey-list"),
}
"""The description of each provider for the user, with the key page from its documentation."""


def provider_hint(name: str) -> str:
    """Return the line about a built-in provider, such as `Claude models`; empty for any other."""
    text = _PROVIDER_TEXTS.get(name)
    return text.hint if text is not None else ""


_POPULAR = ("anthropic", "openai", "gemini", "openrouter")
_GROUPS: tuple[ProviderGroup, ...] = ("popular", "local", "other")


@dataclass(frozen=True, slots=True)
class CheckedKey:
    """A key that the provider did not reject."""

    key: Secret | None
    """None for the credential that is already in use."""
    is_accepted: bool = True
    """False if the provider gave no clear answer; `note` has the reason."""
    note: str = ""
    models: tuple[str, ...] = ()
    """The models that the host listed."""


CHECK_TIMEOUT_S = 15.0
"""The time limit for the check of a key."""
_LACKS_SCOPE = re.compile(r"missing scope", re.IGNORECASE)
_ACCEPTED_KINDS = (ErrorKind.QUOTA, ErrorKind.RATE_LIMIT)
"""The errors that a provider answers only to a valid key."""


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """The provider's answer about a key. A key that is not refused becomes a `CheckedKey`."""

    verdict: Literal["accepted", "refused", "unknown"]
    """`unknown`: the provider could not be reached, or gave no clear answer."""
    note: str = ""
    """One line without the key; empty if the key is valid without restrictions."""
    models: tuple[str, ...] = ()
    """The models that the host listed."""


async def check_key(provider: Provider, key_path: str = "", limit_s: float = CHECK_TIMEOUT_S) -> KeyVerdict:
    """Check the key of `provider` within `limit_s` seconds, and close the provider. Raises only if cancelled.

    The limit is for the answers of the host; an SDK is imported before it starts. `key_path`: see `ProviderSpec`.
    """
    try:
        if isinstance(provider, SdkProvider):
            await provider.prepare()
        async with asyncio.timeout(limit_s):
            if key_path and isinstance(provider, OpenAISdkProvider):
                await provider.check_path(key_path)
            return KeyVerdict("accepted", models=await provider.model_names())
    except TimeoutError:
        return KeyVerdict("unknown", f"{provider.name} did not answer within {limit_s:g} s")
    except ProviderError as error:
        return _check_result(error)
    except (AttributeError, TypeError, ValueError):
        # The SDK failed on an unexpected response body, which says nothing about the key.
        return KeyVerdict("unknown", f"{provider.name} did not return a list of models")
    finally:
        await provider.close()


def _check_result(error: ProviderError) -> KeyVerdict:
    if error.kind in (ErrorKind.AUTH, ErrorKind.NO_CREDENTIAL):
        # The key may be valid but restricted to other requests.
        if error.status == 403 and _LACKS_SCOPE.search(error.message):
            return KeyVerdict("accepted", "the key is valid but cannot list models")
        return KeyVerdict("refused", error.message)
    if error.kind in _ACCEPTED_KINDS:
        return KeyVerdict("accepted", error.message)
    return KeyVerdict("unknown", error.message)


_CONNECT_TIMEOUT_S = 5.0


def login_lines(keys: Keys, spec: ProviderSpec, stored: StoredKey, note: str, *, is_accepted: bool) -> tuple[str, ...]:
    """Return the messages about a stored key: its validity, its location, and a variable that overrides it."""
    if is_accepted:
        first = f"{spec.name} accepted the key"
    else:
        first = "the key could not be checked" if note else "the key was not checked"
    location = (
        f"the keyring ({stored.location_name})"
        if stored.location == "keyring"
        else f"{with_tilde(stored.location_name)}, readable only by you"
    )
    lines = [first + (f" ({note})" if note else ""), f"stored in {location}"]
    if stored.why_no_keyring:
        lines.append(f"the keyring {stored.why_no_keyring}")
    if overriding := registry.key_of(spec, keys.env).source or keys.setting_of(spec):
        lines.append(f"{overriding} is set and takes precedence; unset it to use the stored key")
    return tuple(lines)


async def connect_and_check(settings: Settings, keys: Keys, spec: ProviderSpec, key: Secret | None) -> KeyVerdict:
    """Check `key` with the provider `spec`; None checks the current credential, if the provider needs one."""
    address = address_of(spec, settings, keys.env)
    checked = Sourced(key.reveal()) if key is not None else keys.key_of(spec)
    if key is None and (failure := keys.failure_of(spec)):
        return KeyVerdict("refused", failure)
    timeouts = Timeouts(connect=min(_CONNECT_TIMEOUT_S, settings.network_for(spec.name).connect_timeout_s))
    try:
        provider = registry.connect(
            spec,
            base_url=address.value,
            base_url_source=address.source,
            api_key=checked.value,
            key_source=checked.source,
            timeouts=timeouts,
        )
    except ProviderError as error:
        return KeyVerdict("refused", error.message)
    return await check_key(provider, spec.key_path)


def store_key(keys: Keys, spec: ProviderSpec, key: Secret) -> StoredKey:
    """Store the key; raise `KeyStoreError` if the key file cannot be written."""
    if keys.store is None:
        raise KeyStoreError("keys cannot be stored here")
    return keys.store.store(registry.key_name(spec), key)


_GOOGLE_CHAIN = "credentials come from gcloud auth application-default login; set GOOGLE_CLOUD_PROJECT"
_AWS_CHAIN = "credentials come from the AWS chain (AWS_PROFILE, aws sso login, a role)"


class KeysService:
    """The key setup of the app. A provider's address, headers and time limits come from the settings."""

    def __init__(self, context: RunContext, selection: Selection) -> None:
        self._context = context
        self._choices = Choices(context.paths.state_dir)
        options = context.options
        is_new = selection.is_last_resort and options.prompt is None and options.resume is None
        self._is_first = is_new and not self._choices.is_set_up

    @property
    def is_first(self) -> bool:
        """Whether this is the first start and there is no key. The setup screen then opens automatically."""
        return self._is_first

    @property
    def wants_theme(self) -> bool:
        """Whether the user has not chosen a theme yet."""
        return not self._context.settings.ui.theme and not self._choices.theme

    def choices(self) -> tuple[ProviderChoice, ...]:
        """Return the providers by group: popular providers, local servers, other providers."""
        specs = known_specs(self._context.settings)
        names = (*_POPULAR, *(name for name in specs if name not in _POPULAR and name != DEMO))
        providers = [self._with_texts(self._bare_choice(specs[name]), specs[name]) for name in names if name in specs]
        return tuple(sorted(providers, key=lambda choice: _GROUPS.index(choice.group)))

    async def local_models(self) -> Mapping[str, str]:
        """Return the local servers that answer now, each with its first model."""
        from qcode.providers.local import find_local_servers

        settings = self._context.settings
        configured = [spec for name, spec in known_specs(settings).items() if name in settings.providers]
        servers = await find_local_servers(configured=filter(_is_local_server, configured))
        return {server.spec.name: server.model for server in servers}

    def _with_texts(self, choice: ProviderChoice, spec: ProviderSpec) -> ProviderChoice:
        """Return `choice` with its title, hint, key page and group."""
        description = _PROVIDER_TEXTS.get(choice.name, _ProviderText(choice.name, spec.base_url))
        group: ProviderGroup = "other"
        if choice.name in _POPULAR:
            group = "popular"
        elif _is_local_server(spec):
            group = "local"
        return replace(
            choice, title=description.title, hint=description.hint, key_page=description.key_page, group=group
        )

    def names(self) -> tuple[str, ...]:
        """Return the names of the providers that can be connected."""
        return tuple(choice.name for choice in self.choices())

    async def check_typed_key(self, name: str, typed: str) -> CheckedKey:
        """Check the typed or pasted key with the provider `name`; raise `ValueError` with one line."""
        settings, keys, spec = self._context.settings, self._context.keys, self._spec(name)
        key: Secret | None = None
        if typed.strip() or not self._bare_choice(spec).is_ready:
            key = Secret(read_key(typed, spec, address_of(spec, settings, keys.env).value))
            redact_in_crash_reports(key)
            keys.add_known_key(key)
        checked = await connect_and_check(settings, keys, spec, key)
        # A new key may be stored unchecked, but a credential that is in use already must be confirmed.
        if checked.verdict == "refused" or (key is None and checked.verdict == "unknown"):
            raise ValueError(checked.note)
        models = () if registry.finds_credentials(spec) else checked.models
        return CheckedKey(key, checked.verdict == "accepted", checked.note, models)

    async def save_key(self, name: str, checked: CheckedKey) -> tuple[str, ...]:
        """Store a new key and return messages for the user. Raise `ValueError` with one line."""
        keys, spec, key = self._context.keys, self._spec(name), checked.key
        if key is None:
            return ()
        try:
            stored = await run_in_thread(lambda: store_key(keys, spec, key))
        except KeyStoreError as error:
            raise ValueError(str(error)) from None
        return login_lines(keys, spec, stored, checked.note, is_accepted=checked.is_accepted)

    def model_of(self, name: str, listed: tuple[str, ...]) -> str:
        """Return the model to switch to (`provider/model`), empty if the user must choose among `listed`."""
        try:
            default = default_of(self._spec(name), self._context.settings, "")
        except QcodeError:
            return ""
        is_listed = not listed or any(model.startswith(default.model) for model in listed)
        return default.name if is_listed else ""

    def finish(self, model: str) -> None:
        """Record that the setup was finished or skipped: its screen does not open automatically again.

        `model` is the chosen model and the default of the next start; empty for none.
        """
        self._is_first = False
        self._choices.save_set_up()
        if model:
            self._choices.save_model(model)

    def _spec(self, name: str) -> ProviderSpec:
        return known_specs(self._context.settings)[name]

    def _bare_choice(self, spec: ProviderSpec) -> ProviderChoice:
        """Return the choice with the state of its credential, but without texts for display."""
        settings, keys = self._context.settings, self._context.keys
        if not registry.accepts_key(spec):
            source_name = registry.credential_of(spec, keys.env)
            chain = _GOOGLE_CHAIN if spec.is_vertex else _AWS_CHAIN
            return ProviderChoice(
                spec.name, f"{source_name} is set" if source_name else chain, accepts_key=False, is_ready=True
            )
        source = keys.source_of(spec)
        if source:
            return ProviderChoice(spec.name, source_text(source), is_ready=True)
        if not needs_key(spec, settings, keys.env):
            return ProviderChoice(spec.name, "needs no key", is_ready=True, is_keyless=True)
        return ProviderChoice(spec.name)


def _is_local_server(spec: ProviderSpec) -> bool:
    """Return whether the server of a provider is on this machine or in its network."""
    return bool(spec.base_url) and is_local(spec.base_url)
