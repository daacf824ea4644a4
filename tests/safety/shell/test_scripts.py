"""Whole scripts: bash runs only commands that the parser found, in any combination of syntax."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import dropwhile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.safety.launcher import BashSyntax
from qcode.safety.shell.ast import PLACEHOLDER, UnsupportedSyntax, Word
from qcode.safety.shell.judge import read_flow
from tests.fakes.examples import share

BASH = shutil.which("bash") or "bash"
PIECES = [
    "a", "b", "x", "-f", "'q'", '"r"', "&&", "||", "|", ";", "(", ")", "{", "}", "!", "if", "then", "else", "fi", "#",
    "<", "<<<", "<<'E'", "<<E", "E", "2>&1", ">/dev/null", ">&2", "\\", "'", '"', "$", "&", "[", "]", "[[", "]]",
    "time", "a&&b", "a|b", "1", "in", "do", "done", "case", "esac", ">", "2", "function", "é", "ａ", "－", "；", "²",
]  # fmt: skip
FILLED = [
    "$(", ")", "`", "$x", '"$x"', "${x}", "$?", "$((1+2))", "{a,b}", "x{1..3}", "<(", "for x in", "; do", "; done",
    "while read -r x", "a", "b", "-f", '"', "'", "|", ";", "&&", "<", "elif", "fi", "if", "then", "[[", "]]",
    "#", "x=b", "é", "字=",
]  # fmt: skip
BODIES = st.sampled_from(["a $x", 'b "$x"', "a x$x", "$x", '"$x"', "a `b $x`", "a {x,$x}", "b <<< $x", 'a "$(b $x)"'])
LOOPS = st.builds(
    "{}for x in {}; do {}; {}; done{}".format,
    st.sampled_from(["", "a | ", "! "]),
    st.sampled_from(["a b", "$(a)", '"b x" -f', "`b`", "{1..2}", "'*'", "q\\ r ; a"]),
    BODIES,
    BODIES,
    st.sampled_from(["", " | b", "; a $x", " 2>&1", " # x"]),
) | st.builds("a y | while read -r x; do {}; done{}".format, BODIES, st.sampled_from(["", "; b", " < <(b)", "\n`a`"]))
SCRIPTS = st.lists(st.sampled_from([*PIECES, " ", " ", "\n", "\n"]), min_size=1, max_size=14)
HOLES = st.lists(st.sampled_from([*FILLED, " ", "\n"]), min_size=2, max_size=14)
TEXTS = SCRIPTS.map(" ".join) | SCRIPTS.map("".join) | HOLES.map(" ".join) | HOLES.map("".join) | LOOPS


def _program(folder: Path, name: str) -> None:
    """Write a program that logs its arguments in one write, since two may run at once. It prints another command."""
    (folder / name).write_text(
        f'#!{BASH}\nprintf -v line "%s\\037" {name} "$@"\nprintf "%s\\036" "$line" >> "$LOG"\necho "b; a -y" "*"\n'
    )
    (folder / name).chmod(0o755)


def _pattern(word: Word) -> str:
    """Return a pattern for the arguments of a word: any text for unknown parts, any words if it may be several."""
    if word.may_be_several:
        return r"(?:[^\x1f]*\x1f)*"
    fixed = (re.escape(piece) for piece in word.text.split(PLACEHOLDER)) if word.unknown else [re.escape(word.text)]
    return r"[^\x1f]*".join(fixed) + r"\x1f"


@settings(max_examples=share(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_bash_runs_only_the_commands_that_were_parsed(tmp_path: Path, text: str) -> None:
    """Run scripts over two programs that write down how they were called."""
    try:
        parts = read_flow(text, "/").parts
    except UnsupportedSyntax:
        return
    if BashSyntax("", ())(text) or any(part.command.outputs for part in parts):
        return
    programs, log, folder = tmp_path / "programs", tmp_path / "log", tmp_path / "empty"
    if not programs.is_dir():
        programs.mkdir()
        folder.mkdir()
        _program(programs, "a")
        _program(programs, "b")
    log.write_text("")
    subprocess.run(
        [BASH, "--noprofile", "--norc", "-f", "-c", text],
        cwd=folder,
        env={"PATH": str(programs), "LOG": str(log)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=20,
    )
    # `time` is a word of the shell before a command, and no program here.
    read = [dropwhile(lambda word: word.text == "time", part.command.words) for part in parts]
    known = re.compile("|".join(f"(?:{''.join(map(_pattern, words))})" for words in read), re.DOTALL)
    ran = [line for line in log.read_text().split("\x1e") if line]
    assert [line for line in ran if known.fullmatch(line) is None] == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "piece", ["(", "{ ", "! ", "[ ", "$(", "<<A ", "a|", "a;", "a&&", "'", '"', "`", "if ", "((a", "<", "${"]
)
def test_very_long_or_deep_command_is_refused_or_read_without_a_crash(piece: str) -> None:
    text = (piece * 2_000)[:1_999]
    try:
        assert read_flow(text, "/").parts
    except UnsupportedSyntax as refused:
        assert str(refused)
