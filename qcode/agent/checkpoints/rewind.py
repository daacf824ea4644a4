"""Undo, redo and rewind of a conversation and its files.

A step is planned first (`plan_*`, which changes nothing) and then performed: the current files are stored, the step is
written to the session, and then the files are restored. So every step can be undone, and an interrupted step can be
finished. A file is restored without asking only if nothing else changed it after qcode. Files are restored one by one,
each atomically, only inside the workspace, and without following links.
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
    FileStep,
    NotRestorable,
    PreparedStep,
    Restorer,
    is_same_content,
    is_same_file,
    read_state,
    steps_again,
    steps_back,
    steps_to_finish,
)
from qcode.agent.checkpoints.turn_changes import ConflictError, FileVersions, content_without, files_of_turn
from qcode.agent.sessions.history import (
    FileState,
    Head,
    Move,
    MoveKind,
    SessionHistory,
    UserPrompt,
)
from qcode.agent.sessions.session import Session
from qcode.protocol.messages import typed_text
from qcode.protocol.tools import Refused
from qcode.text.numbers import count_text
from qcode.tools import text_file
from qcode.values import dataclass

RewindScope: TypeAlias = Literal["conversation", "files", "both"]


@dataclass(frozen=True, slots=True)
class RewindPoint:
    """A prompt to which the conversation can be rewound; `files` were changed after it.

    `number` identifies the message. `at` is an ISO 8601 time.
    """

    number: int
    text: str
    at: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The planned action for one file. `doubt` is why the user must confirm it, `refusal` why it is impossible."""

    path: str
    action: Literal["restore", "create", "delete"]
    doubt: str = ""
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class RewindPlan:
    """A planned step. It is valid until anything else happens in the conversation.

    `summary` describes it in one line. `messages` is the number of messages that it removes (negative: restores),
    `turns` that of turns.
    """

    plan_id: int
    summary: str
    files: tuple[FilePlan, ...]
    messages: int
    turns: int = 0
    is_redo: bool = False

    @property
    def removed(self) -> str:
        """The removed or restored part of the conversation, such as `2 turns`; empty if there is none."""
        # A turn that a compaction replaced is not counted, and an undone compaction removes none.
        if self.turns:
            return count_text(abs(self.turns), "turn")
        return count_text(abs(self.messages), "message") if self.messages else ""

    @property
    def doubtful(self) -> tuple[FilePlan, ...]:
        return tuple(file for file in self.files if file.doubt and not file.refusal)


@dataclass(frozen=True, slots=True)
class RewindReport:
    """The result of a step. `prompt` is the text of the removed prompt, to be edited again.

    `problems` are lines about files that were not restored.
    """

    text: str
    prompt: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionFileDiff:
    """A file that the session changed. `diff` is a unified diff from before its first change to now.

    If there is no text to compare, `diff` is empty and `note` says why.
    """

    path: str
    diff: str
    note: str = ""


class NothingToDo(Exception):  # noqa: N818  # an answer, not a failure
    """There is nothing to undo or redo. The text is one line for the user."""


@dataclass(frozen=True, slots=True)
class _PendingStep:
    plan: RewindPlan
    why: MoveKind
    after: Head
    steps: tuple[FileStep, ...]
    prompt: UserPrompt | None
    finishes: Move | None
    spans_compaction: bool
    state: tuple[object, ...]


