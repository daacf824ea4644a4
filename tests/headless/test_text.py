from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcode.agent.outcomes import AnswerSoFar
from qcode.headless.run import utf8
from qcode.protocol import events as ev
from qcode.protocol.errors import ErrorInfo
from qcode.protocol.reply import Limit, Outcome, TextDelta
from qcode.protocol.tools import ToolOutcome
from tests.headless.scripted import Scripted, call, ended, reply, run


def test_stdout_is_the_answer_and_stderr_is_quiet() -> None:
    ran = run(Scripted(TextDelta(0, "hel"), TextDelta(0, "lo"), reply("hello"), ended("hello")))
    assert (ran.code, ran.stdout, ran.stderr) == (0, b"hello\n", "")


@pytest.mark.parametrize(
    ("text", "printed"),
    [("a", "a\n"), ("a\n", "a\n"), ("a\n\n", "a\n\n"), ("", ""), ("\n", "\n"), ("é\u2028😀", "é\u2028😀\n")],
)
def test_final_newline_is_added_only_if_missing(text: str, printed: str) -> None:
    assert run(Scripted(ended(text))).stdout.decode() == printed


def test_notice_is_not_repeated_at_the_end() -> None:
    note = "The reply is incomplete."
    expected = "qcode: the reply is incomplete.\n"
    cut = ended("ab", outcome=Outcome.MAX_TOKENS, note=note)
    ran = run(Scripted(ev.Notice("warning", note), cut))
    assert (ran.code, ran.stderr) == (56, expected)
    assert run(Scripted(cut)).stderr == expected


def test_withdrawn_text_is_never_printed() -> None:
    conversation = Scripted(
        TextDelta(0, "a first try that is lo"),
        ev.Retry(False, "max_tokens", 1, 64_000),
        TextDelta(0, "the answer"),
        reply("the answer"),
        ended("the answer"),
    )
    assert run(conversation).stdout == b"the answer\n"


def test_text_before_a_call_is_not_an_answer_and_goes_to_stderr_only_with_v() -> None:
    def script() -> Scripted:
        return Scripted(reply("let me look", call()), ev.StepStarted(2), reply("found"), ended("found"))

    quiet, verbose = run(script()), run(script(), verbose=True)
    assert quiet.stdout == verbose.stdout == b"found\n"
    assert quiet.stderr == ""
    assert "let me look\n" in verbose.stderr


@pytest.mark.parametrize("text", ["\ud83d\ude00", "lone \udc80 end", "\ud800", "nul \x00 esc \x1b[31m"])
def test_text_with_surrogates_or_escapes_is_printed_as_utf_8(text: str) -> None:
    printed = run(Scripted(ended(text))).stdout.decode("utf-8")
    assert printed.endswith("\n")
    assert "\x1b[31m" in printed or "\x1b" not in text


def test_surrogate_pair_becomes_its_character_and_a_lone_one_is_replaced() -> None:
    assert utf8("\ud83d\ude00") == "😀".encode()
    assert utf8("a\udc80b") == "a\ufffdb".encode()


@given(st.text())
def test_valid_text_is_printed_unchanged(text: str) -> None:
    assert utf8(text) == text.encode("utf-8")


def test_long_answer_is_printed_completely() -> None:
    text = "".join(f"line {number}\n" for number in range(60_000))
    assert run(Scripted(ended(text))).stdout.decode() == text


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        (
            {"outcome": Outcome.MAX_TOKENS},
            56,
            "qcode: the answer is incomplete: still truncated by the output limit; ask for the rest, or for",
        ),
        ({"outcome": Outcome.REFUSAL, "raw_stop": "SAFETY"}, 57, "qcode: the model refused, or its reply was filtered"),
        (
            {"outcome": Outcome.MAX_TURN_REQUESTS, "limit": Limit.TURNS, "replies": 3},
            53,
            "qcode: stopped after 3 model replies: the limit of --max-turns was reached; set a higher one, or continue",
        ),
        (
            {"outcome": Outcome.ERROR, "error": ErrorInfo("server", "503\nService\tdown \x1b[31m!", 503, "req_1")},
            75,
            "qcode: 503 Service down ! (request req_1)",
        ),
        ({"outcome": Outcome.ERROR}, 1, "qcode: the turn failed for an unknown reason"),
        ({"outcome": Outcome.CANCELLED}, 130, "qcode: interrupted; the text so far was kept"),
    ],
)
def test_incomplete_answer_keeps_its_text_with_one_line_of_reason(
    changes: dict[str, object], code: int, says: str
) -> None:
    ran = run(Scripted(ended("what there is", **changes)))
    assert (ran.code, ran.stdout) == (code, b"what there is\n")
    assert ran.stderr.startswith(says)
    assert ran.stderr.count("\n") == 1


def test_note_of_the_turn_explains_a_truncation() -> None:
    ran = run(Scripted(ended("t", outcome=Outcome.MAX_TOKENS, note="cut after 64,000 tokens")))
    assert ran.stderr == "qcode: cut after 64,000 tokens\n"


def test_warnings_are_always_shown_and_information_only_with_v() -> None:
    def script() -> Scripted:
        return Scripted(ev.Notice("info", "by the way"), ev.Notice("warning", "take care"), ended())

    assert run(script()).stderr == "qcode: take care\n"
    assert "qcode: by the way\n" in run(script(), verbose=True).stderr


def test_verbose_run_prints_events_and_usage() -> None:
    calls = ev.ApiCalls(initial=1, escalations=1, continuations=3)
    conversation = Scripted(
        ev.Retry(False, "max_tokens", 1, 64_000),
        ev.PartialRestored("t"),
        ev.Retry(True, "max_tokens", 1, 64_000),
        ev.PartialRestored("t", is_interrupted=True),
        ev.Waiting(2.0, "rate limit", 1),
        ev.ToolFinished(call(), ToolOutcome("x", summary="3 passed"), "done"),
        ended("t", api_calls=calls, discarded_output_tokens=8000, truncated_call_tokens=500),
    )
    lines = run(conversation, verbose=True).stderr.splitlines()
    assert lines == [
        "qcode: model demo/scripted, permission mode ask",
        "qcode: truncated at the output limit; retrying with 64,000 tokens",
        "qcode: retry failed; first text kept",
        "qcode: truncated at the output limit; continuing, attempt 1",
        "qcode: retry interrupted; first text kept",
        "qcode: rate limit, retry 1 in 2 s",
        "qcode: shell: done, 3 passed",
        "qcode: 5 API calls (1 initial + 1 escalation + 3 continuations), 120 tokens in, 30 tokens out "
        "(8,000 of them discarded, 500 in truncated tool calls), $0.0123",
    ]


def test_answer_so_far_follows_the_turn() -> None:
    answer = AnswerSoFar()
    seen: list[str] = []
    for event in (
        TextDelta(0, "short"),
        ev.Retry(False, "max_tokens", 1, 64_000),
        TextDelta(0, "abc"),
        TextDelta(0, "defgh"),
        ev.PartialRestored("short"),
        TextDelta(0, "!"),
        reply("short!"),
        ev.StepStarted(2),
        reply("", call()),
        TextDelta(0, "next"),
    ):
        answer.observe(event)
        seen.append(answer.text)
    assert seen == [
        "short",
        "short",
        "short",
        "abcdefgh",
        "short",
        "short!",
        "short!",
        "short!",
        "short!",
        "next",
    ]
