"""The selection of provider and model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qcode.agent.keys.keys import Keys
from qcode.agent.models.selection import choose_model, select_model
from qcode.agent.options import Options
from qcode.config.settings import ModelSettings, ProviderSettings, Settings
from qcode.protocol.errors import QcodeError, UsageError
from qcode.providers import catalog, local
from qcode.providers.registry import PROVIDERS

CUSTOM = Settings(providers={"lab": ProviderSettings(base_url="http://127.0.0.1:9/v1", default_model="tiny")})


def test_full_model_name_is_used_unchanged() -> None:
    assert select_model("openrouter/vendor/model:free", Settings(), "").name == "openrouter/vendor/model:free"


def test_provider_without_a_model_selects_its_default() -> None:
    assert select_model("anthropic", Settings(), "").name.startswith("anthropic/claude-")
    assert select_model("lab", CUSTOM, "").name == "lab/tiny"


def test_bare_name_selects_a_model_that_the_configuration_names() -> None:
    settings = replace(CUSTOM, models={"lab/big": ModelSettings(context_window=9)})
    assert select_model("tiny", settings, "").name == "lab/tiny"
    assert select_model("big", settings, "").name == "lab/big"


def test_unknown_name_that_begins_like_a_configured_provider_is_suggested_with_it() -> None:
    with pytest.raises(UsageError) as refused:
        select_model("lab-2", CUSTOM, "")
    assert str(refused.value) == 'unknown model "lab-2"; did you mean lab/lab-2?'


def test_configured_provider_can_be_selected() -> None:
    chosen = select_model("lab/other", CUSTOM, "")
    assert (chosen.spec.base_url, chosen.spec.needs_key) == ("http://127.0.0.1:9/v1", False)


@pytest.mark.parametrize(
    ("name", "code", "part"),
    [
        ("opnai/gpt", 2, 'unknown provider "opnai"; did you mean openai?'),
        ("nobody/x", 2, "the nearest is anthropic; qcode auth status lists all providers"),
        ("nothing-like-it-at-all", 2, "PROVIDER/MODEL"),
        ("ollama", 2, "-m ollama/MODEL"),
    ],
)
def test_unresolved_name_is_reported_with_suggestions(name: str, code: int, part: str) -> None:
    with pytest.raises(QcodeError) as raised:
        select_model(name, Settings(), "")
    assert raised.value.exit_code == code
    assert part in str(raised.value)


def test_provider_of_an_unsupported_type_affects_no_other_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcode.providers.registry.PROTOCOLS", ("openai", "anthropic", "gemini", "demo"))
    settings = Settings(providers={"far": ProviderSettings(type="bedrock")})
    assert select_model("demo/demo", settings, "").name == "demo/demo"
    with pytest.raises(QcodeError, match='the type "bedrock"') as raised:
        select_model("far/model", settings, "")
    assert raised.value.exit_code == 52


def test_base_url_without_a_model_is_an_error() -> None:
    with pytest.raises(QcodeError, match="-m openai/MODEL") as raised:
        choose_model(Settings(), Keys({"ANTHROPIC_API_KEY": "a"}), None, "http://127.0.0.1:9/v1", has_demo=True)
    assert raised.value.exit_code == 2


def test_first_credential_selects_the_provider() -> None:
    env = {"OPENAI_API_KEY": "a", "GEMINI_API_KEY": "b"}
    chosen = choose_model(Settings(), Keys(env), None, None, has_demo=True)
    assert chosen.spec.name == "openai"
    assert "OPENAI_API_KEY" in chosen.note


@pytest.fixture
def no_local_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide local servers that may run on this machine."""

    async def none(*_: object) -> None:
        return None

    monkeypatch.setattr(local, "find_local_server", none)


@pytest.mark.usefixtures("no_local_servers")
def test_without_credentials_the_app_uses_the_demo_and_pipe_mode_fails() -> None:
    assert choose_model(Settings(), Keys({}), None, None, has_demo=True).name == "demo/demo"
    with pytest.raises(QcodeError) as raised:
        choose_model(Settings(), Keys({}), None, None, has_demo=False)
    assert raised.value.exit_code == 41


