"""The examples of the Claude Agent SDKs run unchanged: qcode is the program that the SDK finds.

`QCODE_FIXTURES=DIR` names the folder of clones with `DIR/anthropics+claude-agent-sdk-python` and
`DIR/anthropics+claude-agent-sdk-demos`; without them they are skipped.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qcode.protocol.usage import Usage
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn
from tests.headless.host.running import ROOT, environment, workspace
from tests.headless.host.test_real_sdks import installed

pytestmark = [pytest.mark.broad, pytest.mark.timeout(500)]
CLONE, DEMOS = "anthropics+claude-agent-sdk-python", "anthropics+claude-agent-sdk-demos"
TYPESCRIPT = "typescript@5.9.3"
MODEL = "claude-sonnet-4-5"


def shell(command: str) -> Call:
    return Call("shell", json.dumps({"command": command}))


def write(path: str, content: str) -> Call:
    return Call("write", json.dumps({"path": path, "content": content}))


CALLS: Sequence[tuple[str, Sequence[Call]]] = (
    ("Create a file called hello.txt", [write("hello.txt", "Hello, World!")]),
    ("Run the bash command: ./foo.sh", [shell("./foo.sh --help")]),
    ("Run the bash command: echo", [shell("echo 'Hello from hooks example!'")]),
    ("ls /nonexistent_directory", [shell("ls /nonexistent_directory")]),
    ("important_config.txt", [write("important_config.txt", "test data")]),
    ("regular_file.txt", [write("regular_file.txt", "test data")]),
    ("CRITICAL ERROR", [shell("echo 'CRITICAL ERROR: system failure'")]),
    ("bash echo command", [shell("echo 'Hello from bash!'")]),
    ("simple hello.txt", [write("hello.txt", "Hello")]),
    ("hello world script", [shell("ls"), write("hello.py", "print('hello')\n")]),
    ("Calculate 15 + 27", [Call("calc__add", '{"a": 15, "b": 27}')]),
    ("100 divided by 7", [Call("calc__divide", '{"a": 100, "b": 7}')]),
    ("square root of 144", [Call("calc__sqrt", '{"n": 144}')]),
    ("power of 8", [Call("calc__power", '{"base": 2, "exponent": 8}')]),
    ("code-reviewer agent", [Call("agent", '{"description": "r", "prompt": "Look.", "kind": "code-reviewer"}')]),
    ("doc-writer agent", [Call("agent", '{"description": "d", "prompt": "Look.", "kind": "doc-writer"}')]),
    ("analyzer agent", [Call("agent", '{"description": "a", "prompt": "Look.", "kind": "analyzer"}')]),
)
"""The calls that the model answers a prompt with, by a part of the prompt."""


def model(asked: ReceivedRequest) -> Turn:
    """Answer a prompt with its calls, and their results with text."""
    if asked.results:
        return Turn(text="Done: " + " | ".join(result.content[:200] for result in asked.results))
    text = asked.messages[-1].text
    if "README.md" in text:
        calls: Sequence[Call] = [Call("read", '{"path": "README.md"}')]
        return Turn(calls=tuple(calls), usage=Usage(input=1_000, output=1_000))
    calls = next((calls for part, calls in CALLS if part in text), ())
    names = {tool["name"] for tool in asked.body.get("tools", [])}
    return Turn(calls=tuple(calls)) if calls and calls[0].name in names else Turn(text="The answer is 4. Python.")


EXAMPLES: Sequence[tuple[str, str, Sequence[str], Mapping[str, str | None]]] = (
    # example, its argument, parts of its output, files afterwards with their content, None for none
    ("quick_start.py", "", ["Claude: The answer is 4", "Claude: Done", "Cost: $"], {"hello.txt": "Hello, World!"}),
    ("include_partial_messages.py", "", ["The answer is 4"], {}),
    ("hooks.py", "PreToolUse", ["Command contains invalid pattern: foo.sh", "Hello from hooks example!"], {}),
    ("hooks.py", "UserPromptSubmit", ["The answer is 4"], {}),
    ("hooks.py", "PostToolUse", ["No such file", "Result ended"], {}),
    (
        "hooks.py",
        "DecisionFields",
        ["Security policy blocks writes to important files"],
        {"important_config.txt": None, "regular_file.txt": "test data"},
    ),
    ("hooks.py", "ContinueControl", ["Critical error detected - stopping", "Result ended"], {}),
    (
        "tool_permission_callback.py",
        "",
        ["Tool Permission Request: Write", "Redirecting write", "Task completed!", "1. Tool: Write"],
        {"hello.py": None, "safe_output/hello.py": "print('hello')\n"},
    ),
    (
        "mcp_calculator.py",
        "",
        ["Using tool: mcp__calc__add", "15 + 27 = 42", "√144 = 12.0", "2^8 = 256", "Cost: $"],
        {},
    ),
    ("agents.py", "", ["Claude: Done: The answer is 4"], {}),
    ("tools_option.py", "", ["['Read', 'Glob', 'Grep']", "Tools from system message: []"], {}),
    ("system_prompt.py", "", ["Claude: The answer is 4"], {}),
    ("setting_sources.py", "disable_all", ["Available slash commands"], {}),
    ("max_budget_usd.py", "", ["Status: success", "Status: error_max_budget_usd"], {}),
    ("stderr_callback_example.py", "", [], {}),
    *(
        ("streaming_mode.py", name, parts, files)
        for name, parts, files in (
            ("basic_streaming", ["Claude: The answer is 4", "Result ended"], {}),
            ("multi_turn_conversation", ["Result ended"], {}),
            ("concurrent_responses", ["Result ended"], {}),
            ("with_interrupt", ["sending interrupt", "Claude: The answer is 4"], {}),
            ("manual_message_handling", ["Found language: Python"], {}),
            ("with_options", ["Tools used: Write"], {"hello.txt": "Hello"}),
            ("bash_command", ["Tool Use: Bash", "Hello from bash!"], {}),
            ("control_protocol", ["Server info retrieved", "Interrupt sent successfully"], {}),
            ("error_handling", [], {}),
        )
    ),
)


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed("python", tmp_path_factory) / "bin" / "python"


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder outside of /tmp, where an example treats paths differently."""
    with TemporaryDirectory(dir="/var/tmp", prefix="qcode-test-") as folder:
        yield Path(folder)


