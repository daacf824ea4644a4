"""The instruction files of a session: read anew for each turn, shown, and added to by the person.

What is read, and from where, `briefing.instructions` decides. Nothing of a project is read or written before the person
trusts it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from qcode.protocol.controls import MemoryFile
from qcode.runtime.briefing.init import init_prompt
from qcode.runtime.briefing.instructions import NAMES, InstructionFile, Instructions, load_instructions

RESTRICTED = "This folder is restricted, so none of its instruction files is read. /trust trusts it."
_OPEN = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LONGEST = 4_000


class Memory:
    """The real `protocol.controls.Memory` for the project at `root` and the person's own folder `config_dir`."""

    def __init__(self, folder: Path, root: Path, config_dir: Path, is_trusted: Callable[[], bool]) -> None:
        self._folder = folder.resolve()
        self._root = root.resolve()
        self._own = config_dir / NAMES[0]
        self._is_trusted = is_trusted

    def read(self) -> Instructions:
        """Return the instructions as the files are now; the same files give the same text, for prompt caches."""
        return load_instructions(self._folder, self._root, self._own.parent, is_trusted=self._is_trusted())

    def files(self) -> tuple[MemoryFile, ...]:
        read = tuple(map(self._shown, self.read().files))
        known = {file.path for file in read}
        return (*read, *(place for place in self.places() if place.path not in known))

    def notes(self) -> tuple[str, ...]:
        return (*(() if self._is_trusted() else (RESTRICTED,)), *self.read().notices)

    def places(self) -> tuple[MemoryFile, ...]:
        read = [self._shown(file) for file in self.read().files if not file.imported_by]
        project = [file for file in read if file.whose == "project"]
        own = [file for file in read if file.whose == "yours"]
        if self._is_trusted() and not any(Path(file.path).parent == self._folder for file in project):
            new = self._folder / NAMES[0]
            if not any(os.path.lexists(self._folder / name) for name in NAMES):
                project.append(MemoryFile(str(new), str(new.relative_to(self._root)), "project", None))
        if not own and not os.path.lexists(self._own):
            own.append(MemoryFile(str(self._own), str(self._own), "yours", None))
        return (*reversed(project), *own)

    def append(self, path: str, text: str) -> str:
        place = next((one for one in self.places() if one.path == path), None)
        line = " ".join(text.split()).removeprefix("- ")
        if place is None:
            raise ValueError("there is no such instruction file to add to")
        if not line or len(line) > _LONGEST:
            raise ValueError(f"a line of 1 to {_LONGEST:,} characters can be added; /memory opens the file for more")
        try:
            if place.whose == "yours":
                Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _append(Path(path), line)
        except OSError as error:
            raise ValueError(f"{place.shown} cannot be written: {error.strerror}") from None
        return f"Added to {place.shown}. It holds from the next turn on."

    def init_prompt(self, wish: str) -> str:
        if not self._is_trusted():
            raise ValueError("This folder is restricted: /trust it first, or what is written is never read.")
        existing = next((name for name in NAMES if os.path.lexists(self._folder / name)), "")
        return init_prompt(existing, wish)

    def _shown(self, file: InstructionFile) -> MemoryFile:
        is_own = file.path.is_relative_to(self._own.resolve().parent)
        return MemoryFile(
            str(file.path), file.shown, "yours" if is_own else "project", file.size, file.used, file.imported_by
        )


def _append(path: Path, line: str) -> None:
    """Add a list item at the end of a text file, in its own line endings; raise `OSError` or `ValueError`."""
    handle = os.open(path, _OPEN, 0o644)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is no regular file")
        data = file.read() or b""
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
            raise ValueError(f"{path} is not UTF-8 text; /memory opens it in your editor")
        end = b"\r\n" if b"\r\n" in data else b"\n"
        lead = b"" if not data or data.endswith(b"\n") else end
        last = data.rstrip().rpartition(b"\n")[2].lstrip()
        gap = b"" if not last or last.startswith((b"- ", b"* ")) else end
        file.write(lead + gap + b"- " + line.encode("utf-8", "replace") + end)
