"""The public hooks of Claude Code run unchanged, read from settings of Claude by `hooks.claude`.

`QCODE_FIXTURES=DIR` names the folder of clones with `DIR/anthropics+claude-code`; without it they are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.running import KEY_VARIABLES, CliRunner
from tests.fakes.server import FakeServer
from tests.fakes.turns import Call, ReceivedRequest, Turn

pytestmark = pytest.mark.broad
KEY = "sk-canary-0123456789abcdef"
EXAMPLES = "plugins/plugin-dev/skills/hook-development/examples"
BLOCK_RM = "plugins/hookify/examples/dangerous-rm.local.md"


@pytest.fixture
def clone() -> Path:
    fixtures = os.environ.get("QCODE_FIXTURES")
    if not fixtures or not (folder := Path(fixtures) / "anthropics+claude-code").is_dir():
        pytest.skip("QCODE_FIXTURES names no folder with anthropics+claude-code")
    return folder


class Play:
    """One prompt in pipe mode, in which the model makes `calls` in one step and then says "All done."."""

    def __init__(self, cli: CliRunner, *calls: Call, settings: object) -> None:
        self.asked: list[ReceivedRequest] = []
        (cli.home / ".claude").mkdir(exist_ok=True)
        (cli.home / ".claude/settings.json").write_text(json.dumps(settings))
        config = cli.home / ".config/qcode"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text('[hooks]\nclaude = "own"\n')

        def answer(asked: ReceivedRequest) -> Turn:
            self.asked.append(asked)
            return Turn(text="All done.") if asked.results or not calls else Turn(calls=list(calls))

        with FakeServer("openai", answer) as server:
            flags = ("-v", "-m", "openai/test-model", "--base-url", server.base_url, "--trust")
            env = {KEY_VARIABLES["openai"]: KEY}
            self.done = cli.run("-p", "go", "--permission-mode", "bypass", *flags, env=env)

    @property
    def results(self) -> str:
        return "\n".join(str(result) for result in self.asked[-1].results)


def hook(event: str, command: str) -> object:
    return {"hooks": {event: [{"hooks": [{"type": "command", "command": command, "timeout": 60}]}]}}


def plugin(clone: Path, name: str) -> object:
    """Return the settings of a plugin. Claude Code replaces the variable by the plugin's folder, and exports it."""
    folder = clone / "plugins" / name
    text = (folder / "hooks/hooks.json").read_text().replace("${CLAUDE_PLUGIN_ROOT}", str(folder))
    return json.loads(text.replace('"command": "', f'"command": "export CLAUDE_PLUGIN_ROOT={folder}; '))


def shell(command: str) -> Call:
    return Call("shell", json.dumps({"command": command}), "c1")


def write(path: str, content: str) -> Call:
    return Call("write", json.dumps({"path": path, "content": content}), "c1")


@pytest.mark.parametrize(("command", "is_blocked"), [("grep -r x .", True), ("echo made > made", False)])
def test_command_validator_blocks_grep_only(cli: CliRunner, clone: Path, command: str, is_blocked: bool) -> None:
    program = clone / "examples/hooks/bash_command_validator_example.py"
    play = Play(cli, shell(command), settings=hook("PreToolUse", f"python3 {program}"))
    assert ("Use 'rg' (ripgrep) instead" in play.results) is is_blocked
    assert (cli.work / "made").exists() is not is_blocked


def test_hookify_blocks_what_a_rule_of_the_project_names(cli: CliRunner, clone: Path) -> None:
    (cli.work / ".claude").mkdir()
    (cli.work / ".claude/hookify.rm.local.md").write_text((clone / BLOCK_RM).read_text())
    (cli.work / "kept").mkdir()
    play = Play(cli, shell("rm -rf kept"), settings=plugin(clone, "hookify"))
    assert "Denied: a hook denied the call" in play.results
    assert "Dangerous rm command detected!" in play.done.err
    assert (cli.work / "kept").is_dir()


def test_security_guidance_warns_the_model_of_code_it_wrote(cli: CliRunner, clone: Path) -> None:
    play = Play(cli, write("a.py", "import os\nos.system(name)\n"), settings=plugin(clone, "security-guidance"))
    assert (cli.work / "a.py").exists()
    assert "os.system() runs a shell" in play.results


def test_explanatory_style_adds_its_context_at_the_start(cli: CliRunner, clone: Path) -> None:
    play = Play(cli, settings=plugin(clone, "explanatory-output-style"))
    assert "explanatory" in json.dumps(play.asked[0].body).casefold()


@pytest.mark.parametrize(
    ("script", "blocked", "reason", "allowed"),
    [
        ("validate-bash.sh", shell("rm -rf /"), "Dangerous command detected", shell("ls")),
        ("validate-write.sh", write("../x", "x"), "Path traversal detected", write("ok.txt", "x")),
    ],
)
def test_script_of_plugin_dev_denies_what_it_names(
    cli: CliRunner, clone: Path, script: str, blocked: Call, reason: str, allowed: Call
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed, which the scripts use")
    settings = hook("PreToolUse", f"bash {clone / EXAMPLES / script}")
    assert reason in Play(cli, blocked, settings=settings).results
    assert "Denied" not in Play(cli, allowed, settings=settings).results


def test_loop_of_ralph_wiggum_ends_the_session_when_it_is_over(cli: CliRunner, clone: Path) -> None:
    state = cli.work / ".claude/ralph-loop.local.md"
    state.parent.mkdir()
    state.write_text("---\niteration: 3\nmax_iterations: 3\ncompletion_promise: null\n---\n\ncontinue\n")
    play = Play(cli, settings=plugin(clone, "ralph-wiggum"))
    assert play.done.code == 0
    assert not state.exists()
