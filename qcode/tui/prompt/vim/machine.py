"""The state machine of vim's modes: a key changes a text and its cursor. Pure.

In insert mode the text area edits the text and passes only Esc to `Vim.press`. In the other modes the area passes every
key; `Vim.press` returns None for keys without a meaning in vim. Undo also covers changes that the area made (typing, a
paste, the history). Each `Vim` has its own undo history, last change and registers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from qcode.tui.prompt.vim import motions, operators
from qcode.tui.prompt.vim.cursor import MovingCursor
from qcode.tui.prompt.vim.grammar import LINES, SELECTION, InvalidKeysError, VimCommand, parse
from qcode.tui.prompt.vim.motions import (
    END_OF_LINE,
    first_non_blank,
    is_line_end,
    line_end,
    line_start,
    normal_cursor,
)
from qcode.tui.prompt.vim.objects import more_words, paragraph_rows, text_object
from qcode.tui.prompt.vim.operators import ChangedText, Region, Register
from qcode.tui.prompt.vim.undo import UndoHistory, difference
from qcode.values import dataclass

Mode: TypeAlias = Literal["insert", "normal", "visual", "visual line"]

_INSERTING = frozenset({"i", "a", "I", "A", "o", "O"})


@dataclass(frozen=True, slots=True)
class _SelectionSize:
    """The size of a selection: `.` repeats an operator of visual mode on a range of this size."""

    lines: int
    characters: int
    """The number of characters that are selected in the last line."""
    is_lines: bool
    """Whole lines were selected."""


@dataclass(frozen=True, slots=True)
class _Insertion:
    """The time from entering insert mode to leaving it."""

    command: VimCommand
    """The command that entered insert mode."""
    before: str
    """The text before the cursor at that moment."""
    after: str
    """The text after the cursor at that moment."""


@dataclass(frozen=True, slots=True)
class _Typing:
    """The effect of the keys that the user typed in an insertion."""

    deleted: int
    """The number of characters before the start of the insertion that were deleted."""
    text: str
    """The text that was inserted."""


@dataclass(frozen=True, slots=True)
class _Selected:
    """A selection of visual mode, which `gv` restores."""

    anchor: int
    cursor: int
    mode: Mode


@dataclass(frozen=True, slots=True)
class _Change:
    """A change that `.` can repeat."""

    command: VimCommand
    selected: _SelectionSize | None = None
    """The size of the changed selection, None for a change outside visual mode."""
    typing: _Typing | None = None
    """The typing of the insertion that the change began."""


class Vim(MovingCursor):
    """The state of vim for one text, which begins in insert mode."""

    def __init__(self, width: motions.Width = lambda _: 1) -> None:
        super().__init__(width)
        self.mode: Mode = "insert"
        self._keys: list[str] = []
        """The keys of an unfinished command."""
        self._anchor = 0
        """The end of the selection at which the cursor is not."""
        self._last_selection: _Selected | None = None
        self._registers: dict[str, Register] = {}
        self._change: _Change | None = None
        """The last change, for `.`."""
        self._insertion: _Insertion | None = None
        self._history = UndoHistory()

    @property
    def is_visual(self) -> bool:
        return self.mode in ("visual", "visual line")

    @property
    def pending(self) -> str:
        """The keys of an unfinished command."""
        return "".join(self._keys)

    def register(self, name: str = '"') -> Register:
        """Return the text of a register, which may be empty."""
        return self._registers.get(name, Register(""))

    def region(self) -> Region | None:
        """Return the selection of visual mode, None without one."""
        if not self.is_visual:
            return None
        is_lines = self.mode == "visual line"
        return operators.visual_region(self.text, self._anchor, self.cursor, is_lines=is_lines)

    @property
    def last_selected(self) -> int:
        """The last selected position. If it is a line end, `region` ends in the next line."""
        return max(self._anchor, self.cursor)

    def reset(self, text: str, cursor: int) -> None:
        """Start with another text, in insert mode; keep the registers and the last change."""
        self.mode = "insert"
        self._keys = []
        self._insertion = None
        self._history = UndoHistory()
        self._set_state(text, cursor)
        self._history.begin(text, cursor)

    def follow(self, text: str, cursor: int) -> None:
        """Take over a text and a cursor changed outside, such as by a click. A changed text ends visual mode."""
        if (text, cursor) == (self.text, self.cursor):
            return
        if self.mode != "insert":
            if text != self.text and self.is_visual:
                self.mode = "normal"
            self.wanted_column = None
            cursor = cursor if self.is_visual else normal_cursor(text, cursor)
        self._set_state(text, cursor)

    def select(self, text: str, anchor: int, cursor: int) -> None:
        """Enter visual mode with a selection made outside vim mode. The character at `cursor` is selected too."""
        self._set_state(text, cursor)
        self._end_insertion()
        self._anchor = anchor
        self.mode = "visual"
        self._keys = []

    def press(self, key: str, text: str, cursor: int) -> ChangedText | None:
        """Handle a key; return None, with nothing changed, if vim mode does not use the key."""
        if self.mode == "insert":
            if key != "escape":
                return None
            self._set_state(text, cursor)
            self._leave_insert()
            return ChangedText(self.text, self.cursor)
        self.follow(text, cursor)
        self._history.record(self.text, self.cursor)
        if key == "escape":
            return self._escape()
        self._keys.append(key)
        try:
            command = parse(self._keys, is_visual=self.is_visual)
        except InvalidKeysError:
            is_only_key = len(self._keys) == 1
            self._keys = []
            if is_only_key and len(key) > 1:
                return None  # a key such as `pageup` belongs to the text area; after `d`, it cancels the command
            return ChangedText(self.text, self.cursor)
        if command is not None:
            self._keys = []
            self._run(command)
        return ChangedText(self.text, self.cursor)

    def undo(self, text: str, cursor: int, *, is_redo: bool) -> ChangedText:
        """Undo or redo one step in any mode. In insert mode the step is the text typed so far, and typing continues."""
        if self.mode == "insert":
            self._set_state(text, cursor)
            self._end_insertion()
        else:
            self.follow(text, cursor)
            self._keys = []
            if self.is_visual:
                self._leave_visual()
        self._history.record(self.text, self.cursor)
        self._step(is_redo=is_redo)
        if self.mode == "insert":
            self._insertion = _Insertion(VimCommand("i"), self.text[: self.cursor], self.text[self.cursor :])
        return ChangedText(self.text, self.cursor)

    def _escape(self) -> ChangedText | None:
        """Cancel a command or a selection; return None if there is neither."""
        if not (self._keys or self.is_visual):
            return None
        if not self._keys:
            self._leave_visual()
        self._keys = []
        return ChangedText(self.text, self.cursor)

    def _leave_visual(self) -> None:
        self._last_selection = _Selected(self._anchor, self.cursor, self.mode)
        self.mode = "normal"
        self.wanted_column = None
        self.cursor = normal_cursor(self.text, self.cursor)

    def _set_state(self, text: str, cursor: int) -> None:
        self.text = text
        self.cursor = cursor

    def _apply_change(self, edited: ChangedText) -> None:
        self.text = edited.text
        self.cursor = edited.cursor

    def _enter_insert(self, command: VimCommand, change: _Change | None) -> None:
        """Begin an insertion; with `change` (from `.`) insert its text and leave insert mode."""
        self.mode = "insert"
        self._insertion = _Insertion(command, self.text[: self.cursor], self.text[self.cursor :])
        if change is not None:
            if change.typing is not None:
                start = max(0, self.cursor - change.typing.deleted)
                self.text = self.text[:start] + change.typing.text + self.text[self.cursor :]
                self.cursor = start + len(change.typing.text)
            self._leave_insert()

    def _end_insertion(self) -> None:
        """Store the typed text for `.`, and repeat it if the command has a count."""
        insertion = self._insertion
        self._insertion = None
        if insertion is None:
            return
        typing = _typing_since(insertion, self.text)
        repeats = (insertion.command.count or 1) - 1 if insertion.command.name in _INSERTING else 0
        if repeats and not typing.deleted:
            is_line = insertion.command.name in "oO"
            more = (f"\n{typing.text}" if is_line else typing.text) * repeats
            position = len(insertion.before) + len(typing.text)
            self.text = self.text[:position] + more + self.text[position:]
            self.cursor = position + len(more)
        if self._change is not None and self._change.command == insertion.command:
            self._change = replace(self._change, typing=typing)

    def _leave_insert(self) -> None:
        self._end_insertion()
        self.mode = "normal"
        self.wanted_column = None
        self.cursor = normal_cursor(self.text, max(line_start(self.text, self.cursor), self.cursor - 1))
        self._history.record(self.text, self.cursor)

    def _run(self, command: VimCommand, change: _Change | None = None) -> None:
        """Perform a command. `change` is the change to repeat if the command comes from `.`, otherwise None."""
        if self.is_visual and not command.operator:
            self._run_visual(command)
        elif command.operator:
            self._run_operator(command, change)
        elif command.name in _INSERTING:
            self._insert(command, change)
        elif command.name in ("p", "P", "J", "~", "r"):
            self._edit(command)
        elif command.name == ".":
            self._repeat(command.count)
        elif command.name in ("u", "ctrl+r"):
            self._undo(command)
        elif command.name in ("v", "V"):
            self._anchor = self.cursor
            self.mode = "visual" if command.name == "v" else "visual line"
        elif command.name == "gv":
            self._reselect()
        else:
            self._move(command)
        if self.mode != "insert":
            self._history.record(self.text, self.cursor)

    def _move(self, command: VimCommand) -> None:
        motion = self.motion(command)
        if motion is None:
            return
        self.cursor = motion.end if self.is_visual else normal_cursor(self.text, motion.end)
        if command.name not in ("j", "k"):
            self.wanted_column = END_OF_LINE if command.name == "$" else None

    def _run_visual(self, command: VimCommand) -> None:
        name = command.name
        if name == "o":
            self._anchor, self.cursor = self.cursor, self._anchor
        elif name in ("v", "V"):
            mode: Mode = "visual" if name == "v" else "visual line"
            if mode == self.mode:
                self._leave_visual()
            else:
                self.mode = mode
        elif name == "gv":
            self._reselect()
        elif name[0] in "ia" and len(name) > 1:
            self._select_object(command)
        else:
            self._move(command)

    def _reselect(self) -> None:
        last = self._last_selection
        if last is not None:
            self.mode = last.mode
            self._anchor = min(last.anchor, len(self.text))
            self.cursor = min(last.cursor, len(self.text))

    def _select_object(self, command: VimCommand) -> None:
        count, is_around = command.count or 1, command.name[0] == "a"
        if self.cursor > self._anchor and command.name[1] in "wW":
            more = more_words(self.text, self.cursor, count, is_around=is_around, is_big=command.name[1] == "W")
            if more is not None:
                self.cursor = more.end
            return
        if self.mode == "visual line" and self.cursor > self._anchor and command.name[1] == "p":
            self._select_more_paragraphs(count, is_around)
            return
        extent = text_object(self.text, self.cursor, command.name[1], count, is_around=is_around)
        if extent is None or (extent.end <= extent.start and not extent.is_inclusive):
            return
        self._anchor = extent.start
        self.cursor = extent.end if extent.is_inclusive or extent.is_lines else extent.end - 1
        self.mode = "visual line" if extent.is_lines else "visual"

    def _select_more_paragraphs(self, count: int, is_around: bool) -> None:
        below = motions.lines_below(self.text, self.cursor, 1)
        if below is not None:
            row = self.text.count("\n", 0, below)
            rows = paragraph_rows(self.text.split("\n"), row, count, is_around=is_around)
            if rows is not None:
                self.cursor = motions.nth_line(self.text, rows.last + 1)

    def _run_operator(self, command: VimCommand, change: _Change | None) -> None:
        region = self._region_of(command, change)
        if region is None or (command.operator == "d" and not self.text):
            return
        if command.operator != "y":
            selected = _size_of(region, self.text) if command.name == SELECTION else None
            self._change = change or _Change(command, selected)
        if self.is_visual:
            is_upward = line_start(self.text, self.cursor) < line_start(self.text, self._anchor)
            start = self.cursor if is_upward else region.start
            self._leave_visual()
            self.cursor = start
        elif not region.is_lines:
            self.cursor = region.start
        elif command.name == LINES and (command.count or 1) == 1 and command.operator != "y":
            self.cursor = min(self.cursor, first_non_blank(self.text, self.cursor))
        self.wanted_column = None
        self._history.set_undo_cursor(self.cursor)
        self._apply(command, region, change)

    def _region_of(self, command: VimCommand, change: _Change | None) -> Region | None:
        """Return the region of an operator, None if its motion fails."""
        text, operator = self.text, command.operator
        if command.name == SELECTION:
            joins_lines = operator in ("d", "c", "y", "p", "P")
            if change is not None and change.selected is not None:
                return self._region_of_size(change.selected, joins_lines=joins_lines)
            is_lines = self.mode == "visual line" or command.is_linewise
            return operators.visual_region(text, self._anchor, self.cursor, is_lines=is_lines, joins_lines=joins_lines)
        if command.name == LINES:
            count = (command.count or 1) - 1
            last = motions.lines_below(text, self.cursor, count) if count else self.cursor
            return None if last is None else operators.lines_region(text, self.cursor, last)
        column = self.wanted_column
        motion = self.motion(command)
        self.wanted_column = column
        if motion is None:
            return None
        start = self.cursor if motion.start is None else motion.start
        if motion.is_lines:
            region = operators.lines_region(text, start, motion.end)
        else:
            region = operators.moved_region(
                text, start, motion.end, is_inclusive=motion.is_inclusive, is_delete=operator == "d"
            )
        # `yk` moves the cursor to the line above, in the same column.
        self.cursor = min(start, motion.end)
        return region

    def _region_of_size(self, selected: _SelectionSize, *, joins_lines: bool) -> Region:
        """Return the region that starts at the cursor and has the size of an earlier selection."""
        text, index = self.text, self.cursor
        last_line = line_start(text, index)
        if selected.lines > 1:
            line_below = motions.lines_below(text, index, selected.lines - 1)
            last_line = last_line if line_below is None else line_below
        if selected.is_lines:
            return operators.lines_region(text, index, last_line)
        start_in_last_line = index if selected.lines == 1 else last_line
        last_end = line_end(text, start_in_last_line)
        if joins_lines:
            last_end += 1
        return Region(index, min(start_in_last_line + selected.characters, last_end, len(text)))

    def _apply(self, command: VimCommand, region: Region, change: _Change | None) -> None:
        """Perform an operator. The cursor is already at the start of the region."""
        text, operator, count = self.text, command.operator, command.count or 1
        if operator in ("d", "c", "y"):
            if region.start < region.end or region.is_lines:
                self._set_register(region.register(text), command)
            if operator == "d" and (region.start < region.end or region.is_lines):
                self._apply_change(operators.delete(text, region))
            elif operator == "c":
                self._apply_change(operators.clear(text, region))
                self._enter_insert(command, change)
            elif operator == "y":
                self.cursor = normal_cursor(text, self.cursor)
        elif operator in (">", "<"):
            times = count if command.name == SELECTION else 1
            self._apply_change(operators.shift(text, region, times if operator == ">" else -times))
        elif operator in ("gu", "gU", "g~"):
            self._apply_change(operators.change_case(text, region, operator[1], self.cursor))
        elif operator == "r":
            self._apply_change(operators.fill(text, region, command.argument))
        elif operator == "J":
            joined = operators.join(text, region.start, max(2, text.count("\n", region.start, region.end) + 1))
            self._apply_change(joined or ChangedText(text, normal_cursor(text, region.start)))
        else:
            self._put_over(command, region, count)

    def _put_over(self, command: VimCommand, region: Region, count: int) -> None:
        register = self._registers.get(command.register or '"')
        if register is None:
            return
        replaced = region.register(self.text)
        self._apply_change(operators.put_over(self.text, region, register, count))
        if command.operator == "p" and (replaced.text or replaced.is_lines):
            self._registers['"'] = replaced

    def _set_register(self, register: Register, command: VimCommand) -> None:
        """Store a deleted or yanked text in the register of the command; `"A` appends to `"a`."""
        name = command.register
        if name == "_":
            return
        if name.isupper():
            old = self._registers.get(name.lower())
            if old is not None:
                is_lines = old.is_lines or register.is_lines
                register = Register(old.text + ("\n" if is_lines else "") + register.text, is_lines)
        if name not in ("", '"'):
            self._registers[name.lower()] = register
        elif command.operator == "y":
            self._registers["0"] = register
        self._registers['"'] = register

    def _insert(self, command: VimCommand, change: _Change | None) -> None:
        text, index, name = self.text, self.cursor, command.name
        self._change = change or _Change(command)
        if name in "oO":
            position = line_end(text, index) if name == "o" else line_start(text, index)
            self.text = f"{text[:position]}\n{text[position:]}"
            self.cursor = position + 1 if name == "o" else position
        elif name == "a":
            self.cursor = index if is_line_end(text, index) else index + 1
        elif name == "I":
            start = first_non_blank(text, index)
            is_blank = not text[line_start(text, index) : line_end(text, index)].strip(" \t")
            self.cursor = line_end(text, index) if is_blank else start
        elif name == "A":
            self.cursor = line_end(text, index)
        if name not in "oO":
            self._history.set_undo_cursor(self.cursor)
        self._enter_insert(command, change)

    def _edit(self, command: VimCommand) -> None:
        text, index, count = self.text, self.cursor, command.count or 1
        edited: ChangedText | None = None
        if command.name in "pP":
            register = self._registers.get((command.register or '"').lower())
            if register is not None:
                edited = operators.put(text, index, register, count, is_after=command.name == "p")
        elif command.name == "J":
            edited = operators.join(text, index, max(2, count))
        elif command.name == "~":
            end = min(index + count, line_end(text, index))
            edited = None if end == index else operators.change_case(text, Region(index, end), "~", end)
        elif index + count <= line_end(text, index):
            if command.argument == "\n":
                changed = f"{text[:index]}\n{text[index + count :]}"
                edited = ChangedText(changed, normal_cursor(changed, index + 1))
            else:
                edited = operators.replace(
                    text, Region(index, index + count), command.argument * count, index + count - 1
                )
        if edited is not None:
            self._apply_change(edited)
            self._change = _Change(command)
            self.wanted_column = None

    def _repeat(self, count: int | None) -> None:
        """Repeat the last change, with another count if one was typed."""
        if self._change is None:
            return
        command = self._change.command
        if count is not None:
            command = replace(command, count=count)
        self._run(command, replace(self._change, command=command))

    def _undo(self, command: VimCommand) -> None:
        for _ in range(command.count or 1):
            if not self._step(is_redo=command.name != "u"):
                return

    def _step(self, *, is_redo: bool) -> bool:
        step = self._history.redo() if is_redo else self._history.undo()
        if step is None:
            return False
        cursor = step.end if self.mode == "insert" else normal_cursor(step.text, step.cursor)
        self.text = step.text
        self.cursor = cursor
        self.wanted_column = None
        return True


def _size_of(region: Region, text: str) -> _SelectionSize:
    """Return the size of a region that is a selection."""
    selected = text[region.start : region.end]
    in_last_line = region.end - line_start(text, region.end) if "\n" in selected else len(selected)
    return _SelectionSize(selected.count("\n") + 1, in_last_line, region.is_lines)


def _typing_since(insertion: _Insertion, text: str) -> _Typing:
    """Return what the user has typed since an insertion began, if `text` is the text now.

    For example, `A`, two backspaces and `xy` change `abcd` to `abxy`: 2 characters were deleted and `xy` was inserted.
    """
    before, after = insertion.before, insertion.after
    if not text.endswith(after):
        return _Typing(0, difference(before + after, text).new)
    head = text[: len(text) - len(after)]
    if head.startswith(before):
        return _Typing(0, head[len(before) :])
    common = difference(before, head).start
    return _Typing(len(before) - common, head[common:])
