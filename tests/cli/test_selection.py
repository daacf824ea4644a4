"""The selection of provider and model."""

from __future__ import annotations

import asyncio

import pytest

from qcode.agent.keys.keys import Keys
from qcode.agent.models.selection import choose, found, named
from qcode.config.settings import ProviderSettings, Settings
from qcode.protocol.errors import QcodeError
from qcode.providers import local
from qcode.providers.registry import PROVIDERS

CUSTOM = Settings(providers={"lab": ProviderSettings(base_url="http://127.0.0.1:9/v1", default_model="tiny")})


def test_full_model_name_is_used_unchanged() -> None:
    assert named("openrouter/vendor/model:free", Settings(), "").name == "openrouter/vendor/model:free"


def test_provider_without_a_model_selects_its_default() -> None:
    assert named("anthropic", Settings(), "").name.startswith("anthropic/claude-")
    assert named("lab", CUSTOM, "").name == "lab/tiny"


def test_configured_provider_can_be_selected() -> None:
    chosen = named("lab/other", CUSTOM, "")
    assert (chosen.spec.base_url, chosen.spec.needs_key) == ("http://127.0.0.1:9/v1", False)


@pytest.mark.parametrize(
    ("name", "code", "part"),
    [("opnai/gpt", 2, "openai"), ("nothing-like-it-at-all", 2, "PROVIDER/MODEL"), ("ollama", 2, "-m ollama/MODEL")],
)
def test_unresolved_name_is_reported_with_suggestions(name: str, code: int, part: str) -> None:
    with pytest.raises(QcodeError) as raised:
        named(name, Settings(), "")
    assert raised.value.exit_code == code
    assert part in str(raised.value)


def test_provider_of_an_unsupported_type_affects_no_other_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.providers.registry.PROTOCOLS", ("openai", "anthropic", "gemini", "demo"))
    settings = Settings(providers={"far": ProviderSettings(type="bedrock")})
    assert named("demo/demo", settings, "").name == "demo/demo"
    with pytest.raises(QcodeError, match='the type "bedrock"') as raised:
        named("far/model", settings, "")
    assert raised.value.exit_code == 52


def test_base_url_without_a_model_is_an_error() -> None:
    with pytest.raises(QcodeError, match="-m openai/MODEL") as raised:
        asyncio.run(found(Settings(), Keys({"ANTHROPIC_API_KEY": "a"}), "http://127.0.0.1:9/v1", has_demo=True))
    assert raised.value.exit_code == 2


def test_first_credential_selects_the_provider() -> None:
    env = {"OPENAI_API_KEY": "a", "GEMINI_API_KEY": "b"}
    chosen = asyncio.run(found(Settings(), Keys(env), None, has_demo=True))
    assert chosen.spec.name == "openai"
    assert "OPENAI_API_KEY" in chosen.note


@pytest.fixture
def nobody_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide local servers that may run on this machine."""

    async def none(*_: object) -> None:
        return None

    monkeypatch.setattr(local, "find_local_server", none)


@pytest.mark.usefixtures("nobody_local")
def test_without_credentials_the_app_uses_the_demo_and_pipe_mode_fails() -> None:
    assert asyncio.run(found(Settings(), Keys({}), None, has_demo=True)).name == "demo/demo"
    with pytest.raises(QcodeError) as raised:
        asyncio.run(found(Settings(), Keys({}), None, has_demo=False))
    assert raised.value.exit_code == 41


def test_local_server_is_found_before_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ollama(*_: object) -> tuple[object, str]:
        return PROVIDERS["ollama"], "qwen3-coder"

    monkeypatch.setattr(local, "find_local_server", ollama)
    chosen = asyncio.run(found(Settings(), Keys({}), None, has_demo=True))
    assert chosen.name == "ollama/qwen3-coder"


@pytest.mark.parametrize(
    ("connected", "env", "chosen"),
    [
        ("openrouter/a/b", {"OPENROUTER_API_KEY": "x", "ANTHROPIC_API_KEY": "y"}, "openrouter/a/b"),
        ("openrouter/a/b", {"OPENAI_API_KEY": "y"}, "openai/"),
        ("ollama/qwen3-coder", {}, "ollama/qwen3-coder"),
        ("gone/model", {"OPENAI_API_KEY": "y"}, "openai/"),
    ],
)
def test_last_connected_model_is_preferred_while_it_has_a_key(connected: str, env: dict[str, str], chosen: str) -> None:
    found = choose(Settings(), Keys(env), None, None, has_demo=True, connected=connected)
    assert found.name.startswith(chosen)


def test_named_model_takes_precedence_over_the_connected_one() -> None:
    settings = Settings(model="openai/x")
    assert choose(settings, Keys({}), None, None, has_demo=True, connected="ollama/y").name == "openai/x"
