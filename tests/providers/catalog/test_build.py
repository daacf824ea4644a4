from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scripts import build_catalog as build

TABLE: dict[str, dict[str, Any]] = {
    "gpt-x": {
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": 1000,
        "max_output_tokens": 100,
        "input_cost_per_token": Decimal("1.25e-07"),
        "output_cost_per_token": Decimal("1e-05"),
        "supports_vision": True,
    },
    "gpt-x-2026-01-01": {
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": 1000,
        "max_output_tokens": 100,
        "input_cost_per_token": Decimal("1.25e-07"),
        "output_cost_per_token": Decimal("1e-05"),
        "supports_vision": True,
    },
    "gpt-x-2025-01-01": {
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": 1000,
        "max_output_tokens": 50,
    },
    "gpt-x-pro": {"litellm_provider": "openai", "mode": "responses", "max_input_tokens": 10, "max_output_tokens": 5},
    "gpt-x-audio": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 10, "max_output_tokens": 5},
    "text-embedding-x": {"litellm_provider": "openai", "mode": "embedding", "max_input_tokens": 10},
    "gpt-x-unknown": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": None},
    "xai/grok-x": {"litellm_provider": "xai", "mode": "chat", "max_input_tokens": 500, "max_output_tokens": 500},
    "elsewhere/y": {"litellm_provider": "elsewhere", "mode": "chat", "max_input_tokens": 5, "max_output_tokens": 5},
    "deepseek/d": {
        "litellm_provider": "deepseek",
        "mode": "chat",
        "max_input_tokens": 10,
        "max_output_tokens": 5,
        "supports_assistant_prefill": True,
    },
}


def test_table_is_trimmed_to_chat_models_of_known_providers() -> None:
    models = build.trim(TABLE)
    assert {provider: list(rows) for provider, rows in models.items()} == {
        "deepseek": ["d"],
        "openai": ["gpt-x", "gpt-x-2025-01-01", "gpt-x-pro"],
        "xai": ["grok-x"],
    }


def test_row_has_exact_prices_and_only_true_facts() -> None:
    assert build.trim(TABLE)["openai"]["gpt-x"] == {
        "window": 1000,
        "output": 100,
        "price": ["0.125", "10", None, None],
        "images": True,
    }


def test_output_limit_equal_to_the_window_is_left_out() -> None:
    assert build.trim(TABLE)["xai"]["grok-x"] == {"window": 500}


def test_prefill_is_kept_if_the_client_requests_it_and_the_host_does_not_echo() -> None:
    mistral = {"mistral/m": {**TABLE["deepseek/d"], "litellm_provider": "mistral"}}
    assert build.trim(TABLE)["deepseek"]["d"]["prefill"] is True
    assert "prefill" not in build.trim(mistral)["mistral"]["m"]


def test_model_of_the_responses_api_is_marked() -> None:
    assert build.trim(TABLE)["openai"]["gpt-x-pro"]["api"] == "responses"


def test_file_is_json_with_one_model_per_line() -> None:
    text = build.render(build.trim(TABLE), "a source", "2026-01-02")
    data = json.loads(text)
    assert (data["source"], data["date"]) == ("a source", "2026-01-02")
    assert sum('"window"' in line for line in text.splitlines()) == 5
    assert all(line.count('"window"') <= 1 for line in text.splitlines())


def test_wrong_arguments_write_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main([]) == 2
    assert "usage:" in capsys.readouterr().err


def test_script_writes_the_table_from_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "prices.json"
    source.write_text(
        json.dumps({"gpt-x": {**TABLE["gpt-x"], "input_cost_per_token": 1.25e-07, "output_cost_per_token": 1e-05}})
    )
    monkeypatch.setattr(build, "DATA", tmp_path / "models.json")
    assert build.main([str(source), "a source", "2026-01-02"]) == 0
    written = json.loads((tmp_path / "models.json").read_text())
    assert written["models"]["openai"]["gpt-x"]["price"] == ["0.125", "10", None, None]
