"""The sandbox of a session: detected at its first use, and applied to each command that needs it.

`safety.sandbox` is imported on first use, not with the session.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from qcode.protocol.tools import Launch
from qcode.safety.paths import SandboxScope
from qcode.safety.verdict import Level, SandboxSupport

if TYPE_CHECKING:
    from qcode.safety.sandbox.confinement import Confinement, MachineView
    from qcode.safety.sandbox.detection import Sandbox
    from qcode.safety.sandbox.guard import FoundPaths, Guard
    from qcode.safety.sandbox.index import WorkspaceIndex

_MAX_VIEW_AGE_S = 10.0


class SessionSandbox:
    """The sandbox of the commands of one session. Thread-safe.

    `setting` is the setting `tools.sandbox`. `find` detects a sandbox, by default with `safety.sandbox.detection`. The
    session calls `find` once, which runs a few short processes.
    """

    def __init__(
        self,
        setting: Literal["auto", "required", "off"],
        scope: SandboxScope,
        find: Callable[[], Sandbox | None] | None = None,
    ) -> None:
        self._setting = setting
        self._scope = scope
        self._find = find
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None
        self._is_detected = setting == "off"
        self._guards: set[Guard] = set()
        self._warnings: list[str] = []
        self._view: MachineView | None = None
        self._view_until = 0.0
        self._roots = scope.roots
        self._index: WorkspaceIndex | None = None

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox of this machine; None if no sandbox works or the user disabled it."""
        with self._lock:
            if not self._is_detected:
                from qcode.safety.sandbox.detection import find_sandbox

                find = self._find or find_sandbox
                self._sandbox = find()
                self._is_detected = True
            return self._sandbox

    @property
    def index(self) -> WorkspaceIndex:
        """The index of security-relevant names in the folders of the session."""
        with self._lock:
            if self._index is None:
                from qcode.safety.sandbox.index import WorkspaceIndex

                self._index = WorkspaceIndex(self._roots)
            return self._index

    @property
    def support(self) -> SandboxSupport:
        """The abilities of the sandbox; without a sandbox there are no levels."""
        sandbox = self.sandbox
        return SandboxSupport() if sandbox is None else sandbox.support

    def levels(self) -> tuple[Level, ...]:
        """Return the levels that the sandbox supports."""
        return self.support.levels

    def launch(self, level: Level | None, argv: Sequence[str]) -> Launch:
        """Return how to start `argv` at a level; without confinement if the level is None.

        Raise `RuntimeError` if the sandbox that a verdict relied on is gone.
        """
        if level is None:
            return Launch(tuple(argv))
        from qcode.safety.sandbox.confinement import confinement_for

        sandbox = self.sandbox
        if sandbox is None or level not in sandbox.levels:
            raise RuntimeError(f"no sandbox can give the level {level!r}")
        self._restore_changes_so_far()
        contents = self.index.refresh()
        view = self._machine_view() if level == "read-only" else None
        confinement = confinement_for(level, self._scope, contents, view=view)
        launch = sandbox.launch(argv, confinement)
        if level == "read-only":
            return launch
        watch = _LaunchGuard(self, level, confinement, launch.restrict)
        return Launch(launch.argv, watch.start, launch.data, launch.data_index, watch.finish)

    def launch_reader(self, argv: Sequence[str], cache: Path) -> Launch:
        """Return how to start a program that checks the workspace and writes only to `cache`. Raise `RuntimeError`.

        The program may run for the whole session. It cannot change files, so no file is watched or restored.
        """
        from qcode.safety.sandbox.confinement import checker_confinement, program_folders, toolchain_folders

        sandbox = self.sandbox
        if sandbox is None:
            raise RuntimeError("no sandbox works here")
        if "workspace" not in sandbox.levels:
            return self.launch("read-only", argv)
        real_program = os.path.realpath(argv[0])
        folders = dict.fromkeys(str(Path(path).parent) for path in (argv[0], real_program))
        programs = (*program_folders(":".join(folders), self._scope.home_path), *toolchain_folders(self._scope))
        project, separator, _ = real_program.partition("/node_modules/")
        programs += (f"{project}/node_modules",) if separator else ()  # a program of npm needs the other packages
        confinement = checker_confinement(self._scope, self.index.refresh(), programs, str(cache))
        return sandbox.launch(argv, confinement)

    def make_readable(self, folder: Path) -> None:
        """Let commands at the level `read-only` read a folder outside the workspace."""
        with self._lock:
            if folder not in self._scope.readable:
                self._scope = replace(self._scope, readable=(*self._scope.readable, folder))

    def use_folders(self, added: tuple[Path, ...]) -> None:
        """Replace the added folders, in which commands may work as in the root."""
        with self._lock:
            self._scope = replace(self._scope, added_folders=added)
            self._roots = self._scope.roots
            self._index = None
            self._view = None

    def masked_names(self) -> frozenset[str]:
        """Return the names of the files that read as empty at the level `read-only`."""
        if not self.support.masks:
            return frozenset()
        # These names are searched in the output of commands, and `config` would match almost any output.
        secrets = (path for path in self.index.refresh().secrets if not path.endswith("/.git/config"))
        return frozenset(path.rpartition("/")[2] for path in secrets)

    def _machine_view(self) -> MachineView:
        """Return the `MachineView`, read again if it is older than `_MAX_VIEW_AGE_S`."""
        from qcode.safety.sandbox.confinement import machine_view

        now = time.monotonic()
        if self._view is None or now > self._view_until:
            self._view, self._view_until = machine_view(self._scope), now + _MAX_VIEW_AGE_S
        return self._view

    def begin_watch(self, level: Level, confinement: Confinement) -> Guard:
        """Begin to watch the files that a level protects, until `end_watch`."""
        from qcode.safety.sandbox.guard import Guard, is_harmless_git_file

        protected = partial(self._protected_paths, level)
        guard = Guard(protected, confinement.protected_paths, self._scope.scratch_path, is_harmless_git_file)
        with self._lock:
            self._guards.add(guard)
        return guard

    def end_watch(self, guard: Guard) -> tuple[str, ...]:
        """Restore the protected files that changed, and return a line for each change."""
        with self._lock:
            self._guards.discard(guard)
        lines = guard.check()
        with self._lock:
            self._warnings += lines
        return lines

    def _protected_paths(self, level: Level) -> FoundPaths:
        """Return the existing paths that a level protects."""
        from qcode.safety.sandbox.confinement import protected_outside
        from qcode.safety.sandbox.guard import FoundPaths

        contents = self.index.refresh(is_forced=True)
        if level == "workspace":
            return FoundPaths(contents.control_paths, contents.is_complete)
        return FoundPaths((*contents.git_control_paths, *protected_outside(self._scope)), contents.is_complete)

    def _restore_changes_so_far(self) -> None:
        """Restore protected files that running commands have changed so far."""
        with self._lock:
            guards = tuple(self._guards)
        for guard in guards:
            lines = guard.check()
            with self._lock:
                self._warnings += lines

    @contextmanager
    def accept_changes(self, paths: Collection[str]) -> Iterator[None]:
        """Accept changes of these files, which the user approved, while commands run: they are not restored."""
        with self._lock:
            guards = tuple(self._guards)
        for guard in guards:
            guard.accept(paths)
        try:
            yield
        finally:
            for guard in guards:
                guard.renew(paths)

    def take_warnings(self) -> tuple[str, ...]:
        """Return one line for each file restored since the last call."""
        with self._lock:
            warnings, self._warnings = tuple(self._warnings), []
        return warnings


class _LaunchGuard:
    """The guard of one launch. It begins to watch when the program starts, so that an unused launch costs nothing."""

    def __init__(
        self, session: SessionSandbox, level: Level, confinement: Confinement, restrict: Callable[[], None] | None
    ) -> None:
        self._session = session
        self._level = level
        self._confinement = confinement
        self._restrict = restrict
        self._guard: Guard | None = None

    def start(self) -> None:
        self._guard = self._session.begin_watch(self._level, self._confinement)
        if self._restrict is not None:
            self._restrict()

    def finish(self) -> tuple[str, ...]:
        return () if self._guard is None else self._session.end_watch(self._guard)
