"""Completion scripts, used as a shell uses them."""

from __future__ import annotations

import subprocess

import pytest

from qcode.cli.arguments import option_strings
from qcode.cli.completion import script


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last of `words` after sourcing the script."""
    asking = 'COMP_WORDS=(qcode "$@"); COMP_CWORD=$#; _qcode || true; printf "%s\\n" "${COMPREPLY[@]}"'
    program = f"{script('bash')}\n{asking}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-uc", program, "bash", *words], capture_output=True, text=True, timeout=30
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("--max-t",), ["--max-turns", "--max-tool-calls"]),
        (("-o", ""), ["text", "json", "stream-json"]),
        (("-p", "x", "--permission-mode", "a"), ["accept-edits", "auto"]),
        (("se",), ["sessions"]),
        (("sessions", "d"), ["delete"]),
        (("auth", "l"), ["login", "logout"]),
        (("auth", "login", "an"), ["anthropic"]),
        (("--file", ""), []),
        (("-p", ""), []),
    ],
)
def test_bash_offers_what_fits(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_bash_offers_every_flag() -> None:
    assert set(completed("-")) == set(option_strings())


def test_bash_registers_the_function() -> None:
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", f"{script('bash')}\ncomplete -p qcode"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == "complete -o default -F _qcode qcode\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_flag(shell: str) -> None:
    words = set(script(shell).replace('"', " ").split())
    for flag in option_strings():
        assert flag in words or flag.lstrip("-") in words
