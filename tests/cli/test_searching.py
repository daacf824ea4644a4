"""Web search by the host of a model: only if it is enabled and supported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qcode.agent.models.web_search import hosted_tools, search_access
from qcode.config.settings import Settings, Tools
from qcode.protocol.errors import QcodeError
from qcode.protocol.model import ModelFacts
from qcode.safety.rules import Rules
from tests.safety.policies import policy_for

ON = Settings(tools=Tools(web_search="host"))
OWN = {
    "anthropic": "https://api.anthropic.com",
    "openai-responses": "https://api.openai.com/v1",
    "gemini": "https://generativelanguage.googleapis.com",
    "openai": "https://api.openai.com/v1",
}


def is_offered(
    protocol: str, model: str, settings: Settings = ON, host: str = "", facts: ModelFacts | None = None
) -> bool:
    return bool(hosted_tools(settings, protocol, host or OWN[protocol], model, facts or ModelFacts()))


@pytest.mark.parametrize(
    ("protocol", "model", "expected"),
    [
        ("anthropic", "claude-x", True),
        ("openai-responses", "gpt-5", True),
        ("gemini", "gemini-3-pro-preview", True),
        ("gemini", "gemini-2.5-pro", False),
        ("openai", "gpt-5", False),
    ],
)
def test_hosted_search_is_offered_if_the_host_accepts_it(protocol: str, model: str, expected: bool) -> None:
    assert is_offered(protocol, model) is expected
    assert not is_offered(protocol, model, Settings())


def test_hosted_search_of_another_host_needs_configuration() -> None:
    host = "https://models.example.org"
    assert not is_offered("anthropic", "m", host=host)
    assert is_offered("anthropic", "m", host=host, facts=ModelFacts(can_search_web=True))
    assert not is_offered("anthropic", "m", facts=ModelFacts(can_search_web=False))
    assert not is_offered("openai", "m", facts=ModelFacts(can_search_web=True))


def test_hosted_search_is_not_offered_if_it_needs_approval(tmp_path: Path) -> None:
    policy = policy_for(tmp_path)
    assert policy.allows_provider_search
    assert not replace(policy, is_trusted=False).allows_provider_search
    for rules in (Rules.of(deny=["fetch"]), Rules.of(ask=["fetch(*)"])):
        assert not replace(policy, rules=rules).allows_provider_search
        assert not policy.limited_by(replace(policy, rules=rules)).allows_provider_search
    assert replace(policy, rules=Rules.of(deny=["fetch(example.org)"])).allows_provider_search


def test_search_service_without_a_key_is_reported_at_the_start() -> None:
    chosen = Settings(tools=Tools(web_search="tavily"))
    with pytest.raises(QcodeError, match="TAVILY_API_KEY is not set"):
        search_access(chosen, {})
    found = search_access(chosen, {"TAVILY_API_KEY": " k "})
    assert found is not None
    assert (found[0].name, found[1]) == ("tavily", "k")
    assert search_access(Settings(), {"TAVILY_API_KEY": "k"}) is None


@pytest.mark.parametrize("key", ["one\ntwo", "one two", "one\x01two", "schl\u00fcssel"])
def test_unsendable_search_key_is_refused_without_showing_it(key: str) -> None:
    chosen = Settings(tools=Tools(web_search="brave"))
    with pytest.raises(QcodeError) as refused:
        search_access(chosen, {"BRAVE_API_KEY": key})
    assert refused.value.exit_code == 41
    assert key not in str(refused.value)
