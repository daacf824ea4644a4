"""Undo, redo and rewind of a conversation and its files.

A move (undo, redo or rewind) is planned first (`plan_*`), which changes nothing, and then performed: the current files
are stored, the move is written to the session, and the files are restored. So every move can be undone, and an
interrupted move can be finished. A file is restored without asking only if nothing but qcode has changed it. Files are
restored one by one, each atomically, only inside the workspace, and without following links.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.agent.checkpoints.blobs import Blobs, digest_of
from qcode.agent.checkpoints.restorer import (
    FileRestore,
    NotRestorable,
    PreparedRestore,
    Restorer,
    is_same_content,
    is_same_file,
    read_state,
    restores_for_changes,
    restores_for_move,
    restores_to_finish,
)
from qcode.agent.checkpoints.turn_changes import (
    ConflictError,
    FileVersions,
    binary_note,
    content_without,
    files_of_turn,
)
from qcode.agent.context.attachments import unnamed_attachments
from qcode.agent.sessions.history import (
    FileState,
    Head,
    Move,
    MoveKind,
    RecordedChange,
    SessionHistory,
    UserPrompt,
)
from qcode.agent.sessions.session import Session
from qcode.protocol.messages import Text
from qcode.protocol.tools import Refused
from qcode.text.numbers import count_text
from qcode.tools import text_file
from qcode.tools.text_file import BinaryFile
from qcode.values import dataclass

RewindScope: TypeAlias = Literal["conversation", "files", "both"]


@dataclass(frozen=True, slots=True)
class RewindPoint:
    """A prompt to which the conversation can be rewound."""

    number: int
    """The number of the message."""
    text: str
    """The command or the text that the user typed."""
    timestamp: str
    """The time of the prompt (ISO 8601)."""
    files: tuple[str, ...] = ()
    """The files that its turn changed, for display."""
    created: tuple[str, ...] = ()
    """Those of `files` that did not exist before its turn."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The planned action for one file."""

    path: str
    action: Literal["restore", "create", "delete"]
    doubt: str = ""
    """Why the user must confirm the action; empty if there is no reason."""
    refusal: str = ""
    """Why the action is impossible; empty if it is possible."""


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """A planned move, valid until anything else happens in the conversation."""

    plan_id: int
    summary: str
    """The move in one line."""
    files: tuple[FilePlan, ...]
    messages: int
    """The number of messages that the move removes from the conversation; negative if the move brings them back."""
    turns: int = 0
    """The number of turns that the move removes; negative if the move brings them back."""
    is_redo: bool = False
    reverting_command: str = "/redo"
    """The command or the key that reverts the move."""

    @property
    def removed(self) -> str:
        """The removed or restored part of the conversation, such as `2 turns`; empty if no messages are."""
        # Undoing a compaction removes no turn.
        if self.turns:
            return count_text(abs(self.turns), "turn")
        return count_text(abs(self.messages), "message") if self.messages else ""

    @property
    def is_removing(self) -> bool:
        """Whether the move removes turns, or messages if the number of turns stays the same.

        A rewind to a prompt before a compaction removes turns, although it also brings back messages.
        """
        return self.turns > 0 or (self.turns == 0 and self.messages > 0)

    @property
    def doubtful(self) -> tuple[FilePlan, ...]:
        """The files that the user must confirm."""
        return tuple(file for file in self.files if file.doubt and not file.refusal)


@dataclass(frozen=True, slots=True)
class RewindReport:
    """The result of a move."""

    text: str
    """The result in one line."""
    prompt: str = ""
    """The text of the removed prompt, to be edited again; empty if no prompt was removed."""
    problems: tuple[str, ...] = ()
    """A line for each file that was not restored."""
    attached: tuple[Text, ...] = ()
    """The attachments of the removed prompt that its text does not name, such as the output of commands."""


@dataclass(frozen=True, slots=True)
class SessionFileDiff:
    """A file that the session changed."""

    path: str
    diff: str = ""
    """A unified diff from before the first change to now; empty if there is no text to compare."""
    note: str = ""
    """Why there is no diff, or that the file was deleted; otherwise empty."""