class Rewinder:
    """Plans and performs the steps of one session. All methods block; call them one at a time while no turn runs."""

    def __init__(self, session: Session, blobs: Blobs, folders: Sequence[Path]) -> None:
        self._session = session
        self._blobs = blobs
        self._restorer = Restorer(folders, blobs)
        self._root = folders[0]
        self._pending_step: _PendingStep | None = None
        self._plans = 0

    @property
    def _history(self) -> SessionHistory:
        return self._session.history

    def user_prompts(self) -> tuple[RewindPoint, ...]:
        """Return the prompts that led to the current state, oldest first."""
        prompts = self._history.prompts()
        changes = self._history.live_changes(0)
        messages = []
        for prompt, following in zip_longest(prompts, prompts[1:]):
            end = None if following is None else following.number
            paths = [
                change.path
                for _, change in changes
                if prompt.number <= change.number and (end is None or change.number < end)
            ]
            entry = self._history.stored[prompt.number].entry
            files = tuple(dict.fromkeys(self._label(path) for path in paths))
            messages.append(RewindPoint(prompt.number, typed_text(entry.message), entry.at, files))
        return tuple(messages)

    def plan_rewind(self, number: int, scope: RewindScope) -> RewindPlan:
        """Plan to rewind to the state before prompt `number`. Raise `NothingToDo` if there is no such prompt."""
        prompt = next((user_prompt for user_prompt in self._history.prompts() if user_prompt.number == number), None)
        if prompt is None:
            raise NothingToDo("That message is no longer in this conversation.")
        changes = self._history.live_changes(number)
        steps = steps_back(changes, self._states_after_parts()) if scope != "conversation" else []
        after = prompt.before if scope != "files" else self._history.head
        return self._plan("rewind", after, steps, prompt if scope != "files" else None)

    def plan_undo(self) -> RewindPlan:
        """Plan to undo the last turn, or a compaction after it; an interrupted step is finished first."""
        history = self._history
        if history.unfinished is not None:
            interrupted = history.unfinished
            return self._plan("undo", history.head, steps_to_finish(interrupted.files), None, finishes=interrupted)
        if history.head.compacted_from is not None:
            return self._plan("undo", history.head.compacted_from, [], None)
        prompt = history.head.prompt
        if prompt is None:
            raise NothingToDo("There is nothing to undo yet.")
        steps = steps_back(history.live_changes(prompt.number), self._states_after_parts())
        return self._plan("undo", prompt.before, steps, prompt)

    def plan_part(self, number: int, path: str, hunk: int | None = None) -> RewindPlan:
        """Plan to undo the change of one file by turn `number`, or one hunk of it; the conversation stays.

        Raise `NothingToDo` with the reason if later changes prevent that.
        """
        file = next((file for file in files_of_turn(self._history, number) if file.path == path), None)
        if file is None:
            raise NothingToDo("That change was already undone.")
        step = self._part_step(file, hunk)
        if _is_done(step):
            raise NothingToDo("That change was already undone.")
        return self._plan("undo", self._history.head, [step], None)

    def _part_step(self, file: FileVersions, hunk: int | None) -> FileStep:
        label = self._label(file.path)
        try:
            current = read_state(file.path)
            if hunk is None and is_same_content(current, file.after):
                if file.before is not None and not file.before.is_kept:
                    raise ConflictError("its old content was not saved")
                return FileStep(file.path, current, file.before, changes=file.changes if file.is_last else ())
            if current is None or current.is_link:
                raise ConflictError("it was deleted or replaced after this turn")
            content = content_without(file, hunk, self._blobs, label)
            if not self._blobs.store(content):
                raise ConflictError("the result could not be saved (is the disk full?)")
        except (ConflictError, NotRestorable, Refused) as conflict:
            raise NothingToDo(f"{label} was not changed: {str(conflict).removeprefix(f'{label} ')}.") from None
        return FileStep(file.path, current, FileState(digest_of(content), len(content), current.mode))

    def _states_after_parts(self) -> dict[str, FileState | None]:
        """Return the files that `plan_part` restored since the last message, with their states after that."""
        moves = (move for move in self._history.redoable if move.before.key == move.after.key)
        return {file.path: file.target for move in moves for file in move.files}

    def plan_redo(self) -> RewindPlan:
        """Plan to redo the last undone step."""
        if not self._history.redoable:
            raise NothingToDo("There is nothing to redo.")
        move = self._history.redoable[-1]
        return self._plan("redo", move.before, steps_again(move.files), None)

    def perform(self, plan: RewindPlan, overwrite: Collection[str]) -> RewindReport:
        """Perform a plan; doubtful files only if they are in `overwrite`.

        Raise `NothingToDo` if the conversation has changed since the plan was made.
        """
        planned, self._pending_step = self._pending_step, None
        if planned is None or planned.plan.plan_id != plan.plan_id or planned.state != self._state():
            raise NothingToDo("The conversation has changed since. Try again.")
        problems = [f"{self._label(step.path)} {step.refusal}" for step in planned.steps if step.refusal]
        ready = self._prepare(planned, frozenset(overwrite), problems)
        move = self._record_step(planned, ready)
        done = 0
        for step in ready:
            try:
                self._restorer.perform(step)
                done += 1
            except Refused as refused:
                problems.append(str(refused))
        if move.files:
            self._session.finish(move.move_id)
        if planned.finishes is not None:
            self._session.finish(planned.finishes.move_id)
        prompt = (
            typed_text(self._history.stored[planned.prompt.number].entry.message) if planned.prompt is not None else ""
        )
        return RewindReport(_report(planned, done), prompt, tuple(problems))

    def _prepare(self, planned: _PendingStep, overwrite: frozenset[str], problems: list[str]) -> list[PreparedStep]:
        ready: list[PreparedStep] = []
        for step in planned.steps:
            if step.refusal or (step.doubt and self._label(step.path) not in overwrite) or _is_done(step):
                continue
            try:
                # A link that replaced a folder is removed before the files of the folder are restored.
                removed = (other.step.path for other in ready if other.step.target is None)
                ready.append(
                    self._restorer.prepare(step, is_below=any(step.path.startswith(f"{at}/") for at in removed))
                )
            except Refused as refused:
                problems.append(str(refused))
        return ready

    def _record_step(self, planned: _PendingStep, ready: Sequence[PreparedStep]) -> Move:
        """Write the step to the session, so that it can be undone."""
        history, files = self._history, tuple(step.move for step in ready)
        paths = {file.path for file in files}
        if planned.why == "redo":
            changes = history.redoable[-1].changes
        else:
            steps = (step for step in planned.steps if step.path in paths or (_is_done(step) and not step.refusal))
            changes = tuple(at for step in steps for at in step.changes)
        if planned.finishes is not None:
            return Move(planned.finishes.move_id, planned.why, history.head, planned.after)
        move = Move(history.next_move_id, planned.why, history.head, planned.after, files, changes)
        self._session.move(move)
        return move

    def _plan(
        self,
        why: MoveKind,
        after: Head,
        steps: Sequence[FileStep],
        prompt: UserPrompt | None,
        *,
        finishes: Move | None = None,
    ) -> RewindPlan:
        self._plans += 1
        files = tuple(self._file_plan(step) for step in steps if not _is_done(step))
        messages = len(list(self._history.head.numbers)) - len(list(after.numbers))
        turns = self._history.head.turns - after.turns
        plan = RewindPlan(self._plans, "", files, messages, turns, why == "redo")
        plan = replace(plan, summary=_summary(why, plan, finishes))
        head = self._history.head
        spans_compaction = after.is_compacted(head) if why == "redo" else head.is_compacted(after)
        step = _PendingStep(plan, why, after, tuple(steps), prompt, finishes, spans_compaction, self._state())
        self._pending_step = step
        return plan

    def _file_plan(self, step: FileStep) -> FilePlan:
        action: Literal["restore", "create", "delete"]
        action = "delete" if step.target is None else "create" if step.current is None else "restore"
        return FilePlan(self._label(step.path), action, step.doubt, step.refusal)

    def _state(self) -> tuple[object, ...]:
        history = self._history
        return history.latest, history.next_move_id, history.next_change, history.head.key

    def _label(self, path: str) -> str:
        root = str(self._root)
        return path[len(root) + 1 :] if path.startswith(root.rstrip(os.sep) + os.sep) else path


