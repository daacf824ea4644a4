"""Texts of the command line that need no model: help, completion, and the small commands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.e2e.running import KEY
from tests.pins.golden import Golden
from tests.pins.runner import PinRunner
from tests.pins.test_runs import report

COMMANDS: Sequence[str] = ("auth", "config", "doctor", "mcp", "models", "permissions", "sessions", "themes", "trust")
RICH_CONFIG = """
model = "local/qwen3-coder"
small_model = "openai/gpt-5-mini"
[output]
max_continuations = 5
[permissions]
allow = ["shell(git log *)", "fetch(docs.python.org)"]
ask = ["shell(git push *)"]
deny = ["edit(vendor/**)"]
[providers.local]
type = "openai"
base_url = "http://localhost:8000/v1"
api_key_env = "LOCAL_KEY"
idle_timeout_s = 600
headers = { X-Team = "secret" }
[models."local/qwen3-coder"]
context_window = 131072
max_output_tokens = 32768
output = { max_continuations = 2 }
price = { input = 0.5, output = 2.0 }
[mcp_servers.calc]
command = "no-such-program"
args = ["--serve"]
"""
SMALL_MODEL: dict[str, Sequence[str]] = {
    "version": ("--version",),
    "config-path": ("config", "path"),
    "config-show": ("config", "show"),
    "themes": ("themes",),
    "models-part": ("models", "/claude-sonnet-4"),
    "models-unknown": ("models", "no-such-model"),
    "models-forget": ("models", "forget"),
    "auth-status": ("auth", "status"),
    "auth-logout": ("auth", "logout", "openai"),
    "mcp-list": ("mcp", "list"),
    "mcp-show": ("mcp", "show", "calc"),
    "permissions-list": ("permissions", "list"),
    "permissions-check": ("permissions", "check", "shell", "git log -3 && git push"),
    "permissions-check-write": ("permissions", "check", "write", "vendor/x.py"),
    "permissions-check-fetch": ("permissions", "check", "fetch", "https://docs.python.org/3/"),
    "trust-show": ("trust", "show"),
    "trust-accept": ("trust", "accept"),
    "trust-list": ("trust", "list"),
    "trust-forget": ("trust", "forget"),
    "sessions-none": ("sessions", "list"),
    "sessions-unknown": ("sessions", "show", "20240101-000000-abcd"),
}
OF_CONFIGURATION = tuple(
    name
    for name in SMALL_MODEL
    if name.split("-")[0] in ("config", "auth", "mcp", "permissions") or name == "trust-show"
)
WRONG: Sequence[Sequence[str]] = tuple((name, "no-such-action", "x", "y") for name in COMMANDS)


def test_help(cli: PinRunner, golden: Golden) -> None:
    done = cli.run("--help")
    golden.check_text("texts/help.txt", report("qcode --help", done, cli))
    for arguments in (("-h",), ("-p", "--help")):
        assert cli.run(*arguments) == done, f"{arguments} prints another help"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, cli: PinRunner, golden: Golden) -> None:
    done = cli.run("--completion", shell)
    assert (done.code, done.err) == (0, "")
    golden.check_text(f"texts/completion.{shell}", done.out)


def test_small_commands_without_configuration(cli: PinRunner, golden: Golden) -> None:
    sections = [report(" ".join(arguments), cli.run(*arguments), cli) for arguments in SMALL_MODEL.values()]
    golden.check_text("texts/small-commands.txt", "\n".join(sections))


def test_small_commands_with_configuration(cli: PinRunner, golden: Golden) -> None:
    (cli.config / "config.toml").write_text(RICH_CONFIG)
    (cli.work / ".qcode").mkdir()
    (cli.work / ".qcode/config.toml").write_text('[permissions]\nask = ["shell(make *)"]\n')
    (cli.work / "AGENTS.md").write_text("Use tabs.\n")
    env = {"OPENAI_API_KEY": KEY, "LOCAL_KEY": KEY, "QCODE_MAX_OUTPUT_TOKENS": "9000"}
    commands = [SMALL_MODEL[name] for name in OF_CONFIGURATION]
    sections = [report(" ".join(arguments), cli.run(*arguments, env=env), cli) for arguments in commands]
    golden.check_text("texts/small-commands-configured.txt", "\n".join(sections))


def test_small_commands_given_wrong_arguments(cli: PinRunner, golden: Golden) -> None:
    sections = [report(" ".join(arguments), cli.run(*arguments), cli) for arguments in WRONG]
    golden.check_text("texts/wrong-arguments.txt", "\n".join(sections))


def test_models(cli: PinRunner, golden: Golden) -> None:
    golden.check_text("texts/models.txt", report("models", cli.run("models"), cli))


def test_doctor(cli: PinRunner, golden: Golden) -> None:
    """The parts that a machine or a terminal decides are left out."""
    done = cli.run("doctor")
    kept, is_kept = [], False
    for line in done.out.splitlines():
        if not line.startswith(" "):
            is_kept = line in ("folder", "configuration", "credentials", "learned limits")
        kept.append(line if is_kept or not line.startswith(" ") else "  <MACHINE>")
    deduplicated = [line for at, line in enumerate(kept) if at == 0 or line != kept[at - 1]]
    text = f"exit {done.code}\n" + "\n".join(deduplicated) + "\n"
    golden.check_text("texts/doctor.txt", cli.normalized(text) + cli.normalized(done.err))


def test_paths_without_a_folder_for_everything(cli: PinRunner, golden: Golden) -> None:
    sections = []
    for title, env in (
        ("home", {"QCODE_HOME": ""}),
        ("XDG", {"QCODE_HOME": "", "XDG_CONFIG_HOME": str(cli.home / "xdg")}),
    ):
        sections.append(report(title, cli.run("config", "path", env=env), cli))
    golden.check_text("texts/paths.txt", "\n".join(sections))
