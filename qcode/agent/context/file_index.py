"""An index of the files of the folder, to complete `@path`: built in a thread, and searchable while it is built.

In a trusted repository git lists the files, otherwise a walk that respects `.gitignore` does. Files outside the folder
are never listed, and links are not followed.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from qcode.text.match import FileMatch, FuzzySearch, PathIndex
from qcode.values import dataclass

_GIT_TIMEOUT_S = 20.0
_MIN_FRESH_S = 2.0
"""The shortest time for which a listing is fresh, that is, not repeated."""
_FRESH_FACTOR = 10.0
"""A listing stays fresh this many times as long as it took."""
_FIRST_UPDATE_SIZE = 500
"""The number of files after which an unfinished listing can be searched for the first time."""
_UPDATE_FACTOR = 4
"""The factor by which the number of files grows between two updates, because each update sorts all files."""
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FileMatches:
    """The matches of a search."""

    matches: tuple[FileMatch, ...] = ()
    is_complete: bool = True
    """False while the folder is still being listed."""


class FileIndex:
    """The index of a folder. `root` is its project; `is_trusted` is called before each listing.

    `find` never blocks, and must be called from one thread. The listing runs in another thread.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        env: Mapping[str, str],
        is_trusted: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._root = root
        self._env = dict(env)
        self._is_trusted = is_trusted
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._search = FuzzySearch(PathIndex.of(()))
        self._is_listed = False
        self._listed_at = 0.0
        self._listing_s = 0.0
        self._is_closed = threading.Event()

    def find(self, query: str, recent: Sequence[str] = (), limit: int = 50) -> FileMatches:
        """Return the best matches among the files listed so far; `recent` paths, absolute or relative, come first."""
        recent_paths = tuple(map(self._relative, recent))
        return FileMatches(self._search.find(query, recent_paths, limit), is_complete=self._is_listed)

    def refresh(self, on_change: Callable[[], None]) -> None:
        """List the folder again unless the index is fresh; `on_change` is called in a thread after each update."""
        with self._lock:
            fresh_s = max(_MIN_FRESH_S, _FRESH_FACTOR * self._listing_s)
            is_fresh = self._is_listed and self._clock() - self._listed_at < fresh_s
            if self._is_closed.is_set() or self._thread is not None or is_fresh:
                return
            self._thread = threading.Thread(target=self._list, args=(on_change,), name="file-index", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listing; the files listed so far can still be searched."""
        self._is_closed.set()

    def _list(self, on_change: Callable[[], None]) -> None:
        start = self._clock()
        names: list[str] = []
        size = _FIRST_UPDATE_SIZE
        try:
            for name in self._names():
                names.append(name)
                if len(names) >= size and not self._is_listed:
                    self._search = FuzzySearch(PathIndex.of(names))
                    size *= _UPDATE_FACTOR
                    on_change()
                if self._is_closed.is_set():
                    return
            self._search = FuzzySearch(PathIndex.of(names))
        finally:
            with self._lock:
                self._is_listed = True
                self._listed_at = self._clock()
                self._listing_s = self._listed_at - start
                self._thread = None
        on_change()

    def _names(self) -> Iterator[str]:
        """Yield the names that fit in a prompt: no line breaks, control characters or undecodable bytes."""
        return (name for name in self._raw_names() if _UNWRITABLE.search(name) is None)

    def _raw_names(self) -> Iterable[str]:
        if self._is_trusted():
            from qcode.agent.context.environment import list_files

            listed = list_files(self._root, self._folder, self._env, _GIT_TIMEOUT_S)
            if listed:
                return listed
        return self._walk()

    def _walk(self) -> Iterator[str]:
        from qcode.tools.files.walk import WalkTooLarge, files

        folder = self._folder.resolve()
        root = self._root.resolve()
        try:
            for entry in files(root if folder.is_relative_to(root) else folder, folder, self._is_closed.is_set):
                yield entry.relative
        except (WalkTooLarge, OSError):
            return

    def _relative(self, path: str) -> str:
        """Return a path relative to the folder; a path outside is returned unchanged and matches nothing."""
        if not path.startswith("/"):
            return path.removeprefix("./")
        try:
            return os.fspath(Path(path).relative_to(self._folder))
        except ValueError:
            return path
