"""The Claude Agent SDKs for Python and TypeScript drive qcode, one scenario per feature.

`make test-all` installs them on demand; without a network or npm they are skipped. `make test` sends what they sent, as
recorded in `clients/recorded`: see `test_recorded`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.server import FakeServer
from tests.headless.host.running import CLIENTS, FAKE_SERVER, MODEL, ROOT, environment, make_skill, workspace
from tests.headless.host.scripts import SCRIPTS

PYTHON_SDK = "claude-agent-sdk==0.2.187"
NPM = ("@anthropic-ai/claude-agent-sdk@0.3.330", "zod@4")
INSTALL_S = 400
INIT = ["init", ["Bash", "Read", "Task"]]


def ended(text: str, subtype: str = "success", stop: str | None = "end_turn") -> list[Any]:
    return ["end", subtype, text, stop]


def ends(seen: list[Any]) -> list[Any]:
    """Return the ends of turns, without the reasons."""
    return [item[:4] for item in seen if item and item[0] == "end"]


def calls(seen: list[Any]) -> list[Any]:
    return [item for item in seen if item and item[0] in ("call", "result")]


def check_simple(found: Any, work: Path) -> None:
    assert found == [*INIT, ["text", "Hello."], [*ended("Hello."), []]]


def check_streaming_input(found: Any, work: Path) -> None:
    assert ends(found) == [ended("One."), ended("Two.")]


def check_several_turns(found: Any, work: Path) -> None:
    assert [ends(seen) for seen in found["seen"]] == [[ended("One.")], [ended("Two.")]]
    assert (found["commands"], found["model"], found["status"]) == ("compact", MODEL, {"mcpServers": []})


def check_partial_messages(found: Any, work: Path) -> None:
    assert found["text"] == "Hello. Bye."
    assert found["kinds"] == [
        *("message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_delta"),
        *("content_block_stop", "message_delta", "message_stop"),
    ]


def check_permissions(found: Any, work: Path) -> None:
    assert [(name, values["command"]) for name, values, _, _ in found["asked"]] == [
        ("Bash", "echo made > b.txt"),
        ("Bash", "touch d.txt"),
        ("Bash", "rm a.txt"),
    ]
    assert [number for _, _, number, _ in found["asked"]] == [0, 2, 0]
    assert sorted(path.name for path in work.iterdir()) == ["a.txt", "c.txt", "d.txt"]
    denied = [call for call in calls(found["seen"]) if call[0] == "result" and call[1]]
    assert denied == [["result", True, "Denied: only the tests"]]
    assert ends(found["seen"]) == [ended("Done.")]


def check_deny_and_interrupt(found: Any, work: Path) -> None:
    assert ends(found) == [ended("", "error_during_execution", "cancelled")]
    assert not (work / "b.txt").exists()


def check_question_and_plan(found: Any, work: Path) -> None:
    assert found["asked"] == [["AskUserQuestion", ["questions"]], ["ExitPlanMode", ["plan"]]]
    assert ["result", False, "B"] in found["seen"]
    assert ends(found["seen"]) == [ended("Planned.")]


def check_interrupted(found: Any, work: Path) -> None:
    seen = found[0] if isinstance(found, list) else found["seen"]
    assert ends(seen) == [ended("Working", "error_during_execution", "cancelled")]
    if isinstance(found, list):
        assert ends(found[1]) == [ended("Again.")]


def check_settings(found: Any, work: Path) -> None:
    seen = found["seen"]
    whole = [*seen[0], *seen[1]] if seen and isinstance(seen[0], list) and seen[0] and seen[0][0] == "init" else seen
    assert ends(whole) == [ended("Edited."), ended("Other.")]
    assert whole.count("init") == 2
    assert (work / "a.txt").read_text() == "two\n"


def check_sessions(found: Any, work: Path) -> None:
    first, resumed, continued, forked, named = found
    assert first == resumed == continued
    assert forked != first
    assert named == "9c6b1c4e-0c52-4bd0-9f0e-0c3f0a1d2b3c"


def check_structured_output(found: Any, work: Path) -> None:
    assert found == {"n": 3}


def check_failed(found: Any, work: Path) -> None:
    (end,) = [item for item in found["seen"] if item[0] == "end"]
    assert end[1] == "error_during_execution"
    assert "the model is on holiday" in end[4][0]
    assert end[4][0] in found["raised"]


def check_truncated(found: Any, work: Path) -> None:
    assert ends(found["seen"]) == [ended("Part 0, Part 1, Part 2, Part 3, ", "error_during_execution", "max_tokens")]
    assert "incomplete" in found["raised"] or "truncated" in found["raised"]


def check_system_prompt(found: Any, work: Path) -> None:
    assert ends(found) == [ended("Arr.")]


def check_in_process_tools(found: Any, work: Path) -> None:
    assert found["seen"][:2] == ["init", ["Bash", "Read", "Task", "mcp__calc__add"]]
    assert calls(found["seen"]) == [["call", "mcp__calc__add", {"a": 2, "b": 3}], ["result", False, "sum 5"]]
    assert found["asked"] == ["mcp__calc__add"]


def check_agents(found: Any, work: Path) -> None:
    assert found[2] == ["call", "Agent", {"description": "r", "prompt": "p", "subagent_type": "reviewer"}]
    assert ends(found) == [ended("It is fine.")]


def check_hooks(found: Any, work: Path) -> None:
    before = [item for item in found["called"] if item[0] == "PreToolUse"]
    assert [(name, values["command"]) for _, name, values in before] == [
        ("Bash", "rm a.txt"),
        ("Bash", "echo hi > b.txt"),
    ]
    assert [item[1]["stdout"] for item in found["called"] if item[0] == "PostToolUse"] != []
    assert sorted(path.name for path in work.iterdir()) == ["a.txt", "b.txt"]
    assert "no rm" in json.dumps(found["seen"])


def check_servers_set(found: Any, work: Path) -> None:
    first, states, last = found["changes"]
    assert (sorted(first["added"]), first["removed"], list(first["errors"])) == (["bad", "calc", "fake"], [], ["bad"])
    assert sorted(states) == [["bad", "failed"], ["calc", "connected"], ["fake", "connected"]]
    assert (last["added"], sorted(last["removed"])) == ([], ["bad", "calc", "fake"])
    results = [call for call in calls(found["seen"]) if call[0] == "result"]
    assert results[0] == ["result", False, "sum 5"]
    assert '"color": "blue"' in results[1][2]
    assert ends(found["seen"]) == [ended("Hello."), ended("5")]


def check_unsupported(found: Any, work: Path) -> None:
    assert len(found["raised"]) == 7
    assert all("is not supported" in text for text in found["raised"]), found
    assert ends(found["seen"]) == [ended("Hello.")]


def check_skills_and_folders(found: Any, work: Path) -> None:
    results = [call for call in calls(found["seen"]) if call[0] == "result"]
    assert [is_error for _, is_error, _ in results] == [False, True, False, False, False], results
    assert found["asked"] == ["Bash"]
    assert ends(found["seen"]) == [ended("Done.")]


CHECKS: Mapping[str, Callable[[Any, Path], None]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}
ONLY_PYTHON = {
    *("several_turns", "deny_and_interrupt", "question_and_plan", "sessions", "truncated", "skills_and_folders"),
}
ONLY_TYPESCRIPT = {"servers_set", "unsupported"}


def talk(command: list[str], name: str, base: Path) -> tuple[Any, Path, FakeServer]:
    """Run a scenario; return the messages that the SDK saw, the workspace and the model."""
    work, cli = workspace(base), base / "qcode-cli"
    cli.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m qcode "$@"\n')
    cli.chmod(0o755)
    if name == "skills_and_folders":
        make_skill(base, "pdf")
        make_skill(base, "other")
    env = {**environment(base), "PYTHONPATH": "", "HOST_CLI": str(cli), "HOST_FOLDER": str(work)}
    env["HOST_SERVER"] = json.dumps(FAKE_SERVER)
    with FakeServer("openai", SCRIPTS[name]) as server:
        flags = [f"model={MODEL}", f"base-url={server.base_url}"]
        done = subprocess.run(
            [*command, name, *flags], env=env, capture_output=True, text=True, timeout=400, check=False
        )
        server.release()
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout), work, server


def install(kind: str, folder: Path) -> Path:
    """Install an SDK into `folder`; raise `OSError` with the reason if that is not possible."""
    if kind == "python":
        commands = [
            [sys.executable, "-m", "venv", str(folder)],
            [str(folder / "bin" / "pip"), "install", "-q", PYTHON_SDK],
        ]
    else:
        npm = shutil.which("npm")
        if npm is None or shutil.which("node") is None:
            raise OSError("npm is not installed")
        (folder / "package.json").write_text('{"private": true}')
        # The optional packages hold a program that these tests do not use.
        commands = [
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--omit=optional", "--prefix", str(folder), *NPM]
        ]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            raise OSError(f"the installation took more than {INSTALL_S} s") from None
        if done.returncode != 0:
            raise OSError(done.stderr.strip()[-300:] or "the installation failed")
    return folder


def installed(kind: str, factory: pytest.TempPathFactory) -> Path:
    """Return the folder with an SDK; `QCODE_TEST_SDKS` names one that has both, for quick runs."""
    if ready := os.environ.get("QCODE_TEST_SDKS"):
        return Path(ready) / kind
    try:
        return install(kind, factory.mktemp(kind))
    except OSError as error:
        pytest.skip(f"the SDK cannot be installed: {error}")


@pytest.fixture(scope="session")
def python_sdk(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(installed("python", tmp_path_factory) / "bin" / "python"), str(CLIENTS / "python_sdk.py")]


@pytest.fixture(scope="session")
def typescript_sdk(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = installed("npm", tmp_path_factory)
    shutil.copy(CLIENTS / "typescript_sdk.mjs", folder)
    return ["node", str(folder / "typescript_sdk.mjs")]


@pytest.mark.broad
@pytest.mark.timeout(500)
@pytest.mark.parametrize("name", [name for name in CHECKS if name not in ONLY_TYPESCRIPT])
def test_python_sdk_drives_qcode(name: str, python_sdk: list[str], tmp_path: Path) -> None:
    found, work, _ = talk(python_sdk, name, tmp_path)
    CHECKS[name](found, work)


@pytest.mark.broad
@pytest.mark.timeout(500)
@pytest.mark.parametrize("name", [name for name in CHECKS if name not in ONLY_PYTHON])
def test_typescript_sdk_drives_qcode(name: str, typescript_sdk: list[str], tmp_path: Path) -> None:
    found, work, _ = talk(typescript_sdk, name, tmp_path)
    CHECKS[name](found, work)
