"""Completion scripts, used as a shell uses them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from qcode.cli.completion import keyed_providers, script
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
        (("--permission-mode", "=", "a"), ["accept-edits", "auto"]),
        (("--output-format", "="), ["text", "json", "stream-json"]),
    ],
)
def test_bash_offers_matching_words(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


def program(shell: str) -> str:
    """Return the path of a shell; skip the test if it is not installed."""
    if (found := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    return found


def offered_by(shell: str, words: tuple[str, ...], folder: Path) -> list[str]:
    """Return the words that a shell offers for the last of `words`, in a folder with `notes.txt` and `source/`."""
    (folder / "source").mkdir()
    (folder / "notes.txt").touch()
    if shell == "bash":
        return completed(*words)
    if shell == "fish":
        line = shlex.join(["qcode", *words[:-1]]) + f" {words[-1]}"
        source = f"{script('fish', TAKERS)}\ncomplete -C {shlex.quote(line)}"
        command = [program(shell), "--no-config", "-c", source]
    else:
        # Completion needs an interactive zsh; these functions stand for its own.
        source = f"""
compdef() {{ }}
compset() {{ }}
_files() {{ [[ $1 = -/ ]] && print -l -- */(N) || print -l -- *(N) }}
compadd() {{ shift; print -l -- "$@" }}
{script("zsh", TAKERS)}
words=(qcode "$@"); CURRENT=$(( $# + 1 )); _qcode"""
        command = [program(shell), "-f", "-c", source, "zsh", *words]
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    start = words[-1].rpartition("=")[2] if shell == "zsh" else ""
    return sorted(line.split("\t")[0] for line in done.stdout.splitlines() if line.startswith(start))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("-C", "source", "doc"), ["doctor"]),
        (("--trust", "doc"), ["doctor"]),
        (("-r", "0123", "doc"), ["doctor"]),
        (("--settings", "x", "sessions", "--json", "d"), ["delete"]),
        (("-m", "doctor", "auth", "login", "an"), ["anthropic"]),
        (("-C", "source", "config", "set", "--project", "ui.bell", "t"), ["true"]),
        (("-C", "source", "permissions", "check", "--permission-mode", "p"), ["plan"]),
        (("a prompt", "--max-turn"), ["--max-turns"]),
    ],
    ids=" ".join,
)
def test_shell_finds_the_subcommand_among_flags(
    shell: str, words: tuple[str, ...], offered: list[str], tmp_path: Path
) -> None:
    assert offered_by(shell, words, tmp_path) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("words", [("a prompt", "doc"), ("-p", "doc"), ("--", "doc")], ids=" ".join)
def test_shell_offers_no_subcommand_after_a_prompt(shell: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert "doctor" not in offered_by(shell, words, tmp_path)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shell_offers_paths_for_values_and_only_folders_for_folders(shell: str, tmp_path: Path) -> None:
    assert offered_by(shell, ("--file", ""), tmp_path) == ["notes.txt", "source/" if shell == "fish" else "source"]
    (tmp_path / "source").rmdir()
    (tmp_path / "notes.txt").unlink()
    assert [word.rstrip("/") for word in offered_by(shell, ("-C", ""), tmp_path)] == ["source"]


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
    names = keyed_providers({"QCODE_HOME": str(tmp_path)})
    assert {"mine", "anthropic"} <= set(names)
    assert "demo" not in names


def test_completion_works_with_an_invalid_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("nonsense")
    assert "anthropic" in keyed_providers({"QCODE_HOME": str(tmp_path)})
