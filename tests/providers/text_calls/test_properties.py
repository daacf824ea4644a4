"""Properties for any text and any split: nothing is lost, the split changes nothing, the time is linear."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from qcode.providers.text_calls.candidate import JsonScanner
from qcode.providers.text_calls.scanner import (
    MAX_CALL_CHARS,
    MAX_REJECTED,
    CodeSpans,
    ExtractedCalls,
    TextCalls,
    VisibleText,
)
from qcode.text.json import parse_object
from tests.fakes.examples import share
from tests.providers.text_calls.scanning import READ, TOOLS, Seen, filtered, seen

PARTS = (
    *("<tool_call>", "</tool_call>", "<function=read>", "<function=", "</function>", "<parameter=path>"),
    *(
        "</parameter>",
        "<|python_tag|>",
        "read.call(path=",
        ")",
        "<|eom_id|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<think>",
        "</think>",
        "<",
        "json",
    ),
    *("```", "```json\n", "```tool_call\n", "```py\n", "````", "`", "~~~\n", "\n", "\n\n", "  ", " ", "; ", "\r\n"),
    *(READ, f"[{READ}]", READ[:20], READ[20:], '{"name": "reed", "arguments": {}}', '{"path": "a"}', "read", "a.py"),
    *("{", "}", "[", "]", '"', "\\", ",", "word ", "é😀"),
)
texts = st.lists(st.sampled_from(PARTS), max_size=14).map("".join)
cut_lists = st.lists(st.integers(0, 400), max_size=30)


def split(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def letters_of(text: str) -> list[str]:
    return list(text)


@settings(max_examples=share(400), deadline=None)
@given(texts, cut_lists, st.booleans(), st.sampled_from(["", "```py\n", "`", "text\n"]))
def test_shown_and_extracted_parts_are_the_complete_text(text: str, cuts: list[int], is_cut: bool, before: str) -> None:
    calls = TextCalls(TOOLS, before=before)
    pieces = [piece for part in split(text, cuts) for piece in calls.feed(part)] + calls.flush(is_cut=is_cut)
    assert "".join(piece.text if isinstance(piece, VisibleText) else piece.raw for piece in pieces) == text
    for call in (call for piece in pieces if isinstance(piece, ExtractedCalls) for call in piece.calls):
        assert not call.is_complete or parse_object(call.arguments) is not None
        assert call.is_complete or is_cut


@settings(max_examples=share(400), deadline=None)
@given(texts, cut_lists, st.booleans())
def test_result_does_not_depend_on_how_the_text_is_split(text: str, cuts: list[int], is_cut: bool) -> None:
    whole, of_whole = filtered([text], is_cut=is_cut)
    for parts in (split(text, cuts), letters_of(text)):
        found, calls = filtered(parts, is_cut=is_cut)
        assert found == whole
        assert calls.rejected_candidates == of_whole.rejected_candidates
        assert calls.ends_rejected == of_whole.ends_rejected


arguments = st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers() | st.none(), max_size=3)


@given(
    arguments,
    cut_lists,
    st.sampled_from(["<tool_call>%s</tool_call>", "```json\n%s\n```", "[TOOL_CALLS][%s]"]),
    st.booleans(),
)
def test_any_arguments_are_unchanged(
    given_arguments: dict[str, object], cuts: list[int], form: str, is_ascii: bool
) -> None:
    written = json.dumps({"name": "read", "arguments": given_arguments}, ensure_ascii=is_ascii)
    found, calls = filtered(split(f"So:\n{form % written}", cuts))
    assert [item[0] for item in found] == ["text", "taken", "read"]
    assert json.loads(found[2][1]) == given_arguments
    assert calls.rejected_candidates == []


@given(arguments, st.data())
def test_call_truncated_anywhere_is_never_text_or_longer_than_written(
    given_arguments: dict[str, object], data: st.DataObject
) -> None:
    written = f"<tool_call>\n{json.dumps({'name': 'read', 'arguments': given_arguments})}\n</tool_call>"
    end = data.draw(st.integers(len("<tool_call>"), len(written)))
    found, _ = filtered([written[:end]], is_cut=True)
    assert [item[0] for item in found if item[0] != "taken"] in (["~tool_call"], ["~read"], ["read"])
    assert "".join(item[1] for item in found if item[0] == "taken") == written[:end]
    if found[1][0] == "~read":
        raw = found[1][1]
        assert parse_object(raw) in (None, given_arguments)
        assert raw in written or json.loads(raw) == given_arguments


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.sampled_from([None, 1]), st.booleans(), cut_lists)
def test_scanner_ends_with_the_value(value: object, indent: int | None, is_ascii: bool, cuts: list[int]) -> None:
    text = json.dumps([value], indent=indent, ensure_ascii=is_ascii)
    scanner = JsonScanner()
    read = sum(scanner.feed(part) for part in split(text, cuts))
    assert (read, scanner.is_closed, scanner.is_broken) == (len(text), True, False)
    assert scanner.feed("more") == 0


@given(st.text(st.sampled_from('{}[]",:\\ue1-.+tnN \n\x01'), max_size=12))
def test_scanner_accepts_all_json(text: str) -> None:
    scanner = JsonScanner()
    end = scanner.feed(f"[{text}]")
    try:
        json.loads(f"[{text}]")
    except ValueError:
        return
    assert scanner.is_closed
    assert end == len(text) + 2


@given(texts, cut_lists)
def test_code_detection_does_not_depend_on_how_the_text_is_split(text: str, cuts: list[int]) -> None:
    whole, parts = CodeSpans(), CodeSpans()
    whole.feed(text)
    for part in split(text, cuts):
        parts.feed(part)
    assert whole.is_at_line_start == parts.is_at_line_start
    assert whole.is_inside() == parts.is_inside()
    assert whole.is_in_fence == parts.is_in_fence


def test_text_without_markers_is_released_at_once() -> None:
    calls = TextCalls(TOOLS)
    for text in ("Hello", " world", ".\n", "a < b", " and c"):
        assert calls.feed(text) == [VisibleText(text)]


def test_json_other_than_a_call_streams_after_its_first_unknown_key() -> None:
    calls = TextCalls(TOOLS)
    assert calls.feed('```json\n{"name": "x", ') == []
    assert seen(calls.feed('"version"')) == [("text", '```json\n{"name": "x", "version"')]
    assert calls.feed(": 1,\n") == [VisibleText(": 1,\n")]


def test_invalid_call_streams_as_text() -> None:
    calls = TextCalls(TOOLS)
    assert calls.feed('<tool_call>{"name": "write", "arguments": {"content": "a') == []
    assert seen(calls.feed("\n")) == [("text", '<tool_call>{"name": "write", "arguments": {"content": "a\n')]
    assert calls.feed("b") == [VisibleText("b")]


def test_unclosed_call_becomes_text_at_the_size_limit() -> None:
    calls = TextCalls(TOOLS)
    begin = '<tool_call>{"name": "write", "arguments": {"content": "'
    found: Seen = []
    for text in [begin, *["x" * 10_000] * 110]:
        found += seen(calls.feed(text))
    found += seen(calls.flush(is_cut=True))
    assert {item[0] for item in found} == {"text"}
    assert sum(len(item[1]) for item in found) == len(begin) + 1_100_000 > MAX_CALL_CHARS
    assert [str(MAX_CALL_CHARS) in rejected.reason for rejected in calls.rejected_candidates] == [True]


def test_number_of_kept_rejections_is_bounded() -> None:
    _, calls = filtered(['<tool_call>{"name": "reed", "arguments": {}}</tool_call> ' * 300])
    assert len(calls.rejected_candidates) == MAX_REJECTED
    assert all(len(rejected.text) <= 200 for rejected in calls.rejected_candidates)
