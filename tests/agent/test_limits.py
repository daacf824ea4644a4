"""Learned limits are stored across processes, and a broken file is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.models.limits import LimitStore
from qcode.engine.model_facts import HostKnowledge

KNOWN = HostKnowledge(output=16_384, window=32_768, is_silently_capped=True, refuses_prefill=True)


def test_what_was_learned_is_known_to_another_process(tmp_path: Path) -> None:
    LimitStore(tmp_path / "state").remember("http://host/v1", "m", KNOWN)
    other = LimitStore(tmp_path / "state")
    assert other.knowledge("http://host/v1", "m") == KNOWN
    assert other.knowledge("http://host/v1", "other") == HostKnowledge()
    assert other.knowledge("http://elsewhere/v1", "m") == HostKnowledge()


def test_forgetting_says_how_many(tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    store.remember("a", "m", KNOWN)
    store.remember("b", "m", KNOWN)
    assert store.forget() == 2
    assert store.everything() == {}
    assert store.forget() == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": 5}', '{"a": {"m": 5}}', '{"a": {"m": {"output": "x"}}}', "\x00"]
)
def test_a_broken_file_teaches_nothing_and_is_replaced(text: str, tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    store.path.write_text(text)
    assert store.knowledge("a", "m") == HostKnowledge()
    store.remember("a", "m", KNOWN)
    assert store.knowledge("a", "m") == KNOWN


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = LimitStore(blocked)
    store.remember("a", "m", KNOWN)
    assert store.everything() == {}
