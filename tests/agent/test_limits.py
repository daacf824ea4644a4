"""Learned limits are stored across processes, and a broken file is replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.agent.models.limits import LENGTHS_NAME, LimitStore, learned_lines, reply_length
from qcode.engine.model_facts import HostKnowledge
from qcode.protocol.events import AttemptRecord, ReplyFinished
from qcode.protocol.reply import StopReason
from qcode.protocol.usage import Usage

KNOWN = HostKnowledge(output=16_384, window=32_768, is_silently_capped=True, refuses_prefill=True)


def test_learned_limit_is_known_to_another_process(tmp_path: Path) -> None:
    LimitStore(tmp_path / "state").remember("http://host/v1", "m", KNOWN)
    other = LimitStore(tmp_path / "state")
    assert other.knowledge("http://host/v1", "m") == KNOWN
    assert other.knowledge("http://host/v1", "other") == HostKnowledge()
    assert other.knowledge("http://elsewhere/v1", "m") == HostKnowledge()


def test_forget_returns_the_number_of_limits(tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    store.remember("a", "m", KNOWN)
    store.remember("b", "m", KNOWN)
    assert store.forget() == 2
    assert store.all_knowledge() == {}
    assert store.forget() == 0


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"a": 5}', '{"a": {"m": 5}}', '{"a": {"m": {"output": "x"}}}', "\x00"]
)
def test_invalid_limits_file_is_ignored_and_replaced(text: str, tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    store.path.write_text(text)
    assert store.knowledge("a", "m") == HostKnowledge()
    store.remember("a", "m", KNOWN)
    assert store.knowledge("a", "m") == KNOWN


def test_unwritable_folder_is_ignored(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    store = LimitStore(blocked)
    store.remember("a", "m", KNOWN)
    assert store.all_knowledge() == {}


def reply(*attempts: tuple[str, int, str, int | None, bool], stop: StopReason = StopReason.END_TURN) -> ReplyFinished:
    records = tuple(
        AttemptRecord(kind, cap, ended, Usage(output=output), is_discarded)  # type: ignore[arg-type]  # a known kind
        for kind, cap, ended, output, is_discarded in attempts
    )
    return ReplyFinished(stop, "", 1, None, records)


@pytest.mark.parametrize(
    ("event", "length"),
    [
        (reply(("first", 8_000, "end_turn", 900, False)), 900),
        (reply(("first", 8_000, "max_tokens", 8_000, True), ("escalated", 64_000, "end_turn", 9_000, False)), 9_000),
        (reply(("first", 8_000, "max_tokens", 8_000, True), ("escalated", 64_000, "end_turn", 700, False)), 8_001),
        (reply(("first", 12_000, "end_turn", 9_000, False)), 9_000),
        (
            reply(
                ("first", 8_000, "max_tokens", 8_000, True),
                ("escalated", 64_000, "max_tokens", 64_000, False),
                ("continuation", 64_000, "max_tokens", 64_000, False),
                stop=StopReason.MAX_TOKENS,
            ),
            -128_000,
        ),
        (reply(("first", 4_096, "max_tokens", 4_096, False)), None),
        (reply(("first", 8_000, "end_turn", None, False)), None),
        (reply(("first", 8_000, "refusal", 10, False), stop=StopReason.REFUSAL), None),
        (reply(), None),
    ],
)
def test_reply_length_excludes_discarded_attempts(event: ReplyFinished, length: int | None) -> None:
    assert reply_length(event) == length


def test_every_learned_fact_is_listed(tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    learned = HostKnowledge(8_000, 32_000, True, True, True, text_calls="hermes", text_calls_since="2026-11-01")
    store.remember("http://host/v1", "m", learned)
    assert learned_lines(store) == [
        "learned from http://host/v1: m  window 32,000, output 8,000, silently capped: no escalation, no prefill: "
        "replies are continued with a prompt, no images, calls as text (hermes, since 2026-11-01)"
    ]


def test_reply_lengths_are_bounded_and_give_a_first_cap(tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    for _ in range(210):
        store.record_reply_length("http://host/v1", "m", 9_500)
    found = LimitStore(tmp_path).first_cap("http://host/v1", "m")
    assert found is not None
    assert (found.tokens, found.replies) == (9_500, 200)
    assert store.first_cap("http://host/v1", "other") is None
    assert learned_lines(store) == ["learned from http://host/v1: m  first output cap 9,500"]
    assert learned_lines(store, "M") == learned_lines(store)
    assert store.forget() == 1
    assert store.first_cap("http://host/v1", "m") is None


@pytest.mark.parametrize("text", ["", "{", '{"a": 5}', '{"a": {"m": [true, "x", 9.5]}}', '{"a": {"m": 7}}'])
def test_invalid_lengths_file_is_ignored(text: str, tmp_path: Path) -> None:
    store = LimitStore(tmp_path)
    (tmp_path / LENGTHS_NAME).write_text(text)
    assert store.first_cap("a", "m") is None
    store.record_reply_length("a", "m", 10)
