"""The providers by name, as data, and one function that creates a client. Imports no SDK and no client module.

`custom_provider` returns a provider from the config file as a `ProviderSpec`, like the built-in ones. `config` reads
files, and `agent.models` chooses the provider. The environment is always passed in as a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers import azure
from qcode.providers.connection import (
    Connection,
    Sourced,
    Timeouts,
    checked_address,
    describe_key,
    first_set,
    is_local,
    strip_version,
)
from qcode.providers.openai.quirks import COMPATIBLE, ChatQuirks, MaxTokensField, is_openai, openai_quirks
from qcode.values import dataclass

if TYPE_CHECKING:
    from qcode.protocol.provider import Provider

WireProtocol: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "bedrock", "demo"]
PROTOCOLS: tuple[WireProtocol, ...] = get_args(WireProtocol)


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """A provider as data."""

    name: str
    protocol: WireProtocol
    base_url: str = ""
    """The default address, empty if it depends on the account of the user."""
    key_variables: tuple[str, ...] = ()
    """Environment variables with the key; the first that is set wins."""
    base_url_variables: tuple[str, ...] = ()
    """Environment variables with the address; the first that is set wins."""
    needs_key: bool = True
    """A key is required. Local servers, and hosts whose SDK finds credentials, need no key."""
    quirks: ChatQuirks = COMPATIBLE
    """Only for the `openai` protocol; `max_tokens_field` and `reasoning_field` override its fields."""
    max_tokens_field: MaxTokensField | None = None
    reasoning_field: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Additional headers of every request."""
    key_path: str = ""
    """A path that requires a valid key, for hosts that list their models without a key."""
    is_vertex: bool = False
    """The models belong to a Google Cloud project; `vertex.address` builds the address."""


