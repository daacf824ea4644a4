"""The same keys in vim itself and in `Vim`, for comparison: text, cursor and unnamed register after every command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

from qcode.tui.prompt.vim.machine import Vim
from qcode.tui.prompt.vim.motions import is_line_end, line_start
from qcode.tui.prompt.vim.operators import Register

VIM = shutil.which("vim")

ESCAPE, REDO = "\x1b", "\x12"
_KEYS = {ESCAPE: "escape", REDO: "ctrl+r"}

_SCRIPT = r"""
set nocompatible shiftwidth=4 expandtab nojoinspaces noautoindent encoding=utf-8 cpoptions+=% undolevels=1000 nomore
let cases = json_decode(join(readfile('CASES'), ''))
let answers = []
for [text, row, column, commands] in cases
  enew!
  set undolevels=-1
  call setline(1, 'RR')
  call feedkeys("\"ayiwfqA1\<Esc>u", 'tx')
  %delete _
  call setline(1, text)
  set undolevels=1000
  call cursor([row, 1])
  call setcursorcharpos(row, column)
  let states = []
  for command in commands
    silent! call feedkeys(command, 'tx')
    call add(states, [getline(1, '$'), line('.'), charcol('.'), getreg('"'), getregtype('"')])
  endfor
  call add(answers, states)
endfor
call writefile([json_encode(answers)], 'ANSWERS')
qa!
"""


@dataclass(frozen=True)
class Case:
    """A text, a cursor as an offset, and typed commands."""

    text: str
    cursor: int
    commands: tuple[str, ...]


@dataclass(frozen=True)
class State:
    text: str
    cursor: int
    register: Register


def in_vim(cases: Sequence[Case], folder: Path) -> list[list[State]]:
    """Return the state after each command of each case, from one process of vim."""
    assert VIM is not None
    given, answered, script = folder / "cases.json", folder / "answers.json", folder / "script.vim"
    values = []
    for case in cases:
        start = line_start(case.text, case.cursor)
        row, column = case.text.count("\n", 0, case.cursor) + 1, case.cursor - start + 1
        values.append([case.text.split("\n"), row, column, case.commands])
    given.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    script.write_text(_SCRIPT.replace("CASES", str(given)).replace("ANSWERS", str(answered)), encoding="utf-8")
    subprocess.run(
        [VIM, "-es", "-Nu", "NONE", "-i", "NONE", "-n", "-S", str(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
        env={"LC_ALL": "C.UTF-8", "HOME": str(folder), "PATH": "/usr/bin:/bin"},
    )
    answers = json.loads(answered.read_text(encoding="utf-8"))
    assert len(answers) == len(cases)
    return [[_state(*state) for state in states] for states in answers]


def _state(lines: list[str], row: int, column: int, register: str, kind: str) -> State:
    cursor = sum(len(line) + 1 for line in lines[: row - 1]) + column - 1
    is_lines = kind == "V"
    return State("\n".join(lines), cursor, Register(register.removesuffix("\n") if is_lines else register, is_lines))


class Typist:
    """Types keys into a text that belongs to a `Vim`, as the prompt does: in insert mode it edits the text itself."""

    def __init__(self, text: str, cursor: int) -> None:
        self.text, self.cursor = "RR", 0
        self.vim = Vim(cell_len)
        self.press("escape")
        self.type(f'"ayiwfqA1{ESCAPE}u')
        self.text, self.cursor = text, cursor
        self.vim.reset(text, cursor)
        self.vim.press("escape", text, cursor + 1)

    def type(self, keys: str) -> None:
        for key in keys:
            self.press(_KEYS.get(key, key))

    def press(self, key: str) -> None:
        if self.vim.mode == "insert" and key != "escape":
            index = self.cursor
            if key == "\b":
                self.text, self.cursor = self.text[: max(0, index - 1)] + self.text[index:], max(0, index - 1)
            else:
                self.text, self.cursor = self.text[:index] + key + self.text[index:], index + 1
            return
        edited = self.vim.press(key, self.text, self.cursor)
        if edited is not None:
            self.text, self.cursor = edited.text, edited.cursor

    @property
    def state(self) -> State:
        return State(self.text, self.cursor, self.vim.register())


def in_ours(case: Case) -> list[State]:
    typist = Typist(case.text, case.cursor)
    states = []
    for command in case.commands:
        typist.type(command)
        # vim ends an unfinished command, too, when the keys end.
        if typist.vim.mode != "normal" or typist.vim.pending:
            typist.press("escape")
        states.append(typist.state)
    return states


def starts(text: str) -> list[int]:
    """Return the offsets on which the cursor of normal mode can rest."""
    return [index for index in range(len(text) + 1) if not is_line_end(text, index) or index == line_start(text, index)]


def shown(case: Case) -> str:
    return f"{case.text!r} at {case.cursor}, " + " then ".join(
        re.sub("\x1b", "<Esc>", command) for command in case.commands
    )
