"""The modules in `sys.modules` of a fresh process after a start. They enforce the import contracts at run time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.agent.skills.folders import put
from tests.arch.sources import modules
from tests.fakes.server import FakeServer, ProtocolName
from tests.fakes.turns import Turn

PROTOCOLS: tuple[ProtocolName, ...] = ("openai", "openai-responses", "anthropic", "gemini")
SDKS = ("openai", "anthropic", "google.genai", "google.auth", "boto3", "botocore", "mcp")
HEAVY = (
    "tree_sitter_bash",
    "pydantic",
    "httpx2",
    "httpcore2",
    "tiktoken",
    "requests",
    "cryptography",
    "keyring",
    "secretstorage",
    "jeepney",
)
MAX_TOOL_MODULES = 20
MAX_SAFETY_MODULES = 8
MAX_ONE_SHOT_MODULES = 156
"""Modules of qcode, packages included. If one joins a path, its commit message names the module and its time."""

ON_FIRST_USE = tuple(
    f"qcode.{name}"
    for name in (
        "agent.programs", "agent.checkpoints.blobs", "agent.checkpoints.rewind", "agent.checkpoints.watch",
        "config.saved_choices", "agent.context.attachments", "agent.context.front_matter", "agent.context.placeholders",
        "agent.crash", "agent.keys.connect", "agent.keys.ring", "agent.keys.store", "agent.mcp",
        "agent.sessions.library", "agent.sessions.loader", "agent.settings", "agent.skills", "agent.subagents",
        "agent.telemetry", "config.definitions", "config.edit", "config.lines", "engine.compactor",
        "providers.text_calls", "safety.addresses", "safety.git_repository", "safety.launcher", "safety.sandbox",
        "safety.shell.judge", "safety.shell.parser", "tools.editing.match", "tools.editing.normalize",
        "tools.files.pictures", "tools.files.walk", "tools.web_search",
    )
)  # fmt: skip
"""Not needed by a plain one-shot. They load with the first command, change, server, resumed session, ..."""


def loaded_after(program: str) -> set[str]:
    """Run `program` in a fresh interpreter with an empty HOME, and return the modules it loaded.

    Fails if the program does.
    """
    # The interpreter would destroy all modules at its end, which takes half as long as to load them.
    ending = (
        "\nimport json, os, sys\nsys.stdout.flush()\n"
        "sys.stderr.write(json.dumps(sorted(sys.modules))); sys.stderr.flush(); os._exit(0)"
    )
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home}
        command = [sys.executable, "-c", program + ending]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def among(loaded: set[str], *roots: str) -> set[str]:
    """Return the roots that are loaded, as a module or because a submodule of them is."""
    return {root for root in roots if any(name == root or name.startswith(f"{root}.") for name in loaded)}


@pytest.mark.parametrize("flag", ["--version", "--help", "-h"])
def test_version_and_help_load_only_their_text(flag: str) -> None:
    loaded = loaded_after(
        f"import sys; sys.argv = ['qcode', {flag!r}]\nfrom qcode.__main__ import main\nassert main() == 0"
    )
    assert {name for name in loaded if name.startswith("qcode")} == {
        "qcode",
        "qcode.__main__",
        "qcode.cli",
        "qcode.cli.flags",
        *(() if flag == "--version" else ("qcode.cli.help_text",)),
    }
    assert among(loaded, *SDKS, *HEAVY, "textual", "rich", "asyncio", "argparse") == set()


def test_package_loads_nothing_until_a_name_is_used() -> None:
    assert among(loaded_after("import qcode"), "qcode") == {"qcode"}
    loaded = loaded_after("from qcode import Agent, Options, Allow, Deny, TextDelta")
    unwanted = ("asyncio", "textual", "rich", "qcode.engine", "qcode.providers", "qcode.safety", "qcode.tools")
    assert among(loaded, *SDKS, *HEAVY, *unwanted) == set()
    assert len(among(loaded, "qcode")) <= 20


def test_app_loads_no_engine_provider_or_sdk_before_first_paint() -> None:
    loaded = loaded_after("import qcode.tui.app")
    assert "textual" in loaded
    assert among(loaded, *SDKS, *HEAVY, "qcode.engine", "qcode.providers", "qcode.tui.screens") == set()


def test_pipe_mode_loads_no_app_engine_provider_or_sdk() -> None:
    loaded = loaded_after("import qcode.headless.run")
    assert among(loaded, *SDKS, *HEAVY, "textual", "rich", "qcode.engine", "qcode.providers", "qcode.tui") == set()


def test_editors_get_their_first_answer_without_the_library(tmp_path: Path) -> None:
    loaded = loaded_after(
        "import os, sys; read, write = os.pipe(); os.dup2(read, 0); sys.argv = ['qcode', 'acp']\n"
        'os.write(write, b\'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\\n\')\n'
        "os.close(write); os.close(read)\n"
        "from qcode.__main__ import main\nassert main() == 0"
    )
    assert "qcode.acp.server" in loaded
    later = ("agent.agent", "agent.trust", "acp.session", "acp.cards", "engine", "tools", "tui", "headless")
    assert among(loaded, *SDKS, *HEAVY, "textual", "rich", *(f"qcode.{name}" for name in later)) == set()


def test_host_gets_its_first_answer_without_the_library(tmp_path: Path) -> None:
    loaded = loaded_after(
        "import os, sys; read, write = os.pipe(); os.dup2(read, 0)\n"
        "sys.argv = ['qcode', '-o', 'stream-json', '--input-format', 'stream-json', '-m', 'demo/demo']\n"
        'os.write(write, b\'{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\\n\')\n'
        "os.close(write); os.close(read)\n"
        "from qcode.__main__ import main\nassert main() == 0"
    )
    assert "qcode.headless.host.handshake" in loaded
    later = ("agent.opening", "agent.permissions", "headless.run", "engine", "tools", "tui", "cli.pipe")
    assert among(loaded, *SDKS, *HEAVY, "asyncio", "textual", *(f"qcode.{name}" for name in later)) == set()


def test_demo_run_loads_only_needed_modules() -> None:
    loaded = loaded_after(
        "import sys; sys.argv = ['qcode', '-p', 'hello', '-m', 'demo/demo', '--no-session']; sys.stdin = None\n"
        "from qcode.__main__ import main\nassert main() == 0"
    )
    assert "qcode.providers.demo.provider" in loaded
    unwanted = ("textual", "rich", "markdown_it", "pygments", "qcode.tui", "qcode.providers.catalog", "qcode.cli.app")
    assert among(loaded, *SDKS, *HEAVY, *unwanted, *ON_FIRST_USE) == set()
    assert len(among(loaded, *modules())) <= MAX_ONE_SHOT_MODULES


def test_start_of_a_run_collects_no_garbage() -> None:
    loaded_after(
        "import asyncio, gc, sys\n"
        "sys.argv = ['qcode', '-p', 'hello', '-m', 'demo/demo', '--no-session']; sys.stdin = None\n"
        "gc.freeze(); sizes = []; found = []; run = asyncio.run\n"
        "gc.callbacks.append(lambda phase, _: sizes.append(len(gc.get_objects())) if phase == 'start' else None)\n"
        "from qcode.__main__ import main\n"
        "asyncio.run = lambda *given, **named: (found.extend(sizes), run(*given, **named))[1]\n"
        "assert main() == 0\n"
        # One for the options, which are read between two blocks without collections.
        "assert len(found) <= 1 and sum(found) < 5000, found"
    )


EXTENSIONS = """
[[hooks.PreToolUse]]
argv = ["true"]
[[hooks.PostToolUse]]
argv = ["true"]
[mcp_servers.one]
command = "true"
"""
EXTENSION_PARTS = tuple(
    f"qcode.{name}"
    for name in (
        "agent.claude", "agent.context.front_matter", "agent.context.placeholders", "agent.hooks.answers",
        "agent.hooks.matcher", "agent.hooks.process", "agent.hooks.transcript", "agent.mcp.connection",
        "agent.mcp.identity", "agent.mcp.session", "agent.mcp.tools", "agent.mcp.transports",
        "config.definitions", "config.lines",
        "text.match", "tools.files.pictures",
    )
)  # fmt: skip
"""Not needed for configured extensions that are not used: they load with a hook that runs, a server that starts, ..."""


def test_unused_extensions_load_only_their_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(EXTENSIONS)
    put(tmp_path / "skills", "known", description="Known from an earlier start.")
    program = (
        f"import os, sys; os.chdir({str(tmp_path)!r})\n"
        f"os.environ.update(HOME={str(tmp_path)!r}, QCODE_HOME={str(tmp_path)!r}); sys.stdin = None\n"
        "from qcode.agent.skills import discovery\n"
        "discovery.is_ctime_final = lambda *_: True\n"  # the file was written just now
        "sys.argv = ['qcode', '-p', 'hello', '-m', 'demo/demo']\n"
        "from qcode.__main__ import main\nassert main() == 0"
    )
    assert "yaml" in loaded_after(program)
    loaded = loaded_after(program)
    assert {"qcode.agent.hooks.runner", "qcode.agent.mcp.servers", "qcode.agent.skills.tool"} <= loaded
    assert among(loaded, *SDKS, *HEAVY, "yaml", *EXTENSION_PARTS) == set()


def test_tools_and_policy_load_most_modules_on_first_use() -> None:
    loaded = loaded_after("import qcode.agent.sandbox, qcode.safety.policy, qcode.tools.registry")
    on_first_use = (
        *(f"tools.editing.{name}" for name in ("hunks", "match", "nearest", "normalize")),
        *(f"tools.files.{name}" for name in ("patterns", "pictures", "walk")),
        *(f"safety.shell.{name}" for name in ("judge", "parser", "table", "flow", "git")),
        *(f"safety.{name}" for name in ("addresses", "git_repository", "launcher", "redaction", "sandbox")),
    )
    assert among(loaded, *SDKS, *HEAVY, *(f"qcode.{name}" for name in on_first_use)) == set()
    assert len([name for name in loaded if name.startswith("qcode.tools.")]) <= MAX_TOOL_MODULES
    assert len([name for name in loaded if name.startswith("qcode.safety.")]) <= MAX_SAFETY_MODULES


def test_app_start_loads_no_sdk_before_first_paint() -> None:
    loaded = loaded_after("import qcode.cli.app")
    assert "qcode.tui.app" in loaded
    later = (
        "engine",
        "tools.registry",
        "safety.policy",
        "agent.conversation",
        "tui.view",
        "tui.presenter",
        "tui.turns",
        "tui.screens",
        "tui.commands",
    )
    assert among(loaded, *SDKS, *HEAVY, *(f"qcode.{name}" for name in later), "qcode.config.edit") == set()


PROXY = "http://127.0.0.1:9"


def warmed_up(models: tuple[str, ...], proxy: str, home: Path) -> set[str]:
    """Return the SDKs that the warm-up of these models loaded, one after the other in one fresh process."""
    program = (
        "import os, pathlib, sys\n"
        "for name in [name for name in os.environ if name.lower().endswith('_proxy')]: del os.environ[name]\n"
        f"os.environ.update(HOME={str(home)!r}, HTTPS_PROXY={proxy!r})\n"
        "os.environ.update(OPENAI_API_KEY='k' * 20, ANTHROPIC_API_KEY='k' * 20, GEMINI_API_KEY='k' * 20)\n"
        f"os.chdir({str(home)!r})\n"
        "from qcode.agent.models.selection import select_at_start\n"
        "from qcode.cli import app, arguments, context\n"
        "from qcode.tui.opening import open_agent\n"
        f"for model in {models!r}:\n"
        "    given = arguments.parse(['-m', model, '--trust'])\n"
        f"    run = context.run_context(given, pathlib.Path({str(home)!r}), is_attended=True)\n"
        "    agent = open_agent(run, select_at_start(run))\n"
        f"    assert not {{{', '.join(map(repr, SDKS))}}} & set(sys.modules)\n"
        "    agent.warm_up()\n"
        "    agent.release()"
    )
    return among(loaded_after(program), *SDKS)


def test_warm_up_loads_no_sdk_without_a_proxy(tmp_path: Path) -> None:
    assert warmed_up(("openai/x", "anthropic/x", "gemini/x", "demo/demo"), "", tmp_path) == set()


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_warm_up_loads_only_the_sdk_that_is_needed(sdk: str, tmp_path: Path) -> None:
    assert warmed_up((f"{sdk}/x",), PROXY, tmp_path) == {sdk}


@pytest.mark.parametrize(
    ("variable", "row", "is_loaded"),
    [
        ("OPENAI_API_KEY", '{"in": "keyring"}', False),
        ("OPENAI_API_KEY", None, False),
        ("OTHER", '{"in": "file", "key": "kkkkkkkkkkkk"}', False),
        ("OTHER", '{"in": "keyring"}', True),
    ],
)
def test_keyring_loads_only_if_the_key_is_stored_there(
    variable: str, row: str | None, is_loaded: bool, tmp_path: Path
) -> None:
    if row is not None:
        folder = tmp_path / "state" / "credentials"
        folder.mkdir(parents=True, mode=0o700)
        (folder / "keys.json").write_text(f'{{"version": 1, "keys": {{"openai": {row}}}}}')
    program = (
        f"import os; os.environ.clear(); os.environ.update(QCODE_HOME={str(tmp_path)!r}, {variable}='k' * 20)\n"
        f"os.environ['PYTHON_KEYRING_BACKEND'] = 'keyring.backends.fail.Keyring'; os.chdir({str(tmp_path)!r})\n"
        "from pathlib import Path\n"
        "from qcode.protocol import errors\n"
        "from qcode.agent.agent import Agent\n"
        "from qcode.cli import arguments, context\n"
        "run = context.run_context(arguments.parse(['-m', 'openai/x']), Path.cwd(), is_attended=False)\n"
        "try:\n    Agent.begin(run)\n"
        "except errors.QcodeError as error:\n    assert error.exit_code == 41"
    )
    assert among(loaded_after(program), "keyring") == ({"keyring"} if is_loaded else set())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_shot_loads_no_sdk_and_no_http_library(protocol: ProtocolName, tmp_path: Path) -> None:
    variable = {"gemini": "GEMINI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}.get(protocol, "OPENAI_API_KEY")
    with FakeServer(protocol, [Turn(text="hi")]) as server:
        loaded = loaded_after(
            f"import os, sys; os.environ.update({variable}='k' * 20, HOME={str(tmp_path)!r}); sys.stdin = None\n"
            f"sys.argv = ['qcode', '-p', 'hello', '-m', '{protocol}/some-model', '--base-url', {server.base_url!r}]\n"
            "from qcode.__main__ import main\nassert main() == 0"
        )
    assert "qcode.providers.direct" in loaded
    unwanted = ("textual", "rich", "pygments", "anyio", "h11", "email", "html", "http", "urllib.request", "qcode.tui")
    assert among(loaded, *SDKS, *HEAVY, *unwanted, *ON_FIRST_USE) == set()
    assert len(among(loaded, *modules())) <= MAX_ONE_SHOT_MODULES


def test_request_is_sent_before_the_response_parser_loads() -> None:
    """It loads when the first answer is awaited."""
    loaded = loaded_after(
        "import asyncio, sys\n"
        "from qcode.providers.connection import Connection\n"
        "from qcode.providers.direct import DirectClient, PostRequest\n"
        "from qcode.providers.http1 import HttpConnection\n"
        "send, before = HttpConnection.send, []\n"
        "def watched(self, data):\n"
        "    send(self, data)\n"
        "    before.append('httptools' in sys.modules)\n"
        "HttpConnection.send = watched\n"
        "async def serve(reader, writer):\n"
        "    await reader.readuntil(b'{}')\n"
        "    writer.write(b'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok')\n"
        "    writer.close()\n"
        "async def main():\n"
        "    async with await asyncio.start_server(serve, '127.0.0.1', 0) as server:\n"
        "        url = f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}'\n"
        "        async with DirectClient(Connection('acme', url)).open(PostRequest(url, {}, b'{}')) as answer:\n"
        "            assert [piece async for piece in answer.aiter_bytes()] == [b'ok']\n"
        "asyncio.run(main())\n"
        "assert before == [False]"
    )
    assert "httptools" in loaded


CODECS = [
    f"qcode.providers.{name}"
    for name in ("openai.chat", "openai.responses", "anthropic.codec", "gemini.codec", "bedrock.codec")
]


def _of_kind(kind: str) -> list[str]:
    return [name for name in modules() if name.startswith("qcode.providers.") and name.endswith(f".{kind}")]


def test_every_codec_is_checked() -> None:
    assert set(_of_kind("codec")) <= set(CODECS) <= set(modules())


@pytest.mark.parametrize("name", CODECS)
def test_codec_loads_no_sdk_and_no_other_protocol(name: str) -> None:
    loaded = loaded_after(f"import {name}")
    assert among(loaded, *SDKS, *HEAVY) == set()
    assert among(loaded, *CODECS) == {name}


@pytest.mark.parametrize("name", _of_kind("client"))
def test_client_loads_its_sdk_only_when_it_connects(name: str) -> None:
    assert among(loaded_after(f"import {name}"), *SDKS, *HEAVY) == set()


def test_model_lookup_loads_no_sdk() -> None:
    loaded = loaded_after("from qcode.providers.catalog import lookup\nassert lookup('openai', 'gpt-4o')")
    assert among(loaded, *SDKS, *HEAVY) == set()


def test_entry_point_prints_the_package_version() -> None:
    done = subprocess.run([sys.executable, "-m", "qcode", "--version"], capture_output=True, text=True, check=True)
    from qcode import __version__

    assert done.stdout == f"qcode {__version__}\n"


def test_help_survives_a_closed_pipe() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"('{sys.executable}' -m qcode --help; echo $? >&2) | true"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr.strip() in ("0", "141")
