"""File changes by turn: the diff of each file that a turn changed, its hunks, and the content without some hunks.

The content after a turn is known if a later change stored it, or if the file still has it. `remove_hunks` removes hunks
from the current content only if the lines around them did not change after the turn; it never guesses. A hunk whose old
lines are back is not listed. Blocking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from difflib import Match
from pathlib import Path
from typing import NamedTuple

from qcode.agent.checkpoints.blobs import MAX_FILE_BYTES, Blobs, digest_of
from qcode.agent.sessions.history import FileState, RecordedChange, SessionHistory
from qcode.protocol.tools import Refused
from qcode.safety.paths import read_file_start
from qcode.text.diff import diff_lines, line_matcher
from qcode.text.numbers import bytes_text
from qcode.tools import text_file
from qcode.tools.text_file import BinaryFile, Document
from qcode.values import dataclass

NO_CHANGES = "No file differs from the start of this session."
"""The text of a list of changes that is empty."""


@dataclass(frozen=True, slots=True)
class ChangeHunk:
    """A hunk of a diff."""

    index: int
    """The position in the diff, counted from 0, undone hunks included."""
    line: int
    """The first changed line, counted from 1."""
    added: int
    """The number of added lines."""
    removed: int
    """The number of removed lines."""
    diff: str


@dataclass(frozen=True, slots=True)
class TurnFile:
    """A file that a turn changed."""

    label: str
    """The displayed path."""
    real_path: str = field(repr=False)
    """The absolute path with all links resolved."""
    diff: str = ""
    """A unified diff of `hunks`."""
    hunks: tuple[ChangeHunk, ...] = ()
    """The hunks that were not undone. Empty if there are no texts to compare."""
    note: str = ""
    """`new`, `deleted`, or why there are no hunks; otherwise empty."""


@dataclass(frozen=True, slots=True)
class TurnChanges:
    """The files that a turn changed."""

    number: int
    """The message number of the prompt."""
    position: int
    """The position of the turn in the conversation, counted from 1."""
    text: str
    """The command or the text that the user typed."""
    timestamp: str
    """The time of the prompt (ISO 8601)."""
    files: tuple[TurnFile, ...]


@dataclass(frozen=True, slots=True)
class FileVersions:
    """A file before and after a turn."""

    path: str
    before: FileState | None
    after: FileState | None
    changes: tuple[int, ...]
    """The positions of the changes in the history of the session."""
    is_last: bool
    """No later turn changed the file."""


def files_of_turn(history: SessionHistory, number: int) -> tuple[FileVersions, ...]:
    """Return the files that the turn of prompt `number` changed, in the order of their first change."""
    later_prompts = (prompt.number for prompt in history.prompts() if prompt.number > number)
    next_turn = next(later_prompts, history.next_number)
    changes_by_path: dict[str, dict[int, RecordedChange]] = {}
    changed_later: set[str] = set()
    for position, change in history.live_changes(number).items():
        if change.message_number < next_turn:
            changes_by_path.setdefault(change.path, {})[position] = change
        else:
            changed_later.add(change.path)
    versions: list[FileVersions] = []
    for path, changes in changes_by_path.items():
        in_order = list(changes.values())
        before = in_order[0].before
        after = in_order[-1].after
        versions.append(FileVersions(path, before, after, tuple(changes), is_last=path not in changed_later))
    return tuple(versions)


def turn_changes(history: SessionHistory, blobs: Blobs, show: Callable[[Path], str]) -> tuple[TurnChanges, ...]:
    """Return the turns that changed files, oldest first. A running turn may add changes meanwhile."""
    latest = {change.path: change.after for change in history.live_changes().values()}
    edited = {path: _text_if_edited(path, state) for path, state in latest.items()}
    turns = []
    for position, prompt in enumerate(history.prompts(), 1):
        stored = history.stored[prompt.number]
        shown = (
            _turn_file(file, blobs, show(Path(file.path)), edited.get(file.path))
            for file in files_of_turn(history, prompt.number)
        )
        if files := tuple(file for file in shown if file is not None):
            turns.append(TurnChanges(prompt.number, position, stored.typed_prompt, stored.entry.timestamp, files))
    return tuple(turns)


def _text_if_edited(path: str, latest: FileState | None) -> str | None:
    """Return the text of a file that was edited after its `latest` change; None if it was not, or is not text."""
    data = _current_content(path)
    if latest is None or data is None or digest_of(data) == latest.digest:
        return None
    try:
        return text_file.decode(data, path).text
    except (BinaryFile, Refused):
        return None


def _current_content(path: str) -> bytes | None:
    """Return the content of a file; None if it is missing, too large, or has become a pipe or another special file."""
    data = read_file_start(Path(path), MAX_FILE_BYTES + 1)
    return None if data is None or len(data) > MAX_FILE_BYTES else data


def _turn_file(file: FileVersions, blobs: Blobs, label: str, edited: str | None) -> TurnFile | None:
    """Return a file of a turn, without the hunks that are undone in the text `edited`; None if all are."""
    try:
        before, after = (document_of(state, file.path, blobs, label) for state in (file.before, file.after))
    except BinaryFile:
        return TurnFile(label, file.path, note=binary_note(file.before, file.after))
    except Refused as refused:
        return TurnFile(label, file.path, note=str(refused).removeprefix(f"{label} "))
    diff = text_file.diff_of(label, before, after)
    if after is None:
        note = "deleted"
    elif before is None:
        note = "new" if diff else "a new empty file"
    else:
        note = "" if diff else "only its permissions changed"
    hunks = hunks_of(diff)
    if edited is not None and before is not None and after is not None:
        remaining = _remaining_hunks(hunks, before.text, after.text, edited)
        if hunks and not remaining:
            return None
        if len(remaining) < len(hunks):
            header = diff[: diff.index(hunks[0].diff)]
            return TurnFile(label, file.path, header + "".join(hunk.diff for hunk in remaining), remaining, note)
    return TurnFile(label, file.path, diff, hunks, note)


def _remaining_hunks(hunks: Sequence[ChangeHunk], before: str, after: str, current: str) -> tuple[ChangeHunk, ...]:
    comparison = _Comparison(before, after, current)
    if len(comparison.groups) != len(hunks):
        return tuple(hunks)
    return tuple(hunk for hunk in hunks if not comparison.is_undone(comparison.groups[hunk.index]))


def binary_note(before: FileState | None, after: FileState | None) -> str:
    """Return how a binary file changed, such as `binary, 950 B → 1.2 kB`."""
    if before is None or after is None:
        state = before or after
        size = bytes_text(state.size) if state is not None else ""
        return f"{'new' if before is None else 'deleted'}, binary, {size}"
    return f"binary, {bytes_text(before.size)} → {bytes_text(after.size)}"


def document_of(state: FileState | None, path: str, blobs: Blobs, label: str) -> Document | None:
    """Return the text of a version of a file; raise `Refused` if the content is unknown or not text."""
    if state is None:
        return None
    if state.is_link:
        raise Refused(f"{label} is a symbolic link")
    data = blobs.get(state.content_digest)
    if data is None:
        data = _current_content(path) or b""
        if digest_of(data) != state.digest:
            raise Refused(f"{label} was changed later, and its content after this turn was not saved")
    return text_file.decode(data, label)


def hunks_of(diff: str) -> tuple[ChangeHunk, ...]:
    """Return the hunks of the unified diff of one file."""
    hunks: list[list[str]] = []
    for line in diff_lines(diff.removesuffix("\n").split("\n")):
        if line.kind == "hunk":
            hunks.append([])
        if hunks:
            hunks[-1].append(line.text)
    return tuple(_hunk(index, lines) for index, lines in enumerate(hunks))


def _hunk(index: int, lines: Sequence[str]) -> ChangeHunk:
    parsed = list(diff_lines(lines))
    first = next((line.number for line in parsed if line.kind in ("add", "remove")), 1)
    kinds = [line.kind for line in parsed]
    return ChangeHunk(index, first, kinds.count("add"), kinds.count("remove"), "\n".join(lines) + "\n")


class ConflictError(Exception):
    """A change cannot be undone alone. The text says why, for the user."""


def content_without(file: FileVersions, hunk: int | None, blobs: Blobs, label: str) -> bytes:
    """Return the content of a file without one hunk of a turn, or without all of them.

    Raise `ConflictError` or `Refused` with the reason if that is not possible.
    """
    before, after = (document_of(state, file.path, blobs, label) for state in (file.before, file.after))
    if before is None or after is None:
        raise ConflictError(f"{label} was changed after this turn")
    content = _current_content(file.path)
    if content is None:
        raise ConflictError(f"{label} is not a readable file, or is too large")
    current = text_file.decode(content, label)
    count = len(hunks_of(text_file.diff_of(label, before, after)))
    text = remove_hunks(before.text, after.text, current.text, hunk, count)
    return text_file.encode(text_file.with_text(current, text))


class _Opcode(NamedTuple):
    """An opcode of `difflib`: line indexes in the old and the new text; ends are exclusive."""

    tag: str
    old_start: int
    old_end: int
    new_start: int
    new_end: int


class _Comparison:
    """The hunks between two versions of a text, compared with the current text.

    A hunk applies if the current text has its new lines, and it is undone if the current text has its old lines. The
    line before and after the hunk must match too.
    """

    def __init__(self, before: str, after: str, current: str) -> None:
        self.old = before.split("\n")
        self.new = after.split("\n")
        self.current = current.split("\n")
        grouped = line_matcher(self.old, self.new).get_grouped_opcodes(3)
        self.groups: list[list[_Opcode]] = [
            [opcode for opcode in (_Opcode(*values) for values in group) if opcode.tag != "equal"] for group in grouped
        ]
        self._new_blocks = line_matcher(self.new, self.current).get_matching_blocks()
        self._old_blocks: list[Match] | None = None

    def offset_of(self, opcode: _Opcode) -> int | None:
        """Return by how many lines the new lines of an opcode moved in the current text; None if they changed."""
        return _offset(self._new_blocks, opcode.new_start, opcode.new_end, len(self.new))

    def is_undone(self, group: Sequence[_Opcode]) -> bool:
        """Return whether the current text has the old lines of a hunk instead of the new lines."""
        if all(self.offset_of(opcode) is not None for opcode in group):
            return False
        if self._old_blocks is None:
            self._old_blocks = line_matcher(self.old, self.current).get_matching_blocks()
        blocks = self._old_blocks
        return all(_offset(blocks, opcode.old_start, opcode.old_end, len(self.old)) is not None for opcode in group)


def _offset(blocks: Sequence[Match], start: int, end: int, count: int) -> int | None:
    """Return by how many lines the range `start` to `end` moved, None if it changed.

    `blocks` match a text of `count` lines with another text. The line before and after the range must match too.
    """
    low, high = max(0, start - 1), min(count, end + 1)
    offsets = (block.b - block.a for block in blocks if block.a <= low and high <= block.a + block.size)
    return next(offsets, None)


def remove_hunks(before: str, after: str, current: str, hunk: int | None, count: int) -> str:
    """Return `current` without one of the `count` hunks between `before` and `after`, or without all of them.

    `count` is the number of hunks in the diff. If the comparison finds another number, no single hunk can be undone. An
    undone hunk stays undone. Raise `ConflictError` if a line of a hunk, or the line before or after it, was changed
    since.
    """
    comparison = _Comparison(before, after, current)
    groups = comparison.groups
    lines = list(comparison.current)
    if hunk is not None and (hunk >= count or count != len(groups)):
        raise ConflictError("this hunk cannot be undone alone")
    chosen = groups if hunk is None else [groups[hunk]]
    opcodes = [opcode for group in chosen if not comparison.is_undone(group) for opcode in group]
    # From the end, so that earlier lines keep their numbers.
    for opcode in reversed(opcodes):
        offset = comparison.offset_of(opcode)
        if offset is None:
            first, last = opcode.new_start + 1, opcode.new_end
            if last <= first:
                raise ConflictError(f"line {first} of this change was changed later")
            raise ConflictError(f"lines {first} to {last} of this change were changed later")
        old_lines = comparison.old[opcode.old_start : opcode.old_end]
        lines[opcode.new_start + offset : opcode.new_end + offset] = old_lines
    return "\n".join(lines)


def changes_text(turns: Sequence[TurnChanges]) -> str:
    """Return the turns with their files and hunks as text, for a front end without a screen."""
    lines: list[str] = []
    for turn in turns:
        lines.append(f"Turn {turn.position}: {' '.join(turn.text.split())[:100]}")
        for file in turn.files:
            lines.append(f"   {file.label}  {size_text(file)}".rstrip())
            if len(file.hunks) > 1:
                lines += [f"     line {hunk.line}  +{hunk.added} -{hunk.removed}" for hunk in file.hunks]
    return "\n".join(lines)


def size_text(file: TurnFile) -> str:
    """Return the number of changed lines and the note of a file, such as `+3 -1, new`."""
    added, removed = sum(hunk.added for hunk in file.hunks), sum(hunk.removed for hunk in file.hunks)
    return ", ".join(filter(None, (f"+{added} -{removed}" if file.hunks else "", file.note)))
