"""Checkpoints of the open session: record files before they change, watch commands, rewind, show diffs.

The old content is stored first, then the record is written, then the file is changed. So the old content can be
restored even if qcode is killed. If a content cannot be stored, the change still happens, and one notice says that it
cannot be undone. `blobs`, `rewind` and `watch` are imported with the first change or request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qcode.agent.sessions.history import FileState, RecordedChange
from qcode.agent.sessions.session import Session
from qcode.protocol.tools import ToolOutcome
from qcode.text.numbers import count_text
from qcode.tools.disk import LoadedFile
from qcode.tools.tool import run_blocking
from qcode.tools.workspace import UNRECORDED, Workspace

if TYPE_CHECKING:
    from qcode.agent.checkpoints.blobs import Blobs
    from qcode.agent.checkpoints.rewind import (
        Rewinder,
        RewindPlan,
        RewindPoint,
        RewindReport,
        RewindScope,
        SessionFileDiff,
    )
    from qcode.agent.checkpoints.turn_changes import TurnChanges
    from qcode.agent.checkpoints.watch import Difference, FolderWatch

_T = TypeVar("_T")


class Checkpoints:
    """The checkpoints of one workspace and its open session. Call `follow_session` with each new session.

    A move is an undo, a redo or a rewind. Methods that plan or perform a move raise `ValueError` with one line for the
    user if the move is not possible. No move is possible while a turn runs (`is_busy`), but the changes so far can be
    read then. `on_move` is called after each attempt to perform a move, even if it failed.
    """

    def __init__(
        self, workspace: Workspace, session: Session, *, on_move: Callable[[], None], is_busy: Callable[[], bool]
    ) -> None:
        self._workspace = workspace
        self._on_move = on_move
        self._is_busy = is_busy
        self._watch: FolderWatch | None = None
        self._watch_lock = asyncio.Lock()
        self._begin_session(session)

    def _begin_session(self, session: Session) -> None:
        self._session = session
        self._workspace.recorder = self._recorder = Recorder(session)
        self._current_rewinder: Rewinder | None = None
        self._rewinder_folders: tuple[Path, ...] = ()  # the folders of the workspace for which the rewinder was made
        self._compare_task: asyncio.Task[tuple[Path, ...]] | None = None

    @property
    def _rewinder(self) -> Rewinder:
        folders = (self._workspace.root, *self._workspace.added)
        if self._current_rewinder is None or self._rewinder_folders != folders:
            from qcode.agent.checkpoints.rewind import Rewinder

            self._current_rewinder = Rewinder(self._session, self._recorder.blobs, folders)
            self._rewinder_folders = folders
        return self._current_rewinder

    def follow_session(self, session: Session) -> None:
        """Continue with another session."""
        self.close()
        self._begin_session(session)

    def close(self) -> None:
        """Stop recording. Idempotent."""
        self._workspace.recorder = UNRECORDED
        self._recorder.close()

    def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts to which the conversation can be rewound, oldest first."""
        return self._rewinder.rewind_points()

    async def plan_undo(self) -> RewindPlan:
        """Plan to undo the last turn, or a compaction requested after it."""
        return await self._run_if_idle(self._rewinder.plan_undo)

    async def plan_redo(self) -> RewindPlan:
        """Plan to redo the last undone move."""
        return await self._run_if_idle(self._rewinder.plan_redo)

    async def plan_rewind(self, number: int, scope: RewindScope) -> RewindPlan:
        """Plan to rewind to the state before message `number`."""
        return await self._run_if_idle(lambda: self._rewinder.plan_rewind(number, scope))

    async def perform(self, plan: RewindPlan, overwrite: Collection[str] = ()) -> RewindReport:
        """Perform a plan, completely even if this task is cancelled. See `Rewinder.perform` for `overwrite`."""
        try:
            return await self._run_if_idle(lambda: self._rewinder.perform(plan, overwrite))
        finally:
            self._on_move()

    async def file_changes(self) -> tuple[SessionFileDiff, ...]:
        """Return the diffs of files that the session changed and that were not restored."""
        from qcode.agent.checkpoints.rewind import session_diffs

        return await self._run_when_recorded(
            lambda: session_diffs(self._session, self._recorder.blobs, self._workspace.show)
        )

    async def turn_changes(self) -> tuple[TurnChanges, ...]:
        """Return the files that each turn changed, oldest turn first, without turns that were undone."""
        from qcode.agent.checkpoints.turn_changes import turn_changes

        return await self._run_when_recorded(
            lambda: turn_changes(self._session.history, self._recorder.blobs, self._workspace.show)
        )

    async def plan_partial_undo(self, number: int, path: str, hunk: int | None = None) -> RewindPlan:
        """Plan to undo the change of the file at `path` (absolute) by turn `number`, or one hunk of it."""
        return await self._run_if_idle(lambda: self._rewinder.plan_partial_undo(number, path, hunk))

    async def _run_if_idle(self, operation: Callable[[], _T]) -> _T:
        """Run a blocking operation in a thread; raise `ValueError` if a turn runs or the operation is not possible."""
        if self._is_busy():
            raise ValueError("A turn is running. Press Esc to interrupt it first.")
        return await self._run_when_recorded(operation)

    async def _run_when_recorded(self, operation: Callable[[], _T]) -> _T:
        """Run a blocking operation in a thread after the changes of the last command are recorded.

        Raise `ValueError` if the operation is not possible.
        """
        await self.wait_until_recorded()
        from qcode.agent.checkpoints.rewind import MoveImpossible

        try:
            return await run_blocking(operation)
        except MoveImpossible as impossible:
            raise ValueError(str(impossible)) from None

    async def watch_changes(self, work: Coroutine[Any, Any, ToolOutcome]) -> ToolOutcome:
        """Run the command `work` and record the files that it changed. Add them to the outcome and its summary."""
        try:
            async with self._watch_lock:
                if self._watch is None:
                    from qcode.agent.checkpoints.watch import FolderWatch

                    self._watch = FolderWatch(self._workspace.root)
                # The changes belong to the session in which the command starts, not to a later one.
                recorder, watch = self._recorder, self._watch
                await asyncio.to_thread(watch.scan)
                try:
                    outcome = await work
                finally:
                    self._compare_task = asyncio.ensure_future(asyncio.to_thread(lambda: _record_all(watch, recorder)))
                changed = await asyncio.shield(self._compare_task)
        finally:
            # If the call is cancelled during the scan, the command was never started. Otherwise this has no effect.
            work.close()
        return _with_files(outcome, tuple(map(self._workspace.show, changed)))

    async def wait_until_recorded(self) -> None:
        """Wait until the changes of an interrupted command are recorded."""
        if self._compare_task is not None:
            await asyncio.wait([self._compare_task])

    def take_warnings(self) -> tuple[str, ...]:
        """Return the new warnings for the user, and forget them."""
        watched = () if self._watch is None else self._watch.take_warnings()
        return (*self._recorder.take_warnings(), *watched)