_AWS_VARIABLES = (
    "AWS_PROFILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables that indicate that Amazon's SDK will find credentials; their values are not keys."""

_GOOGLE_VARIABLES = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
"""Variables that indicate that Google's SDK will find credentials; their values are not keys."""

_GOOGLE_SIGN_IN = "gcloud auth application-default login"

_OPENAI_PROTOCOLS = ("openai", "openai-responses")
_PLAIN_PREFILL = ChatQuirks(prefill="plain")
"""A host that continues an assistant message at the end of a request, without a special field."""

PROVIDERS: Mapping[str, ProviderSpec] = {
    spec.name: spec
    for spec in (
        ProviderSpec(
            name="anthropic",
            protocol="anthropic",
            base_url="https://api.anthropic.com",
            key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            base_url_variables=("ANTHROPIC_BASE_URL",),
        ),
        ProviderSpec(
            name="openai",
            protocol="openai",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            base_url_variables=("OPENAI_BASE_URL",),
            quirks=_PLAIN_PREFILL,
        ),
        ProviderSpec(
            name="gemini",
            protocol="gemini",
            base_url="https://generativelanguage.googleapis.com",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            base_url_variables=("GOOGLE_GEMINI_BASE_URL",),
        ),
        ProviderSpec(
            name="openai-responses",
            protocol="openai-responses",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            base_url_variables=("OPENAI_BASE_URL",),
        ),
        ProviderSpec(
            name="vertex",
            protocol="gemini",
            key_variables=("CLOUDSDK_AUTH_ACCESS_TOKEN",),
            needs_key=False,
            is_vertex=True,
        ),
        ProviderSpec(
            name="vertex-anthropic",
            protocol="anthropic",
            key_variables=("CLOUDSDK_AUTH_ACCESS_TOKEN",),
            needs_key=False,
            is_vertex=True,
        ),
        ProviderSpec(
            name="bedrock",
            protocol="bedrock",
            key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
            needs_key=False,
        ),
        ProviderSpec(
            name="demo",
            protocol="demo",
            needs_key=False,
        ),
        ProviderSpec(
            name="ollama",
            protocol="openai",
            base_url="http://localhost:11434/v1",
            key_variables=("OLLAMA_API_KEY",),
            needs_key=False,
        ),
        ProviderSpec(
            name="lmstudio",
            protocol="openai",
            base_url="http://localhost:1234/v1",
            key_variables=("LMSTUDIO_API_KEY",),
            needs_key=False,
        ),
        ProviderSpec(
            name="llamacpp",
            protocol="openai",
            base_url="http://localhost:8080/v1",
            key_variables=("LLAMACPP_API_KEY",),
            needs_key=False,
        ),
        ProviderSpec(
            name="vllm",
            protocol="openai",
            base_url="http://localhost:8000/v1",
            key_variables=("VLLM_API_KEY",),
            needs_key=False,
        ),
        ProviderSpec(
            name="sglang",
            protocol="openai",
            base_url="http://localhost:30000/v1",
            key_variables=("SGLANG_API_KEY",),
            needs_key=False,
        ),
        ProviderSpec(
            name="openrouter",
            protocol="openai",
            base_url="https://openrouter.ai/api/v1",
            key_variables=("OPENROUTER_API_KEY",),
            quirks=ChatQuirks(effort="openai", prefill="plain"),
            key_path="key",
        ),
        ProviderSpec(
            name="deepseek",
            protocol="openai",
            base_url="https://api.deepseek.com",
            key_variables=("DEEPSEEK_API_KEY",),
            quirks=ChatQuirks(echoes_reasoning=True, effort="thinking", prefill="prefix", prefill_path="/beta"),
        ),
        ProviderSpec(
            name="mistral",
            protocol="openai",
            base_url="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            quirks=ChatQuirks(
                sends_stream_options=False, effort="mistral", prefill="prefix", call_ids="mistral", answers_results=True
            ),
        ),
        ProviderSpec(
            name="groq",
            protocol="openai",
            base_url="https://api.groq.com/openai/v1",
            key_variables=("GROQ_API_KEY",),
            quirks=_PLAIN_PREFILL,
        ),
        ProviderSpec(
            name="xai",
            protocol="openai",
            base_url="https://api.x.ai/v1",
            key_variables=("XAI_API_KEY",),
            quirks=_PLAIN_PREFILL,
        ),
        ProviderSpec(
            name="together",
            protocol="openai",
            base_url="https://api.together.xyz/v1",
            key_variables=("TOGETHER_API_KEY",),
            quirks=_PLAIN_PREFILL,
        ),
        ProviderSpec(
            name="qwen",
            protocol="openai",
            base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            key_variables=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
            base_url_variables=("DASHSCOPE_BASE_URL",),
            quirks=ChatQuirks(effort="enable_thinking", prefill="partial"),
        ),
        ProviderSpec(
            name="kimi",
            protocol="openai",
            base_url="https://api.moonshot.ai/v1",
            key_variables=("MOONSHOT_API_KEY", "KIMI_API_KEY"),
            quirks=ChatQuirks(echoes_reasoning=True, effort="thinking", prefill="partial"),
        ),
        ProviderSpec(
            name="glm",
            protocol="openai",
            base_url="https://api.z.ai/api/paas/v4",
            key_variables=("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
            quirks=ChatQuirks(echoes_reasoning=True, effort="thinking", prefill="plain"),
        ),
        ProviderSpec(
            name="azure",
            protocol="openai",
            key_variables=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY", azure.TOKEN_VARIABLE),
            base_url_variables=("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"),
        ),
    )
}


def custom_provider(
    name: str,
    protocol: WireProtocol,
    base_url: str,
    *,
    api_key_env: str = "",
    has_key_command: bool = False,
    is_vertex: bool = False,
    headers: Mapping[str, str] | None = None,
    max_tokens_field: MaxTokensField | None = None,
    reasoning_field: str = "",
) -> ProviderSpec:
    """Return a provider from the config file. A built-in provider keeps its data, except for the given values.

    Without `api_key_env` and without a key command, the provider needs no key, because a header may contain it.
    """
    base = PROVIDERS.get(name)
    if base is None or base.protocol != protocol:
        base = ProviderSpec(name, protocol, needs_key=False)
    return replace(
        base,
        base_url=base_url or base.base_url,
        key_variables=(api_key_env,) if api_key_env else base.key_variables,
        needs_key=bool(api_key_env) or has_key_command or base.needs_key,
        headers={**base.headers, **(headers or {})},
        max_tokens_field=max_tokens_field or base.max_tokens_field,
        reasoning_field=reasoning_field or base.reasoning_field,
        is_vertex=is_vertex or base.is_vertex,
    )


def key_of(spec: ProviderSpec, environ: Mapping[str, str]) -> Sourced:
    """Return the key from the first variable of the provider that is set."""
    return first_set(spec.key_variables, environ)


def key_name(spec: ProviderSpec) -> str:
    """Return the name under which the key of `spec` is stored. Providers with the same variables share a key."""
    built_in = PROVIDERS.get(spec.name)
    if built_in is None or built_in.key_variables != spec.key_variables or not spec.key_variables:
        return spec.name
    return next(sharing.name for sharing in PROVIDERS.values() if sharing.key_variables == spec.key_variables)


def accepts_key(spec: ProviderSpec) -> bool:
    """Return whether a key can be stored for `spec`. The demo has no key, and some SDKs find credentials themselves."""
    return spec.protocol != "demo" and not finds_credentials(spec)


def finds_credentials(spec: ProviderSpec) -> bool:
    """Return whether the SDK of `spec` (of Amazon or Google) finds credentials on this machine."""
    return spec.protocol == "bedrock" or spec.is_vertex


def credential_of(spec: ProviderSpec, environ: Mapping[str, str]) -> str:
    """Return the name of the variable that indicates a credential for `spec`, empty if there is none.

    The name is also empty if Amazon's package is not installed: an AWS profile for other work must not select a model.
    """
    variables = spec.key_variables
    if spec.is_vertex:
        variables += _GOOGLE_VARIABLES
    elif spec.protocol == "bedrock":
        from importlib.util import find_spec

        if find_spec("botocore") is None:
            return ""
        if not spec.needs_key:
            variables += _AWS_VARIABLES
    return first_set(variables, environ).source


def base_url_of(spec: ProviderSpec, environ: Mapping[str, str]) -> Sourced:
    """Return the address from a variable, otherwise the built-in address, which has no source."""
    configured = first_set(spec.base_url_variables, environ)
    if not configured.value:
        return Sourced(spec.base_url)
    if spec.name == "azure":
        return configured._replace(value=azure.with_version(configured.value, environ))
    return configured


def connect(
    spec: ProviderSpec,
    *,
    base_url: str = "",
    api_key: str = "",
    key_source: str = "",
    timeouts: Timeouts | None = None,
    headers: Mapping[str, str] | None = None,
    base_url_source: str = "",
) -> Provider:
    """Return a client for `spec`. It sends nothing and imports no SDK before its first request.

    `key_source` and `base_url_source` name the variable, setting or command that supplied the value, for messages.
    Raise `ProviderError`: NO_CREDENTIAL if a required key is missing, AUTH if the key contains invalid characters,
    BAD_REQUEST if the address is invalid.
    """
    if spec.protocol == "demo":
        from qcode.providers.demo.provider import DemoProvider

        return DemoProvider()
    address = base_url or spec.base_url
    # Amazon's address depends on the region, which its SDK determines.
    if address or spec.protocol != "bedrock":
        address = _complete_address(spec, address)
    connection = Connection(
        name=spec.name,
        base_url=strip_version(address) if spec.protocol in ("anthropic", "gemini") else address,
        sign_in=_GOOGLE_SIGN_IN if spec.is_vertex else "",
        api_key=_checked_key(spec, address, api_key, key_source),
        key_source=key_source,
        base_url_source=base_url_source,
        headers={**_key_headers(address, api_key.strip(), key_source), **spec.headers, **(headers or {})},
        timeouts=timeouts or Timeouts(),
        expects_version=spec.protocol in _OPENAI_PROTOCOLS,
    )
    return _client(connection, spec)


def _complete_address(spec: ProviderSpec, address: str) -> str:
    """Return the base URL for requests. Raise `ProviderError` if it is missing or invalid."""
    if not address and spec.is_vertex:
        hint = f"set GOOGLE_CLOUD_PROJECT, or project under [providers.{spec.name}]"
        raise ProviderError(ErrorKind.BAD_REQUEST, f"{spec.name} needs a Google Cloud project: {hint}")
    if not address and spec.base_url_variables:
        variables = " or ".join(spec.base_url_variables)
        raise ProviderError(ErrorKind.BAD_REQUEST, f"{spec.name} needs a base URL: set {variables}")
    if not address:
        hint = f"set base_url under [providers.{spec.name}]"
        raise ProviderError(ErrorKind.BAD_REQUEST, f"{spec.name} needs a base URL: {hint}")
    address = checked_address(spec.name, address)
    return azure.complete(address) if spec.protocol in _OPENAI_PROTOCOLS and azure.is_azure(address) else address


def _key_headers(address: str, api_key: str, key_source: str) -> Mapping[str, str]:
    return azure.headers(api_key, key_source) if azure.is_azure(address) else {}


def _client(connection: Connection, spec: ProviderSpec) -> Provider:
    if spec.is_vertex:
        from qcode.providers.vertex.clients import VertexAnthropicProvider, VertexGeminiProvider

        return VertexGeminiProvider(connection) if spec.protocol == "gemini" else VertexAnthropicProvider(connection)
    match spec.protocol:
        case "anthropic":
            from qcode.providers.anthropic.client import AnthropicProvider

            return AnthropicProvider(connection)
        case "gemini":
            from qcode.providers.gemini.client import GeminiProvider

            return GeminiProvider(connection)
        case "bedrock":
            from qcode.providers.bedrock.client import BedrockProvider

            return BedrockProvider(connection)
        case "openai-responses":
            from qcode.providers.openai.responses_client import OpenAIResponsesProvider

            return OpenAIResponsesProvider(connection)
        case _:
            from qcode.providers.openai.client import OpenAIChatProvider

            return OpenAIChatProvider(connection, quirks_of(spec, connection.base_url))


def quirks_of(spec: ProviderSpec, base_url: str) -> ChatQuirks:
    """Return the quirks of a server: those of OpenAI if it is OpenAI's address, otherwise those of the provider."""
    quirks = openai_quirks() if is_openai(base_url) else spec.quirks
    return replace(
        quirks,
        max_tokens_field=spec.max_tokens_field or quirks.max_tokens_field,
        reasoning_field=spec.reasoning_field or quirks.reasoning_field,
    )


def _checked_key(spec: ProviderSpec, address: str, api_key: str, key_source: str) -> str:
    """Return the stripped key. Raise `ProviderError` if it is missing or has invalid characters."""
    key = api_key.strip()
    if not key:
        if spec.needs_key and not is_local(address):
            variables = " or ".join(spec.key_variables)
            hint = f"set {variables}" if variables else "set api_key_env in the config"
            message = f"{spec.name} needs a key: {hint}, or store one with {login_command(spec)}"
            raise ProviderError(ErrorKind.NO_CREDENTIAL, message)
        return ""
    if not is_sendable(key):
        key_text = describe_key(key_source)
        raise ProviderError(
            ErrorKind.AUTH, f"{key_text} contains characters that no {spec.name} key has; copy it again"
        )
    return key


def is_sendable(key: str) -> bool:
    """Return whether `key` can be sent in an HTTP header."""
    return key.isascii() and key.isprintable() and " " not in key


def login_command(spec: ProviderSpec) -> str:
    """Return the command that stores a key for `spec`. Messages say that a stored key comes from this command."""
    return f"qcode auth login {key_name(spec)}"