def clone(name: str, example: str) -> Path:
    fixtures = os.environ.get("QCODE_FIXTURES")
    if not fixtures or not (script := Path(fixtures) / name / example).exists():
        pytest.skip(f"QCODE_FIXTURES names no folder with {name}/{example}")
    return script


def run(command: Sequence[str], base: Path, cwd: Path, *, raises: bool = False, **further: str) -> str:
    """Run an example and return its output. `raises`: it ends with an error of the SDK."""
    programs = base / "programs"
    programs.mkdir()
    program(programs / "claude")
    with FakeServer("anthropic", model) as server:
        env = {
            **environment(base),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "ANTHROPIC_API_KEY": "k" * 20,
            "ANTHROPIC_BASE_URL": server.base_url,
            "QCODE_MODEL": f"anthropic/{MODEL}",
            **further,
        }
        done = subprocess.run(
            command, cwd=cwd, env=env, input="", capture_output=True, text=True, timeout=300, check=False
        )
    output = done.stdout + done.stderr
    assert done.returncode == (1 if raises else 0), output
    assert ("Traceback" in output) == raises, output
    return output


def program(path: Path) -> None:
    path.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m qcode --trust "$@"\n')
    path.chmod(0o755)


@pytest.mark.parametrize(("example", "argument", "parts", "files"), EXAMPLES)
def test_example_in_python_runs_unchanged(
    example: str, argument: str, parts: Sequence[str], files: Mapping[str, str | None], python: Path, base: Path
) -> None:
    script, work = clone(CLONE, f"examples/{example}"), workspace(base)
    command = [str(python), str(script), *([argument] if argument else [])]
    # The SDK raises after the result of a turn that was too expensive, which the example does not expect.
    raises = example == "max_budget_usd.py"
    output = run(command, base, work, raises=raises, PYTHONPATH=str(unbundled(python, base)))
    missing = [part for part in parts if part not in output]
    assert not missing, output
    found = {name: (work / name).read_text() if (work / name).exists() else None for name in files}
    assert found == files


def unbundled(python: Path, base: Path) -> Path:
    """Return a folder with the SDK without the program in it, so that it starts the `claude` on the path."""
    (package,) = python.parents[1].glob("lib/python*/site-packages/claude_agent_sdk")
    copy = base / "sdk" / "claude_agent_sdk"
    copy.mkdir(parents=True)
    for entry in package.iterdir():
        if entry.name != "_bundled":
            (copy / entry.name).symlink_to(entry)
    return copy.parent


def test_example_in_typescript_runs_unchanged(tmp_path_factory: pytest.TempPathFactory, base: Path) -> None:
    script = clone(DEMOS, "hello-world/hello-world.ts")
    packages = base / "node_modules"
    shutil.copytree(installed("npm", tmp_path_factory) / "node_modules", packages, symlinks=True)
    (native := packages / "@anthropic-ai" / f"claude-agent-sdk-{native_name()}").mkdir(exist_ok=True)
    (native / "package.json").write_text('{"name": "native", "version": "0.0.1"}')
    program(native / "claude")
    (base / "agent").mkdir()
    flags = ["--noCheck", "--module", "esnext", "--target", "es2022", "--moduleResolution", "bundler"]
    npx = ["npx", "--yes", "--package", TYPESCRIPT, "tsc", *flags, "--outDir", str(base), str(script)]
    if subprocess.run(npx, capture_output=True, timeout=200, check=False).returncode != 0:
        pytest.skip(f"{TYPESCRIPT} cannot be installed")
    plain = (base / "hello-world.js").rename(base / "hello-world.mjs")
    assert "Claude says: The answer is 4" in run(["node", str(plain)], base, base)


def native_name() -> str:
    """Return the platform in the name of the package with the program of the SDK."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    return f"{sys.platform}-{machine}"