def _record_all(watch: FolderWatch, recorder: Recorder) -> tuple[Path, ...]:
    """Record the changes that a watch observed, and return the paths."""
    differences = watch.differences()
    for difference in differences:
        recorder.record_observed(difference)
    return tuple(difference.path for difference in differences)


def _with_files(outcome: ToolOutcome, names: tuple[str, ...]) -> ToolOutcome:
    if not names:
        return outcome
    count = f"{count_text(len(names), 'file')} changed"
    return replace(
        outcome, summary=f"{outcome.summary}, {count}" if outcome.summary else count, files_without_diff=names
    )


_NEW_FILE_MODE = 0o644


class Recorder:
    """The `ChangeRecorder` of one session, which writes changes to the session file."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._warnings: list[str] = []
        self._has_warned = False  # whether a content could not be stored; the user is warned once

    @cached_property
    def blobs(self) -> Blobs:
        """The stored contents of this session."""
        from qcode.agent.checkpoints.blobs import Blobs

        return Blobs(self._session.blobs)

    def close(self) -> None:
        """Remove contents that are stored only for this run. Idempotent."""
        if "blobs" in vars(self):  # the property was used, so there may be stored contents
            self.blobs.close()

    @contextmanager
    def record_change(self, path: Path, old: LoadedFile | None, data: bytes | None) -> Iterator[None]:
        from qcode.agent.checkpoints.blobs import digest_of

        before = None if old is None else self._store_state(old.data, old.mode, path)
        mode = _NEW_FILE_MODE if old is None else old.mode
        after = None if data is None else FileState(digest_of(data), len(data), mode, is_kept=False)
        change_number = self._session.record_change(
            RecordedChange(self._session.history.latest, str(path), before, after)
        )
        try:
            yield
        except BaseException:
            self._session.void_change(change_number)
            raise
        if data is not None:
            # `/diff` needs the new content if another program changes the file later.
            self.blobs.store(data, is_optional=True)

    def record_observed(self, difference: Difference) -> None:
        """Record a change that a command made, and store the old content if it is known."""
        before = difference.before
        if before is not None and difference.content is not None and self.blobs.store(difference.content):
            before = replace(before, is_kept=True)
        self._session.record_change(
            RecordedChange(self._session.history.latest, str(difference.path), before, difference.after, by="command")
        )

    def take_warnings(self) -> tuple[str, ...]:
        """Return the new warnings for the user, and forget them."""
        warnings, self._warnings = tuple(self._warnings), []
        return warnings

    def _store_state(self, data: bytes, mode: int, path: Path) -> FileState:
        """Store the content of a file, and return its state. Warn once per session if a content cannot be stored."""
        from qcode.agent.checkpoints.blobs import digest_of

        is_kept = self.blobs.store(data)
        if not is_kept and not self._has_warned:
            self._has_warned = True
            self._warnings.append(f"the old content of {path} could not be saved, so /undo cannot restore it")
        return FileState(digest_of(data), len(data), mode, is_kept)
