"""The instruction files of a session: read anew for each turn, shown, added to, and asked for by `/init`.

Which files are read is decided by `instructions`. Nothing of a project is read or written before the user trusts it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from qcode.agent.context.instructions import NAMES, InstructionFile, Instructions, load_instructions
from qcode.values import dataclass


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """An instruction file. `used` of its `size` bytes are in the prompt; a file that is not there has size None.

    `whose`: the person's own, or the project's. `shown` is its path as a person knows it.
    """

    path: str
    shown: str
    whose: Literal["yours", "project"]
    size: int | None
    used: int = 0
    imported_by: str = ""


RESTRICTED = "This folder is restricted, so none of its instruction files is read. /trust trusts it."
_OPEN = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAX_LINE = 4_000


class Memory:
    """The instruction files for the project at `root` and the user's own folder `config_dir`.

    `may_read` says whether the rules of the session let the model read a file of the project without asking.
    """

    def __init__(
        self,
        folder: Path,
        root: Path,
        config_dir: Path,
        is_trusted: Callable[[], bool],
        may_read: Callable[[Path], bool] = lambda path: True,
    ) -> None:
        self._folder = folder.resolve()
        self._root = root.resolve()
        self._own = config_dir / NAMES[0]
        self._is_trusted = is_trusted
        self._may_read = may_read

    def read(self) -> Instructions:
        """Return the instructions as the files are now; the same files give the same text, for prompt caches."""
        return load_instructions(
            self._folder, self._root, self._own.parent, is_trusted=self._is_trusted(), may_read=self._may_read
        )

    def files(self) -> tuple[MemoryFile, ...]:
        """Return the files in force, in the order the model gets them, then those that could be made."""
        read = tuple(map(self._shown, self.read().files))
        known = {file.path for file in read}
        return (*read, *(place for place in self.places() if place.path not in known))

    def notes(self) -> tuple[str, ...]:
        """Return lines about what was left out, and why."""
        return (*(() if self._is_trusted() else (RESTRICTED,)), *self.read().notices)

    def places(self) -> tuple[MemoryFile, ...]:
        """Return the files that a line can be added to: the project's in a trusted folder, then the person's own."""
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
        """Add a line to the file of one of `places`; return what was done, raise `ValueError` where it cannot be."""
        place = next((one for one in self.places() if one.path == path), None)
        line = " ".join(text.split()).removeprefix("- ")
        if place is None:
            raise ValueError("there is no such instruction file to add to")
        if not line or len(line) > _MAX_LINE:
            raise ValueError(f"a line of 1 to {_MAX_LINE:,} characters can be added; /memory opens the file for more")
        try:
            if place.whose == "yours":
                Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _append(Path(path), line)
        except OSError as error:
            raise ValueError(f"{place.shown} cannot be written: {error.strerror}") from None
        return f"Added to {place.shown}. It holds from the next turn on."

    def init_prompt(self, wish: str) -> str:
        """Return the prompt that asks for an instruction file, or a better one; raise `ValueError` if restricted."""
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


_NEW = "Look around this folder and write an AGENTS.md for it."
_BETTER = "Look around this folder and improve its {name}."

_WHAT = """\
{name} is read by coding assistants at the start of each session. It saves them the time to find out what you find out \
now, so it holds what cannot be seen at a glance and nothing else.

Find out first, and state only what you have seen:
- `ls` and `glob` for the layout; the files that say how the project is built, tested, checked and run (manifests, \
Makefile, CI configuration), the README and the contributing guide where there are some; two or three source files of \
the kind that matters most, with a test of them.
- instructions that are there for other assistants (`CLAUDE.md`, `GEMINI.md`, `.cursor/rules`, \
`.github/copilot-instructions.md`): take over what holds.

Then the file:
- Commands: set up, build, run, all tests, one single test, linter, formatter, type checker; exactly as they are typed.
- Layout: the parts and how they hang together, as far as it takes several files to understand.
- Habits: naming, style, errors, tests; what a newcomer gets wrong here. No general advice.
- Short: under about 100 lines of Markdown. No key, password or address of a person.
"""
_WRITE = "Write it to `AGENTS.md` in this folder with one call, then say in two lines what it holds."
_CHANGE = (
    "Improve `{name}`, which is there already: read it, keep what is right as it is worded, correct what is wrong, add "
    "what is missing, take out what says nothing. Then say in a few lines what you changed, or that nothing needs to."
)


def init_prompt(existing: str, wish: str = "") -> str:
    """Return the prompt; `existing` is the name of the file that is there, `wish` what the person added."""
    name = existing or "AGENTS.md"
    first = _BETTER.format(name=existing) if existing else _NEW
    last = _CHANGE.format(name=existing) if existing else _WRITE
    parts = [first, _WHAT.format(name=name), f"The person adds: {wish.strip()}" if wish.strip() else "", last]
    return "\n\n".join(part.strip() for part in parts if part)
