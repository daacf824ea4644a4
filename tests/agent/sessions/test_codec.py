"""Every block is read from disk as it was written."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.sessions.file import read_records
from qcode.agent.sessions.records import (
    attempt_to_json,
    attempts_from_json,
    message_from_json,
    message_to_json,
    result_from_json,
    result_to_json,
    to_line,
)
from qcode.agent.sessions.shown import ShownResult
from qcode.protocol.events import AttemptKind, AttemptRecord
from qcode.protocol.messages import Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult
from qcode.protocol.tools import SandboxUse
from qcode.protocol.usage import Usage
from qcode.text.json import parse_object
from tests.agent.sessions.conversations import ATTEMPTS, CONVERSATION

TEXTS = st.text() | st.text(st.sampled_from("\u2028\u2029\x85\x0b\x0c\x1c\x00\r\n\"\\{}'é😀"), max_size=8)
OPAQUES = st.none() | st.builds(Opaque, TEXTS, TEXTS)
IMAGES = st.builds(Image, TEXTS, TEXTS)
RESULTS = st.builds(ToolResult, TEXTS, TEXTS, TEXTS, st.booleans(), st.lists(IMAGES, max_size=2).map(tuple))
BLOCKS = st.one_of(
    st.builds(Text, TEXTS, OPAQUES),
    st.builds(Reasoning, TEXTS, OPAQUES),
    st.builds(ToolCall, TEXTS, TEXTS, TEXTS, OPAQUES),
    RESULTS,
    IMAGES,
)
MESSAGES = st.builds(Message, st.sampled_from(["user", "assistant"]), st.lists(BLOCKS, max_size=4).map(tuple))
COUNTS = st.none() | st.integers(0, 10**12)
KINDS: st.SearchStrategy[AttemptKind] = st.sampled_from(get_args(AttemptKind))
TRIES = st.builds(
    AttemptRecord,
    KINDS,
    st.integers(1),
    TEXTS,
    st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
    st.booleans(),
    truncated_call_tokens=st.integers(0),
)


@given(MESSAGES)
def test_message_survives_a_round_trip(message: Message) -> None:
    line = to_line({"kind": "message", **message_to_json(message)})
    (record,) = read_records(line).records
    assert message_from_json(record) == message


@given(MESSAGES)
def test_record_is_one_line(message: Message) -> None:
    line = to_line(message_to_json(message))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line.decode().splitlines()) == 1


@given(st.lists(TRIES, max_size=3))
def test_attempts_survive_a_round_trip(attempts: list[AttemptRecord]) -> None:
    found = json.loads(json.dumps([attempt_to_json(attempt) for attempt in attempts]))
    assert attempts_from_json(found) == tuple(attempts)


def test_files_that_a_command_changed_survive_a_round_trip_and_may_be_missing() -> None:
    result = ShownResult("done", "2 files changed", files_without_diff=("a.py", "b.py"))
    row = result_to_json(result, "", lambda text: text.replace("b.py", "***"))
    assert result_from_json(row, "") == ShownResult("done", "2 files changed", files_without_diff=("a.py", "***"))
    assert result_from_json({"state": "done", "files": [1, "c.py"]}, "") == ShownResult(
        "done", files_without_diff=("c.py",)
    )
    assert result_from_json({"state": "done", "files": 7}, "") == ShownResult("done")


@pytest.mark.parametrize("sandbox", get_args(SandboxUse))
def test_sandbox_of_a_command_survives_a_round_trip(sandbox: SandboxUse) -> None:
    result = ShownResult("done", "exit 0", sandbox=sandbox)
    assert result_from_json(result_to_json(result, "", str), "") == result
    assert result_from_json({"state": "done", "summary": "exit 0", "sandbox": "a jail"}, "") == ShownResult(
        "done", "exit 0"
    )


def test_attempt_of_another_version_is_the_only_one_dropped() -> None:
    strange = {**attempt_to_json(ATTEMPTS[0]), "kind": "dreamt"}
    assert attempts_from_json([strange, attempt_to_json(ATTEMPTS[1]), 5]) == ATTEMPTS[1:]
    assert attempts_from_json("none") == ()


def test_duration_that_no_float_can_hold_is_dropped() -> None:
    shown = result_from_json({"state": "done", "seconds": 10**400}, "text")
    assert shown is not None
    assert shown.seconds is None


def test_lone_surrogate_survives() -> None:
    message = Message("user", (Text("a\udc80b\u2028"),))
    line = to_line(message_to_json(message))
    assert message_from_json(parse_object(line.decode()) or {}) == message
    assert len(line.decode().splitlines()) == 1


@pytest.mark.parametrize(
    "damage",
    [
        {"role": "system"},
        {"role": None},
        {"blocks": None},
        {"blocks": ["text"]},
        {"blocks": [{"type": "sound"}]},
        {"blocks": [{"type": "text", "text": 5}]},
        {"blocks": [{"type": "text", "text": "x", "opaque": "y"}]},
        {"blocks": [{"type": "result", "call_id": "a", "name": "b", "content": "c", "is_error": 0}]},
        {"blocks": [{"type": "call", "call_id": "a", "name": "b"}]},
    ],
)
def test_record_of_another_shape_is_refused(damage: dict[str, object]) -> None:
    value = parse_object(json.dumps({**message_to_json(CONVERSATION[0]), **damage}))
    assert value is not None
    with pytest.raises(ValueError, match=r"."):
        message_from_json(value)
