"""Is this folder trusted? A flag says so, an earlier answer says so, or the person is asked before the app opens.

Asked only where the folder brings something that a trusted run would use; else it stays restricted until `/trust`.
Nothing of the folder is obeyed or run to find out. What it brings is told by name, and where it was trusted before, as
the difference to what it brought then.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcode.agent.context.instructions import NAMES
from qcode.agent.trust import SETTINGS, Standing, TrustStore, remember, why_restricted
from qcode.cli.terminal import Left, ask, say
from qcode.text.clean import visible

_OTHERS = (
    *((name, "instructions, given to the model") for name in NAMES),
    (".mcp.json", "tool servers of the project"),
)
_ANSWERS = ("1", "2", "3", "q")
_LONGEST_COMMAND = 400
_MOST_NAMES = 20
_UNKNOWN = "qcode has not worked in this folder before:"
_UNPINNED = "You trusted this folder before qcode kept what a folder brings:"
_QUESTION = """\

{heading}

  {folder}

It brings:

{brings}

Do you trust what is in it?

  1  trust        from now on: it is used, and your rules and modes hold
  2  once         the same, only for this run
  3  restricted   it is ignored; the model may read here, and all else asks you
  q  quit

"""
_CHANGE = """\

What this folder brings is not what you trusted:

  {folder}

{changes}

Do you trust it as it is now?

  1  trust        from now on, as shown
  2  once         the same, only for this run
  3  restricted   it is ignored; the model may read here, and all else asks you
  q  quit

"""
_PROMPT = "1, 2, 3 or q [3]: "


def is_trusted(folder: Path, root: Path, state_dir: Path, *, by_flag: bool, is_attended: bool) -> bool:
    """Decide for the project at `root`; only `is_attended` asks. Raise `Left` where the person left instead."""
    if by_flag:
        return True
    standing = TrustStore(state_dir).look(root)
    if standing.is_trusted or not is_attended:
        return standing.is_trusted
    text = _text(folder, root, standing)
    if not text:
        return False
    answer = _answer(text)
    if answer == "1":
        complaint = remember(root, state_dir, standing.pieces) if not standing.problem else standing.problem
        if complaint:
            say(complaint)
    return answer in ("1", "2")


def note_for_pipes(root: Path, state_dir: Path, arguments: Sequence[str]) -> str:
    """Return what pipe mode says where a folder that was trusted is not any more: why, and the command to run again."""
    why = why_restricted(TrustStore(state_dir).look(root))
    if not why:
        return ""
    command = visible(shlex.join(("qcode", "--trust", *arguments)))
    again = command if len(command) <= _LONGEST_COMMAND else "the same with --trust"
    return f"{why}. qcode trust shows it. To trust it for one run: {again}"


def _text(folder: Path, root: Path, standing: Standing) -> str:
    """Return the question, empty where there is nothing to ask about."""
    shown = visible(str(root))
    if standing.kind == "changed":
        return _CHANGE.format(folder=shown, changes=indented(standing.differences()))
    found = list(brought(folder, root, standing))
    if not found:
        return ""
    width = max(20, *(len(name) for name, _ in found))
    brings = "\n".join(f"  {name:<{width}} {what}" for name, what in found)
    heading = _UNPINNED if standing.kind == "unpinned" else _UNKNOWN
    return _QUESTION.format(heading=heading, folder=shown, brings=brings)


def _answer(text: str) -> str:
    answer = ask(text + _PROMPT) or "3"
    while answer not in _ANSWERS:
        answer = ask(_PROMPT) or "3"
    if answer == "q":
        raise Left
    return answer


def brought(folder: Path, root: Path, standing: Standing) -> Iterator[tuple[str, str]]:
    """Yield what a trusted run would use, by name, from the root down to the folder."""
    real = folder.resolve()
    places = [place for place in (real, *real.parents) if place == root or root in place.parents]
    for place in reversed(places):
        for name, what in _OTHERS:
            is_used_here = name in NAMES or place == root
            if is_used_here and os.path.lexists(place / name):
                yield visible(str((place / name).relative_to(root))), what
    names = list(standing.pieces)
    for name in names[:_MOST_NAMES]:
        yield visible(name), "settings of the project" if name == SETTINGS else _kind_of(name)
    if len(names) > _MOST_NAMES:
        yield "...", f"and {len(names) - _MOST_NAMES:,} more files in .qcode"
    if standing.problem:
        yield ".qcode", f"{standing.problem}: trust in it cannot be kept"


def _kind_of(name: str) -> str:
    parts = name.split("/")
    return f"one of its {parts[1]}" if len(parts) > 2 else "a file for qcode"


def indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))
