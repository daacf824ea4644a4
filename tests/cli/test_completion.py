"""Completion scripts, used as a shell uses them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from qcode.cli.completion import key_takers, script
from qcode.cli.flags import FLAGS, SUBCOMMANDS

NAMES = [name for flag in FLAGS for name in flag.names]
TAKERS = ("anthropic", "openai", "mine")


def completed(*words: str) -> list[str]:
    """Return the words that bash offers for the last of `words` after sourcing the script."""
    asking = 'COMP_WORDS=(qcode "$@"); COMP_CWORD=$#; _qcode || true; printf "%s\\n" "${COMPREPLY[@]}"'
    program = f"{script('bash', TAKERS)}\n{asking}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-uc", program, "bash", *words], capture_output=True, text=True, timeout=30
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("--max-t",), ["--max-turns", "--max-tool-calls", "--max-thinking-tokens"]),
        (("-o", ""), ["text", "json", "stream-json"]),
        (("-p", "x", "--permission-mode", "a"), ["accept-edits", "auto"]),
        (("se",), ["sessions"]),
        (("sessions", "d"), ["delete"]),
        (("auth", "l"), ["login", "logout"]),
        (("auth", "login", "an"), ["anthropic"]),
        (("auth", "login", "m"), ["mine"]),
        (("auth", "login", "mine", "--"), ["--no-check", "--cwd", "--trust", "--settings", "--json"]),
        (("config", "set", "ui.b"), ["ui.bell"]),
        (("config", "set", "ui.bell", ""), ["true", "false"]),
        (("config", "set", "permissions.mode", "a"), ["accept-edits", "auto"]),
        (("config", "set", "model", ""), []),
        (("config", "unset", "ui.vi"), ["ui.vim"]),
        (("config", "set", "--pro"), ["--project"]),
        (("permissions", ""), ["list", "check", "hook"]),
        (("permissions", "check", ""), ["shell", "read", "write", "fetch"]),
        (("permissions", "check", "--js"), ["--jsonl", "--json"]),
        (("permissions", "check", "--permission-mode", "p"), ["plan"]),
        (("-p", "auth", ""), []),
        (("--input-format", ""), ["text", "stream-json"]),
        (("--json-sch",), ["--json-schema"]),
        (("--file", ""), []),
        (("-p", ""), []),
    ],
)
def test_bash_offers_matching_words(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_bash_offers_every_flag() -> None:
    assert set(completed("-")) == set(NAMES)


def test_bash_registers_the_function() -> None:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", f"{script('bash', TAKERS)}\ncomplete -p qcode qcode-cli"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == "".join(f"complete -o default -F _qcode {name}\n" for name in ("qcode", "qcode-cli"))


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_flag(shell: str) -> None:
    words = set(script(shell, TAKERS).replace('"', " ").split())
    for flag in NAMES:
        assert flag in words or flag.lstrip("-") in words


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_config_keys(shell: str) -> None:
    words = set(script(shell, TAKERS).replace('"', " ").replace("'", " ").split())
    assert {"ui.bell", "output.max_tokens", "accept-edits"} <= words
    assert not any("NAME" in word for word in words)


def test_every_subcommand_is_offered() -> None:
    assert completed("") == list(SUBCOMMANDS)


def test_configured_providers_are_completed_for_login(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[providers.mine]\ntype = "openai"\nbase_url = "http://localhost:1/v1"\n')
    names = key_takers({"QCODE_HOME": str(tmp_path)})
    assert {"mine", "anthropic"} <= set(names)
    assert "demo" not in names


def test_completion_works_with_an_invalid_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("nonsense")
    assert "anthropic" in key_takers({"QCODE_HOME": str(tmp_path)})