def _is_done(step: FileStep) -> bool:
    """Return whether the file already has its target state."""
    return not step.refusal and is_same_file(step.current, step.target)


def _summary(why: MoveKind, plan: RewindPlan, finishes: Move | None) -> str:
    if finishes is not None:
        return f"Finish restoring {count_text(len(plan.files), 'file')}"
    verb = {"undo": "Undo", "redo": "Redo", "rewind": "Rewind"}[why]
    parts = []
    if plan.removed:
        parts.append(f"{'removes' if plan.messages > 0 else 'brings back'} {plan.removed}")
    if plan.files:
        parts.append(f"restores {count_text(len(plan.files), 'file')}")
    return f"{verb}: {', '.join(parts) or 'no change'}"


def _report(planned: _PendingStep, done: int) -> str:
    if planned.finishes is not None:
        return f"Finished: {count_text(done, 'file')} restored."
    verb = {"undo": "Undone", "redo": "Redone", "rewind": "Rewound"}[planned.why]
    is_redo, plan = planned.why == "redo", planned.plan
    parts = [f"{plan.removed} {'removed' if plan.messages > 0 else 'back'}"] if plan.removed else []
    if planned.spans_compaction:
        parts = [
            "the conversation is compacted again" if is_redo else "the messages from before the compaction are back"
        ]
    parts += [f"{count_text(done, 'file')} restored"] if done else []
    hint = "/undo reverts this." if is_redo else "/redo reverts this."
    return f"{verb}: {', '.join(parts) or 'no change was needed'}. {hint}"


def session_diffs(session: Session, blobs: Blobs, show: Callable[[Path], str]) -> tuple[SessionFileDiff, ...]:
    """Return a diff for each changed file that was not restored; later changes by others are included."""
    first_states: dict[str, FileState | None] = {}
    for _, change in session.history.live_changes(0):
        first_states.setdefault(change.path, change.before)
    diffs = (_diff(path, before, blobs, show(Path(path))) for path, before in first_states.items())
    return tuple(diff for diff in diffs if diff is not None)


def _diff(path: str, before: FileState | None, blobs: Blobs, label: str) -> SessionFileDiff | None:
    try:
        now = read_state(path)
    except NotRestorable as refused:
        return SessionFileDiff(label, "", str(refused))
    if is_same_file(now, before):
        return None
    if now is not None and before is not None and now.is_same(before):
        return SessionFileDiff(label, "", f"mode changed from {before.mode:o} to {now.mode:o}")
    if (now is not None and now.is_link) or (before is not None and before.is_link):
        return SessionFileDiff(label, "", "a symbolic link was made, changed or removed")
    old = None if before is None else blobs.get(before.digest)
    if before is not None and old is None:
        return SessionFileDiff(label, "", "changed; its earlier content was not saved")
    try:
        new = Path(path).read_bytes() if now is not None else None
        left = text_file.decode(old, label) if old is not None else None
        right = text_file.decode(new if new is not None else b"", label)
    except (Refused, OSError):
        return SessionFileDiff(label, "", "changed; it is not a text file")
    diff = text_file.diff_of(label, left, right)
    if now is None:
        return SessionFileDiff(label, diff, "deleted")
    return SessionFileDiff(
        label,
        diff,
        "" if diff else "a new empty file" if before is None else ("only its encoding or permissions changed"),
    )
