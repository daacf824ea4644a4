"""Takes a conversation and its files back, and forth again.

A step is worked out first (`plan_*`, which changes nothing) and then performed: what the files are now is kept, the
step is written to the session, and only then are files put back. So every step can be taken back, and one that was
broken off can be finished.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from qcode.protocol.messages import typed_text
from qcode.protocol.rewinding import FilePlan, OwnMessage, RewindPlan, RewindReport, What
from qcode.protocol.values import dataclass
from qcode.runtime.checkpoints.blobs import Blobs
from qcode.runtime.checkpoints.plan import FileStep, steps_again, steps_back, steps_to_finish
from qcode.runtime.checkpoints.restore import Ready, Restorer
from qcode.runtime.store.line import Line, Move, Own, Point, Why
from qcode.runtime.store.session import Session
from qcode.tools.refusal import Refused


class NothingToDo(Exception):  # noqa: N818  # an answer, not a failure
    """There is nothing to go back to, or forth to. The text is one line for a person."""


@dataclass(frozen=True, slots=True)
class _Planned:
    plan: RewindPlan
    why: Why
    after: Point
    steps: tuple[FileStep, ...]
    own: Own | None
    finishes: Move | None
    state: tuple[object, ...]


class Rewinder:
    """For one session. All methods read or write files and belong in a thread; one at a time, while no turn runs."""

    def __init__(self, session: Session, blobs: Blobs, folders: Sequence[Path]) -> None:
        self._session = session
        self._restorer = Restorer(folders, blobs)
        self._root = folders[0]
        self._planned: _Planned | None = None
        self._plans = 0

    @property
    def _line(self) -> Line:
        return self._session.line

    def own_messages(self) -> tuple[OwnMessage, ...]:
        """Return what the person said on the way to here, the first one first."""
        owns = self._line.owns()
        changes = self._line.live_changes(0)
        found = []
        for own, following in zip_longest(owns, owns[1:]):
            end = None if following is None else following.number
            paths = [one.path for _, one in changes if own.number <= one.number and (end is None or one.number < end)]
            entry = self._line.stored[own.number].entry
            files = tuple(dict.fromkeys(self._shown(path) for path in paths))
            found.append(OwnMessage(own.number, typed_text(entry.message), entry.at, files))
        return tuple(found)

    def plan_rewind(self, number: int, what: What) -> RewindPlan:
        """Plan to go back to before the person's message `number`; raise `NothingToDo` where there is none."""
        own = next((one for one in self._line.owns() if one.number == number), None)
        if own is None:
            raise NothingToDo("That message is not in this conversation any more.")
        steps = steps_back(self._line.live_changes(number)) if what != "conversation" else []
        after = own.before if what != "files" else self._line.point
        return self._plan("rewind", after, steps, own if what != "files" else None)

    def plan_undo(self) -> RewindPlan:
        """Plan to take back the last turn, or a compaction after it; first of all to finish what was broken off."""
        line = self._line
        if line.unfinished is not None:
            broken = line.unfinished
            return self._plan("undo", line.point, steps_to_finish(broken.files), None, finishes=broken)
        if line.point.compacted_from is not None:
            return self._plan("undo", line.point.compacted_from, [], None)
        own = line.point.own
        if own is None:
            raise NothingToDo("There is nothing to undo: nothing was said yet.")
        return self._plan("undo", own.before, steps_back(line.live_changes(own.number)), own)

    def plan_redo(self) -> RewindPlan:
        """Plan to take the last step back back."""
        if not self._line.redoable:
            raise NothingToDo("There is nothing to redo.")
        move = self._line.redoable[-1]
        return self._plan("redo", move.before, steps_again(move.files), None)

    def perform(self, plan: RewindPlan, overwrite: Collection[str]) -> RewindReport:
        """Do what was planned; of the doubtful files only those in `overwrite`.

        Raise `NothingToDo` where the conversation has moved on since.
        """
        planned, self._planned = self._planned, None
        if planned is None or planned.plan.plan_id != plan.plan_id or planned.state != self._state():
            raise NothingToDo("The conversation has moved on since; ask again.")
        problems = [f"{self._shown(one.path)} {one.refusal}" for one in planned.steps if one.refusal]
        ready = self._prepared(planned, frozenset(overwrite), problems)
        move = self._written(planned, ready)
        done = 0
        for one in ready:
            try:
                self._restorer.perform(one)
                done += 1
            except Refused as refused:
                problems.append(str(refused))
        if move.files:
            self._session.finish(move.move_id)
        if planned.finishes is not None:
            self._session.finish(planned.finishes.move_id)
        prompt = typed_text(self._line.stored[planned.own.number].entry.message) if planned.own is not None else ""
        return RewindReport(_report(planned, done), prompt, tuple(problems))

    def _prepared(self, planned: _Planned, overwrite: frozenset[str], problems: list[str]) -> list[Ready]:
        ready = []
        for step in planned.steps:
            if step.refusal or (step.doubt and self._shown(step.path) not in overwrite) or _is_there(step):
                continue
            try:
                ready.append(self._restorer.prepare(step))
            except Refused as refused:
                problems.append(str(refused))
        return ready

    def _written(self, planned: _Planned, ready: Sequence[Ready]) -> Move:
        """Write the step to the session: from now on it counts, and what was prepared can be taken back."""
        line, files = self._line, tuple(one.move for one in ready)
        paths = {one.path for one in files}
        if planned.why == "redo":
            changes = line.redoable[-1].changes
        else:
            taken = (one for one in planned.steps if one.path in paths or (_is_there(one) and not one.refusal))
            changes = tuple(at for one in taken for at in one.changes)
        move = Move(line.moves, planned.why, line.point, planned.after, files, changes)
        if planned.finishes is None:
            self._session.move(move)
            return move
        return Move(planned.finishes.move_id, planned.why, line.point, planned.after)

    def _plan(
        self, why: Why, after: Point, steps: Sequence[FileStep], own: Own | None, *, finishes: Move | None = None
    ) -> RewindPlan:
        self._plans += 1
        shown = tuple(self._file_plan(step) for step in steps if not _is_there(step))
        messages = len(list(self._line.point.numbers)) - len(list(after.numbers))
        plan = RewindPlan(self._plans, _summary(why, messages, shown, finishes), shown, messages)
        self._planned = _Planned(plan, why, after, tuple(steps), own, finishes, self._state())
        return plan

    def _file_plan(self, step: FileStep) -> FilePlan:
        path = self._shown(step.path)
        action: Literal["restore", "create", "delete"]
        action = "delete" if step.target is None else "create" if step.current is None else "restore"
        return FilePlan(path, action, step.doubt, step.refusal)

    def _state(self) -> tuple[object, ...]:
        line = self._line
        return line.latest, line.moves, line.next_change, line.point.key

    def _shown(self, path: str) -> str:
        root = str(self._root)
        return path[len(root) + 1 :] if path.startswith(root.rstrip(os.sep) + os.sep) else path


