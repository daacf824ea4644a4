"""Puts files back, one by one, each in one step: at every moment a file is whole, old or new.

Only files inside the folders of the workspace are touched, through descriptors that follow no link, and only while they
are what the plan saw.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from qcode.protocol.values import dataclass
from qcode.runtime.checkpoints.blobs import Blobs, digest_of
from qcode.runtime.checkpoints.plan import FileStep
from qcode.runtime.store.line import FileMove, FileState
from qcode.tools import disk
from qcode.tools.disk import Loaded
from qcode.tools.refusal import Refused, explain


@dataclass(frozen=True, slots=True)
class Ready:
    """A step whose present content is safe in the store; `loaded` is what may be replaced and nothing else."""

    step: FileStep
    move: FileMove
    loaded: Loaded | None
    content: bytes | None


class Restorer:
    """`folders` are those of the workspace, links followed."""

    def __init__(self, folders: Iterable[Path], blobs: Blobs) -> None:
        self._folders = tuple(folders)
        self._blobs = blobs

    def prepare(self, step: FileStep) -> Ready:
        """Keep what the file is now, so that this can be taken back; raise `Refused` where that cannot be done."""
        content = None
        if step.target is not None:
            content = self._blobs.get(step.target.digest)
            if content is None:
                raise Refused(f"{step.path}: its old content is missing from the session's folder")
        loaded = self._load(step.path)
        found = None if loaded is None else digest_of(loaded.data)
        if found != (step.current.digest if step.current is not None else None):
            raise Refused(f"{step.path} was changed just now")
        source = None
        if loaded is not None:
            if not self._blobs.put(loaded.data):
                raise Refused(f"{step.path} could not be kept first (is the disk full?), so it stays as it is")
            source = FileState(digest_of(loaded.data), len(loaded.data), loaded.mode)
        return Ready(step, FileMove(step.path, source, step.target), loaded, content)

    def perform(self, ready: Ready) -> None:
        """Put one file back; raise `Refused` where it is no longer what was kept, or the disk fails."""
        path, target = ready.step.path, ready.step.target
        base, parts = self._place(path)
        try:
            with disk.open_folder(base, parts[:-1], creates=target is not None) as folder:
                if target is None or ready.content is None:
                    if ready.loaded is not None:
                        disk.remove_file(folder, parts[-1], ready.loaded, path)
                    return
                old = None if ready.loaded is None else replace(ready.loaded, mode=target.mode)
                disk.replace_file(folder, parts[-1], ready.content, old, path)
                if old is None:
                    os.chmod(parts[-1], target.mode, dir_fd=folder)
        except OSError as error:
            raise Refused(explain(error, path)) from None

    def _load(self, path: str) -> Loaded | None:
        base, parts = self._place(path)
        try:
            with disk.open_folder(base, parts[:-1]) as folder:
                return disk.load(folder, parts[-1], path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Refused(explain(error, path)) from None

    def _place(self, path: str) -> tuple[Path, tuple[str, ...]]:
        if os.path.realpath(path) == path:
            for base in self._folders:
                if Path(path).is_relative_to(base) and Path(path) != base:
                    return base, Path(path).relative_to(base).parts
        raise Refused(f"{path} is outside the folders of this session")
