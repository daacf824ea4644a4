"""The models that the app offers: from the catalog, the configuration, learned limits and hosts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.agent.models.limits import LimitStore
from qcode.agent.models.offered import ModelsService, OfferedProvider, version_order
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from qcode.config.saved_choices import Choices
from qcode.engine.model_facts import HostKnowledge
from qcode.providers.registry import PROVIDERS
from tests.fakes.server import FakeServer

CONFIG = """
[providers.lab]
type = "openai"
base_url = "http://127.0.0.1:{port}/v1"
[models."lab/big"]
context_window = 5000
thinking = true
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("QCODE_MODEL", raising=False)
    for spec in PROVIDERS.values():
        for variable in (*spec.key_variables, *spec.base_url_variables):
            monkeypatch.delenv(variable, raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def models_service(home: Path, config: str = "") -> ModelsService:
    (home / "config.toml").write_text(config)
    return ModelsService(run_context(parse(["--trust"]), home.parent, is_attended=True))


def named(found: ModelsService, name: str) -> OfferedProvider:
    return next(provider for provider in found.providers() if provider.name == name)


def test_provider_with_a_key_offers_its_catalog_with_its_default_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k" * 20)
    found = named(models_service(home), "anthropic")
    assert (found.is_ready, found.credential, found.may_list_more) == (True, "ANTHROPIC_API_KEY is set", False)
    assert len(found.models) > 10
    assert found.models[0].name == "claude-sonnet-5-5"
    assert found.models[0].facts.price is not None


def test_provider_without_a_key_offers_nothing_and_is_not_ready(home: Path) -> None:
    found = named(models_service(home), "anthropic")
    assert (found.is_ready, found.models) == (False, ())


def test_configured_and_learned_models_are_offered(home: Path) -> None:
    host = "http://127.0.0.1:1/v1"
    found = models_service(home, CONFIG.format(port=1))
    LimitStore(home / "state").remember(host, "taught", HostKnowledge(window=9_000, output=700))
    LimitStore(home / "state").remember(host, "big", HostKnowledge(output=800))
    models = {model.name: model.facts for model in named(found, "lab").models}
    assert (models["big"].context_window, models["big"].max_output_tokens, models["big"].can_think) == (
        5_000,
        800,
        True,
    )
    assert (models["taught"].context_window, models["taught"].max_output_tokens) == (9_000, 700)


def test_host_without_a_catalog_is_asked_for_its_models(home: Path) -> None:
    with FakeServer("openai", [], models=("new-2", "new-10", "embed-x")) as server:
        port = int(server.base_url.rpartition(":")[2].partition("/")[0])
        found = models_service(home, CONFIG.format(port=port))
        assert named(found, "lab").may_list_more
        assert [model.name for model in asyncio.run(found.list_host_models("lab"))] == ["new-10", "new-2"]


def test_silent_server_offers_no_models(home: Path) -> None:
    assert asyncio.run(models_service(home, CONFIG.format(port=9)).list_host_models("lab")) == ()


def test_each_openai_protocol_offers_its_own_models(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k" * 20)
    found = models_service(home)
    chat, responses = ({model.name for model in named(found, name).models} for name in ("openai", "openai-responses"))
    assert "gpt-4o" in chat - responses
    assert "o3-pro" in responses - chat


def test_choice_is_kept_and_the_setting_that_overrides_it_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models_service(home).save_model("anthropic/x") == ""
    assert Choices(home / "state").model == "anthropic/x"
    service = models_service(home, 'model = "openai/y"\n')
    message = "The next start uses openai/y again, because {}:1 sets it."
    monkeypatch.setenv("HOME", str(home.parent / "elsewhere"))
    assert service.save_model("anthropic/z") == message.format(home / "config.toml")
    monkeypatch.setenv("HOME", str(home.parent))
    assert service.save_model("anthropic/z") == message.format("~/home/config.toml")


def test_model_flag_applies_to_one_run(home: Path) -> None:
    context = run_context(parse(["--trust", "-m", "openai/y"]), home.parent, is_attended=True)
    assert ModelsService(context).save_model("anthropic/z") == ""


def test_demo_model_is_not_kept_for_the_next_start(home: Path) -> None:
    models_service(home).save_model("demo/demo")
    assert Choices(home / "state").model == ""


def test_effort_is_kept_until_it_is_reset(home: Path) -> None:
    found = models_service(home)
    found.save_effort("high")
    assert models_service(home).effort == "high"
    found.save_effort(None)
    assert found.effort is None


def test_higher_numbers_of_a_family_come_first() -> None:
    names = ["gpt-4.1", "gpt-5", "gpt-10", "gpt-4o", "a-1"]
    assert sorted(names, key=version_order, reverse=True) == ["gpt-10", "gpt-5", "gpt-4.1", "gpt-4o", "a-1"]


def test_superscript_in_a_name_is_not_a_number() -> None:
    assert sorted(["r2", "r1²", "r1"], key=version_order) == ["r1", "r1²", "r2"]


def test_name_comes_before_its_variants_and_after_its_minor_versions() -> None:
    names = ["gpt-5", "gpt-5-mini", "gpt-5.1", "claude-opus-5", "claude-opus-5-5"]
    ordered = ["gpt-5.1", "gpt-5", "gpt-5-mini", "claude-opus-5-5", "claude-opus-5"]
    assert sorted(names, key=version_order, reverse=True) == ordered


def test_claude_name_with_its_version_first_comes_after_later_models_of_its_family() -> None:
    names = ["anthropic.claude-3-7-sonnet-20250219-v1:0", "anthropic.claude-sonnet-5-5", "anthropic.claude-opus-4-8"]
    ordered = ["anthropic.claude-sonnet-5-5", "anthropic.claude-3-7-sonnet-20250219-v1:0", "anthropic.claude-opus-4-8"]
    assert sorted(names, key=version_order, reverse=True) == ordered


def test_date_in_a_name_is_not_a_version() -> None:
    names = ["claude-opus-4-20250514", "claude-opus-4-8", "claude-opus-4-1-20250805", "gpt-4-0613", "gpt-4"]
    ordered = ["gpt-4", "gpt-4-0613", "claude-opus-4-8", "claude-opus-4-1-20250805", "claude-opus-4-20250514"]
    assert sorted(names, key=version_order, reverse=True) == ordered


def test_names_without_a_version_come_after_the_versions_of_their_family() -> None:
    names = ["qwen-turbo", "qwen3-max", "qwen3.8-max", "gemini-pro-latest", "gemini-4-pro", "gpt-oss-20b", "gpt-5"]
    assert sorted(names, key=version_order, reverse=True) == [
        "qwen3.8-max",
        "qwen3-max",
        "qwen-turbo",
        "gpt-5",
        "gpt-oss-20b",
        "gemini-4-pro",
        "gemini-pro-latest",
    ]
