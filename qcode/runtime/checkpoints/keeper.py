"""Checkpoints of the session that is open: recording, watching commands, and going back, for a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import TypeVar

from qcode.protocol.rewinding import FileDiff, OwnMessage, RewindPlan, RewindReport, What
from qcode.protocol.tools import ToolOutcome
from qcode.runtime.checkpoints.blobs import Blobs
from qcode.runtime.checkpoints.diffs import session_diffs
from qcode.runtime.checkpoints.recorder import Recorder
from qcode.runtime.checkpoints.rewinder import NothingToDo, Rewinder
from qcode.runtime.checkpoints.watch import Watch
from qcode.runtime.store.session import Session
from qcode.tools.tool import off_loop
from qcode.tools.workspace import UNRECORDED, Workspace

_T = TypeVar("_T")


class Checkpoints:
    """For one workspace, session after session: `follow` is called with each. The real `protocol.rewinding.Rewinds`.

    `moved` is called when the session is at another point; while `is_busy` nothing goes back or forth.
    """

    def __init__(
        self, workspace: Workspace, session: Session, *, moved: Callable[[], None], is_busy: Callable[[], bool]
    ) -> None:
        self._workspace = workspace
        self._moved = moved
        self._is_busy = is_busy
        self._watch = Watch(workspace.root)
        self._watching = asyncio.Lock()
        self._begin(session)

    def _begin(self, session: Session) -> None:
        workspace = self._workspace
        self._session = session
        self._blobs = Blobs(session.blobs)
        self._recorder = Recorder(session, self._blobs)
        self._rewinder = Rewinder(session, self._blobs, (workspace.root, *workspace.added))
        self._comparing: asyncio.Task[int] | None = None
        workspace.recorder = self._recorder

    def follow(self, session: Session) -> None:
        """Go on with another session."""
        self.close()
        self._begin(session)

    def close(self) -> None:
        """Record nothing more; safe to call twice."""
        self._workspace.recorder = UNRECORDED
        self._blobs.close()

    def own_messages(self) -> tuple[OwnMessage, ...]:
        return self._rewinder.own_messages()

    async def plan_undo(self) -> RewindPlan:
        return await self._work(self._rewinder.plan_undo)

    async def plan_redo(self) -> RewindPlan:
        return await self._work(self._rewinder.plan_redo)

    async def plan_rewind(self, number: int, what: What) -> RewindPlan:
        return await self._work(lambda: self._rewinder.plan_rewind(number, what))

    async def perform(self, plan: RewindPlan, overwrite: Collection[str] = ()) -> RewindReport:
        """Perform a plan to its end, also where nobody waits for it any more."""
        try:
            return await self._work(lambda: self._rewinder.perform(plan, overwrite))
        finally:
            self._moved()

    async def file_changes(self) -> tuple[FileDiff, ...]:
        return await self._work(lambda: session_diffs(self._session, self._blobs, self._workspace.show))

    async def _work(self, work: Callable[[], _T]) -> _T:
        if self._is_busy():
            raise ValueError("A turn is running. Press Esc to interrupt it first.")
        await self.settle()
        try:
            return await off_loop(work)
        except NothingToDo as nothing:
            raise ValueError(str(nothing)) from None

    async def watched(self, work: Awaitable[ToolOutcome]) -> ToolOutcome:
        """Run a command that may change files, and record which it changed; its summary says how many."""
        async with self._watching:
            await asyncio.to_thread(self._watch.look)
            try:
                outcome = await work
            finally:
                recorder, watch = self._recorder, self._watch
                self._comparing = asyncio.ensure_future(asyncio.to_thread(lambda: _record(watch, recorder)))
            changed = await asyncio.shield(self._comparing)
        return _with_count(outcome, changed)

    async def settle(self) -> None:
        """Return once what an interrupted command changed is recorded."""
        if self._comparing is not None:
            await asyncio.wait([self._comparing])

    def take_warnings(self) -> tuple[str, ...]:
        """Return lines for a person that were not returned before."""
        return (*self._recorder.take_warnings(), *self._watch.take_warnings())


def _record(watch: Watch, recorder: Recorder) -> int:
    found = watch.differences()
    for one in found:
        recorder.saw(one.path, one.before, one.content, one.after)
    return len(found)


def _with_count(outcome: ToolOutcome, changed: int) -> ToolOutcome:
    if not changed:
        return outcome
    files = "1 file changed" if changed == 1 else f"{changed:,} files changed"
    return replace(outcome, summary=f"{outcome.summary}, {files}" if outcome.summary else files)
