"""A session with a work tree in which qcode and a user change files, without a model."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

from qcode.agent.checkpoints.checkpoints import Recorder
from qcode.agent.checkpoints.rewind import Rewinder, RewindPlan, RewindReport
from qcode.agent.checkpoints.watch import FolderWatch
from qcode.agent.sessions.store import SessionStore
from qcode.protocol.messages import Text, assistant, user
from qcode.tools.workspace import Workspace


class CheckpointRunner:
    """A session in `base`, with its work tree in `work`, and short ways to edit files, undo and redo."""

    def __init__(self, base: Path, session_id: str = "") -> None:
        self.work = base / "work"
        self.work.mkdir(exist_ok=True)
        ids = itertools.count(sum(1 for _ in base.glob("state/sessions/*/*.jsonl")))
        self.store = SessionStore(
            base / "state", self.work, lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda _: f"s{next(ids)}"
        )
        if session_id:
            opened = self.store.resume(session_id)
            self.session, self.loaded = opened.session, opened.loaded
        else:
            self.session = self.store.create("m/m", self.work)
        self.workspace = Workspace(self.work)
        self.recorder = Recorder(self.session)
        self.blobs = self.recorder.blobs
        self.workspace.recorder = self.recorder
        self.rewinder = Rewinder(self.session, self.blobs, (self.workspace.root,))

    def path(self, name: str) -> Path:
        return self.work / name

    def turn(self, prompt: str, **contents: bytes) -> int:
        """Play a turn in which a tool writes these files (`a_txt` is `a.txt`); return the number of its prompt."""
        number = self.session.append(user(prompt))
        for name, content in contents.items():
            self.write(name.replace("_", "."), content)
        self.session.append(assistant(Text(f"did {prompt}")))
        return number

    def write(self, name: str, content: bytes) -> None:
        place = self.workspace.resolve(name, "write")
        old = self.workspace.load(place) if self.workspace.exists(place) else None
        self.workspace.write(place, content, old)

    def command(self, prompt: str, change: object) -> None:
        """Play a turn in which a command calls `change`; checkpoints see only the files before and after."""
        assert callable(change)
        self.session.append(user(prompt))
        watch = FolderWatch(self.workspace.root)
        watch.scan()
        change()
        for difference in watch.differences():
            self.recorder.record_observed(difference)
        self.session.append(assistant(Text("ran")))

    def undo(self, overwrite: Collection[str] = ()) -> RewindReport:
        return self.rewinder.perform(self.rewinder.plan_undo(), overwrite)

    def redo(self, overwrite: Collection[str] = ()) -> RewindReport:
        return self.rewinder.perform(self.rewinder.plan_redo(), overwrite)

    def do(self, plan: RewindPlan, overwrite: Collection[str] = ()) -> RewindReport:
        return self.rewinder.perform(plan, overwrite)

    @property
    def files(self) -> dict[str, bytes]:
        found = (path for path in self.work.rglob("*") if path.is_file())
        return {path.relative_to(self.work).as_posix(): path.read_bytes() for path in found}

    @property
    def said(self) -> list[str]:
        return [entry.message.text for entry in self.session.entries()]

    def again(self) -> CheckpointRunner:
        """Close the session and resume it, as another process would."""
        self.session.close()
        return CheckpointRunner(self.work.parent, self.session.session_id)
