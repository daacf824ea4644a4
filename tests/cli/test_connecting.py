"""The services of the connect screen with real providers and stored keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from qcode.agent.keys.connect import CheckedKey, KeysService
from qcode.agent.models.selection import Selection
from qcode.cli.arguments import parse
from qcode.cli.context import run_context
from qcode.config.saved_choices import Choices
from qcode.providers.registry import PROVIDERS
from qcode.safety.secret import Secret
from tests.fakes.server import FakeServer

CANARY = "sk-canary-0123456789abcdef"
LAST_RESORT = Selection(PROVIDERS["demo"], "demo", "", is_last_resort=True)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QCODE_HOME", str(tmp_path / "home"))
    for spec in PROVIDERS.values():
        for variable in (*spec.key_variables, *spec.base_url_variables):
            monkeypatch.delenv(variable, raising=False)
    return tmp_path / "home"


def connecting(home: Path, *argv: str, selection: Selection = LAST_RESORT) -> KeysService:
    return KeysService(run_context(parse([*argv, "--trust"]), home.parent, is_attended=True), selection)


def test_key_is_checked_stored_and_redacted_from_then_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer("openai", [], api_key=CANARY, models=("gpt-x",)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        context = run_context(parse(["--trust"]), home.parent, is_attended=True)
        screen = KeysService(context, LAST_RESORT)
        checked = asyncio.run(screen.check_typed_key("openai", f'"{CANARY}"'))
        assert checked == CheckedKey(Secret(CANARY), models=("gpt-x",))
        assert context.keys.location_of(PROVIDERS["openai"]) is None
        assert Secret(CANARY) in context.keys.known_keys()
        lines = asyncio.run(screen.save_key("openai", checked))
    assert lines[0] == "openai accepted the key"
    assert context.keys.key_of(PROVIDERS["openai"]) == (CANARY, "qcode auth login openai")
    (choice,) = [choice for choice in screen.choices() if choice.name == "openai"]
    assert choice.state == "a key is stored (qcode auth login openai)"


@pytest.mark.parametrize(
    ("name", "typed", "part"),
    [
        ("openai", "sk-wrong-0123456789", "refused the key"),
        ("openai", "https://x.example", "a URL"),
        ("anthropic", "", "no key was given"),
        ("vllm", "", "is the server running"),
    ],
)
def test_unusable_key_is_one_line_and_not_stored(
    name: str, typed: str, part: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeServer("openai", [], api_key=CANARY) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setattr(
            "qcode.cli.subcommands.auth.address_of",
            lambda spec, *_: ("http://127.0.0.1:9/v1", "") if spec.name == "vllm" else (server.base_url, ""),
        )
        with pytest.raises(ValueError, match=part):
            asyncio.run(connecting(home).check_typed_key(name, typed))
    assert not (home / "state" / "credentials").exists()


def test_key_is_stored_unchecked_while_offline(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    screen = connecting(home)
    checked = asyncio.run(screen.check_typed_key("openai", CANARY))
    assert not checked.is_accepted
    assert asyncio.run(screen.save_key("openai", checked))[0].startswith("the key could not be checked (cannot reach")


def test_default_model_is_used_if_the_host_has_it(home: Path) -> None:
    screen = connecting(home)
    default = screen.model_of("anthropic", ())
    assert default.startswith("anthropic/claude-")
    dated = default.partition("/")[2] + "-20261101"
    assert screen.model_of("anthropic", ("claude-old", dated)) == default
    assert screen.model_of("anthropic", ("something-else",)) == ""
    assert screen.model_of("openrouter", ("a/b",)) == ""


def test_start_is_first_until_finished_without_prompt_or_session(home: Path) -> None:
    assert connecting(home).is_first
    assert not connecting(home, "a prompt").is_first
    assert not connecting(home, "-c").is_first
    assert not connecting(home, selection=Selection(PROVIDERS["demo"], "demo", "")).is_first
    first = connecting(home)
    first.finish("")
    assert not first.is_first
    assert not connecting(home).is_first


def test_theme_question_is_asked_until_one_is_set_or_chosen(home: Path) -> None:
    assert connecting(home).wants_theme
    assert not connecting(home, "--theme", "light").wants_theme
    Choices(home / "state").save_theme("dark")
    assert not connecting(home).wants_theme


def test_choices_are_grouped_and_every_provider_is_described(home: Path) -> None:
    home.mkdir(exist_ok=True)
    config = '[providers.lab]\ntype = "openai"\nbase_url = "https://models.lab.example/v1"\n'
    (home / "config.toml").write_text(
        config + '[providers.here]\ntype = "openai"\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    choices = connecting(home).choices()
    groups = [choice.group for choice in choices]
    assert groups == sorted(groups, key=("popular", "local", "other").index)
    assert [choice.name for choice in choices[:4]] == ["anthropic", "openai", "gemini", "openrouter"]
    by_name = {choice.name: choice for choice in choices}
    assert {name for name, choice in by_name.items() if choice.group == "local"} >= {"ollama", "vllm", "here"}
    assert (by_name["lab"].title, by_name["lab"].hint) == ("lab", "https://models.lab.example/v1")
    assert set(by_name) == {*PROVIDERS, "lab", "here"} - {"demo"}
    for choice in choices:
        assert choice.title
        assert len(choice.hint) <= 45
        has_no_page = choice.group == "local" or choice.name in ("bedrock", "vertex", "vertex-anthropic", "lab")
        assert choice.key_page.startswith("https://") or has_no_page