class MoveImpossible(Exception):  # noqa: N818  # an answer, not a failure
    """A move cannot be planned or performed. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class _PlannedMove:
    """The move that was planned last."""

    plan: RewindPlan
    kind: MoveKind
    after: Head
    """The head after the move."""
    restores: tuple[FileRestore, ...]
    prompt: UserPrompt | None
    """The prompt that the move removes, to be edited again."""
    finishes: Move | None
    """The interrupted move that this move completes; None for a new move."""
    spans_compaction: bool
    """The move undoes or repeats a compaction."""
    state: tuple[object, ...]
    """The state of the session when the move was planned."""
    partial_result: str
    """The result of undoing one file or one hunk alone, such as `1 hunk of a.py`; otherwise empty."""


class Rewinder:
    """The planner and performer of moves in one session. All methods block; call one at a time, while no turn runs."""

    def __init__(self, session: Session, blobs: Blobs, folders: Sequence[Path]) -> None:
        self._session = session
        self._blobs = blobs
        self._restorer = Restorer(folders, blobs)
        self._root = folders[0]
        self._planned: _PlannedMove | None = None
        self._plan_count = 0

    @property
    def _history(self) -> SessionHistory:
        return self._session.history

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts that led to the current state, oldest first."""
        prompts = self._history.prompts()
        changes = self._history.live_changes().values()
        points = []
        for prompt, following in zip_longest(prompts, prompts[1:]):
            next_number = self._history.next_number if following is None else following.number
            first_changes: dict[str, RecordedChange] = {}
            for change in changes:
                if prompt.number <= change.message_number < next_number:
                    first_changes.setdefault(self._label(change.path), change)
            created = tuple(label for label, change in first_changes.items() if change.before is None)
            stored = self._history.stored[prompt.number]
            text, timestamp = stored.typed_prompt, stored.entry.timestamp
            points.append(RewindPoint(prompt.number, text, timestamp, tuple(first_changes), created))
        return tuple(points)

    def plan_rewind(self, number: int, scope: RewindScope) -> RewindPlan:
        """Plan to rewind to the state before prompt `number`. Raise `MoveImpossible` if there is no such prompt."""
        prompt = next((user_prompt for user_prompt in self._history.prompts() if user_prompt.number == number), None)
        if prompt is None:
            raise MoveImpossible("That message is no longer in this conversation.")
        restores: list[FileRestore] = []
        if scope != "conversation":
            restores = restores_for_changes(self._history.live_changes(number), self._states_after_file_moves())
        if scope == "files":
            return self._plan("rewind", self._history.head, restores)
        return self._plan("rewind", prompt.before, restores, prompt)

    def plan_undo(self) -> RewindPlan:
        """Plan to undo the last turn, or a compaction after it.

        If a move was interrupted, plan to finish it instead.
        """
        history = self._history
        if history.unfinished is not None:
            interrupted = history.unfinished
            return self._plan("undo", history.head, restores_to_finish(interrupted.files), finishes=interrupted)
        if history.head.compacted_from is not None:
            return self._plan("undo", history.head.compacted_from)
        prompt = history.head.prompt
        if prompt is None:
            raise MoveImpossible("There is nothing to undo yet.")
        restores = restores_for_changes(history.live_changes(prompt.number), self._states_after_file_moves())
        return self._plan("undo", prompt.before, restores, prompt)

    def plan_partial_undo(self, number: int, path: str, hunk: int | None = None) -> RewindPlan:
        """Plan to undo the change of one file by turn `number`, or one hunk of it; the conversation stays.

        Raise `MoveImpossible` with the reason if later changes prevent that.
        """
        file = next((file for file in files_of_turn(self._history, number) if file.path == path), None)
        if file is None:
            raise MoveImpossible("That change was already undone.")
        restore = self._plan_file_restore(file, hunk)
        if _is_done(restore):
            raise MoveImpossible("That change was already undone.")
        outcome = "deleted" if restore.target is None else "restored"
        result = f"{self._label(path)} {outcome}" if hunk is None else f"1 hunk of {self._label(path)}"
        return self._plan("undo", self._history.head, [restore], partial_result=result)

    def _plan_file_restore(self, file: FileVersions, hunk: int | None) -> FileRestore:
        label = self._label(file.path)
        try:
            current = read_state(file.path)
            if hunk is None and is_same_content(current, file.after):
                if file.before is not None and not file.before.is_kept:
                    raise ConflictError("its old content was not saved")
                return FileRestore(file.path, current, file.before, changes=file.changes if file.is_last else ())
            if current is None or current.is_link:
                raise ConflictError("it was deleted or replaced after this turn")
            content = content_without(file, hunk, self._blobs, label)
            if not self._blobs.store(content):
                raise ConflictError("the result could not be saved (is the disk full?)")
        except (ConflictError, NotRestorable, Refused) as conflict:
            reason = str(conflict)
            if reason.startswith(f"{label} "):  # `a.py is binary` becomes `a.py was not changed: it is binary`
                reason = f"it{reason.removeprefix(label)}"
            raise MoveImpossible(f"{label} was not changed: {reason}.") from None
        return FileRestore(file.path, current, FileState(digest_of(content), len(content), current.mode))

    def _states_after_file_moves(self) -> dict[str, FileState | None]:
        """Return the state of each file that was restored since the last message, by path, if the conversation stayed.

        Such moves are partial undos and rewinds of files alone.
        """
        # A new message empties `redoable`.
        moves = (move for move in self._history.redoable if move.before.key == move.after.key)
        return {file.path: file.target for move in moves for file in move.files}

    def plan_redo(self) -> RewindPlan:
        """Plan to redo the last undone move."""
        if not self._history.redoable:
            raise MoveImpossible("There is nothing to redo.")
        move = self._history.redoable[-1]
        return self._plan("redo", move.before, restores_for_move(move.files))

    def perform(self, plan: RewindPlan, overwrite: Collection[str]) -> RewindReport:
        """Perform a plan.

        A file with a doubt (`FilePlan.doubt`) is restored only if its path is in `overwrite`. Raise
        `MoveImpossible` if the conversation has changed since the plan was made.
        """
        planned = self._planned
        self._planned = None  # a plan is performed once
        if planned is None or planned.plan.plan_id != plan.plan_id or planned.state != self._session_state():
            raise MoveImpossible("The conversation has changed since. Try again.")
        problems = [f"{self._label(restore.path)} {restore.refusal}" for restore in planned.restores if restore.refusal]
        prepared = self._prepare(planned, frozenset(overwrite), problems)
        move = self._record_move(planned, prepared)
        performed: list[PreparedRestore] = []
        for restore in prepared:
            try:
                self._restorer.perform(restore)
                performed.append(restore)
            except Refused as refused:
                problems.append(str(refused))
        if move.files:
            self._session.finish_move(move.move_id)
        if planned.finishes is not None:
            self._session.finish_move(planned.finishes.move_id)
        report = RewindReport(_report(planned, performed), problems=tuple(problems))
        if planned.prompt is None:
            return report
        removed = self._history.stored[planned.prompt.number]
        attached = unnamed_attachments(removed.entry.message.blocks, has_labels=False)
        return replace(report, prompt=removed.typed_prompt, attached=attached)

    def _prepare(self, planned: _PlannedMove, overwrite: frozenset[str], problems: list[str]) -> list[PreparedRestore]:
        """Store the current contents of the files to restore; add a line to `problems` for each failure."""
        prepared: list[PreparedRestore] = []
        for restore in planned.restores:
            is_unconfirmed = bool(restore.doubt) and self._label(restore.path) not in overwrite
            if restore.refusal or is_unconfirmed or _is_done(restore):
                continue
            # A link that replaced a folder is removed before the files of the folder are restored.
            removed_paths = [other.restore.path for other in prepared if other.restore.target is None]
            is_below_removed = any(restore.path.startswith(f"{removed}/") for removed in removed_paths)
            try:
                prepared.append(self._restorer.prepare(restore, is_below=is_below_removed))
            except Refused as refused:
                problems.append(str(refused))
        return prepared

    def _record_move(self, planned: _PlannedMove, prepared: Sequence[PreparedRestore]) -> Move:
        """Write the move to the session, so that it can be undone; a move that is finished is already written."""
        history = self._history
        if planned.finishes is not None:
            return Move(planned.finishes.move_id, planned.kind, history.head, planned.after)
        files = tuple(restore.move for restore in prepared)
        paths = {file.path for file in files}
        if planned.kind == "redo":
            changes = history.redoable[-1].changes
        else:
            restores = (restore for restore in planned.restores if restore.path in paths or _is_done(restore))
            changes = tuple(position for restore in restores for position in restore.changes)
        move = Move(history.next_move_id, planned.kind, history.head, planned.after, files, changes)
        self._session.record_move(move)
        return move

    def _plan(
        self,
        kind: MoveKind,
        after: Head,
        restores: Sequence[FileRestore] = (),
        prompt: UserPrompt | None = None,
        *,
        finishes: Move | None = None,
        partial_result: str = "",
    ) -> RewindPlan:
        head = self._history.head
        self._plan_count += 1
        plan = RewindPlan(
            self._plan_count,
            summary="",
            files=tuple(self._file_plan(restore) for restore in restores if not _is_done(restore)),
            messages=len(list(head.numbers)) - len(list(after.numbers)),
            turns=head.turns - after.turns,
        )
        plan = replace(plan, summary=_summary(kind, plan, finishes))
        if kind == "redo":
            command = _command_to_revert_redo(self._history.redoable[-1])
            plan = replace(plan, is_redo=True, reverting_command=command)
            spans_compaction = after.was_compacted_since(head)
        else:
            spans_compaction = head.was_compacted_since(after)
        self._planned = _PlannedMove(
            plan=plan,
            kind=kind,
            after=after,
            restores=tuple(restores),
            prompt=prompt,
            finishes=finishes,
            spans_compaction=spans_compaction,
            state=self._session_state(),
            partial_result=partial_result,
        )
        return plan

    def _file_plan(self, restore: FileRestore) -> FilePlan:
        action: Literal["restore", "create", "delete"] = "restore"
        if restore.target is None:
            action = "delete"
        elif restore.current is None:
            action = "create"
        return FilePlan(self._label(restore.path), action, restore.doubt, restore.refusal)

    def _session_state(self) -> tuple[object, ...]:
        """Return values that differ after anything happened in the session."""
        history = self._history
        return history.latest, history.next_move_id, history.next_change, history.head.key

    def _label(self, path: str) -> str:
        folder = str(self._root).rstrip(os.sep) + os.sep
        return path.removeprefix(folder)


