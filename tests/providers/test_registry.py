"""The registry: names, addresses, keys, and clients that cost nothing until they are used."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from qcode.protocol.errors import ErrorKind, ProviderError
from qcode.providers.connection import Connection, Timeouts, is_local, strip_version
from qcode.providers.registry import (
    PROTOCOLS,
    PROVIDERS,
    base_url_of,
    connect,
    credential_of,
    custom_provider,
    key_of,
    quirks_of,
)
from qcode.text.match import similar, suggestion
from qcode.text.proxies import is_loopback, proxy_variable

SDKS = ("openai", "anthropic", "google.genai", "botocore", "boto3", "httpx2", "pydantic")
LOCAL = ("ollama", "lmstudio", "llamacpp", "vllm", "sglang")


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_built_in_provider_can_be_created(name: str) -> None:
    spec = PROVIDERS[name]
    assert spec.name == name
    assert spec.protocol in PROTOCOLS
    needed = "https://r.test/v1" if spec.base_url_variables and not spec.base_url else ""
    needed = "https://r.test/projects/p/locations/global" if spec.is_vertex else needed
    provider = connect(spec, base_url=needed, api_key="k-123456")
    assert provider.name == name
    if spec.protocol != "demo":
        assert provider.host == (needed or spec.base_url or name)


def test_provider_without_an_address_says_how_to_set_one() -> None:
    with pytest.raises(ProviderError, match="AZURE_OPENAI_ENDPOINT"):
        connect(PROVIDERS["azure"], api_key="k-123456")


@pytest.mark.parametrize("name", LOCAL)
def test_local_server_needs_no_key(name: str) -> None:
    assert connect(PROVIDERS[name]).name == name


@pytest.mark.parametrize("name", [name for name, spec in PROVIDERS.items() if spec.needs_key])
def test_missing_key_error_names_the_variables(name: str) -> None:
    with pytest.raises(ProviderError) as caught:
        connect(PROVIDERS[name], base_url=PROVIDERS[name].base_url or "https://r.test/v1")
    assert caught.value.kind is ErrorKind.NO_CREDENTIAL
    assert PROVIDERS[name].key_variables
    assert all(variable in caught.value.message for variable in PROVIDERS[name].key_variables)


def test_provider_at_a_local_address_needs_no_key() -> None:
    assert connect(PROVIDERS["openai"], base_url="http://localhost:9/v1").host == "http://localhost:9/v1"


@pytest.mark.parametrize("key", ["sk-ü", "sk a", "sk-a\nb", "sk-\x00"])
def test_invalid_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ProviderError) as caught:
        connect(PROVIDERS["openai"], api_key=key, key_source="OPENAI_API_KEY")
    assert caught.value.kind is ErrorKind.AUTH
    assert "OPENAI_API_KEY" in caught.value.message
    assert key not in caught.value.message


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "ftp://x", "http://", "not an address", "http://h:99999", "http://h:x", "http://[::1/v1"],
)
def test_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ProviderError, match="base URL") as caught:
        connect(PROVIDERS["ollama"], base_url=url)
    assert caught.value.kind is ErrorKind.BAD_REQUEST


@pytest.mark.parametrize(
    ("name", "sent", "host"),
    [
        ("openai", "https://gate.test/v1/", "https://gate.test/v1"),
        ("anthropic", "https://gate.test/v1", "https://gate.test"),
        ("anthropic", "https://gate.test/api/anthropic/", "https://gate.test/api/anthropic"),
        ("gemini", "https://gate.test/v1beta", "https://gate.test"),
        ("openai-responses", "https://gate.test/v1/", "https://gate.test/v1"),
        ("bedrock", "https://vpce-1.bedrock-runtime.test/", "https://vpce-1.bedrock-runtime.test"),
    ],
)
def test_base_url_works_with_and_without_a_version(name: str, sent: str, host: str) -> None:
    assert connect(PROVIDERS[name], base_url=sent, api_key="k-123456").host == host


def test_first_variable_that_is_set_gives_the_key_and_is_named() -> None:
    spec = PROVIDERS["gemini"]
    assert key_of(spec, {"GOOGLE_API_KEY": "b"}) == ("b", "GOOGLE_API_KEY")
    assert key_of(spec, {"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}) == ("a", "GEMINI_API_KEY")
    assert key_of(spec, {"GEMINI_API_KEY": "  "}) == ("", "")


def test_both_protocols_of_openai_share_key_and_address() -> None:
    chat, responses = PROVIDERS["openai"], PROVIDERS["openai-responses"]
    assert (chat.key_variables, chat.base_url_variables) == (responses.key_variables, responses.base_url_variables)
    assert chat.base_url == responses.base_url


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ""),
        ({"AWS_PROFILE": "work"}, "AWS_PROFILE"),
        ({"AWS_ACCESS_KEY_ID": "AKID"}, "AWS_ACCESS_KEY_ID"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}, "AWS_WEB_IDENTITY_TOKEN_FILE"),
        ({"AWS_PROFILE": "work", "AWS_BEARER_TOKEN_BEDROCK": "k"}, "AWS_BEARER_TOKEN_BEDROCK"),
        ({"AWS_REGION": "eu-west-1", "AWS_PROFILE": " "}, ""),
    ],
)
def test_variables_show_that_the_amazon_sdk_will_find_credentials(
    environ: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", {"botocore": object()}.get)
    assert credential_of(PROVIDERS["bedrock"], environ) == expected


def test_amazon_credentials_are_ignored_without_its_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    environ = {"AWS_PROFILE": "work", "ANTHROPIC_API_KEY": "k"}
    assert credential_of(PROVIDERS["bedrock"], environ) == ""
    assert credential_of(PROVIDERS["anthropic"], environ) == "ANTHROPIC_API_KEY"


def test_amazon_profile_is_never_treated_as_a_key() -> None:
    """Keys are taken out of everything that is shown or stored; a profile called `default` must not be."""
    assert key_of(PROVIDERS["bedrock"], {"AWS_PROFILE": "default", "AWS_ACCESS_KEY_ID": "AKID"}) == ("", "")
    assert key_of(PROVIDERS["bedrock"], {"AWS_BEARER_TOKEN_BEDROCK": "k"}) == ("k", "AWS_BEARER_TOKEN_BEDROCK")


def test_configured_bedrock_provider_has_its_own_key_or_amazon_credentials() -> None:
    own = custom_provider("work", "bedrock", "", api_key_env="WORK_KEY")
    assert credential_of(own, {"AWS_PROFILE": "x"}) == ""
    chained = custom_provider("work", "bedrock", "")
    assert connect(chained).host == "work"
    with pytest.raises(ProviderError, match="WORK_KEY"):
        connect(own)


def test_address_comes_from_its_variable_or_is_the_default() -> None:
    spec = PROVIDERS["anthropic"]
    assert base_url_of(spec, {"ANTHROPIC_BASE_URL": "http://x"}) == ("http://x", "ANTHROPIC_BASE_URL")
    assert base_url_of(spec, {}) == ("https://api.anthropic.com", "")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("antropic", "anthropic"), ("OpenAI", "openai"), ("olama", "ollama"), ("lm-studio", "lmstudio"), ("zzzz", "")],
)
def test_nearest_provider_name_is_suggested(typed: str, expected: str) -> None:
    assert suggestion(typed, PROVIDERS) == (f"did you mean {expected}?" if expected else "")


def test_models_are_suggested_by_similarity() -> None:
    names = ("claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-6")
    assert similar("claude-sonet-4.5", names)[0] == "claude-sonnet-4-5"
    assert similar("llama", names) == ()


def test_cap_field_follows_the_address_unless_configured() -> None:
    spec = PROVIDERS["openai"]
    assert quirks_of(spec, "https://api.openai.com/v1").max_tokens_field == "max_completion_tokens"
    assert quirks_of(spec, "https://me.openai.azure.com/openai/v1").max_tokens_field == "max_completion_tokens"
    assert quirks_of(spec, "https://openai.com.evil.test/v1").max_tokens_field == "max_tokens"
    assert quirks_of(spec, "http://localhost:8000/v1").max_tokens_field == "max_tokens"
    own = custom_provider(
        "mine", "openai", "http://x.test", max_tokens_field="max_completion_tokens", reasoning_field="why"
    )
    assert quirks_of(own, own.base_url).max_tokens_field == "max_completion_tokens"
    assert quirks_of(own, own.base_url).reasoning_field == "why"


def test_custom_provider_needs_a_key_only_if_it_names_a_variable() -> None:
    keyless = custom_provider("mine", "openai", "https://x.test/v1", headers={"authorization": "Bearer t"})
    assert connect(keyless).name == "mine"
    keyed = custom_provider("mine", "anthropic", "https://x.test", api_key_env="MY_KEY")
    assert key_of(keyed, {"MY_KEY": "k"}) == ("k", "MY_KEY")
    with pytest.raises(ProviderError, match="MY_KEY"):
        connect(keyed)


def test_custom_provider_with_a_known_name_keeps_its_preset() -> None:
    spec = custom_provider("deepseek", "openai", "", api_key_env="MY_KEY")
    assert spec.base_url == PROVIDERS["deepseek"].base_url
    assert spec.quirks == PROVIDERS["deepseek"].quirks
    assert custom_provider("deepseek", "anthropic", "https://x.test").quirks != PROVIDERS["deepseek"].quirks


@pytest.mark.parametrize(
    ("url", "loopback", "local"),
    [
        ("http://localhost:1/v1", True, True),
        ("http://127.8.0.1", True, True),
        ("http://[::1]:8000", True, True),
        ("http://api.localhost", True, True),
        ("http://192.168.1.7:8000", False, True),
        ("http://10.0.0.1", False, True),
        ("http://gpu-box:8000", False, True),
        ("http://gpu.local", False, True),
        ("https://api.openai.com", False, False),
        ("https://localhost.evil.test", False, False),
        ("https://8.8.8.8", False, False),
        ("", False, False),
    ],
)
def test_loopback_and_local_addresses_are_distinguished(url: str, loopback: bool, local: bool) -> None:
    assert (is_loopback(url), is_local(url)) == (loopback, local)


def test_local_hosts_may_be_silent_for_longer() -> None:
    limits = Timeouts(idle=9, idle_local=60)
    assert Connection("x", "http://localhost:1", timeouts=limits).idle_limit == 60
    assert Connection("x", "https://api.test", timeouts=limits).idle_limit == 9


def test_default_limits_are_the_documented_ones() -> None:
    limits = Timeouts()
    assert (limits.connect, limits.first_event, limits.idle, limits.idle_local) == (10, 600, 90, 600)


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("https://x.test", {"HTTPS_PROXY": "http://p"}, "HTTPS_PROXY"),
        ("http://x.test", {"HTTPS_PROXY": "http://p"}, ""),
        ("http://x.test", {"ALL_PROXY": "http://p"}, "ALL_PROXY"),
        ("http://localhost:1", {"ALL_PROXY": "http://p"}, ""),
        ("https://x.test", {}, ""),
    ],
)
def test_variable_of_a_proxy_is_known(url: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_variable(url, environ) == expected


@pytest.mark.parametrize("url", ["https://x.test/v1", "https://x.test/v1beta/", "https://x.test"])
def test_version_is_removed_only_from_the_end_of_an_address(url: str) -> None:
    assert strip_version(url) == "https://x.test"
    assert strip_version("https://x.test/v1/proxy") == "https://x.test/v1/proxy"


def test_connection_never_shows_its_key() -> None:
    connection = Connection("x", "https://x.test", api_key="sk-secret-123", headers={"authorization": "sk-secret-123"})
    assert "sk-secret-123" not in repr(connection)


_MODULES = (
    "qcode.providers.registry",
    "qcode.providers.local",
    "qcode.providers.openai.client",
    "qcode.providers.anthropic.client",
    "qcode.providers.gemini.client",
    "qcode.providers.openai.responses_client",
    "qcode.providers.bedrock.client",
)


def _loaded_after(code: str, **environ: str) -> set[str]:
    """Run `code` in a new process without logging; it must write nothing to the screen."""
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, **environ}
    )
    assert done.stderr == ""
    loaded: set[str] = set(json.loads(done.stdout))
    return loaded


def test_import_and_connect_load_no_sdk() -> None:
    code = "\n".join(f"import {module}" for module in _MODULES) + (
        "\nfrom qcode.providers.registry import PROVIDERS, connect"
        "\n[connect(spec, base_url=spec.base_url or 'http://x', api_key='k-123456') for spec in PROVIDERS.values()]"
    )
    assert not _loaded_after(code) & set(SDKS)


def test_provider_loads_only_its_own_client() -> None:
    code = "from qcode.providers.registry import PROVIDERS, connect\nconnect(PROVIDERS['ollama'])"
    loaded = _loaded_after(code)
    assert "qcode.providers.openai.client" in loaded
    assert not loaded & {"qcode.providers.anthropic.client", "qcode.providers.gemini.client", "qcode.providers.demo"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("protocol", "own"),
    [
        ("openai", "openai"),
        pytest.param("openai-responses", "openai", marks=pytest.mark.broad),
        pytest.param("anthropic", "anthropic", marks=pytest.mark.broad),
        pytest.param("gemini", "google.genai", marks=pytest.mark.broad),
        ("bedrock", "botocore"),
    ],
)
def test_request_over_an_sdk_loads_only_that_sdk_and_prints_nothing(protocol: str, own: str) -> None:
    # Two keys at once: SDKs log a warning about it, which must not reach the screen.
    keys = {"GOOGLE_API_KEY": "a", "GEMINI_API_KEY": "b", "ANTHROPIC_API_KEY": "a", "ANTHROPIC_AUTH_TOKEN": "b"}
    code = (
        f"from qcode.providers import direct\ndirect.can_connect_directly = lambda *given: False{_requests(protocol)}"
    )
    loaded = _loaded_after(code, **keys)
    assert own in loaded
    assert not loaded & ({"openai", "anthropic", "google.genai", "botocore"} - {own})


@pytest.mark.parametrize(
    "protocol",
    ["anthropic", *(pytest.param(name, marks=pytest.mark.broad) for name in ("openai", "openai-responses", "gemini"))],
)
def test_reply_and_list_of_models_load_no_sdk(protocol: str) -> None:
    loaded = _loaded_after(_requests(protocol))
    assert "qcode.providers.direct" in loaded
    assert not loaded & set(SDKS)


def _requests(protocol: str) -> str:
    """Return a program that requests a reply and a list of models from a host that cannot be reached."""
    return f"""
import asyncio
from qcode.protocol.errors import ProviderError
from qcode.protocol.messages import user
from qcode.protocol.model import ModelRequest
from qcode.providers.registry import PROVIDERS, connect
async def main():
    provider = connect(PROVIDERS[{protocol!r}], base_url="http://127.0.0.1:1/v1", api_key="k-123456")
    try:
        async for _ in provider.stream(ModelRequest("m", "", (user("x"),), (), 10)): pass
    except ProviderError as error:
        assert error.kind == "unreachable", error
    try:
        if {protocol!r} != "bedrock": await provider.model_names()
    except ProviderError as error:
        assert error.kind == "unreachable", error
    await provider.close()
asyncio.run(main())
"""