def test_local_server_is_found_before_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ollama(*_: object) -> local.LocalServer:
        return local.LocalServer(PROVIDERS["ollama"], "qwen3-coder")

    monkeypatch.setattr(local, "find_local_server", ollama)
    chosen = choose_model(Settings(), Keys({}), None, None, has_demo=True)
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
    found = choose_model(Settings(), Keys(env), None, None, has_demo=True, last_used=connected)
    assert found.name.startswith(chosen)


def test_named_model_takes_precedence_over_the_connected_one() -> None:
    settings = Settings(model="openai/x")
    assert choose_model(settings, Keys({}), None, None, has_demo=True, last_used="ollama/y").name == "openai/x"


ANTHROPIC_KEY = {"ANTHROPIC_API_KEY": "a"}


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("sonnet", "anthropic/claude-sonnet-"),
        ("Opus", "anthropic/claude-opus-"),
        ("haiku", "anthropic/claude-haiku-"),
        ("opus[1m]", "anthropic/claude-opus-"),
        ("opusplan", "anthropic/claude-opus-"),
    ],
)
def test_short_name_is_the_newest_model_of_its_family(name: str, family: str) -> None:
    chosen = select_model(name, Settings(), "", Keys(ANTHROPIC_KEY)).name
    assert chosen.startswith(family)
    rest = [full for full, _ in catalog.models() if full.startswith(family)]
    assert chosen == max(
        rest, key=lambda full: [int(part) for part in full.removeprefix(family).split("-") if part.isdigit()]
    )


@pytest.mark.parametrize(
    ("name", "full"),
    [("flash", "gemini/gemini-"), ("gpt-5", "openai/gpt-5"), ("gpt", "openai/gpt-"), ("claude", "anthropic/claude-")],
)
def test_short_name_selects_a_model_of_gemini_or_openai(name: str, full: str) -> None:
    assert select_model(
        name, Settings(), "", Keys({"GEMINI_API_KEY": "a", "OPENAI_API_KEY": "b", **ANTHROPIC_KEY})
    ).name.startswith(full)


def test_short_name_takes_the_first_host_with_a_credential() -> None:
    keys = Keys({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1"})
    assert select_model("sonnet", Settings(), "", keys).name.startswith("bedrock/global.anthropic.claude-sonnet-")


@pytest.mark.parametrize(
    ("typed", "meant"), [("opuss", "opus"), ("sonet", "sonnet"), ("gtp", "gpt"), ("flsh", "flash")]
)
def test_misspelt_short_name_is_suggested(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as refused:
        select_model(typed, Settings(), "named by -m")
    assert str(refused.value) == f'unknown model "{typed}"; did you mean {meant}?'


def test_short_name_without_a_credential_names_the_nearest_model() -> None:
    with pytest.raises(
        QcodeError, match=r'"opus" is anthropic/claude-opus-.*the nearest model with a key is openai/'
    ) as no:
        select_model("opus", Settings(), "", Keys({"OPENAI_API_KEY": "b"}))
    assert no.value.exit_code == 41
    with pytest.raises(QcodeError, match="qcode auth login"):
        select_model("opus", Settings(), "", Keys({}))


def test_haiku_without_a_credential_is_the_small_model() -> None:
    small = Settings(small_model="openai/gpt-5-nano")
    assert select_model("haiku", small, "", Keys({"OPENAI_API_KEY": "b"})).name == "openai/gpt-5-nano"


def test_provider_or_model_of_the_user_wins_over_a_short_name() -> None:
    settings = Settings(providers={"flash": ProviderSettings(base_url="http://127.0.0.1:9/v1", default_model="tiny")})
    assert select_model("flash", settings, "", Keys({})).name == "flash/tiny"


@pytest.mark.parametrize("name", ["default", "inherit"])
def test_default_is_the_model_of_the_configuration(name: str) -> None:
    assert "model" not in Options(model=name).flags()
    assert Options(model="sonnet").flags()["model"] == "sonnet"