def _is_done(restore: FileRestore) -> bool:
    """Return whether the file already has its target state."""
    return not restore.refusal and is_same_file(restore.current, restore.target)


def _summary(kind: MoveKind, plan: RewindPlan, finishes: Move | None) -> str:
    if finishes is not None:
        return f"Finish restoring {count_text(len(plan.files), 'file')}"
    verb = {"undo": "Undo", "redo": "Redo", "rewind": "Rewind"}[kind]
    parts = []
    if plan.removed:
        parts.append(f"{'removes' if plan.is_removing else 'brings back'} {plan.removed}")
    if plan.files:
        deleted = sum(file.action == "delete" for file in plan.files)
        restored = len(plan.files) - deleted
        if restored:
            parts.append(f"restores {count_text(restored, 'file')}")
        if deleted:
            parts.append(f"deletes {count_text(deleted, 'file')}")
    return f"{verb}: {', '.join(parts) or 'no change'}"


def _report(planned: _PlannedMove, performed: Sequence[PreparedRestore]) -> str:
    deleted = sum(prepared.restore.target is None for prepared in performed)
    restored = len(performed) - deleted
    if planned.finishes is not None:
        return f"Finished: {count_text(len(performed), 'file')} restored."
    verb = {"undo": "Undone", "redo": "Redone", "rewind": "Rewound"}[planned.kind]
    plan = planned.plan
    parts: list[str] = []
    # With a compaction, a number of messages is omitted: most of them are those of the compaction.
    if plan.removed and (plan.turns or not planned.spans_compaction):
        parts.append(f"{plan.removed} removed" if plan.is_removing else f"{plan.removed} back")
    if planned.spans_compaction and plan.is_redo:
        parts.append("the conversation is compacted again")
    elif planned.spans_compaction:
        parts.append("the messages from before the compaction are back")
    if performed and planned.partial_result:
        parts.append(planned.partial_result)
    else:
        if restored:
            parts.append(f"{count_text(restored, 'file')} restored")
        if deleted:
            parts.append(f"{count_text(deleted, 'file')} deleted")
    if not parts:
        return f"{verb}: no change was needed."
    return f"{verb}: {', '.join(parts)}. {plan.reverting_command} reverts this."


