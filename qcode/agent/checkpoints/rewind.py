"""Undo, redo and rewind of a conversation and its files.

A step is planned first (`plan_*`, which changes nothing) and then performed: the current files are stored, the step is
written to the session, and then the files are restored. So every step can be undone, and an interrupted step can be
finished. A file is restored without asking only if nothing else changed it after qcode. Files are restored one by one,
each atomically, only inside the workspace, and without following links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Literal, TypeAlias

from qcode.agent.checkpoints.blobs import MAX_FILE_BYTES, Blobs, digest_of
from qcode.agent.checkpoints.turn_changes import ConflictError, FileVersions, content_without, files_of_turn
from qcode.agent.sessions.history import (
    LINK_PREFIX,
    FileMove,
    FileState,
    Head,
    Move,
    MoveKind,
    RecordedChange,
    SessionHistory,
    UserPrompt,
)
from qcode.agent.sessions.session import Session
from qcode.protocol.messages import typed_text
from qcode.protocol.tools import Refused
from qcode.text.numbers import count_text
from qcode.tools import disk, text_file
from qcode.tools.disk import LoadedFile, explain
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
            if hunk is None and _is_same(current, file.after):
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
        move = Move(history.moves, planned.why, history.head, planned.after, files, changes)
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
        return history.latest, history.moves, history.next_change, history.head.key

    def _label(self, path: str) -> str:
        root = str(self._root)
        return path[len(root) + 1 :] if path.startswith(root.rstrip(os.sep) + os.sep) else path


def _is_done(step: FileStep) -> bool:
    """Return whether the file already has its target state."""
    return not step.refusal and _is_same_file(step.current, step.target)


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


@dataclass(frozen=True, slots=True)
class FileStep:
    """A file to be restored from `current` to `target` (None: deleted).

    `doubt` is why the user must confirm it, `refusal` why it is impossible. `changes` are the positions of the changes
    that it undoes.
    """

    path: str
    current: FileState | None
    target: FileState | None
    doubt: str = ""
    refusal: str = ""
    changes: tuple[int, ...] = ()


class NotRestorable(Exception):  # noqa: N818  # a state of the disk, not an error of qcode
    """A path is not a readable regular file inside the folders. The text says why."""


def read_state(path: str) -> FileState | None:
    """Return the state of the file or link at `path`, None if missing. Raise `NotRestorable` for anything else."""
    try:
        info = os.lstat(path)
        parent = os.path.split(path)[0]
        if os.path.realpath(parent) != parent:
            raise NotRestorable("is now behind a symbolic link")
        if stat.S_ISLNK(info.st_mode):
            target = os.fsencode(os.readlink(path))  # noqa: PTH115  # `Path` drops a final slash
            return FileState(LINK_PREFIX + digest_of(target), len(target), stat.S_IMODE(info.st_mode))
        if not stat.S_ISREG(info.st_mode):
            raise NotRestorable("is no longer a regular file")
        if info.st_size > MAX_FILE_BYTES:
            raise NotRestorable("is too large to save first")
        data = Path(path).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotRestorable(f"is unreadable ({error.strerror})") from None
    if info.st_nlink > 1:
        raise NotRestorable("has several hard links")
    return FileState(digest_of(data), len(data), stat.S_IMODE(info.st_mode))


def steps_back(
    changes: Sequence[tuple[int, RecordedChange]], later_states: Mapping[str, FileState | None] | None = None
) -> list[FileStep]:
    """Return the steps that undo these changes, one per file, in the order in which files were first changed.

    `later_states` are the states of files that qcode itself changed after these changes.
    """
    by_path: dict[str, list[tuple[int, RecordedChange]]] = {}
    for at, change in changes:
        by_path.setdefault(change.path, []).append((at, change))
    later = later_states or {}
    steps = (_step_back(path, group, (later[path],) if path in later else ()) for path, group in by_path.items())
    return [step for step in steps if step is not None]


def steps_again(files: Iterable[FileMove]) -> list[FileStep]:
    """Return the file steps that undo a move."""
    steps = (_step(file.path, (file.target,), file.source, "", ()) for file in files)
    return [step for step in steps if step is not None]


def steps_to_finish(files: Iterable[FileMove]) -> list[FileStep]:
    """Return the remaining file steps of an interrupted move."""
    steps = (_step(file.path, (file.source,), file.target, "", ()) for file in files)
    return [step for step in steps if step is not None]


def _step_back(
    path: str, changes: Sequence[tuple[int, RecordedChange]], later_states: Sequence[FileState | None]
) -> FileStep | None:
    first, last = changes[0][1], changes[-1][1]
    doubt = ""
    for (_, earlier), (_, later) in pairwise(changes):
        if not _is_same(earlier.after, later.before):
            doubt = "was also changed outside qcode in between"
    if not doubt and any(change.by == "command" for _, change in changes):
        doubt = "changed while a command ran, possibly not by the command"
    # If qcode was killed between the record and the change, the file still has the content before it.
    expected = (last.after, last.before, *later_states) if last.by == "tool" else (last.after, *later_states)
    has_modes = any(change.by == "command" for _, change in changes)
    return _step(path, expected, first.before, doubt, tuple(at for at, _ in changes), has_modes=has_modes)


def _step(
    path: str,
    expected: Sequence[FileState | None],
    target: FileState | None,
    doubt: str,
    changes: tuple[int, ...],
    *,
    has_modes: bool = True,
) -> FileStep | None:
    """Return the step that restores `path` to `target`; it has a doubt if the current state is not in `expected`.

    `has_modes`: a file that differs from `target` only in its mode is restored too. Tools change no mode, so after a
    change by a tool a different mode was set by the user.
    """
    try:
        current = read_state(path)
    except NotRestorable as refused:
        return FileStep(path, None, target, refusal=str(refused), changes=changes)
    if _is_same_file(current, target) or (_is_same(current, target) and not has_modes):
        return FileStep(path, current, current, changes=changes) if changes else None
    if current is not None and current.is_link and not any(state and state.is_link for state in (*expected, target)):
        return FileStep(path, None, target, refusal="is no longer a regular file", changes=changes)
    if target is not None and not target.is_kept and not _is_same(current, target):
        return FileStep(path, current, target, refusal="was not saved, so it cannot be restored", changes=changes)
    if not any(_is_same(current, state) for state in expected):
        doubt = "has been deleted since" if current is None else "has been changed since"
    return FileStep(path, current, target, doubt, changes=changes)


def _is_same(left: FileState | None, right: FileState | None) -> bool:
    return left is right if left is None or right is None else left.digest == right.digest


def _is_same_file(left: FileState | None, right: FileState | None) -> bool:
    """Return whether both have the same content and mode; the mode of a link is ignored."""
    if left is None or right is None:
        return left is right
    return left.digest == right.digest and (left.mode == right.mode or left.is_link)


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step whose current content is stored; `loaded` is the only version that may be replaced, bytes for a link.

    `content` is None if the file is deleted, or if only its mode is restored.
    """

    step: FileStep
    move: FileMove
    loaded: LoadedFile | bytes | None
    content: bytes | None


