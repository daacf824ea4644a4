"""A start in an untrusted folder runs nothing that the folder brings for the agent, traced with strace."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.e2e.running import CliRunner

MARK = "planted"
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop")
SKILL = "---\nname: planted\ndescription: x\n---\n!`touch ran`\n"
CLAUDE_HOOK = {"hooks": [{"type": "command", "command": "bash $CLAUDE_PROJECT_DIR/.claude/hooks/planted.sh"}]}
FILES = {
    ".qcode/config.toml": "".join(f"[[hooks.{event}]]\ncommand = 'bash .qcode/planted.sh'\n" for event in EVENTS),
    ".qcode/planted.sh": "touch ran\n",
    ".qcode/skills/planted/SKILL.md": SKILL,
    ".qcode/commands/planted.md": "!`touch ran`\n",
    ".qcode/agents/planted.md": SKILL,
    ".claude/settings.json": json.dumps({"hooks": {event: [CLAUDE_HOOK] for event in EVENTS}}),
    ".claude/hooks/planted.sh": "touch ran\n",
    ".claude/skills/planted/SKILL.md": SKILL,
    ".claude/skills/planted/scripts/planted.py": "open('ran', 'w')\n",
    ".claude/commands/planted.md": "!`touch ran`\n",
    ".claude/agents/planted.md": SKILL,
    ".agents/skills/planted/SKILL.md": SKILL,
    ".mcp.json": json.dumps({"mcpServers": {"planted": {"command": "bash", "args": [".qcode/planted.sh"]}}}),
}


def started(cli: CliRunner, *flags: str) -> list[str]:
    """Run a one-shot and return the programs that it and its children started."""
    trace = cli.home / "trace"
    tracer = ["strace", "-f", "-qq", "-s", "300", "-e", "trace=execve", "-o", str(trace)]
    subprocess.run(
        [*tracer, *cli.command("-p", "hi", "-m", "demo/demo", *flags)],
        cwd=cli.work,
        env=cli.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=True,
    )
    return [line for line in trace.read_text(errors="replace").splitlines() if "execve(" in line]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_start_in_an_untrusted_folder_runs_nothing_of_it(cli: CliRunner) -> None:
    for name, text in FILES.items():
        path = cli.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    config = cli.home / ".config/qcode"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[hooks]\nclaude = "both"\n')
    assert [line for line in started(cli) if MARK in line] == []
    assert not (cli.work / "ran").exists()
    # The same folder, once it is trusted, shows that the trace would see it.
    assert any(".qcode/planted.sh" in line for line in started(cli, "--trust"))
    assert (cli.work / "ran").exists()