def _command_to_revert_redo(move: Move) -> str:
    """Return how to revert the redo of `move`. `/undo` would undo the last turn, not a rewind or a part of a turn."""
    if move.kind == "rewind":
        return "/rewind"
    return "/undo" if move.before.key != move.after.key else "Ctrl+X in /diff"


def session_diffs(session: Session, blobs: Blobs, show: Callable[[Path], str]) -> tuple[SessionFileDiff, ...]:
    """Return a diff for each changed file that was not restored; later changes by others are included."""
    first_states: dict[str, FileState | None] = {}
    for change in session.history.live_changes().values():
        first_states.setdefault(change.path, change.before)
    diffs = (_diff(path, before, blobs, show(Path(path))) for path, before in first_states.items())
    return tuple(diff for diff in diffs if diff is not None)


def _diff(path: str, before: FileState | None, blobs: Blobs, label: str) -> SessionFileDiff | None:
    """Return how a file differs from its state `before`, None if it does not."""
    try:
        now = read_state(path)
    except NotRestorable as refused:
        return SessionFileDiff(label, note=str(refused))
    if is_same_file(now, before):
        return None
    if now is not None and before is not None and now.is_same(before):
        return SessionFileDiff(label, note=f"mode changed from {before.mode:o} to {now.mode:o}")
    if any(state is not None and state.is_link for state in (now, before)):
        return SessionFileDiff(label, note="a symbolic link was made, changed or removed")
    old = None if before is None else blobs.get(before.digest)
    if before is not None and old is None:
        return SessionFileDiff(label, note="changed; its earlier content was not saved")
    try:
        new = b"" if now is None else Path(path).read_bytes()
        left = None if old is None else text_file.decode(old, label)
        right = text_file.decode(new, label)
    except BinaryFile:
        return SessionFileDiff(label, note=binary_note(before, now))
    except (Refused, OSError):
        return SessionFileDiff(label, note="changed; it is not a text file")
    diff = text_file.diff_of(label, left, right)
    if now is None:
        return SessionFileDiff(label, diff, note="deleted")
    if diff:
        return SessionFileDiff(label, diff)
    note = "a new empty file" if before is None else "only its encoding or permissions changed"
    return SessionFileDiff(label, note=note)
