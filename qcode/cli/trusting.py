"""Is this folder trusted? A flag says so, an earlier answer says so, or the person is asked before the app opens.

Asked only where the folder brings something that a trusted run would use; else it stays restricted until `/trust`.
Nothing of the folder is read or run to find out: what it brings is told by name only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from qcode.cli.asking import ask
from qcode.cli.output import one_line, say
from qcode.runtime.briefing.instructions import NAMES
from qcode.runtime.trust import TrustStore

_BRINGS = (
    *((name, "instructions, given to the model") for name in NAMES),
    (".qcode/config.toml", "settings of the project"),
    (".mcp.json", "tool servers of the project"),
)
_ANSWERS = ("1", "2", "3")
_QUESTION = """\

qcode has not worked in this folder before:

  {folder}

It brings:

{brings}

Do you trust what is in it?

  1  trust        from now on: the above is used, your rules and modes hold, git may be asked for its state
  2  once         the same, only for this run
  3  restricted   the above is ignored, the model may read here, and everything else asks you first

"""
_PROMPT = "1, 2 or 3 [3]: "


def is_trusted(folder: Path, root: Path, state_dir: Path, *, by_flag: bool, is_attended: bool) -> bool:
    """Decide for the project at `root`; only `is_attended` asks. Raise `Left` where the person ended the input."""
    store = TrustStore(state_dir)
    if by_flag or store.is_trusted(root):
        return True
    found = list(_brought(folder, root)) if is_attended else []
    if not found:
        return False
    answer = _answer(root, found)
    if answer == "1":
        complaint = remember(root, state_dir)
        if complaint:
            say(complaint)
    return answer in ("1", "2")


def remember(root: Path, state_dir: Path) -> str:
    """Trust the project at `root` from now on; return what a person should know where that cannot be kept."""
    store = TrustStore(state_dir)
    try:
        store.remember(root)
    except OSError as error:
        return f"the answer cannot be kept and holds for this run only: {store.path}: {error.strerror}"
    return ""


def _answer(root: Path, found: list[tuple[str, str]]) -> str:
    brings = "\n".join(f"  {name:<20} {what}" for name, what in found)
    text = _QUESTION.format(folder=one_line(str(root)), brings=brings)
    answer = ask(text + _PROMPT) or "3"
    while answer not in _ANSWERS:
        answer = ask(_PROMPT) or "3"
    return answer


def _brought(folder: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Yield what a trusted run would use, by name, from the root down to the folder."""
    real = folder.resolve()
    places = [place for place in (real, *real.parents) if place == root or root in place.parents]
    for place in reversed(places):
        for name, what in _BRINGS:
            is_used_here = name in NAMES or place == root
            if is_used_here and os.path.lexists(place / name):
                yield one_line(str((place / name).relative_to(root))), what
