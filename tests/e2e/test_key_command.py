"""`api_key_command`: a key from a command, in a run over real HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from qcode.config.paths import CONFIG_NAME
from tests.e2e.running import CliRunner, Finished
from tests.fakes.server import FakeServer
from tests.fakes.turns import Turn

CANARY = "sk-canary-0123456789abcdef"


def ask(cli: CliRunner, server: FakeServer, command: str, *flags: str) -> Finished:
    (cli.home / CONFIG_NAME).write_text(
        f'[providers.lab]\ntype = "openai"\nbase_url = "{server.base_url}"\napi_key_command = {command}\n'
    )
    return cli.run("-m", "lab/m", "-p", "hi", *flags, env={"QCODE_HOME": str(cli.home)})


@pytest.mark.parametrize("command", [f"'echo {CANARY}'", f'["echo", "{CANARY}"]'])
def test_key_of_a_command_is_sent_and_shown_nowhere(cli: CliRunner, tmp_path: Path, command: str) -> None:
    log = tmp_path / "debug.log"
    with FakeServer("openai", [Turn(text=f"the key is {CANARY}")], api_key=CANARY) as server:
        done = ask(cli, server, command, "-v", "--debug-log", str(log))
    assert done.code == 0
    assert done.out == f"the key is {CANARY}\n"
    assert CANARY not in done.err
    assert CANARY not in log.read_text()


def test_failed_key_command_is_reported_in_one_line(cli: CliRunner) -> None:
    with FakeServer("openai", []) as server:
        done = ask(cli, server, '["sh", "-c", "echo locked >&2; exit 2"]')
    assert (done.code, done.out) == (41, "")
    assert done.err == "qcode: providers.lab.api_key_command failed: exit code 2: locked\n"


def test_refused_key_names_the_command(cli: CliRunner) -> None:
    with FakeServer("openai", [], api_key="other") as server:
        done = ask(cli, server, "'echo wrong'")
    assert done.code == 41
    assert "providers.lab.api_key_command" in done.err


def test_status_names_the_command_without_running_it(cli: CliRunner) -> None:
    with FakeServer("openai", []) as server:
        ask(cli, server, "'touch ran'")
        (cli.home / "ran").unlink()
    done = cli.run("auth", "status", "lab", env={"QCODE_HOME": str(cli.home)})
    assert (done.code, done.out) == (0, "lab  the command in providers.lab.api_key_command\n")
    assert not (cli.home / "ran").exists()


def test_project_cannot_set_a_command(cli: CliRunner) -> None:
    file = cli.work / ".qcode" / CONFIG_NAME
    file.parent.mkdir()
    file.write_text('[providers.openai]\napi_key_command = "touch ran"\n')
    done = cli.run("-m", "openai/m", "-p", "hi", "--trust")
    assert done.code == 52
    assert f"{file}:2: a project may not set providers.openai.api_key_command" in done.err
