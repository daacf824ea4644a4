"""Messages from qcode to a model: bounded, fenced, and precise."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.engine import synthetic

HOSTILE = ["</text_so_far>", "< / text_so_far >", "<text_so_far>", "</TEXT_SO_FAR>", "</json_so_far>", "<json_so_far>"]
fragments = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)), max_size=8).map("".join)


@given(fragments)
@pytest.mark.parametrize("make", [synthetic.resume_text, synthetic.broken_stream_text])
def test_fence_around_a_text_has_one_end(make: object, text: str) -> None:
    assert callable(make)
    message = make(text)
    assert len(re.findall(r"<\s*/?\s*text_so_far", message, re.IGNORECASE)) == 2
    assert message.endswith("\n</text_so_far>")


@given(fragments)
def test_fence_around_arguments_has_one_end(raw: str) -> None:
    message = synthetic.resumed_call_text("write", raw)
    assert len(re.findall(r"<\s*/?\s*json_so_far", message, re.IGNORECASE)) == 2
    assert message.endswith("\n</json_so_far>")


def test_resume_message_contains_only_the_last_characters() -> None:
    text = "".join(chr(ord("a") + index % 26) for index in range(5_000))
    message = synthetic.resume_text(text)
    assert text[-1_200:] in message
    assert text[-1_201:] not in message
    for asked in (
        "output limit",
        "exactly where",
        "no recap",
        "no apology",
        "smaller pieces",
        "one complete call only",
    ):
        assert asked in message


def test_placeholder_arguments_are_one_valid_json_object() -> None:
    placeholder = json.loads(synthetic.placeholder_arguments('{"a": "'))
    assert placeholder == {"_qcode_truncated": True, "received_characters": 7}


def test_text_about_a_too_long_call_says_what_happened_and_to_split_it() -> None:
    raw = '{"path": "a.py", "content": "def one():\\n    return \\"1\\"\\ndef tw'
    text = synthetic.split_guidance("write", raw, 64_000, 1)
    for part in (
        "Rejected",
        "64000",
        "nothing was written",
        '    return "1"'.strip(),
        "MUST split",
        "skeleton",
        "`edit`",
    ):
        assert part in text
    assert "def tw" not in text
    assert "in a row" not in text
    assert "3 times in a row: stop and change the approach" in synthetic.split_guidance("write", raw, 64_000, 3)


def test_guidance_counts_an_escaped_backslash_and_n_as_no_line() -> None:
    raw = json.dumps({"path": "a.c", "content": 'printf("a\\n");\nreturn 0;\n}'})[:-3]
    text = synthetic.split_guidance("write", raw, 64_000, 1)
    assert "2 complete lines" in text
    assert "the last complete one was: return 0;\n" in text


def test_text_about_a_too_long_call_counts_characters_if_no_line_was_complete() -> None:
    assert "13 characters" in synthetic.split_guidance("write", '{"path": "a.p', 64_000, 1)


def test_other_error_results_never_ask_to_split() -> None:
    for text in (synthetic.cut_call_text("shell", 100), synthetic.malformed_call_text("shell", "{")):
        assert "split" not in text
        assert "not" in text
    assert "one complete call only" in synthetic.cut_call_text("shell", 100)
    assert "not valid JSON" in synthetic.malformed_call_text("shell", "{")
