"""Runs for every way a prompt can end: the command line of qcode, and the answers of the fake host."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.fakes import replies
from tests.fakes.replies import call
from tests.fakes.turns import Faults, Refusal, Turn, refused
from tests.pins.conversations import ACCEPT, Script

NO_RETRIES = "[network]\nmax_retries = 0\n"
PRICED = (
    '[models."{model}"]\ncontext_window = 200000\nmax_output_tokens = 64000\nprice = { input = 1000, output = 1000 }\n'
)
EXIT_TOOLS = json.dumps(
    [
        {
            "name": "report",
            "description": "Report.",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
        }
    ]
)
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


@dataclass(frozen=True)
class Outcome:
    """`prompt` follows `-p`. If `is_asked` is False, it runs without model, key and host, as the arguments are."""

    replies: Script = ()
    arguments: Sequence[str] = ()
    prompt: Sequence[str] = ("-p", "go")
    config: str = ""
    stdin: bytes | None = None
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    is_asked: bool = True


def _prompts(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _user(text: str) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": text}})


_WRITE = call("write", "call_w1", path="a.txt", content="x\n")
_READ = call("read", "call_r1", path="hello.py")
_CUT = replies.truncated("part of it\n")

OUTCOMES: Mapping[str, Outcome] = {
    "success": Outcome([replies.text("Grüße ", "and goodbye.\n\nDone.")]),
    "success-verbose": Outcome([replies.calls(_READ, text="I look.", reasoning="Hm."), replies.text("Seen.")], ("-v",)),
    "partial-messages": Outcome(
        [replies.calls(_READ, text="I look.", reasoning="Hm, hm."), replies.text("It ", "greets.")],
        ("--include-partial-messages",),
    ),
    "edited": Outcome([replies.calls(_WRITE, text="I write."), replies.text("Written.")], ACCEPT),
    "escalated": Outcome([_CUT, replies.text("All of it.")], ("-v",)),
    "continued": Outcome([_CUT, replies.truncated("one "), replies.truncated("two "), replies.text("three.")], ("-v",)),
    "truncated": Outcome([_CUT, *(replies.truncated(f"part {number}\n") for number in range(4))], ("-v",)),
    "truncated-nothing-new": Outcome([_CUT] * 5),
    "truncated-quiet": Outcome([replies.truncated("part"), replies.truncated("parts")], ("--max-continuations", "0")),
    "truncated-call": Outcome(
        [
            *[
                Turn(calls=[replies.half_call("write", '{"path": "a.txt", "content": "x')], stop="length")
                for _ in range(2)
            ],
            replies.text("I gave up."),
        ],
        ("-v", *ACCEPT),
    ),
    "thinking-only": Outcome([replies.truncated(reasoning="Hm.")] * 3, ("-v",)),
    "restored": Outcome([_CUT, refused(400, "no")], ("-v",), config=NO_RETRIES),
    "refusal": Outcome([replies.declined("I will not ")]),
    "refusal-empty": Outcome([replies.declined()]),
    "empty": Outcome([replies.text()] * 3),
    "unknown-stop": Outcome([replies.stopped_by("something_new", "What now?")], ("-v",)),
    "window-full": Outcome([replies.window_full("It got full")] * 4, ("-v",)),
    "max-turns": Outcome([replies.calls(_READ, text="First.")] * 3, ("--max-turns", "2")),
    "max-tool-calls": Outcome([replies.calls(_READ, text="First.")] * 3, ("--max-tool-calls", "1")),
    "budget": Outcome([replies.calls(_READ, text="First.")] * 3, ("--max-budget-usd", "0.01"), config=PRICED),
    "budget-unknown-price": Outcome([replies.text("x")], ("--max-budget-usd", "1")),
    "denied": Outcome([replies.calls(_WRITE), replies.text("I could not.")]),
    "denied-no-answer": Outcome(
        [replies.calls(_WRITE, call("shell", "call_s1", command="touch made")), replies.text()]
    ),
    "error-400": Outcome([refused(400, "the request makes no sense")]),
    "error-401": Outcome([refused(401, "the key is not valid")]),
    "error-403": Outcome([refused(403, "not for you")]),
    "error-404": Outcome([refused(404, "model not found", code="model_not_found")]),
    "error-413": Outcome([refused(413, "too large")]),
    "error-429": Outcome([refused(429, "slow down", retry_after=1000)]),
    "error-500": Outcome([refused(500, "broken")], config=NO_RETRIES),
    "error-page": Outcome([refused(502, body="<html><body><h1>502 Bad Gateway</h1></body></html>")], config=NO_RETRIES),
    "error-in-stream": Outcome(
        [Turn(text=["One. ", "Two."], faults=Faults(error_after=2, error=Refusal(500, "overloaded")))],
        config=NO_RETRIES,
    ),
    "error-quota": Outcome([refused(429, "You exceeded your current quota", code="insufficient_quota")]),
    "error-overflow": Outcome(
        [refused(400, "maximum context length is 1000 tokens", code="context_length_exceeded")] * 2
    ),
    "dropped": Outcome([Turn(text=["One. ", "Two. "], faults=Faults(cut_after=2))] * 5, ("-v",), config=NO_RETRIES),
    "prompt-too-large": Outcome([], config='[models."{model}"]\ncontext_window = 9000\n', stdin=b"word " * 9000),
    "schema": Outcome([replies.text('```json\n{"n": 1}\n```')], ("--json-schema", SCHEMA)),
    "schema-retried": Outcome([replies.text("one"), replies.text('{"n": 1}')], ("--json-schema", SCHEMA)),
    "schema-failed": Outcome([replies.text("one")] * 3, ("--json-schema", SCHEMA)),
    "signals": Outcome(
        [replies.calls(call("report", "call_x1", n=3)), replies.text("Reported.")],
        ("--exit-tools", "exit.json"),
        files={"exit.json": EXIT_TOOLS},
    ),
    "agent": Outcome(
        [
            replies.calls(call("agent", "call_a1", kind="explore", prompt="Read hello.py.", description="Look")),
            replies.calls(_READ, text="I read."),
            replies.text("It greets."),
            replies.text("The agent says it greets."),
        ],
        ("-v",),
    ),
    "continue-nothing": Outcome([replies.text("New.")], ("-c",)),
    "resume-unknown": Outcome([], ("-r", "20240101-000000-abcd")),
    "untrusted": Outcome(
        [replies.text("ok")],
        ("-v",),
        files={".qcode/config.toml": '[permissions]\ndeny = ["shell(rm *)"]\n', "AGENTS.md": "Use tabs.\n"},
    ),
    "bad-project-config": Outcome([], ("--trust",), files={".qcode/config.toml": '[permissions]\nmode = "auto"\n'}),
    "bad-config": Outcome([], config="[output]\nmax_token = 5\n"),
    "bad-config-syntax": Outcome([], config="[output\n"),
    "missing-file": Outcome([], ("-f", "missing.txt")),
    "missing-folder": Outcome([], ("-C", "nowhere")),
    "bad-stdin": Outcome([], stdin=b"\xff\xfe\x00\x01\xff"),
    "bad-schema": Outcome([], ("--json-schema", '{"type": 1}')),
    "bad-exit-tools": Outcome([], ("--exit-tools", "exit.json"), files={"exit.json": "{}"}),
    "no-prompt": Outcome([], prompt=("-p",)),
    "two-prompts": Outcome([], prompt=("-p", "one", "two")),
    "no-key": Outcome([], ("-m", "anthropic/claude-sonnet-4-5"), is_asked=False),
    "nothing-to-ask": Outcome([], is_asked=False),
    "unknown-provider": Outcome([], ("-m", "antropic/claude"), is_asked=False),
    "unknown-model": Outcome([], ("-m", "clade-sonet-4"), is_asked=False),
    "unreachable": Outcome([], ("-m", "openai/m", "--base-url", "http://127.0.0.1:9/v1"), is_asked=False),
    "bad-address": Outcome([], ("-m", "openai/m", "--base-url", "ftp://host"), is_asked=False),
    "demo": Outcome([], ("-m", "demo/demo", "--system-prompt", "Be brief."), prompt=("-p", "hello"), is_asked=False),
}

LINES: Mapping[str, Outcome] = {
    "lines": Outcome([replies.text("one"), replies.text("two")], stdin=_prompts(_user("first"), "", _user("second"))),
    "lines-bad": Outcome(
        [replies.text("one")],
        stdin=_prompts("nonsense", "[]", '{"type": "assistant"}', _user("first"), _user("  "), '{"type": "user"}'),
    ),
    "lines-requests": Outcome(
        [replies.text("one")],
        stdin=_prompts(
            '{"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}}',
            '{"type": "control_request", "request_id": "r2", "request": {"subtype": "interrupt"}}',
            _user("first"),
        ),
    ),
    "lines-none": Outcome([], stdin=b"\n"),
}
"""Runs with `--input-format stream-json`."""

CORE = (
    "success", "partial-messages", "continued", "truncated", "truncated-call", "thinking-only", "refusal", "max-turns",
    "denied-no-answer", "error-400", "dropped", "schema-failed", "agent", "bad-config",
)  # fmt: skip
"""The cases that run by default; the others are broad."""

BAD_FLAGS: Sequence[Sequence[str]] = (
    ("--max-outputtokens", "5"),
    ("--bogus",),
    ("-z",),
    ("--max-turns", "0"),
    ("--max-output-tokens", "many"),
    ("--max-budget-usd", "free"),
    ("-o", "xml"),
    ("--permission-mode", "free"),
    ("--reasoning-effort", "huge"),
    ("--completion", "powershell"),
    ("-m",),
    ("-c", "-r", "abc"),
    ("--yolo", "--permission-mode", "plan"),
    ("--fork-session",),
    ("--input-format", "stream-json"),
    ("--include-partial-messages=yes",),
    ("--allowed-tools", "shell(git"),
    ("--disallowed-tools", "nothing(x)"),
    ("--settings", "missing.toml"),
    ("--mcp-config", "missing.json"),
    ("--add-dir", "missing"),
    ("--debug-log", "missing/log"),
    ("--file",),
)
