"""The handshake, the methods, and the answers of the agent to invalid input."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from qcode.acp import run, server, session
from qcode.agent.options import Options
from qcode.text.clean import one_line
from tests.acp.conftest import Connect
from tests.acp.editor import PATIENCE_S, Editor, InProcess, InThread
from tests.fakes.server import FakeServer
from tests.fakes.turns import Faults, Turn

HI = [{"type": "text", "text": "hi"}]
NO_FACTS = {"status": None, "requestId": None, "retryable": False}


def test_initialize_answers_version_1_to_every_client(connect: Connect) -> None:
    with connect() as editor:
        for version in (1, 2, 99):
            result = editor.request("initialize", protocolVersion=version, clientCapabilities={})
            assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"] == "qcode"
    assert result["agentCapabilities"]["loadSession"] is True
    assert [method["id"] for method in result["authMethods"]] == ["environment"]


@pytest.mark.parametrize("capabilities", [{"auth": {"terminal": True}}, {"_meta": {"terminal-auth": True}}])
def test_login_is_offered_to_clients_with_a_terminal(capabilities: dict[str, object], connect: Connect) -> None:
    with connect() as editor:
        result = editor.request("initialize", protocolVersion=1, clientCapabilities=capabilities)
    login = result["authMethods"][1]
    assert (login["type"], login["args"]) == ("terminal", ["--login"])
    assert login["_meta"]["terminal-auth"]["args"] == ["acp", "--login"]


def test_missing_model_error_names_the_settings(home: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with InThread(Editor(), Options(model="openai/x")) as editor:
        editor.initialize()
        error = editor.refused("session/new", cwd=str(work), mcpServers=[])
        assert error["code"] == -32000
        assert "OPENAI_API_KEY" in error["message"]
        assert error["data"] == {**NO_FACTS, "details": one_line(error["message"]), "kind": "no_credential"}
        assert editor.refused("authenticate", methodId="environment")["code"] == -32000
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
        assert editor.request("authenticate", methodId="environment") == {}
        editor.open(work)


def test_unknown_authentication_method_is_refused(connect: Connect) -> None:
    with connect() as editor:
        assert editor.refused("authenticate", methodId="login")["code"] == -32602


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, '"cwd"'),
        ({"cwd": ""}, '"cwd"'),
        ({"cwd": "relative/folder"}, "absolute"),
        ({"cwd": "/nowhere/at/all"}, "not a folder"),
        ({"cwd": "/etc/passwd"}, "not a folder"),
        ({"cwd": "/tmp\0"}, "absolute"),
        ({"cwd": ["/tmp"]}, '"cwd"'),
        ({"cwd": "/tmp", "mcpServers": 5}, "mcpServers"),
        ({"cwd": "/tmp", "additionalDirectories": ["../x"]}, "additionalDirectories"),
        ({"cwd": "/tmp", "additionalDirectories": "x"}, "additionalDirectories"),
    ],
)
def test_folder_that_cannot_be_used_is_refused(params: dict[str, object], reason: str, connect: Connect) -> None:
    with connect() as editor:
        error = editor.refused("session/new", **params)
    assert error["code"] == -32602
    assert reason in error["message"]


def test_keys_in_meta_replace_no_parameter(connect: Connect, work: Path) -> None:
    with connect([Turn(text="Hi.")]) as editor:
        session_id = editor.open(work, _meta={"cwd": "/etc", "mcpServers": 5})
        editor.prompt(session_id, "hi")
        listed = editor.request("session/list")["sessions"]
    assert [item["cwd"] for item in listed] == [str(work)]


@pytest.mark.parametrize(
    "method", ["session/fork", "logout", "_qcode/anything", "terminal/create", "", "initialize ", "x" * 10_000]
)
def test_unknown_method_is_an_error(method: str, connect: Connect) -> None:
    with connect() as editor:
        error = editor.refused(method, sessionId="x")
    assert error["code"] in (-32601, -32600)
    assert len(error["message"]) < 200


@pytest.mark.parametrize("method", ["session/prompt", "session/close", "session/set_mode", "session/set_model"])
def test_unknown_session_is_an_error(method: str, connect: Connect) -> None:
    with connect() as editor:
        error = editor.refused(method, sessionId="20260101-000000-0000", prompt=HI, modeId="plan", modelId="x")
    assert error["code"] == -32002
    assert error["data"] == {**NO_FACTS, "details": error["message"], "kind": "bad_input"}


BAD_LINES = [
    (b"no json", -32700),
    (b"\xff\xfe{}", -32700),
    (b'{"jsonrpc": "2.0", "id": 9', -32700),
    (b"[" * 100_000, -32700),
    (b'{"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": NaN}}', -32700),
    (b"5", -32600),
    (b"[]", -32600),
    (b'[{"jsonrpc": "2.0", "id": 9, "method": "initialize"}]', -32600),
    (b"{}", -32600),
    (b'{"jsonrpc": "1.0", "id": 9, "method": "initialize"}', -32600),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "initialize"}', -32600),
    (b'{"jsonrpc": "2.0", "id": true, "method": "initialize"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1e999, "method": "initialize"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 9, "method": 5}', -32600),
    (b'{"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": [1]}', -32602),
    (b'{"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": {"protocolVersion": "1"}}', -32602),
]


@pytest.mark.parametrize(("line", "code"), BAD_LINES)
def test_invalid_line_is_answered_and_the_process_continues(line: bytes, code: int, connect: Connect) -> None:
    with connect() as editor:
        before = len(editor.messages)
        editor.send_line(line)
        editor.wait(lambda: len(editor.messages) > before)
        error = editor.messages[-1]["error"]
        assert error["code"] == code
        assert error["data"] == {**NO_FACTS, "details": error["message"], "kind": "usage"}
        assert editor.request("session/list")["sessions"] == []


def test_responses_and_notifications_that_belong_to_nothing_are_ignored(connect: Connect) -> None:
    with connect() as editor:
        before = len(editor.messages)
        for line in (
            '{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "unknown update"}}',
            '{"jsonrpc": "2.0", "id": 77, "result": {}}',
            '{"jsonrpc": "2.0", "id": "x", "result": null}',
            '{"jsonrpc": "2.0", "method": "made/up"}',
            '{"jsonrpc": "2.0", "method": "session/cancel", "params": [5]}',
            '{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": null}}',
            "",
            "   ",
        ):
            editor.send_line(line)
        assert editor.request("session/list")["sessions"] == []
        assert len(editor.messages) == before + 1


def test_answer_has_the_id_of_its_request_of_any_type(connect: Connect) -> None:
    with connect() as editor:
        for request_id in ("text", "", 0, -5, 2**60, 1.5):
            editor.send({"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": {"protocolVersion": 1}})
            answer = editor.answer(request_id)
            assert type(answer["id"]) is type(request_id)


@pytest.mark.parametrize(
    "prompt",
    [
        None,
        [],
        "hi",
        [{"type": "text", "text": "  "}],
        [{"type": "text"}],
        ["hi"],
        [{"type": "audio", "data": "", "mimeType": "audio/wav"}],
        [{"type": "image", "data": "%%%", "mimeType": "image/png"}],
        [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}],
        [{"type": "made up"}],
    ],
)
def test_prompt_that_cannot_be_used_is_refused(prompt: object, connect: Connect, work: Path) -> None:
    with connect() as editor:
        error = editor.refused("session/prompt", sessionId=editor.open(work), prompt=prompt)
    assert error["code"] == -32602


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    import os

    return dict(os.environ)


def test_process_writes_only_the_protocol_and_ends_with_its_client(env: dict[str, str], work: Path) -> None:
    with FakeServer("openai", [Turn(text="Hi.")]) as server:
        flags = ("-m", "openai/some-model", "--base-url", server.base_url)
        with InProcess(Editor(), env, *flags) as run:
            run.editor.initialize()
            assert run.editor.prompt(run.editor.open(work), "hi")["stopReason"] == "end_turn"
            run.editor.leave()
            began = time.monotonic()
            assert run.wait() == 0
            assert time.monotonic() - began < 2.0
    assert run.errors == b""


def test_process_ends_within_two_seconds_of_its_client_during_a_turn(env: dict[str, str], work: Path) -> None:
    script = [Turn(text=("Working", " on it"), faults=Faults(stall_after=2))]
    with FakeServer("openai", script) as server:
        flags = ("-m", "openai/some-model", "--base-url", server.base_url)
        with InProcess(Editor(), env, *flags) as run:
            run.editor.initialize()
            run.editor.start_prompt(run.editor.open(work), "work")
            run.editor.wait(run.editor.text)
            run.editor.leave()
            began = time.monotonic()
            assert run.wait() == 0
            assert time.monotonic() - began < 2.0
        server.release()
    sessions = list((Path(env["QCODE_HOME"]) / "state" / "sessions").glob("*/*.jsonl"))
    assert any("Working" in session.read_text() for session in sessions)


def test_waits_at_the_end_leave_time_on_a_busy_machine() -> None:
    """The process has to exit within two seconds, and each step takes longer under load."""
    assert server.CLOSE_S + run.DRAIN_S + run.EXIT_S <= 1.3
    assert session.END_S < server.CLOSE_S


def test_terminated_process_has_its_exit_code(env: dict[str, str], work: Path) -> None:
    with InProcess(Editor(), env, "-m", "demo/demo") as run:
        run.editor.initialize()
        run.editor.open(work)
        run.process.terminate()
        assert run.wait() == 143


def test_reader_that_goes_away_ends_the_process(env: dict[str, str], work: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "qcode", "acp", "-m", "demo/demo"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    line = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    process.stdin.write(json.dumps(line).encode() + b"\n")
    process.stdin.flush()
    assert process.wait(PATIENCE_S) == 0
    process.stdin.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flags", [["--login"], ["acp", "--login"]])
def test_login_asks_for_a_provider_as_auth_login_does(flags: list[str], env: dict[str, str]) -> None:
    import subprocess
    import sys

    def run(*arguments: str) -> tuple[int, bytes]:
        command = [sys.executable, "-m", "qcode", *arguments]
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S)
        return done.returncode, done.stderr

    code, output = run(*flags)
    assert (code, output) == run("auth", "login")
    assert b"name the provider" in output


@pytest.mark.sampled(2)
@pytest.mark.parametrize("flags", [["hello"], ["-p", "x"], ["-r", "x"], ["-C", "/tmp"], ["-o", "json"]])
def test_flags_of_a_prompt_are_refused(flags: list[str], env: dict[str, str]) -> None:
    with InProcess(Editor(), env, *flags) as run:
        assert run.wait() == 2
    assert b"qcode acp" in run.errors