def _is_there(step: FileStep) -> bool:
    """Say whether the file already is what it should be."""
    if step.refusal:
        return False
    if step.current is None or step.target is None:
        return step.current is step.target
    return step.current.digest == step.target.digest


def _summary(why: Why, messages: int, files: Sequence[FilePlan], finishes: Move | None) -> str:
    if finishes is not None:
        return f"Finish putting back {_count(len(files), 'file')}"
    verb = {"undo": "Undo", "redo": "Redo", "rewind": "Rewind"}[why]
    parts = []
    if messages:
        parts.append(f"{_count(abs(messages), 'message')} {'leave' if messages > 0 else 'come back'}")
    if files:
        parts.append(f"{_count(len(files), 'file')} put back")
    return f"{verb}: {', '.join(parts) or 'nothing changes'}"


def _report(planned: _Planned, done: int) -> str:
    if planned.finishes is not None:
        return f"Finished: {_count(done, 'file')} put back."
    verb = {"undo": "Undone", "redo": "Redone", "rewind": "Rewound"}[planned.why]
    messages = planned.plan.messages
    parts = [f"{_count(abs(messages), 'message')} {'taken out' if messages > 0 else 'back'}"] if messages else []
    parts += [f"{_count(done, 'file')} put back"] if done else []
    way = "/undo takes this back." if planned.why == "redo" else "/redo takes this back."
    return f"{verb}: {', '.join(parts) or 'nothing had to change'}. {way}"


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number:,} {what}s"