class Restorer:
    """Restores files. `folders` are the real paths of the workspace."""

    def __init__(self, folders: Iterable[Path], blobs: Blobs) -> None:
        self._folders = tuple(folders)
        self._blobs = blobs

    def prepare(self, step: FileStep, *, is_below: bool = False) -> PreparedStep:
        """Store the current content, so that the step can be undone. Raise `Refused` if that fails.

        `is_below`: an earlier step removes the link or file that replaced the folder of this file.
        """
        content = None
        if step.target is not None and not _is_same(step.current, step.target):
            content = self._blobs.get(step.target.content_digest)
            if content is None:
                raise Refused(f"{step.path}: its old content is missing from the session's folder")
        loaded = None if is_below else self._load(step.path)
        data = loaded.data if isinstance(loaded, LoadedFile) else loaded
        prefix = LINK_PREFIX if isinstance(loaded, bytes) else ""
        digest = None if data is None else prefix + digest_of(data)
        if digest != (step.current.digest if step.current is not None else None):
            raise Refused(f"{step.path} was changed just now")
        source = None
        if data is not None and digest is not None:
            if not self._blobs.store(data):
                raise Refused(f"{step.path} could not be saved first (is the disk full?), so it was not changed")
            source = FileState(digest, len(data), loaded.mode if isinstance(loaded, LoadedFile) else 0o777)
        return PreparedStep(step, FileMove(step.path, source, step.target), loaded, content)

    def perform(self, ready: PreparedStep) -> None:
        """Restore one file. Raise `Refused` if it changed since `prepare`, or if writing fails."""
        path, target = ready.step.path, ready.step.target
        base, parts = self._split(path)
        try:
            with disk.open_folder(base, parts[:-1], creates=target is not None) as folder:
                self._put_file(folder, parts[-1], ready, target)
        except OSError as error:
            raise Refused(explain(error, path)) from None

    def _put_file(self, folder: int, name: str, ready: PreparedStep, target: FileState | None) -> None:
        path, loaded, content = ready.step.path, ready.loaded, ready.content
        if isinstance(loaded, bytes) or (target is not None and target.is_link):
            link = content if target is not None and target.is_link else None
            file = (content, target.mode) if target is not None and content is not None and link is None else None
            disk.replace_link(folder, name, loaded, path, link=link, file=file)
        elif target is None:
            if loaded is not None:
                disk.remove_file(folder, name, loaded, path)
        elif content is None:
            if loaded is not None:
                disk.set_mode(folder, name, target.mode, loaded, path)
        else:
            old = None if loaded is None else replace(loaded, mode=target.mode)
            disk.replace_file(folder, name, content, old, path)
            if old is None:
                os.chmod(name, target.mode, dir_fd=folder)

    def _load(self, path: str) -> LoadedFile | bytes | None:
        """Return the file, or the target of a link."""
        base, parts = self._split(path)
        try:
            with disk.open_folder(base, parts[:-1]) as folder:
                link = disk.read_link(folder, parts[-1])
                return link if link is not None else disk.load(folder, parts[-1], path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Refused(explain(error, path)) from None

    def _split(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Return the folder of the workspace that contains `path`, and the parts below; raise `Refused` if none."""
        parent, name = os.path.split(path)
        if os.path.realpath(parent) == parent and name not in ("", ".", ".."):
            for base in self._folders:
                if Path(path).is_relative_to(base) and Path(path) != base:
                    return base, Path(path).relative_to(base).parts
        raise Refused(f"{path} is outside the folders of this session")


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
    if _is_same_file(now, before):
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
