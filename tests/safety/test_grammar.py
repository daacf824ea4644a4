"""Whole scripts: what bash runs is among what was read, whatever way it is put together."""

from __future__ import annotations

import shutil
import subprocess
from itertools import dropwhile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qcode.safety.launch.bash_syntax import BashSyntax
from qcode.safety.shell.grammar import LONGEST, read_script
from qcode.safety.shell.script import parts_of
from qcode.safety.shell.words import NotPlain

BASH = shutil.which("bash") or "bash"
PIECES = [
    "a", "b", "x", "-f", "'q'", '"r"', "&&", "||", "|", ";", "(", ")", "{", "}", "!", "if", "then", "else", "fi", "#",
    "<", "<<<", "<<'E'", "<<E", "E", "2>&1", ">/dev/null", ">&2", "\\", "'", '"', "$", "&", "[", "]", "[[", "]]",
    "time", "a&&b", "a|b", "1", "in", "do", "done", "case", "esac", ">", "2", "function",
]  # fmt: skip
SCRIPTS = st.lists(st.sampled_from([*PIECES, " ", " ", "\n", "\n"]), min_size=1, max_size=14)
TEXTS = SCRIPTS.map(" ".join) | SCRIPTS.map("".join)


def _program(folder: Path, name: str) -> None:
    """Two may run at once, so that each writes its line in one piece."""
    (folder / name).write_text(f'#!{BASH}\nprintf -v line "%s\\037" {name} "$@"\nprintf "%s\\036" "$line" >> "$LOG"\n')
    (folder / name).chmod(0o755)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS)
def test_bash_runs_nothing_that_was_not_read(tmp_path: Path, text: str) -> None:
    """Run scripts over two programs that write down how they were called."""
    try:
        parts = parts_of(read_script(text), "/")
    except NotPlain:
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
    read = [[word.text for word in part.command.words] for part in parts]
    # `time` is a word of the shell before a command, and no program here.
    known = [list(dropwhile(lambda word: word == "time", words)) for words in read]
    ran = [line.split("\x1f")[:-1] for line in log.read_text().split("\x1e") if line]
    assert [words for words in ran if words not in known] == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "piece", ["(", "{ ", "! ", "[ ", "$(", "<<A ", "a|", "a;", "a&&", "'", '"', "`", "if ", "((a", "<", "${"]
)
def test_a_very_long_or_deep_command_is_refused_or_read_without_a_crash(piece: str) -> None:
    text = (piece * LONGEST)[: LONGEST - 1]
    try:
        parts_of(read_script(text), "/")
    except NotPlain as refused:
        assert str(refused)
