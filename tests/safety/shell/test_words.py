"""The reader of plain shell commands agrees with bash, or refuses."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.safety.shell.ast import SimpleCommand, UnsupportedSyntax
from qcode.safety.shell.judge import read_flow
from tests.fakes.examples import share

BASH = shutil.which("bash") or "bash"
# No letter that could name a program: a wrong reading can run nothing.
SHELL_TEXT = st.text(alphabet="ab01é字\u0301 '\"\\$`;|&#~{}()*?[]!<>=@.,/-\n\t", max_size=14)


def parse(command: str) -> list[SimpleCommand]:
    return [part.command for part in read_flow(command, "/").parts]


def _words(command: str) -> list[list[str]]:
    return [[word.text for word in part.words] for part in parse(command)]


@settings(max_examples=share(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SHELL_TEXT)
def test_words_are_those_that_bash_gets(tmp_path: Path, text: str) -> None:
    """Print the words through bash in an empty folder and compare them with the parsed ones."""
    try:
        commands = parse(f"printf '%s\\0' {text}")
    except UnsupportedSyntax:
        return
    if len(commands) != 1 or commands[0].inputs or commands[0].outputs or "<" in text:
        return
    folder = tmp_path / "empty"
    folder.mkdir(exist_ok=True)
    argv = [BASH, "--noprofile", "--norc", "-f", "-c", f"printf '%s\\0' {text}"]
    done = subprocess.run(argv, cwd=folder, env={"PATH": "", "HOME": "~"}, capture_output=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    expected = [word.text for word in commands[0].words[2:]]
    if ">" not in text and all(word.is_known for word in commands[0].words):
        assert done.stdout.decode() == "".join(f"{word}\0" for word in expected or [""])
    assert list(folder.iterdir()) == []


@given(st.text(max_size=40) | SHELL_TEXT)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        commands = parse(text)
    except UnsupportedSyntax as refused:
        assert str(refused)
    else:
        assert commands
        assert all(part.words for part in commands)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls -la 'a b' \"c d\" e\\ f", [["ls", "-la", "a b", "c d", "e f"]]),
        ("a|b && c || d; e", [["a"], ["b"], ["c"], ["d"], ["e"]]),
        ("a # b; c\nd", [["a"], ["d"]]),
        ("a &&\n b", [["a"], ["b"]]),
        ("a 2>/dev/null 2>&1 >/dev/null", [["a"]]),
        ("a x2>&1", [["a", "x2"]]),
        ("git show HEAD@{1} HEAD~1..HEAD", [["git", "show", "HEAD@{1}", "HEAD~1..HEAD"]]),
        ('a "x\\y\\$\\""', [["a", 'x\\y$"']]),
        ('a "(b|c$)$" "$|x"', [["a", "(b|c$)$", "$|x"]]),
    ],
)
def test_plain_commands_are_parsed(command: str, words: list[list[str]]) -> None:
    assert _words(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "", " ", "a &", "a | ", "&& a", "a ;; b", "a |& b", "((a))", "{ a; }x{1,2}", "a $b", "a `b$(c)`",
        "a >(b)", "a `b\\``", "a $((x))",
        "a <<< $b",
        "a << b", "a >| f", "a <> f", "a 3>&1", "a ~root", "a x=~/b", "a $'x'", "a 'x", 'a "x',
        "a\\\nb", "a\rb", "a\x00b", "a\u00a0b", "a \uff1bb", "a 'x\u200by'", "a [b]", "a l\\s", "a >&f", "a @(b)",
        "a ]b", 'a "$ b"', 'a "$$"', 'a "$("', 'a "$[1]"', 'a "$/"', 'a b$', 'a "$`', 'a "\\$$|x$y"',
        "a '*'*", "a ;& b", "a\n| b", "x" * 30_000,
    ],
)  # fmt: skip
def test_other_syntax_is_refused(command: str) -> None:
    with pytest.raises(UnsupportedSyntax):
        parse(command)
